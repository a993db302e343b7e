"""What is printed and written: nothing that steers a terminal or a spreadsheet."""

import re

import numpy as np
import pandas as pd
import pytest
from tests.cli.commands import run
from tests.model.trial_table import trial_table

from auucmax.cli.frame import LONGEST_MESSAGE, tell


def test_a_missing_number_is_not_printed_as_nan(tmp_path):
    """One treated row of nine has no error; a model that fails on every split no difference."""
    rows = "x,t,y\n" + "\n".join(f"{k},{int(k == 7)},{k % 2}" for k in range(9))
    (tmp_path / "one.csv").write_text(rows)
    shown = run(f"check {tmp_path}/one.csv -t t -y y").stdout
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"x": rng.normal(size=400), "t": rng.integers(2, size=400)})
    # Nobody of the control responds: no logistic model of them can be fitted.
    table.assign(y=table["t"] * (rng.random(400) < 0.5)).to_csv(tmp_path / "few.csv", index=False)
    told = run(f"compare {tmp_path}/few.csv -t t -y y --models mom,tm --splits 2")
    assert told.exit_code == 0
    for text in (shown, told.stdout):
        assert not re.search(r"\bnan\b", text, re.IGNORECASE)


FORGED = "The check passes: all fine"


STEERS = f"\x1b]0;owned\x07\x9b2J\u202e\n{FORGED}"


@pytest.fixture(scope="module")
def steering(tmp_path_factory):
    """A trial whose names, labels and file name would steer a terminal, and a model of it."""
    folder = tmp_path_factory.mktemp("steering")
    table = trial_table(3_000, random_state=1)
    table["arm"] = table["arm"].replace({"mail": f"mail{STEERS}"})
    table["town"] = table["town"].replace({"Oslo": f"Oslo{STEERS}"})
    renamed = table.rename(columns={"visit": f"visit{STEERS}", "age": f"age[bold]{STEERS}"})
    renamed.to_parquet(path := folder / f"tr{STEERS}ial.parquet")
    named = ["-t", "arm", "-y", f"visit{STEERS}", "--treated", f"mail{STEERS}", "--control", "none"]
    made = run("fit", path, *named, "-m", "tm", "--id", "person", "-o", folder / f"m{STEERS}")
    assert made.exit_code == 0, made.stderr
    return folder, path, named, made


@pytest.mark.quick_cases("check")
@pytest.mark.parametrize(
    "command",
    [
        "check",
        "wrong",
        "twice",
        "evaluate",
        "evaluate again",
        "target",
        "report",
        "export",
        "usage",
    ],
)
def test_nothing_from_a_file_steers_the_terminal(command, steering):
    folder, path, named, made = steering
    model, out = folder / f"m{STEERS}", folder / f"out{STEERS}.csv"
    result = {
        "check": lambda: run("check", path, *named, "--ignore", "person"),
        "wrong": lambda: run("check", path, "-t", f"no{STEERS}", "-y", f"visit{STEERS}"),
        "twice": lambda: run("check", path, "-t", "arm", "-y", f"age[bold]{STEERS}"),
        "evaluate": lambda: run("evaluate", model),
        "evaluate again": lambda: run("evaluate", model, path),
        "target": lambda: run("target", model, path, "-s", ".3", "-o", out),
        "report": lambda: run("report", model, "-o", out),
        "export": lambda: run("export", model, "--to", "json", "-o", out),
        "usage": lambda: run(f"check{STEERS}"),
    }[command]()
    for shown in (made, result):
        text = shown.stdout + shown.stderr
        assert text
        assert all(c.isprintable() or c == "\n" for c in text), repr(text)
        assert not [line for line in text.splitlines() if line.strip(" │").startswith(FORGED)]


@pytest.mark.gate
def test_ids_that_a_spreadsheet_would_run_give_a_note(files, tmp_path):
    people = pd.read_csv(files.new)
    command = f"target {files.model} {tmp_path}/new.csv --all -s .3 -o {tmp_path}/list"
    people.to_csv(tmp_path / "new.csv", index=False)
    assert "spreadsheet" not in run(f"{command}.csv").stderr
    runs = ["=1+1", "@SUM(A1)", "+HYPERLINK(1)", "-2+3"]
    people.loc[:3, "person"] = runs
    people.loc[4, "person"] = "-5"
    people.to_csv(tmp_path / "new.csv", index=False)
    told = run(f"{command}.csv").stderr
    assert "'person'" in told
    written = pd.read_csv(tmp_path / "list.csv")
    assert set(runs) <= set(written["person"])  # ids stay what they are
    assert "spreadsheet" not in run(f"{command}.parquet").stderr


def test_a_long_text_is_cut_and_its_password_hidden(capsys):
    tell(
        "got "
        + "s" * (LONGEST_MESSAGE - 30)
        + " mysql://me:"
        + "hunter2" * 10
        + "@shop/"
        + "x" * 99
    )
    told = capsys.readouterr().out
    assert "hunter" not in told
    assert len(told) < LONGEST_MESSAGE + 10
    assert "://me:***" in told
