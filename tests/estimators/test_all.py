"""What every estimator and baseline must do."""

from importlib.util import find_spec

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import estimator_checks_generator

from auucmax import (
    AUUCMax,
    TrialKFold,
    TwoModels,
    auuc_inference,
    auuc_score,
    auuc_scorer,
    baselines,
    estimators,
    make_trial,
)
from auucmax.estimators import ShrunkInteractions

#: ScoreOnly is not trained, ResponseModel ignores the treatment.
ALL = tuple(
    getattr(package, name)
    for package in (estimators, baselines)
    for name in package.__all__
    if name not in ("ScoreOnly", "ResponseModel")
)
EXPECTED_FAILURES = {
    "check_sample_weight_equivalence_on_dense_data": (
        "the stand-in treatment is a function of a row's place, so repeated rows change arms"
    ),
    "check_sample_weights_invariance": "as above",
}
#: What makes slow learners quick here.
NETWORK = {"max_epochs": 5, "learning_rate": 0.01, "shared": (16,), "heads": (16,)}
QUICK = {
    "CFRNet": NETWORK,
    "GANITE": {
        "generator_epochs": 3,
        "max_epochs": 6,
        "learning_rate": 0.01,
        "hidden": 15,
        "batch_size": 512,
    },
    "TARNet": NETWORK,
    "BoostedEffect": {"base_rounds": (0, 20), "effect_rounds": (0, 20), "n_folds": 2},
    "UpliftLambdaMART": {"n_trees": 40, "learning_rate": 0.1, "patience": 10, "n_bins": 64},
}
#: The library that an estimator needs beyond our own dependencies.
NEEDS = {
    "CFRNet": "torch",
    "GANITE": "torch",
    "TARNet": "torch",
}
#: Part of the best gain that an estimator may miss on a trial whose effects are linear.
REGRET = {"GANITE": 0.3, "UpliftLambdaMART": 0.2}


def with_fixed_treatment(cls):
    """A subclass that scikit-learn's checks can call: fit(X, y) makes up treatment and outcome."""

    class Checked(cls):
        def fit(self, X, y, sample_weight=None):
            values = np.asarray(y)
            if values.dtype == object and values.ndim == 1:
                values = values.astype(float)
            if values.ndim == 2 and values.shape[1] == 1:
                values = values[:, 0]
            if values.dtype.kind in "biuf" and values.ndim == 1 and np.isfinite(values).all():
                # Cut at the median by rank, so that both halves are there whatever the values.
                order = np.argsort(values, kind="stable")
                y = np.zeros(len(values))
                y[order[len(order) // 2 :]] = 1.0
                treatment = np.zeros(len(values), dtype=int)
                treatment[order[::2]] = 1  # both arms in both halves
            else:
                treatment = np.arange(len(values)) % 2
            return super().fit(X, y, treatment=treatment, sample_weight=sample_weight)

        def score(self, X, y, sample_weight=None):
            treatment = np.arange(len(y)) % 2
            return super().score(X, y, treatment=treatment, sample_weight=sample_weight)

    # Where pickle looks for it.
    Checked.__name__ = Checked.__qualname__ = f"Checked{cls.__name__}"
    globals()[Checked.__name__] = Checked
    return Checked


def all_checks():
    for cls in ALL:
        estimator = with_fixed_treatment(cls)(**QUICK.get(cls.__name__, {}))
        library = NEEDS.get(cls.__name__, "numpy")
        missing = pytest.mark.skipif(find_spec(library) is None, reason=f"needs {library}")
        for checked, check in estimator_checks_generator(estimator):
            name = check.func.__name__
            marks = [missing]
            if name in EXPECTED_FAILURES:
                marks.append(pytest.mark.xfail(reason=EXPECTED_FAILURES[name], strict=False))
            yield pytest.param(checked, check, id=f"{cls.__name__}-{name}", marks=marks)


@pytest.mark.quick_cases(
    "AUUCMax", "MinimaxLinear", "SVMDifferentialPrediction", "TARNet", "TwoModels"
)
@pytest.mark.filterwarnings("ignore")  # scikit-learn's checks warn about themselves
@pytest.mark.parametrize(("estimator", "check"), list(all_checks()))
def test_scikit_learn_check(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def trials():
    return [
        make_trial(
            6000,
            n_features=5,
            n_noise=1,
            heterogeneity=1.0,
            signal=0.3,
            base_rate=0.4,
            ate=0.1,
            random_state=seed,
        )
        for seed in (0, 1)
    ]


@pytest.fixture(params=ALL, ids=lambda cls: cls.__name__)
def estimator(request):
    name = request.param.__name__
    pytest.importorskip(NEEDS.get(name, "numpy"))
    model = request.param(**QUICK.get(name, {}))
    if "random_state" in model.get_params():
        model.set_params(random_state=0)
    return model


@pytest.mark.gate_cases("UpliftEnsemble")
def test_it_learns(estimator, trials):
    train, test = trials
    model = estimator.fit(train.X, train.y, treatment=train.treatment)
    score = model.predict(test.X)
    result = auuc_inference(test.y, score, treatment=test.treatment)
    assert result.gain > 3 * result.gain_standard_error
    assert model.score(test.X, test.y, treatment=test.treatment) == result.estimate
    assert model.n_parameters_ > 0
    # A linear score can come near the best one here.
    population = test.population
    regret = population.best_auuc - population.auuc(model.predict)
    part = REGRET.get(type(model).__name__, 0.15)
    assert regret < part * (population.best_auuc - population.ate / 2)


@pytest.mark.quick_cases("AUUCMax", "MinimaxLinear", "SVMDifferentialPrediction", "TwoModels")
def test_same_scores_from_arrays_frames_labels_and_row_order(estimator, trials):
    train, test = trials[0].take(np.arange(2000)), trials[1]
    X, y, t = train.X.to_numpy(np.float64), train.y, train.treatment
    expected = clone(estimator).fit(X, y, treatment=t).predict(test.X.to_numpy(np.float64))

    def check(model, X_new, tolerance=1e-6):
        spread = np.ptp(expected)
        assert model.predict(X_new) == pytest.approx(expected, abs=tolerance * spread)

    frame = pd.DataFrame(X, columns=train.X.columns)
    frame_new = pd.DataFrame(test.X.to_numpy(np.float64), columns=train.X.columns)
    check(clone(estimator).fit(frame, y, treatment=t), frame_new)
    polars_new = pl.DataFrame({c: frame_new[c].to_numpy() for c in frame_new})
    polars = pl.DataFrame({c: frame[c].to_numpy() for c in frame})
    check(clone(estimator).fit(polars, pl.Series(y), treatment=pl.Series(t)), polars_new)
    labels = np.where(t == 1, "mail", "none")
    named = clone(estimator).set_params(control="none").fit(X, y, treatment=labels)
    check(named, test.X.to_numpy(np.float64))
    named.score(test.X.to_numpy(), test.y, treatment=np.where(test.treatment == 1, "mail", "none"))
    single = clone(estimator).fit(X.astype(np.float32), y, treatment=t)
    check(single, test.X.to_numpy(np.float32), tolerance=1e-3)


@pytest.mark.gate_cases("GANITE", "UpliftEnsemble")
def test_unit_weights_change_nothing_and_weights_equal_repetition(estimator, trials):
    train, test = trials
    X, y, t = train.X.to_numpy(np.float64)[:1500], train.y[:1500], train.treatment[:1500]
    X = X.round(1)  # trees bin their features, which copies change where there are many values
    if "early_stopping" in estimator.get_params():
        estimator.set_params(early_stopping=None)
    if "selection" in estimator.get_params():
        estimator.set_params(selection=None)  # folds cannot be the same for repeated rows
    if "design" in estimator.get_params():
        estimator.set_params(design="joint")  # nor can a random half of the rows
    if "strengths" in estimator.get_params():
        estimator.set_params(strengths=(0.01,), hinges=False)  # nor quartiles
    if "base_rounds" in estimator.get_params():
        pytest.skip("numbers of trees are chosen by folds: tests/estimators/test_boosted.py")
    if "estimators" in estimator.get_params():
        estimator.set_params(
            estimators=[TwoModels(), ShrunkInteractions(strengths=(0.01,), hinges=False)]
        )
    # Knots of ranks are means of some rows, which are others where rows are repeated.
    tolerance = 1e-2 if "estimators" in estimator.get_params() else 1e-5
    if "validation_share" in estimator.get_params():
        estimator.set_params(validation_share=0, batch_size=None)  # nor batches
        tolerance = 1e-3  # networks learn in single precision
    X_new = test.X.to_numpy(np.float64)
    plain = clone(estimator).fit(X, y, treatment=t).predict(X_new)
    ones = clone(estimator).fit(X, y, treatment=t, sample_weight=np.ones(len(y)))
    assert ones.predict(X_new) == pytest.approx(plain, abs=1e-6 * np.ptp(plain))
    copies = np.random.default_rng(0).integers(1, 4, len(y))
    weighted = clone(estimator).fit(X, y, treatment=t, sample_weight=copies).predict(X_new)
    index = np.repeat(np.arange(len(y)), copies)
    repeated = clone(estimator).fit(X[index], y[index], treatment=t[index]).predict(X_new)
    assert weighted == pytest.approx(repeated, abs=tolerance * np.ptp(repeated))


def test_any_outcome_or_a_clear_error(estimator, trials):
    train = trials[0].take(np.arange(1500))
    spend = train.y * np.random.default_rng(0).lognormal(3.0, 1.0, len(train.y))
    if "estimators" in estimator.get_params():  # its own take what they take
        estimator.set_params(estimators=[TwoModels(), AUUCMax(random_state=0)])
    if estimator.needs_binary:
        with pytest.raises(ValueError, match="y should be 0 or 1 for this model"):
            estimator.fit(train.X, spend, treatment=train.treatment)
        return
    model = estimator.fit(train.X, spend, treatment=train.treatment)
    score = model.predict(train.X)
    assert np.isfinite(score).all()
    assert np.ptp(score) > 0


@pytest.mark.quick_cases(
    "AUUCMax", "MinimaxLinear", "SVMDifferentialPrediction", "TARNet", "TwoModels"
)
def test_inside_scikit_learn(estimator, trials):
    train = trials[0].take(np.arange(1500))
    X, y, t = train.X.to_numpy(np.float64), train.y, train.treatment
    with config_context(enable_metadata_routing=True):
        pipeline = make_pipeline(StandardScaler(), clone(estimator))
        pipeline.fit(X, y, treatment=t)
        assert pipeline.score(X, y, treatment=t) == auuc_score(y, pipeline.predict(X), treatment=t)
        scores = cross_validate(
            clone(pipeline), X, y, scoring=auuc_scorer, cv=TrialKFold(2, random_state=0),
            params={"treatment": t}, error_score="raise",
        )["test_score"]  # fmt: skip
        assert np.isfinite(scores).all()
        control = {"control": [None, 0]}
        search = GridSearchCV(clone(estimator), control, cv=TrialKFold(2, random_state=0),
                              error_score="raise").fit(X, y, treatment=t)  # fmt: skip
        assert search.predict(X).shape == y.shape


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": np.nan}, "y should be without missing values"),
        ({"y": "short"}, "y should be of as many rows as X"),
        ({"treatment": np.nan}, "treatment should be without missing values"),
        ({"treatment": 1}, "An effect needs both arms"),
        ({"X": np.nan}, "contains NaN"),
        ({"X": np.inf}, "infinity"),
        ({"sample_weight": -1.0}, "sample_weight should be 0 or positive"),
    ],
)
def test_bad_input(estimator, trials, change, message):
    train, _ = trials
    if "NaN" in message and estimator.__sklearn_tags__().input_tags.allow_nan:
        pytest.skip("takes missing values")
    rows = {
        "X": train.X.to_numpy(np.float64).copy(),
        "y": train.y.astype(float).copy(),
        "treatment": train.treatment.astype(float).copy(),
    }
    ((name, value),) = change.items()
    if value == "short":
        rows[name] = rows[name][:-1]
    elif name == "sample_weight":
        rows[name] = np.full(len(rows["y"]), value)
    elif name == "treatment" and value == 1:
        rows[name][:] = 1
    else:
        rows[name].flat[0] = value
    with pytest.raises(ValueError, match=message):
        estimator.fit(rows.pop("X"), rows.pop("y"), **rows)


@pytest.mark.gate_cases("ShrunkInteractions", "UpliftEnsemble", "UpliftLambdaMART")
def test_before_fit_and_wrong_columns(estimator, trials):
    train, test = trials[0].take(np.arange(1500)), trials[1]
    with pytest.raises(NotFittedError):
        estimator.predict(test.X)
    estimator.fit(train.X, train.y, treatment=train.treatment)
    unnamed = clone(estimator).fit(train.X.to_numpy(), train.y, treatment=train.treatment)
    with pytest.raises(ValueError, match="has 3 features, but"):
        unnamed.predict(test.X.to_numpy()[:, :3])
    with pytest.raises(ValueError, match="feature names"):
        estimator.predict(test.X.rename(columns={"x0": "other"}))
    with pytest.raises(TypeError, match="treatment"):
        clone(estimator).fit(train.X, train.y)
