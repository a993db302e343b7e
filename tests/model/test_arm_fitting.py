"""Fitting several arms: folds, further rows, labels, what names and order must not change."""

import numpy as np
import pandas as pd
import pytest
from tests.model.arms_table import NAMES, arms_table, fitted, unequal_arms

from auucmax.data import FailedCheckError
from auucmax.model import ArmLimits, fit_arms_model, target_arms
from auucmax.model.arm_fitting import _ranks_among
from auucmax.model.by_name import makers
from auucmax.model.crossfit import Recipe, TableRows, cross_fit
from auucmax.model.judging import ranks_within


def test_further_rows_are_scored_by_the_models_of_their_folds_and_chunks(arms_model):
    table = arms_table(1_500, random_state=1)
    recipe = Recipe("tm", "0" * 16, 0, 0.0, 5)
    mail, phone = (
        TableRows(table, model.columns, recipe.key) for model in arms_model.models.values()
    )
    others = phone.of_arm(True)
    found = cross_fit(mail, makers(["tm"], recipe), recipe, with_chunks=True, also=[others])
    fold = recipe.folds(others.keys)
    for k in range(5):
        for place, keep in ((0, recipe.outside(k)), (1, recipe.before(k))):
            if place == 1 and k == 0:
                assert np.isnan(found.scores[1][1, fold == 0]).all()
                continue
            apart = mail.fit({"tm": makers(["tm"], recipe)["tm"]()}, keep)
            expected = others.scores(apart, recipe.inside(k))[0]
            np.testing.assert_allclose(found.scores[1][place, fold == k], expected, rtol=1e-9)
    alone = cross_fit(mail, makers(["tm"], recipe), recipe, with_chunks=True)
    np.testing.assert_array_equal(alone.scores[0], found.scores[0])


def test_a_label_control_is_the_control():
    table = arms_table(1_500)
    with pytest.raises(ValueError, match=r"'mail', 'none', 'phone'; got None. Pass control="):
        fit_arms_model(table, treatment="arm", outcome="visit", id="person", model="tm")
    table["arm"] = table["arm"].replace({"none": "control"})
    model = fit_arms_model(table, treatment="arm", outcome="visit", id="person", model="tm")
    assert (model.control, model.labels) == ("control", ["mail", "phone"])


def test_ranks_among_others_are_ranks_within_a_fold():
    score = np.array([3.0, 1.0, 1.0, 2.0, 7.0])
    one_fold = np.zeros(5, dtype=np.int64)
    np.testing.assert_allclose(_ranks_among(score, score), ranks_within(score, one_fold))


@pytest.mark.gate
def test_names_and_order_of_arms_and_rows_change_nothing(arms_model):
    table = arms_table()
    names = {"mail": "z-mail", "phone": "a-phone", "none": "m-none"}
    other = table.assign(arm=table["arm"].map(names)).sample(frac=1, random_state=3)
    cost = {"z-mail": 1.0, "a-phone": 2.0}
    again = fitted(other, control="m-none", cost=cost, budget=0.5)
    assert again.labels == ["a-phone", "z-mail"]
    np.testing.assert_allclose(
        again.uplift(table)[:, ::-1], arms_model.uplift(table), rtol=1e-6, atol=1e-9
    )
    for one, two in zip(arms_model.policy["curves"], again.policy["curves"], strict=True):
        np.testing.assert_allclose(one["budget"], two["budget"])
        np.testing.assert_allclose(one["policy"]["gain"], two["policy"]["gain"], atol=1e-6)
        shares = np.array(two["policy"]["shares"])[:, ::-1]
        np.testing.assert_allclose(one["policy"]["shares"], shares, atol=2e-3)
        assert names[one["everybody"]["arm"]] == two["everybody"]["arm"]


def test_what_is_known_of_the_policy(arms_model):
    """Mail for the young and the phone for the old is better than either, at every budget."""
    (curve,) = arms_model.policy["curves"]
    assert curve["costs"] == {"mail": 1.0, "phone": 2.0}
    assert curve["policy"]["gain"][-1] == pytest.approx(0.3, abs=0.06)
    for name in ("random", "single", "everybody"):
        assert curve["differences"][name]["area_lower"] > 0
    gains = [curve["singles"][label]["gain"][-1] for label in ("mail", "phone")]
    assert max(gain for gain in gains if gain) < curve["policy"]["gain"][-1] - 0.05
    found = arms_model.policy["certificate"]
    assert found["gain_lower_bound"] > 0.02
    assert found["spent"] == pytest.approx(0.5, abs=0.1)
    assert "At a budget of 0.5 per person" in found["text"]


@pytest.mark.gate
def test_arms_of_equal_effect_share():
    table = arms_table(4_000, random_state=2)
    rng = np.random.default_rng(0)
    old = table["age"] >= 45
    effect = np.where(table["arm"] == "none", 0.0, 0.3 * old)
    table["visit"] = (rng.random(len(table)) < 0.2 + effect).astype(int)
    shares = np.array(fitted(table).policy["curves"][0]["policy"]["shares"])
    part = shares[len(shares) // 2] / shares[len(shares) // 2].sum()
    assert 0.15 < part[0] < 0.85


@pytest.mark.gate
def test_labels_of_few_rows_are_left_out_and_said():
    table = arms_table(1_500)
    table.loc[table.index[:10], "arm"] = "visit"
    with pytest.warns(UserWarning, match="at least 40 rows, got 'visit' 10: left out"):
        model = fitted(table)
    assert model.labels == ["mail", "phone"]
    assert any("left out" in text for text in model.summary["warnings"])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"control": "nobody"}, "control should be one of the labels of 'arm'"),
        ({"cost": {"mail": 1, "fax": 2}}, "cost should name arms, 'mail', 'phone'; got 'fax'"),
        ({"cost": {"mail": 1}}, "that of every arm, got none for 'phone'"),
        ({"cost": {"mail": -1, "phone": 1}}, "cost of 'mail' should be a number, 0 or more"),
        ({"budget": -1}, "budget should be a number, 0 or more"),
        ({"treatment": "town", "control": "Oslo", "ignore": ["arm"], "outcome": "x"}, "'x'"),
    ],
)
def test_bad_options(options, words):
    with pytest.raises(ValueError, match=words):
        fitted(arms_table(600), **options)


def test_one_arm_is_no_trial_of_several():
    table = arms_table(600).query("arm != 'phone'")
    with pytest.raises(ValueError, match=r"two arms of .* beside the control 'none', got 'mail'"):
        fit_arms_model(table, **NAMES, model="tm")


@pytest.mark.gate
def test_without_a_budget_nothing_is_certified_and_said():
    model = fitted(arms_table(1_500))
    assert model.policy["certificate"] is None
    assert "pass budget=" in model.policy["notes"][-1]
    assert len(model.policy["curves"]) == 1


@pytest.mark.gate
def test_arms_that_cost_nothing():
    model = fitted(arms_table(1_500), cost={"mail": 0, "phone": 0})
    (free,) = model.policy["curves"]
    assert free["budget"] == [0.0]
    (people,) = fitted(arms_table(1_500)).policy["curves"]
    assert free["policy"]["gain"][0] == pytest.approx(people["policy"]["gain"][-1], abs=1e-9)


@pytest.mark.gate
def test_random_outcomes_are_not_certified():
    """Arms that do nothing: no gain over random people is certified, nor any gain."""
    above = np.zeros(2)
    for seed in range(12):
        table = arms_table(1_500, random_state=seed, effects=(0.0, 0.0))
        found = fitted(table, budget=0.5, cost={"mail": 1, "phone": 1}).policy["certificate"]
        above += [found["gain_lower_bound"] > 0, found["random_lower_bound"] > 0]
    assert above.max() <= 3  # 5% of 12, and three standard errors


@pytest.mark.gate
def test_a_failed_check_is_said_and_nothing_certified():
    table = arms_table(1_500)
    known = table["arm"].map({"none": 0.0, "mail": 1.0, "phone": 1.0})
    table["leak"] = known + np.random.default_rng(0).normal(0, 0.2, len(table))
    with pytest.raises(FailedCheckError):
        fitted(table)
    model = fitted(table, despite_check=True, budget=0.5)
    assert model.warning is not None
    assert model.policy["failed_check"] is not None
    assert model.policy["certificate"] is None
    people = table.drop(columns=["arm", "visit"])
    assert target_arms(model, people, share=0.3).expected is None
    with pytest.raises(ValueError, match="no profit is known"):
        target_arms(model, people, value=2, limits=ArmLimits(cost={"mail": 1, "phone": 1}))


@pytest.mark.gate
def test_rows_of_a_household_are_judged_together():
    """Copies of people in households of three: intervals are wider than if they were people."""
    table = arms_table(1_500)
    copies = pd.concat([table] * 3, ignore_index=True).assign(home=lambda t: t["person"])
    copies["person"] = [f"c{k}" for k in range(len(copies))]
    together = fitted(copies, groups="home", budget=0.5)
    alone = fitted(table)
    one, other = (m.policy["curves"][0]["policy"] for m in (together, alone))
    assert one["gain"][-1] == pytest.approx(other["gain"][-1], abs=0.02)
    assert one["standard_error"][-1] == pytest.approx(other["standard_error"][-1], rel=0.15)
    assert together.policy["certificate"] is None
    assert "rows come in groups" in together.policy["notes"][-1]


@pytest.mark.gate
def test_known_chances_of_several_arms_give_effects_on_all_people():
    """The phone helps nobody; among the rows that got it, many more visit."""
    table = unequal_arms()
    with pytest.raises(FailedCheckError, match="treatment depends on"):
        fitted(table)
    model = fitted(table, propensity="chance", cost={"mail": 1, "phone": 1}, budget=0.3)
    arms = model.evidence.arms
    assert model.columns.propensity == (("mail", "chance mail"), ("phone", "chance phone"))
    for label, truth in (("mail", 0.3 * 27 / 62), ("phone", 0.0)):
        effect = arms[label]["effect"]
        assert abs(effect["estimate"] - truth) < 4 * effect["standard_error"]
        assert "known chance" in arms[label]["certificate"]["text"]
    raw = table.groupby("arm")["visit"].mean()
    assert raw["phone"] - raw["none"] > 10 * arms["phone"]["effect"]["standard_error"] / 2
    curve = model.policy["curves"][0]["policy"]
    assert curve["shares"][10][0] > 5 * curve["shares"][10][1]  # people get the mail, not the phone
    assert "known chances by design" in model.policy["certificate"]["text"]
    assert 0 < model.policy["certificate"]["gain_lower_bound"] < 0.3 * 27 / 62
    assert any("are taken from 'chance mail', 'chance phone'" in n for n in model.policy["notes"])
    named = fitted(
        table.rename(columns={"chance mail": "m", "chance phone": "p"}),
        propensity={"mail": "m", "phone": "p"}, cost={"mail": 1, "phone": 1}, budget=0.3,
    )  # fmt: skip
    assert named.policy["curves"] == model.policy["curves"]


@pytest.mark.gate
def test_the_same_chances_for_all_change_no_effect():
    table = arms_table(1_500)
    same = fitted(table.assign(m=1 / 3, p=1 / 3), propensity={"mail": "m", "phone": "p"})
    plain = fitted(table)
    for label, own in plain.evidence.arms.items():
        effect = same.evidence.arms[label]["effect"]
        for name in ("estimate", "standard_error"):
            assert effect[name] == pytest.approx(own["effect"][name])
    curves = [one.policy["curves"][0]["policy"] for one in (plain, same)]
    # An outcome model takes other noise away.
    away = abs(curves[0]["gain"][-1] - curves[1]["gain"][-1])
    assert away < 2 * curves[0]["standard_error"][-1]
    assert curves[1]["standard_error"][-1] < 1.1 * curves[0]["standard_error"][-1]


def test_chances_of_several_arms_that_are_none_are_refused():
    table = arms_table(600).assign(m=0.4, p=0.6)
    named = {"mail": "m", "phone": "p"}
    with pytest.raises(ValueError, match="should add up to less than 1 in every row"):
        fitted(table, propensity=named)
    with pytest.raises(ValueError, match="column with the chance of each arm, got 'm'"):
        fitted(table, propensity="m")
    with pytest.raises(FailedCheckError, match="contradict the chances"):
        fitted(arms_table().assign(m=0.1, p=0.8), propensity=named)
    few = table.assign(arm=table["arm"].where(table.index > 20, "gift"), g=0.1, p=0.4)
    with pytest.raises(ValueError, match="with propensity each arm should have at least 40 rows"):
        fitted(few, propensity=named | {"gift": "g"})
