"""Commands in this process, as a user types them."""

import json
from dataclasses import dataclass
from pathlib import Path

from typer.main import get_command
from typer.testing import CliRunner

from auucmax.cli import app

WIDE = {"COLUMNS": "1000", "TERM": "dumb"}  # no line is folded
NAMED = "-t arm -y visit --treated mail --control none"
ALL_BUT_PERSON = f"{NAMED} --ignore person"
FIT = f"{NAMED} -m tm"
GONE = ("test_share", "calibration_share")  # options that are known only to be told of
COMMANDS = get_command(app).commands


def run(line, *more):
    """``auucmax LINE MORE...``; what is no bad input raises."""
    result = CliRunner().invoke(app, [*line.split(), *map(str, more)], env=WIDE)
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


def numbers(line):
    """What a command prints for machines."""
    result = run(f"{line} --json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)
