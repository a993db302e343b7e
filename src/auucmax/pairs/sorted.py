"""Exact pair sums of s_poly and hinge by sorting, O(n log n), with no bins and no tolerance.

Everything is one sum: for queries t and points x with weights v,

    T_e(t) = sum over j with x_j + t > 0 of v_j (t + x_j)^e = sum_k binom(e, k) t^(e-k) S_k(t),

S_k(t) the sum of v_j x_j^k over the points above -t: a suffix sum, found by one binary search.
For winner i the points are the losers' scores and t = mu - a_i; for loser j the points are minus
the winners' scores and t = mu + b_j. Of an outcome with several levels most rows are both, and v is
the weight times what the pair counts. Scores are centred first, so that the powers stay small. It
takes about 100 bytes a row; rounding is of the order 1e-16 (mu + range of scores)^e (sum of v).
"""

from __future__ import annotations

from collections.abc import Iterator
from math import comb, perm
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from auucmax._validation import Floats
from auucmax.pairs.outcomes import BINARY
from auucmax.pairs.surrogates import PolynomialSurrogate


class PairSums(NamedTuple):
    """Treated and control loss (2,); derivative and second derivative in each row's score (n,)."""

    losses: Floats
    gradient: Floats
    curvature: Floats


def sorted_pair_sums(
    score: Floats,
    codes: NDArray[np.int8],
    surrogate: PolynomialSurrogate,
    weight: Floats | None = None,
    multipliers: tuple[float, float] = (1.0, 1.0),
    gaps: Floats = BINARY.gaps,
) -> PairSums:
    """Losses (2,), and gradient and curvature a row (n,), the latter two times the multipliers.

    >>> from auucmax.pairs import code_rows, hinge
    >>> codes = code_rows([1, 0, 0, 1], treatment=[1, 1, 0, 0])
    >>> sorted_pair_sums(np.array([2.0, 0.0, 1.0, 1.0]), codes, hinge()).losses
    array([0., 1.])
    """
    p, n_levels = surrogate.p, len(gaps) // 2
    factors = [(-1) ** order * perm(p, order) for order in range(min(p, 2) + 1)]
    losses, derivatives = np.zeros(2), np.zeros((3, len(score)))
    for arm, multiplier in enumerate(multipliers):
        for own, others, gap, wins in _meetings(score, codes, gaps, arm):
            v = None if weight is None else weight[others]
            if gap is not None:
                v = gap if v is None else gap * v
            side = 1.0 if wins else -1.0
            sums = _PowerSums(side * score[others], v, p, in_order=n_levels > 2)
            found = sums(surrogate.mu - side * score[own], [p - k for k in range(len(factors))])
            if wins:
                losses[arm] += (found[0] if weight is None else weight[own] * found[0]).sum()
            for order in range(1, len(factors)):
                # A loser's score enters z with a minus, so its odd derivatives change sign.
                sign = side if order == 1 else 1.0
                derivatives[order, own] += sign * multiplier * factors[order] * found[order]
    if weight is not None:
        derivatives *= weight
    return PairSums(losses, derivatives[1], derivatives[2])


def _meetings(
    score: Floats, codes: NDArray[np.int8], gaps: Floats, arm: int
) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp], Floats | None, bool]]:
    """Rows of a class, the rows of an arm that they meet, what a pair counts, and who should win.

    What a pair counts is None where it is 1. Of more than two levels the others come in the order
    of their scores (for losers the reverse), so that an arm is sorted once.
    """
    n_levels = len(gaps) // 2
    classes = range(arm * n_levels, (arm + 1) * n_levels)
    members = np.flatnonzero((codes >= classes[0]) & (codes <= classes[-1]))
    if n_levels > 2:
        members = members[np.argsort(score[members])]
    own_codes = codes[members]
    for c in classes:
        own = members[own_codes == c]
        for wins, others in ((True, own_codes > c), (False, own_codes < c)):
            met = members[others] if wins else members[others][::-1]
            if len(own) and len(met):
                all_one = n_levels == 2 and gaps[classes[0], classes[1]] == 1
                gap = gaps[c] if wins else gaps[:, c]
                yield own, met, None if all_one else gap[codes[met]], wins


class _PowerSums:
    """T_e(t) = sum_j v_j (t + x_j)^e over the j with t + x_j > 0, for fixed points x, weights v."""

    def __init__(
        self, x: Floats, v: Floats | None, largest_power: int, *, in_order: bool = False
    ) -> None:
        self.centre = float((x.min() + x.max()) / 2)
        if in_order:
            self.x, term = x, np.ones(len(x)) if v is None else v
        elif v is None:
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
