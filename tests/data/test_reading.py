"""Tables from files, folders and databases; and every failure in one line."""

import datetime
import os
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

from auucmax.data.reading import TableError, read_table, unknown_columns_message

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


def check_kinds(frame):
    types = pd.api.types
    assert frame["id"].tolist() == [1, 2, 3]
    assert types.is_numeric_dtype(frame["age"])
    assert frame["age"].isna().tolist() == [False, True, True]
    assert frame["income"].tolist()[:2] == [10.5, -3]
    assert frame["town"].tolist()[:2] == ["Oslo", "Rome, old"]
    assert frame["town"].isna().tolist() == [False, False, True]
    assert types.is_bool_dtype(frame["member"])
    assert frame["member"].isna().tolist() == [False, False, True]
    assert types.is_datetime64_any_dtype(frame["joined"])
    assert frame["seen"][0] == pd.Timestamp("2024-01-01 12:00")


def test_kinds_of_columns_of_a_csv_file(csv):
    check_kinds(read_table(csv))
    check_kinds(read_table(str(csv)))


@pytest.mark.parametrize("suffix", ["parquet", "feather", "arrow", "jsonl", "tsv", "csv.gz"])
def test_the_same_table_in_other_formats(csv, suffix, tmp_path):
    path = tmp_path / f"other.{suffix}"
    frame = read_table(csv)
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
    check_kinds(read_table(path))


def test_a_file_with_a_name_that_says_nothing_or_is_a_pattern(csv, tmp_path):
    read_table(csv).to_parquet(tmp_path / "rows")
    check_kinds(read_table(tmp_path / "rows"))
    odd = tmp_path / "a[1]*'b.csv"
    odd.write_text(ROWS)
    (tmp_path / "a1.csv").write_text("other\n1\n")
    check_kinds(read_table(odd))


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
