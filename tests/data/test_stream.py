"""Rows that are read batch by batch: the same rows, in any batches; clear errors."""

from __future__ import annotations

import operator
from functools import reduce
from itertools import pairwise

import duckdb
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auucmax.data import stream_table
from auucmax.data.batches import Batch, Extremes, Part, RowSource, Sample, part_of
from auucmax.data.reading import TableError


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
    return Batch(*(np.concatenate(column) for column in zip(*batches, strict=True)))


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
        assert isinstance(rows, RowSource)
        assert rows.feature_names == ("b", "a")
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
        ({}, {"treatment": "tt"}, "should have the column 'tt'"),
        ({}, {"features": ["arm"]}, "'arm' of type"),
        ({}, {"features": []}, "got 'arm' of type"),
        ({}, {"treatment": "b", "features": ["a"]}, "should be 0 or 1 in every row"),
        ({}, {"treatment": "arm", "features": ["a"], "treated": "x"}, "given together"),
        (
            {},
            {"treatment": "arm", "features": ["a"], "treated": "x", "control": "x"},
            "two values",
        ),
        (
            {},
            {"treatment": "arm", "features": ["a"], "treated": "x", "control": "z"},
            "rows of the two arms",
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


def test_a_csv_file_is_told_how_to_become_parquet(tmp_path):
    frame().to_csv(tmp_path / "rows.csv", index=False)
    with pytest.raises(TableError, match="Convert it"):
        stream_table(tmp_path / "rows.csv", treatment="t", outcome="y")


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
    parts = [Part(5, (k,), 3)(batch).keys for k in range(5)]
    assert sorted(np.concatenate(parts)) == keys.tolist()
    sizes = np.array([len(part) for part in parts])
    assert np.abs(sizes - 20_000).max() < 5 * np.sqrt(100_000 * 0.2 * 0.8)
    other = part_of(keys, 5, seed=4)
    assert np.abs(np.mean(other == part_of(keys, 5, seed=3)) - 0.2) < 0.01
    np.testing.assert_array_equal(
        Part(5, (0, 2), 3)(batch).keys, np.sort(np.r_[parts[0], parts[2]])
    )


def test_extremes_of_nothing_change_nothing():
    some = Extremes(np.array([1.0]), np.array([2.0]))
    none = Extremes(np.array([np.inf]), np.array([-np.inf]))
    assert ((some + none).low, (none + some).high) == (some.low, some.high)


def test_files_of_other_types_are_refused(tmp_path):
    columns = {"t": [0, 1], "y": [1.0, 0.0]}
    pd.DataFrame(columns | {"x": np.array([1, 2], "int8")}).to_parquet(tmp_path / "a.parquet")
    pd.DataFrame(columns | {"x": [2**24 + 1, 2]}).to_parquet(tmp_path / "b.parquet")
    with pytest.raises(TableError, match=r"b.parquet should have the columns and types of a.parq"):
        stream_table(tmp_path, treatment="t", outcome="y")
