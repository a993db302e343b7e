"""The one rule: harm first, nothing promised that is not significant, for any number of arms."""

from dataclasses import replace

import numpy as np
import pytest
from tests.model.arms_table import arms_table
from tests.model.trial_table import trial_table

import auucmax
from auucmax._errors import InputError
from auucmax.results import Cut, Cuts, Estimate, Plan, State, Terms, Why
from auucmax.targeting.rule import at, best_spend, decide, plan_at, state_of


@pytest.fixture(scope="module")
def one_arm():
    table = trial_table(6_000)
    trial = auucmax.read_trial(
        table, treatment="arm", outcome="visit", treated="mail", control="none", id="person"
    )
    return auucmax.fit(trial, "tm").evidence


@pytest.fixture(scope="module")
def two_arms():
    trial = auucmax.read_trial(
        arms_table(), treatment="arm", outcome="visit", control="none", id="person"
    )
    return auucmax.fit(trial, "tm", cost={"mail": 1.0, "phone": 2.0}).evidence


def plan_of(gain, profit=None, guaranteed=None):
    """A plan with these (lower, upper)."""
    money = profit is not None
    ends = [
        None if own is None else Estimate(value=0.0, lower=own[0], upper=own[1])
        for own in (gain, profit)
    ]
    terms = Terms(share=0.5, cost=(1.0,) if money else None, value=1.0 if money else None)
    return Plan(
        terms=terms, n_people=10, counts=(5,), share=0.5, spend=None, gain=ends[0], profit=ends[1],
        guaranteed=guaranteed,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("plan", "state"),
    [
        (plan_of((-3.0, -1.0), (-3.0, -2.0), 1.0), State.HARM),
        (plan_of((-3.0, 1.0), (-3.0, -2.0), 1.0), State.LOSS),
        (plan_of((-0.1, 1.0), guaranteed=0.1), State.GUARANTEED),
        (plan_of((0.1, 1.0), guaranteed=0.0), State.SIGNIFICANT),
        (plan_of((0.0, 1.0), (0.0, 1.0)), State.UNCLEAR),
        (plan_of((1.0, 2.0), (-1.0, 1.0)), State.UNCLEAR),
        (plan_of((None, None)), State.UNCLEAR),
        (plan_of(None), State.UNKNOWN),
    ],
)
def test_the_first_state_that_holds(plan, state):
    assert state_of(plan) == state
    assert state_of(plan, failed=True) == State.UNKNOWN


def test_the_curve_is_straight_between_points_and_unknown_below_the_first(one_arm):
    curve = one_arm.policy.curve
    spend, gain = np.array(curve.spend), np.array(curve.gain)
    k = len(spend) // 2
    shares, value, lower, upper = at(curve, (spend[k] + spend[k + 1]) / 2)
    assert value == pytest.approx((gain[k] + gain[k + 1]) / 2)
    assert lower < value < upper
    assert shares[0] == pytest.approx((spend[k] + spend[k + 1]) / 2)
    assert np.isnan(at(curve, spend[1] / 2)[2])
    assert at(curve, 0.0)[1:] == (0.0, 0.0, 0.0)


def test_totals_of_a_plan_are_those_of_the_people(one_arm):
    curve = one_arm.policy.curve
    place = curve.spend.index(0.5)
    plan = plan_at(one_arm, Terms(share=0.5, cost=(2.0,), value=30.0), 1_000, 0.5)
    assert plan.counts == (500,)
    assert plan.gain.value == pytest.approx(1_000 * curve.gain[place])
    assert plan.gain.lower == pytest.approx(1_000 * curve.band_lower[place])
    assert plan.spend == 1_000.0
    assert plan.profit.upper == pytest.approx(30 * plan.gain.upper - 1_000)


def test_the_best_share_has_the_highest_expected_profit(one_arm):
    terms = Terms(cost=(0.1,), value=1.0)
    best = best_spend(one_arm, terms, 1_000)
    profit = [
        plan.profit.value
        for q in one_arm.policy.curve.spend
        if (plan := plan_at(one_arm, terms, 1_000, q)).profit is not None
        and (plan.profit.lower is not None or q == 0)
    ]
    assert plan_at(one_arm, terms, 1_000, best).profit.value == pytest.approx(max(profit))
    assert best_spend(one_arm, Terms(cost=(100.0,), value=1.0), 1_000) == 0.0


def test_decisions_name_something_better(one_arm):
    found = decide(one_arm, Terms(share=0.4), 1_000)
    assert found.is_good
    assert found.better is None
    dear = decide(one_arm, Terms(share=1.0, cost=(0.15,), value=1.0), 1_000)
    assert dear.state in (State.LOSS, State.UNCLEAR)
    assert dear.better is not None
    assert dear.better.profit.lower > 0
    other = plan_at(one_arm, dear.plan.terms, 1_000, 1.0, missing=Why.LIMITS)
    unknown = decide(one_arm, dear.plan.terms, 1_000, plan=other)
    assert unknown.state == State.UNKNOWN
    assert unknown.better is unknown.everyone is None


def test_a_guarantee_counts_at_its_own_cut_only(one_arm):
    cuts = Cuts(delta=0.05, n_rows=100, cuts=(Cut(share=0.3, share_upper=0.32, lower=0.01),))
    own = replace(one_arm, arms=(replace(one_arm.arms[0], cuts=cuts),))
    assert plan_at(own, Terms(share=0.3), 1_000, 0.3).guaranteed == pytest.approx(10.0)
    assert plan_at(own, Terms(share=0.31), 1_000, 0.31).guaranteed is None
    terms = Terms(share=0.3, cost=(0.1,), value=2.0)
    money = plan_at(own, terms, 1_000, 0.3).guaranteed
    assert money == pytest.approx(1_000 * (2.0 * 0.01 - 0.1 * 0.32))


def test_without_any_interval_the_best_share_is_unknown(one_arm):
    arm = one_arm.arms[0]
    unknown = (None,) * len(arm.curve.spend)
    curve = replace(arm.curve, band_lower=unknown, band_upper=unknown)
    evidence = replace(
        one_arm,
        arms=(replace(arm, curve=curve),),
        policy=replace(one_arm.policy, curve=curve),
    )
    decision = decide(evidence, Terms(cost=(0.01,), value=100.0), 1_000)
    assert decision.state == State.UNKNOWN
    assert decision.plan.missing == Why.FEW_ROWS
    assert decision.plan.profit is None


def test_a_failed_check_leaves_nothing_to_decide(one_arm):
    failed = replace(one_arm, failed_check=True)
    found = decide(failed, Terms(share=0.3), 1_000)
    assert found.state == State.UNKNOWN
    assert found.plan.missing == Why.FAILED_CHECK
    with pytest.raises(InputError) as caught:
        decide(failed, Terms(cost=(0.1,), value=1.0), 1_000)
    assert caught.value.parameter == "share"


@pytest.mark.parametrize(
    ("terms", "parameter"),
    [
        (Terms(), "share"),
        (Terms(value=1.0), "cost"),
        (Terms(budget=10.0), "budget"),
        (Terms(share=0.3, budget=10.0, cost=(1.0,)), "share"),
        (Terms(share=0.3, value=float("nan")), "value"),
    ],
)
def test_terms_that_do_not_say_whom_to_treat(one_arm, terms, parameter):
    with pytest.raises(InputError) as caught:
        decide(one_arm, terms, 1_000)
    assert caught.value.parameter == parameter


def test_several_arms_have_the_same_rule(two_arms):
    curve = two_arms.policy.curve
    terms = Terms(budget=500.0, cost=(1.0, 2.0), value=10.0)
    found = decide(two_arms, terms, 1_000)
    shares, gain, lower, _ = at(curve, 0.5)
    assert found.plan.gain.value == pytest.approx(1_000 * gain)
    assert found.plan.gain.lower == pytest.approx(1_000 * lower)
    np.testing.assert_allclose(found.plan.counts, 1_000 * shares, atol=0.51)
    assert found.plan.spend == pytest.approx(np.dot(found.plan.counts, (1.0, 2.0)))
    scaled = decide(two_arms, Terms(budget=5_000.0, cost=(10.0, 20.0), value=100.0), 1_000)
    assert scaled.plan.gain == found.plan.gain
    other = decide(two_arms, Terms(budget=500.0, cost=(1.0, 3.0)), 1_000)
    assert other.plan.missing == Why.OTHER_COSTS
    people = decide(two_arms, Terms(share=0.3), 1_000)  # judged by money
    assert people.plan.missing == Why.OTHER_COSTS
    worth = decide(two_arms, Terms(cost=(1.0, 3.0), value=10.0), 1_000)
    assert worth.state == State.UNKNOWN
    assert worth.plan.missing == Why.OTHER_COSTS
    assert worth.plan.gain is worth.plan.profit is worth.better is None
    assert not str(worth).startswith("Treat nobody")
