import json
import os
import subprocess
import sys

from typer.testing import CliRunner

from auucmax import __version__
from auucmax.cli import app


def test_demo_prints_a_table_and_saves_a_picture(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", "from auucmax.cli import main; main()", "demo", "-o", "curve.png"],
        cwd=tmp_path, capture_output=True, env={**os.environ, "TERM": "xterm"}, check=True,
    )  # fmt: skip
    shown = done.stdout.decode()
    assert "42,693 rows" in shown
    assert "No evidence against randomisation" in shown
    assert "0.0236" in shown  # half the average effect of the test rows
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")
    assert [p.name for p in tmp_path.iterdir()] == ["curve.png"]
    # No spinner and no colours where the output is no terminal.
    assert "\x1b" not in shown
    assert done.stderr == b""


def test_json_has_the_numbers_and_nothing_else_is_printed(tmp_path):
    result = CliRunner().invoke(app, ["demo", "--json", "-o", str(tmp_path / "curve.png")])
    assert result.exit_code == 0
    assert result.stderr == ""
    found = json.loads(result.stdout)
    assert found["trial"]["n_rows"] == 42_693
    assert found["randomisation"]["ok"] is True
    assert f"{found['random_auuc']:.4f}" == "0.0236"
    assert found["file"] == str(tmp_path / "curve.png")
    assert (tmp_path / "curve.png").stat().st_size > 0
    names = ["TM", "CVT", "AUUC-max, bound", "AUUC-max, CV"]
    assert [ranking["ranking"] for ranking in found["rankings"]] == names
    for ranking in found["rankings"]:
        low, high = ranking["auuc"]["interval"]
        assert low < ranking["auuc"]["estimate"] < high
        assert ranking["n_parameters"] > 0
        assert ranking["fit_seconds"] > 0
        assert (ranking["paper_bound"] is not None) == ranking["ranking"].startswith("AUUC-max")


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
