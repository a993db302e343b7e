"""Graphs are run by onnxruntime."""

import sys

import numpy as np
import onnx
import onnxruntime
import pandas as pd
import pytest
from hypothesis import given, settings
from tests.export.cases import cases, example, fit_encoder

from auucmax import AUUCMax, TwoModels, make_trial
from auucmax.estimators import (
    GANITE,
    CFRNet,
    DependentDataRepresentation,
    TARNet,
    UpliftLambdaMART,
)
from auucmax.estimators.formula import FormulaError
from auucmax.estimators.table_encoder import TableEncoder
from auucmax.export import to_onnx
from auucmax.targeting import Calibration

MISSING = "no text is this"


def session_of(model):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def feed(case, missing_text=MISSING):
    rows, columns = case.rows(), {}
    for column in case.encoder.columns_:
        values = [row[column.name] for row in rows]
        if column.kind == "category":
            texts = [missing_text if v is None else v for v in values]
            columns[column.name] = np.array(texts, dtype=object)
        else:
            numbers = [np.nan if v is None else float(v) for v in values]
            columns[column.name] = np.array(numbers)
    return columns


def check(case):
    model = to_onnx(case.encoder, case.formula, calibration=case.calibration, missing_text=MISSING)
    score, uplift = session_of(model).run(["score", "uplift"], feed(case))
    assert (np.abs(score - case.score) <= case.tolerance).all()  # closer than 1e-5
    np.testing.assert_allclose(uplift, case.calibration(score), rtol=0, atol=1e-9)


@settings(max_examples=40, deadline=None)
@given(cases())
def test_onnxruntime_scores_as_python_does(case):
    check(case)


@pytest.mark.gate
@settings(max_examples=300, deadline=None)
@given(cases())
def test_many_tables(case):
    check(case)


def test_a_table_with_everything():
    check(example())


def test_inputs_are_the_raw_columns():
    case = example()
    session = session_of(to_onnx(case.encoder, case.formula, missing_text="-"))
    kinds = {i.name: (i.type, i.shape) for i in session.get_inputs()}
    number, text = ("tensor(double)", ["rows"]), ("tensor(string)", ["rows"])
    assert kinds == {'a"ge': number, "to'wn": text, "vip": number, "joined": number}
    assert [(o.name, o.type, o.shape) for o in session.get_outputs()] == [("score", *number)]


def test_the_empty_text_is_missing_unless_it_is_a_level():
    case = example()
    with pytest.raises(ValueError, match="'', a level of column \"to'wn\""):
        to_onnx(case.encoder, case.formula)
    encoder = fit_encoder({"c": "category"}, {"c": ["a", "a", None, None, "b", "b"]})
    trial = np.random.default_rng(0)
    X = encoder.transform(pd.DataFrame({"c": ["a", None, "b"] * 40}))
    y, t = trial.integers(0, 2, 120), trial.integers(0, 2, 120)
    model = TwoModels().fit(X, y, treatment=t)
    session = session_of(to_onnx(encoder, model))
    (score,) = session.run(None, {"c": np.array(["a", "", "b"], dtype=object)})
    np.testing.assert_allclose(score, model.predict(X[:3]), rtol=0, atol=1e-9)


@pytest.fixture(scope="module")
def rows():
    trial = make_trial(600, random_state=0)
    town = np.random.default_rng(0).choice(["Oslo", "Rome", "Kyiv"], size=600)
    frame = trial.X.assign(town=town)
    encoder = TableEncoder().fit(frame)
    return trial, frame, encoder


MODELS = [
    AUUCMax(),
    TwoModels(),
    TARNet(max_epochs=3, random_state=0),
    CFRNet(max_epochs=3, random_state=0),
    CFRNet(max_epochs=3, random_state=0, normalise=True),
    CFRNet(max_epochs=3, random_state=0, one_head=True),
    GANITE(max_epochs=3, generator_epochs=2, random_state=0),
    UpliftLambdaMART(n_trees=20, early_stopping=None),
    UpliftLambdaMART("ndcg", n_trees=20, early_stopping=None, random_state=0),
]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_fitted_estimators(model, rows):
    trial, frame, encoder = rows
    features = encoder.transform(frame)
    model.fit(features, trial.y, treatment=trial.treatment)
    expected = model.predict(features)
    assert np.ptp(expected) > 0
    columns = {name: frame[name].to_numpy(dtype=object if name == "town" else np.float64)
               for name in frame}  # fmt: skip
    (score,) = session_of(to_onnx(encoder, model)).run(None, columns)
    np.testing.assert_allclose(score, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())


def test_a_network_of_a_real_outcome(rows):
    trial, frame, encoder = rows
    features = encoder.transform(frame)
    y = 100 + 30 * trial.y + features[:, 0]
    model = TARNet(max_epochs=3, random_state=0).fit(features, y, treatment=trial.treatment)
    columns = {name: frame[name].to_numpy(dtype=object if name == "town" else np.float64)
               for name in frame}  # fmt: skip
    (score,) = session_of(to_onnx(encoder, model)).run(None, columns)
    np.testing.assert_allclose(score, model.predict(features), rtol=1e-9, atol=1e-9)


def test_other_models_get_an_error_that_names_what_can_be_exported(rows):
    trial, frame, encoder = rows
    model = DependentDataRepresentation()
    model.fit(encoder.transform(frame), trial.y, treatment=trial.treatment)
    with pytest.raises(FormulaError, match=r"AUUCMax.*got DependentData.*TARNet.*LambdaMART"):
        to_onnx(encoder, model)


def test_names_are_told_apart():
    case = example()
    for arguments in (
        {"score_name": "vip"},
        {"score_name": "uplift", "calibration": case.calibration},
    ):
        with pytest.raises(ValueError, match="twice"):
            to_onnx(case.encoder, case.formula, missing_text="-", **arguments)
    with pytest.raises(ValueError, match="empty one"):
        to_onnx(case.encoder, case.formula, missing_text="-", score_name="")


def test_a_calibration_with_one_knot():
    case = example()
    calibration = Calibration((0.0,), (0.25,), 0.25, 9, 4, 1)
    model = to_onnx(case.encoder, case.formula, calibration=calibration, missing_text=MISSING)
    (uplift,) = session_of(model).run(["uplift"], feed(case))
    assert (uplift == 0.25).all()


def test_the_graph_is_for_runtimes_that_are_some_years_old():
    case = example()
    model = onnx.load_from_string(to_onnx(case.encoder, case.formula, missing_text="-"))
    assert model.ir_version == 8
    assert {o.domain: o.version for o in model.opset_import} == {"": 17, "ai.onnx.ml": 3}


def test_without_onnx_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    case = example()
    with pytest.raises(ImportError, match=r"auucmax\[onnx\]"):
        to_onnx(case.encoder, case.formula)
