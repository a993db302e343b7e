"""Tables that would not fit into memory: every command says so, and tells the same."""

import json

import pandas as pd
import pytest
from tests.cli.commands import run
from tests.model.trial_table import trial_table

LITTLE = "--memory 0.000001"
COLUMNS = "-t arm -y visit --treated mail --control none"


def told(line, *more):
    result = run(line, *more)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout), result.stderr


@pytest.fixture(scope="module")
def model(files):
    path = files.folder / "auucmax.model"
    result = run(f"fit {files.trial} {COLUMNS} -m auucmax --id person -o {path}")
    assert result.exit_code == 0, result.output
    return path


def close(found, expected):
    """Numbers that are equal but for rounding."""
    if isinstance(expected, dict):
        assert found.keys() == expected.keys()
        for key, value in expected.items():
            if key not in ("date", "file", "fit_seconds"):
                close(found[key], value)
    elif isinstance(expected, list):
        for one, other in zip(found, expected, strict=True):
            close(one, other)
    elif isinstance(expected, float):
        assert found == pytest.approx(expected, rel=1e-6, abs=1e-9)
    else:
        assert found == expected


@pytest.mark.gate
def test_fit_tells_the_same_in_pieces(tmp_path):
    """But for the search, which has its own folds there."""
    trial = tmp_path / "trial.csv"
    trial_table(6_500).to_csv(trial, index=False)
    line = f"fit {trial} {COLUMNS} -m auucmax --id person --features age,spent --json -o"
    found, said = told(f"{line} {tmp_path / 'a.model'} {LITTLE}")
    expected, silent = told(f"{line} {tmp_path / 'b.model'}")
    (rival,), (other,) = found["rivals"], expected["rivals"]
    assert rival["name"] == other["name"] == "tm"
    assert rival["auuc"]["estimate"] == pytest.approx(other["auuc"]["estimate"], abs=1e-4)
    same = ("rows", "table", "features", "folds", "randomisation", "effect", "notes")
    close({name: found[name] for name in same}, {name: expected[name] for name in same})
    one, other = found["auuc"], expected["auuc"]
    for name in ("estimate", "lower", "upper"):
        assert abs(one[name] - other[name]) < 0.1 * (other["upper"] - other["lower"])
    assert found["certificate"]["n_rows"] == expected["certificate"]["n_rows"]
    assert "note: trial.csv is read piece by piece: its 6,500 rows take 1 MB" in said
    assert "piece by piece" not in silent


@pytest.mark.quick_cases("check")
@pytest.mark.parametrize(
    "line",
    [
        "evaluate {model} {trial}",
        "evaluate {model} {later}",
        "check {trial} {columns} --ignore person",
        "compare {trial} {columns} --ignore person --models auucmax --splits 2",
        "evaluate {trial} {columns} --score-column age --query=",
    ],
)
def test_other_commands_tell_the_same_in_pieces(files, model, line, tmp_path):
    trial, later = files.trial, tmp_path / "later.csv"
    trial_table(900, random_state=8).assign(person=range(900)).to_csv(later, index=False)
    if "--score-column" in line:
        line, trial = line.replace(" --query=", ""), tmp_path / "scored.csv"
        pd.read_csv(files.trial).dropna().to_csv(trial, index=False)
    line = line.format(model=model, trial=trial, later=later, columns=COLUMNS)
    (found, said), (expected, silent) = told(f"{line} --json {LITTLE}"), told(f"{line} --json")
    close(found, expected)
    assert "is read piece by piece" in said
    assert "piece by piece" not in silent


def test_target_writes_the_same_list(files, model, tmp_path):
    lists = tmp_path / "a.csv", tmp_path / "b.csv"
    line = f"target {model} {files.new} --share .3 --json -o"
    (found, said), (expected, _) = told(f"{line} {lists[0]} {LITTLE}"), told(f"{line} {lists[1]}")
    close(found, expected)
    assert lists[0].read_bytes() == lists[1].read_bytes()
    assert "new.csv is read piece by piece" in said


@pytest.mark.gate
def test_report_of_pieces(files, model, tmp_path):
    line = f"report {model} {files.trial} --json -o {tmp_path / 'page.html'}"
    (found, said), (expected, silent) = told(f"{line} {LITTLE}"), told(line)
    close(found["headline"], expected["headline"])
    assert "piece by piece" not in silent
    assert "is read piece by piece" in said


def test_what_does_not_work_in_pieces_is_said(files, model, tmp_path):
    output = tmp_path / "m.model"
    result = run(f"fit {files.trial} {COLUMNS} -m cvt -o {output} {LITTLE}")
    assert result.exit_code == 2
    names = "'auto', 'shrunk', 'boosted', 'auucmax', 'tm', 'response'"
    assert f"--model should be one of {names} for a table that does not fit" in result.stderr
    assert not output.exists()
    result = run(f"compare {files.trial} --against {model} --models cvt {LITTLE}")
    assert result.exit_code == 2
    assert f"a rival should be one of {names} for a table that does not fit" in result.stderr
    result = run(f"check {files.trial} {COLUMNS} --memory 0")
    assert result.exit_code == 2
    assert "--memory should be a number of GB above 0, got 0" in result.stderr
