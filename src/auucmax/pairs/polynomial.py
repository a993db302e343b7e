"""Pair sums of s_poly while no pair reaches its knot: s is then a polynomial; no bins are needed.

With scores a of the winners and b of the losers of an arm, and all differences a - b below mu,

    sum over pairs (mu - a + b)^p = sum_k binom(p, k) [sum (mu - a)^(p-k)] [sum b^k],

exactly. A row's derivatives are polynomials in its own score whose coefficients are power sums of
the other class; of an outcome with several levels, of all classes below and above, times what a
pair counts. Short coefficient vectors, which a norm constraint asks for, are in this case. It
keeps a copy of X with the rows of a class together, so it is for the smaller data sets.
"""

from __future__ import annotations

from itertools import pairwise
from math import comb, factorial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from auucmax._validation import Floats
from auucmax.pairs.outcomes import BINARY
from auucmax.pairs.passes import PairRows
from auucmax.pairs.surrogates import PolynomialSurrogate

_CHUNK = 4096  # rows of a Gram product, so that the weighted rows stay in the cache


class _Side(NamedTuple):
    """Rows of the winners or the losers of an arm, class by class.

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
        """Where each class is among the rows of this side."""
        return [slice(a, b) for a, b in pairwise((self.edges - self.edges[0]).tolist())]

    def powers(self, degree: int) -> list[Floats]:
        """weight distance^k for k = 0 .. degree."""
        powers = [np.ones(len(self.distance)) if self.weight is None else self.weight]
        for _ in range(degree):
            powers.append(powers[-1] * self.distance)
        return powers

    def sums(self, degree: int) -> Floats:
        """Sums of the powers by class, (degree + 1, classes)."""
        return np.array([self._sums_of(rows, degree) for rows in self.classes]).T

    def _sums_of(self, rows: slice, degree: int) -> list[float]:
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
        return sums[: degree + 1]


class PolynomialPairs:
    """Sums over the pairs of both arms for linear scores whose spread is below mu."""

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
        """X w, rows of a class together."""
        return np.asarray(self.X @ w)

    def holds(self, score: Floats) -> bool:
        """Whether all differences of scores lie below the knot."""
        return float(score.max() - score.min()) < self.surrogate.mu

    def value_and_gradient(self, score: Floats) -> tuple[float, Floats]:
        """The objective, and its gradient in w, (d,), at the w of these scores."""
        value, slopes, p = 0.0, np.zeros(len(score)), self.surrogate.p
        for winners, losers, gaps, multiplier in self._arms(score):
            ours, theirs = winners.sums(p), losers.sums(p) @ gaps.T
            pairs = sum(comb(p, k) * (ours[p - k] @ theirs[k]) for k in range(p + 1))
            value += multiplier * float(pairs)
            slopes[winners.rows] += self._derivatives(winners, -multiplier * theirs, 1)
            slopes[losers.rows] += self._derivatives(losers, multiplier * (ours @ gaps), 1)
        return value, np.asarray(slopes @ self.X)

    def hessian(self, score: Floats) -> Floats:
        """Second derivatives in w, (d, d)."""
        d, p = self.X.shape[1], self.surrogate.p - 2
        bend, cross, gram = np.zeros(len(score)), np.zeros((d, d)), np.zeros((d, d))
        for winners, losers, gaps, multiplier in self._arms(score):
            ours, theirs = winners.sums(p) @ gaps, losers.sums(p) @ gaps.T
            bend[winners.rows] += self._derivatives(winners, multiplier * theirs, 2)
            bend[losers.rows] += self._derivatives(losers, multiplier * ours, 2)
            cross += multiplier * self._cross(winners, losers, gaps)
        for start in range(0, len(bend), _CHUNK):
            x = self.X[start : start + _CHUNK]
            gram += (x * bend[start : start + _CHUNK, None]).T @ x
        total = gram - cross - cross.T
        return np.asarray((total + total.T) / 2)

    def _arms(self, score: Floats) -> list[tuple[_Side, _Side, Floats, float]]:
        """Winners, losers, what their pairs count by class, and the multiplier of an arm.

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
        """Own weight times the sum, over the other side, of the derivative's absolute value.

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

    def _cross(self, winners: _Side, losers: _Side, gaps: Floats) -> Floats:
        """Sum over pairs of the second derivative times what they count and x_i x_j'."""
        p = self.surrogate.p - 2
        scale = self.surrogate.p * (self.surrogate.p - 1)
        ours, theirs = (self._vector_sums(side, p) for side in (winners, losers))
        terms = [comb(p, k) * (ours[p - k].T @ (gaps @ theirs[k])) for k in range(p + 1)]
        return np.asarray(scale * np.sum(terms, axis=0))

    def _vector_sums(self, side: _Side, degree: int) -> Floats:
        """Sums of powers times x by class, (degree + 1, classes, d)."""
        powers, X = np.array(side.powers(degree)), self.X[side.rows]
        return np.stack([powers[:, c] @ X[c] for c in side.classes], axis=1)
