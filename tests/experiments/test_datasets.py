"""The table of data sets, and the slip of the paper's."""

import json

import numpy as np
import pytest
from experiments import cu2, datasets, trials
from experiments.harness import Task
from experiments.trials import available
from tests.experiments.made_up import rows_of

from auucmax import Trial, make_trial

pytestmark = pytest.mark.gate


@pytest.fixture(scope="module")
def hillstrom():
    line = datasets.run(Task(datasets.NAME, datasets.MAIN, datasets.DESCRIPTION, 0))
    return json.loads(json.dumps(line, allow_nan=False))


def test_hillstrom_and_the_slip_of_the_paper(hillstrom):
    assert (hillstrom["size"], hillstrom["features"]) == (42_693, 22)
    page = datasets.render([hillstrom])
    assert rows_of(page, "Group T ratio")[0][1:] == ["0.49905", "0.50095", "no"]
    assert page.count("| yes |") == 6
    assert "to a positive rate of 0.12883, with 0.49905 to 0.12874; it prints 0.12883" in page
    real = datasets.render([hillstrom | {"trial": cu2.REAL, "treated_share": 0.8502}])
    assert rows_of(real, "Group T ratio")[0][1:] == ["0.8502", "0.8502", "yes"]


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


def test_what_is_missing_is_left_out(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("AUUCMAX_DATA", str(tmp_path))
    monkeypatch.setattr("auucmax.data.fetch.user_cache_dir", lambda *_, **__: str(tmp_path / "no"))
    kept = {task.trial for task in available(datasets.tasks(), datasets.probe)}
    assert kept & {cu2.REAL, datasets.CRITEO, datasets.JOBS, datasets.IHDP} == set()
    assert {*trials.HILLSTROM, cu2.SYNTHETIC} <= kept
    assert f"skipped {cu2.REAL}" in capsys.readouterr().err


def test_the_simulated_trial_has_the_published_rates():
    trial = make_trial(2_000, preset="cu2-1m", random_state=0)
    published = {name: float(text) for name, text in datasets.PAPER[cu2.REAL].items()}
    assert trial.population.base_rate == pytest.approx(published["positive_control"], abs=5e-6)
    assert trial.population.ate == pytest.approx(published["uplift"], abs=5e-6)
    assert trial.treated.mean() == pytest.approx(published["treated_share"], abs=1e-3)
