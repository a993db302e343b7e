"""What treating a share of a cohort costs and brings, with intervals for a share chosen later.

With V(q) the uplift curve of held-out trial rows (gain per person of treating the top share q),

    effect among the treated  V(q) / q           of the trial's people above the threshold
    incremental outcomes      N(q) V(q) / q      N(q) people of the cohort above that threshold
    profit                    value * (incremental outcomes) - cost * N(q)

The interval of V at all shares comes from its simultaneous band, so it holds at whatever share is
picked after looking at the table, at the peak of the profit too. The estimate at the peak is the
largest of many noisy ones and so tends to be too high; its interval allows for that.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from auucmax._validation import Floats, check_column, check_rows, check_shares, check_whole
from auucmax.evaluation.curves import ArmSweep, UpliftBand
from auucmax.evaluation.inference import with_weight
from auucmax.evaluation.levels import adjusted_outcome
from auucmax.evaluation.metrics import uplift_band
from auucmax.evaluation.ranking import RankedRows, ranked_parts
from auucmax.targeting.policy import check_money, rounding_of

__all__ = ["EVERY_PERCENT", "Plan", "PlanRow", "ScoreShift", "plan"]

#: For those who tell at which shares there are rows enough, see ``reliable_shares``.
EVERY_PERCENT = np.linspace(0, 1, 101)
# The normal approximation is poor at smaller shares; nobody (share 0) is exact.
SHARES = np.concatenate([[0.0], np.arange(5, 101) / 100])
LARGE_SHIFT = 0.1
FINE = 0.02  # between two shares that are no farther apart the curve hardly moves


class PlanRow(NamedTuple):
    """A share of the trial treated, in numbers of the cohort; intervals hold for all shares.

    ``threshold`` is the lowest score among the top ``share`` of the trial's people (infinite for
    nobody, minus infinite for everybody), ``n_treated`` the people of the cohort who reach it, with
    the same part of those who just do. ``effect`` is the average effect on the trial's people who
    reach it.
    """

    share: float
    threshold: float
    n_treated: int
    cost: float
    effect: float
    gain: float
    gain_lower: float
    gain_upper: float
    profit: float
    profit_lower: float
    profit_upper: float


class ScoreShift(NamedTuple):
    """How differently the cohort's scores are distributed from the trial's.

    ``distance`` is the largest difference, over all thresholds, of the shares of people above it
    (Kolmogorov and Smirnov); two samples of one population exceed ``by_chance`` once in a thousand
    times. ``above`` and ``below`` are the shares of the cohort beyond the trial's scores.
    """

    distance: float
    by_chance: float
    above: float
    below: float

    @property
    def is_large(self) -> bool:
        """More than a tenth of the people, and more than chance explains."""
        return self.distance > max(LARGE_SHIFT, self.by_chance)


@dataclass(frozen=True)
class Plan:
    """Rows of :class:`PlanRow` over a grid of shares, as the frame ``table``.

    ``best`` has the highest expected profit, ``cautious`` the highest lower limit of the profit;
    the smaller share among equals. ``band`` also holds pointwise intervals of the gain per person,
    which are narrower and hold only at a share that was fixed before looking.
    """

    table: pd.DataFrame
    best: PlanRow
    cautious: PlanRow
    value: float
    cost: float
    n_people: int
    n_rows: int
    level: float
    band: UpliftBand
    shift: ScoreShift | None

    def at(self, share: float) -> PlanRow:
        """The row of a share of the grid; its interval holds however the share was chosen."""
        shares = self.table["share"].to_numpy()
        (wanted,) = check_shares(share)
        place = int(np.abs(shares - wanted).argmin())
        if abs(shares[place] - wanted) > 1e-9:
            raise ValueError(
                f"share should be one of the {len(shares)} of the plan, got {share!r}; the nearest "
                f"is {shares[place]:g}. Pass share={share!r} to plan, which adds it to the grid."
            )
        return _row(self.table, place)

    def with_peaks_among(self, allowed: ArrayLike) -> Plan:
        """The same plan, with ``best`` and ``cautious`` among some shares, (J,) booleans.

        Nobody (share 0) is always allowed: its profit is exact.
        """
        some = np.flatnonzero(np.asarray(allowed, dtype=bool) | (self.table["share"] == 0))
        best, cautious = _peaks(self.table, some)
        return replace(self, best=best, cautious=cautious)

    def affordable(self, budget: float) -> PlanRow:
        """The largest share of the grid whose cost is within ``budget``."""
        money = check_money(budget, "budget")
        return _row(
            self.table, int(np.flatnonzero(self.table["cost"] <= money + rounding_of(money))[-1])
        )

    @property
    def population(self) -> str:
        """Whom the numbers are about, in plain words."""
        who = (
            f"{self.n_people:,} people like those of the trial"
            if self.shift is None
            else f"the {self.n_people:,} people of the cohort, counted above each score threshold"
        )
        return (
            f"People and cost are those of {who}. Effects are those of the trial's people above "
            f"the same threshold, from {self.n_rows:,} held-out rows: they carry over as far as "
            f"the people treated are like those. Intervals have level {self.level:.0%} for all "
            f"shares together and allow for chance in the trial, not for a cohort that is "
            f"different."
        )

    def __str__(self) -> str:
        lines = [_sentence("highest expected profit", self.best)]
        if self.cautious.n_treated:
            lines.append(_sentence("highest lower limit of profit", self.cautious))
        else:
            lines.append(
                "highest lower limit of profit: treat nobody; at no share of the grid is a profit "
                f"sure at level {self.level:.0%}"
            )
        return "\n".join([*lines, self.population])

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON: rows, the two peaks, shift and ``population``; None for what is infinite."""
        return {
            "rows": [_plain(_row(self.table, i)) for i in range(len(self.table))],
            "best": _plain(self.best),
            "cautious": _plain(self.cautious),
            "value": self.value,
            "cost": self.cost,
            "n_people": self.n_people,
            "n_rows": self.n_rows,
            "level": self.level,
            "shift": None if self.shift is None else self.shift._asdict(),
            "population": self.population,
        }


def plan(
    y: ArrayLike,
    score: ArrayLike,
    *,
    treatment: ArrayLike,
    new_score: ArrayLike | None = None,
    n_people: int = 1000,
    value: float = 1.0,
    cost: float = 0.0,
    share: float | ArrayLike | None = None,
    shares: ArrayLike | None = None,
    level: float = 0.95,
    outcome_model: float | ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    propensity: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    random_state: int | Generator | None = 0,
    control: Any = None,
) -> Plan:
    """People, cost, incremental outcomes and profit for each share that could be treated.

    Parameters
    ----------
    y, score, treatment : (n,) held-out rows of the trial: outcome (any real numbers), score of a
        model that was not fitted on them, and treatment.
    new_score : (m,) scores of the cohort by the same model. A share q of the trial stands for the
        people of the cohort above the score that cuts off the trial's top q; where the cut falls
        in a level of equal scores, for the same part of the level. A warning says, in numbers, if
        the cohort's scores are distributed differently.
    n_people : size of the cohort when its scores are not known: its people are taken to be like
        those of the trial.
    value, cost : of one unit of the outcome, and of treating one person; 0 or more.
    share : a share, or several, to add to the grid. Between two shares that are at most .02 apart
        that changes no other row.
    shares : the grid, to which 0 is added; by default 0, .05, .06, ..., 1. The intervals are
        asymptotic: they are not to be trusted at shares that hold fewer than some hundred rows of
        an arm, or fewer than some tens of its people with an outcome other than 0.
    level : of the intervals, for all shares of the grid together.
    outcome_model : predictions of y by a model fitted on other rows, or one number near the mean of
        y; narrows the intervals when y is far from 0, see :func:`auuc_score`.
    sample_weight, propensity, groups, control : as in :func:`auuc_inference`.
    random_state : of the simultaneous band, as in :func:`uplift_band`.

    Examples
    --------
    >>> from auucmax import load_hillstrom
    >>> trial = load_hillstrom()
    >>> score, treatment = trial.X["womens"], trial.treatment
    >>> found = plan(trial.y, score, treatment=treatment, n_people=10_000, value=10, cost=0.2)
    >>> print(found)
    highest expected profit: treat 5,500 people (top 55.0%), cost 1,100.00, incremental outcomes
    405.1 (348.1 to 462.0), profit 2,950.64 (2,381.24 to 3,520.05)
    highest lower limit of profit: ...
    People and cost are those of 10,000 people like those of the trial. ...
    >>> row = found.at(0.3)
    >>> row.n_treated, round(row.gain), round(row.gain_lower), round(row.gain_upper)
    (3000, 221, 190, 252)
    """
    worth, price = check_money(value, "value"), check_money(cost, "cost")
    if outcome_model is not None and np.ndim(outcome_model) == 0:
        outcome_model = np.full(len(check_column(y, "y")), outcome_model)
    outcome = adjusted_outcome(y, outcome_model)
    score = check_column(score, "score")  # thresholds are scores, not ranks
    own, grid = _grid(None, shares), _grid(share, shares)
    given = {"treatment": treatment, "control": control}
    given |= {"sample_weight": sample_weight, "propensity": propensity}
    given_band = {"groups": groups, "level": level, "random_state": random_state, **given}
    band = uplift_band(outcome, score, shares=grid, **given_band)
    if len(grid) > len(own) and _is_fine(own, grid):
        band = _widened(band, uplift_band(outcome, score, shares=own, **given_band).critical)
    if not np.isfinite(band.standard_error).all():
        raise ValueError(
            "a plan should have at least two rows (with groups, two clusters) of each arm, got one "
            "in an arm. Hold out more rows."
        )
    rows, _ = with_weight(check_rows(outcome, score, **given), None)
    (part,) = ranked_parts(rows, "joint")
    cuts = _Cuts.of(part, rows.score[part.index], grid)
    shift = None
    if new_score is None:
        size = check_whole(n_people, "n_people", 1)
        n_treated = np.rint(grid * size).astype(np.intp)
    else:
        cohort = np.sort(check_column(new_score, "new_score"))
        size, n_treated = len(cohort), cuts.count(cohort)
        shift = _shift(part, rows.score[part.index], cohort)
        if shift.is_large:
            warnings.warn(_shift_message(shift), UserWarning, stacklevel=2)
    table = _table(band, cuts.threshold, n_treated, worth, price)
    best, cautious = _peaks(table, np.arange(len(table)))
    return Plan(
        table=table,
        best=best,
        cautious=cautious,
        value=worth,
        cost=price,
        n_people=size,
        n_rows=len(rows.y),
        level=level,
        band=band,
        shift=shift,
    )


@dataclass(frozen=True)
class _Cuts:
    """Where each share of the grid cuts the trial's scores.

    Everybody above ``threshold`` (J,) is treated, and the part ``inside`` (J,) of those at it.
    """

    threshold: Floats
    inside: Floats

    @classmethod
    def of(cls, part: RankedRows, sorted_score: Floats, grid: Floats) -> _Cuts:
        sweep, starts = ArmSweep.of(part), part.ranking.starts
        levels = (sorted_score if starts is None else sorted_score[starts])[::-1]
        at = sweep.on_knots(grid)
        number = np.searchsorted(sweep.share, at)  # knots up to the one that reaches the share
        left, right = sweep.share[np.maximum(number - 1, 0)], sweep.share[number]
        threshold = levels[np.maximum(number - 1, 0)]
        inside = np.divide(at - left, right - left, out=np.ones(len(grid)), where=right > left)
        # Nobody and everybody, whatever the scores of the cohort.
        return cls(np.where(at == 0, np.inf, np.where(at == 1, -np.inf, threshold)), inside)

    def count(self, cohort: Floats) -> NDArray[np.intp]:
        """How many of the cohort's sorted scores each cut treats."""
        above = len(cohort) - np.searchsorted(cohort, self.threshold, side="right")
        level = len(cohort) - np.searchsorted(cohort, self.threshold, side="left") - above
        return np.asarray(above + np.rint(self.inside * level), dtype=np.intp)


def _grid(share: float | ArrayLike | None, shares: ArrayLike | None) -> Floats:
    grid = SHARES if shares is None else check_shares(shares)
    more = np.array([]) if share is None else check_shares(share)
    grid = np.unique(np.concatenate([[0.0], grid, more]))
    # One of two shares that differ by rounding only, or the band would count them twice.
    return grid[np.concatenate([[True], np.diff(grid) > 1e-9])]


def _is_fine(own: Floats, grid: Floats) -> bool:
    """Whether each share that was added lies between two of the grid that are close together."""
    more = grid[~np.isin(grid, own)]
    right = np.searchsorted(own, more)
    inside = (right > 0) & (right < len(own))
    return bool(inside.all() and (own[right] - own[right - 1] <= FINE + 1e-9).all())


def _widened(band: UpliftBand, critical: float) -> UpliftBand:
    """The band with another multiple of the standard error."""
    reach = critical * band.standard_error
    return replace(
        band,
        critical=critical,
        simultaneous_lower=band.uplift - reach,
        simultaneous_upper=band.uplift + reach,
    )


def _peaks(table: pd.DataFrame, places: NDArray[np.intp]) -> tuple[PlanRow, PlanRow]:
    """Of some rows, those of the highest profit and of the highest lower limit of it."""
    best, cautious = (
        int(places[table[name].to_numpy()[places].argmax()]) for name in ("profit", "profit_lower")
    )
    return _row(table, best), _row(table, cautious)


def _table(
    band: UpliftBand, threshold: Floats, n_treated: NDArray[np.intp], value: float, cost: float
) -> pd.DataFrame:
    q = band.share
    people = np.divide(n_treated, q, out=np.zeros(len(q)), where=q > 0)  # whose top share is n
    table: dict[str, Any] = {"share": q, "threshold": threshold, "n_treated": n_treated}
    table["cost"] = cost * n_treated
    table["effect"] = np.divide(band.uplift, q, out=np.full(len(q), np.nan), where=q > 0)
    curves = (band.uplift, band.simultaneous_lower, band.simultaneous_upper)
    for end, curve in zip(("", "_lower", "_upper"), curves, strict=True):
        table["gain" + end] = people * curve
    for end in ("", "_lower", "_upper"):
        table["profit" + end] = value * table["gain" + end] - table["cost"]
    return pd.DataFrame(table)


def _row(table: pd.DataFrame, place: int) -> PlanRow:
    values = {name: table[name].iloc[place].item() for name in PlanRow._fields}
    return PlanRow(**values)


def _plain(row: PlanRow) -> dict[str, float | int | None]:
    """JSON has neither infinite numbers nor such that are not one."""
    return {name: v if np.isfinite(v) else None for name, v in row._asdict().items()}


def _sentence(title: str, row: PlanRow) -> str:
    return (
        f"{title}: treat {row.n_treated:,} people (top {row.share:.1%}), cost {row.cost:,.2f}, "
        f"incremental outcomes {row.gain:,.1f} ({row.gain_lower:,.1f} to {row.gain_upper:,.1f}), "
        f"profit {row.profit:,.2f} ({row.profit_lower:,.2f} to {row.profit_upper:,.2f})"
    )


def _shift(part: RankedRows, sorted_score: Floats, cohort: Floats) -> ScoreShift:
    """Both samples sorted from the lowest score; the trial's rows count by their weights."""
    weight = np.ones(len(sorted_score)) if part.weight is None else part.weight
    reached = np.concatenate([[0.0], np.cumsum(weight)]) / weight.sum()
    levels = np.concatenate([sorted_score, cohort])
    trial_below = reached[np.searchsorted(sorted_score, levels, side="right")]
    cohort_below = np.searchsorted(cohort, levels, side="right") / len(cohort)
    effective = float(weight.sum() ** 2 / np.sum(weight**2))
    chance = np.sqrt(np.log(2 / 0.001) / 2 * (1 / effective + 1 / len(cohort)))
    return ScoreShift(
        distance=float(np.abs(trial_below - cohort_below).max()),
        by_chance=float(chance),
        above=float(np.mean(cohort > sorted_score[-1])),
        below=float(np.mean(cohort < sorted_score[0])),
    )


def _shift_message(shift: ScoreShift) -> str:
    return (
        f"new_score should be distributed like the scores of the trial, got a largest difference "
        f"of {shift.distance:.3f} between the shares of people above a threshold (chance alone "
        f"stays below {shift.by_chance:.3f}); {shift.above:.1%} of the cohort score higher and "
        f"{shift.below:.1%} lower than anybody in the trial. The gains are those of the trial's "
        f"people: check that the cohort was scored by the same model from the same columns, and "
        f"plan with care."
    )
