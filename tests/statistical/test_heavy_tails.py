"""Money of heavy tails and no effect: neither harm nor a gain is told more often than said.

A small arm, or few rows of a large weight, seldom hold one of the largest outcomes: then their mean
and their variance are too low together.
"""

import numpy as np
import pytest

from auucmax.metrics import Levels

pytestmark = pytest.mark.gate
N_TRIALS = 400
#: Of one side, of 2.5%: 4% and three standard errors of so many trials are allowed.
MOST = 0.04 + 3 * np.sqrt(0.04 * 0.96 / N_TRIALS)


def money(rng, n, buyers, sigma):
    return rng.lognormal(0, sigma, n) * (rng.random(n) < buyers)


def sides(levels):
    """Whether the effect, AUUC and the gain are told to be above, and to be below zero."""
    found, band = levels.inference(), levels.band([1.0])
    ends = np.array([(band.lower[-1], band.upper[-1]), found.interval, found.gain_interval])
    assert np.isfinite(ends).all()  # told, so that rates are of all trials
    return np.stack([ends[:, 0] > 0, ends[:, 1] < 0])


@pytest.mark.parametrize(
    ("control", "treated", "buyers", "sigma"),
    [(4_000, 1_000, 0.1, 1.5), (1_000, 4_000, 0.1, 2.0), (4_000, 250, 1.0, 2.0)],
)
def test_small_arms_of_money_tell_of_no_harm(control, treated, buyers, sigma):
    rng, told = np.random.default_rng([treated, int(10 * sigma)]), np.zeros((2, 3))
    t = np.arange(control + treated) >= control
    for _ in range(N_TRIALS):
        y, score = money(rng, len(t), buyers, sigma), rng.random(len(t))
        told += sides(Levels.of(y, score, treatment=t))
    assert (told / N_TRIALS < MOST).all(), told / N_TRIALS


@pytest.mark.parametrize(("n", "buyers"), [(5_000, 1.0), (10_000, 0.1)])
def test_known_chances_that_follow_the_score_tell_of_no_gain(n, buyers):
    rng, told = np.random.default_rng(n), np.zeros((2, 3))
    for _ in range(N_TRIALS):
        score = rng.random(n)
        chance = np.where(score > 0.5, 0.9, 0.1)
        t = rng.random(n) < chance
        levels = Levels.of(money(rng, n, buyers, 1.5), score, treatment=t, propensity=chance)
        told += sides(levels)
    assert (told / N_TRIALS < MOST).all(), told / N_TRIALS
