"""Rows of a trial that are read in batches and summarised, never copied as a whole."""

from auucmax.rows.arrow import ArrowRows, stream_table
from auucmax.rows.base import (
    ArrayRows,
    Batch,
    Extremes,
    HashedPart,
    Question,
    Rows,
    Sample,
    Share,
    ask,
    part_of,
    together,
)

__all__ = [
    "ArrayRows",
    "ArrowRows",
    "Batch",
    "Extremes",
    "HashedPart",
    "Question",
    "Rows",
    "Sample",
    "Share",
    "ask",
    "part_of",
    "stream_table",
    "together",
]
