"""Tables that do not fit into memory are sampled where they are, and only then."""

import sqlite3

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pytest
from tests.postgres_server import postgres_server

from auucmax import read_trial
from auucmax.data import read_table, tables
from auucmax.data.tables import Draw, TableError

ROLES = {"treatment": "mail", "outcome": "visit"}


def read_sample(source, query=None, **draw):
    return read_table(source, query=query, draw=Draw(**draw))


def people(n, per_house=3):
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "person": np.arange(n),
            "house": np.arange(n) // per_house,
            "age": rng.normal(50, 10, n).round(2),
            "town": rng.choice(["a", "bc"], n),
            "mail": rng.integers(0, 2, n),
            "visit": rng.integers(0, 2, n),
        }
    )


def write(frame, kind, folder):
    """What to read: a file or a table of ibis; and the query of it."""
    path = folder / f"rows.{kind}"
    if kind in ("csv", "csv.gz"):
        frame.to_csv(path, index=False)
    elif kind == "parquet":
        frame.to_parquet(path)
    elif kind == "jsonl":
        frame.to_json(path, orient="records", lines=True)
    elif kind == "feather":
        frame.to_feather(path)
    else:
        with duckdb.connect(str(path)) as db:
            db.execute("CREATE TABLE t AS SELECT * FROM frame")
        return path, "t"
    return path, None


def check_sample(found, frame, share):
    """Whole rows of the frame in their order, whole houses, about a share of them, both arms."""
    rows = frame.set_index("person").loc[found["person"]].reset_index()
    pd.testing.assert_frame_equal(found.reset_index(drop=True), rows, check_dtype=False)
    assert (found["house"].value_counts() == 3).all()
    houses, kept = frame["house"].nunique(), found["house"].nunique()
    assert abs(kept - share * houses) < 5 * np.sqrt(houses * share * (1 - share))
    assert abs(found["age"].mean() - frame["age"].mean()) < 5 * 10 / np.sqrt(kept)


@pytest.mark.parametrize("kind", ["csv", "csv.gz", "parquet", "jsonl", "feather", "duckdb"])
def test_a_sample_of_groups(kind, tmp_path):
    frame = people(9_000)
    path, query = write(frame, kind, tmp_path)
    found = read_sample(path, query=query, by="house", max_rows=3_000)
    check_sample(found, frame, 1 / 3)
    again = read_sample(path, query=query, by="house", max_rows=3_000)
    pd.testing.assert_frame_equal(found, again)
    assert len(read_sample(path, query=query, max_rows=9_000)) == 9_000


def test_a_sample_of_a_frame_and_of_rows_without_an_id(tmp_path):
    frame = people(9_000)
    for table in (frame, pl.from_pandas(frame)):
        check_sample(read_sample(table, by="house", max_rows=3_000), frame, 1 / 3)
    path, _ = write(frame, "parquet", tmp_path)
    found = read_sample(path, max_rows=900)
    assert 750 < len(found) < 1_050
    assert abs(found["person"].mean() - 4_500) < 5 * 9_000 / np.sqrt(12 * 900)


@pytest.mark.gate
@pytest.mark.filterwarnings("ignore:fetch_arrow_table:DeprecationWarning")
def test_a_sample_of_warehouses(tmp_path):
    ibis = pytest.importorskip("ibis")
    psycopg = pytest.importorskip("psycopg")
    frame = people(9_000)
    path, _ = write(frame, "duckdb", tmp_path)
    server = ibis.duckdb.connect(path, read_only=True)
    found = read_sample(server.table("t"), by="house", max_rows=3_000)
    server.disconnect()
    check_sample(found, frame, 1 / 3)
    with sqlite3.connect(tmp_path / "shop.db") as db:
        frame.to_sql("people", db, index=False)
    db.close()
    found = read_sample(f"sqlite://{tmp_path}/shop.db", query="people", by="house", max_rows=3_000)
    check_sample(found, frame, 1 / 3)
    with postgres_server() as url, psycopg.connect(url, autocommit=True) as server:
        server.execute(
            "CREATE TABLE people (person bigint, house bigint, age double precision, town text, "
            "mail bigint, visit bigint)"
        )
        with server.cursor() as cursor:
            cursor.executemany(
                "INSERT INTO people VALUES (%s, %s, %s, %s, %s, %s)", frame.to_numpy().tolist()
            )
        for query in ("people", "SELECT * FROM people ORDER BY person"):
            found = read_sample(url, query=query, by="house", max_rows=3_000)
            check_sample(found, frame, 1 / 3)


@pytest.mark.parametrize("kind", ["csv", "parquet", "duckdb"])
def test_what_fits_into_a_quarter_of_the_memory_is_read(kind, tmp_path, monkeypatch):
    frame = people(30_000)
    path, query = write(frame, kind, tmp_path)
    whole = read_table(path, query=query)
    n_bytes = whole.memory_usage(deep=True, index=False).sum() + 8 * whole.size
    monkeypatch.setattr(tables, "_ALWAYS", 0)
    monkeypatch.setattr(tables, "free_memory", lambda: 4 * 1.1 * n_bytes)
    pd.testing.assert_frame_equal(read_sample(path, query=query), whole)
    monkeypatch.setattr(tables, "free_memory", lambda: 4 * 0.5 * n_bytes)
    with pytest.warns(UserWarning, match="which fit into a quarter of the free memory"):
        found = read_sample(path, query=query, by="person")
    assert 14_000 < len(found) < 16_000
    assert len(read_table(path, query=query)) == 30_000


def test_a_trial_of_a_sample(tmp_path):
    frame = people(9_000)
    path, _ = write(frame, "parquet", tmp_path)
    trial = read_trial(path, **ROLES, id="person", groups="house", max_rows=3_000)
    assert 2_500 < trial.n_rows < 3_500
    assert set(np.unique(trial.groups, return_counts=True)[1]) == {3}
    for wrong in (0, 2.5, "many"):
        with pytest.raises(ValueError, match="max_rows"):
            read_trial(path, **ROLES, max_rows=wrong)
    with pytest.raises(TableError, match="Did you mean 'house'"):
        read_trial(path, **ROLES, groups="hous", max_rows=3_000)
