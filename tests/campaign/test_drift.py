import numpy as np
import pandas as pd
import pytest
from tests.campaign.campaigns import BASE, EFFECT, make_model, make_people, run_campaign, treat
from tests.campaign.test_campaign import NAMES
from tests.model.arms_table import arms_table, fitted

from auucmax.campaign import ForecastVerdict, verify, verify_arms
from auucmax.campaign.campaign import read_campaign
from auucmax.campaign.drift import DriftTest, _mean_of, advise, drift_tests, expected_effect
from auucmax.campaign.verification import _share_of_chosen
from auucmax.model import fit_trial_model

OPTIONS = {"chosen": "top", "propensity": "chance"}


def found_in(model, **change):
    table, _, _ = run_campaign(model, 10_000, 3, **change)
    verification = verify(table, **OPTIONS, model=model)
    return {t.what.split(":")[0]: t for t in verification.drift}, verification.advice


def test_nothing_is_found_where_nothing_changed(model):
    tests, advice = found_in(model)
    assert [test.what for test in tests.values() if test.is_found] == []
    assert advice.action == "keep"
    assert "would have been found four times in five" in advice.reason


@pytest.mark.gate
def test_another_base_rate_is_found_alone(model):
    tests, advice = found_in(model, base=BASE + 0.06)
    assert [name for name, test in tests.items() if test.is_found] == ["base rate"]
    assert tests["base rate"].campaign == pytest.approx(BASE + 0.06, abs=0.02)
    assert advice.action == "recalibrate"


@pytest.mark.filterwarnings("ignore:the scores of the cohort should")
def test_other_people_are_found_by_their_scores_and_features(model):
    tests, advice = found_in(model, shift=0.8)
    assert tests["scores"].is_found
    assert tests["people"].is_found
    assert tests["people"].what == "people: age"
    assert tests["people"].campaign - tests["people"].trial == pytest.approx(0.8, abs=0.05)
    assert advice.action in ("recalibrate", "refit")


def test_an_effect_that_is_gone_is_found(model):
    tests, advice = found_in(model, effect=0.0)
    assert tests["average effect"].is_found
    assert advice.action == "refit"


def test_a_loss_of_the_whole_effect_that_would_not_be_seen_is_no_reason_to_keep(model):
    table, _, _ = run_campaign(model, 400, 3, explore=(0.2, 0.2))
    found = verify(table, **OPTIONS, model=model)
    (effect,) = (test for test in found.drift if test.what == "average effect")
    assert effect.detectable > abs(effect.trial)
    assert found.promise.verdict == "too_noisy"
    assert found.advice.action == "cannot tell"
    assert "had it gone altogether, that might not have been seen" in found.advice.reason


def test_a_treatment_that_harms_is_stopped(model):
    _, advice = found_in(model, effect=-0.12)
    assert str(advice).startswith("stop: the chosen lost ")
    assert "Send nothing until it is known why." in advice.reason


@pytest.mark.gate
def test_where_only_the_average_is_below_0_the_chosen_decide(model):
    """The chosen gain by it: whom to treat is what the model is for."""
    table, _, _ = run_campaign(model, 10_000, 3)
    rest = (table["top"] == 0) & (table["mail"] == 1)
    harmed = table.assign(visit=table["visit"].where(~rest, 0))
    advice = verify(harmed, **OPTIONS, model=model).advice
    assert advice.action != "stop"
    chosen = (table["top"] == 1) & (table["mail"] == 1)
    nothing = harmed.assign(visit=harmed["visit"].where(~chosen, table["visit"].sample(
        frac=1, random_state=0).to_numpy() & (table["age"] > 9)))  # fmt: skip
    assert verify(nothing, **OPTIONS, model=model).advice.action == "stop"


@pytest.mark.gate
def test_an_effect_that_doubled_is_no_reason_to_throw_the_order_away(model):
    tests, advice = found_in(model, effect=2 * EFFECT)
    assert tests["average effect"].is_found
    assert advice.action == "recalibrate"


def test_the_expected_effect_is_that_of_the_curve(model):
    evidence = model.evidence
    whole = expected_effect(evidence, 1.0)
    assert whole.value == pytest.approx(evidence["effect"]["estimate"])
    top = expected_effect(evidence, 0.3)
    assert top.lower < top.value < top.upper
    assert top.value > whole.value


def moved(what, p_value=0.001, trial=0.05, campaign=0.02):
    return DriftTest(what, trial, campaign, p_value, 0.01)


@pytest.mark.parametrize(
    ("tests", "verdict", "action"),
    [
        ([], None, "cannot tell"),
        ([], "too_noisy", "cannot tell"),
        ([], "confirmed", "keep"),
        ([moved("scores", 0.5)], None, "cannot tell"),
        ([moved("scores", 0.5)], "confirmed", "keep"),
        ([moved("average effect", 0.5)], "too_noisy", "keep"),
        ([moved("average effect", 0.5, trial=0.005)], "too_noisy", "cannot tell"),
        ([moved("average effect", 0.5, trial=0.005)], "confirmed", "keep"),
        ([moved("ranking")], "confirmed", "refit"),
        ([moved("ranking", campaign=0.09)], "confirmed", "recalibrate"),
        ([moved("scores")], "confirmed", "recalibrate"),
        ([moved("people: age"), moved("average effect")], None, "refit"),
        ([moved("scores")], "below_forecast", "refit"),
        ([moved("base rate")], None, "recalibrate"),
        ([], "below_forecast", "recalibrate"),
        ([], "harm", "recalibrate"),
    ],
)
def test_advice(tests, verdict, action):
    found = advise(tests, verdict and ForecastVerdict(verdict))
    assert found.action == action
    assert found.reason.endswith(".")
    assert "\n" not in str(found)


@pytest.mark.parametrize(
    ("tests", "verdict", "is_better", "action"),
    [
        ([moved("average effect")], None, False, "refit"),
        ([moved("average effect")], None, True, "recalibrate"),
        ([moved("average effect", campaign=0.09)], None, False, "recalibrate"),
        ([], "below_forecast", False, "refit"),
        ([], "confirmed", False, "keep"),
        ([moved("ranking")], "confirmed", True, "refit"),
        ([moved("ranking"), moved("average effect")], "below_forecast", True, "recalibrate"),
        ([moved("ranking"), moved("average effect")], "below_forecast", None, "refit"),
    ],
)
def test_what_fell_is_fitted_again_where_the_order_is_not_shown_to_help(
    tests, verdict, is_better, action
):
    assert advise(tests, verdict and ForecastVerdict(verdict), is_better=is_better).action == action


def test_a_gain_above_the_forecast_is_a_reason_to_recalibrate():
    found = advise([], ForecastVerdict.CONFIRMED, exceeded=True)
    assert found.action == "recalibrate"
    assert "the gain was above the forecast" in found.reason


@pytest.mark.gate
def test_false_alarms_are_as_rare_as_they_should_be_and_a_fallen_effect_is_found():
    """Other trials and other campaigns each time: the errors of both count."""
    n_trials = 25
    alarms, power = [], []
    for seed in range(n_trials):
        model = make_model(4_000, random_state=1_000 + seed)
        for found, effect in ((alarms, EFFECT), (power, EFFECT / 4)):
            table, _, _ = run_campaign(model, 8_000, 2_000 + seed, effect=effect)
            campaign = read_campaign(table, **OPTIONS, people=None, model=model, **NAMES)
            share = _share_of_chosen(campaign, model)
            tests = drift_tests(campaign, model, share)
            assert len(tests) == 5
            found.append(any(test.is_found for test in tests))
    assert np.mean(alarms) <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / n_trials)
    assert np.mean(power) >= 0.8


def test_means_are_those_of_the_model_whatever_else_is_in_the_column():
    """A date is counted from 1970, not from the first one of the campaign; one value is a mean."""
    day = {"level": None, "is_date": True}
    for dates in (["2026-03-01"] * 3, ["2026-02-28", "2026-03-02", None]):
        assert _mean_of(pd.to_datetime(pd.Series(dates)), day) == 20513
    number = {"level": None, "is_date": False}
    assert _mean_of(pd.Series([2.0, 2.0, np.nan]), number) == 2
    assert np.isnan(_mean_of(pd.Series(["a", "b"]), number))
    assert np.isnan(_mean_of(pd.Series(["a", "b"]), day))
    level = {"level": "Rome", "is_date": False}
    assert _mean_of(pd.Series(["Rome", "Oslo", None, "Oslo"]), level) == pytest.approx(1 / 3)
    assert _mean_of(pd.Series(["Oslo", "Oslo"]), level) == 0
    assert np.isnan(_mean_of(pd.Series(["Rome"]), {"level": "(12 others)", "is_date": False}))


def with_dates(people, year):
    days = pd.Timestamp(f"{year}-01-01") + pd.to_timedelta(100 + 30 * people["age"].round(), "D")
    return people.drop(columns="age").assign(joined=days)


@pytest.mark.gate
def test_people_of_another_year_are_found_by_the_date():
    people, part, rng = make_people(4_000, 0)
    treated = rng.random(4_000) < 0.5
    table = treat(with_dates(people, 2025), BASE + EFFECT * part * treated, treated, rng)
    model = fit_trial_model(
        table, treatment="mail", outcome="visit", id="person", model="tm", random_state=0
    )
    for year, is_found in ((2025, False), (2026, True)):
        people, part, rng = make_people(3_000, 1)
        chosen = part > 0.7
        chance = np.where(chosen, 0.7, 0.3)
        treated = rng.random(3_000) < chance
        rows = treat(with_dates(people, year), BASE + EFFECT * part * treated, treated, rng)
        rows = rows.assign(top=chosen.astype(int), chance=chance)
        found = verify(rows, **OPTIONS, model=model)
        (test,) = (test for test in found.drift if test.what == "people: joined")
        assert test.is_found == is_found
        assert test.campaign - test.trial == pytest.approx(365 * is_found, abs=3)
        if is_found:
            assert "the mean of joined is 2026-04-1" in found.advice.reason


def arms_campaign(n, seed, *, effects=(0.3, 0.3), base=0.0, older=0.0):
    """Mail was chosen for the young, the phone for the old; all got any arm with some chance."""
    table = arms_table(n, seed, effects).assign(person=[f"c{seed}-{k}" for k in range(n)])
    rng = np.random.default_rng([seed, 3])
    chosen = np.where(table["age"] < 45, "mail", "phone")
    arm = np.where(rng.random(n) < 0.4, chosen, table["arm"])
    age = table["age"]
    effect = np.where(arm == "mail", effects[0] * (age < 45), effects[1] * (age >= 45))
    rate = 0.2 + base + np.where(arm == "none", 0, effect)
    visit = (rng.random(n) < rate).astype(int)
    return table.assign(arm=arm, chosen=chosen, visit=visit, age=age + older)


@pytest.fixture(scope="module")
def arms_model():
    return fitted(arms_table(6_000))


def found_of_arms(model, **change):
    found = verify_arms(arms_campaign(6_000, 5, **change), model=model)
    return {test.what for test in found.drift if test.is_found}, found


@pytest.mark.gate
def test_nothing_is_found_of_several_arms_where_nothing_changed(arms_model):
    moved, found = found_of_arms(arms_model)
    names = [test.what.split(":")[0] for test in found.drift]
    assert names == [
        "scores of mail", "scores of phone", "people", "base rate", "average effect of mail",
        "average effect of phone",
    ]  # fmt: skip
    assert moved == set()
    assert found.advice.action == "keep"
    assert "the average effect of mail by" in found.advice.reason
    assert found.rows()["what to do with the model"] == str(found.advice)
    assert found.promise.verdict == "confirmed"
    assert {test["what"] for test in found.to_dict()["drift"]} == {t.what for t in found.drift}


@pytest.mark.gate
def test_what_has_changed_of_several_arms_is_found_by_its_name(arms_model):
    moved, found = found_of_arms(arms_model, effects=(0.3, 0.0))
    assert moved == {"average effect of phone"}
    assert found.advice.action in ("recalibrate", "refit")
    assert "the average effect of phone is" in found.advice.reason
    moved, found = found_of_arms(arms_model, base=0.08)
    assert moved == {"base rate"}
    moved, found = found_of_arms(arms_model, effects=(-0.2, -0.2))
    assert found.advice.action == "stop"
    table = arms_campaign(6_000, 5)
    bare = verify_arms(table.drop(columns=["age", "town", "spent"]), model=arms_model)
    assert [test.what for test in bare.drift] == [
        "base rate", "average effect of mail", "average effect of phone"
    ]  # fmt: skip
    assert "people and their scores are still those of its trial cannot be told" in bare.notes[-1]


@pytest.mark.gate
@pytest.mark.filterwarnings("ignore:the scores of the cohort should")
def test_older_people_are_found_of_several_arms(arms_model):
    moved, found = found_of_arms(arms_model, older=15.0)
    assert "people: age" in moved
    assert found.advice.action in ("recalibrate", "refit")


@pytest.mark.gate
def test_false_alarms_of_several_arms_are_as_rare_as_they_should_be():
    """Other trials and other campaigns each time: the errors of both count."""
    n_trials, alarms = 10, 0
    for seed in range(n_trials):
        model = fitted(arms_table(2_500, 500 + seed))
        found = verify_arms(arms_campaign(2_500, 900 + seed), model=model)
        alarms += any(test.is_found for test in found.drift)
    assert alarms / n_trials <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / n_trials)
