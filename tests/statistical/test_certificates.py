"""Certificates on six populations of known AUUC: at most delta, plus chance, of them are too high.

`python -m experiments coverage` is the longer version, with more rows and 20 dealings.
"""

from functools import cache

import numpy as np
import pytest
from experiments import progressive
from experiments.known_populations import POPULATIONS
from experiments.rival_bounds.held_out import HELD_OUT_BOUNDS

from auucmax.certificates import betting_bound, histogram_betting_bounds
from auucmax.metrics import BinnedLevels

pytestmark = pytest.mark.gate
N_TRIALS, N_ROWS, DELTA = 1200, 120, 0.05
TARGETS = ("auuc", "gain")
CONDITIONAL = ("mcdiarmid-conditional", "agarwal-fixed")
OTHERS = {entry.name: entry.function for entry in HELD_OUT_BOUNDS}


def allowed(delta, trials):
    return delta + 3 * np.sqrt(delta * (1 - delta) / trials)


@cache
def trials(name):
    """Number, rows and truth of 1,200 trials; a fitted score is fitted twice."""
    population, found = POPULATIONS[name], []
    rng = np.random.default_rng(list(POPULATIONS).index(name))
    for number in range(N_TRIALS):
        if number % (N_TRIALS // 2) == 0:
            weights = population.weights(1000, rng)
            truth = population.truth(weights)
        found.append((number, *population.draw(weights, N_ROWS, rng), truth))
    return found


def misses(name, bound, *, seeded=False, conditional=False, every=1, **options):
    """Share of trials, in turn for AUUC and for the gain, whose bound exceeds the truth."""
    wrong = []
    for number, y, score, treated, truth in trials(name)[::every]:
        target = TARGETS[(number // every) % 2]
        seed = {"random_state": number} if seeded else {}
        found = bound(y, score, treatment=treated, target=target, **seed, **options)
        value = truth.value(target)
        if conditional:
            value = truth.conditional(target, y, treated)
        wrong.append(found.lower > value)
    return np.mean(wrong)


@pytest.mark.parametrize("name", POPULATIONS)
def test_the_truth_of_the_populations(name):
    """Against a large sample: 4 standard errors of the mean of y times rank."""
    population, rng = POPULATIONS[name], np.random.default_rng(7)
    weights = population.weights(1000, rng)
    y, score, treated = population.draw(weights, 40_000, rng)
    truth = population.truth(weights)
    for target in TARGETS:
        bound = OTHERS["asymptotic"](y, score, treatment=treated, target=target)
        assert abs(bound.estimate - truth.value(target)) < 4 * bound.gap / 1.645
    # An arm's AUC among its own rows, at its own rates.
    gap = truth.conditional("auuc", y, treated) - truth.value("auuc")
    assert abs(gap) < 4 * np.hypot(*(np.std(y[treated == arm]) / np.sqrt(np.sum(treated == arm))
                                     for arm in (True, False)))  # fmt: skip


@pytest.mark.parametrize("name", POPULATIONS)
def test_betting_misses_at_most_delta(name):
    assert misses(name, betting_bound, seeded=True, n_dealings=1) <= allowed(DELTA, N_TRIALS)


@pytest.mark.parametrize("name", POPULATIONS)
def test_betting_with_dealings_and_with_fixed_bets_misses_at_most_delta(name):
    for options in ({"n_dealings": 3}, {"n_dealings": 1, "bets": "fixed"}):
        share = misses(name, betting_bound, seeded=True, every=40, **options)
        assert share <= allowed(DELTA, N_TRIALS / 40)


@pytest.mark.parametrize("name", POPULATIONS)
@pytest.mark.parametrize("bound", [bound for bound in OTHERS if bound != "asymptotic"])
def test_other_proven_bounds_miss_at_most_delta(bound, name):
    share = misses(name, OTHERS[bound], conditional=bound in CONDITIONAL)
    assert share <= allowed(DELTA, N_TRIALS)


@pytest.mark.parametrize("name", POPULATIONS)
def test_counts_in_bins_of_the_very_scores_miss_at_most_delta(name):
    """Edges are quantiles of the certified scores; what is bounded is the exact ranking."""
    wrong = []
    for number, y, score, treated, truth in trials(name)[::8]:
        edges = np.unique(np.quantile(score, np.arange(1, 12) / 12))
        histogram = BinnedLevels.of(y, score, treated, edges)
        options = {"n_dealings": 2, "random_state": number}
        *bounds, _ = histogram_betting_bounds(histogram, delta=DELTA, **options)
        pairs = zip(bounds, TARGETS, strict=True)
        wrong.append([bound.lower > truth.value(target) for bound, target in pairs])
    assert (np.mean(wrong, axis=0) <= allowed(DELTA, len(wrong))).all()


@pytest.mark.parametrize("n_rows", [600, 3000])
@pytest.mark.parametrize("name", progressive.POPULATIONS)
def test_progressive_certificates_miss_at_most_delta(name, n_rows):
    population, n_trials = progressive.POPULATIONS[name], 100
    rng = np.random.default_rng(n_rows)
    found = [
        progressive.simulated_trial(population, n_rows, rng, n_dealings=1) for _ in range(n_trials)
    ]
    bounds, truths = np.array(found).transpose(1, 0, 2)
    assert (np.mean(bounds > truths, axis=0) <= allowed(DELTA, n_trials)).all()
    assert (truths.mean(axis=0) - bounds.mean(axis=0) < 0.25).all()  # it says something


def test_the_simulation_can_tell():
    """A bound that is too bold, here by asking for delta = 1/2, would be found out."""
    share = misses("no effect", betting_bound, seeded=True, every=5, n_dealings=1, delta=0.5)
    assert allowed(DELTA, N_TRIALS / 5) < share <= allowed(0.5, N_TRIALS / 5)
