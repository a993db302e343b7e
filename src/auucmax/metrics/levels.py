"""Levels: scored rows of a trial, sorted once; every number of their ranking is asked of them.

A level is all rows of one score. Of rows in memory each different score is a level, and everything
is exact. Of rows that are too many for memory, or not to be kept, levels are bins of scores: see
:class:`auucmax.metrics.BinnedLevels`, which answers the same questions by the same functions.
"""

from __future__ import annotations

import warnings
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.random import Generator
from numpy.typing import ArrayLike
from scipy.special import ndtri

from auucmax._validation import (
    Bools,
    Floats,
    ScoredRows,
    check_column,
    check_groups,
    check_level,
    check_mask,
    check_rows,
    check_shares,
    check_whole,
)
from auucmax.metrics import curves, inference
from auucmax.metrics.curves import ArmSweep, Segments, UpliftBand
from auucmax.metrics.inference import (
    AUUCDifference,
    AUUCInference,
    Clusters,
    ClusterUnits,
    Support,
)
from auucmax.metrics.intervals import Moments, Spread, area_limits, student
from auucmax.metrics.ranking import RankedRows, RankingKind, blocks, sorted_rows
from auucmax.metrics.risk import PolicyRiskInference, RiskSums, policy_risks

_SHARES_AT_ONCE = 128
_NONE = (float("nan"), float("nan"))


class Levels:
    """Scored rows of a trial, checked and sorted once, to ask for any number of numbers.

    Make them with :meth:`of`. Each method gives what the function of that name in
    :mod:`auucmax.metrics` gives, without checking and sorting again.

    Examples
    --------
    >>> from auucmax import load_hillstrom
    >>> trial = load_hillstrom()
    >>> levels = Levels.of(trial.y, trial.X["womens"], treatment=trial.treatment)
    >>> levels
    Levels(42,693 rows, 2 different scores)
    >>> print(levels.inference())
    The ranking beats random targeting: gain +0.00768 (0.00612 to 0.00923) per person, p below
    0.0001.
      AUUC  0.03045 (0.02666 to 0.03425)
      Rows  42,693, intervals at 95%
    >>> levels.band(shares=[0.5, 1.0]).uplift.round(4).tolist()
    [0.0366, 0.0452]
    """

    _one_for_all = "one value for all of them"

    _responds: Bools | None = None  # where y is adjusted: whether the outcome itself is not 0

    def __init__(
        self,
        ranked: RankedRows,
        score: Floats,
        clusters: Clusters | None,
        responds: Bools | None = None,
    ) -> None:
        self._ranked, self._score, self._clusters = ranked, score, clusters
        self._responds = responds

    @classmethod
    def of(
        cls,
        y: ArrayLike,
        score: ArrayLike,
        *,
        treatment: ArrayLike,
        sample_weight: ArrayLike | None = None,
        propensity: ArrayLike | None = None,
        outcome_model: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        randomised: ArrayLike | None = None,
        control: Any = None,
        score_name: str = "score",
    ) -> Levels:
        """Check rows and sort them.

        Parameters as in :func:`auuc_inference` and, ``randomised``, in :func:`policy_risk`;
        ``score_name`` is what messages call the score.
        """
        responds = None
        if outcome_model is not None:
            y = check_column(y, "y")
            responds = inference.rarer_outcome(y)
            y = y - check_column(outcome_model, "outcome_model", len(y))
        rows = check_rows(
            y,
            score,
            treatment=treatment,
            control=control,
            sample_weight=sample_weight,
            propensity=propensity,
            score_name=score_name,
        )
        clusters = None if groups is None else check_groups(groups, len(rows.y))
        kept = np.ones(len(rows.y), bool)
        if randomised is not None:
            kept = check_mask(randomised, "randomised", len(rows.y))
        if rows.weight is not None:  # rows of weight 0 say nothing, and must not count as rows
            kept = kept & (rows.weight > 0)
        if not kept.all():
            rows, clusters = inference.some_rows(rows, clusters, kept)
            responds = None if responds is None else responds[kept]
        return cls.of_rows(rows, clusters, responds)

    @classmethod
    def of_rows(
        cls, rows: ScoredRows, clusters: Clusters | None = None, responds: Bools | None = None
    ) -> Levels:
        """Sort rows that were checked before, each of which has some weight."""
        ranked = sorted_rows(rows)
        clusters = None if clusters is None else clusters[ranked.index]
        responds = None if responds is None else responds[ranked.index]
        return cls(ranked, rows.score, clusters, responds)

    def __repr__(self) -> str:
        return f"Levels({self.n_rows:,} rows, {len(self.scores):,} different scores)"

    @property
    def ranked(self) -> RankedRows:
        """The rows in the order of their scores, lowest first."""
        return self._ranked

    @cached_property
    def centred(self) -> RankedRows:
        """:attr:`ranked` with outcomes less their mean, for gains and differences."""
        return self.ranked.less(self.ranked.mean())

    @cached_property
    def units(self) -> ClusterUnits | None:
        """Clusters of rows, in the order of :attr:`ranked`; None if rows are independent."""
        return (
            None if self._clusters is None else ClusterUnits.of(self.ranked.treated, self._clusters)
        )

    @cached_property
    def support(self) -> Support:
        """What intervals can rest on: rows, or clusters, and responders of each arm."""
        return inference.support_of(self.ranked, self.units, self._responds, binary=self.binary)

    @property
    def binary(self) -> bool:
        """Whether every outcome is 0 or 1."""
        y = self.ranked.y
        return all(bool((y[block] * y[block] == y[block]).all()) for block in blocks(len(y)))

    @cached_property
    def scores(self) -> Floats:
        """The score of each level, lowest first."""
        starts = self.ranked.ranking.starts
        first = self.ranked.index if starts is None else self.ranked.index[starts]
        return self._score.take(first)

    @property
    def n_rows(self) -> int:
        return sum(self.arm_rows)

    @property
    def arm_rows(self) -> tuple[int, int]:
        """Number of control and of treated rows."""
        return self.ranked.arm_rows(False), self.ranked.arm_rows(True)

    def auuc(self, ranking: RankingKind = "joint") -> float:
        """:func:`auuc_score` of the rows."""
        return float(sum(part.area() for part in self.ranked.parts(ranking)))

    def gain(self, ranking: RankingKind = "joint") -> float:
        """The gain over random, as :meth:`inference` has it: that of centred outcomes."""
        return float(sum(part.area() - part.effect() / 2 for part in self.centred.parts(ranking)))

    def effect(self) -> float:
        """The average effect."""
        return self.ranked.effect()

    def inference(
        self, level: float = 0.95, ranking: RankingKind = "joint", *, cross_fitted: bool = False
    ) -> AUUCInference:
        """:func:`auuc_inference` of the rows; intervals are widened by what bins can change.

        ``cross_fitted``: models of several folds ranked the rows, each trained on the rows of
        the others, so the variance of the gain counts twice.
        """
        return self._inference(level, ranking, cross_fitted=cross_fitted, stacklevel=3)

    def _inference(
        self, level: float, ranking: RankingKind, *, cross_fitted: bool = False, stacklevel: int
    ) -> AUUCInference:
        check_level(level)
        parts, support = self.ranked.parts(ranking), self.support
        centred = self.centred.parts(ranking)
        constant = len(self.scores) == 1
        if constant:
            warnings.warn(
                f"score should tell rows apart, got {self._one_for_all}: AUUC is then ATE/2 and "
                f"the gain over random zero, by definition. Check the model that made it.",
                UserWarning,
                stacklevel=stacklevel,
            )
        estimate = float(sum(part.area() for part in parts))
        gain = self.gain(ranking)
        area, gained = self._moments(parts, centred, ranking)
        spread, gain_spread = Spread.of(area), Spread.of(gained)
        if constant:  # by definition, and not only up to rounding
            gain, gain_spread = 0.0, gain_spread._replace(error=0.0 * gain_spread.error)
        added = gain_spread.error / spread.error if cross_fitted and spread.error else 0.0
        wide = float(np.hypot(1.0, added))
        contrast = inference.middle_ranks(self.ranked)
        gain_spread = self._gain_spread(gain_spread, contrast, cross_fitted=cross_fitted)
        bin_error, more = self._bin_costs(ranking)
        gain_bin_error, gain_more = self._gain_bin_costs(ranking)
        # Degrees that bins cannot lower: intervals then contain those of the exact scores.
        degrees = max(min(self.arm_rows) - 1, 1) if bin_error + more else None
        low, high = self._area_limits(estimate, parts, area, level, wide, degrees)
        slack = bin_error + more * float(student(ndtri(0.5 + level / 2), degrees or 1))
        declined = support.why_no_area()
        gain_declined = None if constant else self._why_no_gain(contrast)
        gain_interval, p_value = inference.student_test(
            gain, gain_spread, level, support,
            more=gain_more, slack=gain_bin_error, degrees=degrees,
        )  # fmt: skip
        return AUUCInference(
            estimate=estimate,
            standard_error=float(wide * spread.error),
            interval=_NONE if declined else (float(low - slack), float(high + slack)),
            gain=gain,
            gain_standard_error=float(gain_spread.error),
            gain_interval=_NONE if gain_declined else gain_interval,
            p_value=np.nan if gain_declined else p_value,
            level=level,
            n_rows=self.n_rows,
            bin_error=max(bin_error, gain_bin_error),
            declined=declined,
            gain_declined=gain_declined,
        )

    def _why_no_gain(self, contrast: Floats) -> str | None:
        """Why there is no interval of the gain, or of the difference to other scores."""
        return self.support.why_no_gain(inference.carried_by(self.ranked, contrast))

    def _gain_spread(self, spread: Spread, contrast: Floats, *, cross_fitted: bool) -> Spread:
        """The spread of a gain or a difference, its error as large as intervals take it."""
        error = spread.error
        if error > 0:  # else there is no gain, by definition
            least = inference.least_error(self.ranked, self.support.deviation[1], contrast)
            error = max(error, least)
        return spread._replace(error=error * (np.sqrt(2) if cross_fitted else 1.0))

    def _moments(
        self,
        parts: tuple[RankedRows, ...],
        centred: tuple[RankedRows, ...],
        ranking: RankingKind,
    ) -> tuple[list[Moments], list[Moments]]:
        """Moments of the terms of AUUC and of the gain, which is of centred outcomes."""
        if self.units is None:
            full = self.ranked.rows is None and self.support.shape == "skewed"
            area = inference.moments_of(parts, less_half_effect=False, full=full)
            return area, inference.moments_of(centred, less_half_effect=True, full=full)
        psi, _ = inference.row_terms(self.ranked, ranking)
        area = self.units.moments(self.units.totals(psi))
        psi, half_effect = inference.row_terms(self.centred, ranking)
        return area, self.units.moments(self.units.totals(psi - half_effect))

    def _area_limits(
        self,
        estimate: float,
        parts: tuple[RankedRows, ...],
        moments: list[Moments],
        level: float,
        widening: float,
        degrees: int | None,
    ) -> tuple[float, float]:
        means, support, least = None, self.support, 0.0
        if support.deviation[0] > 0:
            ranks = inference.middle_ranks(self.ranked) + 0.5
            least = inference.least_error(self.ranked, support.deviation[0], ranks)
        if support.shape == "binary":
            means = inference.area_means(parts, moments, clustered=support.clustered)
        return area_limits(
            estimate,
            moments,
            ndtri(0.5 + level / 2),
            means=means,
            skewed=support.shape == "skewed",
            clustered=support.clustered,
            widening=widening,
            degrees=degrees,
            least=least,
        )

    def difference(
        self,
        other: Levels,
        level: float = 0.95,
        ranking: RankingKind = "joint",
        *,
        cross_fitted: bool = False,
    ) -> AUUCDifference:
        """:func:`auuc_difference`: AUUC minus that of other scores of the same rows, paired.

        Both are of centred outcomes.

        ``cross_fitted`` as in :meth:`inference`: the variance counts twice.
        """
        check_level(level)
        for levels in (self, other):
            if levels.ranked.rows is not None or levels.arm_rows != self.arm_rows:
                raise ValueError(
                    f"a difference should be of two scores of the same rows in memory, got {self} "
                    f"and {other}. Make both from the same rows with Levels.of."
                )
        # Terms of the other score in the order of this one: paired row by row.
        theirs = np.empty(self.n_rows)
        theirs[other.ranked.index] = inference.row_terms(other.centred, ranking)[0]
        psi = inference.row_terms(self.centred, ranking)[0]
        psi -= theirs.take(self.ranked.index)
        if self.units is None:
            moments = list(inference.part_moments(self.ranked, psi, None, full=False).values())
        else:
            moments = self.units.moments(self.units.totals(psi))
        ours, other_area = (
            sum(part.area() for part in levels.centred.parts(ranking)) for levels in (self, other)
        )
        spread, estimate = Spread.of(moments), float(ours - other_area)
        ranks = np.empty(self.n_rows)
        ranks[other.ranked.index] = inference.middle_ranks(other.ranked)
        contrast = inference.middle_ranks(self.ranked) - ranks.take(self.ranked.index)
        spread = self._gain_spread(spread, contrast, cross_fitted=cross_fitted)
        interval, p_value = inference.student_test(estimate, spread, level, self.support)
        declined = self._why_no_gain(contrast)
        return AUUCDifference(
            estimate=estimate,
            standard_error=float(spread.error),
            interval=_NONE if declined else interval,
            p_value=np.nan if declined else p_value,
            level=level,
            n_rows=self.n_rows,
            declined=declined,
        )

    def curve(
        self, ranking: RankingKind = "joint", *, centred: bool = False
    ) -> tuple[Floats, Floats]:
        """:func:`uplift_curve`: shares and gains where the score changes.

        ``centred``: of outcomes less their mean, the curve that :meth:`band` encloses.
        """
        sums = []
        for part in (self.centred if centred else self.ranked).parts(ranking):
            total = part.ranking.from_top(part.rank_weight)
            sums.append((total / total[-1], part.ranking.from_top(part.signed_outcome())))
        if ranking == "joint":
            return sums[0]
        knots = np.union1d(sums[0][0], sums[1][0])
        return knots, np.interp(knots, *sums[0]) + np.interp(knots, *sums[1])

    def qini_curve(self) -> tuple[Floats, Floats]:
        """:func:`qini_curve`: shares and values where the score changes."""
        sweep = ArmSweep.of(self.ranked)
        treated, control = sweep.people[True], sweep.people[False]
        ratio = np.divide(treated, control, out=np.zeros_like(treated), where=control > 0)
        return sweep.share, (sweep.outcome[True] - sweep.outcome[False] * ratio) / treated[-1]

    def qini(self) -> float:
        """:func:`qini_score` of the rows."""
        share, qini = self.qini_curve()
        return float(np.trapezoid(qini, share) - qini[-1] / 2)

    def at_k(
        self, share: float | ArrayLike = 0.3, ranking: RankingKind = "joint"
    ) -> float | Floats:
        """:func:`uplift_at_k`: the average effect among the top share of people."""
        shares = check_shares(share)
        uplift = np.zeros(len(shares))
        for part in self.ranked.parts(ranking):
            sweep = ArmSweep.of(part)
            for arm, sign in part.arms:
                uplift += sign * sweep.mean_at(shares, arm)[1]
        return uplift if np.ndim(share) else float(uplift[0])

    def deciles(self, bins: int = 10, level: float = 0.95) -> pd.DataFrame:
        """:func:`uplift_by_decile`: the average effect in each tenth of the people."""
        check_level(level)
        # Rows count as independent here, whatever their clusters.
        rows = inference.support_of(self.ranked, None, self._responds, binary=self.binary)
        return curves.decile_table(self.ranked, check_whole(bins, "bins", 1), level, rows)

    def band(
        self,
        shares: ArrayLike | None = None,
        ranking: RankingKind = "joint",
        level: float = 0.95,
        random_state: int | Generator | None = 0,
        *,
        cross_fitted: bool = False,
        critical: float | None = None,
    ) -> UpliftBand:
        """:func:`uplift_band`: the centred curve with pointwise and simultaneous intervals.

        ``cross_fitted`` as in :meth:`inference`, for shares that end with 1. ``critical``: that of
        another band, in the place of one for these shares.
        """
        check_level(level)
        grid = check_shares(np.linspace(0.05, 1, 39) if shares is None else shares)
        parts, support = self.ranked.parts(ranking), self.support
        more = self.units, support, self._responds, self.ranked.mean()
        sums = curves.CurveSums.of(parts, grid, *more)
        if cross_fitted:
            sums = sums.of_folds()
        if critical is None:
            critical = sums.critical(support, level, random_state)
        return sums.band(support, level, critical)

    def policy_risk(self, share: float | ArrayLike | None = None) -> float | Floats:
        """:func:`policy_risk` of treating the top share, or everyone with a score above 0."""
        sweep = ArmSweep.of(self.ranked)
        risk = policy_risks(sweep, self._rule(share, sweep))
        return float(risk[0]) if share is None or np.ndim(share) == 0 else risk

    def policy_risk_inference(
        self, share: float | ArrayLike | None = None, level: float = 0.95
    ) -> PolicyRiskInference:
        """:func:`policy_risk_inference`: policy risk with standard errors and intervals."""
        check_level(level)
        sweep = ArmSweep.of(self.ranked)
        shares = self._rule(share, sweep)
        found = [
            # A few shares at a time: tables are quadratic in their number.
            RiskSums.of(
                Segments.of(self.ranked, some, sweep),
                self.units,
                self.support,
                self._responds,
                fixed_cut=share is None,
            ).table(level)
            for some in np.array_split(shares, -(-len(shares) // _SHARES_AT_ONCE))
        ]
        table: Any = np.concatenate([some for some, _ in found], axis=1)
        declined = tuple(why for _, some in found for why in some)
        single = share is None or np.ndim(share) == 0
        q, risk, error, lower, upper = map(float, table[:, 0]) if single else table
        return PolicyRiskInference(
            q,
            risk,
            error,
            (lower, upper),
            level,
            self.n_rows,
            declined[0] if single else declined,
        )

    def _rule(self, share: float | ArrayLike | None, sweep: ArmSweep) -> Floats:
        """The shares asked for, or that of the people with scores above 0."""
        if share is not None:
            return sweep.on_knots(check_shares(share))
        return sweep.share[[len(sweep.share) - 1 - self._first_above_zero()]]

    def _first_above_zero(self) -> int:
        """The number of levels with scores of at most 0."""
        return int(np.searchsorted(self.scores, 0.0, side="right"))

    def _bin_costs(self, ranking: RankingKind) -> tuple[float, float]:
        """What bins can change in AUUC, and in its standard error: nothing, scores are exact."""
        return 0.0, 0.0

    def _gain_bin_costs(self, ranking: RankingKind) -> tuple[float, float]:
        """The same for the gain, which is of centred outcomes."""
        return 0.0, 0.0
