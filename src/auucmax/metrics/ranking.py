"""Rows sorted by score: ties, weights and inverse propensities are handled here and nowhere else.

Everything that evaluation needs is a cumulative sum over rows in the order of their scores. Rows
of equal score form one *level*; a row counts half of its own level as below it and half as above,
which is what breaking ties at random gives on average. So a result never depends on row order.

Sorting is the largest cost. ``np.sort`` of 64-bit integers is several times faster than
``np.argsort`` of the same numbers, so :func:`rank_rows` sorts integers that hold the leading bits
of a score and, below them, the row's number; the few rows that agree in all the leading bits are
then put right.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from auucmax._validation import Bools, Floats, ScoredRows, check_choice

Indices = NDArray[np.intp]
RankingKind = Literal["joint", "separate"]
RANKINGS = ("joint", "separate")
_BLOCK = 2**15


@dataclass(frozen=True)
class Ranking:
    """Rows from lowest to highest score, in levels of equal score.

    ``order`` (n,) holds row numbers, ties in row order; ``starts`` (number of levels,) the
    position at which each level begins, or None when no two scores are equal.
    """

    order: Indices
    starts: Indices | None

    def level_sums(self, values: Floats | None) -> Floats:
        """Sum of the sorted rows' ``values`` (None: ones) in each level."""
        if self.starts is None:
            return np.ones(len(self.order)) if values is None else values
        if values is None:
            return np.diff(self.starts, append=len(self.order)).astype(np.float64)
        return np.add.reduceat(values, self.starts)

    def spread(self, per_level: Floats) -> Floats:
        """Each sorted row's value of its level."""
        if self.starts is None:
            return per_level
        return np.repeat(per_level, np.diff(self.starts, append=len(self.order)))

    def mid_cumsum(self, values: Floats | None) -> Floats:
        """For each sorted row the sum of ``values`` (None: ones) below it, plus half its level."""
        if values is None and self.starts is None:
            return np.arange(0.5, len(self.order))
        sums = self.level_sums(values)
        below = np.cumsum(sums)
        below -= 0.5 * sums
        return self.spread(below)

    def from_top(self, values: Floats | None) -> Floats:
        """Sums of ``values`` (None: ones) over the highest 0, 1, 2, ... levels."""
        sums = self.level_sums(values)
        total = np.empty(len(sums) + 1)
        total[0] = 0.0
        np.cumsum(sums[::-1], out=total[1:])
        return total


def rank_rows(score: Floats) -> Ranking:
    """Sort rows by score. O(n log n), the sort of n integers and little else."""
    n_rows = len(score)
    # The low bits hold the row's number, so that sorted keys name their rows, ties in row order.
    n_bits = max(1, (n_rows - 1).bit_length())
    row_mask = np.uint64((1 << n_bits) - 1)
    packed = np.empty(n_rows, dtype=np.uint64)
    dropped = False  # whether any score has bits below the leading ones
    for block in blocks(n_rows):
        bits = _ordered_bits(score[block])
        dropped = dropped or bool((bits & row_mask).any())
        bits &= ~row_mask
        np.bitwise_or(bits, np.arange(block.start, block.stop, dtype=np.uint64), out=packed[block])
    packed.sort()

    tied = np.empty(n_rows - 1, dtype=bool)  # in all leading bits with the next row
    for block in blocks(n_rows - 1):
        np.less_equal(packed[block] ^ packed[1:][block], row_mask, out=tied[block])
    packed &= row_mask
    order = packed.view(np.int64)
    if not tied.any():
        return Ranking(order, None)
    if dropped:
        tied = _compare_whole(score, order, tied)
    starts = np.flatnonzero(np.concatenate([[True], ~tied]))
    return Ranking(order, None if len(starts) == n_rows else starts)


def _compare_whole(score: Floats, order: Indices, near: Bools) -> Bools:
    """Sort rows that agree in their leading bits by the whole score, in place; return which tie.

    ``near`` and the result (n - 1,) speak of a sorted row and the next one.
    """
    # Only rows that agree with a neighbour in all leading bits can be out of order.
    shared = np.zeros(len(score), dtype=bool)
    shared[1:] = near
    shared[:-1] |= near
    places = np.flatnonzero(shared)
    linked = near[places[:-1]]  # to the next of these places
    values = score[order[places]]
    falls = linked & (values[1:] < values[:-1])
    if falls.any():
        # Runs in which the score falls are sorted by the whole score; most runs are in order.
        run = np.concatenate([[0], np.cumsum(~linked)])
        wrong = np.zeros(run[-1] + 1, dtype=bool)
        wrong[run[1:][falls]] = True
        rows = np.flatnonzero(wrong[run])
        in_order = rows[np.lexsort((values[rows], run[rows]))]
        order[places[rows]] = order[places[in_order]]
        values[rows] = values[in_order]
    tied = np.zeros_like(near)
    tied[places[:-1]] = linked & (values[1:] == values[:-1])
    return tied


def blocks(n_rows: int) -> Iterator[slice]:
    """Blocks of rows that fit the cache, so that intermediate results stay there."""
    for start in range(0, n_rows, _BLOCK):
        yield slice(start, min(start + _BLOCK, n_rows))


def arm_sums(
    values: Floats, treated: Bools, squared_around: tuple[float, float] | None = None
) -> dict[bool, float]:
    """Sums over the treated and over the control rows, of ``values`` or of squared distances.

    ``squared_around`` holds what is subtracted in the control and in the treated arm.
    """
    sums = {True: 0.0, False: 0.0}
    for block in blocks(len(values)):
        block_values = values[block]
        if squared_around is not None:
            block_values = block_values - np.take(squared_around, treated[block].view(np.int8))
            block_values *= block_values
        # Not np.dot: its threads cost more than they save on so little.
        of_treated = float((block_values * treated[block]).sum())
        sums[True] += of_treated
        sums[False] += float(block_values.sum()) - of_treated
    return sums


def _ordered_bits(score: Floats) -> NDArray[np.uint64]:
    """Unsigned integers in the order of the scores (equal for 0.0 and -0.0)."""
    bits = (score + 0.0).view(np.int64)
    # A positive double orders like its bits with the sign bit set, a negative one like all its
    # bits inverted.
    flips = bits >> 63
    flips |= np.int64(-(2**63))
    bits ^= flips
    return bits.view(np.uint64)


@dataclass(frozen=True)
class RankedRows:
    """Rows that are ranked together, lowest score first: both arms (joint ranking) or one.

    In memory each row is a line. Of rows that are known by bins only, a line is the control or the
    treated rows of a bin: ``y`` is then the sum of their outcomes, ``squares`` that of y^2 and
    ``rows`` their number (None: one row a line). Every formula is linear or quadratic in y within a
    level, so one function serves both kinds of lines.

    ``weight`` enters the ranks, ``arm_weight`` (weight over the probability of the row's own arm)
    the arm's mean; None stands for ones. ``index`` is the row's number in the caller's arrays.
    """

    ranking: Ranking
    index: Indices
    y: Floats
    treated: Bools
    weight: Floats | None
    arm_weight: Floats | None
    rows: Floats | None = None
    squares: Floats | None = None

    @property
    def rank_weight(self) -> Floats | None:
        """What a line counts in the ranks; None for ones."""
        return self.rows if self.weight is None else self.weight

    @property
    def total_weight(self) -> float:
        weight = self.rank_weight
        return float(len(self.y)) if weight is None else float(weight.sum())

    def arm_rows(self, treated: bool) -> int:
        """Number of the arm's rows (0 if the arm is ranked elsewhere)."""
        if self.rows is not None:
            return int(self.rows[self.treated == treated].sum())
        n_treated = int(np.count_nonzero(self.treated))
        return n_treated if treated else len(self.y) - n_treated

    def arm_total(self, treated: bool) -> float:
        """Sum of the arm's weights (0 if the arm is ranked elsewhere)."""
        if self.arm_weight is None:
            return float(self.arm_rows(treated))
        return float(self.arm_weight[self.treated == treated].sum())

    def arm_outcome(self, treated: bool) -> Floats:
        """Weighted outcome of the arm's rows, 0 elsewhere."""
        outcome = self.y if self.arm_weight is None else self.arm_weight * self.y
        return outcome * (self.treated if treated else ~self.treated)

    def arm_presence(self, treated: bool) -> Floats:
        """Weight of the arm's rows, 0 elsewhere."""
        arm = self.treated if treated else ~self.treated
        weight = self.rows if self.arm_weight is None else self.arm_weight
        return arm.astype(np.float64) if weight is None else arm * weight

    @property
    def arms(self) -> list[tuple[bool, float]]:
        """The arms present, each with the sign of its mean in an effect."""
        return [
            (arm, sign) for arm, sign in ((True, 1.0), (False, -1.0)) if (self.treated == arm).any()
        ]

    def arm_scale(self) -> Floats:
        """+1 / A_T for treated lines, -1 / A_C for control lines, A the sum of the arm."""
        scale = np.zeros(2)
        for arm, sign in self.arms:
            scale[int(arm)] = sign / self.arm_total(arm)
        return np.take(scale, self.treated.view(np.int8))

    def signed_outcome(self) -> Floats:
        """Each line's share in the effect: +a y / A_T treated, -a y / A_C control."""
        signed = self.arm_scale()
        signed *= self.y
        if self.arm_weight is not None:
            signed *= self.arm_weight
        return signed

    def area(self) -> float:
        """Area of the treated arm minus that of the control arm, as far as they are ranked here."""
        # Sums first, the ratio last: with 0/1 outcomes and no weights every sum is a whole number
        # of halves, so the result is exact whatever the order of the rows.
        below = self.ranking.mid_cumsum(self.rank_weight)
        below *= self.y
        if self.arm_weight is not None:
            below *= self.arm_weight
        sums, total = arm_sums(below, self.treated), self.total_weight
        return sum(sign * sums[arm] / (total * self.arm_total(arm)) for arm, sign in self.arms)

    def effect(self) -> float:
        """Mean outcome of the treated arm minus that of the control arm, as far as ranked here."""
        return sum(
            sign * float(self.arm_outcome(arm).sum()) / self.arm_total(arm)
            for arm, sign in self.arms
        )

    def mean(self) -> float:
        """Mean outcome of all rows, weighted as they are ranked."""
        outcome = self.y if self.weight is None else self.weight * self.y
        return float(outcome.sum()) / self.total_weight

    def less(self, constant: float) -> RankedRows:
        """The same rows with a constant subtracted from every outcome."""
        if self.rows is None or self.squares is None:
            return replace(self, y=self.y - constant)
        squares = self.squares - constant * (2 * self.y - constant * self.rows)
        return replace(self, y=self.y - constant * self.rows, squares=squares)

    def squares_around(self, centre: float | Floats) -> Floats:
        """Sum over the rows of each line of [a (y - centre)]^2."""
        if self.rows is None or self.squares is None:
            distance = self.y - centre
            if self.arm_weight is not None:
                distance *= self.arm_weight
            return distance * distance
        return np.maximum(self.squares - centre * (2 * self.y - centre * self.rows), 0.0)

    def sum_variances(self, terms: Floats, slope: Floats | None = None) -> dict[bool, float]:
        """Variance of each arm's sum of row terms: n_g times the sample variance of the terms.

        ``terms`` holds the sum of each line; where a line is many rows, their terms differ by
        ``slope`` times the difference of their y. Not a number if an arm has a single row.
        """
        counts = {arm: self.arm_rows(arm) for arm, _ in self.arms}
        sums = arm_sums(terms, self.treated)
        means = {arm: sums[arm] / max(counts.get(arm, 0), 1) for arm in (False, True)}
        around = means[False], means[True]
        if self.rows is None or self.squares is None or slope is None:
            squares = arm_sums(terms, self.treated, squared_around=around)
        else:
            rows = np.maximum(self.rows, 1.0)
            between = self.rows * (terms / rows - np.take(around, self.treated.view(np.int8))) ** 2
            within = slope**2 * np.maximum(self.squares - self.y**2 / rows, 0.0)
            squares = arm_sums(between + within, self.treated)
        return {
            arm: squares[arm] * n / (n - 1) if n > 1 else float("nan") for arm, n in counts.items()
        }

    def parts(self, ranking: str) -> tuple[RankedRows, ...]:
        """Itself (``"joint"``), or the treated and the control rows, each ranked on their own."""
        check_choice(ranking, "ranking", RANKINGS)
        return (self,) if ranking == "joint" else (self.only(True), self.only(False))

    def only(self, treated: bool) -> RankedRows:
        """The rows of an arm, ranked on their own: what is sorted together is sorted apart."""
        kept = np.flatnonzero(self.treated == treated)  # much faster than taking by a mask
        columns = (self.arm_weight, self.rows, self.squares)
        arm_weight, rows, squares = (None if c is None else c.take(kept) for c in columns)
        index, starts = self.index.take(kept), self.ranking.starts
        if starts is not None:
            sizes = np.diff(np.searchsorted(kept, starts), append=len(kept))
            sizes = sizes[sizes > 0]
            starts = None if len(sizes) == len(kept) else np.cumsum(sizes) - sizes
        return RankedRows(
            ranking=Ranking(index, starts),
            index=index,
            y=self.y.take(kept),
            treated=np.full(len(kept), treated),
            # Within an arm the ranks must speak of the same population as the mean.
            weight=arm_weight,
            arm_weight=arm_weight,
            rows=rows,
            squares=squares,
        )


def sorted_rows(rows: ScoredRows) -> RankedRows:
    """All rows, sorted by their score."""
    arm_weight = rows.weight
    if rows.propensity is not None:
        own = np.where(rows.treated, rows.propensity, 1.0 - rows.propensity)
        arm_weight = 1.0 / own if rows.weight is None else rows.weight / own
    ranking = rank_rows(rows.score)
    order = ranking.order
    return RankedRows(
        ranking=ranking,
        index=order,
        y=_gather(rows.y, order),
        treated=rows.treated.take(order),
        weight=None if rows.weight is None else rows.weight.take(order),
        arm_weight=None if arm_weight is None else arm_weight.take(order),
    )


def _gather(y: Floats, index: Indices) -> Floats:
    """y in sorted order. Outcomes 0/1 travel as bytes: random reads of those stay in the cache."""
    with np.errstate(invalid="ignore"):
        small = y.astype(np.int8)
    return small.take(index).astype(np.float64) if np.array_equal(small, y) else y.take(index)
