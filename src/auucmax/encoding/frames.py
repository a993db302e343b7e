"""Convert tables of any library to pandas (sharing memory where possible) and back.

narwhals recognises the table: a frame of polars (lazy ones, too), an Arrow table, a DuckDB
relation, or any other that it knows. Columns are handed over one by one, by Arrow, and only those
that are asked for: numbers without missing values, and texts of Arrow, are not copied. Inside, all
columns are pandas series; a pandas frame stays as it is.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from os import PathLike
from typing import Any

import numpy as np
import pandas as pd

from auucmax._optional import import_optional
from auucmax._validation import listed, unknown_columns

# Whole numbers and booleans with missing values: as floats or objects they would not be exact.
_WITH_MISSING = {"bool": pd.BooleanDtype()} | {
    name.lower(): pd.api.types.pandas_dtype(name)
    for name in ("Int8", "Int16", "Int32", "Int64", "UInt8", "UInt16", "UInt32", "UInt64")
}


def frame_of(
    table: Any, columns: Sequence[str] | None = None, also: Sequence[str] = ()
) -> pd.DataFrame:
    """Convert a table to a pandas frame with distinct column names, all texts.

    ``columns``: only these are read, and all must be there; ``also``: further ones, if there. A
    pandas frame keeps all of its columns, because selecting some would copy them.

    >>> import pyarrow as pa
    >>> frame_of(pa.table({"age": [30, None], "town": ["Oslo", "Rome"]}), ["age"])
        age
    0    30
    1  <NA>
    """
    is_pandas = isinstance(table, pd.DataFrame)
    known, names = (table, list(map(str, table.columns))) if is_pandas else _known(table)
    if len(set(names)) < len(names):
        repeated = sorted({name for name in names if names.count(name) > 1})
        raise ValueError(
            f"the table should have columns of different names, got {listed(repeated)} more than "
            f"once. Rename or drop them."
        )
    if unknown := [name for name in columns or () if name not in names]:
        raise unknown_columns("the table", unknown, names, also, "Rename {} if it is this column.")
    if is_pandas:
        frame = table if names == list(table.columns) else table.set_axis(names, axis=1)
        return _without_arrow_types(frame)
    wanted = {*names} if columns is None else {*columns, *also}
    known = known.select(name for name in names if name in wanted)
    arrow = _arrow(known)
    own = {name: series_of(arrow[name]) for name in arrow.column_names}
    return pd.DataFrame(own, index=pd.RangeIndex(arrow.num_rows), copy=False)


def is_frame(table: Any) -> bool:
    """Whether an object is a table of a supported library.

    >>> is_frame(pd.DataFrame()), is_frame([[1.0, 2.0]])
    (True, False)
    """
    if isinstance(table, pd.DataFrame):
        return True
    if isinstance(table, (str, PathLike, list, tuple, np.ndarray)):  # the usual case
        return False
    import narwhals.stable.v2 as nw

    return isinstance(nw.from_native(table, pass_through=True), (nw.DataFrame, nw.LazyFrame))


def as_given(frame: pd.DataFrame, table: Any, keys: Collection[str | None] = ()) -> Any:
    """Convert a result to the library of the input (a DuckDB relation becomes Arrow).

    ``keys`` are columns of the result that come from the table, and have the types that they have
    there, so that both can be joined. Without a table, as for a file, the result is unchanged.

    >>> import pyarrow as pa
    >>> as_given(pd.DataFrame({"id": [7]}), pa.table({"id": pa.array([7], pa.int16())}), ["id"])
    pyarrow.Table
    id: int16
    ----
    id: [[7]]
    """
    if isinstance(table, pd.DataFrame) or not is_frame(table):
        return frame
    import narwhals.stable.v2 as nw
    import pyarrow as pa

    known, names = _known(table)
    own = _arrow(known.select(n for n in names if n in keys).head(0)).schema
    arrow = pa.Table.from_pandas(frame, preserve_index=False).replace_schema_metadata(None)
    # By fields, not types alone: polars knows an Enum by what it writes there.
    fields = [own.field(f.name) if f.name in own.names else f for f in arrow.schema]
    arrow = arrow.cast(pa.schema(fields))
    kind = known.implementation
    if not (kind.is_polars() or kind.is_pandas_like()):
        return arrow
    return nw.DataFrame.from_arrow(arrow, backend=kind).to_native()


def first_rows(frame: Any, n: int) -> Any:
    """The first rows of a result of :func:`as_given`."""
    import narwhals.stable.v2 as nw

    return nw.from_native(frame, eager_only=True).head(n).to_native()


def _known(table: Any) -> tuple[Any, list[str]]:
    """The narwhals table and its column names; ValueError for other objects."""
    import narwhals.stable.v2 as nw

    if not is_frame(table):
        raise ValueError(
            f"the table should be a frame with named columns, got {type(table).__name__}. Pass a "
            f"frame of pandas or polars, an Arrow table or a DuckDB relation; files are read by "
            f"auucmax.data.read_table."
        )
    known: Any = nw.from_native(table)
    if known.implementation.is_spark_like():
        raise ValueError(
            "the table should be in one machine's memory, got a DataFrame of Spark. Use "
            "auucmax.spark, which works where its rows are, or pass table.toArrow() if they fit."
        )
    return known, list(
        table.columns if known.implementation.is_duckdb() else known.collect_schema()
    )


def _arrow(known: Any) -> Any:
    """Convert a narwhals table, lazy or not, to Arrow."""
    import_optional("pyarrow", extra="arrow")
    return (known.collect("pyarrow") if hasattr(known, "collect") else known).to_arrow()


def series_of(column: Any) -> pd.Series:
    """Convert an Arrow column to a series without changing its values."""
    import pyarrow
    from pyarrow import types

    if types.is_decimal(column.type):  # floats would round, and objects are slow
        if column.type.bit_width < 128:  # whose texts pandas cannot count
            column = column.cast(pyarrow.decimal128(column.type.precision, column.type.scale))
        return column.to_pandas(types_mapper=pd.ArrowDtype)
    if types.is_dictionary(column.type):
        try:
            return column.to_pandas()
        except (ValueError, TypeError, NotImplementedError):  # a level twice, or a missing one
            return series_of(column.cast(column.type.value_type))
    if types.is_string_view(column.type):
        column = column.cast("large_string")
    exact = _WITH_MISSING.get(str(column.type)) if column.null_count else None
    return column.to_pandas(
        date_as_object=False, types_mapper=None if exact is None else lambda _: exact
    )


def _without_arrow_types(frame: pd.DataFrame) -> pd.DataFrame:
    """Convert columns with Arrow types to the types used for Arrow tables."""
    typed = [name for name, own in frame.dtypes.items() if isinstance(own, pd.ArrowDtype)]
    if not typed:
        return frame
    import pyarrow as pa

    arrow = pa.Table.from_pandas(frame[typed], preserve_index=False)
    return frame.assign(**{name: series_of(arrow[name]).set_axis(frame.index) for name in typed})
