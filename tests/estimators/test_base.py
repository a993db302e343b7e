import numpy as np
import pytest
from sklearn.ensemble import RandomForestRegressor
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import RobustScaler

from auucmax import TrialKFold, TwoModels, make_trial
from auucmax.estimators.base import (
    copy_with,
    count_parameters,
    fit_rows,
    free_random_states,
)
from auucmax.estimators.score_only import ScoreOnly

TRIAL = make_trial(300, n_features=4, random_state=0)
ROWS = {"treatment": TRIAL.treatment, "sample_weight": np.linspace(1, 2, 300)}


def test_pipelines_and_searches_hand_rows_on():
    pipeline = fit_rows(make_pipeline(RobustScaler(), TwoModels()), TRIAL.X, TRIAL.y, **ROWS)
    scaled = RobustScaler().fit_transform(TRIAL.X)
    direct = TwoModels().fit(scaled, TRIAL.y, **ROWS)
    assert pipeline.predict(TRIAL.X) == pytest.approx(direct.predict(scaled))
    search = GridSearchCV(TwoModels(), {"control": [None]}, cv=TrialKFold(2, random_state=0))
    fit_rows(search, TRIAL.X, TRIAL.y, **ROWS)
    assert count_parameters(pipeline) == count_parameters(search) == direct.n_parameters_
    assert count_parameters(RobustScaler()) is None


def test_parameters_are_set_in_the_copy_only_and_not_in_a_fitted_model_that_it_shares():
    forest = TwoModels(RandomForestRegressor(), control="none")
    pipeline = make_pipeline(RobustScaler(), forest)
    assert copy_with(pipeline, control=None)[-1].control is None
    assert forest.control == "none"
    assert free_random_states(pipeline) == ["twomodels__estimator__random_state"]
    assert free_random_states(copy_with(pipeline, random_state=0)) == []
    shared = ScoreOnly(forest, control="none")
    assert copy_with(shared, control=None).control is None
    assert forest.control == "none"
    assert free_random_states(shared) == []
