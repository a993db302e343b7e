"""``python -m experiments NAME``: run what is missing, keep JSON lines, write the pages of results.

These are docs/results.md and, for each experiment, a page in docs/results/.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from experiments.harness import (
    NAMES,
    ONE_THREAD,
    RESULTS,
    module_of,
    read_lines,
    results_file,
    run_tasks,
    write_text,
)

#: Experiment -> the file of its picture.
PICTURES = {
    "table-1": "parameters.png",
    "arena": "arena.png",
    "jobs": "jobs.png",
    "bounds-figure": "bounds.png",
}
DOCS = RESULTS.parent.parent / "docs"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m experiments", description=__doc__)
    parser.add_argument("name", choices=(*NAMES, "all"), help="all: one after the other")
    parser.add_argument("--jobs", type=int, default=2, help="processes (default 2)")
    parser.add_argument("--splits", type=int, help="at most so many splits a trial")
    parser.add_argument("--render", action="store_true", help="only write the pages from the lines")
    options = parser.parse_args(arguments)
    if options.jobs < 1 or (options.splits is not None and options.splits < 1):
        parser.error("--jobs and --splits should be at least 1")
    os.environ.update(ONE_THREAD)
    if not options.render:
        for name in NAMES if options.name == "all" else [options.name]:
            try:
                run_experiment(name, splits=options.splits, jobs=options.jobs)
            except KeyboardInterrupt:
                print(f"\n{name}: stopped; the same command continues from here", file=sys.stderr)
                return 130
    # Late: it imports numpy, which reads the number of threads.
    from experiments.first_page import render_pages

    pages = render_pages()
    for address, text in pages.items():
        write_text(DOCS / address, text)
    print(f"wrote docs/{', docs/'.join(pages)}")
    draw_pictures(DOCS / "images")
    return 0


def run_experiment(
    name: str, *, splits: int | None = None, jobs: int = 2, folder: Path = RESULTS
) -> None:
    """Run the tasks of an experiment that have no line, on the trials that are there."""
    from experiments.trials import available

    module, path = module_of(name), results_file(name, folder)
    tasks = available(module.tasks(splits), getattr(module, "probe", None))
    done = run_tasks(tasks, path, run=module.run, parameters=module.parameters, jobs=jobs)
    print(f"{name}: {done} of {len(tasks)} done now, the others were there ({path.name})")


def draw_pictures(folder: Path, results: Path = RESULTS) -> None:
    """The pictures of the pages, from the same lines; the same lines give the same file."""
    for name, file in PICTURES.items():
        if lines := read_lines(results_file(name, results)):
            folder.mkdir(parents=True, exist_ok=True)
            figure = module_of(name).draw(lines)
            figure.savefig(folder / file, dpi=150, metadata={"Software": None})
            print(f"wrote {file}")


if __name__ == "__main__":
    raise SystemExit(main())
