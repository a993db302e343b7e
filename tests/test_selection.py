"""Algorithm 1: the best candidate by a bound, by rows kept apart, by folds; the first if equal."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from auucmax.selection import best_over_folds, choose_by_bound, choose_by_cv, choose_by_held_out


@given(st.lists(st.integers(-3, 3).map(float), min_size=1, max_size=6))
def test_the_first_of_the_best(values):
    bound = choose_by_bound(values, lambda value: {"bound": value, "gap": 1.0})
    held_out = choose_by_held_out(values, lambda candidates: candidates)
    assert bound.best == held_out.best == values.index(max(values))
    assert [row["bound"] for row in bound.table] == values
    assert [row["held_out_auuc"] for row in held_out.table] == values


@given(st.lists(st.tuples(*[st.floats(-1, 1)] * 3), min_size=2, max_size=5))
def test_folds_are_averaged_and_their_error_is_that_of_the_mean(values):
    found, own = best_over_folds(values), np.array(values)
    mean = own.mean(axis=0)
    assert mean[found.best] == mean.max()
    for row, column in zip(found.table, own.T, strict=True):
        assert row["cv"] == pytest.approx(column.mean())
        assert row["cv_standard_error"] ** 2 * len(own) == pytest.approx(column.var(ddof=1))


def test_candidates_are_fitted_on_the_rows_of_each_fold_and_judged_on_the_others():
    seen = []

    def fit_all(train):
        seen.append(("fit", train))
        return [10 * train, train]

    def judge_all(fitted, test):
        seen.append(("judge", test))
        return [model + test for model in fitted]

    found = choose_by_cv(fit_all, judge_all, [(1, 2), (3, 4)])
    assert seen == [("fit", 1), ("judge", 2), ("fit", 3), ("judge", 4)]
    assert found.best == 0
    assert [row["cv"] for row in found.table] == [23.0, 5.0]
