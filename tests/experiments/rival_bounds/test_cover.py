from itertools import combinations

import numpy as np
import pytest
from experiments.rival_bounds.cover import (
    _sup_over_ball_and_ellipsoid,
    fractional_chromatic_number,
    fractional_cover,
    local_fractional_rademacher,
    proposition2_corrected,
    proposition2_printed,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog, minimize

pytestmark = pytest.mark.gate

SMALL = [(1, 1), (1, 4), (4, 1), (2, 2), (2, 3), (3, 3), (4, 2)]


@settings(deadline=None)
@given(st.integers(1, 9), st.integers(1, 9))
def test_cover_is_proper_and_exact(m_pos, m_neg):
    pairs, weights = fractional_cover(m_pos, m_neg)
    total = np.zeros((m_pos, m_neg))
    for subset, weight in zip(pairs, weights, strict=True):
        for side in (0, 1):
            assert len(set(subset[:, side])) == len(subset)  # no row twice: independent pairs
        total[subset[:, 0], subset[:, 1]] += weight
    np.testing.assert_array_equal(total, 1)
    assert weights.sum() == fractional_chromatic_number(m_pos, m_neg) == max(m_pos, m_neg)


def independent_sets(m_pos, m_neg):
    """All sets of pairs that share no row, by trying every set."""
    pairs = [(i, j) for i in range(m_pos) for j in range(m_neg)]
    for size in range(1, min(m_pos, m_neg) + 1):
        for chosen in combinations(range(len(pairs)), size):
            sides = zip(*(pairs[k] for k in chosen), strict=True)
            if all(len(set(side)) == size for side in sides):
                yield chosen


@pytest.mark.parametrize(("m_pos", "m_neg"), SMALL)
def test_no_cover_weighs_less(m_pos, m_neg):
    """The linear programme over all independent sets has the same optimum."""
    sets = list(independent_sets(m_pos, m_neg))
    covers = np.zeros((m_pos * m_neg, len(sets)))
    for column, chosen in enumerate(sets):
        covers[list(chosen), column] = 1
    best = linprog(np.ones(len(sets)), A_eq=covers, b_eq=np.ones(m_pos * m_neg))
    assert best.status == 0
    assert best.fun == pytest.approx(fractional_chromatic_number(m_pos, m_neg))


def arm_of(positive, negative, m):
    """m positive rows at one place, m negative at another; the same in the control arm."""
    y = np.tile(np.repeat([1, 0], m), 2)
    X = np.where(y[:, None] == 1, positive, negative).astype(float)
    return X, y, np.repeat([1, 0], 2 * m)


def test_monte_carlo_against_a_closed_form():
    """All differences equal z: E |sum of m signs| ||z|| Lambda / m, known for m = 4: 3/2."""
    X, y, t = arm_of([3.0, 0.0], [0.0, 4.0], 4)
    for arm in ("treated", "control"):
        value, error = local_fractional_rademacher(
            X, y, treatment=t, norm=2, arm=arm, n_draws=4000, random_state=1
        )
        assert 0 < error < 0.1
        assert value == pytest.approx(2 * 5 * 1.5 / 4, abs=4 * error)


def test_one_draw_a_set_agrees_with_the_whole_cover():
    """The definition written out: the weighted sum over all sets, over m+ m-."""
    rng = np.random.default_rng(0)
    X, t = rng.normal(size=(20, 3)), np.repeat([1, 0], 10)
    y = np.r_[np.repeat([1, 0], [3, 7]), np.repeat([1, 0], 5)]
    positive, negative = X[:10][y[:10] == 1], X[:10][y[:10] == 0]
    pairs, weights = fractional_cover(3, 7)
    z = positive[pairs[..., 0]] - negative[pairs[..., 1]]  # (7, 3, 3)
    signs = np.array(np.meshgrid(*[[-1, 1]] * 3)).reshape(3, -1).T
    norms = np.linalg.norm(np.einsum("sk,jkd->sjd", signs, z), axis=2)
    exact = (norms.mean(axis=0) * weights).sum() / 21
    value, error = local_fractional_rademacher(
        X, y, treatment=t, norm=1, n_draws=3000, random_state=0
    )
    assert value == pytest.approx(exact, abs=4 * error)
    assert error < 0.02 * exact


def test_proposition_2_as_printed_is_no_bound_and_the_corrected_one_is():
    """Positive rows at R e, negative at -R e: pairs are 2 R apart, and all in one direction."""
    m, norm, radius = 400, 10.0, 1.0
    X, y, t = arm_of([radius], [-radius], m)
    value, error = local_fractional_rademacher(
        X, y, treatment=t, norm=norm, n_draws=2000, random_state=0
    )
    printed = proposition2_printed(m, norm=norm, radius=radius)
    corrected = proposition2_corrected(m, norm=norm, radius=radius)
    assert value - 5 * error > printed
    assert value + 5 * error < corrected / 2  # half of it is for symmetrisation
    assert corrected == 4 * norm * radius / np.sqrt(m)


def test_local_constraint():
    rng = np.random.default_rng(3)
    X, y, t = rng.normal(size=(60, 2)) * [3, 0.1], np.tile([1, 0], 30), np.repeat([1, 0], 30)
    settings = {"treatment": t, "norm": 1.0, "random_state": 0}
    free = local_fractional_rademacher(X, y, **settings)
    loose = local_fractional_rademacher(X, y, variance=1e6, **settings)
    tight = local_fractional_rademacher(X, y, variance=0.5, **settings)
    assert loose.value == pytest.approx(free.value)
    assert 0.05 * free.value < tight.value < 0.5 * free.value


def test_supremum_over_ball_and_ellipsoid():
    """Against a solver of the constrained problem itself."""
    rng = np.random.default_rng(5)
    for variance in (0.01, 0.3, 2.0, 50.0):
        root, g = rng.normal(size=(3, 3)), rng.normal(size=3)
        covariance = root @ root.T
        found = minimize(
            lambda w, g=g: -w @ g,
            np.zeros(3),
            jac=lambda w, g=g: -g,
            constraints=[
                {"type": "ineq", "fun": lambda w: 1 - w @ w},
                {"type": "ineq", "fun": lambda w, c=covariance, r=variance: 1 - w @ c @ w / r},
            ],
            options={"ftol": 1e-12},
        )
        sup = _sup_over_ball_and_ellipsoid(g[None], 1.0, covariance, variance)[0]
        assert sup == pytest.approx(-found.fun, rel=1e-5)
    assert _sup_over_ball_and_ellipsoid(np.ones((1, 2)), 0.0, np.eye(2), 1.0) == 0
