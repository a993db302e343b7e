"""A query is one SELECT that changes nothing, in every dialect."""

from __future__ import annotations

import pytest

from auucmax.data.databases import check_select
from auucmax.data.tables import TableError


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


def test_errors_of_the_parser_do_not_steer_a_terminal():
    with pytest.raises(TableError) as caught:
        check_select("SELECT (\x1b[2J FROM people", "postgres")
    assert "\x1b" not in str(caught.value)
