import pickle

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.spark.cases import Partitions

from auucmax.data.table_errors import TableError
from auucmax.rows import Rows, Share
from auucmax.rows.arrow import ArrowColumns
from auucmax.rows.base import Mapped
from auucmax.spark import rows as module
from auucmax.spark.rows import PackedRows, PartitionRows, SparkRows, quoted

COLUMNS = PartitionRows(ArrowColumns(("x",), "y", "t", "float64"))


def table(x, treatment=None):
    n = len(x)
    treatment = np.arange(n) % 2 if treatment is None else treatment
    return pa.table({"x": np.asarray(x, dtype=float), "y": np.zeros(n), "t": treatment})


def listed(batch):
    return [(float(x), int(key)) for x, key in zip(batch.X[:, 0], batch.keys, strict=True)]


@pytest.mark.parametrize("n_parts", [1, 3, 17, 200])
def test_rows_are_added_in_the_order_of_the_partitions(in_executors, n_parts):
    parts = [table([10 * k + i for i in range(k % 5)]) for k in range(1, n_parts + 1)]
    rows = SparkRows(Partitions(parts), COLUMNS)
    assert isinstance(rows, Rows)
    found = [rows.total(listed, len_of)[0] for _ in range(2)]  # the second knows how many there are
    expected = [
        (float(10 * k + i), ((k - 1) << 40) + i)
        for k in range(1, n_parts + 1)
        for i in range(k % 5)
    ]
    assert found == [expected, expected]


def len_of(batch):
    return len(batch.y)


@pytest.mark.parametrize(("most", "expected"), [(6, [6, 6, 4]), (2, [2] * 8), (7, [7, 7, 2])])
def test_batches_are_joined_or_cut_to_blocks(in_executors, monkeypatch, most, expected):
    monkeypatch.setattr(module, "BLOCK_ROWS", most)
    rows = SparkRows(Partitions([table(range(16))]), COLUMNS)  # in batches of three rows
    sizes, values = rows.total(sizes_of, listed)
    assert sizes == expected
    assert values == [(float(k), k) for k in range(16)]


def sizes_of(batch):
    return [len(batch.y)]


def test_an_error_of_an_executor_is_raised_as_it_is(in_executors):
    parts = [table([1.0, 2.0]), table([1.0, 2.0], treatment=[0, 7]), table([3.0], treatment=[9])]
    with pytest.raises(TableError, match=r"'t' should be 0 or 1 in every row, got 7"):
        SparkRows(Partitions(parts), COLUMNS).total(len_of)


def test_no_rows_at_all(in_executors):
    with pytest.raises(TableError, match="should have rows of the two arms, got none"):
        SparkRows(Partitions([table([])]), COLUMNS).total(len_of)


def test_raw_rows_are_frames_of_the_rows_of_the_two_arms():
    arms = ArrowColumns((), "y", "t", treated="b", control="a")
    raw = PartitionRows(arms, ("x",))
    given = pa.table({"x": [1.0, 2.0, 3.0], "y": [0, 1, 1], "t": ["a", "other", "b"]})
    (batch,) = raw.batches(iter(given.to_batches()), 5)
    assert batch.X["x"].tolist() == [1.0, 3.0]
    assert batch.keys.tolist() == [5, 6]  # as packed rows have them
    assert batch.treated.tolist() == [False, True]
    (empty,) = raw.batches(iter(given.slice(1, 1).to_batches()), 6)
    assert Mapped(lambda frame: frame.to_numpy(), 1)(empty).X.shape == (0, 1)


def test_a_view_is_made_where_the_rows_are(in_executors):
    rows = SparkRows(Partitions([table(range(50)), table(range(50, 80))]), COLUMNS)
    doubled = rows.part(Share(0.5, seed=3)).map(twice, ("twice",))
    (found,) = doubled.total(listed)
    whole = {key: x for x, key in rows.total(listed)[0]}
    assert 20 < len(found) < 60
    assert all(x == 2 * whole[key] for x, key in found)
    assert doubled.names == ("twice",)


def twice(X):
    return 2 * X


def test_another_number_of_rows_is_an_error(in_executors):
    rows = SparkRows(Partitions([table([1.0, 2.0])]), COLUMNS)
    assert rows.total(len_of) == rows.total(len_of) == [2]
    rows.frame = Partitions([table([1.0, 2.0, 3.0])])
    with pytest.raises(TableError, match="the same rows in the same order"):
        rows.total(len_of)


def test_blocks_of_wide_rows_are_short(monkeypatch):
    monkeypatch.setattr(module, "BLOCK_BYTES", 8 * 12)
    given = pa.table(
        {f"x{k}": np.zeros(10) for k in range(4)} | {"y": np.zeros(10), "t": [0, 1] * 5}
    )
    raw = tuple(f"x{k}" for k in range(4))
    rows = PartitionRows(ArrowColumns((), "y", "t"), raw)
    assert [len(b.y) for b in rows.batches(iter(given.to_batches()), 0)] == [3, 3, 3, 1]


def test_an_error_travels():
    error = pickle.loads(pickle.dumps(TableError("a, b. c.")))
    assert isinstance(error, TableError)
    assert str(error) == "a, b. c."


# Packed rows are the rows: every number, in its order, in blocks of any size.


def tables(n, sizes, dtype, seed):
    rng = np.random.default_rng(seed)
    columns = {
        "a": rng.normal(size=n).astype(dtype),
        "b": rng.normal(size=n).astype(dtype),
        "y": rng.integers(0, 2, n) if seed % 2 else rng.lognormal(3.0, 1.0, n),
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
    reading = PartitionRows(ArrowColumns(("a", "b"), "y", "t", dtype))
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
    reading, rows = (
        PartitionRows(ArrowColumns(("a", "b"), "y", "t")),
        PackedRows(("a", "b"), "float32"),
    )
    (batch,) = reading.batches(iter(tables(100, [100], "float32", 0)), 0)
    monkeypatch.setattr(module, "BLOCK_ROWS", 40)
    values = rows.values(batch)
    # 5 rows: 2 features, the arm, and the outcome in two numbers of four bytes.
    assert {len(value) for value in values.to_pylist()} == {100}
    found = rows.batches(iter(sent([values], False)), 0)
    assert max(len(batch.y) for batch in found) == 40


def test_rows_of_other_arms_do_not_change_the_keys():
    reading = PartitionRows(ArrowColumns(("a", "b"), "y", "t", "float64", "1", "0"))
    arms = pa.array([1, 7, 0, 1, 7, 0])
    given_ = [batch.set_column(3, "t", arms) for batch in tables(6, [6], "float64", 0)]
    rows = PackedRows(("a", "b"), "float64")
    (batch,) = reading.batches(iter(given_), 3)
    assert batch.keys.tolist() == [3, 4, 5, 6]
    again = joined(rows.batches(iter(sent([rows.values(batch)], False)), 3))
    for one, other in zip(again, batch[:4], strict=True):
        np.testing.assert_array_equal(one, other)


def test_names_with_backquotes():
    assert quoted("a`b") == "`a``b`"
