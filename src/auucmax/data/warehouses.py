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

from auucmax._files import private_folder
from auucmax._optional import import_optional
from auucmax.data.databases import (
    BUCKET,
    N_BUCKETS,
    SELECT,
    Draw,
    address_name,
    check_select,
    table_query,
)
from auucmax.data.table_errors import TableError, check_columns, check_different

COPY = "auucmax_rows"  #: the table that a copy holds
_BATCH_ROWS = 2**16
_SQLITE = "sqlite://"  # addresses without secrets
_HOST = re.compile(r"[\w.-]+|[0-9a-f:.]+")
# Host, port and path as they should be: in others a password may have lost its place.
_PLACE = re.compile(r"(?:[\w.-]*|\[[0-9A-Fa-f:.]+\])(?::\d*)?(?:/[\w.-]*)*")
_FIRST_ROWS = 10_000  # that show how much memory all rows take


def is_table_expression(source: Any) -> bool:
    """Whether an object is an ibis table expression."""
    types = sys.modules.get("ibis.expr.types")
    return types is not None and isinstance(source, types.Table)


def warehouse_name(address: str) -> str:
    """The name of a database in messages: scheme and host of its address, or the file."""
    if address.startswith(_SQLITE):
        return Path(address).name
    address_name(address)  # or it cannot be parsed
    scheme, host = address.partition("://")[0], urlsplit(address).hostname or ""
    return f"{scheme}://{host}" if _HOST.fullmatch(host) else f"the database of {scheme}"


def copy_rows(
    db: Any,
    source: Any,
    query: str | None,
    name: str,
    columns: Sequence[str] | None,
    draw: Draw | None,
) -> Draw | None:
    """Copy the rows to the table :data:`COPY` of a DuckDB connection.

    ``source`` is an address with a query, or a table of ibis. Of the query nothing but one SELECT
    is run. With ``draw`` a sample is drawn where the rows are, if the database can hash; otherwise
    the result is ``draw``.
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
            check_columns([draw.by] if draw.by else [], table.columns, name)
            key = ibis.row_number() if draw.by is None else table[draw.by]
            keyed = table.mutate(**{BUCKET: key.cast("string").hash() & (N_BUCKETS - 1)})
            with suppress(ibis.common.exceptions.IbisError):  # the database cannot hash
                ibis.get_backend(table).compile(keyed)
                count = _batches(table.aggregate(n=table.count())).read_all()["n"][0].as_py()
                some = table.limit(_FIRST_ROWS)
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
    """Connect to a database; SQLite files are opened read-only, and nothing is made beside them."""
    scheme = address.partition("://")[0]
    if scheme != "sqlite":
        try:
            return ibis.connect(address)
        except ImportError as error:
            raise TableError(
                f"{warehouse_name(address)} should be read by a library for {scheme}, got none. "
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

    A driver may write a password in quotes, escaped or encoded, in any case; what follows is its
    rest, perhaps. Nothing is left if a part of the address has no letters or digits to look for.

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
    # Short ones are looked for as whole words only.
    patterns = [w if len(w) > 3 else rf"(?<![^\W_]){w}(?![^\W_])" for own in words for w in own]
    return re.sub(rf"(?is)\S*?({'|'.join(patterns)}).*", "***", text) if patterns else text
