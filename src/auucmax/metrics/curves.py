"""What is read off a ranking at a share of people treated: curves, bands, deciles.

Curves are cumulative sums from the highest score down, joined by straight lines: inside a level of
equal scores the line is what treating a random part of the level gives on average. M_i(q) is the
part of row i that lies in the top share q: 1 above the cut, 0 below, a fraction inside a tied level
that is cut. Row i has the weight a_i in its arm g, A_g their sum, and w_i, sum W, in the ranks.

To first order V(q) is a sum of row terms. With H_g(q) = mean of y M(q) in arm
g, and V'(q) the slope of the curve,

    psi_i(q) = +- a_i (y_i M_i(q) - H_g(q)) / A_g  -  V'(q) w_i (M_i(q) - q) / W.

The last term is there because the cut is itself estimated: the top share of these rows, not of the
population. Slopes are over a window of some n^(-1/5) of the people.

Between two cuts of a grid of J shares all rows have the same M, so the covariances need only sums
over some 2 J *segments* of the sorted rows: O(n log n + J^3). Clusters need each row's terms:
O(n J).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.special import ndtri, stdtrit

from auucmax._shown import Shown
from auucmax._validation import Bools, Floats
from auucmax.metrics.inference import ClusterUnits, Support, rarer_outcome
from auucmax.metrics.intervals import (
    DIFFERENCE,
    ArmMean,
    Moments,
    area_limits,
    score_limits,
    student,
)
from auucmax.metrics.ranking import RankedRows

_N_DRAWS = 10_000


@dataclass(frozen=True)
class ArmSweep:
    """What the top-ranked share holds of each arm: knots of piecewise linear functions of it.

    ``share`` runs from 0 to 1; ``people`` and ``outcome`` hold, for each arm of the part, the
    weight of its rows above each knot and their weighted outcome.
    """

    share: Floats
    people: dict[bool, Floats]
    outcome: dict[bool, Floats]

    @classmethod
    def of(cls, part: RankedRows) -> ArmSweep:
        total = part.ranking.from_top(part.rank_weight)
        arms = [arm for arm, _ in part.arms]
        return cls(
            share=total / total[-1],
            people={arm: part.ranking.from_top(part.arm_presence(arm)) for arm in arms},
            outcome={arm: part.ranking.from_top(part.arm_outcome(arm)) for arm in arms},
        )

    def mean_at(self, shares: Floats, arm: bool, *, rest: bool = False) -> tuple[Floats, Floats]:
        """Weight and mean outcome of the arm in the top shares, or below them; NaN of nobody."""
        at = self.on_knots(shares)
        people, outcome = self.people[arm], self.outcome[arm]
        n, total = np.interp(at, self.share, people), np.interp(at, self.share, outcome)
        if rest:
            n, total = people[-1] - n, outcome[-1] - total
        n[n <= 1e-12 * people[-1]] = 0.0  # what rounding leaves of nobody
        return n, np.divide(total, n, out=np.full(len(shares), np.nan), where=n > 0)

    def on_knots(self, shares: Floats) -> Floats:
        """Shares moved onto a knot that they miss by rounding only (0.1 + 0.2 is not 0.3)."""
        number = np.clip(np.searchsorted(self.share, shares), 1, len(self.share) - 1)
        left, right = self.share[number - 1], self.share[number]
        nearest = np.where(shares - left < right - shares, left, right)
        return np.where(np.abs(shares - nearest) < 1e-12, nearest, shares)


def decile_table(part: RankedRows, bins: int, level: float, support: Support) -> pd.DataFrame:
    """Average effect in each of ``bins`` parts of the people, with an interval where one holds."""
    # A tied level stays whole: it goes where its middle lies.
    above = 1 - part.ranking.mid_cumsum(part.rank_weight) / part.total_weight
    number = np.minimum((above * bins).astype(int), bins - 1)

    table: dict[str, NDArray[Any]] = {
        "rows": np.bincount(number, part.rows, minlength=bins).astype(np.intp)
    }
    means, variances = {}, []
    for arm, name in ((True, "treated"), (False, "control")):
        own = part.only(arm)
        numbers = number[part.treated == arm]
        counts = np.bincount(numbers, own.rows, minlength=bins)
        people = np.bincount(numbers, own.arm_presence(arm), minlength=bins)
        with np.errstate(invalid="ignore", divide="ignore"):
            mean = np.bincount(numbers, own.arm_outcome(arm), minlength=bins) / people
            squares = own.squares_around(mean[numbers])
            square = np.bincount(numbers, squares, minlength=bins)
            variances.append(square / people**2 * counts / (counts - 1))
        means[name], table[name] = mean, counts.astype(np.intp)
    table |= {f"mean_{name}": mean for name, mean in means.items()}
    table["uplift"] = means["treated"] - means["control"]
    table["standard_error"] = np.sqrt(variances[0] + variances[1])
    degrees = np.maximum(np.minimum(table["treated"], table["control"]) - 1, 1)
    half = stdtrit(degrees, 0.5 + level / 2) * table["standard_error"]
    lower, upper = table["uplift"] - half, table["uplift"] + half
    if support.shape == "binary":
        both = [ArmMean(means[arm], 1.0, 1.0, np.maximum(table[arm], 1)) for arm in means]
        lower, upper = score_limits(table["uplift"], both, ndtri(0.5 + level / 2))
    if support.shape == "skewed":
        arms = (np.bincount(number[part.treated == arm], part.y[part.treated == arm] != 0,
                            minlength=bins) for arm in (True, False))  # fmt: skip
        few = np.minimum(*arms) < support.least_in_top
        lower, upper = np.where(few, np.nan, lower), np.where(few, np.nan, upper)
    table["lower"], table["upper"] = lower, upper
    return pd.DataFrame(table, index=pd.RangeIndex(1, bins + 1, name="bin"))


@dataclass(frozen=True)
class Segments:
    """A part cut into segments of sorted rows (lowest scores first), each with one M a share.

    psi(q) of a row is linear in three numbers of the row, a (y - c), a and w, c the mean of its
    arm, which keeps the digits of outcomes far from 0. *Factors*, (3, P, J), are what multiplies
    them in each segment and at each share.
    """

    part: RankedRows
    share: Floats  # (J,)
    starts: NDArray[np.intp]  # (P,) first line of each segment
    in_top: Floats  # (P, J) M of the segment at each share
    sweep: ArmSweep

    @classmethod
    def of(cls, part: RankedRows, share: Floats, sweep: ArmSweep | None = None) -> Segments:
        sweep = sweep or ArmSweep.of(part)
        knots, share = sweep.share, sweep.on_knots(share)
        # A share cuts one level; segments end on both sides of the levels that are cut.
        cut = np.clip(np.searchsorted(knots, share) - 1, 0, len(knots) - 2)
        tops = np.unique(np.concatenate([[0, len(knots) - 1], cut, cut + 1]))
        width = np.diff(knots[tops])[:, None]
        reach = share - knots[tops[:-1], None]
        inside = np.divide(reach, width, out=(reach >= 0).astype(float), where=width > 0)
        levels = part.ranking.starts
        first = len(part.y) - tops[1:] if levels is None else levels[len(levels) - tops[1:]]
        return cls(part, share, first[::-1], np.clip(inside, 0, 1)[::-1], sweep)

    def centre(self, arm: bool) -> float:
        """Mean outcome of the arm."""
        return float(self.sweep.outcome[arm][-1] / self.sweep.people[arm][-1])

    def sums(self, values: Floats) -> Floats:
        """Sum of the lines' values in each segment, (P,)."""
        return np.add.reduceat(values, self.starts)

    def rows(self, arm: bool) -> Floats:
        """Number of the arm's rows in each segment, (P,)."""
        own = (self.part.treated == arm).astype(np.float64)
        return self.sums(own if self.part.rows is None else own * self.part.rows)

    def terms(self, arm: bool) -> list[Floats]:
        """a (y - c), a and w of the arm's rows, 0 in the other arm; sums where lines are bins."""
        people = self.part.arm_presence(arm)
        outcome = self.part.arm_outcome(arm) - self.centre(arm) * people
        if self.part.weight is self.part.arm_weight:
            return [outcome, people, people]
        own = (self.part.treated == arm).astype(np.float64)
        return [outcome, people, own if self.part.weight is None else own * self.part.weight]

    def covariance(self, arm: bool, factors: Floats) -> Floats:
        """Sum over the arm's rows of the products of their psi, centred; (J, J)."""
        terms = self.terms(arm)
        first = [self.sums(term) for term in terms]
        own = (self.part.treated == arm).astype(np.float64)
        second = [[first[0]] * 3, [first[0], first[1], first[1]], [first[0], first[1], first[1]]]
        if self.part.weight is not None or self.part.arm_weight is not None:
            second = [[self.sums(a * b) for b in terms] for a in terms]
        # Else every row has a = w = 1, and only the square of y - c remains.
        second[0][0] = self.sums(own * self.part.squares_around(self.centre(arm)))
        total = sum(f @ factor for f, factor in zip(first, factors, strict=True))
        square = np.zeros((len(self.share), len(self.share)))
        for k, left in enumerate(factors):
            for m, right in enumerate(factors):
                square += (left.T * second[k][m]) @ right
        return square - np.outer(total, total) / self.part.arm_rows(arm)

    def of_rows(self, arm: bool) -> NDArray[np.intp]:
        """The segment of each of the arm's rows."""
        own = np.flatnonzero(self.part.treated == arm)
        return np.searchsorted(self.starts, own, side="right") - 1

    def row_terms(self, arm: bool, factors: Floats) -> Iterator[Floats]:
        """Yield, for each share, the psi of the arm's rows."""
        segment = self.of_rows(arm)
        terms = [term[self.part.treated == arm] for term in self.terms(arm)]
        for j in range(len(self.share)):
            psi: Any = sum(t * f[segment, j] for t, f in zip(terms, factors, strict=True))
            yield psi

    def cluster_totals(self, arm: bool, factors: Floats, units: ClusterUnits) -> Iterator[Floats]:
        """Yield, for each share, the sums over clusters of the arm's psi, centred in the arm."""
        members = units.members(arm)
        for psi in self.row_terms(arm, factors):
            totals: Any = np.bincount(members, psi - psi.mean(), minlength=units.n_clusters)
            yield totals

    def moments(self, arm: bool, factors: Floats) -> Moments:
        """Moments of the psi of the arm's rows at each share, (J,) each."""
        if self.part.weight is not None or self.part.arm_weight is not None:
            found = [Moments.of(psi) for psi in self.row_terms(arm, factors)]
            return Moments(found[0].units, *np.transpose([one[1:] for one in found]))
        # psi = slope (y - c) + constant in a segment: powers from those of y - c.
        slope, constant = factors[0], factors[1] + factors[2]
        own = (self.part.treated == arm).astype(np.float64)
        distance = own * (self.part.y - self.centre(arm))
        square = distance * distance
        columns = (own, distance, square, square * distance, square * square)
        n, y, y2, y3, y4 = (self.sums(column) for column in columns)
        a, b, both = slope * slope, constant * constant, slope * constant
        powers = [
            y @ slope + n @ constant,
            y2 @ a + 2 * (y @ both) + n @ b,
            y3 @ (a * slope) + 3 * (y2 @ (a * constant) + y @ (b * slope)) + n @ (b * constant),
            y4 @ (a * a)
            + 4 * (y3 @ (a * both) + y @ (b * both))
            + 6 * (y2 @ (a * b))
            + n @ (b * b),
        ]
        return Moments.of_powers(self.part.arm_rows(arm), powers)

    def in_top_counts(
        self, chosen: Bools, units: ClusterUnits | None, arm: bool, *, rest: bool = False
    ) -> Floats:
        """How many of the arm's chosen rows, or clusters with one, each top share has, (J,).

        ``rest``: how many are, in part at least, below it.
        """
        own = chosen & (self.part.treated == arm)
        inside = 1 - self.in_top if rest else self.in_top
        if units is None:
            weight = own.astype(np.float64)
            if self.part.rows is not None:
                weight *= self.part.rows
            return np.asarray(self.sums(weight) @ inside)
        # Of a cluster, the row with the highest score is the first in the top.
        segment = np.searchsorted(self.starts, np.flatnonzero(own), side="right") - 1
        first = np.full(units.n_clusters, len(self.starts) if rest else -1)
        (np.minimum if rest else np.maximum).at(first, self.clusters_of(units)[own], segment)
        found = first[(first >= 0) & (first < len(self.starts))]
        return np.asarray((inside[found] > 0).sum(axis=0, dtype=np.float64))

    def clusters_of(self, units: ClusterUnits) -> NDArray[np.intp]:
        """The cluster of each row of the part."""
        if len(self.part.y) == len(units.clusters):
            return units.clusters
        return units.members(int(self.part.treated[0]))

    def curve_factors(self, centre: float = 0.0) -> tuple[Floats, dict[bool, Floats]]:
        """The curve of y - centre at each share, (J,), and the factors of psi in each arm."""
        in_top, share, sweep = self.in_top, self.share, self.sweep
        scale = {arm: sign / sweep.people[arm][-1] for arm, sign in self.part.arms}
        outcome = {arm: sweep.outcome[arm] - centre * sweep.people[arm] for arm in scale}
        curve = np.sum([scale[arm] * outcome[arm] for arm in scale], axis=0)
        # The cut is estimated too: what that adds is the slope times the error of the share.
        cut = self.slope(curve) * (share - in_top) / self.part.total_weight
        factors = {}
        for arm, size in scale.items():
            mean = np.interp(share, sweep.share, outcome[arm]) / sweep.people[arm][-1]  # H_g
            centred = size * ((self.centre(arm) - centre) * in_top - mean)
            factors[arm] = np.stack([size * in_top, centred, cut])
        return np.interp(share, sweep.share, curve), factors

    def slope(self, values: Floats) -> Floats:
        """Slope in the share of a function that is given at the knots, (J,)."""
        reach = min(0.1, 0.5 * sum(self.part.arm_rows(arm) for arm in (True, False)) ** -0.2)
        left, right = np.maximum(self.share - reach, 0), np.minimum(self.share + reach, 1)
        rise = np.interp(right, self.sweep.share, values)
        return np.asarray((rise - np.interp(left, self.sweep.share, values)) / (right - left))


@dataclass(frozen=True, repr=False)
class UpliftBand(Shown):
    """The uplift curve at ``share`` with intervals that hold at one share, and at all at once.

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


@dataclass(frozen=True)
class CurveSums:
    """The curve of an allocation at each of J shares or budgets, and the sums for its limits.

    ``moments`` of the arms (or of all clusters), ``means`` of y M for 0/1 outcomes, of 1 - y if
    that is the rarer one (``signs`` of the means in the curve are then turned), ``covariance``
    (J, J), and ``counted`` (J,): how many rows or clusters the limits at a share rest on; nobody is
    treated where ``nobody``, which is exact.
    ``widening`` multiplies the errors that the moments have; none is below ``least``
    (:func:`auucmax.metrics.inference.least_error`). ``shares`` (J, K) if there are several arms.
    """

    share: Floats
    uplift: Floats
    covariance: Floats
    moments: list[Moments]
    means: Sequence[ArmMean] | None
    counted: Floats
    nobody: Bools
    signs: Sequence[int] = DIFFERENCE
    widening: float | Floats = 1.0
    least: float | Floats = 0.0
    shares: Floats | None = None

    @classmethod
    def of(
        cls,
        parts: tuple[RankedRows, ...],
        grid: Floats,
        units: ClusterUnits | None,
        support: Support,
        responds: Bools | None,
        centre: float,
    ) -> CurveSums:
        """Sums for the parts of a ranking at some shares; ``units`` if rows have clusters.

        ``centre`` is subtracted from the outcomes: the mean of all of them.
        """
        uplift, covariance = np.zeros(len(grid)), np.zeros((len(grid), len(grid)))
        moments: dict[bool, Moments] = {}
        arms: dict[bool, Segments] = {}
        totals: Any = 0.0
        squares = np.zeros(len(grid))  # of what multiplies the outcomes of rows
        for part in parts:
            segments = Segments.of(part, grid)
            curve, of_arms = segments.curve_factors(centre)
            uplift += curve
            for arm, factors in of_arms.items():
                arms[arm] = segments
                if support.deviation[0] > 0:
                    squares += segments.sums(part.arm_presence(arm) ** 2) @ factors[0] ** 2
                if units is not None:
                    totals += np.stack(list(segments.cluster_totals(arm, factors, units)), axis=1)
                    continue
                rows = part.arm_rows(arm)
                correction = rows / (rows - 1) if rows > 1 else np.nan
                own = segments.covariance(arm, factors) * correction
                covariance += own
                moments[arm] = Moments(rows, np.maximum(np.diag(own), 0), 0.0, 0.0)
                if part.rows is None and support.shape != "binary":
                    moments[arm] = segments.moments(arm, factors)
        if units is None:
            found = [moments[True], moments[False]]
        else:
            found, covariance = units.moments(totals), units.covariance(totals)
        means, signs = None, DIFFERENCE
        if support.shape == "binary":
            means = _curve_means(arms, found, support, rare_zeros=centre > 0.5)
            signs = DIFFERENCE if centre <= 0.5 else (-1, 1)
        counted = _counted(arms, units, support, responds)
        least = support.deviation[0] * np.sqrt(squares)
        return cls(grid, uplift, covariance, found, means, counted, grid == 0, signs, least=least)

    def of_folds(self, covariance: Floats | None = None) -> CurveSums:
        """The sums of rows ranked by models of several folds: see :func:`allowing_for_folds`."""
        if covariance is None:
            covariance = allowing_for_folds(self.share, self.covariance)
        before, after = (np.sqrt(np.maximum(np.diag(c), 0)) for c in (self.covariance, covariance))
        wide = np.divide(after, before, out=np.ones(len(before)), where=before > 0)
        return replace(self, covariance=covariance, widening=wide)

    def critical(
        self, support: Support, level: float, random_state: int | Generator | None
    ) -> float:
        """The normal multiple that covers all shares with limits, from draws."""
        vary = self._held(support)[1] & (np.diag(self.covariance) > 0)
        largest = 0.0
        if vary.any():
            some = self.covariance[np.ix_(vary, vary)]
            draws = largest_draws(some, np.sqrt(np.diag(some)), random_state)
            largest = float(np.quantile(draws, level))
        # Noise of the draws must not make the band for all shares the narrower one.
        return max(largest, float(ndtri(0.5 + level / 2)))

    def band(self, support: Support, level: float, critical: float) -> UpliftBand:
        """The band for one share and that for all, with gaps where they do not hold."""
        declined, held = self._held(support)
        one = float(ndtri(0.5 + level / 2))
        alone = self._has(support, support.least_at_one)
        lower, upper, all_lower, all_upper = (
            # Nobody treated is exact.
            np.where(where, np.where(self.nobody, 0.0, end), np.nan)
            for multiple, where in ((one, alone), (critical, held))
            for end in area_limits(
                self.uplift,
                self.moments,
                multiple,
                means=self.means,
                signs=self.signs,
                skewed=support.shape == "skewed",
                cautious=True,
                clustered=support.clustered,
                widening=self.widening,
                least=self.least,
            )
        )
        return UpliftBand(
            share=self.share,
            uplift=self.uplift,
            standard_error=np.sqrt(np.maximum(np.diag(self.covariance), 0)),
            lower=lower,
            upper=upper,
            simultaneous_lower=all_lower,
            simultaneous_upper=all_upper,
            critical=critical,
            multiple=float(student(one, max(min(support.units) - 1, 1))),
            covariance=self.covariance,
            level=level,
            declined=declined,
            shares=self.shares,
        )

    def _has(self, support: Support, least: int) -> Bools:
        """Where at least ``least`` is counted, or nobody is treated, which is exact."""
        enough = self.counted >= least
        return np.asarray(self.nobody | (enough & (support.why_no_area() is None)))

    def _held(self, support: Support) -> tuple[str | None, Bools]:
        """Why limits for all shares are missing, and at which shares they are not."""
        why, least, what = support.why_no_area(), support.least_in_top, support.what_in_top
        held = self._has(support, least)
        if held.all() or why is not None:
            return why, held
        some = held & ~self.nobody
        along = "share" if self.shares is None else "budget"
        if not some.any():
            return f"no top share holds {least} {what}", held
        first = self.share[some].min()
        if not held[self.share > first].all():  # an arm that begins at a middle budget
            return f"at some budgets the top holds fewer than {least} {what}", held
        return f"below a {along} of {first:.3g} the top holds fewer than {least} {what}", held


def _curve_means(
    segments: dict[bool, Segments], moments: list[Moments], support: Support, *, rare_zeros: bool
) -> tuple[ArmMean, ArmMean]:
    """The means of z = y M of the treated and the control rows, for score limits.

    ``rare_zeros``: of z = (1 - y) M, so that limits are those of the rarer outcome. Their reach is
    scaled to the variance of the centred terms, which is that of neither mean.
    """
    found = []
    for arm, own in ((True, moments[0]), (False, moments[1])):
        part, in_top = segments[arm].part, segments[arm].in_top
        y = segments[arm].sums(part.arm_outcome(arm))
        if rare_zeros:
            y = segments[arm].rows(arm) - y
        sums = y @ in_top, y @ in_top**2
        found.append(curve_mean(part.arm_rows(arm), sums, own.variance, support))
    return found[0], found[1]


def curve_mean(
    rows: int, sums: tuple[Floats, Floats], variance: Floats, support: Support
) -> ArmMean:
    """The mean of z = y M of the rows of an arm, from the sums of z and z^2."""
    mean = ArmMean.of(rows, sums, (1.0, 1.0), variance, clustered=support.clustered)
    # The band looks farther into the tails than Wilson's limits are good for with few rows.
    return mean._replace(inflation=mean.inflation * rows / max(rows - 1, 1))


def _counted(
    segments: dict[bool, Segments],
    units: ClusterUnits | None,
    support: Support,
    responds: Bools | None,
) -> Floats:
    """What :attr:`Support.least_in_top` counts in each top share, (J,): the fewer of the arms."""
    rows, some, others = [], [], []
    for arm, own in segments.items():
        part = own.part
        rows.append(own.in_top_counts(np.ones(len(part.y), bool), units, arm))
        if part.rows is not None:
            some.append(own.sums(part.arm_outcome(arm)) @ own.in_top)
            others.append(rows[-1] - some[-1])
            continue
        chosen = responds
        if chosen is None or len(chosen) != len(part.y):
            chosen = rarer_outcome(part.y)
        some.append(own.in_top_counts(chosen, units, arm))
        others.append(own.in_top_counts(~chosen, units, arm))
    return fewest(support, *map(np.array, (rows, some, others)))


def fewest(support: Support, rows: Floats, some: Floats, others: Floats) -> Floats:
    """What :attr:`Support.least_in_top` counts, the fewer of the arms, which are the first axis.

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
    """The covariance (J, J) of a curve of rows that models of several folds have ranked.

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
    """The largest |z| of each of many normal draws with the correlation of this covariance."""
    values, vectors = np.linalg.eigh(covariance / np.outer(error, error))
    root = vectors * np.sqrt(np.maximum(values, 0))  # rounding makes some of them negative
    if isinstance(random_state, int):
        # Bands of somewhat more or fewer shares use the same draws.
        draws = _draws_of_seed(random_state, -(-len(root) // 64) * 64)[:, : len(root)]
    else:
        draws = _draws(np.random.default_rng(random_state), len(root))
    # Single precision is far finer than the noise of the draws, and twice as fast.
    return np.asarray(np.abs(draws @ root.T.astype(np.float32)).max(axis=1), dtype=np.float64)


@lru_cache(maxsize=4)
def _draws_of_seed(seed: int, n_columns: int) -> NDArray[np.float32]:
    """Normal draws, kept by seed: drawing them costs more than using them."""
    return _draws(np.random.default_rng(seed), n_columns)


def _draws(rng: Generator, n_columns: int) -> NDArray[np.float32]:
    return rng.standard_normal((_N_DRAWS, n_columns), dtype=np.float32)
