"""CU2: quick logistic models against their slow twins, and a small version of the experiment."""

import os
from pathlib import Path

import numpy as np
import pytest
from experiments import cu2
from experiments.arm_logistic import KINDS, PathTuned
from experiments.harness import Task
from experiments.searched import Tuned
from experiments.trials import available
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.experiments.made_up import made_up, rows_of

from auucmax import make_trial
from auucmax.data.fetch import fetch_criteo

pytestmark = pytest.mark.gate


@pytest.fixture(scope="module")
def small():
    """A small trial of the synthetic population."""
    return make_trial(20_000, preset="cu2-1m", random_state=1)


# The quick models and their slow twins.


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("l2", [0.0, 1e-6, 1e-4, 1e-2])
def test_the_slow_twin_agrees(kind, l2):
    trial = make_trial(4_000, n_features=5, random_state=2)
    X = trial.X.to_numpy() * [1, 2, 3, 0.5, 1] + [0, 5, -2, 1, 0]
    rows = {"X": X, "y": trial.y, "treatment": trial.treatment}
    slow = Tuned(kind, l2_grid=(l2,))
    if l2 == 0 and kind != "TM":
        # The stacked columns are collinear: the slow twin cannot solve it. TM without a penalty
        # has the same predictions.
        slow = Tuned("TM", l2_grid=(0.0,))
    quick = PathTuned(kind, l2_grid=(l2,)).fit(**rows)
    assert quick.predict(X) == pytest.approx(slow.fit(**rows).predict(X), abs=2e-6)
    assert quick.n_parameters_ == {"TM": 12}.get(kind, 17)


@settings(deadline=None, max_examples=20)
@given(
    seed=st.integers(0, 10**6),
    d=st.integers(1, 4),
    constant=st.booleans(),
    l2=st.sampled_from([1e-5, 1e-3]),
)
def test_shared_penalty_of_any_features(seed, d, constant, l2):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(300, d)) * rng.uniform(0.1, 10, d) + rng.normal(size=d)
    if constant:
        X[:, 0] = 3.0
    treatment = np.arange(300) % 3 == 0
    y = rng.random(300) < np.where(treatment, 0.5, 0.3)
    rows = {"X": X, "y": y, "treatment": treatment}
    slow, quick = (
        kind_of("SDR, treatment column", l2_grid=(l2,)).fit(**rows).predict(X)
        for kind_of in (Tuned, PathTuned)
    )
    assert quick == pytest.approx(slow, abs=1e-5)


# The experiment.


def test_a_small_version(small, monkeypatch):
    monkeypatch.setattr(cu2, "load_trial", lambda name: small)
    cu2._load_split.cache_clear()
    lines = [cu2.run(task) for task in cu2.tasks(2) if task.trial == cu2.SYNTHETIC]
    cu2._load_split.cache_clear()
    assert [line["model"] for line in lines] == [*cu2.MODELS] * 2
    for line in lines:
        assert line["true_random"] < line["best_auuc"]
        assert line["true_auuc"] < line["best_auuc"] + 4 * line["true_auuc_error"]
    page = cu2.render(lines)
    assert "**no number of this page but the paper's own is of CU2-1M.**" in page
    (row,) = rows_of(page, "AUUC-max")
    means = [np.mean([x[n] for x in lines if x["model"] == "AUUC-max"])
             for n in ("auuc", "true_auuc")]  # fmt: skip
    assert row[2].startswith(f"{means[0]:.5f} ±")
    assert (row[3], row[-3]) == ("0.00279 ± 0.00149", f"{means[1]:.5f}")


def test_the_real_file_is_looked_for(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("AUUCMAX_DATA", str(tmp_path))
    monkeypatch.setattr("auucmax.data.fetch.user_cache_dir", lambda *_, **__: str(tmp_path / "no"))
    tasks = [task for task in cu2.tasks(1) if task.trial == cu2.REAL]
    assert available(tasks, cu2.probe) == []
    said = capsys.readouterr().err
    assert "criteo-research-uplift-v2.1.csv.gz should be in one of" in said
    (tmp_path / "criteo-uplift-v2.1.csv").touch()
    assert available(tasks, cu2.probe) == tasks


def test_the_rows_that_are_drawn(small):
    drawn, again = (cu2.draw_rows(small, 5_000) for _ in range(2))
    assert drawn.n_rows == 5_000
    assert drawn.X.equals(again.X)
    assert len(drawn.X.drop_duplicates()) == 5_000
    assert 0.8 < drawn.treated.mean() < 0.9


def test_the_path_of_the_real_file(tmp_path):
    file = Path(
        os.environ.get("AUUCMAX_DATA", ""), "criteo_sample/criteo_uplift_v2.1_sample1000.csv"
    )
    if not file.is_file():
        pytest.skip("AUUCMAX_DATA has no real rows")
    (tmp_path / "criteo-uplift-v2.1.csv").symlink_to(file)
    sample = fetch_criteo(data_dir=tmp_path, download=False)
    trial = cu2.draw_rows(sample, sample.n_rows)
    assert trial.X.equals(sample.X)
    # Three visits among the controls: too few for folds, so the l2 of TM is given.
    train, test = next(
        parts
        for parts in (cu2.split(trial, k) for k in range(9))
        if parts[0].y[~parts[0].treated].any()
    )
    line = cu2.line_of(Task(cu2.NAME, cu2.REAL, "AUUC-max", 0), train, test)
    assert "true_auuc" not in line
    assert line["chosen"]["grid"] == [0.5, 1.0, 5.0]
    two = PathTuned("TM", l2_grid=(1e-4,)).fit(train.X, train.y, treatment=train.treatment)
    assert np.abs(two.predict(test.X)).max() < 1


def test_the_claim_is_judged_over_all_pairs():
    """No clear difference to TM, but one between SDR and AUUC-max."""
    rng = np.random.default_rng(0)
    base, both = 0.05 + 0.003 * rng.normal(size=20), 0.003 * (-1.0) ** np.arange(20)
    shifts = {"TM": 0.0, "SDR": both + 0.0005, "AUUC-max": both - 0.0005, "SVM-DP": 0.0}
    lines = [
        made_up(cu2.NAME, cu2.REAL, model, k, auuc=float(value), random=0.04)
        for model, shift in shifts.items()
        for k, value in enumerate(base + shift + 1e-5 * rng.normal(size=20))
    ]
    (claim,) = cu2.claims(lines)
    assert (claim.holds, "1 of 6 pairs" in claim.found) == ("no", True)
    assert (
        cu2.claims([line for line in lines if line["model"] in ("TM", "SVM-DP")])[0].holds == "yes"
    )
    first = cu2.render([line for line in lines if line["split"] == 0])  # a run that has begun
    assert rows_of(first, "SDR")[0][5:9] == [""] * 4
