from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from auucmax.solvers import (
    METHODS,
    Answer,
    adam_over_ball,
    kkt_residual,
    minimise_over_ball,
    project,
    solver,
)

CONVEX = ["newton", "lbfgs", "projected"]


class Quadratic:
    """w'Aw/2 + b'w, A of any rank."""

    def __init__(self, d, rank, seed):
        rng = np.random.default_rng(seed)
        root = rng.normal(size=(d, rank))
        self.A = root @ root.T
        self.b = self.A @ rng.normal(size=d)  # bounded below: b in the range of A
        self.best = -np.linalg.pinv(self.A, rcond=1e-9, hermitian=True) @ self.b

    def value_and_gradient(self, w):
        return float(w @ self.A @ w / 2 + self.b @ w), self.A @ w + self.b

    def hessian(self, w):
        return self.A


class Logistic:
    def __init__(self, n=400, d=6, seed=0):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(n, d))
        X[:, -1] = X[:, 0] + X[:, 1]  # collinear: a flat direction
        self.X, self.sign = X, np.where(rng.random(n) < 0.5, 1.0, -1.0)

    def value_and_gradient(self, w):
        z = self.sign * (self.X @ w)
        slope = -self.sign / (1 + np.exp(z)) / len(z)
        return float(np.logaddexp(0, -z).mean()), self.X.T @ slope

    def hessian(self, w):
        p = 1 / (1 + np.exp(-self.X @ w))
        return (self.X.T * (p * (1 - p))) @ self.X / len(p)


class Ripples:
    """Not convex: sum of cos plus a slope."""

    def value_and_gradient(self, w):
        return float(np.cos(3 * w).sum() + w.sum()), -3 * np.sin(3 * w) + 1


def brute_force(objective, radius, d, start):
    """Projected gradient with tiny steps: slow, simple, convergent."""
    w = start
    for _ in range(200_000):
        step = w - 0.02 * objective.value_and_gradient(w)[1]
        norm = np.linalg.norm(step)
        new = step if norm <= radius else step * radius / norm
        if np.linalg.norm(new - w) < 1e-13:
            break
        w = new
    return w


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 8), st.integers(1, 8), st.integers(0, 10**6), st.floats(0.01, 1.5))
def test_newton_solves_quadratics_at_once(d, rank, seed, part):
    f = Quadratic(d, min(rank, d), seed)
    radius = part * np.linalg.norm(f.best)
    solution = minimise_over_ball(f, radius, start=np.zeros(d))
    assert solution.converged
    assert solution.n_steps <= 2
    assert np.linalg.norm(solution.w) <= radius * (1 + 1e-9)
    if part >= 1:
        assert solution.w == pytest.approx(f.best, abs=1e-5 * radius)  # the shortest minimiser
        # With the minimiser on the sphere itself, rounding decides on which side it is.
        assert solution.multiplier == pytest.approx(0, abs=1e-9)
        assert solution.multiplier == 0 or part == 1
    else:
        assert np.linalg.norm(solution.w) == pytest.approx(radius, rel=1e-9)


@pytest.mark.gate_cases("0.3")
@pytest.mark.parametrize("method", CONVEX)
@pytest.mark.parametrize("radius", [0.02, 0.3, 5.0])
def test_all_methods_find_the_same_minimum(method, radius):
    f = Logistic()
    solution = minimise_over_ball(f, radius, start=np.zeros(6), method=method, max_steps=500)
    assert solution.converged
    assert solution.residual <= 1e-6
    slow = brute_force(f, radius, 6, np.zeros(6))
    assert solution.value == pytest.approx(f.value_and_gradient(slow)[0], abs=1e-9)


def test_the_certificate_is_honest():
    f = Logistic()
    short = minimise_over_ball(f, 0.3, start=np.zeros(6), method="projected", max_steps=1)
    assert not short.converged
    assert short.residual > 1e-6
    multiplier, residual = kkt_residual(short.w, f.value_and_gradient(short.w)[1], 0.3)
    scale = np.linalg.norm(f.value_and_gradient(np.zeros(6))[1])
    assert (multiplier, residual / scale) == (short.multiplier, short.residual)


def test_a_start_outside_is_brought_in_and_no_constraint_is_infinite():
    f = Quadratic(4, 4, 0)
    far = minimise_over_ball(f, 0.1, start=np.full(4, 50.0))
    assert np.linalg.norm(far.w) == pytest.approx(0.1)
    free = minimise_over_ball(f, np.inf, start=np.zeros(4))
    assert free.w == pytest.approx(f.best, rel=1e-6)


@pytest.mark.parametrize("start", [[0.5, -0.5], [1.0, 1.0], [-0.2, 0.9]])
def test_not_convex_ends_at_a_stationary_point_no_worse_than_the_start(start):
    f = Ripples()
    solution = minimise_over_ball(f, 1.2, start=np.array(start), method="projected")
    assert solution.converged
    assert solution.value <= f.value_and_gradient(project(np.array(start), 1.2))[0]


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 40), st.integers(0, 10**6), st.floats(0.0, 3.0))
def test_lbfgs_comes_to_where_scipys_does(d, seed, away):
    f = Logistic(n=300, d=max(d, 3), seed=seed)
    start = away * np.random.default_rng(seed).normal(size=f.X.shape[1])
    options = {"gtol": 1e-9, "ftol": 0.0, "maxiter": 2000, "maxfun": 10_000}
    theirs = minimize(f.value_and_gradient, start, jac=True, method="L-BFGS-B", options=options)
    ours = minimise_over_ball(f, np.inf, start=start, method="lbfgs", max_steps=2000)
    assert ours.converged
    assert ours.value == pytest.approx(theirs.fun, abs=1e-10)
    assert ours.n_evaluations <= 3 * theirs.nfev + 20


def driven(solvers, objectives):
    """Many at once, a point of each in turn."""
    solutions, asked = [None] * len(solvers), {k: next(s) for k, s in enumerate(solvers)}
    n_asked = [0] * len(solvers)
    while asked:
        for k, (w, hessian) in list(asked.items()):
            f = objectives[k]
            n_asked[k] += not hessian
            answer = Answer(*f.value_and_gradient(w), f.hessian(w) if hessian else None)
            try:
                asked[k] = solvers[k].send(answer)
            except StopIteration as stop:
                solutions[k] = replace(stop.value, n_evaluations=n_asked[k])
                del asked[k]
    return solutions


@pytest.mark.parametrize("method", CONVEX)
def test_many_solvers_can_be_answered_in_turn(method):
    fs = [Logistic(seed=k) for k in range(3)]
    alone = [minimise_over_ball(f, 0.3, start=np.zeros(6), method=method) for f in fs]
    together = driven([solver(0.3, start=np.zeros(6), method=method) for _ in fs], fs)
    for one, other in zip(together, alone, strict=True):
        assert np.array_equal(one.w, other.w)
        assert one.n_evaluations == other.n_evaluations


def test_what_is_known_is_not_asked_for():
    f = Logistic()
    free = minimise_over_ball(f, np.inf, start=np.zeros(6))
    at_zero = Answer(*f.value_and_gradient(np.zeros(6)), f.hessian(np.zeros(6)))
    (told,) = driven([solver(np.inf, start=np.zeros(6), known=at_zero)], [f])
    assert np.array_equal(told.w, free.w)
    again = solver(
        np.inf, start=free.w, hessian=free.hessian, scale=np.linalg.norm(at_zero.gradient)
    )
    (again,) = driven([again], [f])
    assert again.n_evaluations == 1
    assert np.array_equal(again.w, free.w)
    (near,) = driven([solver(np.inf, start=free.w * 1.001, hessian=free.hessian)], [f])
    assert near.value == pytest.approx(free.value, abs=1e-12)
    assert near.n_evaluations <= 5


def test_zero_gradient_at_zero():
    class Flat:
        def value_and_gradient(self, w):
            return 0.0, np.zeros_like(w)

        def hessian(self, w):
            return np.zeros((len(w), len(w)))

    for method in METHODS:
        solution = minimise_over_ball(Flat(), 1.0, start=np.zeros(3), method=method)
        assert solution.converged
        assert solution.w.tolist() == [0, 0, 0]


def test_bad_options():
    f = Quadratic(2, 2, 0)
    with pytest.raises(ValueError, match="method should be one of newton"):
        minimise_over_ball(f, 1.0, start=np.zeros(2), method="magic")
    with pytest.raises(ValueError, match="radius should be positive"):
        minimise_over_ball(f, 0.0, start=np.zeros(2))


def test_adam_stays_in_the_ball_comes_near_and_repeats():
    f = Logistic(n=2000)

    def epoch(rng):
        order = rng.permutation(2000)
        for start in range(0, 2000, 100):
            batch = Logistic.__new__(Logistic)
            rows = order[start : start + 100]
            batch.X, batch.sign = f.X[rows], f.sign[rows]
            yield lambda w, batch=batch: batch.value_and_gradient(w)[1]

    def run(seed):
        return adam_over_ball(
            epoch,
            lambda w: f.value_and_gradient(w)[0],
            0.05,
            start=np.zeros(6),
            learning_rate=0.01,
            random_state=seed,
        )

    w, n_epochs = run(0)
    exact = minimise_over_ball(f, 0.05, start=np.zeros(6))
    at_zero = np.log(2)
    assert np.linalg.norm(w) <= 0.05 * (1 + 1e-12)
    assert f.value_and_gradient(w)[0] - exact.value < 0.1 * (at_zero - exact.value)
    assert 1 <= n_epochs <= 200
    assert np.array_equal(w, run(0)[0])
    assert not np.array_equal(w, run(1)[0])


def test_a_search_that_gets_nowhere_ends():
    """Where each step needs many trials, two evaluations for each step are all there are."""
    rng = np.random.default_rng(0)

    class Rough:
        n_asked = 0

        def value_and_gradient(self, w):
            self.n_asked += 1
            return float(rng.random()), rng.standard_normal(len(w))

        def hessian(self, w):
            return np.eye(len(w))

    rough = Rough()
    minimise_over_ball(rough, 1.0, start=np.zeros(3), method="projected", max_steps=20)
    assert rough.n_asked <= 45


def test_a_start_that_is_known_to_be_the_minimum_asks_for_nothing():
    known = Answer(1.0, np.zeros(2), np.eye(2))
    found = minimise_over_ball(None, np.inf, start=np.zeros(2), known=known)
    assert found.converged
    assert (found.value, found.n_evaluations) == (1.0, 0)
