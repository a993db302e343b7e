"""Levels: scored rows of a trial, sorted once; every number of their ranking is asked of them.

A level is all rows of one score. Of rows in memory each different score is a level, and everything
is exact. Of rows that are too many for memory, or not to be kept, levels are bins of scores: see
:class:`auucmax.evaluation.BinnedLevels`, which answers the same questions by the same functions.
"""

from __future__ import annotations

import warnings
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.random import Generator
from numpy.typing import ArrayLike

from auucmax._validation import (
    Floats,
    Rows,
    check_column,
    check_groups,
    check_level,
    check_mask,
    check_rows,
    check_shares,
    check_whole,
)
from auucmax.evaluation import curves, inference
from auucmax.evaluation.curves import ArmSweep, PolicyRiskInference, Stretches, UpliftBand
from auucmax.evaluation.inference import AUUCDifference, AUUCInference, Clusters, Units
from auucmax.evaluation.ranking import RankedRows, RankingKind, sorted_rows

_SHARES_AT_ONCE = 128


class Levels:
    """Scored rows of a trial, checked and sorted once, to ask for any number of numbers.

    Make them with :meth:`of`. Each method gives what the function of that name in
    :mod:`auucmax.evaluation` gives, without checking and sorting again.

    Examples
    --------
    >>> from auucmax import load_hillstrom
    >>> trial = load_hillstrom()
    >>> levels = Levels.of(trial.y, trial.X["womens"], treatment=trial.treatment)
    >>> levels
    Levels(42,693 rows, 2 different scores)
    >>> print(levels.inference())
    AUUC 0.03045 (95% interval 0.02666 to 0.03424), gain over random +0.00783
    (95% interval 0.00617 to 0.00949), p = 2.3e-20, 42,693 rows
    >>> levels.band(shares=[0.5, 1.0]).uplift.round(4).tolist()
    [0.0369, 0.0452]
    """

    _one_for_all = "one value for all of them"

    def __init__(self, ranked: RankedRows, score: Floats, clusters: Clusters | None) -> None:
        self._ranked, self._score, self._clusters = ranked, score, clusters

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
        rows = check_rows(
            adjusted_outcome(y, outcome_model),
            score,
            treatment=treatment,
            control=control,
            sample_weight=sample_weight,
            propensity=propensity,
            score_name=score_name,
        )
        clusters = None if groups is None else check_groups(groups, len(rows.y))
        if randomised is not None:
            kept = check_mask(randomised, "randomised", len(rows.y))
            rows, clusters = inference.some_rows(rows, clusters, kept)
        return cls.of_rows(rows, clusters)

    @classmethod
    def of_rows(cls, rows: Rows, clusters: Clusters | None = None) -> Levels:
        """Sort rows that have been checked."""
        rows, clusters = inference.with_weight(rows, clusters)
        ranked = sorted_rows(rows)
        return cls(ranked, rows.score, None if clusters is None else clusters[ranked.index])

    def __repr__(self) -> str:
        return f"Levels({self.n_rows:,} rows, {len(self.scores):,} different scores)"

    @property
    def ranked(self) -> RankedRows:
        """The rows in the order of their scores, lowest first."""
        return self._ranked

    @cached_property
    def units(self) -> Units | None:
        """Clusters of rows, in the order of :attr:`ranked`; None if rows are independent."""
        return None if self._clusters is None else Units.of(self.ranked.treated, self._clusters)

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

    def effect(self) -> float:
        """The average effect."""
        return self.ranked.effect()

    def inference(self, level: float = 0.95, ranking: RankingKind = "joint") -> AUUCInference:
        """:func:`auuc_inference` of the rows; intervals are widened by what bins can change."""
        return self._inference(level, ranking, stacklevel=3)

    def _inference(self, level: float, ranking: RankingKind, *, stacklevel: int) -> AUUCInference:
        check_level(level)
        parts, starts = self.ranked.parts(ranking), self.ranked.ranking.starts
        constant = starts is not None and len(starts) == 1
        if constant:
            warnings.warn(
                f"score should tell rows apart, got {self._one_for_all}: AUUC is then ATE/2 and "
                f"the gain over random zero, by definition. Check the model that made it.",
                UserWarning,
                stacklevel=stacklevel,
            )
        estimate = float(sum(part.area() for part in parts))
        gain = estimate - 0.5 * sum(part.effect() for part in parts)
        if self.units is None:
            error, gain_error = inference.part_errors(parts)
        else:
            psi, half_effect = inference.row_terms(self.ranked, ranking)
            error, gain_error = self.units.error(psi), self.units.error(psi - half_effect)
        if constant:  # by definition, and not only up to rounding
            gain, gain_error = 0.0, 0.0 * gain_error
        bin_error, more = self._bin_costs(ranking)

        def widened(value: float, error: float) -> tuple[float, float]:
            low, high = inference.interval_around(value, error + more, level, self._degrees)
            return low - bin_error, high + bin_error

        sure = max(abs(gain) - bin_error, 0.0)
        return AUUCInference(
            estimate=estimate,
            standard_error=error,
            interval=widened(estimate, error),
            gain=gain,
            gain_standard_error=gain_error,
            gain_interval=widened(gain, gain_error),
            p_value=inference.p_value_of(sure, gain_error + more, self._degrees),
            level=level,
            n_rows=self.n_rows,
            bin_error=bin_error,
        )

    def difference(
        self, other: Levels, level: float = 0.95, ranking: RankingKind = "joint"
    ) -> AUUCDifference:
        """:func:`auuc_difference`: AUUC minus that of other scores of the same rows, paired."""
        check_level(level)
        for levels in (self, other):
            if levels.ranked.rows is not None or levels.arm_rows != self.arm_rows:
                raise ValueError(
                    f"a difference should be of two scores of the same rows in memory, got {self} "
                    f"and {other}. Make both from the same rows with Levels.of."
                )
        theirs = np.empty(self.n_rows)
        theirs[other.ranked.index] = inference.row_terms(other.ranked, ranking)[0]
        psi = inference.row_terms(self.ranked, ranking)[0]
        psi -= theirs.take(self.ranked.index)
        estimate = self.auuc(ranking) - other.auuc(ranking)
        if self.units is None:
            error = float(np.sqrt(self.ranked.sum_variance(psi)))
        else:
            error = self.units.error(psi)
        return AUUCDifference(
            estimate=estimate,
            standard_error=error,
            interval=inference.interval_around(estimate, error, level, self._degrees),
            p_value=inference.p_value_of(estimate, error, self._degrees),
            level=level,
            n_rows=self.n_rows,
        )

    @property
    def _degrees(self) -> int:
        return min(self.arm_rows) - 1 if self.units is None else self.units.degrees

    def curve(self, ranking: RankingKind = "joint") -> tuple[Floats, Floats]:
        """:func:`uplift_curve`: shares and gains where the score changes."""
        sums = []
        for part in self.ranked.parts(ranking):
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
        return curves.decile_table(self.ranked, check_whole(bins, "bins", 1), level)

    def band(
        self,
        shares: ArrayLike | None = None,
        ranking: RankingKind = "joint",
        level: float = 0.95,
        random_state: int | Generator | None = 0,
    ) -> UpliftBand:
        """:func:`uplift_band`: the curve with pointwise and simultaneous intervals."""
        check_level(level)
        grid = check_shares(np.linspace(0.05, 1, 39) if shares is None else shares)
        return curves.band_of(self.ranked.parts(ranking), grid, self.units, level, random_state)

    def policy_risk(self, share: float | ArrayLike | None = None) -> float | Floats:
        """:func:`policy_risk` of treating the top share, or everyone with a score above 0."""
        sweep = ArmSweep.of(self.ranked)
        risk = curves.policy_risks(sweep, self._rule(share, sweep))
        return float(risk[0]) if share is None or np.ndim(share) == 0 else risk

    def policy_risk_inference(
        self, share: float | ArrayLike | None = None, level: float = 0.95
    ) -> PolicyRiskInference:
        """:func:`policy_risk_inference`: policy risk with standard errors and intervals."""
        check_level(level)
        sweep = ArmSweep.of(self.ranked)
        shares = self._rule(share, sweep)
        tables = [
            # A few shares at a time: tables are quadratic in their number.
            curves.policy_risk_table(
                Stretches.of(self.ranked, some, sweep), self.units, level, fixed_cut=share is None
            )
            for some in np.array_split(shares, -(-len(shares) // _SHARES_AT_ONCE))
        ]
        table: Any = np.concatenate(tables, axis=1)
        single = share is None or np.ndim(share) == 0
        q, risk, error, lower, upper = map(float, table[:, 0]) if single else table
        return PolicyRiskInference(q, risk, error, (lower, upper), level, self.n_rows)

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


def adjusted_outcome(y: ArrayLike, outcome_model: ArrayLike | None) -> ArrayLike:
    """y - m(x), or y as it came when there is no model."""
    if outcome_model is None:
        return y
    y = check_column(y, "y")
    return y - check_column(outcome_model, "outcome_model", len(y))
