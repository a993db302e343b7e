"""``python -m experiments NAME``: run what is missing, keep JSON lines, write the pages of results.

These are docs/results.md and, for each experiment, a page in docs/results/.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import time
from pathlib import Path
from types import ModuleType

from experiments.harness import (
    ONE_THREAD,
    RESULTS,
    Task,
    module_of,
    read_lines,
    results_file,
    run_tasks,
    write_text,
)

NAMES = (
    "datasets",
    "table-1",
    "hillstrom-linear",
    "defaults",
    "arena",
    "cu2",
    "jobs",
    "ihdp",
    "bounds-figure",
    "tightness",
    "coverage",
    "progressive",
    "intervals",
    "money",
    "monitor",
    "arms",
    "power",
)
#: Experiment -> the module that draws its lines, and the file.
PICTURES = {
    "table-1": ("parameters_picture", "parameters.png"),
    "arena": ("arena_page", "arena.png"),
    "jobs": ("jobs_page", "jobs.png"),
    "bounds-figure": ("bounds_picture", "bounds.png"),
}
DOCS = RESULTS.parent.parent / "docs"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m experiments", description=__doc__)
    parser.add_argument("name", choices=(*NAMES, "all"), help="all: one after the other")
    parser.add_argument("--jobs", type=int, default=2, help="processes (default 2)")
    parser.add_argument("--splits", type=int, help="at most so many splits a trial")
    parser.add_argument(
        "--minutes", type=float, help="stop after so long; the same command goes on from there"
    )
    parser.add_argument("--render", action="store_true", help="only write the pages from the lines")
    options = parser.parse_args(arguments)
    if options.jobs < 1 or (options.splits is not None and options.splits < 1):
        parser.error("--jobs and --splits should be at least 1")
    if options.minutes is not None and options.minutes <= 0:
        parser.error("--minutes should be above 0")
    os.environ.update(ONE_THREAD)
    deadline = None if options.minutes is None else time.monotonic() + 60 * options.minutes
    if not options.render:
        for name in NAMES if options.name == "all" else [options.name]:
            try:
                run_experiment(name, splits=options.splits, jobs=options.jobs, deadline=deadline)
            except KeyboardInterrupt:
                print(f"\n{name}: stopped; the same command goes on from here", file=sys.stderr)
                return 130
    # Late: it imports numpy, which reads the number of threads.
    from experiments.page import render_pages

    pages = render_pages()
    for address, text in pages.items():
        write_text(DOCS / address, text)
    print(f"wrote docs/{', docs/'.join(pages)}")
    draw_pictures(DOCS / "images")
    return 0


def run_experiment(
    name: str,
    *,
    splits: int | None = None,
    jobs: int = 2,
    folder: Path = RESULTS,
    deadline: float | None = None,
) -> None:
    """Run the tasks of an experiment that have no line, on the trials that are there."""
    module, path = module_of(name), results_file(name, folder)
    tasks = _possible(module.tasks(splits), module)
    done, left = run_tasks(
        tasks, path, run=module.run, parameters=module.parameters, jobs=jobs, deadline=deadline
    )
    rest = f"{left} are left: run it again" if left else "the others were there"
    print(f"{name}: {done} of {len(tasks)} done now, {rest} ({path.name})")


def draw_pictures(folder: Path, results: Path = RESULTS) -> None:
    """The pictures of the pages, from the same lines; the same lines give the same file."""
    for name, (module, file) in PICTURES.items():
        if lines := read_lines(results_file(name, results)):
            folder.mkdir(parents=True, exist_ok=True)
            figure = importlib.import_module(f"experiments.{module}").draw(lines)
            figure.savefig(folder / file, dpi=150, metadata={"Software": None})
            print(f"wrote {file}")


def _possible(tasks: list[Task], module: ModuleType | None = None) -> list[Task]:
    """Tasks whose trial can be loaded; the others are named once.

    A module with trials of its own has a ``probe(trial)`` that loads one.
    """
    from experiments.trials import probe, why_missing

    load = getattr(module, "probe", probe)
    reasons = {t: why_missing(load, t) for t in dict.fromkeys(task.trial for task in tasks)}
    for trial, reason in reasons.items():
        if reason is not None:
            print(f"skipped {trial}: {reason}", file=sys.stderr)
    return [task for task in tasks if reasons[task.trial] is None]


if __name__ == "__main__":
    raise SystemExit(main())
