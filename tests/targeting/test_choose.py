"""Who gets which arm: whatever the budget and the limits, no other choice is better."""

from importlib import import_module
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from scipy.optimize import linprog

from auucmax._errors import InputError
from auucmax.targeting.choose import choose

choose_module = import_module("auucmax.targeting.choose")


@st.composite
def people(draw):
    shape = draw(st.tuples(st.integers(1, 4), st.integers(1, 3)))
    uplift = draw(npst.arrays(np.int64, shape, elements=st.integers(-2, 6))) / 8
    cost = draw(npst.arrays(np.int64, shape, elements=st.integers(0, 4))).astype(float)
    return uplift, cost


def most_uplift(uplift, cost, budget):
    """Every choice there is."""
    padded, paid = (np.column_stack([np.zeros(len(c)), c]) for c in (uplift, cost))
    rows, best = np.arange(len(uplift)), -np.inf
    for choice in product(range(uplift.shape[1] + 1), repeat=len(uplift)):
        if paid[rows, choice].sum() <= budget + 1e-9:
            best = max(best, padded[rows, choice].sum())
    return best


@settings(deadline=None, max_examples=200)
@given(people(), st.integers(0, 12))
def test_nothing_better_can_be_had_for_what_is_spent(rows, budget):
    uplift, cost = rows
    found = choose(uplift, cost=cost, budget=budget)
    assert found.cost <= budget
    assert found.uplift == pytest.approx(most_uplift(uplift, cost, found.cost))
    # and what is left unspent is worth less than one step of one person
    assert most_uplift(uplift, cost, budget) - found.uplift <= max(uplift.max(), 0) + 1e-9


@settings(deadline=None, max_examples=100)
@given(people(), st.integers(0, 30))
def test_without_a_budget_the_profit_is_the_highest(rows, value):
    uplift, cost = rows
    found = choose(uplift, cost=cost, value=value)
    best = np.maximum((value * uplift - cost).max(axis=1), 0).sum()
    assert value * found.uplift - found.cost == pytest.approx(best)
    anything = choose(uplift, cost=cost)
    assert anything.uplift == pytest.approx(np.maximum(uplift.max(axis=1), 0).sum())


@pytest.mark.parametrize(
    ("uplift", "options", "parameter"),
    [
        ([[np.nan, 1]], {}, "uplift"),
        (np.ones((2, 2, 2)), {}, "uplift"),
        (np.ones((2, 2)), {"cost": [1, 2, 3]}, "cost"),
        (np.ones((2, 2)), {"cost": -1}, "cost"),
        (np.ones((2, 2)), {"cost": np.nan}, "cost"),
        (np.ones((2, 2)), {"budget": -1}, "budget"),
        (np.ones((2, 2)), {"value": np.inf}, "value"),
        (np.ones(2), {"share": [0.1, 0.2]}, "share"),
        (np.ones((2, 2)), {"at_most": [1]}, "at_most"),
        (np.ones((2, 2)), {"at_least": [-1, 0]}, "at_least"),
        (np.ones((2, 2)), {"at_least": [3, 0], "at_most": [2, 9]}, "at_least"),
        (np.ones((2, 2)), {"at_least": [2, 1]}, "at_least"),
        (np.ones((2, 2)), {"allowed": [[1, 0]]}, "allowed"),
    ],
)
def test_inputs_that_cannot_be_used(uplift, options, parameter):
    with pytest.raises(InputError) as raised:
        choose(uplift, **options)
    assert raised.value.parameter == parameter


@settings(deadline=None, max_examples=100)
@given(people(), st.integers(0, 12), st.permutations(range(3)))
def test_the_order_of_arms_changes_nothing_but_ties(rows, budget, order):
    uplift, cost = rows
    order = [k for k in order if k < uplift.shape[1]]
    first = choose(uplift, cost=cost, budget=budget)
    other = choose(uplift[:, order], cost=cost[:, order], budget=budget)
    assert other.cost == pytest.approx(first.cost)
    assert other.uplift == pytest.approx(first.uplift)


def test_money_pays_for_nobody_for_all_and_for_what_costs_nothing():
    uplift = np.random.default_rng(0).normal(0.1, 0.2, (500, 2))
    none = choose(uplift, cost=[1, 2], budget=0)
    assert (sum(none.counts), none.cost, none.threshold) == (0, 0, np.inf)
    everything = choose(uplift, cost=[1, 2], budget=1e9)
    assert everything.uplift == pytest.approx(np.maximum(uplift.max(axis=1), 0).sum())
    free = choose(uplift, cost=0, budget=0)
    assert free.uplift == everything.uplift


def test_ties_and_steps_that_money_does_not_pay_for():
    found = choose(np.full((10, 1), 0.5), cost=2, budget=7)
    assert (sum(found.counts), found.n_tied, found.n_tied_taken) == (3, 10, 3)
    assert found.is_cut
    assert not choose([0.3, 0.2], budget=2).is_cut


@settings(deadline=None)
@given(st.lists(st.integers(-3, 3), min_size=1, max_size=20), st.floats(0, 1), st.integers(1, 3))
def test_scores_are_taken_from_the_highest_down(score, share, cost):
    """Whatever their sign, ties in row order, as a plain sort does."""
    order = sorted(range(len(score)), key=lambda row: (-score[row], row))
    found = choose(score, share=share)
    n_chosen = round(share * len(score))
    assert np.flatnonzero(found.arm >= 0).tolist() == sorted(order[:n_chosen])
    if n_chosen:
        threshold = score[order[n_chosen - 1]]
        assert (found.threshold, found.n_tied) == (threshold, score.count(threshold))
        chosen = [score[row] for row in order[:n_chosen]]
        assert found.n_tied_taken == chosen.count(threshold)
    paid = choose(score, budget=share * 20, cost=cost)
    assert sum(paid.counts) == min(len(score), int(share * 20 * (1 + 1e-9) / cost))
    allowed = np.arange(len(score)) % 2 == 0
    some = choose(score, allowed=allowed)
    assert ((some.arm >= 0) == allowed).all()


def test_budgets_are_not_missed_by_rounding():
    assert sum(choose(np.arange(30), budget=3, cost=0.1).counts) == 30
    costs = np.array([3.0, 1.0, 1.0])
    # The longest top of the list that can be paid for: nobody is skipped for a cheaper person.
    assert choose([0.3, 0.2, 0.1], budget=2, cost=costs).arm.tolist() == [-1, -1, -1]


def test_people_who_may_not_get_an_arm_do_not():
    uplift, allowed = np.full((4, 2), 0.5), np.array([[0, 1], [1, 0], [0, 0], [1, 1]], bool)
    arm = choose(uplift, cost=1, allowed=allowed).arm
    assert arm[:3].tolist() == [1, 0, -1]
    limited = choose(uplift, cost=1, allowed=allowed, at_most=[1, 5]).arm
    assert limited.tolist() == [1, 0, -1, 1]


def program(worth, cost, budget, most, least):
    """The same optimum by a general solver: a variable for each person and arm."""
    n, k = worth.shape
    rows, right = [], []
    for i in range(n):
        rows.append(np.repeat(np.arange(n) == i, k))
        right.append(1)
    if np.isfinite(budget):
        rows.append(cost.ravel())
        right.append(budget)
    for arm in range(k):
        own = np.tile(np.arange(k) == arm, n)
        if np.isfinite(most[arm]):
            rows.append(own)
            right.append(most[arm])
        rows.append(-own.astype(float))
        right.append(-least[arm])
    free = np.isfinite(worth).ravel().astype(float)
    return linprog(
        -np.where(np.isfinite(worth), worth, 0).ravel(), A_ub=np.array(rows, float), b_ub=right,
        bounds=np.column_stack([np.zeros(n * k), free]),
    )  # fmt: skip


@st.composite
def limited(draw):
    shape = draw(st.tuples(st.integers(1, 9), st.integers(1, 3)))
    uplift = draw(npst.arrays(np.int64, shape, elements=st.integers(-2, 6))) / 8
    cost = draw(npst.arrays(np.int64, shape, elements=st.integers(0, 4))).astype(float)
    if draw(st.booleans()):  # without ties
        rng = np.random.default_rng(draw(st.integers(0, 99)))
        uplift, cost = uplift + rng.normal(size=shape), cost + rng.random(shape)
    most = draw(npst.arrays(np.float64, shape[1], elements=st.sampled_from([0, 1, 3, np.inf])))
    least = draw(npst.arrays(np.float64, shape[1], elements=st.sampled_from([0, 0, 1, 2])))
    budget = draw(st.none() | st.integers(0, 12))
    value = draw(st.none() | st.just(2.0))
    return uplift, cost, np.minimum(least, most), most, budget, value


@settings(deadline=None, max_examples=60)
@given(limited())
def test_limits_have_the_optimum_of_a_linear_program(rows):
    uplift, cost, least, most, budget, value = rows
    money = np.inf if budget is None else budget
    worth = uplift if value is None else value * uplift - cost
    worth = np.where((worth > 0) | (least > 0), worth, -np.inf)
    exact = program(worth, cost, money, most, least)
    options = {"cost": cost, "budget": budget, "value": value, "at_most": most, "at_least": least}
    if exact.status != 0:
        with pytest.raises(ValueError, match="at_least"):
            choose(uplift, **options)
        return
    limits, control = np.concatenate([[money], most, -least]), np.zeros(len(uplift))
    offers = np.column_stack([worth, control]), np.column_stack([cost, control])
    parts, _ = choose_module._solve(*offers, limits, None)
    assert np.sum(parts[parts > 0] * offers[0][parts > 0]) == pytest.approx(-exact.fun, abs=1e-7)
    found = choose(uplift, **options)
    assert (np.array(found.counts) <= most).all()
    assert budget is None or found.cost <= budget + 1e-9
    # Whole people: nobody but those whom the limits cut in parts can be missing.
    highest = np.where(np.isfinite(worth), worth, 0).max(initial=0)
    got = worth[np.arange(len(uplift)), found.arm][found.arm >= 0].sum()
    assert got >= -exact.fun - (1 + 2 * uplift.shape[1]) * highest - 1e-7


def test_prices_of_a_part_of_the_people_lead_to_the_optimum_of_all(monkeypatch):
    rng = np.random.default_rng(1)
    uplift = rng.normal(0.02, 0.03, (6000, 3))
    options = {"cost": [0.1, 0.12, 0.2], "budget": 100, "at_most": [150, np.inf, np.inf]}
    whole = choose(uplift, **options)
    monkeypatch.setattr(choose_module, "_PROGRAM_PEOPLE", 300)
    parts = choose(uplift, **options)
    assert parts.counts == whole.counts
    assert parts.uplift == pytest.approx(whole.uplift, rel=1e-9)


def test_limits_hold_where_costs_differ_by_many_orders_of_magnitude():
    rng = np.random.default_rng(1)
    uplift, cost = rng.random((60, 2)), rng.random((60, 2)) ** 40
    budget, most = 0.1 * cost.sum(), np.array([10, np.inf])
    found = choose(uplift, cost=cost, budget=budget, at_most=most)
    exact = program(uplift, cost, budget, most, np.zeros(2))
    assert found.cost <= budget
    assert found.counts[0] <= 10
    assert found.uplift >= -exact.fun - 2 * uplift.max()  # but for those whom a limit divides
