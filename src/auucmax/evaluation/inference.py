"""Standard errors of AUUC, of the gain over random, and of the difference of two scores.

AUUC is a ratio of sums over pairs of rows, so to first order it is a sum of independent terms,
one a row (its Hajek projection). With u_i the share of people ranked below row i, V_i the uplift
curve at row i, a_i the weight of the row in its arm and A_g the sum of these weights,

    psi_i = +- a_i (y_i u_i - theta_g) / A_g  +  w_i (V_i - theta) / W

(+ treated, - control). The first term is the row's own outcome; the second its effect on the
ranks of all others. The variance of AUUC is the sum over arms of n_g times the variance of psi in
the arm. The gain over random, AUUC - ATE/2, has u_i - 1/2 in place of u_i. No bootstrap, and
O(n log n); the bootstrap in ``auucmax.evaluation.reference`` is the slow twin.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr, ndtri

from auucmax._validation import (
    Bools,
    Floats,
    check_choice,
    check_groups,
    check_level,
    check_rows,
)
from auucmax.evaluation.auuc import RANKINGS, RankingKind, signed_area
from auucmax.evaluation.ranking import RankedRows, arm_sums, ranked_parts

__all__ = ["AUUCDifference", "AUUCInference", "auuc_difference", "auuc_inference"]


@dataclass(frozen=True)
class AUUCInference:
    """AUUC with its standard error, and the gain over random (AUUC - ATE/2) with its own.

    Intervals are two-sided and asymptotic, at ``level``; ``p_value`` is two-sided, for no gain
    over random.
    """

    estimate: float
    standard_error: float
    interval: tuple[float, float]
    gain: float
    gain_standard_error: float
    gain_interval: tuple[float, float]
    p_value: float
    level: float
    n_rows: int

    def __str__(self) -> str:
        return (
            f"AUUC {self.estimate:.5f} ({_interval_text(self.interval, self.level)}), "
            f"gain over random {self.gain:+.5f} "
            f"({_interval_text(self.gain_interval, self.level)}), "
            f"p = {self.p_value:.2g}, {self.n_rows:,} rows"
        )


@dataclass(frozen=True)
class AUUCDifference:
    """AUUC of score a minus that of score b on the same rows; asymptotic interval and test."""

    estimate: float
    standard_error: float
    interval: tuple[float, float]
    p_value: float
    level: float
    n_rows: int

    def __str__(self) -> str:
        return (
            f"AUUC difference {self.estimate:+.5f} ({_interval_text(self.interval, self.level)}), "
            f"p = {self.p_value:.2g}, {self.n_rows:,} rows"
        )


def auuc_inference(
    y: ArrayLike,
    score: ArrayLike,
    *,
    treatment: ArrayLike,
    ranking: RankingKind = "joint",
    sample_weight: ArrayLike | None = None,
    propensity: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    level: float = 0.95,
    control: Any = None,
) -> AUUCInference:
    """AUUC and gain over random, each with a closed-form standard error and interval.

    Parameters are those of :func:`auuc_score`, and

    groups : (n,) label of the cluster (household, shop) of each row; the terms psi are summed
        within clusters, which may then be dependent inside and lie in one arm or both.
    level : coverage of the intervals.

    The score must not have been fitted on these rows. Sampling weights are taken as given.

    Examples
    --------
    >>> from auucmax import load_hillstrom
    >>> trial = load_hillstrom()
    >>> print(auuc_inference(trial.y, trial.X["womens"], treatment=trial.treatment))
    AUUC 0.03045 (95% interval 0.02666 to 0.03424), gain over random +0.00783
    (95% interval 0.00617 to 0.00949), p = 2.1e-20, 42,693 rows
    """
    check_choice(ranking, "ranking", RANKINGS)
    check_level(level)
    rows = check_rows(
        y,
        score,
        treatment=treatment,
        control=control,
        sample_weight=sample_weight,
        propensity=propensity,
    )
    clusters = None if groups is None else check_groups(groups, len(rows.y))
    if rows.score.min() == rows.score.max():
        warnings.warn(
            "score should tell rows apart, got one value for all of them: AUUC is then ATE/2 and "
            "the gain over random zero, by definition. Check the model that made it.",
            UserWarning,
            stacklevel=2,
        )
    parts = ranked_parts(rows, ranking)
    estimate = sum(signed_area(part) for part in parts)
    gain = estimate - sum(_half_effect(part) for part in parts)
    if clusters is None:
        error, gain_error = _part_errors(parts)
    else:
        psi, half_effect = _row_terms(parts, len(rows.y))
        error = standard_error(psi, rows.treated, clusters)
        gain_error = standard_error(psi - half_effect, rows.treated, clusters)
    return AUUCInference(
        estimate=float(estimate),
        standard_error=error,
        interval=normal_interval(estimate, error, level),
        gain=float(gain),
        gain_standard_error=gain_error,
        gain_interval=normal_interval(gain, gain_error, level),
        p_value=normal_p_value(gain, gain_error),
        level=level,
        n_rows=len(rows.y),
    )


def auuc_difference(
    y: ArrayLike,
    score_a: ArrayLike,
    score_b: ArrayLike,
    *,
    treatment: ArrayLike,
    ranking: RankingKind = "joint",
    sample_weight: ArrayLike | None = None,
    propensity: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    level: float = 0.95,
    control: Any = None,
) -> AUUCDifference:
    """AUUC of ``score_a`` minus AUUC of ``score_b``, paired on the same rows.

    The standard error is that of the sum of psi_i(a) - psi_i(b) (:mod:`auucmax.evaluation.
    inference`), so what the two rankings share cancels. Parameters as in :func:`auuc_inference`.

    Examples
    --------
    >>> from auucmax import load_hillstrom
    >>> trial = load_hillstrom()
    >>> a, b = trial.X["womens"], trial.X["newbie"]
    >>> print(auuc_difference(trial.y, a, b, treatment=trial.treatment))
    AUUC difference +0.00646 (95% interval 0.00413 to 0.00880), p = 5.8e-08, 42,693 rows
    """
    check_choice(ranking, "ranking", RANKINGS)
    check_level(level)
    rows, other = (
        check_rows(
            y,
            score,
            treatment=treatment,
            control=control,
            sample_weight=sample_weight,
            propensity=propensity,
        )
        for score in (score_a, score_b)
    )
    clusters = None if groups is None else check_groups(groups, len(rows.y))
    estimate, psi = 0.0, np.zeros(len(rows.y))
    for sign, these in ((1.0, rows), (-1.0, other)):
        parts = ranked_parts(these, ranking)
        estimate += sign * sum(signed_area(part) for part in parts)
        psi += sign * _row_terms(parts, len(rows.y))[0]
    error = standard_error(psi, rows.treated, clusters)
    return AUUCDifference(
        estimate=float(estimate),
        standard_error=error,
        interval=normal_interval(estimate, error, level),
        p_value=normal_p_value(estimate, error),
        level=level,
        n_rows=len(rows.y),
    )


def influence(part: RankedRows) -> tuple[Floats, Floats]:
    """psi of AUUC, and of half the average effect, for each sorted row of the part."""
    total = part.total_weight
    signed = part.signed_outcome()
    above = part.ranking.mid_cumsum(signed)
    np.subtract(signed.sum(), above, out=above)  # V_i: the curve at row i, half of its own level
    psi = part.ranking.mid_cumsum(part.weight)
    psi *= signed / total
    half_effect = 0.5 * signed
    if part.weight is None and part.arm_weight is None:
        # What is constant in an arm drops out of its variance.
        psi += above / total
        return psi, half_effect
    for arm, _ in part.arms:
        in_arm, share = part.treated == arm, part.arm_presence(arm) / part.arm_total(arm)
        psi -= psi[in_arm].sum() * share
        half_effect -= half_effect[in_arm].sum() * share
    weight = np.ones(len(part.y)) if part.weight is None else part.weight
    psi += weight * (above - np.dot(weight, above) / total) / total
    return psi, half_effect


def standard_error(psi: Floats, treated: Bools, clusters: NDArray[np.intp] | None = None) -> float:
    """Standard error of a sum of row terms: independent within arms, or within clusters of rows."""
    if clusters is None:
        return float(np.sqrt(_sum_variance(psi, treated)))
    counts, totals = _arm_counts(treated), arm_sums(psi, treated)
    centred = psi - np.where(treated, totals[True] / counts[True], totals[False] / counts[False])
    sums = np.bincount(clusters, weights=centred)
    return float(np.sqrt(np.dot(sums, sums) * len(sums) / (len(sums) - 1)))


def normal_interval(estimate: float, error: float, level: float) -> tuple[float, float]:
    """Two-sided normal interval."""
    half = float(ndtri(0.5 + level / 2)) * error
    return float(estimate - half), float(estimate + half)


def normal_p_value(estimate: float, error: float) -> float:
    """Two-sided normal p value for zero; 1 when both are zero (a constant score)."""
    if error == 0:
        return 1.0 if abs(estimate) < 1e-12 else 0.0
    return float(2 * ndtr(-abs(estimate) / error))


def _part_errors(parts: tuple[RankedRows, ...]) -> tuple[float, float]:
    """Standard errors of AUUC and of the gain, from rows in the order of their scores."""
    variance = np.zeros(2)
    for part in parts:
        psi, half_effect = influence(part)
        variance[0] += _sum_variance(psi, part.treated)
        psi -= half_effect
        variance[1] += _sum_variance(psi, part.treated)
    error, gain_error = np.sqrt(variance)
    return float(error), float(gain_error)


def _row_terms(parts: tuple[RankedRows, ...], n_rows: int) -> tuple[Floats, Floats]:
    """psi of AUUC and of half the effect in the caller's row order."""
    terms = np.empty(n_rows), np.empty(n_rows)
    for part in parts:
        for target, values in zip(terms, influence(part), strict=True):
            target[part.index] = values
    return terms


def _sum_variance(psi: Floats, treated: Bools) -> float:
    """Sum over arms of n_g times the sample variance; not a number if an arm has a single row."""
    counts, totals = _arm_counts(treated), arm_sums(psi, treated)
    # Squares of what is left after a first centring: no cancellation of large numbers.
    shift = (totals[True] + totals[False]) / len(psi)
    squares = arm_sums(psi - shift, treated, power=2)
    variance = 0.0
    for arm, n_rows in counts.items():
        if n_rows == 1:
            return float("nan")
        if n_rows > 1:
            centred_total = totals[arm] - n_rows * shift
            variance += (squares[arm] - centred_total**2 / n_rows) * n_rows / (n_rows - 1)
    return max(variance, 0.0)


def _arm_counts(treated: Bools) -> dict[bool, int]:
    n_treated = int(np.count_nonzero(treated))
    return {True: n_treated, False: len(treated) - n_treated}


def _half_effect(part: RankedRows) -> float:
    return 0.5 * sum(
        sign * float(part.arm_outcome(arm).sum()) / part.arm_total(arm) for arm, sign in part.arms
    )


def _interval_text(interval: tuple[float, float], level: float) -> str:
    return f"{level:.0%} interval {interval[0]:.5f} to {interval[1]:.5f}"
