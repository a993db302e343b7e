"""How much the treated and the control pairs count."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from auucmax.pairs.summary import CLASSES

Floats = NDArray[np.float64]


def group_weights(weights: str | tuple[float, float], totals: Floats) -> tuple[float, float]:
    """Weights of the treated and of the control mean over pairs.

    With p_g the response rate of arm g, n_g its rows (or their weight) and lam_g = p_g (1 - p_g):

    =============  =====================  ==========================================================
    ``weights``    weight of arm g        the 0/1 objective is, up to constants and sign,
    =============  =====================  ==========================================================
    ``"lambda"``   lam_g                  AUUC, arms ranked apart (Proposition 1 and Theorem 1)
    ``"absolute"`` n_g lam_g              the lift in numbers of responders, treated minus control
                                          (Kuusisto et al., SVM-DP); differs if arms differ in size
    ``"uniform"``  1                      AUC of the treated plus flipped AUC of the controls (the
                                          paper's optimisation box, which leaves lam_g out)
    ``(a, b)``     a, b                   what you say
    =============  =====================  ==========================================================

    ``totals`` is the weight of the four classes, in the order of ``CLASSES``. A class without rows
    is an error, unless the weights are numbers and that of its arm is 0.

    >>> group_weights("lambda", np.array([20.0, 80.0, 90.0, 10.0]))  # rates .2 and .1
    (0.16, 0.09)
    """
    if isinstance(weights, str):
        arms = totals.reshape(2, 2)
        size = arms.sum(axis=1)
        lam = arms.prod(axis=1) / np.maximum(size, 1e-300) ** 2
        known = {"lambda": lam, "absolute": size * lam, "uniform": np.ones(2)}
        if weights in known:
            _check_pairs((1.0, 1.0), totals)
            return float(known[weights][0]), float(known[weights][1])
    elif (
        np.shape(weights) == (2,)
        and np.isfinite(weights).all()
        and min(weights) >= 0 < max(weights)
    ):
        _check_pairs(weights, totals)
        return float(weights[0]), float(weights[1])
    raise ValueError(
        f"weights should be 'lambda', 'absolute', 'uniform' or two numbers (treated, control) that "
        f"are not negative and not both 0, got {weights!r}. 'lambda' is the weighting of AUUC."
    )


def pair_multipliers(weights: tuple[float, float], totals: Floats) -> tuple[float, float]:
    """weight_g / (winners' weight x losers' weight): from a sum over pairs to a weighted mean.

    An arm of weight 0 may have no pairs; its multiplier is 0.
    """
    pairs = np.maximum(totals[::2] * totals[1::2], 1e-300)
    return float(weights[0] / pairs[0]), float(weights[1] / pairs[1])


def _check_pairs(weights: tuple[float, float], totals: Floats) -> None:
    for c in range(4):
        if weights[c // 2] > 0 and not totals[c] > 0:
            raise ValueError(
                f"each arm should have both outcomes, got no {CLASSES[c]}: there is no pair to "
                f"rank. Collect more rows, or take another outcome."
            )
