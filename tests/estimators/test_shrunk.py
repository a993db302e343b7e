"""Logistic models with shrunk interactions: exact, the same wherever rows are, by likelihood."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import expit
from tests.batches_in_memory import ListedRows

from auucmax import make_trial
from auucmax.estimators import ShrunkInteractions
from auucmax.estimators.shrunk import (
    MAIN_STRENGTH,
    Design,
    LogLosses,
    dealt_folds,
    expanded,
    log_losses_slow,
)
from auucmax.rows import ArrayRows, Batch, ask


@pytest.fixture(scope="module")
def trial():
    return make_trial(4_000, n_features=4, n_noise=1, heterogeneity=1.0, random_state=0)


def fitted(trial, **settings):
    model = ShrunkInteractions(random_state=0, **settings)
    return model.fit(trial.X, trial.y, treatment=trial.treatment)


@given(
    seed=st.integers(0, 1000),
    n=st.integers(1, 30),
    k=st.integers(1, 3),
    inside=st.booleans(),
    weighted=st.booleans(),
)
@settings(deadline=None, max_examples=30)
def test_losses_and_gradients_agree_with_their_twin(seed, n, k, inside, weighted):
    rng = np.random.default_rng(seed)
    X = rng.integers(-2, 3, size=(n, 2)).astype(float)
    hinge = np.array([1], dtype=np.int64), np.array([0.5])
    design = Design(*hinge, rng.normal(size=3), rng.random(3), np.zeros(2))
    weight = rng.integers(0, 3, size=n).astype(float) if weighted else None
    keys = np.arange(n, dtype=np.uint64)
    batch = Batch(X, rng.integers(2, size=n) * 1.0, rng.random(n) < 0.5, keys, weight)
    folds = np.asarray(rng.integers(-1, 3, size=k))
    points = rng.normal(size=(k, 8))[rng.integers(k, size=k)]  # some of them may be equal
    losses = LogLosses(design, 0.3, lambda b: (b.keys % 3).astype(np.int64), points, folds, inside)
    np.testing.assert_allclose(losses(batch), log_losses_slow(losses, batch), atol=1e-9)


def test_curvature_is_that_of_the_gradient():
    rng = np.random.default_rng(0)
    X, keys = rng.normal(size=(50, 2)), np.arange(50, dtype=np.uint64)
    batch = Batch(X, rng.integers(2, size=50) * 1.0, rng.random(50) < 0.5, keys)
    design = Design(np.zeros(0, np.int64), np.zeros(0), np.zeros(2), np.ones(2), np.zeros(2))

    def at(point):
        return LogLosses(design, 0.4, lambda b: b.treated * 1, point[None], np.array([-1]))

    point = rng.normal(size=6)
    a, b, c = at(point).curvature(batch)
    hessian = np.block([[a, b], [b, c]])
    steps = 1e-5 * np.eye(6)
    slopes = [(at(point + s)(batch) - at(point - s)(batch))[0, 2:] / 2e-5 for s in steps]
    np.testing.assert_allclose(hessian, slopes, atol=1e-6)


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
    columns = X.columns[model.hinge_columns_].tolist()
    assert "few" not in columns
    assert columns.count("many") == 3
    knots = model.hinge_knots_[[c == "many" for c in columns]]
    np.testing.assert_allclose(knots, np.quantile(X["many"], [0.25, 0.5, 0.75]))
    wide = expanded(X.to_numpy(np.float64), model.hinge_columns_, model.hinge_knots_)
    assert wide.shape[1] == X.shape[1] + len(columns)


def test_a_stream_gives_the_model_of_the_rows_in_memory(trial):
    rows = ListedRows(trial.X, trial.y, trial.treatment, edges=(1_000, 1_000, 2_500))
    streamed = ShrunkInteractions(random_state=0).fit(rows)
    np.testing.assert_allclose(streamed.predict(trial.X), fitted(trial).predict(trial.X), atol=1e-6)
    # All folds and strengths share their readings.
    assert rows.n_readings < 60


def test_units_and_shifts_of_columns_do_not_matter(trial):
    moved = trial.X * [1, 1e3, 1e-3, 1, 1][: trial.X.shape[1]] + 7.0
    model = ShrunkInteractions(random_state=0).fit(moved, trial.y, treatment=trial.treatment)
    np.testing.assert_allclose(model.predict(moved), fitted(trial).predict(trial.X), atol=1e-6)


def test_few_rows_of_an_outcome(trial):
    y = np.where(np.cumsum(trial.y) <= 30, trial.y, 0.0)
    model = ShrunkInteractions(random_state=0).fit(trial.X, y, treatment=trial.treatment)
    assert np.isfinite(model.predict(trial.X)).all()
    rare = np.where((y == 1) & (np.cumsum((y == 1) & (trial.treatment == 1)) > 1), 0.0, y)
    rare[trial.treatment == 0] = y[trial.treatment == 0]
    with pytest.raises(ValueError, match="at least 2 rows of each outcome"):
        ShrunkInteractions().fit(trial.X, rare, treatment=trial.treatment)
    rows = ListedRows(trial.X, y, trial.treatment, edges=(100, 3_000))
    streamed = ShrunkInteractions(random_state=0).fit(rows)
    np.testing.assert_allclose(streamed.predict(trial.X), model.predict(trial.X), atol=1e-6)


@given(
    sizes=st.lists(st.integers(2, 60), min_size=4, max_size=4),
    n_folds=st.integers(2, 6),
    seed=st.integers(0, 2**62),
    edges=st.lists(st.integers(0, 8), max_size=3),
)
@settings(deadline=None, max_examples=50)
def test_folds_have_their_share_of_every_arm_and_outcome(sizes, n_folds, seed, edges):
    cell = np.random.default_rng(seed).permutation(np.repeat(range(4), sizes))
    rows = ListedRows(np.zeros((len(cell), 1)), cell % 2, cell // 2, edges=edges)
    folds = ask(dealt_folds(rows, n_folds, seed))
    assert folds.n_folds == min(n_folds, *sizes)
    fold = np.concatenate([folds(batch) for batch in rows.batches()])
    for k in range(4):
        counts = np.bincount(fold[cell == k], minlength=folds.n_folds)
        assert counts.max() - counts.min() <= 1
    # By keys alone: in memory and in any batches the same.
    keys = np.arange(len(cell), dtype=np.uint64)
    memory = ArrayRows(np.zeros((len(cell), 1)), cell % 2 * 1.0, cell // 2 == 1, keys=keys)
    np.testing.assert_array_equal(ask(dealt_folds(memory, n_folds, seed))(memory.batch), fold)


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
