"""One model on one split."""

from __future__ import annotations

import types

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tests.compare.spies import TRIAL, Spy, same

from auucmax import Trial, TrialKFold, TwoModels, auuc_inference
from auucmax._progress import is_quiet
from auucmax.compare import compare, fit
from auucmax.estimators import TARNet, UpliftLambdaMART
from auucmax.estimators.score_only import ScoreOnly


def test_seeds_are_given_where_there_are_none():
    compare([Spy(), Spy(random_state=3)], TRIAL, splits=2)
    seeds = [seed for what, *_, seed in Spy.shown if what == "fit"]
    assert seeds[1::2] == [3, 3]
    assert seeds[0] != seeds[2]
    assert all(isinstance(seed, int) and seed < 2**32 for seed in seeds)
    inner = TwoModels(RandomForestClassifier(n_estimators=3))
    same(compare([inner], TRIAL, splits=2), compare([inner], TRIAL, splits=2))
    assert inner.estimator.random_state is None  # the user's own is left alone


def test_a_fitted_model_of_others_is_scored_as_it_is(tmp_path):
    fitted = [
        RandomForestRegressor(n_estimators=3, max_depth=3).fit(TRIAL.X, TRIAL.y * k) for k in (1, 2)
    ]
    path = tmp_path / "results.jsonl"
    found = compare([ScoreOnly(fitted[0])], TRIAL, splits=1, resume=path)
    assert fitted[0].random_state is None
    _, test = TRIAL.split(0.3, random_state=found.seeds[0])
    direct = auuc_inference(test.y, fitted[0].predict(test.X), treatment=test.treatment)
    assert found.frame["auuc"][0] == direct.estimate
    # Equal parameters, but not equal models: the file knows.
    compare({"other": ScoreOnly(fitted[1])}, TRIAL, splits=1, resume=path)
    assert len(path.read_text().splitlines()) == 2


def test_scores_that_cannot_be_ranked_are_failures():
    class Missing(Spy):
        def predict(self, X):
            return np.full(len(X), np.nan)

    with pytest.warns(UserWarning, match="Missing.*no missing values"):
        compare([Missing()], TRIAL, splits=1)


def test_pipelines_and_searches():
    search = GridSearchCV(
        TwoModels(Ridge()), {"estimator__alpha": [0.1, 10]}, cv=TrialKFold(2, random_state=0)
    )
    found = compare([make_pipeline(StandardScaler(), TwoModels()), search], TRIAL, splits=1)
    assert found.frame["error"].isna().all()
    assert found.frame["n_parameters"].tolist() == [10, 10]
    assert found.frame["model"][0] == "Pipeline(StandardScaler, TwoModels)"


def test_parameters_of_models_of_others():
    models = {
        "says": ScoreOnly(TwoModels().fit(TRIAL.X, TRIAL.y, treatment=TRIAL.treatment)),
        "does not": ScoreOnly(lambda X: X.iloc[:, 0]),
    }
    counts = compare(models, TRIAL, splits=1).frame["n_parameters"]
    assert counts[0] == 10
    assert pd.isna(counts[1])


def test_libraries_are_imported_before_the_clock_starts(monkeypatch):
    events = []

    def clock():
        events.append("clock")
        return 0.0

    monkeypatch.setattr(fit, "import_module", events.append)
    monkeypatch.setattr(fit, "time", types.SimpleNamespace(perf_counter=clock))
    monkeypatch.setattr(fit, "fit_rows", lambda *args, **rows: events.append("fit"))
    train, test = TRIAL.split(random_state=0)
    expected = {
        TARNet(): ["torch"],
        UpliftLambdaMART(): ["lightgbm"],
        make_pipeline(StandardScaler(), TARNet()): ["torch"],
        TwoModels(): [],
    }
    for model, libraries in expected.items():
        with pytest.raises(NotFittedError):
            fit._measure(model, train, test)
        assert events == [*libraries, "clock", "fit", "clock"]
        events.clear()


def test_bars_of_models_are_off_while_the_comparison_has_its_own():
    seen = []

    class Asks(Spy):
        def fit(self, X, y, **others):
            seen.append(is_quiet())
            return self

    compare([Asks()], TRIAL, splits=1)
    assert seen == [True]
    assert not is_quiet()


def test_only_randomised_rows_are_evaluated():
    trial = Trial(TRIAL.X, TRIAL.y, TRIAL.treatment, randomised=np.arange(600) < 400)
    found = compare([Spy()], trial, splits=1)
    _, test = trial.split(0.3, random_state=found.seeds[0])
    test = test.take(test.randomised)
    direct = auuc_inference(test.y, test.X.iloc[:, 0], treatment=test.treatment)
    assert found.frame["auuc"][0] == direct.estimate
    assert found.frame["n_test"][0] == test.n_rows < 180
    assert found.frame["n_train"][0] == 420
