import json

import numpy as np
import pandas as pd
import pytest
from tests.campaign.trial_days import running
from tests.cli.commands import FIT, numbers, run

OPTIONS = "-t mail -y visit --id person --date sent --score-column score --window 5d"


@pytest.fixture
def rows(tmp_path):
    path = tmp_path / "rows.csv"
    running().to_csv(path, index=False)
    return path


def test_a_look_after_another(tmp_path, rows):
    state = tmp_path / "trial.state"
    first = run(f"monitor {rows} --state {state} {OPTIONS} --as-of 2026-01-16")
    assert first.exit_code == 0, first.output
    assert "1,000 rows until 2026-01-10 (1,000 new, 3,000 waiting for their" in first.stdout
    assert "Do not share it." in " ".join(first.stdout.split())
    assert "Not tested: whether the arms are alike" in first.stdout
    assert "sizes of the design (pass --treated-share ...)" in first.stdout
    second = run(f"monitor {rows} --state {state} --as-of 2026-06-01")
    assert "4,000 rows until" in second.stdout
    assert "gain over a random order" in second.stdout
    assert "The ranking is better than a random order." in second.stdout
    found = numbers(f"monitor {rows} --state {state} --as-of 2026-06-01")
    assert found["bounds"]["gain"]["lower"] > 0
    assert (found["n_new"], found["failed"]) == (0, None)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--as-of 2026-01-01", "--as-of should not be before the last look"),
        ("--score-column other", "--score-column should be 'score', as in the state file"),
        ("--window 1y", "--window should be a time such as '30d'"),
        ("--delta 0.2", "--delta should be 0.05"),
    ],
)
def test_bad_input_is_told_in_one_line_and_the_state_stays(tmp_path, rows, options, said):
    state = tmp_path / "trial.state"
    run(f"monitor {rows} --state {state} {OPTIONS} --as-of 2026-01-16")
    before = state.read_bytes()
    result = run(f"monitor {rows} --state {state} {options}")
    assert result.exit_code == 2
    assert said in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert state.read_bytes() == before


@pytest.mark.parametrize(
    "line",
    [
        "report {m} -o {s}",
        "export {m} --to sql -o {s}",
        "target {m} {n} --share .3 -o {s}",
        "demo -o {s}",
        "fit {t} -t arm -y visit --treated mail -m tm -o {s}",
        "plan --base-rate .1 --effect .02 --picture {s}",
    ],
)
def test_no_other_command_replaces_the_state(tmp_path, rows, files, line):
    state = tmp_path / "state.csv"
    run(f"monitor {rows} --state {state} {OPTIONS} --as-of 2026-01-16")
    before = state.read_bytes()
    shown = run(line.format(m=files.model, n=files.new, t=files.trial, s=state))
    assert shown.exit_code == 2
    assert "another file than the state of a monitor, got" in shown.stderr
    assert len(shown.stderr.strip().splitlines()) == 1
    assert state.read_bytes() == before


def test_the_first_look_needs_its_options(tmp_path, rows):
    state = tmp_path / "trial.state"
    result = run(f"monitor {rows} --state {state} -t mail -y visit --score-column score")
    assert (result.exit_code, state.exists()) == (2, False)
    assert "--date should be the column of the day" in result.stderr
    result = run(f"monitor {rows} --state {state} -t mail -y visit --date sent")
    assert "got neither" in result.stderr
    result = run(f"monitor {rows} --state {state} --score-column score --date sent")
    assert "--treatment should name a column, got none" in result.stderr
    result = run(f"monitor {rows} --state {rows} {OPTIONS}")
    assert "the output should be another file than the input" in result.stderr


def test_arms_that_are_not_as_designed_come_first(tmp_path, rows):
    state = tmp_path / "trial.state"
    line = f"monitor {rows} --state {state} {OPTIONS} --treated-share 0.6 --as-of 2026-06-01"
    result = run(line)
    assert result.exit_code == 1
    assert result.stdout.startswith("WARNING. The arms are not as they should be")
    assert "at least" not in result.stdout
    assert "Not tested" not in result.stdout
    again = run(f"{line} --json")
    assert (again.exit_code, json.loads(again.stdout)["bounds"]) == (1, None)


def test_treatment_that_goes_with_the_score_comes_first_and_stays(tmp_path, rows):
    table, state = pd.read_csv(rows), tmp_path / "trial.state"
    some = (table["mail"] == 1) | (table["score"] > 0.5) | (table["person"] % 2 == 0)
    table[some].to_csv(tmp_path / "biased.csv", index=False)
    first = run(f"monitor {tmp_path}/biased.csv --state {state} {OPTIONS} --as-of 2026-06-01")
    later = run(f"monitor {rows} --state {state} --as-of 2026-06-01")
    for result in (first, later):
        assert result.exit_code == 1
        shown = " ".join(result.stdout.split())
        assert shown.startswith("WARNING. Treatment was not given by chance, the same for all: of")
        assert "it goes with 'score' (p = " in shown
        assert "Nothing is told of this trial." in shown
        assert "at least" not in shown


@pytest.mark.gate
def test_households_and_chances(tmp_path):
    table = running(3_000)
    table["home"], table["chance"] = table["person"], 0.5
    table.to_csv(tmp_path / "rows.csv", index=False)
    line = f"monitor {tmp_path}/rows.csv {OPTIONS} --as-of 2026-06-01 --state {tmp_path}"
    plain, homes = numbers(f"{line}/a.state"), numbers(f"{line}/b.state --groups home")
    assert homes["bounds"].keys() == plain["bounds"].keys()
    found = numbers(f"{line}/c.state --propensity chance --least-chance .5")
    assert found["bounds"]["gain"]["estimate"] == pytest.approx(
        plain["bounds"]["gain"]["estimate"], abs=0.01
    )
    alone = run(f"{line}/d.state --propensity chance")
    assert "Pass --propensity COLUMN and --least-chance 0.1" in alone.stderr
    assert len(alone.stderr.strip().splitlines()) == 1


@pytest.mark.gate
def test_a_model_that_takes_over(tmp_path, files):
    """Of the model of the trial; a refusal names the option."""
    people = pd.read_csv(files.new)
    rng = np.random.default_rng(0)
    table = people.assign(
        arm=rng.choice(["mail", "none"], len(people)),
        visit=rng.integers(0, 2, len(people)),
        sent=pd.Timestamp("2026-01-01") + pd.to_timedelta(np.arange(len(people)) // 100, "D"),
    )
    table.to_csv(tmp_path / "rows.csv", index=False)
    state = f"--state {tmp_path}/s --as-of"
    line = f"monitor {files.model} {tmp_path}/rows.csv"
    first = run(f"{line} {state} 2026-01-04 --date sent")
    assert first.exit_code == 0, first.output
    assert "No evidence against randomisation" in first.stdout
    found = numbers(f"{line} --state {tmp_path}/whole --as-of 2026-02-01 --date sent")
    assert found["compared"] is not None
    some = (table["arm"] == "mail") | (table["age"] > 60) | (table.index % 8 == 0)
    table[some].to_csv(tmp_path / "biased.csv", index=False)
    refused = run(f"monitor {files.model} {tmp_path}/biased.csv --date sent --state {tmp_path}/h")
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert (
        "treatment should be given by chance, the same for all. The check fails" in refused.stderr
    )
    later = run(f"monitor {files.model} {tmp_path}/rows.csv --state {tmp_path}/h")
    assert later.exit_code == 1
    assert later.stdout.startswith("WARNING. Found in rows until ")
    same = run(f"{line} {state} 2026-02-01 --new-model {files.model}")
    assert "it has taken over. Pass it as the model, and no --new-model" in same.stderr
    newer = run(f"fit {files.trial} {FIT} --id person --seed 5 -o {tmp_path}/newer.model")
    assert newer.exit_code == 0, newer.output
    found = run(f"{line} {state} 2026-02-01 --new-model {tmp_path}/newer.model")
    assert found.exit_code == 0, found.output
    assert "The new model ranks the rows from here on" in " ".join(found.stdout.split())
