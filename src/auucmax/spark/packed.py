"""Rows of a DataFrame, packed once for many passes: numbers of many rows in one binary value.

A pass over columns spends its time in Spark's conversion of every single value to Arrow. A packed
value holds the features, outcome and treatment of some rows as they lie in memory, so that each
further pass only moves bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from auucmax.data.batches import Batch

__all__ = ["PackedRows", "Reading"]

VALUE_BYTES = 2**10  #: of a packed value, about; Spark sends 10,000 of them at a time: 10 MB
BLOCK_ROWS = 2**18  #: that are worked on at a time: Arrow batches are too small for the kernels


class Reading(Protocol):
    """How rows are made from Arrow batches with the columns ``columns``."""

    @property
    def features(self) -> tuple[str, ...]: ...

    @property
    def columns(self) -> tuple[str, ...]: ...

    def batches(self, tables: Iterator[Any], first_key: int) -> Iterator[Batch]:
        """Blocks of rows of a partition; the keys of the rows count from ``first_key``."""


@dataclass(frozen=True)
class PackedRows:
    """Packed rows with outcomes 0/1: m of them are an (m, d + 1) matrix of dtype.

    After the d features comes outcome + 2 treatment. A missing value holds no rows.
    """

    features: tuple[str, ...]
    dtype: str
    columns: tuple[str, ...] = ("rows",)

    def batches(self, tables: Iterator[Any], first_key: int) -> Iterator[Batch]:
        """Blocks of rows of a partition."""
        for table in tables:
            matrix = self._matrix(table.column(0))
            for start in range(0, len(matrix), BLOCK_ROWS):
                rows = matrix[start : start + BLOCK_ROWS]
                keys = np.arange(first_key, first_key := first_key + len(rows), dtype=np.uint64)
                labels = rows[:, -1]
                y = (labels % 2).astype(np.float64)
                yield Batch(rows[:, :-1], y, labels >= 2, keys)

    def _matrix(self, column: Any) -> NDArray[Any]:
        """All rows of an Arrow column of packed values, which lie one after the other: no copy."""
        import pyarrow as pa

        _, offsets, data = column.buffers()
        kind = np.int64 if pa.types.is_large_binary(column.type) else np.int32
        ends = np.frombuffer(offsets, dtype=kind)[column.offset : column.offset + len(column) + 1]
        values = np.frombuffer(data, dtype=np.uint8)[ends[0] : ends[-1]]
        return values.view(self.dtype).reshape(-1, len(self.features) + 1)

    def values(self, batch: Batch) -> Any:
        """The rows of a block, at least one, as an Arrow array of packed values."""
        import pyarrow as pa

        if not ((batch.y == 0) | (batch.y == 1)).all():
            raise ValueError(
                "outcomes should be 0 or 1 to be packed, got others. Do not pack them."
            )
        rows = np.empty((len(batch.y), len(self.features) + 1), dtype=self.dtype)
        rows[:, :-1] = batch.X
        rows[:, -1] = batch.y + 2 * batch.treated
        step = max(VALUE_BYTES // rows[:1].nbytes, 1) * rows[:1].nbytes
        ends = np.append(np.arange(0, rows.nbytes, step), rows.nbytes).astype(np.int32)
        buffers = [None, pa.py_buffer(ends), pa.py_buffer(rows)]
        return pa.Array.from_buffers(pa.binary(), len(ends) - 1, buffers)
