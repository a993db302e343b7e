"""Rows of a trial on disk, read in batches as often as needed.

Parquet files, DuckDB and Spark all give Arrow batches, which are converted to rows of a trial here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from auucmax._optional import import_optional
from auucmax._validation import Bools, check_whole, listed
from auucmax.data.databases import connect, duckdb_select
from auucmax.data.reading import by_duckdb, locate_files
from auucmax.data.tables import TableError, check_columns, one_line, quoted
from auucmax.encoding.frames import series_of
from auucmax.encoding.kinds import arm_text, texts_of
from auucmax.rows.base import Batch, Rows, order_mark

CHECK_ARMS = "Check the values of the treatment, and what treated= and control= name."


@dataclass(frozen=True)
class ArrowColumns:
    """Roles of Arrow columns: features, outcome, treatment and its two labels.

    ``dtype`` is the type of the features; None: they are raw columns, and come as a frame.
    ``treated`` and ``control`` None: treatment is 0/1 or boolean. Otherwise they are its two
    values as :func:`auucmax.encoding.kinds.arm_text` writes them, and rows with others are left
    out.
    """

    features: tuple[str, ...]
    outcome: str
    treatment: str
    dtype: str | None = "float32"
    treated: str | None = None
    control: str | None = None

    @classmethod
    def of(
        cls,
        schema: Any,
        features: Sequence[str],
        outcome: str,
        treatment: str,
        *,
        treated: Any = None,
        control: Any = None,
        name: str = "the table",
        raw: bool = False,
    ) -> ArrowColumns:
        """Validate the columns against an Arrow schema, and choose the float type.

        Outcomes are numbers, booleans or decimals, which may be a feature, too (a score may be
        evaluated as the outcome of itself).
        """
        if treatment == outcome:
            raise TableError(
                f"treatment and outcome of {name} should be two columns, got {treatment!r} for "
                f"both. Name two."
            )
        _check_kinds(schema, outcome, treatment, named=treated is not None)
        kinds = {} if raw else {column: schema.field(column).type for column in features}
        texts = [column for column, kind in kinds.items() if _width(kind) is None]
        if texts or not features:
            raise TableError(
                f"{name} should have columns of numbers for features, got "
                + (f"{texts[0]!r} of type {kinds[texts[0]]!s:.50}" if texts else "none")
                + ". Name columns of numbers, or encode it first."
            )
        # Single precision where numpy would make one float32 matrix of these columns.
        small = all(_width(kind) == 4 and str(kind) != "bool" for kind in kinds.values())
        single = small and "float" in map(str, kinds.values())
        dtype = None if raw else "float32" if single else "float64"
        labels = (None if label is None else arm_text(label) for label in (treated, control))
        return cls(tuple(features), outcome, treatment, dtype, *labels)

    @property
    def columns(self) -> tuple[str, ...]:
        return (*self.features, self.outcome, self.treatment)

    def batch(self, table: Any, keys: NDArray[np.uint64]) -> Batch:
        """Convert an Arrow table or record batch to a batch with ``keys`` (m,)."""
        treated, known = self._arms(table.column(self.treatment))
        y = _numbers(table.column(self.outcome)).astype(np.float64)
        if self.dtype is None:
            X = table.select(list(self.features)).to_pandas()
        else:
            X = np.empty((len(self.features), table.num_rows), dtype=self.dtype).T
            for k, column in enumerate(self.features):
                X[:, k] = _numbers(table.column(column))
        rows = Batch(X, y, treated, keys)
        if not known.all():
            rows = rows.take(known)
        if not (known := np.isfinite(rows.y)).all():
            what = "a missing value" if np.isnan(rows.y[~known][0]) else "an infinite one"
            raise TableError(
                f"the column {self.outcome!r} should have a finite number in every row, got "
                f"{what}. Drop the rows without an outcome."
            )
        return rows

    def _arms(self, column: Any) -> tuple[Bools, Bools]:
        """Masks of the treated rows, and of rows in either arm."""
        from pyarrow import types

        if self.treated is None:
            value = _numbers(column)
            treated = value == 1
            if not (treated | (value == 0)).all():
                other = value[~(treated | (value == 0))][0]
                raise TableError(
                    f"the column {self.treatment!r} should be 0 or 1 in every row, got {other}. "
                    f"Name the two arms with treated= and control=."
                )
            return treated, np.ones(len(value), dtype=bool)
        if types.is_date(column.type):
            column = column.cast("string")  # as 2024-01-31
        codes, texts = texts_of(series_of(column), "category")
        texts = [arm_text(text) for text in texts]
        # Code -1 is of missing values, and -1 is the place of the last: neither arm.
        treated, control = (
            np.array([*(text == label for text in texts), False])[codes]
            for label in (self.treated, self.control)
        )
        return treated, treated | control


def _check_kinds(schema: Any, outcome: str, treatment: str, *, named: bool) -> None:
    kind = schema.field(outcome).type
    if _width(kind) is None:
        raise TableError(
            f"the column {outcome!r} should hold numbers or booleans as the outcome, got "
            f"type {kind!s:.50}. Convert it first."
        )
    kind = schema.field(treatment).type
    if _width(kind) is not None:
        return
    if not named:
        raise TableError(
            f"the column {treatment!r} should be 0 or 1 in every row, got type {kind!s:.50}. "
            f"Name the two arms with treated= and control=."
        )


def _width(kind: Any) -> int | None:
    """Bytes of the float that represents an Arrow type exactly; None if not numeric."""
    from pyarrow import types

    if types.is_boolean(kind) or types.is_float16(kind) or types.is_float32(kind):
        return 4
    if types.is_integer(kind):
        return 4 if kind.bit_width <= 16 else 8
    return 8 if types.is_float64(kind) or types.is_decimal(kind) else None


def _numbers(column: Any) -> NDArray[Any]:
    """Convert an Arrow column to numbers, NaN where missing."""
    values = column.to_numpy(zero_copy_only=False)
    return values.astype(np.float64) if values.dtype.kind in "OV" else values


BATCH_BYTES = 2**24  #: of the features of a batch
MAX_BATCH_ROWS = 2**18
_LONGEST = 2**31 - 1  # rows of a batch that may be asked for


@dataclass(frozen=True)
class _ParquetFiles:
    files: tuple[str, ...]

    def schema(self) -> Any:
        import pyarrow.parquet

        return pyarrow.parquet.read_schema(self.files[0])

    def batches(self, columns: Sequence[str], n_rows: int) -> Generator[Any, None, None]:
        from pyarrow.parquet import ParquetFile

        for file in self.files:
            with (
                one_line(
                    Path(file).name,
                    "a Parquet file that can be read to its end",
                    "Write the file again.",
                ),
                # Pages through a small buffer: a row group may be larger than the memory.
                closing(ParquetFile(file, buffer_size=2**20, pre_buffer=False)) as table,
            ):
                yield from table.iter_batches(n_rows, columns=list(columns), use_threads=False)


@dataclass(frozen=True)
class _Query:
    sql: str
    database: str

    def batches(self, columns: Sequence[str], n_rows: int) -> Generator[Any, None, None]:
        chosen = ", ".join(map(quoted, columns))
        with connect(self.database) as db:
            yield from db.sql(f"SELECT {chosen} FROM ({self.sql})").to_arrow_reader(n_rows)


@dataclass(eq=False)
class ArrowRows(Rows):
    """Rows of a table on disk; made by :func:`stream_table`.

    Batches come in the order of the table, so a row keeps its number when it is read again. A
    reading that gives other rows than the first one is an error at its end.
    """

    reader: _ParquetFiles | _Query
    columns: ArrowColumns
    name: str
    batch_rows: int
    # Number of rows and mark of the first reading that came to its end, once there was one.
    first_mark: tuple[int, int] | None = None

    @property
    # Those of the columns, where Rows has an attribute.
    def names(self) -> tuple[str, ...]:  # type: ignore[override]
        return self.columns.features

    def batches(self) -> Generator[Batch, None, None]:
        """Iterate over all rows once."""
        n_rows = mark = n_known = n_treated = 0
        with (
            one_line(
                self.name,
                "a table of numbers that can be read to its end",
                "Write the table again, or correct the query.",
            ),
            closing(self.reader.batches(self.columns.columns, self.batch_rows)) as tables,
        ):
            for table in tables:
                keys = np.arange(n_rows, n_rows := n_rows + table.num_rows, dtype=np.uint64)
                batch = self.columns.batch(table, keys)
                mark += order_mark(batch)
                n_known += len(batch.y)
                n_treated += int(batch.treated.sum())
                if len(batch.y):
                    yield batch
        named = self.columns.treated, self.columns.control
        if not n_known:
            wanted = "rows" if None in named else "rows with {!r} or {!r} in {!r}"
            wanted = wanted.format(*named, self.columns.treatment)
            raise TableError(f"{self.name} should have {wanted}, got none. {CHECK_ARMS}")
        if n_treated in (0, n_known):
            raise TableError(
                f"the column {self.columns.treatment!r} of {self.name} should hold both arms, "
                f"treated and control; all {n_known:,} rows are "
                f"{'treated' if n_treated else 'control'}. An effect needs both arms."
            )
        found = n_rows, mark % 2**64
        self.first_mark = self.first_mark or found
        if found != self.first_mark:
            raise TableError(changed_message(self.name))


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
    """Read rows of Parquet files or a DuckDB query in batches.

    ``fit`` and ``score`` of :class:`auucmax.AUUCMax` and :func:`auucmax.metrics.score_levels`
    take it in the place of arrays, and need memory for a few batches only.

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
        first: the number of rows, and a hash of some of them in their order, the first 1,024 and
        then every 1,024th. A table that has changed is refused at the end of
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
    import_optional("pyarrow", extra="arrow")
    files, kind, name = locate_files(str(source), query)
    reader: _ParquetFiles | _Query
    if kind == "parquet":
        reader = _ParquetFiles(tuple(files))
        with one_line(name, "Parquet files that can be read", "Check that they are whole."):
            schema = reader.schema()
    elif kind == "database":
        with by_duckdb(files, kind, name) as db:
            sql = duckdb_select(db, query, name)
            reader = _Query(sql, files[0])
            schema = db.sql(f"SELECT * FROM ({sql}) LIMIT 0").to_arrow_table().schema
    else:
        raise TableError(
            f"{name} should be Parquet files or a DuckDB database to be read batch by batch, got "
            f"{kind}. Convert it: duckdb -c \"COPY (FROM '{name}') TO 'rows.parquet'\"."
        )
    chosen = feature_columns(features, treatment, outcome, schema.names, name)
    columns = ArrowColumns.of(
        schema, chosen, outcome, treatment, treated=treated, control=control, name=name
    )
    width = np.dtype(columns.dtype).itemsize * len(columns.features)
    usual = int(np.clip(BATCH_BYTES // width, 1, MAX_BATCH_ROWS))
    return ArrowRows(reader, columns, name, batch_rows or usual)


# Checks of columns and of repeated readings


def feature_columns(
    features: Iterable[str] | None, treatment: str, outcome: str, names: Sequence[str], table: str
) -> tuple[str, ...]:
    """The feature columns: those named, or all but treatment and outcome.

    TableError if a column is not there, has two roles, or is a feature twice.

    >>> feature_columns(None, "mail", "visit", ["age", "mail", "visit"], "the table")
    ('age',)
    >>> feature_columns(["age", "visit"], "mail", "visit", ["age", "mail", "visit"], "the table")
    Traceback (most recent call last):
    auucmax.data.tables.TableError: treatment, outcome and features of the table should be \
different columns, got 'visit'. Name each column once.
    """
    chosen = [name for name in names if name not in (treatment, outcome)]
    if features is not None:
        chosen = list(features)
    check_columns([treatment, outcome, *chosen], names, table)
    times = Counter([treatment, outcome, *chosen])
    if repeated := [name for name in times if times[name] > 1]:
        raise TableError(
            f"treatment, outcome and features of {table} should be different columns, got "
            f"{listed(repeated)}. Name each column once."
        )
    return tuple(chosen)


def changed_message(
    table: str,
    advice: str = (
        "Leave the file alone meanwhile, and let a query have an ORDER BY and nothing random."
    ),
) -> str:
    """Error message for a table that changed between two readings."""
    return (
        f"{table} should give the same rows in the same order every time it is read, got others "
        f"the second time. {advice}"
    )
