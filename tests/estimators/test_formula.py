"""The formula of a model gives the model's scores; models without one are refused."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler

from auucmax import make_trial
from auucmax.baselines import DependentDataRepresentation
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


def test_names_of_features_do_not_matter():
    trial = make_trial(500, n_features=4, random_state=0)
    model = TwoModels().fit(trial.X, trial.y, treatment=trial.treatment)
    np.testing.assert_allclose(model.formula()(trial.X), model.predict(trial.X))


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


def test_before_fit():
    with pytest.raises(NotFittedError):
        AUUCMax().formula()


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


def test_wrong_number_of_features():
    formula = Formula((Part(1.0, "identity", 0.0, np.ones(3)),))
    with pytest.raises(ValueError, match=r"should have 3 columns, got an array of shape \(2, 2\)"):
        formula(np.ones((2, 2)))
