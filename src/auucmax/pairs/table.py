"""Polynomial pieces of a surrogate, one for each difference of bins, and how many bins it takes.

For an integer offset q (bin of the winner minus bin of the loser) the score difference is
z = (q + t) width with -1 <= t <= 1. On that *cell* a derivative of the surrogate is replaced by

    s^(order)((q + t) width) ~ sum_m alpha_m[q] t^m,   m = 0..degree.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.fft import rfft

from auucmax._validation import Floats
from auucmax.pairs.passes import DEGREE
from auucmax.pairs.surrogates import Surrogate

_CHECKS = np.linspace(-1.0, 1.0, 65)  # where the error of a cell is measured


def cell_polynomials(
    surrogate: Surrogate, width: float, offsets: NDArray[np.int64], order: int, degree: int = DEGREE
) -> Floats:
    """Coefficients alpha of every cell, shape (len(offsets), degree + 1).

    Interpolation at the Chebyshev points of the cell: for an analytic surrogate the error is at
    most width^(degree+1) max |s^(order+degree+1)| / ((degree+1)! 2^degree). A cell with a knot
    inside gets the least-squares polynomial, whose errors average to about zero over the cell.
    """
    points = np.cos(np.pi * (np.arange(degree + 1) + 0.5) / (degree + 1))
    solve = np.linalg.inv(np.vander(points, increasing=True))
    values = surrogate.derivative((offsets[:, None] + points) * width, order)
    alpha = values @ solve.T
    knotted = _knotted(surrogate, width, offsets)
    if knotted.any():
        fine = np.linspace(-1.0, 1.0, 2001)
        powers = np.vander(fine, degree + 1, increasing=True)
        values = surrogate.derivative((offsets[knotted, None] + fine) * width, order)
        alpha[knotted] = np.linalg.lstsq(powers, values.T, rcond=None)[0].T
    return alpha


def cell_errors(
    surrogate: Surrogate, width: float, offsets: NDArray[np.int64], order: int, degree: int = DEGREE
) -> Floats:
    """Largest error of each cell's polynomial, measured on 65 points; shape (len(offsets),)."""
    alpha = cell_polynomials(surrogate, width, offsets, order, degree)
    exact = surrogate.derivative((offsets[:, None] + _CHECKS) * width, order)
    errors = np.abs(alpha @ np.vander(_CHECKS, degree + 1, increasing=True).T - exact).max(axis=1)
    if surrogate.knot is not None:  # the error peaks there
        t = np.clip(surrogate.knot / width - offsets, -1.0, 1.0)
        value = (alpha * np.vander(t, degree + 1, increasing=True)).sum(axis=1)
        at_knot = np.abs(value - surrogate.derivative((offsets + t) * width, order))
        errors = np.maximum(errors, at_knot)
    return np.asarray(errors)


@lru_cache(maxsize=24)
def spectrum(
    surrogate: Surrogate, width: float, n_fft: int, order: int, degree: int = DEGREE
) -> NDArray[np.complex128]:
    """Fourier transform of alpha over the offsets, shape (degree + 1, n_fft // 2 + 1)."""
    return _over_offsets(cell_polynomials(surrogate, width, fft_offsets(n_fft), order, degree).T)


@lru_cache(maxsize=24)
def error_spectrum(
    surrogate: Surrogate, width: float, n_fft: int, order: int
) -> NDArray[np.complex128]:
    """Fourier transform of the cells' errors over the offsets, shape (n_fft // 2 + 1,)."""
    return _over_offsets(cell_errors(surrogate, width, fft_offsets(n_fft), order))


@lru_cache(maxsize=64)
def bins_per_length(surrogate: Surrogate, accuracy: float) -> int:
    """Bins to the surrogate's length that bring value and slope to the accuracy asked for.

    For a surrogate without a knot: in every cell the error of s' is at most ``accuracy`` times |s'|
    there, and that of s at most ``accuracy`` s(0), whatever the scores are. (For one with a knot
    the answer depends on the scores; see ``PairField.error_bound``.)

    >>> from auucmax.pairs.surrogates import s_log
    >>> bins_per_length(s_log(), 1e-8), bins_per_length(s_log(), 1e-11)
    (8, 16)
    """
    for bins in (8, 10, 12, 16, 20, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512):
        width = surrogate.length / bins
        offsets = np.arange(-30 * bins, 30 * bins + 1)
        slope = np.abs(surrogate.derivative(offsets * width, 1))
        slope_error = cell_errors(surrogate, width, offsets, 1)
        value_error = cell_errors(surrogate, width, offsets, 0)
        # Rounding: the values around a cell carry 1e-16 of themselves, the inversion magnifies it
        floor = 1e-14 * slope.max()
        if (slope_error <= accuracy * slope + floor).all() and (
            value_error
            <= accuracy * max(float(surrogate(0.0)), 1e-300)
            + 1e-14 * surrogate.max_value(30 * surrogate.length)
        ).all():
            return bins
    raise ValueError(
        f"{surrogate} should be smooth on its length {surrogate.length:g}, got errors above "
        f"{accuracy:g} with 512 bins to it. Ask for less accuracy, or state a smaller length."
    )


def fft_offsets(n_fft: int) -> NDArray[np.int64]:
    """0, 1, ..., then the negative offsets, in the order of a circular convolution."""
    return np.fft.fftfreq(n_fft, 1.0 / n_fft).round().astype(np.int64)


def _over_offsets(values: Floats) -> NDArray[np.complex128]:
    result: NDArray[np.complex128] = rfft(values, axis=-1)
    return result


def _knotted(surrogate: Surrogate, width: float, offsets: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Cells that have the knot inside, not merely at an end (up to rounding)."""
    if surrogate.knot is None:
        return np.zeros(len(offsets), dtype=bool)
    return np.abs(offsets - surrogate.knot / width) < 1.0 - 1e-9
