"""Rows of DuckDB and PostgreSQL: only read, with all digits, and no password in a message."""

from __future__ import annotations

import datetime

import duckdb
import numpy as np
import pandas as pd
import psycopg
import pytest
from tests.postgres_server import postgres_server

from auucmax.data.databases import check_select, write_parquet
from auucmax.data.reading import read_table
from auucmax.data.tables import TableError

LONG = 1_800_000_000_000_000_001


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
        ("select 1); drop table people; select * from (select 1", "syntax error"),
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


def test_a_server_that_does_not_answer_and_no_password_in_the_message():
    with pytest.raises(TableError, match="postgresql://localhost should be readable") as caught:
        read_table("postgresql://me:secret@localhost:1/trials", query="people")
    assert "secret" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_no_variable_of_ours_and_no_file_of_the_machine_is_a_table(database, tmp_path):
    secret = tmp_path / "secret.csv"
    secret.write_text("a\n1\n")
    with duckdb.connect(str(database)) as db:
        db.execute(f"CREATE VIEW leak AS SELECT content FROM read_text('{secret}')")
        db.execute(f"CREATE VIEW leak_too AS FROM '{secret}'")
    for query in ("leak", "leak_too", f"SELECT * FROM read_csv('{secret}')", "SELECT * FROM frame"):
        with pytest.raises(TableError, match=r"disabled by configuration|does not exist"):
            read_table(database, query=query)
    assert read_table(database, query="seen")["id"].tolist() == [1]


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
            ("with gone as (delete from people returning id) select * from gone", "one SELECT"),
            ("SELECT 1; COMMIT; DROP TABLE people", "one SELECT"),
            ("SELECT 1; ROLLBACK; DROP TABLE people; SELECT 1", "one SELECT"),
        ):
            with pytest.raises(TableError, match=message) as caught:
                read_table(url, query=query)
            assert "\n" not in str(caught.value)
        with pytest.raises(TableError, match="password") as caught:
            read_table(url.replace("pass-word", "guess"), query="people")
        assert "guess" not in str(caught.value)
        assert len(read_table(url, query="people")) == 2


@pytest.mark.gate
def test_a_query_leaves_no_trace_in_postgresql():
    """A transaction that only reads writes large objects and tells others, once committed."""
    with postgres_server() as url, psycopg.connect(url, autocommit=True) as own:
        own.execute("LISTEN ours")
        acts = ("lo_from_bytea(4242, 'kept'::bytea)::int", "pg_notify('ours', 'x')::text")
        for call in acts:
            assert len(read_table(url, query=f"SELECT {call} AS a")) == 1
        assert own.execute("SELECT count(*) FROM pg_largeobject_metadata").fetchone() == (0,)
        assert list(own.notifies(timeout=0)) == []


TEXT = pd.Series(["a"]).dtype  #: of columns of texts: str, or object before pandas 3


def test_a_list_that_is_written_is_the_list_that_is_read(tmp_path):
    day = pd.Timestamp("2024-02-01")
    frame = pd.DataFrame({
        "id": [LONG, 2, 3],
        "town": ["Århus", None, "it's"],
        "count": pd.array([1, None, 3], "Int64"),
        "day": pd.array([day, pd.NaT, day], "datetime64[us]"),
        "score": np.array([0.1, 0.2, np.nan], dtype=np.float32),
        "arm": pd.Categorical(["no", "mail", "no"]),
        # What the first thousand values show is not what all of them are.
        "mixed": np.array([1, "a", None], dtype=object),
    }, index=[7, 7, 9])  # fmt: skip
    many = pd.concat([frame.iloc[[0]]] * 2_000 + [frame])
    write_parquet(many, path := tmp_path / "it's a list.parquet")
    found = read_table(path)
    assert found.columns.tolist() == frame.columns.tolist()
    assert found.dtypes.tolist() == [
        "int64", TEXT, "Int64", "datetime64[us]", "float32", TEXT, TEXT,
    ]  # fmt: skip
    for name in frame:
        values = many[name].map(str, na_action="ignore") if name == "mixed" else many[name]
        expected = values.astype(found[name].dtype).reset_index(drop=True)
        pd.testing.assert_series_equal(found[name].fillna(np.nan), expected.fillna(np.nan))


def test_moments_of_texts_with_a_zone_may_have_no_seconds(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text(
        "at,n\n2024-01-31T10:00Z,1\n2024-01-31 10:00+02:00,2\n,3\n2024-01-31 10:00:30Z,4"
    )
    found = read_table(path)["at"]
    expected = ["2024-01-31 10:00", "2024-01-31 08:00", None, "2024-01-31 10:00:30"]
    assert list(found) == list(pd.to_datetime(expected, format="ISO8601", utc=True).as_unit("us"))


@pytest.mark.parametrize(
    ("dialect", "query"),
    [
        ("trino", "SELECT query, system FROM TABLE(sequence(start => 1, stop => 5))"),
        ("snowflake", "SELECT f.value FROM people, LATERAL FLATTEN(input => people.bought) f"),
        ("snowflake", "SELECT * FROM TABLE(GENERATOR(rowcount => 5))"),
        ("bigquery", "SELECT * FROM UNNEST([1, 2]) AS query"),
        ("databricks", "SELECT * FROM people LATERAL VIEW explode(bought) b AS item"),
        ("postgres", "TABLE people"),
        ("postgres", "VALUES (1), (2)"),
        ("postgres", "SELECT nextval FROM people, jsonb_each(bought) b"),
        ("postgres", "WITH a AS (SELECT 1) SELECT * FROM a UNION ALL SELECT id FROM shop.people;"),
    ],
)
def test_tables_and_functions_that_compute_pass(dialect, query):
    check_select(query, dialect)


@pytest.mark.parametrize(
    ("dialect", "query"),
    [
        ("postgres", "DELETE FROM people"),
        ("postgres", "WITH gone AS (DELETE FROM people RETURNING 1) SELECT * FROM gone"),
        ("postgres", "SELECT 1; DROP TABLE people"),
        ("postgres", "SELECT * INTO copied FROM people"),
        ("postgres", "SELECT * FROM people FOR UPDATE"),
        ("postgres", "COPY people TO '/a/file'"),
        ("bigquery", "CREATE TABLE copied AS SELECT * FROM people"),
        ("snowflake", "CALL my_procedure()"),
        ("mysql", "SELECT 1 INTO OUTFILE '/a/file'"),
        ("sqlite", "ATTACH DATABASE 'other' AS other"),
    ],
)
def test_other_statements_are_refused(dialect, query):
    with pytest.raises(TableError, match="query should be one SELECT"):
        check_select(query, dialect)


@pytest.mark.parametrize("comment", ["/*!50000 INTO OUTFILE 'a' */", "-- */ INTO OUTFILE 'a'"])
def test_what_is_sent_has_no_comment_that_a_server_runs(comment):
    assert check_select(f"SELECT 1 {comment}", "mysql") == "SELECT 1"
