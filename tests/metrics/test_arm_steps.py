"""Steps along hulls: rates fall, and costs and uplifts add up to those of the arms."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from auucmax.metrics.arm_steps import arm_steps, best_steps_first


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
@given(tables(), st.randoms())
def test_best_steps_come_first(table, random):
    steps = arm_steps(*table)
    keys = np.array(random.sample(range(len(table[0])), len(table[0])))
    order = best_steps_first(steps, keys)
    slow = np.lexsort((steps.number, keys[steps.person], -steps.rate))
    assert order.tolist() == slow.tolist()


def test_arms_that_are_not_allowed_are_no_steps():
    allowed = np.array([[True, False], [False, False]])
    steps = arm_steps(np.ones((2, 2)), np.ones((2, 2)), allowed)
    assert (steps.person.tolist(), steps.arm.tolist()) == ([0], [0])
