"""Whether to treat some people: harm first, nothing promised that is not shown."""

import json

import pytest

from auucmax.targeting.decision import (
    LEADS,
    RULE,
    Terms,
    decide,
    of_list,
    state_of,
    tables,
    terms_of_arms,
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
    assert decide(plan_of(lower, [0.0, None, None]) | {"gain_lower": [0.0, None, None]}, 1).lead


def test_what_is_shown_has_no_lead_and_money_decides_where_it_is_known():
    gain = plan_of([0.0, 0.2, 0.3], [0.0, 0.9, 0.9])
    assert decide(gain, 1) == ("shown", "", "gain above zero: shown")
    money = plan_of(
        gain["gain_lower"], gain["gain_upper"], profit=([0.0, -1, 2], [0.0, -2, 1], [0.0, -0.5, 3])
    )
    found = decide(money, 1)
    assert found.state == "loss"
    assert found.verdict == "shown to cost more than it brings"
    assert found.lead.endswith("choose the 100% with the highest scores instead.")
    assert decide(money, 2, certified=0.1).verdict == "profit above zero: certified"


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
