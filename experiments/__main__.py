"""``python -m experiments NAME``: run what is missing, keep JSON lines, write docs/results.md."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

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

NAMES = ("hillstrom-linear", "table-1", "defaults", "coverage", "bounds-figure", "tightness")
PAGE = Path("docs") / "results.md"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m experiments", description=__doc__)
    parser.add_argument("name", choices=NAMES, nargs="?", help="all, one after the other, if none")
    parser.add_argument("--jobs", type=int, default=2, help="processes (default 2)")
    parser.add_argument("--splits", type=int, help="at most so many splits a trial")
    parser.add_argument("--render", action="store_true", help="only write the page from the lines")
    options = parser.parse_args(arguments)
    if options.jobs < 1 or (options.splits is not None and options.splits < 1):
        parser.error("--jobs and --splits should be at least 1")
    os.environ.update(ONE_THREAD)
    if not options.render:
        for name in [options.name] if options.name else NAMES:
            try:
                run_experiment(name, splits=options.splits, jobs=options.jobs)
            except KeyboardInterrupt:
                print(f"\n{name}: stopped; the same command goes on from here", file=sys.stderr)
                return 130
    # Late: it imports numpy, which reads the number of threads.
    from experiments.page import render_page

    page = RESULTS.parent.parent / PAGE
    write_text(page, render_page())
    print(f"wrote {PAGE}")
    draw_pictures(page.parent / "images")
    return 0


def run_experiment(
    name: str, *, splits: int | None = None, jobs: int = 2, folder: Path = RESULTS
) -> None:
    """Run the tasks of an experiment that have no line, on the trials that are there."""
    module, path = module_of(name), results_file(name, folder)
    tasks = _possible(module.tasks(splits))
    done = run_tasks(tasks, path, run=module.run, parameters=module.parameters, jobs=jobs)
    print(f"{name}: {done} of {len(tasks)} done now, the others were there ({path.name})")


def draw_pictures(folder: Path, results: Path = RESULTS) -> None:
    """The pictures of the page, from the same lines; the same lines give the same file."""
    from experiments.bounds_picture import draw

    lines = read_lines(results_file("bounds-figure", results))
    if lines:
        folder.mkdir(parents=True, exist_ok=True)
        draw(lines).savefig(folder / "bounds.png", dpi=150, metadata={"Software": None})
        print("wrote bounds.png")


def _possible(tasks: list[Task]) -> list[Task]:
    """Tasks whose trial can be loaded; the others are named once."""
    from experiments.trials import HILLSTROM, SOCIAL_PRESSURE, whole, why_missing

    reasons = {
        trial: why_missing(trial) if whole(trial) in HILLSTROM + SOCIAL_PRESSURE else None
        for trial in dict.fromkeys(task.trial for task in tasks)
    }
    for trial, reason in reasons.items():
        if reason is not None:
            print(f"skipped {trial}: {reason}", file=sys.stderr)
    return [task for task in tasks if reasons[task.trial] is None]


if __name__ == "__main__":
    raise SystemExit(main())
