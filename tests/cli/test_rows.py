"""A model is judged on rows that it has not learnt from, whatever file it is given."""

import numpy as np
import pandas as pd
import pytest
from tests.cli.commands import FIT, numbers, run
from tests.model.trial_table import households


def test_no_data_of_the_trial_is_needed_afterwards(files, model, tmp_path):
    """A model file alone, in a folder of its own: evidence, page and list."""
    moved = tmp_path / "alone.model"
    moved.write_bytes(model.read_bytes())
    new = tmp_path / "new.csv"
    new.write_bytes(files.new.read_bytes())
    assert run(f"evaluate {moved}").exit_code == 0
    assert run(f"report {moved} -o {tmp_path}/r.html --cost 1 --value 9").exit_code == 0
    assert run(f"target {moved} {new} --share .3 -o {tmp_path}/list.csv").exit_code == 0
    assert len(pd.read_csv(tmp_path / "list.csv")) == 300


@pytest.mark.gate
def test_rivals_are_drawn_on_the_rows_of_the_fit(files, model, tmp_path):
    page = tmp_path / "r.html"
    found = numbers(f"report {model} {files.trial} --rivals cvt,mom -o {page}")
    assert [rival["name"] for rival in found["rivals"]] == ["cvt", "mom"]
    compared = numbers(f"compare {files.trial} --against {model} --models cvt,mom")
    for rival in found["rivals"]:
        assert rival["difference"] == compared["models"][rival["name"]]["difference"]
    assert "mom" in page.read_text()


@pytest.mark.gate
def test_every_command_takes_groups(homes, tmp_path):
    trial, new, model = homes / "trial.csv", homes / "new.csv", homes / "m.model"
    n_homes = households()["home"].nunique()
    by = "--groups home"
    assert numbers(f"evaluate {model}")["rows"]["groups"] == n_homes
    assert numbers(f"evaluate {model} {trial} {by}")["rows"]["groups"] == n_homes
    assert 0.97 * n_homes < numbers(f"evaluate {model} {new}")["rows"]["groups"] <= n_homes
    columns = FIT.replace("-m tm", "")
    scored = f"evaluate {new} --score-column score {columns}"
    alone, grouped = numbers(scored), numbers(f"{scored} {by}")
    assert (alone["rows"]["groups"], grouped["rows"]["groups"]) == (None, n_homes)
    assert "treatment depends on home" in alone["failed_check"]
    assert width(grouped["auuc"]) > 1.2 * width(alone["despite_failed_check"]["auuc"])
    assert "every cluster weighs the same" in grouped["certificate"]["text"]
    checked = numbers(f"check {trial} {columns} --id person {by}")
    assert checked["randomisation"]["grouping"].startswith(f"one row of each of the {n_homes:,}")
    rows = numbers(f"check {trial} {columns} --id person --after home")
    assert checked["detectable_effect"] > 1.2 * rows["detectable_effect"]
    page = tmp_path / "r.html"
    assert numbers(f"report {model} {by} -o {page}")["rows"]["groups"] == n_homes
    compared = numbers(f"compare {trial} --against {model} --models cvt {by}")
    assert compared["rows"]["groups"] == n_homes
    assert run(f"target {model} {new} --share .3 {by} -o {tmp_path}/list.csv").exit_code == 0
    splits = f"compare {trial} {columns} --models tm --splits 2 --id person"
    with_homes, without = numbers(f"{splits} {by}"), numbers(f"{splits} --after home")
    errors = [
        np.mean([line["standard_error"] for line in found["splits"]])
        for found in (with_homes, without)
    ]
    assert errors[0] > 1.2 * errors[1]


def width(auuc):
    return auuc["upper"] - auuc["lower"]


def test_groups_that_the_model_does_not_know(homes, files, tmp_path):
    for line in (
        f"evaluate {homes}/m.model --groups x0",
        f"report {homes}/m.model --groups x0 -o {tmp_path}/r.html",
        f"target {homes}/m.model {homes}/new.csv --share .3 --groups x0 -o {tmp_path}/l.csv",
        f"compare {homes}/trial.csv --against {homes}/m.model --groups x0",
    ):
        result = run(line)
        assert result.exit_code == 2
        assert "--groups should be 'home', as the MODEL was fitted; got 'x0'" in result.stderr
    result = run(f"evaluate {files.model} --groups home")
    assert "--groups should be left out, for the model has none" in result.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.gate
def test_without_groups_a_command_asks(homes, tmp_path):
    columns = f"{homes}/trial.csv {FIT.replace('-m tm', '')}"
    told = run(f"check {columns} --id person")
    assert "rows of one 'home' belong together" in " ".join(told.stdout.split())
    assert "pass --groups home" in " ".join(told.stdout.split())
    repeated = run(f"check {columns} --id home")
    assert repeated.exit_code == 2
    assert "Do the rows of an id belong together? Then pass --groups home;" in repeated.stderr
    copies = pd.concat([pd.read_csv(homes / "trial.csv")] * 2).drop(columns=["home", "person"])
    copies.to_csv(tmp_path / "twice.csv", index=False)
    for command in (f"fit {tmp_path}/twice.csv {FIT} -o {tmp_path}/m",
                    f"compare {tmp_path}/twice.csv {FIT.replace('-m', '--models')}"):  # fmt: skip
        result = run(command)
        assert result.exit_code == 2
        assert "Remove the copies, or pass --groups COLUMN" in result.stderr
    named = np.arange(len(copies)) % (len(copies) // 2)
    few = (copies["x0"] > 0) * 1  # a score that many people share
    copies.assign(few=few, who=named).to_csv(tmp_path / "scored.csv", index=False)
    for score in ("x0", "few"):
        line = f"evaluate {tmp_path}/scored.csv --score-column {score} {FIT.replace('-m tm', '')}"
        result = run(line)
        assert result.exit_code == 2
        assert "Remove the copies, or pass --groups COLUMN" in result.stderr
        assert run(f"{line} --groups who").exit_code == 0
    noted = run(f"check {tmp_path}/twice.csv {FIT.replace('-m tm', '')}")
    assert "note: rows should be different people" in noted.stderr
