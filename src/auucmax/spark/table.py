"""A Spark DataFrame as a table of trial rows: read, checked, encoded and scored where its rows are.

A table of at most ``max_rows`` rows comes to the driver, and is one in memory. Of a larger one
these come there: of every row outcome, arm, keys and scores, some 60 bytes; a sample of raw rows,
by which the trial is checked and people are described; and the rows that trees learn from.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pandas as pd

from auucmax import model as models
from auucmax._validation import Bools, Floats, check_whole
from auucmax.data.chances import ChanceWeights
from auucmax.data.hashing import mix_bits
from auucmax.data.pieces import PIECE_ROWS, PiecedTable, Work
from auucmax.data.reading import as_kinds
from auucmax.data.table_errors import TableError, changed_message, check_columns
from auucmax.estimators.boosted import MAX_ROWS
from auucmax.model.columns import ColumnNames, arm_counts
from auucmax.model.crossfit import KeptRows, KnownRows
from auucmax.model.rows import Hashes, rows_of_arms
from auucmax.rows import Batch
from auucmax.rows.base import Step
from auucmax.spark.rows import (
    ENCODED,
    NAME,
    SHUFFLED,
    SparkRows,
    blocks,
    check_told_apart,
    fetched,
    quoted,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_VALUE_BYTES = 16  # of a value in a frame, about


def fit_trial_model(
    df: DataFrame,
    *,
    treatment: str,
    outcome: str,
    treated: Any = None,
    control: Any = None,
    max_rows: int = MAX_ROWS,
    **options: Any,
) -> models.TrialModel | models.ArmsModel:
    """Fit a model with its evidence to the raw rows of a DataFrame, as from a table in memory.

    What :func:`auucmax.model.fit_trial_model` returns, or :func:`fit_arms_model` if
    ``control`` alone is named, of three arms or more: to be saved, reported, exported; ``target``
    and ``evaluate`` take it. Folds and all draws are by ids, or by places in the DataFrame: the
    same as in memory, of the same rows in the same order.

    Of at most ``max_rows`` rows the DataFrame comes to the driver, and everything is as in memory.
    Of more, executors read, encode and score the rows. Linear models ("auto", "shrunk", "auucmax",
    "tm", "response") learn from all of them, by sums that executors make; trees ("auto",
    "boosted") from ``max_rows``, drawn at random, at the driver. Scores and evidence are those of
    memory to 1e-6, of any outcome, with groups and with chances of treatment that differ. As from
    files that do not fit into memory, the check of the trial, the description of people and the
    segments are from about 250,000 rows, drawn at random. Some 60 bytes a row come to the driver:
    outcome, arm, keys, scores.

    Parameters
    ----------
    df : a row for each person, raw: numbers, texts, booleans, dates, missing values. It must give
        the same rows in the same order every time it is read, or the fit stops: after a shuffle (a
        join, say), write it to files first.
    treatment, outcome, treated, control : as in :func:`auucmax.model.fit_trial_model`.
    max_rows : that come to the driver. ``spark.driver.maxResultSize`` has to allow for them.
    options : all others, as there; ``cost`` and ``budget`` of several arms as in
        :func:`auucmax.model.fit_arms_model`.
    """
    table = open_frame(df, max_rows)
    named = {"treatment": treatment, "outcome": outcome, "control": control}
    several = treated is None and control is not None and len(arm_counts(table, treatment)) > 2
    if several:
        return models.fit_arms_model(table, **named, **options)
    return models.fit_trial_model(table, **named, treated=treated, **options)


def open_frame(df: DataFrame, max_rows: int) -> pd.DataFrame | SparkTable:
    """The rows of a DataFrame: all of them as a frame, or where they are if there are too many."""
    max_rows = check_whole(max_rows, "max_rows", 100)
    check_told_apart(df, df.columns)
    counts = dict(fetched(df.select(quoted(df.columns[0])), _count))
    each = [counts.get(part, 0) for part in range(max(counts, default=-1) + 1)]
    starts = tuple(np.cumsum([0, *each]).tolist())
    if not starts[-1]:
        raise TableError(f"{NAME} should have rows, got none. Check where it comes from.")
    if starts[-1] <= max_rows:
        return as_kinds(df.toPandas())
    return SparkTable(
        NAME, starts[-1], _VALUE_BYTES * starts[-1] * len(df.columns), df, starts, max_rows
    )


def _count(batches: Iterator[Any], part: int) -> Iterator[tuple[int, int]]:
    yield part, sum(batch.num_rows for batch in batches)


@dataclass(frozen=True, eq=False)
class SparkTable(PiecedTable):
    """A DataFrame whose rows stay where they are; made by :func:`open_frame`.

    ``starts`` are the places of the first rows of its partitions, and at the end their number.
    """

    frame: DataFrame
    starts: tuple[int, ...]
    max_rows: int
    option: ClassVar[str] = "max_rows="

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(self.frame.columns)

    @property
    def tree_rows(self) -> int:
        return self.max_rows if self.max_rows < MAX_ROWS else 0

    def pieces(self, columns: Sequence[str] | None = None) -> Iterator[pd.DataFrame]:
        """All rows in their order, which come to the driver, some at a time."""
        waiting = list[pd.DataFrame]()
        for piece in self._worked(_as_it_is, columns, kept=False):
            waiting.append(piece)
            if sum(map(len, waiting)) >= PIECE_ROWS:
                yield pd.concat(waiting)
                waiting = []
        if waiting:
            yield pd.concat(waiting)

    def each(self, work: Work, columns: Sequence[str] | None = None) -> Iterator[Any]:
        return self._worked(work, columns, kept=True)

    def _worked(self, work: Work, columns: Sequence[str] | None, *, kept: bool) -> Iterator[Any]:
        names, starts = list(self.columns if columns is None else columns), self.starts
        check_columns(names, self.columns, NAME)

        def worked(batches: Iterator[Any], part: int) -> Iterator[Any]:
            place = start_of(starts, part)
            for block in blocks(batches, ENCODED * len(names)):
                frame = as_kinds(block.to_pandas())
                yield work(frame.set_axis(range(place, place + len(frame)), axis=0), place)
                place += block.num_rows
            if place != start_of(starts, part + 1):
                raise TableError(changed_message(NAME, SHUFFLED))

        return fetched(self.frame.select(*map(quoted, names)), worked, kept=kept)

    def trial_rows(self, columns: ColumnNames, key: str, known: KnownRows) -> TableSparkRows:
        """The rows of the two arms, to be learnt from, encoded and scored by executors."""
        part = np.searchsorted(self.starts[:-1], known.starts, side="right") - 1
        counts = np.bincount(part, weights=known.counts, minlength=len(self.starts) - 1)
        edges = np.cumsum([0, *counts.astype(np.intp)])
        marks = tuple(
            _mark(known.y[own], known.treated[own], known.keys[own], 0) % 2**64
            for own in map(slice, edges[:-1], edges[1:])
        )
        reading = TrialPartition(columns, key, self.starts, marks, known.weigh)
        return TableSparkRows(self.frame, reading, known.keys, edges)


def _as_it_is(piece: pd.DataFrame, first: int) -> pd.DataFrame:
    return piece


def start_of(starts: Sequence[int], part: int) -> int:
    """The place of the first row of a partition; of one that had none, the end."""
    return starts[min(part, len(starts) - 1)]


@dataclass(frozen=True)
class TrialPartition:
    """Raw rows of the two arms, with the keys that they have in memory.

    ``marks`` are the :func:`_mark` of each partition when it was read first: rows that come in
    another order are an error, since the driver knows rows by their places. ``weigh`` makes
    weights of the chances of treatment, if rows have them.
    """

    roles: ColumnNames
    key: str
    starts: tuple[int, ...]
    marks: tuple[int, ...]
    weigh: ChanceWeights | None
    dtype: str = "float64"

    @property
    def weighted(self) -> bool:
        return self.weigh is not None

    @property
    def names(self) -> tuple[str, ...]:
        return self.roles.features

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(self.roles.all)

    def first_key(self, part: int) -> int:
        """The partition itself: keys of its rows are hashes."""
        return part

    def batches(self, tables: Iterator[Any], first_key: int) -> Iterator[Batch]:
        """Blocks of rows of a partition."""
        start, n, mark = start_of(self.starts, first_key), 0, 0
        for table in blocks(tables, ENCODED * len(self.columns)):
            rows, _ = rows_of_arms(as_kinds(table.to_pandas()), self.roles)
            keys = rows._replace(positions=rows.positions + start).keys(self.key)
            mark += _mark(rows.y, rows.treated, keys, n)
            start, n = start + table.num_rows, n + len(rows.y)
            weight = None
            if self.weigh is not None and rows.propensity is not None:
                weight = self.weigh(rows.treated, rows.propensity, rows.people)
            yield Batch(rows.frame[list(self.names)], rows.y, rows.treated, keys, weight)
        if mark % 2**64 != (self.marks[first_key] if first_key < len(self.marks) else 0):
            raise TableError(changed_message(NAME, SHUFFLED))


def _mark(y: Floats, treated: Bools, keys: Hashes, first: int) -> int:
    """The sum of hashes of rows and their places: other rows, or another order, have another."""
    places = np.arange(first, first + len(y), dtype=np.uint64)
    outcome = (np.asarray(y, dtype=np.float64) + 0.0).view(np.uint64)  # -0 is 0
    rows = (mix_bits(keys ^ mix_bits(places)) ^ outcome) + treated.astype(np.uint64)
    return int(mix_bits(rows).sum(dtype=np.uint64))


class TableSparkRows(SparkRows):
    """Raw rows of a trial in a DataFrame, whose keys the driver knows.

    ``keys`` are those of all rows, ``edges`` where each partition begins among them.
    """

    def __init__(self, frame: DataFrame, reading: TrialPartition, keys: Hashes, edges: Any) -> None:
        super().__init__(frame, reading)
        self.keys, self.edges = keys, edges

    def keep_order(self) -> None:
        """Nothing: every reading checks the order."""

    def _first_keys(self, steps: tuple[Step, ...]) -> tuple[int, ...]:
        """Rows that are learnt from are counted as in memory, so that draws are the same."""
        (kept,) = (step for step in steps if isinstance(step, KeptRows))
        before = np.concatenate([[0], np.cumsum(kept.keep(self.keys))])
        return tuple(before[self.edges].tolist())
