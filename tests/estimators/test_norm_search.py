"""Candidates for each norm, and the choice of one."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from auucmax import AUUCMax, auuc_score, load_hillstrom
from auucmax.certificates import paper_bound
from auucmax.estimators.base import seed_of
from auucmax.pairs import s_log, s_poly, sigmoid
from auucmax.rows import part_of


@pytest.mark.gate_cases("cv-sigmoid", "cv-surrogate4")
@pytest.mark.parametrize("surrogate", ["s_poly", "s_log", "sigmoid", s_poly(1.0), sigmoid(0.05)])
@pytest.mark.parametrize("selection", ["bound", "cv"])
def test_selection_path(rows, surrogate, selection):
    X, y, t = rows
    model = AUUCMax(surrogate, selection=selection, random_state=0).fit(X, y, treatment=t)
    path = model.selection_path_
    assert path["norm"].is_monotonic_increasing
    assert path["converged"].all()
    assert (path["norm_reached"] <= path["norm"] * (1 + 1e-6)).all()
    assert path["chosen"].sum() == 1
    chosen = path[path["chosen"]].iloc[0]
    criterion = "paper_bound" if selection == "bound" else "cv"
    assert chosen[criterion] == path[criterion].max()
    assert model.norm_ == chosen["norm"]
    assert model.paper_bound_.lower == chosen["paper_bound"]


def test_the_bound_is_the_papers(rows):
    X, y, t = rows
    model = AUUCMax(selection="bound", grid="paper", scale="unit-rows").fit(X, y, treatment=t)
    assert model.selection_path_["norm"].tolist() == [0.5, 0.8, 1.0]
    expected = paper_bound(y, model.predict(X), treatment=t, norm=model.norm_, radius=1.0)
    assert model.paper_bound_ == expected
    train = auuc_score(y, model.predict(X), treatment=t, ranking="separate")
    assert model.paper_bound_.estimate == train


def test_own_grid_and_weights(rows):
    X, y, t = rows
    model = AUUCMax(grid=[0.02, 0.001], weights=(1.0, 0.0)).fit(X, y, treatment=t)
    assert model.selection_path_["norm"].tolist() == [0.001, 0.02]
    # With no weight on the controls it is a model of the outcome of the treated alone.
    same = AUUCMax(selection=None, norm=model.norm_, weights=(1.0, 0.0))
    flipped = np.where(t == 1, y, 1 - y)
    same.fit(X, flipped, treatment=t)
    assert same.coef_ == pytest.approx(model.coef_, rel=1e-5, abs=1e-12)


@pytest.mark.gate
def test_adam_comes_near_the_exact_solution():
    """The paper's optimiser, in the paper's setting, on the paper's trial."""
    train, _ = load_hillstrom().split(test_size=0.3, random_state=0)
    setting = {"scale": "column-l2", "weights": "uniform", "selection": None, "norm": 0.5}
    exact = AUUCMax(**setting).fit(train.X, train.y, treatment=train.treatment)
    adam = AUUCMax(**setting, solver="adam", learning_rates=[1e-3], random_state=0)
    adam.fit(train.X, train.y, treatment=train.treatment)
    assert np.linalg.norm(adam.scaled_coef_) <= 0.5 * (1 + 1e-9)
    cosine = exact.scaled_coef_ @ adam.scaled_coef_
    cosine /= np.linalg.norm(exact.scaled_coef_) * np.linalg.norm(adam.scaled_coef_)
    assert cosine > 0.9


def test_solvers_agree(rows):
    X, y, t = rows
    values = []
    for solver in ("newton", "lbfgs", "projected"):
        model = AUUCMax(s_log(), selection=None, norm=0.2, solver=solver).fit(X, y, treatment=t)
        assert model.converged_
        values.append(model.selection_path_["loss"].iloc[0])
    assert values == pytest.approx([values[0]] * 3, rel=1e-9)


def test_failure_is_not_silent(rows):
    X, y, t = rows
    wide = [1, 1, 1, 1, 1, 1e5]
    with pytest.warns(ConvergenceWarning, match="the solver should reach a residual"):
        AUUCMax("s_log", selection=None, scale="none").fit(X * wide, y, treatment=t)
    with pytest.warns(ConvergenceWarning, match="the solver should reach a residual"):
        AUUCMax(
            selection=None, norm=1e-3, solver="adam", learning_rates=[1e-300], random_state=0
        ).fit(X[:800], y[:800], treatment=t[:800])


def test_a_long_trial_step_is_taken_back():
    rng = np.random.default_rng(0)
    X = rng.lognormal(sigma=6, size=(400, 2))
    y, t = rng.integers(0, 2, (2, 400))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = AUUCMax("s_log", selection=None, scale="column-l2").fit(X, y, treatment=t)
    assert np.isfinite(model.coef_).all()


def test_rare_outcomes_get_folds_of_their_own(rows):
    X, y, t = rows
    y = y.copy()
    responders = np.flatnonzero((y == 1) & (t == 1))
    y[responders[3:]] = 0
    model = AUUCMax(random_state=0).fit(X, y, treatment=t)
    assert np.isfinite(model.selection_path_["cv"]).all()
    y[responders[1:]] = 0
    with pytest.raises(ValueError, match="at least 2 rows of each outcome, got 1"):
        AUUCMax(random_state=0).fit(X, y, treatment=t)


def test_folds_are_averaged_and_their_error_is_that_of_the_mean(rows):
    """Each fold is scored by fits on the others, here one by one."""
    X, y, t = rows
    X = (X - X.min(axis=0)) / np.ptp(X, axis=0)
    norms = [0.02, 0.2]
    model = AUUCMax(grid=norms, scale="none", random_state=3).fit(X, y, treatment=t)
    fold = part_of(np.arange(len(y), dtype=np.uint64), 5, seed_of(3))
    values = np.empty((5, 2))
    for k in range(5):
        inside = fold == k
        for j, norm in enumerate(norms):
            one = AUUCMax(selection=None, norm=norm, scale="none")
            one.fit(X[~inside], y[~inside], treatment=t[~inside])
            values[k, j] = one.score(X[inside], y[inside], treatment=t[inside])
    path = model.selection_path_
    np.testing.assert_allclose(path["cv"], values.mean(axis=0), atol=1e-5)
    expected = values.std(axis=0, ddof=1) / np.sqrt(5)
    np.testing.assert_allclose(path["cv_standard_error"], expected, atol=1e-5)
