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

import numpy as np
from scipy.special import ndtri

from auucmax._validation import Floats
from auucmax.metrics.curves import ArmSweep, Segments
from auucmax.metrics.inference import ClusterUnits, Support
from auucmax.metrics.intervals import ArmMean, Moments, Spread, area_limits
from auucmax.metrics.ranking import RankedRows
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


def policy_cells(sweep: ArmSweep, share: Floats) -> tuple[Floats, Floats, Floats]:
    """The two means in policy risk: of the treated who are picked, and the controls who are not.

    Returns
    -------
    chance : (2, J) the share of the people that they stand for.
    rows : (2, J) how many of the arm's rows (weights). mean : (2, J) their outcome, 0 of nobody.
    """
    found = [sweep.mean_at(share, arm, rest=not arm) for arm in (True, False)]
    rows, mean = np.nan_to_num(found).swapaxes(0, 1)
    return np.stack([share, 1 - share]), rows, mean


def risk_table(
    part: RankedRows,
    sweep: ArmSweep,
    share: Floats,
    units: ClusterUnits | None,
    support: Support,
    level: float,
    *,
    fixed_cut: bool,
) -> tuple[Floats, list[str | None]]:
    """Share, risk, standard error and interval, (5, J), and reasons for missing intervals.

    ``units`` if rows come in clusters. ``fixed_cut``: people are picked by the sign of their
    scores, and their share is estimated.

    Arrays (2, J) and (2, P, J) have one line for each of :func:`policy_cells`: ``scale`` is what a
    row's outcome counts in the value of the rule, ``inside`` what part of a segment is in the cell.
    """
    cells = [Segments(part, arm, share, sweep) for arm in (True, False)]
    q, in_top = cells[0].share, cells[0].in_top
    inside = np.stack([in_top, 1 - in_top])
    chance, rows, mean = policy_cells(sweep, q)
    scale = np.divide(chance, rows, out=np.zeros_like(rows), where=rows > 0)
    # With bins only 0/1 outcomes show who responded, and there it is not needed.
    chosen = np.ones(len(part.y), bool), part.y != 0 if part.responds is None else part.responds
    # Rows or clusters of each cell, and those that responded, (2, 2, J).
    counted = np.array(
        [[cell.in_top_counts(own, rest=not cell.arm) for own in chosen] for cell in cells]
    )
    tilt = mean[1] - mean[0]  # D
    if not fixed_cut:
        moved = [
            scale[k]
            * (cell.slope(sweep.outcome[cell.arm]) - mean[k] * cell.slope(sweep.people[cell.arm]))
            for k, cell in enumerate(cells)
        ]
        tilt = moved[0] - moved[1]
    cut = tilt / part.total_weight * (in_top - q)
    moments, means, totals, corrections = [], [], [], []
    for k, cell in enumerate(cells):
        away = cell.centre - mean[k]
        factors = np.stack([-scale[k] * inside[k], -scale[k] * away * inside[k], cut])
        # The correction k / (k - 1) for small samples counts the rows of the cell, not of the arm.
        if units is None:
            counts = cell.rows() @ (inside[k] > 0)
            variance = np.maximum(np.diag(cell.covariance(factors)), 0.0)
            own = Moments(counts, variance)
            if support.shape == "skewed" and part.squares is None:
                own = cell.moments(factors)
        else:
            counts = counted[k, 0]
            totals.append(cell.cluster_totals(factors, units))  # (G, J)
            powers = [(totals[-1] ** p).sum(axis=0) for p in (2, 3, 4)]
            variance = powers[0]
            own = Moments.of_sums(int(np.count_nonzero(units.sizes[1 - k])), *powers)
        correction = np.divide(counts, counts - 1, out=np.full(len(q), np.nan), where=counts >= 2)
        corrections.append(np.where(chance[k] > 0, correction, 1.0))
        own = own._replace(units=counts, variance=variance * corrections[k])
        moments.append(own)
        # The mean of 0/1 outcomes in the cell times its chance, for score limits.
        n = np.where(rows[k] > 0, rows[k], 1.0)
        asked = np.where(chance[k] > 0, chance[k], 1.0)
        ones = np.maximum(mean[k], 0.0) * n
        of_cell = ArmMean.of(
            n, (ones, ones), own.variance / asked**2, sign=-1, clustered=support.clustered
        )
        means.append(of_cell._replace(mean=chance[k] * of_cell.mean, size=chance[k]))
    if units is not None and not units.within_arms:
        # Totals of clusters that have rows in both arms. Their degrees of freedom are Welch's:
        # cells count by their part in the variance.
        degrees = np.minimum(Spread.of(moments).welch, units.n_clusters - 1)
        largest = np.zeros_like(totals[0])
        for k in (0, 1):
            touched = (units.sizes[1 - k] > 0)[:, None] & (chance[k] > 0)
            largest = np.maximum(largest, np.where(touched, corrections[k], 0.0))
        d = np.sqrt(largest) * (totals[0] + totals[1])
        square = (d * d).sum(axis=0)
        n_counted = np.maximum(counted[:, 0].sum(axis=0), 1)
        fourth = np.maximum((d**4).sum(axis=0) - square**2 / n_counted, 0.0)
        moments = [Moments(degrees + 1, square, (d**3).sum(axis=0), fourth)]
    is_binary = support.shape == "binary"
    risk = 1 - (chance * mean).sum(axis=0)
    error = Spread.of(moments).error
    ends = area_limits(
        risk, moments, ndtri(0.5 + level / 2), support,
        means=means if is_binary else None,
    )  # fmt: skip
    fewest = np.where(chance[:, None] > 0, counted, np.inf).min(axis=0)
    reasons = [support.why_no_risk(*few) for few in fewest.T.tolist()]
    # Score limits do without an error; rounding leaves something of no error.
    flat = (error <= 1e-12 * np.abs(1 - risk)) & (not is_binary)
    still = "the outcomes that the rule counts do not vary, so the error is unknown"
    reasons = [why or (still if none else None) for why, none in zip(reasons, flat, strict=True)]
    known = np.array([why is None for why in reasons])
    return np.array([q, risk, error, *(np.where(known, end, np.nan) for end in ends)]), reasons
