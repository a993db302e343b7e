"""Rows of a trial that are read in batches and summarised, never copied as a whole."""

from auucmax.rows.arrow import ArrowRows, stream_table
from auucmax.rows.base import (
    ArrayRows,
    Batch,
    Extremes,
    HashedPart,
    Rows,
    Sample,
    Share,
    part_of,
)

__all__ = [
    "ArrayRows",
    "ArrowRows",
    "Batch",
    "Extremes",
    "HashedPart",
    "Rows",
    "Sample",
    "Share",
    "part_of",
    "stream_table",
]
