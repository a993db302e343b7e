"""

Columns far from 0 are moved for training; nothing else is.
"""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.ensemble import RandomForestRegressor
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import RobustScaler

from auucmax import TrialKFold, TwoModels, make_trial
from auucmax.estimators.base import (
    SCALES,
    copy_with,
    count_parameters,
    fit_rows,
    fit_scaling,
    free_random_states,
    scaled_radius,
    unrecorded,
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


def test_models_that_are_fitted_to_judge_others_keep_no_record():
    model = TwoModels().fit(TRIAL.X, TRIAL.y, **ROWS)
    assert model.training_record_.given[0] == 300
    with unrecorded():
        judge = TwoModels().fit(TRIAL.X, TRIAL.y, **ROWS)
        model.fit(TRIAL.X[:200], TRIAL.y[:200], treatment=TRIAL.treatment[:200])
    again = TwoModels().fit(TRIAL.X, TRIAL.y, **ROWS)
    assert np.array_equal(judge.predict(TRIAL.X), again.predict(TRIAL.X))
    assert not hasattr(judge, "training_record_")
    assert not hasattr(model, "training_record_")  # that of the rows before is not its own
    assert hasattr(again, "training_record_")


COLUMN_SCALES = [scale for scale in SCALES if scale != "unit-rows"]


def columns(*distances, n=50, dtype=np.float64):
    """Ranges of about 1."""
    X = np.random.default_rng(0).random((n, len(distances))) + distances
    return X.astype(dtype)


@pytest.mark.parametrize("scale", SCALES)
def test_rows_around_zero_are_not_copied(scale):
    X = columns(0, -1, 0)
    scaling = fit_scaling(X, scale)
    assert scaling.offset is None
    if scale == "unit-rows":
        np.testing.assert_array_equal(scaling.training_rows(X), scaling.rows(X))
    else:
        assert scaling.training_rows(X) is X


@pytest.mark.parametrize("scale", COLUMN_SCALES)
def test_far_columns_begin_at_zero_and_those_around_it_stay(scale):
    """One that is less far goes along: in products with others its digits count as well."""
    X = columns(0, 1e5, 900, -1e7, dtype=np.float32)
    scaling = fit_scaling(X, scale)
    np.testing.assert_array_equal(scaling.offset, X.min(axis=0) * [0, 1, 1, 1])
    assert fit_scaling(X[:, [0, 2]], scale).offset is None
    moved = scaling.training_rows(X)
    assert moved.dtype == np.float64
    np.testing.assert_array_equal(moved + scaling.offset, X)


@pytest.mark.parametrize("scale", COLUMN_SCALES)
@pytest.mark.parametrize("distance", [1e2, 1e6])
def test_the_radius_is_that_of_the_scale(scale, distance):
    X = columns(0, distance)
    Z = {
        "min-max": (X - X.min(axis=0)) / np.ptp(X, axis=0),
        "column-l2": X / np.linalg.norm(X, axis=0),
        "none": X,
    }[scale]
    expected = np.linalg.norm(Z, axis=1).max()
    assert scaled_radius(X, fit_scaling(X, scale)) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    ("scale", "constant", "moved"),
    [
        ("none", 1.0, False),  # a column for the intercept
        ("none", 1e6, True),  # its products would hide those of the others
        ("column-l2", 1e6, False),  # scaled it is as large as the others
        ("min-max", 1e6, False),  # its factor is 0
    ],
)
def test_a_constant_column_is_far_in_terms_of_the_others(scale, constant, moved):
    X = columns(0, constant)
    X[:, 1] = constant
    scaling = fit_scaling(X, scale)
    assert (scaling.offset is not None) == moved
    if moved:
        np.testing.assert_array_equal(scaling.training_rows(X), X * [1, 0])


def test_unit_rows_with_a_far_column_do_not_depend_on_the_order_in_memory():
    X = columns(1e4, *[0] * 8, n=20_000)
    scaling = fit_scaling(X, "unit-rows")
    unit = scaling.rows(X)
    np.testing.assert_array_equal(scaling.offset, [unit[:, 0].min(), *[0] * 8])
    moved = scaling.training_rows(X)
    np.testing.assert_array_equal(moved, unit - scaling.offset)
    np.testing.assert_array_equal(scaling.training_rows(np.asfortranarray(X)), moved)
