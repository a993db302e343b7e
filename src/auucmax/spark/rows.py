"""Rows of a trial in a Spark DataFrame: summaries are made where they are, and only these travel.

Only the DataFrame interface is used, so that classic sessions and Spark Connect take the same way.
"""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import ceil, isqrt
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from auucmax.data.arrow_rows import CHECK_ARMS, ArrowRows
from auucmax.data.batches import Batch
from auucmax.data.order_mark import FIRST_KEY, order_mark
from auucmax.data.table_errors import TableError, changed_message
from auucmax.spark.frame import NAME, arrow_rows, check_frame, quoted
from auucmax.spark.packed import BLOCK_ROWS, PackedRows, Reading

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["MadeRows", "NumberRows", "SparkRows"]

BLOCK_BYTES = 2**25  #: of the features of rows that are worked on at a time
MAX_BYTES = 2**22  #: of a summary that travels
_FEW = 16  # partitions whose summaries the driver adds by itself
_BRANCH = 64  # summaries added by one task, while the number of partitions is not known
_SCHEMA = "branch bigint, part bigint, summary binary"


@dataclass(frozen=True)
class NumberRows:
    """Rows whose features are columns of numbers, as they are."""

    rows: ArrowRows

    @property
    def features(self) -> tuple[str, ...]:
        return self.rows.features

    @property
    def columns(self) -> tuple[str, ...]:
        return self.rows.columns

    def batches(self, tables: Iterator[Any], first_key: int) -> Iterator[Batch]:
        """Blocks of rows of a partition."""
        yield from _numbered(self.rows.batch, tables, len(self.features), first_key)


@dataclass(frozen=True)
class MadeRows:
    """Rows whose features are made from the columns ``raw``, by an encoder or by a fitted model."""

    arms: ArrowRows  # without features: outcome and treatment
    raw: tuple[str, ...]
    make: Callable[[pd.DataFrame], NDArray[Any]]
    features: tuple[str, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        return (*self.raw, *self.arms.columns)

    def batches(self, tables: Iterator[Any], first_key: int) -> Iterator[Batch]:
        """Blocks of rows of a partition."""
        width = max(len(self.raw), len(self.features))
        yield from _numbered(self._batch, tables, width, first_key)

    def _batch(self, table: Any, keys: NDArray[np.uint64]) -> Batch:
        rows = self.arms.batch(table, keys)
        frame = table.select(list(self.raw)).to_pandas()
        if len(rows.y) < len(frame):  # rows of other arms are left out
            frame = frame.iloc[np.flatnonzero(np.isin(keys, rows.keys))]
        made = self.make(frame) if len(frame) else np.empty(0)
        return rows._replace(X=np.asarray(made).reshape(len(frame), len(self.features)))


class SparkRows:
    """A :class:`auucmax.data.batches.RowSource` over a Spark DataFrame.

    :meth:`auucmax.AUUCMax.fit`, ``score`` and :func:`auucmax.evaluation.score_levels` take it in
    the place of arrays; :func:`fit` and :func:`evaluate` make it themselves.
    """

    max_bytes = MAX_BYTES

    def __init__(self, frame: DataFrame, reading: Reading) -> None:
        # A column may be asked for twice: a score that is evaluated as the outcome of itself, say.
        columns = dict.fromkeys(reading.columns)
        self.frame, self.reading = frame.select(*map(quoted, columns)), reading
        self._n_partitions: int | None = None  # that had rows, known after the first reading
        self._seen = _Seen()

    @classmethod
    def of(
        cls,
        frame: DataFrame,
        *,
        treatment: str,
        outcome: str,
        features: Sequence[str] | None = None,
        treated: Any = None,
        control: Any = None,
    ) -> SparkRows:
        """Rows with features that are numbers; arguments as in :func:`fit`."""
        features = check_frame(frame, features, treatment, outcome)
        rows = arrow_rows(frame, features, treatment, outcome, treated, control)
        return cls(frame, NumberRows(rows))

    @contextmanager
    def packed(self, dtype: str) -> Iterator[SparkRows]:
        """The same rows, made once and kept in the executors' memory (or disks) meanwhile.

        ``dtype`` is one that holds the features.
        """
        rows = _PackingRows(self, dtype)
        try:
            yield rows
        finally:
            rows.forget()

    @property
    def feature_names(self) -> tuple[str, ...]:
        return self.reading.features

    def keep_order(self) -> None:
        """From now on, rows that come in another order than before are an error.

        They change their keys, by which the rows of a part are known. Another number of rows is an
        error in any case.
        """
        self._seen.order_matters = True

    def total(self, *summaries: Callable[[Batch], Any]) -> list[Any]:
        """Each summary of every block of rows, added up in the order of the partitions; one job."""
        marks = (_n_rows, order_mark) if self._seen.order_matters else (_n_rows,)
        answers = self._total((*marks, *summaries))
        self._seen.check(*answers[: len(marks)])
        return answers[len(marks) :]

    def _total(self, summaries: Sequence[Callable[[Batch], Any]]) -> list[Any]:
        reading, branch = self.reading, self._branch

        def summarise(batches: Iterator[Any]) -> Iterator[Any]:
            return _summarise(batches, reading, summaries, branch)

        return self._added_up(self.frame.mapInArrow(summarise, _SCHEMA))

    @property
    def _branch(self) -> int:
        """How many partitions are added by one task."""
        known = self._n_partitions
        return _BRANCH if known is None else isqrt(known - 1) + 1

    def _added_up(self, sums: DataFrame) -> list[Any]:
        """The sums of partitions, added in their order."""
        known, branch = self._n_partitions, self._branch
        if known is None or known > _FEW:
            # Without a number Spark takes as many tasks as the sums, once they are made, are worth.
            number = () if known is None else (ceil(known / branch),)
            sums = sums.repartition(*number, "branch").mapInArrow(_add_branches, _SCHEMA)
        rows = sorted(sums.collect(), key=lambda row: int(row.part))
        if not rows:
            raise TableError(f"{NAME} should have rows of the two arms, got none. {CHECK_ARMS}")
        self._n_partitions = int(rows[-1].part) + 1
        found = _added([bytes(row.summary) for row in rows])
        if isinstance(found, ValueError):
            raise found
        return found


@dataclass
class _Seen:
    """How many rows there are, whether their order matters, and its mark, of the first reading."""

    n_rows: int | None = None
    order_matters: bool = False
    mark: int | None = None

    def check(self, n_rows: int, mark: int | None = None) -> None:
        mark = None if mark is None else mark % 2**64
        other_order = None not in (self.mark, mark) and self.mark != mark
        if other_order or self.n_rows not in (None, n_rows):
            advice = "After a shuffle (a join, say) it need not: write the rows to files first."
            raise TableError(changed_message(NAME, advice))
        self.n_rows, self.mark = n_rows, self.mark if mark is None else mark


def _n_rows(batch: Batch) -> int:
    return len(batch.y)


class _PackingRows(SparkRows):
    """Rows that are packed and kept by their first reading, and read as such from then on."""

    def __init__(self, rows: SparkRows, dtype: str) -> None:
        super().__init__(rows.frame, rows.reading)
        self._dtype = dtype
        self._kept: DataFrame | None = None

    def _total(self, summaries: Sequence[Callable[[Batch], Any]]) -> list[Any]:
        """As that of all rows; the first one packs them."""
        if isinstance(self.reading, PackedRows):
            return super()._total(summaries)
        reading, branch = self.reading, self._branch
        packed = PackedRows(reading.features, self._dtype)

        def pack(batches: Iterator[Any]) -> Iterator[Any]:
            return _summarise(batches, reading, summaries, branch, packed)

        kept = self.frame.mapInArrow(pack, f"{_SCHEMA}, rows binary").cache()
        self.frame, self.reading, self._kept = kept.select("rows"), packed, kept
        return self._added_up(kept.where("summary is not null").drop("rows"))

    def forget(self) -> None:
        """The executors need not keep them any longer."""
        if self._kept is not None:
            self._kept.unpersist()


def _summarise(
    batches: Iterator[Any],
    reading: Reading,
    summaries: Sequence[Callable[[Batch], Any]],
    branch: int,
    packed: PackedRows | None = None,
) -> Iterator[Any]:
    """The sums of a partition, one row; of a partition without rows, nothing. Runs in executors.

    ``packed``: the rows as well, in a further column, before the sums.
    """
    from pyspark import TaskContext

    if "numba" not in sys.modules:  # a task has cores of its own, not all of the machine's
        os.environ.setdefault("NUMBA_NUM_THREADS", os.environ.get("OMP_NUM_THREADS", "1"))
    part = TaskContext.get().partitionId()  # type: ignore[union-attr]
    totals: list[Any] | ValueError | None = None
    try:
        for batch in reading.batches(batches, part << FIRST_KEY):
            if len(batch.y):
                sums = [summary(batch) for summary in summaries]
                totals = sums if totals is None else _plus(totals, sums)
                if packed is not None:
                    yield _packed_rows(packed.values(batch))
    except ValueError as error:  # what is wrong with the rows: the driver tells it in its one line
        totals = error
    if totals is not None:
        row = _row(part // branch, part, totals)
        yield row if packed is None else row.append_column("rows", _no_rows(1))


def _packed_rows(values: Any) -> Any:
    """A batch of packed rows, without sums."""
    import pyarrow as pa

    n = len(values)
    arrays = [pa.nulls(n, pa.int64()), pa.nulls(n, pa.int64()), _no_rows(n), values]
    return pa.RecordBatch.from_arrays(arrays, names=["branch", "part", "summary", "rows"])


def _no_rows(n: int) -> Any:
    import pyarrow as pa

    return pa.nulls(n, pa.binary())


def _numbered(
    make: Callable[[Any, NDArray[np.uint64]], Batch],
    tables: Iterator[Any],
    width: int,
    first_key: int,
) -> Iterator[Batch]:
    """Blocks of the rows that are kept, which are counted: packed rows have the same keys."""
    for table in _blocks(tables, width):
        batch = make(table, np.arange(table.num_rows, dtype=np.uint64))
        keys = np.arange(first_key, first_key := first_key + len(batch.y), dtype=np.uint64)
        yield batch._replace(keys=keys)


def _blocks(batches: Iterator[Any], width: int) -> Iterator[Any]:
    """Tables of Arrow batches, joined or cut to blocks of a good size for rows of this width."""
    import pyarrow as pa

    most = int(np.clip(BLOCK_BYTES // (8 * max(width, 1)), 1, BLOCK_ROWS))
    n_rows, waiting = 0, []
    for batch in batches:
        waiting.append(batch)
        n_rows += batch.num_rows
        if n_rows >= most:
            table = pa.Table.from_batches(waiting)
            n_rows = len(table) % most
            whole = len(table) - n_rows
            yield from (table.slice(start, most) for start in range(0, whole, most))
            waiting = table.slice(whole).to_batches()
    if n_rows:
        yield pa.Table.from_batches(waiting)


def _add_branches(batches: Iterator[Any]) -> Iterator[Any]:
    """One row for each branch of the tree, the sum of its rows in the order of the partitions."""
    branches: dict[int, list[tuple[int, bytes]]] = {}
    for batch in batches:
        for row in batch.to_pylist():
            branches.setdefault(row["branch"], []).append((row["part"], row["summary"]))
    for branch, rows in sorted(branches.items()):
        rows.sort()
        yield _row(branch, rows[-1][0], _added([summary for _, summary in rows]))


def _added(pickles: Sequence[bytes]) -> list[Any] | ValueError:
    """The sum of pickled sums, in this order; the first error, if there is one."""
    totals: list[Any] | None = None
    for data in pickles:
        sums = pickle.loads(data)  # made by this module, in the user's own executors
        if isinstance(sums, ValueError):
            return sums
        totals = sums if totals is None else _plus(totals, sums)
    return totals or []


def _plus(one: Any, other: Any) -> list[Any]:
    return [a + b for a, b in zip(one, other, strict=True)]


def _row(branch: int, part: int, totals: Any) -> Any:
    import pyarrow as pa

    data = pa.array([pickle.dumps(totals, protocol=5)], pa.binary())
    arrays = [pa.array([branch], pa.int64()), pa.array([part], pa.int64()), data]
    return pa.RecordBatch.from_arrays(arrays, names=["branch", "part", "summary"])
