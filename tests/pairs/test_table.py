import numpy as np
import pytest

from auucmax.pairs import bins_per_length, s_log, s_poly, sigmoid
from auucmax.pairs.surrogates import SigmoidSurrogate
from auucmax.pairs.table import cell_errors, cell_polynomials

OFFSETS = np.arange(-200, 201)


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


def test_more_accuracy_takes_more_bins():
    counts = [bins_per_length(sigmoid(), accuracy) for accuracy in (1e-6, 1e-9, 1e-11, 1e-13)]
    assert counts == sorted(counts)
    assert counts[0] < counts[-1]


def test_a_length_that_is_not_its_own():
    class Wrong(SigmoidSurrogate):
        length = 1000.0

    with pytest.raises(ValueError, match="smooth on its length"):
        bins_per_length(Wrong(tau=0.01), 1e-8)
