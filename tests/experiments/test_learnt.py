"""AUUC-max on learnt representations: its pieces against sums over all pairs written out."""

import numpy as np
import pytest
from experiments.learnt import (
    KINDS,
    SURROGATE,
    AUUCNet,
    Leaves,
    Logits,
    OnEnsemble,
    Shifted,
    fit_shifted,
    leaves_of,
    pair_loss,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.pairs.reference import pair_sums

from auucmax import TwoModels, make_trial
from auucmax.estimators import BoostedEffect, UpliftEnsemble
from auucmax.pairs import ScoreObjective

pytestmark = pytest.mark.gate


@pytest.fixture(scope="module")
def rows():
    trial = make_trial(
        3_000, n_features=4, base_rate=0.3, heterogeneity=1.0, nonlinearity=1.0, random_state=0
    )
    return trial.X.to_numpy(), trial.y, trial.treatment


def small_rows(seed, n=40):
    """Scores and features with ties, and both outcomes in both arms."""
    rng = np.random.default_rng(seed)
    y, t = (np.append(rng.integers(0, 2, n), own) for own in ([0, 1, 0, 1], [0, 0, 1, 1]))
    return rng.normal(size=(n + 4, 3)).round(1), rng.random(n + 4).round(2), y, t


def all_pairs(score, y, t):
    """Objective and gradient in each score, from the double sum."""
    sums, pairs = pair_sums(score, y, t == 1, SURROGATE), ScoreObjective(y, treatment=t)
    each = np.where(t == 1, *pairs.multipliers)
    return float(np.dot(pairs.multipliers, sums.losses)), each * sums.gradient


@given(seed=st.integers(0, 10_000))
@settings(max_examples=30, deadline=None)
def test_an_offset_is_added_to_the_score(seed):
    Z, offset, y, t = small_rows(seed)
    w = np.random.default_rng(seed + 1).normal(size=3) / 5
    value, gradient = Shifted(Z, offset, y, treatment=t).value_and_gradient(w)
    slow, slopes = all_pairs(offset + Z @ w, y, t)
    assert value == pytest.approx(slow, rel=1e-6)
    np.testing.assert_allclose(gradient, Z.T @ slopes, atol=1e-6)


def test_w_is_a_minimiser_over_the_ball():
    Z, offset, y, t = small_rows(3, n=400)
    objective, norm = Shifted(Z, offset, y, treatment=t), 0.05
    w = fit_shifted(Z, offset, y, t, norm)
    assert np.linalg.norm(w) <= norm * (1 + 1e-9)
    least = objective.value_and_gradient(w)[0]
    rng = np.random.default_rng(0)
    for other in rng.normal(size=(200, 3)):
        at = norm * rng.random() * other / np.linalg.norm(other)
        assert objective.value_and_gradient(at)[0] >= least - 1e-6
    assert not fit_shifted(Z, offset, y, t, 0.0).any()


@pytest.mark.parametrize("kind", KINDS)
def test_a_norm_of_0_is_the_ensembles_own_order(rows, kind):
    X, y, t = rows
    model = OnEnsemble(kind, norms=(0.0,), n_folds=2).fit(X, y, treatment=t)
    ensembles = [part.ensemble for part in model.parts_]
    assert len({id(ensemble) for ensemble in ensembles}) == 2
    own = np.mean([ensemble.predict(X) for ensemble in ensembles], axis=0)
    np.testing.assert_array_equal(model.predict(X), own)


@pytest.mark.parametrize("kind", KINDS)
def test_a_larger_norm_moves_the_order_and_is_learnt_from_other_rows(rows, kind):
    X, y, t = rows
    ensemble = UpliftEnsemble([TwoModels(), BoostedEffect()])
    model = OnEnsemble(kind, ensemble=ensemble, norms=(0.3,), n_folds=2).fit(X, y, treatment=t)
    assert model.norm_ == 0.3
    for part in model.parts_:
        assert 0 < np.linalg.norm(part.w) <= 0.3 * (1 + 1e-9)
    own = np.mean([part.ensemble.predict(X) for part in model.parts_], axis=0)
    assert not np.array_equal(np.argsort(model.predict(X)), np.argsort(own))


def test_leaves_have_a_column_each_and_rows_of_norm_1(rows):
    X, y, t = rows
    ensemble = UpliftEnsemble(random_state=0).fit(X, y, treatment=t)
    phi = Leaves(ensemble, X)
    found = phi(X[:50])
    assert phi.n_trees  # effects of this trial are no straight lines
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1)
    assert set(np.count_nonzero(found, axis=1)) == {phi.n_trees}
    for trees in phi.trees:  # the leaves that are found hold the score of the trees
        scores = trees.value[leaves_of(trees, X[:50])].sum(axis=1)
        np.testing.assert_allclose(scores, trees.predict_slow(X[:50]))
    logits = Logits(ensemble, X)(X)
    np.testing.assert_allclose(logits.std(axis=0), 1 / np.sqrt(logits.shape[1]))


# The network.


def test_the_gradient_of_the_network_is_that_of_all_pairs():
    torch = pytest.importorskip("torch")
    _, score, y, t = small_rows(7)
    loss = pair_loss(torch, ScoreObjective(y, treatment=t, surrogate=SURROGATE))
    given = torch.tensor(score, dtype=torch.float64, requires_grad=True)
    value = 3 * loss(given)
    value.backward()
    slow, slopes = all_pairs(score, y, t)
    assert value.item() == pytest.approx(3 * slow, rel=1e-6)
    np.testing.assert_allclose(given.grad.numpy(), 3 * slopes, atol=1e-6)


def test_the_network_starts_at_the_likelihood_fit_and_ranks(rows):
    pytest.importorskip("torch")
    X, y, t = rows
    start = AUUCNet(epochs=20, auuc_epochs=0).fit(X, y, treatment=t)
    moved = AUUCNet(epochs=20, auuc_epochs=20).fit(X, y, treatment=t)
    again = AUUCNet(epochs=20, auuc_epochs=20).fit(X, y, treatment=t)
    assert start.likelihood_epochs_ == moved.likelihood_epochs_ > 0
    assert moved.auuc_epochs_ > 0
    np.testing.assert_array_equal(moved.predict(X), again.predict(X))
    assert moved.score(X, y, treatment=t) > start.score(X, y, treatment=t)
    assert np.ptp(start.predict(X)) > 0
