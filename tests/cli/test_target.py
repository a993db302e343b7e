"""``auucmax target``: the list, and what is told of it."""

import json

import pandas as pd
import pytest
from tests.cli.commands import run
from tests.trial_model.trial_table import trial_table


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
    # So they are without arm and outcome, in any order; as many other people are not.
    pd.read_csv(own).drop(columns=["arm", "visit"]).sample(frac=1.0).to_csv(own, index=False)
    again = json.loads(run(f"{command} --json").stdout)
    assert again["is_own"]
    assert again["uplift"] == pytest.approx(total)
    others = trial_table(4_000, random_state=77)[: again["n_people"]]
    others.drop(columns=["arm", "visit"]).to_csv(own, index=False)
    new = json.loads(run(f"{command} --json").stdout)
    assert not new["is_own"]
    assert "The sum of the uplifts differs from it" in new["of_uplift"]


def test_an_empty_list_says_why(files, tmp_path):
    command = f"target {files.model} {files.new} -o {tmp_path}/list.csv"
    shown = run(f"{command} --budget .1 --cost .5")
    assert shown.exit_code == 0
    assert "Nobody is chosen: a budget of 0.1 does not pay for one person at 0.5." in shown.stdout
    assert len(pd.read_csv(tmp_path / "list.csv")) == 0
