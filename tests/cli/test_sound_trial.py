"""A table that is no randomised trial is refused; a model fitted all the same always says so."""

import json

import numpy as np
import pandas as pd
import pytest
from tests.cli.commands import FIT, NAMED, numbers, result_of, run
from tests.model.trial_table import trial_table


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """Those who spend more are treated more often; columns of after; lost rows; a relapse."""
    folder = tmp_path_factory.mktemp("sound")
    table, rng = trial_table(2_400, random_state=4), np.random.default_rng(0)
    mailed = table["arm"] == "mail"
    chance = 1 / (1 + np.exp(-(table["spent"] - 100) / 60))
    found = {
        "sorted": table.assign(arm=np.where(rng.random(2_400) < chance, "mail", "none")),
        "sent": table.assign(sent=mailed * 1),
        "paid": table.assign(paid=np.where(table["visit"] == 1, table["spent"], 0.0)),
        "opened": table.assign(opened=mailed & (rng.random(2_400) < 0.3)),
        "lost": table.assign(visit=table["visit"].mask(mailed & (rng.random(2_400) < 0.2))),
        "open": table.assign(visit=table["visit"].mask(rng.random(2_400) < 0.1)),
        "relapse": table.assign(visit=1 - table["visit"]),
        "cents": table.assign(
            arm=np.where(rng.random(2_400) < chance, "mail", "none"),
            cents=table["spent"].rank(method="first").astype(int),
            pairs=(table["spent"] // 2).astype(int),
        ).drop(columns="spent"),
        "fair": table,
    }
    for name, frame in found.items():
        frame.to_csv(folder / f"{name}.csv", index=False)
    return folder


@pytest.fixture(scope="module")
def despite(tables):
    """A model of a table that is no trial."""
    path = tables / "despite.model"
    result = run(f"fit {tables}/sorted.csv {FIT} --id person --despite-check -o {path} --json")
    assert result.exit_code == 0, result.output
    return path, json.loads(result.stdout)


@pytest.mark.parametrize("more", ["", "--ignore spent", "--features age,town"])
def test_no_choice_of_features_hides_a_dependence(tables, more):
    result = run(f"check {tables}/sorted.csv {NAMED} --id person {more} --quiet")
    assert result.exit_code == 1
    assert "spent" in result.stdout


@pytest.mark.gate
@pytest.mark.parametrize(
    "more", ["--id cents --after pairs", "--groups pairs --id person --after cents"]
)
def test_treatment_that_follows_the_id_or_the_group_is_found(tables, more, tmp_path):
    name = more.split()[1]
    result = run(f"check {tables}/cents.csv {NAMED} {more}")
    assert (result.exit_code, name in result.stdout) == (1, True)
    result = run(f"fit {tables}/cents.csv {FIT} {more} -o {tmp_path}/m.model")
    assert (result.exit_code, name in result.stderr) == (1, True)


@pytest.mark.quick_cases("opened")
@pytest.mark.parametrize(
    ("name", "column"),
    [("sorted", "spent"), ("sent", "sent"), ("paid", "paid"), ("opened", "opened")],
)
def test_fit_stops_with_the_reason(tables, tmp_path, name, column):
    line = f"fit {tables}/{name}.csv {FIT} --id person -o {tmp_path}/m.model"
    result = run(line)
    assert result.exit_code == 1
    first, second = [text for text in result.stderr.splitlines() if not text.startswith("note: ")]
    assert first.startswith("auucmax: ")
    assert column in first + second
    assert not (tmp_path / "m.model").exists()
    found = numbers(f"{line} --after {column}")["result"]
    assert not found["failed_check"]
    assert found["arms"][0]["certificate"] is not None


def test_a_model_fitted_despite_the_check_has_no_certificate_and_says_so(tables, despite, tmp_path):
    model, fitted = despite
    new = tables / "fair.csv"
    assert fitted["result"]["failed_check"]
    assert fitted["result"]["arms"][0]["certificate"] is None
    listed = f"target {model} {new} -s .3 -o {tmp_path}/list.csv"
    plan = result_of(listed)["decision"]["plan"]
    assert (plan["gain"], plan["missing"]["why"]) == (None, "failed check")
    # Without a share there is no profit to choose by.
    refused = run(f"target {model} {new} --cost 1 --value 2 -o {tmp_path}/list.csv")
    assert (refused.exit_code, "--share" in refused.stderr) == (2, True)
    for line in (f"evaluate {model}", listed, f"report {model} -o {tmp_path}/r.html"):
        assert "check" in run(f"{line} --quiet").stdout.splitlines()[0]
    assert 'role="alert"' in (tmp_path / "r.html").read_text()


@pytest.mark.gate
def test_nothing_is_compared_on_rows_that_are_no_trial(tables):
    result = run(f"compare {tables}/sorted.csv {NAMED} --ignore person --models cvt --json")
    assert result.exit_code == 1
    assert "spent" in json.loads(result.stdout)["failed_check"]


@pytest.mark.gate
def test_scores_of_a_table_that_is_no_trial_get_no_certificate(tables):
    frame = pd.read_csv(tables / "sorted.csv").dropna(subset="age")
    frame.to_csv(tables / "known.csv", index=False)
    found = result_of(f"evaluate {tables}/known.csv --score-column age {NAMED}")
    assert found["failed_check"]
    assert found["arms"][0]["certificate"] is None


def checks_of(result):
    return {test["name"] for test in result["arms"][0]["check"]["tests"]}


@pytest.mark.gate
def test_missing_outcomes_are_compared_between_the_arms(tables, tmp_path):
    assert run(f"check {tables}/lost.csv {NAMED} --id person").exit_code == 1
    line = f"fit {tables}/lost.csv {FIT} --id person -o {tmp_path}/m.model"
    refused = run(line)
    assert (refused.exit_code, "'visit'" in refused.stderr) == (2, True)
    assert run(f"{line} --drop-missing-outcomes").exit_code == 1


@pytest.mark.gate
def test_rows_whose_outcome_is_not_known_yet_are_left_out(tables, tmp_path):
    assert run(f"check {tables}/open.csv {NAMED} --id person").exit_code == 0
    model = tmp_path / "m.model"
    line = f"fit {tables}/open.csv {FIT} --id person --drop-missing-outcomes -o {model}"
    found = numbers(line)
    table = pd.read_csv(tables / "open.csv")
    known = table[(table["arm"] != "phone") & table["visit"].notna()]
    assert found["result"]["n_rows"] == len(known)
    mean = known[known["arm"] == "mail"]["visit"].mean()
    assert found["result"]["arms"][0]["rows"][1]["mean"] == pytest.approx(mean)
    assert sum(found["fit"]["without_outcome"]) == (table["arm"] != "phone").sum() - len(known)
    assert "missing outcomes" in checks_of(found["result"])
    # The model remembers it: its own file is recognised.
    assert result_of(f"evaluate {model} {tables}/open.csv") == found["result"]


@pytest.mark.gate
def test_lower_is_better(tables, tmp_path):
    higher, lower = tmp_path / "higher.model", tmp_path / "lower.model"
    run(f"fit {tables}/fair.csv {FIT} --id person -o {higher}")
    run(f"fit {tables}/relapse.csv {FIT} --id person --lower-is-better -o {lower}")
    found = [result_of(f"evaluate {model}") for model in (higher, lower)]
    first, second = (one["arms"][0] for one in found)
    for name in ("auuc", "gain", "effect", "certificate"):
        assert first[name] == second[name]
    # Means are those of the table.
    assert first["rows"][1]["mean"] == pytest.approx(1 - second["rows"][1]["mean"])
    lists = []
    for model in (higher, lower):
        run(f"target {model} {tables}/fair.csv -s .3 -o {tmp_path}/list.csv")
        lists.append(pd.read_csv(tmp_path / "list.csv"))
    pd.testing.assert_frame_equal(*lists)
    again = result_of(f"evaluate {lower} {tables}/relapse.csv --lower-is-better")
    assert again == found[1]
    refused = run(f"evaluate {higher} --lower-is-better")
    assert (refused.exit_code, "--lower-is-better" in refused.stderr) == (2, True)
