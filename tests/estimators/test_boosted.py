"""Boosted effects: never far below a constant effect, missing values, threads, large samples."""

import lightgbm
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit
from tests.estimators.reference import grow_slow

from auucmax import make_trial
from auucmax.estimators import BoostedEffect, ShrunkInteractions
from auucmax.estimators.boosted import Bins, Boosting, Growth, tree_scores
from auucmax.estimators.targets import BINOMIAL, GAUSSIAN

QUICK = {"base_rounds": (0, 10), "effect_rounds": (0, 10, 20), "n_folds": 2}


@pytest.fixture(scope="module")
def trial():
    return make_trial(4_000, n_features=4, heterogeneity=1.0, random_state=0)


def fitted(trial, X=None, **settings):
    model = BoostedEffect(random_state=0, **(QUICK | settings))
    return model.fit(trial.X if X is None else X, trial.y, treatment=trial.treatment)


def test_without_trees_it_is_the_linear_start(trial):
    model = fitted(trial, base_rounds=(0,), effect_rounds=(0,), n_folds=4)
    assert not model.formula_.trees
    # The start of a constant effect loses where effects differ as much as here.
    assert len(model.formula_.parts) == 2
    linear = ShrunkInteractions(random_state=0, hinges=False)
    linear.fit(trial.X, trial.y, treatment=trial.treatment)
    assert np.corrcoef(model.predict(trial.X), linear.predict(trial.X))[0, 1] > 0.999


def test_trees_find_an_effect_with_a_step():
    rng = np.random.default_rng(0)
    X, t = rng.normal(size=(8_000, 3)), rng.integers(2, size=8_000)
    inside = (np.abs(X[:, 0]) < 0.7) * 1.0
    y = (rng.random(8_000) < 0.2 + 0.25 * t * inside) * 1.0
    model = BoostedEffect(random_state=0).fit(X, y, treatment=t)
    assert max(len(trees.roots) for trees in model.formula_.trees) >= 20
    score = model.predict(X)
    assert score[inside == 1].mean() - score[inside == 0].mean() > 0.15


@pytest.mark.gate
def test_where_effects_do_not_differ_few_trees_are_kept():
    spreads = []
    for seed in range(4):
        null = make_trial(4_000, n_features=5, heterogeneity=0.0, random_state=seed)
        spreads.append(fitted(null, n_folds=4).predict(null.X).std())
    other = make_trial(4_000, n_features=5, heterogeneity=1.0, random_state=0)
    assert np.mean(spreads) < 0.3 * fitted(other, n_folds=4).predict(other.X).std()


def test_numbers_of_trees_have_the_lowest_loss_of_folds(trial):
    losses = {
        number: fitted(trial, base_rounds=(0,), effect_rounds=(number,)).log_loss_
        for number in (0, 10, 20)
    }
    chosen = fitted(trial, base_rounds=(0,)).log_loss_
    np.testing.assert_allclose(chosen, np.min(list(losses.values()), axis=0))


@pytest.mark.gate
def test_missing_values_are_learnt_from(trial):
    rng = np.random.default_rng(0)
    X = trial.X.to_numpy(np.float64).copy()
    gone = rng.random(len(X)) < 0.5
    y = np.where(gone & (trial.treatment == 1), 1.0, trial.y)  # only those gain
    X[gone, 0] = np.nan
    model = BoostedEffect(random_state=0).fit(X, y, treatment=trial.treatment)
    score = model.predict(X)
    assert score[gone].mean() > score[~gone].mean() + 0.1
    np.testing.assert_allclose(model.fill_, np.nanmedian(X, axis=0))


def test_same_scores_for_any_number_of_threads(trial):
    one, two = (fitted(trial, n_jobs=n).predict(trial.X) for n in (1, 2))
    np.testing.assert_array_equal(one, two)


def test_of_many_rows_a_part_is_learnt_from(trial):
    model = fitted(trial, max_rows=1_500)
    assert model.n_rows_ == 1_500
    np.testing.assert_array_equal(  # the same part again
        model.predict(trial.X), fitted(trial, max_rows=1_500).predict(trial.X)
    )


def test_weights_count_copies(trial):
    weight = np.random.default_rng(0).integers(1, 3, size=len(trial.y))
    places = np.repeat(np.arange(len(trial.y)), weight)
    settings = QUICK | {"base_rounds": (0,), "effect_rounds": (0,)}
    weighted = BoostedEffect(random_state=0, **settings).fit(
        trial.X, trial.y, treatment=trial.treatment, sample_weight=weight
    )
    copies = BoostedEffect(random_state=0, **settings).fit(
        trial.X.iloc[places], trial.y[places], treatment=trial.treatment[places]
    )
    # Folds differ, so that the weights of the path do, a little.
    assert np.corrcoef(weighted.predict(trial.X), copies.predict(trial.X))[0, 1] > 0.99


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"base_rounds": (20, 0)}, "base_rounds should be different numbers"),
        ({"effect_rounds": ()}, "effect_rounds should be different numbers"),
        ({"n_jobs": 0}, "n_jobs"),
        ({"max_rows": 1}, "max_rows"),
    ],
)
def test_bad_parameters(trial, settings, words):
    with pytest.raises(ValueError, match=words):
        fitted(trial, **settings)


def rows_of(seed, n, n_columns=3, n_values=12, gaps=0.0):
    rng = np.random.default_rng(seed)
    X = rng.integers(-n_values // 2, n_values // 2, size=(n, n_columns)).astype(float)
    X[rng.random(X.shape) < gaps] = np.nan
    return rng, X


def boosting_of(X, y, offset, slope, *, weight=None, parts=None, loss=BINOMIAL, **growth):
    n = len(y)
    how = {"n_leaves": 4, "rate": 0.3, "least_rows": 5, "penalty": 1.0} | growth
    weight = np.ones(n) if weight is None else weight
    parts = np.array([[0, n]] if parts is None else parts)
    return Boosting(Bins.of(X), offset, slope, y, weight, parts, Growth(**how), loss)


@given(
    seed=st.integers(0, 10_000),
    n=st.integers(8, 120),
    n_columns=st.integers(1, 5),
    n_values=st.integers(2, 30),
    gaps=st.sampled_from([0.0, 0.3]),
    weighted=st.booleans(),
    cut=st.floats(0, 0.6),
    loss=st.sampled_from([BINOMIAL, GAUSSIAN]),
)
@settings(deadline=None, max_examples=80)
def test_trees_agree_with_their_twin(seed, n, n_columns, n_values, gaps, weighted, cut, loss):
    rng, X = rows_of(seed, n, n_columns, n_values, gaps)
    y = rng.integers(2, size=n) * 1.0 if loss is BINOMIAL else rng.standard_t(2, size=n)
    weight = rng.integers(1, 4, size=n) * rng.random() if weighted else None
    parts = [[0, n // 3], [n // 3 + int(cut * n), n]]
    offset, slope = rng.normal(size=n), rng.normal(size=n)
    run = boosting_of(X, y, offset, slope, weight=weight, parts=parts, loss=loss)
    for number in range(1, 4):
        expected = grow_slow(run)
        run.grow(number)
        if expected is None:
            assert run.is_done
            break
        if np.array_equal(run.trees[-1].splits, expected.splits):
            values = run.trees[-1].values, expected.values
        else:  # of two splits of one gain, as with missing values on either side, any may be taken
            values = [
                tree_scores([tree], run.bins).predict(X) for tree in (run.trees[-1], expected)
            ]
        np.testing.assert_allclose(*values, rtol=1e-3, atol=1e-5)
    # What rows were given on the way, held-out ones too, is what the arrays give their numbers.
    scores = tree_scores(run.trees, run.bins)
    scores.check(n_columns)
    np.testing.assert_allclose(scores.predict(X), run.score, atol=1e-12)


@pytest.mark.parametrize("gaps", [0.0, 0.2])
@pytest.mark.parametrize("effect", [False, True])
def test_trees_are_those_of_lightgbm(gaps, effect):
    rng, X = rows_of(0, 6_000, 5, 60, gaps)
    t = (rng.random(len(X)) < 0.4) * 1.0
    signal = np.nan_to_num(X[:, 0]) / 20 + (np.isnan(X[:, 1]) | (X[:, 1] > 10))
    y = (rng.random(len(X)) < expit(-1 + signal + t * (np.nan_to_num(X[:, 2]) > 5))) * 1.0
    slope = t - t.mean() if effect else np.ones(len(X))
    offset = np.full(len(X), -1.0)
    how = {"n_leaves": 6, "rate": 0.1, "least_rows": 100, "penalty": 3.0, "least_hessian": 1e-3}
    ours = boosting_of(X, y, offset, slope, **how)
    ours.grow(40)

    def gradients(score, _):
        p = expit(offset + slope * score)
        return slope * (p - y), slope**2 * p * (1 - p)

    params = {
        "objective": gradients, "num_leaves": 6, "learning_rate": 0.1, "min_data_in_leaf": 100,
        "lambda_l2": 3.0, "min_sum_hessian_in_leaf": 1e-3, "min_data_in_bin": 1, "verbosity": -1,
        "num_threads": 1,
    }  # fmt: skip
    theirs = lightgbm.train(params, lightgbm.Dataset(X, params={"min_data_in_bin": 1}), 40)
    np.testing.assert_allclose(ours.score, theirs.predict(X), atol=1e-4)
    assert np.ptp(ours.score) > 0.5


def test_order_of_rows_and_stages_do_not_matter():
    rng, X = rows_of(1, 500, gaps=0.1)
    y, offset, slope = rng.integers(2, size=500) * 1.0, rng.normal(size=500), rng.normal(size=500)
    one = boosting_of(X, y, offset, slope)
    one.grow(10)
    order = rng.permutation(500)
    other = boosting_of(X[order], y[order], offset[order], slope[order])
    for number in (3, 4, 10):
        other.grow(number)
    np.testing.assert_array_equal(one.score[order], other.score)


def test_bins_hold_about_as_many_rows_each():
    X = np.random.default_rng(0).lognormal(size=(10_000, 1))
    bins = Bins.of(X)
    counts = np.bincount(bins.codes[0])
    assert len(counts) == 255
    assert counts.max() <= 10_000 / 255 + 1
    few = Bins.of(np.repeat([[3.0], [1.0], [np.nan]], [5, 1, 2], axis=0))
    np.testing.assert_array_equal(few.cuts[0], [2.0])
    np.testing.assert_array_equal(few.codes[0], [1] * 5 + [0] + [255] * 2)


def test_chances_of_0_and_1_and_rows_without_differences():
    y = np.array([0.0, 1.0] * 50)
    run = boosting_of(np.zeros((100, 1)), y, np.where(y == 1, 800.0, -800.0), np.ones(100))
    run.grow(5)
    assert run.is_done
    assert not run.trees
    assert len(tree_scores(run.trees, run.bins).roots) == 0
