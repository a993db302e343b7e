"""``auucmax evaluate`` and ``compare``: evidence of the fit, of new rows, of scores, of rivals."""

import numpy as np
import pandas as pd
import pytest
from tests.cli.commands import ALL_BUT_PERSON, FIT, NAMED, result_of, run
from tests.model.trial_table import households

from auucmax.data import databases
from auucmax.model import load


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


def test_a_table_larger_than_memory_is_evaluated_by_its_scores(files, tmp_path, monkeypatch):
    table = pd.read_csv(files.trial)
    assert len(table) > 2_048  # DuckDB's smallest batch
    table["age"] = np.random.default_rng(0).uniform(18, 80, len(table))  # new people
    table["joined"] = pd.to_datetime(table["joined"])
    table.to_parquet(source := tmp_path / "new.parquet")
    (whole,) = result_of(f"evaluate {files.model} {source}")["arms"]
    monkeypatch.setenv("AUUCMAX_MEMORY_MB", "0.01")
    monkeypatch.setattr(databases, "_BATCH", 1)
    (narrow,) = result_of(f"evaluate {files.model} {source}")["arms"]
    assert narrow["people"] == []  # only scores are kept of features
    for number in ("auuc", "gain", "effect", "certificate", "curve"):
        assert narrow[number] == whole[number]
