"""What is told of a campaign holds as often as it says: intervals, certified ends, verdicts."""

from collections import Counter

import numpy as np
import pandas as pd
import pytest
from tests.campaign.campaigns import EFFECT, make_model, run_campaign

from auucmax.campaign import ForecastVerdict, verify
from auucmax.campaign.contrasts import CellMeans, Estimate

pytestmark = pytest.mark.gate
SHARE, CHANCES = 0.3, (0.1, 0.9)
N_TRIALS, CAMPAIGNS = 10, 4  # with models of them
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
    """The three contrasts of a campaign, against the truth of the population."""
    n_trials, misses, told = 1_500, np.zeros(3), np.zeros(3)
    rng = np.random.default_rng(0)
    for _ in range(n_trials):
        y, top, _, mail = rows(rng, n, base, effects, kind)
        cells = CellMeans.of(y, mail, top.astype(np.intp))
        p = top.mean()
        weights = [[0.0, p], [-p * (1 - p), p * (1 - p)], [-(1 - p), 0.0]]
        for k, own in enumerate(weights):
            found = cells.effect(np.array(own))
            told[k] += found.declined is None
            misses[k] += found.lower > np.dot(own, effects) or found.upper < np.dot(own, effects)
    assert (misses <= told * allowed(n_trials)).all(), misses / told
    # Neither are they much too wide.
    assert (misses >= told * 0.02).all(), misses / told


def test_intervals_by_group_allow_for_homes_of_four():
    n_trials, n_homes, misses = 600, 800, 0
    rng = np.random.default_rng(1)
    home = np.repeat(np.arange(n_homes), 4)
    for _ in range(n_trials):
        top = (rng.random(n_homes) < 0.4)[home]
        mail = (rng.random(n_homes) < 0.6)[home]
        y = (rng.random(len(home)) < (0.1 + 0.5 * (rng.random(n_homes) < 0.4))[home]).astype(float)
        found = CellMeans.of(y, mail, top.astype(np.intp), home).effect(np.array([-0.24, 0.24]))
        misses += not found.lower < 0 < found.upper
    assert 0.02 < misses / n_trials <= allowed(n_trials)


def test_certified_ends_fail_no_more_often_than_they_may():
    n_trials, effects = 300, (0.0, 0.15)
    misses = {"nobody": np.zeros(2), "random": np.zeros(2)}
    rng = np.random.default_rng(2)
    for seed in range(n_trials):
        y, top, chance, mail = rows(rng, 1_500, 0.2, effects)
        table = pd.DataFrame({"top": top, "chance": chance, "mail": mail, "visit": y})
        found = verify(table, **NAMES, random_state=seed).comparisons
        truth = {"nobody": top.sum() * 0.15, "random": top.sum() * (1 - top.mean()) * 0.15}
        for name, failed in misses.items():
            one = found[name]
            failed += [one.certified_lower > truth[name], one.certified_upper < truth[name]]
    for failed in misses.values():
        assert (failed / n_trials <= allowed(n_trials)).all()


def test_the_interval_of_a_difference_covers_it():
    """What came minus what was promised, each from rows of its own."""
    n_trials, misses = 1_500, 0
    rng = np.random.default_rng(3)
    for _ in range(n_trials):
        y, top, _, mail = rows(rng, 1_500, 0.1, (0.0, 0.1))
        came = CellMeans.of(y, mail, top.astype(np.intp)).effect(np.array([0.0, 1.0]))
        promised = rng.normal(0.1, 0.03)
        ends = promised - 1.96 * 0.03, promised + 1.96 * 0.03
        off = came.minus(Estimate(promised, 0.03, *ends))
        misses += not off.lower < 0 < off.upper
    assert 0.02 < misses / n_trials <= allowed(n_trials)


@pytest.fixture(scope="module")
def verdicts():
    """How often each verdict is given, by the part of the forecast effect that people have."""
    found = {part: Counter() for part in (1.0, 0.5, -0.5)}
    for trial in range(N_TRIALS):
        model = make_model(4_000, 1_000 + trial)
        for part, counts in found.items():
            for k in range(CAMPAIGNS):
                seed = 100_000 + 100 * trial + k
                table, _, _ = run_campaign(model, 3_000, seed, effect=part * EFFECT)
                verification = verify(table, chosen="top", propensity="chance", model=model)
                counts[verification.promise.verdict] += 1
    return found


def test_a_right_forecast_is_rarely_said_to_be_missed(verdicts):
    """Other trials, too: the error of the forecast counts."""
    n = N_TRIALS * CAMPAIGNS
    missed = verdicts[1.0][ForecastVerdict.BELOW_FORECAST] + verdicts[1.0][ForecastVerdict.HARM]
    assert missed / n <= allowed(n)
    assert verdicts[1.0][ForecastVerdict.CONFIRMED] / n > 0.2


def test_half_of_the_forecast_is_rarely_said_to_confirm_it(verdicts):
    n = N_TRIALS * CAMPAIGNS
    assert verdicts[0.5][ForecastVerdict.CONFIRMED] / n <= allowed(n)


def test_harm_never_confirms_a_forecast(verdicts):
    assert verdicts[-0.5][ForecastVerdict.CONFIRMED] == 0
    assert verdicts[-0.5][ForecastVerdict.TOO_NOISY] == 0
