"""One table as a frame of every library that is taken."""

from __future__ import annotations

from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa

_NULLABLE = {
    pa.bool_(): pd.BooleanDtype(),
    pa.int16(): pd.Int16Dtype(),
    pa.int64(): pd.Int64Dtype(),
    pa.uint8(): pd.UInt8Dtype(),
    pa.float32(): pd.Float32Dtype(),
    pa.float64(): pd.Float64Dtype(),
    pa.string(): pd.StringDtype(),
    pa.large_string(): pd.StringDtype(),
}
KINDS = (
    "numpy", "nullable", "arrow-backed", "polars", "polars lazy", "polars chunks", "pyarrow",
    "pyarrow views", "duckdb",
)  # fmt: skip


def as_kind(table: pa.Table, kind: str) -> Any:
    """The same rows, in the same order."""
    if kind == "numpy":
        return table.to_pandas()
    if kind == "nullable":
        return table.to_pandas(types_mapper=_NULLABLE.get)
    if kind == "arrow-backed":
        return table.to_pandas(types_mapper=pd.ArrowDtype)
    if kind.startswith("polars"):
        frame = pl.from_arrow(table)
        if kind == "polars chunks":
            half = len(frame) // 2
            return pl.concat([frame[:half], frame[half:]], rechunk=False)
        return frame.lazy() if kind == "polars lazy" else frame
    if kind == "pyarrow views":
        is_text = [pa.types.is_string(f.type) or pa.types.is_large_string(f.type)
                   for f in table.schema]  # fmt: skip
        fields = [f.with_type(pa.string_view()) if text else f
                  for f, text in zip(table.schema, is_text, strict=True)]  # fmt: skip
        return table.cast(pa.schema(fields))
    return duckdb.from_arrow(table) if kind == "duckdb" else table
