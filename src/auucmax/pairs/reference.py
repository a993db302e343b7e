"""The pair sums written out, O(n^2): what the rest of this folder must agree with."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from auucmax._validation import Floats
from auucmax.pairs.surrogates import Surrogate


class PairSums(NamedTuple):
    """Treated and control loss (2,); derivative and second derivative in each row's score (n,)."""

    losses: Floats
    gradient: Floats
    curvature: Floats


def pair_sums(
    score: Floats, codes: NDArray[np.int8], surrogate: Surrogate, weight: Floats | None = None
) -> PairSums:
    """sum over winners i, losers j of an arm of weight_i weight_j s(score_i - score_j).

    >>> from auucmax.pairs import code_rows, hinge
    >>> codes = code_rows([1, 0, 0, 1], treatment=[1, 1, 0, 0])
    >>> sums = pair_sums(np.array([2.0, 0.5, 1.0, 1.0]), codes, hinge(2.0))
    >>> sums.losses, sums.gradient
    (array([0.5, 2. ]), array([-1.,  1., -1.,  1.]))
    """
    weight = np.ones(len(score)) if weight is None else weight
    losses, gradient, curvature = np.zeros(2), np.zeros(len(score)), np.zeros(len(score))
    for arm in (0, 1):
        i, j = np.flatnonzero(codes == 2 * arm), np.flatnonzero(codes == 2 * arm + 1)
        z = score[i][:, None] - score[j]
        pair = weight[i][:, None] * weight[j]
        losses[arm] = (pair * surrogate(z)).sum()
        slope, bend = pair * surrogate.derivative(z, 1), pair * surrogate.derivative(z, 2)
        gradient[i], gradient[j] = slope.sum(axis=1), -slope.sum(axis=0)
        curvature[i], curvature[j] = bend.sum(axis=1), bend.sum(axis=0)
    return PairSums(losses, gradient, curvature)


def pair_hessian(
    X: NDArray[Any],
    w: Floats,
    codes: NDArray[np.int8],
    surrogate: Surrogate,
    multipliers: tuple[float, float] = (1.0, 1.0),
    weight: Floats | None = None,
) -> Floats:
    """sum over pairs of weight_i weight_j s''(z_ij) (x_i - x_j)(x_i - x_j)'; (d, d)."""
    weight = np.ones(len(X)) if weight is None else weight
    total = np.zeros((X.shape[1], X.shape[1]))
    for arm in (0, 1):
        i, j = np.flatnonzero(codes == 2 * arm), np.flatnonzero(codes == 2 * arm + 1)
        gap = (X[i][:, None] - X[j]).reshape(-1, X.shape[1])
        pair = (weight[i][:, None] * weight[j]).ravel()
        bend = pair * surrogate.derivative(gap @ w, 2)
        total += multipliers[arm] * gap.T @ (bend[:, None] * gap)
    return total
