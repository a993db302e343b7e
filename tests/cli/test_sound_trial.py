"""A table that is no randomised trial is refused; a model fitted all the same always says so."""

import json

import numpy as np
import pytest
from tests.cli.commands import FIT, numbers, result_of, run
from tests.model.trial_table import trial_table


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """Those who spend more are treated more often; columns of after."""
    folder = tmp_path_factory.mktemp("sound")
    table, rng = trial_table(2_400, random_state=4), np.random.default_rng(0)
    mailed = table["arm"] == "mail"
    chance = 1 / (1 + np.exp(-(table["spent"] - 100) / 60))
    found = {
        "sorted": table.assign(arm=np.where(rng.random(2_400) < chance, "mail", "none")),
        "sent": table.assign(sent=mailed * 1),
        "paid": table.assign(paid=np.where(table["visit"] == 1, table["spent"], 0.0)),
        "opened": table.assign(opened=mailed & (rng.random(2_400) < 0.3)),
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
    assert (plan["gain"], plan["missing"]) == (None, "failed check")
    # Without a share there is no profit to choose by.
    refused = run(f"target {model} {new} --cost 1 --value 2 -o {tmp_path}/list.csv")
    assert (refused.exit_code, "--share" in refused.stderr) == (2, True)
    for line in (f"evaluate {model}", listed, f"report {model} -o {tmp_path}/r.html"):
        assert "check" in run(f"{line} --quiet").stdout.splitlines()[0]
    assert 'role="alert"' in (tmp_path / "r.html").read_text()
