"""Routed treatment in cross_validate, GridSearchCV and Pipeline, on a small estimator."""

import numpy as np
import pytest
from sklearn import config_context
from sklearn.model_selection import GridSearchCV, cross_val_score, cross_validate

from auucmax import AUUCMax, TrialKFold, TwoModels, auuc_scorer, make_trial, qini_score
from auucmax._validation import RoutingDisabled
from auucmax.metrics import qini_scorer
from auucmax.metrics.functions import auuc_score

LINE = r"sklearn\.set_config\(enable_metadata_routing=True\)"
OURS = make_trial(300, random_state=0)


@pytest.fixture(autouse=True)
def _routing():
    with config_context(enable_metadata_routing=True):
        yield


@pytest.mark.parametrize(
    ("scorer", "metric"), [(auuc_scorer, auuc_score), (qini_scorer, qini_score)]
)
def test_cross_validate_with_our_folds(scorer, metric):
    X, y, t = OURS.X, OURS.y, OURS.treatment
    cv, params = TrialKFold(4, random_state=0), {"treatment": t}
    result = cross_validate(
        TwoModels(), X, y, scoring=scorer, cv=cv, params=params, return_estimator=True
    )
    for model, score, (_, test) in zip(
        result["estimator"], result["test_score"], cv.split(X, y, treatment=t), strict=True
    ):
        assert score == metric(y[test], model.predict(X.iloc[test]), treatment=t[test])


def test_weights_reach_the_scorer():
    X, y, t = OURS.X, OURS.y, OURS.treatment
    model, weight = TwoModels().fit(X, y, treatment=t), np.random.default_rng(1).random(len(y))
    found = auuc_scorer(model, X, y, treatment=t, sample_weight=weight)
    assert found == auuc_score(y, model.predict(X), treatment=t, sample_weight=weight)


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
