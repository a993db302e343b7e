"""Errors for tables that cannot be read."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from auucmax._errors import InputError, without_passwords
from auucmax._validation import listed, unknown_columns_message

# Other messages of DuckDB list settings, an encoding among them: the word alone tells nothing.
_NOT_UTF_8 = re.compile(r"invalid unicode|not utf-8|invalid utf-8|codec can't decode", re.I)
_SAVE_AS_UTF_8 = "Save the file as UTF-8, or name its encoding, such as {}."
NOT_UTF_8_MESSAGE = "{} should be UTF-8 text, got other bytes in line {}. " + _SAVE_AS_UTF_8
_CSV_LINE = re.compile(r"CSV Error on Line: (\d+)")
_N_FIELDS = re.compile(r"^Expected Number of Columns: (\d+) Found: (\d+)", re.M)


CSV = "a CSV file"


class TableError(ValueError):
    """A table could not be read; the message is one line."""


class NoRowsError(TableError):
    """A table has no rows; ``columns`` are its columns."""

    def __init__(self, message: str, columns: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.columns = tuple(columns)


def check_columns(wanted: Sequence[str], names: Sequence[str], table: str) -> None:
    """Raise a TableError if columns are missing."""
    if strange := [name for name in wanted if not isinstance(name, str)]:
        raise TableError(
            f"columns of {table} should be named by texts, got {strange[0]!r:.50}. Name them so."
        )
    if unknown := [name for name in wanted if name not in names]:
        raise TableError(unknown_columns_message(table, unknown, names))


def check_different(names: Sequence[str], table: str) -> None:
    """Raise a TableError if column names differ only in case."""
    times = Counter(column.casefold() for column in names)
    if repeated := [column for column in names if times[column.casefold()] > 1]:
        raise TableError(
            f"{table} should have columns with different names, capitals aside, got "
            f"{listed(repeated)}. Rename them."
        )


def feature_columns(
    features: Iterable[str] | None, treatment: str, outcome: str, names: Sequence[str], table: str
) -> tuple[str, ...]:
    """The feature columns: those named, or all but treatment and outcome.

    TableError if a column is not there, has two roles, or is a feature twice.

    >>> feature_columns(None, "mail", "visit", ["age", "mail", "visit"], "the table")
    ('age',)
    >>> feature_columns(["age", "visit"], "mail", "visit", ["age", "mail", "visit"], "the table")
    Traceback (most recent call last):
    auucmax.data.table_errors.TableError: features of the table should be neither treatment nor \
outcome, got 'visit'. Leave it out of the features.
    """
    if isinstance(features, str):
        raise TableError(
            f"features of {table} should be a list of names, got {features!r}. Pass a list."
        )
    check_two(treatment, outcome, table)
    check_columns([treatment, outcome], names, table)
    if features is None:
        return tuple(name for name in names if name not in (treatment, outcome))
    chosen = tuple(features)
    if not chosen:
        raise TableError(
            f"features of {table} should be columns, got none. Name some, or leave features out to "
            f"take all others."
        )
    check_columns(chosen, names, table)
    if taken := [name for name in chosen if name in (treatment, outcome)]:
        raise TableError(
            f"features of {table} should be neither treatment nor outcome, got {listed(taken)}. "
            f"Leave it out of the features."
        )
    if repeated := [name for name, times in Counter(chosen).items() if times > 1]:
        raise TableError(
            f"features of {table} should be different columns, got {listed(repeated)} more than "
            f"once. Name each once."
        )
    return chosen


def check_two(treatment: str, outcome: str, table: str) -> None:
    """Raise a TableError if treatment and outcome are the same column."""
    if treatment == outcome:
        raise TableError(
            f"treatment and outcome of {table} should be two columns, got {treatment!r} for both. "
            f"Name two."
        )


def changed_message(
    table: str,
    advice: str = (
        "Leave the file alone meanwhile, and let a query have an ORDER BY and nothing random."
    ),
) -> str:
    """Error message for a table that changed between two readings."""
    return (
        f"{table} should give the same rows in the same order every time it is read, got others "
        f"the second time. {advice}"
    )


@contextmanager
def one_line(name: str, expected: str, advice: str) -> Iterator[None]:
    """Context manager: convert parser errors to a one-line TableError."""
    try:
        yield
    except (InputError, TableError, ImportError, Warning):
        raise
    except Exception as error:  # damaged files make parsers raise whatever they like
        if type(error).__name__ == "InterruptException":  # of DuckDB
            raise KeyboardInterrupt from error
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        reason = without_passwords(lines[0] if lines else type(error).__name__)[:200].rstrip(". ")
        if found := _CSV_LINE.search(str(error)):
            raise TableError(_line_message(name, str(error), int(found[1]))) from error
        if "CSV Parser state machine" in reason:
            expected = "a CSV file with lines that all end in the same way"
        if _NOT_UTF_8.search(str(error)):
            advice = "Save the file as UTF-8."
            if expected == CSV:  # of others there is nothing to say
                advice = _SAVE_AS_UTF_8.format("latin-1")
            expected = "UTF-8 text"
        raise TableError(f"{name} should be {expected}, got: {reason}. {advice}") from error


def _line_message(name: str, text: str, line: int) -> str:
    """Error message for a malformed line of a CSV file."""
    if file := re.search(r"^\s*file = (.+)$", text, re.M):
        name = Path(file[1].strip()).name
    if fields := _N_FIELDS.search(text):
        return (
            f"{name} should have as many fields in every line as names in its header "
            f"({fields[1]}), got {fields[2]} in line {line}. Mend the line, or write the file "
            f"again (in R with row.names = FALSE)."
        )
    if _NOT_UTF_8.search(text):
        return NOT_UTF_8_MESSAGE.format(name, line, "latin-1")
    if "unterminated quote" in text:
        return (
            f"{name} should close every quoted field, got one that is open or goes on after its "
            f"end in line {line}. Mend the line, or write the file again."
        )
    return f"{name} should be a CSV file, got a line that is none: {line}. Mend the line."
