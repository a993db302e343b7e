"""Seconds that a command takes from the shell, of a CSV file of the Hillstrom trial.

User CPU seconds of the whole process, the lowest of three runs, which a busy machine disturbs
least, and their ratio to ``python -c "import sklearn, pandas"``, measured in turn with them.
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

ROOT = Path(__file__).resolve().parent.parent
RUNS = 3
FIT = "fit hillstrom.csv --treatment mail --outcome visit --model auucmax -o model"
REFERENCE = "import sklearn, pandas"
#: Command -> its goal, and command lines: the first that works counts, the newest comes first.
COMMANDS: dict[str, tuple[float, tuple[str, ...]]] = {
    "fit": (4.0, (FIT,)),
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
            "goal": COMMANDS[name][0] if name in COMMANDS else None,
        }
        for name in calls
    ]


def table_of(records: list[dict[str, Any]]) -> str:
    """Seconds, ratio and goal of each command."""
    lines = [f"{'tree':<28} {'command':<12} {'user s':>8} {'to imports':>12} {'goal':>6}"]
    for record in records:
        tree = f"{record['case']} ({record['commit']})"
        goal = "-" if record["goal"] is None else f"{record['goal']:.1f}"
        numbers = f"{record['seconds']:>8.2f} {record['ratio']:>12.2f} {goal:>6}"
        lines.append(f"{tree:<28} {record['command']:<12} {numbers}")
    shown = dict.fromkeys(f"{record['command']}: {record['line']}" for record in records)
    return "\n".join([*lines, "", *shown])


def write_table(path: Path) -> None:
    """42,693 customers with numbers and texts, as a person would have them."""
    from auucmax import load_hillstrom

    trial = load_hillstrom(encoding="raw")
    mail = (trial.treatment != trial.control).astype(int)
    trial.X.assign(mail=mail, visit=trial.y.astype(int)).to_csv(path, index=False)


def user_seconds(call: list[str], place: dict[str, Any]) -> float:
    """User CPU seconds of Python with these arguments, children included."""
    null = subprocess.DEVNULL
    process = subprocess.Popen([sys.executable, *call], **place, stdout=null, stderr=null)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return usage.ru_utime


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
