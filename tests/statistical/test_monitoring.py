"""Bounds of a running trial, looked at all the time; `python -m experiments monitor` is longer."""

import numpy as np
import pandas as pd
import pytest

from auucmax import certify
from auucmax.campaign import Monitor
from auucmax.campaign.arm_balance import TILTS, ArmBalance, ratio_path, tilt_path
from auucmax.campaign.monitoring import RATIO_LEVEL
from auucmax.certificates.anytime import AnytimeBets, Wealth
from auucmax.data.randomisation_report import FailedCheckError
from auucmax.model import fit_trial_model

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
        path = AnytimeBets.fresh(2).add(*rows_of(seed, 6_000, share, rate, effect), level)
        wealth = path.log_wealth(np.broadcast_to(truth, path.credit.shape[:-1]))
        wrong += bool((wealth >= -np.log(level)).any())
    assert wrong / trials <= allowed(DELTA, trials)


def test_wealth_at_the_truth_has_mean_one():
    """From rows to wealth, after every superblock: within 4 standard errors, and not far below."""
    trials = 1500
    found = np.array(
        [
            np.exp(path.log_wealth(np.zeros(path.credit.shape[:-1]))[[0, 2]])
            for path in (AnytimeBets.fresh(2).add(*rows_of(s, 1100), DELTA) for s in range(trials))
        ]
    )
    mean, error = found.mean(axis=0), found.std(axis=0) / np.sqrt(trials)
    assert (mean <= 1 + 4 * error).all()
    assert (mean[0] >= 1 - 4 * error[0] - 0.02).all()


def ever_wrong(paths, truths, level):
    """Whether any bound was wrong after any superblock; truths (superblocks, targets)."""
    credit, staked = (np.concatenate(own) for own in zip(*paths, strict=True))
    sided = truths[:, :, None] * np.array([1.0, -1.0])
    return bool((Wealth(credit, staked).log_wealth(sided) >= -np.log(level)).any())


def test_bounds_on_the_mean_of_models_that_are_changed_on_the_way():
    """The first score ranks until it looks good, the next one, which knows nothing, until it does
    so too, and so on: the mean gain over the blocks is what it is."""
    level, trials, wrong = DELTA / 4, 300, 0
    for seed in range(trials):
        y, scores, treated = rows_of(seed, 3_500, effect=0.3)
        bets, paths, gains, start, use = AnytimeBets.fresh(), [], [], 0, 0
        while (stop := start + 240) <= len(y):
            own = slice(start, stop)
            before, n_before = bets.sums[0], bets.n_blocks
            paths.append(bets.add(y[own], scores[use : use + 1, own], treated[own], level))
            gains += [0.3 / 12 if use == 0 else 0.0] * (bets.n_blocks - n_before)
            if bets.n_blocks > n_before:
                truth = np.mean(gains), 0.15
                paths[-1] = paths[-1], truth
            else:
                paths.pop()
            assert len(bets.waiting.y) == 0
            # Peeking at every superblock, also when it is over: the next one has another model.
            use = use if bets.sums[0] - before < 0.5 else 1 - use
            start = stop
        games, truths = zip(*paths, strict=True)
        wrong += ever_wrong(games, np.array(truths), level)
    assert wrong / trials <= allowed(DELTA, trials)


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
        path = AnytimeBets.fresh().add(y, score[None], treated, level, first)
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
        path = AnytimeBets.fresh(least=0.2).add(y, score[None], treated, level, None, chance)
        truths = np.tile([0.0, 0.2], (len(path.credit), 1))
        wrong += ever_wrong([path], truths, level)
        path = AnytimeBets.fresh().add(y, score[None], treated, level)
        naive += ever_wrong([path], truths[: len(path.credit)], level)
    assert wrong / trials <= allowed(DELTA, trials)
    assert naive / trials > 0.5


def test_shares_of_arms_give_alarm_as_rarely_as_promised():
    trials = 2000
    alarms = sum(
        ratio_path(np.random.default_rng(seed).random(5000) < 0.3, (0, 0), 0.3).max()
        >= -np.log(RATIO_LEVEL)
        for seed in range(trials)
    )
    assert alarms / trials <= allowed(RATIO_LEVEL, trials)


def test_arms_by_known_chances_give_alarm_as_rarely_as_promised():
    trials, alarms = 2000, 0
    for seed in range(trials):
        rng = np.random.default_rng(seed)
        chance = rng.choice([0.1, 0.5, 0.9], 3000)
        path, _ = tilt_path(rng.random(3000) < chance, chance, np.zeros(len(TILTS)))
        alarms += path.max() >= -np.log(RATIO_LEVEL)
    assert alarms / trials <= allowed(RATIO_LEVEL, trials)


def features(rng, n):
    """A number with a tail, a code of four levels and a number that few tell."""
    spend = rng.gamma(2, 50, n)
    return np.array([spend, rng.integers(0, 4, n), np.where(spend > 200, np.nan, rng.random(n))])


def by_chance(rng, values, share):
    return rng.random(values.shape[1]) < share


def in_blocks(rng, values, share):
    """Of each ten people who come, as many as the share says."""
    n_treated = round(10 * share)
    places = rng.random((values.shape[1] // 10 + 1, 10)).argsort(axis=1)
    return (places < n_treated).ravel()[: values.shape[1]]


def in_strata(rng, values, share):
    """Blocks of each level by itself."""
    treated = np.empty(values.shape[1], bool)
    for level in range(4):
        own = values[1] == level
        treated[own] = in_blocks(rng, values[:, own], share)
    return treated


def ratios(values, treated, chance, per_look, *, by_chance=False, until=np.inf, change=None):
    """ln of the evidence at looks after every so many people, until it reaches something.

    Each look is of two days. ``change``: after how many looks a model takes over each time, with a
    level more of the town, with another number or without one.
    """
    columns = [("spend", None), ("town", 4), ("told", None)]
    balance = ArmBalance.of(columns, by_chance=by_chance)
    found = list[float]()
    for start in range(0, len(treated), per_look):
        own = slice(start, start + per_look)
        if change is not None and start and len(found) % change == 0:
            k = len(found) // change
            balance.hand_over([columns[0], ("town", 4 + k % 2), ("told", None if k % 3 else 9)])
        balance.add(values[:, own], treated[own], chance[own])
        balance.add_days(np.arange(len(treated[own])) * 2 // per_look, treated[own], chance[own])
        found.append(balance.log_evidence)
        if found[-1] >= until:
            break
    return np.array(found)


@pytest.mark.parametrize("assigned", [by_chance, in_blocks, in_strata])
@pytest.mark.parametrize("share", [0.5, 0.1])
def test_arms_that_are_alike_are_blamed_as_rarely_as_promised(assigned, share):
    """At .05 in the place of .0001, so that there is something to count; blocks are more even.

    Half of the capital is in the first columns, so that it is as if the level were .025 of them.
    """
    trials, alarms = 200, 0
    for seed in range(trials):
        rng = np.random.default_rng([seed, 4])
        values = features(rng, 2000)
        treated = assigned(rng, values, share)
        found = ratios(values, treated, np.full(2000, 0.5), 100)
        alarms += bool(found.max() >= -np.log(DELTA))
    assert alarms / trials <= allowed(DELTA, trials)


@pytest.mark.parametrize("by_chances", [False, True])
def test_columns_that_models_change_are_blamed_as_rarely_as_promised(by_chances):
    """A model takes over after every 500 people; at each place some column begins anew."""
    trials, alarms = 200, 0
    for seed in range(trials):
        rng = np.random.default_rng([seed, 9])
        values = features(rng, 3000)
        chance = np.where(values[0] > 100, 0.7, 0.3) if by_chances else np.full(3000, 0.3)
        treated = rng.random(3000) < chance
        found = ratios(values, treated, chance, 250, by_chance=by_chances, change=2)
        alarms += bool(found.max() >= -np.log(DELTA))
    assert alarms / trials <= allowed(DELTA, trials)


def test_what_goes_with_a_column_is_found_though_models_change_others_all_the_time():
    """The spend is a column of all of them: refits forget nothing."""
    for seed in range(5):
        rng = np.random.default_rng([seed, 10])
        values = features(rng, 6000)
        treated = rng.random(6000) < np.where(values[0] > 100, 0.6, 0.4)
        found = ratios(values, treated, np.full(6000, 0.5), 250, change=2)
        assert found.max() >= -np.log(1e-4)


@pytest.mark.parametrize(("per_day", "most_days"), [(10, 21), (100, 7)])
def test_arms_by_the_day_are_found(per_day, most_days):
    """Alternating days, and weekdays against weekends."""
    day = np.repeat(np.arange(70), per_day)
    for treated in (day % 2 == 0, day % 7 < 5):
        balance, n_days = ArmBalance.of([("score", None)]), 0
        while balance.log_evidence < -np.log(1e-4):
            own = day == n_days
            balance.add_days(day[own], treated[own], np.full(per_day, 0.5))
            n_days += 1
        assert n_days <= most_days


def test_households_that_are_alike_are_blamed_as_rarely_as_promised():
    """People of a home share most of their features and the arm: homes count once.

    Each person by itself, as if it had an arm of its own, would be blamed.
    """
    trials, alarms, naive = 200, 0, 0
    for seed in range(trials):
        rng = np.random.default_rng([seed, 5])
        size = rng.integers(1, 7, 600)
        home = np.repeat(np.arange(600), size)
        values, treated = features(rng, 600)[:, home], (rng.random(600) < 0.5)[home]
        first = np.append(True, np.diff(home) > 0)
        chance = np.full(len(home), 0.5)
        found = ratios(values[:, first], treated[first], chance[first], 50)
        alarms += bool(found.max() >= -np.log(DELTA))
        naive += bool(ratios(values, treated, chance, 50).max() >= -np.log(DELTA))
    assert alarms / trials <= allowed(DELTA, trials)
    assert naive > alarms + 10


def test_arms_by_known_chances_that_differ_are_blamed_as_rarely_as_promised():
    """Chances go with a column; as if they were the same for all, all would be blamed."""
    trials, alarms, naive = 200, 0, 0
    for seed in range(trials):
        rng = np.random.default_rng([seed, 6])
        values = features(rng, 2000)
        chance = np.where(values[0] > 100, 0.7, 0.3)
        treated = rng.random(2000) < chance
        found = ratios(values, treated, chance, 100, by_chance=True)
        alarms += bool(found.max() >= -np.log(DELTA))
        naive += bool(ratios(values, treated, chance, 500).max() >= -np.log(1e-4))
    assert alarms / trials <= allowed(DELTA, trials)
    assert naive == trials


@pytest.mark.parametrize(
    ("wrong", "most_rows"),
    [
        (lambda v: 1 / (1 + np.exp(-(v[0] - 100) / 60)), 600),
        (lambda v: np.where(v[0] > 250, 1.0, 0.5), 5_000),  # one in 25 is always treated
        (lambda v: 0.5 + 0.1 * (np.abs(v[0] - 90) > 50), 15_000),  # at both ends
        (lambda v: 0.5 + 0.05 * (v[0] - 100) / 70, 12_000),
        (lambda v: np.where(v[1] == 2, 0.6, 0.5), 15_000),
        (lambda v: np.where(np.isnan(v[2]), 0.6, 0.5), 30_000),
    ],
)
def test_treatment_that_goes_with_a_column_is_found(wrong, most_rows):
    """At looks after every 200 rows, at the level of the first model of a monitor."""
    rows = []
    for seed in range(20):
        rng = np.random.default_rng([seed, 7])
        values = features(rng, 30_000)
        treated = rng.random(30_000) < wrong(values)
        found = ratios(values, treated, np.full(30_000, 0.5), 200, until=-np.log(1e-4))
        assert found[-1] >= -np.log(1e-4)
        rows.append(200 * len(found))
    assert max(rows) <= most_rows


def spenders(seed, n, chance, first_id):
    """People who buy the more the more they spend; nobody gains by treatment."""
    rng = np.random.default_rng([seed, 8])
    spend, age = rng.gamma(2, 50, n), rng.integers(18, 80, n)
    treated = rng.random(n) < chance(spend)
    buys = rng.random(n) < 0.1 + 0.5 * (spend > 120)
    return pd.DataFrame(
        {"spend": spend, "age": age, "mail": treated.astype(int), "buys": buys.astype(int),
         "id": first_id + np.arange(n),
         "sent": pd.Timestamp("2026-01-01") + pd.to_timedelta(np.arange(n) // 200, "D")}
    )  # fmt: skip


def test_no_bound_is_told_of_new_rows_whose_treatment_goes_with_a_column():
    """Looks at the 200 rows of each day alone: all of 20 trials stop, within 1,000 rows."""
    past = spenders(99, 3000, lambda spend: np.full(len(spend), 0.5), 10**6)
    named = {"treatment": "mail", "outcome": "buys", "id": "id"}
    model = fit_trial_model(past, **named, ignore=["sent"], model="tm")
    for seed in range(20):
        rows = spenders(seed, 1000, lambda spend: 1 / (1 + np.exp(-(spend - 100) / 60)), 0)
        monitor, stopped = Monitor.of(rows, model=model, date="sent"), False
        for day, own in rows.groupby("sent"):
            try:
                look = monitor.look(own, model=model, as_of=day + pd.Timedelta(1, "D"))
            except FailedCheckError:
                stopped = True
                break
            if stopped := look.failed is not None:
                break
            assert look.bounds is None or not look.bounds["gain"]["lower"] > 0
        assert stopped
        assert monitor.look(past, model=model).failed == monitor.stopped


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
