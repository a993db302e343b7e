"""What is printed: for people, for machines, and as help."""

import json
import subprocess
import sys

import pandas as pd
import pytest
from tests.campaign.trial_days import running
from tests.cli.commands import ALL_BUT_PERSON, COMMANDS, FIT, NAMED, run
from tests.model.trial_table import trial_table

import auucmax


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
         f", on {n['rows']['n_rows']:,} rows.", n["notes"][0]],
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


@pytest.mark.quick_cases("evaluate")
@pytest.mark.parametrize("line", SHOWN)
def test_json_is_one_document_with_the_numbers_of_the_screen(line, files, tmp_path):
    command = line.format(
        trial=files.trial, new=files.new, model=files.model, tmp=tmp_path, fit=FIT,
        named=ALL_BUT_PERSON, named_only=NAMED,
    )  # fmt: skip
    plain, shown = run(f"{command} --json"), run(f"{command} --details")
    assert plain.exit_code == shown.exit_code == 0, plain.stderr + shown.stderr
    assert plain.stdout.count("\n") == 1
    notes = (plain.stderr + shown.stderr).splitlines()
    assert all(line.startswith("note: ") for line in notes)  # and no progress
    assert "\x1b" not in shown.stdout + shown.stderr
    found = json.loads(plain.stdout, parse_constant=no_constant)
    screen = " ".join(shown.stdout.split())
    for text in SHOWN[line](found):
        assert " ".join(text.split()) in screen


# What other commands can tell, and what a check that fails is told by; with exit codes.
TOLD = {
    "plan --base-rate .1 --effect .02 --gain .005": 0,
    "export {model} --to sql": 0,
    "assign {new} --id person --key k --arms none=.5,mail=.5 -o {tmp}/a.csv": 0,
    "assign {new} --id person --key k --arms none=.5,mail=.5 --sql duckdb": 0,
    "assign {new} --id person --key k --arms none=.5,mail=.5 --sql duckdb -o {tmp}/b.csv": 0,
    "monitor {days} {looked} --score-column score --state {tmp}/s --as-of 2026-01-16": 0,
    "monitor {days} {looked} --score-column score --state {tmp}/t --treated-share .9": 1,
    "monitor {model} {biased} --date joined --state {tmp}/u": 1,
    "monitor {biased} --state {tmp}/u": 1,  # and at every later look
    "verify {biased} --chosen member -m {model}": 1,
    "check {biased} {named}": 1,
    "fit {biased} {fit} --id person -o {tmp}/n.model": 1,
    "compare {biased} {named} --models tm": 1,
    "evaluate {biased} --score-column spent {named_only}": 0,
    "fit {biased} {fit} --despite-check --ignore person -o {tmp}/w.model": 0,
    "evaluate {tmp}/w.model": 0,
    "compare {biased} --against {tmp}/w.model --models cvt": 1,
    "target {tmp}/w.model {new} -s .2 -o {tmp}/list.csv": 0,
    "report {tmp}/w.model -o {tmp}/r.html": 0,
}


@pytest.mark.gate
def test_json_is_one_object_whatever_is_told(files, tmp_path):
    table = trial_table(3_000, random_state=8)
    kept = (table["arm"] != "mail") | (table["age"] > 55) | (table.index % 6 == 0)
    table["person"] = "b" + table["person"]
    table[kept].to_csv(tmp_path / "biased.csv", index=False)
    running().to_csv(tmp_path / "days.csv", index=False)
    for line, code in TOLD.items():
        command = line.format(
            new=files.new, model=files.model, tmp=tmp_path, fit=FIT, named=ALL_BUT_PERSON,
            named_only=NAMED, biased=tmp_path / "biased.csv", days=tmp_path / "days.csv",
            looked="-t mail -y visit --id person --date sent --window 5d",
        )  # fmt: skip
        result = run(f"{command} --json")
        assert result.exit_code == code, (line, result.output)
        found = json.loads(result.stdout, parse_constant=no_constant)
        assert isinstance(found, dict)
        assert code == 0 or "failed" in str(found) or not found["randomisation"]["ok"]
    told = {line.split()[0] for line in (*SHOWN, *TOLD)}
    assert told | {"demo"} == set(COMMANDS)  # that of demo is tested with it


@pytest.mark.gate_cases("compare", "evaluate {trial", "fit")
@pytest.mark.parametrize(
    "line",  # a second fit waits for the gate
    [pytest.param(own, marks=[pytest.mark.gate] * ("--hold-out" in own)) for own in SHOWN],
)
def test_the_verdict_comes_first_and_a_few_lines_follow(line, files, tmp_path):
    command = line.format(
        trial=files.trial, new=files.new, model=files.model, tmp=tmp_path, fit=FIT,
        named=ALL_BUT_PERSON, named_only=NAMED,
    )  # fmt: skip
    short, verdict = run(command), run(f"{command} --quiet")
    assert short.exit_code == verdict.exit_code == 0, short.stderr + verdict.stderr
    lines, alone = short.stdout.splitlines(), verdict.stdout.splitlines()
    assert lines[0] == alone[0]
    assert lines[0].endswith(".")
    assert 2 <= sum(line.startswith(" ") for line in lines) <= 6
    assert set(alone) <= set(lines)  # what is left are warnings
    assert not any(line.startswith(" ") or "Written" in line for line in alone)


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


@pytest.mark.gate
def test_report_and_target_wait_only_for_what_they_use(files, tmp_path):
    unused = [
        "torch", "lightgbm", "numba", "matplotlib", "sklearn.ensemble", "sklearn.tree",
        "auucmax.baselines.networks", "auucmax.baselines.lambdamart", "auucmax.comparison",
        "auucmax.spark",
    ]  # fmt: skip
    report = ("report", files.model, "-o", tmp_path / "page.html")
    assert last_line([*unused, "duckdb"], *report) == "0 []"
    chosen = ("target", files.model, files.new, "--share", ".3", "-o", tmp_path / "list.csv")
    assert last_line([*unused, "jinja2"], *chosen) == "0 []"


def test_names_that_are_imported_late_are_all_there():
    assert all(getattr(auucmax, name) is not None for name in auucmax.__all__)
    assert set(auucmax.__all__) <= set(dir(auucmax))
    assert auucmax.data.make_trial is auucmax.make_trial
    with pytest.raises(AttributeError, match="no attribute 'uplift'"):
        auucmax.uplift  # noqa: B018
    assert auucmax.compare is auucmax.comparison.compare
