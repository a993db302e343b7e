"""Commands in this process, as a user types them."""

from dataclasses import dataclass
from pathlib import Path

from typer.testing import CliRunner

from auucmax.cli import app

WIDE = {"COLUMNS": "1000", "TERM": "dumb"}  # no line is folded
FIT = "-t arm -y visit --treated mail --control none -m tm"


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
