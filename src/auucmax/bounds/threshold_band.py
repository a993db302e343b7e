"""A lower limit for the uplift of everybody above a threshold, for all thresholds at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from auucmax._validation import Floats, check_choice, check_rows
from auucmax.bounds.setting import check_binary, log_inverse, rate_limits
from auucmax.evaluation.ranking import RankedRows, ranked_parts

__all__ = ["ThresholdBand", "threshold_band_bound"]

FORMS = ("counts", "rates")


@dataclass(frozen=True)
class ThresholdBand:
    """``lower`` <= V(s) at *all* s together, with probability 1 - ``delta``.

    Arrays (number of distinct scores + 1,), from nobody (``threshold`` infinite) to everybody:
    V(s) is the uplift per person of treating those with score >= s, ``share`` their share among the
    rows and ``estimate`` the rows' own V. For s between two thresholds the entry of the higher one
    holds.
    """

    threshold: Floats
    share: Floats
    estimate: Floats
    lower: Floats
    delta: float


def threshold_band_bound(
    y: ArrayLike,
    score: ArrayLike,
    *,
    treatment: ArrayLike,
    form: Literal["counts", "rates"] = "counts",
    delta: float = 0.05,
    n_candidates: int = 1,
    control: Any = None,
) -> ThresholdBand:
    """Lower limits of V(s) = E[Y 1{f >= s} | T] - E[Y 1{f >= s} | C] for all s together; y is 0/1.

    With d = delta / n_candidates, H_g(s) the share of an arm's responders with f >= s, and m_g the
    number of these responders:

    ``"counts"``: lower = V^(s) - e_T - e_C, e_g = sqrt(ln(2/d) / (2 n_g)); the same gap everywhere.

    ``"rates"``: lower = p_T max(H_T - h_T, 0) - p_C min(H_C + h_C, 1), h_g = sqrt(ln(4/d) / (2
    m_g)), p_T a lower and p_C an upper limit of Clopper and Pearson at delta/4 each. Narrower when
    responders are rare and the share is small.

    *Proof.* Let f' be f for responders, minus infinity for others. P(f' >= s | g) = E[Y 1{f >= s} |
    g] is one minus a distribution function (its left limit), so the one-sided inequality of
    Dvoretzky, Kiefer and Wolfowitz with Massart's constant bounds its error at all s, with
    probability 1 - d/2 in each arm (the constant asks for an error of at most 1/2: it is). For the
    second form apply it to the responders, whose scores are independent given their number.

    Examples
    --------
    >>> from auucmax import load_hillstrom
    >>> trial = load_hillstrom()
    >>> band = threshold_band_bound(trial.y, trial.X["womens"], treatment=trial.treatment)
    >>> band.estimate.round(4), band.lower.round(4)
    (array([0.    , 0.0405, 0.0452]), array([-0.0186,  0.0219,  0.0266]))
    """
    check_choice(form, "form", FORMS)
    log_term = log_inverse(delta, n_candidates, parts=2 if form == "counts" else 4)
    rows = check_rows(y, score, treatment=treatment, control=control)
    check_binary(rows.y)
    (part,) = ranked_parts(rows, "joint")
    estimate = part.ranking.from_top(part.signed_outcome())
    if form == "counts":
        gap = sum(np.sqrt(log_term / (2 * part.arm_total(arm))) for arm, _ in part.arms)
        lower = estimate - gap
    else:
        lower = _lower_by_rates(part, log_term, delta)
    scores, starts = rows.score[part.index], part.ranking.starts
    levels = scores if starts is None else scores[starts]
    return ThresholdBand(
        threshold=np.concatenate([[np.inf], levels[::-1]]),
        share=part.ranking.from_top(None) / len(rows.y),
        estimate=estimate,
        lower=lower,
        delta=delta,
    )


def _lower_by_rates(part: RankedRows, log_term: float, delta: float) -> Floats:
    responders = {arm: part.ranking.from_top(part.arm_outcome(arm)) for arm, _ in part.arms}
    limits = {}
    for arm, sign in part.arms:
        n_rows, n_responders = int(part.arm_total(arm)), responders[arm][-1]
        low, high = rate_limits(n_responders, n_rows, delta / 4)
        if n_responders == 0:  # nothing is known of where they would be
            limits[arm] = np.full(len(responders[arm]), 0.0 if arm else high)
            continue
        error = np.sqrt(log_term / (2 * n_responders))
        reach = np.clip(responders[arm] / n_responders - sign * error, 0, 1)
        limits[arm] = reach * (low if arm else high)
    return limits[True] - limits[False]
