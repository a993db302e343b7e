"""Policy risk: one minus the expected outcome when the top share is treated.

M_i is the part of row i that lies in the top share q, a_i and w_i are its weights, W the sum of the
latter, as in :mod:`auucmax.metrics.curves`. With m_T the mean outcome of the treated who are
picked and m_C of the controls who are not,

    psi_i = - q a_i M_i (y_i - m_T) / sum_T a M                      (treated)
            - (1 - q) a_i (1 - M_i) (y_i - m_C) / sum_C a (1 - M)    (control)
            + D w_i (M_i - q) / W                                    (every row)
    D     = [mean(y | treated, at the cut) - m_T] - [mean(y | control, at the cut) - m_C].

The three are uncorrelated, so with equal weights and no ties the variance is

    q^2 var_T / k_T  +  (1 - q)^2 var_C / k_C  +  D^2 q (1 - q) / n

with var and k the variance of y and the rows in each of the two cells. Where people are picked by
the sign of their scores, the cut is fixed and the share estimated: D = m_C - m_T. For 0/1 outcomes
limits are joined from the score limits of q m_T and of (1 - q) m_C, as those of a curve are.

The term of every row is there because the cut is itself estimated. Means at the cut are over a
window of some n^(-1/5) of the people.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from auucmax._validation import Bools, Floats
from auucmax.metrics.curves import ArmSweep, Segments
from auucmax.metrics.inference import ClusterUnits, Support
from auucmax.metrics.intervals import LESS_BOTH, ArmMean, Moments, Spread, area_limits
from auucmax.results import Shown


@dataclass(frozen=True, repr=False)
class PolicyRiskInference(Shown):
    """Policy risk at ``share``, with standard error and interval (numbers or arrays).

    The interval (lower, upper) is two-sided and asymptotic, at ``level``; it covers at a share that
    was fixed beforehand, not at one chosen by looking at the risks. Where too few rows or
    responders make every interval unreliable its ends are not numbers, and ``declined`` says why,
    in words; it is None otherwise, and a tuple for a grid of shares.
    """

    share: float | Floats
    estimate: float | Floats
    standard_error: float | Floats
    interval: tuple[float | Floats, float | Floats]
    level: float
    n_rows: int
    declined: str | tuple[str | None, ...] | None = None


def policy_risks(sweep: ArmSweep, share: Floats) -> Floats:
    """Policy risk at each share; an empty cell counts 0."""
    picked, left = (sweep.mean_at(share, arm, rest=not arm)[1] for arm in (True, False))
    return 1 - (share * np.nan_to_num(picked) + (1 - share) * np.nan_to_num(left))


class Cell(NamedTuple):
    """One of the two means in policy risk: treated who are picked, or controls who are not.

    ``chance`` (J,) is the share of the people it stands for, ``rows`` (J,) how many of the arm's
    rows (weights) and ``mean`` (J,) their mean outcome, 0 of nobody; ``inside`` (P, J) what part of
    a segment, ``scale`` (J,) what a row's outcome counts in the value of the rule. Where the chance
    is 0 nobody is asked. ``counted`` (2, J): rows or clusters, and those that responded.
    """

    arm: bool
    chance: Floats
    rows: Floats
    mean: Floats
    inside: Floats
    scale: Floats
    counted: Floats


def risk_table(
    segments: Segments,
    units: ClusterUnits | None,
    support: Support,
    responds: Bools | None,
    level: float,
    *,
    fixed_cut: bool,
) -> tuple[Floats, list[str | None]]:
    """Share, risk, standard error and interval, (5, J), and reasons for missing intervals.

    ``units`` if rows come in clusters. ``fixed_cut``: people are picked by the sign of their
    scores, and their share is estimated.
    """
    part, sweep, q, in_top = segments.part, segments.sweep, segments.share, segments.in_top
    # With bins only 0/1 outcomes show who responded, and there it is not needed.
    chosen = np.ones(len(part.y), bool), part.y != 0 if responds is None else responds
    cells, tilt = [], np.zeros(len(q))  # D
    for arm, sign in part.arms:
        rows, mean = sweep.mean_at(q, arm, rest=not arm)
        mean = np.nan_to_num(mean)
        chance, inside = (q, in_top) if arm else (1 - q, 1 - in_top)
        scale = np.divide(chance, rows, out=np.zeros(len(q)), where=rows > 0)
        if fixed_cut:
            tilt -= sign * mean
        else:
            moved = segments.slope(sweep.outcome[arm]) - mean * segments.slope(sweep.people[arm])
            tilt += sign * scale * moved
        counted = [segments.in_top_counts(own, units, arm, rest=not arm) for own in chosen]
        cells.append(Cell(arm, chance, rows, mean, inside, scale, np.array(counted)))
    cut = tilt / part.total_weight * (in_top - q)
    moments, totals = [], []
    for cell in cells:
        away = segments.centre(cell.arm) - cell.mean
        factors = np.stack([-cell.scale * cell.inside, -cell.scale * away * cell.inside, cut])
        # The correction k / (k - 1) for small samples counts the rows of the cell, not of the arm.
        if units is None:
            counts = segments.rows(cell.arm) @ (cell.inside > 0)
            variance = np.maximum(np.diag(segments.covariance(cell.arm, factors)), 0.0)
            own = Moments(counts, variance, 0.0, 0.0)
            if support.shape == "skewed" and part.squares is None:
                own = segments.moments(cell.arm, factors)
        else:
            counts = cell.counted[0]
            totals.append(segments.cluster_totals(cell.arm, factors, units))  # (G, J)
            powers = [(totals[-1] ** p).sum(axis=0) for p in (2, 3, 4)]
            variance = powers[0]
            own = Moments.of_sums(units.counts[cell.arm], *powers)
        moments.append(own._replace(units=counts, variance=variance * _correction(cell, counts)))
    means = None
    if support.shape == "binary":
        means = [
            _score_mean(cell, own.variance, clustered=support.clustered)
            for cell, own in zip(cells, moments, strict=True)
        ]
    if units is not None and not units.within_arms:
        moments = [_moments_across_arms(cells, moments, totals, units)]
    risk, error = policy_risks(sweep, q), Spread.of(moments).error
    low, high = area_limits(
        risk, moments, ndtri(0.5 + level / 2), support, means=means, signs=LESS_BOTH
    )
    fewest = np.minimum(*(np.where(cell.chance > 0, cell.counted, np.inf) for cell in cells))
    reasons = [support.why_no_risk(rows, some) for rows, some in fewest.T]
    if means is None:  # score limits do without an error
        still = "the outcomes that the rule counts do not vary, so the error is unknown"
        # Rounding leaves something of no error.
        flat = error <= 1e-12 * np.abs(1 - risk)
        reasons = [
            still if none and not why else why for why, none in zip(reasons, flat, strict=True)
        ]
    known = np.array([why is None for why in reasons])
    ends = (np.where(known, end, np.nan) for end in (low, high))
    return np.array([q, risk, error, *ends]), reasons


def _correction(cell: Cell, counts: Floats) -> Floats:
    """Correction k / (k - 1); NaN for k < 2, 1 for an empty cell."""
    found = np.divide(counts, counts - 1, out=np.full(len(counts), np.nan), where=counts >= 2)
    return np.where(cell.chance > 0, found, 1.0)


def _score_mean(cell: Cell, variance: Floats, *, clustered: bool) -> ArmMean:
    """Mean of 0/1 outcomes in a cell, for score limits."""
    rows = np.where(cell.rows > 0, cell.rows, 1.0)
    asked = np.where(cell.chance > 0, cell.chance, 1.0)
    ones = cell.mean * rows
    own = ArmMean.of(rows, (ones, ones), (1.0, 1.0), variance / asked**2, clustered=clustered)
    return own._replace(mean=cell.chance * own.mean, size=cell.chance)


def _moments_across_arms(
    cells: list[Cell], moments: list[Moments], totals: list[Floats], units: ClusterUnits
) -> Moments:
    """Moments of totals of clusters that have rows in both arms.

    Their degrees of freedom are Welch's: cells count by their part in the variance.
    """
    degrees = np.minimum(Spread.of(moments).welch, units.n_clusters - 1)
    corrections, counts = np.zeros_like(totals[0]), np.zeros(len(degrees))
    for cell in cells:
        counts += cell.counted[0]
        touched = np.bincount(units.members(cell.arm), minlength=units.n_clusters)[:, None] > 0
        own = np.where(touched & (cell.chance > 0), _correction(cell, cell.counted[0]), 0.0)
        corrections = np.maximum(corrections, own)
    d = np.sqrt(corrections) * (totals[0] + totals[1])
    square = (d * d).sum(axis=0)
    fourth = np.maximum((d**4).sum(axis=0) - square**2 / np.maximum(counts, 1), 0.0)
    return Moments(degrees + 1, square, (d**3).sum(axis=0), fourth)
