"""Rows of a trial, wherever they are: read batch by batch, summed up, and never copied whole."""

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
