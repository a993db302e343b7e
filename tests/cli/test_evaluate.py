"""``auucmax evaluate``: what was found at the fit, or new rows; never those learnt from."""

import pandas as pd
import pytest
from tests.cli.commands import FIT, numbers, run
from tests.model.trial_table import trial_table

from auucmax.cli.output import told
from auucmax.model import load_model


@pytest.mark.gate
def test_the_file_of_the_fit_shows_what_was_found_then(files, model, tmp_path):
    """Every row judges, and none was ranked by a model that had learnt from it."""
    facts = load_model(model).evidence.facts
    two_arms = pd.read_csv(files.trial)["arm"].isin(["mail", "none"]).sum()
    assert facts["rows"]["n_rows"] == load_model(model).summary["table"]["learnt"] == two_arms
    shown, known = numbers(f"evaluate {model}"), load_model(model).evidence.told()
    assert shown == numbers(f"evaluate {model} {files.trial}") == told(known)
    alone, given = (
        numbers(f"report {model} {data} -o {tmp_path}/r.html") for data in ("", files.trial)
    )
    assert alone == given
    assert alone["rows"]["n_rows"] == two_arms
    compared = numbers(f"compare {files.trial} --against {model} --models cvt")
    assert compared["models"][str(model)]["auuc"] == facts["auuc"]
    assert compared["notes"][:-1] == facts["notes"]
    said = "Every row was ranked by a model that had not seen it: one of 5, each of which learnt"
    assert facts["notes"][0].startswith(said)
    screens = [
        run(f"evaluate {model} --details").stdout,
        run(f"compare {files.trial} --against {model} --models cvt --details").stdout,
        (tmp_path / "r.html").read_text(),
    ]
    assert all(said in screen for screen in screens)


@pytest.mark.gate
def test_a_hold_out_is_judged_by_the_model_itself(files, tmp_path):
    path = tmp_path / "m.model"
    found = numbers(f"fit {files.trial} {FIT} --id person --hold-out .3 -o {path}")
    n_judged, table = found["rows"]["n_rows"], found["table"]
    assert n_judged + table["learnt"] == table["used"]
    assert n_judged == pytest.approx(0.3 * table["used"], rel=0.15)
    assert found["notes"] == [
        f"Judged on {n_judged:,} rows that were set aside: this model has not seen them."
    ]
    assert "betting" in found["certificate"]["text"]
    assert "fewer rows than this one" not in found["certificate"]["text"]
    assert numbers(f"evaluate {path} {files.trial}") == numbers(f"evaluate {path}")


@pytest.fixture(scope="module")
def reordered(files, tmp_path_factory):
    path = tmp_path_factory.mktemp("reordered") / "trial.csv"
    pd.read_csv(files.trial).sample(frac=1, random_state=0).to_csv(path, index=False)
    return path


def test_a_reordered_file_is_the_same_file_and_shows_nothing_new(model, reordered):
    assert numbers(f"evaluate {model} {reordered}") == numbers(f"evaluate {model}")
    first, *lines = run(f"evaluate {model} {reordered}").stdout.splitlines()
    assert first.startswith("DATA is the file that the model was fitted on, which shows nothing")
    verdict = run(f"evaluate {model}").stdout.splitlines()[0]
    assert "beats a random order" in verdict
    assert any("found at the fit" in line and verdict in line for line in lines)


def test_rows_that_are_new_are_all_used_and_have_no_rivals(files, tmp_path):
    table = trial_table(1_000, random_state=9).assign(person=range(1_000))
    table = table[table["arm"] != "phone"]
    table.to_csv(tmp_path / "t.csv", index=False)
    found = numbers(f"evaluate {files.model} {tmp_path}/t.csv")
    assert found["rows"]["n_rows"] == len(table)
    assert found["notes"][0].startswith("These rows must be new to the model")
    assert found["certificate"] is not None
    report = numbers(f"report {files.model} {tmp_path}/t.csv -o {tmp_path}/r.html")
    assert report["rivals"] == []
    assert report["rows"]["n_rows"] == found["rows"]["n_rows"]
    assert report["auuc"]["estimate"] == found["auuc"]["estimate"]


@pytest.mark.parametrize("column", ["arm", "visit"])
def test_scores_are_neither_outcome_nor_treatment(files, column):
    line = f"evaluate {files.trial} -t arm -y visit --treated mail --control none"
    result = run(f"{line} --score-column {column}")
    assert result.exit_code == 2
    words = f"--score-column should be another column than --treatment and --outcome, got '{column}"
    assert words in result.stderr
