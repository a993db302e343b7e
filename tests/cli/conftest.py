"""Small files of a made-up trial, and models that the command itself fitted on them."""

from dataclasses import dataclass
from pathlib import Path

import pytest
from typer.testing import CliRunner

from auucmax.cli import app
from tests.trial_model.trial_table import trial_table

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


@pytest.fixture(scope="session")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trial")
    found = Files(
        folder, *(folder / name for name in ("trial.csv", "new.csv", "m.model", "n.model"))
    )
    table = trial_table(4_000, random_state=3)
    table.iloc[:3_000].to_csv(found.trial, index=False)
    table.iloc[3_000:].drop(columns=["arm", "visit"]).to_csv(found.new, index=False)
    for line in (f"--id person -o {found.model}", f"--ignore person -o {found.model_without_id}"):
        result = run(f"fit {found.trial} {FIT} {line}")
        assert result.exit_code == 0, result.output
    return found
