"""Graphs are run by onnxruntime."""

import json
import sys

import numpy as np
import onnx
import onnxruntime
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.export.cases import (
    BOOLEANS,
    PLANS,
    cases,
    example,
    fit_encoder,
    fitted_ensemble,
    plans,
    truth,
)

from auucmax import AUUCMax, TwoModels, make_trial
from auucmax.encoding import TableEncoder
from auucmax.encoding.kinds import MISSING_TEXTS
from auucmax.estimators import (
    GANITE,
    CFRNet,
    DependentDataRepresentation,
    TARNet,
    UpliftLambdaMART,
)
from auucmax.estimators.formula import Formula, FormulaError, Part, RankMean
from auucmax.export import to_onnx
from auucmax.model import MODELS as ALL_MODELS
from auucmax.model import fit_trial_model, load_model, save_model
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
    (score,) = session_of(to_onnx(encoder, mean)).run(None, {"x": x})
    np.testing.assert_allclose(score, mean(x[:, None]), rtol=0, atol=1e-12)


def test_inputs_are_the_raw_columns():
    case = example()
    session = session_of(to_onnx(case.encoder, case.formula, missing_text="-"))
    kinds = {i.name: (i.type, i.shape) for i in session.get_inputs()}
    number, text = ("tensor(double)", ["rows"]), ("tensor(string)", ["rows"])
    assert kinds == {'a"ge': number, "to'wn": text, "vip": number, "joined": number}
    assert [(o.name, o.type, o.shape) for o in session.get_outputs()] == [("score", *number)]


def test_the_text_for_missing_ones_is_no_level():
    case = example()
    with pytest.raises(ValueError, match='"Os\'lo", a level of column "to\'wn"'):
        to_onnx(case.encoder, case.formula, missing_text="Os'lo")


def test_texts_that_stand_for_nothing_are_missing():
    encoder = fit_encoder({"c": "category"}, {"c": ["a", "a", None, None, "b", "b"]})
    trial = np.random.default_rng(0)
    X = encoder.transform(pd.DataFrame({"c": ["a", None, "b"] * 40}))
    y, t = trial.integers(0, 2, 120), trial.integers(0, 2, 120)
    model = TwoModels().fit(X, y, treatment=t)
    session = session_of(to_onnx(encoder, model))
    for nothing in MISSING_TEXTS:
        (score,) = session.run(None, {"c": np.array(["a", nothing, "b"], dtype=object)})
        np.testing.assert_allclose(score, model.predict(X[:3]), rtol=0, atol=1e-9)


@pytest.mark.parametrize("words", [("true", "false"), ("True", "False")])
def test_spellings_of_booleans_are_one_level(words):
    encoder, formula, scores = truth(words)
    session = session_of(to_onnx(encoder, formula))
    for kind in ("text", "text of pandas", "text of R"):
        texts = np.array([text or "" for text in BOOLEANS[kind]], dtype=object)
        assert session.run(None, {"b": texts})[0].tolist() == scores
    session = session_of(to_onnx(encoder, formula, missing_text="TRUE"))
    assert session.run(None, {"b": np.array([words[0], "TRUE"], dtype=object)})[0][1] == scores[2]


def test_an_encoder_that_has_such_a_text_for_a_level_keeps_it():
    encoder = fit_encoder({"c": "category"}, {"c": ["a", "a", None, None, "b", "b"]})
    plain = json.loads(json.dumps(encoder.to_dict()).replace('"b"', '"NA"'))
    encoder = TableEncoder.from_dict(plain)
    formula = Formula((Part(1.0, "identity", 0.0, np.array([1.0, 2.0, 4.0])),))
    texts = ["a", "NA", "null"]
    (score,) = session_of(to_onnx(encoder, formula)).run(None, {"c": np.array(texts, dtype=object)})
    assert score.tolist() == [1, 2, 4]
    assert formula(encoder.transform(pd.DataFrame({"c": texts}))).tolist() == [1, 2, 4]


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


@pytest.mark.gate_cases("CFRNet0", "CFRNet1", "CFRNet2", "GANITE", "TARNet")
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


@pytest.fixture(scope="module")
def raw_trial():
    trial = make_trial(1_500, n_features=4, base_rate=0.4, ate=0.1, random_state=0)
    town = np.random.default_rng(0).choice(["Oslo", "Rome", None], size=1_500)
    return trial.X.assign(town=town, treatment=trial.treatment, y=trial.y)


@pytest.mark.gate
@pytest.mark.filterwarnings("ignore::UserWarning")  # on what small trials allow to say
@pytest.mark.parametrize("name", ALL_MODELS)
def test_models_that_were_saved_and_loaded(name, raw_trial, tmp_path):
    # With rows set aside it is fitted once, and not for every fold.
    fitted = fit_trial_model(
        raw_trial, treatment="treatment", outcome="y", model=name, hold_out=0.4
    )
    save_model(fitted, tmp_path / "a.model")
    loaded = load_model(tmp_path / "a.model")
    arguments = {"calibration": loaded.calibration}
    model = to_onnx(loaded.encoder, loaded.formula, **arguments)
    assert model == to_onnx(fitted.encoder, fitted.formula, **arguments)
    columns = {
        column.name: raw_trial[column.name].fillna("").to_numpy(dtype=object)
        if column.kind == "category"
        else raw_trial[column.name].to_numpy(dtype=np.float64)
        for column in loaded.encoder.columns_
    }
    score, uplift = session_of(model).run(["score", "uplift"], columns)
    expected = fitted.predict(raw_trial)
    np.testing.assert_allclose(score, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())
    np.testing.assert_allclose(uplift, loaded.calibration(score), rtol=0, atol=1e-9)


@pytest.mark.gate
def test_a_fitted_ensemble():
    frame, encoder, model, expected = fitted_ensemble()
    moments = frame["joined"].to_numpy().astype("datetime64[us]")
    days = np.where(np.isnat(moments), np.nan, moments.astype(np.int64) / 86_400e6)
    columns = {
        "age": frame["age"].to_numpy(), "spent": frame["spent"].to_numpy(), "joined": days,
        "town": frame["town"].fillna("").to_numpy(dtype=object),
        "zip": frame["zip"].fillna("").to_numpy(dtype=object),
        "vip": frame["vip"].to_numpy(dtype=np.float64),
    }  # fmt: skip
    (score,) = session_of(to_onnx(encoder, model)).run(None, columns)
    np.testing.assert_allclose(score, expected, rtol=0, atol=1e-9)


def test_codes_are_doubles():
    values, scores = PLANS["float"]
    session = session_of(to_onnx(*plans()))
    assert [(i.name, i.type) for i in session.get_inputs()] == [("p", "tensor(double)")]
    assert session.run(["score"], {"p": np.array(values)})[0].tolist() == scores


def test_a_weight_after_codes_is_no_single_precision():
    encoder, _ = plans()
    parts = (
        Part(0.608928230721764, "identity", 0.0, np.array([1.0, 0, 0, 0, 0])),
        Part(0.5, "sigmoid", 0.0, np.zeros(5)),
    )
    score = session_of(to_onnx(encoder, Formula(parts))).run(["score"], {"p": np.array([1.0])})[0]
    assert abs(score[0] - 0.25 - 0.608928230721764) < 1e-15


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
    with pytest.raises(FormulaError, match=r"AUUCMax.*LambdaMART.*got DependentData.*TARNet"):
        to_onnx(encoder, model)


def test_names_are_told_apart():
    case = example()
    for arguments in (
        {"score_name": "vip"},
        {"score_name": "uplift", "calibration": case.calibration},
    ):
        with pytest.raises(ValueError, match=r"twice\. Rename the column"):
            to_onnx(case.encoder, case.formula, missing_text="-", **arguments)
    with pytest.raises(ValueError, match="empty one"):
        to_onnx(case.encoder, case.formula, missing_text="-", score_name="")


def test_a_calibration_with_one_knot():
    case = example()
    calibration = Calibration((0.0,), (0.25,), 0.25, 9, 4, 1)
    model = to_onnx(case.encoder, case.formula, calibration=calibration, missing_text=MISSING)
    (uplift,) = session_of(model).run(["uplift"], feed(case))
    assert (uplift == 0.25).all()


@pytest.mark.parametrize("scale", [1.0, 1e100])
def test_a_calibration_with_two_knots_is_in_doubles(scale):
    encoder = TableEncoder().fit(pd.DataFrame({"x": [0.0, 1.0]}))
    formula = Formula((Part(1.0, "identity", 0.0, np.array([1.0])),))
    calibration = Calibration((-1.0 * scale, -0.625 * scale), (-0.1, 0.025), 0.0, 9, 4, 1)
    x = np.array([-2.0, -0.9, -0.7, -0.625, 0.0]) * scale
    model = to_onnx(encoder, formula, calibration=calibration)
    (uplift,) = session_of(model).run(["uplift"], {"x": x})
    np.testing.assert_allclose(uplift, calibration(x), rtol=0, atol=1e-13)


def test_a_single_feature_is_in_doubles():
    encoder = TableEncoder().fit(pd.DataFrame({"x": [0.0, 1.0]}))
    formula = Formula((Part(1.0, "identity", 0.0, np.array([1.3758811351871643])),))
    x = np.array([1.0, 3.0, 1e6])
    (score,) = session_of(to_onnx(encoder, formula)).run(None, {"x": x})
    np.testing.assert_allclose(score, formula(x[:, None]), rtol=1e-13)


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
