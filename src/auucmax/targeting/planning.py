"""What treating a share of a cohort costs and brings, with intervals for a share chosen later.

With V(q) the uplift curve of held-out trial rows (gain per person of treating the top share q),

    effect among the treated  V(q) / q           of the trial's people above the threshold
    incremental outcomes      N(q) V(q) / q      N(q) people of the cohort above that threshold
    profit                    value * (incremental outcomes) - cost * N(q)

The interval of V at all shares comes from its simultaneous band, so it holds at whatever share is
picked after looking at the table, at the peak of the profit too. The estimate at the peak is the
largest of many noisy ones and so tends to be too high; its interval allows for that.

An :class:`Expectation` holds V, its errors and the quantiles of the trial's scores: all that a plan
needs, in a few hundred numbers and without a row of the trial.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
import pandas as pd
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from auucmax._json import plain as plain_json
from auucmax._json import read
from auucmax._shown import Shown
from auucmax._validation import (
    Bools,
    Floats,
    check_column,
    check_shares,
    check_treatment,
    check_whole,
)
from auucmax.certificates.policies import ShareCertificate, certify_shares
from auucmax.metrics.curves import UpliftBand
from auucmax.metrics.levels import Levels
from auucmax.targeting.policy import Selection, check_money, rounding_of

EVERY_PERCENT = np.linspace(0, 1, 101)
# The normal approximation is poor at smaller shares; nobody (share 0) is exact.
SHARES = np.concatenate([[0.0], np.arange(5, 101) / 100])
LARGE_SHIFT = 0.1
_SIZES_BETS = 0.05  # of the rows that certify a share: not bet on, they size the bets
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
    times, by any of the scores that are compared together. ``above`` and ``below`` are the shares
    of the cohort beyond the trial's scores.
    """

    distance: float
    by_chance: float
    above: float
    below: float

    @property
    def is_large(self) -> bool:
        """More than a tenth of the people, and more than chance explains."""
        return self.distance > max(LARGE_SHIFT, self.by_chance)


@dataclass(frozen=True, eq=False)
class ScoreQuantiles:
    """Which share of the trial's people is above each score, and at it.

    ``score`` (K,) decreases; ``above`` (K,) is the share of people with a higher score, ``reach``
    (K,) that of people with at least this one. Between two scores the share is a straight line:
    with every score of the trial among them nothing lies between, and from some of them
    (:meth:`smoothed`) shares are right to the distance of the two. ``n_rows`` is the number of rows
    behind, less if their weights differ.

    >>> found = ScoreQuantiles.of(np.array([3.0, 1.0, 1.0, 2.0]))
    >>> found.score.tolist(), found.above.tolist(), found.reach.tolist()
    ([3.0, 2.0, 1.0], [0.0, 0.25, 0.5], [0.25, 0.5, 1.0])
    """

    score: Floats
    above: Floats
    reach: Floats
    n_rows: float

    @classmethod
    def of(cls, score: Floats, weight: Floats | None = None) -> Self:
        """The quantiles of all scores, each counted by its weight, (n,), if there are such."""
        levels, code = np.unique(score, return_inverse=True)
        counts = np.bincount(code, weight).astype(np.float64)
        n_rows = len(score) if weight is None else weight.sum() ** 2 / np.sum(weight**2)
        return cls._of_weights(levels[::-1], counts[::-1], float(n_rows))

    @classmethod
    def of_levels(cls, levels: Levels) -> Self:
        """The quantiles of sorted rows, each counted by its weight."""
        weight = levels.ranked.rank_weight
        # Kish's effective size: unequal weights tell less than as many equal ones.
        n_rows = levels.n_rows if weight is None else weight.sum() ** 2 / np.sum(weight**2)
        own = np.diff(levels.ranked.ranking.from_top(weight))
        return cls._of_weights(levels.scores[::-1], own, float(n_rows))

    @classmethod
    def _of_weights(cls, score: Floats, weight: Floats, n_rows: float) -> Self:
        reached = np.cumsum(weight)
        above = np.concatenate([[0.0], reached[:-1]])
        return cls(score, above / reached[-1], reached / reached[-1], n_rows)

    def smoothed(self, least: int) -> Self:
        """Fewer of them, none of which is the score of fewer than ``least`` people.

        Levels of so many people are kept; otherwise the mean score of so many around each per cent,
        or around shares that have so many between them.
        """
        counts = (self.reach - self.above) * self.n_rows
        places = np.concatenate([[0.0], self.reach * self.n_rows])
        sums = np.concatenate([[0.0], np.cumsum(self.score * counts)])
        wide = min(float(least), self.n_rows)
        share = np.linspace(0, 1, int(np.clip(self.n_rows // least, 1, 100)) + 1)
        start = np.clip(share * self.n_rows - wide / 2, 0, self.n_rows - wide)
        mean = (np.interp(start + wide, places, sums) - np.interp(start, places, sums)) / wide
        large = counts >= least - 1e-6
        above = np.concatenate([share, self.above[large]])
        reach = np.concatenate([share, self.reach[large]])
        score = np.concatenate([mean, self.score[large]])
        # A per cent inside a large level is that level.
        inside = (share[:, None] >= self.above[large]) & (share[:, None] <= self.reach[large])
        kept = np.concatenate([~inside.any(axis=1), np.ones(int(large.sum()), dtype=bool)])
        order = np.flatnonzero(kept)[np.lexsort((-score[kept], above[kept]))]
        # Means around neighbouring shares may tie with a level: scores must decrease strictly.
        lowest = np.minimum.accumulate(score[order])
        order = order[np.concatenate([[True], score[order][1:] < lowest[:-1]])]
        return replace(self, score=score[order], above=above[order], reach=reach[order])

    def cut(self, share: Floats) -> tuple[Floats, Floats]:
        """The score that cuts off each share, and the part of the people just at it that it takes.

        Infinite for nobody and minus infinite for everybody, whatever the scores of a cohort.
        """
        shares, scores = self._line()
        # A share that is a level's own but for rounding is cut off by that level, not the next.
        threshold = np.interp(share - 1e-10, shares, scores)
        number = np.minimum(np.searchsorted(-self.score, -threshold), len(self.score) - 1)
        above, level = self.above[number], self.reach[number] - self.above[number]
        is_level = (self.score[number] == threshold) & (level > 0)
        part = np.divide(share - above, level, out=np.ones(len(share)), where=is_level)
        inside = np.clip(part, 0, 1)
        threshold = np.where(share <= 0, np.inf, np.where(share >= 1, -np.inf, threshold))
        return threshold, inside

    def share_of(self, score: float, part: float) -> float:
        """The share of the trial's people above a score, and the given part of those at it."""
        number = int(np.searchsorted(-self.score, -score))
        if number < len(self.score) and self.score[number] == score:
            return float(self.above[number] + part * (self.reach[number] - self.above[number]))
        shares, scores = self._line()
        return float(np.interp(-score, -scores, shares, left=0.0, right=1.0))

    def shift(self, cohort: Floats, n_compared: int = 1) -> ScoreShift:
        """How far the sorted scores of a cohort are from these.

        ``n_compared``: how many scores are compared together, such as those of several arms.
        """
        above, at_least = (
            (len(cohort) - np.searchsorted(cohort, self.score, side=side)) / len(cohort)
            for side in ("right", "left")
        )
        distance = max(np.abs(above - self.above).max(), np.abs(at_least - self.reach).max())
        chance = np.sqrt(np.log(2 * n_compared / 0.001) / 2 * (1 / self.n_rows + 1 / len(cohort)))
        return ScoreShift(
            distance=float(distance),
            by_chance=float(chance),
            above=float(np.mean(cohort > self.score[0])),
            below=float(np.mean(cohort < self.score[-1])),
        )

    def _line(self) -> tuple[Floats, Floats]:
        """Shares that increase and their scores: a level of several people is a flat part."""
        return np.column_stack([self.above, self.reach]).ravel(), np.repeat(self.score, 2)


@dataclass(frozen=True, eq=False)
class Expectation:
    """What treating the top share of the trial's people brings, at a grid of shares.

    ``share`` (J,) starts with 0 and ends with 1 (the grid of a plan may lack the 1); ``uplift``
    (J,) is the curve there and ``standard_error`` (J,) its own; ``lower`` and ``upper`` (J,) are
    the ends of the intervals that hold at all shares together. ``reliable`` (J,): whether the trial
    has rows enough for an interval at this share; if not, its ends are not numbers, and
    ``declined`` says why. ``scores``: those that
    cut off shares of the trial. ``step``: how far apart the shares are at which numbers were kept,
    0 if all were. Between two shares of the grid the curve is a straight line: the
    effect of treating the smaller share or the larger one, by the toss of a coin.
    """

    share: Floats
    uplift: Floats
    standard_error: Floats
    lower: Floats
    upper: Floats
    scores: ScoreQuantiles
    level: float
    n_rows: int
    step: float = 0.0
    declined: str | None = None

    @classmethod
    def of_band(
        cls, band: UpliftBand, levels: Levels, scores: ScoreQuantiles | None = None
    ) -> Self:
        """The expectation from a band of sorted rows; ``scores`` if they are of another model."""
        if not np.isfinite(band.standard_error).all():
            raise ValueError(
                "a plan should have at least two rows (with groups, two clusters) of each arm, got "
                "one in an arm. Pass more rows."
            )
        return cls(
            share=band.share,
            uplift=band.uplift,
            standard_error=band.standard_error,
            lower=band.simultaneous_lower,
            upper=band.simultaneous_upper,
            scores=ScoreQuantiles.of_levels(levels) if scores is None else scores,
            level=band.level,
            n_rows=levels.n_rows,
            declined=band.declined,
        )

    @property
    def reliable(self) -> Bools:
        """Whether there is an interval at each share; nobody treated (0) has none to need."""
        return np.isfinite(self.lower) & (self.share > 0)

    def on(self, share: ArrayLike) -> Expectation:
        """The expectation on another grid, by straight lines between the shares of this one.

        The error of a point on such a line is at most that of the line between the two errors. A
        share is reliable if the one before it is, or one that equals it.
        """
        grid = np.asarray(share, dtype=np.float64)
        known = self.reliable[np.searchsorted(self.share, grid + 1e-9, side="right") - 1]
        # The more people are in the top, the more is known: after a reliable share all are.
        lower, upper = (
            np.where(known, np.interp(grid, self.share, np.nan_to_num(end)), np.nan)
            for end in (self.lower, self.upper)
        )
        return replace(
            self,
            share=grid,
            uplift=np.interp(grid, self.share, self.uplift),
            standard_error=np.interp(grid, self.share, self.standard_error),
            lower=np.where(grid == 0, 0.0, lower),
            upper=np.where(grid == 0, 0.0, upper),
        )

    def is_reliable(self, share: float) -> bool:
        """Whether the trial has rows enough for the gain at a share; nobody (0) is exact."""
        return share == 0 or bool(self.on([share]).reliable[0])

    def share_of(self, selection: Selection) -> float:
        """The part of the trial's people that a selection of a cohort's people stands for."""
        if selection.n_treated == 0:
            return 0.0
        if selection.n_treated == len(selection.treat):
            return 1.0
        part = selection.n_tied_treated / selection.n_tied
        return self.scores.share_of(selection.threshold, part)

    def plan(
        self,
        *,
        new_score: ArrayLike | None = None,
        n_people: int = 1000,
        value: float = 1.0,
        cost: float = 0.0,
        share: ArrayLike = (),
        only_reliable: bool = False,
    ) -> Plan:
        """People, cost, gain and profit at each share; parameters as in :func:`plan`.

        ``share``: more of them. ``only_reliable``: the best share is one that is reliable.
        """
        worth, price = check_money(value, "value"), check_money(cost, "cost")
        # Shares that are added lie on the straight lines of the grid: no other row changes.
        more = np.atleast_1d(np.asarray(share, dtype=np.float64))
        on = self if not len(more) else self.on(_different([*self.share, *more]))
        threshold, inside = self.scores.cut(on.share)
        shift = None
        if new_score is None:
            size = check_whole(n_people, "n_people", 1)
            n_treated = np.rint(on.share * size).astype(np.intp)
        else:
            # A cohort with other scores has more or fewer people above a threshold of the trial.
            cohort = np.sort(check_column(new_score, "new_score"))
            size = len(cohort)
            n_above = size - np.searchsorted(cohort, threshold, side="right")
            n_level = size - np.searchsorted(cohort, threshold, side="left") - n_above
            n_treated = np.asarray(n_above + np.rint(inside * n_level), dtype=np.intp)
            shift = self.scores.shift(cohort)
            if shift.is_large:
                warnings.warn(shift_message(shift), UserWarning, stacklevel=3)
        table = _table(on, threshold, n_treated, worth, price)
        allowed = on.reliable | (on.share == 0) if only_reliable else np.ones(len(table), bool)
        best, cautious = (_row(table, int(table[name].where(allowed).argmax())) for name in _PEAKS)
        return Plan(table, best, cautious, worth, price, size, on, shift)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON: numbers and lists of them."""
        found = {
            name: value.tolist() if isinstance(value, np.ndarray) else value
            for name, value in (vars(self) | vars(self.scores)).items()
            if name not in ("scores", "n_rows")
        } | {"n_rows": self.n_rows, "n_scores": self.scores.n_rows}
        for name in _ENDS:
            found[name] = [value if np.isfinite(value) else None for value in found[name]]
        return found

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Self:
        """Restore what :meth:`to_dict` wrote, or raise a ValueError for anything else."""
        found = read(_PLAIN, plain, "an expectation")
        missing = [[value is None for value in found[name]] for name in _ENDS]
        curve: dict[str, Any] = {n: np.array(found.pop(n), np.float64) for n in _CURVE}
        score, above, reach = (np.array(found.pop(name), np.float64) for name in _SCORES)
        share = curve["share"]
        right = (
            len(share) > 1
            and {len(array) for array in curve.values()} == {len(share)}
            and {len(array) for array in (above, reach)} == {len(score)} != {0}
            and missing[0] == missing[1]
            # After a share with an interval all have one; nobody treated always does.
            and not missing[0][0]
            and missing[0][1:] == sorted(missing[0][1:], reverse=True)
            and not (curve["lower"] > curve["upper"]).any()
            and (np.diff(share) > 0).all()
            and (share[0], share[-1]) == (0, 1)
            and (np.diff(score) < 0).all()
            and (curve["standard_error"] >= 0).all()
            and (above[0], reach[-1]) == (0, 1)
            and (above <= reach).all()
            and (reach[:-1] <= above[1:]).all()
            and 0 < found["level"] < 1
            and found["step"] >= 0
            and min(found["n_rows"], found["n_scores"]) >= 1
        )
        if not right:
            raise ValueError("an expectation should have shares, a curve and scores, got others.")
        scores = ScoreQuantiles(score, above, reach, found.pop("n_scores"))
        return cls(**curve, **found, scores=scores)


# What a file has of an expectation: its curve, its scores, and single numbers.
_ENDS, _SCORES = ("lower", "upper"), ("score", "above", "reach")
_CURVE = ("share", "uplift", "standard_error", *_ENDS)
_PLAIN = (
    {name: [float] for name in (*_CURVE, *_SCORES)}
    | {name: [(float, None)] for name in _ENDS}
    | {"level": float, "step": float, "n_rows": int, "n_scores": float, "declined": (str, None)}
)
_PEAKS = ("profit", "profit_lower")  # by which a share is best, and cautious


@dataclass(frozen=True, repr=False)
class Plan(Shown):
    """Rows of :class:`PlanRow` over a grid of shares, as the frame ``table``.

    ``best`` has the highest expected profit, ``cautious`` the highest lower limit of the profit;
    the smaller share among equals. ``expected`` is what the table was made from. ``certified`` says
    what shares gain at least, if that was asked for.
    """

    table: pd.DataFrame
    best: PlanRow
    cautious: PlanRow
    value: float
    cost: float
    n_people: int
    expected: Expectation
    shift: ScoreShift | None
    certified: ShareCertificate | None = None

    @property
    def certified_profit(self) -> Floats:
        """Profit of all people at least, at each share of ``certified``; empty without it."""
        if self.certified is None:
            return np.empty(0)
        return self.n_people * self.certified.net_lower_bounds(self.value, self.cost)

    @property
    def n_rows(self) -> int:
        """Rows of the trial behind the effects."""
        return self.expected.n_rows

    @property
    def level(self) -> float:
        """Level of the intervals."""
        return self.expected.level

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
        coarse = (
            f" The trial has so few rows of an arm that numbers are kept at every "
            f"{self.expected.step:.0%} of its people only; between, the curve is a straight line."
        )
        why = self.expected.declined
        without = "" if why is None else f" Some intervals cannot be said: {why}."
        return (
            f"People and cost are those of {who}. Effects are those of the trial's people above "
            f"the same threshold, from {self.n_rows:,} rows that were not learnt from: they carry "
            f"over as far as the people treated are like those. Intervals have level "
            f"{self.level:.0%} for all shares together and allow for chance in the trial, not for "
            f"a cohort that is different.{coarse if self.expected.step > FINE else ''}{without}"
        )

    def __str__(self) -> str:
        lines = [
            f"{title}: treat {row.n_treated:,} people (top {row.share:.1%}), cost {row.cost:,.2f}, "
            f"incremental outcomes {row.gain:,.1f} ({_ends(row.gain_lower, row.gain_upper, 1)}), "
            f"profit {row.profit:,.2f} ({_ends(row.profit_lower, row.profit_upper, 2)})"
            for title, row in (
                ("highest expected profit", self.best),
                ("highest lower limit of profit", self.cautious),
            )
        ]
        if not self.cautious.n_treated:
            lines[1] = (
                "highest lower limit of profit: treat nobody; at no share of the grid is a profit "
                f"sure at level {self.level:.0%}"
            )
        if self.certified is not None:
            profit, known = self.certified_profit, self.certified
            lines.append(
                f"highest certified profit: at least {profit.max():,.2f} (all above the cut of "
                f"{known.shares[int(profit.argmax())]:.0%}), with probability "
                f"{1 - known.delta:.4g} at all {len(known.shares)} shares together"
            )
        return "\n".join([*lines, self.population])

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON: rows, the two peaks, shift and ``population``; None for what is infinite."""
        found = {
            "rows": self.table.to_dict("records"),
            "best": self.best._asdict(),
            "cautious": self.cautious._asdict(),
            "shift": None if self.shift is None else self.shift._asdict(),
            "certified": None if self.certified is None else {
                "share": self.certified.shares,
                "share_upper": self.certified.share_upper_bounds,
                "gain": self.n_people * np.array(self.certified.gain_lower_bounds),
                "profit": self.certified_profit,
            },
        }  # fmt: skip
        same = ("value", "cost", "n_people", "n_rows", "level", "population")
        return dict(plain_json(found | {name: getattr(self, name) for name in same}))


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
    outcome_model: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    propensity: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    certify: bool = False,
    outcome_range: tuple[float, float] = (0.0, 1.0),
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
    shares : the grid, to which 0 is added; by default 0, .05, .06, ..., 1. Where the top share
        holds too few rows or responders there is no interval: its ends are not numbers, and
        ``expected.declined`` says why.
    level : of the intervals, for all shares of the grid together.
    outcome_model : predictions of y by a model fitted on other rows, which narrow the intervals;
        see :func:`auuc_score`. Without it outcomes are centred at their mean.
    sample_weight, propensity, groups, control : as in :func:`auuc_inference`.
    certify : also certify what treating all above the cuts of 5%, 10%, ... gains at least, of
        independent rows without weights, by :func:`auucmax.certificates.certify_shares`;
        ``outcome_range``: lowest and highest possible outcome, for that.
    random_state : of the simultaneous band, as in :func:`uplift_band`.

    Examples
    --------
    >>> from auucmax import load_hillstrom
    >>> trial = load_hillstrom()
    >>> score, treatment = trial.X["womens"], trial.treatment
    >>> found = plan(trial.y, score, treatment=treatment, n_people=10_000, value=10, cost=0.2)
    >>> print(found)
    highest expected profit: treat 5,500 people (top 55.0%), cost 1,100.00, incremental outcomes
    401.9 (347.2 to 456.7), profit 2,919.01 (2,372.27 to 3,466.62)
    highest lower limit of profit: ...
    People and cost are those of 10,000 people like those of the trial. ...
    >>> row = found.at(0.3)
    >>> row.n_treated, round(row.gain), round(row.gain_lower), round(row.gain_upper)
    (3000, 220, 190, 250)
    """
    check_money(value, "value"), check_money(cost, "cost")
    known = check_column(score, "score")  # thresholds are scores, not ranks
    levels = Levels.of(
        y, known, treatment=treatment, outcome_model=outcome_model, groups=groups,
        control=control, sample_weight=sample_weight, propensity=propensity,
    )  # fmt: skip
    own = _different([0.0, *(SHARES if shares is None else check_shares(shares))])
    grid = own if share is None else _different([*own, *check_shares(share)])
    critical = None
    if len(grid) > len(own) and _is_fine(own, grid):
        # The multiple of the grid itself, so that one share more changes no other interval.
        critical = levels.band(own, level=level, random_state=random_state).critical
    band = levels.band(grid, level=level, random_state=random_state, critical=critical)
    expected = Expectation.of_band(band, levels)
    found = expected.plan(new_score=new_score, n_people=n_people, value=value, cost=cost)
    if not certify:
        return found
    if not (sample_weight is propensity is groups is None):
        raise ValueError(
            "certify should be asked for independent rows that were treated with one chance, got "
            "weights, propensities or groups. Leave certify=True out."
        )
    arms = check_treatment(treatment, len(known), control=control)
    return replace(found, certified=_certified(y, known, arms, outcome_range))


def _certified(
    y: ArrayLike, score: Floats, treated: Bools, outcome_range: tuple[float, float]
) -> ShareCertificate | None:
    outcome = check_column(y, "y")
    first = np.random.default_rng(0).random(len(outcome)) < _SIZES_BETS
    sizing = outcome[first], None, treated[first]
    rest = outcome[~first], score[~first], treated[~first]
    return certify_shares([sizing, rest], outcome_range=outcome_range)


def _different(shares: ArrayLike) -> Floats:
    """Sorted; one of two that differ by rounding only, or a band would count them twice."""
    grid = np.unique(np.asarray(shares, dtype=np.float64))
    return grid[np.concatenate([[True], np.diff(grid) > 1e-9])]


def _is_fine(own: Floats, grid: Floats) -> bool:
    """Whether each share that was added lies between two of the grid that are close together."""
    more = grid[~np.isin(grid, own)]
    right = np.searchsorted(own, more)
    inside = (right > 0) & (right < len(own))
    return bool(inside.all() and (own[right] - own[right - 1] <= FINE + 1e-9).all())


def _table(
    expected: Expectation, threshold: Floats, n_treated: NDArray[np.intp], value: float, cost: float
) -> pd.DataFrame:
    q = expected.share
    people = np.divide(n_treated, q, out=np.zeros(len(q)), where=q > 0)  # whose top share is n
    table: dict[str, Any] = {"share": q, "threshold": threshold, "n_treated": n_treated}
    table["cost"] = cost * n_treated
    table["effect"] = np.divide(expected.uplift, q, out=np.full(len(q), np.nan), where=q > 0)
    curves = (expected.uplift, expected.lower, expected.upper)
    for end, curve in zip(("", "_lower", "_upper"), curves, strict=True):
        table["gain" + end] = people * curve
    for end in ("", "_lower", "_upper"):
        table["profit" + end] = value * table["gain" + end] - table["cost"]
    return pd.DataFrame(table)


def _row(table: pd.DataFrame, place: int) -> PlanRow:
    return PlanRow(**{name: table[name].iloc[place].item() for name in PlanRow._fields})


def _ends(lower: float, upper: float, digits: int) -> str:
    if not np.isfinite(lower):
        return "interval cannot be said"
    return f"{lower:,.{digits}f} to {upper:,.{digits}f}"


def shift_message(shift: ScoreShift, arm: str | None = None) -> str:
    """A warning that scores, of one of several arms or of the only one, are not the trial's."""
    of_arm = "" if arm is None else f", of the arm {arm!r},"
    return (
        f"the scores of the cohort should be distributed like those of the trial, got{of_arm} a "
        f"largest difference of {shift.distance:.3f} between the shares of people above a "
        f"threshold (chance alone stays below {shift.by_chance:.3f}); {shift.above:.1%} of the "
        f"cohort score higher and {shift.below:.1%} lower than anybody in the trial. The gains are "
        f"those of the trial's people: check that the cohort was scored by the same model from "
        f"the same columns, and plan with care."
    )
