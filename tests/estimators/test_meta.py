import numpy as np
import pytest
from scipy.special import expit
from sklearn.base import clone
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from auucmax import auuc_inference, auuc_score, load_hillstrom, make_trial
from auucmax.estimators import (
    ClassTransformation,
    DependentDataRepresentation,
    SharedDataRepresentation,
    TransformedOutcome,
    TwoModels,
)

REDUCTIONS = [
    TwoModels,
    ClassTransformation,
    TransformedOutcome,
    DependentDataRepresentation,
    SharedDataRepresentation,
]


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


def test_class_transformation_with_a_known_propensity(rows):
    X, y, t = rows
    weight = np.where(t == 1, 1 / 0.5, 1 / 1.5)
    by_hand = LogisticRegression().fit(X, y == t, sample_weight=weight)
    model = ClassTransformation(LogisticRegression(), propensity=0.25).fit(X, y, treatment=t)
    assert model.predict(X) == pytest.approx(2 * by_hand.predict_proba(X)[:, 1] - 1, abs=1e-6)
    with pytest.raises(ValueError, match="propensity should be None with balance='none'"):
        ClassTransformation(balance="none", propensity=0.25).fit(X, y, treatment=t)


def test_transformed_outcome_by_hand(rows):
    X, y, t = rows
    weight = np.random.default_rng(0).uniform(1, 2, len(y))
    e = np.average(t, weights=weight)
    target = y * (t - e) / (e * (1 - e))
    by_hand = Ridge().fit(X, target, sample_weight=weight)
    model = TransformedOutcome(Ridge()).fit(X, y, treatment=t, sample_weight=weight)
    assert model.predict(X) == pytest.approx(by_hand.predict(X), abs=1e-12)
    assert model.n_parameters_ == X.shape[1] + 1
    # The mean prediction of least squares is the average effect, whatever the features.
    plain = TransformedOutcome().fit(X, y, treatment=t)
    assert plain.predict(X).mean() == pytest.approx(y[t == 1].mean() - y[t == 0].mean())
    known = TransformedOutcome(propensity=0.25).fit(X, y, treatment=t)
    target = y * (t - 0.25) / (0.25 * 0.75)
    assert known.predict(X) == pytest.approx(LinearRegression().fit(X, target).predict(X))


@pytest.mark.parametrize("cls", [ClassTransformation, TransformedOutcome])
@pytest.mark.parametrize("propensity", [0.0, 1.0, 1.5, "half"])
def test_propensity_is_a_probability(rows, cls, propensity):
    X, y, t = rows
    with pytest.raises(ValueError, match="propensity should be a number strictly between 0 and 1"):
        cls(propensity=propensity).fit(X, y, treatment=t)


def test_transformed_outcome_is_for_regressors(rows):
    X, y, t = rows
    with pytest.raises(ValueError, match="estimator should be a regressor"):
        TransformedOutcome(LogisticRegression()).fit(X, y, treatment=t)


@pytest.mark.parametrize("cls", REDUCTIONS)
def test_pipelines_take_weights(rows, cls):
    X, y, t = rows
    weight = np.random.default_rng(0).uniform(1, 2, len(y))
    last = Ridge() if cls is TransformedOutcome else LogisticRegression()
    pipeline = make_pipeline(StandardScaler(), last)
    model = cls(pipeline).fit(X, y, treatment=t, sample_weight=weight)
    direct = cls(last).fit(X, y, treatment=t, sample_weight=weight)
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


@pytest.mark.parametrize("cls", REDUCTIONS)
@pytest.mark.parametrize("share", [0.15, 0.85])
def test_arms_of_different_size(cls, share):
    train, test = (
        make_trial(8000, treatment_share=share, heterogeneity=1.0, base_rate=0.4, random_state=seed)
        for seed in (0, 1)
    )
    model = cls().fit(train.X, train.y, treatment=train.treatment)
    result = auuc_inference(test.y, model.predict(test.X), treatment=test.treatment)
    assert result.gain > 3 * result.gain_standard_error


def potential_outcomes(X, law):
    """P(y = 1) without and with treatment, such that the named reduction is well specified."""
    direction = np.array([1.0, -1.0, 0.5, 0.0])
    if law == "logistic in each arm":
        prognosis = X @ [0.5, 0.5, 0.5, 0.5] - 0.5
        return expit(prognosis), expit(prognosis + 0.3 + X @ direction)
    effect = np.tanh(X @ direction / 2) if law == "agreement logistic" else 0.3 * X @ direction
    return (1 - effect) / 2, (1 + effect) / 2


def regret(model, law):
    """How far the population AUUC, over a fixed sample of people, falls short of the best."""
    X = np.random.default_rng([7, 7]).uniform(-1, 1, (20_000, 4))
    control, treated = potential_outcomes(X, law)
    effect = treated - control

    def auuc(score):
        return np.mean(effect[np.argsort(score)] * (np.arange(len(score)) + 0.5) / len(score))

    return auuc(effect) - auuc(model.predict(X))


@pytest.mark.parametrize(
    ("cls", "law"),
    [
        (TwoModels, "logistic in each arm"),
        (DependentDataRepresentation, "logistic in each arm"),
        (SharedDataRepresentation, "logistic in each arm"),
        (ClassTransformation, "agreement logistic"),
        (TransformedOutcome, "effect linear"),
    ],
)
def test_regret_falls_with_the_rows_where_the_model_is_right(cls, law):
    def mean_regret(n_rows):
        found = []
        for seed in range(8):
            rng = np.random.default_rng(seed)
            X, t = rng.uniform(-1, 1, (n_rows, 4)), rng.random(n_rows) < 0.5
            control, treated = potential_outcomes(X, law)
            y = (rng.random(n_rows) < np.where(t, treated, control)).astype(float)
            found.append(regret(cls().fit(X, y, treatment=t), law))
        return np.mean(found)

    small, large = mean_regret(800), mean_regret(12_800)
    assert 0 < large <= small / 2


@pytest.mark.parametrize("cls", REDUCTIONS)
def test_noise_is_learnt_but_not_on_other_rows(cls):
    ratios = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        X, t, y = rng.normal(size=(800, 40)), rng.random(800) < 0.5, rng.random(800) < 0.5
        model = cls().fit(X[:400], y[:400], treatment=t[:400])
        seen, unseen = (
            auuc_inference(y[part], model.predict(X[part]), treatment=t[part])
            for part in (slice(400), slice(400, None))
        )
        assert seen.gain > 2 * seen.gain_standard_error
        ratios.append(unseen.gain / unseen.gain_standard_error)
    assert abs(np.mean(ratios)) < 3 / np.sqrt(len(ratios))


@pytest.mark.gate
@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (TwoModels(), "vanilla"),
        (ClassTransformation(balance="none"), "class transformation"),
        (DependentDataRepresentation(), "ddr_control"),
        (DependentDataRepresentation(order="treatment-first"), "ddr_treatment"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_agrees_with_scikit_uplift(ours, theirs):
    models = pytest.importorskip("sklift.models", reason="needs scikit-uplift")
    base = LogisticRegression(solver="newton-cholesky")
    train, test = load_hillstrom().split(random_state=0)
    mailed = [(part.treatment != part.control).astype(int) for part in (train, test)]
    if theirs == "class transformation":
        model = models.ClassTransformation(base)
    else:
        model = models.TwoModels(base, clone(base), method=theirs)
    model.fit(train.X.to_numpy(), train.y.astype(int), mailed[0])
    expected = auuc_score(test.y, model.predict(test.X.to_numpy()), treatment=mailed[1])
    ours.fit(train.X, train.y, treatment=mailed[0])
    found = auuc_score(test.y, ours.predict(test.X), treatment=mailed[1])
    assert found == pytest.approx(expected, abs=1e-6)
