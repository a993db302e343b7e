""""""

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from sklearn import config_context
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import TransformedTargetRegressor, make_column_transformer
from sklearn.ensemble import (
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    StackingRegressor,
)
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVC, SVR, LinearSVC
from sklearn.tree import DecisionTreeClassifier

from auucmax import auuc_inference, auuc_score, load_hillstrom, make_trial
from auucmax.baselines import DependentDataRepresentation, SharedDataRepresentation
from auucmax.estimators import ClassTransformation, TransformedOutcome, TwoModels
from auucmax.estimators.base import count_parameters

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


def test_transformed_outcome_by_hand(rows):
    X, y, t = rows
    weight = np.random.default_rng(0).uniform(1, 2, len(y))
    e = np.average(t, weights=weight)
    target = y * (t - e) / (e * (1 - e))
    by_hand = Ridge().fit(X, target, sample_weight=weight / weight.mean())
    model = TransformedOutcome(Ridge()).fit(X, y, treatment=t, sample_weight=weight)
    assert model.predict(X) == pytest.approx(by_hand.predict(X), abs=1e-12)
    assert model.n_parameters_ == X.shape[1] + 1
    # The mean prediction of least squares is the average effect, whatever the features.
    plain = TransformedOutcome().fit(X, y, treatment=t)
    assert plain.predict(X).mean() == pytest.approx(y[t == 1].mean() - y[t == 0].mean())
    known = TransformedOutcome(propensity=0.25).fit(X, y, treatment=t)
    target = y * (t - 0.25) / (0.25 * 0.75)
    assert known.predict(X) == pytest.approx(LinearRegression().fit(X, target).predict(X))


def test_transformed_outcome_is_for_regressors(rows):
    X, y, t = rows
    with pytest.raises(ValueError, match="estimator should be a regressor"):
        TransformedOutcome(LogisticRegression()).fit(X, y, treatment=t)


@pytest.mark.parametrize("cls", REDUCTIONS)
def test_units_and_shifts_of_a_column_do_not_matter(cls):
    trial = make_trial(2000, n_features=4, random_state=0)
    other = np.random.default_rng(0).random(2000)
    X = np.column_stack([trial.X.to_numpy(np.float64), other])
    seconds = X * [1, 1e6, 1e-6, 1, 3e7] + [0, 1e8, 0, 5, 1.7e9]
    plain, changed = (
        cls().fit(rows, trial.y, treatment=trial.treatment).predict(rows) for rows in (X, seconds)
    )
    assert changed == pytest.approx(plain, abs=1e-9 * np.ptp(plain))


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("cls", REDUCTIONS)
def test_only_ratios_of_weights_matter_unless_they_count_copies(rows, cls, own):
    X, y, t = (column[:600] for column in rows)
    base = Ridge(10.0) if cls is TransformedOutcome else LogisticRegression(C=0.01, tol=1e-10)
    model = cls(base if own else None)
    rng = np.random.default_rng(0)
    share, some = rng.uniform(1, 2, len(y)), rng.integers(1, 4, len(y))
    plain, small = (
        clone(model).fit(X, y, treatment=t, sample_weight=unit * share).predict(X)
        for unit in (1.0, 1e-3)
    )
    assert small == pytest.approx(plain, abs=1e-6 * np.ptp(plain))
    for copies in (some, np.full(len(y), 2)):
        index = np.repeat(np.arange(len(y)), copies)
        repeated = clone(model).fit(X[index], y[index], treatment=t[index]).predict(X)
        weighted = clone(model).fit(X, y, treatment=t, sample_weight=copies).predict(X)
        assert weighted == pytest.approx(repeated, abs=1e-5 * np.ptp(repeated))


@pytest.mark.parametrize("routing", [False, True])
@pytest.mark.parametrize("cls", REDUCTIONS)
def test_pipelines_and_searches_take_weights(rows, cls, routing):
    X, y, t = (column[:800] for column in rows)
    weight = np.random.default_rng(0).integers(1, 9, len(y))
    # Hardly penalised, since a pipeline scales the prediction that DDR adds.
    logistic = LogisticRegression(C=1e6, solver="newton-cholesky")
    last = Ridge() if cls is TransformedOutcome else logistic
    pipeline = make_pipeline(StandardScaler(), last)
    grid = {"alpha": [1.0]} if cls is TransformedOutcome else {"C": [1e6]}
    long_grid = {f"{pipeline.steps[-1][0]}__{name}": value for name, value in grid.items()}
    models = [pipeline, GridSearchCV(last, grid, cv=2), GridSearchCV(pipeline, long_grid, cv=2)]
    if cls is TransformedOutcome:
        models.append(TransformedTargetRegressor(pipeline))
    direct = cls(last).fit(X, y, treatment=t, sample_weight=weight)
    plain = cls(last).fit(X, y, treatment=t)
    assert np.corrcoef(plain.predict(X), direct.predict(X))[0, 1] < 0.99
    for base in models:
        with config_context(enable_metadata_routing=routing):
            model = cls(base).fit(X, y, treatment=t, sample_weight=weight)
        assert np.corrcoef(model.predict(X), direct.predict(X))[0, 1] > 0.999
        assert model.n_parameters_ == direct.n_parameters_


def test_models_that_cannot_do_it(rows):
    X, y, t = rows
    with pytest.raises(
        ValueError, match="model that takes sample_weight, got KNeighborsClassifier"
    ):
        ClassTransformation(KNeighborsClassifier()).fit(X, y, treatment=t)
    ClassTransformation(KNeighborsClassifier(), balance="none").fit(X, y, treatment=t)
    with pytest.raises(ValueError, match="classifier with predict_proba, got LinearSVC"):
        TwoModels(LinearSVC()).fit(X, y, treatment=t)
    with pytest.raises(ValueError, match="both 0 and 1 among the rows"):
        TwoModels().fit(X, y * t, treatment=t)


@pytest.fixture(scope="module")
def people():
    """A frame with strings, categories and missing values; the effect depends on the city."""
    rng = np.random.default_rng(0)
    n = 1200
    frame = pd.DataFrame(
        {
            "city": rng.choice(["Bern", "Oslo", "Rome"], n),
            "size": pd.Categorical(rng.choice(["S", "L"], n)),
            "age": np.where(rng.random(n) < 0.2, np.nan, rng.normal(40, 10, n)),
            "count": pd.array(rng.integers(0, 9, n), dtype="Int64"),
        }
    )
    t = rng.random(n) < 0.5
    y = (rng.random(n) < np.where(t & (frame["city"] == "Oslo"), 0.9, 0.3)).astype(float)
    return frame, y, t


@pytest.mark.parametrize("cls", [TwoModels, ClassTransformation, TransformedOutcome])
def test_frames_reach_the_users_model(people, cls):
    frame, y, t = people
    columns = make_column_transformer(
        (OneHotEncoder(), ["city", "size"]), (SimpleImputer(), ["age", "count"])
    )
    last = Ridge() if cls is TransformedOutcome else LogisticRegression(max_iter=1000)
    model = cls(make_pipeline(columns, StandardScaler(with_mean=False), last))
    weight = np.random.default_rng(1).uniform(0.5, 1, len(y))
    weight[:10] = 0
    for own in (None, weight):
        score = model.fit(frame, y, treatment=t, sample_weight=own).predict(frame)
        assert score[frame["city"] == "Oslo"].min() > score[frame["city"] != "Oslo"].max()
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame.rename(columns={"age": "years"}))
    with pytest.raises(ValueError, match="could not convert string to float"):
        cls().fit(frame.drop(columns="size"), y, treatment=t)


@pytest.mark.parametrize("cls", REDUCTIONS)
def test_missing_values_reach_models_that_take_them(people, cls):
    frame, y, t = people
    X = np.column_stack([frame["city"] == "Oslo", frame["age"]]).astype(float)
    trees = HistGradientBoostingClassifier(max_iter=5)
    model = cls(HistGradientBoostingRegressor(max_iter=5) if cls is TransformedOutcome else trees)
    assert model.__sklearn_tags__().input_tags.allow_nan
    assert not cls().__sklearn_tags__().input_tags.allow_nan
    score = model.fit(X, y, treatment=t).predict(X)
    assert np.isfinite(score).all()
    assert score[X[:, 0] == 1].mean() > score[X[:, 0] == 0].mean() + 0.05
    last = Ridge() if cls is TransformedOutcome else LogisticRegression()
    filled = cls(make_pipeline(SimpleImputer(), StandardScaler(), last)).fit(X, y, treatment=t)
    assert filled.__sklearn_tags__().input_tags.allow_nan
    with pytest.raises(ValueError, match="contains NaN"):
        cls(last).fit(X, y, treatment=t)


def test_counts_of_parameters(rows):
    X, y, _ = (column[:200] for column in rows)
    d = X.shape[1]

    def count(model):
        return count_parameters(model.fit(X, y))

    assert count(LogisticRegression()) == d + 1
    assert count(LinearRegression(fit_intercept=False)) == d
    assert count(DecisionTreeClassifier(max_leaf_nodes=3)) == 5
    assert count(RandomForestClassifier(4, max_leaf_nodes=2, bootstrap=False)) == 4 * 3
    assert count(GradientBoostingRegressor(n_estimators=3, max_leaf_nodes=2)) == 3 * 3
    network = MLPRegressor(hidden_layer_sizes=(7,), solver="lbfgs", tol=1e9)
    assert count(network) == 7 * (d + 1) + 8
    assert count(GridSearchCV(LogisticRegression(), {"C": [1.0]}, cv=2)) == d + 1
    assert count(SVR(kernel="linear")) == d + 1
    scaled = make_pipeline(StandardScaler(), LinearRegression())
    stack = StackingRegressor([("a", Ridge()), ("b", scaled)], Ridge(), cv=2)
    for unknown in (stack, CalibratedClassifierCV(LogisticRegression(), cv=2), SVC()):
        assert count(unknown) is None
    assert count(KNeighborsClassifier()) is None
    assert count(make_pipeline(StandardScaler(), KNeighborsClassifier())) is None


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


@pytest.mark.gate
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


def stacked(X, t, scale, with_treatment):
    """The design of SDR, row by row."""
    zero = np.zeros(X.shape[1])
    made = [
        np.concatenate([x, scale * x if a else zero, zero if a else scale * x, [a]])
        for x, a in zip(X, t, strict=True)
    ]
    return np.array(made)[:, : None if with_treatment else -1]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("order", ["control-first", "treatment-first"])
def test_ddr_by_hand(rows, order, weighted):
    X, y, t = rows
    weight = np.random.default_rng(0).uniform(1, 2, len(y)) if weighted else None
    first_arm = t == (order == "treatment-first")

    def fit(features, arm):
        own = None if weight is None else weight[arm] / weight[arm].mean()
        return LogisticRegression().fit(features, y[arm], sample_weight=own)

    first = fit(X[first_arm], first_arm)
    z = first.predict_proba(X)[:, 1]
    second = fit(np.column_stack([X, z])[~first_arm], ~first_arm)
    gain = second.predict_proba(np.column_stack([X, z]))[:, 1] - z
    expected = gain if order == "control-first" else -gain
    model = DependentDataRepresentation(LogisticRegression(), order=order)
    model.fit(X, y, treatment=t, sample_weight=weight)
    assert model.predict(X) == pytest.approx(expected, abs=1e-12)
    assert model.n_parameters_ == 5 + 6


@pytest.mark.gate_cases("1")
@pytest.mark.parametrize("treatment_column", [False, True])
@pytest.mark.parametrize("scale", [0.1, 1.0])
def test_sdr_is_scikit_learn_on_the_stacked_design(scale, treatment_column):
    train, test = load_hillstrom().split(random_state=0)
    t_train, t_test = ((part.treatment != part.control).astype(int) for part in (train, test))
    X, X_new = (part.X.to_numpy() / [*[1] * 18, 100, 1, 1, 1] for part in (train, test))
    X, y, t_train = X[:6000], train.y[:6000], t_train[:6000]
    base = LogisticRegression(solver="newton-cholesky", tol=1e-8)
    by_hand = base.fit(stacked(X, t_train, scale, treatment_column), y)
    treated, control = (
        by_hand.predict_proba(stacked(X_new, np.full(len(X_new), arm), scale, treatment_column))
        for arm in (1, 0)
    )
    expected = auuc_score(test.y, (treated - control)[:, 1], treatment=t_test)
    model = SharedDataRepresentation(base, arm_scale=scale, treatment_column=treatment_column)
    model.fit(X, y, treatment=t_train)
    found = auuc_score(test.y, model.predict(X_new), treatment=t_test)
    assert found == pytest.approx(expected, abs=1e-6)
    assert model.n_parameters_ == 67 + treatment_column


@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize("treatment_column", [False, True])
@pytest.mark.parametrize("scale", [0.1, 1.0])
def test_sdr_standardises_before_it_stacks(rows, scale, treatment_column, binary):
    X, y, t = rows
    X = X * [1, 10, 0.1, 3] + [0, 1, 2, 3]
    y = y if binary else y + X[:, 1]
    options = {"arm_scale": scale, "treatment_column": treatment_column}
    base = LogisticRegression(solver="newton-cholesky", tol=1e-8) if binary else LinearRegression()
    # Without the column, the shifts are what tells the levels of the arms apart.
    Z = StandardScaler(with_mean=treatment_column).fit_transform(X)
    expected = SharedDataRepresentation(base, **options).fit(Z, y, treatment=t).predict(Z)
    model = SharedDataRepresentation(**options).fit(X, y, treatment=t)
    assert model.predict(X) == pytest.approx(expected, abs=1e-9 * np.ptp(expected))


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (TwoModels(LogisticRegression), "estimator should be a scikit-learn classifier or reg"),
        (TransformedOutcome(propensity=1.5), "propensity should be a number strictly between"),
        (ClassTransformation(balance="none", propensity=0.25), "propensity should be None with"),
        (DependentDataRepresentation(order="both"), "order should be one of"),
        (SharedDataRepresentation(arm_scale=0), "arm_scale should be a positive number, got 0"),
    ],
)
def test_bad_parameters(rows, model, message):
    X, y, t = rows
    with pytest.raises(ValueError, match=message):
        model.fit(X, y, treatment=t)
