"""Exact pair sums of s_poly and hinge by sorting, O(n log n), with no bins and no tolerance.

Everything is one sum: for queries t and points x with weights v,

    T_e(t) = sum over j with x_j + t > 0 of v_j (t + x_j)^e = sum_k binom(e, k) t^(e-k) S_k(t),

S_k(t) the sum of v_j x_j^k over the points above -t: a suffix sum, found by one binary search.
For winner i the points are the losers' scores and t = mu - a_i; for loser j the points are minus
the winners' scores and t = mu + b_j. Scores are centred first, so that the powers stay small. It
takes about 100 bytes a row; rounding is of the order 1e-16 (mu + range of scores)^e (sum of v).
"""

from __future__ import annotations

from math import comb, perm

import numpy as np
from numpy.typing import NDArray

from auucmax._validation import Floats
from auucmax.pairs.reference import PairSums
from auucmax.pairs.surrogates import PolynomialSurrogate


def sorted_pair_sums(
    score: Floats,
    codes: NDArray[np.int8],
    surrogate: PolynomialSurrogate,
    weight: Floats | None = None,
    multipliers: tuple[float, float] = (1.0, 1.0),
) -> PairSums:
    """Losses (2,), and gradient and curvature a row (n,), the latter two times the multipliers.

    >>> from auucmax.pairs import code_rows, hinge
    >>> codes = code_rows([1, 0, 0, 1], treatment=[1, 1, 0, 0])
    >>> sorted_pair_sums(np.array([2.0, 0.0, 1.0, 1.0]), codes, hinge()).losses
    array([0., 1.])
    """
    mu, p = surrogate.mu, surrogate.p
    losses, gradient, curvature = np.zeros(2), np.zeros(len(score)), np.zeros(len(score))
    for arm in (0, 1):
        i, j = np.flatnonzero(codes == 2 * arm), np.flatnonzero(codes == 2 * arm + 1)
        if not (len(i) and len(j)):
            continue
        a, b = score[i], score[j]
        u, v = (None, None) if weight is None else (weight[i], weight[j])
        powers = [p - order for order in range(min(p, 2) + 1)]
        on_winners = _PowerSums(b, v, p)(mu - a, powers)
        on_losers = _PowerSums(-a, u, p)(mu + b, powers)
        losses[arm] = (on_winners[0] if u is None else u * on_winners[0]).sum()
        for order, result, sign in ((1, gradient, -1.0), (2, curvature, 1.0)):
            if order < len(powers):
                factor = (-1) ** order * perm(p, order) * multipliers[arm]
                result[i] = factor * on_winners[order]
                result[j] = sign * factor * on_losers[order]
    if weight is not None:
        gradient *= weight
        curvature *= weight
    return PairSums(losses, gradient, curvature)


class _PowerSums:
    """T_e(t) = sum_j v_j (t + x_j)^e over the j with t + x_j > 0, for fixed points x, weights v."""

    def __init__(self, x: Floats, v: Floats | None, largest_power: int) -> None:
        self.centre = float((x.min() + x.max()) / 2)
        if v is None:
            self.x, term = np.sort(x), np.ones(len(x))
        else:
            order = np.argsort(x)
            self.x, term = x[order], v[order]
        self.suffix = []
        for _ in range(largest_power + 1):
            # Entry k: sum over points k, k+1, ...; a last zero for "no point lies above".
            self.suffix.append(np.append(np.cumsum(term[::-1])[::-1], 0.0))
            term = term * (self.x - self.centre)

    def __call__(self, t: Floats, powers: list[int]) -> list[Floats]:
        first = np.searchsorted(self.x, -t, side="right")
        suffix = [s[first] for s in self.suffix]
        shifted = t + self.centre
        return [
            np.asarray(sum(comb(e, k) * shifted ** (e - k) * suffix[k] for k in range(e + 1)))
            for e in powers
        ]
