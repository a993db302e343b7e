"""Boosted effects: never far below a constant effect, missing values, threads, large samples."""

import numpy as np
import pytest

from auucmax import make_trial
from auucmax.estimators import BoostedEffect, ShrunkInteractions

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
