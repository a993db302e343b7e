"""Read tables from files, folders and databases as pandas frames.

DuckDB reads CSV, Parquet, JSON and its own databases, pyarrow Arrow files, pandas Excel, Stata and
SAS files, psycopg PostgreSQL, ibis other databases. They are imported when used. All rows come by
way of DuckDB, which decides what texts are and draws a sample. Nothing is written: databases are
opened to read only.

CSV files do not show their encoding: DuckDB reads UTF-8, and a file of another encoding is copied
to a private folder, as UTF-8, for as long as it is read.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import os
import re
import shutil
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from auucmax._errors import InputError, level_of_caller
from auucmax._files import DUCKDB, WAREHOUSES, check_source, files_at, private_folder
from auucmax._optional import import_optional
from auucmax.data.databases import (
    COPY,
    connect,
    copy_rows,
    database_name,
    duckdb_select,
    is_table_expression,
    read_postgres,
    read_sql,
    register,
)
from auucmax.data.tables import (
    N_BUCKETS,
    NAME_ENCODING,
    Draw,
    NoRowsError,
    TableError,
    check_columns,
    check_different,
    exact_name,
    list_of,
    literal,
    one_line,
)
from auucmax.encoding.frames import frame_of, is_frame
from auucmax.encoding.kinds import MISSING_TEXTS

_SUFFIXES = {
    "csv": ".csv .tsv .txt",
    "parquet": ".parquet .pq",
    "json": ".jsonl .ndjson .json",
    "arrow": ".arrow .feather .ipc",
    "excel": ".xlsx .xls .ods",
    "stata": ".dta",
    "sas": ".sas7bdat .xpt",
    "database": ".duckdb .db .ddb",
}
_KINDS = {suffix: kind for kind, suffixes in _SUFFIXES.items() for suffix in suffixes.split()}
_MAGIC = {b"PAR1": "parquet", b"ARRO": "arrow"}
_ONE_FILE = ("database", "excel", "stata", "sas")  # kinds of which one file is read at a time
_QUERIED = ("database", "postgresql", "warehouse")
_POSTGRES = ("postgresql://", "postgres://")
_PACKED = (".gz", ".zst")
_QUERY = "Check the address, the rights and the query."
#: What to do with tables that cannot be read.
_ADVICE = {
    "csv": "Each line needs as many fields as the header (in R write with row.names = FALSE), "
    "closed quotes and the same line end.",
    "database": "Check the file and the query, which is one SELECT. The address of an SQLite file "
    "begins with sqlite://.",
    "postgresql": _QUERY,
    "warehouse": _QUERY,
}
_DELIMITERS = ",\t;|"
_START_BYTES = 1 << 18


def read_table(
    source: Any,
    *,
    query: str | None = None,
    columns: Sequence[str] | None = None,
    decimal: str | None = None,
    encoding: str | None = None,
    draw: Draw | None = None,
    each: Callable[[pd.DataFrame], pd.DataFrame] | None = None,
) -> pd.DataFrame:
    """The rows of a file, of a folder of files, or of a database query.

    Parameters
    ----------
    source : a CSV (the delimiter is detected; UTF-8, with a header), Parquet, JSON-lines, Arrow,
        Feather or Excel file; a pattern such as ``"rows/*.parquet"``, or a folder with files of one
        kind, read in the order of their names; a DuckDB database (``.duckdb``, ``.db``); a URL
        ``postgresql://user@host/database``, or one of BigQuery, Databricks, MySQL, Snowflake,
        SQLite or Trino, which ibis reads; or a table of ibis itself. A frame of pandas or polars,
        an Arrow table and a DuckDB relation are used unchanged.
    query : a SELECT, or the name of a table, for a database.
    columns : only these.
    decimal : "." or ",", the sign before decimals in a CSV file, where its numbers do not show it:
        with ",", ``1,234`` is less than two and ``1.234`` more than a thousand.
    encoding : encoding of a CSV file that is not UTF-8: "latin-1", "cp1252", "utf-16".
    draw : a random sample instead of all rows: see :class:`auucmax.data.tables.Draw`. Of a frame,
        which is in memory already, all rows are used unless it has ``max_rows``.
    each : if the table takes more than a quarter of the free memory, this function is applied to
        batches of its rows, and their results are the frame: see ``UpliftModel.narrow``.

    Returns
    -------
    frame : numbers, texts, booleans and dates, with missing values where the table has none. In
        CSV files an empty field, NA, N/A, NaN, NULL and \\N are missing, and a column has one type,
        by all rows of all files: numbers if all are plain ones (``00123``, ``+47`` are texts),
        dates if all are ISO ones (``2024-01-31``, with or without a time of the day), texts
        otherwise, also for yes and no, or true and false. Whole numbers keep all their digits:
        as texts where 64 bits are too few (but floats in JSON lines). Decisions about other texts
        are reported by a warning:

        * decimal commas, commas between thousands, currencies, percentages and dates such as
          ``31/1/2024`` or ``31/1/24`` are read as such if the column shows which of two meanings
          they have, or ``decimal`` does; otherwise (``1,234``, ``1/2/2024`` alone) they are texts;
        * points before three digits, as in ``1.696``, are between thousands where other columns
          have decimal commas, and none decimal points; otherwise they are decimals;
        * ``?``, ``-``, ``unknown``, ``#N/A`` and the like are missing values among numbers or
          dates, if they are fewer; other texts among these are reported;
        * texts of other formats are treated in the same way, except that up to 30 different texts
          of digits, probably codes, stay texts.

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = Path(folder.name) / "rows.csv"
    >>> _ = path.write_text("age,town\\n30,Oslo\\n,Rome\\n")
    >>> read_table(path)
        age  town
    0    30  Oslo
    1  <NA>  Rome
    >>> read_table(path, columns=["agee"])
    Traceback (most recent call last):
    auucmax.data.tables.TableError: rows.csv should be a table with the column 'agee', got \
'age', 'town'. Did you mean 'age'?
    >>> folder.cleanup()
    """
    address = str(source)
    files: list[str] = []
    if is_frame(source) and not is_table_expression(source):
        kind, name = "frame", "the table"
    elif address.startswith(_POSTGRES):
        kind, name = "postgresql", database_name(address)
    elif is_table_expression(source):
        kind, name = "ibis", "the table of ibis"
    elif address.startswith(WAREHOUSES):
        kind, name = "warehouse", database_name(address)
    else:
        files, kind, name = locate_files(address, query)
    check_form(kind, name, query, decimal, encoding)
    if kind == "frame":
        frame = frame_of(source) if columns is None else frame_of(source, columns)[list(columns)]
        by = draw.by if draw else None
        check_columns([by] if by else [], list(frame.columns), name)
        n = (
            draw.buckets(len(frame), lambda: frame, name)
            if draw and draw.max_rows is not None
            else None
        )
        if n is not None:
            keys = np.arange(len(frame)) if by is None else frame[by].astype(str).to_numpy()
            frame = frame[pd.util.hash_array(keys.astype(object)) % N_BUCKETS < n]
    else:
        with by_duckdb(files, kind, name) as db, utf8_files(files, encoding) as own:
            if kind == "postgresql":
                register(db, read_postgres(address, query, draw))
                sql, draw = "FROM given", None
            elif kind in ("ibis", "warehouse"):
                draw = copy_rows(db, source, query, name, columns, draw)
                sql = f"FROM {COPY}"
            else:
                sql = _sql_of(db, own, kind, name, query)
            frame = read_sql(
                db, sql, name, columns=columns, draw=draw, infer=bool(files) and kind != "database",
                is_csv=kind == "csv", decimal=decimal, each=each,
            )  # fmt: skip
    if not len(frame):
        raise NoRowsError(
            f"{name} should have rows, got a table without. Check how it was written."
        )
    return frame


def table_of(
    table: Any, columns: Sequence[str] | None = None, also: Sequence[str] = ()
) -> pd.DataFrame:
    """Convert any table in memory, including ibis expressions, to a pandas frame."""
    return read_table(table) if is_table_expression(table) else frame_of(table, columns, also)


def check_form(
    kind: str, name: str, query: str | None, decimal: str | None, encoding: str | None
) -> None:
    """Check the options for reading a table.

    >>> check_form("csv", "rows.csv", None, ";", None)
    Traceback (most recent call last):
    auucmax._errors.InputError: decimal should be '.' or ',', got ';'. Pass the sign before the \
decimals.
    """
    if query is not None and kind not in _QUERIED:
        raise TableError(f"query should come with a database, got one with {name}. Leave it out.")
    for option, given in (("decimal", decimal), ("encoding", encoding)):
        if given is not None and kind != "csv":
            raise InputError(
                option, "given for a CSV file", f"it with {name}, which needs none",
                "Leave it out.",
            )  # fmt: skip
    if decimal not in (None, ".", ","):
        raise InputError(
            "decimal", "'.' or ','", f"{decimal!r:.50}", "Pass the sign before the decimals."
        )


def locate_files(address: str, query: str | None = None) -> tuple[list[str], str, str]:
    """Files to read, their format, and a name for messages."""
    check_source(address, TableError)
    path = Path(address.removeprefix(DUCKDB)).expanduser()
    name, found = path.name or address, files_at(address)
    if address.startswith(DUCKDB):
        return found[:1], "database", name

    def fail(error: OSError) -> None:
        raise error  # or the rows of a folder that cannot be read would be lost

    with one_line(name, "files that can be read", "Check the permissions."):
        if path.is_dir():
            below = os.walk(path, onerror=fail, followlinks=True)
            files = [f"{place}/{file}" for place, _, names in below for file in names]
            found = sorted(filter(_kind_by_name, files))
        kinds = []
        for file in found:
            with open(file, "rb") as content:
                by_bytes = _MAGIC.get(content.read(4))
            kinds.append(by_bytes or _kind_by_name(file) or "csv")
    if len(set(kinds)) != 1 or (len(found) > 1 and kinds[0] in _ONE_FILE):
        raise TableError(
            f"{name} should stand for CSV files only, or Parquet files only, got {len(found)} "
            f"files ({', '.join(sorted(set(kinds)))}). Name the ones to read, for example "
            f"'rows/*.parquet'."
        )
    check_form(kinds[0], name, query, None, None)
    return found, kinds[0], name


def _kind_by_name(file: str) -> str | None:
    suffixes = [suffix for suffix in Path(file.lower()).suffixes if suffix not in _PACKED]
    return _KINDS.get("".join(suffixes[-1:]))


@contextmanager
def by_duckdb(files: Sequence[str], kind: str, name: str) -> Iterator[Any]:
    """Open DuckDB for files or a database; errors become one line."""
    database = files[0] if kind == "database" else ":memory:"
    advice = _ADVICE.get(kind, "Check that it is whole, and a table.")
    with one_line(name, f"readable as {kind}", advice), connect(database) as db:
        yield db


def _sql_of(db: Any, files: list[str], kind: str, name: str, query: str | None) -> str:
    """SQL that reads files or a database."""
    if kind == "database":
        return duckdb_select(db, query, name)
    if kind == "csv":
        return " UNION ALL BY NAME ".join(map(scan_csv, files))
    if kind in ("parquet", "json"):
        # A folder such as a=1 is no column. All rows of JSON lines decide what they hold.
        options = "union_by_name = true, hive_partitioning = false"
        options += ", sample_size = -1" if kind == "json" else ""
        return f"FROM read_{kind}({list_of(files)}, {options})"
    if kind == "arrow":
        db.register("given", _read_arrow(files))
    elif kind == "excel":
        register(db, _read_excel(files[0], name))
    elif kind == "stata":
        register(db, pd.read_stata(files[0]))
    else:
        register(db, pd.read_sas(files[0], encoding="infer"))
    return "FROM given"


def scan_csv(file: str) -> str:
    """SQL that reads a CSV file with all columns as text, without DuckDB's sniffing.

    It would drop lines that do not fit its guess: comments, titles, short headers.
    """
    name = Path(file).name
    with open_unpacked(file) as source:
        start = source.read(_START_BYTES)
    try:
        text = codecs.getincrementaldecoder("utf-8-sig")().decode(start)
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise TableError(
            f"{name} should be UTF-8 text or of another format that is read here, got other bytes, "
            f"such as those of a model file. {NAME_ENCODING}"
        )
    body = text.lstrip("\r\n")
    n_blank = len(text.removesuffix(body).splitlines())
    escape = "\\" if re.search(r"""\\"[^,;\t|\r\n"]""", body) else '"'
    tables: dict[str, list[list[str]]] = {}
    for delimiter in _DELIMITERS:
        reader = csv.reader(
            io.StringIO(body, newline=""),
            delimiter=delimiter,
            doublequote=escape == '"',
            escapechar=None if escape == '"' else escape,
        )
        tables[delimiter] = []
        with suppress(csv.Error):  # an unclosed field: DuckDB names the line
            tables[delimiter].extend(islice(filter(None, reader), 100))

    def agreement(delimiter: str) -> tuple[bool, int, int]:
        """Sort key: at least two names, lines with the usual number of fields, names."""
        widths = [len(row) for row in tables[delimiter]] or [0]
        usual = Counter(width for width in widths if width > 1).most_common(1)
        return widths[0] > 1, usual[0][1] if usual else 0, widths[0]

    delimiter = max(tables, key=agreement)
    names = [column.strip() for row in tables[delimiter][:1] for column in row]
    if not all(names) or not names:
        raise TableError(
            f"{name} should have the names of its columns in its first line, got a blank one. "
            f"Write one, or leave the column out (row numbers: index=False in pandas, row.names = "
            f"FALSE in R)."
        )
    check_different(names, name)
    fields = ", ".join(f"{literal(column)}: 'VARCHAR'" for column in names)
    nulls = ", ".join(literal(text) for text in MISSING_TEXTS if escape not in text)
    return (
        f"FROM read_csv({literal(exact_name(file))}, auto_detect = false, header = true, "
        f"skip = {n_blank}, comment = '', hive_partitioning = false, quote = '\"', "
        f"delim = {literal(delimiter)}, escape = {literal(escape)}, "
        f"nullstr = [{nulls}], "
        f"columns = {{{fields}}})"
    )


def _read_arrow(files: list[str]) -> Any:
    """The Arrow table of files with a footer, or of streams."""
    arrow = import_optional("pyarrow", extra="arrow")
    from pyarrow import ipc

    tables = []
    for file in files:
        content = arrow.BufferReader(Path(file).read_bytes())
        is_file = content.read(6) == b"ARROW1"
        content.seek(0)
        table = (ipc.open_file if is_file else ipc.open_stream)(content).read_all()
        table.validate(full=True)  # before anything follows an offset of a damaged file
        tables.append(table)
    return arrow.concat_tables(tables, promote_options="permissive")


def _read_excel(file: str, name: str) -> pd.DataFrame:
    if file.lower().endswith(".xlsx"):
        import_optional("openpyxl", extra="excel")
    with pd.ExcelFile(file) as book:
        if len(sheets := book.sheet_names) > 1:
            warnings.warn(
                f"{name} has {len(sheets)} sheets, of which the first, {sheets[0]!r}, is read. "
                f"Save another as a separate file to read it.",
                UserWarning,
                stacklevel=level_of_caller(),
            )
        # Keep cells as they are: no text becomes a number or a missing value.
        rows = pd.read_excel(book, dtype=object, keep_default_na=False, na_values=[""])
    # Blanks around names are hard to see, here as in the first line of a CSV file.
    return rows.rename(columns=lambda column: str(column).strip())


def open_unpacked(file: str) -> Any:
    """Open a file, decompressing it by its name, as DuckDB does."""
    if file.lower().endswith(".gz"):
        return gzip.open(file)
    if file.lower().endswith(".zst"):
        return import_optional("pyarrow", extra="arrow").input_stream(file, compression="zstd")
    return Path(file).open("rb")


@contextmanager
def utf8_files(files: list[str], encoding: str | None) -> Iterator[list[str]]:
    """The files, or copies of them in UTF-8 that exist within the context."""
    if encoding is None or codecs.lookup(encoding).name == "utf-8":
        yield files
        return
    with private_folder() as folder:
        copies = []
        for place, file in enumerate(files):
            # Keep the name, for messages; two files may share it.
            copy = folder / str(place) / Path(file).name.removesuffix(".gz").removesuffix(".zst")
            copy.parent.mkdir()
            with (
                open_unpacked(file) as source,
                io.TextIOWrapper(source, encoding=encoding, newline="") as text,
                copy.open("w", encoding="utf-8", newline="") as target,
            ):
                shutil.copyfileobj(text, target)
            copies.append(str(copy))
        yield copies
