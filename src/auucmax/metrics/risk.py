"""Policy risk: what is lost where the top share of a ranking is treated and the rest is not.

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

from auucmax._shown import Shown
from auucmax._validation import Bools, Floats
from auucmax.metrics.curves import ArmSweep, Segments
from auucmax.metrics.inference import ClusterUnits, Support
from auucmax.metrics.intervals import LESS_BOTH, ArmMean, Moments, Spread, area_limits


@dataclass(frozen=True, repr=False)
class PolicyRiskInference(Shown):
    """Policy risk at ``share`` with its standard error: numbers, or arrays for a grid of shares.

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
    """Policy risk at each share; a cell of nobody counts 0."""
    (_, picked), (_, left) = (sweep.mean_at(share, arm, rest=not arm) for arm in (True, False))
    return 1 - (share * np.nan_to_num(picked) + (1 - share) * np.nan_to_num(left))


@dataclass(frozen=True)
class RiskCell:
    """One of the two means of policy risk: of the treated who are picked, or of the controls left.

    ``chance`` (J,) is the share of the people it stands for, ``rows`` (J,) how many of the arm's
    rows (weights) and ``mean`` (J,) their mean outcome, 0 of nobody; ``inside`` (P, J) what part of
    a segment. Where the chance is 0 nobody is asked.
    """

    arm: bool
    chance: Floats
    rows: Floats
    mean: Floats
    inside: Floats

    @classmethod
    def of(cls, segments: Segments, arm: bool) -> RiskCell:
        q, in_top = segments.share, segments.in_top
        rows, mean = segments.sweep.mean_at(q, arm, rest=not arm)
        picked, inside = (q, in_top) if arm else (1 - q, 1 - in_top)
        return cls(arm, picked, rows, np.nan_to_num(mean), inside)

    @property
    def scale(self) -> Floats:
        """What a row's outcome counts in the value of the rule, (J,)."""
        none = np.zeros(len(self.chance))
        return np.divide(self.chance, self.rows, out=none, where=self.rows > 0)

    def tilt(self, segments: Segments, *, fixed_cut: bool) -> Floats:
        """The cell's part in D, (J,)."""
        sign = 1.0 if self.arm else -1.0
        if fixed_cut:
            return -sign * self.mean
        outcome, people = segments.sweep.outcome[self.arm], segments.sweep.people[self.arm]
        moved = segments.slope(outcome) - self.mean * segments.slope(people)
        return np.asarray(sign * self.scale * moved)

    def factors(self, segments: Segments, cut: Floats) -> Floats:
        """The factors of psi of the arm's rows; ``cut`` (P, J) is that of the cut."""
        away = segments.centre(self.arm) - self.mean
        return np.stack([-self.scale * self.inside, -self.scale * away * self.inside, cut])

    def score_mean(self, variance: Floats, *, clustered: bool) -> ArmMean:
        """The mean of 0/1 outcomes times the chance, for score limits."""
        rows = np.where(self.rows > 0, self.rows, 1.0)
        asked = np.where(self.chance > 0, self.chance, 1.0)
        ones = self.mean * rows
        own = ArmMean.of(rows, (ones, ones), (1.0, 1.0), variance / asked**2, clustered=clustered)
        return own._replace(mean=self.chance * own.mean, size=self.chance)


@dataclass(frozen=True)
class RiskSums:
    """Policy risk at each of J shares, and the sums from which its limits come.

    ``moments`` of the arms, or of all clusters; ``means`` of the treated and the control cell for
    0/1 outcomes; ``declined``: why there is no interval at a share, or None.
    """

    share: Floats
    risk: Floats
    moments: list[Moments]
    means: tuple[ArmMean, ArmMean] | None
    support: Support
    declined: list[str | None]

    @classmethod
    def of(
        cls,
        segments: Segments,
        units: ClusterUnits | None,
        support: Support,
        responds: Bools | None,
        *,
        fixed_cut: bool,
    ) -> RiskSums:
        """Sums of policy risk for the rows of both arms; ``units`` if they come in clusters.

        ``fixed_cut``: people are picked by the sign of their scores, and their share is estimated.
        """
        q = segments.share
        cells = RiskCell.of(segments, True), RiskCell.of(segments, False)
        tilt = sum(cell.tilt(segments, fixed_cut=fixed_cut) for cell in cells)  # D
        cut = tilt / segments.part.total_weight * (segments.in_top - q)
        if units is None:
            full = support.shape == "skewed" and segments.part.rows is None
            moments = [_cell_moments(segments, cell, cut, full=full) for cell in cells]
            variances = [own.variance for own in moments]
        else:
            moments, variances = _clustered_moments(segments, cells, cut, units)
        means = None
        if support.shape == "binary":
            treated, control = (
                cell.score_mean(variance, clustered=support.clustered)
                for cell, variance in zip(cells, variances, strict=True)
            )
            means = treated, control
        counted = _fewest(segments, cells, units, responds)
        declined = [support.why_no_risk(rows, some) for rows, some in counted.T]
        return cls(q, policy_risks(segments.sweep, q), moments, means, support, declined)

    def table(self, level: float) -> tuple[Floats, list[str | None]]:
        """Share, risk, its standard error, the ends of the interval, (5, J); why there are none."""
        error, reasons = Spread.of(self.moments).error, self.declined
        ends = area_limits(
            self.risk,
            self.moments,
            ndtri(0.5 + level / 2),
            means=self.means,
            signs=LESS_BOTH,
            skewed=self.support.shape == "skewed",
            clustered=self.support.clustered,
        )
        if self.means is None:  # score limits do without an error
            still = "the outcomes that the rule counts do not vary, so the error is unknown"
            reasons = [
                still if why is None and flat else why
                # Rounding leaves something of no error.
                for why, flat in zip(reasons, error <= 1e-12 * np.abs(1 - self.risk), strict=True)
            ]
        none = np.array([why is not None for why in reasons])
        low, high = (np.where(none, np.nan, end) for end in ends)
        return np.array([self.share, self.risk, error, low, high]), reasons


def _cell_moments(segments: Segments, cell: RiskCell, cut: Floats, *, full: bool) -> Moments:
    """Moments of the terms of the arm's rows at each share; not a number for a cell of one row.

    The correction k / (k - 1) for small samples counts the rows of the cell, not of the arm.
    """
    factors = cell.factors(segments, cut)
    counts = segments.rows(cell.arm) @ (cell.inside > 0)
    squares = np.maximum(np.diag(segments.covariance(cell.arm, factors)), 0.0)
    own = Moments(counts, squares * _correction(cell, counts), 0.0, 0.0)
    if not full:
        return own
    return segments.moments(cell.arm, factors)._replace(units=counts, variance=own.variance)


def _correction(cell: RiskCell, counts: Floats) -> Floats:
    """k / (k - 1); not a number where that is less than two, and 1 where nobody is asked."""
    found = np.divide(counts, counts - 1, out=np.full(len(counts), np.nan), where=counts >= 2)
    return np.where(cell.chance > 0, found, 1.0)


def _clustered_moments(
    segments: Segments, cells: tuple[RiskCell, RiskCell], cut: Floats, units: ClusterUnits
) -> tuple[list[Moments], list[Floats]]:
    """Moments of the clusters' totals at each share, and the variances of the two arms.

    Their degrees of freedom are Welch's: cells count by their part in the variance.
    """
    everybody = np.ones(len(segments.part.y), bool)
    counts = [
        segments.in_top_counts(everybody, units, cell.arm, rest=not cell.arm) for cell in cells
    ]
    totals = [
        np.stack(
            list(segments.cluster_totals(cell.arm, cell.factors(segments, cut), units)), axis=1
        )
        for cell in cells
    ]  # (G, J) each
    own = []
    for k, total, cell in zip(counts, totals, cells, strict=True):
        powers = ((total**p).sum(axis=0) for p in (2, 3, 4))
        moments = Moments.of_sums(units.counts[cell.arm], *powers)
        variance = (total**2).sum(axis=0) * _correction(cell, k)
        own.append(moments._replace(units=k, variance=variance))
    variances = [arm.variance for arm in own]
    if units.within_arms:  # as of rows: clusters of one row each have the interval of the rows
        return own, variances
    # Clusters that reach into both arms are in both cells, but are no more for that.
    degrees = np.minimum(Spread.of(own).welch, units.n_clusters - 1)
    corrections = np.zeros_like(totals[0])
    for k, cell in zip(counts, cells, strict=True):
        touched = np.bincount(units.members(cell.arm), minlength=units.n_clusters)[:, None] > 0
        asked = touched & (cell.chance > 0)
        corrections = np.where(asked, np.maximum(corrections, _correction(cell, k)), corrections)
    d = np.sqrt(corrections) * (totals[0] + totals[1])
    square = (d * d).sum(axis=0)
    fourth = np.maximum((d**4).sum(axis=0) - square**2 / np.maximum(sum(counts), 1), 0.0)
    return [Moments(degrees + 1, square, (d**3).sum(axis=0), fourth)], variances


def _fewest(
    segments: Segments,
    cells: tuple[RiskCell, RiskCell],
    units: ClusterUnits | None,
    responds: Bools | None,
) -> Floats:
    """Rows, or clusters, and responders at each share, (2, J): the fewer of the cells it asks."""
    part, found = segments.part, []
    if responds is None:
        # With bins only 0/1 outcomes show who responded, and there it is not needed.
        responds = part.y != 0
    for cell in cells:
        own = [
            segments.in_top_counts(chosen, units, cell.arm, rest=not cell.arm)
            for chosen in (np.ones(len(part.y), bool), responds)
        ]
        found.append(np.where(cell.chance > 0, own, np.inf))
    return np.asarray(np.minimum(*found))
