"""Commands in this process, as a user types them."""

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from typer import testing

from auucmax.cli import app

# Commands are made once: typer would make all of them again for each line, which takes as long as
# most lines do.
testing._get_command = cache(testing._get_command)

WIDE = {"COLUMNS": "1000", "TERM": "dumb"}  # no line is folded
NAMED = "-t arm -y visit --treated mail --control none"
ALL_BUT_PERSON = f"{NAMED} --ignore person"
FIT = f"{NAMED} -m tm"
COMMANDS = testing._get_command(app).commands


def run(line, *more):
    """``auucmax LINE MORE...``; what is no bad input raises."""
    result = testing.CliRunner().invoke(app, [*line.split(), *map(str, more)], env=WIDE)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


@dataclass(frozen=True)
class Files:
    """A trial, people of later, and models of the trial, with ids and without."""

    folder: Path
    trial: Path
    new: Path
    model: Path
    model_without_id: Path


def result_of(line):
    """The typed result that a command prints for machines."""
    return numbers(line)["result"]


def numbers(line):
    """All that a command prints for machines."""
    result = run(f"{line} --json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)
