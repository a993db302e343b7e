"""Intervals and bands of allocations over two arms cover the gain of the population."""

from functools import cache

import numpy as np
import pytest

from auucmax.metrics.allocation import Allocation
from auucmax.metrics.gains import AllocationRows, Gains

pytestmark = pytest.mark.gate
COSTS, GRID = np.array([1.0, 2.0]), np.linspace(0, 1.6, 9)


def people(rng, n):
    """Features, the chances of both arms and the control, expected outcomes and noisy uplifts."""
    x = rng.random((n, 3))
    chance = np.column_stack([0.5 - 0.3 * x[:, 2], 0.25 + 0.15 * x[:, 2], 0.25 + 0.15 * x[:, 2]])
    base = 0.1 + 0.15 * x[:, 2]
    mean = np.column_stack([base, base + 0.2 * x[:, 0], base + 0.1 + 0.3 * (x[:, 1] - 0.4)])
    uplift = np.column_stack([0.2 * x[:, 0] * (0.5 + x[:, 2]), 0.3 * x[:, 1]])
    return chance, mean, uplift


@cache
def gain_of_the_population(n=400_000):
    _, mean, uplift = people(np.random.default_rng(99), n)
    allocation = Allocation.of(uplift, np.broadcast_to(COSTS, uplift.shape))
    effect = mean[:, 1:] - mean[:, :1]
    return (
        sum(np.einsum("ik,ikj->j", effect[some], part) for some, part in allocation.parts(GRID, 2))
        / n
    )


def outcomes(rng, probability, kind):
    y = (rng.random(len(probability)) < probability).astype(float)
    return y if kind == "0/1" else y * rng.lognormal(0, 0.8, len(y)) / np.exp(0.32)


def rates(kind, by_chance, with_model, n, n_trials):
    """The rates of misses at each budget, and of the band; a budget without limits is no miss."""
    truth, rng = gain_of_the_population(), np.random.default_rng(1)
    missed, known, missed_band = np.zeros(len(GRID)), np.zeros(len(GRID)), 0
    for _ in range(n_trials):
        chance, mean, uplift = people(rng, n)
        own = chance if by_chance else np.broadcast_to([0.4, 0.3, 0.3], chance.shape)
        arm = (rng.random((n, 1)) > np.cumsum(own, axis=1)).sum(axis=1)
        y = outcomes(rng, mean[np.arange(n), arm], kind)
        cost = np.broadcast_to(COSTS, uplift.shape)
        rows = AllocationRows(
            y, arm, cost, chance=chance if by_chance else None,
            model=mean + 0.05 if with_model else None,
        )  # fmt: skip
        band = Gains(rows, Allocation.of(uplift, cost), GRID).band()
        known += np.isfinite(band.lower)
        missed += (truth < band.lower) | (truth > band.upper)
        outside = (truth < band.simultaneous_lower) | (truth > band.simultaneous_upper)
        missed_band += bool(outside.any())
    return missed / np.maximum(known, 1), known / n_trials, missed_band / n_trials


@pytest.mark.parametrize(
    ("kind", "by_chance", "with_model"),
    [
        ("0/1", False, False),
        ("0/1", True, False),
        ("0/1", True, True),
        ("money", False, False),
        ("money", True, True),
    ],
)
def test_gains_of_the_population_are_covered(kind, by_chance, with_model):
    n_trials = 300
    missed, known, band = rates(kind, by_chance, with_model, 5_000, n_trials)
    usual = known > 0.95
    assert usual[-4:].all()
    # 93% to 97%, and three standard errors of the trials on top.
    error = 3 * np.sqrt(0.05 * 0.95 / n_trials)
    assert 0.03 - error <= missed[usual][1:].mean() <= 0.07 + error
    assert missed[usual].max() <= 0.07 + error
    assert 0.03 - error <= band <= 0.07 + error
