"""The formula of a model gives the model's scores; models without one are refused."""

from dataclasses import replace

import lightgbm
import numpy as np
import pytest
from benchmarks.lightgbm_trees import trees_of
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler
from tests.strategies import forests

from auucmax import make_trial
from auucmax.baselines import DependentDataRepresentation, UpliftLambdaMART
from auucmax.estimators import (
    AUUCMax,
    BoostedEffect,
    ClassTransformation,
    ResponseModel,
    ScoreOnly,
    ShrunkInteractions,
    TransformedOutcome,
    TwoModels,
    UpliftEnsemble,
    formula,
)
from auucmax.estimators.formula import Formula, Part

MODELS = {
    "auucmax": AUUCMax(random_state=0),
    "auucmax, no scale": AUUCMax(scale="none", selection=None, norm=1.0),
    "tm": TwoModels(),
    "tm, own": TwoModels(LogisticRegression(C=0.1)),
    "cvt": ClassTransformation(),
    "si": ShrunkInteractions(random_state=0),
    "si, no hinges": ShrunkInteractions(hinges=False, random_state=0),
    "hb": BoostedEffect(base_rounds=(20,), effect_rounds=(10,), random_state=0),
    "hb, no trees": BoostedEffect(base_rounds=(0,), effect_rounds=(0,), random_state=0),
    "hb, no trees for the effect": BoostedEffect(
        base_rounds=(20,), effect_rounds=(0,), random_state=0
    ),
    "ensemble": UpliftEnsemble(
        [ShrunkInteractions(), BoostedEffect(base_rounds=(20,), effect_rounds=(10,)), TwoModels()],
        random_state=0,
    ),
    "mom": TransformedOutcome(),
    "response": ResponseModel(),
}


@pytest.fixture(scope="module")
def rows():
    trial = make_trial(800, n_features=4, base_rate=0.4, ate=0.1, random_state=0)
    X = trial.X.to_numpy(dtype=np.float64) * [1, 10, 0.1, 1, *[1] * (trial.X.shape[1] - 4)]
    return X + 3, trial.y, trial.treatment


@pytest.mark.parametrize("name", MODELS)
def test_formula_gives_the_scores(name, rows):
    X, y, treatment = rows
    model = MODELS[name].fit(X, y, treatment=treatment)
    formula = model.formula()
    assert formula.n_features == X.shape[1]
    new = X[::-1] * 1.3 - 1
    np.testing.assert_allclose(formula(new), model.predict(new), rtol=1e-9, atol=1e-10)


NO_FORMULA = {
    "ddr": DependentDataRepresentation(),
    "forest": TwoModels(RandomForestClassifier(3, random_state=0)),
    "rows of unit norm": AUUCMax(scale="unit-rows", random_state=0),
    "pipeline": TwoModels(make_pipeline(MinMaxScaler(), LogisticRegression())),
    "other link": TwoModels(SGDClassifier(loss="modified_huber", random_state=0)),
    "function": ScoreOnly(lambda X: X[:, 0]),
    "ensemble of ensembles": UpliftEnsemble([UpliftEnsemble([TwoModels()])]),
    "ensemble with a forest": UpliftEnsemble(
        [TwoModels(), TwoModels(RandomForestClassifier(3, random_state=0))]
    ),
}


@pytest.mark.parametrize("name", NO_FORMULA)
def test_models_without_a_formula(name, rows):
    X, y, treatment = rows
    model = NO_FORMULA[name].fit(X, y, treatment=treatment)
    with pytest.raises(ValueError, match="should be"):
        model.formula()


numbers = st.floats(-50, 50)
parts = st.builds(
    lambda weight, link, intercept, coef: Part(weight, link, intercept, np.array(coef)),
    numbers, st.sampled_from(["identity", "sigmoid"]), numbers,
    st.lists(numbers, min_size=2, max_size=2),
)  # fmt: skip


@settings(max_examples=50, deadline=None)
@given(st.lists(parts, min_size=1, max_size=3), numbers, st.lists(numbers, min_size=2, max_size=2))
def test_a_formula_is_the_sum_of_its_parts(several, constant, x):
    expected = constant
    for part in several:
        inner = part.intercept + sum(c * v for c, v in zip(part.coef, x, strict=True))
        expected += part.weight * (expit(inner) if part.link == "sigmoid" else inner)
    (got,) = Formula(tuple(several), constant)([x])
    assert got == pytest.approx(expected, rel=1e-9, abs=1e-6)


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
            value = x[trees.feature[node]]
            small = value <= trees.threshold[node]
            if np.isnan(value):
                small = trees.missing_left[node]
            node = trees.left[node] if small else trees.right[node]
        total += trees.value[node]
    return total


def quick(forest, rows):
    """The compiled pass, for however few rows."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (("COMPILE_STEPS", 0), ("READY_STEPS", 0), ("FEW_STEPS", 0)):
            patch.setattr(formula, name, value)
        patch.setattr(formula, "_THREAD_ROWS", 70)
        return forest.predict(rows)


@settings(max_examples=60, deadline=None)
@given(forests(3), st.integers(0, 200), st.sampled_from(["float64", "float32"]), st.data())
def test_compiled_and_slow_scores_are_the_same(forest, n, kind, data):
    forest.check(3)
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    rows = rng.choice([-1.0, -0.5, 0.0, 0.25, 0.5, 1.0, np.nan, np.inf, -np.inf], (n, 3))
    rows = rows.astype(kind)
    expected = forest.predict_slow(rows)
    np.testing.assert_array_equal(quick(forest, rows), expected)
    np.testing.assert_array_equal(quick(forest, np.asfortranarray(rows)), expected)
    assert expected[:9].tolist() == [slow(forest, x) for x in rows[:9]]


@pytest.mark.parametrize("gaps", [True, False])
def test_missing_values_go_where_lightgbm_sends_them(gaps):
    """By the node where training had some, and as 0 where it had none."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 4)).round(1) - [0, 0, 5, -5]
    full = X.copy()
    X[rng.random(X.shape) < 0.3] = np.nan
    y = np.nan_to_num(X[:, 0], nan=2.0) - np.isnan(X[:, 1]) + 0.1 * full[:, 2] - 0.2 * full[:, 3]
    params = {"verbosity": -1, "num_leaves": 8, "min_data_in_leaf": 5, "num_threads": 1}
    learnt = X if gaps else full
    booster = lightgbm.train(params, lightgbm.Dataset(learnt, y), num_boost_round=30)
    found = trees_of(booster)
    found.check(4)
    np.testing.assert_array_equal(found.predict(X), booster.predict(X))
    np.testing.assert_array_equal(quick(found, X), booster.predict(X))
    assert not np.array_equal(found.predict(X), found.predict(full))


def test_scores_are_those_of_lightgbm_and_of_the_slow_twin(fitted):
    model, X = fitted
    found = trees_of(model.booster_)
    found.check(X.shape[1])
    rng = np.random.default_rng(0)
    on_edge = rng.choice(found.threshold, size=(500, X.shape[1]))
    for rows in (X, on_edge, X * 100, np.zeros((1, X.shape[1])), X[:0]):
        expected = model.predict(rows) if len(rows) else np.zeros(0)
        np.testing.assert_array_equal(found.predict(rows), expected)
        np.testing.assert_array_equal(quick(found, rows), expected)
    assert found.predict(X[:20]).tolist() == [slow(found, x) for x in X[:20]]
    assert len(np.unique(found.predict(X))) > 5


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
    yield {"roots": trees.roots[1:]}  # nodes of no tree
    yield {"roots": np.append(trees.roots, last)}  # a leaf of two trees
    yield {"value": np.full(last + 1, np.nan)}
    yield {"threshold": trees.threshold[:-1]}
    yield {"left": trees.left.astype(np.float64)}
    yield {"value": trees.value.astype(np.float32)}
    yield {"missing_left": trees.missing_left.astype(np.float64)}
    yield {"missing_left": trees.missing_left[1:]}
    yield {"depth": 10**9}
    yield {"depth": -1}
    yield {"depth": trees.depth - 1}
    yield {"depth": trees.depth + 1}
    yield {"depth": "3"}


def test_unsound_trees_are_refused(fitted):
    model, X = fitted
    found = trees_of(model.booster_)
    for change in changes(found):
        with pytest.raises(ValueError, match="should be nodes that lead to leaves"):
            replace(found, **change).check(X.shape[1])
    with pytest.raises(ValueError, match="should be nodes that lead to leaves"):
        found.check(2)


def test_batches_after_a_million_steps_take_the_compiled_pass(fitted, monkeypatch):
    """As one call of all their rows would; a few rows never do."""
    model, X = fitted
    forest = trees_of(model.booster_)
    steps = len(X) * len(forest.roots) * forest.depth
    for name, value in (("READY_STEPS", 3 * steps), ("COMPILE_STEPS", 3 * steps)):
        monkeypatch.setattr(formula, name, value)
    monkeypatch.setattr(formula, "_numpy_steps", 0)
    slowly = []
    original = type(forest).predict_slow
    monkeypatch.setattr(
        type(forest), "predict_slow", lambda own, rows: slowly.append(1) or original(own, rows)
    )
    found = [forest.predict(X) for _ in range(4)]
    assert len(slowly) == 2
    assert all(np.array_equal(one, found[0]) for one in found)
    forest.predict(X[:3])
    assert len(slowly) == 3
