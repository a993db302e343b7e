"""The file by which a comparison goes on: what is done is not done again, nothing else is taken.

One model on one split.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tests.comparison.spies import LINEAR, TRIAL, Spy, Stubborn, fits, same

from auucmax import Trial, TrialKFold, TwoModels, auuc_inference
from auucmax._errors import InputError
from auucmax.baselines import MinimaxLinear
from auucmax.comparison import compare
from auucmax.data.read_trial import read_trial
from auucmax.estimators import TransformedOutcome


def test_seeds_are_given_where_there_are_none():
    compare([Spy(), Spy(random_state=3)], TRIAL, splits=2)
    seeds = [seed for what, *_, seed in Spy.shown if what == "fit"]
    assert seeds[1::2] == [3, 3]
    assert seeds[0] != seeds[2]
    assert all(isinstance(seed, int) and seed < 2**32 for seed in seeds)
    inner = TwoModels(RandomForestClassifier(n_estimators=3))
    same(compare([inner], TRIAL, splits=2), compare([inner], TRIAL, splits=2))
    assert inner.estimator.random_state is None  # the user's own is left alone


def test_pipelines_and_searches():
    search = GridSearchCV(
        TwoModels(Ridge()), {"estimator__alpha": [0.1, 10]}, cv=TrialKFold(2, random_state=0)
    )
    found = compare([make_pipeline(StandardScaler(), TwoModels()), search], TRIAL, splits=1)
    assert found.frame["error"].isna().all()
    assert found.frame["n_parameters"].tolist() == [10, 10]
    assert "StandardScaler), ('twomodels', TwoModels)" in found.frame["model"][0]


def test_only_randomised_rows_are_evaluated():
    trial = Trial(TRIAL.X, TRIAL.y, TRIAL.treatment, randomised=np.arange(600) < 400)
    found = compare([Spy()], trial, splits=1)
    _, test = trial.split(0.3, random_state=found.seeds[0])
    test = test.take(test.randomised)
    direct = auuc_inference(test.y, test.X.iloc[:, 0], treatment=test.treatment)
    assert found.frame["auuc"][0] == direct.estimate
    assert found.frame["n_test"][0] == test.n_rows < 180
    assert found.frame["n_train"][0] == 420


SRC = Path(__file__).resolve().parents[2] / "src"


def test_resume_does_only_what_is_missing(tmp_path):
    path = tmp_path / "new" / "results.jsonl"
    first = compare([Spy(), Spy(1)], TRIAL, splits=3, resume=path)
    assert fits() == 6
    text = path.read_text()
    same(compare([Spy(), Spy(1)], TRIAL, splits=3, resume=path), first)
    assert fits() == 6
    assert path.read_text() == text
    compare([Spy(), Spy(2)], TRIAL, splits=4, resume=str(path))
    assert fits() == 6 + 1 + 4
    assert path.read_text().startswith(text)


@pytest.mark.parametrize(
    "changes",
    [
        {"random_state": 1},
        {"test_size": 0.25},
        {"models": [Spy(random_state=0)]},
        {"trial": Trial(TRIAL.X, 1 - TRIAL.y, TRIAL.treatment)},
        {"trial": TRIAL.take(np.arange(600)[::-1])},
        {"trial": Trial(TRIAL.X.rename(columns=str.upper), TRIAL.y, TRIAL.treatment)},
        {"trial": Trial(TRIAL.X, TRIAL.y, TRIAL.treatment, np.arange(600) + 1.0)},
    ],
    ids=["seed", "test_size", "parameter", "outcome", "row order", "column names", "weight"],
)
def test_what_was_made_from_something_else_is_not_used(tmp_path, changes):
    path = tmp_path / "results.jsonl"
    call = {"models": [Spy()], "trial": TRIAL, "splits": 2, "resume": path}
    compare(**call)
    before = path.read_text()
    fresh = compare(**call | changes)
    assert fits() == 4
    assert path.read_text().startswith(before)
    same(fresh, compare(**call | changes))  # as read, to the last digit
    assert fits() == 4


def test_a_torn_last_line_is_dropped_and_done_again(tmp_path):
    path = tmp_path / "results.jsonl"
    whole = compare([Spy()], TRIAL, splits=3, resume=path)
    text = path.read_bytes()
    for cut in (1, 30, len(text.splitlines()[-1]), len(text.splitlines()[-1]) - 3):
        path.write_bytes(text[:-cut])
        before = fits()
        same(whole, compare([Spy()], TRIAL, splits=3, resume=path))
        assert fits() == before + 1
        assert len(path.read_bytes().splitlines()) == 3


@pytest.mark.parametrize(
    "content", [b"a,b\n1,2\n", b"notes without an end", b'{"auucmax": 1', b"\n"]
)
def test_a_file_of_something_else_is_left_alone(tmp_path, content):
    path = tmp_path / "mine.csv"
    path.write_bytes(content)
    with pytest.raises(InputError, match="line 1 is something else"):
        compare([Spy()], TRIAL, splits=1, resume=path)
    assert path.read_bytes() == content


def test_an_interrupt_leaves_the_file_whole(tmp_path):
    path = tmp_path / "results.jsonl"
    Stubborn.fails, Stubborn.error = (3,), KeyboardInterrupt
    with pytest.raises(KeyboardInterrupt):
        compare([Stubborn()], TRIAL, splits=4, resume=path)
    assert len([json.loads(line) for line in path.read_text().splitlines()]) == 2
    compare([Stubborn()], TRIAL, splits=4, resume=path)
    assert Stubborn.count == 3 + 2


def test_the_frame_holds_what_a_loop_would_find():
    found = compare(LINEAR, TRIAL, splits=3, test_size=0.4, random_state=5)
    assert found.frame.columns.tolist() == [
        "model", "split", "auuc", "standard_error", "gain", "gain_standard_error", "effect",
        "fit_seconds",
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


@pytest.mark.gate
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
    with pytest.warns(UserWarning, match="Stubborn failed on 2 of 3") as caught:
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
    found.plot()
    again = compare([TwoModels(), Stubborn()], TRIAL, splits=3, resume=path)
    assert Stubborn.count == 3 + 2
    assert again.frame["error"].isna().all()


def test_warnings_of_a_model_are_passed_on_once():
    class Constant(Spy):
        def predict(self, X):
            return np.zeros(len(X))

    # As users have it: warnings are shown, not raised.
    with pytest.warns(UserWarning, match="Constant, 3 of 3 splits: score should") as caught:
        compare([Constant(), Spy()], TRIAL, splits=3)
    assert len(caught) == 1


@pytest.mark.parametrize(
    ("models", "message"),
    [
        ([], "at least one"),
        ({}, "at least one"),
        (TwoModels(), "TwoModels"),
        ([TwoModels(), TwoModels()], "all different"),
        (["tm", "tm"], "all different"),
        ({1: TwoModels(), "1": Spy()}, "all different"),
        ([TwoModels], "got <class .*TwoModels"),
        ([StandardScaler()], "with fit, predict,.* got StandardScaler"),
        (["two"], "'two'"),
    ],
)
def test_bad_models(models, message):
    with pytest.raises(InputError, match=message) as caught:
        compare(models, TRIAL)
    assert caught.value.parameter == "models"


@pytest.mark.parametrize(
    "settings",
    [
        {"splits": 0},
        {"n_jobs": 0},
        {"test_size": 1.2},
        {"trial": TRIAL.X},
    ],
)
def test_bad_settings(settings, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=next(iter(settings))):
        compare(**{"models": [Spy()], "trial": TRIAL, "splits": 2} | settings)
    assert fits() == 0
    assert not list(tmp_path.iterdir())


def test_a_trial_of_many_arms():
    trial = Trial(TRIAL.X, TRIAL.y, np.arange(600) % 3)
    with pytest.raises(InputError, match="select_arm"):
        compare([Spy()], trial)


def test_names_stand_for_models_of_raw_columns():
    table = TRIAL.X.assign(
        town=np.where(TRIAL.y > 0, "Oslo", "Rome"), sent=TRIAL.treated, y=TRIAL.y
    )
    trial = read_trial(table, treatment="sent", outcome="y")
    found = compare(["tm", TwoModels(Ridge())], TRIAL, splits=1)
    assert found.frame["model"].tolist() == ["tm", "TwoModels(estimator=Ridge)"]
    found = compare(["tm", "cvt"], trial, splits=2)
    assert found.frame["error"].isna().all()
    assert found.to_json()["models"].keys() == {"tm", "cvt"}
    money = read_trial(table.assign(y=TRIAL.X.iloc[:, 0]), treatment="sent", outcome="y")
    with pytest.raises(InputError) as caught:
        compare(["cvt"], money)
    assert caught.value.parameter == "models"
