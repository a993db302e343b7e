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
    files = [{(r["benchmark"], r["case"], r["library"], r["rows"]): r for r in own}
             for own in (old, new)]  # fmt: skip
    lines, verdicts = [], []
    for key in {**files[0], **files[1]}:
        before, after = (own.get(key, {}) for own in files)
        benchmark, case, library, rows = key
        change = f"{_seconds(before)} -> {_seconds(after)}"
        if before.get("seconds") is not None and after.get("seconds") is not None:
            change += f" (x {after['seconds'] / before['seconds']:.2f})"
        verdicts.append(verdict(before, after))
        said = f"{benchmark}: {case}, {library}, {rows:,} rows: {change} {verdicts[-1]}"
        lines.append(said.rstrip())
    n_slower, n_failing = verdicts.count(SLOWER), verdicts.count(FAILS)
    n_missing = sum(_seconds(files[1].get(key, {})) == NOT_MEASURED for key in files[0])
    lines.append(
        f"Of {len(verdicts)} calls, {n_slower} have become slower, {n_failing} fail, {n_missing} "
        f"of OLD are not measured in NEW"
    )
    return lines, n_slower + n_failing > 0


def verdict(before: Record, after: Record) -> str:
    """SLOWER (both by 15% and by 0.05 seconds), FAILS, or nothing."""
    if "error" in after:
        return "" if "error" in before else FAILS
    old, new = before.get("seconds"), after.get("seconds")
    if old is None or new is None:
        return ""
    return SLOWER if new > old * (1 + RELATIVE) and new > old + ABSOLUTE else ""


def _seconds(record: Record) -> str:
    if "error" in record:
        return f"failed ({record['error']})"
    seconds = record.get("seconds")
    return NOT_MEASURED if seconds is None else f"{seconds:.3f} s"
