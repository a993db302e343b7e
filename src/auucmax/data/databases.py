"""Rows of databases as pandas frames: what DuckDB found or has, and what PostgreSQL answers.

Databases are opened to read only, and whole numbers keep all their digits.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pandas as pd

from auucmax._optional import import_optional
from auucmax._validation import listed
from auucmax.data.table_errors import TableError, check_columns, one_line
from auucmax.data.text_types import KINDS_OF_COLUMNS, ZONE_TYPE, type_of_texts

__all__ = [
    "Reading",
    "address_name",
    "connect",
    "duckdb_select",
    "exact_name",
    "list_of",
    "literal",
    "quoted",
    "read_duckdb",
    "read_postgres",
]

_SELECT = re.compile(r"\s*(select|with|from|table|values)\s", re.IGNORECASE)
_AS_TEXT = ("UUID", "TIME", "TIME WITH TIME ZONE", "INTERVAL", "BIT")
_WHOLE = re.compile(r"U?HUGEINT|UBIGINT|DECIMAL\(\d+,0\)")
_CONNECT_SECONDS = 15
_VECTOR = 2048  # rows that DuckDB works on at a time
_TABLES = """
    SELECT table_name FROM duckdb_tables()
    UNION ALL SELECT view_name FROM duckdb_views() WHERE NOT internal ORDER BY 1
"""


def connect(database: str = ":memory:", **options: Any) -> Any:
    """A DuckDB connection that fetches nothing from elsewhere."""
    import duckdb

    # Reading a table is no reason to fetch software.
    config: dict[str, Any] = {
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
    }
    return duckdb.connect(database, config=config, **options)


def read_duckdb(
    file: str, query: str | None, columns: Sequence[str] | None, name: str
) -> pd.DataFrame:
    """The rows of a SELECT, or of a table, of a DuckDB database; ``name`` is for messages."""
    advice = "Check the file and the query."
    with (
        one_line(name, "a DuckDB database and the query one of it", advice),
        connect(file, read_only=True) as db,
    ):
        return Reading.of(db, duckdb_select(db, query, name), columns, name).frame(db)


def duckdb_select(db: Any, query: str | None, name: str) -> str:
    """The one SELECT that a query, or the name of a table, stands for."""
    tables = [row[0] for row in db.execute(_TABLES).fetchall()]
    sql = _query(query, tables, name, quoted)
    statements = db.extract_statements(sql)
    if len(statements) != 1 or not str(statements[0].type).endswith("SELECT"):
        raise TableError(
            f"query should be one SELECT, got {sql[:80]!r}. Other statements are not run."
        )
    return sql


def _query(
    query: str | None, tables: Sequence[str], name: str, as_sql: Callable[[str], str]
) -> str:
    """SQL of a query, or of the name of a table."""
    has = f"It has {listed(tables)}." if tables else "It has no tables."
    if query is None or not query.strip():
        raise TableError(
            f"{name} is a database and should come with a query, got none. Pass a SELECT or the "
            f"name of a table. {has}"
        )
    if query in tables:
        return f"SELECT * FROM {as_sql(query)}"
    if _SELECT.match(query):
        return query.strip().rstrip(";")
    near = get_close_matches(query, tables, 1)
    advice = f"Did you mean {near[0]!r}?" if near else has
    raise TableError(
        f"query should be a SELECT or the name of a table of {name}, got {query[:80]!r}. {advice}"
    )


def read_postgres(url: str, query: str | None) -> pd.DataFrame:
    """The rows of a SELECT, or of a table, of a PostgreSQL database."""
    psycopg = import_optional("psycopg", extra="postgres")
    string = import_optional("psycopg.types.string", extra="postgres")
    name = address_name(url)
    advice = "Check the address, the rights and the query."
    with (
        one_line(name, "a PostgreSQL database that answers the query", advice),
        psycopg.connect(url, connect_timeout=_CONNECT_SECONDS) as connection,
    ):
        connection.read_only = True
        for kind in ("uuid", "time", "timetz"):
            connection.adapters.register_loader(kind, string.TextLoader)
        tables = connection.execute(
            "SELECT schemaname, relname FROM (SELECT schemaname, tablename AS relname FROM "
            "pg_tables UNION ALL SELECT schemaname, viewname FROM pg_views) t WHERE schemaname "
            "NOT IN ('pg_catalog', 'information_schema') ORDER BY 1, 2"
        ).fetchall()
        names = [table if schema == "public" else f"{schema}.{table}" for schema, table in tables]
        sql = _query(query, names, name, lambda table: ".".join(map(quoted, table.split("."))))
        cursor = connection.execute(sql.encode())
        titles = [column.name for column in cursor.description or ()]
        frame = pd.DataFrame(cursor.fetchall(), columns=titles, dtype=object)
    parts = [_inferred(frame.iloc[:, place]) for place in range(len(titles))]
    return pd.concat(parts, axis=1) if parts else frame


def _inferred(values: pd.Series) -> pd.Series:
    """Objects as their kind, but not whole numbers among missing ones: floats round long ones."""
    if values.isna().any() and pd.api.types.infer_dtype(values, skipna=True) == "integer":
        return values
    return values.infer_objects()


def address_name(url: str) -> str:
    """Host and database, never the password."""
    try:
        parts = urlsplit(url)
        return f"{parts.hostname or 'localhost'}{parts.path}"
    except ValueError as error:
        raise TableError(
            "source should be an address postgresql://user@host/database, got one that cannot be "
            "parsed. Check it."
        ) from error


class Reading(NamedTuple):
    """SQL that gives the columns of a table as pandas takes them, and what is left to do then.

    ``whole`` are columns of whole numbers that may be too long for 64 bits, ``long`` those of them
    that are known to be, ``zoned`` moments whose zone is UTC.
    """

    columns: tuple[str, ...]
    sql: str
    whole: tuple[str, ...] = ()
    zoned: tuple[str, ...] = ()
    long: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        db: Any,
        table: str,
        columns: Sequence[str] | None,
        name: str,
        texts: Mapping[str, int] = MappingProxyType({}),
    ) -> Reading:
        """Of what the SQL ``table`` gives, only the columns asked for; ``texts`` have no type."""
        relation = db.sql(table)
        types = dict(zip(relation.columns, map(str, relation.types), strict=True))
        chosen = list(types) if columns is None else list(columns)
        check_columns(chosen, list(types), name)
        if untyped := [c for c in chosen if c in texts]:
            cells = relation.project(", ".join(map(quoted, untyped)))
            kinds = dict(cells.query("cells", KINDS_OF_COLUMNS).fetchall())
            types |= {c: type_of_texts(kinds.get(c, 0), texts[c]) for c in untyped}
        whole = tuple(c for c in chosen if _WHOLE.fullmatch(types[c]))
        zoned = tuple(c for c in chosen if types[c] == ZONE_TYPE)
        parts = [f"{_converted(quoted(c), types[c])} AS {quoted(c)}" for c in chosen]
        parts += [f"CAST({quoted(c)} AS VARCHAR) AS {quoted(_digits(c))}" for c in whole]
        return cls(tuple(chosen), f"SELECT {', '.join(parts)} FROM ({table})", whole, zoned)

    def only(self, columns: Sequence[str]) -> Reading:
        """Of some of these columns."""
        whole, zoned, long = (
            tuple(c for c in own if c in columns) for own in (self.whole, self.zoned, self.long)
        )
        names = ", ".join(map(quoted, [*columns, *map(_digits, whole)]))
        return Reading(tuple(columns), f"SELECT {names} FROM ({self.sql})", whole, zoned, long)

    def settled(self, db: Any) -> Reading:
        """The same, with columns that are the same in every piece: all their rows are looked at."""
        if not self.whole:
            return self
        lost = [
            f"bool_or({quoted(c)} IS NULL AND {quoted(_digits(c))} IS NOT NULL)" for c in self.whole
        ]
        (found,) = db.sql(f"SELECT {', '.join(lost)} FROM ({self.sql})").fetchall()
        return self._replace(long=tuple(c for c, own in zip(self.whole, found, strict=True) if own))

    def frame(self, db: Any) -> pd.DataFrame:
        """All rows."""
        return self._finished(db.sql(self.sql).df())

    def pieces(self, db: Any, n_rows: int) -> Iterator[pd.DataFrame]:
        """All rows in their order, about so many at a time."""
        result = db.execute(self.sql)
        n_vectors = max(n_rows // _VECTOR, 1)
        while len(found := result.fetch_df_chunk(n_vectors)):
            yield self._finished(found)

    def _finished(self, frame: pd.DataFrame) -> pd.DataFrame:
        for column in self.whole:
            digits = frame.pop(_digits(column))
            if column in self.long or (frame[column].isna() & digits.notna()).any():
                frame[column] = digits
        for column in self.zoned:
            frame[column] = frame[column].dt.tz_localize("UTC")
        return frame


def _converted(column: str, type_: str) -> str:
    """SQL of a column as pandas takes it."""
    if _WHOLE.fullmatch(type_):
        return f"TRY_CAST({column} AS BIGINT)"
    if type_ == ZONE_TYPE:  # in UTC, whatever the zone of the machine
        return f"make_timestamp(epoch_us(CAST({column} AS {type_})))"
    return f"CAST({column} AS {'VARCHAR' if type_ in _AS_TEXT else type_})"


def _digits(column: str) -> str:
    return f"{column}\x1fdigits"


def list_of(files: list[str]) -> str:
    """SQL of a list of files, none of whose names is a pattern.

    >>> print(list_of(["a.csv", "b[1].csv"]))
    ['a.csv', 'b[[]1].csv']
    """
    return f"[{', '.join(literal(exact_name(file)) for file in files)}]"


def exact_name(file: str) -> str:
    """The pattern that only this file matches."""
    return re.sub(r"[\[*?]", lambda found: f"[{found[0]}]", file)


def literal(text: str) -> str:
    """A text in SQL."""
    return "'" + text.replace("'", "''") + "'"


def quoted(name: str) -> str:
    """A name in SQL."""
    return '"' + name.replace('"', '""') + '"'
