"""Every command on money with zeros: fit, evaluate, compare, target, report, export, check."""

import duckdb
import numpy as np
import pandas as pd
import pytest
from tests.cli.commands import NAMED, numbers, run
from tests.model.trial_table import trial_table

from auucmax.data.outcomes import range_for
from auucmax.model import load_model


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
    result = run(f"fit {place}/trial.csv {NAMED} {how} --details")
    assert result.exit_code == 0, result.output
    (place / "shown.txt").write_text(result.output)
    return place


def test_fit_says_what_it_saw_and_speaks_of_100_people(folder):
    shown = (folder / "shown.txt").read_text()
    assert "visit is money with zeros, mostly 0: learnt is whether it is not 0" in shown
    assert " per 100 people (" in shown
    assert "of all money lies above 150 and is not counted." in shown
    effect = load_model(folder / "m.model").evidence["effect"]["estimate"]
    assert f"{100 * effect:+.2f} per 100 people" in shown


@pytest.mark.gate
def test_fit_says_how_to_get_a_certificate(folder):
    shown = run(f"fit {folder}/trial.csv {NAMED} -m shrunk --id person -o {folder}/n.model").output
    assert "There is no certificate: outcomes are not 0/1" in shown
    own = pd.read_csv(folder / "trial.csv").query("arm != 'phone'")["visit"].to_numpy()
    assert f"Fit with --outcome-range 0 {range_for(own)[1]:g}, say" in shown
    assert "for outcomes are not 0/1" not in run(f"evaluate {folder}/m.model").output
    assert "(--outcome-range)" in run(f"evaluate {folder}/n.model").output


@pytest.mark.gate
def test_check_says_the_kind(folder):
    line = f"check {folder}/trial.csv {NAMED} --id person"
    fitted = load_model(folder / "m.model").evidence["effect"]
    (effect,) = numbers(line)["trial"]["effects"]
    assert effect["high"] == pytest.approx(fitted["upper"])  # skewed, as that of fit
    assert "visit is money with zeros" in run(line).output
    assert numbers(line)["outcome"] == "money with zeros"


@pytest.mark.gate
def test_evaluate_certifies_new_rows_and_scores_of_others(folder):
    found = numbers(f"evaluate {folder}/m.model {folder}/new.csv")
    assert found["rows"]["outcome"] == "money with zeros"
    assert "outcomes lie in [0, 150]" in found["certificate"]["text"]
    scored = f"evaluate {folder}/new.csv --score-column points {NAMED} --after age"
    assert numbers(scored)["certificate"] is None
    ranged = numbers(f"{scored} --outcome-range 0 100")["certificate"]
    assert "of all money lies above 100 and is not counted." in ranged["text"]
    other = run(f"evaluate {folder}/m.model {folder}/new.csv --outcome-range 0 9")
    assert "--outcome-range should be (0.0, 150.0), as the MODEL was fitted" in other.output


@pytest.mark.gate
def test_compare_leaves_out_what_cannot_learn_from_money(folder):
    line = f"compare {folder}/trial.csv --against {folder}/m.model"
    assert set(numbers(f"{line} --models tm,mom")["models"]) == {f"{folder}/m.model", "tm", "mom"}
    refused = run(f"{line} --models tm,cvt,svm-dp").output
    assert "got cvt, svm-dp, which learn from 0/1 only" in refused
    splits = f"compare {folder}/trial.csv {NAMED} --ignore person --splits 2"
    assert "got cvt, which learn from 0/1 only" in run(f"{splits} --models tm,cvt").output
    found = numbers(f"{splits} --models tm,response")
    assert {row["model"] for row in found["summary"]} == {"tm", "response"}
    shown = run(f"{splits} --models tm,response --details").output
    assert "AUUC, sd and differences are per 100 people." in shown
    best = max(row["mean_auuc"] for row in found["summary"])
    assert f" {100 * best:.5f} " in shown


@pytest.mark.gate
def test_target_and_report_tell_money(folder):
    line = f"target {folder}/m.model {folder}/new.csv --share .5 -o {folder}/list.csv"
    found = numbers(line)
    assert found["expected"]["gain"] > 0
    assert len(pd.read_csv(folder / "list.csv")) == 500
    page = numbers(f"report {folder}/m.model -o {folder}/r.html --cost 1 --value .5")
    assert page["unit"]["per"] == "per 100 people"
    assert "profit" in (folder / "r.html").read_text()
    assert "per 100 people, of all people" in (folder / "r.html").read_text()


@pytest.mark.gate
def test_scores_of_money_are_exported(folder):
    model, table = load_model(folder / "m.model"), pd.read_csv(folder / "new.csv")
    table["joined"] = pd.to_datetime(table["joined"])
    for to in ("sql", "json", "onnx"):
        assert run(f"export {folder}/m.model --to {to} -o {folder}/m.{to}").exit_code == 0
    with duckdb.connect() as db:
        db.register("people", table)
        db.execute(f"CREATE TABLE scored AS {(folder / 'm.sql').read_text()}")
        found = db.sql("SELECT score, uplift FROM scored").df()
    np.testing.assert_allclose(found["score"], model.predict(table), rtol=0, atol=1e-7)
    np.testing.assert_allclose(found["uplift"], model.uplift(table), rtol=0, atol=1e-6)
