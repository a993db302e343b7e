"""Levels: rows sorted once by score, from which every metric is computed.

A level is all rows of one score. For rows in memory each distinct score is a level, and results are
exact. For rows that do not fit into memory, levels are bins of scores: see
:class:`auucmax.metrics.BinnedLevels`, which answers the same questions by the same functions.
"""

from __future__ import annotations

import warnings
from functools import cached_property
from typing import Any, TypedDict

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
from auucmax.metrics import inference
from auucmax.metrics.curves import (
    ArmSegments,
    ArmSweep,
    PolicyRiskInference,
    UpliftBand,
    allowing_for_folds,
    band_of,
    fewest,
    policy_cells,
    risk_table,
)
from auucmax.metrics.inference import AUUCDifference, AUUCInference, ClusterUnits, Support
from auucmax.metrics.intervals import (
    ArmMean,
    Moments,
    Spread,
    area_limits,
    ratio,
    small_sample,
    student,
)
from auucmax.metrics.ranking import Indices, RankedRows, RankingKind, rarer_outcome, sorted_rows


class RowOptions(TypedDict, total=False):
    """Options of all metrics: row attributes other than y, score and treatment.

    sample_weight : (n,) weights; an integer weight equals that many copies of the row.
    propensity : scalar or (n,) probability of treatment, for trials whose treatment share was made
        to depend on x. Arm means are then weighted by its inverse.
    control : label of the control group, when ``treatment`` is not 0/1; "control" by default.
    outcome_model : (n,) predictions m(x) of the outcome, by a model fitted on *other* rows: arm
        means are then those of y - m(x), see :func:`auuc_score`.
    groups : (n,) label of the cluster (household, shop) of each row, for standard errors.
    randomised : (n,) True for rows that were randomised; the others are left out, ranks included.
    """

    sample_weight: ArrayLike | None
    propensity: ArrayLike | None
    control: Any
    outcome_model: ArrayLike | None
    groups: ArrayLike | None
    randomised: ArrayLike | None


class Levels:
    """Validated scored rows, sorted once, with methods for all metrics.

    Make them with :meth:`of`. The functions of :mod:`auucmax.metrics` call one method each; several
    methods of one object validate and sort once.

    Examples
    --------
    >>> from auucmax import load_hillstrom
    >>> trial = load_hillstrom()
    >>> levels = Levels.of(trial.y, trial.X["womens"], treatment=trial.treatment)
    >>> levels
    Levels(42,693 rows, 2 different scores)
    >>> print(levels.inference())
    The ranking beats random targeting: gain +0.00768 (0.00612 to 0.00923) per person, p < 0.0001.
      AUUC  0.03045 (0.02666 to 0.03425)
      Rows  42,693, intervals at 95%
    >>> levels.band(shares=[0.5, 1.0]).uplift.round(4).tolist()
    [0.0366, 0.0452]
    """

    def __init__(
        self, rows: ScoredRows, clusters: Indices | None = None, responds: Bools | None = None
    ) -> None:
        """Sort validated rows with positive weights; ``responds`` as in :class:`RankedRows`."""
        self.ranked = sorted_rows(rows, clusters, responds)
        self._score = rows.score

    @classmethod
    def of(
        cls,
        y: ArrayLike,
        score: ArrayLike,
        *,
        treatment: ArrayLike,
        outcome_model: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        randomised: ArrayLike | None = None,
        score_name: str = "score",
        **rows: Any,
    ) -> Levels:
        """Validate and sort rows; options are those of :class:`RowOptions`.

        ``score_name`` is what messages call the score.
        """
        responds = None
        if outcome_model is not None:
            y = check_column(y, "y")
            responds = rarer_outcome(y)
            y = y - check_column(outcome_model, "outcome_model", len(y))
        scored = check_rows(y, score, treatment=treatment, score_name=score_name, **rows)
        clusters = None if groups is None else check_groups(groups, len(scored.y))
        kept = np.ones(len(scored.y), bool)
        if randomised is not None:
            kept = check_mask(randomised, "randomised", len(scored.y))
        if scored.weight is not None:  # rows of weight 0 say nothing, and must not count as rows
            kept = kept & (scored.weight > 0)
        scored, clusters = inference.some_rows(scored, clusters, kept)
        return cls(scored, clusters, None if responds is None else responds[kept])

    def __repr__(self) -> str:
        return f"Levels({self.n_rows:,} rows, {len(self.scores):,} different scores)"

    @cached_property
    def centred(self) -> RankedRows:
        """:attr:`ranked` with centred outcomes, for gains and differences."""
        return self.ranked.less(self.ranked.mean())

    @cached_property
    def units(self) -> ClusterUnits | None:
        """Clusters of the sorted rows; None if rows are independent."""
        rows = self.ranked
        return None if rows.clusters is None else ClusterUnits(rows.treated, rows.clusters)

    @cached_property
    def support(self) -> Support:
        """Rows (or clusters) and responders of each arm that support intervals."""
        return self._support(self.units)

    def _support(self, units: ClusterUnits | None) -> Support:
        rows = self.ranked
        weight = rows.arm_weight if rows.is_weighted else None
        return inference.support_of_rows(
            rows.y, rows.treated, weight, units, rows.responds, binary=self.binary
        )

    @property
    def binary(self) -> bool:
        """Whether every outcome is 0 or 1."""
        return np.array_equal(np.square(self.ranked.y), self.ranked.y)

    @cached_property
    def scores(self) -> Floats:
        """The score of each level, lowest first."""
        rows = self.ranked
        return self._score.take(rows.order if rows.starts is None else rows.order[rows.starts])

    @property
    def n_rows(self) -> int:
        return sum(self.arm_rows)

    @property
    def arm_rows(self) -> tuple[int, int]:
        """Number of control and of treated rows."""
        return self.ranked.arm_rows

    def auuc(self, ranking: RankingKind = "joint") -> float:
        """:func:`auuc_score` of the rows."""
        return float(sum(part.area() for part in self.ranked.parts(ranking)))

    def gain(self, ranking: RankingKind = "joint") -> float:
        """Gain over random from centred outcomes, as in :meth:`inference`."""
        return float(sum(part.area() - part.effect() / 2 for part in self.centred.parts(ranking)))

    def effect(self) -> float:
        """The average effect."""
        return self.ranked.effect()

    def inference(
        self, level: float = 0.95, ranking: RankingKind = "joint", *, cross_fitted: bool = False
    ) -> AUUCInference:
        """:func:`auuc_inference` of the rows, with intervals widened for bins.

        ``cross_fitted``: models of several folds ranked the rows, each trained on the rows of
        the others, so the variance of the gain counts twice.
        """
        check_level(level)
        ranked, support = self.ranked, self.support
        estimate, gain = self.auuc(ranking), self.gain(ranking)
        terms = inference.row_terms(ranked, ranking)
        moments = self._moments(ranked, *terms, full=support.shape == "skewed")
        terms = inference.row_terms(self.centred, ranking, less_half_effect=True)
        error, spread = Spread.of(moments).error, Spread.of(self._moments(self.centred, *terms))
        constant = len(self.scores) == 1
        if constant:
            warnings.warn(
                "score should tell rows apart, got one value for all of them: AUUC is then ATE/2 "
                "and the gain over random zero, by definition. Check the model that made it.",
                UserWarning,
                stacklevel=2,
            )
            # By definition, and not only up to rounding.
            gain, spread = 0.0, spread._replace(error=0.0 * spread.error)
        widening = float(np.hypot(1.0, spread.error / error)) if cross_fitted and error else 1.0
        (bin_error, more), (gain_bin_error, gain_more) = self._bin_costs(ranking)
        # Degrees that bins cannot lower: intervals then contain those of the exact scores.
        degrees = max(min(self.arm_rows) - 1, 1) if bin_error + more else None
        ranks, multiple = ranked.middle_ranks(), ndtri(0.5 + level / 2)
        means = None
        if support.shape == "binary":
            parts = ranked.parts(ranking)
            means = inference.area_means(parts, moments, clustered=support.clustered)
        low, high = area_limits(
            estimate, moments, multiple, support,
            means=means, widening=widening, degrees=degrees,
            least=inference.least_error(ranked, support.deviation[0], ranks),
        )  # fmt: skip
        slack = bin_error + more * float(student(multiple, degrees or 1))
        declined = support.why_no_area()
        test = self._test(
            gain, spread, ranks - 0.5, level, cross_fitted,
            more=gain_more, slack=gain_bin_error, degrees=degrees, constant=constant,
        )  # fmt: skip
        return AUUCInference(
            estimate=estimate,
            standard_error=float(widening * error),
            interval=(np.nan, np.nan) if declined else (float(low - slack), float(high + slack)),
            gain=gain,
            gain_standard_error=test.standard_error,
            gain_interval=test.interval,
            p_value=test.p_value,
            level=level,
            n_rows=self.n_rows,
            bin_error=max(bin_error, gain_bin_error),
            declined=declined,
            gain_declined=test.declined,
        )

    def _moments(
        self, ranked: RankedRows, psi: Floats, slope: Floats, *, full: bool = False
    ) -> list[Moments]:
        """Moments of row terms by arm, or of their sums within clusters.

        Without ``full`` the third and fourth are 0: 0/1 outcomes do not need them, bins lack them.
        """
        if self.units is not None:
            return self.units.moments(self.units.totals(psi))
        if full:
            return [Moments.of(psi[ranked.treated == arm]) for arm in (True, False)]
        variances = ranked.sum_variances(psi, slope)
        return [Moments(ranked.arm_rows[arm], variances[arm]) for arm in (1, 0)]

    def _test(
        self,
        estimate: float,
        spread: Spread,
        contrast: Floats,
        level: float,
        cross_fitted: bool,
        *,
        constant: bool = False,
        **bins: Any,
    ) -> AUUCDifference:
        """Test of a gain or difference.

        ``contrast``: by how much the rank of each line is above the middle, or that of another
        score. ``constant``: of one score for all, of which the gain is known.
        """
        rows, error = self.ranked, spread.error
        if error > 0:  # else there is no gain, by definition
            error = max(error, inference.least_error(rows, self.support.deviation[1], contrast))
        spread = spread._replace(error=error * (np.sqrt(2) if cross_fitted else 1.0))
        carried = tuple(
            inference.effective_share(contrast, rows.arm_presence(arm)) for arm in (False, True)
        )
        declined = None if constant else self.support.why_no_gain(carried)
        return inference.student_test(
            estimate, spread, level, self.support, declined, self.n_rows, **bins
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
            if levels.ranked.squares is not None or levels.arm_rows != self.arm_rows:
                raise ValueError(
                    f"a difference should be of two scores of the same rows in memory, got {self} "
                    f"and {other}. Make both from the same rows with Levels.of."
                )
        # Terms and ranks of the other score in the order of this one: paired row by row.
        place = np.empty(self.n_rows, dtype=np.intp)
        place[other.ranked.order] = np.arange(self.n_rows)
        place = place.take(self.ranked.order)
        psi, none = inference.row_terms(self.centred, ranking)
        psi -= inference.row_terms(other.centred, ranking)[0].take(place)
        contrast = self.ranked.middle_ranks() - other.ranked.middle_ranks().take(place)
        spread = Spread.of(self._moments(self.centred, psi, none))
        estimate = self.gain(ranking) - other.gain(ranking)  # the average effect cancels
        return self._test(estimate, spread, contrast, level, cross_fitted)

    def curve(
        self, ranking: RankingKind = "joint", *, centred: bool = False
    ) -> tuple[Floats, Floats]:
        """:func:`uplift_curve`: shares and gains where the score changes.

        ``centred``: of outcomes less their mean, the curve that :meth:`band` encloses.
        """
        centre = self.ranked.mean() if centred else 0.0
        sweeps = [ArmSweep(part) for part in self.ranked.parts(ranking)]
        if ranking == "joint":
            return sweeps[0].share, sweeps[0].curve(centre)
        knots = np.union1d(sweeps[0].share, sweeps[1].share)
        uplift = [np.interp(knots, own.share, own.curve(centre)) for own in sweeps]
        return knots, uplift[0] + uplift[1]

    def qini_curve(self) -> tuple[Floats, Floats]:
        """:func:`qini_curve`: shares and values where the score changes."""
        sweep = ArmSweep(self.ranked)
        treated, control = sweep.people[True], sweep.people[False]
        scaled = sweep.outcome[False] * ratio(treated, control)
        return sweep.share, (sweep.outcome[True] - scaled) / treated[-1]

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
            sweep = ArmSweep(part)
            for arm, sign in part.arms:
                uplift += sign * sweep.mean_at(shares, arm)[1]
        return uplift if np.ndim(share) else float(uplift[0])

    def deciles(self, bins: int = 10, level: float = 0.95) -> pd.DataFrame:
        """:func:`uplift_by_decile`: the average effect in each tenth of the people."""
        check_level(level)
        bins = check_whole(bins, "bins", 1)
        rows = self.ranked
        # Rows count as independent here, whatever their clusters.
        support = self._support(None)
        # A tied level stays whole: it goes where its middle lies.
        number = np.minimum(((1 - rows.middle_ranks()) * bins).astype(int), bins - 1)

        cell = number + bins * rows.treated

        def sums(values: Floats | Bools) -> Floats:
            """Sums over the control (0) and the treated (1) rows of each bin, (2, bins)."""
            return np.bincount(cell, values, 2 * bins).astype(float).reshape(2, bins)

        n, people = sums(rows.rows), sums(rows.arm_weight)
        mean = ratio(sums(rows.outcome), people, np.nan)
        squares = sums(rows.squares_around(np.nan_to_num(mean).ravel()[cell]))
        variance = ratio(squares, people**2, np.nan) * small_sample(n)
        means = None
        if support.shape == "binary":
            means = [
                ArmMean(mean[arm], 1.0, 1.0, np.maximum(n[arm], 1), sign)
                for arm, sign in ((1, 1), (0, -1))
            ]
        uplift = mean[1] - mean[0]
        ends = area_limits(
            uplift, [Moments(n[arm], variance[arm]) for arm in (1, 0)], ndtri(0.5 + level / 2),
            support, means=means, degrees=np.maximum(n.min(axis=0) - 1, 1),
        )  # fmt: skip
        few = (sums(rows.y != 0) < support.least_in_top).any(axis=0) & (support.shape == "skewed")
        lower, upper = np.where(few, np.nan, ends)
        counts = n.astype(np.intp)
        table = {
            "rows": counts.sum(axis=0),
            "treated": counts[1],
            "control": counts[0],
            "mean_treated": mean[1],
            "mean_control": mean[0],
            "uplift": uplift,
            "standard_error": np.sqrt(variance.sum(axis=0)),
            "lower": lower,
            "upper": upper,
        }
        return pd.DataFrame(table, index=pd.RangeIndex(1, bins + 1, name="bin"))

    def band(
        self,
        shares: ArrayLike | None = None,
        ranking: RankingKind = "joint",
        level: float = 0.95,
        random_state: int | Generator | None = 0,
        *,
        cross_fitted: bool = False,
    ) -> UpliftBand:
        """:func:`uplift_band`: the centred curve with pointwise and simultaneous intervals.

        ``cross_fitted`` as in :meth:`inference`, for shares that end with 1.
        """
        check_level(level)
        grid = check_shares(np.linspace(0.05, 1, 39) if shares is None else shares)
        units, support, centre = self.units, self.support, self.ranked.mean()
        is_binary = support.shape == "binary"
        uplift, covariance = np.zeros(len(grid)), np.zeros((len(grid), len(grid)))
        squares = np.zeros(len(grid))  # of what multiplies the outcomes of rows
        totals: Any = 0.0  # of clusters
        moments, sums, counted = [], [], []  # of treated, of control
        for part in self.ranked.parts(ranking):
            sweep = ArmSweep(part)
            curve = sweep.curve(centre)
            uplift += np.interp(sweep.on_knots(grid), sweep.share, curve)
            for arm, sign in part.arms:
                segments = ArmSegments(part, arm, grid, sweep)
                in_top, share, rows = segments.in_top, segments.share, part.arm_rows[arm]
                people = sweep.people[arm]
                size = sign / people[-1]
                outcome = sweep.outcome[arm] - centre * people
                mean = np.interp(share, sweep.share, outcome) / people[-1]  # H_g
                centred = size * ((segments.centre - centre) * in_top - mean)
                # The cut is estimated too: what that adds is the slope times its error.
                cut = segments.slope(curve) * (share - in_top) / part.total_weight
                factors = np.stack([size * in_top, centred, cut])
                if support.deviation[0] > 0:
                    squares += segments.sums(part.arm_presence(arm) ** 2) @ factors[0] ** 2
                if units is not None:
                    totals += segments.cluster_totals(factors, units)
                else:
                    own = segments.covariance(factors) * small_sample(rows)
                    covariance += own
                    moments.append(Moments(rows, np.maximum(np.diag(own), 0)))
                    if part.squares is None and not is_binary:
                        moments[-1] = segments.moments(factors)
                if is_binary:
                    won = segments.sums(part.arm_outcome(arm))
                    rare = won if centre <= 0.5 else segments.rows() - won
                    turned = sign if centre <= 0.5 else -sign
                    sums.append((rows, (rare @ in_top, rare @ in_top**2), turned))
                kinds = part.rows, part.responders, part.rows - part.responders
                counted.append([segments.in_top_counts(chosen) for chosen in kinds])
        if units is not None:
            moments, covariance = units.moments(totals), units.covariance(totals)
        return band_of(
            grid,
            uplift,
            covariance,
            moments,
            support,
            sums=sums,
            counted=fewest(support, *np.moveaxis(np.array(counted), 1, 0)),
            nobody=grid == 0,
            least=support.deviation[0] * np.sqrt(squares),
            level=level,
            random_state=random_state,
            folds=allowing_for_folds(grid, covariance) if cross_fitted else None,
        )

    def policy_risk(self, share: float | ArrayLike | None = None) -> float | Floats:
        """:func:`policy_risk` of treating the top share, or everyone with a score above 0."""
        sweep = ArmSweep(self.ranked)
        chance, _, mean = policy_cells(sweep, self._rule(share, sweep))
        risk = 1 - (chance * mean).sum(axis=0)
        return float(risk[0]) if share is None or np.ndim(share) == 0 else risk

    def policy_risk_inference(
        self, share: float | ArrayLike | None = None, level: float = 0.95
    ) -> PolicyRiskInference:
        """:func:`policy_risk_inference`: policy risk with standard errors and intervals."""
        check_level(level)
        sweep = ArmSweep(self.ranked)
        shares = self._rule(share, sweep)
        table: Any
        declined: Any
        table, declined = risk_table(
            self.ranked, sweep, shares, self.units, self.support, level, fixed_cut=share is None
        )
        if share is None or np.ndim(share) == 0:
            table, declined = table[:, 0].tolist(), declined[0]
        q, risk, error, lower, upper = table
        return PolicyRiskInference(q, risk, error, (lower, upper), level, self.n_rows, declined)

    def _rule(self, share: float | ArrayLike | None, sweep: ArmSweep) -> Floats:
        """The given shares, or the share of people with scores above 0."""
        if share is not None:
            return sweep.on_knots(check_shares(share))
        return sweep.share[[np.count_nonzero(self.scores > 0)]]

    def _bin_costs(self, ranking: RankingKind) -> tuple[tuple[float, float], ...]:
        """What bins cost AUUC and its standard error, and the gain: 0, since scores are exact."""
        return (0.0, 0.0), (0.0, 0.0)
