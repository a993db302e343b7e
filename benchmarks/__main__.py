"""``python -m benchmarks NAME [--json FILE]``: print a table, write the records."""

from __future__ import annotations

import argparse
import importlib
import json
import platform
import sys
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from benchmarks.harness import print_table, run_cases

NAMES = ("metrics",)
PACKAGES = ("auucmax", "numpy", "pandas", "scikit-learn", "scikit-uplift", "causalml")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("name", choices=NAMES)
    parser.add_argument("--json", type=Path, help="write the list of records to this file")
    parser.add_argument("--quick", action="store_true", help="the smallest size only")
    arguments = parser.parse_args()
    module = importlib.import_module(f"benchmarks.{arguments.name}")
    print(f"{' '.join(['python -m benchmarks', *sys.argv[1:]])}, {datetime.now(UTC):%Y-%m-%d}")
    print(f"{platform.machine()}, {_cores()} cores, {_versions()}")
    records = run_cases(module.cases(quick=arguments.quick), benchmark=arguments.name)
    print_table(records, module.REFERENCES)
    if arguments.json:
        text = json.dumps(records, indent=1)
        beside = arguments.json.with_name(arguments.json.name + ".part")
        beside.write_text(text + "\n")
        beside.replace(arguments.json)
    return 0


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
