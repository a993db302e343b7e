"""Read tables of databases: DuckDB, PostgreSQL and, with ibis, data warehouses.

Databases are opened to read only, and whole numbers keep all their digits. All rows of a warehouse
come once, as Arrow batches, into DuckDB, which reads them like any others: a warehouse gives rows
in another order every time, and may charge for each reading.
"""

from __future__ import annotations

import re
import shutil
import sqlite3
import sys
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from difflib import get_close_matches
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pandas as pd

from auucmax._errors import InputError, visible
from auucmax._files import private_folder
from auucmax._optional import import_optional
from auucmax._validation import listed
from auucmax.data.tables import (
    BUCKET,
    LOOKED_AT,
    N_BUCKETS,
    Draw,
    TableError,
    check_columns,
    check_different,
    literal,
    most_rows,
    one_line,
    quoted,
)
from auucmax.data.text_types import INSTANTS, TEXT, infer_types, without_blanks

SELECT = re.compile(r"\s*(select|with|from|table|values)\s", re.IGNORECASE)
_AS_TEXT = re.compile("JSON|UUID|TIME|TIME WITH TIME ZONE|INTERVAL|BIT|ENUM.*")
_WHOLE = re.compile(r"U?HUGEINT|UBIGINT|DECIMAL\(\d+,0\)")
_ZONED = re.compile(r"TIMESTAMP.*(TZ|ZONE).*")
_CONNECT_SECONDS = 15
_BATCH = 128  # of DuckDB's vectors of 2,048 rows
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

    Views of a database may read any file of the machine, so only its tables are read.
    """
    import duckdb

    is_file = database != ":memory:"
    with private_folder() as folder:
        config: Any = {
            # Reading a table must not download software.
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
    auucmax.data.tables.TableError: query should be one SELECT, got \
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


def read_postgres(url: str, query: str | None, draw: Draw | None) -> pd.DataFrame:
    """Read a SELECT or a table from PostgreSQL, as Python objects.

    The transaction only reads, and is rolled back. With ``draw`` the server draws a sample.
    """
    psycopg = import_optional("psycopg", extra="postgres")
    name = database_name(url)
    with psycopg.connect(url, connect_timeout=_CONNECT_SECONDS) as connection:
        connection.read_only = True
        connection.execute("SET default_transaction_read_only = on")
        names = [row[0] for row in connection.execute(_POSTGRES_TABLES).fetchall()]
        sql = table_query(query, names, name, lambda table: ".".join(map(quoted, table.split("."))))
        if query not in names:
            sql = check_select(sql, "postgres")

        def read(sql: str) -> pd.DataFrame:
            # Pipeline mode takes a single statement, so none can end the transaction first.
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


def database_name(address: str) -> str:
    """The name of a database in messages: scheme and host of its address, or the file."""
    if address.startswith(_SQLITE):
        return Path(address).name
    scheme = address.partition("://")[0]
    try:
        # An unescaped password would be split, and its rest shown as a host or a port.
        user, _, _ = address.split("://", 1)[1].rpartition("@")
        if re.search(r"[\s/?#@]|%(?![0-9A-Fa-f]{2})", user):
            raise ValueError
        host = urlsplit(address).hostname or "localhost"
    except ValueError:
        raise TableError(
            f"source should be an address {scheme}://user:password@host/database, got one that "
            f"cannot be parsed. Check it; in a password write %40 for @, %2F for / and %25 for %."
        ) from None
    return f"{scheme}://{host}" if _HOST.fullmatch(host) else f"the database of {scheme}"


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
    check_columns(chosen, list(types), name)
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
            # Numbers if they fit into 64 bits; otherwise texts with all digits.
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
        draw.check(list(types), name)
        sql = draw.sql(sql, name, read, f"hash({{}}) % {N_BUCKETS}")
    ((n_rows,),) = db.execute(f"SELECT count(*) FROM ({table})").fetchall() if each else ((0,),)
    if each is not None and n_rows > most_rows(finished(read(f"{sql} LIMIT {LOOKED_AT}"))):
        result, parts = db.execute(sql), []
        while len(rows := result.fetch_df_chunk(_BATCH)):
            parts.append(each(finished(rows)))
        frame = pd.concat(parts, ignore_index=True)
    else:
        frame = finished(read(sql).drop(columns=BUCKET, errors="ignore"))
    if infer:
        frame.attrs |= {DECIMAL: found.sign, GUESSED: found.guessed}
    return frame


# Warehouses

COPY = "auucmax_rows"  #: the table that a copy holds
_BATCH_ROWS = 2**16
_SQLITE = "sqlite://"  # addresses without secrets
_HOST = re.compile(r"[\w.-]+|[0-9a-f:.]+")
# Host, port and path as they should be: in others a password may have lost its place.
_PLACE = re.compile(r"(?:[\w.-]*|\[[0-9A-Fa-f:.]+\])(?::\d*)?(?:/[\w.-]*)*")


def is_table_expression(source: Any) -> bool:
    """Whether an object is an ibis table expression."""
    types = sys.modules.get("ibis.expr.types")
    return types is not None and isinstance(source, types.Table)


def copy_rows(
    db: Any,
    source: Any,
    query: str | None,
    name: str,
    columns: Sequence[str] | None,
    draw: Draw | None,
) -> Draw | None:
    """Copy the rows to the table :data:`COPY` of a DuckDB connection.

    ``source`` is an address with a query, or a table of ibis. Only a single SELECT is run. With
    ``draw`` a sample is drawn where the rows are, if the database can hash; otherwise the result is
    ``draw``.
    """
    ibis = import_optional("ibis", extra="warehouse")
    address = source if isinstance(source, str) else ""
    with _without_secrets(address), ExitStack() as stack:
        table = source
        if address:
            connection = _connect(ibis, address, stack)
            stack.callback(connection.disconnect)
            if SELECT.match(query or ""):
                table = connection.sql(check_select(str(query), connection.dialect))
            elif query is not None and re.fullmatch(r"\w+([.]\w+)+", query):
                place, _, own = query.rpartition(".")
                table = connection.table(own, database=place)
            else:
                table_query(query, sorted(connection.list_tables()), name, str)
                table = connection.table(query)
        check_different(table.columns, name)
        if draw is not None:
            draw.check(table.columns, name)
            key = ibis.row_number() if draw.by is None else table[draw.by]
            keyed = table.mutate(**{BUCKET: key.cast("string").hash() & (N_BUCKETS - 1)})
            with suppress(ibis.common.exceptions.IbisError):  # the database cannot hash
                ibis.get_backend(table).compile(keyed)
                count = _batches(table.aggregate(n=table.count())).read_all()["n"][0].as_py()
                some = table.limit(LOOKED_AT)
                n = draw.buckets(count, lambda: _batches(some).read_pandas(), name)
                if n is not None:
                    table = keyed.filter(keyed[BUCKET] < n).drop(BUCKET)
                draw = None
        if columns is not None:
            check_columns(columns, table.columns, name)
            table = table.select(list(columns))
        db.register("batches", _batches(table))
        db.execute(f"CREATE TABLE {COPY} AS FROM batches")
        db.unregister("batches")
    return draw


def _connect(ibis: Any, address: str, stack: ExitStack) -> Any:
    """Connect to a database; SQLite files are opened read-only, without new files beside them."""
    scheme = address.partition("://")[0]
    if scheme != "sqlite":
        try:
            return ibis.connect(address)
        except ImportError as error:
            raise TableError(
                f"{database_name(address)} should be read by a library for {scheme}, got none. "
                f'Run: pip install "ibis-framework[{scheme}]"'
            ) from error
    file = Path(address.removeprefix(_SQLITE)).expanduser().resolve()
    log, index = (file.with_name(f"{file.name}-{part}") for part in ("wal", "shm"))
    if log.exists() and not index.exists():
        # A log without its index is one that no process has open: SQLite would make the index.
        folder = stack.enter_context(private_folder())
        for own in (file, log):
            shutil.copyfile(own, folder / own.name)
        uri = (folder / file.name).as_uri()
    else:
        with file.open("rb") as opened:
            has_log = opened.read(20)[18:] == b"\2\2"  # versions of the format to write and to read
        # Without a log, a database that has one at times is read as if nobody could change it, or
        # both would be made.
        uri = f"{file.as_uri()}?mode=ro{'&immutable=1' if has_log and not log.exists() else ''}"
    return ibis.sqlite.from_connection(sqlite3.connect(uri, uri=True))


def _batches(table: Any) -> Any:
    """A reader of Arrow batches over all rows."""
    backend = sys.modules["ibis"].get_backend(table)
    if backend.name == "duckdb":  # whose second version no longer has the name that ibis calls
        return backend.con.sql(str(backend.compile(table))).to_arrow_reader(_BATCH_ROWS)
    return table.to_pyarrow_batches(chunk_size=_BATCH_ROWS)


@contextmanager
def _without_secrets(address: str) -> Iterator[None]:
    """Remove the secrets of an address from errors."""
    try:
        with warnings.catch_warnings():  # ibis may be older than the libraries that it calls
            warnings.simplefilter("ignore", DeprecationWarning)
            warnings.simplefilter("ignore", FutureWarning)
            yield
    except (TableError, ImportError, Warning):
        raise
    except Exception as error:
        raise RuntimeError(without_secrets(str(error), address) or type(error).__name__) from None


def without_secrets(text: str, address: str) -> str:
    """Cut a message before the first secret word of an address.

    A driver may quote, escape or encode a password, and the text after it may be its rest. Nothing
    is kept if a part of the address has no letters or digits to search for.

    >>> without_secrets("no user 'me' at host", "trino://me:p%40ss@host/shop")
    'no user ***'
    """
    if not address or address.startswith(_SQLITE):
        return text
    parts = urlsplit(address)
    user, _, host = parts.netloc.rpartition("@")
    secret = f"{user} {parts.query} {parts.fragment}"
    if not _PLACE.fullmatch(f"{host}{parts.path}"):
        secret += f" {host} {parts.path}"
    given = [unquote(own, errors="replace") for own in re.split("[:&;=,/? ]", secret) if own]
    words = [re.findall("[A-Za-z0-9]+", own) for own in given]
    if not all(words):
        return ""
    # Short ones are searched for as whole words only.
    patterns = [w if len(w) > 3 else rf"(?<![^\W_]){w}(?![^\W_])" for own in words for w in own]
    return re.sub(rf"(?is)\S*?({'|'.join(patterns)}).*", "***", text) if patterns else text
