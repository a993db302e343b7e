"""Stand-ins for other libraries' models, and (``pytest -m gate``) these libraries themselves."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import cross_validate

from auucmax import TrialKFold, TwoModels, auuc_inference, auuc_score, auuc_scorer, make_trial
from auucmax.estimators.score_only import ScoreOnly


@pytest.fixture(scope="module")
def rows():
    trial = make_trial(
        3000, n_features=4, n_noise=1, base_rate=0.3, ate=0.1, heterogeneity=1, random_state=0
    )
    return trial.X.astype(np.float64), trial.y, trial.treatment


def transformed(X, y, treatment):
    return LinearRegression().fit(X, y * (2.0 * treatment - 1))


def test_a_function_scores(rows):
    X, y, t = rows
    model = ScoreOnly(lambda X: X["x0"])
    assert np.array_equal(model.predict(X), X["x0"])
    assert model.score(X, y, treatment=t) == auuc_score(y, X["x0"], treatment=t)
    assert model.fit(X, y, treatment=t) is model
    assert np.array_equal(model.predict(X[:10]), X["x0"][:10])


class Effect:
    """EconML's way, beside a predict that must not be taken."""

    def effect(self, X):
        return np.asarray(X)[:, :1]

    def predict(self, X):
        raise RuntimeError("effect comes first")


class Columns:
    def __init__(self, n_columns, **attributes):
        self.n_columns = n_columns
        self.__dict__ |= attributes

    def predict(self, X):
        return np.asarray(X)[:, : self.n_columns]


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        (Effect(), lambda X: X[:, 0]),
        (Columns(1), lambda X: X[:, 0]),
        (Columns(2, classes_=["none", "mail"], control_name="none"), lambda X: X[:, 1] - X[:, 0]),
        (Columns(2, classes_=["a", "b"], control_name="b"), lambda X: X[:, 0] - X[:, 1]),
        (lambda X: pd.DataFrame({"uplift": X["x2"]}), lambda X: X[:, 2]),
        (lambda X: X["x2"].tolist(), lambda X: X[:, 2]),
    ],
)
def test_conventions(rows, model, expected):
    X = rows[0]
    scores = ScoreOnly(model).predict(X)
    assert scores.shape == (3000,)
    assert np.array_equal(scores, expected(X.to_numpy()))


def test_clone_keeps_what_was_learnt(rows):
    X, y, t = rows
    fitted = transformed(X, y, t)
    model = clone(ScoreOnly(fitted, control=0))
    assert model.model is fitted
    assert model.control == 0
    assert np.array_equal(model.predict(X), fitted.predict(X))


def test_fit_with_is_fitted_on_each_split(rows):
    X, y, t = rows
    model = ScoreOnly(fit_with=transformed)
    with pytest.raises(NotFittedError):
        model.predict(X)
    with config_context(enable_metadata_routing=True):
        folds = TrialKFold(3, random_state=0)
        scores = cross_validate(
            model, X, y, scoring=auuc_scorer, cv=folds, params={"treatment": t}, error_score="raise"
        )["test_score"]
    by_hand = []
    for train, test in folds.split(X, y, treatment=t):
        fitted = transformed(X.iloc[train], y[train], t[train])
        score = fitted.predict(X.iloc[test])
        by_hand.append(auuc_score(y[test], score, treatment=t[test]))
    assert scores.tolist() == by_hand
    assert not hasattr(model, "scorer_")
    model.fit(X, y, treatment=np.where(t == 1, 0, 1))  # the arms exchanged
    again = clone(model).fit(X, y, treatment=t)
    assert again.predict(X) == pytest.approx(-model.predict(X))


def test_what_fit_with_gets(rows):
    X, y, t = rows
    calls = []

    def learn(X, y, treatment, sample_weight=None):
        calls.append((X, y, treatment, sample_weight))
        return lambda X: X["x0"]

    labels = np.where(t == 1, "mail", "none")
    model = ScoreOnly(fit_with=learn, control="none")
    model.fit(X, y.astype(bool), treatment=labels, sample_weight=np.full(len(y), 2))
    frame, outcome, treatment, weight = calls[0]
    assert frame is X
    assert outcome.dtype == np.float64
    assert treatment.dtype == np.int8
    assert np.array_equal(treatment, t)
    assert np.array_equal(weight, np.full(len(y), 2.0))
    assert model.score(X, y, treatment=labels) == auuc_score(y, X["x0"], treatment=t)
    model.fit(X, y, treatment=labels)
    assert calls[1][3] is None
    with pytest.raises(TypeError, match="sample_weight"):
        ScoreOnly(fit_with=transformed).fit(X, y, treatment=t, sample_weight=np.ones(len(y)))


def test_rows_are_remembered_only_if_they_were_learnt_from(rows):
    X, y, t = rows
    ready = ScoreOnly(lambda X: X["x0"]).fit(X, y, treatment=t)
    assert not hasattr(ready, "checksum_")  # nobody knows what it was fitted on
    learnt = ScoreOnly(fit_with=transformed).fit(X, y, treatment=t)
    assert learnt.checksum_ == TwoModels().fit(X, y, treatment=t).checksum_
    text = X.assign(city="Lyon")
    other = ScoreOnly(fit_with=lambda X, y, t: lambda X: X["x0"]).fit(text, y, treatment=t)
    assert not hasattr(other, "checksum_")
    assert np.array_equal(other.predict(text), X["x0"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "model should be given, or fit_with, got neither"),
        ({"model": len, "fit_with": transformed}, "model should be given, or fit_with, got both"),
        ({"model": 3}, "model should be a function X -> scores, or .*, got 3"),
        ({"model": LinearRegression}, "model should be a function .*LinearRegression"),
        ({"model": LogisticRegression()}, r"got LogisticRegression\(\). Pass for example"),
        ({"fit_with": lambda X, y, t: None}, "model should be a function .*, got None"),
        ({"model": lambda X: X}, r"score should be one-dimensional, .* of shape \(3000, 4\)"),
        ({"model": lambda X: X["x0"][1:]}, "score should be of as many rows as X, 3000, got 2999"),
        ({"model": lambda X: X["x0"] / 0}, "score should be finite numbers"),
    ],
)
@pytest.mark.filterwarnings("ignore:divide by zero")
def test_bad_models(rows, arguments, message):
    X, y, t = rows
    with pytest.raises(ValueError, match=message):
        ScoreOnly(**arguments).fit(X, y, treatment=t).predict(X)


# The libraries themselves. Each entry: what fits a model on (X, y, treatment).


def causalml_forest(X, y, treatment):
    from causalml.inference.tree import UpliftRandomForestClassifier

    model = UpliftRandomForestClassifier(
        n_estimators=20, max_depth=4, control_name="none", n_jobs=1, random_state=0
    )
    model.fit(X.to_numpy(), np.where(treatment == 1, "mail", "none"), y.astype(int))
    return model


def causalml_x_learner(X, y, treatment):
    from causalml.inference.meta import BaseXRegressor

    model = BaseXRegressor(LinearRegression(), control_name=0)
    model.fit(X.to_numpy(), treatment, y)
    return model


def sklift_two_models(X, y, treatment):
    from sklift.models import TwoModels

    model = TwoModels(LogisticRegression(), LogisticRegression())
    return model.fit(X, pd.Series(y.astype(int)), pd.Series(treatment))


def econml_t_learner(X, y, treatment):
    from econml.metalearners import TLearner

    return TLearner(models=LinearRegression()).fit(y, treatment, X=X.to_numpy())


def econml_causal_forest(X, y, treatment):
    from econml.grf import CausalForest

    return CausalForest(n_estimators=100, random_state=0).fit(X.to_numpy(), treatment, y)


LIBRARIES = {
    causalml_forest: "causalml",
    causalml_x_learner: "causalml",
    sklift_two_models: "sklift",
    econml_t_learner: "econml",
    econml_causal_forest: "econml",
}


@pytest.mark.gate
@pytest.mark.filterwarnings("ignore")  # not ours to mend
@pytest.mark.parametrize("fit", LIBRARIES, ids=lambda f: f.__name__)
def test_real_library(rows, fit):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pytest.importorskip(LIBRARIES[fit], reason=f"needs {LIBRARIES[fit]}")
    X, y, t = rows
    test = make_trial(
        3000, n_features=4, n_noise=1, base_rate=0.3, ate=0.1, heterogeneity=1, random_state=1
    )
    model = ScoreOnly(fit_with=fit).fit(X, y, treatment=t)
    X_test = test.X.astype(np.float64)
    scores = model.predict(X_test)
    result = auuc_inference(test.y, scores, treatment=test.treatment)
    assert result.gain > 3 * result.gain_standard_error  # the sign is right too
    ready = clone(ScoreOnly(model.scorer_))
    assert ready.predict(X_test) == pytest.approx(scores, abs=1e-9)  # threads add in any order
    assert ready.predict(X_test.to_numpy()) == pytest.approx(scores, abs=1e-9)


def test_parameters_are_counted_if_the_model_says(rows):
    X, y, t = rows[:3]
    fitted = TwoModels().fit(X, y, treatment=t)
    assert ScoreOnly(fitted).n_parameters_ == fitted.n_parameters_ > 0
    assert ScoreOnly(lambda X: X[:, 0]).n_parameters_ is None
    learner = ScoreOnly(fit_with=lambda X, y, t: TwoModels().fit(X, y, treatment=t))
    assert not hasattr(learner, "n_parameters_")
    assert learner.fit(X, y, treatment=t).n_parameters_ == fitted.n_parameters_
