"""Run each case in a process of its own; time it warm, and watch its memory.

A case is (case name, library, rows, features, module:function, arguments). The function is called
once with the arguments to set up and returns a callable; that is called once to warm up and then
five times, or three if it takes long; if it takes very long, the warm-up is all. ``seconds`` is the
median, ``peak_mb`` the highest resident memory during one more call, above what was resident before
it, and ``resident_mb`` the highest in all.
"""

from __future__ import annotations

import importlib
import json
import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

RUNS = 5
LONG = 2.0  # seconds; calls that take longer are timed three times
VERY_LONG = 100.0  # and those once
ROOT = Path(__file__).resolve().parent.parent


class Case(NamedTuple):
    case: str
    library: str
    rows: int
    features: int
    function: str
    arguments: dict[str, Any]


def run_cases(cases: Iterable[Case], *, benchmark: str) -> list[dict[str, Any]]:
    """Measure all cases, one process at a time; a case that cannot run has seconds None."""
    records = []
    for case in cases:
        print(f"  {case.case:<12} {case.library:<28} {case.rows:>12,} rows", flush=True, end="")
        command = [sys.executable, "-m", "benchmarks.harness", json.dumps(case._asdict())]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        measured: dict[str, Any] = {"seconds": None, "peak_mb": None, "resident_mb": None}
        if done.returncode == 0:
            measured = json.loads(done.stdout.splitlines()[-1])
            print(f"  {measured['seconds']:9.3f} s  {measured['peak_mb']:8.0f} MB")
        else:
            measured["error"] = (done.stderr.strip().splitlines() or ["no output"])[-1]
            print(f"  did not run: {measured['error']}")
        fields = {k: v for k, v in case._asdict().items() if k not in ("function", "arguments")}
        records.append({"benchmark": benchmark, **fields, **measured})
    return records


def table_of(records: list[dict[str, Any]], references: dict[str, list[str]]) -> str:
    """Each record with its time as a ratio to the best of each group of reference libraries."""
    rows = []
    for record in records:
        ratios: list[float | None] = []
        for rivals in references.values():
            best = [
                other["seconds"]
                for other in records
                if (other["case"], other["rows"]) == (record["case"], record["rows"])
                and other["library"] in rivals
                and other["seconds"] is not None
            ]
            known = best and record["seconds"] is not None
            ratios.append(record["seconds"] / min(best) if known else None)
        names = [record["case"], record["library"], f"{record['rows']:,}"]
        numbers = [number(record["seconds"], 3), number(record["peak_mb"], 0)]
        rows.append([*names, *numbers, *(number(ratio, 2) for ratio in ratios)])
    return columns(["case", "library", "rows", "seconds", "peak MB", *references], rows, n_texts=2)


def number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:,.{digits}f}"


def columns(header: list[str], rows: list[list[str]], *, n_texts: int) -> str:
    """A table of text: some columns of texts, aligned to the left, and others of numbers.

    >>> print(columns(["case", "s"], [["fit", "1.25"]], n_texts=1))
    case     s
    fit   1.25
    """
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    lines = [
        "  ".join(
            cell.ljust(width) if place < n_texts else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in [header, *rows]
    ]
    return "\n".join(lines)


def usage_of(call: list[str], place: dict[str, Any]) -> tuple[int, Any]:
    """Exit code, and time and memory of Python with these arguments, children included."""
    null = subprocess.DEVNULL
    process = subprocess.Popen([sys.executable, *call], **place, stdout=null, stderr=null)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode, usage


def measure(case: Case) -> dict[str, Any]:
    """Set up, warm up, time; called in the child process."""
    module, function = case.function.split(":")
    call = getattr(importlib.import_module(module), function)(**case.arguments)
    with _MemoryWatch() as watch:
        start = time.perf_counter()
        call()
        warm_up = time.perf_counter() - start
    seconds = [warm_up] if warm_up > VERY_LONG else []
    for _ in range(0 if seconds else RUNS if warm_up < LONG else 3):
        start = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - start)
    if warm_up <= VERY_LONG:
        with _MemoryWatch() as watch:  # apart: looking costs time
            call()
    return {
        "seconds": statistics.median(seconds),
        "peak_mb": watch.peak_mb,
        "resident_mb": watch.resident_mb,
    }


class _MemoryWatch:
    """Highest resident memory above that at the start, sampled every 2 ms."""

    def __enter__(self) -> _MemoryWatch:
        import psutil

        self._process = psutil.Process()
        self._before = self._highest = self._process.memory_info().rss
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        self._thread.join()

    def _sample(self) -> None:
        while not self._stop.wait(0.002):
            self._highest = max(self._highest, self._process.memory_info().rss)

    @property
    def resident_mb(self) -> float:
        return self._highest / 1e6

    @property
    def peak_mb(self) -> float:
        return (self._highest - self._before) / 1e6


if __name__ == "__main__":
    print(json.dumps(measure(Case(**json.loads(sys.argv[1])))))
