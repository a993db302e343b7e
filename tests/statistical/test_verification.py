"""Intervals, certified ends and verdicts of campaigns hold as often as they should."""

from collections import Counter

import numpy as np
import pandas as pd
import pytest
from tests.campaign.people import ARMS, make_model, run_campaign

from auucmax.campaign import verify
from auucmax.campaign.cells import CellMeans
from auucmax.campaign.verify import ForecastVerdict, minus
from auucmax.results import Estimate

pytestmark = pytest.mark.gate
SHARE, CHANCES = 0.3, (0.1, 0.9)
N_TRIALS, CAMPAIGNS = 6, 5  # with models of them
NAMES = {"chosen": "top", "propensity": "chance", "treatment": "mail", "outcome": "visit"}


def rows(rng, n, base, effects, kind="0/1"):
    top = rng.random(n) < SHARE
    chance = np.where(top, CHANCES[1], CHANCES[0])
    mail = rng.random(n) < chance
    rate = base + np.where(top, effects[1], effects[0]) * mail
    y = (rng.random(n) < rate).astype(float)
    if kind == "money":
        y *= rng.gamma(2.0, 0.5, n)  # of mean 1: effects are the same
    return y, top, chance, mail


def effect(cells, weights):
    return cells.contrast(np.outer(weights, [-1.0, 1.0]))


def allowed(n_trials, level=0.05):
    return level + 3 * np.sqrt(level * (1 - level) / n_trials)


@pytest.mark.parametrize(
    ("n", "base", "effects", "kind"),
    [
        (1_500, 0.2, (0.0, 0.1), "0/1"),
        (3_000, 0.03, (0.0, 0.02), "0/1"),
        (1_000, 0.5, (0.1, 0.3), "0/1"),
        (12_000, 0.2, (0.0, 0.1), "money"),
    ],
)
def test_intervals_of_gains_miss_as_often_as_they_say(n, base, effects, kind):
    """Campaign as run, against nobody, random and everyone: 93% to 97% hold the truth."""
    n_trials, misses, known = 1_500, np.zeros(4), np.zeros(4)
    rng = np.random.default_rng(0)
    for _ in range(n_trials):
        y, top, _, mail = rows(rng, n, base, effects, kind)
        cells = CellMeans(y, mail, top.astype(np.intp))
        p = top.mean()
        run = [(mail & ~top).mean(), (mail & top).mean()]
        weights = [run, [0.0, p], [-p * (1 - p), p * (1 - p)], [-(1 - p), 0.0]]
        for k, own in enumerate(weights):
            found = effect(cells, np.array(own))
            if found.lower is not None:
                known[k] += 1
                truth = np.dot(own, effects)
                misses[k] += found.lower > truth or found.upper < truth
    assert (known > 0.9 * n_trials).all()
    assert (np.abs(misses / known - 0.05) <= 0.02).all(), misses / known


def test_intervals_by_group_allow_for_homes_of_four():
    n_trials, n_homes, misses = 600, 800, 0
    rng = np.random.default_rng(1)
    home = np.repeat(np.arange(n_homes), 4)
    for _ in range(n_trials):
        top = (rng.random(n_homes) < 0.4)[home]
        mail = (rng.random(n_homes) < 0.6)[home]
        y = (rng.random(len(home)) < (0.1 + 0.5 * (rng.random(n_homes) < 0.4))[home]).astype(float)
        found = effect(CellMeans(y, mail, top.astype(np.intp), home), [-0.24, 0.24])
        misses += not found.lower < 0 < found.upper
    assert 0.02 < misses / n_trials <= allowed(n_trials)


def test_certified_ends_fail_no_more_often_than_they_may():
    n_trials, effects = 300, (0.0, 0.15)
    misses = {"nobody": np.zeros(2), "random": np.zeros(2)}
    rng = np.random.default_rng(2)
    for seed in range(n_trials):
        y, top, chance, mail = rows(rng, 1_500, 0.2, effects)
        table = pd.DataFrame({"top": top, "chance": chance, "mail": mail, "visit": y})
        found = verify(table, **NAMES, random_state=seed)
        truth = {"nobody": top.sum() * 0.15, "random": top.sum() * (1 - top.mean()) * 0.15}
        for name, failed in misses.items():
            one = found.against(name)
            failed += [one.certified_lower > truth[name], one.certified_upper < truth[name]]
    for failed in misses.values():
        assert (failed / n_trials <= allowed(n_trials)).all()


def test_the_interval_of_a_difference_covers_it():
    """The gain minus the forecast, each from other rows."""
    n_trials, misses = 1_500, 0
    rng = np.random.default_rng(3)
    for _ in range(n_trials):
        y, top, _, mail = rows(rng, 1_500, 0.1, (0.0, 0.1))
        came = effect(CellMeans(y, mail, top.astype(np.intp)), [0.0, 1.0])
        value = rng.normal(0.1, 0.03)
        ends = {"lower": value - 1.96 * 0.03, "upper": value + 1.96 * 0.03}
        off = minus(came, Estimate(value=value, se=0.03, **ends))
        misses += not off.lower < 0 < off.upper
    assert 0.02 < misses / n_trials <= allowed(n_trials)


def test_intervals_and_certified_ends_of_several_arms_fail_no_more_often_than_they_may(arms_model):
    n_trials, misses = 60, Counter()
    for seed in range(n_trials):
        table, listed, truth = run_campaign(arms_model, 1_500, seed, explore=0.5)
        listed = listed.drop(columns=["uplift mail", "uplift call"])  # nothing to compare
        found = verify(
            table, people=listed, id="person", outcome="visit", control="no", random_state=seed
        )
        for (name, arm), value in truth.items():
            one = found.against(name, arm)
            misses[name, arm] += not one.gain.lower <= value <= one.gain.upper
            misses[name, arm, "lower"] += one.certified_lower > value
            misses[name, arm, "upper"] += one.certified_upper < value
    assert {arm for _, arm, *_ in misses} == {None, *ARMS[1:]}
    assert all(n / n_trials <= allowed(n_trials) for n in misses.values()), misses


@pytest.fixture(scope="module")
def arms_model():
    return make_model(2)


@pytest.fixture(scope="module")
def verdicts():
    """How often each verdict is given, by the part of the forecast effect that people have."""
    found = {part: Counter() for part in (1.0, 0.5, -0.5)}
    for trial in range(N_TRIALS):
        model = make_model(1, seed=1_000 + trial)
        for part, counts in found.items():
            for k in range(CAMPAIGNS):
                seed = 100_000 + 100 * trial + k
                table, listed, _ = run_campaign(model, 3_000, seed, factor=part, explore=0.1)
                counts[verify(table, people=listed, model=model).forecast.verdict] += 1
    return found


def test_a_right_forecast_is_rarely_missed(verdicts):
    """Other trials, too: the error of the forecast counts."""
    n = N_TRIALS * CAMPAIGNS
    missed = verdicts[1.0][ForecastVerdict.BELOW] + verdicts[1.0][ForecastVerdict.HARM]
    assert missed / n <= allowed(n)
    assert verdicts[1.0][ForecastVerdict.CONFIRMED] / n > 0.2


def test_half_of_the_forecast_rarely_confirms_it(verdicts):
    n = N_TRIALS * CAMPAIGNS
    assert verdicts[0.5][ForecastVerdict.CONFIRMED] / n <= allowed(n)


def test_harm_never_confirms_a_forecast(verdicts):
    assert verdicts[-0.5][ForecastVerdict.CONFIRMED] == 0
    assert verdicts[-0.5][ForecastVerdict.TOO_NOISY] == 0
