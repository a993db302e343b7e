"""Whether to treat some people: harm first, nothing promised that is not shown."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from auucmax.targeting.decision import (
    LEADS,
    RULE,
    Terms,
    decide,
    of_gain,
    of_list,
    state_of,
    tables,
    terms_of_arms,
    unknown,
)


def plan_of(lower, upper, gain=None, profit=None):
    """A plan of three shares."""
    found = {"share": [0.0, 0.5, 1.0], "gain_lower": lower, "gain_upper": upper}
    found["gain"] = gain or [0.0, 1.0, 1.0]
    names = ("profit", "profit_lower", "profit_upper")
    return found | dict(zip(names, profit or (None, None, None), strict=True))


@pytest.mark.parametrize(
    ("numbers", "state"),
    [
        ({"gain_upper": -1.0, "profit_upper": -2.0, "lower": -3.0}, "harm"),
        ({"gain_upper": 1.0, "profit_upper": -2.0, "lower": -3.0}, "loss"),
        ({"gain_upper": 1.0, "profit_upper": None, "certified": 0.1, "lower": -0.1}, "certified"),
        ({"gain_upper": 1.0, "profit_upper": None, "certified": 0.0, "lower": 0.1}, "shown"),
        ({"gain_upper": 0.0, "profit_upper": 0.0, "certified": None, "lower": 0.0}, "not shown"),
        ({"gain_upper": None, "lower": None}, "not shown"),
        ({"gain_upper": float("nan"), "lower": float("nan")}, "not shown"),
    ],
)
def test_the_worst_that_is_shown_counts(numbers, state):
    assert state_of(numbers) == state


def test_harm_names_what_to_do_instead():
    found = decide(plan_of([0.0, 0.2, -3.0], [0.0, 0.9, -1.0]), 2)
    assert (found.state, found.is_good) == ("harm", False)
    assert found.lead == (
        "Treating these people is shown to do harm: choose the 50% with the highest scores instead."
    )
    found = decide(plan_of([0.0, -4.0, -3.0], [0.0, 0.9, -1.0]), 2)
    assert found.lead == "Treating these people is shown to do harm: treat nobody."


def test_an_interval_that_holds_zero_is_no_advice():
    lower, upper = [0.0, 0.2, -3.0], [0.0, 0.9, 5.0]
    found = decide(plan_of(lower, upper), 2)
    assert found.lead.startswith("For these people a gain is not shown; it is shown for the 50% ")
    assert found.verdict == "gain above zero: not shown"
    lower[1] = -0.1
    assert decide(plan_of(lower, upper), 2).lead == LEADS["nowhere"].format(
        along="share", what="gain"
    )
    never = decide(plan_of(lower, upper, gain=[0.0, -1.0, -1.0]), 2, terms=Terms(along="budget"))
    assert never.lead == "At no budget is the gain above zero."


@pytest.mark.parametrize("gain", [1.0, -1.0])
@pytest.mark.parametrize("nobody", [0.0, None])
def test_without_any_interval_nothing_is_said_of_other_places(gain, nobody):
    ends = [nobody, None, None]
    found = decide(plan_of(ends, ends, gain=[0.0, gain, gain]), 2)
    assert found == unknown("gain")
    profit = ([0.0, gain, gain], ends, ends)
    assert decide(plan_of(ends, ends, profit=profit), 1) == unknown("profit")


def test_a_number_without_an_interval_is_not_denied():
    """The page shows it: that no place is above zero would be false."""
    lower, upper = [0.0, None, -3.0], [0.0, None, 1.0]
    for gain, lead in ((1.0, "nowhere"), (-1.0, "never")):
        found = decide(plan_of(lower, upper, gain=[0.0, gain, -1.0]), 1)
        assert found.lead == LEADS[lead].format(along="share", what="gain")


@given(
    st.lists(st.tuples(*[st.sampled_from([-2.0, -1.0, 0.0, 1.0])] * 2, st.booleans()), min_size=1)
)
def test_a_lead_denies_only_what_no_place_has(places):
    """Of any plan: what is said of all places is true of each, and rests on an interval."""
    gain = [0.0, *(max(own[:2]) for own in places)]
    lower = [0.0, *(min(own[:2]) if own[2] else None for own in places)]
    upper = [0.0, *(2.0 if own[2] else None for own in places)]
    plan = plan_of(lower, upper, gain=gain) | {"share": np.linspace(0, 1, len(gain))}
    lead = decide(plan, len(places)).lead
    if lead.startswith("At no share"):
        assert any(own[2] for own in places)
        assert all(end is None or end <= 0 for end in lower)
        assert lead.endswith("beyond doubt.") == (max(gain) > 0)


def test_what_is_shown_has_no_lead_and_money_decides_where_it_is_known():
    gain = plan_of([0.0, 0.2, 0.3], [0.0, 0.9, 0.9])
    assert decide(gain, 1) == ("shown", "", "gain above zero: shown", None)
    money = plan_of(
        gain["gain_lower"], gain["gain_upper"], profit=([0.0, -1, 2], [0.0, -2, 1], [0.0, -0.5, 3])
    )
    found = decide(money, 1)
    assert found.state == "loss"
    assert found.verdict == "shown to cost more than it brings"
    assert found.lead.endswith("choose the 100% with the highest scores instead.")
    sure = decide(money, 2, certified=0.1)
    assert (sure.verdict, sure.at_least) == ("profit above zero: certified", 0.1)


@pytest.mark.parametrize(
    ("lower", "upper", "certified", "state", "lead"),
    [
        (-3.0, -1.0, None, "harm", "Treating the chosen is shown to do harm: treat nobody."),
        (1.0, 3.0, 0.5, "certified", ""),
        (1.0, 3.0, -0.5, "shown", ""),
        (-1.0, 3.0, None, "not shown", "For the chosen a gain is not shown."),
        (None, None, None, "not shown", "For the chosen a gain is not shown."),
    ],
)
def test_a_gain_that_was_measured(lower, upper, certified, state, lead):
    found = of_gain(lower, upper, certified, "the chosen")
    assert (found.state, found.lead) == (state, lead)
    assert found.to_dict("the chosen")["is_good"] == (lead == "")


def test_the_script_gets_the_very_rule():
    found = json.loads(json.dumps(tables(Terms())))
    assert [tuple(entry) for entry in found["rule"]] == list(RULE)
    assert found["leads"] == LEADS


def test_the_first_line_on_a_list_advises_only_what_is_shown():
    shown = decide(plan_of([0.0, 0.2, 0.3], [0.0, 0.9, 0.9]), 1)
    assert of_list(shown, "3 of 9 people", "gain 1") == "Treat 3 of 9 people; gain 1."
    harm = decide(plan_of([0.0, -2.0, -3.0], [0.0, -0.9, -0.9]), 1)
    assert of_list(harm, "3 of 9 people", "gain -1") == (
        "Treating these people is shown to do harm: treat nobody. If you treat 3 of 9 people: "
        "gain -1."
    )


def test_several_arms_name_people_or_money():
    plan = plan_of([0.0, 0.2, -3.0], [0.0, 0.9, 5.0]) | {"treated": [0, 40, 90]}
    plan |= {"cost": [0, 20.0, 45.0], "currency": "EUR", "digits": {"money": 2}}
    people, money = (decide(plan, 2, terms=terms_of_arms(by)).lead for by in (True, False))
    lead = "For these people a gain is not shown; it is shown for"
    assert people == f"{lead} the 40 people with the highest uplifts."
    assert money == f"{lead} a budget of 20.00 EUR."
