"""Tables from files, folders and databases; and every failure in one line."""

import os
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pytest

from auucmax.data.reading import TableError, read_table

ROWS = (
    "id,age,income,town,member,joined,seen\n"
    "1,30,10.5,Oslo,true,2024-01-01,2024-01-01 12:00:00\n"
    '2,,-3,"Rome, old",false,2024-02-03,2024-02-03 00:00:00\n'
    "3,NA,NULL,,,,\n"
)
LONG = 1_800_000_000_000_000_001


@pytest.fixture
def csv(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text(ROWS)
    return path


def check_kinds(frame, of_csv=False):
    types = pd.api.types
    assert frame["id"].tolist() == [1, 2, 3]
    assert types.is_numeric_dtype(frame["age"])
    assert frame["age"].isna().tolist() == [False, True, True]
    assert frame["income"].tolist()[:2] == [10.5, -3]
    assert frame["town"].tolist()[:2] == ["Oslo", "Rome, old"]
    assert frame["town"].isna().tolist() == [False, False, True]
    if of_csv:  # words stay words, also those for booleans
        assert frame["member"].str.lower().tolist()[:2] == ["true", "false"]
    else:
        assert types.is_bool_dtype(frame["member"])
    assert frame["member"].isna().tolist() == [False, False, True]
    assert types.is_datetime64_any_dtype(frame["joined"])
    assert frame["seen"][0] == pd.Timestamp("2024-01-01 12:00")


def test_kinds_of_columns_of_a_csv_file(csv):
    check_kinds(read_table(csv), of_csv=True)
    check_kinds(read_table(str(csv)), of_csv=True)


@pytest.mark.parametrize("suffix", ["parquet", "feather", "arrow", "jsonl", "tsv", "csv.gz"])
def test_the_same_table_in_other_formats(csv, suffix, tmp_path):
    path = tmp_path / f"other.{suffix}"
    frame = read_table(csv)
    frame["member"] = frame["member"].map({"true": True, "false": False}).astype("boolean")
    if suffix == "parquet":
        frame.to_parquet(path)
    elif suffix == "feather":
        frame.to_feather(path)
    elif suffix == "arrow":  # a stream, not a file with a footer
        table = pa.Table.from_pandas(frame)
        with pa.ipc.new_stream(path, table.schema) as stream:
            stream.write_table(table)
    elif suffix == "jsonl":
        dates = {name: frame[name].astype("str") for name in ("joined", "seen")}
        frame.assign(**dates).to_json(path, orient="records", lines=True)
    else:
        frame.to_csv(path, index=False, sep="\t" if suffix == "tsv" else ",")
    check_kinds(read_table(path), of_csv=suffix in ("tsv", "csv.gz"))


def test_a_file_with_a_name_that_says_nothing_or_is_a_pattern(csv, tmp_path):
    read_table(csv).to_parquet(tmp_path / "rows")
    check_kinds(read_table(tmp_path / "rows"), of_csv=True)
    odd = tmp_path / "a[1]*'b.csv"
    odd.write_text(ROWS)
    (tmp_path / "a1.csv").write_text("other\n1\n")
    check_kinds(read_table(odd), of_csv=True)


def test_folders_and_patterns_in_the_order_of_names(tmp_path):
    for name, values in (("b", "3,4"), ("a", "1,2"), ("c", "5,6")):
        (tmp_path / f"{name}.csv").write_text(f"x,y\n{values}\n")
    # Columns are matched by name.
    (tmp_path / "d.csv").write_text("y,x\n8,7\n")
    for source in (tmp_path, f"{tmp_path}/*.csv"):
        frame = read_table(source)
        assert frame["x"].tolist() == [1, 3, 5, 7]
        assert frame["y"].tolist() == [2, 4, 6, 8]
    (tmp_path / "e.parquet").write_bytes(b"PAR1....")
    with pytest.raises(TableError, match="CSV files only, or Parquet files only"):
        read_table(tmp_path)


def test_only_some_columns_in_the_order_asked_for(csv, tmp_path):
    read_table(csv).to_feather(tmp_path / "rows.feather")
    for path in (csv, tmp_path / "rows.feather"):
        assert list(read_table(path, columns=["town", "id"]).columns) == ["town", "id"]
        with pytest.raises(TableError, match=r"'twon'.*Did you mean 'town'\?"):
            read_table(path, columns=["twon"])


@pytest.mark.parametrize("suffix", ["csv", "parquet", "jsonl"])
def test_the_name_of_a_folder_is_no_column(suffix, tmp_path):
    folder = tmp_path / "arm=9"
    folder.mkdir()
    frame = pd.DataFrame({"arm": [1, 0], "v": [2, 3]})
    if suffix == "csv":
        frame.to_csv(folder / "f.csv", index=False)
    elif suffix == "parquet":
        frame.to_parquet(folder / "f.parquet")
    else:
        frame.to_json(folder / "f.jsonl", orient="records", lines=True)
    for source in (tmp_path, folder / f"f.{suffix}"):
        assert read_table(source).to_dict("list") == {"arm": [1, 0], "v": [2, 3]}


def test_long_numbers_keep_their_digits_in_files_of_texts(tmp_path):
    wide = 10**22
    path = tmp_path / "rows.csv"
    path.write_text(f"a,b,c\n{LONG},{wide + 1},{LONG}\n{LONG + 2},{wide + 2},\n")
    frame = read_table(path)
    assert [int(a) for a in frame["a"]] == [LONG, LONG + 2]
    assert frame["a"].dtype == np.int64
    assert frame["b"].tolist() == [str(wide + 1), str(wide + 2)]
    assert int(frame["c"][0]) == LONG
    path = tmp_path / "rows.jsonl"
    path.write_text(
        f'{{"a": {LONG}, "b": {wide + 1}, "c": {2**63 + 1}, "d": "03/04/2020", "e": 1.5}}\n'
        f'{{"a": {LONG + 2}, "b": {wide + 2}, "c": null, "d": "05/04/2020", "e": 2}}\n'
    )
    frame = read_table(path)
    assert frame["a"].tolist() == [LONG, LONG + 2]
    assert frame["b"].tolist() == [str(wide + 1), str(wide + 2)]
    assert frame["c"].tolist()[0] == str(2**63 + 1)
    assert frame["d"].tolist() == ["03/04/2020", "05/04/2020"]
    assert frame["e"].tolist() == [1.5, 2]


def test_long_numbers_keep_their_digits_in_arrow_files(tmp_path):
    decimals = pa.decimal128(38, 0)
    table = pa.table(
        {
            "a": pa.array([LONG, None]),
            "b": pa.array([Decimal(LONG), Decimal(LONG + 2)], type=decimals),
            "c": pa.array([Decimal(10**22 + 1), None], type=decimals),
            "d": pa.array([Decimal("1.50"), None], type=pa.decimal128(9, 2)),
            "e": pa.array([1, None]),
        }
    )
    pyarrow.feather.write_feather(table, tmp_path / "rows.feather")
    frame = read_table(tmp_path / "rows.feather")
    assert int(frame["a"][0]) == LONG
    assert frame["a"].isna().tolist() == [False, True]
    assert frame["b"].dtype == np.int64
    assert frame["b"].tolist() == [LONG, LONG + 2]
    assert frame["c"][0] == str(10**22 + 1)
    assert frame["d"].dtype == frame["e"].dtype == np.float64
    assert frame["d"][0] == 1.5


def test_columns_that_differ_in_capitals_only_are_not_renamed(tmp_path):
    frame = pd.DataFrame({"a": [1], "A": [2]})
    frame.to_parquet(tmp_path / "rows.parquet")
    frame.to_json(tmp_path / "rows.jsonl", orient="records", lines=True)
    for suffix in ("parquet", "jsonl"):
        with pytest.raises(TableError, match="capitals aside, got 'A', 'a'"):
            read_table(tmp_path / f"rows.{suffix}")


def bad_files(folder: Path) -> dict[str, tuple[bytes | None, str]]:
    return {
        "absent.csv": (None, "got nothing at"),
        "empty.csv": (b"", "got an empty file"),
        "header.csv": (b"a,b\n", "should have rows"),
        "blank.csv": (b"\n\r\n", "got blank lines"),
        "wide.csv": ("a,b\n1,2\n".encode("utf-16"), "UTF-8 text, got other bytes in line 1"),
        "header-latin.csv": ("a,caf\xe9\n1,2\n".encode("latin-1"), "UTF-8 text.* in line 1"),
        "latin.csv": ("a,b\n1,caf\xe9\n".encode("latin-1"), "UTF-8"),
        "noise.parquet": (b"PAR1" + bytes(200), "should be a Parquet file"),
        "noise.arrow": (b"ARROW1" + bytes(200), "should be an Arrow or Feather file"),
        "noise.jsonl": (b'{"a": 1\n{{', "should be a file of JSON lines"),
        "noise.duckdb": (b"no database", "should be a DuckDB database"),
        "other.db": (b"SQLite format 3\x00" + bytes(100), "one of SQLite"),
        "a\x00b.csv": (None, "got nothing at"),
    }


@pytest.mark.parametrize("name", bad_files(Path()))
def test_files_that_are_no_tables(name, tmp_path):
    content, message = bad_files(tmp_path)[name]
    if content is not None:
        (tmp_path / name).write_bytes(content)
    query = "t" if name.endswith("db") else None
    with pytest.raises(TableError, match=message) as caught:
        read_table(tmp_path / name, query=query)
    assert "\n" not in str(caught.value)


def test_other_failures(csv, tmp_path, monkeypatch):
    (tmp_path / "nothing").mkdir()
    with pytest.raises(TableError, match="folder with CSV or Parquet files, got one without"):
        read_table(tmp_path / "nothing")
    with pytest.raises(TableError, match="query should come with a database"):
        read_table(csv, query="select 1")
    with pytest.raises(TableError, match="cannot be parsed"):
        read_table("postgresql://[broken", query="t")


def test_no_file_is_left_open(csv):
    before = len(os.listdir("/proc/self/fd")) if os.path.exists("/proc/self/fd") else 0
    for _ in range(5):
        read_table(csv)
    after = len(os.listdir("/proc/self/fd")) if os.path.exists("/proc/self/fd") else 0
    assert after <= before + 1
