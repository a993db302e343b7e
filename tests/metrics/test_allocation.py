"""Steps along hulls, and who gets which arm at a budget."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from auucmax.metrics.allocation import Allocation, arm_steps


@st.composite
def tables(draw):
    shape = draw(st.tuples(st.integers(1, 6), st.integers(1, 4)))
    uplift = draw(npst.arrays(np.int64, shape, elements=st.integers(-3, 6))) / 8
    return uplift, draw(npst.arrays(np.int64, shape, elements=st.integers(0, 5))).astype(float)


@settings(deadline=None)
@given(tables())
def test_steps_of_a_person_are_its_hull(table):
    uplift, cost = table
    steps = arm_steps(uplift, cost)
    for person in range(len(uplift)):
        own = steps.take(np.flatnonzero(steps.person == person))
        assert own.number.tolist() == list(range(len(own.number)))
        assert own.before.tolist() == [-1, *own.arm[:-1].tolist()][: len(own.arm)]
        assert (own.rate[1:] <= own.rate[:-1]).all()
        assert np.allclose(np.cumsum(own.uplift), uplift[person, own.arm])
        assert np.allclose(np.cumsum(own.cost), cost[person, own.arm])
        # No arm lies above the hull.
        costs = np.concatenate([[0.0], np.cumsum(own.cost)])
        gains = np.concatenate([[0.0], np.cumsum(own.uplift)])
        reach = np.where(cost[person] > costs[-1], gains[-1], np.interp(cost[person], costs, gains))
        free = cost[person] == 0
        reach[free] = gains[costs == 0].max()
        assert (uplift[person] <= reach + 1e-9).all()


@settings(deadline=None)
@given(tables())
def test_best_steps_come_first(table):
    steps = arm_steps(*table)
    slow = np.lexsort((steps.number, steps.person, -steps.rate))
    assert steps.best_first().tolist() == slow.tolist()


def test_arms_that_are_not_allowed_are_no_steps():
    allowed = np.array([[True, False], [False, False]])
    steps = arm_steps(np.ones((2, 2)), np.ones((2, 2)), allowed)
    assert (steps.person.tolist(), steps.arm.tolist()) == ([0], [0])


@settings(deadline=None, max_examples=40)
@given(tables(), st.floats(0, 4))
def test_each_fold_spends_the_budget_by_itself(table, budget):
    uplift, cost = (np.concatenate([column] * 2) for column in table)
    uplift = uplift + 1e-3 * np.arange(uplift.shape[1]) + 1e-4 * np.arange(len(uplift))[:, None]
    fold = np.repeat([0, 1], len(uplift) // 2)
    grid = np.array([budget])
    allocation = Allocation.of(uplift, cost, fold=fold)
    ((_, found),) = allocation.parts(grid, uplift.shape[1])
    for number in (0, 1):
        own = fold == number
        alone = Allocation.of(uplift[own], cost[own])
        ((_, expected),) = alone.parts(grid, uplift.shape[1])
        assert np.allclose(found[own], expected)
        assert np.allclose(allocation.most[own], alone.most)
        paid = np.einsum("ik,ikj->j", cost[own], found[own]) / own.sum()
        assert np.allclose(paid, min(budget, alone.most[0]))


def test_equal_scores_share_and_one_arm_may_be_for_everyone():
    score, cost = np.array([[0.6], [0.1], [0.4], [0.4]]), np.ones((4, 1))
    grid = np.array([0.0, 0.25, 0.5, 1.0])
    ((_, part),) = Allocation.of(score, cost).parts(grid, 1)
    assert part[:, 0].T.tolist() == [[0, 0, 0, 0], [1, 0, 0, 0], [1, 0, 0.5, 0.5], [1, 1, 1, 1]]
    ((_, part),) = Allocation.of(np.tile([-1.0, 1.0], (4, 1)), np.full((4, 2), 2.0)).parts(grid, 2)
    assert part[:, 1].tolist() == [[0, 0.125, 0.25, 0.5]] * 4
    assert not part[:, 0].any()
