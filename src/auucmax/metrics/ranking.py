"""Rows sorted by score; all handling of ties, weights and propensities is here.

Everything that evaluation needs is a cumulative sum over rows in the order of their scores. Rows
of equal score form one *level*; a row counts half of its own level as below it and half as above,
which is what breaking ties at random gives on average. So a result never depends on row order.

Sorting is the largest cost. ``np.sort`` of 64-bit integers is several times faster than
``np.argsort`` of the same numbers, so :func:`rank_rows` sorts integers that hold the leading bits
of a score and, below them, the row's number; the few rows that agree in all the leading bits are
then reordered.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from auucmax._validation import Bools, Floats, ScoredRows, check_choice
from auucmax.metrics.intervals import small_sample

Indices = NDArray[np.intp]
RankingKind = Literal["joint", "separate"]
RANKINGS = ("joint", "separate")


@dataclass(frozen=True)
class Ranking:
    """Sorted rows in levels of equal score, lowest first.

    ``order`` (n,) holds row numbers, ties in row order; ``starts`` (number of levels,) the
    position at which each level begins, or None when no two scores are equal.
    """

    order: Indices
    starts: Indices | None

    def level_sums(self, values: Floats) -> Floats:
        """Sum of sorted ``values`` in each level."""
        return values if self.starts is None else np.add.reduceat(values, self.starts)

    def spread(self, per_level: Floats) -> Floats:
        """Expand level values to sorted rows."""
        if self.starts is None:
            return per_level
        return np.repeat(per_level, np.diff(self.starts, append=len(self.order)))

    def mid_cumsum(self, values: Floats) -> Floats:
        """Sum of ``values`` below each sorted row, plus half of its level."""
        sums = self.level_sums(values)
        below = np.cumsum(sums)
        below -= 0.5 * sums
        return self.spread(below)

    def from_top(self, values: Floats) -> Floats:
        """Cumulative sums of ``values`` over the highest 0, 1, 2, ... levels."""
        return np.append(0.0, np.cumsum(self.level_sums(values)[::-1]))


def rank_rows(score: Floats) -> Ranking:
    """Sort rows by score in O(n log n), with little overhead over an integer sort."""
    # Unsigned integers in the order of the scores (0.0 equals -0.0): a positive double orders like
    # its bits with the sign bit set, a negative one like all its bits inverted.
    signed = (score + 0.0).view(np.int64)
    signed ^= (signed >> 63) | np.int64(-(2**63))
    keys = signed.view(np.uint64)
    # The low bits hold the row's number, so that sorted keys name their rows, ties in row order.
    row_mask = np.uint64((1 << max(1, (len(score) - 1).bit_length())) - 1)
    dropped = bool((keys & row_mask).any())  # whether any score has bits below the leading ones
    keys &= ~row_mask
    keys |= np.arange(len(score), dtype=np.uint64)
    keys.sort()
    tied = (keys[1:] ^ keys[:-1]) <= row_mask  # in all leading bits with the next row
    keys &= row_mask
    order = keys.view(np.int64)
    if not tied.any():
        return Ranking(order, None)
    if dropped:
        # Only rows that agree with a neighbour in all leading bits can be out of order.
        places = np.flatnonzero(np.append(tied, False) | np.append(False, tied))
        linked = tied[places[:-1]]  # to the next of these places
        values = score[order[places]]
        if (linked & (values[1:] < values[:-1])).any():
            in_order = np.lexsort((values, np.append(0, np.cumsum(~linked))))
            order[places] = order[places[in_order]]
            values = values[in_order]
        tied[places[:-1]] = linked & (values[1:] == values[:-1])
    starts = np.flatnonzero(np.append(True, ~tied))
    return Ranking(order, None if len(starts) == len(score) else starts)


def arm_sums(values: Floats, treated: Bools) -> tuple[float, float]:
    """Sums over the control and the treated lines."""
    # Not np.dot: its threads cost more than they save on so little.
    of_treated = float((values * treated).sum())
    return float(values.sum()) - of_treated, of_treated


def rarer_outcome(y: Floats) -> Bools:
    """Rows with a non-zero outcome; for 0/1 outcomes, with the rarer one."""
    found = y != 0
    is_common = 2 * int(np.count_nonzero(found)) > len(y)
    return ~found if is_common and bool((y[found] == 1).all()) else found


@dataclass(frozen=True)
class RankedRows(Ranking):
    """Rows ranked together, lowest score first: both arms (joint) or one.

    In memory each row is a line. With bins, a line is the control or the treated rows of a bin:
    ``y`` is then the sum of their outcomes, ``squares`` that of y^2, and ``weight``, ``arm_weight``
    and ``rows`` are their number. Every formula is linear or quadratic in y within a level, so one
    function serves both kinds of lines.

    ``weight`` enters the ranks, ``arm_weight`` (weight over the probability of the row's own arm)
    the arm's mean; ``is_weighted``: rows may differ in them. ``order`` is the row's number in the
    caller's arrays. ``clusters``: codes of rows that belong together. ``responds``: where y is
    adjusted by a model, the rows with the rarer outcome, or an outcome other than 0.
    """

    y: Floats
    treated: Bools
    weight: Floats
    arm_weight: Floats
    rows: Floats
    is_weighted: bool = False
    squares: Floats | None = None
    clusters: Indices | None = None
    responds: Bools | None = None

    @cached_property
    def total_weight(self) -> float:
        return float(self.weight.sum())

    @cached_property
    def arm_rows(self) -> tuple[int, int]:
        """Number of control and of treated rows; 0 if this ranking does not contain the arm."""
        treated = self.treated if self.squares is None else self.rows * self.treated
        n_treated = int(treated.sum())
        return int(self.rows.sum()) - n_treated, n_treated

    @cached_property
    def arm_totals(self) -> tuple[float, float]:
        """Sum of the weights of the control and of the treated rows."""
        return arm_sums(self.arm_weight, self.treated) if self.is_weighted else self.arm_rows

    @cached_property
    def responders(self) -> Floats:
        """Rows of each line with the rarer outcome, or one other than 0; of bins the sum of y."""
        if self.squares is not None:
            return self.y  # only 0/1 outcomes show who responded, and others do not need it
        return self.rows * (rarer_outcome(self.y) if self.responds is None else self.responds)

    @property
    def arms(self) -> list[tuple[bool, int]]:
        """The arms present, treated first, each with the sign of its mean in an effect."""
        return [(arm, sign) for arm, sign in ((True, 1), (False, -1)) if self.arm_rows[arm]]

    @property
    def outcome(self) -> Floats:
        """Weighted outcome of each line."""
        return self.arm_weight * self.y if self.is_weighted else self.y

    def arm_outcome(self, arm: bool) -> Floats:
        """Weighted outcome of the arm's rows, 0 elsewhere."""
        return self.outcome * (self.treated == arm)

    def arm_presence(self, arm: bool) -> Floats:
        """Weight of the arm's rows, 0 elsewhere."""
        return self.arm_weight * (self.treated == arm)

    def arm_scale(self) -> Floats:
        """+1 / A_T for treated lines, -1 / A_C for control lines, A the sum of the arm."""
        # An arm that is not there has no lines.
        control, treated = np.maximum(self.arm_totals, np.finfo(float).tiny)
        return np.take([-1 / control, 1 / treated], self.treated.view(np.int8))

    def signed_outcome(self) -> Floats:
        """Contribution of each line to the effect: +a y / A_T treated, -a y / A_C control."""
        signed = self.arm_scale()
        signed *= self.outcome
        return signed

    def middle_ranks(self) -> Floats:
        """Share of rows below each line, plus half of its ties."""
        below = self.mid_cumsum(self.weight)
        below /= self.total_weight
        return below

    def area(self) -> float:
        """Treated area minus control area, for the arms ranked here."""
        # Sums first, the ratio last: with 0/1 outcomes and no weights every sum is a whole number
        # of halves, so the result is exact whatever the order of the rows.
        return self._difference(self.mid_cumsum(self.weight), self.total_weight)

    def effect(self) -> float:
        """Mean treated outcome minus mean control outcome, for the arms ranked here."""
        return self._difference(1.0, 1.0)

    def _difference(self, factor: Floats | float, unit: float) -> float:
        sums = arm_sums(self.outcome * factor, self.treated)
        return sum(sign * sums[arm] / (unit * self.arm_totals[arm]) for arm, sign in self.arms)

    def mean(self) -> float:
        """Weighted mean outcome of all rows."""
        outcome = self.weight * self.y if self.is_weighted else self.y
        return float(outcome.sum()) / self.total_weight

    def less(self, constant: float) -> RankedRows:
        """Subtract a constant from every outcome."""
        squares = None if self.squares is None else self.squares_around(constant)
        return replace(self, y=self.y - constant * self.rows, squares=squares)

    def squares_around(self, centre: float | Floats) -> Floats:
        """Sum over the rows of each line of [a (y - centre)]^2."""
        if self.squares is None:
            distance = self.y - centre
            if self.is_weighted:
                distance *= self.arm_weight
            return distance * distance
        return np.maximum(self.squares - centre * (2 * self.y - centre * self.rows), 0.0)

    def sum_variances(self, terms: Floats, slope: Floats) -> Floats:
        """Variance of each arm's sum of row terms: n_g times their sample variance.

        ``terms`` holds the sum of each line; where a line is many rows, their terms differ by
        ``slope`` times the difference of their y. Not a number if an arm has a single row.
        """
        means = np.divide(arm_sums(terms, self.treated), np.maximum(self.arm_rows, 1))
        mean = means.take(self.treated.view(np.int8))
        if self.squares is None:
            squares = np.square(terms - mean)
        else:
            rows = np.maximum(self.rows, 1.0)
            within = slope**2 * np.maximum(self.squares - self.y**2 / rows, 0.0)
            squares = self.rows * (terms / rows - mean) ** 2 + within
        return small_sample(self.arm_rows) * arm_sums(squares, self.treated)

    def parts(self, ranking: str) -> tuple[RankedRows, ...]:
        """Itself (``"joint"``), or the two arms ranked separately."""
        check_choice(ranking, "ranking", RANKINGS)
        return (self,) if ranking == "joint" else self._apart

    @cached_property
    def _apart(self) -> tuple[RankedRows, ...]:
        """The treated and the control rows, each ranked separately."""
        found = []
        for arm in (True, False):
            kept = np.flatnonzero(self.treated == arm)  # much faster than taking by a mask
            starts = self.starts
            if starts is not None:
                sizes = np.diff(np.searchsorted(kept, starts), append=len(kept))
                sizes = sizes[sizes > 0]
                starts = None if len(sizes) == len(kept) else np.cumsum(sizes) - sizes
            columns: dict[str, Any] = {
                name: None if (own := getattr(self, name)) is None else own.take(kept)
                for name in ("order", "y", "treated", "rows", "squares", "clusters", "responds")
            }
            # Within an arm the ranks must refer to the same population as the mean.
            weight = self.arm_weight.take(kept)
            found.append(replace(self, **columns, starts=starts, weight=weight, arm_weight=weight))
        return tuple(found)


def sorted_rows(
    rows: ScoredRows, clusters: Indices | None = None, responds: Bools | None = None
) -> RankedRows:
    """Sort all rows by score."""
    ranking = rank_rows(rows.score)
    order = ranking.order
    weight = arm_weight = ones = np.broadcast_to(1.0, len(order))  # takes no memory
    if rows.weight is not None:
        weight = arm_weight = rows.weight.take(order)
    treated = rows.treated.take(order)
    if rows.propensity is not None:
        chance = rows.propensity.take(order)
        arm_weight = weight / np.where(treated, chance, 1.0 - chance)
    # 0/1 outcomes are gathered as bytes, for the cache.
    with np.errstate(invalid="ignore"):
        small = rows.y.astype(np.int8)
    is_small = np.array_equal(small, rows.y)
    return RankedRows(
        order=order,
        starts=ranking.starts,
        y=small.take(order).astype(np.float64) if is_small else rows.y.take(order),
        treated=treated,
        weight=weight,
        arm_weight=arm_weight,
        rows=ones,
        is_weighted=rows.weight is not None or rows.propensity is not None,
        clusters=None if clusters is None else clusters[order],
        responds=None if responds is None else responds[order],
    )
