"""Sums over all pairs from bin moments: the algorithm, from the easy case up.

The task
    In each arm, every *winner* i should score above every *loser* j. Treated responders win over
    treated non-responders; in the control arm the labels are flipped, so that control
    *non*-responders win over control responders (Proposition 1 of the paper). Wanted is

        L = sum over winners i and losers j of u_i v_j s(a_i - b_j),

    a, b the scores, u, v the row weights, s a surrogate; and its derivative for each row's score.
    Written out that is (winners) x (losers) terms, which ``reference.py`` does in a few lines.

All scores are multiples of a width D
    Then only counts matter. With A[k] the weight of the winners that score kD, B[l] that of the
    losers that score lD,

        L = sum_k A[k] F[k],   F[k] = sum_l s((k - l) D) B[l],

    and F is a discrete convolution: one fast Fourier transform. F[k] is what a winner in bin k
    pays, the *field* that the losers exert on it.

Any scores
    Cut the axis into bins of width D. A winner in bin k at offset r (in bin widths from the
    centre, -1/2 <= r < 1/2) and a loser in bin l at offset r' differ by z = (k - l + r - r') D.
    On each cell k - l - 1 <= z/D <= k - l + 1, replace s by a polynomial in r - r':

        s(z) ~ sum_m alpha_m[k - l] (r - r')^m,   m = 0..5,

    and expand (r - r')^m = sum_p binom(m, p) r^p (-r')^(m - p). Everything that a loser
    contributes is then a *moment* of its bin, B_p[l] = sum of v r'^p, and

        field of a winner = sum_p F_p[k] r^p,
        F_p[k] = sum_{m >= p} binom(m, p) (-1)^(m - p) sum_l alpha_m[k - l] B_{m - p}[l].

    Six convolutions, and the field of any row is a polynomial of degree five in r whose
    coefficients its bin knows. The same with s' and s'' in the place of s gives the derivative
    and the curvature of L in each row's score.

How good is it
    The polynomial interpolates s at six Chebyshev points of the cell. Its error is of the order
    (D / length)^6 / 23040: below 1e-8 with six bins to the surrogate's length, 1e-11 with twenty.
    Where s has a knot (s_poly at z = mu) D divides mu, so only pairs with k - l = mu/D, one
    diagonal of the table of bin pairs, see the knot; everywhere else s_poly is a polynomial and
    nothing is lost. ``PairField.error_bound`` adds up the cells' errors over the pairs in them.

Any outcome
    Treated people should rank high whose outcome is high, each pair counting (y_i - y_j)+. With L
    levels of the outcome these are L - 1 problems of winners and losers, one for each threshold
    between two levels (``losses.py``): who is above it wins over who is below. The fields that a
    row meets are those of all thresholds, added up: 2 (L - 1) convolutions, of bins and not of
    rows. Outcomes 0 and 1 have one threshold.

A summary of rows is the array of moments of the classes: levels of the outcome in an arm, of 0/1
outcomes treated winners, treated losers, control winners and control losers. Summaries of different
rows add, weights multiply. With the moments of r^p x beside those of r^p, the gradient in w of a
linear score comes from the summary too, in a single pass over the rows.

Below, :class:`PairSummary` has the moments and :class:`PairField` their convolutions. For an
integer offset q (bin of the winner minus bin of the loser) the score difference is z = (q + t)
width with -1 <= t <= 1. On that *cell* a derivative of the surrogate is replaced by

    s^(order)((q + t) width) ~ sum_m alpha_m[q] t^m,   m = 0..degree.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from math import comb
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.fft import irfft, rfft
from scipy.special import binom

from auucmax._validation import Floats, check_column, check_treatment
from auucmax.pairs import passes
from auucmax.pairs.losses import BINARY, Surrogate
from auucmax.pairs.passes import DEGREE, Bins, PairRows


def code_rows(y: ArrayLike, *, treatment: ArrayLike, control: Any = None) -> NDArray[np.int8]:
    """Class codes for 0/1 outcomes: treated winners 0, losers 1; control 2, 3.

    Even codes, of treated responders and control non-responders, win over the odd ones that follow.

    >>> code_rows([1, 0, 0, 1], treatment=[1, 1, 0, 0])
    array([0, 1, 2, 3], dtype=int8)
    """
    y = check_column(y, "y")
    treated = check_treatment(treatment, len(y), control=control)
    if not np.array_equal(y, y.astype(bool)):
        raise ValueError(
            f"y should be 0 or 1 in every row, got values from {y.min():g} to {y.max():g}. "
            f"Cut the outcome at a threshold first."
        )
    return BINARY.codes(y, treated)


def box_range(low: Floats, high: Floats, w: Floats) -> tuple[float, float]:
    """Bounds on x.w from column minima and maxima."""
    return float(np.minimum(low * w, high * w).sum()), float(np.maximum(low * w, high * w).sum())


@dataclass(frozen=True, eq=False)
class PairSummary:
    """Moments of rows by class and bin; summaries of different rows add.

    Attributes
    ----------
    bins : the bins that ``sums`` describes.
    sums : (classes, bins, 6), sum of weight r^p, p = 0..5; with vector moments
        (classes, bins, 6, d + 1), sum of weight r^p (x, 1).

    Examples
    --------
    >>> codes = code_rows([1, 0, 0, 1], treatment=[1, 1, 0, 0])
    >>> rows = PairRows(np.array([[0.3], [0.1], [0.2], [0.2]]), codes)
    >>> summary = PairSummary.from_rows(rows, np.ones(1), Bins.covering(0.1, 0.3, width=0.5))
    >>> (summary + summary).totals / 2
    array([1., 1., 1., 1.])
    """

    bins: Bins
    sums: Floats

    @classmethod
    def from_rows(
        cls, rows: PairRows, w: Floats, bins: Bins, *, vectors: bool = False
    ) -> PairSummary:
        """Summarise rows with scores X w, optionally with vector moments; one pass over X."""
        sums = (passes.vector_moments if vectors else passes.moments)(rows, w, bins)
        return cls(bins, sums).trimmed()

    @classmethod
    def at_zero(cls, width: float, totals: Floats, sums: Floats | None = None) -> PairSummary:
        """Summary of rows whose scores are all 0, from class weights alone.

        ``sums`` (classes, d) of weight x, if vector moments are wanted.
        """
        both = totals if sums is None else np.column_stack([sums, totals])
        powers = (-0.5) ** np.arange(passes.DEGREE + 1)  # 0 is the lower end of bin 0
        powers = powers.reshape(-1, *(1,) * (both.ndim - 1))
        return cls(Bins(width, 0, 1), both[:, None, None] * powers)

    @property
    def moments(self) -> Floats:
        """Sums of weight r^p, (classes, bins, 6)."""
        return self.sums if self.sums.ndim == 3 else self.sums[..., -1]

    @property
    def vectors(self) -> Floats | None:
        """Sums of weight r^p x, (classes, bins, 6, d); None if not computed."""
        return None if self.sums.ndim == 3 else self.sums[..., :-1]

    @property
    def totals(self) -> Floats:
        """Weight of each class, (classes,)."""
        return self.moments[:, :, 0].sum(axis=1)

    def trimmed(self) -> PairSummary:
        """Drop empty bins at both ends."""
        occupied = np.flatnonzero(self.moments[:, :, 0].any(axis=0))
        if not len(occupied):
            occupied = np.array([0])
        kept = slice(int(occupied[0]), int(occupied[-1]) + 1)
        bins = Bins(self.bins.width, self.bins.first + kept.start, kept.stop - kept.start)
        return PairSummary(bins, self.sums[:, kept].copy())

    def coarsened(self, times: int) -> PairSummary:
        """Merge bins to ``times`` their width, without another pass over the rows.

        Fine bin k is number j = k mod times in its coarse one, so r -> (j + 1/2 + r) / times - 1/2,
        and powers of that are sums of powers of r.
        """
        first = self.bins.first // times
        last = (self.bins.first + self.bins.size - 1) // times
        bins = Bins(self.bins.width * times, first, last - first + 1)
        fine = np.arange(self.bins.first, self.bins.first + self.bins.size)
        start = ((fine % times) + 0.5) / times - 0.5
        place = fine // times - first

        p, q = np.indices((self.sums.shape[2],) * 2)
        factor = (binom(p, q) / times**q)[..., None] * start ** np.maximum(p - q, 0)[..., None]
        shifted = np.einsum("pqb,cbq...->cbp...", factor, self.sums)
        starts = np.flatnonzero(np.diff(place, prepend=-1))  # the first fine bin of each
        return PairSummary(bins, np.add.reduceat(shifted, starts, axis=1))

    def __add__(self, other: PairSummary) -> PairSummary:
        first = min(self.bins.first, other.bins.first)
        stop = max(s.bins.first + s.bins.size for s in (self, other))
        n_classes, _, *tail = self.sums.shape
        total = np.zeros((n_classes, stop - first, *tail))
        for part in (self, other):
            start = part.bins.first - first
            total[:, start : start + part.bins.size] += part.sums
        return PairSummary(Bins(self.bins.width, first, stop - first), total)


Complexes = NDArray[np.complex128]
_CHECKS = np.linspace(-1.0, 1.0, 65)  # where the error of a cell is measured


class PairField:
    """Interactions of the rows of a summary under a surrogate.

    Parameters
    ----------
    summary : the rows' moments.
    surrogate : s.
    multipliers : factors of the treated and of the control pair sum in ``value``, in the
        coefficients and in the error bounds. (1, 1) leaves the two sums as they are.
    gaps : (classes, classes), what a pair counts: :attr:`OutcomeLevels.gaps`. Default: of 0/1, 1.

    Examples
    --------
    >>> from auucmax.pairs import PairRows, code_rows, s_log
    >>> codes = code_rows([1, 0, 0, 1], treatment=[1, 1, 0, 0])
    >>> rows, bins = PairRows(np.array([[2.0], [0.0], [1.0], [1.0]]), codes), Bins(1 / 20, 0, 41)
    >>> summary = PairSummary.from_rows(rows, np.ones(1), bins)
    >>> PairField(summary, s_log()).losses.round(6)  # s(2), s(0)
    array([0.183118, 1.      ])
    """

    def __init__(
        self,
        summary: PairSummary,
        surrogate: Surrogate,
        multipliers: tuple[float, float] = (1.0, 1.0),
        gaps: Floats = BINARY.gaps,
    ) -> None:
        self.summary = summary
        self.surrogate = surrogate
        self.multipliers = multipliers
        # A power of two that holds the convolution; few sizes, so the tables can be kept.
        self._n_fft = 1 << (2 * summary.bins.size - 1).bit_length()
        # Between neighbouring levels, (2 arms, L - 1): from the highest of the treated down, from
        # the lowest of the control arm up.
        self._steps = np.delete(np.diag(gaps, 1), len(gaps) // 2 - 1).reshape(2, -1)
        self._winners, self._losers = _sides(summary.moments)
        self._winner_spectra, self._loser_spectra = (
            rfft(side, self._n_fft, axis=2) for side in (self._winners, self._losers)
        )
        self._kept: dict[tuple[int, int], Floats] = {}

    @property
    def bins(self) -> Bins:
        return self.summary.bins

    @property
    def losses(self) -> Floats:
        """Pair sums by arm, sum_ij gap_ij u_i v_j s(a_i - b_j); (2,)."""
        result = np.zeros(2)
        for (arm, cut), step in np.ndenumerate(self._steps):
            paid = self._exerted_on(True, 0, self._loser_spectra[arm, cut])
            result[arm] += step * np.vdot(self._winners[arm, cut], paid)
        return result

    @property
    def value(self) -> float:
        """Sum of the two pair sums times their multipliers."""
        return float(np.dot(self.multipliers, self.losses))

    def coefficients(self, order: int, degree: int = DEGREE) -> Floats:
        """Polynomials in r of row derivatives of ``value``; (classes, bins, degree + 1).

        The derivative of the given order (0 to 2) for row i of class c in bin k is its weight times
        sum_p coefficients[c, k, p] r_i^p. Order 2 is the diagonal of the Hessian in the scores.
        """
        if (order, degree) not in self._kept:
            # A loser's score enters z with a minus, so its odd derivatives change sign.
            sign = -1.0 if order % 2 else 1.0
            ours, theirs = (
                spectra[:, :, :, : degree + 1]
                for spectra in (self._winner_spectra, self._loser_spectra)
            )
            self._kept[order, degree] = self._met(
                lambda *cut: self._exerted_on(True, order, theirs[cut]),
                lambda *cut: sign * self._exerted_on(False, order, ours[cut]),
            )
        return self._kept[order, degree]

    def gradient(self) -> Floats:
        """Gradient of ``value`` in w from vector moments, which the summary needs; (d,)."""
        assert self.summary.vectors is not None
        return np.tensordot(self.coefficients(1), self.summary.vectors, axes=3)

    def cross(self, vectors: Floats) -> Floats:
        """sum_ij gap_ij u_i v_j s''(z_ij) x_i x_j', times the multipliers; (d, d)."""
        d = vectors.shape[3]
        result = np.zeros((d, d))
        above, below = _sides(vectors)
        for (arm, cut), step in np.ndenumerate(self._steps):
            winners = step * self.multipliers[arm] * above[arm, cut].reshape(-1, d)
            for j in range(0, d, 64):  # 64 features at a time bound the memory of the transforms
                spectrum = rfft(below[arm, cut, :, :, j : j + 64], self._n_fft, axis=0)
                exerted = self._exerted_on(True, 2, spectrum)
                result[:, j : j + 64] += winners.T @ exerted.reshape(len(winners), -1)
        return result

    def error_bound(self, order: int) -> float:
        """Bound on the error of binning, including rounding of scores and transforms.

        Order 0: of ``value``. Order 1, 2: of any one row's derivative, for a row of weight 1. Each
        pair of bins contributes the largest error of its cell times the weights in the two bins.
        """
        spectrum = error_spectrum(self.surrogate, self.bins.width, self._n_fft, order)
        # Rounding: 1e-14 of the largest term, 1e-15 of a score.
        width, low, size = self.bins
        z = np.arange(-size, size + 1) * width
        term, slope = (np.abs(self.surrogate.derivative(z, k)).max() for k in (order, order + 1))
        largest_score = max(abs(low), abs(low + size)) * width
        rounding = float(1e-14 * term + 1e-15 * largest_score * slope)

        def caused(towards: Complexes, spectra: Complexes, side: Floats) -> Floats:
            errors = irfft(towards * spectra[:, 0], self._n_fft)[: self.bins.size]
            return np.asarray(errors + rounding * side[:, 0].sum())

        def on_winners(*cut: int) -> Floats:
            return caused(spectrum, self._loser_spectra[cut], self._losers[cut])

        def on_losers(*cut: int) -> Floats:
            return caused(spectrum.conj(), self._winner_spectra[cut], self._winners[cut])

        if order > 0:
            met = np.abs(self._met(on_winners, on_losers))
            return float(met[self.summary.moments[:, :, 0] > 0].max(initial=0.0))
        bound = 0.0
        for (arm, cut), step in np.ndenumerate(self._steps):
            paid = np.dot(self._winners[arm, cut, :, 0], on_winners(arm, cut))
            bound += step * abs(self.multipliers[arm]) * float(paid)
        return bound

    def largest(self, order: int) -> float:
        """Largest |derivative| over occupied bin centres, for a row of weight 1."""
        centres = np.abs(self.coefficients(order)[:, :, 0])
        return float(centres[self.summary.moments[:, :, 0] > 0].max(initial=0.0))

    def _met(
        self, on_winners: Callable[[int, int], Floats], on_losers: Callable[[int, int], Floats]
    ) -> Floats:
        """Opponents of each class in each bin, from the thresholds above and below it.

        The functions say what rows on the other side of a threshold, of an arm and a number, do to
        those on this one; a threshold counts its step times the multiplier of the arm.
        """
        above, below = (
            np.array(
                [
                    [m * step * function(arm, cut) for cut, step in enumerate(self._steps[arm])]
                    for arm, m in enumerate(self.multipliers)
                ]
            )
            for function in (on_winners, on_losers)
        )
        # The field of a threshold is met by all classes on its side: add up from the far end.
        result = np.zeros((2, above.shape[1] + 1, *above.shape[2:]))
        result[:, :-1] += above[:, ::-1].cumsum(axis=1)[:, ::-1]
        result[:, 1:] += below.cumsum(axis=1)
        return result.reshape(-1, *result.shape[2:])

    def _exerted_on(self, winners: bool, order: int, opponents: Complexes) -> Floats:
        """Field that the opponents (as transformed moments) exert on winners or losers.

        ``opponents`` is (frequencies, degree + 1, ...); the result (bins, degree + 1, ...).
        """
        n_moments = opponents.shape[1]
        alpha = cell_spectrum(self.surrogate, self.bins.width, self._n_fft, order, n_moments - 1)
        if not winners:  # the row's bin enters the offset with a minus: correlate, not convolve
            alpha = alpha.conj()
        alpha = alpha.reshape(*alpha.shape, *(1 for _ in opponents.shape[2:]))
        result = np.zeros_like(opponents)
        for p in range(n_moments):
            for m in range(p, n_moments):
                sign = (-1) ** (m - p) if winners else (-1) ** p
                result[:, p] += sign * comb(m, p) * alpha[m] * opponents[:, m - p]
        field: Floats = irfft(result, self._n_fft, axis=0)[: self.bins.size]
        return field


def _sides(values: Floats) -> tuple[Floats, Floats]:
    """Sums of the classes above and below each threshold: winners and losers.

    ``values`` are (classes, ...), the results (2 arms, L - 1 thresholds, ...).
    """
    arms = values.reshape(2, -1, *values.shape[1:])
    above, below = arms[:, :-1], arms[:, 1:]
    if arms.shape[1] == 2:
        return above, below
    return above.cumsum(axis=1), below[:, ::-1].cumsum(axis=1)[:, ::-1]


def cell_polynomials(
    surrogate: Surrogate, width: float, offsets: NDArray[np.int64], order: int, degree: int = DEGREE
) -> Floats:
    """Polynomial coefficients of each cell, shape (len(offsets), degree + 1).

    Interpolation at the Chebyshev points of the cell: for an analytic surrogate the error is at
    most width^(degree+1) max |s^(order+degree+1)| / ((degree+1)! 2^degree). A cell with a knot
    inside gets the least-squares polynomial, whose errors average to about zero over the cell.
    """
    points = np.cos(np.pi * (np.arange(degree + 1) + 0.5) / (degree + 1))
    solve = np.linalg.inv(np.vander(points, increasing=True))
    values = surrogate.derivative((offsets[:, None] + points) * width, order)
    alpha = values @ solve.T
    # Cells with the knot strictly inside, up to rounding.
    knot = np.inf if surrogate.knot is None else surrogate.knot
    knotted = np.abs(offsets - knot / width) < 1.0 - 1e-9
    if knotted.any():
        fine = np.linspace(-1.0, 1.0, 2001)
        powers = np.vander(fine, degree + 1, increasing=True)
        values = surrogate.derivative((offsets[knotted, None] + fine) * width, order)
        alpha[knotted] = np.linalg.lstsq(powers, values.T, rcond=None)[0].T
    return alpha


def cell_errors(
    surrogate: Surrogate, width: float, offsets: NDArray[np.int64], order: int, degree: int = DEGREE
) -> Floats:
    """Largest error of each cell's polynomial on 65 points; shape (len(offsets),)."""
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
def cell_spectrum(
    surrogate: Surrogate, width: float, n_fft: int, order: int, degree: int = DEGREE
) -> Complexes:
    """Fourier transform of the coefficients, shape (degree + 1, n_fft // 2 + 1)."""
    alpha = cell_polynomials(surrogate, width, _fft_offsets(n_fft), order, degree)
    return np.asarray(rfft(alpha.T))


@lru_cache(maxsize=24)
def error_spectrum(surrogate: Surrogate, width: float, n_fft: int, order: int) -> Complexes:
    """Fourier transform of the cell errors, shape (n_fft // 2 + 1,)."""
    return np.asarray(rfft(cell_errors(surrogate, width, _fft_offsets(n_fft), order)))


@lru_cache(maxsize=64)
def bins_per_length(surrogate: Surrogate, accuracy: float) -> int:
    """Bins per surrogate length for the requested accuracy of value and slope.

    For a surrogate without a knot: in every cell the error of s' is at most ``accuracy`` times |s'|
    there, and that of s at most ``accuracy`` s(0), whatever the scores are. (For one with a knot
    the answer depends on the scores; see ``PairField.error_bound``.)

    >>> from auucmax.pairs.losses import s_log
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
            + 1e-14 * float(surrogate(-30 * surrogate.length))
        ).all():
            return bins
    raise ValueError(
        f"{surrogate} should be smooth on its length {surrogate.length:g}, got errors above "
        f"{accuracy:g} with 512 bins to it. Ask for less accuracy, or state a smaller length."
    )


def _fft_offsets(n_fft: int) -> NDArray[np.int64]:
    """Offsets in the order of a circular convolution: 0, 1, ..., then negative ones."""
    return np.fft.fftfreq(n_fft, 1.0 / n_fft).round().astype(np.int64)
