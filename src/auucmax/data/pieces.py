"""Tables that are larger than the memory: raw rows, read piece by piece, as often as needed.

:func:`open_table` gives a frame of all rows if they fit, and a :class:`PiecedTable` if not; both
have the same columns of the same kinds. A frame is a table of one piece (:func:`pieces_of`).
"""

from __future__ import annotations

import os
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from auucmax._files import DATABASES
from auucmax._progress import track
from auucmax.data.databases import Reading, Signs
from auucmax.data.hashing import mix_bits
from auucmax.data.reading import (
    WORDS,
    TextForm,
    as_kinds,
    by_duckdb,
    check_has_rows,
    is_elsewhere,
    locate_files,
    plan_reading,
    read_files,
    read_table,
    utf8_files,
)
from auucmax.data.table_errors import check_columns
from auucmax.data.warehouses import COPY, copied_rows, is_table_expression
from auucmax.encoding.frames import frame_of, is_frame

#: What is made of a piece and the place of its first row.
Work = Callable[[pd.DataFrame, int], Any]
PIECE_ROWS = 2**17
#: Bytes that the rows of a fit take at their peak, for a byte of the frame of them: in a frame of
#: float32, which are encoded as float64, about so many; in others fewer.
WORKING = 10.0
SAMPLE_ROWS = 250_000  #: of a table in pieces, where some rows are enough; fewer if they are wide
_SAMPLE_BYTES = 2**28
_ALWAYS = 2**28  # bytes that a table may take whatever is free
#: Bytes of a frame, at most, for a byte of a text file; and for one of a packed one.
_UNFOLDED, _UNPACKED = 12.0, 120.0
_ELSEWHERE = 4 * 2**30  # bytes, where the system does not say how much is free


@dataclass(frozen=True)
class PiecedTable(ABC):
    """A table whose rows stay where they are: files of :func:`open_table`, or a Spark DataFrame.

    ``name`` is for messages, ``n_bytes`` about what a frame of all rows would take.
    """

    name: str
    n_rows: int
    n_bytes: int
    option: ClassVar[str] = "memory="  #: that lets larger tables into memory

    @property
    def tree_rows(self) -> int:
        """How many rows trees learn from at most; 0: as many as they do otherwise."""
        return 0

    @property
    @abstractmethod
    def columns(self) -> tuple[str, ...]:
        """Names of all columns."""

    @abstractmethod
    def pieces(self, columns: Sequence[str] | None = None) -> Iterator[pd.DataFrame]:
        """All rows in their order, some at a time; only these columns, if some are named."""

    def each(self, work: Work, columns: Sequence[str] | None = None) -> Iterator[Any]:
        """What ``work`` makes of every piece and of the place of its first row, in their order.

        It is done where the rows are, and only what it makes of them comes here.
        """
        first = 0
        for piece in self.pieces(columns):
            yield work(piece, first)
            first += len(piece)

    @property
    def size(self) -> str:
        """About what a frame of all rows would take, in words."""
        n_bytes = self.n_bytes
        return f"{n_bytes / 1e9:,.1f} GB" if n_bytes > 1e9 else f"{n_bytes / 1e6:,.0f} MB"

    @property
    def sample_rows(self) -> int:
        """How many rows are enough where not all are needed."""
        # Fewer if they are wide.
        return min(SAMPLE_ROWS, max(_SAMPLE_BYTES * self.n_rows // self.n_bytes, 1_000))

    def sample(self, n_rows: int, columns: Sequence[str] | None = None) -> pd.DataFrame:
        """About so many of the rows, drawn at random; the same every time."""
        return pd.concat(self.each(partial(_drawn, n_most=n_rows, n_rows=self.n_rows), columns))


def _drawn(piece: pd.DataFrame, first: int, n_most: int, n_rows: int) -> pd.DataFrame:
    return piece[sampled(np.arange(first, first + len(piece)), n_most, n_rows)]


@dataclass(frozen=True)
class FileTable(PiecedTable):
    """A table that stays on the disk; made by :func:`open_table`.

    ``copies`` are files in UTF-8, if those of the table are not, which are removed when the table
    is no more.
    """

    reading: Reading
    files: tuple[str, ...]
    kind: str
    piece_rows: int = PIECE_ROWS
    copies: _Copies | None = field(default=None, repr=False, compare=False)

    @property
    def columns(self) -> tuple[str, ...]:
        return self.reading.columns

    def pieces(self, columns: Sequence[str] | None = None) -> Iterator[pd.DataFrame]:
        if columns is not None:
            check_columns(columns, self.columns, self.name)
        reading = self.reading if columns is None else self.reading.only(columns)
        with by_duckdb(self.files, self.kind, self.name) as db:
            first = 0
            pieces = reading.pieces(db, self.piece_rows)
            for piece in track(pieces, -(-self.n_rows // self.piece_rows), f"reading {self.name}"):
                piece.index = pd.RangeIndex(first, first := first + len(piece))
                yield as_kinds(piece)


def sampled(places: NDArray[Any], n_most: int, n_rows: int) -> NDArray[np.bool_]:
    """Which rows are among about ``n_most`` of ``n_rows``, (n,): all, or by a hash of the place.

    >>> int(sampled(np.arange(1000), 100, 1000).sum())
    101
    """
    if n_rows <= n_most:
        return np.ones(len(places), dtype=bool)
    return np.asarray(mix_bits(places.astype(np.uint64)) / 2.0**64 < n_most / n_rows)


def table_of(
    table: Any, columns: Sequence[str] | None = None, also: Sequence[str] = ()
) -> pd.DataFrame | PiecedTable:
    """The one door for tables: a frame of any library as :func:`frame_of` reads it.

    A table that is read in pieces stays as it is; one of ibis is opened.
    """
    if is_table_expression(table):
        return open_table(table)
    return table if isinstance(table, PiecedTable) else frame_of(table, columns, also)


def signs_of(table: pd.DataFrame | PiecedTable) -> Signs:
    """How the texts of numbers were read, if the table was read from texts."""
    if isinstance(table, FileTable):
        return table.reading.signs
    return Signs.of(table) if isinstance(table, pd.DataFrame) else Signs()


def pieces_of(
    table: pd.DataFrame | PiecedTable, columns: Sequence[str] | None = None
) -> Iterator[pd.DataFrame]:
    """The pieces of a table: of a frame, the frame itself."""
    if isinstance(table, PiecedTable):
        yield from table.pieces(columns)
    else:
        yield table if columns is None else table[list(columns)]


def each_piece(
    table: pd.DataFrame | PiecedTable, work: Work, columns: Sequence[str] | None = None
) -> Iterator[Any]:
    """:meth:`PiecedTable.each` of any table.

    >>> list(each_piece(pd.DataFrame({"x": [1, 2]}), lambda piece, first: (len(piece), first)))
    [(2, 0)]
    """
    if isinstance(table, PiecedTable):
        yield from table.each(work, columns)
    else:
        yield work(table if columns is None else table[list(columns)], 0)


class _Copies:
    """Holds what a stack holds for as long as somebody holds it."""

    def __init__(self, stack: ExitStack) -> None:
        weakref.finalize(self, stack.close)


def open_table(
    source: Any,
    *,
    query: str | None = None,
    memory: float | None = None,
    decimal: str | None = None,
    encoding: str | None = None,
) -> pd.DataFrame | PiecedTable:
    """The rows of a table: all of them as a frame, or piece by piece if they would not fit.

    Parameters
    ----------
    source, query, decimal, encoding : as in :func:`auucmax.data.read_table`. CSV, Parquet and JSON
        files, DuckDB databases and what ibis reads are read piece by piece where they are too
        large; a query of DuckDB must give its rows in the same order every time.
    memory : bytes that may be used; default: what the system says is free.

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = Path(folder.name) / "rows.csv"
    >>> _ = path.write_text("age\\n" + "30\\n" * 1000)
    >>> len(open_table(path))
    1000
    >>> table = open_table(path, memory=1000)
    >>> table.n_rows, [len(piece) for piece in table.pieces()]
    (1000, [1000])
    >>> folder.cleanup()
    """
    form = TextForm.checked(decimal, encoding)
    limit = max(free_memory(), _ALWAYS) if memory is None else memory
    if is_elsewhere(source):
        form.check_kind("database", "a database")
        stack = ExitStack()
        copies = _Copies(stack)  # removed with the table, or at the end of this call
        files, name = copied_rows(source, query, stack)
        table = _in_pieces(files, "database", name, COPY, form, limit, copies)
        if WORKING * table.n_bytes > limit:
            return table
        return read_files(files, "database", name, query=COPY)
    if not is_frame(source) and not str(source).startswith(DATABASES):
        files, kind, name = locate_files(str(source), query)
        form.check_kind(kind, name)
        if kind in WORDS and not _surely_fits(files, kind, limit):
            table = _in_pieces(files, kind, name, query, form, limit)
            if WORKING * table.n_bytes > limit:
                return table
    return read_table(source, query=query, decimal=decimal, encoding=encoding)


def _in_pieces(
    files: list[str],
    kind: str,
    name: str,
    query: str | None,
    form: TextForm,
    limit: float,
    copies: _Copies | None = None,
) -> FileTable:
    """The table, whose size is known the better the nearer it is to the limit."""
    stack = ExitStack()
    copies = copies or _Copies(stack)
    with by_duckdb(files, kind, name) as db:
        files = utf8_files(files, form.encoding, stack)
        reading = plan_reading(db, files, kind, name, query=query, decimal=form.decimal)
        ((n_rows,),) = db.sql(f"SELECT count(*) FROM ({reading.sql})").fetchall()
        check_has_rows(n_rows, name)
        # By a cursor of its own: a connection with rows left to fetch answers nothing else.
        with db.cursor() as cursor:
            first = next(reading.pieces(cursor, PIECE_ROWS))
        size = _bytes(first, n_rows)
        settled = reading.settled(db)
        table = FileTable(name, n_rows, size, settled, tuple(files), kind, copies=copies)
        if WORKING * size <= limit:  # the first rows may be short ones: some from all over
            sample = f"SELECT * FROM ({reading.sql}) USING SAMPLE 10000 ROWS (reservoir, 0)"
            rows = table.reading._replace(sql=sample).frame(db)
            table = replace(table, n_bytes=_bytes(rows, n_rows))
    return table


def _surely_fits(files: Sequence[str], kind: str, limit: float) -> bool:
    """Whether texts are so short that there is nothing to look at; other files may unfold."""
    if kind not in ("csv", "json"):
        return False
    packed = any(file.lower().endswith((".gz", ".zst")) for file in files)
    n_bytes = sum(os.path.getsize(file) for file in files)
    return WORKING * (_UNPACKED if packed else _UNFOLDED) * n_bytes < limit


def _bytes(rows: pd.DataFrame, n_rows: int) -> int:
    """About what a frame of ``n_rows`` such rows takes."""
    return int(rows.memory_usage(deep=True).sum() * n_rows / len(rows))


def free_memory() -> float:
    """Bytes that are free here: on Linux as the system and the control group say."""
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
