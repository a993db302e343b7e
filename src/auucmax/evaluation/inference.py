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

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit

from auucmax._validation import Bools, Floats, Rows
from auucmax.evaluation.ranking import RankedRows, arm_sums

Clusters = NDArray[np.intp]


@dataclass(frozen=True)
class AUUCInference:
    """AUUC with its standard error, and the gain over random (AUUC - ATE/2) with its own.

    Intervals are two-sided and asymptotic, at ``level``; ``p_value`` is two-sided, for no gain
    over random. ``bin_error`` is the largest possible difference between this estimate (or gain)
    and that of the exact scores, when these were only known by their bins
    (:meth:`BinnedLevels.inference`): intervals are widened by it, and ``p_value`` allows for it.
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


def influence(part: RankedRows) -> tuple[Floats, Floats]:
    """psi of AUUC, and of half the average effect, summed over the rows of each line of the part.

    Without weights the terms are not centred: what is constant in an arm drops out of its variance.
    """
    total = part.total_weight
    signed = part.signed_outcome()
    above = part.ranking.mid_cumsum(signed)
    np.subtract(signed.sum(), above, out=above)  # V_i: the curve at row i, half of its own level
    psi = part.ranking.mid_cumsum(part.rank_weight)
    psi *= signed / total
    half_effect = 0.5 * signed
    if part.weight is None and part.arm_weight is None:
        above /= total
        psi += above if part.rows is None else above * part.rows
        return psi, half_effect
    for arm, _ in part.arms:
        in_arm, share = part.treated == arm, part.arm_presence(arm) / part.arm_total(arm)
        psi -= psi[in_arm].sum() * share
        half_effect -= half_effect[in_arm].sum() * share
    weight = np.ones(len(part.y)) if part.weight is None else part.weight
    psi += weight * (above - np.dot(weight, above) / total) / total
    return psi, half_effect


def part_errors(parts: tuple[RankedRows, ...]) -> tuple[float, float]:
    """Standard errors of AUUC and of the gain, of rows that are independent."""
    variance = np.zeros(2)
    for part in parts:
        psi, half_effect = influence(part)
        slope, less = None, None
        if part.rows is not None:  # psi of a row of the line is slope y + a constant
            below = part.ranking.mid_cumsum(part.rows) / part.total_weight
            slope, less = below * part.arm_scale(), (below - 0.5) * part.arm_scale()
        variance[0] += part.sum_variance(psi, slope)
        psi -= half_effect
        variance[1] += part.sum_variance(psi, less)
    error, gain_error = np.sqrt(variance)
    return float(error), float(gain_error)


def row_terms(ranked: RankedRows, ranking: str) -> tuple[Floats, Floats]:
    """psi of AUUC and of half the effect, for each row of ``ranked``, which holds both arms."""
    if ranking == "joint":
        return influence(ranked)
    terms = np.empty(len(ranked.y)), np.empty(len(ranked.y))
    for part, own in zip(ranked.parts(ranking), (ranked.treated, ~ranked.treated), strict=True):
        for target, values in zip(terms, influence(part), strict=True):
            target[own] = values
    return terms


@dataclass(frozen=True)
class Units:
    """Clusters of rows, which are independent of each other; a row may be one of its own.

    ``degrees`` of freedom: one less than the clusters of the rarer arm. A cluster may lie in one
    arm or reach into both; its correction for small samples is that of the rarer arm it touches.
    """

    treated: Bools
    clusters: Clusters  # 0, 1, ... without gaps
    counts: dict[bool, int]  # clusters with rows of the arm

    @classmethod
    def of(cls, treated: Bools, clusters: Clusters | None) -> Units:
        members = np.arange(len(treated)) if clusters is None else clusters
        counts = {arm: len(touched_by(members[treated == arm])) for arm in (True, False)}
        return cls(treated, members, counts)

    @property
    def degrees(self) -> int:
        return min(self.counts.values()) - 1

    @property
    def n_clusters(self) -> int:
        return int(self.clusters.max()) + 1

    def members(self, arm: bool) -> Clusters:
        """The cluster of each of the arm's rows."""
        return self.clusters[self.treated == arm]

    def error(self, psi: Floats) -> float:
        """Standard error of the sum of row terms; not a number if an arm has a single cluster."""
        n_treated = int(np.count_nonzero(self.treated))
        sums = arm_sums(psi, self.treated)
        means = sums[False] / (len(psi) - n_treated), sums[True] / n_treated
        centred = psi - np.take(means, self.treated.view(np.int8))
        totals = np.bincount(self.clusters, weights=centred)
        return float(np.sqrt(np.sum(self.corrections() * totals**2)))

    def corrections(self) -> Floats:
        """G_g / (G_g - 1) of each cluster, the larger one where it reaches into both arms."""
        if self.degrees < 1:
            return np.array(np.nan)
        result = np.zeros(self.n_clusters)
        for arm, n_clusters in self.counts.items():
            touched = touched_by(self.members(arm))
            result[touched] = np.maximum(result[touched], n_clusters / (n_clusters - 1))
        return result


def touched_by(clusters: Clusters) -> Clusters:
    """The clusters that occur, in order."""
    return np.flatnonzero(np.bincount(clusters))


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


def with_weight(rows: Rows, clusters: Clusters | None) -> tuple[Rows, Clusters | None]:
    """Rows of weight 0 say nothing, and must not count as rows either."""
    if rows.weight is None or rows.weight.all():
        return rows, clusters
    return some_rows(rows, clusters, rows.weight > 0)


def some_rows(rows: Rows, clusters: Clusters | None, kept: Bools) -> tuple[Rows, Clusters | None]:
    """The rows that are kept, their clusters numbered anew."""
    index = np.flatnonzero(kept)
    if clusters is not None:
        clusters = np.unique(clusters[index], return_inverse=True)[1]
    return rows.take(index), clusters


def _interval_text(interval: tuple[float, float], level: float) -> str:
    return f"{level:.0%} interval {interval[0]:.5f} to {interval[1]:.5f}"
