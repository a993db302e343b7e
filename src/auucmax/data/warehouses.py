"""Read tables of data warehouses with ibis.

All rows come once, as Arrow batches, into DuckDB, which reads them like any others: a warehouse
gives rows in another order every time, and may ask money for each reading.
"""

from __future__ import annotations

import re
import shutil
import sqlite3
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from auucmax._files import WAREHOUSES, private_folder
from auucmax._optional import import_optional
from auucmax.data.databases import (
    BUCKET,
    N_BUCKETS,
    SELECT,
    Draw,
    address_name,
    table_query,
)
from auucmax.data.selects import check_select
from auucmax.data.table_errors import TableError, check_columns, check_different, one_line

COPY = "auucmax_rows"  #: the table that a copy holds
_BATCH_ROWS = 2**16
_ADVICE = "Check the address, the rights and the query."
_HOST = re.compile(r"[\w.-]+|[0-9a-f:.]+")
# Host, port and path as they should be: in others a password may have lost its place.
_PLACE = re.compile(r"(?:[\w.-]*|\[[0-9A-Fa-f:.]+\])(?::\d*)?(?:/[\w.-]*)*")
_SHORT = 4  # letters below which a part of an address is looked for as a whole word only
_FILES = ("sqlite://",)  # addresses without secrets
_FIRST_ROWS = 10_000  # that show how much memory all rows take


def is_table_expression(source: Any) -> bool:
    """Whether an object is an ibis table expression."""
    types = sys.modules.get("ibis.expr.types")
    return types is not None and isinstance(source, types.Table)


def copy_rows(
    db: Any, source: Any, query: str | None, columns: Sequence[str] | None, draw: Draw | None
) -> tuple[str, Draw | None]:
    """Copy the rows to the table :data:`COPY` of a DuckDB connection; return the table's name.

    ``source`` is an address with a query, or a table of ibis. Of the query nothing but one SELECT
    is run. Messages show only scheme and host of the address. With ``draw`` a sample is drawn where
    the rows are, if the database can hash; otherwise the second result is ``draw``.
    """
    address = source if isinstance(source, str) else ""
    name = _name(source)
    if query is not None and not address:
        raise TableError("query should come with an address, got one with a table. Leave it out.")
    expected = "a table that can be read" if not address else "a database that answers the query"
    with one_line(name, expected, _ADVICE), _without_secrets(address), ExitStack() as stack:
        table = _table_at(address, query, name, stack) if address else source
        check_columns(columns or (), table.columns, name)
        check_different(table.columns, name)
        if draw is not None:
            check_columns([draw.by] if draw.by else [], table.columns, name)
            table, draw = _drawn(table, draw, name)
        db.register("batches", _batches(table if columns is None else table.select(list(columns))))
        db.execute(f"CREATE TABLE {COPY} AS FROM batches")
        db.unregister("batches")
    return name, draw


def _drawn(table: Any, draw: Draw, name: str) -> tuple[Any, Draw | None]:
    """Sample the rows in the warehouse if possible; else return all."""
    ibis = sys.modules["ibis"]
    key = ibis.row_number() if draw.by is None else table[draw.by]
    keyed = table.mutate(**{BUCKET: key.cast("string").hash() & (N_BUCKETS - 1)})
    try:
        ibis.get_backend(table).compile(keyed)
    except ibis.common.exceptions.IbisError:  # no hash
        return table, draw
    count = _batches(table.aggregate(n=table.count())).read_all()
    some = table.limit(_FIRST_ROWS)
    n = draw.buckets(count["n"][0].as_py(), lambda: _batches(some).read_pandas(), name)
    return (table if n is None else keyed.filter(keyed[BUCKET] < n).drop(BUCKET)), None


def _name(source: Any) -> str:
    if not isinstance(source, str):
        return "the table of ibis"
    if source.startswith("sqlite://"):
        return Path(source).name
    address_name(source)  # or it cannot be parsed
    scheme, host = source.partition("://")[0], urlsplit(source).hostname or ""
    return f"{scheme}://{host}" if _HOST.fullmatch(host) else f"the database of {scheme}"


def _table_at(address: str, query: str | None, name: str, stack: ExitStack) -> Any:
    """The ibis table for a SELECT or a table name."""
    scheme = address.partition("://")[0]
    connection = _connection(scheme, address, name, stack)
    stack.callback(_disconnect, connection)
    if query is not None and SELECT.match(query):
        table = connection.sql(check_select(query, connection.dialect))
    elif query is not None and re.fullmatch(r"\w+([.]\w+)+", query):
        *place, own = query.split(".")
        table = connection.table(own, database=tuple(place) if len(place) > 1 else place[0])
    else:
        table_query(query, sorted(connection.list_tables()), name, str)
        table = connection.table(query)
    return table


def _connection(scheme: str, address: str, name: str, stack: ExitStack) -> Any:
    ibis = import_optional("ibis", extra="warehouse")
    try:
        if scheme == "sqlite":
            file = Path(address.removeprefix("sqlite://")).expanduser()
            if not file.is_file():  # it would be made
                raise TableError(
                    f"{name} should be a SQLite database, got no file {str(file.absolute())!r}. "
                    f"Check the path: after sqlite:// it begins in this folder, after sqlite:/// "
                    f"at the root."
                )
            found = sqlite3.connect(_unwritten(file.resolve(), stack), uri=True)
            return ibis.sqlite.from_connection(found)
        with warnings.catch_warnings():
            # A server that does not know the zone UTC by its name is given it below.
            warnings.filterwarnings("ignore", "Unable to set session timezone", UserWarning)
            connection = ibis.connect(address)
    except ImportError as error:
        raise TableError(
            f"{name} should be read by a library for {scheme}, got none. "
            f'Run: pip install "ibis-framework[{scheme}]"'
        ) from error
    return connection


def _unwritten(file: Path, stack: ExitStack) -> str:
    """An address that opens an SQLite file read-only.

    A log (-wal) without its index (-shm) is one that no process has open, and is read in a copy:
    SQLite would make the index beside it. Without a log, a database that has one at times is read
    as if nobody could change it, or both would be made.
    """
    log, index = (file.with_name(f"{file.name}-{part}") for part in ("wal", "shm"))
    if log.exists() and not index.exists():
        folder = stack.enter_context(private_folder())
        for own in (file, log):
            shutil.copyfile(own, folder / own.name)
        return (folder / file.name).as_uri()
    with file.open("rb") as opened:
        has_log = opened.read(20)[18:] == b"\2\2"  # versions of the format to write and to read
    return f"{file.as_uri()}?mode=ro{'&immutable=1' if has_log and not log.exists() else ''}"


def _disconnect(connection: Any) -> None:
    with suppress(Exception):  # the rows are here, whatever the server says
        connection.disconnect()


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

    A driver may write a password in quotes, escaped or encoded, in any case; what follows is its
    rest, perhaps. Nothing is left if a part of the address has no letters or digits to look for.

    >>> without_secrets("no user 'me' at host", "trino://me:p%40ss@host/shop")
    'no user ***'
    """
    if not address or address.startswith(_FILES):
        return text
    parts = urlsplit(address)
    user, _, host = parts.netloc.rpartition("@")
    known = host if _PLACE.fullmatch(f"{host}{parts.path}") else ""
    secret = f"{user} {parts.query} {parts.fragment}" + ("" if known else f" {host} {parts.path}")
    given = [unquote(own, errors="replace") for own in re.split("[:&;=,/? ]", secret) if own]
    words = {word for own in given for word in re.findall("[A-Za-z0-9]+", own)}
    if any(not re.search("[A-Za-z0-9]", own) for own in given):
        return ""
    if not words:
        return text
    short = "|".join(sorted(word for word in words if len(word) < _SHORT))
    long = "|".join(sorted(word for word in words if len(word) >= _SHORT))
    pattern = "|".join(filter(None, [long, rf"(?<![^\W_])(?:{short})(?![^\W_])" if short else ""]))
    found = re.search(rf"\S*?(?:{pattern})", text, re.IGNORECASE)
    return text if found is None else f"{text[: found.start()]}***"


def is_warehouse(address: str) -> bool:
    """Whether an address belongs to a database that ibis reads."""
    return address.startswith(WAREHOUSES)
