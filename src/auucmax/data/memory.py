"""Estimate how many rows of a table fit into memory."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pandas as pd

#: Name of an environment variable with the megabytes that may be used, instead of the free ones.
SETTING = "AUUCMAX_MEMORY_MB"
_PART = 4  # a table may take a quarter of the memory; a fit takes about three times as much
_ALWAYS = 2**28  # bytes that may be used whatever is free
#: Bytes of a table, at most, for a byte of a text file; and for one of a packed one.
_UNFOLDED, _UNPACKED = 24.0, 240.0
_ELSEWHERE = 4 * 2**30  # bytes, where the system does not say how much is free


def surely_fits(files: Sequence[str], kind: str) -> bool:
    """Whether text files are so small that memory need not be checked."""
    n_bytes = sum(
        os.path.getsize(file) * (_UNPACKED if file.lower().endswith((".gz", ".zst")) else _UNFOLDED)
        for file in files
    )
    return kind in ("csv", "json") and _PART * n_bytes < usable_memory()


def most_rows(some: pd.DataFrame) -> int:
    """Number of rows like ``some`` that fit into a quarter of the memory.

    A row counts as read, and as the numbers of double precision in which a fit encodes it.
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
