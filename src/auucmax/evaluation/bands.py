"""Pointwise and simultaneous bands for the uplift curve.

To first order the curve at share q is a sum of row terms. With M_i(q) the part of row i that lies
in the top share q (1 above the cut, 0 below, a fraction inside a tied level that is cut),
H_g(q) = mean of y M(q) in arm g, and V'(q) the slope of the curve,

    psi_i(q) = +- a_i (y_i M_i(q) - H_g(q)) / A_g  -  V'(q) w_i (M_i(q) - q) / W.

The last term is there because the cut is itself estimated: the top share of these rows, not of the
population. Between two grid shares all rows have the same M, so the covariance of the whole curve
needs only sums over some 2 J stretches of the sorted rows: O(n log n + J^3) for J shares. Clusters
need each row's terms: O(n J).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from auucmax._validation import (
    Floats,
    check_choice,
    check_groups,
    check_level,
    check_rows,
    check_shares,
)
from auucmax.evaluation.auuc import RANKINGS, RankingKind
from auucmax.evaluation.curves import ArmSweep
from auucmax.evaluation.inference import Units, interval_around, with_weight
from auucmax.evaluation.ranking import RankedRows, ranked_parts

__all__ = ["UpliftBand", "uplift_band"]

_N_DRAWS = 10_000


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


def uplift_band(
    y: ArrayLike,
    score: ArrayLike,
    *,
    treatment: ArrayLike,
    shares: ArrayLike | None = None,
    ranking: RankingKind = "joint",
    sample_weight: ArrayLike | None = None,
    propensity: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    level: float = 0.95,
    random_state: int | Generator | None = 0,
    control: Any = None,
) -> UpliftBand:
    """The uplift curve on a grid of shares, with pointwise and simultaneous intervals.

    Parameters are those of :func:`auuc_inference`, and

    shares : (J,) shares at which the curve is wanted; by default .05, .075, ..., 1 (the normal
        approximation is poor at smaller shares unless there are very many rows).
    random_state : seed of the normal draws from which the simultaneous multiple is read; the same
        seed gives the same band.

    Both bands are asymptotic. Choose a share by looking at the curve, and only the simultaneous
    band still covers there.

    Examples
    --------
    >>> from auucmax import load_hillstrom
    >>> trial = load_hillstrom()
    >>> band = uplift_band(
    ...     trial.y, trial.X["womens"], treatment=trial.treatment, shares=[0.5, 1.0]
    ... )
    >>> band.uplift.round(4).tolist(), band.lower.round(4).tolist()
    ([0.0369, 0.0452], [0.0322, 0.0389])
    """
    check_choice(ranking, "ranking", RANKINGS)
    check_level(level)
    grid = check_shares(np.linspace(0.05, 1, 39) if shares is None else shares)
    rows = check_rows(
        y,
        score,
        treatment=treatment,
        control=control,
        sample_weight=sample_weight,
        propensity=propensity,
    )
    clusters = None if groups is None else check_groups(groups, len(rows.y))
    rows, clusters = with_weight(rows, clusters)
    units = Units.of(rows.treated, clusters)
    pieces = [_Piece.of(part, grid) for part in ranked_parts(rows, ranking)]
    uplift = sum((piece.uplift for piece in pieces), np.zeros(len(grid)))
    if clusters is None:
        covariance = sum((p.covariance() for p in pieces), np.zeros((len(grid), len(grid))))
    else:
        totals = np.sum([p.cluster_totals(clusters) for p in pieces], axis=0)
        covariance = (totals.T * units.corrections()) @ totals
    error = np.sqrt(np.maximum(np.diag(covariance), 0))
    pointwise = interval_around(0.0, 1.0, level, units.degrees)[1]
    multiple = _simultaneous_multiple(covariance, error, level, units.degrees, random_state)
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


@dataclass(frozen=True)
class _Piece:
    """One ranked part cut into stretches of sorted rows (lowest scores first) of equal M."""

    part: RankedRows
    grid: Floats
    bounds: NDArray[np.intp]  # (P,) first sorted row of each stretch
    in_top: Floats  # (P, J) M of the stretch at each share
    arm_curve: dict[bool, Floats]  # H_g, (J,)
    slope: Floats  # V', (J,)
    uplift: Floats  # V, (J,)

    @classmethod
    def of(cls, part: RankedRows, grid: Floats) -> _Piece:
        sweep = ArmSweep.of(part)
        knots = sweep.share
        arm_knots = {arm: sweep.outcome[arm] / part.arm_total(arm) for arm, _ in part.arms}
        curve = np.sum([sign * arm_knots[arm] for arm, sign in part.arms], axis=0)
        cut = np.clip(np.searchsorted(knots, grid) - 1, 0, len(knots) - 2)
        tops = np.unique(np.concatenate([[0, len(knots) - 1], cut, cut + 1]))
        width = np.diff(knots[tops])[:, None]
        reach = grid - knots[tops[:-1], None]
        inside = np.divide(reach, width, out=(reach >= 0).astype(float), where=width > 0)
        return cls(
            part=part,
            grid=grid,
            bounds=_first_rows(part, tops[1:])[::-1],
            in_top=np.clip(inside, 0, 1)[::-1],
            arm_curve={arm: np.interp(grid, knots, values) for arm, values in arm_knots.items()},
            slope=smoothed_slope(grid, knots, curve, len(part.y)),
            uplift=np.interp(grid, knots, curve),
        )

    def covariance(self) -> Floats:
        """Sum over arms of n_g times the covariance of psi in the arm."""
        result = np.zeros((len(self.grid), len(self.grid)))
        for arm, _ in self.part.arms:
            n_arm = int(np.count_nonzero(self.part.treated == arm))
            terms, factors = self._terms(arm), self._factors(arm)
            total = np.zeros(len(self.grid))
            square = np.zeros_like(result)
            for a, left in zip(terms, factors, strict=True):
                total += np.add.reduceat(a, self.bounds) @ left
                for b, right in zip(terms, factors, strict=True):
                    square += (left.T * np.add.reduceat(a * b, self.bounds)) @ right
            result += (square - np.outer(total, total) / n_arm) * (
                n_arm / (n_arm - 1) if n_arm > 1 else np.nan
            )
        return result

    def cluster_totals(self, clusters: NDArray[np.intp]) -> Floats:
        """Sums of psi, centred in its arm, over clusters: (number of clusters, J)."""
        stretch_sizes = np.diff(self.bounds, append=len(self.part.y))
        totals = np.zeros((clusters.max() + 1, len(self.grid)))
        for arm, _ in self.part.arms:
            own = self.part.treated == arm
            members = clusters[self.part.index[own]]
            stretch = np.repeat(np.arange(len(stretch_sizes)), stretch_sizes)[own]
            terms = [term[own] for term in self._terms(arm)]
            for j in range(len(self.grid)):
                pairs = zip(terms, self._factors(arm), strict=True)
                psi = sum(term * factor[stretch, j] for term, factor in pairs)
                totals[:, j] += np.bincount(members, psi - psi.mean(), minlength=len(totals))
        return totals

    def _terms(self, arm: bool) -> list[Floats]:
        """What a row contributes, (n,) each: +-a y / A, +-a / A, w / W, and 0 in the other arm."""
        sign, total = (1.0 if arm else -1.0), self.part.arm_total(arm)
        own = (self.part.treated == arm).astype(np.float64)
        weight = own if self.part.weight is None else own * self.part.weight
        return [
            self.part.arm_outcome(arm) * (sign / total),
            self.part.arm_presence(arm) * (sign / total),
            weight / self.part.total_weight,
        ]

    def _factors(self, arm: bool) -> list[Floats]:
        """psi(q) = the terms times these, (P, J) each: M, -H, V' (q - M)."""
        below = -np.broadcast_to(self.arm_curve[arm], self.in_top.shape)
        return [self.in_top, below, self.slope * (self.grid - self.in_top)]


def _first_rows(part: RankedRows, tops: NDArray[np.intp]) -> NDArray[np.intp]:
    """First sorted row (lowest score first) of the ``tops`` highest levels."""
    starts = part.ranking.starts
    return len(part.y) - tops if starts is None else starts[len(starts) - tops]


def smoothed_slope(grid: Floats, knots: Floats, curve: Floats, n_rows: int) -> Floats:
    """Slope of the curve over a window of some n^(-1/5) of the people around each share."""
    reach = min(0.1, 0.5 * n_rows**-0.2)
    left, right = np.maximum(grid - reach, 0), np.minimum(grid + reach, 1)
    rise = np.interp(right, knots, curve) - np.interp(left, knots, curve)
    return np.asarray(rise / (right - left))


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
