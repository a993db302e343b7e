import numpy as np
import pytest
from experiments.rival_bounds.arms import Arm
from experiments.rival_bounds.gibbs import (
    GibbsAUC,
    _aucs_of_draw,
    auuc_of_aucs,
    gibbs_auc,
    gibbs_auuc_slow,
    linear_rows,
)
from scipy.special import ndtr

from auucmax import auuc_score

pytestmark = pytest.mark.gate


def trial(rng, n=120, d=3, levels=3):
    """Few levels a feature, so that many rows are equal."""
    X = rng.integers(0, levels, size=(n, d)).astype(float) * [1.0, 0.3, 2.0][:d]
    t = np.arange(n) % 2
    y = (rng.random(n) < 0.3 + 0.2 * t * (X[:, 0] > 0)).astype(int)
    return y, X, t, rng.normal(size=d)


def test_exact_written_out():
    rng = np.random.default_rng(0)
    y, X, t, w = trial(rng)
    areas = []
    for arm in (1, 0):
        total = 0.0
        for i in np.flatnonzero((t == arm) & (y == 1)):
            for j in np.flatnonzero((t == arm) & (y == 0)):
                z = X[i] - X[j]
                cosine = w @ z / np.linalg.norm(w) / np.linalg.norm(z) if z.any() else 0.0
                total += ndtr(1.7 * cosine)
        n, positive = (t == arm).sum(), (y[t == arm] == 1).sum()
        areas.append((total + positive**2 / 2) / n**2)
    expected = areas[0] - areas[1]
    assert gibbs_auuc_slow(y, X, treatment=t, w=w, mu=1.7) == pytest.approx(expected)


@pytest.mark.parametrize("mu", [0.0, 1.0, 5.0])
def test_draws_agree_with_the_exact_mean(mu):
    """Equal rows included: they must stay tied in every draw."""
    rng = np.random.default_rng(1)
    y, X, t, w = trial(rng)
    linear = linear_rows(y, X, treatment=t, w=w)
    exact = gibbs_auc(linear, mu, integration="exact").aucs[mu]
    draws = np.array([_aucs_of_draw(linear, [mu], rng)[0] for _ in range(2000)])
    errors = draws.std(axis=0, ddof=1) / np.sqrt(len(draws))
    assert (np.abs(draws.mean(axis=0) - exact) < 4 * errors).all()
    auucs = [auuc_of_aucs(linear.arms, draw) for draw in draws]
    expected = gibbs_auuc_slow(y, X, treatment=t, w=w, mu=mu)
    assert np.mean(auucs) == pytest.approx(expected, abs=4 * np.std(auucs) / np.sqrt(len(draws)))


def test_equal_rows_tie_in_a_draw():
    rng = np.random.default_rng(2)
    X = np.repeat(rng.normal(size=(1, 7)), 1001, axis=0)
    linear = linear_rows(
        np.arange(1001) % 2, X, treatment=np.arange(1001) % 3 == 0, w=rng.normal(size=7)
    )
    np.testing.assert_array_equal(_aucs_of_draw(linear, [0.0, 3.0], rng), 0.5)


def test_pairs_agree_with_the_exact_mean():
    rng = np.random.default_rng(3)
    y, X, t, w = trial(rng)
    linear = linear_rows(y, X, treatment=t, w=w)
    exact = gibbs_auc(linear, [1.0, 5.0], integration="exact")
    sampled = gibbs_auc(linear, [1.0, 5.0], n_samples=200_000, random_state=0)
    for mu in (1.0, 5.0):
        # The variance of a value in [0, 1] is at most 1/4.
        assert np.abs(sampled.aucs[mu] - exact.aucs[mu]).max() < 4 * 0.5 / np.sqrt(200_000)
    assert (sampled.size, sampled.independent) == (200_000, True)
    assert exact.size == np.inf


def test_one_draw_is_an_auuc_score():
    rng = np.random.default_rng(4)
    y, X, t, w = trial(rng)
    linear = linear_rows(y, X, treatment=t, w=w)
    (aucs,) = _aucs_of_draw(linear, [2.0], np.random.default_rng(9))
    drawn = 2 * w / np.linalg.norm(w) + np.random.default_rng(9).standard_normal(3)
    score = np.round(X @ drawn, 9)
    expected = auuc_score(y, score, treatment=t, ranking="separate")
    assert auuc_of_aucs(linear.arms, aucs) == pytest.approx(expected)


def test_large_mu_is_the_score_itself_and_zero_is_chance():
    rng = np.random.default_rng(5)
    X, t, y = rng.normal(size=(40, 2)), np.arange(40) % 2, np.arange(40) // 2 % 2
    w = np.array([1.0, -2.0])
    auuc = auuc_score(y, X @ w, treatment=t, ranking="separate")
    assert gibbs_auuc_slow(y, X, treatment=t, w=w, mu=1e6) == pytest.approx(auuc)
    ate = y[t == 1].mean() - y[t == 0].mean()
    assert gibbs_auuc_slow(y, X, treatment=t, w=w, mu=0) == pytest.approx(ate / 2)
    opposite = gibbs_auuc_slow(y, X, treatment=t, w=-w, mu=2)
    assert opposite + gibbs_auuc_slow(y, X, treatment=t, w=3 * w, mu=2) == pytest.approx(ate)


def test_unbiased_area_counts_pairs_of_different_rows():
    rng = np.random.default_rng(6)
    y, score = rng.integers(0, 2, 9), rng.integers(0, 4, 9)
    wins = (score[:, None] > score) + (score[:, None] == score) / 2
    positive, negative = y == 1, y == 0
    auc = wins[positive][:, negative].mean()
    expected = (y[:, None] * wins)[~np.eye(9, dtype=bool)].mean()
    arm = Arm(positive.sum(), negative.sum())
    other = Arm(1, 1)  # area 0 without its AUC
    value = auuc_of_aucs((arm, other), np.array([auc, 0.0]), unbiased=True)
    assert value == pytest.approx(expected)


def test_error_is_hoeffdings():
    """Arms apart add in quadrature, a draw of both has the sum of the ranges."""
    factors, unit = np.array([0.3, 0.4]), np.sqrt(np.log(20) / 200)
    assert GibbsAUC({}, 100, True).error(factors, 0.05) == pytest.approx(0.5 * unit)
    assert GibbsAUC({}, 100, False).error(factors, 0.05) == pytest.approx(0.7 * unit)
    assert GibbsAUC({}, np.inf, True).error(factors, 0.05) == 0


def test_same_seed_same_result():
    y, X, t, w = trial(np.random.default_rng(7))
    linear = linear_rows(y, X, treatment=t, w=w)
    for integration in ("pairs", "draws"):
        first, again, other = (
            gibbs_auc(linear, 2, integration=integration, n_samples=50, random_state=seed).aucs[2.0]
            for seed in (1, 1, 2)
        )
        assert (first == again).all()
        assert (first != other).any()


def test_bad_input():
    y, X, t = [1, 0, 1, 0], [[1.0], [2.0], [3.0], [4.0]], [1, 1, 0, 0]
    with pytest.raises(ValueError, match=r"w should hold a weight.*got 1 zeros"):
        linear_rows(y, X, treatment=t, w=[0.0])
    with pytest.raises(ValueError, match=r"each of the 1 columns.*got 2\. Pass"):
        linear_rows(y, X, treatment=t, w=[1.0, 2.0])
    with pytest.raises(ValueError, match="score should be of as many rows as y"):
        linear_rows(y, X[:3], treatment=t, w=[1.0])
    linear = linear_rows(y, X, treatment=t, w=[1.0])
    with pytest.raises(ValueError, match="integration should be one of"):
        gibbs_auc(linear, 1, integration="grid")
    with pytest.raises(ValueError, match="n_samples should be a whole number of at least 1"):
        gibbs_auc(linear, 1, n_samples=0)
    for mu in ([], "a", [[1.0]]):
        with pytest.raises(ValueError, match="mu should be a number of at least 0 or a list"):
            gibbs_auc(linear, mu)
    with pytest.raises(ValueError, match="mu should be a finite number of at least 0"):
        gibbs_auc(linear, [1, -1])
