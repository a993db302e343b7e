"""Options that several commands share: each is described."""

import os
import re
import subprocess
import sys

import pytest
from tests.cli.commands import COMMANDS, run
from typer.testing import CliRunner

from auucmax.cli import app


@pytest.mark.parametrize("name", COMMANDS)
def test_help_describes_every_option(name):
    result = run(f"{name} --help")
    assert result.exit_code == 0
    shown = " ".join(result.stdout.split())
    for option in COMMANDS[name].params:
        assert option.help, option.name
        assert all(spelling in shown for spelling in option.opts if spelling.startswith("-"))
        assert " ".join(option.help.split())[:30] in shown


@pytest.mark.parametrize("name", COMMANDS)
def test_help_fits_80_columns_and_flags_take_nothing(name):
    result = CliRunner().invoke(app, [name, "--help"], env={"COLUMNS": "80", "TERM": "dumb"})
    lines = result.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert not re.search(r"<\w+>", result.stdout)
    assert not [line for line in lines if line.strip("│ ") in ("[default:", "[required")]


@pytest.mark.gate_cases("given1")
@pytest.mark.parametrize(("given", "expected"), [({}, 1), ({"OPENBLAS_NUM_THREADS": "2"}, 2)])
def test_a_command_multiplies_matrices_in_one_thread_unless_told_otherwise(given, expected):
    code = (
        "from contextlib import suppress\n"
        "from auucmax.cli import main\n"
        "with suppress(SystemExit): main()\n"
        "import numpy, threadpoolctl\n"
        "print(*(one['num_threads'] for one in threadpoolctl.threadpool_info()))"
    )
    own = {name: told for name, told in os.environ.items() if not name.endswith("_NUM_THREADS")}
    call = [sys.executable, "-c", code, "--version"]
    done = subprocess.run(call, env=own | given, capture_output=True, text=True, check=True)
    assert int(done.stdout.split()[-1]) == min(expected, os.cpu_count() or 1)
