"""Rows of a trial on disk, read in batches as often as needed.

Parquet files, DuckDB and Spark all give Arrow batches, of which rows of a trial are made here.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from auucmax._optional import import_optional
from auucmax._validation import Bools, check_whole
from auucmax.data.databases import connect, duckdb_select, quoted
from auucmax.data.reading import by_duckdb, locate_files
from auucmax.data.table_errors import (
    TableError,
    changed_message,
    check_different,
    check_two,
    feature_columns,
    one_line,
)
from auucmax.encoding.kinds import arm_text
from auucmax.rows.base import Batch, Rows, Summary, order_mark

CHECK_ARMS = "Check the values of the treatment, and what treated= and control= name."


@dataclass(frozen=True)
class ArrowColumns:
    """Roles of Arrow columns: features, outcome, treatment and its two labels.

    ``treated`` and ``control`` None: treatment is 0/1 or boolean. Otherwise they are its two
    values as :func:`auucmax.encoding.kinds.arm_text` writes them, and rows with others are left
    out.
    """

    features: tuple[str, ...]
    outcome: str
    treatment: str
    dtype: str = "float32"
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
    ) -> ArrowColumns:
        """Validate the columns against an Arrow schema, and choose the float type.

        Outcomes are numbers, booleans or decimals, which may be a feature, too (a score may be
        evaluated as the outcome of itself).
        """
        check_two(treatment, outcome, name)
        _check_arms(treated, control)
        _check_kinds(schema, outcome, treatment, named=treated is not None)
        kinds = {column: schema.field(column).type for column in features}
        texts = [column for column, kind in kinds.items() if _width(kind) is None]
        if texts or not kinds:
            raise TableError(
                f"{name} should have columns of numbers for features, got "
                + (f"{texts[0]!r} of type {_short(kinds[texts[0]])}" if texts else "none")
                + ". Name columns of numbers, or encode it first."
            )
        # Single precision where numpy would make one float32 matrix of these columns.
        small = all(_width(kind) == 4 and str(kind) != "bool" for kind in kinds.values())
        single = small and "float" in map(str, kinds.values())
        labels = (None if label is None else arm_text(label) for label in (treated, control))
        dtype = "float32" if single else "float64"
        return cls(tuple(features), outcome, treatment, dtype, *labels)

    @property
    def columns(self) -> tuple[str, ...]:
        return (*self.features, self.outcome, self.treatment)

    @property
    def wanted(self) -> str:
        """Description of the expected columns, for a message."""
        if self.treated is None:
            return "rows"
        return f"rows with {self.treated!r} or {self.control!r} in {self.treatment!r}"

    def batch(self, table: Any, keys: NDArray[np.uint64]) -> Batch:
        """Convert an Arrow table or record batch to a batch with ``keys`` (m,)."""
        treated, known = self._arms(table.column(self.treatment))
        y = _numbers(table.column(self.outcome)).astype(np.float64)
        X = np.empty((len(self.features), table.num_rows), dtype=self.dtype)
        for k, column in enumerate(self.features):
            X[k] = _numbers(table.column(column))
        rows = Batch(X.T, y, treated, keys)
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
        codes, texts = _arm_codes(column)
        # Code -1 is of missing values, and -1 is the place of the last: neither arm.
        treated, control = (
            np.array([*(text == label for text in texts), False])[codes]
            for label in (self.treated, self.control)
        )
        return treated, treated | control


def _arm_codes(column: Any) -> tuple[NDArray[np.int64], list[str | None]]:
    """Codes of the rows (-1 where missing), and the distinct texts."""
    import pyarrow as pa
    import pyarrow.compute as pc

    column = _in_one(column)
    kind = column.type
    if pa.types.is_decimal(kind) and kind.bit_width < 128:  # which Arrow cannot encode
        column = column.cast(pa.decimal128(kind.precision, kind.scale))
    elif pa.types.is_float16(kind):  # nor these, up to 22
        column = column.cast(pa.float32())
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    codes = pc.fill_null(column.indices.cast(pa.int64()), -1).to_numpy(zero_copy_only=False)
    values = column.dictionary
    if pa.types.is_floating(values.type):  # single precision stays: its 0.1 prints as such
        values = values.to_numpy(zero_copy_only=False)
        values = values.astype(np.float16) if pa.types.is_float16(kind) else values
    else:
        values = values.to_pylist()
    return codes, [None if value is None else arm_text(value) for value in values]


def _check_arms(treated: Any, control: Any) -> None:
    if (treated is None) != (control is None):
        raise TableError(
            f"treated and control should be given together, got "
            f"{'control' if treated is None else 'treated'} only. Name both arms."
        )
    if treated is not None and arm_text(treated) == arm_text(control):
        raise TableError(
            f"treated and control should be two values, got {treated!r} and {control!r}. Name both "
            f"arms."
        )


def _check_kinds(schema: Any, outcome: str, treatment: str, *, named: bool) -> None:
    kind = schema.field(outcome).type
    if _width(kind) is None:
        raise TableError(
            f"the column {outcome!r} should hold numbers or booleans, for it is the outcome, got "
            f"type {_short(kind)}. Convert it first."
        )
    kind = schema.field(treatment).type
    if not _is_label(kind):
        raise TableError(
            f"the column {treatment!r} should hold numbers, booleans, texts or dates, for it is "
            f"the treatment, got type {_short(kind)}. Convert it first."
        )
    if not named and _width(kind) is None:
        raise TableError(
            f"the column {treatment!r} should be 0 or 1 in every row, got type {_short(kind)}. "
            f"Name the two arms with treated= and control=."
        )


def _is_label(kind: Any) -> bool:
    """Whether values of an Arrow type can be arm labels."""
    import pyarrow.types as types

    if types.is_dictionary(kind):
        return _is_label(kind.value_type)
    texts = types.is_string(kind) or types.is_large_string(kind) or str(kind) == "string_view"
    return _width(kind) is not None or texts or types.is_date(kind)


def _short(kind: Any) -> str:
    """Name of an Arrow type for messages, shortened."""
    return f"{kind!s:.50}"


def _width(kind: Any) -> int | None:
    """Bytes of the float that represents an Arrow type exactly; None if not numeric."""
    import pyarrow.types as types

    if types.is_boolean(kind) or types.is_float16(kind) or types.is_float32(kind):
        return 4
    if types.is_integer(kind):
        return 4 if kind.bit_width <= 16 else 8
    return 8 if types.is_float64(kind) or types.is_decimal(kind) else None


def _numbers(column: Any) -> NDArray[Any]:
    """Convert an Arrow column to numbers, NaN where missing."""
    values = _in_one(column).to_numpy(zero_copy_only=False)
    return values.astype(np.float64) if values.dtype.kind in "OV" else values


def _in_one(column: Any) -> Any:
    """A column with its chunks combined."""
    return column.combine_chunks() if hasattr(column, "combine_chunks") else column


BATCH_BYTES = 2**24  #: of the features of a batch
MAX_BATCH_ROWS = 2**18
_LONGEST = 2**31 - 1  # rows of a batch that may be asked for


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
                    f"{Path(self.files[0]).name}, got others. Write the files in the same way."
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

    def schema(self) -> Any:
        with connect(self.database) as db:
            return db.sql(f"SELECT * FROM ({self.sql}) LIMIT 0").to_arrow_table().schema

    def batches(self, columns: Sequence[str], n_rows: int) -> Generator[Any, None, None]:
        chosen = ", ".join(map(quoted, columns))
        with (
            one_line(self.name, "a database whose query runs to its end", "Mend the query."),
            connect(self.database) as db,
        ):
            yield from db.sql(f"SELECT {chosen} FROM ({self.sql})").to_arrow_reader(n_rows)


@dataclass(frozen=True)
class ArrowRows(Rows):
    """Rows of a table on disk; made by :func:`stream_table`.

    Batches come in the order of the table, so a row keeps its number when it is read again. A
    reading that gives other rows than the first one is an error at its end.
    """

    reader: _ParquetFiles | _Query
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
        """Iterate over all rows once."""
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
        """Sums of batch summaries, in one reading, added in the order of batches."""
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
    """Numbers of control and treated rows."""
    n_treated = np.count_nonzero(batch.treated)
    return np.array([len(batch.y) - n_treated, n_treated])


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
    elif kind == "database":
        with by_duckdb(files, kind, name) as db:
            reader = _Query(duckdb_select(db, query, name), files[0], name)
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
    width = np.dtype(columns.dtype).itemsize * len(columns.features)
    usual = int(np.clip(BATCH_BYTES // width, 1, MAX_BATCH_ROWS))
    return ArrowRows(reader, columns, name, batch_rows or usual)
