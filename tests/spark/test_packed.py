"""Packed rows are the rows: every number, in its order, in blocks of any size."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auucmax.rows.columns import ArrowColumns
from auucmax.spark import rows as module
from auucmax.spark.rows import PackedRows, TableRows


def tables(n, sizes, dtype, seed):
    rng = np.random.default_rng(seed)
    columns = {
        "a": rng.normal(size=n).astype(dtype),
        "b": rng.normal(size=n).astype(dtype),
        "y": rng.integers(0, 2, n),
        "t": rng.integers(0, 2, n),
    }
    table = pa.table(columns)
    return [batch for size in sizes for batch in table.to_batches(max_chunksize=size)]


def joined(batches):
    parts = list(batches)
    return [np.concatenate([batch[k] for batch in parts]) for k in range(4)]


@settings(max_examples=15, deadline=None)
@given(
    st.integers(1, 300),
    st.lists(st.integers(1, 100), min_size=1, max_size=3),
    st.sampled_from(["float32", "float64"]),
    st.booleans(),
    st.integers(0, 9),
)
def test_packed_and_unpacked_rows_are_the_rows(n, sizes, dtype, large, seed):
    reading = TableRows(ArrowColumns(("a", "b"), "y", "t", dtype))
    rows = PackedRows(("a", "b"), dtype)
    given_ = tables(n, sizes, dtype, seed)
    values = sent([rows.values(batch) for batch in reading.batches(iter(given_), 7)], large)
    found = joined(rows.batches(iter(values), 7))
    expected = joined(reading.batches(iter(given_), 7))
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


def sent(values, large):
    """As Spark sends them: cut anywhere, among values without rows, as long values if told so."""
    arrays = [half for v in values for half in (v.slice(0, 1), pa.nulls(2, v.type), v.slice(1))]
    kind = pa.large_binary() if large else pa.binary()
    return [pa.RecordBatch.from_arrays([own.cast(kind)], ["rows"]) for own in arrays]


def test_values_and_blocks_are_small(monkeypatch):
    monkeypatch.setattr(module, "VALUE_BYTES", 100)
    reading, rows = TableRows(ArrowColumns(("a", "b"), "y", "t")), PackedRows(("a", "b"), "float32")
    (batch,) = reading.batches(iter(tables(100, [100], "float32", 0)), 0)
    monkeypatch.setattr(module, "BLOCK_ROWS", 40)
    values = rows.values(batch)
    assert {len(value) for value in values.to_pylist()} == {96, 48}  # 8 rows, and 4
    found = rows.batches(iter(sent([values], False)), 0)
    assert max(len(batch.y) for batch in found) == 40


def test_other_outcomes_are_not_packed():
    reading, rows = TableRows(ArrowColumns(("a", "b"), "y", "t")), PackedRows(("a", "b"), "float32")
    (table,) = tables(4, [4], "float32", 0)
    (batch,) = reading.batches(iter([table.set_column(2, "y", pa.array([0.0, 1, 0.5, 0]))]), 0)
    with pytest.raises(ValueError, match="outcomes should be 0 or 1"):
        rows.values(batch)


def test_rows_of_other_arms_do_not_change_the_keys():
    reading = TableRows(ArrowColumns(("a", "b"), "y", "t", "float64", "1", "0"))
    arms = pa.array([1, 7, 0, 1, 7, 0])
    given_ = [batch.set_column(3, "t", arms) for batch in tables(6, [6], "float64", 0)]
    rows = PackedRows(("a", "b"), "float64")
    (batch,) = reading.batches(iter(given_), 3)
    assert batch.keys.tolist() == [3, 4, 5, 6]
    again = joined(rows.batches(iter(sent([rows.values(batch)], False)), 3))
    for one, other in zip(again, batch[:4], strict=True):
        np.testing.assert_array_equal(one, other)
