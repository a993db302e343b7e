"""Read tables with DuckDB and PostgreSQL, in full or as a random sample.

Databases are opened to read only, and whole numbers keep all their digits.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pandas as pd

from auucmax._errors import InputError, level_of_caller, visible
from auucmax._files import private_folder
from auucmax._optional import import_optional
from auucmax._validation import listed
from auucmax.data.memory import most_rows
from auucmax.data.table_errors import TableError, check_columns, check_different, one_line
from auucmax.data.text_types import INSTANTS, TEXT, infer_types, without_blanks
from auucmax.data.text_types import quoted as quoted

SELECT = re.compile(r"\s*(select|with|from|table|values)\s", re.IGNORECASE)
_AS_TEXT = re.compile("JSON|UUID|TIME|TIME WITH TIME ZONE|INTERVAL|BIT|ENUM.*")
_WHOLE = re.compile(r"U?HUGEINT|UBIGINT|DECIMAL\(\d+,0\)")
_ZONED = re.compile(r"TIMESTAMP.*(TZ|ZONE).*")
_CONNECT_SECONDS = 15
_BATCH = 128  # of DuckDB's vectors of 2,048 rows
_LOOKED_AT = 10_000  # rows that show how much memory all rows take, about
BUCKET, N_BUCKETS = "auucmax_bucket", 2**20  #: rows are hashed into; a sample is the first ones
DECIMAL, GUESSED = "auucmax decimal", "auucmax guessed"  #: in the attrs of a frame: see TextTypes
_TABLES = """
    SELECT table_name FROM duckdb_tables()
    UNION ALL SELECT view_name FROM duckdb_views() WHERE NOT internal ORDER BY 1
"""
_POSTGRES_TABLES = """
    SELECT CASE schemaname WHEN 'public' THEN relname ELSE schemaname || '.' || relname END
    FROM (SELECT schemaname, tablename AS relname FROM pg_tables
          UNION ALL SELECT schemaname, viewname FROM pg_views) t
    WHERE schemaname NOT IN ('pg_catalog', 'information_schema') ORDER BY 1
"""


@contextmanager
def connect(database: str = ":memory:") -> Iterator[Any]:
    """Open a read-only DuckDB connection without network access.

    A database may hold views that read any file of the machine: of it, only tables are read.
    """
    import duckdb

    is_file = database != ":memory:"
    with private_folder() as folder:
        config: Any = {
            # Reading a table is no reason to fetch software.
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
            "python_enable_replacements": False,  # or a variable of ours could be read as a table
            "enable_external_access": not is_file,
            "temp_directory": str(folder),  # not beside the database
        }
        with duckdb.connect(database, read_only=is_file, config=config) as db:
            yield db


def write_parquet(frame: pd.DataFrame, path: Path) -> None:
    """Write a frame to a Parquet file."""
    check_different([str(c) for c in frame.columns], "the list")
    with (
        one_line("the list", "written to its end", "Make room, or write a .csv file."),
        connect() as db,
    ):
        register(db, frame)
        db.execute(f"COPY given TO {literal(str(path))} (FORMAT parquet, USE_TMP_FILE false)")


def register(db: Any, frame: pd.DataFrame) -> None:
    """Make a frame the table ``given`` of a DuckDB connection."""
    # All values of a column of objects decide its type, not some of them.
    db.execute(f"SET pandas_analyze_sample = {len(frame)}")
    db.register("given", frame.rename(columns=str))


def duckdb_select(db: Any, query: str | None, name: str) -> str:
    """The SELECT for a query or a table name."""
    tables = [row[0] for row in db.execute(_TABLES).fetchall()]
    sql = table_query(query, tables, name, quoted)
    kinds = [str(statement.type) for statement in db.extract_statements(sql)]
    if len(kinds) != 1 or not kinds[0].endswith("SELECT"):
        raise TableError(
            f"query should be one SELECT, got {sql[:80]!r}. Other statements are not run."
        )
    return sql


def table_query(
    query: str | None, tables: Sequence[str], name: str, as_sql: Callable[[str], str]
) -> str:
    """SQL for a query or a table name."""
    has = f"It has {listed(tables)}." if tables else "It has no tables."
    if query is None or not query.strip():
        raise TableError(
            f"{name} is a database and should come with a query, got none. Pass a SELECT or the "
            f"name of a table. {has}"
        )
    if query in tables:
        return f"SELECT * FROM {as_sql(query)}"
    if SELECT.match(query):
        return query.strip().rstrip(";")
    near = get_close_matches(query, tables, 1)
    advice = f"Did you mean {near[0]!r}?" if near else has
    raise TableError(
        f"query should be a SELECT or the name of a table of {name}, got {query[:80]!r}. {advice}"
    )


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
    found, reason = [], ""
    try:
        found = [statement for statement in sqlglot.parse(query, read=dialect) if statement]
    except Exception as error:  # sqlglot raises errors of other types for some queries
        reason = f": {visible(str(error).split(chr(10))[0])[:200]}"
    is_select = len(found) == 1 and isinstance(found[0], exp.Query | exp.Values)
    if not is_select or found[0].find(*changes):
        raise TableError(
            f"query should be one SELECT, got {query[:80]!r}{reason}. Other statements are not run."
        )
    return str(found[0].sql(dialect, comments=False))


class Draw(NamedTuple):
    """A random sample of about ``max_rows`` rows, or as many as fit into memory.

    Rows are drawn by a hash of the column ``by``, whose equal values stay together; or, without
    such a column, one by one.
    """

    by: str | None = None
    max_rows: int | None = None

    def buckets(self, n_rows: int, some: Callable[[], pd.DataFrame], name: str) -> int | None:
        """Number of hash buckets to read; None to read all rows.

        ``some`` gives rows such as those of the table, to see how much memory they take.
        """
        most = most_rows(some()) if self.max_rows is None else self.max_rows
        if n_rows <= most:
            return None
        if self.max_rows is None:
            warnings.warn(
                f"{name} has {n_rows:,} rows: a random sample of about {most:,} is used, which fit "
                f"into a quarter of the free memory. Set max_rows to use more or fewer.",
                UserWarning,
                stacklevel=level_of_caller(),
            )
        return max(most * N_BUCKETS // n_rows, 1)

    def sql(self, table: str, name: str, read: Callable[[str], pd.DataFrame], hashed: str) -> str:
        """SQL that samples the SELECT ``table``; ``hashed`` is the hash expression."""
        n_rows = int(read(f"SELECT count(*) FROM ({table}) AS every").iloc[0, 0])
        part = f"SELECT * FROM ({table}) AS every WHERE random() < {_LOOKED_AT / max(n_rows, 1)}"
        n = self.buckets(n_rows, lambda: read(part), name)
        if n is None:
            return table
        key = "row_number() OVER ()" if self.by is None else quoted(self.by)
        bucket = hashed.format(f"CAST({key} AS VARCHAR)")
        keyed = f"SELECT *, {bucket} AS {BUCKET} FROM ({table}) AS every"
        return f"SELECT * FROM ({keyed}) AS keyed WHERE {BUCKET} < {n}"


def read_postgres(url: str, query: str | None, draw: Draw | None) -> pd.DataFrame:
    """Read a SELECT or a table from PostgreSQL, as Python objects.

    The transaction only reads, and is rolled back. With ``draw`` the server draws a sample.
    """
    psycopg = import_optional("psycopg", extra="postgres")
    name = address_name(url)
    with psycopg.connect(url, connect_timeout=_CONNECT_SECONDS) as connection:
        connection.read_only = True
        connection.execute("SET default_transaction_read_only = on")
        names = [row[0] for row in connection.execute(_POSTGRES_TABLES).fetchall()]
        sql = table_query(query, names, name, lambda table: ".".join(map(quoted, table.split("."))))
        if query not in names:
            sql = check_select(sql, "postgres")

        def read(sql: str) -> pd.DataFrame:
            # The protocol of a pipeline takes one statement: none that ends the transaction, say.
            with connection.pipeline():
                cursor = connection.execute(sql.encode())
                rows = cursor.fetchall()
            titles = [column.name for column in cursor.description or ()]
            return pd.DataFrame(rows, columns=titles, dtype=object)

        if draw is not None:
            sql = draw.sql(sql, name, read, f"(hashtext({{}}) & {N_BUCKETS - 1})")
        frame = read(sql)
        connection.rollback()  # the end of the block would commit
    return frame.drop(columns=BUCKET, errors="ignore")


def address_name(url: str) -> str:
    """Host and database of an address, without the password."""
    try:
        # An unescaped password would be split, and its rest shown as a host or a port.
        user, _, _ = url.split("://", 1)[1].rpartition("@")
        if re.search(r"[\s/?#@]|%(?![0-9A-Fa-f]{2})", user):
            raise ValueError
        parts = urlsplit(url)
        return f"{parts.hostname or 'localhost'}{parts.path}"
    except ValueError:
        raise TableError(
            f"source should be an address {url.partition('://')[0]}://user:password@host/database, "
            f"got one that cannot be parsed. Check it; in a password write %40 for @, %2F for / "
            f"and %25 for %."
        ) from None


def check_decimal(table: pd.DataFrame, decimal: str | None, columns: Collection[str]) -> None:
    """Raise an InputError if ``columns`` were read with another decimal sign than ``decimal``."""
    guessed = [name for name in table.attrs.get(GUESSED, ()) if name in columns]
    # Where the sign is not known points are decimal, though no column shows it.
    found = table.attrs.get(DECIMAL) or "."
    if guessed and decimal is not None and found != decimal:
        raise InputError(
            "decimal", f"{decimal!r}, as in the table of the fit",
            f"numbers such as 1.696 in {listed(guessed)}, read with {found!r} before decimals",
            f"Pass {decimal!r} if they are written as in the fit.",
        )  # fmt: skip


def read_sql(
    db: Any,
    table: str,
    name: str,
    *,
    columns: Sequence[str] | None = None,
    draw: Draw | None = None,
    infer: bool = False,
    is_csv: bool = False,
    decimal: str | None = None,
    each: Callable[[pd.DataFrame], pd.DataFrame] | None = None,
) -> pd.DataFrame:
    """Read columns of the SQL ``table``, or with ``draw`` a sample of its rows.

    ``infer``: texts may be numbers or dates, as in files. ``each``: applied to batches of a table
    that does not fit into memory.
    """
    relation = db.sql(table)
    types = dict(zip(relation.columns, map(str, relation.types), strict=True))
    chosen = list(types) if columns is None else list(columns)
    check_columns([*chosen, *([draw.by] if draw and draw.by else [])], list(types), name)
    texts = [c for c in types if infer and types[c] == "VARCHAR"]
    found = infer_types(db, table, name, texts, chosen, is_csv, decimal)
    zoned = [c for c in chosen if found.forms.get(c) == INSTANTS]
    parts = []
    for c in chosen:
        column = source = quoted(c)
        if c in found.blank:
            source = without_blanks(column)
        if _AS_TEXT.fullmatch(types[c]):
            source = f"CAST({column} AS VARCHAR)"
        elif _WHOLE.fullmatch(types[c]):
            # Those that 64 bits hold are numbers; of others all digits are kept.
            long = f"{column} IS NOT NULL AND TRY_CAST({column} AS BIGINT) IS NULL"
            ((is_long,),) = db.execute(f"SELECT bool_or({long}) FROM ({table})").fetchall()
            source = f"CAST({column} AS {'VARCHAR' if is_long else 'BIGINT'})"
        elif _ZONED.fullmatch(types[c]):
            zoned.append(c)
            source = f"make_timestamp(epoch_us(CAST({column} AS TIMESTAMPTZ)))"
        parts.append(f"{found.forms.get(c, TEXT).sql.format(source)} AS {column}")
    sql = f"SELECT {', '.join(parts)} FROM ({table})"

    def read(sql: str) -> pd.DataFrame:
        rows: pd.DataFrame = db.sql(sql).df()
        return rows

    def finished(rows: pd.DataFrame) -> pd.DataFrame:
        for c in zoned:
            rows[c] = rows[c].dt.tz_localize("UTC")
        return rows

    if draw is not None:
        sql = draw.sql(sql, name, read, f"hash({{}}) % {N_BUCKETS}")
    ((n_rows,),) = db.execute(f"SELECT count(*) FROM ({table})").fetchall() if each else ((0,),)
    if each is not None and n_rows > most_rows(finished(read(f"{sql} LIMIT {_LOOKED_AT}"))):
        result, parts = db.execute(sql), []
        while len(rows := result.fetch_df_chunk(_BATCH)):
            parts.append(each(finished(rows)))
        frame = pd.concat(parts, ignore_index=True)
    else:
        frame = finished(read(sql).drop(columns=BUCKET, errors="ignore"))
    if infer:
        frame.attrs |= {DECIMAL: found.sign, GUESSED: found.guessed}
    return frame


def list_of(files: list[str]) -> str:
    """SQL list of file names, escaped as glob patterns.

    >>> print(list_of(["a.csv", "b[1].csv"]))
    ['a.csv', 'b[[]1].csv']
    """
    return f"[{', '.join(literal(exact_name(file)) for file in files)}]"


def exact_name(file: str) -> str:
    """A glob pattern that matches exactly this file."""
    return re.sub(r"[\[*?]", lambda found: f"[{found[0]}]", file)


def literal(text: str) -> str:
    """Quote a text as a SQL literal."""
    return "'" + text.replace("'", "''") + "'"
