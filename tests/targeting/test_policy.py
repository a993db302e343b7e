import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auucmax.targeting import top_share, within_budget, worth_treating

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
        (lambda: top_share([1, 2], 1.5), "share should be between 0 and 1"),
        (lambda: top_share([1, 2], [0.1, 0.2]), "share should be one number"),
        (lambda: top_share([1, 2], 0.5, ties="coin"), "ties should be one of"),
        (lambda: within_budget([1, 2], -1, cost=1), "budget should be a number, 0 or more"),
        (lambda: within_budget([1, 2], 1, cost=[1, -1]), "cost should not be negative"),
        (lambda: within_budget([1, 2], 1, cost=[1, 1, 1]), "as many rows as score"),
        (lambda: worth_treating([np.nan], value=1), "uplift should have no missing values"),
        (lambda: worth_treating([1.0], value=np.inf), "value should be a number"),
        (lambda: worth_treating([1.0], value=1e300), r"0 or more, up to 1e\+50; got 1e\+300"),
    ],
)
def test_messages(call, message):
    with pytest.raises(ValueError, match=message):
        call()
