"""``python -m benchmarks compare OLD NEW``: two JSON files of records, call by call.

A call has become slower if it takes both 15% and 0.05 seconds longer: small calls vary by more than
15%, long ones by more than 0.05 seconds. The exit code is 1 if one has.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

RELATIVE, ABSOLUTE = 0.15, 0.05

Key = tuple[str, str, str, int]


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks compare", description=__doc__)
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    given = parser.parse_args(arguments)
    old, new = (_seconds(json.loads(path.read_text())) for path in (given.old, given.new))
    lines, n_slower = compared(old, new)
    print("\n".join(lines))
    return 1 if n_slower else 0


def compared(old: dict[Key, float | None], new: dict[Key, float | None]) -> tuple[list[str], int]:
    """A line for each call, and how many have become slower.

    >>> before, after = {("fit", "a", "ours", 1): 1.0}, {("fit", "a", "ours", 1): 1.2}
    >>> lines, n_slower = compared(before, after)
    >>> print(lines[0])
    fit: a, ours, 1 rows: 1.000 s -> 1.200 s (x 1.20) SLOWER
    """
    lines, n_slower = [], 0
    for key in [*old, *(key for key in new if key not in old)]:
        benchmark, case, library, rows = key
        before, after = old.get(key), new.get(key)
        name = f"{benchmark}: {case}, {library}, {rows:,} rows"
        if before is None or after is None:
            lines.append(f"{name}: {_told(before)} -> {_told(after)}")
            continue
        slower = is_slower(before, after)
        n_slower += slower
        told = f"{_told(before)} -> {_told(after)} (x {after / before:.2f})"
        lines.append(f"{name}: {told}{' SLOWER' * slower}")
    lines.append(f"{n_slower} of {len(lines)} have become slower")
    return lines, n_slower


def is_slower(before: float, after: float) -> bool:
    """Both by 15% and by 0.05 seconds."""
    return after > before * (1 + RELATIVE) and after > before + ABSOLUTE


def _seconds(records: list[dict[str, Any]]) -> dict[Key, float | None]:
    return {(r["benchmark"], r["case"], r["library"], r["rows"]): r["seconds"] for r in records}


def _told(seconds: float | None) -> str:
    return "not measured" if seconds is None else f"{seconds:.3f} s"
