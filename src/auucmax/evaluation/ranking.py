"""Rows sorted by score: ties, weights and inverse propensities are handled here and nowhere else.

Everything that evaluation needs is a cumulative sum over rows in the order of their scores. Rows
of equal score form one *level*; a row counts half of its own level as below it and half as above,
which is what breaking ties at random gives on average. So a result never depends on row order.

Sorting is the largest cost. ``np.sort`` of 64-bit integers is several times faster than
``np.argsort`` of the same numbers, so :func:`rank_rows` sorts integers that hold the leading bits
of a score and, below them, the row's number; the few rows that agree in all the leading bits are
then put right. :func:`rank_rows_slow` is the specification.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from auucmax._validation import Bools, Floats, Rows

Indices = NDArray[np.intp]
_BLOCK = 2**15

__all__ = [
    "RankedRows",
    "Ranking",
    "arm_sums",
    "blocks",
    "rank_rows",
    "rank_rows_slow",
    "ranked_parts",
]


@dataclass(frozen=True)
class Ranking:
    """Rows from lowest to highest score, in levels of equal score.

    ``order`` (n,) holds row numbers, ties in row order; ``starts`` (number of levels,) the
    position at which each level begins, or None when no two scores are equal.
    """

    order: Indices
    starts: Indices | None

    def level_sums(self, values: Floats) -> Floats:
        """Sum of the sorted rows' ``values`` in each level."""
        return values if self.starts is None else np.add.reduceat(values, self.starts)

    def level_sizes(self) -> Floats:
        """Number of rows of each level."""
        if self.starts is None:
            return np.ones(len(self.order))
        return np.diff(self.starts, append=len(self.order)).astype(np.float64)

    def spread(self, per_level: Floats) -> Floats:
        """Each sorted row's value of its level."""
        if self.starts is None:
            return per_level
        return np.repeat(per_level, np.diff(self.starts, append=len(self.order)))

    def mid_cumsum(self, values: Floats | None) -> Floats:
        """For each sorted row the sum of ``values`` (None: ones) below it, plus half its level."""
        if values is None and self.starts is None:
            return np.arange(0.5, len(self.order))
        sums = self.level_sizes() if values is None else self.level_sums(values)
        below = np.cumsum(sums)
        below -= 0.5 * sums
        return self.spread(below)

    def from_top(self, values: Floats | None) -> Floats:
        """Sums of ``values`` (None: ones) over the highest 0, 1, 2, ... levels."""
        sums = self.level_sizes() if values is None else self.level_sums(values)
        total = np.empty(len(sums) + 1)
        total[0] = 0.0
        np.cumsum(sums[::-1], out=total[1:])
        return total


def rank_rows(score: Floats) -> Ranking:
    """Sort rows by score. O(n log n), the sort of n integers and little else."""
    n_rows = len(score)
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
    """Put right, in place, the order of rows that agree in their leading bits; say which tie.

    ``near`` and the result (n - 1,) speak of a sorted row and the next one.
    """
    shared = np.zeros(len(score), dtype=bool)
    shared[1:] = near
    shared[:-1] |= near
    places = np.flatnonzero(shared)
    linked = near[places[:-1]]  # to the next of these places
    values = score[order[places]]
    falls = linked & (values[1:] < values[:-1])
    if falls.any():
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


def rank_rows_slow(score: Floats) -> Ranking:
    """What :func:`rank_rows` must return: a stable argsort, and the places where scores change."""
    order = np.argsort(score, kind="stable")
    in_order = score[order]
    starts = np.flatnonzero(np.concatenate([[True], in_order[1:] != in_order[:-1]]))
    return Ranking(order, None if len(starts) == len(score) else starts)


def blocks(n_rows: int) -> Iterator[slice]:
    """Stretches of rows that fit the cache, so that intermediate results stay there."""
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
    """Sorted rows that are ranked together: both arms (joint ranking) or one (separate).

    ``weight`` enters the ranks, ``arm_weight`` (weight over the probability of the row's own arm)
    the arm's mean; None stands for ones. ``index`` is the row's number in the caller's arrays.
    """

    ranking: Ranking
    index: Indices
    y: Floats
    treated: Bools
    weight: Floats | None
    arm_weight: Floats | None

    @property
    def total_weight(self) -> float:
        return float(len(self.y)) if self.weight is None else float(self.weight.sum())

    def arm_total(self, treated: bool) -> float:
        """Sum of the arm's weights (0 if the arm is ranked elsewhere)."""
        arm = self.treated if treated else ~self.treated
        if self.arm_weight is None:
            return float(np.count_nonzero(arm))
        return float(self.arm_weight[arm].sum())

    def arm_outcome(self, treated: bool) -> Floats:
        """Weighted outcome of the arm's rows, 0 elsewhere."""
        outcome = self.y if self.arm_weight is None else self.arm_weight * self.y
        return outcome * (self.treated if treated else ~self.treated)

    def arm_presence(self, treated: bool) -> Floats:
        """Weight of the arm's rows, 0 elsewhere."""
        arm = self.treated if treated else ~self.treated
        return arm.astype(np.float64) if self.arm_weight is None else arm * self.arm_weight

    @property
    def arms(self) -> list[tuple[bool, float]]:
        """The arms present, each with the sign of its mean in an effect."""
        return [
            (arm, sign) for arm, sign in ((True, 1.0), (False, -1.0)) if (self.treated == arm).any()
        ]

    def signed_outcome(self) -> Floats:
        """Each row's share in the effect: +a y / A_T treated, -a y / A_C control."""
        scale = np.zeros(2)
        for arm, sign in self.arms:
            scale[int(arm)] = sign / self.arm_total(arm)
        signed = np.take(scale, self.treated.view(np.int8))
        signed *= self.y
        if self.arm_weight is not None:
            signed *= self.arm_weight
        return signed


def ranked_parts(rows: Rows, ranking: str) -> tuple[RankedRows, ...]:
    """One part with all rows (``"joint"``), or one an arm (``"separate"``)."""
    arm_weight = _arm_weight(rows)
    if ranking == "joint":
        return (_ranked(rows, None, rows.weight, arm_weight),)
    arms = (np.flatnonzero(rows.treated), np.flatnonzero(~rows.treated))
    # Within an arm the ranks must speak of the same population as the mean: the same weights.
    return tuple(_ranked(rows, arm, arm_weight, arm_weight) for arm in arms)


def _arm_weight(rows: Rows) -> Floats | None:
    if rows.propensity is None:
        return rows.weight
    own = np.where(rows.treated, rows.propensity, 1.0 - rows.propensity)
    return 1.0 / own if rows.weight is None else rows.weight / own


def _gather(y: Floats, index: Indices) -> Floats:
    """y in sorted order. Outcomes 0/1 travel as bytes: random reads of those stay in the cache."""
    with np.errstate(invalid="ignore"):
        small = y.astype(np.int8)
    return small.take(index).astype(np.float64) if np.array_equal(small, y) else y.take(index)


def _ranked(
    rows: Rows, subset: Indices | None, weight: Floats | None, arm_weight: Floats | None
) -> RankedRows:
    ranking = rank_rows(rows.score if subset is None else rows.score[subset])
    index = ranking.order if subset is None else subset[ranking.order]

    return RankedRows(
        ranking=ranking,
        index=index,
        y=_gather(rows.y, index),
        treated=rows.treated.take(index),
        weight=None if weight is None else weight.take(index),
        arm_weight=None if arm_weight is None else arm_weight.take(index),
    )
