"""Logistic models with shrunk interactions: exact, weighted by likelihood."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import expit
from tests.estimators.reference import mean_of

from auucmax import make_trial
from auucmax.estimators import ShrunkInteractions, shrunk
from auucmax.estimators.shrunk import MAIN_STRENGTH, Design, PathRows
from auucmax.estimators.targets import BINOMIAL, GAUSSIAN
from auucmax.rows import ArrayRows


@pytest.fixture(scope="module")
def trial():
    return make_trial(4_000, n_features=4, n_noise=1, heterogeneity=1.0, random_state=0)


def fitted(trial, **settings):
    model = ShrunkInteractions(random_state=0, **settings)
    return model.fit(trial.X, trial.y, treatment=trial.treatment)


def test_each_strength_is_the_minimiser_that_scipy_finds(trial):
    model = fitted(trial, strengths=(0.01,), hinges=False)
    X = trial.X.to_numpy(np.float64)
    x = (X - X.mean(axis=0)) / X.std(axis=0)
    d = trial.treatment - np.mean(trial.treatment)
    z = np.column_stack([np.ones(len(x)), x, d, d[:, None] * x])
    penalty = np.r_[0, [MAIN_STRENGTH] * x.shape[1], 0, [0.01] * x.shape[1]]

    def objective(w):
        logit = z @ w
        value = np.mean(np.logaddexp(0, logit) - trial.y * logit) + penalty @ w**2 / 2
        return value, z.T @ (expit(logit) - trial.y) / len(x) + penalty * w

    w = minimize(objective, np.zeros(z.shape[1]), jac=True, options={"gtol": 1e-10}).x
    share, terms = np.mean(trial.treatment), x.shape[1] + 1
    main, effect = w[:terms], w[terms:]
    one = np.column_stack([np.ones(len(x)), x])
    expected = expit(one @ (main + (1 - share) * effect)) - expit(one @ (main - share * effect))
    np.testing.assert_allclose(model.predict(trial.X), expected, atol=1e-6)


def test_weights_are_by_the_log_loss_of_rows_that_were_not_learnt_from(trial):
    path = fitted(trial).path_
    weight = np.exp(path["log_loss"].min() - path["log_loss"])
    weight = weight.where(weight > 1e-4 * weight.sum(), 0)
    np.testing.assert_allclose(path["weight"], weight / weight.sum())


@pytest.mark.gate
def test_where_effects_do_not_differ_strong_shrinkage_has_most_of_the_weight():
    shares = []
    for seed in range(4):
        null = make_trial(4_000, n_features=6, heterogeneity=0.0, random_state=seed)
        path = fitted(null).path_
        shares.append(path.loc[path["strength"] >= 0.1, "weight"].sum())
    assert np.mean(shares) > 0.6


def test_hinges_are_at_quartiles_of_columns_of_many_values(trial):
    X = trial.X.assign(few=np.arange(len(trial.X)) % 8, many=np.arange(len(trial.X)) % 100)
    model = ShrunkInteractions(random_state=0).fit(X, trial.y, treatment=trial.treatment)
    hinges = [(X.columns[c], q) for c, q in model.formula_.hinges]
    assert "few" not in dict(hinges)
    knots = [q for column, q in hinges if column == "many"]
    np.testing.assert_allclose(knots, np.quantile(X["many"], [0.25, 0.5, 0.75]))


def test_units_and_shifts_of_columns_do_not_matter(trial):
    moved = trial.X * [1, 1e3, 1e-3, 1, 1][: trial.X.shape[1]] + 7.0
    model = ShrunkInteractions(random_state=0).fit(moved, trial.y, treatment=trial.treatment)
    np.testing.assert_allclose(model.predict(moved), fitted(trial).predict(trial.X), atol=1e-6)


@pytest.mark.gate
def test_few_rows_of_an_outcome(trial):
    y = np.where(np.cumsum(trial.y) <= 30, trial.y, 0.0)
    model = ShrunkInteractions(random_state=0).fit(trial.X, y, treatment=trial.treatment)
    assert np.isfinite(model.predict(trial.X)).all()
    rare = np.where((y == 1) & (np.cumsum((y == 1) & (trial.treatment == 1)) > 1), 0.0, y)
    rare[trial.treatment == 0] = y[trial.treatment == 0]
    with pytest.raises(ValueError, match="at least 2 rows of each outcome"):
        ShrunkInteractions().fit(trial.X, rare, treatment=trial.treatment)


def test_the_median_stands_for_missing_values(trial):
    X = trial.X.to_numpy(np.float64).copy()
    X[::7, 1] = np.nan
    filled = np.where(np.isnan(X), np.nanmedian(X, axis=0), X)
    models = [
        ShrunkInteractions(random_state=0).fit(own, trial.y, treatment=trial.treatment)
        for own in (X, filled)
    ]
    np.testing.assert_allclose(models[0].predict(X), models[1].predict(filled), atol=1e-9)
    assert models[0].fill_[1] == np.nanmedian(X[:, 1])


@pytest.mark.parametrize(
    ("settings", "words"), [({"strengths": (0.0,)}, "strengths"), ({"n_folds": 1}, "n_folds")]
)
def test_bad_parameters(trial, settings, words):
    with pytest.raises(ValueError, match=words):
        fitted(trial, **settings)


def losses_slow(rows, design, fold, share, loss, points, folds, inside):
    """What ``PathRows.losses`` returns, a model and a row at a time."""
    result = np.zeros((len(points), 2 + 2 * design.n_terms))
    for k, point in enumerate(points):
        for i in range(len(rows.y)):
            counts = folds[k] < 0 or (fold[i] == folds[k]) == inside
            weight = float(counts) * (1.0 if rows.weight is None else rows.weight[i])
            x = design(rows.X[i : i + 1])[0]
            z = np.concatenate([x, x * (rows.treated[i] - share)])
            at, y = z @ point, rows.y[i]
            slope = (mean_of(loss, at) - y) * z
            result[k] += weight * np.concatenate([[1.0, loss.value(at, y)], slope])
    return result


@given(
    seed=st.integers(0, 1000),
    n=st.integers(1, 30),
    k=st.integers(1, 3),
    inside=st.booleans(),
    weighted=st.booleans(),
    loss=st.sampled_from([BINOMIAL, GAUSSIAN]),
    kept=st.booleans(),
)
@settings(deadline=None, max_examples=40)
def test_losses_and_gradients_agree_with_their_twin(seed, n, k, inside, weighted, loss, kept):
    rng = np.random.default_rng(seed)
    X = rng.integers(-2, 3, size=(n, 2)).astype(float)
    hinge = np.array([1], dtype=np.int64), np.array([0.5])
    design = Design(*hinge, rng.normal(size=3), rng.random(3), np.zeros(2))
    weight = rng.integers(0, 3, size=n).astype(float) if weighted else None
    rows = ArrayRows(X, rng.integers(2, size=n) * 1.0, rng.random(n) < 0.5, weight)
    folds = rng.integers(-1, 3, size=k).tolist()
    points = rng.normal(size=(k, 8))[rng.integers(k, size=k)]  # some of them may be equal
    fold = rng.integers(3, size=n)
    with pytest.MonkeyPatch.context() as patch:
        if not kept:  # features are made anew for each pass
            patch.setattr(shrunk, "_KEPT", 0)
        found = PathRows(rows, design, fold, 0.3, loss).losses(points, folds, inside)
    expected = losses_slow(rows, design, fold, 0.3, loss, points, folds, inside)
    np.testing.assert_allclose(found, expected, atol=1e-9)


@pytest.mark.parametrize("loss", [BINOMIAL, GAUSSIAN])
@pytest.mark.parametrize("left_out", [-1, 1])
def test_the_hessian_is_that_of_the_gradient(loss, left_out):
    rng = np.random.default_rng(0)
    X, weight = rng.normal(size=(50, 2)), rng.random(50)
    rows = ArrayRows(X, rng.integers(2, size=50) * 1.0, rng.random(50) < 0.5, weight)
    design = Design(np.zeros(0, np.int64), np.zeros(0), np.zeros(2), np.ones(2), np.zeros(2))
    own = PathRows(rows, design, np.arange(50) % 3, 0.4, loss)
    point, steps = rng.normal(size=6), 1e-5 * np.eye(6)
    ends = own.losses([*(point + steps), *(point - steps)], [left_out] * 12)[:, 2:]
    slopes = (ends[:6] - ends[6:]) / 2e-5
    np.testing.assert_allclose(own.hessian(point, left_out), slopes, atol=1e-6)
