"""The objective of rows that are read batch by batch equals that of the same rows in memory."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.batches_in_memory import ListedRows
from tests.pairs.pair_rows import coded_rows, summary_of, trial

from auucmax.pairs import (
    Bins,
    OutcomeLevels,
    PairObjective,
    PairRows,
    PairSummary,
    TooManyBinsError,
    code_rows,
    s_log,
    s_poly,
)
from auucmax.pairs.linear import StreamedObjective, class_sums


def assert_same_levels(one, other):
    assert (one.exact, one.middle) == (other.exact, other.middle)
    np.testing.assert_array_equal(one.starts, other.starts)
    np.testing.assert_allclose(one.values, other.values, rtol=1e-12, atol=1e-12)
    assert one.share == pytest.approx(other.share, rel=1e-9)


@settings(deadline=None, max_examples=40)
@given(
    rows=coded_rows(all_classes=True),
    surrogate=st.sampled_from([s_poly(), s_poly(mu=1.0), s_log()]),
    edges=st.lists(st.integers(0, 40), max_size=5),
    scale=st.sampled_from([0.0, 0.01, 1.0]),
    max_bytes=st.sampled_from([0, 2**25]),
)
def test_value_gradient_and_hessian(rows, surrogate, edges, scale, max_bytes):
    """Ties, knots hit exactly, one-row classes, batches of any size, empty ones among them."""
    X = np.stack([rows.score % 7, np.arange(len(rows.score)) % 3], axis=1)
    edges = [min(edge, len(X)) for edge in edges]
    w = scale * np.array([0.7, -0.4])
    memory = PairObjective(X, rows.y, treatment=rows.treated, surrogate=surrogate)
    source = ListedRows(X, rows.y, rows.treated, edges)
    source.max_bytes = max_bytes
    levels = OutcomeLevels.of(source)
    assert_same_levels(levels, memory.levels)
    streamed = StreamedObjective(source, levels=levels, surrogate=surrogate)
    value, gradient = memory.value_and_gradient(w)
    found, slope = streamed.value_and_gradient(w)
    size = max(np.abs(gradient).max(), 1e-3)
    assert found == pytest.approx(value, rel=1e-7)
    assert streamed.value(w) == pytest.approx(value, rel=1e-7)
    np.testing.assert_allclose(slope, gradient, atol=1e-6 * size)
    exact = memory.hessian(w)
    np.testing.assert_allclose(streamed.hessian(w), exact, atol=2e-3 * np.abs(exact).max() + 1e-9)


def test_readings_are_few():
    X, y, treatment, _, w = trial(3000)
    rows = ListedRows(X, y, treatment, [1000, 2000])
    objective = StreamedObjective(rows, surrogate=s_log())
    assert rows.n_readings == 1
    objective.value_and_gradient(np.zeros(4))
    objective.hessian(np.zeros(4))
    assert rows.n_readings == 1  # from the sums by class
    objective.value_and_gradient(w)
    assert rows.n_readings == 2
    objective.hessian(w)
    assert rows.n_readings == 3


def test_a_kink_is_refused():
    X, y, treatment, _, _ = trial(50)
    with pytest.raises(ValueError, match="should be smooth"):
        StreamedObjective(ListedRows(X, y, treatment), surrogate="hinge")


@pytest.mark.parametrize("asked_before", [False, True])
def test_scores_that_are_spread_too_widely_for_fine_bins(asked_before):
    """Nothing is left of the point before; what even the widest bins cannot hold is an error."""
    X, y, treatment, _, w = trial(300)
    memory = PairObjective(X, y, treatment=treatment, surrogate=s_poly())
    streamed = StreamedObjective(ListedRows(X, y, treatment, [100]), surrogate=s_poly())
    if asked_before:
        streamed.value(w)
    value, gradient = memory.value_and_gradient(100 * w)
    found, slope = streamed.value_and_gradient(100 * w)
    assert found == pytest.approx(value, rel=1e-7)
    np.testing.assert_allclose(slope, gradient, rtol=1e-6)
    with pytest.raises(TooManyBinsError, match="at most 32768 bins"):
        streamed.value_and_gradient(1e5 * w)


def test_many_columns_are_summed_without_their_products(monkeypatch):
    X, y, treatment, _, w = trial(500)
    rows = ListedRows(X, y, treatment, [200])
    full = StreamedObjective(rows, surrogate="s_log")
    monkeypatch.setattr("auucmax.pairs.linear.MAX_PRODUCTS", 2)
    few = StreamedObjective(rows, surrogate="s_log")
    assert few.sums.shape == (4, 1, 5)
    for at in (np.zeros(4), w):
        np.testing.assert_allclose(few.hessian(at), full.hessian(at), rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(few.value_and_gradient(at)[1], full.value_and_gradient(at)[1])


@settings(deadline=None, max_examples=60)
@given(rows=coded_rows(), times=st.sampled_from([1, 2, 8]))
def test_coarser_bins_need_no_other_pass(rows, times):
    weight = rows.weight
    how = {"weight": weight, "n_classes": rows.levels.n_classes}
    fine = summary_of(rows.score, rows.codes, width=1 / 32, **how)
    coarse = summary_of(rows.score, rows.codes, width=times / 32, **how)
    found = fine.coarsened(times).trimmed()
    assert found.bins == coarse.bins
    np.testing.assert_allclose(found.moments, coarse.moments, atol=1e-9)


def test_vector_moments_in_coarser_bins():
    X, y, treatment, weight, w = trial(300)
    rows = PairRows(X, code_rows(y, treatment=treatment), weight)
    fine = PairSummary.from_rows(rows, w, Bins.covering(-9, 9, 1 / 16), vectors=True)
    coarse = PairSummary.from_rows(rows, w, Bins.covering(-9, 9, 1 / 4), vectors=True)
    found = fine.coarsened(4).trimmed()
    assert found.bins == coarse.bins
    np.testing.assert_allclose(found.vectors, coarse.vectors, atol=1e-9)


def test_sums_by_class_are_what_they_say():
    X, y, treatment, _, _ = trial(200)
    (batch,) = ListedRows(X, y, treatment).batches()
    sums = class_sums(batch)
    ones = np.column_stack([np.ones(200), X])
    for c, code in enumerate([(1, 1), (1, 0), (0, 0), (0, 1)]):
        own = ones[(treatment == code[0]) & (y == code[1])]
        np.testing.assert_allclose(sums.products[c], own.T @ own)
