"""The mean of ranks: of what, on which scale."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import rankdata

from auucmax import AUUCMax, TwoModels, make_trial
from auucmax.estimators import (
    BoostedEffect,
    ShrunkInteractions,
    UpliftEnsemble,
    shrunk,
)
from auucmax.estimators.ensemble import MOST_KNOTS, rank_knots

FEW_TREES = BoostedEffect(base_rounds=(0, 10), effect_rounds=(0, 10), n_folds=2)


@pytest.fixture(scope="module")
def trial():
    return make_trial(3_000, n_features=4, heterogeneity=1.0, random_state=0)


def test_the_mean_of_the_ranks_of_its_members(trial):
    members = [TwoModels(), AUUCMax(selection=None)]
    model = UpliftEnsemble(members).fit(trial.X, trial.y, treatment=trial.treatment)
    ranks = []
    for member in members:
        member.fit(trial.X, trial.y, treatment=trial.treatment)
        score = member.predict(trial.X)
        ranks.append((rankdata(score) - 0.5) / len(score))
    np.testing.assert_allclose(model.predict(trial.X), np.mean(ranks, axis=0), atol=2e-3)


def test_as_it_comes_a_linear_model_and_trees(trial):
    model = UpliftEnsemble(random_state=0).fit(trial.X, trial.y, treatment=trial.treatment)
    assert [type(m) for m in model.estimators_] == [ShrunkInteractions, BoostedEffect]
    assert model.n_parameters_ == sum(m.n_parameters_ for m in model.estimators_) + sum(
        knots.size for knots in model.knots_
    )
    again = UpliftEnsemble(random_state=0).fit(trial.X, trial.y, treatment=trial.treatment)
    np.testing.assert_array_equal(model.predict(trial.X), again.predict(trial.X))


@pytest.mark.gate
def test_default_members_deal_the_same_folds_and_equal_ones_do_not(trial, monkeypatch):
    dealt, fold_codes = [], shrunk.fold_codes
    monkeypatch.setattr(
        shrunk, "fold_codes", lambda *given: dealt.append(fold_codes(*given)) or dealt[-1]
    )
    UpliftEnsemble(random_state=3).fit(trial.X, trial.y, treatment=trial.treatment)
    first, second = dealt  # one for each member
    np.testing.assert_array_equal(first, second)
    twice = UpliftEnsemble([ShrunkInteractions(), ShrunkInteractions(), FEW_TREES], random_state=3)
    first, second, third = (model.random_state for model in twice.new_members())
    assert first == third != second


@pytest.mark.gate
def test_missing_values_are_taken_by_the_default_members(trial):
    X = trial.X.to_numpy(np.float64).copy()
    gone = np.random.default_rng(0).random(len(X)) < 0.5
    y = np.where(gone & (trial.treatment == 1), 1.0, trial.y)  # only those gain
    X[gone, 0] = np.nan
    model = UpliftEnsemble(random_state=0).fit(X, y, treatment=trial.treatment)
    score = model.predict(X)
    assert score[gone].mean() > score[~gone].mean() + 0.1
    for members in ([TwoModels()], [FEW_TREES, TwoModels()]):
        with pytest.raises(ValueError, match="NaN"):
            UpliftEnsemble(members).fit(X, y, treatment=trial.treatment)


@given(st.lists(st.tuples(st.integers(-30, 30), st.integers(20, 60)), min_size=2, max_size=20))
@settings(deadline=None)
def test_ranks_of_scores_that_many_rows_have_are_exact(levels):
    score = np.repeat(*np.array(levels).T).astype(float)
    expected = (rankdata(score) - 0.5) / len(score)
    np.testing.assert_allclose(np.interp(score, *rank_knots(score)), expected)


@given(st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=200))
@settings(deadline=None)
def test_knots_tell_nobodys_score_and_increase(values):
    score = np.array(values)
    knots = rank_knots(score)
    assert (np.diff(knots[0]) >= 0).all()
    assert (np.diff(knots[1]) > 0).all()
    own = knots[:, 1:-1] if knots.shape[1] > 1 else knots
    assert own.shape[1] <= max(len(score) // 20, 1)
    # What all of them come to is the mean of the scores: no row is counted twice, none left out.
    if len(score) < 40:
        assert own[0] == pytest.approx(score.mean(), abs=1e-9)


@pytest.mark.parametrize("n", [500, 20_000])
def test_ranks_of_many_scores_have_few_knots(n):
    score = np.random.default_rng(0).lognormal(size=n)
    knots = rank_knots(score)
    assert knots.shape[1] <= min(MOST_KNOTS, n // 20) + 2
    expected = (rankdata(score) - 0.5) / len(score)
    assert np.abs(np.interp(score, *knots) - expected).max() < 0.75 * max(20 / n, 1e-3) + 1e-3


def test_no_members(trial):
    with pytest.raises(ValueError, match="at least one model"):
        UpliftEnsemble([]).fit(trial.X, trial.y, treatment=trial.treatment)
