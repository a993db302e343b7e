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
the sign of their scores, the cut is fixed and the share estimated: D = m_C - m_T.

The last term of each is there because the cut is itself estimated: the top share of these rows, not
of the population. Slopes, and means at the cut, are over a window of some n^(-1/5) of the people.

Between two cuts of a grid of J shares all rows have the same M, so the covariances need only sums
over some 2 J *stretches* of the sorted rows: O(n log n + J^3). Clusters need each row's terms:
O(n J).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.special import stdtrit

from auucmax._validation import Floats
from auucmax.evaluation.inference import Units, interval_around, touched_by
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

    def mean_at(self, shares: Floats, arm: bool) -> Floats:
        """Mean outcome of the arm in the top shares; NaN where nobody is there."""
        at = self.on_knots(shares)
        people, outcome = self.people[arm], self.outcome[arm]
        n, total = np.interp(at, self.share, people), np.interp(at, self.share, outcome)
        nobody = n <= 1e-12 * people[-1]  # what rounding leaves of nobody
        return np.divide(total, n, out=np.full(len(shares), np.nan), where=~nobody)

    def on_knots(self, shares: Floats) -> Floats:
        """Shares moved onto a knot that they miss by rounding only (0.1 + 0.2 is not 0.3)."""
        number = np.clip(np.searchsorted(self.share, shares), 1, len(self.share) - 1)
        left, right = self.share[number - 1], self.share[number]
        nearest = np.where(shares - left < right - shares, left, right)
        return np.where(np.abs(shares - nearest) < 1e-12, nearest, shares)


def uplift_knots(parts: tuple[RankedRows, ...]) -> tuple[Floats, Floats]:
    """Shares and values of the uplift curve where the score changes."""
    curves = []
    for part in parts:
        total = part.ranking.from_top(part.rank_weight)
        curves.append((total / total[-1], part.ranking.from_top(part.signed_outcome())))
    if len(curves) == 1:
        return curves[0]
    knots = np.union1d(curves[0][0], curves[1][0])
    return knots, np.interp(knots, *curves[0]) + np.interp(knots, *curves[1])


def qini_knots(part: RankedRows) -> tuple[Floats, Floats]:
    """Shares and values of the Qini curve where the score changes."""
    sweep = ArmSweep.of(part)
    n_treated, n_control = sweep.people[True], sweep.people[False]
    ratio = np.divide(n_treated, n_control, out=np.zeros_like(n_treated), where=n_control > 0)
    return sweep.share, (sweep.outcome[True] - sweep.outcome[False] * ratio) / n_treated[-1]


def uplift_at(parts: tuple[RankedRows, ...], shares: Floats) -> Floats:
    """Average effect among the top shares."""
    uplift = np.zeros(len(shares))
    for part in parts:
        sweep = ArmSweep.of(part)
        for arm, sign in part.arms:
            uplift += sign * sweep.mean_at(shares, arm)
    return uplift


def decile_table(part: RankedRows, bins: int, level: float) -> pd.DataFrame:
    """Average effect in each of ``bins`` parts of the people, with an interval."""
    above = 1 - part.ranking.mid_cumsum(part.rank_weight) / part.total_weight
    number = np.minimum((above * bins).astype(int), bins - 1)

    def sums(values: Floats | None, own: Any = slice(None)) -> Floats:
        own_values = None if values is None else values[own]
        return np.bincount(number[own], weights=own_values, minlength=bins)

    table: dict[str, NDArray[Any]] = {"rows": sums(part.rows).astype(np.intp)}
    means, variance = {}, 0.0
    for arm, name in ((True, "treated"), (False, "control")):
        own = np.flatnonzero(part.treated == arm)
        count = sums(part.rows, own)
        total = sums(part.arm_presence(arm), own)
        with np.errstate(invalid="ignore", divide="ignore"):
            means[name] = sums(part.arm_outcome(arm), own) / total
            around = np.nan_to_num(means[name])[number]
            variance += sums(part.squares_around(around), own) / total**2 * count / (count - 1)
        table[name] = count.astype(np.intp)
    table |= {f"mean_{name}": mean for name, mean in means.items()}
    table["uplift"] = means["treated"] - means["control"]
    table["standard_error"] = np.sqrt(variance)
    degrees = np.maximum(np.minimum(table["treated"], table["control"]) - 1, 1)
    half = stdtrit(degrees, 0.5 + level / 2) * table["standard_error"]
    table["lower"], table["upper"] = table["uplift"] - half, table["uplift"] + half
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
    sweep: ArmSweep | None = None  # None where the cut is a score, and not a share

    @classmethod
    def at_shares(cls, part: RankedRows, share: Floats) -> Stretches:
        sweep = ArmSweep.of(part)
        knots, share = sweep.share, sweep.on_knots(share)
        cut = np.clip(np.searchsorted(knots, share) - 1, 0, len(knots) - 2)
        tops = np.unique(np.concatenate([[0, len(knots) - 1], cut, cut + 1]))
        width = np.diff(knots[tops])[:, None]
        reach = share - knots[tops[:-1], None]
        inside = np.divide(reach, width, out=(reach >= 0).astype(float), where=width > 0)
        levels = part.ranking.starts
        first = len(part.y) - tops[1:] if levels is None else levels[len(levels) - tops[1:]]
        return cls(part, share, first[::-1], np.clip(inside, 0, 1)[::-1], sweep)

    @classmethod
    def above_score(cls, part: RankedRows, first: int) -> Stretches:
        """Everybody from line ``first`` on is picked."""
        starts = np.unique([0, min(first, len(part.y) - 1)])
        picked = (starts >= first).astype(np.float64)
        weight = part.rank_weight
        taken = len(part.y) - first if weight is None else weight[first:].sum()
        return cls(part, np.array([taken / part.total_weight]), starts, picked[:, None])

    def centre(self, arm: bool) -> float:
        """Mean outcome of the arm."""
        return float(self.part.arm_outcome(arm).sum()) / self.part.arm_total(arm)

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

    def cluster_totals(self, arm: bool, factors: Floats, units: Units) -> Iterator[Floats]:
        """For each share, the sums over clusters of the arm's psi, centred in the arm."""
        own = np.flatnonzero(self.part.treated == arm)
        stretch = np.searchsorted(self.starts, own, side="right") - 1
        members, terms = units.members(arm), [term[own] for term in self.terms(arm)]
        for j in range(len(self.share)):
            psi = sum(t * f[stretch, j] for t, f in zip(terms, factors, strict=True))
            yield np.bincount(members, psi - psi.mean(), minlength=units.n_clusters)

    def slope(self, values: Floats) -> Floats:
        """Slope in the share of a function that is given at the knots, (J,)."""
        assert self.sweep is not None
        reach = min(0.1, 0.5 * sum(self.part.arm_rows(arm) for arm in (True, False)) ** -0.2)
        left, right = np.maximum(self.share - reach, 0), np.minimum(self.share + reach, 1)
        rise = np.interp(right, self.sweep.share, values)
        return np.asarray((rise - np.interp(left, self.sweep.share, values)) / (right - left))


@dataclass(frozen=True)
class UpliftBand:
    """The uplift curve at ``share`` with intervals that hold at one share, and at all at once.

    ``covariance`` (J, J) is that of the curve's estimates; ``critical`` the multiple of the
    standard error that covers all J shares together.
    """

    share: Floats
    uplift: Floats
    standard_error: Floats
    lower: Floats
    upper: Floats
    simultaneous_lower: Floats
    simultaneous_upper: Floats
    critical: float
    covariance: Floats
    level: float


def band_of(
    parts: tuple[RankedRows, ...],
    grid: Floats,
    units: Units | None,
    level: float,
    random_state: int | Generator | None,
) -> UpliftBand:
    """The band at the shares of ``grid``; ``units`` if rows come in clusters."""
    uplift, covariance = np.zeros(len(grid)), np.zeros((len(grid), len(grid)))
    totals: Any = 0.0
    for part in parts:
        stretches = Stretches.at_shares(part, grid)
        knots, in_top, share = stretches.sweep.share, stretches.in_top, stretches.share
        heights = {
            arm: stretches.sweep.outcome[arm] * (sign / part.arm_total(arm))
            for arm, sign in part.arms
        }
        slope = stretches.slope(sum(heights.values()))
        for arm, sign in part.arms:
            height = np.interp(share, knots, heights[arm])  # +- H_g
            scale = sign / part.arm_total(arm)
            factors = np.stack(
                [
                    scale * in_top,
                    scale * stretches.centre(arm) * in_top - height / part.arm_total(arm),
                    slope * (share - in_top) / part.total_weight,
                ]
            )
            uplift += height
            if units is None:
                n_arm = part.arm_rows(arm)
                correction = n_arm / (n_arm - 1) if n_arm > 1 else np.nan
                covariance += stretches.covariance(arm, factors) * correction
            else:
                totals += np.stack(list(stretches.cluster_totals(arm, factors, units)), axis=1)
    degrees = min(sum(p.arm_rows(arm) for p in parts) for arm in (True, False)) - 1
    if units is not None:
        covariance, degrees = (totals.T * units.corrections()) @ totals, units.degrees
    error = np.sqrt(np.maximum(np.diag(covariance), 0))
    pointwise = interval_around(0.0, 1.0, level, degrees)[1]
    multiple = _simultaneous_multiple(covariance, error, level, degrees, random_state)
    critical = max(pointwise, multiple)
    return UpliftBand(
        share=grid,
        uplift=uplift,
        standard_error=error,
        lower=uplift - pointwise * error,
        upper=uplift + pointwise * error,
        simultaneous_lower=uplift - critical * error,
        simultaneous_upper=uplift + critical * error,
        critical=critical,
        covariance=covariance,
        level=level,
    )


def _simultaneous_multiple(
    covariance: Floats,
    error: Floats,
    level: float,
    degrees: int,
    random_state: int | Generator | None,
) -> float:
    """Level quantile of the largest |t| of multivariate t draws with the curve's correlation."""
    vary = error > 0
    if not vary.any() or degrees < 1:
        return 0.0
    rng = np.random.default_rng(random_state)
    scaled = covariance[np.ix_(vary, vary)] / np.outer(error[vary], error[vary])
    values, vectors = np.linalg.eigh(scaled)
    root = vectors * np.sqrt(np.maximum(values, 0))
    draws = np.abs(rng.standard_normal((_N_DRAWS, len(root))) @ root.T).max(axis=1)
    return float(np.quantile(draws / np.sqrt(rng.chisquare(degrees, _N_DRAWS) / degrees), level))


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


class PolicyCell(NamedTuple):
    """Whose outcomes a rule gets of an arm: the treated whom it picks, the control whom it leaves.

    ``chance`` (J,) is the share of people in the cell, ``inside`` (P, J) the part of a stretch that
    is, ``people`` (J,) their weight and ``mean`` (J,) their mean outcome, 0 where there is nobody.
    """

    chance: Floats
    inside: Floats
    people: Floats
    mean: Floats


def policy_cells(stretches: Stretches) -> dict[bool, PolicyCell]:
    """The cell of each arm, at each share."""
    q, picked, part = stretches.share, stretches.in_top, stretches.part
    cells = {}
    for arm, chance, inside in ((True, q, picked), (False, 1 - q, 1 - picked)):
        people = stretches.sums(part.arm_presence(arm)) @ inside
        people[people <= 1e-12 * part.arm_total(arm)] = 0.0  # what rounding leaves of nobody
        outcome = stretches.sums(part.arm_outcome(arm)) @ inside
        cells[arm] = PolicyCell(chance, inside, people, over(outcome, people))
    return cells


def over(numerator: Floats, denominator: Floats) -> Floats:
    """The ratio, 0 where the denominator is 0."""
    return np.divide(numerator, denominator, out=np.zeros(len(denominator)), where=denominator != 0)


def policy_risks(cells: dict[bool, PolicyCell]) -> Floats:
    """Policy risk at each share."""
    return np.asarray(1 - sum(cell.chance * cell.mean for cell in cells.values()))


def policy_risk_table(stretches: Stretches, units: Units | None, level: float) -> Floats:
    """Share, risk, its standard error, and the ends of the interval: (5, J)."""
    q, part, cells = stretches.share, stretches.part, policy_cells(stretches)
    tilt = np.zeros(len(q))  # D
    for arm, cell in cells.items():
        moved = -cell.mean
        if stretches.sweep is not None:
            outcome, people = stretches.sweep.outcome[arm], stretches.sweep.people[arm]
            moved = stretches.slope(outcome) - cell.mean * stretches.slope(people)
            moved = over(cell.chance * moved, cell.people)
        tilt += moved if arm else -moved
    cut = tilt / part.total_weight * (stretches.in_top - q)
    factors = {}
    for arm, cell in cells.items():
        factor = over(-cell.chance, cell.people) * cell.inside
        factors[arm] = np.stack([factor, factor * (stretches.centre(arm) - cell.mean), cut])
    if units is None:
        squares = {arm: np.diag(stretches.covariance(arm, factors[arm])) for arm in cells}
        counts = {arm: stretches.rows(arm) @ (cell.inside > 0) for arm, cell in cells.items()}
        found = [_welch(cells, squares, counts, j) for j in range(len(q))]
    else:
        found = list(_clustered_errors(stretches, cells, factors, units))
    risk = policy_risks(cells)
    error, degrees = np.array(found).T
    ends = [interval_around(*one, level, df) for *one, df in zip(risk, error, degrees, strict=True)]
    return np.array([q, risk, error, *np.transpose(ends)])


def _welch(cells: dict[bool, PolicyCell], squares: Any, counts: Any, j: int) -> tuple[float, float]:
    """Standard error, and Welch's degrees of freedom: cells count by their part in the variance.

    ``squares`` are sums of squared row terms; ``counts`` are the rows (or clusters) of the cells,
    not of the arms, and so is the correction k / (k - 1) for small samples.
    """
    arms = [arm for arm, cell in cells.items() if cell.chance[j] > 0]
    k = np.array([counts[arm][j] for arm in arms])
    if k.min() < 2:
        return float("nan"), 0.0
    parts = np.maximum([squares[arm][j] for arm in arms], 0.0) * k / (k - 1)
    total = float(parts.sum())
    if total == 0:
        return 0.0, float(k.min() - 1)
    return float(np.sqrt(total)), float(1 / np.sum((parts / total) ** 2 / (k - 1)))


def _clustered_errors(
    stretches: Stretches, cells: dict[bool, PolicyCell], factors: dict[bool, Floats], units: Units
) -> Iterator[tuple[float, float]]:
    """Standard error and degrees of freedom at each share, when clusters are independent."""
    of_arms = {}
    for arm in cells:
        rows = np.flatnonzero(stretches.part.treated == arm)
        of_arms[arm] = np.searchsorted(stretches.starts, rows, side="right") - 1
    totals = (stretches.cluster_totals(arm, factors[arm], units) for arm in cells)
    for j, both in enumerate(zip(*totals, strict=True)):
        squares = {arm: {j: float((t**2).sum())} for arm, t in zip(cells, both, strict=True)}
        counts = {}
        for arm, cell in cells.items():
            inside = cell.inside[of_arms[arm], j] > 0
            counts[arm] = {j: len(touched_by(units.members(arm)[inside]))}
        error, degrees = _welch(cells, squares, counts, j)
        if error > 0:
            # Clusters that reach into both arms are in both cells, but are no more for that.
            present = {arm: counts[arm][j] for arm in cells if cells[arm].chance[j] > 0}
            corrections = Units(units.treated, units.clusters, present).corrections()
            error = float(np.sqrt(np.sum(corrections * sum(both) ** 2)))
            degrees = min(degrees, units.n_clusters - 1)
        yield error, degrees
