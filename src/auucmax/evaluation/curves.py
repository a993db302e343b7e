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
from typing import Any

import numpy as np
import pandas as pd
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.special import stdtrit

from auucmax._validation import Bools, Floats
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


def decile_table(part: RankedRows, bins: int, level: float) -> pd.DataFrame:
    """Average effect in each of ``bins`` parts of the people, with an interval."""
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
    sweep: ArmSweep

    @classmethod
    def of(cls, part: RankedRows, share: Floats, sweep: ArmSweep | None = None) -> Stretches:
        sweep = sweep or ArmSweep.of(part)
        knots, share = sweep.share, sweep.on_knots(share)
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

    def cluster_totals(self, arm: bool, factors: Floats, units: Units) -> Iterator[Floats]:
        """For each share, the sums over clusters of the arm's psi, centred in the arm."""
        stretch, members = self.of_rows(arm), units.members(arm)
        terms = [term[self.part.treated == arm] for term in self.terms(arm)]
        for j in range(len(self.share)):
            psi: Any = sum(t * f[stretch, j] for t, f in zip(terms, factors, strict=True))
            totals: Any = np.bincount(members, psi - psi.mean(), minlength=units.n_clusters)
            yield totals

    def slope(self, values: Floats) -> Floats:
        """Slope in the share of a function that is given at the knots, (J,)."""
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
        stretches = Stretches.of(part, grid)
        in_top, share, sweep = stretches.in_top, stretches.share, stretches.sweep
        scale = {arm: sign / sweep.people[arm][-1] for arm, sign in part.arms}
        curve = np.sum([scale[arm] * sweep.outcome[arm] for arm in scale], axis=0)
        uplift += np.interp(share, sweep.share, curve)
        cut = stretches.slope(curve) * (share - in_top) / part.total_weight
        for arm, size in scale.items():
            mean = np.interp(share, sweep.share, sweep.outcome[arm]) / sweep.people[arm][-1]  # H_g
            factors = np.stack([size * in_top, size * (stretches.centre(arm) * in_top - mean), cut])
            if units is None:
                n_arm = part.arm_rows(arm)
                correction = n_arm / (n_arm - 1) if n_arm > 1 else np.nan
                covariance += stretches.covariance(arm, factors) * correction
            else:
                totals += np.stack(list(stretches.cluster_totals(arm, factors, units)), axis=1)
    degrees = min(sum(p.arm_rows(arm) for p in parts) for arm in (True, False)) - 1
    if units is not None:
        covariance, degrees = (totals.T * units.corrections()) @ totals, units.degrees
    return band_around(grid, uplift, covariance, degrees, level, random_state)


def band_around(
    grid: Floats,
    uplift: Floats,
    covariance: Floats,
    degrees: int,
    level: float,
    random_state: int | Generator | None,
) -> UpliftBand:
    """Both bands of a curve whose estimates have this covariance, (J, J)."""
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


def policy_risks(sweep: ArmSweep, share: Floats) -> Floats:
    """Policy risk at each share; a cell of nobody counts 0."""
    (_, picked), (_, left) = (sweep.mean_at(share, arm, rest=not arm) for arm in (True, False))
    return 1 - (share * np.nan_to_num(picked) + (1 - share) * np.nan_to_num(left))


def policy_risk_table(
    stretches: Stretches, units: Units | None, level: float, *, fixed_cut: bool
) -> Floats:
    """Share, risk, its standard error, and the ends of the interval: (5, J).

    ``fixed_cut``: people are picked by the sign of their scores, and their share is estimated.
    """
    q, in_top, sweep = stretches.share, stretches.in_top, stretches.sweep
    # The controls whom the rule leaves, and the treated whom it picks.
    chance, inside, scale, away = (1 - q, q), (1 - in_top, in_top), [], []
    tilt = np.zeros(len(q))  # D
    for arm, sign in ((False, -1.0), (True, 1.0)):
        people, mean = sweep.mean_at(q, arm, rest=not arm)
        mean = np.nan_to_num(mean)
        scale.append(np.divide(chance[arm], people, out=np.zeros(len(q)), where=people > 0))
        away.append(stretches.centre(arm) - mean)
        moved = stretches.slope(sweep.outcome[arm]) - mean * stretches.slope(sweep.people[arm])
        tilt += sign * (-mean if fixed_cut else scale[arm] * moved)
    cut = tilt / stretches.part.total_weight * (in_top - q)
    factors = [
        np.stack([-scale[g] * inside[g], -scale[g] * away[g] * inside[g], cut]) for g in (0, 1)
    ]
    asked = np.array(chance) > 0  # nobody is in a cell that the rule leaves empty
    if units is None:
        arms = False, True
        squares = np.array([np.diag(stretches.covariance(g, factors[g])) for g in arms])
        counts = np.array([stretches.rows(g) @ (inside[g] > 0) for g in arms])
        found = [_welch(squares[use, j], counts[use, j]) for j, use in enumerate(asked.T)]
    else:
        found = list(_clustered_errors(stretches, inside, factors, asked, units))
    risk = policy_risks(sweep, q)
    ends = [
        interval_around(value, error, level, degrees)
        for value, (error, degrees) in zip(risk, found, strict=True)
    ]
    return np.array([q, risk, [error for error, _ in found], *np.transpose(ends)])


def _welch(squares: Floats, counts: Floats) -> tuple[float, float]:
    """Standard error, and Welch's degrees of freedom: cells count by their part in the variance.

    ``squares`` are sums of squared row terms; ``counts`` are the rows (or clusters) of the cells,
    not of the arms, and so is the correction k / (k - 1) for small samples.
    """
    if counts.min() < 2:
        return float("nan"), 0.0
    parts = np.maximum(squares, 0.0) * counts / (counts - 1)
    total = float(parts.sum())
    if total == 0:
        return 0.0, float(counts.min() - 1)
    return float(np.sqrt(total)), float(1 / np.sum((parts / total) ** 2 / (counts - 1)))


def _clustered_errors(
    stretches: Stretches,
    inside: tuple[Floats, Floats],
    factors: list[Floats],
    asked: Bools,
    units: Units,
) -> Iterator[tuple[float, float]]:
    """Standard error and degrees of freedom at each share, when clusters are independent."""
    of_rows = [stretches.of_rows(arm) for arm in (False, True)]
    totals = (stretches.cluster_totals(bool(g), factors[g], units) for g in (0, 1))
    for j, (control, treated) in enumerate(zip(*totals, strict=True)):
        counts = {}
        for arm in np.flatnonzero(asked[:, j]).tolist():
            members = units.members(bool(arm))[inside[arm][of_rows[arm], j] > 0]
            counts[bool(arm)] = len(touched_by(members))
        squares = np.array([(control**2).sum(), (treated**2).sum()])[asked[:, j]]
        error, degrees = _welch(squares, np.array(list(counts.values())))
        if error > 0:
            # Clusters that reach into both arms are in both cells, but are no more for that.
            corrections = Units(units.treated, units.clusters, counts).corrections()
            error = float(np.sqrt(np.sum(corrections * (control + treated) ** 2)))
            degrees = min(degrees, units.n_clusters - 1)
        yield error, degrees
