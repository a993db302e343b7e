"""From a summary to the loss, and to a polynomial a bin for each row's gradient and curvature.

``summary.py`` explains the algorithm; this file is its convolutions.
"""

from __future__ import annotations

from math import comb

import numpy as np
from numpy.typing import NDArray
from scipy.fft import irfft, rfft

from auucmax._validation import Floats
from auucmax.pairs import table
from auucmax.pairs.passes import DEGREE, Bins
from auucmax.pairs.summary import PairSummary
from auucmax.pairs.surrogates import Surrogate

Complexes = NDArray[np.complex128]


class PairField:
    """What the rows of a summary do to each other under a surrogate.

    Parameters
    ----------
    summary : the rows' moments.
    surrogate : s.
    multipliers : factors of the treated and of the control pair sum in ``value``, in the
        coefficients and in the error bounds. (1, 1) leaves the two sums as they are.

    Examples
    --------
    >>> from auucmax.pairs import code_rows, s_log
    >>> codes = code_rows([1, 0, 0, 1], treatment=[1, 1, 0, 0])
    >>> summary = PairSummary.from_scores(np.array([2.0, 0.0, 1.0, 1.0]), codes, width=1 / 20)
    >>> PairField(summary, s_log()).losses.round(6)  # s(2), s(0)
    array([0.183118, 1.      ])
    """

    def __init__(
        self,
        summary: PairSummary,
        surrogate: Surrogate,
        multipliers: tuple[float, float] = (1.0, 1.0),
    ) -> None:
        self.summary = summary
        self.surrogate = surrogate
        self.multipliers = multipliers
        # A power of two that holds the convolution; few sizes, so the tables can be kept.
        self._n_fft = 1 << (2 * summary.bins.size - 1).bit_length()
        self._spectra: Complexes = rfft(summary.moments, self._n_fft, axis=1)
        self._kept: dict[tuple[int, int], Floats] = {}

    @property
    def bins(self) -> Bins:
        return self.summary.bins

    @property
    def losses(self) -> Floats:
        """The treated and the control pair sum, sum_ij u_i v_j s(a_i - b_j); (2,)."""
        winners = self.summary.moments[::2]
        paid = [self._exerted_on(c, 0, self._spectra[c ^ 1]) for c in (0, 2)]
        return np.array([np.vdot(own, field) for own, field in zip(winners, paid, strict=True)])

    @property
    def value(self) -> float:
        """The two pair sums, each times its multiplier, added."""
        return float(np.dot(self.multipliers, self.losses))

    def coefficients(self, order: int, degree: int = DEGREE) -> Floats:
        """Polynomials in r for the derivative of ``value`` in a row's score; (4, bins, degree + 1).

        The derivative of the given order (0 to 2) for row i of class c in bin k is its weight times
        sum_p coefficients[c, k, p] r_i^p. Order 2 is the diagonal of the Hessian in the scores.
        """
        if (order, degree) not in self._kept:
            result = np.empty((4, self.bins.size, degree + 1))
            for c in range(4):
                # A loser's score enters z with a minus, so its odd derivatives change sign.
                sign = -1.0 if c % 2 and order % 2 else 1.0
                opponents = self._spectra[c ^ 1][:, : degree + 1]
                result[c] = self._exerted_on(c, order, opponents)
                result[c] *= sign * self.multipliers[c // 2]
            self._kept[order, degree] = result
        return self._kept[order, degree]

    def gradient(self) -> Floats:
        """Derivative of ``value`` in w, from vector moments alone; (d,)."""
        if self.summary.vectors is None:
            raise ValueError(
                "the summary should have vector moments, got none. "
                "Make it with PairSummary.from_rows(..., vectors=True)."
            )
        return np.tensordot(self.coefficients(1), self.summary.vectors, axes=3)

    def cross(self, vectors: Floats) -> Floats:
        """sum_ij u_i v_j s''(z_ij) x_i x_j', times the multipliers, from vector moments; (d, d)."""
        d = vectors.shape[3]
        result = np.zeros((d, d))
        for c, multiplier in zip((0, 2), self.multipliers, strict=True):
            winners = vectors[c].reshape(-1, d)
            for j in range(0, d, 64):  # 64 features at a time bound the memory of the transforms
                spectrum = rfft(vectors[c + 1, :, :, j : j + 64], self._n_fft, axis=0)
                exerted = self._exerted_on(c, 2, spectrum)
                result[:, j : j + 64] += multiplier * winners.T @ exerted.reshape(len(winners), -1)
        return result

    def error_bound(self, order: int) -> float:
        """Bound on the error that the bins cause, with the rounding of scores and transforms.

        Order 0: of ``value``. Order 1, 2: of any one row's derivative, for a row of weight 1. Each
        pair of bins contributes the largest error of its cell times the weights in the two bins.
        """
        spectrum = table.error_spectrum(self.surrogate, self.bins.width, self._n_fft, order)
        total, per_opponent = self.summary.totals, self._rounding(order)
        bound = 0.0
        for c in range(4):
            towards = spectrum if c % 2 == 0 else spectrum.conj()
            counts = self._spectra[c ^ 1, :, 0]
            errors = irfft(towards * counts, self._n_fft)[: self.bins.size]
            rounding = per_opponent * total[c ^ 1]
            own = self.summary.moments[c, :, 0]
            multiplier = abs(self.multipliers[c // 2])
            if order == 0 and c % 2 == 0:
                bound += multiplier * float(np.dot(own, errors) + rounding * total[c])
            elif order > 0 and total[c] > 0:
                bound = max(bound, multiplier * (float(errors[own > 0].max()) + rounding))
        return bound

    def _rounding(self, order: int) -> float:
        """What floating point may cost a pair: 1e-14 of the largest term, 1e-15 of a score."""
        width, first, size = self.bins
        z = np.arange(-size, size + 1) * width
        term, slope = (np.abs(self.surrogate.derivative(z, k)).max() for k in (order, order + 1))
        largest_score = max(abs(first), abs(first + size)) * width
        return float(1e-14 * term + 1e-15 * largest_score * slope)

    def largest(self, order: int) -> float:
        """The largest |derivative| over the occupied bins' centres, for a row of weight 1."""
        centres = np.abs(self.coefficients(order)[:, :, 0])
        return float(centres[self.summary.moments[:, :, 0] > 0].max(initial=0.0))

    def _exerted_on(self, c: int, order: int, opponents: Complexes) -> Floats:
        """Field of the opponents, given by the transform of their moments, on rows of class c.

        ``opponents`` is (frequencies, degree + 1, ...); the result (bins, degree + 1, ...).
        """
        n_moments = opponents.shape[1]
        alpha = table.spectrum(self.surrogate, self.bins.width, self._n_fft, order, n_moments - 1)
        winner = c % 2 == 0
        if not winner:  # the row's bin enters the offset with a minus: correlate, not convolve
            alpha = alpha.conj()
        alpha = alpha.reshape(*alpha.shape, *(1 for _ in opponents.shape[2:]))
        result = np.zeros_like(opponents)
        for p in range(n_moments):
            for m in range(p, n_moments):
                sign = (-1) ** (m - p) if winner else (-1) ** p
                result[:, p] += sign * comb(m, p) * alpha[m] * opponents[:, m - p]
        field: Floats = irfft(result, self._n_fft, axis=0)[: self.bins.size]
        return field
