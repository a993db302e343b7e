"""Who gets which arm at a budget, each fold by itself."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.metrics.test_budget import small_trials

from auucmax.metrics.arm_policy import Policy
from auucmax.metrics.budget import ArmRows, PolicyTerms


@settings(deadline=None, max_examples=40)
@given(small_trials(), st.floats(0, 4))
def test_each_fold_spends_the_budget_by_itself(trial, budget):
    y, uplift, arm, cost = (np.concatenate([column] * 2) for column in trial)
    uplift = uplift + 1e-3 * np.arange(uplift.shape[1]) + 1e-4 * np.arange(len(y))[:, None]
    fold = np.repeat([0, 1], len(y) // 2)
    rows, grid = ArmRows.of(y, arm, cost), np.array([budget])
    policy = Policy.of_folds(uplift, cost, fold)
    ((_, found),) = policy.parts(grid, uplift.shape[1])
    for number in (0, 1):
        own = fold == number
        alone = Policy.of(uplift[own], cost[own])
        ((_, expected),) = alone.parts(grid, uplift.shape[1])
        assert np.allclose(found[own], expected)
        spent = policy.spent(grid, slice(None))[own]
        assert np.allclose(spent, min(budget, alone.most))
        paid = np.einsum("ik,ikj->j", cost[own], found[own]) / own.sum()
        assert np.allclose(paid, min(budget, alone.most))
    one = Policy.of_folds(uplift, cost, np.zeros(len(y)))
    same, plain = (PolicyTerms(rows, p, grid) for p in (one, Policy.of(uplift, cost)))
    assert np.allclose(same.gain, plain.gain)
