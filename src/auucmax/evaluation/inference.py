"""Standard errors of AUUC, of the gain over random, and of the difference of two scores.

AUUC is a ratio of sums over pairs of rows, so to first order it is a sum of independent terms,
one a row (its Hajek projection). With u_i the share of people ranked below row i, V_i the uplift
curve at row i, a_i the weight of the row in its arm and A_g the sum of these weights,

    psi_i = +- a_i (y_i u_i - theta_g) / A_g  +  w_i (V_i - theta) / W

(+ treated, - control). The first term is the row's own outcome; the second its effect on the
ranks of all others. The variance of AUUC is the sum over arms of n_g times the variance of psi in
the arm; intervals use Student's t with one degree less than the rows (or clusters) of the rarer
arm. The gain over random, AUUC - ATE/2, has u_i - 1/2 in place of u_i. No bootstrap, and
O(n log n); the bootstrap in ``auucmax.evaluation.reference`` is the slow twin.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import stdtr, stdtrit

from auucmax._validation import (
    Bools,
    Floats,
    Rows,
    check_choice,
    check_groups,
    check_level,
    check_rows,
)
from auucmax.evaluation.auuc import RANKINGS, RankingKind, adjusted_outcome, signed_area
from auucmax.evaluation.ranking import RankedRows, arm_sums, ranked_parts

__all__ = ["AUUCDifference", "AUUCInference", "auuc_difference", "auuc_inference"]


@dataclass(frozen=True)
class AUUCInference:
    """AUUC with its standard error, and the gain over random (AUUC - ATE/2) with its own.

    Intervals are two-sided and asymptotic, at ``level``; ``p_value`` is two-sided, for no gain
    over random. ``bin_error`` is the largest possible difference between this estimate (or gain)
    and that of the exact scores, when these were only known by their bins
    (:meth:`ScoreHistogram.inference`): intervals are widened by it, and ``p_value`` allows for it.
    It is 0 when computed from the rows themselves.
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
    bin_error: float = 0.0

    def __str__(self) -> str:
        bins = f" (bins of scores: +-{self.bin_error:.2g})" if self.bin_error > 0 else ""
        return (
            f"AUUC {self.estimate:.5f} ({_interval_text(self.interval, self.level)}), "
            f"gain over random {self.gain:+.5f} "
            f"({_interval_text(self.gain_interval, self.level)}), "
            f"p = {self.p_value:.2g}, {self.n_rows:,} rows{bins}"
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
    outcome_model: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    level: float = 0.95,
    control: Any = None,
) -> AUUCInference:
    """AUUC and gain over random, each with a closed-form standard error and interval.

    Parameters are those of :func:`auuc_score`, and

    groups : (n,) label of the cluster (household, shop) of each row; the terms psi are summed
        within clusters, which may then be dependent inside and lie in one arm or both. With few
        clusters in an arm the intervals, from Student's t, are wide; with one there are none.
    level : coverage of the intervals.

    The score must not have been fitted on these rows, nor the ``outcome_model`` whose predictions
    narrow the intervals. Sampling weights are taken as given.

    Examples
    --------
    >>> from auucmax import load_hillstrom
    >>> trial = load_hillstrom()
    >>> print(auuc_inference(trial.y, trial.X["womens"], treatment=trial.treatment))
    AUUC 0.03045 (95% interval 0.02666 to 0.03424), gain over random +0.00783
    (95% interval 0.00617 to 0.00949), p = 2.3e-20, 42,693 rows
    """
    check_choice(ranking, "ranking", RANKINGS)
    check_level(level)
    rows = check_rows(
        adjusted_outcome(y, outcome_model),
        score,
        treatment=treatment,
        control=control,
        sample_weight=sample_weight,
        propensity=propensity,
    )
    clusters = None if groups is None else check_groups(groups, len(rows.y))
    constant = bool(rows.score.min() == rows.score.max())
    if constant:
        warnings.warn(
            "score should tell rows apart, got one value for all of them: AUUC is then ATE/2 and "
            "the gain over random zero, by definition. Check the model that made it.",
            UserWarning,
            stacklevel=2,
        )
    rows, clusters = with_weight(rows, clusters)
    units, parts = Units.of(rows.treated, clusters), ranked_parts(rows, ranking)
    estimate = sum(signed_area(part) for part in parts)
    gain = estimate - sum(_half_effect(part) for part in parts)
    if clusters is None:
        error, gain_error = _part_errors(parts)
    else:
        psi, half_effect = _row_terms(parts, len(rows.y))
        error, gain_error = units.error(psi), units.error(psi - half_effect)
    if constant:  # by definition, and not only up to rounding
        gain, gain_error = 0.0, 0.0 * gain_error
    return AUUCInference(
        estimate=float(estimate),
        standard_error=error,
        interval=interval_around(estimate, error, level, units.degrees),
        gain=float(gain),
        gain_standard_error=gain_error,
        gain_interval=interval_around(gain, gain_error, level, units.degrees),
        p_value=p_value_of(gain, gain_error, units.degrees),
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
    outcome_model: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    level: float = 0.95,
    control: Any = None,
) -> AUUCDifference:
    """AUUC of ``score_a`` minus AUUC of ``score_b``, paired on the same rows.

    The standard error is that of the sum of psi_i(a) - psi_i(b) (:mod:`auucmax.evaluation.
    inference`), so what the two rankings share cancels; an ``outcome_model`` can remove more of the
    noise. Parameters as in :func:`auuc_inference`.

    Examples
    --------
    >>> from auucmax import load_hillstrom
    >>> trial = load_hillstrom()
    >>> a, b = trial.X["womens"], trial.X["newbie"]
    >>> print(auuc_difference(trial.y, a, b, treatment=trial.treatment))
    AUUC difference +0.00646 (95% interval 0.00413 to 0.00880), p = 5.9e-08, 42,693 rows
    """
    check_choice(ranking, "ranking", RANKINGS)
    check_level(level)
    estimate, terms = 0.0, []
    for sign, name, score in ((1.0, "score_a", score_a), (-1.0, "score_b", score_b)):
        rows = check_rows(
            adjusted_outcome(y, outcome_model),
            score,
            treatment=treatment,
            control=control,
            sample_weight=sample_weight,
            propensity=propensity,
            score_name=name,
        )
        clusters = None if groups is None else check_groups(groups, len(rows.y))
        rows, clusters = with_weight(rows, clusters)
        parts = ranked_parts(rows, ranking)
        estimate += sign * sum(signed_area(part) for part in parts)
        terms.append(_row_terms(parts, len(rows.y))[0])
    units = Units.of(rows.treated, clusters)
    error = units.error(terms[0] - terms[1])
    return AUUCDifference(
        estimate=float(estimate),
        standard_error=error,
        interval=interval_around(estimate, error, level, units.degrees),
        p_value=p_value_of(estimate, error, units.degrees),
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


@dataclass(frozen=True)
class Units:
    """What is independent: the rows, or clusters of them.

    ``degrees`` of freedom: one less than the units of the rarer arm. A cluster may lie in one arm
    or reach into both; its correction for small samples is that of the rarer arm that it touches.
    """

    treated: Bools
    clusters: NDArray[np.intp] | None
    counts: dict[bool, int]

    @classmethod
    def of(cls, treated: Bools, clusters: NDArray[np.intp] | None) -> Units:
        if clusters is None:
            n_treated = int(np.count_nonzero(treated))
            return cls(treated, None, {True: n_treated, False: len(treated) - n_treated})
        counts = {arm: len(np.unique(clusters[treated == arm])) for arm in (True, False)}
        return cls(treated, clusters, counts)

    @property
    def degrees(self) -> int:
        return min(self.counts.values()) - 1

    def error(self, psi: Floats) -> float:
        """Standard error of the sum of row terms; not a number if an arm has a single unit."""
        if self.clusters is None:
            return float(np.sqrt(_sum_variance(psi, self.treated)))
        totals = np.bincount(self.clusters, weights=self.centred(psi))
        return float(np.sqrt(np.sum(self.corrections() * totals**2)))

    def centred(self, psi: Floats) -> Floats:
        """Row terms minus the mean of their arm."""
        n_treated = int(np.count_nonzero(self.treated))
        sums = arm_sums(psi, self.treated)
        means = sums[False] / (len(psi) - n_treated), sums[True] / n_treated
        return psi - np.take(means, self.treated.view(np.int8))

    def corrections(self) -> Floats:
        """G_g / (G_g - 1) of each cluster, the larger one where it reaches into both arms."""
        if self.clusters is None or self.degrees < 1:
            return np.array(np.nan)
        result = np.zeros(self.clusters.max() + 1)
        for arm, n_clusters in self.counts.items():
            touched = np.unique(self.clusters[self.treated == arm])
            result[touched] = np.maximum(result[touched], n_clusters / (n_clusters - 1))
        return result


def interval_around(
    estimate: float, error: float, level: float, degrees: float
) -> tuple[float, float]:
    """Two-sided interval from Student's t."""
    half = float(stdtrit(degrees, 0.5 + level / 2)) * error if degrees > 0 else np.nan
    return float(estimate - half), float(estimate + half)


def p_value_of(estimate: float, error: float, degrees: float) -> float:
    """Two-sided p value for zero; 1 when estimate and error are both zero."""
    if error == 0:
        return 1.0 if estimate == 0 else 0.0
    return float(2 * stdtr(degrees, -abs(estimate) / error)) if degrees > 0 else float("nan")


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


def with_weight(
    rows: Rows, clusters: NDArray[np.intp] | None
) -> tuple[Rows, NDArray[np.intp] | None]:
    """Rows of weight 0 say nothing, and must not count as rows either."""
    if rows.weight is None or rows.weight.all():
        return rows, clusters
    kept = np.flatnonzero(rows.weight)
    return rows.take(kept), None if clusters is None else np.unique(
        clusters[kept], return_inverse=True
    )[1]


def _row_terms(parts: tuple[RankedRows, ...], n_rows: int) -> tuple[Floats, Floats]:
    """psi of AUUC and of half the effect in the caller's row order."""
    terms = np.empty(n_rows), np.empty(n_rows)
    for part in parts:
        for target, values in zip(terms, influence(part), strict=True):
            target[part.index] = values
    return terms


def _sum_variance(psi: Floats, treated: Bools) -> float:
    """Sum over arms of n_g times the sample variance; not a number if an arm has a single row."""
    n_treated = int(np.count_nonzero(treated))
    counts = {True: n_treated, False: len(psi) - n_treated}
    if 1 in counts.values():
        return float("nan")
    sums = arm_sums(psi, treated)
    means = tuple(sums[arm] / max(counts[arm], 1) for arm in (False, True))
    squares = arm_sums(psi, treated, squared_around=(means[0], means[1]))
    return sum(squares[arm] * n / (n - 1) for arm, n in counts.items() if n > 1)


def _half_effect(part: RankedRows) -> float:
    return 0.5 * sum(
        sign * float(part.arm_outcome(arm).sum()) / part.arm_total(arm) for arm, sign in part.arms
    )


def _interval_text(interval: tuple[float, float], level: float) -> str:
    return f"{level:.0%} interval {interval[0]:.5f} to {interval[1]:.5f}"
