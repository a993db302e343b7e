"""Pair sums of s_poly while no pair reaches its knot: s is then a polynomial; no bins are needed.

With scores a of the winners and b of the losers of an arm, and all differences a - b below mu,

    sum over pairs (mu - a + b)^p = sum_k binom(p, k) [sum (mu - a)^(p-k)] [sum b^k],

exactly. A row's derivatives are polynomials in its own score whose coefficients are power sums of
the other class. Short coefficient vectors, which a norm constraint asks for, are in this case. It
keeps a copy of X with the rows of a class together, so it is for the smaller data sets.
"""

from __future__ import annotations

from math import comb, factorial
from typing import NamedTuple

import numpy as np

from auucmax._validation import Floats
from auucmax.pairs.passes import PairRows
from auucmax.pairs.surrogates import PolynomialSurrogate

_CHUNK = 4096  # rows of a Gram product, so that the weighted rows stay in the cache


class _Class(NamedTuple):
    """Rows of one class, and the distance of their scores: mu - a of winners, b of losers."""

    rows: slice
    distance: Floats
    weight: Floats


class PolynomialPairs:
    """Sums over the pairs of both arms for linear scores whose spread is below mu."""

    def __init__(
        self, rows: PairRows, surrogate: PolynomialSurrogate, multipliers: tuple[float, float]
    ) -> None:
        order = np.argsort(rows.codes, kind="stable")
        weight = np.ones(len(order)) if rows.weight is None else rows.weight
        self.X = rows.X[order].astype(np.float64, copy=False)
        self.X -= self.X.mean(axis=0)  # cancels in every difference, and digits are not lost
        self.weight = weight[order]
        self.edges = np.searchsorted(rows.codes[order], np.arange(5))
        self.surrogate, self.multipliers = surrogate, multipliers

    def scores(self, w: Floats) -> Floats:
        """X w, rows of a class together."""
        return np.asarray(self.X @ w)

    def holds(self, score: Floats) -> bool:
        """Whether all differences of scores lie below the knot."""
        return float(score.max() - score.min()) < self.surrogate.mu

    def value_and_gradient(self, score: Floats) -> tuple[float, Floats]:
        """The objective, and its gradient in w, (d,), at the w of these scores."""
        value, slopes = 0.0, np.empty(len(score))
        for winners, losers, multiplier in self._arms(score):
            value += multiplier * self._pair_sum(winners, losers)
            slopes[winners.rows] = -multiplier * self._derivatives(winners, losers, 1)
            slopes[losers.rows] = multiplier * self._derivatives(losers, winners, 1)
        return value, np.asarray(slopes @ self.X)

    def hessian(self, score: Floats) -> Floats:
        """Second derivatives in w, (d, d)."""
        d = self.X.shape[1]
        bend, cross, gram = np.empty(len(score)), np.zeros((d, d)), np.zeros((d, d))
        for winners, losers, multiplier in self._arms(score):
            bend[winners.rows] = multiplier * self._derivatives(winners, losers, 2)
            bend[losers.rows] = multiplier * self._derivatives(losers, winners, 2)
            cross += multiplier * self._cross(winners, losers)
        for start in range(0, len(bend), _CHUNK):
            x = self.X[start : start + _CHUNK]
            gram += (x * bend[start : start + _CHUNK, None]).T @ x
        total = gram - cross - cross.T
        return np.asarray((total + total.T) / 2)

    def _arms(self, score: Floats) -> list[tuple[_Class, _Class, float]]:
        arms = []
        for arm, multiplier in enumerate(self.multipliers):
            first, middle, last = self.edges[2 * arm : 2 * arm + 3]
            winners, losers = slice(first, middle), slice(middle, last)
            # Distances from a score of the arm, so that powers are of small numbers.
            centre = float(score[first]) if last > first else 0.0
            arms.append(
                (
                    _Class(
                        winners, self.surrogate.mu + centre - score[winners], self.weight[winners]
                    ),
                    _Class(losers, score[losers] - centre, self.weight[losers]),
                    multiplier,
                )
            )
        return arms

    def _pair_sum(self, winners: _Class, losers: _Class) -> float:
        p = self.surrogate.p
        ours, theirs = (_powers(c, p) for c in (winners, losers))
        return float(sum(comb(p, k) * ours[p - k].sum() * theirs[k].sum() for k in range(p + 1)))

    def _derivatives(self, own: _Class, other: _Class, order: int) -> Floats:
        """Own weight times the sum, over the other class, of the derivative's absolute value."""
        p = self.surrogate.p - order
        value = np.zeros(len(own.distance))
        for k, power in enumerate(_powers(other, p)):  # Horner, from the highest own power down
            value *= own.distance
            value += comb(p, k) * power.sum()
        value *= own.weight * (factorial(self.surrogate.p) / factorial(p))
        return value

    def _cross(self, winners: _Class, losers: _Class) -> Floats:
        """Sum over pairs of the second derivative times x_i x_j'."""
        p = self.surrogate.p - 2
        scale = self.surrogate.p * (self.surrogate.p - 1)
        ours, theirs = (np.array(_powers(c, p)) @ self.X[c.rows] for c in (winners, losers))
        terms = [comb(p, k) * np.outer(ours[p - k], theirs[k]) for k in range(p + 1)]
        return np.asarray(scale * np.sum(terms, axis=0))


def _powers(rows: _Class, degree: int) -> list[Floats]:
    """weight distance^k for k = 0 .. degree."""
    powers = [rows.weight]
    for _ in range(degree):
        powers.append(powers[-1] * rows.distance)
    return powers
