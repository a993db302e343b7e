""""""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.pairs.pair_rows import coded_rows
from tests.pairs.reference import pair_hessian, pair_sums

from auucmax.pairs import PairRows, s_poly
from auucmax.pairs.exact import PolynomialPairs, sorted_pair_sums


@settings(deadline=None, max_examples=200)
@given(st.integers(1, 5), st.data())
def test_equals_the_written_out_sums(p, data):
    """mu = 1 and scores in quarters: 'is z below mu' has one answer in floating point."""
    s = s_poly(1.0, p)
    rows = data.draw(coded_rows())
    score = np.round(rows.score * 4) / 4
    exact = pair_sums(score, rows.cut, rows.treated, s, rows.weight)
    fast = sorted_pair_sums(score, rows.codes, s, rows.weight, gaps=rows.levels.gaps)
    reach, gap = 1 + np.ptp(score), max(np.ptp(rows.y), 1)
    for got, expected, order in zip(fast, exact, (0, 1, 2), strict=True):
        rounding = 1e-13 * gap * len(score) ** 2 * 4**p * max(reach, 1) ** max(p - order, 0)
        assert got == pytest.approx(expected, rel=1e-10, abs=rounding)


MULTIPLIERS = (0.7, 0.2)


@settings(deadline=None, max_examples=150)
@given(coded_rows(), st.sampled_from([2, 3, 5]), st.integers(0, 1000))
def test_equals_the_double_loop(rows, p, seed):
    """Ties, weights, one-row and empty classes; scores within a knot of each other."""
    n = len(rows.score)
    X = np.column_stack([rows.score, np.random.default_rng(seed).normal(size=(n, 2))])
    w = np.array([0.01, 0.3, -0.2])
    surrogate = s_poly(1.05 * np.ptp(X @ w) + 1e-3, p)
    pairs = PolynomialPairs(
        PairRows(X, rows.codes, rows.weight), surrogate, MULTIPLIERS, rows.levels.gaps
    )
    score = pairs.scores(w)
    assert pairs.holds(score)
    exact = pair_sums(X @ w, rows.cut, rows.treated, surrogate, rows.weight)
    value, gradient = pairs.value_and_gradient(score)
    assert value == pytest.approx(np.dot(MULTIPLIERS, exact.losses), rel=1e-9, abs=1e-12)
    each = rows.each(MULTIPLIERS)
    expected = X.T @ (each * exact.gradient)
    size = np.abs(X).T @ np.abs(each * exact.gradient) + 1e-12  # before cancellation
    assert (np.abs(gradient - expected) <= 1e-9 * size.max()).all()
    hessian = pair_hessian(X, w, rows.cut, rows.treated, surrogate, MULTIPLIERS, rows.weight)
    bound = np.abs(X).T @ (np.abs(each * exact.curvature)[:, None] * np.abs(X)) + 1e-12
    assert (np.abs(pairs.hessian(score) - hessian) <= 1e-8 * bound.max()).all()


def test_it_does_not_claim_what_reaches_the_knot():
    rows = PairRows(np.array([[0.0], [0.05], [0.2], [0.1]]), np.arange(4, dtype=np.int8))
    pairs = PolynomialPairs(rows, s_poly(0.1), MULTIPLIERS)
    assert pairs.holds(pairs.scores(np.array([0.4])))
    assert not pairs.holds(pairs.scores(np.array([0.6])))
