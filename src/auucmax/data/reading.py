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
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pandas as pd

from auucmax._files import DATABASES, check_source, files_at
from auucmax.data.databases import (
    Reading,
    address_name,
    connect,
    exact_name,
    list_of,
    literal,
    read_duckdb,
    read_postgres,
)
from auucmax.data.table_errors import (
    NOT_UTF_8_MESSAGE,
    TableError,
    check_columns,
    check_different,
    one_line,
)
from auucmax.encoding.kinds import ANY_KIND, JSON_KINDS
from auucmax.encoding.texts import MISSING_TEXTS

_KINDS = {
    ".csv": "csv", ".tsv": "csv", ".txt": "csv",
    ".parquet": "parquet", ".pq": "parquet",
    ".jsonl": "json", ".ndjson": "json", ".json": "json",
    ".arrow": "arrow", ".feather": "arrow", ".ipc": "arrow",
    ".xlsx": "excel", ".xls": "excel", ".ods": "excel",
    ".duckdb": "database", ".db": "database", ".ddb": "database",
}  # fmt: skip
_PACKED = (".gz", ".zst")
_EXCEL = {".xlsx": "openpyxl", ".xls": "xlrd", ".ods": "odfpy"}
_MAGIC = {b"PAR1": "parquet", b"ARROW1": "arrow", b"SQLite format 3": "sqlite"}
WORDS = {"csv": "a CSV file", "parquet": "a Parquet file", "json": "a file of JSON lines"}
ADVICE = "Check that it is whole, and a table."
_EXACT_FLOATS = 2**53
# A comma is last: of a file with decimal commas, both could be.
_DELIMITERS = "\t;|,"
_ESCAPES = {'"': None, "\\": "\\"}
_SAMPLE_BYTES = 1 << 18


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
    auucmax.data.table_errors.TableError: rows.csv should have the column 'agee', got 'age', 'town'.
    Did you mean 'age'?
    >>> folder.cleanup()
    """
    address = str(source)
    if address.startswith(DATABASES):
        name, rows = address_name(address), read_postgres(address, query)
    else:
        files, kind, name = locate_files(address)
        if kind == "database":
            return _finish(read_duckdb(files[0], query, columns, name), name)
        check_no_query(query, name)
        reader = _READERS.get(kind, _read_by_duckdb)
        rows = reader(files, kind, columns, name)
    return _finish(_only(rows, columns, name), name)


def check_no_query(query: str | None, name: str) -> None:
    """TableError if there is a query: files take none."""
    if query is not None:
        raise TableError(
            f"query should come with a database, got one with the file {name}. Leave it out."
        )


def locate_files(address: str) -> tuple[list[str], str, str]:
    """Files to read, their kind, and the name of the whole for messages."""
    check_source(address, TableError)
    path = Path(address).expanduser()
    name, found = path.name or address, files_at(address)
    if found == [str(path)] and path.is_dir():
        found = sorted(str(p) for p in path.rglob("*") if _suffix(p) in _KINDS and p.is_file())
        if not found:
            raise TableError(
                f"{name} should be a folder with CSV or Parquet files, got one without. "
                f"Check the path."
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


def _read_by_duckdb(
    files: list[str], kind: str, columns: Sequence[str] | None, name: str
) -> pd.DataFrame:
    with one_line(name, WORDS[kind], ADVICE), connect() as db:
        return plan_files(db, files, kind, columns, name).frame(db)


def plan_files(
    db: Any, files: list[str], kind: str, columns: Sequence[str] | None, name: str
) -> Reading:
    """How CSV, JSON or Parquet files are read; of texts, all are looked at for their types."""
    if kind == "csv":
        table = " UNION ALL BY NAME ".join(map(scan_csv, files))
        return Reading.of(db, table, columns, name, dict.fromkeys(db.sql(table).columns, ANY_KIND))
    if kind == "json":
        table, kinds = _json_texts(db, files, name)
        return Reading.of(db, table, columns, name, kinds)
    table = _scan(files, kind)
    schema = f"SELECT name FROM parquet_schema({list_of(files)})"
    names = [row[0] for row in db.sql(schema).fetchall()]
    _check_kept(db.sql(table).columns, names, name)
    return Reading.of(db, table, columns, name)


def scan_csv(file: str) -> str:
    """SQL that reads all columns of a CSV file as texts; nothing of its form is guessed by DuckDB.

    It would drop lines that do not suit its guess: comments, titles, short headers.
    """
    delimiter, escape, n_blank, names = _csv_form(file)
    fields = ", ".join(f"{literal(column)}: 'VARCHAR'" for column in names)
    return (
        f"FROM read_csv({literal(exact_name(file))}, auto_detect = false, header = true, "
        f"skip = {n_blank}, comment = '', hive_partitioning = false, quote = '\"', "
        f"delim = {literal(delimiter)}, escape = {literal(escape)}, "
        f"nullstr = [{', '.join(map(literal, MISSING_TEXTS))}], "
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
        raise TableError(NOT_UTF_8_MESSAGE.format(name, 1))
    _check_header(names, rows[1:], name)
    return best, escape, len(blank.splitlines()), names


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
        import pyarrow as pa

        with pa.input_stream(file, compression="zstd") as packed:
            content = packed.read(_SAMPLE_BYTES)
    else:
        with Path(file).open("rb") as plain:
            content = plain.read(_SAMPLE_BYTES)
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise TableError(NOT_UTF_8_MESSAGE.format(Path(file).name, 1))
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
    check_different(names, table)
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


def _scan(files: list[str], kind: str, *more: str) -> str:
    """SQL that reads Parquet or JSON files."""
    # DuckDB takes a name for a pattern, and these are names; so it does with folders: a=1 is one.
    options = [list_of(files), *more, "hive_partitioning = false"]
    if len(files) > 1:
        options.append("union_by_name = true")
    return f"FROM read_{kind}({', '.join(options)})"


def _json_texts(db: Any, files: list[str], name: str) -> tuple[str, dict[str, int]]:
    """SQL of texts and numbers as written, and what they may be: types come from all rows."""
    # If the first rows have whole numbers, others would be rounded.
    found = db.sql(_scan(files, "json", "sample_size = -1"))
    types = dict(zip(found.columns, map(str, found.types), strict=True))
    sql = f"SELECT DISTINCT unnest(json_keys(json)) FROM read_json_objects({list_of(files)})"
    if keys := [row[0] for row in db.sql(sql).fetchall()]:
        _check_kept(found.columns, keys, name)
    kinds = {c: JSON_KINDS[t] for c, t in types.items() if t in JSON_KINDS}
    fields = ", ".join(
        f"{literal(c)}: {literal('VARCHAR' if c in kinds else t)}" for c, t in types.items()
    )
    return _scan(files, "json", f"columns = {{{fields}}}"), kinds


def _check_kept(columns: Sequence[str], names: Sequence[str], table: str) -> None:
    """DuckDB does not tell capitals apart, and renames the second of two columns."""
    if set(columns) - set(names):
        check_different(sorted(set(names)), table)


def _read_arrow(
    files: list[str], kind: str, columns: Sequence[str] | None, name: str
) -> pd.DataFrame:
    import pyarrow as arrow
    from pyarrow import feather, ipc

    parts = []
    advice = "Check that it is whole."
    for file in files:
        with one_line(Path(file).name, "an Arrow or Feather file", advice):
            content = Path(file).read_bytes()
            if content.startswith(b"FEA1"):  # its reader follows offsets before they are checked
                raise TableError(
                    f"{Path(file).name} should be an Arrow or Feather file, got one of the old "
                    f"Feather 1, which cannot be read safely. Write it again, as Parquet say."
                )
            if content.startswith(b"ARROW1"):
                table = feather.read_table(arrow.BufferReader(content))
            else:
                table = ipc.open_stream(arrow.BufferReader(content)).read_all()
            table.validate(full=True)  # before anything follows an offset of a damaged file
            check_columns(columns or (), table.column_names, name)
            chosen = table if columns is None else table.select(columns)
            # Floats, the other way to have missing values, round long numbers.
            parts.append(chosen.to_pandas(integer_object_nulls=True))
    return pd.concat(parts, ignore_index=True)


def _read_excel(
    files: list[str], kind: str, columns: Sequence[str] | None, name: str
) -> pd.DataFrame:
    try:
        with one_line(name, "an Excel file", "Export the sheet as CSV."):
            return pd.read_excel(files[0])
    except ImportError as error:
        library = _EXCEL.get(Path(files[0]).suffix.lower(), "openpyxl")
        advice = 'Run: pip install "auucmax[excel]"' if library == "openpyxl" else "Install it"
        raise TableError(
            f"{name} should be a file that can be read here, got a spreadsheet and no library for "
            f"it ({library}). {advice}; or export the sheet as CSV."
        ) from error


_READERS = {"arrow": _read_arrow, "excel": _read_excel}


def _only(rows: pd.DataFrame, columns: Sequence[str] | None, name: str) -> pd.DataFrame:
    if columns is None:
        return rows
    check_columns(columns, [str(c) for c in rows.columns], name)
    return rows[list(columns)]


def _finish(frame: pd.DataFrame, name: str) -> pd.DataFrame:
    """Objects as the kinds that they are, and at least one row."""
    check_has_rows(len(frame), name)
    return as_kinds(frame)


def check_has_rows(n_rows: int, name: str) -> None:
    if not n_rows:
        raise TableError(f"{name} should have rows, got a table without. Check how it was written.")


def as_kinds(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with columns of objects as the kinds that these are."""
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
