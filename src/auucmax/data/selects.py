"""Validation of SQL queries: a single read-only SELECT."""

from __future__ import annotations

from typing import Any

from auucmax._errors import visible
from auucmax._optional import import_optional
from auucmax.data.table_errors import TableError


def check_select(query: str, dialect: Any) -> str:
    """Return the query without comments; raise a TableError unless it is one read-only SELECT.

    Functions are not checked: a query can call whatever its user may run. Connections read only and
    are rolled back; an account that may only read is the safe one to query with.

    >>> check_select("SELECT age /* in years */ FROM people", "trino")
    'SELECT age FROM people'
    >>> check_select("SELECT 1; DROP TABLE people", "trino")
    Traceback (most recent call last):
    auucmax.data.table_errors.TableError: query should be one SELECT, got \
'SELECT 1; DROP TABLE people'. Other statements are not run.
    """
    sqlglot = import_optional("sqlglot", extra="warehouse")
    exp = sqlglot.exp
    changes = (exp.DML, exp.DDL, exp.Command, exp.Into, exp.Drop, exp.Alter, exp.Lock)
    try:
        statements = sqlglot.parse(query, read=dialect)
    except Exception as error:  # sqlglot raises errors of other types for some queries
        first = visible((str(error) or type(error).__name__).splitlines()[0])[:200]
        raise TableError(
            f"query should be one SELECT, got {query[:80]!r}: {first}. Check it, or make it a view "
            f"and name that."
        ) from error
    found = [statement for statement in statements if statement is not None]
    is_select = len(found) == 1 and isinstance(found[0], exp.Query | exp.Values)
    if not is_select or found[0].find(*changes):
        raise TableError(
            f"query should be one SELECT, got {query[:80]!r}. Other statements are not run."
        )
    return str(found[0].sql(dialect, comments=False))
