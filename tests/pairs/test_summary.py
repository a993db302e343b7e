import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.pairs.pair_rows import Rows, any_outcome, coded_rows, summary_of, trial
from tests.pairs.reference import pair_hessian, pair_sums

from auucmax.pairs import (
    Bins,
    PairField,
    PairRows,
    PairSummary,
    bins_per_length,
    box_range,
    code_rows,
    s_log,
    s_poly,
    sigmoid,
)
from auucmax.pairs.losses import SigmoidSurrogate
from auucmax.pairs.losses import pair_sums as pair_sums_of
from auucmax.pairs.passes import row_values, weighted_gram
from auucmax.pairs.summary import cell_errors, cell_polynomials

WIDTH = 1 / 20
quick = settings(deadline=None, max_examples=100)


def test_controls_are_flipped():
    codes = code_rows([1, 0, 1, 0], treatment=["a", "a", "b", "b"], control="b")
    assert codes.tolist() == [0, 1, 3, 2]


@quick
@given(coded_rows(), st.booleans())
def test_moments_are_what_they_say(rows, weighted):
    weight = rows.weight if weighted else None
    codes, n_classes = rows.codes, rows.levels.n_classes
    how = {"weight": weight, "n_classes": n_classes}
    summary = summary_of(rows.score, codes, width=WIDTH, **how)
    w = np.ones(len(rows.score)) if weight is None else weight
    position = rows.score * (1 / WIDTH)
    cell = np.floor(position)
    r = position - cell - 0.5
    for c in range(n_classes):
        for b in {*cell.tolist()}:
            here = (codes == c) & (cell == b)
            k = int(b) - summary.bins.first
            if not w[cell == b].any():
                continue
            for p in range(6):
                expected = (w[here] * r[here] ** p).sum()
                assert summary.moments[c, k, p] == pytest.approx(expected, abs=1e-9)
    assert summary.totals == pytest.approx(np.bincount(codes, w, n_classes), abs=1e-12)


@quick
@given(coded_rows(), st.integers(0, 2**32 - 1))
def test_parts_add_up(rows, seed):
    part = np.random.default_rng(seed).integers(0, 3, len(rows.score))
    codes, how = rows.codes, {"width": WIDTH, "n_classes": rows.levels.n_classes}
    whole = summary_of(rows.score, codes, weight=rows.weight, **how)
    total = None
    for k in {*part.tolist()}:
        own = part == k
        weight = None if rows.weight is None else rows.weight[own]
        piece = summary_of(rows.score[own], codes[own], weight=weight, **how)
        total = piece if total is None else total + piece
    total = total.trimmed()
    assert total.bins == whole.bins
    assert total.moments == pytest.approx(whole.moments, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("y", [[1, 0, 2, 0], [1, 0, 0.5, 0], [-1, 1, 1, -1]])
def test_an_outcome_that_is_not_binary(y):
    with pytest.raises(ValueError, match="y should be 0 or 1"):
        code_rows(y, treatment=[1, 1, 0, 0])


@quick
@given(coded_rows(), st.booleans())
def test_where_all_scores_are_0_no_pass_is_needed(rows, vectors):
    codes, n_classes = rows.codes, rows.levels.n_classes
    weight = np.ones(len(codes)) if rows.weight is None else rows.weight
    x, zero = rows.score[:, None], np.zeros(1)
    bins = Bins.covering(-1.0, 1.0, WIDTH)
    read = PairSummary.from_rows(PairRows(x, codes, weight, n_classes), zero, bins, vectors=vectors)
    sums = np.bincount(codes, weight * rows.score, n_classes)[:, None] if vectors else None
    found = PairSummary.at_zero(WIDTH, np.bincount(codes, weight, n_classes), sums)
    assert found.bins == read.bins
    np.testing.assert_allclose(found.moments, read.moments, atol=1e-12)
    if vectors:
        np.testing.assert_allclose(found.vectors, read.vectors, atol=1e-9)


OFFSETS = np.arange(-200, 201)

SMOOTH = [s_log(), sigmoid(), sigmoid(2.0)]
KNOTTED = [s_poly(), s_poly(mu=1.0), s_poly(0.5, 4), s_poly(2.0, 5)]


def field_of(rows, s, bins_per_length=20):
    summary = summary_of(
        rows.score,
        rows.codes,
        width=s.length / bins_per_length,
        weight=rows.weight,
        n_classes=rows.levels.n_classes,
    )
    return PairField(summary, s, gaps=rows.levels.gaps)


def sums_of(rows, s):
    return pair_sums(rows.score, rows.cut, rows.treated, s, rows.weight)


def derivative(field, rows, order):
    as_rows = PairRows(rows.score[:, None], rows.codes, rows.weight)
    return row_values(as_rows, np.ones(1), field.bins, field.coefficients(order))


def opponents(rows):
    """The weight of all rows times the largest gap: a bound on what a row's opponents count."""
    w = np.ones(len(rows.score)) if rows.weight is None else rows.weight
    return w.sum() * w.max() * max(np.ptp(rows.cut), 1.0)


@pytest.mark.parametrize("s", SMOOTH, ids=str)
@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_smooth_surrogates_at_a_twentieth_of_their_length(s, data):
    """Loss to 1e-8 of pairs x max s, slopes to 1e-8 and curvatures to 1e-4 of the largest."""
    rows = data.draw(coded_rows(s.length))
    field, exact = field_of(rows, s), sums_of(rows, s)
    reach = np.ptp(rows.score)
    pairs = pair_sums_of(field.summary.totals, rows.levels.gaps)
    assert (np.abs(field.losses - exact.losses) <= 1e-8 * pairs * s(-reach)).all()
    # The transforms round at 1e-16 of the largest |s'|, which may be far above all that occur.
    rounding = 1e-13 * opponents(rows) / s.length
    assert derivative(field, rows, 1) == pytest.approx(
        exact.gradient, abs=1e-8 * np.abs(exact.gradient).max() + rounding
    )
    assert derivative(field, rows, 2) == pytest.approx(
        exact.curvature, abs=1e-4 * np.abs(exact.curvature).max() + rounding / s.length
    )


@pytest.mark.parametrize("s", SMOOTH + KNOTTED, ids=str)
@settings(deadline=None, max_examples=40)
@given(data=st.data(), per_length=st.sampled_from([1, 2, 4, 7.3, 16, 64]))
def test_the_error_bound_bounds_the_error(s, data, per_length):
    """Also for coarse bins, and for bins that do not divide the knot."""
    rows = data.draw(coded_rows(s.length))
    field = field_of(rows, s, per_length)
    exact = sums_of(rows, s)
    w = np.ones(len(rows.score)) if rows.weight is None else rows.weight
    assert abs(field.value - exact.losses.sum()) <= 1.1 * field.error_bound(0)
    for order, expected in ((1, exact.gradient), (2, exact.curvature)):
        error = np.abs(derivative(field, rows, order) - expected)
        assert (error <= 1.1 * w * field.error_bound(order)).all()


@pytest.mark.gate
def test_s_poly_on_smooth_scores_with_a_thousand_bins():
    """The knot costs one diagonal of the bin pairs, whose errors cancel over many rows."""
    rng = np.random.default_rng(5)
    (y, treated), score = rng.integers(0, 2, (2, 4000)), rng.normal(size=4000)
    codes = code_rows(y, treatment=treated)
    for scale in (0.02, 0.5, 3.0):
        s, x = s_poly(), scale * score
        width = s.mu / max(1, round(s.mu * 1000 / np.ptp(x)))
        field = PairField(summary_of(x, codes, width=width), s)
        exact = pair_sums(x, y, treated == 1, s)
        assert field.losses == pytest.approx(exact.losses, rel=1e-9)
        slopes = row_values(
            PairRows(x[:, None], codes), np.ones(1), field.bins, field.coefficients(1)
        )
        assert slopes == pytest.approx(exact.gradient, abs=1e-6 * np.abs(exact.gradient).max())


@any_outcome
@pytest.mark.parametrize("s", [s_log(), sigmoid(0.5), s_poly(mu=8.0), s_poly(0.4, 5)], ids=str)
def test_batches_give_loss_and_gradient_in_one_pass_and_the_hessian_in_a_second(s, outcome):
    X, y, treatment, weight, w = trial(300, outcome=outcome)
    rows = Rows(X @ w, y, treatment == 1, weight)
    codes, levels = rows.codes, rows.levels
    batches = [
        PairRows(X[b], codes[b], weight[b], levels.n_classes)
        for b in (slice(0, 90), slice(90, 300))
    ]
    multipliers = (0.7, 1.9)

    def summary(rows):
        box = box_range(rows.X.min(axis=0), rows.X.max(axis=0), w)
        bins = Bins.covering(*box, s.length / 20)
        return PairSummary.from_rows(rows, w, bins, vectors=True)

    field = PairField(summary(batches[0]) + summary(batches[1]), s, multipliers, levels.gaps)
    exact, each = sums_of(rows, s), rows.each(multipliers)
    assert field.value == pytest.approx(np.dot(multipliers, exact.losses), rel=1e-9)
    gradient = X.T @ (each * exact.gradient)
    assert field.gradient() == pytest.approx(gradient, rel=1e-8, abs=1e-8 * np.abs(gradient).max())
    bend, cross = field.coefficients(2), field.cross(field.summary.vectors)
    gram = sum(weighted_gram(rows, w, field.bins, bend) for rows in batches)
    hessian = gram - cross - cross.T
    expected = pair_hessian(X, w, rows.cut, rows.treated, s, multipliers, weight)
    assert hessian == pytest.approx(expected, abs=1e-6 * np.abs(expected).max())


@pytest.mark.parametrize("order", [0, 1, 2])
def test_a_polynomial_surrogate_is_exact_off_its_knot(order):
    s = s_poly(mu=0.3)
    errors = cell_errors(s, 0.3 / 16, OFFSETS, order)
    off = OFFSETS != 16
    assert errors[off].max() < 1e-12 * np.abs(s.derivative(-4.0, order))
    assert errors[~off][0] > 1e4 * errors[off].max()  # the diagonal that sees the knot


@pytest.mark.parametrize("order", [0, 1, 2])
def test_the_knot_cell_errs_to_both_sides(order):
    """Least squares: the error integrates to zero over the cell, so it cancels over many pairs."""
    s, width = s_poly(mu=0.3), 0.3 / 16
    t = np.linspace(-1, 1, 20001)
    alpha = cell_polynomials(s, width, np.array([16]), order)[0]
    error = np.polynomial.polynomial.polyval(t, alpha) - s.derivative((16 + t) * width, order)
    assert abs(error.mean()) < 1e-3 * np.abs(error).max()


@pytest.mark.parametrize("s", [s_log(), sigmoid(0.05)], ids=str)
@pytest.mark.parametrize("accuracy", [1e-6, 1e-8, 1e-11])
def test_bins_per_length_keeps_its_promise(s, accuracy):
    bins = bins_per_length(s, accuracy)
    width = s.length / bins
    offsets = np.arange(-12 * bins, 12 * bins + 1)
    t = np.linspace(-1, 1, 501)  # finer than the points that the choice was made on
    z = (offsets[:, None] + t) * width
    powers = np.vander(t, 6, increasing=True)
    for order, size in ((0, float(s(0.0))), (1, np.abs(s.derivative(offsets * width, 1))[:, None])):
        poly = cell_polynomials(s, width, offsets, order) @ powers.T
        assert (np.abs(poly - s.derivative(z, order)) <= 1.05 * accuracy * size + 1e-13).all()
    # and no more bins than needed: three quarters of them would do for 10 times the error at most
    assert bins == 8 or bins_per_length(s, 10 * accuracy) < bins


@pytest.mark.gate
def test_a_length_that_is_not_its_own():
    class Wrong(SigmoidSurrogate):
        length = 1000.0

    with pytest.raises(ValueError, match="smooth on its length"):
        bins_per_length(Wrong(tau=0.01), 1e-8)
