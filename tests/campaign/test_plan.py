"""Plans: what is assumed, and the rows, power and widths that follow."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from experiments import power as experiment
from hypothesis import given, settings
from hypothesis import strategies as st

from auucmax import make_trial
from auucmax._errors import InputError
from auucmax.campaign import past_rows, plan_trial
from auucmax.campaign.plan import Assumed
from auucmax.metrics import Levels
from auucmax.results import Estimate

GIVEN = {"base_rate": 0.1, "effect": 0.03, "gain": 0.006}


def assumed(**given):
    return plan_trial(**given).assumed[0]


@pytest.mark.gate_cases("11")
@pytest.mark.parametrize("number", [0, 4, 11])
def test_variances_are_those_of_levels(number):
    """Of a trial of many rows, whose standard errors are known to a few per mille."""
    case = experiment.CASES[number]
    own, rng = experiment.promised(case), np.random.default_rng(1)
    trial = make_trial(200_000, **case.population, random_state=rng)
    score = experiment.scores(case, trial, rng)
    error = Levels.of(trial.y, score, treatment=trial.treatment).inference().gain_standard_error
    assert np.sqrt(own.variance("gain") / 200_000) == pytest.approx(error, rel=0.015)


@settings(max_examples=25, deadline=None)
@given(power=st.floats(0.1, 0.99), what=st.sampled_from(["gain", "guaranteed gain"]))
def test_rows_have_the_power_that_they_are_for(power, what):
    own = assumed(**GIVEN)
    rows = own.rows(power, what)
    assert own.power(rows, what) >= power - 1e-6
    assert own.power(0.98 * rows, what) < power
    assert own.width(4 * rows, what) == pytest.approx(own.width(rows, what) / 2)


def test_money_has_a_certificate_only_with_a_range():
    money = {"base_rate": 2.0, "effect": 0.5, "gain": 0.3, "outcome_sd": 10.0}
    assert assumed(**money).statements == ["effect", "gain"]
    bounded = plan_trial(**money, outcome_range=(0, 100))
    wide = plan_trial(**money, outcome_range=(0, 1000))
    assert bounded.rows() < bounded.rows("guaranteed gain") < wide.rows("guaranteed gain")


#: No formula was chosen by looking at these: the grid of the experiment is no such test.
FRESH = (
    experiment.Case(1_800, base_rate=0.15, ate=0.04, noise=0.8, treated=0.4, certified=True),
    experiment.Case(4_000, base_rate=0.05, ate=0.02, heterogeneity=0.7, pilot=True, certified=True),
    experiment.Case(1_500, base_rate=0.08, ate=0.04, treated=0.7, shows="effect"),
    experiment.Case(12_000, base_rate=0.02, ate=0.01, treated=0.9, shows="effect"),
)


@pytest.mark.gate
@pytest.mark.parametrize("case", FRESH, ids=lambda case: case.name)
def test_promised_and_simulated_power(case):
    """Within 3 points, and 3 standard errors of so few trials."""
    assert case not in experiment.CASES
    found = experiment.simulate(case, split=77, trials=600, certificates=80)
    line = found | {"parameters": {"trials": 600, "certificates": 80}}
    for own in experiment.compared([line]).values():
        off = abs(own.promised - own.simulated)
        assert off <= experiment.TOLERANCE + 3 * own.error, own


def test_common_outcomes_are_planned_as_the_rarer_ones():
    """y and 1 - y have the same errors."""
    for base_gain in (0.0, 0.01, 0.02):
        high = Assumed(base_rate=0.9, effect=0.02, gain=0.005, base_gain=base_gain)
        low = Assumed(base_rate=0.1, effect=-0.02, gain=0.005, base_gain=base_gain)
        gains = [own.variance("gain") for own in (high, low)]
        assert gains[0] == pytest.approx(gains[1])


def test_the_gain_of_a_score_that_explains_a_share_of_the_effects():
    trial = make_trial(200_000, outcome="continuous", heterogeneity=0.5, random_state=0)
    noise = np.random.default_rng(0).standard_normal(200_000)
    score = trial.effect + 0.5 * noise  # half of its variance is that of the effects
    plan = plan_trial(base_rate=0.1, effect=0.03, outcome_sd=1.1, effect_sd=0.5, explained=0.5)
    assert plan.assumed[0].gain == pytest.approx(experiment._gain(trial.effect, score), rel=0.01)


@settings(max_examples=60, deadline=None)
@given(
    base=st.floats(0.02, 0.9), ratio=st.floats(-0.3, 0.08), part=st.floats(0.01, 0.5),
    treated=st.floats(0.05, 0.95),
)  # fmt: skip
def test_no_treated_share_is_better_than_the_best(base, ratio, part, treated):
    effect = ratio * base
    low = min(base * (1 - base), (base + effect) * (1 - base - effect))
    given = {"base_rate": base, "effect": effect, "gain": part * low / 2}
    best = plan_trial(**given).best_share
    at_best, other = (
        assumed(**given, treated_share=own).variance("gain") for own in (best, treated)
    )
    assert at_best <= other * (1 + 1e-9)


def test_what_makes_a_trial_larger():
    rows = plan_trial(**GIVEN).rows()
    for more in (
        {"treated_share": 0.9}, {"design_effect": 2.0}, {"gain": 0.005}, {"power": 0.9},
        {"level": 0.99}, {"cross_fitted": True}, {"base_rate": 0.2}, {"n_arms": 2},
    ):  # fmt: skip
        assert plan_trial(**(GIVEN | more)).rows() > 1.1 * rows, more
    assert plan_trial(**(GIVEN | {"effect": -0.001})).rows("effect") > 1e5
    assert plan_trial(**(GIVEN | {"effect": 0.0})).rows("effect") is None


def test_arms_share_the_levels_and_the_rows():
    """Two arms of a third each: an arm and the control are two thirds of the rows."""
    several = plan_trial(**GIVEN, n_arms=2, treated_share=2 / 3)
    one = plan_trial(**GIVEN, level=0.975, delta=0.025)
    assert several.rows() == pytest.approx(1.5 * one.rows(), rel=1e-3)
    assert several.rows("guaranteed gain") == pytest.approx(
        1.5 * one.rows("guaranteed gain"), rel=1e-3
    )


def test_rows_of_the_past():
    rng = np.random.default_rng(0)
    y, home = (rng.random(2_000) < 0.3).astype(float), np.repeat(np.arange(500), 4)

    def past(y, home, **columns):
        table = pd.DataFrame({"y": y, "home": home} | columns)
        return past_rows(table, outcome="y", groups="home", **{name: name for name in columns})

    alone = past(y, home)
    assert alone["base_rate"] == pytest.approx(0.3, abs=0.04)
    assert alone["outcome_sd"] is None
    assert alone["design_effect"] == pytest.approx(1, abs=0.25)
    same = past(y[home], home)
    assert same["design_effect"] == pytest.approx(4, abs=1e-9)
    score = y + rng.normal(size=2_000)
    rank = (score.argsort().argsort() + 0.5) / 2_000
    scored = past(y, home, score=score)
    assert scored["base_gain"] == pytest.approx(np.cov(y, rank, ddof=0)[0, 1])
    # Scores that differ within homes: what is shared in the outcome counts for less.
    mixed = past(y[home], home, score=rng.normal(size=2_000))
    assert 1 <= mixed["design_effect"] < 2.5
    assert past(10 * y + rng.random(2_000), home)["outcome_sd"] == pytest.approx(4.6, abs=0.3)
    with pytest.raises(ValueError, match="5 rows") as error:
        past(np.ones(5), np.arange(5))
    assert error.value.parameter == "the outcome 'y'"


def test_a_model_is_a_pilot(model, arms_model):
    plan = plan_trial(model=model, cross_fitted=True, level=model.evidence.level)
    own = model.evidence.arms[0]
    width = own.gain.upper - own.gain.lower
    n_rows = model.evidence.n_rows
    assert plan.assumed[0].width(n_rows, "gain") == pytest.approx(width)
    # The average effect does not depend on the ranking.
    assumed = plan.assumed[0]
    alone = plan_trial(
        base_rate=assumed.base_rate, effect=assumed.effect, gain=0.001, level=model.evidence.level,
        treated_share=assumed.treated_share,
    )  # fmt: skip
    assert plan.rows("effect") == alone.rows("effect")
    several = plan_trial(model=arms_model)
    assert several.arms == arms_model.arms
    guaranteed = [line for line in several.lines if line.what == "guaranteed gain"]
    assert [line.arm for line in guaranteed] == ["call", "mail"]
    for fitted in (model, arms_model):
        hoped = plan_trial(model=fitted, gain=0.03, treated_share=0.6)
        assert {own.gain for own in hoped.assumed} == {0.03}
        own_share = sum(own.treated_share / (1 - own.treated_share) for own in hoped.assumed)
        assert own_share == pytest.approx(0.6 / 0.4)


def test_a_model_that_is_no_pilot(model):
    def changed(**more):
        return replace(model, evidence=replace(model.evidence, **more))

    arm = replace(model.evidence.arms[0], gain=Estimate(value=-0.001))
    for wrong in (changed(arms=(arm,)), changed(failed_check=True)):
        with pytest.raises(ValueError, match="model should be") as error:
            plan_trial(model=wrong)
        assert error.value.parameter == "model"
    assert plan_trial(model=changed(arms=(arm,)), gain=0.01).rows() > 0


@pytest.mark.parametrize(
    ("more", "parameter"),
    [
        ({"gain": None}, "gain"),
        ({"gain": 0.0}, "gain"),
        ({"explained": 0.5}, "explained"),
        ({"gain": None, "effect_sd": 0.1, "explained": 1.5}, "explained"),
        ({"base_rate": 1.2}, "base_rate"),
        ({"base_rate": None}, "base_rate"),
        ({"effect": -0.2}, "effect"),
        ({"effect": "x"}, "effect"),
        ({"outcome_sd": 0.0}, "outcome_sd"),
        ({"gain": 0.3}, "gain"),
        ({"treated_share": 0}, "treated_share"),
        ({"power": 1.0}, "power"),
        ({"n_rows": 1}, "n_rows"),
        ({"n_arms": 0}, "n_arms"),
        ({"design_effect": 0}, "design_effect"),
    ],
)
def test_bad_input(more, parameter):
    with pytest.raises(ValueError, match=f"{parameter} should be") as error:
        plan_trial(**(GIVEN | more))
    assert getattr(error.value, "parameter", parameter) == parameter


def test_the_picture_has_a_line_for_each_statement():
    plan = plan_trial(**GIVEN, n_rows=10_000)
    axes = plan.draw().axes[0]
    assert len(axes.get_lines()) == len(plan.lines) + 2  # with the power and the rows
    for line in axes.get_lines()[:3]:
        assert (np.diff(line.get_ydata()) >= -0.05).all()
    assert type(plan).from_json(plan.to_json()) == plan


@pytest.mark.parametrize("name", ["effect", "gain", "outcome_sd"])
def test_numbers_that_floats_cannot_square_are_refused(name):
    known = {"base_rate": 0.1, "effect": 0.01, "gain": 0.002, "outcome_sd": 1.0}
    with pytest.raises(InputError) as caught:
        plan_trial(**(known | {name: 1e300}))
    assert caught.value.parameter == name
