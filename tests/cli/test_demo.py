import json
import os
import re
import subprocess
import sys

import pytest
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
    assert "No evidence against randomisation" in shown
    # What to do comes first, then what is known: the effect, the gain, what of it is certain.
    chosen = "E-mail the 30% with the highest scores, 12,808 of 42,693 customers"
    assert shown.startswith(chosen)
    gain = re.search(r"gain over a random order +\+0\.00\d+ \(\+0\.00\d+ to \+0\.0\d+\)", shown)
    certain = re.search(r"certified gain +at least \+0\.00[2-9]", shown)
    assert shown.index("effect of treating everybody") < gain.start() < certain.start()
    assert re.search(r"other models +.*response", shown)
    assert len(shown.splitlines()) <= 9
    assert "<svg" in (tmp_path / "page.html").read_text()
    assert [p.name for p in tmp_path.iterdir()] == ["page.html"]
    # No spinner and no colours where the output is no terminal.
    assert "\x1b" not in shown
    assert re.fullmatch(rb"((note: )?fitting auto takes about .*\.\n)?", done.stderr)


@pytest.mark.gate
def test_json_has_the_numbers_and_nothing_else_is_printed(tmp_path):
    page = tmp_path / "page.html"
    result = CliRunner().invoke(app, ["demo", "--json", "-m", "tm", "-o", str(page)])
    assert result.exit_code == 0
    assert result.stderr == ""
    found = json.loads(result.stdout)
    assert found["trial"]["n_rows"] == 42_693
    assert found["evidence"]["randomisation"]["ok"] is True
    assert found["evidence"]["certificate"]["gain_lower_bound"] > 0
    assert found["model"]["model"] == "tm"
    assert found["file"] == str(page)
    assert page.stat().st_size > 0


def test_a_folder_that_is_not_there(tmp_path):
    result = CliRunner().invoke(app, ["demo", "-o", str(tmp_path / "no" / "curve.png")])
    assert result.exit_code == 2
    assert "the folder of the output should exist" in result.stderr
    result = CliRunner().invoke(app, ["demo", "-o", str(tmp_path)])
    assert result.exit_code == 2
    assert "should be a file, got the folder" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_version_and_help():
    assert __version__ in CliRunner().invoke(app, ["--version"]).output
    assert "demo" in CliRunner().invoke(app, ["--help"]).output
