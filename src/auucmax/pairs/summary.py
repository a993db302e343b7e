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
    between two levels (``outcomes.py``): who is above it wins over who is below. The fields that a
    row meets are those of all thresholds, added up: 2 (L - 1) convolutions, of bins and not of
    rows. Outcomes 0 and 1 have one threshold.

A summary of rows is the array of moments of the classes: levels of the outcome in an arm, of 0/1
outcomes treated winners, treated losers, control winners and control losers. Summaries of different
rows add, weights multiply. With the moments of r^p x beside those of r^p, the gradient in w of a
linear score comes from the summary too, in a single pass over the rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import comb

from auucmax._validation import Floats, check_column, check_treatment
from auucmax.pairs import passes
from auucmax.pairs.outcomes import BINARY
from auucmax.pairs.passes import Bins, PairRows


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
        factor = (comb(p, q) / times**q)[..., None] * start ** np.maximum(p - q, 0)[..., None]
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
