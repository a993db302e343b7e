"""Exact pair sums without bins, by sorting or by power sums.

*By sorting*, of s_poly and hinge, O(n log n). Everything is one sum: for queries t and points x
with weights v,

    T_e(t) = sum over j with x_j + t > 0 of v_j (t + x_j)^e = sum_k binom(e, k) t^(e-k) S_k(t),

S_k(t) the sum of v_j x_j^k over the points above -t: a suffix sum, found by one binary search.
For winner i the points are the losers' scores and t = mu - a_i; for loser j the points are minus
the winners' scores and t = mu + b_j. With several outcome levels most rows are both, and v is the
weight times what the pair counts. Scores are centred first, so that the powers stay small. It takes
about 100 bytes a row; rounding is of the order 1e-16 (mu + range of scores)^e (sum of v).

*By powers*, of s_poly while no pair reaches its knot, since s is then a polynomial. With scores a
of the winners and b of the losers of an arm, and all differences a - b below mu,

    sum over pairs (mu - a + b)^p = sum_k binom(p, k) [sum (mu - a)^(p-k)] [sum b^k],

exactly. A row's derivatives are polynomials in its own score whose coefficients are power sums of
the other class; of an outcome with several levels, of all classes below and above, times what a
pair counts. Short coefficient vectors, which a norm constraint asks for, are in this case. It
keeps a copy of X with the rows of a class together, so it is for the smaller data sets.
"""

from __future__ import annotations

from itertools import pairwise
from math import comb, factorial, perm
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from auucmax._validation import Floats
from auucmax.pairs.losses import BINARY, PolynomialSurrogate
from auucmax.pairs.passes import PairRows


class PairSums(NamedTuple):
    """Losses by arm (2,), with first and second derivatives in each score (n,)."""

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
    """Losses (2,), gradient and curvature by row (n,), computed by sorting.

    >>> from auucmax.pairs import code_rows, hinge
    >>> codes = code_rows([1, 0, 0, 1], treatment=[1, 1, 0, 0])
    >>> sorted_pair_sums(np.array([2.0, 0.0, 1.0, 1.0]), codes, hinge()).losses
    array([0., 1.])
    """
    p = surrogate.p
    n_levels = len(gaps) // 2
    losses, derivatives = np.zeros(2), np.zeros((3, len(score)))
    for arm, multiplier in enumerate(multipliers):
        first, end = arm * n_levels, (arm + 1) * n_levels
        members = np.flatnonzero((codes >= first) & (codes < end))
        members = members[np.argsort(score[members])]
        arm_codes = codes[members]
        for c in range(first, end):
            own = members[arm_codes == c]
            # A class wins over those that follow, and loses to those before it.
            for side, is_met in ((1, arm_codes > c), (-1, arm_codes < c)):
                met = members[is_met][::side]
                if not (len(own) and len(met)):
                    continue
                v = (gaps[c] if side > 0 else gaps[:, c])[codes[met]]
                if weight is not None:
                    v = v * weight[met]
                x = side * score[met]
                centre = float((x[0] + x[-1]) / 2)
                t = surrogate.mu - side * score[own]
                above = np.searchsorted(x, -t, side="right")
                suffix = []
                for _ in range(p + 1):  # the last zero: no point lies above
                    suffix.append(np.append(np.cumsum(v[::-1])[::-1], 0.0)[above])
                    v = v * (x - centre)
                t += centre
                for order in range(min(p, 2) + 1):
                    e = p - order
                    found = np.sum([comb(e, k) * t ** (e - k) * suffix[k] for k in range(e + 1)], 0)
                    if order:
                        # A loser's score enters z with a minus: its odd derivatives change sign.
                        found *= perm(p, order) * (-side) ** order
                        derivatives[order, own] += multiplier * found
                    elif side > 0:
                        losses[arm] += (found if weight is None else weight[own] * found).sum()
    if weight is not None:
        derivatives *= weight
    return PairSums(losses, derivatives[1], derivatives[2])


_CHUNK = 4096  # rows of a Gram product, so that the weighted rows stay in the cache


class _Side(NamedTuple):
    """Rows of the winners or losers of an arm, by class.

    ``distance`` is mu - a of winners, b of losers, of scores a and b; ``edges`` are where classes
    begin and end among all rows. ``weight``: None if all weigh 1.
    """

    edges: NDArray[np.intp]
    distance: Floats
    weight: Floats | None

    @property
    def rows(self) -> slice:
        return slice(int(self.edges[0]), int(self.edges[-1]))

    @property
    def classes(self) -> list[slice]:
        """Slice of each class among the rows of this side."""
        return [slice(a, b) for a, b in pairwise((self.edges - self.edges[0]).tolist())]

    def sums(self, degree: int) -> Floats:
        """Power sums by class, (degree + 1, classes)."""
        found = []
        for rows in self.classes:
            # By products with the distances, half of which need no array of their own.
            distance = self.distance[rows]
            power = distance
            sums = [float(len(distance)), float(distance.sum())]
            if self.weight is not None:
                weight = self.weight[rows]
                power = weight * distance
                sums = [float(weight.sum()), float(power.sum())]
            for _ in range(2, degree + 1):
                sums.append(float(power @ distance))
                power = power * distance if len(sums) <= degree else power
            found.append(sums[: degree + 1])
        return np.array(found).T


class PolynomialPairs:
    """Pair sums for linear scores whose spread is below mu, by power sums."""

    def __init__(
        self,
        rows: PairRows,
        surrogate: PolynomialSurrogate,
        multipliers: tuple[float, float],
        gaps: Floats = BINARY.gaps,
    ) -> None:
        order = np.argsort(rows.codes, kind="stable")
        self.X = rows.X.take(order, axis=0).astype(np.float64, copy=False)
        # Cancels in every difference, and digits are not lost. As a product it is quicker.
        self.X -= np.full(len(order), 1 / max(len(order), 1)) @ self.X
        self.weight = None if rows.weight is None else rows.weight[order]
        self.edges = np.searchsorted(rows.codes[order], np.arange(len(gaps) + 1))
        self.surrogate, self.multipliers, self.gaps = surrogate, multipliers, gaps

    def scores(self, w: Floats) -> Floats:
        """Scores X w, with the rows of a class together."""
        return np.asarray(self.X @ w)

    def holds(self, score: Floats) -> bool:
        """Whether all score differences lie below the knot."""
        return float(score.max() - score.min()) < self.surrogate.mu

    def value_and_gradient(self, score: Floats) -> tuple[float, Floats]:
        """Objective and gradient in w, (d,), given the scores at w."""
        value, slopes, p = 0.0, np.zeros(len(score)), self.surrogate.p
        for winners, losers, gaps, multiplier in self._arms(score):
            ours, theirs = winners.sums(p), losers.sums(p) @ gaps.T
            pairs = sum(comb(p, k) * (ours[p - k] @ theirs[k]) for k in range(p + 1))
            value += multiplier * float(pairs)
            slopes[winners.rows] += self._derivatives(winners, -multiplier * theirs, 1)
            slopes[losers.rows] += self._derivatives(losers, multiplier * (ours @ gaps), 1)
        return value, np.asarray(slopes @ self.X)

    def hessian(self, score: Floats) -> Floats:
        """Hessian in w, (d, d)."""
        d, p = self.X.shape[1], self.surrogate.p - 2
        bend, cross, gram = np.zeros(len(score)), np.zeros((d, d)), np.zeros((d, d))
        for winners, losers, gaps, multiplier in self._arms(score):
            ours, theirs = winners.sums(p) @ gaps, losers.sums(p) @ gaps.T
            bend[winners.rows] += self._derivatives(winners, multiplier * theirs, 2)
            bend[losers.rows] += self._derivatives(losers, multiplier * ours, 2)
            # Weighted sum of x_i x_j' over pairs, times the second derivative.
            ours, theirs = (self._vector_sums(side, p) for side in (winners, losers))
            scale = multiplier * (p + 2) * (p + 1)
            for k in range(p + 1):
                cross += scale * comb(p, k) * (ours[p - k].T @ (gaps @ theirs[k]))
        for start in range(0, len(bend), _CHUNK):
            x = self.X[start : start + _CHUNK]
            gram += (x * bend[start : start + _CHUNK, None]).T @ x
        # (x_i - x_j)(x_i - x_j)' summed over pairs: squares of rows less the products of both.
        total = gram - cross - cross.T
        return np.asarray((total + total.T) / 2)

    def _arms(self, score: Floats) -> list[tuple[_Side, _Side, Floats, float]]:
        """For each arm: its winners, its losers, the gaps between classes and its multiplier.

        The first class of an arm never loses and the last never wins; all between do both.
        """
        arms, n = [], len(self.gaps) // 2
        for first, multiplier in zip((0, n), self.multipliers, strict=True):
            edges = self.edges[first : first + n + 1]
            # Distances from a score of the arm, so that powers are of small numbers.
            centre = float(score[edges[0]]) if edges[-1] > edges[0] else 0.0
            wins, loses = slice(edges[0], edges[-2]), slice(edges[1], edges[-1])
            away = self.surrogate.mu + centre - score[wins]
            weights = [None if self.weight is None else self.weight[own] for own in (wins, loses)]
            winners = _Side(edges[:-1], away, weights[0])
            losers = _Side(edges[1:], score[loses] - centre, weights[1])
            gaps = self.gaps[first : first + n - 1, first + 1 : first + n]
            arms.append((winners, losers, gaps, multiplier))
        return arms

    def _derivatives(self, own: _Side, met: Floats, order: int) -> Floats:
        """Weighted sum of absolute derivatives over the other side, for each row.

        ``met`` (powers, own classes): sums of powers over the other side, times what pairs count,
        and times what the whole is to be multiplied by.
        """
        p = self.surrogate.p - order
        # Scaled before rows are met, of which there are more than sums.
        met = met * (factorial(self.surrogate.p) / factorial(p))
        value = np.empty(len(own.distance))
        for c, rows in enumerate(own.classes):
            found, distance = value[rows], own.distance[rows]
            found[:] = met[0, c]
            for k in range(1, p + 1):  # Horner, from the highest own power down
                found *= distance
                found += comb(p, k) * met[k, c]
        if own.weight is not None:
            value *= own.weight
        return value

    def _vector_sums(self, side: _Side, degree: int) -> Floats:
        """Sums of x times powers of scores by class, (degree + 1, classes, d)."""
        powers = [np.ones(len(side.distance)) if side.weight is None else side.weight]
        for _ in range(degree):
            powers.append(powers[-1] * side.distance)
        stacked = np.array(powers)
        X = self.X[side.rows]
        return np.stack([stacked[:, c] @ X[c] for c in side.classes], axis=1)
