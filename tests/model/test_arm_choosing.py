"""Who of a table gets which arm: money, limits, lists, what to expect."""

import json
from copy import copy
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from tests.model.arms_table import COSTS, arms_table

from auucmax.model import ArmLimits, target_arms
from auucmax.model.arm_choosing import LARGE_SHIFT, ExpectedGain
from auucmax.model.choosing import FAR
from auucmax.model.reasons import others_of, reasons_of
from auucmax.targeting import choose_arms

PRICED = ArmLimits(cost=COSTS)


@pytest.fixture(scope="module")
def new():
    people = arms_table(1_000, random_state=9).drop(columns=["arm", "visit"])
    rng = np.random.default_rng(0)
    return people.assign(
        far=rng.random(1_000) < 0.5,
        price_mail=1.0,
        price_phone=rng.integers(1, 4, 1_000).astype(float),
    )


def test_the_list_is_the_best_choice_of_arms(arms_model, new):
    found = target_arms(arms_model, new, budget=700, limits=PRICED)
    choice = choose_arms(arms_model.uplift(new), cost=[1.0, 2.0], budget=700)
    assert found.choice.counts == choice.counts
    assert min(choice.counts) > 0
    assert found.choice.cost == choice.cost <= 700
    labels = np.array(["none", "mail", "phone"], dtype=object)
    own = pd.Series(labels[choice.arm + 1], index=new["person"])
    people = found.people.set_index("person")
    assert (people["arm"] == own[people.index]).all()
    assert list(found.people) == ["person", "rank", "arm", "uplift mail", "uplift phone", "cost"]
    # Without a cost there is no column of it.
    assert "cost" not in target_arms(arms_model, new, share=0.3).people
    treated = found.chosen()
    assert (treated["arm"] != "none").all()
    assert len(treated) == choice.n_treated
    assert treated["cost"].sum() == pytest.approx(choice.cost)
    given = np.where(treated["arm"] == "mail", treated["uplift mail"], treated["uplift phone"])
    assert (np.diff(given / treated["cost"]) <= 1e-12).all()
    assert given.sum() == pytest.approx(choice.uplift)


def test_the_expected_gain_is_that_of_the_curve(arms_model, new):
    (curve,) = arms_model.policy["curves"]
    for budget in (300, 700):
        found = target_arms(arms_model, new, budget=budget, limits=PRICED, value=10)
        at = found.choice.cost / 1_000
        assert found.expected.gain / 1_000 == pytest.approx(
            np.interp(at, curve["budget"], curve["policy"]["gain"])
        )
        assert found.expected.lower < found.expected.gain < found.expected.upper
        profit = 10 * found.expected.lower - found.choice.cost
        assert found.profit.lower == pytest.approx(profit)
        # Other units of money are the same policy.
        cents = ArmLimits(cost={"mail": 100, "phone": 200})
        again = target_arms(arms_model, new, budget=100 * budget, limits=cents)
        assert again.expected == pytest.approx(found.expected)
        assert found.people["arm"].equals(again.people["arm"])


def test_a_share_is_of_people_whatever_they_cost(arms_model, new):
    found = target_arms(arms_model, new, share=0.3, limits=PRICED)
    assert found.choice.n_treated == 300
    assert found.expected is None
    assert "the trial has judged the policy by money" in found.unknown
    assert "at other costs" not in found.unknown
    assert found.choice.cost == found.choice.counts[0] + 2 * found.choice.counts[1]
    assert found.assumed is None


def test_a_budget_is_spent_at_the_costs_of_the_fit(arms_model, new):
    found = target_arms(arms_model, new, budget=300)
    priced = target_arms(arms_model, new, budget=300, limits=PRICED)
    assert found.people.equals(priced.people)
    assert found.expected == priced.expected
    assert found.has_cost
    assert found.assumed == "Costs are those that the model was fitted with: mail 1, phone 2."
    without = copy(arms_model)
    curve = arms_model.policy["curves"][0] | {"costs": dict.fromkeys(arms_model.labels, 1.0)}
    without.policy = arms_model.policy | {"curves": [curve]}
    for money in ("budget", "value"):
        with pytest.raises(ValueError, match=f"a {money} should come with the cost of each arm"):
            target_arms(without, new, **{money: 300})
    assert target_arms(without, new, share=0.3, value=8).profit is None
    assert target_arms(without, new, budget=300, limits=PRICED).people.equals(priced.people)


def test_budgets_of_nothing_and_of_everything(arms_model, new):
    nobody = target_arms(arms_model, new, budget=0, limits=PRICED)
    assert nobody.choice.n_treated == 0
    assert len(nobody.chosen()) == 0
    assert tuple(nobody.expected) == (0, 0, 0)
    assert "does not pay for one person" in nobody.nobody
    all_that_helps = target_arms(arms_model, new, budget=1e9, limits=PRICED)
    helped = (arms_model.uplift(new).max(axis=1) > 0).sum()
    assert all_that_helps.choice.n_treated == helped
    free = target_arms(arms_model, new, budget=0, limits=ArmLimits(cost={"mail": 0, "phone": 0}))
    assert free.choice.n_treated == helped
    best = arms_model.uplift(new).argmax(axis=1)
    assert free.choice.counts == tuple(np.bincount(best[arms_model.uplift(new).max(axis=1) > 0]))


def test_a_choice_is_advice_only_where_its_gain_or_profit_is_shown(arms_model, new):
    good = target_arms(arms_model, new, budget=700, limits=PRICED)
    assert good.decision.state == "shown"
    assert str(good).startswith("Treat ")
    value = good.choice.cost / good.expected.upper
    lost = target_arms(arms_model, new, budget=700, value=value, limits=PRICED)
    assert lost.nobody or lost.decision.state in {"loss", "not shown"}
    free = np.array(arms_model.evidence["curves"][-1]["policy"]["simultaneous_lower"], dtype=float)
    assert np.nanmax(free) > 0
    limited = target_arms(arms_model, new, budget=700, limits=replace(PRICED, at_most={"mail": 9}))
    assert str(limited).startswith("For these people a gain is not shown. If you treat ")


def test_harm_and_doubt_are_said_first_by_the_rule_of_the_report(arms_model, new):
    def with_ends(lower, upper):
        other, facts = copy(arms_model), json.loads(json.dumps(arms_model.policy))
        for curve in facts["curves"]:
            n = len(curve["budget"])
            curve["policy"]["simultaneous_lower"] = [lower] * n
            curve["policy"]["simultaneous_upper"] = [upper] * n
        other.policy = facts
        return str(target_arms(other, new, budget=700, limits=PRICED))

    assert with_ends(-0.2, -0.1).startswith("Treating these people is shown to do harm: treat nob")
    assert with_ends(-0.2, 0.1).startswith("At no budget is the gain above zero beyond doubt. If")


def test_value_leaves_out_what_is_not_worth_its_cost(arms_model, new):
    found = target_arms(arms_model, new, value=8, limits=PRICED)
    uplift = arms_model.uplift(new)
    worth = 8 * uplift - [1, 2]
    assert found.choice.n_treated == (worth.max(axis=1) > 0).sum()
    assert found.profit is not None
    of_fit = target_arms(arms_model, new, value=8)
    assert of_fit.people.equals(found.people)
    assert of_fit.profit == found.profit
    assert of_fit.assumed.startswith("Costs are those that the model was fitted with")


def test_limits_of_arms_and_of_people(arms_model, new):
    limits = ArmLimits(
        cost=COSTS, at_most={"mail": 50}, at_least={"phone": 120}, forbid={"phone": "far"}
    )
    found = target_arms(arms_model, new, budget=400, limits=limits)
    mail, phone = found.choice.counts
    assert mail <= 50
    assert phone >= 120
    assert found.choice.cost <= 400
    far = new.set_index("person")["far"]
    called = found.chosen().query("arm == 'phone'")["person"]
    assert not far[called].any()
    assert found.expected is None
    assert "another one" in found.unknown


def test_costs_of_single_people(arms_model, new):
    columns = {"mail": "price_mail", "phone": "price_phone"}
    found = target_arms(arms_model, new, budget=300, limits=ArmLimits(cost_column=columns))
    cost = new[["price_mail", "price_phone"]].to_numpy()
    choice = choose_arms(arms_model.uplift(new), cost=cost, budget=300)
    assert found.choice.counts == choice.counts
    assert found.expected is None
    assert target_arms(
        arms_model, new, budget=300, limits=ArmLimits(cost={"mail": 1, "phone": 3})
    ).unknown.startswith("What this brings has no interval: the trial has judged the policy at")


def test_people_who_opted_out_are_left_out(arms_model, new):
    out = new["person"].head(100)
    found = target_arms(arms_model, new, share=0.5, exclude=out)
    assert len(found.people) == 900
    assert not found.people["person"].isin(out).any()
    assert found.excluded.n_people == 100
    assert found.choice.n_treated == 450


def test_people_of_whom_other_parts_get_the_arms_have_no_interval(arms_model, new):
    some = new[(new["age"] < 45) | (np.random.default_rng(0).random(len(new)) < 0.4)]
    with pytest.warns(UserWarning, match="scores of the cohort should .*, of the arm 'phone', a"):
        found = target_arms(arms_model, some, budget=1.2 * len(some), limits=PRICED)
    # Their scores are others', but not so far that the sum of their uplifts tells nothing.
    assert LARGE_SHIFT < max(own.distance for own in found.shifts.values()) < FAR
    assert not found.is_unlike
    assert found.expected is None
    assert "other parts of these people get the arms" in found.unknown


def test_people_drawn_from_the_trial_are_like_those_of_it(arms_model):
    chosen = []
    for seed in range(40):  # any warning is an error
        n = (30, 300, 1_000)[seed % 3]
        people = arms_table(n, random_state=100 + seed).drop(columns=["arm", "visit"])
        chosen.append(target_arms(arms_model, people, budget=0.7 * n, limits=PRICED))
    assert not any(found.is_unlike for found in chosen)
    # Arms are compared together: chance is that of both, at 1 in 1,000.
    rows = arms_model.models["mail"].evidence.expected.scores.n_rows
    expected = np.sqrt(np.log(2 * 2 / 0.001) / 2 * (1 / rows + 1 / 1_000))
    assert chosen[2].shifts["mail"].by_chance == pytest.approx(expected)


@pytest.fixture(scope="module")
def bottom(arms_model, new):
    """Those whom the arms help least: as many parts of them get each arm as of the trial."""
    best = arms_model.uplift(new).max(axis=1)
    return new[best < np.quantile(best, 0.3)]


@pytest.mark.filterwarnings("ignore:the scores of the cohort should")
@pytest.mark.parametrize("options", [{"budget": 210}, {"budget": 210, "value": 30}, {"share": 0.5}])
def test_people_unlike_those_of_the_trial_are_promised_nothing(arms_model, bottom, options):
    found = target_arms(arms_model, bottom, limits=PRICED, **options)
    assert found.choice.n_treated > 0
    assert found.is_unlike
    assert found.expected is found.profit is None
    far = max(found.shifts, key=lambda label: found.shifts[label].distance)
    words = "not known: they are not like those of the trial. The shares of people above a score"
    assert f"{words} of the arm {far!r} differ by up to {found.shifts[far].distance:.0%} (" in (
        found.unknown
    )
    assert not found.decision.is_good
    assert str(found).startswith("For these people a")
    assert found.unknown in str(found)
    told = found.to_dict()
    assert json.loads(json.dumps(told, allow_nan=False)) == told
    assert told["unknown"] == found.unknown
    assert told["shifts"][far]["distance"] >= FAR


def test_of_few_people_chance_explains_what_differs(arms_model, bottom):
    found = target_arms(arms_model, bottom.head(10), budget=7, limits=PRICED)
    assert max(own.distance for own in found.shifts.values()) > FAR
    assert not found.is_unlike


def test_nobody_is_promised_nothing_whoever_they_are(arms_model, bottom):
    found = target_arms(arms_model, bottom, budget=0, limits=PRICED)
    assert tuple(found.expected) == (0, 0, 0)


@pytest.mark.filterwarnings("ignore:the scores of the cohort should")
def test_scores_of_an_arm_that_nobody_gets_do_not_count(arms_model, new):
    """The trial had other scores of the phone."""
    phone = arms_model.models["phone"]
    known = phone.evidence.expected
    known = replace(known, scores=replace(known.scores, score=known.scores.score - 10))
    phone = replace(phone, evidence=replace(phone.evidence, expected=known))
    other = replace(arms_model, models=arms_model.models | {"phone": phone})
    found = target_arms(other, new, budget=700, limits=PRICED)
    assert found.is_unlike
    assert "above a score of the arm 'phone' differ by up to 100%" in found.unknown
    # Nobody gets it for less money, neither here nor in the trial; or some of the trial do.
    cheap, near = (target_arms(other, new, budget=money, limits=PRICED) for money in (300, 400))
    assert cheap.choice.counts[1] == near.choice.counts[1] == 0
    assert (cheap.is_unlike, near.is_unlike) == (False, True)
    assert cheap.expected == target_arms(arms_model, new, budget=300, limits=PRICED).expected
    # Of another policy than the trial's only these people count, none of whom may get it here.
    limits = replace(PRICED, at_most={"phone": 0})
    without = target_arms(other, new, budget=700, limits=limits)
    assert without.choice.counts[1] == 0
    assert not without.is_unlike
    assert "the policy is another one than the trial has judged" in without.unknown


def test_without_an_interval_it_is_said_which_number_to_expect(arms_model, new):
    found = target_arms(arms_model, new, budget=300, limits=PRICED)
    assert found.caution is None
    few = replace(found, expected=ExpectedGain(9.0, np.nan, np.nan))
    assert "sum of the uplifts draws on all of its rows" in few.caution
    assert few.to_dict()["caution"] == few.caution


def test_reasons_are_those_of_the_arm_that_is_given(arms_model, new):
    found = target_arms(arms_model, new, share=0.9, reasons=True)
    chosen, rest = found.chosen(), found.people.iloc[found.choice.n_treated :]
    assert (chosen["reasons"] != "").all()
    assert (rest["reasons"] == "").all()
    rows = new.reset_index(drop=True)
    for label, model in arms_model.models.items():
        own = chosen[chosen["arm"] == label]
        assert len(own) > 0
        places = rows.index[rows["person"].isin(own["person"])]
        words = reasons_of(model, rows.loc[places], others_of(model, rows))
        by_person = dict(zip(rows.loc[places, "person"], words, strict=True))
        assert own["reasons"].tolist() == [by_person[person] for person in own["person"]]
    plain = target_arms(arms_model, new, share=0.9).people
    pd.testing.assert_frame_equal(plain, found.people.drop(columns="reasons"))


def test_numbers_for_machines(arms_model, new):
    found = target_arms(arms_model, new, budget=401.5, limits=PRICED, value=30)
    told = found.to_dict()
    assert json.loads(json.dumps(told, allow_nan=False)) == told
    assert sum(told["arms"].values()) == told["n_treated"]
    assert told["part"]["arm"] in ("mail", "phone")
    assert 0 <= told["part"]["paid"] < 1


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "who gets an arm should be said by a share, by a budget, or by a value"),
        ({"share": 0.3, "budget": 3}, "share or budget should be given, got both"),
        ({"share": 0.3, "limits": ArmLimits(at_most={"fax": 3})}, "at_most should name arms"),
        ({"share": 0.3, "limits": ArmLimits(forbid={"mail": "x"})}, "'x'"),
        ({"share": 0.3, "limits": ArmLimits(forbid={"mail": "spent"})}, "who may not get"),
        (
            {"share": 0.3, "limits": ArmLimits(forbid={"mail": "town"})},
            "'town' should say by 1 or yes who may not get the arm, .* got 'Oslo', ",
        ),
        (
            {"share": 0.3, "limits": ArmLimits(at_most={"mail": 3}, at_least={"mail": 5})},
            "at_least should not be above at_most, got 5 and 3 for 'mail'",
        ),
        ({"budget": 3, "limits": ArmLimits(cost_column={"mail": "age"})}, "none for 'phone'"),
        (
            {"budget": 3, "limits": ArmLimits(cost_column={"mail": "town", "phone": "age"})},
            "the costs 'town' should be numbers, 0 or more",
        ),
        (
            {"budget": 3, "limits": ArmLimits(cost=COSTS, cost_column={"mail": "age"})},
            "cost or cost_column should be given, got both",
        ),
        ({"budget": 9, "limits": ArmLimits(cost=COSTS, at_least={"phone": 99})}, "at_least"),
    ],
)
def test_bad_options(arms_model, new, options, words):
    with pytest.raises(ValueError, match=words):
        target_arms(arms_model, new, **options)
