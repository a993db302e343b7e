"""Policy risk: what a treat-the-top rule loses; and PEHE, for simulations."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from auucmax._validation import Floats, Rows, check_column, check_mask, check_rows, check_shares
from auucmax.evaluation.curves import ArmSweep
from auucmax.evaluation.ranking import ranked_parts

__all__ = ["pehe", "policy_risk"]


def policy_risk(
    y: ArrayLike,
    score: ArrayLike,
    *,
    treatment: ArrayLike,
    share: float | ArrayLike | None = None,
    randomised: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    propensity: ArrayLike | None = None,
    control: Any = None,
) -> float | Floats:
    """One minus the expected outcome when the people that a rule picks are treated, others not.

        risk = 1 - [ q mean(y | treated, picked) + (1 - q) mean(y | control, not picked) ]

    with q the share of people picked; lower is better when y is a success. An empty cell counts 0.

    Parameters
    ----------
    share : pick the top-ranked share of people (the paper's alpha): a number or a grid of them.
        A level of equal scores that the share cuts counts in part. None picks everyone whose
        score is above 0, for scores that estimate an effect (Shalit et al. 2017).
    randomised : (n,) True for rows that were randomised; the others are left out, ranks included.

    Other parameters as in :func:`auuc_score`.

    Examples
    --------
    >>> y, score, treatment = [1, 0, 1, 0], [0.3, 0.2, -0.1, -0.2], [1, 0, 0, 1]
    >>> policy_risk(y, score, treatment=treatment)
    0.0
    >>> policy_risk(y, score, treatment=treatment, share=[0, 0.5, 1]).tolist()
    [0.5, 0.0, 0.5]
    """
    rows = check_rows(
        y,
        score,
        treatment=treatment,
        control=control,
        sample_weight=sample_weight,
        propensity=propensity,
    )
    if randomised is not None:
        keep = check_mask(randomised, "randomised", len(rows.y))
        rows = rows.take(np.flatnonzero(keep))
    if share is None:
        return _sign_rule_risk(rows)
    (part,) = ranked_parts(rows, "joint")
    sweep, shares = ArmSweep.of(part), check_shares(share)
    treated, control = (sweep.mean_at(shares, arm, rest=not arm) for arm in (True, False))
    value = shares * np.nan_to_num(treated) + (1 - shares) * np.nan_to_num(control)
    return 1 - value if np.ndim(share) else float(1 - value[0])


def pehe(effect: ArrayLike, predicted: ArrayLike, *, squared: bool = False) -> float:
    """Root mean squared error of predicted effects (precision in estimating heterogeneous effects).

    sqrt(mean (predicted - effect)^2), or the mean itself if ``squared``. True effects are known
    only in simulations.

    Examples
    --------
    >>> pehe([1.0, 3.0], [1.0, 1.0], squared=True)
    2.0
    """
    effect = check_column(effect, "effect")
    predicted = check_column(predicted, "predicted", len(effect), than="effect")
    mean = float(np.mean((predicted - effect) ** 2))
    return mean if squared else float(np.sqrt(mean))


def _sign_rule_risk(rows: Rows) -> float:
    weight = np.ones(len(rows.y)) if rows.weight is None else rows.weight
    arm_weight = weight
    if rows.propensity is not None:
        arm_weight = weight / np.where(rows.treated, rows.propensity, 1 - rows.propensity)
    picked = rows.score > 0
    q = float(weight[picked].sum() / weight.sum())
    value = 0.0
    for part, cell in ((q, picked & rows.treated), (1 - q, ~picked & ~rows.treated)):
        if arm_weight[cell].any():
            value += part * float(np.average(rows.y[cell], weights=arm_weight[cell]))
    return 1 - value
