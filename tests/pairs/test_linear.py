"""The objective of a linear score, and its derivatives in the coefficients."""

import numpy as np
import pytest
from tests.pairs.pair_rows import any_outcome, every, level_values, trial

from auucmax.pairs import (
    PairObjective,
    hinge,
    linear,
    passes,
    s_log,
    s_poly,
    sigmoid,
)
from auucmax.pairs import objective as objective_module
from auucmax.pairs.reference import pair_hessian, pair_sums

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


@every
def test_gradient_agrees_with_differences(s):
    X, y, treatment, weight, w = trial(600)
    objective = PairObjective(
        X, y, treatment=treatment, surrogate=s, sample_weight=weight, accuracy=1e-11
    )
    _, gradient = objective.value_and_gradient(w)
    step = 1e-5 if s.n_derivatives else 1e-7
    slopes = [
        (objective.value(w + step * e) - objective.value(w - step * e)) / (2 * step)
        for e in np.eye(len(w))
    ]
    assert slopes == pytest.approx(gradient, abs=1e-4 * np.abs(gradient).max())


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


@pytest.mark.parametrize("s", [s_log(), s_poly(mu=1.0)], ids=str)
def test_layout_and_precision_of_the_features(s):
    X, y, treatment, _, w = trial(700)
    X = X.astype(np.float32).astype(np.float64)
    objective = PairObjective(X, y, treatment=treatment, surrogate=s)
    first = (*objective.value_and_gradient(w), objective.hessian(w))
    for other in (X.astype(np.float32), np.asfortranarray(X), np.hstack([X, X])[:, 4:]):
        made = PairObjective(other, y, treatment=treatment, surrogate=s)
        assert made.rows.X is other
        for a, b in zip(first, (*made.value_and_gradient(w), made.hessian(w)), strict=True):
            assert a == pytest.approx(b, abs=1e-9 * np.abs(b).max())


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


@pytest.mark.parametrize("row", [0, 700, 1002])
@pytest.mark.parametrize("order", ["C", "F"])
def test_column_extremes_wherever_they_are(row, order):
    X, y, treatment, *_ = trial(1003)
    X[row] = [50.0, -50.0, 60.0, -60.0]
    objective = PairObjective(np.asarray(X, order=order), y, treatment=treatment)
    assert np.array_equal(objective.low, X.min(axis=0))
    assert np.array_equal(objective.high, X.max(axis=0))


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


@pytest.mark.parametrize("w", [np.ones(3), np.array([1.0, np.nan]), np.ones((2, 1))])
def test_a_bad_direction(w):
    X, y, treatment, *_ = trial(100, d=2)
    with pytest.raises(ValueError, match="w should hold 2 finite numbers"):
        PairObjective(X, y, treatment=treatment).value(w)


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
