"""Run (trial, model, split) tasks in parallel processes, and keep a JSON line for each.

A line is written as soon as it is known, in the order of the tasks, so a run that was killed
continues where it stopped: tasks whose line is there are skipped, a torn last line is dropped and
done again. A line that was made with other parameters than the task has now is replaced.

An experiment is a module with

    tasks(splits)       all tasks, at most ``splits`` splits a trial
    parameters(task)    what the task would run with, as in its line
    run(task)           the line, a dictionary
    render(lines)       Markdown, a pure function of the lines
    draw(lines)         a figure, if it has a picture

and, where it applies, ``summary(lines)`` and ``claims(lines)`` for the first page and
``probe(trial)``, which raises DataNotFoundError if a trial is not there.

Nothing here imports numpy: worker processes are limited to one thread before they do.
"""

from __future__ import annotations

import fcntl
import importlib
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

Line = dict[str, Any]

NAMES = (
    "datasets", "table-1", "hillstrom-linear", "defaults", "arena", "cu2", "jobs", "ihdp",
    "bounds-figure", "tightness", "coverage", "progressive", "intervals", "money", "monitor",
    "arms", "power",
)  # fmt: skip

FOLDER = Path(__file__).resolve().parent
RESULTS = FOLDER / "results"
ONE_THREAD = dict.fromkeys(
    ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1"
)


class Task(NamedTuple):
    """One model on one split of one trial; the split is named by its seed."""

    experiment: str
    trial: str
    model: str
    split: int


def task_of(line: Line) -> Task:
    """The task that a line is the result of."""
    return Task(*(line[name] for name in Task._fields))


def module_of(experiment: str) -> Any:
    """The module of an experiment: ``hillstrom-linear`` is ``experiments.hillstrom_linear``."""
    return importlib.import_module(f"experiments.{experiment.replace('-', '_')}")


def results_file(experiment: str, folder: Path = RESULTS) -> Path:
    return folder / f"{experiment}.jsonl"


def read_lines(path: Path) -> list[Line]:
    """The whole lines of a file, the last one of each task; none if it is not there."""
    if not path.exists():
        return []
    text = path.read_text(encoding="utf-8")
    lines = [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]
    return list({task_of(line): line for line in lines}.values())


def write_text(path: Path, text: str) -> None:
    """Write beside and rename, so that a killed run leaves the old file whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(path.name + ".part")
    beside.write_text(text, encoding="utf-8")
    beside.replace(path)


def write_lines(path: Path, lines: Iterable[Line]) -> None:
    write_text(path, "".join(_as_text(line) for line in lines))


def run_tasks(
    tasks: Sequence[Task],
    path: Path,
    *,
    run: Callable[[Task], Line],
    parameters: Callable[[Task], Any],
    jobs: int = 2,
) -> int:
    """Do the tasks that have no line yet, and append theirs; returns how many were done."""
    wanted = {task: _plain(parameters(task)) for task in tasks}
    path.parent.mkdir(parents=True, exist_ok=True)
    with _alone(path):
        lines = read_lines(path)
        kept = {
            task_of(line): line
            for line in lines
            if wanted.get(task_of(line), line["parameters"]) == line["parameters"]
        }
        if len(kept) < len(lines) or _is_torn(path):
            write_lines(path, kept.values())
        missing = [task for task in tasks if task not in kept]
        with path.open("a", encoding="utf-8") as file, _mapper(jobs) as do:
            for done, line in enumerate(do(run, missing), start=1):
                file.write(_as_text(line))
                file.flush()
                if sys.stderr.isatty():
                    print(f"\r  {done}/{len(missing)} done", end="", file=sys.stderr, flush=True)
    return len(missing)


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """One run at a time on a file of lines; a second one would lose or double some."""
    with path.with_name(f".{path.name}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise RuntimeError(
                f"{path.name} should be written by one run at a time, and another one is at it. "
                f"Wait for it, or stop it."
            ) from error
        yield


@contextmanager
def _mapper(jobs: int) -> Iterator[Callable[..., Iterable[Line]]]:
    """``map`` in this process, or over processes; lines come in the order of the tasks."""
    if jobs == 1:
        yield map
        return
    # Set here, inherited there: a fresh process reads them when it imports numpy.
    before = os.environ.copy()
    os.environ.update(ONE_THREAD)
    pool = ProcessPoolExecutor(jobs, mp_context=get_context("spawn"))
    try:
        yield pool.map
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
        for name in ONE_THREAD.keys() - before.keys():
            del os.environ[name]
        os.environ.update(before)


def _as_text(line: Line) -> str:
    return json.dumps(line, allow_nan=False) + "\n"


def _plain(value: Any) -> Any:
    """What comes back when a value has been written and read."""
    return json.loads(json.dumps(value))


def _is_torn(path: Path) -> bool:
    return path.exists() and not path.read_bytes().endswith(b"\n") and path.stat().st_size > 0
