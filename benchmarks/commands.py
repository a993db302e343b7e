"""What a command costs from the shell, of a CSV file of the Hillstrom trial.

User CPU seconds of the whole process, the lowest of three runs, which a busy machine disturbs
least, and their ratio to ``python -c "import sklearn, pandas"``, measured in turn with them.
``functions`` and ``files``: how many functions of the package a command calls, in how many files.
``goal`` is in seconds. The case ``before`` is an earlier commit: ``git worktree add DIR COMMIT``,
then ``python -m benchmarks commands --tree DIR --keep``. Without ``--tree`` this tree is measured,
as the case ``after``.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.harness import ROOT, columns, number, usage_of

RUNS = 3
FIT = "fit hillstrom.csv --treatment mail --outcome visit --model auucmax -o model"
REFERENCE = "import sklearn, pandas"
#: Prints how many functions of the package a command calls, and in how many files.
COUNT = """
import sys, threading
from pathlib import Path
import auucmax
from auucmax.cli import main
home, found = str(Path(auucmax.__file__).parent), set()

def seen(frame, event, _):
    code = frame.f_code
    if event == "call" and code.co_flags & 1 and code.co_filename.startswith(home):
        if not code.co_name.startswith("<"):
            found.add((code.co_filename, code.co_qualname))

threading.setprofile(seen)
sys.setprofile(seen)
try:
    main()
finally:
    sys.setprofile(None)
    print(len(found), len({file for file, _ in found}))
"""
#: Command -> its goal, and command lines: the first that works counts, the newest comes first.
COMMANDS: dict[str, tuple[float, tuple[str, ...]]] = {
    "fit": (4.0, (FIT,)),
    "fit by default": (30.0, (FIT.replace("--model auucmax ", ""),)),
    "report": (2.0, ("report model -o page.html", "report model hillstrom.csv -o page.html")),
    "target": (2.0, ("target model hillstrom.csv --share .3 -o list.csv",)),
    "wrong name": (0.6, (FIT.replace("hillstrom.csv", "absent.csv"),)),
}


def run(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """A record for each command; ``--quick``: one run."""
    root = ROOT if arguments.tree is None else arguments.tree.resolve()
    environment = os.environ | {"PYTHONPATH": str(root / "src")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed package has its bytecode
    with tempfile.TemporaryDirectory() as folder:
        write_table(Path(folder) / "hillstrom.csv")
        place = {"cwd": folder, "env": environment}
        lines = {name: _working(name, lines, place) for name, (_, lines) in COMMANDS.items()}
        calls = {"import": ["-c", REFERENCE]}
        calls |= {name: ["-m", "auucmax", *line.split()] for name, line in lines.items()}
        seconds: dict[str, list[float]] = {name: [] for name in calls}
        for _ in range(1 if arguments.quick else RUNS):
            for name, call in calls.items():
                seconds[name].append(user_seconds(call, place))
        counts = {name: count_calls(line.split(), place) for name, line in lines.items()}
    best = {name: min(found) for name, found in seconds.items()}
    return [
        {
            "benchmark": "commands",
            "case": "after" if arguments.tree is None else "before",
            "commit": commit_of(root),
            "command": name,
            "line": f"auucmax {lines[name]}" if name in lines else f'python -c "{REFERENCE}"',
            "seconds": best[name],
            "ratio": best[name] / best["import"],
            "functions": counts[name][0] if name in counts else None,
            "files": counts[name][1] if name in counts else None,
            "goal": COMMANDS[name][0] if name in COMMANDS else None,
        }
        for name in calls
    ]


def table_of(records: list[dict[str, Any]]) -> str:
    """Seconds, ratio and goal of each command."""
    header = ["tree", "command", "user s", "to imports", "goal", "functions", "files"]
    rows = [
        [f"{record['case']} ({record['commit']})", record["command"],
         number(record["seconds"], 2), number(record["ratio"], 2), number(record["goal"], 1),
         *(str(record.get(what) or "-") for what in ("functions", "files"))]
        for record in records
    ]  # fmt: skip
    shown = dict.fromkeys(f"{record['command']}: {record['line']}" for record in records)
    return "\n".join([columns(header, rows, n_texts=2), "", *shown])


def write_table(path: Path) -> None:
    """42,693 customers with numbers and texts, as a person would have them."""
    from auucmax import load_hillstrom

    trial = load_hillstrom(encoding="raw")
    mail = (trial.treatment != trial.control).astype(int)
    trial.X.assign(mail=mail, visit=trial.y.astype(int)).to_csv(path, index=False)


def user_seconds(call: list[str], place: dict[str, Any]) -> float:
    """User CPU seconds of Python with these arguments, children included."""
    return float(usage_of(call, place)[1].ru_utime)


def count_calls(words: list[str], place: dict[str, Any]) -> list[int]:
    """How many functions of the package a command calls, and in how many files."""
    done = subprocess.run(
        [sys.executable, "-c", COUNT, *words], **place, capture_output=True, text=True, check=False
    )
    return [int(number) for number in done.stdout.splitlines()[-1].split()]


def _working(name: str, lines: tuple[str, ...], place: dict[str, Any]) -> str:
    """The first line that ends as it should; files that it writes stay for later commands."""
    for line in lines:
        call = [sys.executable, "-m", "auucmax", *line.split()]
        done = subprocess.run(call, **place, capture_output=True, text=True, check=False)
        if (done.returncode == 0) == (name != "wrong name"):
            return line
    raise RuntimeError(f"auucmax {lines[-1]} should run, got {done.stderr}. Adapt COMMANDS.")


def commit_of(root: Path) -> str:
    """The commit of a tree, as git describes it."""
    command = ["git", "-C", str(root), "describe", "--always", "--dirty"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "no commit"
