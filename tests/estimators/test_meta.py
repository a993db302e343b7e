import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from auucmax import ClassTransformation, TwoModels, make_trial


@pytest.fixture(scope="module")
def rows():
    trial = make_trial(3000, n_features=4, treatment_share=0.3, base_rate=0.3, random_state=0)
    return trial.X.to_numpy(np.float64), trial.y, trial.treatment


def test_two_models_are_two_models(rows):
    X, y, t = rows
    model = TwoModels(LogisticRegression(C=0.5)).fit(X, y, treatment=t)
    treated, control = (LogisticRegression(C=0.5).fit(X[t == a], y[t == a]) for a in (1, 0))
    expected = treated.predict_proba(X)[:, 1] - control.predict_proba(X)[:, 1]
    assert np.array_equal(model.predict(X), expected)


def test_continuous_outcomes(rows):
    X, _, t = rows
    y = X[:, 0] + t * X[:, 1]
    model = TwoModels().fit(X, y, treatment=t)
    assert isinstance(model.treated_model_, LinearRegression)
    assert model.predict(X) == pytest.approx(X[:, 1], abs=1e-9)


def test_class_transformation_by_hand(rows):
    X, y, t = rows
    e = t.mean()
    weight = np.where(t == 1, 1 / (2 * e), 1 / (2 * (1 - e)))
    by_hand = LogisticRegression().fit(X, y == t, sample_weight=weight)
    model = ClassTransformation(LogisticRegression()).fit(X, y, treatment=t)
    assert model.predict(X) == pytest.approx(2 * by_hand.predict_proba(X)[:, 1] - 1, abs=1e-6)
    plain = ClassTransformation(LogisticRegression(), balance="none").fit(X, y, treatment=t)
    unweighted = LogisticRegression().fit(X, y == t)
    assert plain.predict(X) == pytest.approx(2 * unweighted.predict_proba(X)[:, 1] - 1, abs=1e-9)


@pytest.mark.parametrize("cls", [TwoModels, ClassTransformation])
def test_pipelines_take_weights(rows, cls):
    X, y, t = rows
    weight = np.random.default_rng(0).uniform(1, 2, len(y))
    pipeline = make_pipeline(StandardScaler(), LogisticRegression())
    model = cls(pipeline).fit(X, y, treatment=t, sample_weight=weight)
    direct = cls(LogisticRegression()).fit(X, y, treatment=t, sample_weight=weight)
    assert np.corrcoef(model.predict(X), direct.predict(X))[0, 1] > 0.999
    assert model.n_parameters_ == direct.n_parameters_


def test_models_that_cannot_do_it(rows):
    X, y, t = rows
    with pytest.raises(ValueError, match="should take sample_weight, got KNeighborsClassifier"):
        ClassTransformation(KNeighborsClassifier()).fit(X, y, treatment=t)
    ClassTransformation(KNeighborsClassifier(), balance="none").fit(X, y, treatment=t)
    with pytest.raises(ValueError, match="should have predict_proba, got LinearSVC"):
        TwoModels(LinearSVC()).fit(X, y, treatment=t)
    with pytest.raises(ValueError, match="both 0 and 1 among the rows"):
        TwoModels().fit(X, y * t, treatment=t)
