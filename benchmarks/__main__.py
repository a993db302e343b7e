"""``python -m benchmarks NAME [--keep]``: print a table, write the records.

``python -m benchmarks all --quick``: every benchmark at its smallest size; nothing is written.

``python -m benchmarks commands --tree DIR``: measure the tree of an earlier commit, as the case
"before".

``--keep`` commits to the numbers: records and table go to ``benchmarks/results`` and the page
``docs/benchmarks.md`` is made anew from all that is there.
"""

from __future__ import annotations

import argparse
import importlib
import json
import platform
import re
import sys
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

from benchmarks.harness import run_cases, table_of

NAMES = (
    "metrics", "fit", "ensemble", "scoring", "certify", "baselines", "scale", "commands", "arms",
    "install",
)  # fmt: skip
PACKAGES = (
    "auucmax", "numpy", "numba", "pandas", "scikit-learn", "scikit-uplift", "causalml", "lightgbm",
    "duckdb", "pyarrow", "pyspark",
)  # fmt: skip


ROOT = Path(__file__).resolve().parent.parent
RESULTS, PAGE = ROOT / "benchmarks" / "results", ROOT / "docs" / "benchmarks.md"
GUIDE, INSTALL = ROOT / "docs" / "guide" / "scale.md", ROOT / "docs" / "install.md"
MARKS = "(<!-- figures of benchmarks {} -->).*?(<!-- end of figures -->)"


_HEAD = """\
# Benchmarks

Made by `python -m benchmarks NAME --keep`. Each library runs in a separate process; seconds are
the median of five calls after a warm-up (three, if one takes over two seconds; the warm-up alone,
if over 100), peak memory is that above the data. Compare numbers within a case of a table only:
they come from one run on one machine, by the command that the table names.

To see them on your machine, from the source tree:

    pip install -e '.[test,bench]' && python -m benchmarks all --quick

runs every benchmark at its smallest size, prints the tables and writes nothing; what is not
installed is named and left out. `python -m benchmarks NAME` runs one of them in full.
"""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("name", choices=(*NAMES, "all"), help="all: one after the other")
    parser.add_argument("--quick", action="store_true", help="the smallest size only")
    parser.add_argument("--keep", action="store_true", help="write results and page")
    parser.add_argument("--tree", type=Path, help="of commands: an earlier commit")
    parser.add_argument("--only", help="this case; the others of the kept results stay")
    arguments = parser.parse_args()
    if arguments.name != "all":
        measure(arguments)
        return 0
    if given := [f"--{name}" for name in ("keep", "tree", "only") if vars(arguments)[name]]:
        parser.error(f"all should come without {', '.join(given)}: name one benchmark for that")
    return measure_all(arguments)


def measure_all(arguments: argparse.Namespace) -> int:
    """Every benchmark in its turn; 1 if one did not run, the others run all the same."""
    failed = []
    for name in NAMES:
        print(f"\n== {name}", flush=True)
        try:
            measure(argparse.Namespace(**{**vars(arguments), "name": name}))
        except Exception as error:
            print(f"did not run: {type(error).__name__}: {error}")
            failed.append(name)
    print(f"\n{len(NAMES) - len(failed)} of {len(NAMES)} benchmarks ran")
    return int(bool(failed))


def measure(arguments: argparse.Namespace) -> None:
    """One benchmark: its table on the screen, and its records and page where they are asked for."""
    name = arguments.name
    module = importlib.import_module(f"benchmarks.{name}")
    run = run_of(sys.argv[1:])
    records = [record | {"run": run} for record in measured(module, arguments)]
    if arguments.keep and (arguments.only is not None or hasattr(module, "run")):
        records = kept_with(name, records)
    own = module.table_of(records) if hasattr(module, "run") else table_of(
        records, module.REFERENCES
    )  # fmt: skip
    table = "\n".join([*heads(records), "", own])
    print("\n" + table)
    if arguments.keep:
        RESULTS.mkdir(exist_ok=True)
        write(RESULTS / f"{name}.json", json.dumps(records, indent=1) + "\n")
        write(RESULTS / f"{name}.txt", table + "\n")
        write(PAGE, page())
        write_more(name, records)


def measured(module: ModuleType, arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Records of cases in the harness, or of a module that measures in its own way."""
    if hasattr(module, "run"):
        return list(module.run(arguments))
    cases = [
        case for case in module.cases(quick=arguments.quick) if arguments.only in (None, case.case)
    ]
    return run_cases(cases, benchmark=arguments.name)


def run_of(arguments: list[str]) -> dict[str, str]:
    """What each record of a run remembers of it; where another tree is, is nobody's business."""
    named = ["DIR" if before == "--tree" else a for before, a in pairwise(["", *arguments])]
    return {
        "command": " ".join(["python -m benchmarks", *named]),
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "machine": f"{platform.machine()}, {_cores()} cores",
        "versions": _versions(),
    }


def heads(records: list[dict[str, Any]]) -> list[str]:
    """How records were measured, two lines a run; of several runs, with the cases of each.

    >>> run = {"command": "a", "date": "b", "machine": "c", "versions": "d"}
    >>> both = [{"case": "fit", "run": run}, {"case": "pass", "run": run | {"versions": "e"}}]
    >>> heads(both[:1]), heads(both)
    (['a, b', 'c, d'], ['a, b: fit', 'c, d', 'a, b: pass', 'c, e'])
    """
    runs: list[dict[str, str]] = []
    for record in records:
        if record["run"] not in runs:
            runs.append(record["run"])
    lines = []
    for run in runs:
        cases = dict.fromkeys(record["case"] for record in records if record["run"] == run)
        which = f": {', '.join(cases)}" if len(runs) > 1 else ""
        lines.append(f"{run['command']}, {run['date']}{which}")
        lines.append(f"{run['machine']}, {run['versions']}")
    return lines


def kept_with(name: str, new: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The kept records, each with the run that it is from, and new ones of whole cases."""
    kept = RESULTS / f"{name}.json"
    old = json.loads(kept.read_text()) if kept.exists() else []
    measured = {record["case"] for record in new}
    place = next((k for k, record in enumerate(old) if record["case"] in measured), len(old))
    others = [record for record in old if record["case"] not in measured]
    return others[:place] + new + others[place:]


def page() -> str:
    """The page of all kept results."""
    parts = [_HEAD]
    for name in NAMES:
        kept = RESULTS / f"{name}.txt"
        if kept.exists():
            module = importlib.import_module(f"benchmarks.{name}")
            text = kept.read_text()
            if hasattr(module, "summary"):
                records = json.loads(kept.with_suffix(".json").read_text())
                text += f"\n{module.summary(records)}\n"
            about = (module.__doc__ or "").strip()
            parts.append(f"## {name}\n\n{about}\n\n```text\n{text}```\n")
    return "\n".join(parts)


def write_more(name: str, records: list[dict[str, Any]]) -> None:
    """The figures of a benchmark on another page, between two marks."""
    if name == "install":
        from benchmarks.install import summary_table

        write(INSTALL, with_figures(INSTALL.read_text(), name, summary_table(records)))
    if name == "scale":
        from benchmarks.scale import guide

        write(GUIDE, with_figures(GUIDE.read_text(), name, guide(records)))


def with_figures(text: str, name: str, figures: str) -> str:
    """The text of a page with other figures of a benchmark between its marks.

    >>> with_figures("a <!-- figures of benchmarks x --> 1 <!-- end of figures --> b", "x", "2")
    'a <!-- figures of benchmarks x -->\\n\\n2\\n\\n<!-- end of figures --> b'
    """
    marks = re.compile(MARKS.format(name), re.DOTALL)
    (_, *others) = marks.findall(text)
    assert not others  # a page has one place for figures of a benchmark
    return marks.sub(lambda found: f"{found[1]}\n\n{figures}\n\n{found[2]}", text)


def write(path: Path, text: str) -> None:
    """Whole or not at all."""
    beside = path.with_name(path.name + ".part")
    beside.write_text(text)
    beside.replace(path)


def _cores() -> int:
    import os

    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _versions() -> str:
    found = [f"Python {platform.python_version()}"]
    for package in PACKAGES:
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            found.append(f"{package} not installed")
    return ", ".join(found)


if __name__ == "__main__":
    raise SystemExit(main())
