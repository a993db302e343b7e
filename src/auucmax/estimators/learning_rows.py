"""Statistics of the rows that AUUC-max needs before fitting, in memory or by batch."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from auucmax._errors import InputError
from auucmax._validation import Floats
from auucmax.data.hashing import Checksum
from auucmax.estimators.base import cells
from auucmax.estimators.norm_search import LinearObjective
from auucmax.estimators.scaling import (
    Scaling,
    column_squares,
    fit_scaling,
    scaled_radius,
    scaling_of,
    unit_rows,
)
from auucmax.pairs import OutcomeLevels, Surrogate
from auucmax.pairs.outcomes import few_values, outcome_sums
from auucmax.pairs.streamed import ClassSums, class_sums
from auucmax.rows import ArrayRows, Batch, Extremes, Rows, Share


class Known(NamedTuple):
    """Statistics of the rows; ``sums`` and ``checksum`` only for streams.

    ``counts`` are the weights of treated rows with high and low outcomes, then of controls. High
    outcomes are responses, if outcomes are 0/1; see ``OutcomeLevels``.
    """

    n_rows: int
    levels: OutcomeLevels
    scaling: Scaling
    counts: Floats
    sums: ClassSums | None = None
    checksum: Checksum | None = None

    def objective(
        self,
        rows: Rows,
        weights: str | tuple[float, float],
        surrogate: Surrogate,
        level: int = 0,
    ) -> LinearObjective:
        """Objective on some or all of the rows.

        ``level`` is the initial resolution of the bins of streamed rows.
        """
        moved, more = self.scaling.of(rows), dict[str, Any]()
        if not isinstance(rows, ArrayRows):
            more = {"level": level, "known": self.sums if moved is rows else None}
        elif self.scaling.offset is None and len(rows.y) == self.n_rows:
            more = {"extremes": (self.scaling.low, self.scaling.high)}
        factor = self.scaling.factor
        return LinearObjective(moved, self.levels, weights, surrogate, factor, **more)


def heap_weights(rows: ArrayRows, levels: OutcomeLevels) -> Floats:
    """Weights of treated rows with high and low outcomes, then of controls."""
    found = np.bincount(cells(rows, levels.cut_point), rows.weight, minlength=4)
    return found[[3, 2, 1, 0]].astype(np.float64)


def known_of(rows: Rows, scale: str) -> Known:
    """Compute outcome levels and scaling, in one pass over a stream or a few more."""
    if isinstance(rows, ArrayRows):
        scaling, levels = fit_scaling(rows.X, scale, rows.weight), OutcomeLevels.of(rows)
        return Known(len(rows.y), levels, scaling, heap_weights(rows, levels))
    sums, squares, checksum, outcomes = rows.total(_binary_sums, _squares, checksum_of, few_values)
    _check(sums, rows.names)
    levels, extremes = OutcomeLevels.cut(rows, outcomes), sums.extremes
    if not levels.binary:
        sums, totals = rows.total(
            partial(class_sums, levels=levels), partial(outcome_sums, levels=levels)
        )
        levels = levels.valued(totals)
    if scale == "unit-rows":
        extremes = rows.map(unit_rows).total(_binary_sums)[0].extremes
    scaling = scaling_of(
        scale, extremes.low, extremes.high, squares=squares if scale == "column-l2" else None
    )
    counts = levels.high_counts(sums.weights)
    return Known(checksum.n_rows, levels, scaling, counts, sums, checksum)


def checksum_of(batch: Batch) -> Checksum:
    """Batch summary: the checksum of the rows."""
    return Checksum.of(batch.X, batch.y, batch.treated)


def _binary_sums(batch: Batch) -> ClassSums:
    """Batch summary: sums by class of 0/1 outcomes."""
    return class_sums(batch._replace(y=(batch.y == 1).astype(np.float64)))


def _squares(batch: Batch) -> Floats:
    return column_squares(batch.X, batch.weight)


def _check(sums: ClassSums, names: Sequence[str]) -> None:
    """Raise an InputError for non-finite features, or rows of only one arm."""
    treated, control = sums.counts.reshape(2, -1).sum(axis=1).tolist()
    if not treated + control:
        return  # other checks name the reason
    bad = np.flatnonzero(~np.isfinite(sums.extremes.low) | ~np.isfinite(sums.extremes.high))
    if len(bad):
        raise InputError(
            f"the column {names[bad[0]]!r}", "finite numbers", "a missing or infinite one",
            "Fill it in, or leave the column out.",
        )  # fmt: skip
    if not treated or not control:
        raise InputError(
            "treatment", "treated in some rows and control in others",
            f"{'treated' if treated else 'control'} in all {int(treated + control):,} rows",
            "An effect needs both arms.",
        )  # fmt: skip


def search_rows(rows: Rows, known: Known, share: float, seed: int) -> tuple[ArrayRows, float]:
    """Rows for the norm search: a random sample in memory, with the radius R of all rows."""
    if isinstance(rows, ArrayRows):
        few = rows if share >= 1 else rows.part(Share(share, seed))
        return few, scaled_radius(rows.X, known.scaling)
    gathered, largest = rows.total(
        partial(_gather, share=Share(share, seed)), partial(_largest_norm, scaling=known.scaling)
    )
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


def scaled_weights(rows: Rows) -> Rows:
    """A stream with weights as in :func:`auucmax.estimators.base.row_weights`.

    Weights that are not whole are scaled to mean 1: one reading, if there are weights.
    """
    if not rows.weighted:
        return rows
    ((n_rows, total, n_broken),) = rows.total(_weight_sums)
    return rows.part(partial(_reweighted, factor=n_rows / total)) if n_broken else rows


def _weight_sums(batch: Batch) -> Floats:
    """Number of rows, total weight, and number of fractional weights."""
    weight = np.asarray(batch.weight)
    return np.array([len(weight), weight.sum(), (weight != np.rint(weight)).sum()])


def _reweighted(batch: Batch, factor: float) -> Batch:
    return batch._replace(weight=factor * np.asarray(batch.weight))
