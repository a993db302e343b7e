"""Errors for tables that cannot be read."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from auucmax._errors import InputError, without_passwords
from auucmax._validation import listed, unknown_columns

#: What to do with a file that is not UTF-8.
NAME_ENCODING = (
    "Name its encoding, such as latin-1 or utf-16, or export the table to a CSV or Parquet file."
)
# Other messages of DuckDB list settings, an encoding among them: the word alone tells nothing.
_NOT_UTF_8 = re.compile(r"invalid unicode|not utf-8|invalid utf-8|codec can't decode", re.I)
_CSV_ERROR = re.compile(
    r"(CSV Error on Line: \d+).*?^(?=Expected|Value|Invalid)(.*?)$.*^ *file = (.*?)$", re.M | re.S
)


class TableError(ValueError):
    """A table could not be read; the message is one line."""


class NoRowsError(TableError):
    """A table has no rows."""


def check_columns(wanted: Iterable[object], names: Sequence[str], table: str) -> None:
    """Raise a TableError if columns are missing."""
    if unknown := [str(name) for name in wanted if name not in names]:
        raise TableError(str(unknown_columns(table, unknown, names)))


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
    auucmax.data.table_errors.TableError: features of the table should be different columns, \
neither treatment nor outcome, got 'visit'. Name each feature once.
    """
    check_two(treatment, outcome, table)
    check_columns([treatment, outcome], names, table)
    if features is None:
        return tuple(name for name in names if name not in (treatment, outcome))
    chosen = tuple(features)
    if isinstance(features, str) or not chosen:
        raise TableError(
            f"features of {table} should be a list of names, got {features!r:.50}. Name some, or "
            f"leave features out to take all others."
        )
    check_columns(chosen, names, table)
    # Treatment and outcome count once more: they are no features.
    times = Counter([*chosen, treatment, outcome])
    if repeated := [name for name in times if times[name] > 1]:
        raise TableError(
            f"features of {table} should be different columns, neither treatment nor outcome, got "
            f"{listed(repeated)}. Name each feature once."
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
        text = str(error)
        reason = (text.strip() or type(error).__name__).splitlines()[0]
        if line := _CSV_ERROR.search(text):
            name = Path(line[3]).name
            reason = f"{line[1]}: {line[2]}"
        if _NOT_UTF_8.search(text):
            advice = NAME_ENCODING
        reason = without_passwords(reason)[:400].rstrip(". ")
        raise TableError(f"{name} should be {expected}, got: {reason}. {advice}") from error
