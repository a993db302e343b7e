"""What is printed: for people, for machines, and as help."""

import json
import re
import subprocess
import sys
from importlib import import_module
from types import FunctionType

import numpy as np
import pandas as pd
import pytest
from tests.cli.commands import FIT, run
from tests.trial_model.trial_table import trial_table
from typer.main import get_command

import auucmax
from auucmax.cli import app
from auucmax.cli.output import as_options

GONE = ("test_share", "calibration_share")  # known only to be told of
COMMANDS = get_command(app).commands
NAMED = "-t arm -y visit --treated mail --control none --ignore person"


def auuc(numbers):
    return "{estimate:.5f} ({lower:.5f} to {upper:.5f})".format(**numbers)


# The command, and numbers of its JSON as the screen writes them.
SHOWN = {
    "check {trial} {named}": lambda n: [
        f"an average effect of {n['detectable_effect']:.4g} would be found 80% of the time",
        n["randomisation"]["verdict"],
    ],
    "fit {trial} {fit} --id person -o {tmp}/m.model": lambda n: [
        auuc(n["auuc"]), "{gain:+.5f} ({gain_lower:+.5f} to {gain_upper:+.5f})".format(**n["auuc"]),
        f"{n['table']['learnt']:,}", f"{n['rows']['n_rows']:,} ({n['rows']['treated']:,} treated)",
        n["certificate"]["text"], n["randomisation"]["verdict"], *n["notes"],
    ],
    "fit {trial} {fit} --hold-out .3 -o {tmp}/m.model": lambda n: [
        auuc(n["auuc"]), f"{n['table']['learnt']:,}", n["certificate"]["text"], *n["notes"],
    ],
    "compare {trial} {named} --splits 2 --models tm,cvt": lambda n: [
        f"{entry['model']}" for entry in n["summary"]
    ] + [f"{pd.DataFrame(n['splits']).query('model == @name')['auuc'].mean():.5f}"
         for name in ("tm", "cvt")],
    "compare {trial} --against {model} --models cvt": lambda n: [
        auuc(entry["auuc"]) for entry in n["models"].values()
    ] + [f"p {n['models']['cvt']['difference']['p_value']:.2g}", n["models"]["cvt"]["verdict"],
         f"AUUC on {n['rows']['n_rows']:,} rows", n["notes"][0]],
    "evaluate {model}": lambda n: [
        auuc(n["auuc"]), f"{n['qini']:.5f}", n["certificate"]["text"], *n["notes"],
    ],
    "evaluate {trial} --score-column spent {named_only}": lambda n: [
        auuc(n["auuc"]), f"{n['rows']['n_rows']:,} rows", n["certificate"]["text"],
    ],
    "target {model} {new} -b 100 --cost .5 --value 3 -o {tmp}/list.csv": lambda n: [
        f"{n['n_treated']:,} of {n['n_people']:,} people", f"cost {n['cost']:,.2f}",
        *("{:,.1f} ({:,.1f} to {:,.1f})".format(*(n["expected"][name + end]
          for end in ("", "_lower", "_upper"))) for name in ("gain", "profit")),
        f"{n['plan']['best']['n_treated']:,} people", n["plan"]["population"],
        f"sum of the uplifts │ {n['uplift']:,.1f}", n["of_uplift"],
    ],
    "report {model} -o {tmp}/r.html": lambda n: [n["headline"]["text"]],
}  # fmt: skip


def no_constant(name):
    raise AssertionError(f"{name} is no JSON")


@pytest.mark.parametrize("line", SHOWN)
def test_json_is_one_document_with_the_numbers_of_the_screen(line, files, tmp_path):
    command = line.format(
        trial=files.trial, new=files.new, model=files.model, tmp=tmp_path, fit=FIT, named=NAMED,
        named_only=NAMED.replace("--ignore person", ""),
    )  # fmt: skip
    plain, shown = run(f"{command} --json"), run(command)
    assert plain.exit_code == shown.exit_code == 0, plain.stderr + shown.stderr
    assert plain.stdout.count("\n") == 1
    notes = (plain.stderr + shown.stderr).splitlines()
    assert all(line.startswith("note: ") for line in notes)  # and no progress
    assert "\x1b" not in shown.stdout + shown.stderr
    found = json.loads(plain.stdout, parse_constant=no_constant)
    screen = " ".join(shown.stdout.split())
    for text in SHOWN[line](found):
        assert " ".join(text.split()) in screen


def test_json_of_the_report_is_what_the_page_holds(files, tmp_path):
    found = run(f"report {files.model} -o {tmp_path}/r.html --json")
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    (embedded,) = re.findall(r'<script type="application/json" id="numbers">(.*?)</script>', page)
    assert json.loads(embedded) == json.loads(found.stdout)


def test_a_cost_is_told_only_if_one_was_given(files, tmp_path):
    command = f"target {files.model} {files.new} -s .3 -o {tmp_path}/list.csv"
    assert "cost" not in run(command).stdout.split("People and cost")[0]
    assert "cost 60.00" in run(f"{command} --cost .2").stdout


def test_the_file_of_the_trial_has_uplifts_that_add_up_to_the_gain(files, tmp_path):
    own = tmp_path / "own.csv"
    pd.read_csv(files.trial).query("arm != 'phone'").to_csv(own, index=False)
    command = f"target {files.model} {own} -s .3 -o {tmp_path}/list.csv"
    found, screen = json.loads(run(f"{command} --json").stdout), run(command).stdout
    total = pd.read_csv(tmp_path / "list.csv")["uplift"].sum()
    assert total == pytest.approx(found["uplift"])
    assert total == pytest.approx(found["expected"]["gain"])
    assert f"sum of the uplifts │ {total:,.1f}" in " ".join(screen.split())
    assert "These are the people of the trial" in screen


def test_an_empty_list_says_why(files, tmp_path):
    command = f"target {files.model} {files.new} -o {tmp_path}/list.csv"
    shown = run(f"{command} --budget .1 --cost .5")
    assert shown.exit_code == 0
    assert "Nobody is chosen: a budget of 0.1 does not pay for one person at 0.5." in shown.stdout
    assert len(pd.read_csv(tmp_path / "list.csv")) == 0


def test_a_comparison_is_shown_whole(files):
    shown = run(f"compare {files.trial} {NAMED} --splits 2 --models tm,cvt").stdout
    assert "..." not in shown.split("Differences to tm:")[1]
    assert "p_holm" in shown
    assert "`auucmax fit --candidates 2` makes its certificate pay for that." in shown
    shown = run(f"compare {files.trial} --against {files.model} --models cvt,mom").stdout
    assert "`auucmax fit --candidates 3` makes its certificate pay for that." in shown


def test_what_has_no_number_is_not_told_as_one(tmp_path):
    """One treated row of nine has no error; a model that fails on every split no difference."""
    rows = "x,t,y\n" + "\n".join(f"{k},{int(k == 7)},{k % 2}" for k in range(9))
    (tmp_path / "one.csv").write_text(rows)
    shown = run(f"check {tmp_path}/one.csv -t t -y y").stdout
    assert "95% interval cannot be said: an arm has one row, or group, only" in shown
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"x": rng.normal(size=400), "t": rng.integers(2, size=400)})
    table.assign(y=rng.gamma(2, size=400)).to_csv(tmp_path / "money.csv", index=False)
    told = run(f"compare {tmp_path}/money.csv -t t -y y --models tm,auucmax --splits 2")
    assert told.exit_code == 0
    for text in (shown, told.stdout):
        assert not re.search(r"\bnan\b", text, re.IGNORECASE)


@pytest.mark.parametrize("name", COMMANDS)
def test_help_describes_every_option(name):
    result = run(f"{name} --help")
    assert result.exit_code == 0
    shown = " ".join(result.stdout.split())
    for option in COMMANDS[name].params:
        if option.name in GONE:
            assert option.hidden
            assert option.opts[0] not in shown
            continue
        assert option.help, option.name
        assert all(spelling in shown for spelling in option.opts if spelling.startswith("-"))
        assert " ".join(option.help.split())[:30] in shown


def test_every_model_is_in_the_help():
    from auucmax.trial_model import MODELS

    (option,) = (option for option in COMMANDS["fit"].params if option.name == "model")
    named = re.sub(r" \(.*?\)", "", option.help.rstrip("."))
    assert set(re.split(r", | or ", named)) == set(MODELS)


def last_line(names, *command):
    """Exit code of a command in a process of its own, and which of some modules it has loaded."""
    code = (
        "import sys\nfrom auucmax.cli import main\n"
        "try:\n    main()\nexcept SystemExit as end:\n"
        f"    print(end.code, [name for name in {names} if name in sys.modules])"
    )
    call = [sys.executable, "-c", code, *map(str, command)]
    done = subprocess.run(call, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()[-1]


def test_help_does_not_wait_for_libraries():
    heavy = ["numpy", "pandas", "scipy", "sklearn", "numba", "matplotlib", "duckdb"]
    assert last_line(heavy, "target", "--help") == "0 []"


def test_report_and_target_wait_only_for_what_they_use(files, tmp_path):
    unused = [
        "torch", "lightgbm", "numba", "matplotlib", "sklearn.ensemble", "sklearn.tree",
        "auucmax.estimators.networks", "auucmax.estimators.lambdamart", "auucmax.compare",
        "auucmax.spark",
    ]  # fmt: skip
    report = ("report", files.model, "-o", tmp_path / "page.html")
    assert last_line([*unused, "duckdb"], *report) == "0 []"
    chosen = ("target", files.model, files.new, "--share", ".3", "-o", tmp_path / "list.csv")
    assert last_line([*unused, "jinja2"], *chosen) == "0 []"


def test_names_that_are_imported_late_are_all_there(monkeypatch):
    assert all(getattr(auucmax, name) is not None for name in auucmax.__all__)
    assert set(auucmax.__all__) <= set(dir(auucmax))
    assert auucmax.data.make_trial is auucmax.make_trial
    with pytest.raises(AttributeError, match="no attribute 'uplift'"):
        auucmax.uplift  # noqa: B018
    # A module that is imported for the first time sets its name on the package.
    monkeypatch.setattr(auucmax, "compare", auucmax.compare)
    monkeypatch.delitem(sys.modules, "auucmax.compare")
    module = import_module("auucmax.compare")
    assert isinstance(auucmax.compare, FunctionType)
    assert auucmax.compare is module.compare


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


def test_a_reader_who_goes_away_is_no_failed_check(files):
    line = (
        f"{sys.executable} -m auucmax check {files.trial} {NAMED} | true; exit ${{PIPESTATUS[0]}}"
    )
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (141, "")


INTERRUPTING = """
import os, signal, sys
from auucmax.__main__ import main

class Interrupts:
    def find_spec(self, name, *rest):
        if name == {name!r}:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupts())
main()
"""


@pytest.mark.parametrize("name", ["typer", "pandas", "auucmax.trial_model.fitting"])
def test_an_interrupt_is_one_line_from_the_start(files, tmp_path, name):
    code = INTERRUPTING.format(name=name)
    call = [sys.executable, "-c", code, "fit", files.trial, *FIT.split(), "-o", tmp_path / "m"]
    done = subprocess.run(call, capture_output=True, text=True, check=False)
    told = "auucmax: interrupted; files are as they were\n"
    assert (done.returncode, done.stderr) == (130, told)


PYTHON_WORDS = re.compile(r"(?<![-\w'\"])(?:[a-z]+_[a-z_]+|groups|ignore|after|selection)=|\bX\b")


def test_every_option_is_told_as_one():
    """A parameter that has an option is told as the option, in every command."""
    not_said = {"data", "files", "new", "output", "help", "as_json", "seed", "jobs", "cohort",
                "candidates", "rivals", "models", "against", "score_column", "everyone", "to",
                "table"}  # fmt: skip
    own = {option.name for command in COMMANDS.values() for option in command.params}
    for name in own - not_said - set(GONE):
        assert as_options(f"{name} should be 1, got 2.") == (
            f"--{name.replace('_', '-')} should be 1, got 2."
        )
        assert as_options(f"Pass {name}='a'.") == f"Pass --{name.replace('_', '-')} a."


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
    check = run(f"check {tmp_path}/t.csv {NAMED} --json")
    fit = run(f"fit {tmp_path}/t.csv {FIT} --id person -o {tmp_path}/m.model --json")
    report = run(f"report {tmp_path}/m.model -o {tmp_path}/p.html --json")
    page = (tmp_path / "p.html").read_text()
    for text in (check.stdout, fit.stdout, report.stdout, page):
        assert "--groups home" in text
        assert not PYTHON_WORDS.findall(re.sub(r"<(script|style).*?</\1>", "", text, flags=re.S))
