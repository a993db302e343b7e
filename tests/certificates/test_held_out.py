import pickle

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from auucmax import AUUCMax, TrialKFold, TwoModels, auuc_scorer, make_trial
from auucmax.certificates.certify import fitted_on
from auucmax.data.hashing import Checksum


@pytest.fixture(scope="module")
def trial():
    return make_trial(600, n_features=5, random_state=0)


# scikit-learn before 1.8 does not give treatment to the score that a pipeline has by itself.
BEFORE_1_8 = tuple(map(int, sklearn.__version__.split(".")[:2])) < (1, 8)


def outer_models():
    """Models inside others, and what they see of X."""
    scaler, minus = StandardScaler(), FunctionTransformer(np.negative)
    inner = AUUCMax(selection=None, norm=0.5)
    search = GridSearchCV(inner, {"norm": [0.5]}, cv=TrialKFold(2, random_state=0))
    return {
        "alone": (inner, 0),
        "pipeline of one": (make_pipeline(inner), 0),
        "scaled": (make_pipeline(scaler, inner), 1),
        "two steps": (make_pipeline(scaler, minus, inner), 1),
        "passed through": (make_pipeline("passthrough", inner), 1),
        "nested": (make_pipeline(minus, make_pipeline(scaler, inner)), 2),
        "search": (search, 0),
        "search inside": (make_pipeline(scaler, search), 1),
        "search outside": (
            GridSearchCV(
                make_pipeline(scaler, inner),
                {"auucmax__norm": [0.5]},
                cv=TrialKFold(2, random_state=0),
                scoring=auuc_scorer if BEFORE_1_8 else None,
            ),
            1,
        ),
    }


@pytest.mark.parametrize("name", outer_models())
def test_the_rows_of_a_model_inside_others(trial, name):
    model, n_steps = outer_models()[name]
    with sklearn.config_context(enable_metadata_routing=True):
        model.fit(trial.X, trial.y, treatment=trial.treatment)
    assert np.isfinite(getattr(model, "best_score_", 0.0))  # the folds had their treatment
    known = fitted_on(model)
    seen = known.seen
    assert len(seen.steps) == n_steps
    assert seen.n_features == 5
    assert Checksum.of(seen(trial.X), trial.y, trial.treatment == 1) == known.checksum
    # What travels is the steps, and neither of the models; pieces add up to the whole.
    data = pickle.dumps(seen)
    assert b"AUUCMax" not in data
    again = pickle.loads(data)
    parts = [
        Checksum.of(again(trial.X[part]), trial.y[part], trial.treatment[part] == 1)
        for part in (slice(0, 7), slice(7, 400), slice(400, None))
    ]
    assert parts[0] + parts[1] + parts[2] == known.checksum


def test_nothing_is_known(trial):
    class Ready:
        def predict(self, X):
            return np.asarray(X)[:, 0]

    scaler = make_pipeline(StandardScaler(), "passthrough").fit(trial.X)
    for model in (Ready(), np.arange(3), pd.Series([1.0]), scaler, TwoModels()):
        assert fitted_on(model) is None
