import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.spark.cases import Partitions

from auucmax.data.tables import TableError
from auucmax.rows import Rows, Share
from auucmax.rows.arrow import ArrowColumns
from auucmax.rows.base import Mapped
from auucmax.spark import rows as module
from auucmax.spark.rows import PackedRows, SparkRows, cached

COLUMNS = ArrowColumns(("x",), "y", "t", "float64")


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


def of_partition(reading, batches, part=0):
    """The blocks of a partition's rows, as executors read them."""
    return list(module._blocks_of_rows(reading, iter(batches), part))


def test_raw_rows_are_frames_of_the_rows_of_the_two_arms():
    raw = ArrowColumns(("x",), "y", "t", None, treated="b", control="a")
    given = pa.table({"x": [1.0, 2.0, 3.0], "y": [0, 1, 1], "t": ["a", "other", "b"]})
    (batch,) = of_partition(raw, given.to_batches(), 5)
    assert batch.X["x"].tolist() == [1.0, 3.0]
    assert batch.keys.tolist() == [5 << 40, (5 << 40) + 1]  # as packed rows have them
    assert batch.treated.tolist() == [False, True]
    (empty,) = of_partition(raw, given.slice(1, 1).to_batches())
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
    reading = ArrowColumns(("a", "b"), "y", "t", dtype)
    rows = PackedRows(("a", "b"), dtype)
    given_ = tables(n, sizes, dtype, seed)
    values = sent([rows.pack(batch) for batch in of_partition(reading, given_)], large)
    found = joined(of_partition(rows, values))
    expected = joined(of_partition(reading, given_))
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


def sent(packed, large=False):
    """As Spark sends them: cut anywhere, as long values if told so."""
    kind = pa.large_binary() if large else pa.binary()
    schema = pa.schema({"rows": kind, "error": kind})
    halves = [half for own in packed for half in (own.slice(0, 1), own.slice(1))]
    return [half.cast(schema) for half in halves if half.num_rows]


def test_rows_of_other_arms_do_not_change_the_keys():
    reading = ArrowColumns(("a", "b"), "y", "t", "float64", "1", "0")
    arms = pa.array([1, 7, 0, 1, 7, 0])
    given_ = [batch.set_column(3, "t", arms) for batch in tables(6, [6], "float64", 0)]
    rows = PackedRows(("a", "b"), "float64")
    (batch,) = of_partition(reading, given_, 3)
    assert (batch.keys - (3 << 40)).tolist() == [0, 1, 2, 3]
    again = joined(of_partition(rows, sent([rows.pack(batch)]), 3))
    for one, other in zip(again, batch[:4], strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_view_is_kept_as_it_is_and_its_errors_are_raised(in_executors):
    rows = SparkRows(Partitions([table(range(50)), table(range(50, 80))]), COLUMNS)
    view = rows.part(Share(0.5, seed=3)).map(twice, ("twice",))
    expected = [x for x, _ in view.total(listed)[0]]
    with cached(view) as kept:
        assert kept.names == ("twice",)
        assert [x for x, _ in kept.total(listed)[0]] == expected
    with cached(rows.map(refuse)) as kept, pytest.raises(TableError, match="a, b"):
        kept.total(len_of)


def refuse(X):
    raise TableError("a, b. c.")
