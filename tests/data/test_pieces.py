"""Tables in pieces: the same rows of the same kinds as in one, whatever the format."""

from dataclasses import replace
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auucmax.data import pieces as module
from auucmax.data.pieces import (
    PiecedTable,
    each_piece,
    free_memory,
    open_table,
    pieces_of,
    sampled,
    signs_of,
)
from auucmax.data.reading import TableError, read_table
from auucmax.data.table_errors import one_line
from auucmax.encoding.kinds import kind_of

VECTOR = 2_048  # DuckDB's pieces are multiples of it


def some_table(n, seed):
    """Columns whose first and last rows differ: missing values, whole numbers, long texts."""
    rng = np.random.default_rng(seed)
    late = np.arange(n) >= min(VECTOR, n // 2)
    moment = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 9**6, n), unit="s")
    return pd.DataFrame(
        {
            "whole": rng.integers(-9, 9, n),
            "gaps": pd.Series(rng.integers(0, 9, n)).where(~late | (rng.random(n) < 0.5)),
            "late": np.where(late, rng.normal(size=n), np.nan),
            "half": np.where(late, rng.normal(size=n), rng.integers(0, 9, n)),
            "text": pd.Series(rng.choice(["a", "b, c", 'd "e', "ø"], n), dtype=object),
            "rare": pd.Series(np.where(late, "x", None), dtype=object),
            "code": pd.Series(np.where(late, "7", "007"), dtype=object),
            "member": rng.random(n) < 0.5,
            "moment": moment,
            "empty": pd.Series([None] * n, dtype=object),
        }
    )


def write(frame, kind, folder):
    """The file and the query of it."""
    path, query = folder / f"rows.{kind}", None
    if kind in ("csv", "csv.gz"):
        frame.to_csv(path, index=False)
    elif kind == "parquet":
        frame.to_parquet(path)
    elif kind == "jsonl":
        frame.to_json(path, orient="records", lines=True, date_format="iso")
    else:
        path.unlink(missing_ok=True)
        with duckdb.connect(str(path)) as db:
            db.execute("CREATE TABLE t AS SELECT * FROM frame")
        query = "t"
    return path, query


def in_pieces(path, query=None, rows=VECTOR):
    table = open_table(path, query=query, memory=1)
    assert isinstance(table, PiecedTable)
    return replace(table, piece_rows=rows)


@pytest.mark.quick_cases("csv")
@pytest.mark.filterwarnings("ignore:'moment' of rows.jsonl is read as numbers or dates")
@pytest.mark.parametrize("kind", ["csv", "csv.gz", "parquet", "jsonl", "duckdb"])
@settings(max_examples=4, deadline=None)
@given(st.integers(1, 7_000), st.integers(0, 99), st.sampled_from([VECTOR, 2 * VECTOR]))
def test_pieces_are_the_whole(kind, tmp_path_factory, n, seed, rows):
    folder = tmp_path_factory.mktemp("rows")
    path, query = write(some_table(n, seed), kind, folder)
    whole, table = read_table(path, query=query), in_pieces(path, query, rows)
    found = list(table.pieces())
    assert (table.n_rows, table.columns) == (n, tuple(whole.columns))
    assert [len(piece) for piece in found] == [min(rows, n - k) for k in range(0, n, rows)]
    joined = pd.concat(found)
    assert joined.index.tolist() == list(range(n))
    for column in whole:
        assert {kind_of(piece[column]) for piece in found} <= {kind_of(whole[column]), "empty"}
        assert (joined[column].isna() == whole[column].isna()).all()
        there = whole[column].notna()
        assert joined.loc[there, column].tolist() == whole.loc[there, column].tolist()


def test_only_some_columns_and_long_numbers(tmp_path):
    path = tmp_path / "rows.duckdb"
    with duckdb.connect(str(path)) as db:
        db.execute(
            f"CREATE TABLE t AS SELECT {2**70}::HUGEINT + i AS a, i::UBIGINT AS b, i AS c "
            f"FROM range(5000) s(i)"
        )
    table = in_pieces(path, "t")
    (first, *_, last) = table.pieces(["b", "a"])
    assert list(first) == ["b", "a"]
    assert first["a"].iloc[1] == str(2**70 + 1)
    assert last["b"].iloc[-1] == 4_999
    with pytest.raises(TableError, match="should have the column 'd'"):
        next(table.pieces(["d"]))


def test_long_numbers_that_come_late_are_texts_in_every_piece(tmp_path):
    path = tmp_path / "rows.parquet"
    pd.DataFrame({"a": np.arange(5_000, dtype=np.uint64) * 4 * 10**15}).to_parquet(path)
    whole, table = read_table(path), in_pieces(path)
    found = list(table.pieces())
    assert {kind_of(piece["a"]) for piece in found} == {kind_of(whole["a"])} == {"category"}
    assert pd.concat(found)["a"].tolist() == whole["a"].tolist()


@pytest.mark.gate
def test_the_size_is_that_of_rows_from_all_over_the_table(tmp_path):
    n = module.PIECE_ROWS + 20_000
    text = pd.Series(np.where(np.arange(n) < module.PIECE_ROWS, None, "x" * 500), dtype=object)
    path, _ = write(pd.DataFrame({"text": text}), "parquet", tmp_path)
    n_bytes = read_table(path).memory_usage(deep=True).sum()
    assert isinstance(open_table(path, memory=0.9 * module.WORKING * n_bytes), PiecedTable)
    assert isinstance(open_table(path, memory=1.1 * module.WORKING * n_bytes), pd.DataFrame)


def test_an_interruption_is_none_of_the_file():
    class InterruptException(Exception):
        pass

    with pytest.raises(KeyboardInterrupt), one_line("rows.csv", "a table", "Check it."):
        raise InterruptException


def test_wide_rows_are_sampled_by_their_bytes(tmp_path):
    path, _ = write(some_table(5_000, 0), "parquet", tmp_path)
    table = replace(in_pieces(path), n_rows=10**9, n_bytes=10**15)
    assert table.sample_rows == 1_000
    assert table.size == "1,000,000.0 GB"


def test_a_frame_is_a_table_of_one_piece():
    frame = some_table(5, 0)
    assert next(pieces_of(frame)) is frame
    assert list(next(pieces_of(frame, ["text"]))) == ["text"]
    ((own, first),) = each_piece(frame, lambda piece, first: (piece, first), ["text"])
    assert (list(own), first) == (["text"], 0)


def test_work_is_done_on_each_piece_and_told_its_place(tmp_path):
    table = in_pieces(*write(some_table(5_000, 0), "parquet", tmp_path))
    found = list(each_piece(table, lambda piece, first: (piece.index[0], first, len(piece))))
    assert len(found) > 1
    assert all(index == first for index, first, _ in found)
    assert sum(n for *_, n in found) == table.n_rows == 5_000


def test_which_tables_are_read_in_pieces(tmp_path, monkeypatch):
    frame = some_table(3_000, 0)
    csv, _ = write(frame, "csv", tmp_path)
    assert isinstance(open_table(csv), pd.DataFrame)
    table = in_pieces(csv)
    assert table.n_bytes == pytest.approx(read_table(csv).memory_usage(deep=True).sum(), rel=0.05)
    at_limit = module.WORKING * table.n_bytes
    assert isinstance(open_table(csv, memory=1.01 * at_limit), pd.DataFrame)
    assert isinstance(open_table(csv, memory=0.99 * at_limit), PiecedTable)
    monkeypatch.setattr(module, "free_memory", lambda: 0.99 * at_limit)
    monkeypatch.setattr(module, "_ALWAYS", 0)
    assert isinstance(open_table(csv), PiecedTable)
    frame.to_feather(tmp_path / "rows.arrow")  # is read whole
    assert isinstance(open_table(tmp_path / "rows.arrow", memory=1), pd.DataFrame)


def test_failures_are_those_of_a_whole_table(tmp_path):
    csv, _ = write(some_table(10, 0), "csv", tmp_path)
    with pytest.raises(TableError, match="query should come with a database"):
        open_table(csv, query="t", memory=1)
    with pytest.raises(TableError, match="got nothing at"):
        open_table(tmp_path / "none.csv", memory=1)
    csv.write_text("a,b\n")
    with pytest.raises(TableError, match="should have rows"):
        open_table(csv, memory=1)
    csv.write_text("a,b\n" + "1,2\n" * 9_000)
    table = in_pieces(csv)
    csv.write_text("a,b\n" + "1,2\n" * 9_000 + "1,2,3\n")  # meanwhile
    with pytest.raises(TableError, match="should have as many fields in every line as names"):
        list(table.pieces())


def test_a_sample_is_spread_over_the_table_and_the_same_again(tmp_path):
    path, _ = write(pd.DataFrame({"k": np.arange(20_000)}), "parquet", tmp_path)
    table = in_pieces(path)
    drawn = table.sample(2_000)
    # Standard deviations: 42 of the number, 129 of the mean.
    assert abs(len(drawn) - 2_000) < 4 * 42
    assert abs(drawn["k"].mean() - 10_000) < 4 * 129
    assert (drawn.index == drawn["k"]).all()
    pd.testing.assert_frame_equal(drawn, replace(table, piece_rows=3 * VECTOR).sample(2_000))
    assert len(table.sample(20_000)) == 20_000
    assert sampled(np.arange(10), 10, 10).all()


@pytest.mark.skipif(not Path("/proc/meminfo").exists(), reason="only Linux tells so")
def test_free_memory():
    assert 2**20 < free_memory() < 2**50


@pytest.mark.filterwarnings("ignore:.*read as")
@pytest.mark.parametrize("memory", [None, 1_000])
@pytest.mark.parametrize(
    ("lines", "option", "decimal", "guessed"),
    [
        ("1.696;1,5", None, ",", ("a",)),
        ("1.696;x", None, ".", ("a",)),
        ("1.696;x", ",", ",", ()),
        ("1.5;1,5", None, None, ()),
        ("1.5;x", None, ".", ()),
        ("7;x", None, None, ()),
    ],
)
def test_a_table_tells_by_which_sign_its_texts_were_read(
    memory, lines, option, decimal, guessed, tmp_path
):
    path = tmp_path / "rows.csv"
    path.write_text("a;b\n" + f"{lines}\n" * 50)
    table = open_table(path, memory=memory, decimal=option)
    assert signs_of(table) == (decimal, guessed)
    assert signs_of(pd.DataFrame({"a": [1.5]})) == (None, ())
