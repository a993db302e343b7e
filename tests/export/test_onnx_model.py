"""Graphs are run by onnxruntime."""

import json

import numpy as np
import onnxruntime
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.export.cases import (
    COSTS,
    cases,
    check_arms,
    example,
    fit_encoder,
    fitted_ensemble,
    model_of,
    two_arms,
)

from auucmax import fit, load, make_trial, read_trial
from auucmax.encoding import TableEncoder
from auucmax.estimators.formula import Formula, Part, RankMean
from auucmax.export import to_onnx
from auucmax.model.registry import MODELS
from auucmax.targeting.calibration import Calibration


def session_of(model):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def feed(case):
    rows, columns = case.rows(), {}
    for column in case.encoder.columns_:
        values = [row[column.name] for row in rows]
        if column.kind == "category":
            texts = ["" if v is None else v for v in values]
            columns[column.name] = np.array(texts, dtype=object)
        else:
            numbers = [np.nan if v is None else float(v) for v in values]
            columns[column.name] = np.array(numbers)
    return columns


def check(case):
    model = to_onnx(case.model)
    score, uplift, arm = session_of(model).run(None, feed(case))
    assert (np.abs(score - case.score) <= case.tolerance).all()  # closer than 1e-6
    np.testing.assert_allclose(uplift, case.calibration(score), rtol=0, atol=1e-9)
    assert arm.tolist() == np.where(uplift > 0, "treated", "none").tolist()


@settings(max_examples=40, deadline=None)
@given(cases())
def test_onnxruntime_scores_as_python_does(case):
    check(case)


@pytest.mark.gate
@settings(max_examples=30, deadline=None)
@given(cases(bent=True))
def test_onnxruntime_bends_and_branches_as_python_does(case):
    check(case)


@pytest.mark.gate
@pytest.mark.parametrize("bent", [False, True])
@settings(max_examples=150, deadline=None)
@given(case=st.data())
def test_many_tables(bent, case):
    check(case.draw(cases(bent=bent)))


@pytest.mark.parametrize("bent", [False, True])
def test_a_table_with_everything(bent):
    check(example(bent))


def test_many_knots_are_found_by_a_tree_and_in_doubles():
    rng = np.random.default_rng(0)
    encoder = TableEncoder().fit(pd.DataFrame({"x": [0.0, 1.0, 2.0]}))
    scores = np.unique(rng.normal(size=1_000))
    knots = np.array([scores, np.sort(rng.random(len(scores)))])
    formula = Formula((Part(1.0, "identity", 0.0, np.array([1.0])),))
    mean = RankMean((formula, formula), (knots, knots[:, :1]))
    x = np.concatenate([scores, rng.normal(size=500), [-1e300, 1e300]])
    (score,) = session_of(to_onnx(model_of(encoder, mean))).run(["score"], {"x": x})
    np.testing.assert_allclose(score, mean(x[:, None]), rtol=0, atol=1e-12)


def test_an_encoder_that_has_such_a_text_for_a_level_keeps_it():
    encoder = fit_encoder({"c": "category"}, {"c": ["a", "a", None, None, "b", "b"]})
    plain = json.loads(json.dumps(encoder.to_dict()).replace('"b"', '"NA"'))
    encoder = TableEncoder.from_dict(plain)
    formula = Formula((Part(1.0, "identity", 0.0, np.array([1.0, 2.0, 4.0])),))
    texts = ["a", "NA", "null"]
    session = session_of(to_onnx(model_of(encoder, formula)))
    (score,) = session.run(["score"], {"c": np.array(texts, dtype=object)})
    assert score.tolist() == [1, 2, 4]
    assert formula(encoder.transform(pd.DataFrame({"c": texts}))).tolist() == [1, 2, 4]


@pytest.mark.gate
@pytest.mark.filterwarnings("ignore::UserWarning")  # about small trials
@pytest.mark.parametrize("name", MODELS)
def test_models_that_were_saved_and_loaded(name, tmp_path):
    trial = make_trial(1_500, n_features=4, base_rate=0.4, ate=0.1, random_state=0)
    town = np.random.default_rng(0).choice(["Oslo", "Rome", None], size=1_500)
    table = trial.X.assign(town=town, treatment=trial.treatment, y=trial.y)
    # With rows set aside it is fitted once, and not for every fold.
    fitted = fit(read_trial(table, treatment="treatment", outcome="y"), name, hold_out=0.4)
    fitted.save(tmp_path / "a.model")
    loaded = load(tmp_path / "a.model")
    model = to_onnx(loaded)
    assert model == to_onnx(fitted)
    columns = {
        name: table[name].fillna("").to_numpy(dtype=object)
        if kind == "category"
        else table[name].to_numpy(dtype=np.float64)
        for name, kind in loaded.inputs.items()
    }
    score, uplift = session_of(model).run(["score", "uplift"], columns)
    np.testing.assert_allclose(score, fitted.predict(table), rtol=0, atol=1e-6)
    np.testing.assert_allclose(uplift, fitted.uplift(table)[:, 0], rtol=0, atol=1e-6)


def test_arms():
    case = example(bent=True)
    model, uplift = two_arms(case.encoder, case.formula, case.score)
    session = session_of(to_onnx(model, cost=COSTS, value=1.0))
    names = [own.name for own in session.get_outputs()]
    assert names == ["score it's", "uplift it's", "score b", "uplift b", "arm"]
    found = [own.tolist() for own in session.run(None, feed(case))]
    check_arms(zip(range(len(uplift)), *found, strict=True), case.score, uplift)


@pytest.mark.gate
def test_a_fitted_ensemble():
    frame, encoder, formula, expected = fitted_ensemble()
    moments = frame["joined"].to_numpy().astype("datetime64[us]")
    days = np.where(np.isnat(moments), np.nan, moments.astype(np.int64) / 86_400e6)
    columns = {
        "age": frame["age"].to_numpy(), "spent": frame["spent"].to_numpy(), "joined": days,
        "town": frame["town"].fillna("").to_numpy(dtype=object),
        "zip": frame["zip"].fillna("").to_numpy(dtype=object),
        "vip": frame["vip"].to_numpy(dtype=np.float64),
    }  # fmt: skip
    (score,) = session_of(to_onnx(model_of(encoder, formula))).run(["score"], columns)
    np.testing.assert_allclose(score, expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("scale", [1.0, 1e100])
def test_a_calibration_with_two_knots_is_in_doubles(scale):
    encoder = TableEncoder().fit(pd.DataFrame({"x": [0.0, 1.0]}))
    formula = Formula((Part(1.0, "identity", 0.0, np.array([1.0])),))
    calibration = Calibration((-1.0 * scale, -0.625 * scale), (-0.1, 0.025), 0.0, 9, 4, 1)
    x = np.array([-2.0, -0.9, -0.7, -0.625, 0.0]) * scale
    model = to_onnx(model_of(encoder, formula, calibration))
    (uplift,) = session_of(model).run(["uplift"], {"x": x})
    np.testing.assert_allclose(uplift, calibration(x), rtol=0, atol=1e-13)
