"""From DATA and options to rows: columns by name, labels, new levels, what a model has decided."""

import json

import numpy as np
import pandas as pd
import pytest
from tests.cli.commands import FIT, NAMED, run
from tests.model.trial_table import trial_table


@pytest.mark.gate
def test_a_column_without_values_gets_a_note(files, tmp_path):
    table = pd.read_csv(files.trial).assign(income=np.nan)
    table.to_csv(tmp_path / "trial.csv", index=False)
    result = run(f"fit {tmp_path}/trial.csv {FIT} --id person -o {tmp_path}/m.model --details")
    assert result.exit_code == 0
    assert "note: " in result.stderr
    assert "'income' without values" in result.stderr
    assert "income: without values" in result.stdout


def test_the_order_of_columns_does_not_matter(files, tmp_path):
    new = pd.read_csv(files.new)
    new[new.columns[::-1]].to_csv(tmp_path / "new.csv", index=False)
    for name, source in (("a", files.new), ("b", tmp_path / "new.csv")):
        assert run(f"target {files.model} {source} -s .2 -o {tmp_path}/{name}.csv").exit_code == 0
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()


@pytest.mark.gate
def test_a_model_is_judged_on_new_categories_where_they_are_let_in(files, tmp_path):
    table = trial_table(1_000, random_state=9).assign(person=range(1_000))
    table.assign(town=table["town"].where(table.index != 3, "Paris")).to_csv(
        tmp_path / "t.csv", index=False
    )
    for line in (
        f"evaluate {files.model} {tmp_path}/t.csv",
        f"report {files.model} {tmp_path}/t.csv -o {tmp_path}/r.html",
    ):
        refused = run(line)
        assert refused.exit_code == 2
        assert "or use --new-levels other" in refused.stderr
        assert run(f"{line} --new-levels other").exit_code == 0


@pytest.mark.gate
def test_options_that_agree_with_the_model_pass(files):
    named = f"{NAMED} --features age,town,member,joined,spent --ignore none --id person"
    line = f"compare {files.trial} --against {files.model} --models tm"
    assert run(f"{line} {named}").stdout == run(line).stdout
    assert run(f"evaluate {files.model} {files.trial} {NAMED}").exit_code == 0


@pytest.mark.gate
def test_names_with_commas(files, tmp_path):
    table = pd.read_csv(files.trial).rename(columns={"age": "age, in years", "town": "town,city"})
    table.to_csv(tmp_path / "t.csv", index=False)
    line = [f"fit {tmp_path}/t.csv {FIT} --id person -o {tmp_path}/m.model --json"]
    chosen = [
        "--features",
        "age, in years",
        "--features",
        "town,city",
        "--features",
        "spent,member",
    ]
    found = run(*line, *chosen)
    assert found.exit_code == 0, found.output
    assert json.loads(found.stdout)["features"]["columns"] == 4
    fewer = run(*line, "--ignore", "age, in years", "--ignore", "spent,member")
    assert json.loads(fewer.stdout)["features"]["columns"] == 2


@pytest.mark.gate
def test_blanks_around_a_label_are_forgiven(files, tmp_path):
    table = pd.read_csv(files.trial)
    table.assign(arm=" " + table["arm"]).to_csv(tmp_path / "t.csv", index=False)
    found = run(f"check {tmp_path}/t.csv {NAMED} --ignore person --json")
    plain = run(f"check {files.trial} {NAMED} --ignore person --json")
    assert found.exit_code == 0
    assert json.loads(found.stdout)["detectable_effect"] == pytest.approx(
        json.loads(plain.stdout)["detectable_effect"]
    )
