"""Intervals hold their level in simulation: known truth, thousands of trials."""

import numpy as np
import pytest
from experiments import intervals
from experiments.harness import Task

from auucmax.metrics.functions import auuc_difference, auuc_inference, uplift_band

pytestmark = pytest.mark.gate
N_TRIALS = 2000
# At a true rate of .05 the rate over 2,000 trials has standard error .005.
LOWEST, HIGHEST = 0.035, 0.065


class Population:
    """Score uniform on [0, 1] or on 5 levels; P(y=1) = .15 + effect * (score + .05) if treated."""

    def __init__(self, effect, share, tied, n=2000):
        self.effect, self.share, self.tied, self.n = effect, share, tied, n
        self.levels = (np.arange(5) + 0.5) / 5
        self.ate = effect * 0.55
        # E[tau(f) G(f)], G the mid-distribution function: equal to f at the middle of a level.
        second = np.mean(self.levels**2) if tied else 1 / 3
        self.auuc = effect * (second + 0.05 / 2)
        self.gain = self.auuc - self.ate / 2

    def curve(self, share):
        """V(q): the uplift of the top q, a part of the cut level where there are levels."""
        edges = 1 - np.linspace(0, 1, 6 if self.tied else 20001)
        middle = (edges[1:] + edges[:-1]) / 2
        knots = np.concatenate([[0], np.cumsum(self.effect * (middle + 0.05) * -np.diff(edges))])
        return np.interp(share, 1 - edges, knots)

    def draw(self, rng):
        score = rng.choice(self.levels, self.n) if self.tied else rng.random(self.n)
        treated = rng.random(self.n) < self.share
        y = rng.random(self.n) < 0.15 + treated * self.effect * (score + 0.05)
        return y.astype(float), score, treated


def outside(interval, truth):
    return not interval[0] <= truth <= interval[1]


@pytest.mark.parametrize(
    ("effect", "share", "tied", "ranking"),
    [  # half of all cases: any three of the four take all their values together
        (0.0, 0.5, False, "joint"),
        (0.0, 0.5, True, "separate"),
        (0.0, 0.85, False, "separate"),
        (0.0, 0.85, True, "joint"),
        (0.3, 0.5, False, "separate"),
        (0.3, 0.5, True, "joint"),
        (0.3, 0.85, False, "joint"),
        (0.3, 0.85, True, "separate"),
    ],
)
def test_auuc_intervals(effect, share, tied, ranking):
    population = Population(effect, share, tied)
    rng = np.random.default_rng([int(effect * 10), int(share * 100), tied])
    misses = np.zeros(3)
    for _ in range(N_TRIALS):
        y, score, t = population.draw(rng)
        result = auuc_inference(y, score, treatment=t, ranking=ranking)
        misses += [
            outside(result.interval, population.auuc),
            outside(result.gain_interval, population.gain),
            result.p_value < 0.05,
        ]
    rates = misses / N_TRIALS
    assert (rates[:2] >= LOWEST).all(), rates
    assert (rates[:2] <= HIGHEST).all(), rates
    if effect == 0:
        assert rates[2] == rates[1]
    else:
        assert rates[2] > 0.3  # the test has power


def test_auuc_intervals_with_weights_and_a_propensity_that_depends_on_the_score():
    """High scores were treated more often; some rows were sampled less and weigh more."""
    rng = np.random.default_rng(9)
    population = Population(0.3, 0.5, tied=False)
    misses = np.zeros(2)
    for _ in range(N_TRIALS):
        score = rng.random(3000)
        sampled = rng.random(3000) < 0.4 + 0.6 * score
        score = score[sampled]
        propensity = 0.3 + 0.4 * score
        t = rng.random(len(score)) < propensity
        y = rng.random(len(score)) < 0.15 + t * 0.3 * (score + 0.05)
        result = auuc_inference(
            y, score, treatment=t, propensity=propensity, sample_weight=1 / (0.4 + 0.6 * score)
        )
        misses += [
            outside(result.interval, population.auuc),
            outside(result.gain_interval, population.gain),
        ]
    assert (misses / N_TRIALS >= LOWEST).all(), misses / N_TRIALS
    assert (misses / N_TRIALS <= HIGHEST).all(), misses / N_TRIALS


@pytest.mark.parametrize("n_treated", [5, 8])
def test_few_treated_clusters_do_not_miss_too_often(n_treated):
    """Shops of 20 customers with a mood of their own, few of them treated, no effect."""
    rng = np.random.default_rng(10)
    n_shops, size, misses = n_treated + 100, 20, 0
    shop = np.repeat(np.arange(n_shops), size)
    for _ in range(N_TRIALS):
        rate = rng.beta(3, 12, n_shops)
        y = (rng.random(len(shop)) < rate[shop]).astype(float)
        result = auuc_inference(y, rng.random(len(shop)), treatment=shop < n_treated, groups=shop)
        misses += outside(result.interval, 0)
    assert misses / N_TRIALS <= HIGHEST


@pytest.mark.parametrize("share", [0.5, 0.85])
def test_difference_intervals(share):
    """Two noisy versions of one score: the difference of their AUUC is truly zero."""
    population = Population(0.3, share, tied=False, n=1000)
    rng = np.random.default_rng(5)
    misses = 0
    for _ in range(N_TRIALS):
        y, score, t = population.draw(rng)
        a, b = (score + 0.3 * rng.normal(size=len(y)) for _ in range(2))
        misses += outside(auuc_difference(y, a, b, treatment=t).interval, 0)
    assert LOWEST <= misses / N_TRIALS <= HIGHEST


def test_intervals_of_households_treated_together():
    """Rows of a household share score, arm and mood; row-wise intervals would be too narrow."""
    rng = np.random.default_rng(6)
    n_households, size, effect = 1000, 3, 0.3
    population = Population(effect, 0.5, tied=False, n=n_households)
    misses, naive = 0, 0
    for _ in range(N_TRIALS):
        score, treated = rng.random(n_households), rng.random(n_households) < 0.5
        probability = 0.15 + treated * effect * (score + 0.05)
        mood = rng.random(n_households)
        same = rng.random((n_households, size)) < 0.5
        luck = np.where(same, mood[:, None], rng.random((n_households, size)))
        y = (luck < probability[:, None]).ravel().astype(float)
        rows = np.repeat(np.arange(n_households), size)
        given = {"treatment": treated[rows]}
        clustered = auuc_inference(y, score[rows], groups=rows, **given)
        misses += outside(clustered.interval, population.auuc)
        naive += outside(auuc_inference(y, score[rows], **given).interval, population.auuc)
    assert LOWEST <= misses / N_TRIALS <= HIGHEST
    assert naive / N_TRIALS > HIGHEST


@pytest.mark.parametrize(
    ("effect", "tied", "ranking"),
    [
        (0.0, True, "joint"),
        (0.6, False, "separate"),
    ],
)
def test_bands(effect, tied, ranking):
    """Pointwise at each of five shares; simultaneous over the default grid."""
    population = Population(effect, 0.7, tied, n=3000)
    rng = np.random.default_rng([8, int(effect * 10), tied])
    grid = np.linspace(0.05, 1, 39)
    truth, some = population.curve(grid), [2, 10, 18, 30, 38]
    pointwise, simultaneous = np.zeros(5), 0
    for _ in range(N_TRIALS):
        y, score, t = population.draw(rng)
        band = uplift_band(y, score, treatment=t, ranking=ranking)
        missed = (truth < band.lower) | (truth > band.upper)
        pointwise += missed[some]
        simultaneous += (
            (truth < band.simultaneous_lower) | (truth > band.simultaneous_upper)
        ).any()
    # Wider limits than for AUUC: some ten rates are looked at, four standard errors each (three
    # for their mean). Single scenarios have come out at .0325 and .0665, so 3.5% to 6.5% is not
    # claimed for bands.
    rates = np.append(pointwise, simultaneous) / N_TRIALS
    assert (rates >= 0.03).all(), rates
    assert (rates <= 0.07).all(), rates
    assert LOWEST <= rates[:5].mean() <= HIGHEST


@pytest.mark.parametrize("outcome", ["1% respond", "5% respond", "50% respond", "90% respond"])
def test_gains_differences_and_bands_at_every_base_rate(outcome):
    """Centred outcomes: what is rare and what is common have intervals that hold their level."""
    found = intervals.run_chunk(Task("intervals", outcome, "5,000 rows, 50% treated", 0), 600)
    for what in ("gain", "difference", "band"):
        rate, declined = (found[kind][what] / 600 for kind in ("missed", "declined"))
        # 93% to 97%, and three standard errors of 600 trials on top.
        assert rate < 0.07 + 3 * np.sqrt(0.07 * 0.93 / 600), (what, rate)
        assert declined > 0.1 or rate > 0.03 - 3 * np.sqrt(0.03 * 0.97 / 600), (what, rate)
