"""Rows that are read batch by batch: the same rows, in any batches; clear errors."""

from __future__ import annotations

import datetime
import operator
from decimal import Decimal
from functools import reduce
from itertools import pairwise

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auucmax.data.reading import TableError
from auucmax.rows import Batch, HashedPart, Rows, Sample, part_of, stream_table
from auucmax.rows.arrow import ArrowColumns


def frame(n_rows: int = 50, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "a": rng.normal(size=n_rows).astype(np.float32),
            "b": rng.integers(0, 9, n_rows).astype(np.int8),
            "arm": np.where(rng.random(n_rows) < 0.5, "mail", "none"),
        }
    )
    table["t"] = (table["arm"] == "mail").astype(int)
    table["y"] = rng.integers(0, 2, n_rows)
    return table


def gathered(rows) -> Batch:
    batches = list(rows.batches())
    columns = [column for column in zip(*batches, strict=True) if column[0] is not None]
    return Batch(*map(np.concatenate, columns))


@pytest.mark.gate_cases("7")
@pytest.mark.parametrize("batch_rows", [1, 7, 1000])
def test_parquet_folder_database_and_pattern_give_the_same_rows(tmp_path, batch_rows):
    table = frame()
    folder = tmp_path / "rows"
    folder.mkdir()
    table[:20].to_parquet(folder / "part-0.parquet")
    table[20:].to_parquet(folder / "part-1.parquet", row_group_size=7)
    with duckdb.connect(str(tmp_path / "d.duckdb")) as db:
        db.register("given", table)
        db.execute("CREATE TABLE rows AS SELECT * FROM given")
    columns = {"treatment": "t", "outcome": "y", "features": ["b", "a"], "batch_rows": batch_rows}
    for source, query in (
        (folder, None),
        (folder / "*.parquet", None),
        (tmp_path / "d.duckdb", "rows"),
        (tmp_path / "d.duckdb", "SELECT * FROM rows"),
    ):
        rows = stream_table(source, query=query, **columns)
        assert isinstance(rows, Rows)
        assert rows.names == ("b", "a")
        found = gathered(rows)
        np.testing.assert_array_equal(found.X, table[["b", "a"]].to_numpy(np.float32))
        assert found.X.dtype == np.float32  # both columns are exact in it
        np.testing.assert_array_equal(found.y, table["y"])
        np.testing.assert_array_equal(found.treated, table["t"] == 1)
        np.testing.assert_array_equal(found.keys, np.arange(len(table)))


def test_labels_name_the_arms_and_leave_others_out(tmp_path):
    table = frame()
    table.loc[::5, "arm"] = "phone"
    table.loc[3, "arm"] = None
    table.to_parquet(tmp_path / "rows.parquet")
    rows = stream_table(
        tmp_path / "rows.parquet",
        treatment="arm", outcome="y", features=["a"], treated="mail", control="none",
    )  # fmt: skip
    kept = table[table["arm"].isin(["mail", "none"])]
    found = gathered(rows)
    np.testing.assert_array_equal(found.treated, kept["arm"] == "mail")
    np.testing.assert_array_equal(found.keys, kept.index)


def test_total_is_the_same_for_any_batches_and_threads(tmp_path, monkeypatch):
    frame(1000).to_parquet(tmp_path / "rows.parquet")

    def rows(batch_rows):
        return stream_table(
            tmp_path / "rows.parquet",
            treatment="t", outcome="y", features=["a"], batch_rows=batch_rows,
        )  # fmt: skip

    def sums(batch: Batch):
        return batch.X.sum(axis=0, dtype=np.float64)

    once = rows(64).total(sums, len_of)
    monkeypatch.setenv("NUMBA_NUM_THREADS", "1")
    assert [value.tolist() for value in rows(64).total(sums, len_of)] == [
        value.tolist() for value in once
    ]
    assert rows(1000).total(len_of)[0] == once[1] == 1000


def len_of(batch: Batch):
    return np.array(len(batch.y))


@pytest.mark.parametrize(
    ("change", "columns", "said"),
    [
        ({}, {"treatment": "tt"}, "should be a table with the column 'tt'"),
        ({}, {"features": ["arm"]}, "'arm' of type"),
        ({}, {"features": None}, "got 'arm' of type"),
        ({}, {"treatment": "b", "features": ["a"]}, "should be 0 or 1 in every row"),
        ({}, {"treatment": "arm", "features": ["a"], "treated": "x"}, "what treated= and"),
        (
            {},
            {"treatment": "arm", "features": ["a"], "treated": "x", "control": "x"},
            "what treated= and",
        ),
        (
            {},
            {"treatment": "arm", "features": ["a"], "treated": "x", "control": "z"},
            "rows with 'x' or 'z' in 'arm', got none",
        ),
        ({"y": np.nan}, {"features": ["a"]}, "missing value"),
    ],
)
def test_bad_tables_get_one_line(tmp_path, change, columns, said):
    frame().assign(**change).to_parquet(tmp_path / "rows.parquet")
    with pytest.raises(TableError, match=said):
        stream_table(
            tmp_path / "rows.parquet", **({"treatment": "t", "outcome": "y"} | columns)
        ).total(len_of)


@settings(deadline=None, max_examples=50)
@given(n=st.integers(1, 200), size=st.integers(1, 50), cuts=st.lists(st.integers(0, 200)))
def test_a_sample_does_not_depend_on_the_batches(n, size, cuts):
    values, keys = np.arange(float(n)), np.arange(n, dtype=np.uint64)
    edges = sorted({0, n, *(min(cut, n) for cut in cuts)})
    parts = [Sample.of(values[a:b], keys[a:b], size) for a, b in pairwise(edges)]
    whole = Sample.of(values, keys, size)
    assert sorted(reduce(operator.add, parts).values) == sorted(whole.values)
    assert len(whole.values) == min(n, size)


def test_parts_are_disjoint_complete_even_and_seeded():
    keys = np.arange(100_000, dtype=np.uint64)
    batch = Batch(np.zeros((len(keys), 1)), np.zeros(len(keys)), keys % 2 == 0, keys)
    parts = [HashedPart(5, (k,), 3)(batch).keys for k in range(5)]
    assert sorted(np.concatenate(parts)) == keys.tolist()
    sizes = np.array([len(part) for part in parts])
    assert np.abs(sizes - 20_000).max() < 5 * np.sqrt(100_000 * 0.2 * 0.8)
    other = part_of(keys, 5, seed=4)
    assert np.abs(np.mean(other == part_of(keys, 5, seed=3)) - 0.2) < 0.01
    np.testing.assert_array_equal(
        HashedPart(5, (0, 2), 3)(batch).keys, np.sort(np.r_[parts[0], parts[2]])
    )


def columns(**more) -> dict:
    return {"treatment": "t", "outcome": "y", "features": ["a"]} | more


@pytest.mark.parametrize(("treated", "control"), [(1, 0), (1.0, "0"), (True, "false"), ("1", 0.0)])
def test_arms_by_value_in_files_and_databases(tmp_path, treated, control):
    table = frame()
    kind = bool if isinstance(treated, bool) else float
    table["t"] = table["t"].astype(kind)
    table.to_parquet(tmp_path / "rows.parquet")
    with duckdb.connect(str(tmp_path / "d.duckdb")) as db:
        db.register("given", table)
        price = "t" if kind is bool else "CAST(t AS DECIMAL(5, 2)) AS t"
        db.execute(f"CREATE TABLE rows AS SELECT a, y, {price} FROM given")
    for source, query in ((tmp_path / "rows.parquet", None), (tmp_path / "d.duckdb", "rows")):
        rows = stream_table(source, query=query, **columns(treated=treated, control=control))
        np.testing.assert_array_equal(gathered(rows).treated, table["t"] == 1)


def test_a_file_that_is_damaged_in_its_middle_is_named(tmp_path):
    frame(5000).to_parquet(tmp_path / "a.parquet")
    frame(50_000).to_parquet(tmp_path / "b.parquet", row_group_size=5000)
    whole = (tmp_path / "b.parquet").read_bytes()
    half = len(whole) // 2
    (tmp_path / "b.parquet").write_bytes(whole[:half] + bytes(20_000) + whole[half + 20_000 :])
    rows = stream_table(tmp_path, **columns())
    with pytest.raises(TableError, match=r"^b.parquet should be a Parquet file that can") as said:
        rows.total(len_of)
    assert "\n" not in str(said.value)


PLACE = 20  # of a row that is part of the mark


def other_value(table: pd.DataFrame) -> pd.DataFrame:
    return table.assign(a=table["a"].mask(table.index == PLACE, 9.0))


CHANGES = {
    "one row less": lambda table: table[:-1],
    "one row more": lambda table: pd.concat([table, table[:1]]),
    "another order": lambda table: table[::-1],
    "two rows in the place of each other": lambda table: table.iloc[
        [*range(PLACE), PLACE + 1, PLACE, *range(PLACE + 2, len(table))]
    ],
    "another outcome": lambda table: table.assign(y=table["y"].where(table.index != PLACE, 2)),
    "another arm": lambda table: table.assign(t=table["t"] ^ (table.index == PLACE)),
    "another value": other_value,
    "a value that is missing": lambda table: table.assign(a=table["a"].mask(table.index == PLACE)),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("batch_rows", [64, None])
def test_a_file_that_changes_between_readings_is_refused(tmp_path, change, batch_rows):
    table, file = frame(1000), tmp_path / "rows.parquet"
    table.to_parquet(file)
    rows = stream_table(file, **columns(batch_rows=batch_rows))
    assert rows.total(len_of)[0] == rows.total(len_of)[0] == 1000
    CHANGES[change](table).to_parquet(file)
    for _ in range(2):  # what came first counts
        with pytest.raises(TableError, match=r"^rows.parquet should give the same rows in the sam"):
            rows.total(len_of)
    table.to_parquet(file)
    assert rows.total(len_of)[0] == 1000


@pytest.mark.parametrize(
    "query", ["SELECT t, y, random() AS a FROM rows", "FROM rows ORDER BY random()"]
)
def test_a_query_with_something_random_is_refused(tmp_path, query):
    with duckdb.connect(str(tmp_path / "d.duckdb")) as db:
        db.execute("CREATE TABLE rows AS SELECT i % 2 AS t, 1 AS y, i AS a FROM range(5000) r(i)")
    rows = stream_table(tmp_path / "d.duckdb", query=query, **columns())
    rows.total(len_of)
    with pytest.raises(TableError, match=r"d.duckdb should give .* let a query have an ORDER BY"):
        rows.total(len_of)


# Arrow columns as rows of a trial: arms by their values, whatever the type; types of the roles.


X, Y = pa.array([1.0, 2.0, 3.0, 4.0]), pa.array([0, 1, 1, 0])
DAYS = [datetime.date(2024, 1, 1), datetime.date(2024, 1, 2), None, datetime.date(2024, 1, 3)]
PRICES = [Decimal("0.00"), Decimal("1.00"), None, Decimal("1.50")]


def table(arms: pa.Array, outcome: pa.Array = Y) -> pa.Table:
    return pa.table({"x": X, "y": outcome, "t": arms})


def rows_of(given: pa.Table, **arms) -> ArrowColumns:
    return ArrowColumns.of(given.schema, ["x"], "y", "t", **arms)


def treated_and_keys(given: pa.Table, **arms) -> tuple[list[bool], list[int]]:
    keys = np.arange(given.num_rows, dtype=np.uint64)
    batch = rows_of(given, **arms).batch(given, keys)
    return batch.treated.tolist(), batch.keys.tolist()


# Rows: control, treated, missing, another arm; and other ways to write its two labels.
ARMS = {
    "booleans": (
        pa.array([False, True, None, None]),
        [(True, False), ("true", "false"), ("TRUE", "False")],
    ),
    "texts of booleans": (
        pa.array(["False", "TRUE", None, "no"]),
        [(True, False), ("true", "false")],
    ),
    "integers": (
        pa.array([0, 1, None, 2], pa.int8()),
        [(1, 0), (1.0, 0.0), ("1", "0"), (Decimal("1.0"), -0.0)],
    ),
    "floats": (pa.array([0.0, 1.0, None, 1.5]), [(1, 0), ("1", "0"), (np.float32(1), np.int8(0))]),
    "single floats": (pa.array([0.1, 0.2, None, 0.3], pa.float32()), [(0.2, 0.1), ("0.2", "0.1")]),
    "half floats": (
        pa.array(np.array([0.1, 0.2, 2, 3], np.float16)),
        [(0.2, 0.1), ("0.2", "0.1"), (np.float16(0.2), np.float16(0.1))],
    ),
    "negative zero": (pa.array([-0.0, 1.0, None, np.nan]), [(1, 0)]),
    "decimals": (
        pa.array(PRICES, pa.decimal128(5, 2)),
        [(1, 0), ("1", "0"), (1.0, Decimal("0.000"))],
    ),
    "texts": (pa.array(["none", "mail", None, "phone"]), [("mail", "none")]),
    "long texts": (
        pa.array(["none", "mail", None, "phone"], pa.large_string()),
        [("mail", "none")],
    ),
    "views of texts": (
        pa.array(["none", "mail", None, "phone"], pa.string_view()),
        [("mail", "none")],
    ),
    "categories": (
        pa.array(["none", "mail", None, "phone"]).dictionary_encode(),
        [("mail", "none")],
    ),
    "categories of numbers": (pa.array([0, 1, None, 2]).dictionary_encode(), [(1.0, "0")]),
    "a missing category": (
        pa.DictionaryArray.from_arrays(
            pa.array([0, 1, 2, 3], pa.uint8()), pa.array(["a", "b", None, "c"])
        ),
        [("b", "a")],
    ),
    "dates": (pa.array(DAYS), [(DAYS[1], DAYS[0]), ("2024-01-02", "2024-01-01")]),
}


@pytest.mark.parametrize("case", ARMS)
def test_arms_are_known_by_their_value_whatever_its_type(case):
    column, labels = ARMS[case]
    for treated, control in labels:
        found = treated_and_keys(table(column), treated=treated, control=control)
        assert found == ([False, True], [0, 1])
        one_more = pa.concat_tables([table(column)] * 2)  # a column in two pieces
        again = treated_and_keys(one_more, treated=treated, control=control)
        assert again == ([False, True] * 2, [0, 1, 4, 5])
        swapped = treated_and_keys(table(column), treated=control, control=treated)
        assert swapped == ([True, False], [0, 1])


def test_decimals_are_outcomes():
    price = pa.array([Decimal("0.10"), Decimal("1.00"), Decimal("-2.50"), Decimal(0)])
    given = table(pa.array([0, 1, 1, 0]), price)
    y = rows_of(given).batch(given, np.arange(4, dtype=np.uint64)).y
    assert y.tolist() == [0.1, 1, -2.5, 0]


@pytest.mark.parametrize(
    ("value", "said"),
    [(np.inf, "infinite"), (-np.inf, "infinite"), (np.nan, "missing"), (None, "missing")],
)
def test_outcomes_are_finite(value, said):
    given = table(pa.array([0, 1, 1, 0]), pa.array([0.0, value, 1.0, 1.0]))
    with pytest.raises(TableError, match=f"'y' should have a finite number .*, got an? {said}"):
        rows_of(given).batch(given, np.arange(4, dtype=np.uint64))
    # Of rows that are left out, nothing is asked.
    named = rows_of(given, treated=0, control=7)
    assert named.batch(given, np.arange(4, dtype=np.uint64)).y.tolist() == [0, 1]
