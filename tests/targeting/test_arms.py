from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from auucmax.estimators import MultiArm, TwoModels
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


def test_sums_and_counts():
    found = choose_arms([[0.3, 0.5], [0.2, 0.1], [0.0, -0.1]], cost=[1, 3], budget=4)
    assert found.counts == (1, 1)
    assert (found.n_treated, found.cost, found.uplift) == (2, 4, pytest.approx(0.7))
    assert choose_arms([0.1, 0.3, 0.2], budget=2).arm.tolist() == [-1, 0, 0]


def test_ties_go_by_row_or_by_seed():
    assert choose_arms(np.ones((4, 2)), budget=2).arm.tolist() == [0, 0, -1, -1]
    draws = [
        choose_arms(np.ones((50, 2)), budget=20, ties="random", random_state=seed).arm.tolist()
        for seed in (1, 1, 2)
    ]
    assert draws[0] == draws[1] != draws[2]


def test_with_one_cost_it_ranks_pairs_as_the_estimator_does():
    rng = np.random.default_rng(0)
    X, arm = rng.normal(size=(3000, 3)), rng.integers(0, 3, 3000)
    y = X[:, 0] * (arm == 1) + X[:, 1] * (arm == 2) + rng.normal(size=3000)
    model = MultiArm(TwoModels(), random_state=0).fit(X, y, treatment=arm)
    pairs = model.rank_pairs(X, share=0.2, minimum=0)
    found = choose_arms(model.predict(X), budget=600)
    assert np.flatnonzero(found.arm >= 0).tolist() == sorted(pairs["row"])
    labels = np.array(model.arms_)[found.arm[pairs["row"]]]
    assert labels.tolist() == pairs["arm"].tolist()


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
def test_messages(call, message):
    with pytest.raises(ValueError, match=message):
        call()
