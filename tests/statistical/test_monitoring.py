"""Bounds of a running trial, looked at all the time; `python -m experiments monitor` is longer."""

import numpy as np
import pytest

from auucmax import certify
from auucmax.bounds.anytime import AnytimeBets
from auucmax.trial.monitoring import RATIO_LEVEL, ratio_path

pytestmark = pytest.mark.gate
DELTA = 0.05


def allowed(delta, trials):
    return delta + 3 * np.sqrt(delta * (1 - delta) / trials)


def rows_of(seed, n, share=0.5, rate=0.2, effect=0.0):
    rng = np.random.default_rng(seed)
    scores, treated = rng.random((2, n)), rng.random(n) < share
    y = (rng.random(n) < rate + effect * treated * scores[0]).astype(float)
    return y, scores, treated


@pytest.mark.parametrize(
    ("share", "rate", "effect"),
    [(0.5, 0.2, 0.0), (0.1, 0.02, 0.0), (0.5, 0.1, 0.3), (0.9, 0.6, 0.2)],
)
def test_bounds_are_ever_wrong_as_rarely_as_promised(share, rate, effect):
    """Gain effect/12, average effect/2, difference effect/12, at every closed superblock."""
    level, trials, wrong = DELTA / 6, 400, 0
    truth = np.array([effect / 12, effect / 2, effect / 12])[:, None] * np.array([1.0, -1.0])
    for seed in range(trials):
        path = AnytimeBets(2).add(*rows_of(seed, 6_000, share, rate, effect), level)
        wealth = path.log_wealth(np.broadcast_to(truth, path.credit.shape[:-1]))
        wrong += bool((wealth >= -np.log(level)).any())
    assert wrong / trials <= allowed(DELTA, trials)


def test_wealth_at_the_truth_has_mean_one():
    """From rows to wealth, after every superblock: within 4 standard errors, and not far below."""
    trials = 1500
    found = np.array(
        [
            np.exp(path.log_wealth(np.zeros(path.credit.shape[:-1]))[[0, 2]])
            for path in (AnytimeBets(2).add(*rows_of(s, 1100), DELTA) for s in range(trials))
        ]
    )
    mean, error = found.mean(axis=0), found.std(axis=0) / np.sqrt(trials)
    assert (mean <= 1 + 4 * error).all()
    assert (mean[0] >= 1 - 4 * error[0] - 0.02).all()


def test_shares_of_arms_give_alarm_as_rarely_as_promised():
    trials = 2000
    alarms = sum(
        ratio_path(np.random.default_rng(seed).random(5000) < 0.3, (0, 0), 0.3).max()
        >= -np.log(RATIO_LEVEL)
        for seed in range(trials)
    )
    assert alarms / trials <= allowed(RATIO_LEVEL, trials)


@pytest.mark.parametrize("method", ["betting", "betting-fixed"])
def test_upper_bounds_of_certificates_miss_as_rarely_as_promised(method):
    """AUUC effect/3, gain effect/12: an upper bound below them is wrong."""
    trials, misses = 300, np.zeros(2)
    for seed in range(trials):
        y, scores, treated = rows_of(seed, 400, effect=0.3)
        found = certify(
            scores[0], y=y, treatment=treated, method=method, upper=True, n_dealings=1,
            random_state=seed,
        )  # fmt: skip
        misses += [found.upper_bound < 0.1, found.gain_upper_bound < 0.025]
    assert (misses / trials <= allowed(DELTA, trials)).all()
