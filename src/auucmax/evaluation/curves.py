"""What is read off a ranking at a share of people treated: curves, bands, policy risk.

Curves are cumulative sums from the highest score down, joined by straight lines: inside a level of
equal scores the line is what treating a random part of the level gives on average. M_i(q) is the
part of row i that lies in the top share q: 1 above the cut, 0 below, a fraction inside a tied level
that is cut. Row i has the weight a_i in its arm g, A_g their sum, and w_i, sum W, in the ranks.

**The uplift curve.** To first order V(q) is a sum of row terms. With H_g(q) = mean of y M(q) in arm
g, and V'(q) the slope of the curve,

    psi_i(q) = +- a_i (y_i M_i(q) - H_g(q)) / A_g  -  V'(q) w_i (M_i(q) - q) / W.

**Policy risk.** With m_T the mean outcome of the treated who are picked and m_C of the controls who
are not,

    psi_i = - q a_i M_i (y_i - m_T) / sum_T a M                      (treated)
            - (1 - q) a_i (1 - M_i) (y_i - m_C) / sum_C a (1 - M)    (control)
            + D w_i (M_i - q) / W                                    (every row)
    D     = [mean(y | treated, at the cut) - m_T] - [mean(y | control, at the cut) - m_C].

The three are uncorrelated, so with equal weights and no ties the variance is

    q^2 var_T / k_T  +  (1 - q)^2 var_C / k_C  +  D^2 q (1 - q) / n

with var and k the variance of y and the rows in each of the two cells. Where people are picked by
the sign of their scores, the cut is fixed and the share estimated: D = m_C - m_T. For 0/1 outcomes
limits are joined from the score limits of q m_T and of (1 - q) m_C, as those of the curve are.

The last term of each is there because the cut is itself estimated: the top share of these rows, not
of the population. Slopes, and means at the cut, are over a window of some n^(-1/5) of the people.

Between two cuts of a grid of J shares all rows have the same M, so the covariances need only sums
over some 2 J *stretches* of the sorted rows: O(n log n + J^3). Clusters need each row's terms:
O(n J).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.special import ndtri, stdtrit

from auucmax._validation import Bools, Floats
from auucmax.evaluation.inference import Support, Units, interval_words
from auucmax.evaluation.intervals import (
    LESS_BOTH,
    ArmMean,
    Moments,
    Spread,
    area_limits,
    score_limits,
    student,
)
from auucmax.evaluation.ranking import RankedRows

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
        treated, control = (
            ArmMean(means[arm], 1.0, 1.0, np.maximum(table[arm], 1)) for arm in means
        )
        lower, upper = score_limits(table["uplift"], treated, control, ndtri(0.5 + level / 2))
    if support.shape == "skewed":
        arms = (np.bincount(number[part.treated == arm], part.y[part.treated == arm] != 0,
                            minlength=bins) for arm in (True, False))  # fmt: skip
        few = np.minimum(*arms) < support.least_in_top
        lower, upper = np.where(few, np.nan, lower), np.where(few, np.nan, upper)
    table["lower"], table["upper"] = lower, upper
    return pd.DataFrame(table, index=pd.RangeIndex(1, bins + 1, name="bin"))


@dataclass(frozen=True)
class Stretches:
    """A part cut into stretches of sorted rows (lowest scores first), each with one M a share.

    psi(q) of a row is linear in three numbers of the row, a (y - c), a and w, c the mean of its
    arm, which keeps the digits of outcomes far from 0. *Factors*, (3, P, J), are what multiplies
    them in each stretch and at each share.
    """

    part: RankedRows
    share: Floats  # (J,)
    starts: NDArray[np.intp]  # (P,) first line of each stretch
    in_top: Floats  # (P, J) M of the stretch at each share
    sweep: ArmSweep

    @classmethod
    def of(cls, part: RankedRows, share: Floats, sweep: ArmSweep | None = None) -> Stretches:
        sweep = sweep or ArmSweep.of(part)
        knots, share = sweep.share, sweep.on_knots(share)
        # A share cuts one level; stretches end on both sides of the levels that are cut.
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
        """Sum of the lines' values in each stretch, (P,)."""
        return np.add.reduceat(values, self.starts)

    def rows(self, arm: bool) -> Floats:
        """Number of the arm's rows in each stretch, (P,)."""
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
        """The stretch of each of the arm's rows."""
        own = np.flatnonzero(self.part.treated == arm)
        return np.searchsorted(self.starts, own, side="right") - 1

    def row_terms(self, arm: bool, factors: Floats) -> Iterator[Floats]:
        """For each share, the psi of the arm's rows."""
        stretch = self.of_rows(arm)
        terms = [term[self.part.treated == arm] for term in self.terms(arm)]
        for j in range(len(self.share)):
            psi: Any = sum(t * f[stretch, j] for t, f in zip(terms, factors, strict=True))
            yield psi

    def cluster_totals(self, arm: bool, factors: Floats, units: Units) -> Iterator[Floats]:
        """For each share, the sums over clusters of the arm's psi, centred in the arm."""
        members = units.members(arm)
        for psi in self.row_terms(arm, factors):
            totals: Any = np.bincount(members, psi - psi.mean(), minlength=units.n_clusters)
            yield totals

    def moments(self, arm: bool, factors: Floats) -> Moments:
        """Moments of the psi of the arm's rows at each share, (J,) each."""
        if self.part.weight is not None or self.part.arm_weight is not None:
            found = [Moments.of(psi) for psi in self.row_terms(arm, factors)]
            return Moments(found[0].units, *np.transpose([one[1:] for one in found]))
        # psi = slope (y - c) + constant in a stretch: powers from those of y - c.
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
        self, chosen: Bools, units: Units | None, arm: bool, *, rest: bool = False
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
        stretch = np.searchsorted(self.starts, np.flatnonzero(own), side="right") - 1
        first = np.full(units.n_clusters, len(self.starts) if rest else -1)
        (np.minimum if rest else np.maximum).at(first, self.clusters_of(units)[own], stretch)
        found = first[(first >= 0) & (first < len(self.starts))]
        return np.asarray((inside[found] > 0).sum(axis=0, dtype=np.float64))

    def clusters_of(self, units: Units) -> NDArray[np.intp]:
        """The cluster of each row of the part."""
        if len(self.part.y) == len(units.clusters):
            return units.clusters
        return units.members(bool(self.part.treated[0]))

    def curve_factors(self) -> tuple[Floats, dict[bool, Floats]]:
        """The curve at each share, (J,), and the factors of psi in each arm."""
        in_top, share, sweep = self.in_top, self.share, self.sweep
        scale = {arm: sign / sweep.people[arm][-1] for arm, sign in self.part.arms}
        curve = np.sum([scale[arm] * sweep.outcome[arm] for arm in scale], axis=0)
        # The cut is estimated too: what that adds is the slope times the error of the share.
        cut = self.slope(curve) * (share - in_top) / self.part.total_weight
        factors = {}
        for arm, size in scale.items():
            mean = np.interp(share, sweep.share, sweep.outcome[arm]) / sweep.people[arm][-1]  # H_g
            centred = size * (self.centre(arm) * in_top - mean)
            factors[arm] = np.stack([size * in_top, centred, cut])
        return np.interp(share, sweep.share, curve), factors

    def slope(self, values: Floats) -> Floats:
        """Slope in the share of a function that is given at the knots, (J,)."""
        reach = min(0.1, 0.5 * sum(self.part.arm_rows(arm) for arm in (True, False)) ** -0.2)
        left, right = np.maximum(self.share - reach, 0), np.minimum(self.share + reach, 1)
        rise = np.interp(right, self.sweep.share, values)
        return np.asarray((rise - np.interp(left, self.sweep.share, values)) / (right - left))


@dataclass(frozen=True)
class UpliftBand:
    """The uplift curve at ``share`` with intervals that hold at one share, and at all at once.

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


@dataclass(frozen=True)
class CurveSums:
    """The curve at each of J shares, and the sums from which its limits come.

    ``moments`` of the arms (or of all clusters), ``means`` of y M for 0/1 outcomes, ``covariance``
    (J, J), and ``counted`` (J,): how many rows or clusters the limits at a share rest on.
    ``widening`` multiplies the errors that the moments have.
    """

    share: Floats
    uplift: Floats
    covariance: Floats
    moments: list[Moments]
    means: tuple[ArmMean, ArmMean] | None
    counted: Floats
    widening: float | Floats = 1.0

    @classmethod
    def of(
        cls,
        parts: tuple[RankedRows, ...],
        grid: Floats,
        units: Units | None,
        support: Support,
        responds: Bools | None,
    ) -> CurveSums:
        """Of the parts of a ranking; ``units`` if rows come in clusters."""
        uplift, covariance = np.zeros(len(grid)), np.zeros((len(grid), len(grid)))
        moments: dict[bool, Moments] = {}
        arms: dict[bool, Stretches] = {}
        totals: Any = 0.0
        for part in parts:
            stretches = Stretches.of(part, grid)
            curve, of_arms = stretches.curve_factors()
            uplift += curve
            for arm, factors in of_arms.items():
                arms[arm] = stretches
                if units is not None:
                    totals += np.stack(list(stretches.cluster_totals(arm, factors, units)), axis=1)
                    continue
                rows = part.arm_rows(arm)
                correction = rows / (rows - 1) if rows > 1 else np.nan
                own = stretches.covariance(arm, factors) * correction
                covariance += own
                moments[arm] = Moments(rows, np.maximum(np.diag(own), 0), 0.0, 0.0)
                if part.rows is None and support.shape != "binary":
                    moments[arm] = stretches.moments(arm, factors)
        if units is None:
            found = [moments[True], moments[False]]
        else:
            found, covariance = units.moments(totals), units.covariance(totals)
        means = _curve_means(arms, found, support) if support.shape == "binary" else None
        counted = _counted(arms, units, support, responds)
        return cls(grid, uplift, covariance, found, means, counted)

    def of_folds(self) -> CurveSums:
        """The same of rows that models of several folds have ranked: :func:`allowing_for_folds`."""
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
        """Both bands, at the shares where they hold."""
        declined, held = self._held(support)
        one = float(ndtri(0.5 + level / 2))
        alone = self._has(support, support.least_at_one)
        lower, upper, all_lower, all_upper = (
            # Nobody treated is exact.
            np.where(where, np.where(self.share > 0, end, 0.0), np.nan)
            for multiple, where in ((one, alone), (critical, held))
            for end in area_limits(
                self.uplift,
                self.moments,
                multiple,
                means=self.means,
                skewed=support.shape == "skewed",
                cautious=True,
                clustered=support.clustered,
                widening=self.widening,
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
        )

    def _has(self, support: Support, least: int) -> Bools:
        """Where so much is counted; and at nobody treated."""
        enough = self.counted >= least
        return np.asarray((self.share == 0) | (enough & (support.why_no_area() is None)))

    def _held(self, support: Support) -> tuple[str | None, Bools]:
        """Why limits for all shares are missing, and at which shares they are not."""
        why, least, what = support.why_no_area(), support.least_in_top, support.what_in_top
        held = self._has(support, least)
        some = held & (self.share > 0)
        if held.all() or why is not None:
            return why, held
        if not some.any():
            return f"no top share holds {least} {what}", held
        first = self.share[some].min()
        return f"below a share of {first:.3g} the top holds fewer than {least} {what}", held


def _curve_means(
    stretches: dict[bool, Stretches], moments: list[Moments], support: Support
) -> tuple[ArmMean, ArmMean]:
    """The means of z = y M of the treated and the control rows, for score limits."""
    found = []
    for arm, own in ((True, moments[0]), (False, moments[1])):
        part, in_top = stretches[arm].part, stretches[arm].in_top
        y = stretches[arm].sums(part.arm_outcome(arm))
        sums = y @ in_top, y @ in_top**2
        rows = part.arm_rows(arm)
        mean = ArmMean.of(rows, sums, (1.0, 1.0), own.variance, clustered=support.clustered)
        # The band looks farther into the tails than Wilson's limits are good for with few rows.
        found.append(mean._replace(inflation=mean.inflation * rows / max(rows - 1, 1)))
    return found[0], found[1]


def _counted(
    stretches: dict[bool, Stretches],
    units: Units | None,
    support: Support,
    responds: Bools | None,
) -> Floats:
    """What :attr:`Support.least_in_top` counts in each top share, (J,): the fewer of the arms."""
    rows, some = [], []
    for arm, own in stretches.items():
        part = own.part
        rows.append(own.in_top_counts(np.ones(len(part.y), bool), units, arm))
        if part.rows is not None:
            some.append(own.sums(part.arm_outcome(arm)) @ own.in_top)
        elif responds is None or len(responds) != len(part.y):
            some.append(own.in_top_counts(part.y != 0, units, arm))
        else:
            some.append(own.in_top_counts(responds, units, arm))
    if support.shape == "even":
        return np.asarray(np.minimum(*rows))
    if support.shape == "skewed":
        return np.asarray(np.minimum(*some))
    # At the rate of both arms: an arm must not be left out because few of its own responded.
    everybody = np.maximum(rows[0] + rows[1], 1.0)
    return np.asarray(np.minimum(*rows) * (some[0] + some[1]) / everybody)


def allowing_for_folds(share: Floats, covariance: Floats) -> Floats:
    """The covariance (J, J) of a curve of rows that models of several folds have ranked.

    The model of a fold learnt from the rows of the others, and their models from its rows, so what
    two folds show of a ranking is correlated. Write the curve as V(q) = q V(1) + g(q): the average
    effect, and the gain g over a random order. For a linear score that can tell nothing, whose
    direction is the mean of the other folds' own, the correlation of g between two of K folds is
    1 / (K - 1), which doubles its variance, whatever K is; where there is much to tell, models
    hardly differ and it tends to 0. So the variance of g is taken twice: never too small.
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
    """The same draws for every band with this seed: making them costs more than using them."""
    return _draws(np.random.default_rng(seed), n_columns)


def _draws(rng: Generator, n_columns: int) -> NDArray[np.float32]:
    return rng.standard_normal((_N_DRAWS, n_columns), dtype=np.float32)


@dataclass(frozen=True)
class PolicyRiskInference:
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

    def __str__(self) -> str:
        columns = (self.share, self.estimate, *self.interval)
        reasons = self.declined if isinstance(self.declined, tuple) else (self.declined,)
        return "\n".join(
            f"policy risk {risk:.5f} at share {share:.3f} "
            f"({interval_words((low, high), self.level, why)}), {self.n_rows:,} rows"
            for share, risk, low, high, why in zip(
                *map(np.atleast_1d, columns), reasons, strict=True
            )
        )


def policy_risks(sweep: ArmSweep, share: Floats) -> Floats:
    """Policy risk at each share; a cell of nobody counts 0."""
    (_, picked), (_, left) = (sweep.mean_at(share, arm, rest=not arm) for arm in (True, False))
    return 1 - (share * np.nan_to_num(picked) + (1 - share) * np.nan_to_num(left))


@dataclass(frozen=True)
class RiskCell:
    """One of the two means of policy risk: of the treated who are picked, or of the controls left.

    ``chance`` (J,) is the share of the people it stands for, ``rows`` (J,) how many of the arm's
    rows (weights) and ``mean`` (J,) their mean outcome, 0 of nobody; ``inside`` (P, J) what part of
    a stretch. Where the chance is 0 nobody is asked.
    """

    arm: bool
    chance: Floats
    rows: Floats
    mean: Floats
    inside: Floats

    @classmethod
    def of(cls, stretches: Stretches, arm: bool) -> RiskCell:
        q, in_top = stretches.share, stretches.in_top
        rows, mean = stretches.sweep.mean_at(q, arm, rest=not arm)
        picked, inside = (q, in_top) if arm else (1 - q, 1 - in_top)
        return cls(arm, picked, rows, np.nan_to_num(mean), inside)

    @property
    def scale(self) -> Floats:
        """What a row's outcome counts in the value of the rule, (J,)."""
        none = np.zeros(len(self.chance))
        return np.divide(self.chance, self.rows, out=none, where=self.rows > 0)

    def tilt(self, stretches: Stretches, *, fixed_cut: bool) -> Floats:
        """The cell's part in D, (J,)."""
        sign = 1.0 if self.arm else -1.0
        if fixed_cut:
            return -sign * self.mean
        outcome, people = stretches.sweep.outcome[self.arm], stretches.sweep.people[self.arm]
        moved = stretches.slope(outcome) - self.mean * stretches.slope(people)
        return np.asarray(sign * self.scale * moved)

    def factors(self, stretches: Stretches, cut: Floats) -> Floats:
        """The factors of psi of the arm's rows; ``cut`` (P, J) is that of the cut."""
        away = stretches.centre(self.arm) - self.mean
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
        stretches: Stretches,
        units: Units | None,
        support: Support,
        responds: Bools | None,
        *,
        fixed_cut: bool,
    ) -> RiskSums:
        """Of the rows of both arms; ``units`` if they come in clusters.

        ``fixed_cut``: people are picked by the sign of their scores, and their share is estimated.
        """
        q = stretches.share
        cells = RiskCell.of(stretches, True), RiskCell.of(stretches, False)
        tilt = sum(cell.tilt(stretches, fixed_cut=fixed_cut) for cell in cells)  # D
        cut = tilt / stretches.part.total_weight * (stretches.in_top - q)
        if units is None:
            full = support.shape == "skewed" and stretches.part.rows is None
            moments = [_cell_moments(stretches, cell, cut, full=full) for cell in cells]
            variances = [own.variance for own in moments]
        else:
            moments, variances = _clustered_moments(stretches, cells, cut, units)
        means = None
        if support.shape == "binary":
            treated, control = (
                cell.score_mean(variance, clustered=support.clustered)
                for cell, variance in zip(cells, variances, strict=True)
            )
            means = treated, control
        counted = _fewest(stretches, cells, units, responds)
        declined = [support.why_no_risk(rows, some) for rows, some in counted.T]
        return cls(q, policy_risks(stretches.sweep, q), moments, means, support, declined)

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
            still = "the outcomes that the rule counts do not vary, which tells nothing of an error"
            reasons = [
                still if why is None and flat else why
                # Rounding leaves something of no error.
                for why, flat in zip(reasons, error <= 1e-12 * np.abs(1 - self.risk), strict=True)
            ]
        none = np.array([why is not None for why in reasons])
        low, high = (np.where(none, np.nan, end) for end in ends)
        return np.array([self.share, self.risk, error, low, high]), reasons


def _cell_moments(stretches: Stretches, cell: RiskCell, cut: Floats, *, full: bool) -> Moments:
    """Moments of the terms of the arm's rows at each share; not a number for a cell of one row.

    The correction k / (k - 1) for small samples counts the rows of the cell, not of the arm.
    """
    factors = cell.factors(stretches, cut)
    counts = stretches.rows(cell.arm) @ (cell.inside > 0)
    squares = np.maximum(np.diag(stretches.covariance(cell.arm, factors)), 0.0)
    own = Moments(counts, squares * _correction(cell, counts), 0.0, 0.0)
    if not full:
        return own
    return stretches.moments(cell.arm, factors)._replace(units=counts, variance=own.variance)


def _correction(cell: RiskCell, counts: Floats) -> Floats:
    """k / (k - 1); not a number where that is less than two, and 1 where nobody is asked."""
    found = np.divide(counts, counts - 1, out=np.full(len(counts), np.nan), where=counts >= 2)
    return np.where(cell.chance > 0, found, 1.0)


def _clustered_moments(
    stretches: Stretches, cells: tuple[RiskCell, RiskCell], cut: Floats, units: Units
) -> tuple[list[Moments], list[Floats]]:
    """Moments of the clusters' totals at each share, and the variances of the two arms.

    Their degrees of freedom are Welch's: cells count by their part in the variance.
    """
    everybody = np.ones(len(stretches.part.y), bool)
    counts = [
        stretches.in_top_counts(everybody, units, cell.arm, rest=not cell.arm) for cell in cells
    ]
    totals = [
        np.stack(
            list(stretches.cluster_totals(cell.arm, cell.factors(stretches, cut), units)), axis=1
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
    stretches: Stretches,
    cells: tuple[RiskCell, RiskCell],
    units: Units | None,
    responds: Bools | None,
) -> Floats:
    """Rows, or clusters, and responders at each share, (2, J): the fewer of the cells it asks."""
    part, found = stretches.part, []
    if responds is None:
        # Of bins only 0/1 outcomes tell who responded, and there nobody asks.
        responds = part.y != 0
    for cell in cells:
        own = [
            stretches.in_top_counts(chosen, units, cell.arm, rest=not cell.arm)
            for chosen in (np.ones(len(part.y), bool), responds)
        ]
        found.append(np.where(cell.chance > 0, own, np.inf))
    return np.asarray(np.minimum(*found))
