"""Slow twins of the pair sums, O(n^2)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from auucmax._validation import Bools, Floats
from auucmax.pairs.exact import PairSums
from auucmax.pairs.losses import Surrogate


def pair_sums(
    score: Floats,
    y: Floats,
    treated: Bools,
    surrogate: Surrogate,
    weight: Floats | None = None,
) -> PairSums:
    """sum over pairs i, j of an arm of weight_i weight_j gap_ij s(score_i - score_j).

    gap_ij = (y_i - y_j)+ of treated rows, (y_j - y_i)+ of control rows, for any real outcome.

    >>> from auucmax.pairs import hinge
    >>> y, treated = np.array([3.0, 0.0, 0.0, 1.0]), np.array([True, True, False, False])
    >>> sums = pair_sums(np.array([2.0, 0.5, 1.0, 1.0]), y, treated, hinge(2.0))
    >>> sums.losses, sums.gradient
    (array([1.5, 2. ]), array([-3.,  3., -1.,  1.]))
    """
    losses, gradient, curvature = np.zeros(2), np.zeros(len(score)), np.zeros(len(score))
    for arm, (own, pair) in enumerate(_arms(y, treated, weight)):
        z = score[own][:, None] - score[own]
        losses[arm] = (pair * surrogate(z)).sum()
        slope, bend = pair * surrogate.derivative(z, 1), pair * surrogate.derivative(z, 2)
        gradient[own] = slope.sum(axis=1) - slope.sum(axis=0)
        curvature[own] = bend.sum(axis=1) + bend.sum(axis=0)
    return PairSums(losses, gradient, curvature)


def pair_hessian(
    X: NDArray[Any],
    w: Floats,
    y: Floats,
    treated: Bools,
    surrogate: Surrogate,
    multipliers: tuple[float, float] = (1.0, 1.0),
    weight: Floats | None = None,
) -> Floats:
    """sum over pairs of weight_i weight_j gap_ij s''(z_ij) (x_i - x_j)(x_i - x_j)'; (d, d)."""
    total = np.zeros((X.shape[1], X.shape[1]))
    for multiplier, (own, pair) in zip(multipliers, _arms(y, treated, weight), strict=True):
        difference = (X[own][:, None] - X[own]).reshape(-1, X.shape[1])
        bend = pair.ravel() * surrogate.derivative(difference @ w, 2)
        total += multiplier * difference.T @ (bend[:, None] * difference)
    return total


def _arms(
    y: Floats, treated: Bools, weight: Floats | None
) -> Iterator[tuple[NDArray[np.intp], Floats]]:
    """Rows of each arm, and the gap of each ordered pair."""
    for sign, arm in ((1.0, treated), (-1.0, ~treated)):
        own = np.flatnonzero(arm)
        w = np.ones(len(own)) if weight is None else weight[own]
        yield own, w[:, None] * w * np.maximum(sign * (y[own][:, None] - y[own]), 0.0)
