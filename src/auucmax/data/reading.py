"""Read tables from files, folders and databases as pandas frames.

DuckDB reads CSV, Parquet, JSON and its own databases, Arrow its own files, psycopg PostgreSQL, ibis
other databases.
They are imported when used. Nothing is written: databases are opened to read only.

CSV files do not show their encoding: DuckDB reads UTF-8, and a file of another encoding is copied
to a private folder, as UTF-8, for as long as it is read.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import importlib
import io
import os
import re
import warnings
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from auucmax._errors import InputError
from auucmax._files import DUCKDB, check_source, files_at, private_folder
from auucmax._optional import import_optional
from auucmax._validation import check_whole
from auucmax.data.databases import (
    Draw,
    address_name,
    as_kinds,
    connect,
    duckdb_select,
    exact_name,
    list_of,
    literal,
    read_postgres,
    read_sql,
    texts_as_values,
)
from auucmax.data.memory import surely_fits
from auucmax.data.table_errors import (
    CSV,
    NOT_UTF_8_MESSAGE,
    NoRowsError,
    TableError,
    check_columns,
    check_different,
    one_line,
)
from auucmax.data.text_types import ANY_KIND, KINDS_BY_DECIMAL, NUMBERS
from auucmax.data.warehouses import COPY, copy_rows, is_table_expression, is_warehouse
from auucmax.encoding.frames import frame_of, is_frame
from auucmax.encoding.kinds import MISSING_TEXTS

_KINDS = {
    ".csv": "csv", ".tsv": "csv", ".txt": "csv",
    ".parquet": "parquet", ".pq": "parquet",
    ".jsonl": "json", ".ndjson": "json", ".json": "json",
    ".arrow": "arrow", ".feather": "arrow", ".ipc": "arrow",
    ".xlsx": "excel", ".xls": "excel", ".ods": "excel",
    ".dta": "stata", ".sas7bdat": "sas", ".xpt": "sas",
    ".duckdb": "database", ".db": "database", ".ddb": "database",
}  # fmt: skip
_ONE_FILE = ("database", "excel", "stata", "sas")  # kinds of which one file is read at a time
_POSTGRES = ("postgresql://", "postgres://")
_PACKED = (".gz", ".zst")
_EXCEL = {".xlsx": "openpyxl", ".xls": "xlrd", ".ods": "odfpy"}
_MAGIC = {
    b"PAR1": "parquet", b"ARROW1": "arrow", b"SQLite format 3": "sqlite", b"PK\x03\x04": "archive",
}  # fmt: skip
#: Files that are known, and not read: what they are.
_OTHERS = {
    ".sav": "SPSS", ".zsav": "SPSS", ".por": "SPSS", ".rds": "R", ".rda": "R", ".rdata": "R",
    ".pkl": "Python", ".pickle": "Python",
    ".xlsb": "Excel's binary form", ".xlsm": "Excel with macros", ".orc": "ORC", ".avro": "Avro",
    ".h5": "HDF5", ".hdf5": "HDF5", ".mat": "MATLAB", ".bz2": "bzip2", ".xz": "xz", ".7z": "7-Zip",
    ".rar": "RAR", ".tar": "tar", ".tgz": "tar", ".zip": "zip", ".pdf": "PDF",
}  # fmt: skip
_WHOLE = "Check that it is whole, and a table."
#: What DuckDB reads: what it should be, and what to do if it is not.
WORDS = {
    "csv": (CSV, _WHOLE),
    "parquet": ("a Parquet file", _WHOLE),
    "json": ("a file of JSON lines", _WHOLE),
    "database": ("a DuckDB database and the query one of it", "Check the file and the query."),
}
# A comma is last: of a file with decimal commas, both could be.
_DELIMITERS = "\t;|,"
_ESCAPES = {'"': None, "\\": "\\"}
_START_BYTES = 1 << 18


def read_table(
    source: Any,
    *,
    query: str | None = None,
    columns: Sequence[str] | None = None,
    decimal: str | None = None,
    encoding: str | None = None,
) -> pd.DataFrame:
    """The rows of a file, of a folder of files, or of a database query.

    Parameters
    ----------
    source : a CSV (comma, tab or whatever it shows itself to be; UTF-8, with a header), Parquet,
        JSON-lines, Arrow, Feather or Excel file; a pattern such as ``"rows/*.parquet"``, or a
        folder with files of one kind, read in the order of their names; a DuckDB database
        (``.duckdb``, ``.db``); a URL ``postgresql://user@host/database``, or one of BigQuery,
        Databricks, MySQL, Snowflake, SQLite or Trino, which ibis reads; or a table of ibis itself.
        A frame of pandas or polars, an Arrow table and a DuckDB relation are taken as they are,
        whatever their texts.
    query : of a database: a SELECT, or the name of a table.
    columns : only these.
    decimal : "." or ",", the sign before decimals in a CSV file, where its numbers do not show it:
        with ",", ``1,234`` is less than two and ``1.234`` more than a thousand.
    encoding : of the text of a CSV file that is not UTF-8: "latin-1", "cp1252", "utf-16".

    Returns
    -------
    frame : numbers, texts, booleans and dates, with missing values where the table has none. In
        CSV files an empty field, NA, N/A, NaN and NULL are missing, and a column has one type, by
        all rows of all files: numbers if all are plain ones (``00123``, ``+47`` are texts), dates
        if all are ISO ones (``2024-01-31``, with or without a time of the day), texts otherwise,
        also for yes and no, or true and false. Whole numbers keep all their digits: as texts where
        64 bits are too few. Decisions about other texts are reported by a warning:

        * decimal commas, commas between thousands, currencies, per cents and dates such as
          ``31/1/2024`` or ``31/1/24`` are read as such if the column shows which of two meanings
          they have, or ``decimal`` does; otherwise (``1,234``, ``1/2/2024`` alone) they are texts;
        * points before three digits, as in ``1.696``, are between thousands where other columns
          have decimal commas, and none decimal points; where nobody can tell they are decimals;
        * ``?``, ``-``, ``unknown``, ``#N/A`` and the like are missing values among numbers or
          dates, if they are fewer; other texts among these are named;
        * texts of other formats are looked at in the same way; of digits alone, as of a code, 30
          different ones stay texts.

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
    auucmax.data.table_errors.TableError: rows.csv should have the column 'agee', got 'age', 'town'.
    Did you mean 'age'?
    >>> folder.cleanup()
    """
    return _rows(source, query, columns, TextForm.checked(decimal, encoding), None)


def read_sample(
    source: Any,
    *,
    by: str | None = None,
    max_rows: int | None = None,
    query: str | None = None,
    decimal: str | None = None,
    encoding: str | None = None,
) -> pd.DataFrame:
    """Like :func:`read_table`, but with a random sample if there are too many rows.

    It has about ``max_rows`` rows; by default, as many as fit into a quarter of the free memory.
    Rows with the same value in the column ``by`` (an id, a group) are drawn together. A frame is in
    memory already: without ``max_rows`` all of its rows are used.
    """
    if max_rows is not None:
        max_rows = check_whole(max_rows, "max_rows", 1)
    return _rows(source, query, None, TextForm.checked(decimal, encoding), Draw(by, max_rows))


def _rows(
    source: Any,
    query: str | None,
    columns: Sequence[str] | None,
    form: TextForm,
    draw: Draw | None,
) -> pd.DataFrame:
    address, name = str(source), "the table"
    if is_frame(source) and not is_table_expression(source):
        form.check_kind("frame", "a frame")
        if query is not None:
            raise TableError(
                "query should come with a database, got one with a frame. Leave it out."
            )
        frame = frame_of(source) if columns is None else frame_of(source, columns)[list(columns)]
        return _with_rows(frame if draw is None else draw.of_frame(frame, name), name)
    if address.startswith(_POSTGRES):
        form.check_kind("database", name := address_name(address))
        return _with_rows(
            as_kinds(_chosen(read_postgres(address, query, draw), columns, name)), name
        )
    if is_elsewhere(source):
        form.check_kind("database", "a database")
        with connect() as db:
            name, draw = copy_rows(db, source, query, columns, draw)
            return _with_rows(read_sql(db, f"FROM {COPY}", columns, name, draw=draw), name)
    files, kind, name = locate_files(address, query)
    form.check_kind(kind, name)
    if kind in _READERS:
        frame = texts_as_values(_READERS[kind](files, columns, name), name)
        frame = as_kinds(_chosen(frame, columns, name))
        return _with_rows(frame if draw is None else draw.of_frame(frame, name), name)
    if draw is not None and draw.max_rows is None and surely_fits(files, kind):
        draw = None
    with utf8_files(files, form.encoding) as own, by_duckdb(own, kind, name) as db:
        sql, texts, typed = _sql_of(db, own, kind, name, query, form.decimal)
        frame = read_sql(
            db, sql, columns, name, texts, decimal=form.decimal, typed=typed, draw=draw
        )
    return _with_rows(frame, name)


def _chosen(rows: pd.DataFrame, columns: Sequence[str] | None, name: str) -> pd.DataFrame:
    check_columns(columns or (), [str(c) for c in rows.columns], name)
    return rows if columns is None else rows[list(columns)]


def _with_rows(frame: pd.DataFrame, name: str) -> pd.DataFrame:
    if not len(frame):
        raise NoRowsError(
            f"{name} should have rows, got a table without. Check how it was written.",
            [str(c) for c in frame.columns],
        )
    return frame


def table_of(
    table: Any, columns: Sequence[str] | None = None, also: Sequence[str] = ()
) -> pd.DataFrame:
    """Convert any table in memory, including ibis expressions, to a pandas frame."""
    return read_table(table) if is_table_expression(table) else frame_of(table, columns, also)


def is_elsewhere(source: Any) -> bool:
    """Whether the rows are read by ibis and copied."""
    return is_table_expression(source) or (isinstance(source, str) and is_warehouse(source))


def locate_files(address: str, query: str | None) -> tuple[list[str], str, str]:
    """Files to read, their format, and a name for messages."""
    check_source(address, TableError)
    path = Path(address.removeprefix(DUCKDB)).expanduser()
    name, found = path.name or address, files_at(address)
    if address.startswith(DUCKDB):
        return found[:1], "database", name
    if found == [str(path)] and path.is_dir():
        found = sorted(str(p) for p in _files_below(path) if _suffix(p) in _KINDS and p.is_file())
        if not found:
            raise TableError(
                f"{name} should be a folder with CSV or Parquet files, got one without. "
                f"Check the path."
            )
    kinds = sorted({_kind(Path(file)) for file in found})
    if len(kinds) > 1 or (len(found) > 1 and kinds[0] in _ONE_FILE):
        raise TableError(
            f"{name} should stand for CSV files only, or Parquet files only, got {len(found)} "
            f"files ({', '.join(kinds)}). Name the ones to read, for example 'rows/*.parquet'."
        )
    if query is not None and kinds[0] != "database":
        raise TableError(
            f"query should come with a database, got one with the file {name}. Leave it out."
        )
    return found, kinds[0], name


def _files_below(folder: Path) -> Iterator[Path]:
    """All files in a folder, recursively; TableError if one is not readable."""

    def fail(error: OSError) -> None:
        raise TableError(
            f"{Path(error.filename).name} in {folder.name} should be a folder that can be read, "
            f"got: {error.strerror}. Its rows would be lost: check its permissions."
        )

    for place, _, names in os.walk(folder, onerror=fail, followlinks=True):
        yield from (Path(place) / name for name in names)


def _suffix(path: Path) -> str:
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] in _PACKED:
        suffixes.pop()
    return suffixes[-1] if suffixes else ""


def _kind(path: Path) -> str:
    """The format of a file by its name, or by its first bytes."""
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
    if by_bytes == "archive":
        by_bytes = None
        if by_name != "excel" and _is_model(path):
            raise TableError(
                f"{path.name} should be a table, got a model file of auucmax. Name the table, and "
                f"the model where a model file is asked for."
            )
    if (suffix := path.suffix.lower()) in _OTHERS or (by_name is None and start[:2] == b"PK"):
        raise TableError(
            f"{path.name} should be a table in a format that is read here, got a file of "
            f"{_OTHERS.get(suffix, 'zip')}. Unpack it, or export the table to a CSV or Parquet "
            f"file."
        )
    if by_bytes == "sqlite":
        raise TableError(
            f"{path.name} should be a DuckDB database, got one of SQLite. Export the table to a "
            f"CSV or Parquet file."
        )
    return (by_name if by_name == "arrow" else by_bytes or by_name) or "csv"


def _is_model(path: Path) -> bool:
    """Whether an archive is an auucmax model."""
    with suppress(OSError, zipfile.BadZipFile), zipfile.ZipFile(path) as archive:
        return "header.json" in archive.namelist()
    return False


@contextmanager
def by_duckdb(files: Sequence[str], kind: str, name: str) -> Iterator[Any]:
    """Open DuckDB for files or a database; errors become one line."""
    database = files[0] if kind == "database" else ":memory:"
    with one_line(name, *WORDS[kind]), connect(database) as db:
        yield db


def _sql_of(
    db: Any, files: list[str], kind: str, name: str, query: str | None, decimal: str | None
) -> tuple[str, dict[str, int], list[str]]:
    """SQL that reads files or a database, and what columns of texts may be: see `Table.of_sql`."""
    if kind == "database":
        return duckdb_select(db, query, name), {}, []
    if kind == "csv":
        table = " UNION ALL BY NAME ".join(map(scan_csv, files))
        return table, dict.fromkeys(db.sql(table).columns, KINDS_BY_DECIMAL[decimal]), []
    if kind == "json":  # by all rows: those after the first ones may be other numbers
        table = _scan(files, kind, "sample_size = -1")
        names = f"SELECT DISTINCT unnest(json_keys(json)) FROM read_json_objects({list_of(files)})"
    else:
        table = _scan(files, kind)
        names = f"SELECT name FROM parquet_schema({list_of(files)})"
    relation = db.sql(table)
    _check_kept(relation.columns, [row[0] for row in db.sql(names).fetchall()], name)
    types = dict(zip(relation.columns, map(str, relation.types), strict=True))
    typed = [c for c, type_ in types.items() if type_ == "VARCHAR"]
    texts = dict.fromkeys(typed, ANY_KIND)
    if kind == "json" and "DOUBLE" in types.values():  # long numbers would be rounded
        fields = {c: type_ if type_ != "DOUBLE" else "VARCHAR" for c, type_ in types.items()}
        pairs = ", ".join(f"{literal(c)}: {literal(type_)}" for c, type_ in fields.items())
        table = _scan(files, kind, f"columns = {{{pairs}}}")
        texts |= {c: NUMBERS for c, type_ in types.items() if type_ == "DOUBLE"}
    return table, texts, typed


def scan_csv(file: str) -> str:
    """SQL that reads a CSV file with all columns as text, without DuckDB's sniffing.

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
    """Detect delimiter, escape, blank lines and header of a CSV file."""
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

    def agreement(delimiter: str) -> tuple[bool, int, int]:
        widths = [len(row) for row in tables[delimiter]] or [0]
        return widths[0] > 1, widths.count(widths[0]), widths[0]

    # The one that gives the most lines as many fields as names; of equals, the most names.
    best = max(tables, default=",", key=agreement)
    rows = tables.get(best) or parsed(best)
    names = [column.strip() for column in rows[0]] if rows else []
    if "\ufffd" in "".join(names):
        raise TableError(NOT_UTF_8_MESSAGE.format(name, 1, "latin-1"))
    _check_header(names, rows[1:], name)
    return best, escape, len(blank.splitlines()), names


def _start(file: str) -> str:
    """The first lines of a file, compressed or not."""
    with open_unpacked(file) as source:
        content = source.read(_START_BYTES)
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise TableError(NOT_UTF_8_MESSAGE.format(Path(file).name, 1, "utf-16"))
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


def _check_kept(columns: Sequence[str], names: Sequence[str], table: str) -> None:
    """Check that DuckDB did not rename columns that differ only in case."""
    if set(columns) - set(names):
        check_different(sorted(set(names)), table)


def _read_arrow(files: list[str], columns: Sequence[str] | None, name: str) -> pd.DataFrame:
    arrow = import_optional("pyarrow", extra="arrow")
    from pyarrow import feather, ipc

    parts = []
    for file in files:
        with one_line(Path(file).name, "an Arrow or Feather file", "Check that it is whole."):
            content = Path(file).read_bytes()
            if content.startswith(b"FEA1"):  # its reader follows offsets before they are checked
                raise TableError(
                    f"{Path(file).name} should be an Arrow or Feather file, got one of the old "
                    f"Feather 1, which cannot be read safely. Write it again, as Parquet say."
                )
            if content.startswith(b"ARROW1"):
                table = feather.read_table(arrow.BufferReader(content))
            else:
                source = arrow.BufferReader(content)
                table = ipc.open_stream(source).read_all()
                if content[source.tell() :].strip(b"\x00"):
                    raise TableError(
                        f"{Path(file).name} should hold one Arrow stream, got more after its end. "
                        f"Write them to files of their own: the rows of the others would be lost."
                    )
            table.validate(full=True)  # before anything follows an offset of a damaged file
            check_columns(columns or (), table.column_names, name)
            chosen = table if columns is None else table.select(columns)
            # Floats, the other way to have missing values, round long numbers.
            parts.append(chosen.to_pandas(integer_object_nulls=True))
    return pd.concat(parts, ignore_index=True)


def _read_excel(files: list[str], columns: Sequence[str] | None, name: str) -> pd.DataFrame:
    (file,) = files
    try:
        with (
            one_line(name, "an Excel file", "Export the sheet as CSV."),
            pd.ExcelFile(file) as book,
        ):
            if Path(file).suffix.lower() == ".xlsx":
                _check_formulas(file, name)
            if len(sheets := book.sheet_names) > 1:
                warnings.warn(
                    f"{name} has {len(sheets)} sheets, of which the first, {sheets[0]!r}, is read. "
                    f"Save another as a separate file to read it.",
                    UserWarning,
                    stacklevel=3,
                )
            # As the cells are: no text becomes a number or a missing value.
            rows = pd.read_excel(book, dtype=object, keep_default_na=False, na_values=[""])
            # Blanks around names are hard to see, here as in the first line of a CSV file.
            names = [name.strip() if isinstance(name, str) else name for name in rows.columns]
            return rows.set_axis(names, axis=1).infer_objects()
    except ImportError as error:
        library = _EXCEL.get(Path(file).suffix.lower(), "openpyxl")
        advice = 'Run: pip install "auucmax[excel]"' if library == "openpyxl" else "Install it"
        raise TableError(
            f"{name} should be a file that can be read here, got a spreadsheet and no library for "
            f"it ({library}). {advice}; or export the sheet as CSV."
        ) from error


def _check_formulas(file: str, name: str) -> None:
    """Raise a TableError for spreadsheet formulas without stored results."""
    openpyxl = importlib.import_module("openpyxl")
    cells = []
    for results in (False, True):
        book = openpyxl.load_workbook(file, read_only=True, data_only=results)
        cells.append([value for row in book.worksheets[0].values for value in row])
        book.close()
    pairs = zip(*cells, strict=True)
    n = sum(str(what).startswith("=") and result is None for what, result in pairs)
    if n:
        raise TableError(
            f"{name} should hold values, got {n:,} formulas without their results. Open it in a "
            f"spreadsheet and save it, or export the sheet as CSV."
        )


def _read_stata(files: list[str], columns: Sequence[str] | None, name: str) -> pd.DataFrame:
    with one_line(name, "a Stata file", _WHOLE):
        return _plain_categories(pd.read_stata(files[0]))


def _read_sas(files: list[str], columns: Sequence[str] | None, name: str) -> pd.DataFrame:
    with one_line(name, "a SAS file", _WHOLE):
        return _plain_categories(pd.read_sas(files[0], encoding="infer"))


def _plain_categories(rows: pd.DataFrame) -> pd.DataFrame:
    """Convert categories to their labels."""
    labelled = rows.select_dtypes("category").columns
    return rows.assign(**{name: rows[name].astype(object) for name in labelled})


_READERS = {
    "arrow": _read_arrow, "excel": _read_excel, "stata": _read_stata, "sas": _read_sas,
}  # fmt: skip
DECIMALS = (".", ",")
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_CHUNK = 1 << 20  # characters that are copied at a time


class TextForm(NamedTuple):
    """User settings for a CSV file; None means detect (and UTF-8).

    >>> TextForm.checked(",", "Latin-1")
    TextForm(decimal=',', encoding='iso8859-1')
    >>> TextForm.checked(";", None)
    Traceback (most recent call last):
    auucmax._errors.InputError: decimal should be '.' or ',', got ';'. Pass the sign before the \
decimals.
    """

    decimal: str | None = None
    encoding: str | None = None

    @classmethod
    def checked(cls, decimal: str | None, encoding: str | None) -> TextForm:
        """Validate the decimal sign, and normalise the encoding name."""
        if decimal is not None and decimal not in DECIMALS:
            raise InputError(
                "decimal", "'.' or ','", f"{decimal!r:.50}", "Pass the sign before the decimals."
            )
        if encoding is None:
            return cls(decimal)
        try:
            info = codecs.lookup(encoding)
        except (LookupError, TypeError, ValueError):
            info = None
        # Some codecs are not of texts: base64, say.
        if info is None or not getattr(info, "_is_text_encoding", True):
            raise InputError(
                "encoding", "the name of a text encoding, such as latin-1, cp1252 or utf-16",
                f"{encoding!r:.50}", "Check the name.",
            )  # fmt: skip
        return cls(decimal, None if info.name in ("utf-8", "utf-8-sig") else info.name)

    def check_kind(self, kind: str, name: str) -> None:
        """Raise an InputError if CSV settings are given for another format."""
        for option, given in self._asdict().items():
            if given is not None and kind != "csv":
                raise InputError(
                    option, "given for a CSV file", f"it with {name}, which needs none",
                    "Leave it out.",
                )  # fmt: skip


def open_unpacked(file: str) -> AbstractContextManager[Any]:
    """Open a file, decompressing it if necessary."""
    with Path(file).open("rb") as plain:
        start = plain.read(4)
    if start.startswith(_GZIP):
        return gzip.open(file)
    if start.startswith(_ZSTD):
        arrow = import_optional("pyarrow", extra="arrow")
        return arrow.input_stream(file, compression="zstd")
    return Path(file).open("rb")


@contextmanager
def utf8_files(files: Sequence[str], encoding: str | None) -> Iterator[list[str]]:
    """The files, or copies of them in UTF-8 that exist within the context."""
    if encoding is None:
        yield list(files)
        return
    with private_folder() as folder:
        copies = []
        for place, file in enumerate(files):
            # Of the same name, for messages; two files may have one.
            copy = folder / str(place) / Path(file).name.removesuffix(".gz").removesuffix(".zst")
            copy.parent.mkdir()
            _copy(file, encoding, copy)
            copies.append(str(copy))
        yield copies


def _copy(file: str, encoding: str, copy: Path) -> None:
    try:
        with (
            open_unpacked(file) as source,
            io.TextIOWrapper(source, encoding=encoding, newline="") as text,
            copy.open("w", encoding="utf-8", newline="") as target,
        ):
            while chunk := text.read(_CHUNK):
                target.write(chunk)
    except UnicodeError as error:
        raise TableError(
            f"{Path(file).name} should be text in {encoding}, got other bytes. Check encoding=."
        ) from error
