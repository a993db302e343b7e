"""``auucmax evaluate`` and ``compare``: evidence of the fit, of new rows, of scores, of rivals."""

import numpy as np
import pandas as pd
import pytest
from tests.cli.commands import ALL_BUT_PERSON, FIT, NAMED, numbers, result_of, run
from tests.model.trial_table import households, trial_table

from auucmax.model import load


@pytest.fixture(scope="module")
def new_rows(tmp_path_factory):
    path = tmp_path_factory.mktemp("rows") / "t.csv"
    table = trial_table(1_000, random_state=9).assign(person=range(1_000))
    table[table["arm"] != "phone"].to_csv(path, index=False)
    return path


def test_the_file_of_the_fit_gives_the_evidence_of_the_fit(files, model, tmp_path):
    shown = result_of(f"evaluate {model}")
    assert shown == load(model).evidence.to_json()
    assert shown["basis"] == "cross-fitted"
    pd.read_csv(files.trial).sample(frac=1, random_state=0).to_csv(
        tmp_path / "reordered.csv", index=False
    )
    for data in (files.trial, tmp_path / "reordered.csv"):
        again = run(f"evaluate {model} {data} --json")
        assert "should be new to the model" in again.stderr
        assert result_of(f"evaluate {model} {data}") == shown


@pytest.mark.gate
def test_a_hold_out_is_judged_by_the_model_itself(files, tmp_path):
    path = tmp_path / "m.model"
    found = numbers(f"fit {files.trial} {FIT} --id person --hold-out .3 -o {path}")
    evidence, info = found["result"], found["fit"]
    assert evidence["basis"] == "held out"
    assert evidence["n_rows"] + info["n_trained"] == info["n_used"]
    assert evidence["n_rows"] == pytest.approx(0.3 * info["n_used"], rel=0.15)
    assert evidence["arms"][0]["certificate"]["trained_on"] == [1, 1]
    assert result_of(f"evaluate {path} {files.trial}") == evidence


def test_new_rows_are_all_used_and_have_no_rivals(files, new_rows, tmp_path):
    found = result_of(f"evaluate {files.model} {new_rows}")
    assert found["basis"] == "new rows"
    assert found["n_rows"] == len(pd.read_csv(new_rows))
    (arm,) = found["arms"]
    assert arm["rivals"] == []
    assert arm["certificate"] is not None
    page = tmp_path / "r.html"
    assert numbers(f"report {files.model} {new_rows} -o {page}")["file"] == str(page)
    assert page.stat().st_size > 0


@pytest.mark.gate
def test_new_rows_may_have_categories_and_missing_outcomes_if_asked(files, tmp_path):
    table = trial_table(1_500, random_state=9).assign(person=range(1_500))
    table["town"] = table["town"].where(table.index % 50 != 3, "Paris")
    table["visit"] = table["visit"].mask(np.random.default_rng(0).random(1_500) < 0.1)
    table.to_csv(tmp_path / "t.csv", index=False)
    for line in (
        f"evaluate {files.model} {tmp_path}/t.csv",
        f"report {files.model} {tmp_path}/t.csv -o {tmp_path}/r.html",
    ):
        for more in ("", "--new-levels other", "--drop-missing-outcomes"):
            assert run(f"{line} {more}").exit_code == 2
        assert run(f"{line} --new-levels other --drop-missing-outcomes").exit_code == 0


@pytest.mark.parametrize("column", ["arm", "visit"])
def test_scores_are_neither_outcome_nor_treatment(files, column):
    result = run(f"evaluate {files.trial} {NAMED} --score-column {column}")
    assert result.exit_code == 2
    assert repr(column) in result.stderr


def test_scores_of_any_origin_are_judged(files, tmp_path):
    table = pd.read_csv(files.trial)
    table.assign(score=-table["age"].fillna(40)).to_csv(tmp_path / "t.csv", index=False)
    line = f"evaluate {tmp_path}/t.csv --score-column score"
    (arm,) = result_of(f"{line} {NAMED}")["arms"]
    assert arm["gain"]["lower"] > 0
    assert arm["certificate"]["gain"] < arm["gain"]["value"]
    several = run(f"{line} -t arm -y visit --control none")
    assert (several.exit_code, "--treated" in several.stderr) == (2, True)


@pytest.mark.gate
def test_rivals_are_trained_on_the_folds_of_the_fit(files, model, tmp_path):
    own = load(model).evidence.arms[0]
    (arm,) = result_of(f"compare {files.trial} --against {model} --models cvt,mom")["arms"]
    assert [rival["against"] for rival in arm["rivals"]] == ["cvt", "mom"]
    assert arm["auuc"]["value"] == own.auuc.value
    page = tmp_path / "r.html"
    assert run(f"report {model} {files.trial} --rivals cvt,mom -o {page}").exit_code == 0
    assert "mom" in page.read_text()


@pytest.mark.gate
def test_random_splits_compare_models(files):
    line = f"compare {files.trial} {ALL_BUT_PERSON} --splits 2"
    found = result_of(f"{line} --models tm,cvt")
    assert found["models"].keys() == {"tm", "cvt"}
    assert result_of(f"{line} --models tm,cvt --seed 1") != found


def test_no_data_of_the_trial_is_needed_afterwards(files, model, tmp_path):
    """A model file alone, in a folder of its own: evidence, page and list."""
    moved, new = tmp_path / "alone.model", tmp_path / "new.csv"
    moved.write_bytes(model.read_bytes())
    new.write_bytes(files.new.read_bytes())
    assert run(f"evaluate {moved}").exit_code == 0
    assert run(f"report {moved} -o {tmp_path}/r.html --cost 1 --value 9").exit_code == 0
    assert run(f"target {moved} {new} --share .3 -o {tmp_path}/list.csv").exit_code == 0
    assert len(pd.read_csv(tmp_path / "list.csv")) == 300


@pytest.mark.gate
def test_candidates_are_paid_for(homes, tmp_path):
    line = f"fit {homes}/trial.csv {FIT} --id person --groups home -o {tmp_path}/m.model"
    found = result_of(f"{line} --candidates 5")["arms"][0]["certificate"]
    one = result_of(f"evaluate {homes}/m.model")["arms"][0]["certificate"]
    assert (found["n_candidates"], one["n_candidates"]) == (5, 1)
    assert found["gain"] < one["gain"]
    refused = run(f"{line} --candidates 0")
    assert "--candidates should be a whole number" in refused.stderr


@pytest.mark.gate
def test_every_command_takes_groups(homes, tmp_path):
    trial, new, model = homes / "trial.csv", homes / "new.csv", homes / "m.model"
    n_homes = households()["home"].nunique()
    by, columns = "--groups home", FIT.replace("-m tm", "")
    assert result_of(f"evaluate {model} {by}")["arms"][0]["n_groups"] == n_homes
    assert 0.97 * n_homes < result_of(f"evaluate {model} {new}")["arms"][0]["n_groups"] <= n_homes
    scored = f"evaluate {new} --score-column score {columns}"
    alone, grouped = result_of(scored), result_of(f"{scored} {by}")
    assert alone["failed_check"]
    assert not grouped["failed_check"]
    assert width(grouped) > 1.2 * width(alone)
    checked = result_of(f"check {trial} {columns} --id person {by}")["arms"][0]
    rows = result_of(f"check {trial} {columns} --id person --after home")["arms"][0]
    assert checked["detectable_effect"] > 1.2 * rows["detectable_effect"]
    assert run(f"compare {trial} --against {model} --models cvt {by}").exit_code == 0
    wrong = run(f"evaluate {model} --groups x0")
    assert (wrong.exit_code, "--groups" in wrong.stderr) == (2, True)


def width(evidence):
    auuc = evidence["arms"][0]["auuc"]
    return auuc["upper"] - auuc["lower"]


@pytest.mark.gate
def test_copies_of_rows_are_refused(homes, tmp_path):
    columns = FIT.replace("-m tm", "")
    repeated = run(f"check {homes}/trial.csv {columns} --id home")
    assert (repeated.exit_code, "'home'" in repeated.stderr) == (2, True)
    copies = pd.concat([pd.read_csv(homes / "trial.csv")] * 2).drop(columns=["home", "person"])
    copies.to_csv(tmp_path / "twice.csv", index=False)
    for command in (
        f"fit {tmp_path}/twice.csv {FIT} -o {tmp_path}/m",
        f"evaluate {tmp_path}/twice.csv --score-column x0 {columns}",
    ):
        result = run(command)
        assert result.exit_code == 2
        assert "Remove copies of rows" in result.stderr
