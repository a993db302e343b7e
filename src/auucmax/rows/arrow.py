"""Rows of a trial that stay on the disk: read batch by batch, as often as they are needed."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from auucmax._validation import check_whole
from auucmax.data.databases import connect, duckdb_select, quoted
from auucmax.data.reading import check_no_query, locate_files
from auucmax.data.table_errors import (
    TableError,
    changed_message,
    check_different,
    feature_columns,
    one_line,
)
from auucmax.rows.base import Batch, Rows, Summary
from auucmax.rows.columns import CHECK_ARMS, ArrowColumns
from auucmax.rows.order_mark import order_mark

BATCH_BYTES = 2**24  #: of the features of a batch
MAX_BATCH_ROWS = 2**18
_LONGEST = 2**31 - 1  # rows of a batch that may be asked for


class _Reader(Protocol):
    """Arrow record batches of a table, from its first row to its last."""

    def schema(self) -> Any: ...

    def batches(self, columns: Sequence[str], n_rows: int) -> Generator[Any, None, None]: ...


@dataclass(frozen=True)
class _ParquetFiles:
    files: tuple[str, ...]

    def schema(self) -> Any:
        import pyarrow.parquet

        schemas = []
        for file in self.files:
            with _whole_parquet(file):
                schemas.append(pyarrow.parquet.read_schema(file))
        first, *others = schemas
        types = dict(zip(first.names, first.types, strict=True))
        for file, schema in zip(self.files[1:], others, strict=True):
            if dict(zip(schema.names, schema.types, strict=True)) != types:
                raise TableError(
                    f"{Path(file).name} should have the columns and types of "
                    f"{Path(self.files[0]).name}, got others. Write the files alike."
                )
        return first

    def batches(self, columns: Sequence[str], n_rows: int) -> Generator[Any, None, None]:
        import pyarrow.parquet

        for file in self.files:
            with (
                _whole_parquet(file),
                # Pages through a small buffer: a row group may be larger than the memory.
                closing(
                    pyarrow.parquet.ParquetFile(file, buffer_size=2**20, pre_buffer=False)
                ) as table,
            ):
                yield from table.iter_batches(n_rows, columns=list(columns), use_threads=False)


def _whole_parquet(file: str) -> AbstractContextManager[None]:
    return one_line(
        Path(file).name, "a Parquet file that can be read to its end", "Write the file again."
    )


@dataclass(frozen=True)
class _Query:
    sql: str
    database: str
    name: str

    @classmethod
    def of(cls, database: str, query: str | None, name: str) -> _Query:
        with (
            one_line(name, "a DuckDB database and the query one of it", "Check both."),
            connect(database, read_only=True) as db,
        ):
            return cls(duckdb_select(db, query, name), database, name)

    def schema(self) -> Any:
        with connect(self.database, read_only=True) as db:
            return db.sql(f"SELECT * FROM ({self.sql}) LIMIT 0").to_arrow_table().schema

    def batches(self, columns: Sequence[str], n_rows: int) -> Generator[Any, None, None]:
        chosen = ", ".join(map(quoted, columns))
        with (
            one_line(self.name, "a database whose query runs to its end", "Mend the query."),
            connect(self.database, read_only=True) as db,
        ):
            yield from db.sql(f"SELECT {chosen} FROM ({self.sql})").to_arrow_reader(n_rows)


@dataclass(frozen=True)
class ArrowRows(Rows):
    """Rows of a table that stays where it is; made by :func:`stream_table`.

    Batches come in the order of the table, so a row keeps its number when it is read again. A
    reading that gives other rows than the first one is an error at its end.
    """

    reader: _Reader
    columns: ArrowColumns
    name: str
    batch_rows: int
    # The mark of the first reading that came to its end, once there was one.
    _marks: dict[str, tuple[int, int]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    @property
    def names(self) -> tuple[str, ...]:  # type: ignore[override]
        return self.columns.features

    def batches(self) -> Generator[Batch, None, None]:
        """All rows, once."""
        n_rows, total = 0, 0
        with closing(self.reader.batches(self.columns.columns, self.batch_rows)) as tables:
            for table in tables:
                keys = np.arange(n_rows, n_rows := n_rows + table.num_rows, dtype=np.uint64)
                if len((batch := self._batch(table, keys)).y):
                    total += order_mark(batch)
                    yield batch
        mark = n_rows, total % 2**64
        if self._marks.setdefault("first", mark) != mark:
            raise TableError(changed_message(self.name))

    def _batch(self, table: Any, keys: NDArray[np.uint64]) -> Batch:
        try:
            return self.columns.batch(table, keys)
        except TableError:
            raise
        except (KeyError, TypeError, ValueError) as error:
            if not self._marks:
                with one_line(self.name, "a table of numbers", "Convert its columns first."):
                    raise
            # Columns and types were checked before: they are others now.
            raise TableError(changed_message(self.name)) from error

    def total(self, *summaries: Summary) -> list[Any]:
        """Each summary of every batch, added up in the order of the batches; one reading."""
        (n_control, n_treated), *totals = super().total(_arm_counts, *summaries)
        if not n_control or not n_treated:
            raise TableError(
                f"the column {self.columns.treatment!r} of {self.name} should hold both arms, "
                f"treated and control; all {n_control + n_treated:,} rows are "
                f"{'treated' if n_treated else 'control'}. An effect needs both arms."
            )
        return totals

    def without_rows(self) -> TableError:
        return TableError(f"{self.name} should have {self.columns.wanted}, got none. {CHECK_ARMS}")


def _arm_counts(batch: Batch) -> NDArray[np.int64]:
    """Rows that are control and treated."""
    n_treated = np.count_nonzero(batch.treated)
    return np.array([len(batch.y) - n_treated, n_treated])


def _usual_rows(rows: ArrowColumns) -> int:
    """Rows of a batch, if nobody asks for another number."""
    width = np.dtype(rows.dtype).itemsize * len(rows.features)
    return int(np.clip(BATCH_BYTES // width, 1, MAX_BATCH_ROWS))


def stream_table(
    source: str | Path,
    *,
    treatment: str,
    outcome: str,
    features: Iterable[str] | None = None,
    query: str | None = None,
    treated: Any = None,
    control: Any = None,
    batch_rows: int | None = None,
) -> ArrowRows:
    """Rows of Parquet files, or of a DuckDB query, to be read batch by batch.

    :meth:`auucmax.AUUCMax.fit`, ``score`` and :func:`auucmax.evaluation.score_levels` take it
    in the place of arrays, and need memory for a few batches only.

    Parameters
    ----------
    source : a Parquet file, a folder of them or a pattern such as ``"rows/*.parquet"``; or a DuckDB
        database, with ``query``, a SELECT or the name of a table, which must give its rows in the
        same order every time.
    treatment, outcome : their columns. Treatment is 0/1 or boolean, or ``treated`` and ``control``
        name its two values (1, 1.0 and "1" are one value, and so are True and "true"), and rows of
        other arms are left out. Outcomes are finite numbers or booleans.
    features : columns of numbers; default: all other columns.
    batch_rows : rows read at a time; default: 16 MB of features, at most 262,144 rows.

    Raises
    ------
    TableError : in one line, for columns that are not there, have two roles or a type that their
        role cannot have; while reading, for outcomes that are missing or infinite, a table with one
        arm only, or one that cannot be read to its end. Every further reading is compared with the
        first: the number of rows, and a hash of some of them in their order, 32 of each 1,024 among
        the first 32,768, and then of each 32,768. A table that has changed is refused at the end of
        that reading, though a change of a few rows may pass; open it again to take its new rows.

    Examples
    --------
    >>> import tempfile
    >>> from auucmax import AUUCMax, load_hillstrom
    >>> trial = load_hillstrom()
    >>> frame = trial.X.assign(visit=trial.y, email=trial.treatment)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     frame.to_parquet(f"{folder}/rows.parquet")
    ...     rows = stream_table(f"{folder}/rows.parquet", treatment="email", outcome="visit")
    ...     model = AUUCMax(selection=None, norm=0.5).fit(rows)
    >>> model.converged_
    True
    """
    if batch_rows is not None:
        batch_rows = check_whole(batch_rows, "batch_rows", 1, _LONGEST)
    files, kind, name = locate_files(str(source))
    reader: _Reader
    if kind == "parquet":
        check_no_query(query, name)
        reader = _ParquetFiles(tuple(files))
    elif kind == "database":
        reader = _Query.of(files[0], query, name)
    else:
        raise TableError(
            f"{name} should be Parquet files or a DuckDB database to be read batch by batch, got "
            f"{kind}. Convert it: duckdb -c \"COPY (FROM '{name}') TO 'rows.parquet'\"."
        )
    with one_line(name, "a table that can be read", "Check that it is whole."):
        schema = reader.schema()
    if len(set(schema.names)) < len(schema.names):
        check_different(schema.names, name)
    chosen = feature_columns(features, treatment, outcome, schema.names, name)
    columns = ArrowColumns.of(
        schema, chosen, outcome, treatment, treated=treated, control=control, name=name
    )
    return ArrowRows(reader, columns, name, batch_rows or _usual_rows(columns))
