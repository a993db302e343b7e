"""Rows of a trial in a Spark DataFrame: executors compute summaries, and only these are sent.

Only the DataFrame interface is used, so that classic sessions and Spark Connect work the same way.
"""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from auucmax._optional import import_optional
from auucmax.data.tables import TableError, check_columns
from auucmax.rows import Batch, Rows
from auucmax.rows.arrow import CHECK_ARMS, ArrowColumns, changed_message
from auucmax.rows.base import (
    FIRST_KEY,
    Mapped,
    Step,
    Summary,
    View,
    order_mark,
    plus,
    summarised,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

NAME = "the DataFrame"  #: in messages
SHUFFLED = "After a shuffle (a join, say) it need not: write the rows to files first."
BLOCK_BYTES = 2**25  #: of the features of rows that are worked on at a time
BLOCK_ROWS = 2**18  #: that are worked on at a time: Arrow batches are too small for the kernels
VALUE_BYTES = 2**10  #: of a packed value, about; Spark sends 10,000 of them at a time: 10 MB
MAX_BYTES = 2**22  #: of a summary that travels
BRANCH = 32  #: partitions whose summaries one process adds
_SCHEMA = "branch bigint, part bigint, summary binary"


@dataclass(frozen=True)
class PackedRows:
    """Rows packed as bytes, many in one value.

    A pass over columns spends its time in Spark's conversion of every single number to Arrow; one
    over packed values only moves bytes. Errors while rows are packed are pickled into a
    second column.
    """

    names: tuple[str, ...]
    dtype: str
    columns: tuple[str, ...] = ("rows", "error")

    @property
    def row(self) -> np.dtype[Any]:
        """numpy dtype of a row: a double, then floats, so that all are aligned."""
        return np.dtype(
            [("y", "f8"), ("X", self.dtype, (len(self.names),)), ("treated", self.dtype)]
        )

    def pack(self, batch: Batch) -> Any:
        """Pack a block of rows into a record batch."""
        import pyarrow as pa

        rows = np.empty(len(batch.y), self.row)
        rows["X"] = batch.X
        rows["y"] = batch.y
        rows["treated"] = batch.treated
        step = max(VALUE_BYTES // rows.itemsize, 1)
        values = [rows[k : k + step].tobytes() for k in range(0, len(rows), step)]
        packed = [pa.array(values, pa.binary()), pa.nulls(len(values), pa.binary())]
        return pa.RecordBatch.from_arrays(packed, names=list(self.columns))

    def unpack(self, table: Any) -> Batch:
        """Unpack the rows of a record batch, without keys."""
        import pyarrow as pa
        import pyarrow.compute as pc

        values, errors = table.columns
        for error in errors.drop_null():
            raise pickle.loads(error.as_py())  # made by this module, in the user's own executors
        joined = pc.binary_join(
            pa.ListArray.from_arrays([0, len(values)], values), pa.scalar(b"", values.type)
        )
        rows = np.frombuffer(joined[0].as_buffer(), self.row)
        y = np.ascontiguousarray(rows["y"])
        return Batch(rows["X"], y, rows["treated"] == 1, np.empty(0, np.uint64))


class SparkRows(Rows):
    """Rows of a trial in a Spark DataFrame; each reading is one job.

    ``fit`` and ``score`` of :class:`auucmax.AUUCMax` and :func:`auucmax.metrics.score_levels`
    take it in the place of arrays; :func:`fit` and :func:`evaluate` make it themselves.
    """

    max_bytes = MAX_BYTES

    def __init__(self, frame: DataFrame, reading: ArrowColumns | PackedRows) -> None:
        # A column may be asked for twice: a score that is evaluated as the outcome of itself, say.
        self.frame = frame.select(*map(quoted, dict.fromkeys(reading.columns)))
        self.reading = reading
        self.names = reading.features if isinstance(reading, ArrowColumns) else reading.names
        self._first: tuple[int, int] | None = None  # number of rows, and their mark
        self._order_matters = False
        self._is_small = False  # whether few partitions have rows, once that is known

    def keep_order(self) -> None:
        """Require the same row order in all later passes over the data.

        Keys, which assign rows to folds and parts, depend on the order. A different number of rows
        is always an error.
        """
        self._order_matters = True

    def _total(self, steps: tuple[Step, ...], summaries: Sequence[Summary]) -> list[Any]:
        """Sums of block summaries, added in the order of partitions; one job."""
        reading = self.reading

        def summarise(batches: Iterator[Any]) -> Iterator[Any]:
            part = partition()
            totals: Any = None
            try:
                for batch in _blocks_of_rows(reading, batches, part):
                    # Those of the source are compared with those of other readings.
                    sums = [len(batch.y), order_mark(batch), *summarised(batch, steps, summaries)]
                    totals = sums if totals is None else plus(totals, sums)
            except ValueError as error:  # about the rows: the driver raises it as it is
                totals = error
            if totals is not None:
                yield _sent(part, totals)

        sums = map_batches(self.frame, summarise, _SCHEMA)
        if not self._is_small:
            sums = sums.groupBy("branch").applyInArrow(_add_branch, _SCHEMA)
        rows = sorted(sums.collect(), key=lambda row: int(row.part))
        totals = _added([bytes(row.summary) for row in rows])
        if isinstance(totals, ValueError):
            raise totals
        if not rows or not totals[0]:
            raise TableError(f"{NAME} should have rows of the two arms, got none. {CHECK_ARMS}")
        self._is_small = int(rows[-1].part) < BRANCH
        n_rows, mark, *totals = totals
        found = n_rows, mark % 2**64
        self._first = self._first or found
        if n_rows != self._first[0] or (self._order_matters and found != self._first):
            raise TableError(changed_message(NAME, SHUFFLED))
        return totals


@contextmanager
def cached(rows: Rows) -> Iterator[Rows]:
    """Context in which rows, or a view of them, are packed and kept in the executors' memory."""
    names = rows.names
    steps: list[Step] = []
    while isinstance(rows, View):
        steps.insert(0, rows.step)
        rows = rows.source
    assert isinstance(rows, SparkRows)
    reading = rows.reading
    assert isinstance(reading, ArrowColumns)
    mapped = any(isinstance(step, Mapped) for step in steps)
    packed = PackedRows(names, "float64" if mapped else str(reading.dtype))

    def pack(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        try:
            for batch in _blocks_of_rows(reading, batches, partition()):
                for step in steps:
                    batch = step(batch)
                yield packed.pack(batch)
        except ValueError as error:
            yield pa.RecordBatch.from_pylist([{"rows": b"", "error": pickle.dumps(error)}])

    kept = map_batches(rows.frame, pack, "rows binary, error binary").cache()
    try:
        yield SparkRows(kept, packed)
    finally:
        kept.unpersist()


def _blocks_of_rows(
    reading: ArrowColumns | PackedRows, batches: Iterator[Any], part: int
) -> Iterator[Batch]:
    """The rows of a partition in blocks, with keys that count them."""
    first = part << FIRST_KEY
    found: Iterator[Batch]
    if isinstance(reading, PackedRows):
        found = map(reading.unpack, batches)
    else:
        tables = blocks(batches, len(reading.features))
        found = (reading.batch(table, np.arange(len(table), dtype=np.uint64)) for table in tables)
    for batch in found:
        keys = np.arange(first, first := first + len(batch.y), dtype=np.uint64)
        yield batch._replace(keys=keys)


def partition() -> int:
    """Number of the current task's partition."""
    from pyspark import TaskContext

    if "numba" not in sys.modules:  # a task has cores of its own, not all of the machine's
        os.environ.setdefault("NUMBA_NUM_THREADS", os.environ.get("OMP_NUM_THREADS", "1"))
    # It is None only outside of tasks.
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


def blocks(batches: Iterator[Any], width: int) -> Iterator[Any]:
    """Regroup Arrow batches into tables of a suitable size."""
    import pyarrow as pa

    most = int(np.clip(BLOCK_BYTES // (8 * max(width, 1)), 1, BLOCK_ROWS))
    waiting: list[Any] = []
    for batch in batches:
        for start in range(0, batch.num_rows, most):
            waiting.append(batch.slice(start, most))
            if sum(map(len, waiting)) >= most:
                yield pa.Table.from_batches(waiting)
                waiting = []
    if waiting:
        yield pa.Table.from_batches(waiting)


def _sent(part: int, totals: Any) -> Any:
    """The sums of a partition, or an error about its rows, as a record batch."""
    import pyarrow as pa

    data = pickle.dumps(totals, protocol=5)
    return pa.RecordBatch.from_pylist([{"branch": part // BRANCH, "part": part, "summary": data}])


def _add_branch(table: Any) -> Any:
    """Add the sums of the partitions of one branch, in their order."""
    import pyarrow as pa

    rows = sorted(zip(table["part"].to_pylist(), table["summary"].to_pylist(), strict=True))
    totals = _added([summary for _, summary in rows])
    return pa.Table.from_batches([_sent(rows[-1][0], totals)])


def _added(pickles: Sequence[bytes]) -> Any:
    """Add pickled sums in order; their first error, if any."""
    totals: Any = None
    for data in pickles:
        sums = pickle.loads(data)  # made by this module, in the user's own executors
        if isinstance(sums, ValueError):
            return sums
        totals = sums if totals is None else plus(totals, sums)
    return totals


def arrow_columns(
    frame: DataFrame,
    features: Sequence[str],
    treatment: str,
    outcome: str,
    treated: Any,
    control: Any,
    *,
    raw: bool = False,
) -> ArrowColumns:
    """Validated columns of a DataFrame, as in :meth:`ArrowColumns.of`."""
    types = import_optional("pyspark.sql.pandas.types", extra="spark")
    columns = list(dict.fromkeys([*features, outcome, treatment]))
    check_columns(columns, frame.columns, NAME)
    typed = [name for name in columns if not raw or name in (outcome, treatment)]
    schema = types.to_arrow_schema(frame.select(*map(quoted, typed)).schema)
    return ArrowColumns.of(
        schema, features, outcome, treatment, treated=treated, control=control, name=NAME, raw=raw
    )


def quoted(column: str) -> str:
    """Quote a column name for Spark expressions.

    >>> quoted("a.b")
    '`a.b`'
    """
    return "`" + column.replace("`", "``") + "`"
