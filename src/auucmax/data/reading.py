"""Tables from files, folders and databases, as pandas frames; every failure is one clear line.

DuckDB reads CSV, Parquet, JSON and its own databases, Arrow its own files, psycopg PostgreSQL.
They are imported when used. Nothing is written: databases are opened to read only.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from glob import glob
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit

import pandas as pd

from auucmax._optional import import_optional
from auucmax._validation import listed

__all__ = ["TableError", "outcome_numbers", "read_table", "unknown_columns_message"]

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
_ZONE_TYPE = "TIMESTAMP WITH TIME ZONE"
_WHOLE = re.compile(r"U?HUGEINT|UBIGINT|DECIMAL\(\d+,0\)")
_EXACT_FLOATS = 2**53
#: A comma is last: of a file with decimal commas, both could be.
_DELIMITERS = "\t;|,"
_SAMPLE_BYTES = 1 << 18
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
        CSV files an empty field, NA, N/A, NaN and NULL are missing, and a column has one type, by
        all rows of all files: numbers if all are plain ones (``00123``, ``1,234`` and ``+47`` are
        texts), dates if all are ISO ones (``2024-01-31``, with or without a time of the day), texts
        otherwise, also for yes and no, or true and false. Whole numbers keep all their digits: as
        texts where 64 bits are too few.

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
        if found := _CSV_LINE.search(str(error)):
            raise TableError(_line_message(name, str(error), int(found[1]))) from error
        if "CSV Parser state machine" in reason:
            expected = "a CSV file with lines that all end in the same way"
        if _NOT_UTF_8.search(str(error)):
            expected, advice = "UTF-8 text", "Save the file as UTF-8."
        raise TableError(f"{name} should be {expected}, got: {reason}. {advice}") from error


# Its other messages list settings, an encoding among them: the word alone tells nothing.
_NOT_UTF_8 = re.compile(r"invalid unicode|not utf-8|invalid utf-8|codec can't decode", re.I)
_UTF_8 = "{} should be UTF-8 text, got other bytes in line {}. Save the file as UTF-8."
_CSV_LINE = re.compile(r"CSV Error on Line: (\d+)")
_N_FIELDS = re.compile(r"^Expected Number of Columns: (\d+) Found: (\d+)", re.M)


def _line_message(name: str, text: str, line: int) -> str:
    """What is wrong with a line of a CSV file."""
    if file := re.search(r"^\s*file = (.+)$", text, re.M):
        name = Path(file[1].strip()).name
    if fields := _N_FIELDS.search(text):
        return (
            f"{name} should have as many fields in every line as names in its header "
            f"({fields[1]}), got {fields[2]} in line {line}. Mend the line, or write the file "
            f"again (in R with row.names = FALSE)."
        )
    if _NOT_UTF_8.search(text):
        return _UTF_8.format(name, line)
    if "unterminated quote" in text:
        return (
            f"{name} should close every quoted field, got one that is open or goes on after its "
            f"end in line {line}. Mend the line, or write the file again."
        )
    return f"{name} should be a CSV file, got a line that is none: {line}. Mend the line."


def _connect(database: str = ":memory:", **options: Any) -> Any:
    duckdb = import_optional("duckdb", extra="tables")
    # Reading a table is no reason to fetch software.
    config = {"autoinstall_known_extensions": "false", "autoload_known_extensions": "false"}
    return duckdb.connect(database, config=config, **options)


def _read_by_duckdb(
    files: list[str], kind: str, columns: Sequence[str] | None, name: str
) -> pd.DataFrame:
    with _one_line(name, _WORDS[kind], "Check that it is whole, and a table."), _connect() as db:
        if kind == "csv":
            relation = db.sql(" UNION ALL BY NAME ".join(map(_scan_csv, files)))
            return _frame(relation, columns, name, dict.fromkeys(relation.columns, _ANY))
        if kind == "json":
            return _frame(*_json_texts(db, files, columns, name))
        relation = db.sql(_scan(files, kind))
        schema = f"SELECT name FROM parquet_schema({_list_of(files)})"
        _check_kept(relation.columns, [row[0] for row in db.sql(schema).fetchall()], name)
        return _frame(relation, columns, name)


_WORDS = {"csv": "a CSV file", "parquet": "a Parquet file", "json": "a file of JSON lines"}


def _scan(files: list[str], kind: str, *more: str) -> str:
    """SQL that reads Parquet or JSON files."""
    # DuckDB takes a name for a pattern, and these are names; so it does with folders: a=1 is one.
    options = [_list_of(files), *more, "hive_partitioning = false"]
    if len(files) > 1:
        options.append("union_by_name = true")
    return f"FROM read_{kind}({', '.join(options)})"


def _json_texts(
    db: Any, files: list[str], columns: Sequence[str] | None, name: str
) -> tuple[Any, Sequence[str] | None, str, dict[str, int]]:
    """What `_frame` takes: texts and numbers as they are written, for it to find their types."""
    # Types come from all rows: if the first have whole numbers, others would be rounded.
    found = db.sql(_scan(files, "json", "sample_size = -1"))
    types = dict(zip(found.columns, map(str, found.types), strict=True))
    sql = f"SELECT DISTINCT unnest(json_keys(json)) FROM read_json_objects({_list_of(files)})"
    if keys := [row[0] for row in db.sql(sql).fetchall()]:
        _check_kept(found.columns, keys, name)
    kinds = {c: _JSON_KINDS[t] for c, t in types.items() if t in _JSON_KINDS}
    fields = ", ".join(
        f"{_literal(c)}: {_literal('VARCHAR' if c in kinds else t)}" for c, t in types.items()
    )
    return db.sql(_scan(files, "json", f"columns = {{{fields}}}")), columns, name, kinds


def _scan_csv(file: str) -> str:
    """SQL that reads all columns of a CSV file as texts; nothing of its form is guessed by DuckDB.

    It would drop lines that do not suit its guess: comments, titles, short headers.
    """
    delimiter, escape, n_blank, names = _csv_form(file)
    fields = ", ".join(f"{_literal(column)}: 'VARCHAR'" for column in names)
    return (
        f"FROM read_csv({_literal(_exact(file))}, auto_detect = false, header = true, "
        f"skip = {n_blank}, comment = '', hive_partitioning = false, quote = '\"', "
        f"delim = {_literal(delimiter)}, escape = {_literal(escape)}, "
        f"nullstr = [{', '.join(map(_literal, MISSING_TEXTS))}], "
        f"columns = {{{fields}}})"
    )


def _csv_form(file: str) -> tuple[str, str, int, list[str]]:
    """Delimiter, escape, blank lines before the header, and header of a CSV file."""
    text, name = _start(file), Path(file).name
    blank = text[: len(text) - len(text.lstrip("\r\n"))]
    header = text[len(blank) :].split("\n")[0]
    escape = "\\" if re.search(r"""\\"[^,;\t|\r\n"]""", text) else '"'

    def parsed(delimiter: str) -> list[list[str]]:
        form: dict[str, Any] = {"delimiter": delimiter, "doublequote": escape == '"'}
        reader = csv.reader(io.StringIO(text, newline=""), **form, escapechar=_ESCAPES[escape])
        rows: list[list[str]] = []
        with suppress(csv.Error):  # a field without an end: DuckDB tells the line
            rows.extend(row for _, row in zip(range(100), reader, strict=False) if row)
        return rows

    tables = {delimiter: parsed(delimiter) for delimiter in _DELIMITERS if delimiter in header}
    # The one that gives the most lines as many fields as names; of equals, the most names.
    best = max(tables, default=",", key=lambda d: _agreement(tables[d]))
    rows = tables.get(best) or parsed(best)
    names = [column.strip() for column in rows[0]] if rows else []
    if "\ufffd" in "".join(names):
        raise TableError(_UTF_8.format(name, 1))
    _check_header(names, rows[1:], name)
    return best, escape, len(blank.splitlines()), names


_ESCAPES = {'"': None, "\\": "\\"}


def _agreement(rows: list[list[str]]) -> tuple[bool, int, int]:
    width = len(rows[0]) if rows else 0
    return width > 1, sum(len(row) == width for row in rows), width


def _start(file: str) -> str:
    """The first lines of a file, packed or not."""
    with Path(file).open("rb") as plain:
        magic = plain.read(4)
    if magic[:2] == b"\x1f\x8b":
        with gzip.open(file) as packed:
            content = packed.read(_SAMPLE_BYTES)
    elif magic == b"\x28\xb5\x2f\xfd":
        arrow = import_optional("pyarrow", extra="tables")
        with arrow.input_stream(file, compression="zstd") as packed:
            content = packed.read(_SAMPLE_BYTES)
    else:
        with Path(file).open("rb") as plain:
            content = plain.read(_SAMPLE_BYTES)
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise TableError(_UTF_8.format(Path(file).name, 1))
    decoder = codecs.getincrementaldecoder("utf-8-sig")(errors="replace")
    return decoder.decode(content)


def _check_header(names: list[str], rows: list[list[str]], table: str) -> None:
    if not names:
        raise TableError(f"{table} should hold a table, got blank lines. Write it again.")
    if unnamed := [place for place, column in enumerate(names, 1) if not column]:
        raise TableError(
            f"{table} should have a name for every column in its first line, got none for column "
            f"{unnamed[0]}. Write one, or leave the column out (row numbers: index=False in "
            f"pandas, row.names = FALSE in R)."
        )
    _check_different(names, table)
    counts = [{d: row[0].count(d) for d in f"{_DELIMITERS} "} for row in rows if row]
    if len(names) == 1 and (inside := [d for d in _DELIMITERS if d in names[0]]):
        delimiter = inside[0]
    elif len(names) == 1 and counts:
        # All lines have as many of them: the first is a title, or a header of another form.
        same = [d for d in counts[0] if counts[0][d] and len({c[d] for c in counts}) == 1]
        delimiter = next((d for d in same if d != " " or " " in names[0]), "")
    else:
        return
    if delimiter:
        raise TableError(
            f"{table} should have a header with the names of its columns in the first line, got "
            f"{names[0][:80]!r} and {delimiter!r} within its fields. Write the names there, with a "
            f"comma between, and fields with a delimiter in quotes."
        )


def _check_kept(columns: Sequence[str], names: Sequence[str], table: str) -> None:
    """DuckDB does not tell capitals apart, and renames the second of two columns."""
    if set(columns) - set(names):
        _check_different(sorted(set(names)), table)


def _check_different(names: Sequence[str], table: str) -> None:
    times = Counter(column.casefold() for column in names)
    if repeated := [column for column in names if times[column.casefold()] > 1]:
        raise TableError(
            f"{table} should have columns with different names, capitals aside, got "
            f"{listed(repeated)}. Rename them."
        )


def _list_of(files: list[str]) -> str:
    return f"[{', '.join(_literal(_exact(file)) for file in files)}]"


def _exact(file: str) -> str:
    return re.sub(r"[\[*?]", lambda found: f"[{found[0]}]", file)


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


# Kinds of texts, as bits: those of a column add up.
_INTEGER, _LONG, _NUMBER, _DATE, _MOMENT, _ZONED, _OTHER = (1 << bit for bit in range(7))
_NUMBERS, _DATES = _INTEGER | _LONG | _NUMBER, _DATE | _MOMENT | _ZONED
_ANY = _NUMBERS | _DATES
#: Types of JSON fields that are read as texts, and what these may turn out to be.
_JSON_KINDS = {
    "DOUBLE": _NUMBERS, "HUGEINT": _NUMBERS, "UBIGINT": _NUMBERS,
    "VARCHAR": _DATES, "DATE": _DATES, "TIMESTAMP": _DATES, _ZONE_TYPE: _DATES,
    "TIMESTAMP_NS": _DATES, "TIME": 0, "UUID": 0, "JSON": 0,
}  # fmt: skip
_DAY, _CLOCK = r"\d{4}-\d{2}-\d{2}", r"[ T]\d{2}:\d{2}(:\d{2}(\.\d+)?)?"
_KIND_OF_TEXT = rf"""CASE
    WHEN regexp_full_match(value, ' *-?(0|[1-9]\d*) *')
        THEN CASE WHEN TRY_CAST(value AS BIGINT) IS NULL THEN {_LONG} ELSE {_INTEGER} END
    WHEN regexp_full_match(value, ' *-?((0|[1-9]\d*)(\.\d*)?|\.\d+)([eE][+-]?\d+)? *')
        THEN CASE WHEN isfinite(TRY_CAST(value AS DOUBLE)) THEN {_NUMBER} ELSE {_OTHER} END
    WHEN NOT regexp_matches(value, '^{_DAY}') THEN {_OTHER}
    WHEN regexp_full_match(value, '{_DAY}')
        THEN CASE WHEN TRY_CAST(value AS DATE) IS NULL THEN {_OTHER} ELSE {_DATE} END
    WHEN regexp_full_match(value, '{_DAY}{_CLOCK}')
        THEN CASE WHEN TRY_CAST(value AS TIMESTAMP) IS NULL THEN {_OTHER} ELSE {_MOMENT} END
    WHEN regexp_full_match(value, '{_DAY}{_CLOCK} ?(Z|[+-]\d{{2}}(:?\d{{2}})?)')
        THEN CASE WHEN TRY_CAST(value AS TIMESTAMPTZ) IS NULL THEN {_OTHER} ELSE {_ZONED} END
    ELSE {_OTHER} END"""
# One expression for all cells, without the missing ones: one a column takes long to prepare.
_KINDS_OF_COLUMNS = f"""
    SELECT name, bit_or({_KIND_OF_TEXT})
    FROM (UNPIVOT cells ON COLUMNS(*) INTO NAME name VALUE value) GROUP BY name
"""


def _type_of_texts(kinds: int, allowed: int) -> str:
    """The type of a column of texts, by the kinds that are among them."""
    if not kinds or kinds & ~allowed or (kinds & _LONG and not kinds & _NUMBER):
        return "VARCHAR"
    for type_, subset in (
        ("BIGINT", _INTEGER),
        ("DOUBLE", _NUMBERS),
        ("DATE", _DATE),
        ("TIMESTAMP", _DATE | _MOMENT),
        (_ZONE_TYPE, _ZONED),
    ):
        if not kinds & ~subset:
            return type_
    return "VARCHAR"


def _frame(
    relation: Any,
    columns: Sequence[str] | None,
    name: str,
    texts: Mapping[str, int] = MappingProxyType({}),
) -> pd.DataFrame:
    """The rows of a DuckDB relation, only the columns asked for; ``texts`` have yet no type."""
    types = dict(zip(relation.columns, map(str, relation.types), strict=True))
    chosen = list(types) if columns is None else list(columns)
    _check_columns(chosen, list(types), name)
    if untyped := [c for c in chosen if c in texts]:
        cells = relation.project(", ".join(map(_quoted, untyped)))
        kinds = dict(cells.query("cells", _KINDS_OF_COLUMNS).fetchall())
        types |= {c: _type_of_texts(kinds.get(c, 0), texts[c]) for c in untyped}
    whole = [c for c in chosen if _WHOLE.fullmatch(types[c])]
    zoned = [c for c in chosen if types[c] == _ZONE_TYPE]
    parts = [f"{_converted(_quoted(c), types[c])} AS {_quoted(c)}" for c in chosen]
    parts += [f"CAST({_quoted(c)} AS VARCHAR) AS {_quoted(_digits(c))}" for c in whole]
    frame = relation.project(", ".join(parts)).df()
    for column in whole:
        digits = frame.pop(_digits(column))
        if (frame[column].isna() & digits.notna()).any():
            frame[column] = digits
    for column in zoned:
        frame[column] = frame[column].dt.tz_localize("UTC")
    return frame


def _converted(column: str, type_: str) -> str:
    """SQL of a column as pandas takes it."""
    if _WHOLE.fullmatch(type_):
        return f"TRY_CAST({column} AS BIGINT)"
    if type_ == _ZONE_TYPE:  # in UTC, whatever the zone of the machine
        return f"make_timestamp(epoch_us(CAST({column} AS {type_})))"
    return f"CAST({column} AS {'VARCHAR' if type_ in _AS_TEXT else type_})"


def _digits(column: str) -> str:
    return f"{column}\x1fdigits"


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
    string = import_optional("psycopg.types.string", extra="postgres")
    name = _address_name(url)
    advice = "Check the address, the rights and the query."
    with (
        _one_line(name, "a PostgreSQL database that answers the query", advice),
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
        sql = _query(query, names, name, lambda table: ".".join(map(_quoted, table.split("."))))
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
            chosen = table if columns is None else table.select(columns)
            # Floats, the other way to have missing values, round long numbers.
            parts.append(chosen.to_pandas(integer_object_nulls=True))
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
            elif kind in ("decimal", "integer"):
                values = _exact_numbers(values)
            else:
                continue
            frame = frame.assign(**{str(column): values})
    return frame


def _has_zone(values: pd.Series) -> bool:
    return getattr(values[values.notna()].iloc[0], "tzinfo", None) is not None


def _exact_numbers(values: pd.Series) -> pd.Series:
    """Numbers of objects: whole ones that a float would round keep their digits."""
    floats, known = values.astype("float64"), values[values.notna()]
    if not (floats.abs() > _EXACT_FLOATS).any() or (floats.abs() == float("inf")).any():
        return floats
    if (known % 1 != 0).any():
        return floats
    whole = known.map(int).astype(object)
    if whole.min() < -(2**63) or whole.max() >= 2**63:
        return whole.map(str).astype("str").reindex(values.index)
    return whole.astype("int64" if len(known) == len(values) else "Int64").reindex(values.index)


#: What an outcome in words may be, the word for 1 first.
_ANSWERS = (("yes", "no"), ("y", "n"), ("true", "false"), ("t", "f"))


def outcome_numbers(column: pd.Series) -> pd.Series:
    """An outcome as numbers: yes or no, y or n, true or false, t or f (any case) are 1 or 0.

    Numbers and booleans, and texts that are numbers, stay as they are; so do missing values. Other
    texts, and words of two pairs, are errors.

    >>> outcome_numbers(pd.Series(["Yes", "no", None], name="buys")).tolist()
    [1.0, 0.0, nan]
    >>> outcome_numbers(pd.Series(["yes", "maybe"], name="buys"))
    Traceback (most recent call last):
    ValueError: the outcome 'buys' should hold numbers, or yes and no, got 'maybe', 'yes'.
    Convert the column to numbers first.
    """
    if pd.api.types.is_numeric_dtype(column.dtype):  # booleans are
        return column
    codes, levels = pd.factorize(column.astype(object))
    words = [str(level).strip().casefold() for level in levels]
    for one, zero in _ANSWERS:
        if words and set(words) <= {one, zero}:
            numbers = pd.Series([float(word == one) for word in words] + [float("nan")])
            return pd.Series(numbers.to_numpy()[codes], index=column.index, name=column.name)
    try:
        pd.to_numeric(pd.Series(levels))
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"the outcome {column.name!r} should hold numbers, or yes and no, got "
            f"{listed(sorted(map(str, levels)))}. Convert the column to numbers first."
        ) from error
    return column
