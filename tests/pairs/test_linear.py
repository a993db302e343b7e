"""The objective of a linear score, and its derivatives in the coefficients."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.batches_in_memory import ListedRows
from tests.pairs.pair_rows import any_outcome, coded_rows, every, level_values, summary_of, trial
from tests.pairs.reference import pair_hessian, pair_sums

from auucmax.pairs import (
    OutcomeLevels,
    PairObjective,
    TooManyBinsError,
    hinge,
    linear,
    passes,
    s_log,
    s_poly,
    sigmoid,
)
from auucmax.pairs import objective as objective_module
from auucmax.pairs.linear import StreamedObjective

curved = pytest.mark.parametrize(
    "s", [s_poly(), s_poly(mu=1.0), s_poly(2.0, 2), s_log(), sigmoid(0.5)], ids=str
)


@every
@any_outcome
@pytest.mark.parametrize("scale", [0.001, 1.0, 5.0])
@pytest.mark.parametrize("sorted_rows", [0, 20_000])
def test_linear_scores_equal_the_written_out_sums(s, outcome, scale, sorted_rows, monkeypatch):
    monkeypatch.setattr(objective_module, "SORTED_ROWS", sorted_rows)
    X, y, treatment, weight, w = trial(400, scale=scale, outcome=outcome)
    objective = PairObjective(X, y, treatment=treatment, surrogate=s, sample_weight=weight)
    value, gradient = objective.value_and_gradient(w)
    cut = level_values(objective, y, treatment)
    exact = pair_sums(X @ w, cut, treatment == 1, s, weight)
    each = np.where(treatment == 1, *objective.multipliers)
    expected = X.T @ (each * exact.gradient)
    assert value == pytest.approx(np.dot(objective.multipliers, exact.losses), rel=1e-8)
    assert objective.value(w) == value
    assert gradient == pytest.approx(expected, abs=1e-7 * np.abs(expected).max())


@curved
@any_outcome
@pytest.mark.parametrize("scale", [0.01, 1.0])
def test_hessian(s, outcome, scale):
    X, y, treatment, weight, w = trial(500, scale=scale, outcome=outcome)
    objective = PairObjective(X, y, treatment=treatment, surrogate=s, sample_weight=weight)
    value, gradient = objective.value_and_gradient(w)
    hessian = objective.hessian(w)
    again = objective.value_and_gradient(w)
    assert value == again[0] == objective.value(w)
    assert np.array_equal(gradient, again[1])
    cut = level_values(objective, y, treatment)
    expected = pair_hessian(X, w, cut, treatment == 1, s, objective.multipliers, weight)
    share = 1e-4 if s.n_derivatives >= 2 else 5e-3  # p = 2: s'' itself jumps
    assert hessian == pytest.approx(expected, abs=share * np.abs(expected).max())
    assert np.array_equal(hessian, hessian.T)
    step = 1e-4 * scale
    differences = [
        (
            objective.value_and_gradient(w + step * e)[1]
            - objective.value_and_gradient(w - step * e)[1]
        )
        / (2 * step)
        for e in np.eye(len(w))
    ]
    assert np.array(differences) == pytest.approx(hessian, abs=1e-2 * np.abs(hessian).max())


@curved
def test_a_direction_that_all_rows_share_is_flat(s):
    """A one-hot block: adding a constant to its coefficients moves every score alike."""
    rng = np.random.default_rng(4)
    _, y, treatment, *_ = trial(800)
    X = np.column_stack([np.eye(3)[rng.integers(0, 3, 800)], rng.normal(size=800)])
    w = np.array([0.3, -0.2, 0.1, 0.8])
    objective = PairObjective(X, y, treatment=treatment, surrogate=s)
    gradient, hessian = objective.value_and_gradient(w)[1], objective.hessian(w)
    flat = np.array([1.0, 1.0, 1.0, 0.0])
    assert gradient @ flat == pytest.approx(0, abs=1e-9 * np.abs(gradient).max())
    assert hessian @ flat == pytest.approx(np.zeros(4), abs=1e-12 * np.abs(hessian).max())
    if s.convex:
        assert np.linalg.eigvalsh(hessian).min() > -1e-5 * np.abs(hessian).max()


@pytest.mark.gate
@any_outcome
def test_more_rows_than_the_compiler_waits_for(monkeypatch, outcome):
    pytest.importorskip("numba")
    from auucmax.pairs import passes

    monkeypatch.setattr(objective_module, "SORTED_ROWS", 0)

    X, y, treatment, weight, w = trial(5000, outcome=outcome)
    for s in (s_poly(mu=0.5), s_log()):
        objective = PairObjective(X, y, treatment=treatment, surrogate=s, sample_weight=weight)
        few = (*objective.value_and_gradient(w), objective.hessian(w))
        with monkeypatch.context() as compiled:
            compiled.setattr(passes, "COMPILE_ROWS", 0)
            objective = PairObjective(X, y, treatment=treatment, surrogate=s, sample_weight=weight)
            many = (*objective.value_and_gradient(w), objective.hessian(w))
        for a, b, share in zip(few, many, (1e-8, 1e-7, 1e-3), strict=True):
            assert a == pytest.approx(b, abs=share * np.abs(b).max())


def test_loose_bounds_on_the_scores_are_tightened():
    """Columns that cancel: the box allows scores up to 4000, the scores are near 0."""
    X, y, treatment, *_ = trial(300)
    X = np.column_stack([X[:, 0] * 1000, X[:, 0] * 1000 + X[:, 1]])
    w = np.array([1.0, -1.0])
    objective = PairObjective(X, y, treatment=treatment, surrogate="s_log")
    assert objective.value(w) == pytest.approx(
        np.dot(
            objective.multipliers,
            pair_sums(X @ w, y, treatment == 1, s_log()).losses,
        ),
        rel=1e-7,
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": np.zeros(40)}, "each arm should have both outcomes, got one in all treated rows"),
        ({"y": np.full(40, 2)}, "y should have two levels, got 2 in all rows"),
        ({"y": np.repeat([3, 4.5, 4.5], [20, 10, 10])}, "have different outcomes, got one in all"),
        ({"X": np.ones(40)}, r"X should have shape \(40, d\)"),
        ({"X": np.ones((39, 2))}, r"X should have shape \(40, d\)"),
        ({"X": np.full((40, 2), np.nan)}, "X should be finite numbers, got NaN or inf"),
        ({"sample_weight": -np.ones(40)}, "sample_weight should be 0 or positive"),
        ({"surrogate": "square"}, "surrogate should be one of"),
        ({"weights": "none"}, "weights should be"),
        ({"treatment": np.ones(40)}, "treatment should be of two levels"),
    ],
)
def test_bad_input(change, message):
    given = {"X": np.ones((40, 2)), "y": np.arange(40) % 2, "treatment": np.arange(40) // 20}
    given.update(change)
    with pytest.raises(ValueError, match=message):
        PairObjective(given.pop("X"), given.pop("y"), **given)


def test_the_hinge_has_no_hessian():
    X, y, treatment, _, w = trial(100)
    objective = PairObjective(X, y, treatment=treatment, surrogate=hinge())
    with pytest.raises(ValueError, match="should have a second derivative"):
        objective.hessian(w)


@pytest.mark.parametrize("surrogate", ["s_log", "s_poly"])
def test_the_hessian_of_very_many_rows_is_that_of_some_of_them(surrogate, monkeypatch):
    rng = np.random.default_rng(0)
    X, y, t = rng.normal(size=(40_000, 3)), rng.random(40_000) < 0.4, rng.random(40_000) < 0.5
    w = np.array([0.02, -0.01, 0.03])
    for weight in (None, rng.random(40_000) + 0.5):
        objective = PairObjective(X, y, treatment=t, surrogate=surrogate, sample_weight=weight)
        objective._polynomial = None  # as of many rows
        exact = objective.hessian(w)
        monkeypatch.setattr(linear, "ROUGH_ROWS", 10_000)
        # A standard error of sums over 10,000 of 40,000 rows is about a hundredth.
        size = np.abs(exact).max()
        np.testing.assert_allclose(objective.hessian(w), exact, rtol=0.05, atol=0.05 * size)
        monkeypatch.undo()


def test_at_0_rows_are_summed_once_for_the_gradient_and_never_to_place_them(monkeypatch):
    monkeypatch.delattr(passes, "moments")
    X, y, treatment, weight, w = trial(400)
    objective = PairObjective(X, y, treatment=treatment, surrogate=s_log(), sample_weight=weight)
    value, gradient = objective.value_and_gradient(0 * w)
    hessian = objective.hessian(0 * w)
    exact = pair_sums(0 * y, y, treatment == 1, s_log(), weight)
    each = np.where(treatment == 1, *objective.multipliers)
    assert value == pytest.approx(np.dot(objective.multipliers, exact.losses))
    assert gradient == pytest.approx(X.T @ (each * exact.gradient), abs=1e-7)
    assert np.isfinite(hessian).all()
    with pytest.raises(AttributeError, match="moments"):
        objective.value_and_gradient(w)


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
