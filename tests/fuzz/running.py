"""Runs whole commands on odd tables that parse.

A seed makes odd tables and lines of commands on them (``odd_tables.py``, ``odd_lines.py``). (They
are drawn by numpy from the seed: a run is a whole command on a whole table, of which a hypothesis
strategy would try few.) Each command is a run, and a run is right if

* it ends with code 0, 1 or 2, and never by an exception, whatever the table holds;
* with code 2 it says one line; with code 0 or 1 neither its output, nor a page or a list that it
  writes, tells "nan" for a number;
* what it says to people names options, and no parameter of a function, such as hold_out;
* it takes at most 60 seconds of computing.

``run_seed(seed, show=True)`` runs the tables of one seed again and prints the output.
"""

from __future__ import annotations

import json
import re
import signal
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
from tests.fuzz.odd_lines import PRINTED, lines_of

MOST_SECONDS = 60
NOT_A_NUMBER = re.compile(r"(?<![\w])nan(?![\w])", re.IGNORECASE)
#: hold_out, or selection='cv', in no quotes.
PARAMETER = re.compile(
    r"(?<![\w./\\'\"-])(?:[a-z]+_[a-z_]+(?![\w/'\"]|[.]\w)|[a-z]+=(?:['\[(]|None|True|False))"
)
#: Columns of lists that may look like numbers, and be empty: ids, and blocks without strata.
NOT_NUMBERS = ["who", "home", "stratum"]
WIDE = {"COLUMNS": "1000", "TERM": "dumb"}


class HangError(BaseException):
    """No Exception: commands turn those into messages."""


@dataclass
class Found:
    """Counts and failures of some runs."""

    commands: Counter[str] = field(default_factory=Counter)
    codes: Counter[int] = field(default_factory=Counter)
    reached: int = 0  # runs with a fitted model
    fitted: int = 0  # fits that gave one
    slowest: float = 0.0
    failures: list[str] = field(default_factory=list)

    @property
    def runs(self) -> int:
        return self.commands.total()

    def add(self, other: Found) -> None:
        self.commands += other.commands
        self.codes.update(other.codes)
        self.reached += other.reached
        self.fitted += other.fitted
        self.slowest = max(self.slowest, other.slowest)
        self.failures += other.failures


def run_seed(seed: int, *, show: bool = False) -> Found:
    """All commands of a seed, in this process."""
    found = Found()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for line in lines_of(seed, folder):
            start = time.process_time()
            code, output, wrong = run_line(line, folder)
            found.slowest = max(found.slowest, time.process_time() - start)
            found.commands[line[0]] += 1
            found.codes[code] += 1
            found.reached += (folder / "m.model").exists()
            found.fitted += line[0] == "fit" and (folder / "m.model").exists()
            if wrong:
                found.failures.append(f"seed {seed}: auucmax {' '.join(line)}\n{wrong}")
            if show:
                print(f"$ auucmax {' '.join(line)}\n{output}[{code}]\n{wrong}")
    return found


def run_line(line: list[str], folder: Path) -> tuple[int, str, str]:
    """Exit code, output, and what is wrong with them, if anything."""
    from auucmax.cli import app

    try:
        with limited_time():
            done = _runner().invoke(app, line, env=WIDE)
    except HangError:
        return -1, "", f"took over {MOST_SECONDS} s"
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        return -1, done.output, "".join(traceback.format_exception(done.exception))
    (folder / PRINTED).write_text(done.stdout)
    return done.exit_code, done.output, wrong_of(line, done, folder)


@cache
def _runner() -> Any:
    """What runs a line; it makes the command once, which would take a fifth of every run."""
    from typer import testing

    testing._get_command = cache(testing._get_command)  # type: ignore[attr-defined]
    return testing.CliRunner()


def wrong_of(line: list[str], done: Any, folder: Path) -> str:
    """What no user should see."""
    if done.exit_code not in (0, 1, 2):
        return f"exit code {done.exit_code}"
    if hit := PARAMETER.search(done.stderr):
        return f"speaks of {hit[0]}: {done.stderr[-500:]}"
    if done.exit_code == 2:
        errors = [text for text in done.stderr.splitlines() if text.startswith("auucmax:")]
        return "" if len(errors) == 1 else f"{len(errors)} lines of error: {done.stderr[-500:]}"
    for text in shown_by(line, done, folder):
        if hit := NOT_A_NUMBER.search(text):
            return f"tells {text[max(hit.start() - 60, 0) : hit.end() + 20]!r}"
    if "--json" in line and done.exit_code == 0:
        json.loads(done.stdout)
    return ""


def shown_by(line: list[str], done: Any, folder: Path) -> Iterator[str]:
    """What a command tells people: its output, and the page or the list that it wrote."""
    if line[0] != "export":  # SQL may speak of NaN
        # A text of a table is no number.
        yield re.sub(r"'nan'", "", done.stdout)
    if line[0] == "report" and (folder / "page.html").exists():
        page = (folder / "page.html").read_text()
        yield re.sub(r"<(script|style).*?</\1>", "", page, flags=re.DOTALL)
    for file in folder.glob({"target": "list.*", "assign": "assigned.*"}.get(line[0], "no list")):
        people = pd.read_csv(file) if file.suffix == ".csv" else pd.read_parquet(file)
        numbers = people.select_dtypes("float").drop(columns=NOT_NUMBERS, errors="ignore")
        if numbers.isna().to_numpy().any():
            yield f"nan in {file.name}"
        if line[0] == "target":  # a list of `assign` is added to
            file.unlink()


@contextmanager
def limited_time(seconds: float = MOST_SECONDS) -> Iterator[None]:
    """HangError after so many seconds of computing, or ten times as many by the clock.

    Other work may slow a run, but takes none of its computing time.
    """

    def stop(*_: Any) -> None:
        raise HangError(f"it took more than {seconds} seconds")

    timers = {
        signal.ITIMER_PROF: (signal.SIGPROF, seconds),
        signal.ITIMER_REAL: (signal.SIGALRM, 10 * seconds),
    }
    before = {number: signal.signal(number, stop) for number, _ in timers.values()}
    for timer, (_, most) in timers.items():
        signal.setitimer(timer, most)
    try:
        yield
    finally:
        for timer in timers:
            signal.setitimer(timer, 0)
        for number, handler in before.items():
            signal.signal(number, handler)
