"""Tables from files, folders and databases; and every failure in one line."""

import datetime
import os
from decimal import Decimal
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import psycopg
import pyarrow as pa
import pyarrow.feather
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.postgres_server import postgres_server

from auucmax.data.reading import (
    TableError,
    outcome_numbers,
    read_table,
    unknown_columns_message,
)

ROWS = (
    "id,age,income,town,member,joined,seen\n"
    "1,30,10.5,Oslo,true,2024-01-01,2024-01-01 12:00:00\n"
    '2,,-3,"Rome, old",false,2024-02-03,2024-02-03 00:00:00\n'
    "3,NA,NULL,,,,\n"
)


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


def test_types_come_from_all_rows_if_the_first_mislead(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("x\n" + "1\n" * 30_000 + "1.5\nlow\n")
    assert read_table(path)["x"].tolist()[-2:] == ["1.5", "low"]
    path.write_text("x\n" + "1\n" * 30_000 + "1.5\n")
    assert read_table(path)["x"].sum() == 30_001.5
    path = tmp_path / "rows.jsonl"
    path.write_text('{"x": 1}\n' * 30_000 + '{"x": 1.5}\n')
    assert read_table(path)["x"].sum() == 30_001.5
    # In one file of several, too.
    (tmp_path / "two").mkdir()
    (tmp_path / "two" / "a.csv").write_text("x\n" + "1\n" * 30_000)
    (tmp_path / "two" / "b.csv").write_text("x\n1.5\n")
    assert read_table(tmp_path / "two")["x"].sum() == 30_001.5


def test_a_header_is_a_header_even_if_all_columns_are_texts(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("town,colour\nOslo,red\nRome,blue\n")
    assert list(read_table(path).columns) == ["town", "colour"]


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


def kinds_of(tmp_path, *texts):
    """The columns of CSV files that are read together."""
    folder = tmp_path / "files"
    folder.mkdir()
    for number, text in enumerate(texts):
        (folder / f"{number}.csv").write_bytes(text.encode())
    return read_table(folder).to_dict("list")


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


def test_no_line_of_a_csv_file_is_a_comment(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("#tag,v\n#a,1\nb # c,2\n#d,3\n")
    assert read_table(path)["#tag"].tolist() == ["#a", "b # c", "#d"]


ROW = "a,b,c\n" + "1,2,3\n" * 30


@pytest.mark.parametrize(
    ("text", "message"),
    [
        # Lines lost in silence, or a table of one column, if the form is guessed.
        ("id,v\na,5\n#2\nb,6\n", r"names in its header \(2\), got 1 in line 3"),
        (ROW + "#total\n", "got 1 in line 32"),
        ("some title\nid,v\n1,2\n3,4\n", r"header \(1\), got 2 in line 2"),
        ("some title\nid;v\n1;2\n3;4\n", "got 'some title' and ';' within"),
        ("a,b\n" + "x,1,2\n" * 50, r"header \(2\), got 3 in line 2.*row.names = FALSE"),
        ("a,b,c\n1,2\n1,2\n" + "1,2,3\n" * 50, r"\(3\), got 2 in line 2"),
        ("a,b\n1,2\n3\n4,5\n", r"\(2\), got 1 in line 3"),
        (ROW + "4,5", "got 2 in line 32"),
        ("a b c\n1 2 3\n4 5 6\n", "got 'a b c' and ' ' within"),
        ('"a,b"\n1\n2\n', "got 'a,b' and ',' within"),
        ("a,a,b\n1,2,3\n", "different names, capitals aside, got 'a', 'a'. Rename"),
        ("a,A,b\n1,2,3\n", "different names, capitals aside, got 'a', 'A'. Rename"),
        (",a\n0,1\n", "got none for column 1.*index=False"),
        ('a,b\n1,"x\n2,3\n', "close every quoted field, got one .* line 2"),
        ("a,b\r\n1,2\n3,4\r\n", "lines that all end in the same way"),
    ],
)
def test_csv_files_that_would_lose_lines_or_names(text, message, tmp_path):
    path = tmp_path / "rows.csv"
    path.write_bytes(text.encode())
    with pytest.raises(TableError, match=message) as caught:
        read_table(path)
    assert "UTF-8" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_ragged_line_is_told_by_file_and_number_and_other_bytes_too(tmp_path):
    (tmp_path / "a.csv").write_text("a,b\n1,2\n")
    (tmp_path / "b.csv").write_text("a,b\n" + "1,2\n" * 30_000 + "1\n" + "1,2\n" * 9)
    with pytest.raises(TableError, match=r"^b\.csv should have as many .* line 30002"):
        read_table(tmp_path)
    (tmp_path / "b.csv").write_bytes("a,b\n1,x\n1,caf\xe9\n".encode("latin-1"))
    with pytest.raises(TableError, match=r"^b\.csv should be UTF-8 text, got .* line 3"):
        read_table(tmp_path)


@pytest.mark.parametrize(
    "text",
    [
        'a;b\n"x;y";1,5\n', "a|b\nx;y|1,5\n", "a\tb\nx;y\t1,5\n", '\ufeffa;b\n"x;y";1,5\n',
        '\r\n\r\n a ,b\r\nx;y,"1,5"\r\n', 'a,b\rx;y,"1,5"\r',
    ],
)  # fmt: skip
def test_forms_of_csv_files(text, tmp_path):
    assert kinds_of(tmp_path, text) == {"a": ["x;y"], "b": ["1,5"]}


def test_quotes_within_quotes_and_lines_within_fields(tmp_path):
    doubled = 'a,b\r\n"x ""y"", z","1\n2"\r\n'
    escaped = 'a,b\n"x \\"y\\", z","1\n2"\n'
    path = 'a,b\n"C:\\",3\n'
    columns = kinds_of(tmp_path, doubled, escaped, path)
    assert columns == {"a": ['x "y", z', 'x "y", z', "C:\\"], "b": ["1\n2", "1\n2", "3"]}


def test_a_packed_csv_file_of_zstandard(tmp_path):
    with pa.output_stream(tmp_path / "rows.csv.zst", compression="zstd") as stream:
        stream.write(ROWS.encode())
    check_kinds(read_table(tmp_path / "rows.csv.zst"), of_csv=True)


@pytest.mark.parametrize("values", ["yes no", "T F", "true FALSE", "True False", "Y N"])
def test_words_for_booleans_stay_the_words_of_the_file(values, tmp_path):
    one, other = values.split()
    assert kinds_of(tmp_path, f"c\n{one}\n{other}\n") == {"c": [one, other]}


@pytest.mark.parametrize(
    "values",
    [
        ["03/04/2020", "25/06/2020"], ["03-04-2020", "05-06-2020"], ["2020/01/02"], ["2020-02-30"],
        ["2020-01-01", "unknown"], ["2020-01-01T10:00", "2020-01-01T10:00Z"], ["infinity"],
        ["00123", "1234"], ["1,234", "5"], ["1_000"], ["+4712345678"], ["1.10", "beta"],
        ["12345678901234567890", "5"], ["9223372036854775808"], ["1e999", "2"], ["10:00", "12:30"],
    ],
)  # fmt: skip
def test_texts_that_stay_texts_in_one_file_and_over_two(values, tmp_path):
    lines = "".join(f'"{value}",0\n' for value in values)
    assert kinds_of(tmp_path, f"c,v\n{lines}")["c"] == values
    (tmp_path / "two").mkdir()
    files = [f'c,v\n"{value}",0\n' for value in values]
    assert kinds_of(tmp_path / "two", *files)["c"] == values


def test_the_names_of_columns_may_be_any(tmp_path):
    text = 'name,value,cells,rows,a b,"x\'""y"\n1,2,x,4,5,2020-01-01\n'
    columns = kinds_of(tmp_path, text)
    assert list(columns.values())[:5] == [[1], [2], ["x"], [4], [5]]
    assert list(columns) == ["name", "value", "cells", "rows", "a b", "x'\"y"]


def test_dates_in_the_iso_form(tmp_path):
    text = "day,at,zone\n2020-01-02,2020-01-02T10:00,2020-01-02T10:00:00+02:00\n"
    other = "day,at,zone\n,2020-01-03,2020-01-02T10:00:00.5Z\n"
    columns = kinds_of(tmp_path, text, other)
    assert columns["day"][0] == pd.Timestamp("2020-01-02")
    assert columns["at"] == [pd.Timestamp("2020-01-02 10:00"), pd.Timestamp("2020-01-03")]
    hours = pd.to_datetime(["2020-01-02 08:00:00", "2020-01-02 10:00:00.5"], format="ISO8601")
    assert columns["zone"] == hours.tz_localize("UTC").tolist()


def test_numbers_and_missing_values_of_csv_files(tmp_path):
    path = tmp_path / "rows.csv"
    lines = ["i,x,s,none", "1,0.5,NA,", "-2,1e-3,None,NULL", " 3 ,-.5,a b,N/A", "0,5.,nan,NaN"]
    path.write_text("\n".join(lines))
    frame = read_table(path)
    assert frame["i"].dtype == np.int64
    assert frame["i"].tolist() == [1, -2, 3, 0]
    assert frame["x"].tolist() == [0.5, 1e-3, -0.5, 5.0]
    assert frame["s"].tolist()[1:3] == ["None", "a b"]
    assert frame["s"].isna().tolist() == [True, False, False, True]
    assert frame["none"].isna().all()


LONG = 1_800_000_000_000_000_001


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


@pytest.mark.parametrize("kind", ["HUGEINT", "UHUGEINT", "UBIGINT", "DECIMAL(38, 0)"])
def test_long_numbers_keep_their_digits_in_databases_and_parquet_files(kind, tmp_path):
    path, parquet = tmp_path / "trial.duckdb", tmp_path / "rows.parquet"
    with duckdb.connect(str(path)) as db:
        db.execute(
            f"CREATE TABLE t AS SELECT {LONG}::{kind} AS a, {2**63 + 1}::{kind} AS b, "
            f"NULL::{kind} AS c UNION ALL SELECT {LONG + 2}::{kind}, NULL, {LONG}::{kind}"
        )
        if "HUGE" not in kind:  # Parquet has no such type
            db.execute(f"COPY t TO '{parquet}'")
    frames = [read_table(path, query="t")]
    if parquet.exists():
        frames.append(read_table(parquet))
    for frame in frames:
        assert frame["a"].dtype == np.int64
        assert frame["a"].tolist() == [LONG, LONG + 2]
        assert frame["b"].tolist()[0] == str(2**63 + 1)
        assert frame["b"].isna().tolist() == [False, True]
        assert int(frame["c"][1]) == LONG


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


@pytest.mark.parametrize("words", ["yes no", "Y n", "True FALSE", " t f"])
@pytest.mark.parametrize("dtype", ["str", "category", object])
def test_an_outcome_in_words(words, dtype):
    one, zero = words.rsplit(" ", 1)
    column = pd.Series([zero, one, None, zero], name="y", index=[5, 6, 7, 9]).astype(dtype)
    expected = pd.Series([0.0, 1.0, np.nan, 0.0], name="y", index=[5, 6, 7, 9])
    pd.testing.assert_series_equal(outcome_numbers(column), expected)


def test_outcomes_that_are_numbers_stay_and_others_are_refused():
    for values in ([1, 0], [0.5, None], [True, False], ["1", "0.5"]):
        column = pd.Series(values, name="y")
        pd.testing.assert_series_equal(outcome_numbers(column), column)
    for bad in (["yes", "maybe"], ["yes", "false"], ["yes", "1"], ["a", "b"], ["no", ""]):
        with pytest.raises(ValueError, match="the outcome 'y' should hold numbers, or yes and no"):
            outcome_numbers(pd.Series(bad, name="y"))


@pytest.fixture
def database(tmp_path):
    path = tmp_path / "trial.duckdb"
    with duckdb.connect(str(path)) as db:
        db.execute(
            "CREATE TABLE people AS SELECT 1 AS id, 2.50::DECIMAL(9, 2) AS spent, uuid() AS code, "
            "TIME '10:00' AS at, DATE '2024-01-01' AS day, true AS ok, 'x' AS \"a \"\"b\""
        )
        db.execute("CREATE VIEW seen AS SELECT id FROM people")
    return path


def test_tables_views_and_queries_of_a_database(database):
    frame = read_table(database, query="people")
    assert frame["spent"].tolist() == [2.5]
    assert frame["at"].tolist() == ["10:00:00"]
    assert len(frame["code"][0]) == 36
    assert frame['a "b'].tolist() == ["x"]
    assert read_table(database, query="seen")["id"].tolist() == [1]
    chosen = read_table(database, query=" select id + 1 as n, ok from people;", columns=["n"])
    assert chosen.to_dict("list") == {"n": [2]}


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (None, "should come with a query, got none.*'people', 'seen'"),
        ("  ", "should come with a query"),
        ("peopel", "Did you mean 'people'"),
        ("DROP TABLE people", "should be a SELECT or the name of a table"),
        ("select 1; drop table people", "one SELECT"),
        ("with x as (select 1) insert into people select * from x", "one SELECT"),
        ("select * from nobody", "nobody"),
        ("select frm people", "frm"),
        ("select * from people where id > 5", "should have rows"),
    ],
)
def test_queries_that_cannot_be_answered(database, query, message):
    with pytest.raises(TableError, match=message) as caught:
        read_table(database, query=query)
    assert "\n" not in str(caught.value)
    assert len(read_table(database, query="people")) == 1


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


def test_a_server_that_does_not_answer_and_no_password_in_the_message():
    with pytest.raises(TableError, match="localhost/trials should be a PostgreSQL") as caught:
        read_table("postgresql://me:secret@localhost:1/trials", query="people")
    assert "secret" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_near_names():
    message = unknown_columns_message("rows.csv", ["Visit "], ["visit", "mail"])
    assert message.endswith("Did you mean 'visit'?")
    message = unknown_columns_message("rows.csv", ["x", "q"], ["visit", "mail"])
    assert "columns 'x', 'q'" in message
    assert message.endswith("Check the names of the columns.")


FORMATS = ["csv", "parquet", "arrow", "jsonl", "feather", "duckdb"]


@pytest.fixture(scope="module")
def real_files(tmp_path_factory):
    """The bytes of a small table in each format, to be damaged."""
    folder = tmp_path_factory.mktemp("real")
    frame = pd.DataFrame({"x": np.arange(50), "town": ["Oslo", "Rome"] * 25, "z": [0.5] * 50})
    frame.to_csv(folder / "t.csv", index=False)
    frame.to_parquet(folder / "t.parquet")
    frame.to_feather(folder / "t.feather")
    pyarrow.feather.write_feather(pa.Table.from_pandas(frame), folder / "t.arrow")
    frame.to_json(folder / "t.jsonl", orient="records", lines=True)
    with duckdb.connect(str(folder / "t.duckdb")) as db:
        db.execute("CREATE TABLE t AS SELECT 1 AS x")
    return {suffix: (folder / f"t.{suffix}").read_bytes() for suffix in FORMATS}


@pytest.mark.gate
@pytest.mark.parametrize("suffix", FORMATS)
def test_any_bytes_are_a_table_or_an_error_in_one_line(suffix, real_files, tmp_path):
    path, whole = tmp_path / f"t.{suffix}", real_files[suffix]

    @settings(max_examples=60 if suffix == "duckdb" else 150, deadline=None)
    @given(st.data())
    def check(data):
        if data.draw(st.booleans()):
            content = data.draw(st.binary(max_size=300))
        else:
            damaged = bytearray(whole)
            for _ in range(data.draw(st.integers(0, 4))):
                damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(
                    st.integers(0, 255)
                )
            content = bytes(damaged[: data.draw(st.integers(0, len(damaged)))])
        path.write_bytes(content)
        try:
            frame = read_table(path, query="t" if suffix == "duckdb" else None)
        except TableError as error:
            message = str(error)
        else:
            message = ""
            assert len(frame) > 0
        assert "\n" not in message

    check()


@pytest.mark.gate
def test_postgresql():
    with postgres_server() as url:
        with psycopg.connect(url) as connection:
            connection.execute(
                "CREATE TABLE people (id bigint, spent numeric(9, 2), town text, ok boolean, "
                "day date, seen timestamptz, code uuid)"
            )
            connection.execute(
                "INSERT INTO people VALUES (1, 2.5, 'Oslo', true, '2024-01-01', "
                "'2024-01-01 10:00+02', gen_random_uuid()), "
                "(2, NULL, NULL, NULL, NULL, NULL, NULL)"
            )
            connection.execute("CREATE SCHEMA warehouse")
            connection.execute("CREATE VIEW warehouse.seen AS SELECT id FROM people")
        frame = read_table(url, query="people")
        assert frame["id"].tolist() == [1, 2]
        assert frame["spent"].dtype == np.float64
        assert frame["spent"][0] == 2.5
        assert pd.api.types.is_bool_dtype(frame["ok"])
        assert frame["day"][0] == pd.Timestamp(datetime.date(2024, 1, 1))
        assert frame["seen"][0] == pd.Timestamp("2024-01-01 08:00", tz="UTC")
        assert isinstance(frame["code"][0], str)
        assert frame.isna().iloc[1].sum() == 6
        assert read_table(url, query="warehouse.seen")["id"].tolist() == [1, 2]
        query = "SELECT id, 100 * id AS big FROM people WHERE town LIKE 'O%'"
        assert read_table(url, query=query, columns=["big"]).to_dict("list") == {"big": [100]}
        query = f"SELECT {LONG}::bigint a, {10**22 + 1}::numeric b UNION ALL SELECT NULL, NULL"
        long = read_table(url, query=query).dropna()
        assert [int(long["a"].iloc[0]), long["b"].iloc[0]] == [LONG, str(10**22 + 1)]
        for query, message in (
            (None, "'people', 'warehouse.seen'"),
            ("peple", "Did you mean 'people'"),
            ("select nothing from people", "nothing"),
            ("with gone as (delete from people returning id) select * from gone", "read-only"),
        ):
            with pytest.raises(TableError, match=message) as caught:
                read_table(url, query=query)
            assert "\n" not in str(caught.value)
        with pytest.raises(TableError, match="password") as caught:
            read_table(url.replace("pass-word", "guess"), query="people")
        assert "guess" not in str(caught.value)
        assert len(read_table(url, query="people")) == 2


def test_no_file_is_left_open(csv):
    before = len(os.listdir("/proc/self/fd")) if os.path.exists("/proc/self/fd") else 0
    for _ in range(5):
        read_table(csv)
    after = len(os.listdir("/proc/self/fd")) if os.path.exists("/proc/self/fd") else 0
    assert after <= before + 1
