"""Curves, bands and policy risk of a ranking, by share of people treated.

Curves are cumulative sums from the highest score down, joined by straight lines: inside a level of
equal scores the line is what treating a random part of the level gives on average. M_i(q) is the
part of row i that lies in the top share q: 1 above the cut, 0 below, a fraction inside a tied level
that is cut. Row i has the weight a_i in its arm g, A_g their sum, and w_i, sum W, in the ranks.

To first order V(q) is a sum of row terms. With H_g(q) = mean of y M(q) in arm g, and V'(q) the
slope of the curve,

    psi_i(q) = +- a_i (y_i M_i(q) - H_g(q)) / A_g  -  V'(q) w_i (M_i(q) - q) / W.

The last term is there because the cut is itself estimated: the top share of these rows, not of the
population. Slopes are over a window of some n^(-1/5) of the people.

Between two cuts of a grid of J shares all rows have the same M, so the covariances need only sums
over some 2 J *segments* of the sorted rows: O(n log n + J^3). Clusters, and the skewness of
outcomes that are not 0/1, need each row's terms: O(n J).

**Policy risk** is one minus the expected outcome when the top share is treated. With m_T the mean
outcome of the treated who are picked and m_C of the controls who are not,

    psi_i = - q a_i M_i (y_i - m_T) / sum_T a M                      (treated)
            - (1 - q) a_i (1 - M_i) (y_i - m_C) / sum_C a (1 - M)    (control)
            + D w_i (M_i - q) / W                                    (every row)
    D     = [mean(y | treated, at the cut) - m_T] - [mean(y | control, at the cut) - m_C].

The three are uncorrelated, so with equal weights and no ties the variance is

    q^2 var_T / k_T  +  (1 - q)^2 var_C / k_C  +  D^2 q (1 - q) / n

with var and k the variance of y and the rows in each of the two cells. Where people are picked by
the sign of their scores, the cut is fixed and the share estimated: D = m_C - m_T. For 0/1 outcomes
limits are joined from the score limits of q m_T and of (1 - q) m_C, as those of a curve are.

Means at the cut are over the window that slopes are over.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.special import ndtri

from auucmax._validation import Bools, Floats
from auucmax.metrics.inference import ClusterUnits, Support
from auucmax.metrics.intervals import (
    ArmMean,
    Moments,
    Spread,
    area_limits,
    ratio,
    small_sample,
    student,
)
from auucmax.metrics.ranking import RankedRows
from auucmax.results import Shown

_N_DRAWS = 10_000


class ArmSweep:
    """Totals of each arm in the top share: knots of piecewise linear functions.

    ``share`` runs from 0 to 1; ``people`` and ``outcome`` hold, for each arm of the part, the
    weight of its rows above each knot and their weighted outcome.
    """

    def __init__(self, part: RankedRows) -> None:
        total = part.from_top(part.weight)
        self.share: Floats = total / total[-1]
        self.people = {arm: part.from_top(part.arm_presence(arm)) for arm, _ in part.arms}
        self.outcome = {arm: part.from_top(part.arm_outcome(arm)) for arm, _ in part.arms}

    def curve(self, centre: float = 0.0) -> Floats:
        """Uplift curve of y - centre at the knots, for the arms ranked here."""
        curve: Any = 0.0
        for arm, people in self.people.items():
            mean = (self.outcome[arm] - centre * people) / people[-1]
            curve = curve + mean if arm else curve - mean
        return np.asarray(curve)

    def mean_at(self, shares: Floats, arm: bool, *, rest: bool = False) -> tuple[Floats, Floats]:
        """Weight and mean outcome of an arm in (or below) the top shares; NaN if empty."""
        at = self.on_knots(shares)
        people, outcome = self.people[arm], self.outcome[arm]
        n, total = np.interp(at, self.share, people), np.interp(at, self.share, outcome)
        if rest:
            n, total = people[-1] - n, outcome[-1] - total
        n[n <= 1e-12 * people[-1]] = 0.0  # what rounding leaves of nobody
        return n, ratio(total, n, np.nan)

    def on_knots(self, shares: Floats) -> Floats:
        """Snap shares to knots that they miss by rounding (0.1 + 0.2 is not 0.3)."""
        number = np.clip(np.searchsorted(self.share, shares), 1, len(self.share) - 1)
        left, right = self.share[number - 1], self.share[number]
        nearest = np.where(shares - left < right - shares, left, right)
        return np.where(np.abs(shares - nearest) < 1e-12, nearest, shares)


class ArmSegments:
    """An arm's rows, sorted and cut into segments, each with one value of M per share.

    psi(q) of a row is linear in three numbers of the row, a (y - c), a and w, c the mean of its
    arm, which keeps the digits of outcomes far from 0. *Factors*, (3, P, J), are what multiplies
    them in each segment and at each share.

    ``share`` (J,); ``starts`` (P,) the first line of each segment; ``in_top`` (P, J) its M. Lines
    of the other arm are in the segments, too, and count 0: ``own`` (n,) are those of the arm.
    ``terms``: the three numbers, as sums for bins.
    """

    def __init__(self, part: RankedRows, arm: bool, share: Floats, sweep: ArmSweep) -> None:
        self.part, self.arm, self.sweep = part, arm, sweep
        self.share = sweep.on_knots(share)
        knots = sweep.share
        # A share cuts one level; segments end on both sides of the levels that are cut.
        cut = np.clip(np.searchsorted(knots, self.share) - 1, 0, len(knots) - 2)
        tops = np.unique(np.concatenate([[0, len(knots) - 1], cut, cut + 1]))
        width = np.diff(knots[tops])[:, None]
        reach = self.share - knots[tops[:-1], None]
        self.in_top: Floats = np.clip(ratio(reach, width, reach >= 0), 0, 1)[::-1]
        levels = part.starts
        first = len(part.y) - tops[1:] if levels is None else levels[len(levels) - tops[1:]]
        self.starts: NDArray[np.intp] = first[::-1]
        self.own: Bools = part.treated == arm
        self.centre = float(sweep.outcome[arm][-1] / sweep.people[arm][-1])
        people = part.arm_presence(arm)
        weight = people if part.weight is part.arm_weight else part.weight * self.own
        self.terms = [part.arm_outcome(arm) - self.centre * people, people, weight]

    def sums(self, values: Floats) -> Floats:
        """Sum of values in each segment, (P,)."""
        return np.add.reduceat(values, self.starts)

    def rows(self) -> Floats:
        """Number of rows of the arm in each segment, (P,)."""
        return self.sums(self.part.rows * self.own)

    def covariance(self, factors: Floats) -> Floats:
        """Sum over the arm's rows of products of centred psi; (J, J)."""
        first = np.array([self.sums(term) for term in self.terms])
        # Without weights every row has a = w = 1, and only the square of y - c remains.
        second = first[np.outer([0, 1, 1], [0, 1, 1])]
        if self.part.is_weighted:
            second = np.array([[self.sums(a * b) for b in self.terms] for a in self.terms])
        second[0, 0] = self.sums(self.own * self.part.squares_around(self.centre))
        left = np.einsum("kpj,kmp->mpj", factors, second)
        total = np.tensordot(first, factors, 2)
        square = np.tensordot(left, factors, ([0, 1], [0, 1]))
        return np.asarray(square - np.outer(total, total) / self.part.arm_rows[self.arm])

    def psi(self, factors: Floats) -> Iterator[Floats]:
        """Yield psi of the arm's rows at each share."""
        rows = np.flatnonzero(self.own)
        sizes = np.bincount(self._segments(rows), minlength=len(self.starts))
        terms = [term[rows] for term in self.terms]
        for at_share in np.moveaxis(factors, 2, 0):
            yield sum(t * f.repeat(sizes) for t, f in zip(terms, at_share, strict=True))

    def cluster_totals(self, factors: Floats, units: ClusterUnits) -> Floats:
        """Cluster sums of the arm's centred psi at each share, (G, J)."""
        members = np.asarray(self.part.clusters)[self.own]
        centred = (psi - psi.mean() for psi in self.psi(factors))
        totals = [np.bincount(members, psi, units.n_clusters) for psi in centred]
        return np.stack(totals, axis=1)

    def moments(self, factors: Floats) -> Moments:
        """Moments of psi of the arm's rows at each share, (J,) each."""
        found = [Moments.of(psi) for psi in self.psi(factors)]
        return Moments(*np.transpose(found))

    def in_top_counts(self, chosen: Floats, *, rest: bool = False) -> Floats:
        """Number of chosen rows (or their clusters) of the arm in each top share, (J,).

        ``chosen`` (n,): how many rows of each line are. ``rest``: how many are below it, in part at
        least.
        """
        own = chosen * self.own
        inside = 1 - self.in_top if rest else self.in_top
        clusters = self.part.clusters
        if clusters is None:
            return np.asarray(self.sums(own) @ inside)
        # A cluster counts by its row with the highest (or lowest) score, which is written last.
        rows = np.flatnonzero(own)[:: -1 if rest else 1]
        segment = np.full(int(clusters.max()) + 1, -1)
        segment[clusters[rows]] = self._segments(rows)
        return np.asarray((inside[segment[segment >= 0]] > 0).sum(axis=0, dtype=np.float64))

    def _segments(self, rows: NDArray[np.intp]) -> NDArray[np.intp]:
        """Segment of each of these rows."""
        return np.searchsorted(self.starts, rows, side="right") - 1

    def slope(self, values: Floats) -> Floats:
        """Slope of a function given at the knots, (J,)."""
        reach = min(0.1, 0.5 * float(self.part.rows.sum()) ** -0.2)
        left, right = np.maximum(self.share - reach, 0), np.minimum(self.share + reach, 1)
        rise = np.interp(right, self.sweep.share, values)
        return np.asarray((rise - np.interp(left, self.sweep.share, values)) / (right - left))


@dataclass(frozen=True, repr=False)
class UpliftBand(Shown):
    """Uplift curve at ``share`` with pointwise and simultaneous intervals.

    With several arms ``share`` is the budget per person of the population, and ``shares`` (J, K)
    the part of the people who get each arm there.

    ``lower`` and ``upper`` are the ends at one share, ``simultaneous_lower`` and ``_upper`` those
    for all together. Where too few rows or responders are in the top share they are not numbers,
    and ``declined`` says why, in words; it is None if every share has the latter.
    ``covariance`` (J, J) is that of the curve's estimates; ``critical`` the normal multiple of the
    standard error for all shares that have intervals, ``multiple`` Student's for one share.
    """

    share: Floats
    uplift: Floats
    standard_error: Floats
    lower: Floats
    upper: Floats
    simultaneous_lower: Floats
    simultaneous_upper: Floats
    critical: float
    multiple: float
    covariance: Floats
    level: float
    declined: str | None = None
    shares: Floats | None = None


def band_of(
    share: Floats,
    uplift: Floats,
    covariance: Floats,
    moments: list[Moments],
    support: Support,
    *,
    sums: Sequence[tuple[int, Any, int]],
    counted: Floats,
    nobody: Bools,
    least: Floats,
    level: float,
    random_state: int | Generator | None,
    folds: Floats | None = None,
    shares: Floats | None = None,
) -> UpliftBand:
    """Curve of an allocation at J shares or budgets, with bands that are NaN where not valid.

    Parameters
    ----------
    covariance : (J, J) of the curve. moments : of the arms, or of all clusters.
    sums : for 0/1 outcomes, of each arm: its rows, the sums of z = y M and z^2, and the sign of
        their mean in the curve. If y = 0 is the rarer outcome z is (1 - y) M, with signs turned, so
        that limits are those of the rarer one.
    counted : (J,) how many rows or clusters the limits at a share rest on.
    nobody : (J,) where nobody is treated, which is exact.
    least : no error is below it (:func:`auucmax.metrics.inference.least_error`).
    folds : the covariance of rows that models of several folds have ranked, where that is so
        (:func:`allowing_for_folds`).
    shares : (J, K) if there are several arms.
    """
    before = np.maximum(np.diag(covariance), 0)
    covariance = covariance if folds is None else folds
    variance = np.maximum(np.diag(covariance), 0)
    widening = np.sqrt(ratio(variance, before, 1.0))
    means = None
    if support.shape == "binary":
        means = []
        for (rows, of_z, sign), own in zip(sums, moments, strict=True):
            # The reach of limits is scaled to the variance of the centred terms.
            mean = ArmMean.of(rows, of_z, own.variance, sign=sign, clustered=support.clustered)
            # The band looks farther into the tails than Wilson's limits are good for with few rows.
            means.append(mean._replace(inflation=mean.inflation * rows / max(rows - 1, 1)))
    declined = support.why_no_area()
    at_one = 1 if support.shape == "binary" else support.least_in_top
    alone, held = (
        nobody | ((counted >= enough) & (declined is None))
        for enough in (at_one, support.least_in_top)
    )
    if declined is None and not held.all():
        at = "shares" if shares is None else "budgets"
        declined = (
            f"at some {at} the top holds fewer than {support.least_in_top} {support.what_in_top}"
        )
    one = float(ndtri(0.5 + level / 2))
    critical = one
    vary = held & (variance > 0)
    if vary.any():
        of_those = covariance[np.ix_(vary, vary)]
        draws = largest_draws(of_those, np.sqrt(variance[vary]), random_state)
        # Noise of the draws must not make the band for all shares the narrower one.
        critical = max(float(np.quantile(draws, level)), one)
    lower, upper, all_lower, all_upper = (
        # Nobody treated is exact.
        np.where(where, np.where(nobody, 0.0, end), np.nan)
        for multiple, where in ((one, alone), (critical, held))
        for end in area_limits(
            uplift, moments, multiple, support,
            means=means, cautious=True, widening=widening, least=least,
        )
    )  # fmt: skip
    return UpliftBand(
        share=share,
        uplift=uplift,
        standard_error=np.sqrt(variance),
        lower=lower,
        upper=upper,
        simultaneous_lower=all_lower,
        simultaneous_upper=all_upper,
        critical=critical,
        multiple=float(student(one, max(min(support.units) - 1, 1))),
        covariance=covariance,
        level=level,
        declined=declined,
        shares=shares,
    )


def fewest(support: Support, rows: Floats, some: Floats, others: Floats) -> Floats:
    """Smallest count of the arms (first axis), for :attr:`Support.least_in_top`.

    ``some`` of the ``rows`` are responders.
    """
    if support.shape == "even":
        return np.asarray(rows.min(axis=0))
    if support.shape == "skewed":
        return np.asarray(some.min(axis=0))
    # At the rate of both arms: an arm must not be left out because few of its own responded.
    rarer = np.minimum(some.sum(axis=0), others.sum(axis=0))
    return np.asarray(rows.min(axis=0) * rarer / np.maximum(rows.sum(axis=0), 1.0))


def allowing_for_folds(share: Floats, covariance: Floats) -> Floats:
    """Covariance (J, J) of a curve, adjusted for models of several folds.

    The model of a fold was trained on the rows of the others, and theirs on its rows, so the
    estimates of two folds are correlated. Write the curve as V(q) = q V(1) + g(q): the average
    effect, and the gain g over a random order. For a linear score without any signal, whose
    direction is the mean of those of the other folds, the correlation of g between two of K folds
    is 1 / (K - 1), which doubles its variance, whatever K is; with a strong signal models hardly
    differ and it tends to 0. So the variance of g is taken twice: never too small.
    """
    if share[-1] != 1:
        raise ValueError(
            f"the shares of a cross-fitted curve should end with 1, got {share[-1]:g}. Add it."
        )
    end = covariance[:, -1]
    cross = np.outer(share, end)
    gain = covariance - cross - cross.T + np.outer(share, share) * end[-1]
    return np.asarray(covariance + gain)


def largest_draws(
    covariance: Floats, error: Floats, random_state: int | Generator | None
) -> Floats:
    """Maximum |z| of simulated normal vectors with this covariance's correlation."""
    values, vectors = np.linalg.eigh(covariance / np.outer(error, error))
    root = vectors * np.sqrt(np.maximum(values, 0))  # rounding makes some of them negative
    # Bands of somewhat more or fewer shares use the same draws. Single precision is far finer than
    # the noise of the draws, and twice as fast.
    shape = _N_DRAWS, -(-len(root) // 64) * 64
    draws = np.random.default_rng(random_state).standard_normal(shape, dtype=np.float32)
    z = draws[:, : len(root)] @ root.T.astype(np.float32)
    return np.abs(z).max(axis=1).astype(np.float64)


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
) -> tuple[Floats, tuple[str | None, ...]]:
    """Share, risk, standard error and interval, (5, J), and reasons for missing intervals.

    ``units`` if rows come in clusters. ``fixed_cut``: people are picked by the sign of their
    scores, and their share is estimated.

    Arrays (2, J) and (2, P, J) have one line for each of :func:`policy_cells`: ``scale`` is what a
    row's outcome counts in the value of the rule, ``inside`` what part of a segment is in the cell.
    """
    cells = [ArmSegments(part, arm, share, sweep) for arm in (True, False)]
    q, in_top = cells[0].share, cells[0].in_top
    inside = np.stack([in_top, 1 - in_top])
    chance, rows, mean = policy_cells(sweep, q)
    scale = ratio(chance, rows)
    # Rows or clusters of each cell, and those that responded, (2, 2, J).
    counted = np.array(
        [
            [cell.in_top_counts(own, rest=not cell.arm) for own in (part.rows, part.responders)]
            for cell in cells
        ]
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
            if support.shape == "skewed":  # which of bins is not known
                own = cell.moments(factors)
        else:
            counts = counted[k, 0]
            totals.append(cell.cluster_totals(factors, units))  # (G, J)
            powers = [(totals[-1] ** p).sum(axis=0) for p in (2, 3, 4)]
            variance = powers[0]
            own = Moments.of_sums(int(np.count_nonzero(units.sizes[1 - k])), *powers)
        corrections.append(np.where(chance[k] > 0, small_sample(counts), 1.0))
        own = own._replace(units=counts, variance=variance * corrections[k])
        moments.append(own)
        # The mean of 0/1 outcomes in the cell times its chance, for score limits.
        n = np.where(rows[k] > 0, rows[k], 1.0)
        total = chance[k] * np.maximum(mean[k], 0.0) * n
        of_cell = ArmMean.of(
            n, (total, chance[k] * total), own.variance, sign=-1, clustered=support.clustered
        )
        means.append(of_cell._replace(size=chance[k]))
    if units is not None and not units.within_arms:
        # Totals of clusters that have rows in both arms. Their degrees of freedom are Welch's:
        # cells count by their part in the variance.
        degrees = np.minimum(Spread.of(moments).welch, units.n_clusters - 1)
        touched = (units.sizes[::-1, :, None] > 0) & (chance[:, None] > 0)
        largest = np.where(touched, np.array(corrections)[:, None], 0.0).max(axis=0)
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
    # Score limits do without an error; rounding leaves something of no error.
    flat = (error <= 1e-12 * np.abs(1 - risk)) & (not is_binary)
    still = "the outcomes that the rule counts do not vary, so the error is unknown"
    reasons = tuple(
        support.why_no_risk(*few) or (still if is_flat else None)
        for few, is_flat in zip(fewest.T.tolist(), flat, strict=True)
    )
    known = np.array([why is None for why in reasons])
    return np.array([q, risk, error, *np.where(known, ends, np.nan)]), reasons
