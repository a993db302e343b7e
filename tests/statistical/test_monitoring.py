"""Bounds of a running trial, looked at all the time; `python -m experiments monitor` is longer."""

import numpy as np
import pandas as pd
import pytest

from auucmax import certify
from auucmax.campaign import Monitor
from auucmax.campaign.monitor import ratio_path, tilt_path
from auucmax.certificates.anytime import AnytimeBets, Wealth

pytestmark = pytest.mark.gate
DELTA = 0.05
RATIO_LEVEL = 0.01


def allowed(delta, trials):
    return delta + 3 * np.sqrt(delta * (1 - delta) / trials)


def rows_of(seed, n, share=0.5, rate=0.2, effect=0.0):
    rng = np.random.default_rng(seed)
    score, treated = rng.random(n), rng.random(n) < share
    y = (rng.random(n) < rate + effect * treated * score).astype(float)
    return y, score, treated


@pytest.mark.parametrize(
    ("share", "rate", "effect"),
    [(0.5, 0.2, 0.0), (0.1, 0.02, 0.0), (0.5, 0.1, 0.3), (0.9, 0.6, 0.2)],
)
def test_bounds_are_ever_wrong_as_rarely_as_promised(share, rate, effect):
    """Gain effect/12, average effect/2, at every closed superblock."""
    level, trials, wrong = DELTA / 4, 400, 0
    truth = np.array([effect / 12, effect / 2])[:, None] * np.array([1.0, -1.0])
    for seed in range(trials):
        path = AnytimeBets.fresh().add(*rows_of(seed, 6_000, share, rate, effect), level)
        wealth = path.log_wealth(np.broadcast_to(truth, path.credit.shape[:-1]))
        wrong += bool((wealth >= -np.log(level)).any())
    assert wrong / trials <= allowed(DELTA, trials)


def test_wealth_at_the_truth_has_mean_one():
    """From rows to wealth, after every superblock: within 4 standard errors, and not far below."""
    trials = 1500
    found = np.array(
        [
            np.exp(path.log_wealth(np.zeros(path.credit.shape[:-1]))[[0, 2]])
            for path in (AnytimeBets.fresh().add(*rows_of(s, 1100), DELTA) for s in range(trials))
        ]
    )
    mean, error = found.mean(axis=0), found.std(axis=0) / np.sqrt(trials)
    assert (mean <= 1 + 4 * error).all()
    assert (mean[0] >= 1 - 4 * error[0] - 0.02).all()


def ever_wrong(paths, truths, level):
    """Whether any bound was wrong after any superblock; truths (superblocks, targets)."""
    credit, staked = (
        np.concatenate([getattr(own, name) for own in paths]) for name in ("credit", "staked")
    )
    sided = truths[:, :, None] * np.array([1.0, -1.0])
    return bool((Wealth(credit, staked).log_wealth(sided) >= -np.log(level)).any())


def test_bounds_of_households_are_ever_wrong_as_rarely_as_promised():
    """Homes of one to six whose people share the arm, the score and most of the outcome."""
    level, trials, wrong = DELTA / 4, 300, 0
    for seed in range(trials):
        rng = np.random.default_rng([seed, 2])
        size = rng.integers(1, 7, 1_500)
        first = np.zeros(size.sum(), bool)
        first[np.cumsum(size) - size] = True
        score, treated = (
            np.repeat(own, size) for own in (rng.random(1500), rng.random(1500) < 0.5)
        )
        level_of = np.repeat(rng.random(1500), size)
        y = (level_of < 0.2 + 0.3 * treated * score).astype(float)
        path = AnytimeBets.fresh().add(y, score, treated, level, first)
        truths = np.tile([0.3 / 12, 0.15], (len(path.credit), 1))
        wrong += ever_wrong([path], truths, level)
    assert wrong / trials <= allowed(DELTA, trials)


def test_bounds_by_known_chances_are_ever_wrong_as_rarely_as_promised():
    """Chances that go with the score, and with the base rate: without them all is wrong."""
    level, trials, wrong, naive = DELTA / 4, 300, 0, 0
    for seed in range(trials):
        rng = np.random.default_rng([seed, 3])
        score = rng.random(4_000)
        chance = np.where(score > 0.6, 0.8, 0.2)
        treated = rng.random(4_000) < chance
        y = (rng.random(4_000) < 0.1 + 0.3 * score + 0.2 * treated).astype(float)
        path = AnytimeBets.fresh(least=0.2).add(y, score, treated, level, None, chance)
        truths = np.tile([0.0, 0.2], (len(path.credit), 1))
        wrong += ever_wrong([path], truths, level)
        path = AnytimeBets.fresh().add(y, score, treated, level)
        naive += ever_wrong([path], truths[: len(path.credit)], level)
    assert wrong / trials <= allowed(DELTA, trials)
    assert naive / trials > 0.5


@pytest.mark.parametrize("shares", [[0.7, 0.3], [0.5, 0.3, 0.2]])
def test_shares_of_arms_give_alarm_as_rarely_as_promised(shares):
    trials, alarms = 2000, 0
    for seed in range(trials):
        arm = np.random.default_rng(seed).choice(len(shares), 5000, p=shares)
        path = ratio_path(arm, np.zeros(len(shares), int), np.array(shares))
        alarms += path.max() >= -np.log(RATIO_LEVEL)
    assert alarms / trials <= allowed(RATIO_LEVEL, trials)


def test_arms_by_known_chances_give_alarm_as_rarely_as_promised():
    trials, alarms = 2000, 0
    for seed in range(trials):
        rng = np.random.default_rng(seed)
        chance = rng.choice([0.1, 0.5, 0.9], 3000)
        both = np.column_stack([1 - chance, chance])
        path, _ = tilt_path((rng.random(3000) < chance) * 1, both, np.zeros(10))
        alarms += path.max() >= -np.log(RATIO_LEVEL)
    assert alarms / trials <= allowed(RATIO_LEVEL, trials)


def test_a_monitor_without_any_effect_shows_something_as_rarely_as_promised():
    """Two arms and a score, looks after every day: no stop in 95% of trials."""
    trials, wrong = 100, 0
    day = pd.Timestamp("2026-01-01") + pd.to_timedelta(np.arange(4_000) // 400, "D")
    for seed in range(trials):
        rng = np.random.default_rng([seed, 12])
        arm, visit = rng.choice(["no", "call", "mail"], 4_000), rng.random(4_000) < 0.2
        rows = pd.DataFrame({"arm": arm, "visit": visit * 1, "sent": day, "id": range(4_000)})
        rows["score"] = rng.random(4_000)
        monitor = Monitor(
            treatment="arm", outcome="visit", date="sent", id="id", score="score", control="no",
            treated_share=2 / 3,
        )  # fmt: skip
        for as_of in pd.date_range("2026-01-02", "2026-01-11"):
            look = monitor.look(rows[rows["sent"] < as_of], as_of=as_of)
        wrong += bool(look.stops)
    assert wrong / trials <= allowed(DELTA + RATIO_LEVEL, trials)


@pytest.mark.parametrize("method", ["betting", "betting-fixed"])
def test_upper_bounds_of_certificates_miss_as_rarely_as_promised(method):
    """AUUC effect/3, gain effect/12: an upper bound below them is wrong."""
    trials, misses = 300, np.zeros(2)
    for seed in range(trials):
        y, score, treated = rows_of(seed, 400, effect=0.3)
        found = certify(
            score, y=y, treatment=treated, method=method, upper=True, n_dealings=1,
            random_state=seed,
        )  # fmt: skip
        misses += [found.upper_bound < 0.1, found.gain_upper_bound < 0.025]
    assert (misses / trials <= allowed(DELTA, trials)).all()
