"""What is printed: for people, for machines, and as help."""

import json
import subprocess
import sys

import pandas as pd
import pytest
from tests.cli.commands import ALL_BUT_PERSON, COMMANDS, FIT, NAMED, run
from tests.cli.days import LOOK, running
from tests.model.trial_table import trial_table

import auucmax

LINES = [
    "check {trial} {named}",
    "fit {trial} {fit} --id person -o {tmp}/m.model",
    "fit {trial} {fit} --hold-out .3 -o {tmp}/m.model",
    "compare {trial} {named} --splits 2 --models tm,cvt",
    "compare {trial} --against {model} --models cvt",
    "evaluate {model}",
    "evaluate {trial} --score-column spent {named_only}",
    "target {model} {new} -b 100 --cost .5 --value 3 -o {tmp}/list.csv",
    "report {model} -o {tmp}/r.html",
    "plan --base-rate .1 --effect .02 --gain .005",
]


def no_constant(name):
    raise AssertionError(f"{name} is no JSON")


@pytest.mark.quick_cases("evaluate {model", "target", "check")
@pytest.mark.parametrize("line", LINES)
def test_one_result_as_lines_as_a_verdict_and_as_json(line, files, tmp_path):
    command = line.format(
        trial=files.trial, new=files.new, model=files.model, tmp=tmp_path, fit=FIT,
        named=ALL_BUT_PERSON, named_only=NAMED,
    )  # fmt: skip
    plain, shown, whole, quiet = (
        run(f"{command} {more}") for more in ("--json", "", "--details", "--quiet")
    )
    for result in (plain, shown, whole, quiet):
        assert result.exit_code == 0, result.stderr
        assert all(text.startswith("note: ") for text in result.stderr.splitlines())
        assert "\x1b" not in result.stdout + result.stderr
    assert plain.stdout.count("\n") == 1
    found = json.loads(plain.stdout, parse_constant=no_constant)
    brief = found["brief"]
    first, *lines = shown.stdout.splitlines()
    assert first == brief["verdict"] == quiet.stdout.splitlines()[0]
    assert 1 <= sum(text.startswith(" ") for text in lines) <= 7
    assert len(shown.stdout.splitlines()) <= len(whole.stdout.splitlines())
    # --quiet leaves the verdict and the caveats.
    assert len(quiet.stdout.splitlines()) == 1 + len(brief["caveats"])
    assert set(quiet.stdout.splitlines()) <= set(shown.stdout.splitlines())
    assert shown.stdout.count("Saved ") == (found["file"] is not None)


# What other commands print, and what a failed check prints; with exit codes.
OTHERS = {
    "export {model} --to sql": 0,
    "assign {new} --id person --key k --arms none=.5,mail=.5 -o {tmp}/a.csv": 0,
    "monitor {days} {looked} --state {tmp}/s --as-of 2026-01-16": 0,
    "monitor {days} {looked} --state {tmp}/t --treated-share .9 --as-of 2026-06-01": 1,
    "verify {biased} --chosen member -m {model}": 1,
    "check {biased} {named}": 1,
    "fit {biased} {fit} --id person -o {tmp}/n.model": 1,
    "compare {biased} {named} --models tm": 1,
    "evaluate {biased} --score-column spent {named_only}": 0,
    "fit {biased} {fit} --despite-check --ignore person -o {tmp}/w.model": 0,
    "evaluate {tmp}/w.model": 0,
    "target {tmp}/w.model {new} -s .2 -o {tmp}/list.csv": 0,
    "report {tmp}/w.model -o {tmp}/r.html": 0,
}


@pytest.mark.gate
def test_json_is_one_object_whatever_happens(files, tmp_path):
    table = trial_table(3_000, random_state=8)
    kept = (table["arm"] != "mail") | (table["age"] > 55) | (table.index % 6 == 0)
    table["person"] = "b" + table["person"]
    table[kept].to_csv(tmp_path / "biased.csv", index=False)
    running().to_csv(tmp_path / "days.csv", index=False)
    for line, code in OTHERS.items():
        command = line.format(
            new=files.new, model=files.model, tmp=tmp_path, fit=FIT, named=ALL_BUT_PERSON,
            named_only=NAMED, biased=tmp_path / "biased.csv", days=tmp_path / "days.csv",
            looked=LOOK,
        )  # fmt: skip
        result = run(f"{command} --json")
        assert result.exit_code == code, (line, result.output)
        assert isinstance(json.loads(result.stdout, parse_constant=no_constant), dict)
    told = {line.split()[0] for line in (*LINES, *OTHERS)}
    assert told | {"demo"} == set(COMMANDS)  # that of demo is tested with it


def modules_after(names, *command):
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
    assert modules_after(heavy, "target", "--help") == "0 []"


@pytest.mark.gate
def test_report_and_target_wait_only_for_what_they_use(files, tmp_path):
    unused = [
        "torch", "lightgbm", "numba", "matplotlib", "sklearn.ensemble", "sklearn.tree",
        "auucmax.baselines.networks", "auucmax.baselines.lambdamart", "auucmax.spark",
    ]  # fmt: skip
    report = ("report", files.model, "-o", tmp_path / "page.html")
    assert modules_after([*unused, "duckdb"], *report) == "0 []"
    chosen = ("target", files.model, files.new, "--share", ".3", "-o", tmp_path / "list.csv")
    assert modules_after([*unused, "jinja2"], *chosen) == "0 []"
    assert len(pd.read_csv(tmp_path / "list.csv")) == 300


def test_names_that_are_imported_late_are_all_there():
    assert all(getattr(auucmax, name) is not None for name in auucmax.__all__)
    assert set(auucmax.__all__) <= set(dir(auucmax))
    assert auucmax.data.make_trial is auucmax.make_trial
    with pytest.raises(AttributeError, match="no attribute 'uplift'"):
        auucmax.uplift  # noqa: B018
    assert auucmax.compare is auucmax.comparison.compare
