"""Rows that ibis brings are those of the table, whatever holds it; nothing is changed or told."""

import json
import sqlite3
import traceback
from itertools import product
from urllib.parse import quote, quote_plus

import duckdb
import ibis
import numpy as np
import pandas as pd
import polars as pl
import pytest
from tests.cli.commands import run
from tests.model.trial_table import NAMES, trial_table
from tests.postgres_server import postgres_server

from auucmax import fit
from auucmax.data import read_table, read_trial
from auucmax.data.databases import check_select, without_secrets
from auucmax.data.tables import TableError

# ibis calls DuckDB by a name that it is going to drop.
ARMS = "--treated mail --control none"
pytestmark = pytest.mark.filterwarnings("ignore:fetch_arrow_table:DeprecationWarning")
FRAME = pd.DataFrame(
    {
        "id": [2**53 + 1, 2, 3, 4],
        "age": [30.5, np.nan, 50.0, -0.0],
        "town": ["Oslo", None, "it's", "NA"],
        "joined": pd.to_datetime(
            ["2024-01-31 01:02:03.5", None, "1960-01-01", "2024-02-29"], format="ISO8601"
        ),
        "vip": [True, False, True, False],
    }
)


def check(frame):
    """The rows of FRAME, in whatever order and types."""
    frame = frame.set_index(frame["id"].astype("int64")).loc[FRAME["id"]]
    np.testing.assert_array_equal(frame["age"].astype("float64"), FRAME["age"])
    for column in ("town", "joined", "vip"):
        missing = FRAME[column].isna().to_numpy()
        np.testing.assert_array_equal(frame[column].isna(), missing)
        assert frame[column][~missing].tolist() == FRAME[column][~missing].tolist()


@pytest.fixture
def sqlite_file(tmp_path):
    file = tmp_path / "shop.db"
    texts = FRAME["joined"].astype("str").where(FRAME["joined"].notna(), None)
    rows = FRAME.assign(joined=texts).astype(object).where(FRAME.notna(), None)
    connection = sqlite3.connect(file)
    connection.execute(
        "CREATE TABLE people (id bigint, age double, town text, joined timestamp, vip boolean)"
    )
    connection.executemany("INSERT INTO people VALUES (?, ?, ?, ?, ?)", rows.to_numpy().tolist())
    connection.commit()
    connection.close()
    return file


@pytest.fixture
def duckdb_table(tmp_path):
    with duckdb.connect(str(tmp_path / "shop.duckdb")) as db:
        db.register("frame", FRAME)
        db.execute("CREATE TABLE people AS FROM frame")
    connection = ibis.duckdb.connect(tmp_path / "shop.duckdb", read_only=True)
    yield connection.table("people")
    connection.disconnect()


@pytest.mark.parametrize(
    "query", ["people", "SELECT * FROM people;", "WITH p AS (SELECT * FROM people) SELECT * FROM p"]
)
def test_sqlite(sqlite_file, query):
    check(read_table(f"sqlite://{sqlite_file}", query=query))


def test_tables_of_ibis(duckdb_table):
    check(read_table(duckdb_table))
    check(read_table(ibis.polars.connect({"people": pl.from_pandas(FRAME)}).table("people")))
    some = duckdb_table.filter(duckdb_table.age > 40).select("town", twice=duckdb_table.age * 2)
    assert read_table(some).to_dict("list") == {"town": ["it's"], "twice": [100.0]}
    with pytest.raises(TableError, match="query should come with a database"):
        read_table(duckdb_table, query="people")
    with pytest.raises(TableError, match="should have rows, got a table without"):
        read_table(duckdb_table.filter(duckdb_table.age > 1_000))


def test_an_address_of_duckdb(tmp_path):
    with duckdb.connect(str(tmp_path / "shop.x")) as db:
        db.register("frame", FRAME)
        db.execute("CREATE TABLE people AS FROM frame")
    check(read_table(f"duckdb://{tmp_path}/shop.x", query="people"))
    with pytest.raises(TableError, match="got nothing at"):
        read_table(f"duckdb://{tmp_path}/none.x", query="people")


@pytest.fixture
def logged(tmp_path):
    """A database whose rows are in its log, held open; and its folder."""
    (tmp_path / "live").mkdir()
    writer = sqlite3.connect(tmp_path / "live" / "shop.db")
    writer.execute("PRAGMA journal_mode = wal")
    writer.execute("PRAGMA wal_autocheckpoint = 0")
    writer.execute("CREATE TABLE people (id bigint, age double)")
    writer.executemany("INSERT INTO people VALUES (?, ?)", [(i, i / 2) for i in range(50)])
    writer.commit()
    yield writer, tmp_path / "live"
    writer.close()


def state(folder, besides=()):
    return {
        file.name: (file.read_bytes(), file.stat().st_mtime_ns)
        for file in folder.iterdir()
        if not file.name.endswith(besides)
    }


@pytest.mark.parametrize("parts", [("", "-wal"), ("", "-wal", "-shm"), ("live",), ("closed",)])
def test_a_log_of_sqlite_is_read_and_stays(logged, tmp_path, parts):
    """As a killed writer leaves it, as a folder that was copied, while it is open, and after."""
    writer, folder = logged
    if parts == ("closed",):
        writer.close()
    elif parts != ("live",):
        for part in parts:
            (tmp_path / f"shop.db{part}").write_bytes((folder / f"shop.db{part}").read_bytes())
        folder.rename(tmp_path / "elsewhere")
        folder.mkdir()
        for part in parts:
            (tmp_path / f"shop.db{part}").rename(folder / f"shop.db{part}")
    # Readers and writers of a database that is open agree by its index.
    besides = ("-shm",) if {"-shm", "live"} & set(parts) else ()
    before = state(folder, besides)
    for query in ("people", "SELECT * FROM people"):
        assert len(read_table(f"sqlite://{folder}/shop.db", query=query)) == 50
        assert state(folder, besides) == before


CHANGES = [
    "DROP TABLE people",
    "SELECT 1; DROP TABLE people",
    "SELECT * INTO other FROM people",
    "WITH gone AS (DELETE FROM people RETURNING *) SELECT * FROM gone",
    "SELECT 1 FROM people WHERE",
    "INSERT INTO people SELECT * FROM people",
]


@pytest.mark.parametrize("query", CHANGES)
def test_nothing_but_one_select_is_run(sqlite_file, query):
    before = sqlite_file.read_bytes()
    with pytest.raises(TableError, match="query should be "):
        read_table(f"sqlite://{sqlite_file}", query=query)
    assert sqlite_file.read_bytes() == before
    if query.startswith(("SELECT", "WITH")):
        for dialect in ("bigquery", "snowflake", "databricks", "trino"):
            with pytest.raises(TableError, match="query should be one SELECT"):
                check_select(query, dialect)


@pytest.mark.parametrize("dialect", ["bigquery", "snowflake", "databricks", "trino"])
def test_what_is_sent_to_a_warehouse_is_one_select(dialect):
    """No server is at hand: what ibis writes for a table, and what it is given."""
    table = ibis.table({"id": "int64", "age": "float64"}, name="people")
    sent = str(ibis.to_sql(table.select("age"), dialect=dialect))
    check_select(sent, dialect)
    quote = "`" if dialect in ("bigquery", "databricks") else '"'
    assert f"{quote}age{quote}" in sent
    assert f"{quote}people{quote}" in sent


def said(address, text, monkeypatch):
    """All that is shown if a driver says a text."""

    def refused(address):
        raise OSError(text)

    monkeypatch.setattr(ibis, "connect", refused)
    with pytest.raises(TableError) as caught:
        read_table(address, query="people")
    return "".join(traceback.format_exception(caught.value))


WRITTEN = {
    "repr": lambda own: repr({"pw": own}),
    "repr twice": lambda own: repr(repr(own)),
    "json": json.dumps,
    "bytes": lambda own: repr(own.encode()),
    "sql": lambda own: own.replace("'", "''"),
    "encoded": lambda own: quote(own, safe=""),
    "encoded in lower case": lambda own: quote(own, safe="").lower(),
    "encoded in part": quote,
    "encoded as a form": quote_plus,
    "encoded twice": lambda own: quote(quote(own, safe=""), safe=""),
    "lower case": str.lower,
    "upper case": str.upper,
}


ADDRESSES = (
    "trino://me:{}@host/db", "trino://{}@host/db", "databricks://host/db?http={}&x=1",
    "databricks://host/db?x=1;http={}", "trino://{}:@host/db", "snowflake://host/db#{}",
    "trino://host/{};password=x", "trino://me:{}", "trino://host/db;pin={}",
)  # fmt: skip
SECRETS = ("S3cr-Tok", "s3cr't", "s3cr'\"\\tok", "s3cr/+ tök", "s3cr\n%2ft")


def test_a_message_ends_before_the_first_part_of_an_address():
    """However a driver writes it."""
    for address, secret, write in product(ADDRESSES, SECRETS, WRITTEN.values()):
        given = address.format(quote(secret, safe=""))
        shown = without_secrets(f"refused <{write(secret)}>.", given)
        assert shown.startswith("refused "), (given, write(secret))
        assert shown.endswith("***"), (given, write(secret))
        assert "s3cr" not in shown.lower(), (given, write(secret))
    assert without_secrets("refused <öä>", f"trino://me:{quote('öä')}@host/db") == ""


@pytest.mark.parametrize("address", ADDRESSES)
def test_no_traceback_has_a_part_of_an_address(address, monkeypatch):
    for secret in SECRETS:
        text = f"refused {secret!r}"
        shown = said(address.format(quote(secret, safe="")), text, monkeypatch)
        assert "refused ***" in shown
        assert "s3cr" not in shown.lower()


@pytest.mark.gate
def test_a_model_of_a_table_of_ibis_is_that_of_its_rows():
    frame = trial_table(1_500)
    table = ibis.polars.connect({"trial": pl.from_pandas(frame)}).table("trial")
    model, same = (fit(read_trial(rows, **NAMES, id="person"), "tm") for rows in (table, frame))
    np.testing.assert_array_equal(model.predict(frame), same.predict(frame))
    with pytest.warns(UserWarning, match="should be new to the model"):
        assert model.evaluate(table) == model.evidence


def test_a_command_reads_an_address(tmp_path):
    frame = trial_table(1_500)
    connection = sqlite3.connect(tmp_path / "shop.db")
    frame.assign(joined=frame["joined"].astype("str")).to_sql("trial", connection, index=False)
    connection.close()
    shown = run(f"check sqlite://{tmp_path}/shop.db --query trial -t arm -y visit {ARMS}")
    assert shown.exit_code == 0, shown.output
    shown = run(f"check sqlite://{tmp_path}/shop.db --query trail -t arm -y visit {ARMS}")
    assert shown.exit_code == 2
    assert "Did you mean 'trial'?" in shown.stderr


@pytest.mark.gate
def test_postgres_by_ibis():
    psycopg = pytest.importorskip("psycopg")
    with postgres_server() as url, psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "CREATE TABLE people (id bigint, age double precision, town text, joined timestamp, "
            "vip boolean)"
        )
        rows = FRAME.astype(object).where(FRAME.notna(), None).to_numpy().tolist()
        with connection.cursor() as cursor:
            cursor.executemany("INSERT INTO people VALUES (%s, %s, %s, %s, %s)", rows)
        server = ibis.connect(url)
        check(read_table(server.table("people")))
        server.disconnect()
