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
    names = list(references)
    lines = [_line(["case", "library", "rows", "seconds", "peak MB", *names])]
    for record in records:
        ratios = []
        for name in names:
            rivals = [
                other["seconds"]
                for other in records
                if (other["case"], other["rows"]) == (record["case"], record["rows"])
                and other["library"] in references[name]
                and other["seconds"] is not None
            ]
            known = rivals and record["seconds"] is not None
            ratios.append(f"{record['seconds'] / min(rivals):.2f}" if known else "-")
        seconds = "-" if record["seconds"] is None else f"{record['seconds']:.3f}"
        memory = "-" if record["peak_mb"] is None else f"{record['peak_mb']:.0f}"
        row = [record["case"], record["library"], f"{record['rows']:,}", seconds, memory, *ratios]
        lines.append(_line(row))
    return "\n".join(lines)


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


def _line(cells: list[str]) -> str:
    widths = [12, 28, 12, 9, 9] + [16] * (len(cells) - 5)
    return " ".join(
        cell.ljust(width) if k < 2 else cell.rjust(width)
        for k, (cell, width) in enumerate(zip(cells, widths, strict=True))
    )


if __name__ == "__main__":
    print(json.dumps(measure(Case(**json.loads(sys.argv[1])))))
