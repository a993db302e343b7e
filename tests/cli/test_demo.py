"""``auucmax demo`` and ``--version``."""

import os
import re
import subprocess
import sys

import pytest
from tests.cli.commands import run
from typer.testing import CliRunner

from auucmax import __version__
from auucmax.cli import app


@pytest.mark.gate
def test_demo_goes_from_the_check_to_the_page(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", "from auucmax.cli import main; main()", "demo", "-o", "page.html"],
        cwd=tmp_path, capture_output=True, check=True,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "2000"},
    )  # fmt: skip
    shown = done.stdout.decode()
    assert shown.startswith("Treat 23,484 of 42,693 people (55%)")
    assert len(shown.splitlines()) <= 9
    assert "<svg" in (tmp_path / "page.html").read_text()
    assert [p.name for p in tmp_path.iterdir()] == ["page.html"]
    # No spinner and no colours where the output is no terminal.
    assert "\x1b" not in shown
    assert re.fullmatch(rb"((note: )?fitting auto takes about .*\.\n)?", done.stderr)


def test_a_folder_that_is_not_there(tmp_path):
    for output in (tmp_path / "no" / "curve.png", tmp_path):
        assert run(f"demo -o {output}").exit_code == 2
    assert list(tmp_path.iterdir()) == []


def test_version_and_help():
    assert __version__ in CliRunner().invoke(app, ["--version"]).output
    assert "demo" in CliRunner().invoke(app, ["--help"]).output
