import json

import numpy as np
import pytest
from experiments import cu2, datasets, trials
from experiments.harness import Task

from auucmax import Trial, make_trial

pytestmark = pytest.mark.gate


@pytest.fixture(scope="module")
def hillstrom():
    line = datasets.run(Task(datasets.NAME, datasets.MAIN, datasets.DESCRIPTION, 0))
    return json.loads(json.dumps(line, allow_nan=False))


def test_hillstrom_and_the_slip_of_the_paper(hillstrom):
    assert (hillstrom["size"], hillstrom["features"]) == (42_693, 22)
    page = datasets.render([hillstrom])
    assert "| Group T ratio | 0.49905 | 0.50095 | **no** |" in page
    assert page.count("| yes |") == 6
    assert '"Group T ratio" of 0.49905 is the share of the controls' in page
    assert "to a positive rate of 0.12883, with 0.49905 to 0.12874; it prints 0.12883" in page
    assert "The Criteo file was not at hand" in page
    assert "## CU2-1M" not in page


def test_the_slip_is_said_only_where_it_shows(hillstrom):
    right = datasets.render([hillstrom | {"treated_share": 0.49905}])
    assert "as the paper says" in right
    assert "is the share of the controls" not in right
    assert "is neither" in datasets.render([hillstrom | {"treated_share": 0.4}])


def test_numbers_of_a_small_trial():
    y, t = np.array([1, 0, 1, 1, 0, 0]), np.array([1, 1, 1, 0, 0, 0])
    found = datasets.describe_trial(Trial(X=np.zeros((6, 2)), y=y, treatment=t))
    assert found["treated_share"] == 0.5
    assert found["positive"] == 0.5
    assert found["uplift"] == pytest.approx(1 / 3)
    # Each arm has a variance of 1/3 over 3 rows.
    assert found["uplift_error"] == pytest.approx(np.sqrt(2 / 9))
    assert found["binary"]
    assert found["true_uplift"] is None


def test_a_small_version_of_the_synthetic_one(hillstrom, monkeypatch):
    small = make_trial(5_000, preset="cu2-1m", random_state=0)
    monkeypatch.setitem(datasets.LOADERS, cu2.SYNTHETIC, lambda: small)
    line = datasets.run(Task(datasets.NAME, cu2.SYNTHETIC, datasets.DESCRIPTION, 0))
    assert line["treated_share"] == pytest.approx(0.8502)
    page = datasets.render([line, hillstrom])
    assert '"cu2-1m, synthetic" is made up' in page
    assert "| Size | 1000000 | 5000 |" in page
    assert "The paper's own numbers agree among themselves" in page
    assert page.index("| Hillstrom women |") < page.index("| cu2-1m, synthetic |")


def test_the_real_one_is_compared_when_there(hillstrom):
    page = datasets.render([hillstrom | {"trial": cu2.REAL, "treated_share": 0.8502}])
    assert "not at hand" not in page
    assert "| Group T ratio | 0.8502 | 0.8502 | yes |" in page
    assert "| Size | 1000000 | 42693 | **no** |" in page


def test_what_is_missing_is_left_out(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("AUUCMAX_DATA", str(tmp_path))
    monkeypatch.setattr("auucmax.data.fetch.user_cache_dir", lambda *_, **__: str(tmp_path / "no"))
    names = [task.trial for task in datasets.tasks()]
    assert names == [
        *trials.HILLSTROM, trials.CONVERSION, *trials.SOCIAL_PRESSURE, cu2.SYNTHETIC
    ]  # fmt: skip
    said = capsys.readouterr().err
    assert all(f"skipped {name}" in said for name in (cu2.REAL, datasets.JOBS, datasets.IHDP))


def test_means_are_not_called_rates(hillstrom):
    line = hillstrom | {"trial": datasets.IHDP, "binary": False, "true_uplift": 4.0}
    page = datasets.render([line])
    assert "| IHDP, replication 1 (means, not rates) |" in page
    assert "not a random division" in page
