"""Statistics of the rows that AUUC-max needs before fitting, in memory or by batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from auucmax._errors import InputError
from auucmax._validation import Floats
from auucmax.data.hashing import Checksum
from auucmax.estimators.norm_search import heaps
from auucmax.estimators.scaling import (
    Scaling,
    column_squares,
    fit_scaling,
    scaled_radius,
    scaling_of,
    unit_rows,
)
from auucmax.pairs import OutcomeLevels
from auucmax.pairs.outcomes import FewValues, outcome_sums
from auucmax.pairs.streamed import ClassSums, class_sums
from auucmax.rows import ArrayRows, Batch, Extremes, Rows, Share


class Known(NamedTuple):
    """Statistics of the rows; ``sums`` and ``checksum`` only for streams."""

    n_rows: int
    levels: OutcomeLevels
    scaling: Scaling
    sums: ClassSums | None = None
    checksum: Checksum | None = None

    def counts(self, rows: Rows) -> Floats:
        """Weights of treated rows with high and low outcomes, then of controls.

        High outcomes are responses, if outcomes are 0/1; see ``OutcomeLevels``.
        """
        if self.sums is not None:
            return self.levels.high_counts(self.sums.weights)
        assert isinstance(rows, ArrayRows)  # sums of all others are known
        return heap_weights(rows, self.levels)


def heap_weights(rows: ArrayRows, levels: OutcomeLevels) -> Floats:
    """Weights of treated rows with high and low outcomes, then of controls."""
    found = np.bincount(heaps(rows.y, rows.treated, levels), rows.weight, minlength=4)
    return found[[3, 2, 1, 0]].astype(np.float64)


def known_of(rows: Rows, scale: str) -> Known:
    """Compute outcome levels and scaling, in one pass over a stream or a few more."""
    if isinstance(rows, ArrayRows):
        scaling = fit_scaling(rows.X, scale, rows.weight)
        return Known(len(rows.y), OutcomeLevels.of(rows), scaling)
    (look,) = rows.total(_Look.of)
    look.check(rows.names)
    levels, sums = OutcomeLevels.cut(rows, look.outcomes), look.sums
    if not levels.binary:
        sums, totals = rows.total(
            partial(class_sums, levels=levels), partial(outcome_sums, levels=levels)
        )
        levels = levels.valued(totals)
    columns = look
    if scale == "unit-rows":
        (columns,) = rows.map(unit_rows).total(_Look.of)
    extremes = columns.sums.extremes
    squares = look.squares if scale == "column-l2" else None
    scaling = scaling_of(scale, extremes.low, extremes.high, squares=squares)
    return Known(look.checksum.n_rows, levels, scaling, sums, look.checksum)


def search_rows(
    rows: Rows, known: Known, share: float, seed: int
) -> tuple[ArrayRows, float | None]:
    """Rows for the norm search: a random sample in memory, with the radius R of all rows."""
    if isinstance(rows, ArrayRows):
        return (rows if share >= 1 else rows.part(Share(share, seed))), None
    gather, radius = (
        partial(_gather, share=Share(share, seed)),
        partial(_largest_norm, scaling=known.scaling),
    )
    gathered, largest = rows.total(gather, radius)
    X, y, treated, keys, weight = zip(*gathered, strict=True)
    few = ArrayRows(
        np.concatenate(X),
        np.concatenate(y),
        np.concatenate(treated),
        np.concatenate(weight) if rows.weighted else None,
        names=rows.names,
        keys=np.concatenate(keys),
    )
    return few, float(largest.high)


def _gather(batch: Batch, share: Share) -> list[Batch]:
    return [share(batch)]


def _largest_norm(batch: Batch, scaling: Scaling) -> Extremes:
    return Extremes(np.zeros(()), np.asarray(scaled_radius(batch.X, scaling)))


@dataclass(frozen=True)
class _Look:
    """Batch statistics: class sums, column squares, checksum and distinct outcomes."""

    sums: ClassSums
    squares: Floats
    checksum: Checksum
    outcomes: FewValues

    @classmethod
    def of(cls, batch: Batch) -> _Look:
        return cls(
            class_sums(batch._replace(y=(batch.y == 1).astype(np.float64))),
            column_squares(batch.X, batch.weight),
            Checksum.of(batch.X, batch.y, batch.treated),
            FewValues.of(batch.y),
        )

    def __add__(self, other: _Look) -> _Look:
        return _Look(
            self.sums + other.sums,
            self.squares + other.squares,
            self.checksum + other.checksum,
            self.outcomes + other.outcomes,
        )

    def check(self, names: Sequence[str]) -> None:
        """Raise an InputError for non-finite features, or rows of only one arm."""
        low, high = self.sums.extremes.low, self.sums.extremes.high
        bad = np.flatnonzero(~np.isfinite(low) | ~np.isfinite(high))
        if len(bad) and self.checksum.n_rows:
            raise InputError(
                f"the column {names[bad[0]]!r}", "finite numbers", "a missing or infinite one",
                "Fill it in, or leave the column out.",
            )  # fmt: skip
        counts = self.sums.counts
        n_treated = int(counts[: len(counts) // 2].sum())
        if self.checksum.n_rows and n_treated in (0, self.checksum.n_rows):
            raise InputError(
                "treatment", "treated in some rows and control in others",
                f"{'treated' if n_treated else 'control'} in all {self.checksum.n_rows:,} rows",
                "An effect needs both arms.",
            )  # fmt: skip


def scaled_weights(rows: Rows) -> Rows:
    """A stream with weights as in :func:`auucmax.estimators.base.row_weights`.

    Weights that are not whole are scaled to mean 1: one reading, if there are weights.
    """
    if not rows.weighted:
        return rows
    ((n_rows, total, n_broken),) = rows.total(_weight_sums)
    return rows.part(_Weighed(n_rows / total)) if n_broken else rows


def _weight_sums(batch: Batch) -> Floats:
    """Number of rows, total weight, and number of fractional weights."""
    weight = batch.weight
    assert weight is not None  # of rows that are weighted
    return np.array([len(weight), weight.sum(), (weight != np.rint(weight)).sum()])


@dataclass(frozen=True)
class _Weighed:
    """A view that multiplies weights by a factor."""

    factor: float

    def __call__(self, batch: Batch) -> Batch:
        assert batch.weight is not None  # of rows that are weighted
        return batch._replace(weight=batch.weight * self.factor)
