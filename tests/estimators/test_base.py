import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.ensemble import RandomForestRegressor
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import RobustScaler

from auucmax import TrialKFold, TwoModels, make_trial
from auucmax.estimators.base import (
    count_parameters,
    fit_rows,
    fold_codes,
    free_random_states,
)
from auucmax.estimators.score_only import ScoreOnly
from auucmax.rows import ArrayRows

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


def test_random_states_of_nested_models_but_not_of_a_fitted_one_that_a_clone_shares():
    forest = TwoModels(RandomForestRegressor())
    pipeline = make_pipeline(RobustScaler(), forest)
    assert free_random_states(pipeline) == ["twomodels__estimator__random_state"]
    assert free_random_states(ScoreOnly(forest)) == []
    pipeline.set_params(twomodels__estimator__random_state=0)
    assert free_random_states(pipeline) == []


@given(
    sizes=st.lists(st.integers(2, 60), min_size=4, max_size=4),
    n_folds=st.integers(2, 6),
    seed=st.integers(0, 2**62),
)
@settings(deadline=None, max_examples=50)
def test_folds_have_their_share_of_every_arm_and_outcome(sizes, n_folds, seed):
    rng = np.random.default_rng(seed)
    cell = rng.permutation(np.repeat(range(4), sizes))
    rows = ArrayRows(np.zeros((len(cell), 1)), cell % 2 * 1.0, cell // 2 == 1)
    fold = fold_codes(rows, n_folds, seed)
    assert sorted(set(fold)) == list(range(min(n_folds, *sizes)))
    for k in range(4):
        counts = np.bincount(fold[cell == k], minlength=fold.max() + 1)
        assert counts.max() - counts.min() <= 1
    # A row's fold depends on its key alone, not on its place.
    order = rng.permutation(len(cell))
    np.testing.assert_array_equal(fold_codes(rows.take(order), n_folds, seed), fold[order])


def test_an_outcome_that_an_arm_has_once_cannot_be_split():
    y, treated = np.array([1.0, 0, 1, 1, 0, 0]), np.array([True] * 3 + [False] * 3)
    with pytest.raises(ValueError, match="at least 2 rows of each outcome, got 1"):
        fold_codes(ArrayRows(np.zeros((6, 1)), y, treated), 5, 0)
