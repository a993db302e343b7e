"""Bounds with a proof miss at most as often as they say; the normal limit does not always."""

import numpy as np
import pytest
from experiments.rival_bounds.held_out import HELD_OUT_BOUNDS

pytestmark = pytest.mark.gate
N_TRIALS, N_ROWS = 1000, 600
TARGETS = ("auuc", "gain")
CONDITIONAL = ("mcdiarmid-conditional", "agarwal-fixed")
UNBIASED = ("mcdiarmid", "block-bernstein")
PROVEN = [entry for entry in HELD_OUT_BOUNDS if entry.name != "asymptotic"]


def allowed(delta):
    return delta + 3 * np.sqrt(delta * (1 - delta) / N_TRIALS)


class Population:
    """P(y = 1) = a + b score in each arm; score uniform on [0, 1], or on a few levels."""

    def __init__(self, share, treated, control, levels=None):
        self.share, self.lines, self.levels = share, (control, treated), levels
        self.grid = None if levels is None else (np.arange(levels) + 0.5) / levels
        second = 1 / 3 if levels is None else np.mean(self.grid**2)
        # G(score) = score, also at the middle of a level.
        self.rates = np.array([a + b / 2 for a, b in self.lines])
        self.areas = np.array([a / 2 + b * second for a, b in self.lines])

    def truth(self, target):
        value = self.areas[1] - self.areas[0]
        return value - (self.rates[1] - self.rates[0]) / 2 if target == "gain" else value

    def conditional_truth(self, target, y, treated):
        """With the AUC of the population and the rates of the rows."""
        auc = (self.areas - self.rates**2 / 2) / (self.rates * (1 - self.rates))
        p = np.array([y[~treated].mean(), y[treated].mean()])
        areas = p * (1 - p) * auc + p**2 / 2 - (p / 2 if target == "gain" else 0)
        return areas[1] - areas[0]

    def draw(self, rng):
        n_treated = round(self.share * N_ROWS)
        treated = rng.permutation(N_ROWS) < n_treated
        score = rng.random(N_ROWS) if self.levels is None else rng.choice(self.grid, N_ROWS)
        lines = np.array(self.lines)[treated.astype(int)]
        y = rng.random(N_ROWS) < lines[:, 0] + lines[:, 1] * score
        return y.astype(float), score, treated


POPULATIONS = {
    "continuous": Population(0.5, treated=(0.1, 0.3), control=(0.15, 0.0)),
    "tied, 85% treated": Population(0.85, treated=(0.2, 0.4), control=(0.3, 0.0), levels=5),
    "rare": Population(0.85, treated=(0.0, 0.04), control=(0.01, 0.0)),
    "coin": Population(0.5, treated=(0.5, 0.0), control=(0.5, 0.0)),
}


def simulate(entry, population, target, delta, seed):
    """Share of misses, estimates, and truths."""
    rng = np.random.default_rng(seed)
    results = np.empty((N_TRIALS, 3))
    for k in range(N_TRIALS):
        y, score, treated = population.draw(rng)
        truth = population.truth(target)
        if entry.name in CONDITIONAL:
            truth = population.conditional_truth(target, y, treated)
        bound = entry.function(y, score, treatment=treated, target=target, delta=delta)
        results[k] = bound.lower, bound.estimate, truth
    return results.T


@pytest.mark.parametrize(
    ("population", "target"),  # other populations with both: test_certificates.py
    [("continuous", "auuc"), ("tied, 85% treated", "gain"), ("rare", "auuc"), ("coin", "gain")],
)
@pytest.mark.parametrize("entry", PROVEN, ids=lambda entry: entry.name)
def test_misses(entry, population, target):
    # At delta = 1/2 McDiarmid's bounds miss now and then; the others are too wide to miss.
    for delta in (0.05, 0.5) if entry.name.startswith("mcdiarmid") else (0.05,):
        lower, estimate, truth = simulate(entry, POPULATIONS[population], target, delta, 1)
        assert np.mean(lower > truth) <= allowed(delta)
    if entry.name in (*UNBIASED, *CONDITIONAL):
        error = estimate - truth
        assert abs(error.mean()) <= 4 * error.std() / np.sqrt(N_TRIALS)


@pytest.mark.parametrize("target", TARGETS)
def test_limits_without_a_guarantee_hold_about_as_often_as_they_say(target):
    """Of rare outcomes they are score limits, or none."""
    (entry,) = (entry for entry in HELD_OUT_BOUNDS if entry.name == "asymptotic")
    for name in ("continuous", "rare"):
        lower, _, truth = simulate(entry, POPULATIONS[name], target, 0.05, 2)
        assert np.mean(lower > truth) <= allowed(0.05)
