"""What is printed and written: nothing that steers a terminal or a spreadsheet."""

import re

import numpy as np
import pandas as pd
import pytest
from tests.cli.commands import ALL_BUT_PERSON, COMMANDS, FIT, run
from tests.model.trial_table import trial_table

from auucmax.cli.output import LONGEST_MESSAGE, as_options, print_result, tell, telling


def test_what_has_no_number_is_not_told_as_one(tmp_path):
    """One treated row of nine has no error; a model that fails on every split no difference."""
    rows = "x,t,y\n" + "\n".join(f"{k},{int(k == 7)},{k % 2}" for k in range(9))
    (tmp_path / "one.csv").write_text(rows)
    shown = run(f"check {tmp_path}/one.csv -t t -y y").stdout
    assert "95% interval cannot be said: an arm has one row, or group, only" in shown
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"x": rng.normal(size=400), "t": rng.integers(2, size=400)})
    # Nobody of the control responds: no logistic model of them can be fitted.
    table.assign(y=table["t"] * (rng.random(400) < 0.5)).to_csv(tmp_path / "few.csv", index=False)
    told = run(f"compare {tmp_path}/few.csv -t t -y y --models mom,tm --splits 2")
    assert told.exit_code == 0
    for text in (shown, told.stdout):
        assert not re.search(r"\bnan\b", text, re.IGNORECASE)


def test_how_much_a_result_tells(capsys):
    def told(**amount):
        with telling(**amount):
            print_result(
                "It works.", {"gain": "+1"}, cautions=["Few rows."],
                details={"gain": "+1", "AUUC": "2"}, notes=["By folds."], written=["Written."],
            )  # fmt: skip
        return capsys.readouterr().out

    assert told(quiet=True) == "It works.\nFew rows.\n"
    lines = ["It works.", " gain  +1", "Few rows.", "Written.", "`--details` tells more."]
    assert told().splitlines() == lines
    whole = told(details=True)
    assert whole.startswith("It works.\n")
    for words in ("AUUC", "Few rows.", "By folds.", "Written."):
        assert words in whole
    with pytest.raises(ValueError, match="--details or --quiet should be given, got both"):
        told(details=True, quiet=True)


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
def test_ids_that_a_spreadsheet_would_run_are_said(files, tmp_path):
    people = pd.read_csv(files.new)
    command = f"target {files.model} {tmp_path}/new.csv --all -s .3 -o {tmp_path}/list"
    people.to_csv(tmp_path / "new.csv", index=False)
    assert "spreadsheet" not in run(f"{command}.csv").stderr
    runs = ["=1+1", "@SUM(A1)", "+HYPERLINK(1)", "-2+3"]
    people.loc[:3, "person"] = runs
    people.loc[4, "person"] = "-5"
    people.to_csv(tmp_path / "new.csv", index=False)
    told = run(f"{command}.csv").stderr
    assert "takes for formulas and runs ('person' 4)" in told
    written = pd.read_csv(tmp_path / "list.csv")
    assert set(runs) <= set(written["person"])  # ids stay what they are
    assert "spreadsheet" not in run(f"{command}.parquet").stderr


PYTHON_WORDS = re.compile(r"(?<![-\w'\"])(?:[a-z]+_[a-z_]+|groups|ignore|after|selection)=|\bX\b")


def test_every_option_is_told_as_one():
    """A parameter that has an option is told as the option, in every command."""
    not_said = {"data", "files", "new", "output", "help", "as_json", "seed", "jobs",
                "candidates", "rivals", "models", "against", "score_column", "everyone", "to",
                "exclude", "table", "people", "rows", "add", "sql", "picture", "page",
                "currency", "reasons", "n_arms", "details", "quiet"}  # fmt: skip
    own = {option.name for command in COMMANDS.values() for option in command.params}
    for name in own - not_said:
        assert as_options(f"{name} should be 1, got 2.") == (
            f"--{name.replace('_', '-')} should be 1, got 2."
        )
        assert as_options(f"Pass {name}='a'.") == f"Pass --{name.replace('_', '-')} a."


def test_parameters_are_told_as_options_wherever_they_stand():
    for message, told in (
        ("cost or cost_column should be given, got both.", "--cost or --cost-column should be"),
        ("base_rate + effect should lie between", "--base-rate + --effect should lie between"),
        ("at_least should not be above at_most, got", "--at-least should not be above --at-most,"),
        ("n_rows should be a whole number", "--rows should be a whole number"),
        ("Pass outcome_sd, too, if", "Pass --outcome-sd, too, if"),
        ("Fit it with random_state=3.", "Fit it with --seed 3."),
    ):
        assert told in as_options(message)
        assert told in as_options(f"auucmax: {message}")
    # So does English.
    assert as_options("people should stay in one arm.") == "people should stay in one arm."
    # Names of columns and files stay what they are.
    for text in (
        "got the column 'at_most'.",
        "Written to a/cost_column.csv.",
        "model_2.csv at_mosts",
    ):
        assert as_options(text) == text


@pytest.mark.gate
def test_machines_and_the_page_are_told_options(tmp_path, files):
    rng = np.random.default_rng(0)
    table = pd.read_csv(files.trial).query("arm != 'phone'")
    home = np.arange(len(table)) // 2
    arm = np.where(rng.random(home.max() + 1) < 0.5, "mail", "none")[home]
    visit = table["visit"].to_numpy()
    asked = table.assign(
        home=home, arm=arm, said=np.where(rng.random(len(table)) < 0.07, 1 - visit, visit)
    )
    asked.to_csv(tmp_path / "t.csv", index=False)
    check = run(f"check {tmp_path}/t.csv {ALL_BUT_PERSON} --json")
    fit = run(f"fit {tmp_path}/t.csv {FIT} --id person -o {tmp_path}/m.model --json")
    report = run(f"report {tmp_path}/m.model -o {tmp_path}/p.html --json")
    page = (tmp_path / "p.html").read_text()
    for text in (check.stdout, fit.stdout, report.stdout, page):
        assert "--groups home" in text
        assert not PYTHON_WORDS.findall(re.sub(r"<(script|style).*?</\1>", "", text, flags=re.S))


def test_a_long_text_is_cut_and_its_password_is_not_told(capsys):
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
