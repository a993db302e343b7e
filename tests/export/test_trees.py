"""LightGBM's trees as arrays, against a walk through them."""

import lightgbm
import numpy as np
import pytest

from auucmax.export.onnx_model import trees_of
from auucmax.trial_model.trees import trees_of as arrays_of


def booster(X, y, **parameters):
    settings = {"verbosity": -1, "num_leaves": 6, "min_data_in_leaf": 5, "num_threads": 1}
    data = lightgbm.Dataset(X, y, params={"verbosity": -1})
    return lightgbm.train(settings | parameters, data, num_boost_round=5)


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=(300, 2)), rng.integers(0, 4, 300)])
    return X, X[:, 0] * (X[:, 1] > 0) + (X[:, 2] == 2)


def walk(trees, row):
    """Sum of the leaves that a row comes to."""
    nodes = {key: k for k, key in enumerate(zip(trees.tree, trees.node, strict=True))}
    leaves = zip(trees.leaf_tree, trees.leaf_node, trees.leaf_value, strict=True)
    value = {(tree, node): v for tree, node, v in leaves}
    total = 0.0
    for tree in sorted(set(trees.tree)):
        k = nodes[tree, 0]
        while trees.mode[k] != "LEAF":
            goes_left = row[trees.feature[k]] <= trees.threshold[k]
            k = nodes[tree, (trees.true if goes_left else trees.false)[k]]
        total += value[tree, trees.node[k]]
    return total


def test_trees_give_what_lightgbm_predicts(rows):
    X, y = rows
    model = booster(X, y)
    trees = trees_of(model)
    assert len(set(trees.tree)) == 5
    walked = [walk(trees, row) for row in X]
    np.testing.assert_allclose(walked, model.predict(X), rtol=1e-12, atol=1e-12)


def test_trees_of_a_model_file_are_the_same(rows):
    model = booster(*rows)
    assert trees_of(arrays_of(model)) == trees_of(model)


def test_a_tree_of_one_leaf(rows):
    X, y = rows
    model = booster(X, y, min_data_in_leaf=10_000)
    trees = trees_of(model)
    assert set(trees.mode) == {"LEAF"}
    assert len(trees.leaf_value) == len(trees.mode)
    assert trees_of(arrays_of(model)) == trees


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"categorical_feature": [2], "min_data_per_group": 1}, "sets of categories"),
        ({"linear_tree": True}, "linear_tree"),
        ({"zero_as_missing": True}, "zero_as_missing"),
        (
            {"boosting": "rf", "bagging_fraction": 0.5, "bagging_freq": 1},
            "boosting='rf'",
        ),
    ],
)
@pytest.mark.filterwarnings("ignore::UserWarning")  # LightGBM's, of where parameters are given
def test_other_trees_are_refused(rows, parameters, message):
    X, y = rows
    with pytest.raises(ValueError, match=message):
        trees_of(booster(X, y, **parameters))
