"""Every command on money with zeros: fit, evaluate, compare, target, report, export, check."""

import duckdb
import numpy as np
import pandas as pd
import pytest
from tests.cli.commands import NAMED, result_of, run
from tests.model.trial_table import trial_table

from auucmax.model import load


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A trial with money, people of later, and a model of "shrunk" with a range."""
    place = tmp_path_factory.mktemp("money")
    table = trial_table(5_000, random_state=3).drop(columns="spent")
    amount = np.random.default_rng(0).gamma(2, 30, len(table)).round(2)
    table = table.assign(visit=table["visit"] * amount, points=np.arange(len(table)) % 7)
    table.iloc[:4_000].to_csv(place / "trial.csv", index=False)
    table.iloc[4_000:].to_csv(place / "new.csv", index=False)
    how = f"-m shrunk --id person --outcome-range 0 150 -o {place}/m.model"
    result = run(f"fit {place}/trial.csv {NAMED} {how}")
    assert result.exit_code == 0, result.output
    return place


def test_the_certificate_counts_a_range(folder, tmp_path):
    found = result_of(f"evaluate {folder}/m.model")
    assert found["roles"]["outcome"]["kind"] == "money with zeros"
    certificate = found["arms"][0]["certificate"]
    assert certificate["counted"] == [0, 150]
    assert certificate["beyond"] > 0
    line = f"check {folder}/trial.csv {NAMED} --id person"
    effect = result_of(line)["arms"][0]["effect"]
    assert effect["upper"] == pytest.approx(found["arms"][0]["effect"]["upper"])


@pytest.mark.gate
def test_without_a_range_there_is_no_certificate(folder):
    scored = f"evaluate {folder}/new.csv --score-column points {NAMED} --after age"
    (arm,) = result_of(scored)["arms"]
    assert (arm["certificate"], arm["missing"]["why"]) == (None, "no range")
    ranged = result_of(f"{scored} --outcome-range 0 100")["arms"][0]["certificate"]
    assert ranged["beyond"] > 0
    assert result_of(f"evaluate {folder}/m.model {folder}/new.csv")["arms"][0]["certificate"]
    refused = run(f"evaluate {folder}/m.model {folder}/new.csv --outcome-range 0 9")
    assert (refused.exit_code, "--outcome-range" in refused.stderr) == (2, True)


@pytest.mark.gate
def test_compare_leaves_out_what_cannot_be_trained_on_money(folder):
    line = f"compare {folder}/trial.csv --against {folder}/m.model"
    (arm,) = result_of(f"{line} --models tm,mom")["arms"]
    assert [rival["against"] for rival in arm["rivals"]] == ["tm", "mom"]
    assert "cvt" in run(f"{line} --models tm,cvt").stderr
    splits = f"compare {folder}/trial.csv {NAMED} --ignore person --splits 2"
    assert "cvt" in run(f"{splits} --models tm,cvt").stderr
    found = result_of(f"{splits} --models tm,response")
    assert found["models"].keys() == {"tm", "response"}


@pytest.mark.gate
def test_target_and_report_of_money(folder):
    line = f"target {folder}/m.model {folder}/new.csv --share .5 -o {folder}/list.csv"
    assert result_of(line)["decision"]["plan"]["gain"]["value"] > 0
    assert len(pd.read_csv(folder / "list.csv")) == 500
    found = result_of(f"report {folder}/m.model -o {folder}/r.html --cost 1 --value .5")
    assert found["plan"]["profit"] is not None


@pytest.mark.gate
def test_scores_of_money_are_exported(folder):
    model, table = load(folder / "m.model"), pd.read_csv(folder / "new.csv")
    table["joined"] = pd.to_datetime(table["joined"])
    for to in ("sql", "json", "onnx"):
        assert run(f"export {folder}/m.model --to {to} -o {folder}/m.{to}").exit_code == 0
    with duckdb.connect() as db:
        db.register("people", table)
        db.execute(f"CREATE TABLE scored AS {(folder / 'm.sql').read_text()}")
        found = db.sql("SELECT score, uplift FROM scored").df()
    np.testing.assert_allclose(found["score"], model.predict(table), rtol=0, atol=1e-7)
    np.testing.assert_allclose(found["uplift"], model.uplift(table)[:, 0], rtol=0, atol=1e-6)
