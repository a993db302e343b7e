"""Whether a table fits into memory: how many bytes it takes, and how many are free."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pandas as pd

from auucmax._errors import InputError

#: Bytes that the rows of a fit take at their peak, for a byte of the frame of them: in a frame of
#: float32, which are encoded as float64, about so many; in others fewer.
WORKING = 10.0
_ALWAYS = 2**28  # bytes that a table may take whatever is free
#: Bytes of a frame, at most, for a byte of a text file; and for one of a packed one.
_UNFOLDED, _UNPACKED = 12.0, 120.0
_ELSEWHERE = 4 * 2**30  # bytes, where the system does not say how much is free


def surely_fits(files: Sequence[str], kind: str) -> bool:
    """Whether text files are so short that no rows need to be looked at; other files may unfold."""
    if kind not in ("csv", "json"):
        return False
    packed = any(file.lower().endswith((".gz", ".zst")) for file in files)
    n_bytes = sum(os.path.getsize(file) for file in files)
    return WORKING * (_UNPACKED if packed else _UNFOLDED) * n_bytes < usable_memory()


def check_fits(some: pd.DataFrame, n_rows: int, name: str) -> None:
    """Raise an InputError if ``n_rows`` rows such as ``some`` are too many to work with in memory.

    >>> check_fits(pd.DataFrame({"age": [30.0, 40.0]}), 1_000, "rows.csv")
    """
    n_bytes = some.memory_usage(deep=True, index=False).sum() * n_rows / max(len(some), 1)
    if WORKING * n_bytes > (limit := usable_memory()):
        raise InputError(
            name,
            f"a table that fits into memory, of at most {_size(limit / WORKING)} as a frame "
            f"({_size(limit)} are free, and a fit takes about {WORKING:g} times the frame)",
            f"{n_rows:,} rows and {some.shape[1]:,} columns, about {_size(n_bytes)}",
            "Pass fewer rows or columns, or fit where the rows are: "
            "AUUCMax().fit(stream_table(...)) or auucmax.spark.",
        )


def usable_memory() -> float:
    """Bytes that a table and the work on it may take."""
    return max(free_memory(), _ALWAYS)


def free_memory() -> float:
    """Bytes that are free: on Linux according to the system and the control group."""
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


def _size(n_bytes: float) -> str:
    return f"{n_bytes / 1e9:,.1f} GB" if n_bytes > 1e9 else f"{n_bytes / 1e6:,.0f} MB"
