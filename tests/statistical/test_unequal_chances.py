"""Trials whose chances of treatment are known and differ: estimates, intervals, certificates.

Two strata, top and rest: those on top respond anyway and were mostly treated. So the raw numbers
are wrong by many standard errors; those by the chances are right.
"""

import numpy as np
import pytest

from auucmax.certificates import certify, progressive_certificate
from auucmax.metrics import Levels

pytestmark = pytest.mark.gate
N_ROWS, EFFECT = 2_000, 0.2
#: E[tau(x) x] and E[tau(x) (x - 1/2)] of tau(x) = EFFECT x, x uniform.
ATE, AUUC, GAIN = EFFECT / 2, EFFECT / 3, EFFECT / 12


def draw(rng, chances, *, fixed=False, n=N_ROWS):
    """Rows; ``fixed``: the number treated of each stratum is fixed, as in blocked designs."""
    x = rng.random(n)
    top = rng.random(n) < 0.2 + 0.4 * x
    chance = np.where(top, *chances)
    treated = rng.random(n) < chance
    if fixed:
        for stratum, p in zip((top, ~top), chances, strict=True):
            places = rng.permutation(np.flatnonzero(stratum))
            treated[places] = np.arange(len(places)) < round(p * len(places))
            chance[places] = treated[places].mean()
    y = rng.random(n) < np.where(top, 0.6, 0.1) + EFFECT * x * treated
    return y.astype(float), x, treated, chance


@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize("chances", [(0.9, 0.1), (0.7, 0.4)])
def test_estimates_are_unbiased_and_intervals_hold(chances, fixed):
    """1,000 trials: means within 3.5 standard errors of the truth, intervals miss 3% to 7%.

    Where numbers treated were fixed, estimates vary less than intervals take them to.
    """
    rng = np.random.default_rng([int(100 * chances[0]), fixed])
    found, missed, naive = [], np.zeros(3), []
    for _ in range(1_000):
        y, x, treated, chance = draw(rng, chances, fixed=fixed)
        levels = Levels.of(y, x, treatment=treated, propensity=chance)
        result = levels.inference()
        band = levels.band([1.0])
        found.append((band.uplift[-1], result.estimate, result.gain))
        limits = (band.lower[-1], band.upper[-1]), result.interval, result.gain_interval
        truths = zip(limits, (ATE, AUUC, GAIN), strict=True)
        missed += [not low <= true <= high for (low, high), true in truths]
        raw = Levels.of(y, x, treatment=treated).inference()
        naive.append((raw.estimate - AUUC) / raw.standard_error)
    mean, error = np.mean(found, axis=0), np.std(found, axis=0) / np.sqrt(len(found))
    assert (np.abs(mean - (ATE, AUUC, GAIN)) < 3.5 * error).all(), (mean, error)
    assert np.mean(naive) > 4  # standard errors of a single trial
    rates = missed / 1_000
    assert rates.max() < 0.05 + 3 * 0.007, rates
    assert fixed or rates.min() > 0.05 - 3 * 0.007, rates


@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize("chances", [(0.9, 0.1), (0.6, 0.3)])
def test_certificates_hold(chances, fixed):
    """150 trials each, delta = .2: at most 20% of the bounds are above the truth, and 3 errors."""
    rng = np.random.default_rng([int(100 * chances[0]), fixed, 1])
    missed = np.zeros(4)
    for _ in range(150):
        y, x, treated, chance = draw(rng, chances, fixed=fixed)
        one = certify(x, y=y, treatment=treated, propensity=chance, delta=0.2, n_dealings=4)
        parts = np.array_split(np.arange(N_ROWS), 4)
        chunks = [(y[own], x[own] if k else None, treated[own]) for k, own in enumerate(parts)]
        many = progressive_certificate(
            chunks, propensity=[chance[own] for own in parts], delta=0.2, n_dealings=4
        )
        bounds = one.lower_bound, one.gain_lower_bound, many.lower_bound, many.gain_lower_bound
        missed += np.array(bounds) > (AUUC, GAIN, AUUC, GAIN)
    assert (missed / 150 < 0.2 + 3 * np.sqrt(0.16 / 150)).all(), missed / 150


def test_the_wealth_at_the_truth_has_mean_one():
    """From rows to wealth: the mean over trials of E_B at the truth is 1 within its error."""
    from auucmax.certificates.blocks import ArmMeans, BlockDesign, DealtUnits, deal, dense_ranks

    rng = np.random.default_rng(5)
    means = ArmMeans(np.array([0.3, 0.4]), np.zeros(2))
    design, wealth = BlockDesign.of(24, 0, size=4, pilot=False), []
    for trial in range(4_000):
        y, x, treated, chance = draw(rng, (0.9, 0.1), n=24)
        h = means.effects(y, treated, chance)[:, 1]
        units = DealtUnits.of(treated).as_one_arm()
        seed = np.random.SeedSequence(trial)
        w = deal(dense_ranks(x)[None], np.ones(1), h, 0.0, units, design, seed)[1]
        wealth.append(np.prod(1 + 0.15 * (w - GAIN), axis=0).mean())
    error = np.std(wealth) / np.sqrt(len(wealth))
    assert error < 0.02
    assert abs(np.mean(wealth) - 1) < 3.5 * error
