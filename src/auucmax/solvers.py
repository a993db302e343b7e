"""Minimise a function over a ball, ||w|| <= radius. Knows nothing of uplift.

Three methods, one contract: an object with ``value_and_gradient(w)`` (and, for Newton,
``hessian(w)``), a radius, and a solution that carries its own certificate, the residual of the
optimality conditions. At a minimiser there is a multiplier nu >= 0 with

    gradient + nu w = 0,    nu (||w|| - radius) = 0,    ||w|| <= radius.

* ``newton``: for smooth convex functions of moderate dimension. Each step minimises the quadratic
  model over the ball *exactly*: with the eigenvectors of the Hessian the multiplier is the root of
  one function of one variable. Flat directions (one-hot columns) take the shortest step. After a
  step that cut the residual to a tenth the Hessian is updated (BFGS), not computed anew.
* ``lbfgs``: for smooth convex functions of many dimensions: L-BFGS without the constraint and, if
  that ends outside the ball, projected gradient from where it crosses the sphere.
* ``projected``: spectral projected gradient; for functions that are not convex. Finds a point that
  satisfies the conditions, near the start.

:func:`adam_over_ball` is the stochastic method of the AUUC-max paper's experiments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.optimize import brentq, minimize

__all__ = [
    "BallSolution",
    "adam_over_ball",
    "ball_path",
    "kkt_residual",
    "minimise_over_ball",
    "project",
]

Floats = NDArray[np.float64]

METHODS = ("newton", "lbfgs", "projected")
_FLAT = 1e-10  # eigenvalues below this part of the largest count as flat


class Objective(Protocol):
    """What a method needs of a function."""

    def value_and_gradient(self, w: Floats, /) -> tuple[float, Floats]: ...


class SmoothObjective(Objective, Protocol):
    """What Newton's method needs."""

    def hessian(self, w: Floats, /) -> Floats: ...


@dataclass(frozen=True)
class BallSolution:
    """A minimiser and how well it satisfies the optimality conditions.

    ``residual`` is ||gradient + multiplier w|| relative to the gradient at 0; ``converged`` says
    whether it is within the tolerance.
    """

    w: Floats
    value: float
    multiplier: float
    residual: float
    converged: bool
    n_steps: int
    n_evaluations: int
    radius: float


def minimise_over_ball(
    objective: Objective,
    radius: float,
    *,
    start: Floats,
    method: str = "newton",
    tolerance: float = 1e-6,
    max_steps: int = 200,
) -> BallSolution:
    """Minimise ``objective`` over ||w|| <= radius (infinite: no constraint) from ``start``.

    Examples
    --------
    >>> class Bowl:  # f(w) = ||w - (3, 4)||^2 / 2: the nearest point of the unit ball is (.6, .8)
    ...     def value_and_gradient(self, w):
    ...         d = w - np.array([3.0, 4.0])
    ...         return d @ d / 2, d
    ...     def hessian(self, w):
    ...         return np.eye(2)
    >>> solution = minimise_over_ball(Bowl(), 1.0, start=np.zeros(2))
    >>> solution.w.round(6).tolist(), round(solution.multiplier, 6), solution.converged
    ([0.6, 0.8], 4.0, True)
    """
    if method not in METHODS:
        raise ValueError(f"method should be one of {', '.join(METHODS)}, got {method!r}.")
    if not radius > 0:
        raise ValueError(f"radius should be positive, got {radius!r}. Infinity: no constraint.")
    counted = _Counted(objective)
    scale = float(np.linalg.norm(counted.value_and_gradient(np.zeros(len(start)))[1]))
    if scale == 0:  # 0 is a minimiser of a convex function, and a stationary point of any
        scale = 1.0
    begin = project(np.asarray(start, dtype=np.float64), radius)
    run = {"newton": _newton, "lbfgs": _lbfgs, "projected": _projected}[method]
    w, value, gradient, n_steps = run(counted, radius, begin, tolerance * scale, max_steps)
    multiplier, residual = kkt_residual(w, gradient, radius)
    return BallSolution(
        w=w,
        value=value,
        multiplier=multiplier,
        residual=residual / scale,
        converged=bool(residual <= tolerance * scale),
        n_steps=n_steps,
        n_evaluations=counted.n_calls,
        radius=radius,
    )


def ball_path(
    objective: Objective,
    radii: Sequence[float],
    *,
    start: Floats,
    method: str = "newton",
    tolerance: float = 1e-6,
    max_steps: int = 200,
    free: BallSolution | None = None,
) -> list[BallSolution]:
    """Solutions for several radii, from the largest down, each started at the last one.

    Once a minimiser lies strictly inside a ball it is that of every larger ball, so solutions that
    do not touch the sphere are not computed twice. Returned in the order of ``radii``. ``free`` is
    the unconstrained minimiser, if it is known.
    """
    solved: dict[float, BallSolution] = {}
    previous: BallSolution | None = free
    for radius in sorted(set(radii), reverse=True):
        if previous is not None and previous.converged and _is_inside(previous, radius):
            solved[radius] = previous = _with_radius(previous, radius)
            continue
        solved[radius] = previous = minimise_over_ball(
            objective,
            radius,
            start=start if previous is None else previous.w,
            method=method,
            tolerance=tolerance,
            max_steps=max_steps,
        )
    return [solved[radius] for radius in radii]


def project(w: Floats, radius: float) -> Floats:
    """The nearest point of the ball."""
    norm = float(np.linalg.norm(w))
    return w if norm <= radius else w * (radius / norm)


def kkt_residual(w: Floats, gradient: Floats, radius: float) -> tuple[float, float]:
    """Best multiplier, and the norm of gradient + multiplier w, at a point of the ball."""
    norm = float(np.linalg.norm(w))
    touches = norm >= radius * (1 - 1e-9)
    multiplier = max(0.0, -float(gradient @ w) / norm**2) if touches and norm > 0 else 0.0
    return multiplier, float(np.linalg.norm(gradient + multiplier * w))


class _Counted:
    """Counts calls, for honest cost figures, and makes none twice in a row."""

    def __init__(self, objective: Objective) -> None:
        self.objective, self.n_calls = objective, 0
        self._last: tuple[Floats, tuple[float, Floats]] | None = None

    def value_and_gradient(self, w: Floats) -> tuple[float, Floats]:
        if self._last is None or not np.array_equal(self._last[0], w):
            self.n_calls += 1
            self._last = (w.copy(), self.objective.value_and_gradient(w))
        value, gradient = self._last[1]
        return value, gradient.copy()


_Run = tuple[Floats, float, Floats, int]


def _newton(f: _Counted, radius: float, w: Floats, tolerance: float, max_steps: int) -> _Run:
    value, gradient = f.value_and_gradient(w)
    residual = kkt_residual(w, gradient, radius)[1]
    matrix: Floats | None = None
    is_exact = False
    for step in range(max_steps):
        if residual <= tolerance:
            return w, value, gradient, step
        if matrix is None:
            # Newton is for objectives that have a Hessian; the others' contract does without.
            matrix, is_exact = f.objective.hessian(w), True  # type: ignore[attr-defined]
        target = _minimise_quadratic(matrix, gradient - matrix @ w, radius)
        found = _search(f, w, value, gradient, target - w)
        if found is None:
            if is_exact:  # no descent left at this precision
                return w, value, gradient, step
            matrix = None
            continue
        moved, turned, before = found[0] - w, found[2] - gradient, residual
        w, value, gradient = found
        residual = kkt_residual(w, gradient, radius)[1]
        # While steps are as good as this, a gradient teaches enough: a Hessian costs three.
        matrix = _updated(matrix, moved, turned) if residual < 0.1 * before else None
        is_exact = False
    return w, value, gradient, max_steps


def _updated(matrix: Floats, moved: Floats, turned: Floats) -> Floats | None:
    """BFGS: a matrix that agrees with the last change of the gradient; None if there is none."""
    product = matrix @ moved
    expected, seen = float(moved @ product), float(moved @ turned)
    if not (expected > 0 and seen > 0):
        return None
    update = np.outer(turned, turned) / seen - np.outer(product, product) / expected
    return np.asarray(matrix + update)


def _minimise_quadratic(matrix: Floats, linear: Floats, radius: float) -> Floats:
    """Shortest minimiser of w'Aw/2 + linear'w over the ball, for A with no negative eigenvalue."""
    values, vectors = np.linalg.eigh(matrix)
    values = np.maximum(values, 0.0)
    c = vectors.T @ linear
    curved = values > _FLAT * values[-1]
    free = np.zeros_like(c)
    np.divide(-c, values, out=free, where=curved)
    slope = np.linalg.norm(c[~curved])
    # Flat directions along which the function still falls push the minimiser to the sphere.
    falls = slope > 1e-9 * np.linalg.norm(c)
    if not falls and np.linalg.norm(free) <= radius:
        return np.asarray(vectors @ free)
    if np.isinf(radius):
        return np.asarray(vectors @ np.where(curved, free, -c / values[-1]))

    def excess(log_nu: float) -> float:
        return float(np.log(np.linalg.norm(c / (values + np.exp(log_nu)))) - np.log(radius))

    # ||w(nu)|| lies between ||c|| / (largest + nu) and ||c|| / nu, which brackets the root.
    high = np.log(np.linalg.norm(c) / radius) + 1e-6
    low = high - 1.0
    while excess(low) < 0:
        low -= 2 * (high - low)
    nu = np.exp(brentq(excess, low, high, xtol=1e-14, rtol=1e-14))
    return np.asarray(vectors @ (-c / (values + nu)))


def _search(
    f: _Counted, w: Floats, value: float, gradient: Floats, step: Floats
) -> tuple[Floats, float, Floats] | None:
    """Backtrack from w + step until the function has fallen enough; None if it never does."""
    slope = float(gradient @ step)
    size = 1.0
    noise = 1e-14 * max(abs(value), 1e-300)
    for _ in range(40):
        there = w + size * step
        new_value, new_gradient = f.value_and_gradient(there)
        if new_value <= value + 1e-4 * size * slope + noise:
            return (there, new_value, new_gradient) if slope < 0 else None
        size /= 2
    return None


def _lbfgs(f: _Counted, radius: float, w: Floats, tolerance: float, max_steps: int) -> _Run:
    options = {"maxiter": max_steps, "gtol": tolerance / 10 / len(w) ** 0.5, "ftol": 0.0}
    done = minimize(f.value_and_gradient, w, jac=True, method="L-BFGS-B", options=options)
    if np.linalg.norm(done.x) <= radius:
        value, gradient = f.value_and_gradient(done.x)
        return np.asarray(done.x), value, gradient, int(done.nit)
    w, value, gradient, n_steps = _projected(
        f, radius, project(done.x, radius), tolerance, max_steps
    )
    return w, value, gradient, int(done.nit) + n_steps


def _projected(f: _Counted, radius: float, w: Floats, tolerance: float, max_steps: int) -> _Run:
    """Spectral projected gradient (Birgin, Martinez, Raydan 2000), with a memory of 10 values."""
    value, gradient = f.value_and_gradient(w)
    recent = [value]
    length = 1.0 / max(float(np.linalg.norm(gradient)), 1e-300)
    for step in range(max_steps):
        if kkt_residual(w, gradient, radius)[1] <= tolerance:
            return w, value, gradient, step
        direction = project(w - length * gradient, radius) - w
        slope, size = float(gradient @ direction), 1.0
        while True:
            there = w + size * direction
            new_value, new_gradient = f.value_and_gradient(there)
            if new_value <= max(recent[-10:]) + 1e-4 * size * slope or size < 1e-12:
                break
            size /= 2
        if size < 1e-12:
            return w, value, gradient, step
        moved, turned = there - w, new_gradient - gradient
        curvature = float(moved @ turned)
        length = float(moved @ moved) / curvature if curvature > 0 else length * 4
        w, value, gradient = there, new_value, new_gradient
        recent.append(value)
    return w, value, gradient, max_steps


def adam_over_ball(
    epoch: Callable[[Generator], Iterator[Callable[[Floats], Floats]]],
    validation_loss: Callable[[Floats], float],
    radius: float,
    *,
    start: Floats,
    learning_rate: float,
    max_epochs: int = 200,
    patience: int = 10,
    halve_every: int = 20,
    random_state: int | Generator | None = None,
) -> tuple[Floats, int]:
    """Adam with a halving step and early stopping, projected on the ball after each step.

    ``epoch(rng)`` yields, batch by batch, a function from w to the batch's gradient. Stops when
    the validation loss has not improved for ``patience`` epochs and returns the best w and the
    number of epochs run. The paper gives batch size, epochs and "step decay"; how often the step
    is cut is our choice.
    """
    rng = np.random.default_rng(random_state)
    w = project(np.asarray(start, dtype=np.float64), radius)
    mean, square, step = np.zeros_like(w), np.zeros_like(w), 0
    best, best_loss, since = w, validation_loss(w), 0
    for number in range(max_epochs):
        rate = learning_rate * 0.5 ** (number // halve_every)
        for gradient_of in epoch(rng):
            gradient, step = gradient_of(w), step + 1
            mean = 0.9 * mean + 0.1 * gradient
            square = 0.999 * square + 0.001 * gradient**2
            scaled = (mean / (1 - 0.9**step)) / (np.sqrt(square / (1 - 0.999**step)) + 1e-8)
            w = project(w - rate * scaled, radius)
        loss = validation_loss(w)
        if loss < best_loss:
            best, best_loss, since = w, loss, 0
        else:
            since += 1
            if since >= patience:
                return best, number + 1
    return best, max_epochs


def _is_inside(solution: BallSolution, radius: float) -> bool:
    # A radius that was meant to be the norm itself may be smaller by a rounding.
    return solution.multiplier == 0 and float(np.linalg.norm(solution.w)) <= radius * (1 + 1e-12)


def _with_radius(solution: BallSolution, radius: float) -> BallSolution:
    return replace(solution, radius=radius, n_steps=0, n_evaluations=0)
