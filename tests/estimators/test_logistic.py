"""Losses of many models at once, folds that are dealt in two counts, logistic regressions."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.batches_in_memory import ListedRows

from auucmax.estimators.logistic import (
    Design,
    Losses,
    dealt_folds,
    losses_slow,
)
from auucmax.estimators.targets import BINOMIAL, GAUSSIAN
from auucmax.rows import ArrayRows, Batch, ask


@given(
    seed=st.integers(0, 1000),
    n=st.integers(1, 30),
    k=st.integers(1, 3),
    inside=st.booleans(),
    weighted=st.booleans(),
    loss=st.sampled_from([BINOMIAL, GAUSSIAN]),
)
@settings(deadline=None, max_examples=40)
def test_losses_and_gradients_agree_with_their_twin(seed, n, k, inside, weighted, loss):
    rng = np.random.default_rng(seed)
    X = rng.integers(-2, 3, size=(n, 2)).astype(float)
    hinge = np.array([1], dtype=np.int64), np.array([0.5])
    design = Design(*hinge, rng.normal(size=3), rng.random(3), np.zeros(2))
    weight = rng.integers(0, 3, size=n).astype(float) if weighted else None
    keys = np.arange(n, dtype=np.uint64)
    batch = Batch(X, rng.integers(2, size=n) * 1.0, rng.random(n) < 0.5, keys, weight)
    folds = np.asarray(rng.integers(-1, 3, size=k))
    points = rng.normal(size=(k, 8))[rng.integers(k, size=k)]  # some of them may be equal
    fold_of = lambda b: (b.keys % 3).astype(np.int64)  # noqa: E731
    losses = Losses(design, 0.3, fold_of, points, folds, inside, loss)
    np.testing.assert_allclose(losses(batch), losses_slow(losses, batch), atol=1e-9)


@pytest.mark.parametrize("loss", [BINOMIAL, GAUSSIAN])
def test_curvature_is_that_of_the_gradient(loss):
    rng = np.random.default_rng(0)
    X, keys = rng.normal(size=(50, 2)), np.arange(50, dtype=np.uint64)
    batch = Batch(X, rng.integers(2, size=50) * 1.0, rng.random(50) < 0.5, keys)
    design = Design(np.zeros(0, np.int64), np.zeros(0), np.zeros(2), np.ones(2), np.zeros(2))

    def at(point):
        one = np.array([-1])
        return Losses(design, 0.4, lambda b: b.treated * 1, point[None], one, loss=loss)

    point = rng.normal(size=6)
    a, b, c = at(point).curvature(batch)
    hessian = np.block([[a, b], [b, c]])
    steps = 1e-5 * np.eye(6)
    slopes = [(at(point + s)(batch) - at(point - s)(batch))[0, 2:] / 2e-5 for s in steps]
    np.testing.assert_allclose(hessian, slopes, atol=1e-6)


@given(
    sizes=st.lists(st.integers(2, 60), min_size=4, max_size=4),
    n_folds=st.integers(2, 6),
    seed=st.integers(0, 2**62),
    edges=st.lists(st.integers(0, 8), max_size=3),
)
@settings(deadline=None, max_examples=50)
def test_folds_have_their_share_of_every_arm_and_outcome(sizes, n_folds, seed, edges):
    cell = np.random.default_rng(seed).permutation(np.repeat(range(4), sizes))
    rows = ListedRows(np.zeros((len(cell), 1)), cell % 2, cell // 2, edges=edges)
    folds = ask(dealt_folds(rows, n_folds, seed))
    assert folds.n_folds == min(n_folds, *sizes)
    fold = np.concatenate([folds(batch) for batch in rows.batches()])
    for k in range(4):
        counts = np.bincount(fold[cell == k], minlength=folds.n_folds)
        assert counts.max() - counts.min() <= 1
    # By keys alone: in memory and in any batches the same.
    keys = np.arange(len(cell), dtype=np.uint64)
    memory = ArrayRows(np.zeros((len(cell), 1)), cell % 2 * 1.0, cell // 2 == 1, keys=keys)
    np.testing.assert_array_equal(ask(dealt_folds(memory, n_folds, seed))(memory.batch), fold)
