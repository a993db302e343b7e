"""What all readers of tables share: errors, memory, samples and names in SQL."""

from __future__ import annotations

import os
import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from auucmax._errors import InputError, level_of_caller, without_passwords
from auucmax._validation import check_whole, listed, unknown_columns

#: What to do with a file that is not UTF-8.
NAME_ENCODING = (
    "Name its encoding, such as latin-1 or utf-16, or export the table to a CSV or Parquet file."
)
# Other messages of DuckDB list settings, an encoding among them: the word alone proves nothing.
_NOT_UTF_8 = re.compile(
    r"invalid unicode|not utf-8|invalid utf-8|codec can't decode|unknown encoding|text encoding",
    re.I,
)
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
            f"{table} should have columns with different names, ignoring case, got "
            f"{listed(repeated)}. Rename them."
        )


@contextmanager
def one_line(name: str, expected: str, advice: str) -> Iterator[None]:
    """Context manager: convert parser errors to a one-line TableError."""
    try:
        yield
    except (InputError, TableError, ImportError, Warning):
        raise
    except Exception as error:  # parsers raise arbitrary errors for damaged files
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


# Memory

#: Environment variable with the megabytes that may be used, instead of the free memory.
SETTING = "AUUCMAX_MEMORY_MB"
_PART = 4  # a table may take a quarter of the memory; a fit takes about three times as much
_ALWAYS = 2**28  # bytes that may be used whatever is free
_ELSEWHERE = 4 * 2**30  # bytes, where the system does not say how much is free


def most_rows(some: pd.DataFrame) -> int:
    """Number of rows like ``some`` that fit into a quarter of the memory.

    A row counts with its size as read, and as encoded in double precision by a fit.
    """
    read = some.memory_usage(deep=True, index=False).sum() / max(len(some), 1)
    return int(usable_memory() / _PART / (read + 8 * some.shape[1]))


def usable_memory() -> float:
    """Usable memory in bytes: the setting, or else the free memory."""
    if setting := os.environ.get(SETTING):
        return 1e6 * float(setting)
    return max(free_memory(), _ALWAYS)


def free_memory() -> float:
    """Free memory in bytes; on Linux also limited by the control group."""
    found = []
    with suppress(OSError, ValueError, StopIteration):
        lines = Path("/proc/meminfo").read_text().splitlines()
        line = next(line for line in lines if line.startswith("MemAvailable:"))
        found.append(1024.0 * int(line.split()[1]))
    with suppress(OSError, ValueError):
        group = Path("/sys/fs/cgroup")
        most, now = ((group / f"memory.{what}").read_text() for what in ("max", "current"))
        stat = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
        # Pages of files that were read count as used, and are given back when they are needed.
        found.append(float(most) - float(now) + float(stat.get("inactive_file", 0)))
    return min(found, default=float(_ELSEWHERE))


# Samples

LOOKED_AT = 10_000  #: rows from which the memory of all rows is estimated
BUCKET, N_BUCKETS = "auucmax_bucket", 2**20  #: rows are hashed into; a sample is the first ones


class Draw(NamedTuple):
    """A random sample of about ``max_rows`` rows, or as many as fit into memory.

    Rows are drawn by a hash of the column ``by``, whose equal values stay together; or, without
    such a column, one by one.
    """

    by: str | None = None
    max_rows: int | None = None

    def check(self, names: Sequence[str], table: str) -> None:
        """Raise a TableError if the table has no column ``by``."""
        check_columns([] if self.by is None else [self.by], names, table)

    def buckets(self, n_rows: int, some: Callable[[], pd.DataFrame], name: str) -> int | None:
        """Number of hash buckets to read; None to read all rows.

        ``some`` gives sample rows of the table, to estimate their memory.
        """
        if self.max_rows is None:
            most = most_rows(some())
        else:
            most = check_whole(self.max_rows, "max_rows", 1)
        if n_rows <= most:
            return None
        if self.max_rows is None:
            warnings.warn(
                f"{name} has {n_rows:,} rows: a random sample of about {most:,} is used, which fit "
                f"into a quarter of the free memory. Set max_rows to use more or fewer.",
                UserWarning,
                stacklevel=level_of_caller(),
            )
        return max(most * N_BUCKETS // n_rows, 1)

    def sql(self, table: str, name: str, read: Callable[[str], pd.DataFrame], hashed: str) -> str:
        """SQL that samples the SELECT ``table``; ``hashed`` is the hash expression."""
        n_rows = int(read(f"SELECT count(*) FROM ({table}) AS every").iloc[0, 0])
        part = f"SELECT * FROM ({table}) AS every WHERE random() < {LOOKED_AT / max(n_rows, 1)}"
        n = self.buckets(n_rows, lambda: read(part), name)
        if n is None:
            return table
        key = "row_number() OVER ()" if self.by is None else quoted(self.by)
        bucket = hashed.format(f"CAST({key} AS VARCHAR)")
        keyed = f"SELECT *, {bucket} AS {BUCKET} FROM ({table}) AS every"
        return f"SELECT * FROM ({keyed}) AS keyed WHERE {BUCKET} < {n}"


# SQL


def quoted(name: str) -> str:
    """Quote a name as a SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def list_of(files: list[str]) -> str:
    """SQL list of file names, escaped as glob patterns.

    >>> print(list_of(["a.csv", "b[1].csv"]))
    ['a.csv', 'b[[]1].csv']
    """
    return f"[{', '.join(literal(exact_name(file)) for file in files)}]"


def exact_name(file: str) -> str:
    """A glob pattern that matches exactly this file."""
    return re.sub(r"[\[*?]", lambda found: f"[{found[0]}]", file)


def literal(text: str) -> str:
    """Quote a text as a SQL literal."""
    return "'" + text.replace("'", "''") + "'"
