"""Boosted trees: those of the slow twin and of LightGBM, in any order and with missing values."""

import lightgbm
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit

from auucmax.estimators.boosted import Bins, Boosting, Growth, tree_scores
from auucmax.estimators.reference import grow_slow
from auucmax.estimators.targets import BINOMIAL, GAUSSIAN


def rows_of(seed, n, n_columns=3, n_values=12, gaps=0.0):
    rng = np.random.default_rng(seed)
    X = rng.integers(-n_values // 2, n_values // 2, size=(n, n_columns)).astype(float)
    X[rng.random(X.shape) < gaps] = np.nan
    return rng, X


def boosting_of(X, y, offset, slope, *, weight=None, parts=None, loss=BINOMIAL, **growth):
    n = len(y)
    how = {"n_leaves": 4, "rate": 0.3, "least_rows": 5, "penalty": 1.0} | growth
    weight = np.ones(n) if weight is None else weight
    parts = np.array([[0, n]] if parts is None else parts)
    return Boosting(Bins.of(X), offset, slope, y, weight, parts, Growth(**how), loss)


@given(
    seed=st.integers(0, 10_000),
    n=st.integers(8, 120),
    n_columns=st.integers(1, 5),
    n_values=st.integers(2, 30),
    gaps=st.sampled_from([0.0, 0.3]),
    weighted=st.booleans(),
    cut=st.floats(0, 0.6),
    loss=st.sampled_from([BINOMIAL, GAUSSIAN]),
)
@settings(deadline=None, max_examples=80)
def test_trees_agree_with_their_twin(seed, n, n_columns, n_values, gaps, weighted, cut, loss):
    rng, X = rows_of(seed, n, n_columns, n_values, gaps)
    y = rng.integers(2, size=n) * 1.0 if loss is BINOMIAL else rng.standard_t(2, size=n)
    weight = rng.integers(1, 4, size=n) * rng.random() if weighted else None
    parts = [[0, n // 3], [n // 3 + int(cut * n), n]]
    offset, slope = rng.normal(size=n), rng.normal(size=n)
    run = boosting_of(X, y, offset, slope, weight=weight, parts=parts, loss=loss)
    for number in range(1, 4):
        expected = grow_slow(run)
        run.grow(number)
        if expected is None:
            assert run.is_done
            break
        if np.array_equal(run.trees[-1].splits, expected.splits):
            values = run.trees[-1].values, expected.values
        else:  # of two splits of one gain, as with missing values on either side, any may be taken
            values = [
                tree_scores([tree], run.bins).predict(X) for tree in (run.trees[-1], expected)
            ]
        np.testing.assert_allclose(*values, rtol=1e-3, atol=1e-5)
    # What rows were given on the way, held-out ones too, is what the arrays give their numbers.
    scores = tree_scores(run.trees, run.bins)
    scores.check(n_columns)
    np.testing.assert_allclose(scores.predict(X), run.score, atol=1e-12)


@pytest.mark.parametrize("gaps", [0.0, 0.2])
@pytest.mark.parametrize("effect", [False, True])
def test_trees_are_those_of_lightgbm(gaps, effect):
    rng, X = rows_of(0, 6_000, 5, 60, gaps)
    t = (rng.random(len(X)) < 0.4) * 1.0
    signal = np.nan_to_num(X[:, 0]) / 20 + (np.isnan(X[:, 1]) | (X[:, 1] > 10))
    y = (rng.random(len(X)) < expit(-1 + signal + t * (np.nan_to_num(X[:, 2]) > 5))) * 1.0
    slope = t - t.mean() if effect else np.ones(len(X))
    offset = np.full(len(X), -1.0)
    how = {"n_leaves": 6, "rate": 0.1, "least_rows": 100, "penalty": 3.0, "least_hessian": 1e-3}
    ours = boosting_of(X, y, offset, slope, **how)
    ours.grow(40)

    def gradients(score, _):
        p = expit(offset + slope * score)
        return slope * (p - y), slope**2 * p * (1 - p)

    params = {
        "objective": gradients, "num_leaves": 6, "learning_rate": 0.1, "min_data_in_leaf": 100,
        "lambda_l2": 3.0, "min_sum_hessian_in_leaf": 1e-3, "min_data_in_bin": 1, "verbosity": -1,
        "num_threads": 1,
    }  # fmt: skip
    theirs = lightgbm.train(params, lightgbm.Dataset(X, params={"min_data_in_bin": 1}), 40)
    np.testing.assert_allclose(ours.score, theirs.predict(X), atol=1e-4)
    assert np.ptp(ours.score) > 0.5


def test_order_of_rows_and_stages_do_not_matter():
    rng, X = rows_of(1, 500, gaps=0.1)
    y, offset, slope = rng.integers(2, size=500) * 1.0, rng.normal(size=500), rng.normal(size=500)
    one = boosting_of(X, y, offset, slope)
    one.grow(10)
    order = rng.permutation(500)
    other = boosting_of(X[order], y[order], offset[order], slope[order])
    for number in (3, 4, 10):
        other.grow(number)
    np.testing.assert_array_equal(one.score[order], other.score)


def test_bins_hold_about_as_many_rows_each():
    X = np.random.default_rng(0).lognormal(size=(10_000, 1))
    bins = Bins.of(X)
    counts = np.bincount(bins.codes[0])
    assert len(counts) == 255
    assert counts.max() <= 10_000 / 255 + 1
    few = Bins.of(np.repeat([[3.0], [1.0], [np.nan]], [5, 1, 2], axis=0))
    np.testing.assert_array_equal(few.cuts[0], [2.0])
    np.testing.assert_array_equal(few.codes[0], [1] * 5 + [0] + [255] * 2)


def test_chances_of_0_and_1_and_rows_without_differences():
    y = np.array([0.0, 1.0] * 50)
    run = boosting_of(np.zeros((100, 1)), y, np.where(y == 1, 800.0, -800.0), np.ones(100))
    run.grow(5)
    assert run.is_done
    assert not run.trees
    assert len(tree_scores(run.trees, run.bins).roots) == 0
