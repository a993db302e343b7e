from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from auucmax.estimators import MultiArm, TwoModels
from auucmax.targeting import choose_arms, top_share, within_budget, worth_treating

scores = st.lists(st.integers(-3, 3).map(float), min_size=1, max_size=12)
rules = st.sampled_from(["row", "random"])


@settings(deadline=None)
@given(scores, st.floats(0, 1), rules)
def test_nobody_left_out_has_a_higher_score(score, share, ties):
    score = np.array(score)
    found = top_share(score, share, ties=ties)
    assert found.n_treated == found.treat.sum() == round(share * len(score))
    if found.n_treated:
        assert found.threshold == score[found.treat].min()
        assert (score[~found.treat] <= found.threshold).all()
        tied = score == found.threshold
        assert (found.n_tied, found.n_tied_treated) == (tied.sum(), (tied & found.treat).sum())
        if ties == "row":  # the treated among the tied come first
            assert (np.diff(found.treat[tied].astype(int)) <= 0).all()
    else:
        assert found.threshold == np.inf


@settings(deadline=None)
@given(scores, st.integers(0, 20), st.data(), rules)
def test_the_budget_pays_for_the_longest_top_of_the_list(score, budget, data, ties):
    cost = np.array(
        data.draw(st.lists(st.integers(0, 5), min_size=len(score), max_size=len(score)))
    )
    score = np.array(score)
    found = within_budget(score, budget, cost=cost, ties=ties)
    assert found.cost == cost[found.treat].sum() <= budget
    left = np.flatnonzero(~found.treat)
    if len(left):  # nobody who could be next is affordable, for one of them at least
        following = left[score[left] == score[left].max()]
        assert found.cost + cost[following].max() > budget
        assert score[left].max() <= found.threshold


def test_one_cost_for_all():
    found = within_budget(np.arange(100.0), 3.0, cost=0.1)
    assert found.n_treated == 30  # though thirty times 0.1 is a bit more than 3
    assert found.cost == pytest.approx(3)
    assert within_budget(np.arange(5.0), 0, cost=1).n_treated == 0
    assert within_budget(np.arange(5.0), 0, cost=0).n_treated == 5
    assert within_budget(np.arange(5.0), 100, cost=1, minimum=2.0).treat.tolist() == [0, 0, 0, 1, 1]


def test_ties_are_drawn_reproducibly_and_fairly():
    score = np.r_[np.zeros(1000), 1.0]
    first, again = (top_share(score, 0.5, ties="random", random_state=3) for _ in range(2))
    assert (first.treat == again.treat).all()
    assert (first.treat != top_share(score, 0.5, ties="random", random_state=4).treat).any()
    assert abs(first.treat[:500].sum() - 250) < 3 * np.sqrt(1000 / 16)
    assert "drawn at random" in str(first)
    assert "order of the rows" in str(top_share(score, 0.5))
    assert "lowest score" not in str(top_share([1, 2, 3], 0.34))
    assert str(top_share([1, 2, 3], 0)) == "0 of 3 people"


def test_value_against_cost():
    uplift, cost = np.array([0.1, 0.2, 0.3, -0.1]), [1, 3, 2, 0]
    found = worth_treating(uplift, value=10, cost=cost)
    assert found.treat.tolist() == [False, False, True, False]  # 10 * .1 > 1 is not
    assert (found.n_treated, found.cost, found.threshold) == (1, 2, 0.3)
    assert worth_treating(uplift, value=10).n_treated == 3
    assert worth_treating(uplift, value=0).threshold == np.inf


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: top_share([1, 2], 1.5), "share should lie between 0 and 1"),
        (lambda: top_share([1, 2], [0.1, 0.2]), "share should be one number"),
        (lambda: top_share([1, 2], 0.5, ties="coin"), "ties should be one of"),
        (lambda: within_budget([1, 2], -1, cost=1), "budget should be a number, 0 or more"),
        (lambda: within_budget([1, 2], 1, cost=[1, -1]), "cost should not be negative"),
        (lambda: within_budget([1, 2], 1, cost=[1, 1, 1]), "as many rows as score"),
        (lambda: worth_treating([np.nan], value=1), "uplift should have no missing values"),
        (lambda: worth_treating([1.0], value=np.inf), "value should be a number"),
    ],
)
def test_messages(call, message):
    with pytest.raises(ValueError, match=message):
        call()


# Several arms.


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
def test_messages_of_several_arms(call, message):
    with pytest.raises(ValueError, match=message):
        call()
