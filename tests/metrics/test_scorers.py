"""Routed treatment in cross_validate, GridSearchCV and Pipeline, on a small estimator."""

from typing import ClassVar

import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV, cross_val_score, cross_validate

from auucmax import AUUCMax, TrialKFold, TwoModels, auuc_scorer, make_trial, qini_score
from auucmax._validation import RoutingDisabled
from auucmax.metrics import qini_scorer
from auucmax.metrics.functions import auuc_score


class RidgePerArm(RegressorMixin, BaseEstimator):
    __metadata_request__fit: ClassVar = {"treatment": True}
    __metadata_request__score: ClassVar = {"treatment": True}

    def __init__(self, alpha=1.0):
        self.alpha = alpha

    def fit(self, X, y, *, treatment):
        treated = np.asarray(treatment) == 1
        self.models_ = [Ridge(self.alpha).fit(X[a], y[a]) for a in (treated, ~treated)]
        return self

    def predict(self, X):
        return self.models_[0].predict(X) - self.models_[1].predict(X)

    def score(self, X, y, *, treatment, sample_weight=None):
        return auuc_score(y, self.predict(X), treatment=treatment, sample_weight=sample_weight)


@pytest.fixture
def trial():
    rng = np.random.default_rng(0)
    X, t = rng.normal(size=(1500, 3)), rng.integers(0, 2, 1500)
    y = X[:, 0] + t * X[:, 1] + rng.normal(size=1500)
    return X, y, t


@pytest.fixture(autouse=True)
def _routing():
    with config_context(enable_metadata_routing=True):
        yield


@pytest.mark.parametrize(
    ("scorer", "metric"), [(auuc_scorer, auuc_score), (qini_scorer, qini_score)]
)
def test_cross_validate_with_our_folds(trial, scorer, metric):
    X, y, t = trial
    cv = TrialKFold(4, random_state=0)
    result = cross_validate(
        RidgePerArm(), X, y, scoring=scorer, cv=cv, params={"treatment": t}, return_estimator=True
    )
    for model, score, (_, test) in zip(
        result["estimator"], result["test_score"], cv.split(X, y, treatment=t), strict=True
    ):
        assert score == metric(y[test], model.predict(X[test]), treatment=t[test])
    assert result["test_score"].mean() > 0.15


def test_weights_reach_the_scorer(trial):
    X, y, t = trial
    model = RidgePerArm().fit(X, y, treatment=t)
    weight = np.random.default_rng(1).random(len(y))
    assert auuc_scorer(model, X, y, treatment=t, sample_weight=weight) == auuc_score(
        y, model.predict(X), treatment=t, sample_weight=weight
    )


LINE = r"sklearn\.set_config\(enable_metadata_routing=True\)"
OURS = make_trial(300, random_state=0)


def searches(model, scoring, cv, **how):
    """Scores of the three ways of scikit-learn to validate a model, each to be called."""
    X, y, params = OURS.X, OURS.y, {"treatment": OURS.treatment}
    how = {"scoring": scoring, "cv": cv, **how}
    return {
        "cross_validate": lambda: cross_validate(model, X, y, params=params, **how)["test_score"],
        "cross_val_score": lambda: cross_val_score(model, X, y, params=params, **how),
        "GridSearchCV": lambda: (
            GridSearchCV(model, {"control": [None]}, **how)
            .fit(X, y, **params)
            .cv_results_["mean_test_score"]
        ),
    }


MODELS = pytest.mark.parametrize("model", [AUUCMax(selection="bound"), TwoModels()], ids=repr)
WAYS = pytest.mark.parametrize("way", ["cross_validate", "cross_val_score", "GridSearchCV"])


@MODELS
@WAYS
@pytest.mark.parametrize("cv", [3, TrialKFold(3, random_state=0)])
def test_with_routing_models_are_scored(model, way, cv):
    assert np.isfinite(searches(model, auuc_scorer, cv)[way]()).all()


@MODELS
@WAYS
@pytest.mark.parametrize("scoring", [auuc_scorer, qini_scorer, None])
def test_without_routing_the_line_to_add_is_shown(model, way, scoring):
    with config_context(enable_metadata_routing=False):
        with pytest.raises(RoutingDisabled, match=LINE):
            searches(model, scoring, 3)[way]()
        with pytest.raises(TypeError, match=LINE):
            searches(model, scoring, TrialKFold(3))[way]()


@MODELS
def test_the_line_is_shown_where_no_treatment_is_passed(model):
    with pytest.raises(ValueError, match=f"All the 3 fits failed(.|\\n)*{LINE}"):
        cross_validate(model, OURS.X, OURS.y, scoring=auuc_scorer, cv=3)
    with pytest.raises(TypeError, match=LINE):
        model.fit(OURS.X, OURS.y)
