"""What a newcomer has to do and to read for ten answers, now and in an earlier version.

``python docs/tasks.py BEFORE`` runs the commands by the source of this folder and by that of
BEFORE, another working tree, and writes the page docs/newcomer.md.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

DOCS = Path(__file__).resolve().parent
PAGE = DOCS / "newcomer.md"
COLUMNS = 100  #: of the screen


class Task(NamedTuple):
    """A question, how many commands lead to its answer from the file of the trial, and the last.

    ``earlier`` is how a version is asked that does not take the command.
    """

    question: str
    n_commands: int
    command: str
    earlier: str = ""


_NAMED = "-t mail -y visit --id customer"
TASKS = (
    Task("Was it a trial?", 1, f"check trial.csv {_NAMED}"),
    Task("The same on a page?", 1, f"check trial.csv {_NAMED} --page check.html"),
    Task("Whom does it help?", 1, f"fit trial.csv {_NAMED} -m tm -o m.auucmax"),
    Task("How good is the ranking?", 2, "evaluate m.auucmax", "evaluate m.auucmax trial.csv"),
    Task("Who are the next 30%?", 2, "target m.auucmax new.csv --share 0.3 -o list.csv"),
    Task("Why they?", 2, "target m.auucmax new.csv --share 0.3 --reasons -o list.csv"),
    Task("What does it bring?", 2,
         "target m.auucmax new.csv --budget 1000 --cost 0.5 --value 12 -o list.csv"),
    Task("What do I show, and print?", 2, "report m.auucmax --cost 0.5 --value 12 -o page.html",
         "report m.auucmax trial.csv --cost 0.5 --value 12 -o page.html"),
    Task("How large must the next trial be?", 2, "plan --model m.auucmax"),
    Task("Was the campaign worth it?", 3,
         "verify campaign.csv --list list.csv --propensity chance --model m.auucmax"),
)  # fmt: skip


class Run(NamedTuple):
    """Seconds of a processor that a command took, and the lines that it printed."""

    seconds: float
    lines: int


def write_files(folder: Path) -> None:
    """The trial of the package as the files of a newcomer."""
    from auucmax import load_hillstrom

    trial, new = load_hillstrom(encoding="raw").split(test_size=0.2, random_state=0)
    table = trial.X.assign(mail=trial.treatment, visit=trial.y, customer=range(trial.n_rows))
    table.to_csv(folder / "trial.csv", index=False)
    people = new.X.assign(customer=range(100_000, 100_000 + new.n_rows))
    people.to_csv(folder / "new.csv", index=False)
    after = people.assign(chance=0.5, mail=new.treatment, visit=new.y)
    after.to_csv(folder / "campaign.csv", index=False)


def run(command: str, tree: Path, folder: Path) -> Run | None:
    """One command by the source of a tree; None if that does not have it."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    # An earlier version may need libraries that this one does not: PYTHONPATH can name them.
    paths = [str(tree / "src"), *filter(None, [os.environ.get("PYTHONPATH")])]
    done = subprocess.run(
        [sys.executable, "-m", "auucmax", *command.split()],
        cwd=folder, capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), "COLUMNS": str(COLUMNS)},
    )  # fmt: skip
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        return None
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    # A line that is wider than the screen is read as several.
    shown = (done.stdout + done.stderr).splitlines()
    return Run(seconds, sum(max(1, -(-len(line) // COLUMNS)) for line in shown))


def measure(tree: Path) -> list[Run | None]:
    """All tasks, in a new folder."""
    with tempfile.TemporaryDirectory() as name:
        write_files(Path(name))
        return [
            run(task.command, tree, Path(name))
            or (run(task.earlier, tree, Path(name)) if task.earlier else None)
            for task in TASKS
        ]


def page(now: list[Run | None], before: list[Run | None], label: str) -> str:
    """The page, from what was measured.

    >>> print(page([Run(2.0, 6)] * 10, [None] * 10, "abc").splitlines()[-1][-39:])
    model m.auucmax` | - | - | 3 | 2.0 | 6 |
    """
    rows = []
    for task, new, old in zip(TASKS, now, before, strict=True):
        own = [
            f"{one.seconds:.1f} | {one.lines}" if one is not None else "- | -" for one in (old, new)
        ]
        cells = task.question, f"`auucmax {task.command}`", own[0], str(task.n_commands), own[1]
        rows.append(f"| {' | '.join(cells)} |")
    both = [(o, n) for o, n in zip(before, now, strict=True) if o is not None and n is not None]
    old, new = (sum(pair[k].lines for pair in both) for k in (0, 1))
    lines = [
        "# Ten answers, and what they take",
        "",
        f"Written by `python docs/tasks.py BEFORE`: {label} is the version before, `-` what it "
        f"could not answer. *Commands* counts from the file of the trial (Hillstrom's, 34,155 "
        f"rows, two logistic models); *seconds* are those of a processor, for the last command "
        f"with all that it loads; *lines* are what it prints on a screen of {COLUMNS} columns. "
        f"`evaluate` and `report` of the version before needed the file of the trial, too. "
        f"The {len(both)} answers that both versions give take {new} lines in place of {old}.",
        "",
        "| question | last command | seconds before | lines before | commands | seconds | lines |",
        "| --- | --- | --- | --- | --- | --- | --- |",
        *rows,
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    other = Path(sys.argv[1]).resolve()
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"],
        cwd=other, capture_output=True, text=True, check=True,
    ).stdout.strip()  # fmt: skip
    PAGE.write_text(page(measure(DOCS.parent), measure(other), f"`{commit}`"))
    print(f"wrote {PAGE.relative_to(DOCS.parent)}")
