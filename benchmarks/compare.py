"""``python -m benchmarks compare OLD NEW``: two JSON files of records, call by call.

A call has become slower if it takes both 15% and 0.05 seconds longer: small calls vary by more than
15%, long ones by more than 0.05 seconds. It fails if it was tried in NEW and did not run, though it
did not fail in OLD. The exit code is 1 if one has become slower or fails. A call that was measured
in one file only is listed, and changes nothing.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

RELATIVE, ABSOLUTE = 0.15, 0.05
SLOWER, FAILS, NOT_MEASURED = "SLOWER", "FAILS", "not measured"

Key = tuple[str, str, str, int]
Record = dict[str, Any]


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks compare", description=__doc__)
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    given = parser.parse_args(arguments)
    lines, is_worse = compared(*(json.loads(path.read_text()) for path in (given.old, given.new)))
    print("\n".join(lines))
    return int(is_worse)


def compared(old: list[Record], new: list[Record]) -> tuple[list[str], bool]:
    """A line for each call and one for all, and whether some have become slower or fail.

    >>> call = {"benchmark": "fit", "case": "a", "library": "ours", "rows": 1}
    >>> lines, is_worse = compared([call | {"seconds": 1.0}], [call | {"seconds": 1.2}])
    >>> print("\\n".join(lines))
    fit: a, ours, 1 rows: 1.000 s -> 1.200 s (x 1.20) SLOWER
    Of 1 calls, 1 have become slower, 0 fail, 0 of OLD are not measured in NEW
    """
    before, after = _by_call(old), _by_call(new)
    calls = dict.fromkeys([*before, *after])
    verdicts = {key: verdict(before.get(key, {}), after.get(key, {})) for key in calls}
    lines = []
    for key, found in verdicts.items():
        benchmark, case, library, rows = key
        told = f"{_told(before.get(key, {}))} -> {_told(after.get(key, {}))}"
        if _both_ran(before.get(key, {}), after.get(key, {})):
            told += f" (x {after[key]['seconds'] / before[key]['seconds']:.2f})"
        flag = f" {found}" if found else ""
        lines.append(f"{benchmark}: {case}, {library}, {rows:,} rows: {told}{flag}")
    n_slower, n_failing = (sum(v == flag for v in verdicts.values()) for flag in (SLOWER, FAILS))
    n_missing = sum(_told(after.get(key, {})) == NOT_MEASURED for key in before)
    lines.append(
        f"Of {len(calls)} calls, {n_slower} have become slower, {n_failing} fail, {n_missing} of "
        f"OLD are not measured in NEW"
    )
    return lines, n_slower + n_failing > 0


def verdict(before: Record, after: Record) -> str:
    """SLOWER, FAILS, or nothing; of a call that a file has no record of, an empty one."""
    if "error" in after:
        return "" if "error" in before else FAILS
    if _both_ran(before, after) and is_slower(before["seconds"], after["seconds"]):
        return SLOWER
    return ""


def is_slower(before: float, after: float) -> bool:
    """Both by 15% and by 0.05 seconds."""
    return after > before * (1 + RELATIVE) and after > before + ABSOLUTE


def _both_ran(before: Record, after: Record) -> bool:
    return before.get("seconds") is not None and after.get("seconds") is not None


def _by_call(records: list[Record]) -> dict[Key, Record]:
    return {(r["benchmark"], r["case"], r["library"], r["rows"]): r for r in records}


def _told(record: Record) -> str:
    if "error" in record:
        return f"failed ({record['error']})"
    seconds = record.get("seconds")
    return NOT_MEASURED if seconds is None else f"{seconds:.3f} s"
