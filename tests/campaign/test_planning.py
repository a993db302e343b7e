"""Plans: what is assumed, by whom, and what follows of rows."""

from dataclasses import replace

import numpy as np
import pytest
from experiments import power as experiment
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.model.arms_table import COSTS, arms_table, fitted
from tests.model.trial_table import NAMES, trial_table

from auucmax import make_trial
from auucmax.campaign import plan_arms, plan_trial
from auucmax.campaign.planning import model_evidence, past_rows
from auucmax.metrics import policy_difference
from auucmax.model import fit_trial_model

GIVEN = {"base_rate": 0.1, "effect": 0.03, "gain": 0.006}


def test_the_gain_of_a_score_that_explains_a_share_of_the_effects():
    trial = make_trial(200_000, outcome="continuous", heterogeneity=0.5, random_state=0)
    noise = np.random.default_rng(0).standard_normal(200_000)
    score = trial.effect + 0.5 * noise  # half of its variance is that of the effects
    plan = plan_trial(base_rate=0.1, effect=0.03, outcome_sd=1.1, effect_sd=0.5, explained=0.5)
    assert plan.assumed.gain == pytest.approx(experiment._gain(trial.effect, score), rel=0.01)


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
    at_best = plan_trial(**given, treated_share=best).statements[0]
    other = plan_trial(**given, treated_share=treated).statements[0]
    assert at_best.variance <= other.variance * (1 + 1e-9)


def test_what_makes_a_trial_larger():
    rows = plan_trial(**GIVEN).rows
    for more in (
        {"treated_share": 0.9}, {"design_effect": 2.0}, {"gain": 0.005}, {"power": 0.9},
        {"level": 0.99}, {"cross_fitted": True}, {"base_rate": 0.2},
    ):  # fmt: skip
        assert plan_trial(**(GIVEN | more)).rows > 1.1 * rows, more
    plan = plan_trial(**GIVEN, other_gain=0.004, agreement=0.9, share=0.3, n_rows=5_000)
    gain, difference, share = plan.statements
    assert share.rows(0.8) < gain.rows(0.8) < difference.rows(0.8)
    assert share.kinds == ("interval",)
    closer = plan_trial(**GIVEN, other_gain=0.004, agreement=0.5).statements[1]
    assert closer.variance > difference.variance
    assert [line["by"] for line in plan.table()] == [*("interval", "certificate") * 2, "interval"]
    assert plan.to_dict()["statements"][0]["power"] == pytest.approx(gain.power(5_000))
    worse = plan_trial(**GIVEN, other_gain=0.007)
    assert worse.statements[1].rows(0.8) is None
    assert plan_trial(**GIVEN, cross_fitted=True).statements[0].kinds == ("interval",)


def test_what_rows_of_the_past_tell():
    rng = np.random.default_rng(0)
    y, home = (rng.random(2_000) < 0.3).astype(float), np.repeat(np.arange(500), 4)
    alone = past_rows(y, home)
    assert alone["base_rate"] == pytest.approx(0.3, abs=0.04)
    assert alone["outcome_sd"] is None
    assert alone["design_effect"] == pytest.approx(1, abs=0.25)
    alike = past_rows(y[home], home)
    assert alike["design_effect"] == pytest.approx(4, abs=1e-9)
    score = y + rng.normal(size=2_000)
    rank = (score.argsort().argsort() + 0.5) / 2_000
    scored = past_rows(y, home, score=score)
    assert scored["base_gain"] == pytest.approx(np.cov(y, rank, ddof=0)[0, 1])
    # Scores that differ within homes: what is alike in the outcome counts for less.
    mixed = past_rows(y[home], home, score=rng.normal(size=2_000))
    assert 1 <= mixed["design_effect"] < 2.5
    money = past_rows(10 * y + rng.random(2_000))
    assert money["outcome_sd"] == pytest.approx(4.6, abs=0.3)
    with pytest.raises(ValueError, match="different outcomes, got 1 in all 5 rows"):
        past_rows(np.ones(5))


@pytest.fixture(scope="module")
def model():
    return fit_trial_model(trial_table(2_000, random_state=3), **NAMES, model="tm", id="person")


def test_what_a_model_tells(model):
    plan = plan_trial(**model_evidence(model), cross_fitted=True)
    facts = model.evidence
    width = facts["auuc"]["gain_upper"] - facts["auuc"]["gain_lower"]
    assert plan.statements[0].width(facts["rows"]["n_rows"]) == pytest.approx(width)
    assert f"{facts['auuc']['gain']:.5f}" in plan.notes[0]


def test_a_gain_that_is_not_told_from_0_is_said(model):
    auuc = model.evidence["auuc"]
    for low, words in (
        (0.001, "uncertain as such; plan with 0.00100, the lower end, to be safe."),
        (-0.001, "not told from 0 (interval -0.00100 to +0.09000): there may be nothing to show"),
        (None, "uncertain as such: it has no interval."),
    ):
        ends = {"gain_lower": low, "gain_upper": None if low is None else 0.09}
        own = replace(model, evidence=model.evidence.with_facts(auuc=auuc | ends))
        assert words in model_evidence(own)["notes"][0]


def test_a_model_that_is_no_pilot(model):
    nothing = model.evidence.with_facts(auuc=model.evidence["auuc"] | {"gain": -0.001})
    with pytest.raises(ValueError, match="should gain over a random order"):
        model_evidence(replace(model, evidence=nothing))
    failed = model.evidence.with_facts(failed_check="It failed.")
    with pytest.raises(ValueError, match=r"of a sound trial\. It failed"):
        model_evidence(replace(model, evidence=failed))


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"gain": None}, "gain, or effect_sd with explained, should be given, got neither"),
        ({"gain": 0.0}, "gain should be a positive number"),
        ({"explained": 0.5}, "got both"),
        ({"gain": None, "effect_sd": 0.1, "explained": 1.5}, "explained should be a share"),
        ({"base_rate": 1.2}, "base_rate should lie between 0 and 1, got 1.2"),
        ({"effect": -0.2}, r"base_rate \+ effect should lie between 0 and 1"),
        ({"effect": "x"}, "effect should be a number"),
        (
            {"effect": 1e300, "outcome_sd": 1.0},
            "effect should be from 0 to 1e.50 in size",
        ),
        ({"outcome_sd": 1e-300}, "outcome_sd should be from 1e-50 to"),
        ({"other_gain": 1e300, "outcome_sd": 1.0}, "other_gain should be from 0 to"),
        ({"gain": 0.3}, "gain should be such as outcomes can have"),
        ({"treated_share": 0}, "treated_share should be a number strictly between"),
        ({"power": 1.0}, "power should be"),
        ({"n_rows": 1}, "n_rows should be"),
        ({"other_gain": 0.001, "agreement": 1.0}, "agreement should be a rank correlation"),
        ({"share": 1.0}, "share should be a number strictly between"),
        ({"share": 1e-300}, "share should be at least 0.0001"),
        ({"design_effect": 0}, "design_effect should be a positive number"),
    ],
)
def test_bad_input(more, told):
    with pytest.raises(ValueError, match=told):
        plan_trial(**(GIVEN | more))


def test_the_picture_has_a_line_for_each_verdict():
    plan = plan_trial(**GIVEN, share=0.3, n_rows=10_000)
    axes = plan.draw().axes[0]
    labels = [line.get_label() for line in axes.get_lines()]
    assert sum("by interval" in label for label in labels) == 2
    assert sum("by certificate" in label for label in labels) == 1
    for line in axes.get_lines()[:2]:
        assert (np.diff(line.get_ydata()) >= -0.05).all()


def test_of_several_arms_each_is_compared_with_the_control():
    """By hand: the rows of one arm and the control, at a corrected level."""
    named = {"base_rate": 0.1, "effect": 0.03, "gain": 0.006}
    three = plan_trial(**named, n_arms=3, treated_share=0.6, share=0.3)
    alone = plan_trial(
        **named, treated_share=1 / 3, level=1 - 0.05 / 3, delta=0.05 / 3, share=0.3
    )  # of .6 of all rows: .4 control and .2 of the arm
    for ours, theirs in zip(three.table(), alone.table(), strict=True):
        assert ours["rows"] == pytest.approx(theirs["rows"] / 0.6, rel=1e-4)
        if ours["by"] == "interval":
            assert ours["width"] == pytest.approx(theirs["width"], rel=1e-3)
    assert three.treated_share == pytest.approx(0.6)
    assert three.statements[0].power(20_000) == pytest.approx(alone.statements[0].power(12_000))
    assert "Each of the 3 arms" in three.notes[-1]
    assert "`fit` certifies each arm by itself, at the whole delta." in three.notes[-1]
    assert three.to_dict()["n_arms"] == 3
    # As many controls as the root of the number of arms says: Dunnett's rule.
    best = three.best_share
    assert 1 - best == pytest.approx(1 / (1 + np.sqrt(3)), abs=0.05)
    rows = {
        share: plan_trial(**named, n_arms=3, treated_share=share).rows
        for share in (best - 0.1, best, best + 0.1)
    }
    assert rows[best] == min(rows.values())


def test_one_arm_is_as_it_was():
    named = {"base_rate": 0.1, "effect": 0.03, "gain": 0.006, "treated_share": 0.3}
    assert plan_trial(**named).table() == plan_trial(**named, n_arms=1).table()
    assert plan_trial(**named).assumed.treated_share == pytest.approx(0.3)
    with pytest.raises(ValueError, match="n_arms should be"):
        plan_trial(**named, n_arms=0)


def test_tiny_outcomes_of_the_past_have_a_design_effect():
    y, home = np.array([0.0, 0.0, 1.0, 1.0, 0.0, 0.0]), np.repeat([0, 1, 2], 2)
    usual, tiny = (past_rows(unit * y, home, None)["design_effect"] for unit in (1.0, 1e-200))
    assert tiny == pytest.approx(usual)


@pytest.fixture(scope="module")
def arms_model():
    return fitted(arms_table(6_000), cost=COSTS, budget=0.5)


@pytest.mark.gate
def test_a_model_of_several_arms_is_a_pilot(arms_model):
    plan = plan_arms(arms_model, n_rows=5_000, share=0.3)
    names = [one.name for one in plan.statements]
    assert names[:4] == [
        "mail: better than random", "mail: treating the top 30% is better than nobody",
        "phone: better than random", "phone: treating the top 30% is better than nobody",
    ]  # fmt: skip
    assert names[4] == "the policy better than phone alone by its ranking, at a budget of 0.42"
    assert names[5] == "the policy better than phone for random people, at a budget of 0.42"
    assert "at a budget of 0.42, the nearest to 0.5 that the model tells, on" in plan.notes[2]
    # Each arm is as its own model says, of its part of the rows, at a level that is divided.
    counts = arms_model.policy["rows"]
    known = model_evidence(arms_model.models["mail"])
    alone = plan_trial(**known, level=0.975, delta=0.025).statements[0]
    part = (counts["mail"] + counts["none"]) / sum(counts.values())
    assert plan.statements[0].power(4_000) == pytest.approx(alone.power(4_000 * part))
    assert plan.treated_share == pytest.approx(1 - counts["none"] / sum(counts.values()))
    assert plan.best_share is None
    assert plan.to_dict()["arms"]["phone"]["gain"] == plan.arms["phone"].gain
    twice = plan_arms(arms_model, cross_fitted=True).statements[-1]
    assert twice.variance == pytest.approx(2 * plan.statements[-1].variance)
    with pytest.raises(ValueError, match="budget should be at most"):
        plan_arms(arms_model, budget=50.0)
    unsound = replace(arms_model, policy=arms_model.policy | {"failed_check": "no trial"})
    with pytest.raises(ValueError, match="the model should be of a sound trial"):
        plan_arms(unsound)
    without = replace(arms_model, policy=arms_model.policy | {"certificate": None})
    assert len(plan_arms(without).statements) == 2
    assert "Pass a budget per person" in " ".join(plan_arms(without).notes)


@pytest.mark.gate
def test_a_policy_that_is_not_told_from_an_arm_alone_is_said(arms_model):
    (curve,) = arms_model.policy["curves"]
    known = [note for note in plan_arms(arms_model).notes if note.startswith("The policy gained")]
    assert all("and this is uncertain as such; plan with 0.0" in note for note in known)
    n = len(curve["budget"])
    doubtful = {
        kind: own | {"lower": [-0.01] * n, "upper": [0.2] * n}
        for kind, own in curve["differences"].items()
    }
    policy = arms_model.policy | {"curves": [curve | {"differences": doubtful}]}
    plan = plan_arms(replace(arms_model, policy=policy))
    notes = [note for note in plan.notes if note.startswith("The policy gained")]
    assert len(notes) == len(known) == 2
    assert all("not told from 0 (interval -0.01000 to +0.20000)" in note for note in notes)


@pytest.mark.gate
def test_an_arm_that_gains_nothing_is_told_and_left_out(arms_model):
    model = arms_model.models["mail"]
    flat = model.evidence.with_facts(auuc=model.evidence["auuc"] | {"gain": -0.01})
    models = arms_model.models | {"mail": replace(model, evidence=flat)}
    plan = plan_arms(replace(arms_model, models=models))
    assert list(plan.arms) == ["phone"]
    assert "mail: its ranking gained nothing over a random order (-0.01000)" in plan.notes[0]
    with pytest.raises(ValueError, match="an arm should gain over a random order, got none"):
        plan_arms(replace(arms_model, models={"mail": models["mail"]}))


@pytest.mark.gate
def test_the_power_of_the_policy_is_that_of_simulated_trials(arms_model):
    """New trials that the model of before ranks: errors, and how often the difference is shown."""
    (single,) = (one for one in plan_arms(arms_model).statements if "alone" in one.name)
    arm = arms_model.labels.index(single.name.split()[4])
    budget = float(single.name.split()[-1])
    n, trials, found = 1_200, 150, []
    cost = np.array(list(COSTS.values()))
    for seed in range(trials):
        table = arms_table(n, 10_000 + seed)
        uplift = arms_model.uplift(table)
        alone = np.full(uplift.shape, -1.0)
        alone[:, arm] = uplift[:, arm]
        one = policy_difference(
            table["visit"], uplift, alone, treatment=table["arm"], control="none",
            arms=arms_model.labels, cost=np.tile(cost, (n, 1)), budget=[budget],
        )  # fmt: skip
        found.append((one.difference[0], one.lower[0] > 0))
    values, shown = np.array(found).T
    error = np.sqrt(single.variance / (single.part * n))
    # Known to 1 / sqrt(2 trials) by the simulation, and to some per cent by the model's own rows.
    assert values.std() == pytest.approx(error, rel=0.1 + 3 / np.sqrt(2 * trials))
    power = replace(single, value=values.mean()).power(n)
    print(power, shown.mean(), error, values.std(), single.value, values.mean())
    assert abs(shown.mean() - power) <= 0.05 + 3 * np.sqrt(power * (1 - power) / trials)
    assert abs(single.value - values.mean()) <= 4 * error * np.sqrt(n / 6_000)


def test_the_design_effect_of_a_gain_does_not_depend_on_the_direction_of_the_outcome():
    rng = np.random.default_rng(0)
    groups, score = np.repeat(np.arange(600), 20), np.repeat(rng.random(600), 20)
    y = (rng.random(12_000) < 0.9).astype(float)
    found = [past_rows(own, score=score, groups=groups)["design_effect"] for own in (y, 1 - y)]
    assert found[0] == pytest.approx(found[1])
    assert found[0] < 1.5
