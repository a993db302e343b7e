import numpy as np
import pytest
from scipy.optimize import check_grad, minimize

from auucmax.estimators.svm_dp import ArmPairs, _Smoothed, minimise_pair_hinge

WIDTHS = [0.5, 0.03]


def small_arms(seed, d=3, most=7):
    """Two arms of a few rows; even seeds have 0/1 features, so pairs pile up at the kink."""
    rng = np.random.default_rng(seed)
    arms = []
    for multiplier in (1.0, 0.7):
        sizes = rng.integers(1, most, 2)
        winners, losers = (
            rng.normal(size=(k, d)) if seed % 2 else rng.integers(0, 2, (k, d)).astype(float)
            for k in sizes
        )
        u, v = (rng.integers(1, 4, k) / k for k in sizes)
        arms.append(ArmPairs(winners, losers, u, v, multiplier))
    return arms


def all_pairs(arms):
    """Differences of all pairs, and what each counts."""
    gaps = [(a.winners[:, None] - a.losers).reshape(-1, a.winners.shape[1]) for a in arms]
    counts = [(a.winner_weight[:, None] * a.loser_weight).ravel() * a.multiplier for a in arms]
    return np.vstack(gaps), np.concatenate(counts)


def minimise_all_pairs(arms, C):
    """The quadratic program in w and a slack for each pair, by a general solver."""
    gaps, counts = all_pairs(arms)
    d, k = gaps.shape[1], len(counts)
    matrix = np.hstack([gaps, np.eye(k)])
    found = minimize(
        lambda p: (p[:d] @ p[:d] / 2 + C * counts @ p[d:], np.append(p[:d], C * counts)),
        np.append(np.zeros(d), np.ones(k)),
        jac=True,
        method="SLSQP",
        bounds=[(None, None)] * d + [(0, None)] * k,
        constraints={"type": "ineq", "fun": lambda p: matrix @ p - 1, "jac": lambda p: matrix},
        options={"maxiter": 500, "ftol": 1e-11},
    )
    w = found.x[:d]
    return w, w @ w / 2 + C * counts @ np.maximum(0, 1 - gaps @ w)


@pytest.mark.parametrize("C", [0.3, 3.0, 100.0])
@pytest.mark.parametrize("seed", range(6))
def test_agrees_with_a_quadratic_program_over_all_pairs(seed, C):
    arms = small_arms(seed)
    w, objective = minimise_all_pairs(arms, C)
    found = minimise_pair_hinge(arms, C, tolerance=1e-8)
    assert found.gap <= 1e-8
    assert found.objective == pytest.approx(objective, rel=1e-5)
    assert found.lower <= objective * (1 + 1e-12)
    # The objective grows at least as fast as |w - minimiser|^2 / 2 on both sides.
    assert found.w == pytest.approx(w, abs=1e-2 * max(np.abs(w).max(), 1e-3))


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("seed", range(6))
def test_sums_are_those_over_all_pairs(seed, width):
    arms, C = small_arms(seed), 2.0
    gaps, counts = all_pairs(arms)
    w = np.random.default_rng(seed).normal(size=3)
    z = gaps @ w
    a = np.clip((1 - z) / width, 0, 1)
    v = C * (counts * a) @ gaps
    point = _Smoothed(arms, C, width).at(w)
    hinge = np.maximum(0, 1 - z)
    assert point.objective == pytest.approx(w @ w / 2 + C * counts @ hinge)
    assert point.lower == pytest.approx(C * counts @ a - v @ v / 2)
    assert point.gradient == pytest.approx(w - v)
    inside = (z < 1) & (z > 1 - width)
    bend = (gaps.T * (counts * inside)) @ gaps / width
    assert point.hessian == pytest.approx(np.eye(3) + C * bend)


def test_the_gradient_is_that_of_the_rounded_hinge():
    arms, C, width = small_arms(1), 2.0, 0.3
    gaps, counts = all_pairs(arms)

    def value(w):
        slack = 1 - gaps @ w
        rounded = np.where(slack > width, slack - width / 2, np.maximum(slack, 0) ** 2 / 2 / width)
        return w @ w / 2 + C * counts @ rounded

    smooth = _Smoothed(arms, C, width)
    for w in np.random.default_rng(0).normal(size=(5, 3)):
        assert check_grad(value, lambda w: smooth.at(w).gradient, w) < 1e-5


@pytest.mark.parametrize("seed", range(6))
def test_no_point_is_below_the_lower_bound(seed):
    arms, C = small_arms(seed), 5.0
    gaps, counts = all_pairs(arms)
    found = minimise_pair_hinge(arms, C)
    rng = np.random.default_rng(seed)
    for step in rng.normal(size=(200, 3)) * rng.choice([1e-4, 1e-2, 1.0], (200, 1)):
        w = found.w + step
        assert w @ w / 2 + C * counts @ np.maximum(0, 1 - gaps @ w) >= found.lower * (1 - 1e-12)


def test_few_steps_say_so():
    found = minimise_pair_hinge(small_arms(3), 100.0, max_steps=2)
    assert found.n_steps == 2
    assert found.gap > 1e-4
