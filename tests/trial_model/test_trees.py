"""Trees as arrays score as LightGBM does, and only sound ones are used."""

from dataclasses import replace

import numpy as np
import pytest

from auucmax import make_trial
from auucmax.estimators import UpliftLambdaMART
from auucmax.trial_model.trees import trees_of

lightgbm = pytest.importorskip(
    "lightgbm", reason="lightgbm is not installed: pip install 'auucmax[trees]'"
)


@pytest.fixture(scope="module")
def fitted():
    trial = make_trial(2_000, n_features=6, base_rate=0.4, ate=0.1, random_state=0)
    X = trial.X.to_numpy(dtype=np.float64).round(1)  # values that equal thresholds or nearly
    model = UpliftLambdaMART(n_trees=20, early_stopping=None, random_state=0)
    return model.fit(X, trial.y, treatment=trial.treatment), X


def slow(trees, x):
    """A row at a time."""
    total = 0.0
    for root in trees.roots:
        node = root
        while trees.left[node] != node:
            small = x[trees.feature[node]] <= trees.threshold[node]
            node = trees.left[node] if small else trees.right[node]
        total += trees.value[node]
    return total


def test_scores_are_those_of_lightgbm_and_of_the_slow_twin(fitted):
    model, X = fitted
    trees = trees_of(model.booster_)
    trees.check(X.shape[1])
    rng = np.random.default_rng(0)
    on_edge = rng.choice(trees.threshold, size=(500, X.shape[1]))
    for rows in (X, on_edge, X * 100, np.zeros((1, X.shape[1]))):
        np.testing.assert_array_equal(trees.predict(rows), model.predict(rows))
    assert trees.predict(X[:20]).tolist() == [slow(trees, x) for x in X[:20]]
    assert len(np.unique(trees.predict(X))) > 5


@pytest.mark.filterwarnings("ignore")  # of LightGBM, that there is nothing to split
def test_a_tree_that_is_a_single_leaf():
    trial = make_trial(200, n_features=4, random_state=0)
    model = UpliftLambdaMART(n_trees=2, min_leaf_share=0.9, early_stopping=None)
    model.fit(trial.X, trial.y, treatment=trial.treatment)
    rows = trial.X.to_numpy(dtype=np.float64)
    np.testing.assert_array_equal(trees_of(model.booster_).predict(rows), model.predict(rows))


def changes(trees):
    last = len(trees.left) - 1
    for name in ("feature", "left", "right", "roots"):
        for value in (-1, last + 1, 10**9):
            array = getattr(trees, name).copy()
            array[0] = value
            yield {name: array}
    backward = trees.left.copy()
    inner = np.flatnonzero(trees.left != np.arange(last + 1))
    backward[inner[-1]] = 0
    yield {"left": backward}
    yield {"value": np.full(last + 1, np.nan)}
    yield {"threshold": trees.threshold[:-1]}
    yield {"left": trees.left.astype(np.float64)}
    yield {"value": trees.value.astype(np.float32)}
    yield {"depth": 10**9}
    yield {"depth": -1}
    yield {"depth": "3"}


def test_unsound_trees_are_refused(fitted):
    model, X = fitted
    trees = trees_of(model.booster_)
    for change in changes(trees):
        with pytest.raises(ValueError, match="should be nodes that lead to leaves"):
            replace(trees, **change).check(X.shape[1])
    with pytest.raises(ValueError, match="should be nodes that lead to leaves"):
        trees.check(2)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"categorical_feature": [2], "min_data_per_group": 1}, "sets of categories"),
        ({"linear_tree": True}, "linear_tree"),
        ({"zero_as_missing": True}, "zero_as_missing"),
        ({"boosting": "rf", "bagging_fraction": 0.5, "bagging_freq": 1}, "boosting='rf'"),
    ],
)
@pytest.mark.filterwarnings("ignore::UserWarning")  # LightGBM's, of where parameters are given
def test_trees_that_arrays_would_score_otherwise_are_refused(parameters, message):
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=(300, 2)), rng.integers(0, 4, 300)])
    y = X[:, 0] * (X[:, 1] > 0) + (X[:, 2] == 2)
    settings = {"verbosity": -1, "num_leaves": 6, "min_data_in_leaf": 5, "num_threads": 1}
    data = lightgbm.Dataset(X, y, params={"verbosity": -1})
    booster = lightgbm.train(settings | parameters, data, num_boost_round=5)
    with pytest.raises(ValueError, match=f"trees to be saved should split numbers.*{message}"):
        trees_of(booster)


def test_boosting_with_dropped_trees_is_a_sum_like_any_other():
    trial = make_trial(1_000, n_features=4, random_state=0)
    options = {"lightgbm_params": {"boosting": "dart"}, "early_stopping": None, "random_state": 0}
    rows = trial.X.to_numpy(dtype=np.float64)
    model = UpliftLambdaMART(n_trees=10, **options)
    model.fit(rows, trial.y, treatment=trial.treatment)
    np.testing.assert_array_equal(trees_of(model.booster_).predict(rows), model.predict(rows))
