"""Packed rows are the rows: every number, in its order, in blocks of any size."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auucmax.data.arrow_rows import ArrowRows
from auucmax.data.table_errors import TableError
from auucmax.spark import packed as module
from auucmax.spark.packed import PackedRows, pack
from auucmax.spark.rows import NumberRows


def tables(n, sizes, dtype, seed):
    rng = np.random.default_rng(seed)
    columns = {
        "a": rng.normal(size=n).astype(dtype),
        "b": rng.normal(size=n).astype(dtype),
        "y": rng.normal(size=n) * 1e-30,
        "t": rng.integers(0, 2, n),
    }
    table = pa.table(columns)
    return [batch for size in sizes for batch in table.to_batches(max_chunksize=size)]


def joined(batches):
    parts = list(batches)
    return [np.concatenate([batch[k] for batch in parts]) for k in range(4)]


@settings(max_examples=40, deadline=None)
@given(
    st.integers(1, 300),
    st.lists(st.integers(1, 100), min_size=1, max_size=3),
    st.sampled_from(["float32", "float64"]),
    st.booleans(),
    st.integers(0, 9),
)
def test_packed_and_unpacked_rows_are_the_rows(n, sizes, dtype, large, seed):
    reading = NumberRows(ArrowRows(("a", "b"), "y", "t", dtype))
    rows = PackedRows(("a", "b"), dtype)
    given_ = tables(n, sizes, dtype, seed)
    values = list(pack(iter(given_), reading, rows))
    if large:  # what Spark sends when it is told so
        values = [
            pa.RecordBatch.from_arrays(
                [v.column(0).cast(pa.large_binary()), v.column(1)], v.schema.names
            )
            for v in values
        ]
    values = [half for v in values for half in (v.slice(0, 1), v.slice(1)) if half.num_rows]
    found, expected = (
        joined(rows.batches(iter(values), 7)),
        joined(reading.batches(iter(given_), 7)),
    )
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


def test_values_and_blocks_are_small(monkeypatch):
    monkeypatch.setattr(module, "VALUE_BYTES", 100)
    monkeypatch.setattr(module, "BLOCK_ROWS", 40)
    reading, rows = NumberRows(ArrowRows(("a", "b"), "y", "t")), PackedRows(("a", "b"), "float32")
    (values,) = pack(iter(tables(100, [100], "float32", 0)), reading, rows)
    assert {len(value) for value in values.column(0).to_pylist()} == {100}  # 5 rows of 20 bytes
    assert [len(batch.y) for batch in rows.batches(iter([values]), 0)] == [40, 40, 20]


def test_what_is_wrong_is_packed_too():
    reading, rows = NumberRows(ArrowRows(("a", "b"), "y", "t")), PackedRows(("a", "b"), "float32")
    wrong = [batch.set_column(3, "t", pa.array([7])) for batch in tables(1, [1], "float32", 0)]
    with pytest.raises(TableError, match=r"'t' should be 0 or 1 in every row, got 7"):
        list(rows.batches(pack(iter(wrong), reading, rows), 0))


def test_rows_of_other_arms_are_not_packed():
    reading = NumberRows(ArrowRows(("a", "b"), "y", "t", "float64", "1", "0"))
    others = [batch.set_column(3, "t", pa.array([7])) for batch in tables(1, [1], "float64", 0)]
    assert list(pack(iter(others), reading, PackedRows(("a", "b"), "float64"))) == []
