"""The form of CSV files: delimiter, quotes, header, encoding; and the SQL that reads such a file.

What is unsure is refused in one line, since a wrong guess loses rows or columns in silence.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

from auucmax.data.databases import exact_name, literal
from auucmax.data.table_errors import NOT_UTF_8_MESSAGE, TableError, check_different
from auucmax.data.text_types import MISSING_TEXTS

__all__ = ["scan_csv"]

#: A comma is last: of a file with decimal commas, both could be.
_DELIMITERS = "\t;|,"
_ESCAPES = {'"': None, "\\": "\\"}
_SAMPLE_BYTES = 1 << 18


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
        import pyarrow

        with pyarrow.input_stream(file, compression="zstd") as packed:
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
