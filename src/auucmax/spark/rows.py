"""Rows of a trial in a Spark DataFrame: summaries are made where they are, and only these travel.

Only the DataFrame interface is used, so that classic sessions and Spark Connect take the same way.
"""

from __future__ import annotations

import os
import pickle
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import ceil, isqrt
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from auucmax._optional import import_optional
from auucmax._validation import listed
from auucmax.data.table_errors import TableError, changed_message, feature_columns
from auucmax.rows import Batch, Rows
from auucmax.rows.arrow import CHECK_ARMS, ArrowColumns
from auucmax.rows.base import FIRST_KEY, Mapped, Step, Summary, View, order_mark, plus

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

NAME = "the DataFrame"  #: in messages
SHUFFLED = "After a shuffle (a join, say) it need not: write the rows to files first."
BLOCK_BYTES = 2**25  #: of the features of rows that are worked on at a time
BLOCK_ROWS = 2**18  #: that are worked on at a time: Arrow batches are too small for the kernels
ENCODED = 8  #: numbers that a raw value may become: blocks of raw rows are shorter by it
VALUE_BYTES = 2**10  #: of a packed value, about; Spark sends 10,000 of them at a time: 10 MB
MAX_BYTES = 2**22  #: of a summary that travels
_FEW = 16  # partitions whose summaries the driver adds by itself
_BRANCH = 64  # summaries added by one task, while the number of partitions is not known
_SCHEMA = "branch bigint, part bigint, summary binary"


@dataclass(frozen=True)
class PartitionRows:
    """Rows from columns: numeric arrays, or frames if ``raw`` names columns."""

    of_arms: ArrowColumns
    raw: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return self.raw or self.of_arms.features

    @property
    def dtype(self) -> str:
        return self.of_arms.dtype

    @property
    def columns(self) -> tuple[str, ...]:
        return (*self.raw, *self.of_arms.columns)

    def batches(self, tables: Iterator[Any], first_key: int) -> Iterator[Batch]:
        """Yield blocks of a partition's rows, with keys that count the rows."""
        for table in blocks(tables, len(self.names)):
            batch = self._batch(table)
            keys = np.arange(first_key, first_key := first_key + len(batch.y), dtype=np.uint64)
            yield batch._replace(keys=keys)

    def _batch(self, table: Any) -> Batch:
        places = np.arange(table.num_rows, dtype=np.uint64)
        rows = self.of_arms.batch(table, places)
        if not self.raw:
            return rows
        frame = table.select(list(self.raw)).to_pandas()
        if len(rows.y) < len(frame):  # rows of other arms are left out
            frame = frame.iloc[rows.keys.astype(np.intp)]
        return rows._replace(X=frame)


@dataclass(frozen=True)
class PackedRows:
    """Packed rows: m rows as one (m, width) matrix of dtype.

    After the d features come the treatment and, in the eight bytes of a double, the outcome. A
    missing value holds no rows. A pass over columns spends its time in Spark's conversion of every
    single number to Arrow; one over packed values only moves bytes.
    """

    names: tuple[str, ...]
    dtype: str
    columns: tuple[str, ...] = ("rows",)

    @property
    def width(self) -> int:
        """Numbers per row."""
        return len(self.names) + 1 + 8 // np.dtype(self.dtype).itemsize

    def batches(self, tables: Iterator[Any], first_key: int) -> Iterator[Batch]:
        """Yield blocks of a partition's rows."""
        for table in tables:
            matrix = self._matrix(table.column(0))
            for start in range(0, len(matrix), BLOCK_ROWS):
                rows = matrix[start : start + BLOCK_ROWS]
                keys = np.arange(first_key, first_key := first_key + len(rows), dtype=np.uint64)
                d = len(self.names)
                y = np.ascontiguousarray(rows[:, d + 1 :]).view(np.float64)[:, 0]
                yield Batch(rows[:, :d], y, rows[:, d] == 1, keys)

    def _matrix(self, column: Any) -> NDArray[Any]:
        """All rows of a packed Arrow column as a matrix, without copying."""
        import pyarrow as pa

        _, offsets, data = column.buffers()
        kind = np.int64 if pa.types.is_large_binary(column.type) else np.int32
        ends = np.frombuffer(offsets, dtype=kind)[column.offset : column.offset + len(column) + 1]
        values = np.frombuffer(data, dtype=np.uint8)[ends[0] : ends[-1]]
        return values.view(self.dtype).reshape(-1, self.width)

    def values(self, batch: Batch) -> Any:
        """Pack the rows of a block as an Arrow array."""
        import pyarrow as pa

        d = len(self.names)
        rows = np.empty((len(batch.y), self.width), dtype=self.dtype)
        rows[:, :d], rows[:, d] = batch.X, batch.treated
        rows[:, d + 1 :] = np.ascontiguousarray(batch.y)[:, None].view(self.dtype)
        step = max(VALUE_BYTES // rows[:1].nbytes, 1) * rows[:1].nbytes
        ends = np.append(np.arange(0, rows.nbytes, step), rows.nbytes).astype(np.int32)
        buffers = [None, pa.py_buffer(ends), pa.py_buffer(rows)]
        return pa.Array.from_buffers(pa.binary(), len(ends) - 1, buffers)


class Reading(Protocol):
    """How to turn Arrow batches of a partition into rows."""

    @property
    def names(self) -> tuple[str, ...]:
        """Feature names."""

    @property
    def dtype(self) -> str:
        """Feature dtype, if numeric."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns to read."""

    def batches(self, tables: Iterator[Any], first_key: int) -> Iterator[Batch]:
        """Yield blocks of a partition's rows."""


class SparkRows(Rows):
    """Rows of a trial in a Spark DataFrame; each reading is one job.

    ``fit`` and ``score`` of :class:`auucmax.AUUCMax` and :func:`auucmax.metrics.score_levels`
    take it in the place of arrays; :func:`fit` and :func:`evaluate` make it themselves.
    """

    max_bytes = MAX_BYTES

    def __init__(self, frame: DataFrame, reading: Reading) -> None:
        # A column may be asked for twice: a score that is evaluated as the outcome of itself, say.
        columns = dict.fromkeys(reading.columns)
        self.frame, self.reading = frame.select(*map(quoted, columns)), reading
        self.names = reading.names
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
        """Make rows with numeric features; arguments as in :func:`fit`."""
        features = check_frame(frame, features, treatment, outcome)
        columns = arrow_columns(frame, features, treatment, outcome, treated, control)
        return cls(frame, PartitionRows(columns))

    def keep_order(self) -> None:
        """Raise an error if later readings have another row order.

        Keys, which assign rows to parts, depend on the order. Another number of rows is an error in
        any case.
        """
        self._seen.order_matters = True

    def total(self, *summaries: Summary) -> list[Any]:
        """Sums of block summaries, added in the order of partitions; one job."""
        marks = (n_rows_of, order_mark) if self._seen.order_matters else (n_rows_of,)
        answers = self._total((*marks, *summaries))
        self._seen.check(*answers[: len(marks)])
        return answers[len(marks) :]

    def _total(self, summaries: Sequence[Summary]) -> list[Any]:
        reading, branch = self.reading, self._branch

        def summarise(batches: Iterator[Any]) -> Iterator[Any]:
            return _summarise(batches, reading, (), summaries, branch)

        return self._added_up(map_batches(self.frame, summarise, _SCHEMA))

    @property
    def _branch(self) -> int:
        """Number of partitions added by one task."""
        known = self._n_partitions
        return _BRANCH if known is None else isqrt(known - 1) + 1

    def _added_up(self, sums: DataFrame) -> list[Any]:
        """Add the sums of partitions in order."""
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
    """Row count and order mark of the first reading."""

    n_rows: int | None = None
    order_matters: bool = False
    mark: int | None = None

    def check(self, n_rows: int, mark: int | None = None) -> None:
        mark = None if mark is None else mark % 2**64
        other_order = None not in (self.mark, mark) and self.mark != mark
        if other_order or self.n_rows not in (None, n_rows):
            raise TableError(changed_message(NAME, SHUFFLED))
        self.n_rows, self.mark = n_rows, self.mark if mark is None else mark


def n_rows_of(batch: Batch) -> int:
    return len(batch.y)


@contextmanager
def cached(rows: Rows) -> Iterator[Rows]:
    """Context in which rows, or a view of them, are packed and kept in the executors' memory."""
    source, steps = (rows.source, rows.steps) if isinstance(rows, View) else (rows, ())
    assert isinstance(source, SparkRows)
    mapped = any(isinstance(step, Mapped) for step in steps)
    packed = PackedRows(rows.names, "float64" if mapped else source.reading.dtype)
    kept = _PackingRows(source, steps, packed)
    try:
        yield kept
    finally:
        kept.forget()


class _PackingRows(SparkRows):
    """Rows of a view that are packed and cached by their first reading."""

    def __init__(self, rows: SparkRows, steps: tuple[Step, ...], packed: PackedRows) -> None:
        super().__init__(rows.frame, rows.reading)
        self.names, self._n_partitions = packed.names, rows._n_partitions
        self._steps, self._packed = steps, packed
        self._kept: DataFrame | None = None

    def _total(self, summaries: Sequence[Summary]) -> list[Any]:
        """Sums over the view; the first call caches the packed rows."""
        if self._kept is not None:
            return super()._total(summaries)
        reading, steps, branch, packed = self.reading, self._steps, self._branch, self._packed

        def pack(batches: Iterator[Any]) -> Iterator[Any]:
            return _summarise(batches, reading, steps, summaries, branch, packed)

        kept = self._kept = map_batches(self.frame, pack, f"{_SCHEMA}, rows binary").cache()
        self.frame, self.reading = kept.select("rows"), packed
        return self._added_up(kept.where("summary is not null").drop("rows"))

    def forget(self) -> None:
        """Drop the cached rows in the executors."""
        if self._kept is not None:
            self._kept.unpersist()


def _summarise(
    batches: Iterator[Any],
    reading: Reading,
    steps: tuple[Step, ...],
    summaries: Sequence[Summary],
    branch: int,
    packed: PackedRows | None = None,
) -> Iterator[Any]:
    """Sum up a partition in the executor; nothing for an empty one.

    ``packed``: the rows as well, in a further column, before the sums.
    """
    part, n_kept = partition(), 0
    totals: list[Any] | None = None
    found: list[Any] | ValueError | None
    try:
        for batch in reading.batches(batches, part << FIRST_KEY):
            for step in steps:
                batch = step(batch)
            if not len(batch.y):
                continue
            if packed is not None:  # what is read of packed rows counts them, so count them here
                first = np.uint64((part << FIRST_KEY) + n_kept)
                keys = np.arange(len(batch.y), dtype=np.uint64) + first
                batch, n_kept = batch._replace(keys=keys), n_kept + len(batch.y)
            sums = [summary(batch) for summary in summaries]
            totals = sums if totals is None else plus(totals, sums)
            if packed is not None:
                yield _packed_rows(packed.values(batch))
        found = totals
    except ValueError as error:  # what is wrong with the rows: the driver tells it in its one line
        found = error
    if found is not None:
        row = _row(part // branch, part, found)
        yield row if packed is None else row.append_column("rows", _no_rows(1))


def partition() -> int:
    """Number of the current task's partition."""
    from pyspark import TaskContext

    if "numba" not in sys.modules:  # a task has cores of its own, not all of the machine's
        os.environ.setdefault("NUMBA_NUM_THREADS", os.environ.get("OMP_NUM_THREADS", "1"))
    return TaskContext.get().partitionId()  # type: ignore[union-attr]


def map_batches(
    frame: DataFrame, work: Callable[[Iterator[Any]], Iterator[Any]], schema: Any
) -> DataFrame:
    """Apply a function to Arrow batches in the executors.

    ``mapInArrow`` looks columns up by their names, and reads a dot as a field of a struct. So
    columns travel under plain names, and the batches get their own names back.
    """
    names = list(frame.columns)

    def renamed(batches: Iterator[Any]) -> Iterator[Any]:
        return work(batch.rename_columns(names) for batch in batches)

    return frame.toDF(*(f"c{k}" for k in range(len(names)))).mapInArrow(renamed, schema)


def _packed_rows(values: Any) -> Any:
    """A record batch of packed rows, without sums."""
    import pyarrow as pa

    n = len(values)
    arrays = [pa.nulls(n, pa.int64()), pa.nulls(n, pa.int64()), _no_rows(n), values]
    return pa.RecordBatch.from_arrays(arrays, names=["branch", "part", "summary", "rows"])


def _no_rows(n: int) -> Any:
    import pyarrow as pa

    return pa.nulls(n, pa.binary())


def blocks(batches: Iterator[Any], width: int) -> Iterator[Any]:
    """Regroup Arrow batches into tables of a suitable size."""
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
    """Add sums by branch of the aggregation tree, in the order of partitions."""
    branches: dict[int, list[tuple[int, bytes]]] = {}
    for batch in batches:
        for row in batch.to_pylist():
            branches.setdefault(row["branch"], []).append((row["part"], row["summary"]))
    for branch, rows in sorted(branches.items()):
        rows.sort()
        yield _row(branch, rows[-1][0], _added([summary for _, summary in rows]))


def _added(pickles: Sequence[bytes]) -> list[Any] | ValueError:
    """Add pickled sums in order; raise their first error, if any."""
    totals: list[Any] | None = None
    for data in pickles:
        sums = pickle.loads(data)  # made by this module, in the user's own executors
        if isinstance(sums, ValueError):
            return sums
        totals = sums if totals is None else plus(totals, sums)
    return totals or []


def _row(branch: int, part: int, totals: Any) -> Any:
    import pyarrow as pa

    data = pa.array([pickle.dumps(totals, protocol=5)], pa.binary())
    arrays = [pa.array([branch], pa.int64()), pa.array([part], pa.int64()), data]
    return pa.RecordBatch.from_arrays(arrays, names=["branch", "part", "summary"])


def check_frame(
    frame: DataFrame, features: Iterable[str] | None, treatment: str, outcome: str
) -> tuple[str, ...]:
    """Validate the columns, and return the feature columns (default: all others)."""
    chosen = feature_columns(features, treatment, outcome, frame.columns, NAME)
    check_told_apart(frame, [*chosen, treatment, outcome])
    return chosen


def check_told_apart(frame: DataFrame, names: Sequence[str]) -> None:
    """Raise a TableError for ambiguous column names, as after a join."""
    as_spark = _spelling(frame)
    times = Counter(map(as_spark, frame.columns))
    if twice := dict.fromkeys(name for name in names if times[as_spark(name)] > 1):
        raise TableError(
            f"{NAME} should have each column once, capitals aside, got {listed(twice)} more than "
            f"once. Rename or drop the others."
        )


def check_free(frame: DataFrame, column: str) -> None:
    """Raise a TableError if a new column name clashes, ignoring case."""
    as_spark = _spelling(frame)
    near = [n for n in frame.columns if n != column and as_spark(n) == as_spark(column)]
    if near:
        raise TableError(
            f"the new column should differ from those of {NAME}, capitals aside, got {column!r} "
            f"beside {near[0]!r}. Take another name."
        )


def _spelling(frame: DataFrame) -> Callable[[str], str]:
    """Normalise a column name by Spark's case sensitivity."""
    exact = frame.sparkSession.conf.get("spark.sql.caseSensitive") == "true"
    return str if exact else str.casefold


def arrow_columns(
    frame: DataFrame,
    features: Sequence[str],
    treatment: str,
    outcome: str,
    treated: Any = None,
    control: Any = None,
) -> ArrowColumns:
    """Validated columns of a DataFrame, as in :meth:`ArrowColumns.of`."""
    types = import_optional("pyspark.sql.pandas.types", extra="spark")
    columns = dict.fromkeys([*features, outcome, treatment])
    schema = types.to_arrow_schema(frame.select(*map(quoted, columns)).schema)
    return ArrowColumns.of(
        schema, features, outcome, treatment, treated=treated, control=control, name=NAME
    )


def quoted(column: str) -> str:
    """Quote a column name for Spark expressions.

    >>> quoted("a.b")
    '`a.b`'
    """
    return "`" + column.replace("`", "``") + "`"
