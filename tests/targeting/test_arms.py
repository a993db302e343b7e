"""Several arms: whatever the budget and the limits, no other choice is better."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from scipy.optimize import linprog

from auucmax.targeting import arms as arms_module
from auucmax.targeting import choose_arms


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
@given(people(), st.integers(0, 12), st.sampled_from(["row", "random"]))
def test_nothing_better_can_be_had_for_what_is_spent(rows, budget, ties):
    uplift, cost = rows
    found = choose_arms(uplift, cost=cost, budget=budget, ties=ties)
    assert found.cost <= budget
    assert found.uplift == pytest.approx(most_uplift(uplift, cost, found.cost))
    # and what is left unspent is worth less than one step of one person
    assert most_uplift(uplift, cost, budget) - found.uplift <= max(uplift.max(), 0) + 1e-9


@settings(deadline=None, max_examples=100)
@given(people(), st.integers(0, 30))
def test_without_a_budget_the_profit_is_the_highest(rows, value):
    uplift, cost = rows
    found = choose_arms(uplift, cost=cost, value=value)
    best = np.maximum((value * uplift - cost).max(axis=1), 0).sum()
    assert value * found.uplift - found.cost == pytest.approx(best)
    anything = choose_arms(uplift, cost=cost)
    assert anything.uplift == pytest.approx(np.maximum(uplift.max(axis=1), 0).sum())


@settings(deadline=None, max_examples=100)
@given(st.integers(0, 2**16), st.floats(0, 1.2), st.booleans(), st.sampled_from(["row", "random"]))
def test_of_many_people_only_those_near_the_cut_are_sorted(seed, part, rounded, ties):
    """The same as if all were, with ties and arms that cost nothing."""
    rng = np.random.default_rng(seed)
    uplift = rng.normal(0.02, 0.05, (400, 3))
    uplift = (uplift.round(1) if rounded else uplift) + [0, 1e-6, 2e-6]  # no arms are shared
    cost = rng.choice([0.0, 0.1, 0.12, 0.3], (400, 3), p=[0.02, 0.38, 0.3, 0.3])
    budget = part * cost.max(axis=1).sum() / 3
    for options in ({"budget": budget}, {"budget": budget, "value": 8.0}):
        plain = choose_arms(uplift, cost=cost, ties=ties, **options)
        with pytest.MonkeyPatch.context() as patch:
            for name, n in (("_MANY", 64), ("_PROGRAM_PEOPLE", 100), ("_MARGIN", 0.3)):
                patch.setattr(arms_module, name, n)
            quick = choose_arms(uplift, cost=cost, ties=ties, **options)
        np.testing.assert_array_equal(quick.arm, plain.arm)
        assert (quick.n_tied, quick.n_tied_taken) == (plain.n_tied, plain.n_tied_taken)
        assert quick.rate == plain.rate
        assert (quick.part is None) == (plain.part is None)
        if plain.part is not None:
            assert quick.part == pytest.approx(plain.part, abs=1e-9)


def test_sums_and_counts():
    found = choose_arms([[0.3, 0.5], [0.2, 0.1], [0.0, -0.1]], cost=[1, 3], budget=4)
    assert found.counts == (1, 1)
    assert (found.n_treated, found.cost, found.uplift) == (2, 4, pytest.approx(0.7))
    assert choose_arms([0.1, 0.3, 0.2], budget=2).arm.tolist() == [-1, 0, 0]


def test_ties_go_by_row_or_by_seed():
    assert (choose_arms(np.ones((4, 2)), budget=2).arm >= 0).tolist() == [True, True, False, False]
    draws = [
        choose_arms(np.ones((50, 2)), budget=20, ties="random", random_state=seed).arm.tolist()
        for seed in (1, 1, 2)
    ]
    assert draws[0] == draws[1] != draws[2]


def test_with_one_cost_it_takes_the_best_pairs_of_person_and_arm():
    uplift = np.random.default_rng(0).normal(size=(3000, 2))
    found = choose_arms(uplift, budget=600)
    best = np.argsort(-uplift.max(axis=1))[:600]
    assert np.flatnonzero(found.arm >= 0).tolist() == sorted(best)
    assert found.arm[best].tolist() == uplift[best].argmax(axis=1).tolist()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: choose_arms([[np.nan, 1]]), "finite number for each person and arm"),
        (lambda: choose_arms(np.ones((2, 2, 2))), "one column an arm"),
        (lambda: choose_arms(np.ones((2, 2)), cost=[1, 2, 3]), "one an arm \\(2\\)"),
        (lambda: choose_arms(np.ones((2, 2)), cost=-1), "0 or more"),
        (lambda: choose_arms(np.ones((2, 2)), budget=-1), "budget should be a number"),
    ],
)
def test_messages_of_several_arms(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@settings(deadline=None, max_examples=100)
@given(people(), st.integers(0, 12), st.permutations(range(3)))
def test_the_order_of_arms_changes_nothing_but_ties(rows, budget, order):
    uplift, cost = rows
    order = [k for k in order if k < uplift.shape[1]]
    first = choose_arms(uplift, cost=cost, budget=budget)
    other = choose_arms(uplift[:, order], cost=cost[:, order], budget=budget)
    assert other.cost == pytest.approx(first.cost)
    assert other.uplift == pytest.approx(first.uplift)


def test_arms_of_equal_effect_share_people():
    found = choose_arms(np.full((3000, 3), 0.2), cost=1, budget=1500)
    assert found.n_treated == 1500
    assert min(found.counts) > 400


def test_money_pays_for_nobody_for_all_and_for_what_costs_nothing():
    uplift = np.random.default_rng(0).normal(0.1, 0.2, (500, 2))
    none = choose_arms(uplift, cost=[1, 2], budget=0)
    assert (none.n_treated, none.cost, none.rate) == (0, 0, np.inf)
    everything = choose_arms(uplift, cost=[1, 2], budget=1e9)
    assert everything.uplift == pytest.approx(np.maximum(uplift.max(axis=1), 0).sum())
    free = choose_arms(uplift, cost=0, budget=0)
    assert free.uplift == everything.uplift


def test_ties_and_the_last_person_are_said():
    found = choose_arms(np.full((10, 1), 0.5), cost=2, budget=7)
    assert (found.n_treated, found.n_tied, found.n_tied_taken) == (3, 10, 3)
    assert found.part == (3, 0, 0.5)
    assert "3 of 10 people who gain equally for the money get their arm" in str(found)
    assert "money is left for 50% of the next person" in str(found)
    assert str(choose_arms([0.3, 0.2], budget=1)) == "1 of 2 people, cost 1.00"


def test_people_who_may_not_get_an_arm_do_not():
    uplift, allowed = np.full((4, 2), 0.5), np.array([[0, 1], [1, 0], [0, 0], [1, 1]], bool)
    arm = choose_arms(uplift, cost=1, allowed=allowed).arm
    assert arm[:3].tolist() == [1, 0, -1]
    limited = choose_arms(uplift, cost=1, allowed=allowed, at_most=[1, 5]).arm
    assert limited.tolist() == [1, 0, -1, 1]


def program(offers, limits):
    """The same optimum by a general solver: a variable for each person and arm."""
    n, k = offers.worth.shape
    rows, right = [], []
    for i in range(n):
        rows.append(np.repeat(np.arange(n) == i, k))
        right.append(1)
    if np.isfinite(limits.budget):
        rows.append(offers.cost.ravel())
        right.append(limits.budget)
    for arm in range(k):
        own = np.tile(np.arange(k) == arm, n)
        if np.isfinite(limits.most[arm]):
            rows.append(own)
            right.append(limits.most[arm])
        rows.append(-own.astype(float))
        right.append(-limits.least[arm])
    most = offers.allowed.ravel().astype(float)
    return linprog(
        -offers.worth.ravel(), A_ub=np.array(rows, float), b_ub=right,
        bounds=np.column_stack([np.zeros(n * k), most]),
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
    limits = arms_module.Limits.of(most, least, budget, uplift.shape[1])
    offers = arms_module._Offers.of(uplift, cost, None, value, limits)
    exact = program(offers, limits)
    options = {"cost": cost, "budget": budget, "value": value, "at_most": most, "at_least": least}
    if exact.status != 0:
        with pytest.raises(ValueError, match="at_least should be numbers that people, budget"):
            choose_arms(uplift, **options)
        return
    parts, _ = arms_module._solve(offers, limits, np.zeros(2 * uplift.shape[1] + 1), None)
    assert (parts * offers.worth).sum() == pytest.approx(-exact.fun, abs=1e-7)
    found = choose_arms(uplift, **options)
    assert (np.array(found.counts) <= most).all()
    assert budget is None or found.cost <= budget + 1e-9
    # Whole people: nobody but those whom the limits cut in parts can be missing.
    worth = np.where(offers.allowed, offers.worth, 0).max(initial=0)
    got = offers.worth[np.arange(len(uplift)), found.arm][found.arm >= 0].sum()
    assert got >= -exact.fun - (1 + 2 * uplift.shape[1]) * worth - 1e-7


def test_prices_of_a_part_of_the_people_lead_to_the_optimum_of_all(monkeypatch):
    rng = np.random.default_rng(1)
    uplift = rng.normal(0.02, 0.03, (6000, 3))
    options = {"cost": [0.1, 0.12, 0.2], "budget": 100, "at_most": [150, np.inf, np.inf]}
    whole = choose_arms(uplift, **options)
    monkeypatch.setattr(arms_module, "_PROGRAM_PEOPLE", 300)
    parts = choose_arms(uplift, **options)
    assert parts.counts == whole.counts
    assert parts.uplift == pytest.approx(whole.uplift, rel=1e-9)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"at_most": [1]}, "at_most should hold a number of people, 0 or more, for each of the 2"),
        ({"at_least": [-1, 0]}, "at_least should hold a number of people"),
        ({"at_least": [3, 0], "at_most": [2, 9]}, "at_least should not be above at_most"),
        ({"allowed": [[1, 0]]}, "allowed should be booleans, one a person and arm"),
    ],
)
def test_messages_of_limits(options, message):
    with pytest.raises(ValueError, match=message):
        choose_arms(np.ones((2, 2)), **options)
