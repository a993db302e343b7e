from __future__ import annotations

from functools import partial

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.preprocessing import StandardScaler
from tests.compare.spies import LINEAR, TRIAL, Spy, Stubborn, fits, same

from auucmax import ClassTransformation, Trial, TwoModels, auuc_inference
from auucmax.compare import compare
from auucmax.compare.run import name_models
from auucmax.estimators import MinimaxLinear, TransformedOutcome
from auucmax.estimators.score_only import ScoreOnly


def test_the_frame_holds_what_a_loop_would_find():
    found = compare(LINEAR, TRIAL, splits=3, test_size=0.4, random_state=5)
    assert found.frame.columns.tolist() == [
        "model", "split", "auuc", "standard_error", "gain", "gain_standard_error", "fit_seconds",
        "n_parameters", "n_train", "n_test", "error",
    ]  # fmt: skip
    assert found.frame["split"].tolist() == [0, 1, 2] * 3
    assert (found.frame["fit_seconds"] > 0).all()
    row = found.frame.iloc[4]
    train, test = TRIAL.split(0.4, random_state=found.seeds[1])
    model = TransformedOutcome().fit(train.X, train.y, treatment=train.treatment)
    direct = auuc_inference(test.y, model.predict(test.X), treatment=test.treatment)
    assert row["model"] == "TransformedOutcome"
    assert row["auuc"] == direct.estimate
    assert row["standard_error"] == direct.standard_error
    assert row["gain"] == direct.gain
    assert row["gain_standard_error"] == direct.gain_standard_error
    assert (row["n_parameters"], row["n_train"], row["n_test"]) == (5, 360, 240)
    assert row["error"] is None


def test_no_model_sees_a_test_outcome():
    # Outcomes are row numbers, so that each can be told from all others.
    n = 90
    trial = Trial(
        pd.DataFrame({"x": np.arange(n) % 7, "row": np.arange(n)}),
        np.arange(n, dtype=float),
        np.arange(n) % 3 == 0,
        sample_weight=1.0 + np.arange(n),
    )
    compare([Spy(), Spy(1)], trial, splits=4, test_size=0.3)
    assert [what for what, *_ in Spy.shown] == ["fit", "predict"] * 8
    parts = []
    for (_, X, y, others, _), (_, X_test, _, nothing, _) in zip(
        Spy.shown[::2], Spy.shown[1::2], strict=True
    ):
        np.testing.assert_array_equal(X["row"], y)
        assert set(others) == {"treatment", "sample_weight"}
        np.testing.assert_array_equal(others["treatment"], y % 3 == 0)
        np.testing.assert_array_equal(others["sample_weight"], 1 + y)
        assert nothing == {}
        assert not set(X_test["row"]) & set(y)
        assert len(X_test) == 27
        assert (X_test["row"] % 3 == 0).sum() == 9  # stratified by treatment
        parts.append(frozenset(X_test["row"]))
    assert parts[::2] == parts[1::2]  # the same splits for both
    assert len(set(parts)) == 4


def test_results_depend_neither_on_processes_nor_on_order_nor_on_the_other_models():
    one = compare([*LINEAR, MinimaxLinear()], TRIAL, splits=2, random_state=1)
    two = compare([*LINEAR, MinimaxLinear()], TRIAL, splits=2, random_state=1, n_jobs=2)
    same(one, two)
    other = compare([MinimaxLinear(), LINEAR[0]], TRIAL, splits=3, random_state=1)
    for name in ("MinimaxLinear", "TwoModels"):
        mine, its = (c.frame[c.frame["model"] == name].head(2) for c in (one, other))
        assert mine["auuc"].tolist() == its["auuc"].tolist()
    assert other.seeds[:2] == one.seeds
    assert compare(LINEAR[:1], TRIAL, splits=2, random_state=2).seeds != one.seeds
    drawn = compare(LINEAR[:1], TRIAL, splits=1, random_state=np.random.default_rng(1))
    assert drawn.seeds == one.seeds[:1]


def test_a_failure_is_in_the_frame_and_tried_again(tmp_path):
    path = tmp_path / "results.jsonl"
    Stubborn.fails = (2, 3)
    with pytest.warns(UserWarning, match="Stubborn should fit every split.* 2 of 3") as caught:
        found = compare([TwoModels(), Stubborn()], TRIAL, splits=3, resume=path)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    failed = found.frame[found.frame["model"] == "Stubborn"].iloc[1:]
    assert failed["error"].tolist() == ["ArithmeticError: no luck."] * 2
    assert failed[["auuc", "gain", "fit_seconds", "n_parameters"]].isna().all(axis=None)
    assert failed["n_test"].tolist() == [180, 180]
    assert found.summary()["n_failed"].to_dict() == {"TwoModels": 0, "Stubborn": 2}
    assert found.summary()["mean_rank"]["Stubborn"] > 1.5
    differences = found.differences("TwoModels")
    assert differences.loc["Stubborn", "n_splits"] == 1
    assert np.isnan(differences.loc["Stubborn", "p_value"])
    assert "failed" in str(found)
    found.plot()
    again = compare([TwoModels(), Stubborn()], TRIAL, splits=3, resume=path)
    assert Stubborn.count == 3 + 2
    assert again.frame["error"].isna().all()


def test_all_may_fail():
    Stubborn.fails = (1, 2)
    with pytest.warns(UserWarning, match="2 of 2"):
        found = compare([Stubborn()], TRIAL, splits=2)
    assert "nan" in str(found)
    found.plot()


def test_warnings_of_a_model_are_passed_on_once():
    class Constant(Spy):
        def predict(self, X):
            return np.zeros(len(X))

    # As users have it: warnings are shown, not raised.
    with pytest.warns(UserWarning, match="Constant, 3 of 3 splits: score should") as caught:
        compare([Constant(), Spy()], TRIAL, splits=3)
    assert len(caught) == 1


def test_names_tell_models_apart():
    models = [
        TwoModels(),
        TwoModels(RandomForestClassifier(max_depth=2)),
        ClassTransformation(balance="none"),
        MinimaxLinear(random_state=1),
        ScoreOnly(fit_with=same),
        ScoreOnly(partial(same, 1)),
    ]
    assert list(name_models(models)) == [
        "TwoModels",
        "TwoModels(estimator=RandomForestClassifier(max_depth=2))",
        "ClassTransformation(balance='none')",
        "MinimaxLinear(random_state=1)",
        "ScoreOnly(fit_with=same)",
        "ScoreOnly(model=partial)",
    ]


@pytest.mark.parametrize(
    ("models", "message"),
    [
        ([], "models should hold at least one estimator, got none. Pass"),
        ({}, "models should hold at least one estimator, got none. Pass"),
        (TwoModels(), "models should be a list .* got TwoModels. Put"),
        ([TwoModels(), TwoModels()], "different names, got 'TwoModels' more than once. Drop"),
        ({1: TwoModels(), "1": Spy()}, "different names, got '1' more than once. Drop"),
        ([TwoModels], r"got the class TwoModels. Make one: TwoModels\(\)"),
        ([StandardScaler()], "got a StandardScaler without predict. Use"),
        (["TwoModels"], "got a str without fit, predict, get_params, set_params. Use"),
    ],
)
def test_bad_models(models, message):
    with pytest.raises(ValueError, match=message):
        compare(models, TRIAL)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"splits": 0}, "splits should be a whole number of at least 1, got 0"),
        ({"n_jobs": 0}, "n_jobs should be a whole number of at least 1, got 0"),
        ({"test_size": 1.2}, "test_size should be a number strictly between"),
        ({"trial": TRIAL.X}, "trial should be a Trial, got DataFrame. Make"),
        ({"random_state": None, "resume": "x.jsonl"}, "random_state should be .* got None.*Pass"),
        ({"models": [Spy(lambda: 0)], "resume": "x.jsonl"}, "that can be pickled.*got Spy.*lambda"),
    ],
)
def test_bad_settings(settings, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=message):
        compare(**{"models": [Spy()], "trial": TRIAL, "splits": 2} | settings)
    assert fits() == 0
    assert not list(tmp_path.iterdir())


def test_a_trial_of_many_arms():
    trial = Trial(TRIAL.X, TRIAL.y, np.arange(600) % 3)
    with pytest.raises(ValueError, match=r"two arms, got 0, 1, 2\. Compare .*select_arm\(1\)"):
        compare([Spy()], trial)


def test_warnings_of_workers_reach_the_caller():
    constant = Trial(np.ones((600, 1)), TRIAL.y, TRIAL.treatment)
    with pytest.warns(UserWarning, match="TwoModels, 2 of 2 splits: score should tell"):
        compare([TwoModels()], constant, splits=2, n_jobs=2)
