import os
import subprocess
import sys

from typer.testing import CliRunner

from auucmax import __version__
from auucmax.cli import app


def test_demo_prints_a_table_and_saves_a_picture(tmp_path):
    picture = tmp_path / "curve.png"
    result = CliRunner().invoke(app, ["demo", "-o", str(picture)])
    assert result.exit_code == 0, result.output
    assert "42,693 rows" in result.output
    assert "No evidence against randomisation" in result.output
    assert "0.0236" in result.output  # half the average effect of the test rows
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert [p.name for p in tmp_path.iterdir()] == ["curve.png"]


def test_a_folder_that_is_not_there(tmp_path):
    result = CliRunner().invoke(app, ["demo", "-o", str(tmp_path / "no" / "curve.png")])
    assert result.exit_code == 2
    assert "there is no folder" in " ".join(result.output.split())
    result = CliRunner().invoke(app, ["demo", "-o", str(tmp_path)])
    assert result.exit_code == 2
    assert "is a folder" in " ".join(result.output.split())
    assert list(tmp_path.iterdir()) == []


def test_version_and_help():
    assert __version__ in CliRunner().invoke(app, ["--version"]).output
    assert "demo" in CliRunner().invoke(app, ["--help"]).output


def test_no_spinner_when_the_output_is_no_terminal(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", "from auucmax.cli import main; main()", "demo", "-o", "c.png"],
        cwd=tmp_path, capture_output=True, env={**os.environ, "TERM": "xterm"}, check=True,
    )  # fmt: skip
    assert b"\x1b" not in done.stdout
    assert done.stderr == b""
