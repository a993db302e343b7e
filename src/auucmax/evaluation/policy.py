"""Policy risk: what a treat-the-top rule loses, with intervals; and PEHE, for simulations.

To first order the risk at share q is a sum of independent row terms. With M_i the part of row i
that is picked (1 above the cut, 0 below, a fraction inside a tied level that is cut), m_T the mean
outcome of the treated who are picked and m_C of the controls who are not, and a_i the weight of the
row in its arm,

    psi_i = - q a_i M_i (y_i - m_T) / sum_T a M             (treated)
            - (1 - q) a_i (1 - M_i) (y_i - m_C) / sum_C a (1 - M)    (control)
            + D w_i (M_i - q) / W                                    (every row)
    D     = [mean(y | treated, at the cut) - m_T] - [mean(y | control, at the cut) - m_C].

The last term is there because the cut is itself estimated, the top share of these rows and not of
the population: too many high scores in the sample put it too high. The three are uncorrelated, so
with equal weights and no ties the variance is

    q^2 var_T / k_T  +  (1 - q)^2 var_C / k_C  +  D^2 q (1 - q) / n

with var and k the variance of y and the rows in each of the two cells. Means at the cut are over a
window of some n^(-1/5) of the people. Where people are picked by the sign of their scores, the cut
is fixed and the share estimated: D = m_C - m_T.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from auucmax._validation import (
    Floats,
    Rows,
    check_column,
    check_groups,
    check_level,
    check_mask,
    check_rows,
    check_shares,
)
from auucmax.evaluation.bands import smoothed_slope
from auucmax.evaluation.curves import ArmSweep
from auucmax.evaluation.inference import Units, interval_around, with_weight
from auucmax.evaluation.ranking import RankedRows, ranked_parts

__all__ = ["PolicyRiskInference", "pehe", "policy_risk", "policy_risk_inference"]


@dataclass(frozen=True)
class PolicyRiskInference:
    """Policy risk at ``share`` with its standard error: numbers, or arrays for a grid of shares.

    The interval (lower, upper) is two-sided and asymptotic, at ``level``; it covers at a share that
    was fixed beforehand, not at one chosen by looking at the risks.
    """

    share: float | Floats
    estimate: float | Floats
    standard_error: float | Floats
    interval: tuple[float | Floats, float | Floats]
    level: float
    n_rows: int

    def __str__(self) -> str:
        columns = (self.share, self.estimate, *self.interval)
        return "\n".join(
            f"policy risk {risk:.5f} at share {share:.3f} "
            f"({self.level:.0%} interval {low:.5f} to {high:.5f}), {self.n_rows:,} rows"
            for share, risk, low, high in zip(*map(np.atleast_1d, columns), strict=True)
        )


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


def policy_risk_inference(
    y: ArrayLike,
    score: ArrayLike,
    *,
    treatment: ArrayLike,
    share: float | ArrayLike | None = None,
    randomised: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    propensity: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    level: float = 0.95,
    control: Any = None,
) -> PolicyRiskInference:
    """Policy risk with a closed-form standard error and interval.

    The error is that of the sum of psi_i (:mod:`auucmax.evaluation.policy`). Parameters are those
    of :func:`policy_risk`, ``groups`` and ``level`` those of :func:`auuc_inference`. O(n log n),
    and O(n) for each further share.

    Intervals use Student's t with Welch's degrees of freedom for the rows (or clusters) of the two
    cells whose means are taken; with fewer than two in a cell there is no interval. At a share that
    falls between two large levels of equal scores the risk bends, and the estimate is biased by
    some tenth of its standard error. The score must not have been fitted on these rows.

    Examples
    --------
    >>> from auucmax import load_hillstrom
    >>> trial = load_hillstrom()
    >>> score = trial.X["womens"]
    >>> print(policy_risk_inference(trial.y, score, treatment=trial.treatment, share=0.5))
    policy risk 0.85726 at share 0.500 (95% interval 0.85283 to 0.86170), 42,693 rows
    """
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
    if randomised is not None:
        kept = np.flatnonzero(check_mask(randomised, "randomised", len(rows.y)))
        rows, clusters = rows.take(kept), None if clusters is None else clusters[kept]
    rows, clusters = with_weight(rows, clusters)
    (part,) = ranked_parts(rows, "joint")
    clusters = None if clusters is None else clusters[part.index]
    rules: Iterable[_Rule]
    if share is None:
        rules = [_Rule.by_sign(part, rows.score[part.index])]
    else:
        sweep, shares = ArmSweep.of(part), check_shares(share)
        rules = (_Rule.at_share(part, sweep, q) for q in sweep.on_knots(shares))
    table = np.array([_risk_inference(part, rule, clusters, level) for rule in rules]).T
    single = share is None or np.ndim(share) == 0
    q, risk, error, lower, upper = map(float, table[:, 0]) if single else table
    return PolicyRiskInference(q, risk, error, (lower, upper), level, len(rows.y))


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


@dataclass(frozen=True)
class _Rule:
    """Whom a rule picks among sorted rows.

    ``edge`` holds for each arm the slopes, in the share, of the weighted outcome and of the weight
    of its rows above the cut; None where the cut is fixed and the share estimated.
    """

    share: float
    picked: Floats  # M, (n,)
    edge: dict[bool, tuple[float, float]] | None

    @classmethod
    def by_sign(cls, part: RankedRows, score: Floats) -> _Rule:
        picked = (score > 0).astype(np.float64)
        return cls(float(np.average(picked, weights=part.weight)), picked, None)

    @classmethod
    def at_share(cls, part: RankedRows, sweep: ArmSweep, share: float) -> _Rule:
        width, reach = np.diff(sweep.share), share - sweep.share[:-1]
        level = np.divide(reach, width, out=(reach > 0).astype(np.float64), where=width > 0)
        edge = {}
        for arm in (True, False):
            outcome, people = (
                float(smoothed_slope(np.array([share]), sweep.share, curve[arm], len(part.y))[0])
                for curve in (sweep.outcome, sweep.people)
            )
            edge[arm] = outcome, people
        return cls(float(share), part.ranking.spread(np.clip(level, 0, 1)[::-1]), edge)


def _risk_inference(
    part: RankedRows, rule: _Rule, clusters: NDArray[np.intp] | None, level: float
) -> tuple[float, float, float, float, float]:
    """Share, risk, its standard error, and the ends of the interval."""
    q, value, slope = rule.share, 0.0, 0.0
    psi, counts = np.zeros(len(part.y)), {}
    for arm, sign, chance, inside in (
        (True, 1, q, rule.picked),
        (False, -1, 1 - q, 1 - rule.picked),
    ):
        if chance == 0:
            continue
        cell = part.arm_presence(arm) * inside
        counts[arm] = int(np.count_nonzero(cell))
        if clusters is not None:
            counts[arm] = len(np.unique(clusters[cell > 0]))
        if not counts[arm]:
            continue
        total = float(cell.sum())
        mean = float((cell * part.y).sum()) / total
        value += chance * mean
        psi -= chance / total * cell * (part.y - mean)
        if rule.edge is None:
            slope -= sign * mean
        else:
            outcome, people = rule.edge[arm]
            slope += sign * chance / total * (outcome - mean * people)
    weight = 1.0 if part.weight is None else part.weight
    psi += slope / part.total_weight * weight * (rule.picked - q)
    units = Units(part.treated, clusters, counts)
    error, degrees = _error_and_degrees(psi, units)
    return q, 1 - value, error, *interval_around(1 - value, error, level, degrees)


def _error_and_degrees(psi: Floats, units: Units) -> tuple[float, float]:
    """Standard error, and Welch's degrees of freedom: cells count by their part in the variance.

    ``units.counts`` are those of the cells, not of the arms, and so is the correction k / (k - 1)
    for small samples.
    """
    if units.degrees < 1:
        return float("nan"), 0.0
    centred, variance, k = units.centred(psi), [], np.array(list(units.counts.values()))
    for arm in units.counts:
        own = centred * (units.treated == arm)
        totals = own if units.clusters is None else np.bincount(units.clusters, weights=own)
        variance.append(float((totals**2).sum()))
    parts = np.array(variance) * k / (k - 1)
    total = float(parts.sum())
    if total == 0:
        return 0.0, units.degrees
    degrees = float(1 / np.sum((parts / total) ** 2 / (k - 1)))
    if units.clusters is None:
        return float(np.sqrt(total)), degrees
    # Clusters that reach into both arms are in both cells, but are no more for that.
    return units.error(psi), min(degrees, len(np.unique(units.clusters)) - 1)
