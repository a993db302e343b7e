"""Losses of many models at once, and their Hessian."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auucmax.estimators import shrunk
from auucmax.estimators.shrunk import Design, PathRows
from auucmax.estimators.targets import BINOMIAL, GAUSSIAN
from auucmax.rows import ArrayRows


def losses_slow(rows, design, fold, share, loss, points, folds, inside):
    """What ``PathRows.losses`` returns, a model and a row at a time."""
    result = np.zeros((len(points), 2 + 2 * design.n_terms))
    for k, point in enumerate(points):
        for i in range(len(rows.y)):
            counts = folds[k] < 0 or (fold[i] == folds[k]) == inside
            weight = float(counts) * (1.0 if rows.weight is None else rows.weight[i])
            x = design(rows.X[i : i + 1])[0]
            z = np.concatenate([x, x * (rows.treated[i] - share)])
            at, y = z @ point, rows.y[i]
            slope = (loss.mean(at) - y) * z
            result[k] += weight * np.concatenate([[1.0, loss.value(at, y)], slope])
    return result


@given(
    seed=st.integers(0, 1000),
    n=st.integers(1, 30),
    k=st.integers(1, 3),
    inside=st.booleans(),
    weighted=st.booleans(),
    loss=st.sampled_from([BINOMIAL, GAUSSIAN]),
    kept=st.booleans(),
)
@settings(deadline=None, max_examples=40)
def test_losses_and_gradients_agree_with_their_twin(seed, n, k, inside, weighted, loss, kept):
    rng = np.random.default_rng(seed)
    X = rng.integers(-2, 3, size=(n, 2)).astype(float)
    hinge = np.array([1], dtype=np.int64), np.array([0.5])
    design = Design(*hinge, rng.normal(size=3), rng.random(3), np.zeros(2))
    weight = rng.integers(0, 3, size=n).astype(float) if weighted else None
    rows = ArrayRows(X, rng.integers(2, size=n) * 1.0, rng.random(n) < 0.5, weight)
    folds = rng.integers(-1, 3, size=k).tolist()
    points = rng.normal(size=(k, 8))[rng.integers(k, size=k)]  # some of them may be equal
    fold = rng.integers(3, size=n)
    with pytest.MonkeyPatch.context() as patch:
        if not kept:  # features are made anew for each pass
            patch.setattr(shrunk, "_KEPT", 0)
        found = PathRows(rows, design, fold, 0.3, loss).losses(points, folds, inside)
    expected = losses_slow(rows, design, fold, 0.3, loss, points, folds, inside)
    np.testing.assert_allclose(found, expected, atol=1e-9)


@pytest.mark.parametrize("loss", [BINOMIAL, GAUSSIAN])
@pytest.mark.parametrize("left_out", [-1, 1])
def test_the_hessian_is_that_of_the_gradient(loss, left_out):
    rng = np.random.default_rng(0)
    X, weight = rng.normal(size=(50, 2)), rng.random(50)
    rows = ArrayRows(X, rng.integers(2, size=50) * 1.0, rng.random(50) < 0.5, weight)
    design = Design(np.zeros(0, np.int64), np.zeros(0), np.zeros(2), np.ones(2), np.zeros(2))
    own = PathRows(rows, design, np.arange(50) % 3, 0.4, loss)
    point, steps = rng.normal(size=6), 1e-5 * np.eye(6)
    ends = own.losses([*(point + steps), *(point - steps)], [left_out] * 12)[:, 2:]
    slopes = (ends[:6] - ends[6:]) / 2e-5
    np.testing.assert_allclose(own.hessian(point, left_out), slopes, atol=1e-6)
