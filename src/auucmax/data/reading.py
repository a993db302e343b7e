"""Tables from files, folders and databases, as pandas frames; every failure is one clear line.

DuckDB reads CSV, Parquet, JSON and its own databases, Arrow its own files, psycopg PostgreSQL.
They are imported when used. Nothing is written: databases are opened to read only.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from glob import glob
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pandas as pd

from auucmax._optional import import_optional
from auucmax._validation import listed

__all__ = ["TableError", "read_table", "unknown_columns_message"]

#: Texts of a CSV file that stand for a missing value.
MISSING_TEXTS = ("", "NA", "N/A", "NaN", "nan", "NULL", "null")

_KINDS = {
    ".csv": "csv", ".tsv": "csv", ".txt": "csv",
    ".parquet": "parquet", ".pq": "parquet",
    ".jsonl": "json", ".ndjson": "json", ".json": "json",
    ".arrow": "arrow", ".feather": "arrow", ".ipc": "arrow",
    ".xlsx": "excel", ".xls": "excel", ".ods": "excel",
    ".duckdb": "database", ".db": "database", ".ddb": "database",
}  # fmt: skip
_PACKED = (".gz", ".zst")
_MAGIC = {b"PAR1": "parquet", b"ARROW1": "arrow", b"SQLite format 3": "sqlite"}
_SELECT = re.compile(r"\s*(select|with|from|table|values)\s", re.IGNORECASE)
_AS_TEXT = ("UUID", "TIME", "TIME WITH TIME ZONE", "INTERVAL", "BIT")
_CONNECT_SECONDS = 15


class TableError(ValueError):
    """A table could not be read: what was expected, what came, what to do, in one line."""


def read_table(
    source: str | Path, *, query: str | None = None, columns: Sequence[str] | None = None
) -> pd.DataFrame:
    """The rows of a file, of a folder of files, or of a database query.

    Parameters
    ----------
    source : a CSV (comma, tab or whatever it shows itself to be; UTF-8, with a header), Parquet,
        JSON-lines, Arrow, Feather or Excel file; a pattern such as ``"rows/*.parquet"``, or a
        folder with files of one kind, read in the order of their names; a DuckDB database
        (``.duckdb``, ``.db``); or a URL ``postgresql://user@host/database``.
    query : of a database: a SELECT, or the name of a table.
    columns : only these.

    Returns
    -------
    frame : numbers, texts, booleans and dates, with missing values where the table has none. In
        CSV files an empty field, NA, N/A, NaN and NULL are missing.

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = Path(folder.name) / "rows.csv"
    >>> _ = path.write_text("age,town\\n30,Oslo\\n41,\\n")
    >>> read_table(path)
       age  town
    0   30  Oslo
    1   41   NaN
    >>> read_table(path, columns=["agee"])
    Traceback (most recent call last):
    auucmax.data.reading.TableError: rows.csv should have the column 'agee', got 'age', 'town'.
    Did you mean 'age'?
    >>> folder.cleanup()
    """
    address = str(source)
    if address.startswith(("postgresql://", "postgres://")):
        name, rows = _address_name(address), _read_postgres(address, query)
    else:
        files, kind, name = _files(address)
        if kind == "database":
            return _finish(_read_database(files[0], query, columns, name), name)
        if query is not None:
            raise TableError(
                f"query should come with a database, got one with the file {name}. Leave it out."
            )
        reader = _READERS.get(kind, _read_by_duckdb)
        rows = reader(files, kind, columns, name)
    return _finish(_only(rows, columns, name), name)


def unknown_columns_message(table: str, unknown: Sequence[str], names: Sequence[str]) -> str:
    """What to say of columns that are not there, with names that look like theirs.

    >>> unknown_columns_message("the table", ["agee"], ["age", "town"])
    "the table should have the column 'agee', got 'age', 'town'. Did you mean 'age'?"
    """
    near = {found: None for name in unknown for found in get_close_matches(name, names, 2, 0.6)}
    for name in unknown:  # difflib tells capitals apart
        near.update({n: None for n in names if n.strip().lower() == name.strip().lower()})
    advice = "Check the names of the columns."
    if near:
        advice = f"Did you mean {' or '.join(map(repr, near))}?"
    plural = "s" if len(unknown) > 1 else ""
    return (
        f"{table} should have the column{plural} {listed(unknown)}, got {listed(names)}. {advice}"
    )


def _files(address: str) -> tuple[list[str], str, str]:
    """Files to read, their kind, and the name of the whole for messages."""
    path = Path(address).expanduser()
    name = path.name or address
    try:
        is_folder, exists = path.is_dir(), path.exists()
        found = [] if exists else sorted(glob(str(path), recursive=True))
    except (OSError, ValueError):  # a name that no file can have
        is_folder, exists, found = False, False, []
    if is_folder:
        found = sorted(str(p) for p in path.rglob("*") if _suffix(p) in _KINDS and p.is_file())
        if not found:
            raise TableError(
                f"{name} should be a folder with CSV or Parquet files, got one without. "
                f"Check the path."
            )
    elif exists:
        found = [str(path)]
    elif not found:
        raise TableError(
            f"{name} should be a file, a folder or a pattern that matches files, got nothing at "
            f"{address!r}. Check the path."
        )
    kinds = sorted({_kind(Path(file)) for file in found})
    if len(kinds) > 1 or (len(found) > 1 and kinds[0] in ("database", "excel")):
        raise TableError(
            f"{name} should stand for CSV files only, or Parquet files only, got {len(found)} "
            f"files ({', '.join(kinds)}). Name the ones to read, for example 'rows/*.parquet'."
        )
    return found, kinds[0], name


def _suffix(path: Path) -> str:
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] in _PACKED:
        suffixes.pop()
    return suffixes[-1] if suffixes else ""


def _kind(path: Path) -> str:
    """By the name of the file; by its first bytes where the name says nothing, or lies."""
    try:
        with path.open("rb") as file:
            start = file.read(16)
    except OSError as error:
        raise TableError(
            f"{path.name} should be a file that can be read, got: {error.strerror or error}. "
            f"Check its permissions."
        ) from error
    if not start:
        raise TableError(f"{path.name} should hold a table, got an empty file. Write it again.")
    by_bytes = next((kind for magic, kind in _MAGIC.items() if start.startswith(magic)), None)
    by_name = _KINDS.get(_suffix(path))
    if by_bytes == "sqlite":
        raise TableError(
            f"{path.name} should be a DuckDB database, got one of SQLite. Export the table to a "
            f"CSV or Parquet file."
        )
    return (by_name if by_name == "arrow" else by_bytes or by_name) or "csv"


@contextmanager
def _one_line(name: str, expected: str, advice: str) -> Iterator[None]:
    """Whatever a parser raises, in one line."""
    try:
        yield
    except (TableError, ImportError):
        raise
    except Exception as error:  # damaged files make parsers raise whatever they like
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        reason = (lines[0] if lines else type(error).__name__)[:200].rstrip(". ")
        if "nicode" in reason or "utf-8" in reason.lower() or "utf-8" in str(error).lower():
            expected, advice = "UTF-8 text", "Save the file as UTF-8."
        raise TableError(f"{name} should be {expected}, got: {reason}. {advice}") from error


def _connect(database: str = ":memory:", **options: Any) -> Any:
    duckdb = import_optional("duckdb", extra="tables")
    # Reading a table is no reason to fetch software.
    config = {"autoinstall_known_extensions": "false", "autoload_known_extensions": "false"}
    return duckdb.connect(database, config=config, **options)


def _read_by_duckdb(
    files: list[str], kind: str, columns: Sequence[str] | None, name: str
) -> pd.DataFrame:
    with _one_line(name, _WORDS[kind], "Check that it is whole, and a table."), _connect() as db:
        return _frame(db.sql(_scan(files, kind)), columns, name)


_WORDS = {"csv": "a CSV file", "parquet": "a Parquet file", "json": "a file of JSON lines"}


def _scan(files: list[str], kind: str) -> str:
    """SQL that reads the files."""
    # DuckDB takes a name for a pattern, and these are names.
    options = [f"[{', '.join(_literal(_exact(file)) for file in files)}]"]
    if len(files) > 1:
        options.append("union_by_name = true")
    if kind != "parquet":
        # Types come from all rows: if the first have whole numbers, others would be rounded.
        options.append("sample_size = -1")
    if kind == "csv":
        texts = ", ".join(map(_literal, MISSING_TEXTS))
        options += ["header = true", f"nullstr = [{texts}]"]
    return f"FROM read_{kind}({', '.join(options)})"


def _exact(file: str) -> str:
    return re.sub(r"[\[*?]", lambda found: f"[{found[0]}]", file)


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _frame(relation: Any, columns: Sequence[str] | None, name: str) -> pd.DataFrame:
    """The rows of a DuckDB relation, only the columns asked for."""
    types = dict(zip(relation.columns, map(str, relation.types), strict=True))
    chosen = list(types) if columns is None else list(columns)
    _check_columns(chosen, list(types), name)
    parts = [
        f"CAST({_quoted(c)} AS VARCHAR) AS {_quoted(c)}" if types[c] in _AS_TEXT else _quoted(c)
        for c in chosen
    ]
    return relation.project(", ".join(parts)).df()


def _read_database(
    file: str, query: str | None, columns: Sequence[str] | None, name: str
) -> pd.DataFrame:
    advice = "Check the file and the query."
    with (
        _one_line(name, "a DuckDB database and the query one of it", advice),
        _connect(file, read_only=True) as db,
    ):
        tables = [row[0] for row in db.execute(_TABLES).fetchall()]
        sql = _query(query, tables, name, _quoted)
        statements = db.extract_statements(sql)
        if len(statements) != 1 or not str(statements[0].type).endswith("SELECT"):
            raise TableError(
                f"query should be one SELECT, got {sql[:80]!r}. Other statements are not run."
            )
        return _frame(db.sql(sql), columns, name)


_TABLES = """
    SELECT table_name FROM duckdb_tables()
    UNION ALL SELECT view_name FROM duckdb_views() WHERE NOT internal ORDER BY 1
"""


def _query(
    query: str | None, tables: Sequence[str], name: str, quoted: Callable[[str], str]
) -> str:
    """SQL of a query, or of the name of a table."""
    has = f"It has {listed(tables)}." if tables else "It has no tables."
    if query is None or not query.strip():
        raise TableError(
            f"{name} is a database and should come with a query, got none. Pass a SELECT or the "
            f"name of a table. {has}"
        )
    if query in tables:
        return f"SELECT * FROM {quoted(query)}"
    if _SELECT.match(query):
        return query.strip().rstrip(";")
    near = get_close_matches(query, tables, 1)
    advice = f"Did you mean {near[0]!r}?" if near else has
    raise TableError(
        f"query should be a SELECT or the name of a table of {name}, got {query[:80]!r}. {advice}"
    )


def _read_postgres(url: str, query: str | None) -> pd.DataFrame:
    psycopg = import_optional("psycopg", extra="postgres")
    numeric, string = (
        import_optional(f"psycopg.types.{module}", extra="postgres")
        for module in ("numeric", "string")
    )
    name = _address_name(url)
    advice = "Check the address, the rights and the query."
    with (
        _one_line(name, "a PostgreSQL database that answers the query", advice),
        psycopg.connect(url, connect_timeout=_CONNECT_SECONDS) as connection,
    ):
        connection.read_only = True
        connection.adapters.register_loader("numeric", numeric.FloatLoader)
        for kind in ("uuid", "time", "timetz"):
            connection.adapters.register_loader(kind, string.TextLoader)
        tables = connection.execute(
            "SELECT schemaname, relname FROM (SELECT schemaname, tablename AS relname FROM "
            "pg_tables UNION ALL SELECT schemaname, viewname FROM pg_views) t WHERE schemaname "
            "NOT IN ('pg_catalog', 'information_schema') ORDER BY 1, 2"
        ).fetchall()
        names = [table if schema == "public" else f"{schema}.{table}" for schema, table in tables]
        sql = _query(query, names, name, lambda table: ".".join(map(_quoted, table.split("."))))
        cursor = connection.execute(sql.encode())
        titles = [column.name for column in cursor.description or ()]
        return pd.DataFrame.from_records(cursor.fetchall(), columns=titles, coerce_float=True)


def _address_name(url: str) -> str:
    """Host and database, never the password."""
    try:
        parts = urlsplit(url)
        return f"{parts.hostname or 'localhost'}{parts.path}"
    except ValueError as error:
        raise TableError(
            "source should be an address postgresql://user@host/database, got one that cannot be "
            "parsed. Check it."
        ) from error


def _read_arrow(
    files: list[str], kind: str, columns: Sequence[str] | None, name: str
) -> pd.DataFrame:
    arrow = import_optional("pyarrow", extra="tables")
    feather = import_optional("pyarrow.feather", extra="tables")
    ipc = import_optional("pyarrow.ipc", extra="tables")
    parts = []
    advice = "Check that it is whole."
    for file in files:
        with _one_line(Path(file).name, "an Arrow or Feather file", advice):
            content = Path(file).read_bytes()
            if content.startswith((b"ARROW1", b"FEA1")):
                table = feather.read_table(arrow.BufferReader(content))
            else:
                table = ipc.open_stream(arrow.BufferReader(content)).read_all()
            table.validate(full=True)  # before anything follows an offset of a damaged file
            _check_columns(columns or (), table.column_names, name)
            parts.append((table if columns is None else table.select(columns)).to_pandas())
    return pd.concat(parts, ignore_index=True)


def _read_excel(
    files: list[str], kind: str, columns: Sequence[str] | None, name: str
) -> pd.DataFrame:
    try:
        with _one_line(name, "an Excel file", "Export the sheet as CSV."):
            return pd.read_excel(files[0])
    except ImportError as error:
        raise TableError(
            f"{name} should be a file that can be read here, got a spreadsheet and no library for "
            f"it ({error.name or 'openpyxl'}). Install it, or export the sheet as CSV."
        ) from error


_READERS = {"arrow": _read_arrow, "excel": _read_excel}


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _check_columns(wanted: Sequence[str], names: Sequence[str], table: str) -> None:
    if unknown := [name for name in wanted if name not in names]:
        raise TableError(unknown_columns_message(table, unknown, names))


def _only(rows: pd.DataFrame, columns: Sequence[str] | None, name: str) -> pd.DataFrame:
    if columns is None:
        return rows
    _check_columns(columns, [str(c) for c in rows.columns], name)
    return rows[list(columns)]


def _finish(frame: pd.DataFrame, name: str) -> pd.DataFrame:
    """Objects as the kinds that they are, and at least one row."""
    if not len(frame):
        raise TableError(f"{name} should have rows, got a table without. Check how it was written.")
    for place, column in enumerate(frame.columns):
        values = frame.iloc[:, place]
        if values.dtype == object:
            kind = pd.api.types.infer_dtype(values, skipna=True)
            if kind == "boolean":
                values = values.astype("boolean")
            elif kind in ("date", "datetime"):
                moments = pd.to_datetime(values, errors="coerce", utc=True)
                values = moments if _has_zone(values) else moments.dt.tz_localize(None)
            elif kind == "decimal":
                values = values.astype("float64")
            else:
                continue
            frame = frame.assign(**{str(column): values})
    return frame


def _has_zone(values: pd.Series) -> bool:
    return getattr(values[values.notna()].iloc[0], "tzinfo", None) is not None
