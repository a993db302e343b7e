"""Minimise a function over a ball, ||w|| <= radius.

A solver is a generator: it yields points at which it needs the value, the gradient and sometimes
the Hessian (:class:`Ask`), and is sent them (:class:`Answer`). So many solvers can be answered in
one reading of the rows. :func:`minimise_over_ball` drives a single one.

Three methods, one contract, and a solution that carries its own certificate, the residual of the
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

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.optimize import brentq

from auucmax._validation import Floats

METHODS = ("newton", "lbfgs", "projected")
TOLERANCE = 1e-6  #: of the residual, relative to the gradient at 0
_FLAT = 1e-10  # eigenvalues below this part of the largest count as flat
_CURVED = 1e-7  # squared pivots above this part of the largest tell that no direction is
_MEMORY = 10  # pairs of steps and turns that L-BFGS keeps, and values that projected gradient does


class Ask(NamedTuple):
    """Request for the value and gradient (and optionally the Hessian) at a point."""

    w: Floats
    hessian: bool = False


class Answer(NamedTuple):
    """Value, gradient (d,) and, if requested, Hessian (d, d) at a point."""

    value: float
    gradient: Floats
    hessian: Floats | None = None


Solver = Generator[Ask, Answer, "BallSolution"]


class Objective(Protocol):
    """Interface of objectives; ``hessian(w)`` is only used by Newton's method."""

    def value_and_gradient(self, w: Floats, /) -> tuple[float, Floats]: ...


@dataclass(frozen=True)
class BallSolution:
    """A minimiser and how well it satisfies the optimality conditions.

    ``residual`` is ||gradient + multiplier w|| relative to the gradient at 0; ``converged`` says
    whether it is within the tolerance. ``n_evaluations`` are of value and gradient, where one
    objective was minimised. ``hessian`` is the final one of Newton's method, good enough to start
    another fit.
    """

    w: Floats
    value: float
    multiplier: float
    residual: float
    converged: bool
    n_steps: int
    radius: float
    n_evaluations: int = 0
    hessian: Floats | None = field(default=None, repr=False)

    def is_inside(self, radius: float) -> bool:
        """Whether the solution also minimises over the ball of this radius."""
        # A radius that was meant to be the norm itself may be smaller by a rounding.
        return self.multiplier == 0 and float(np.linalg.norm(self.w)) <= radius * (1 + 1e-12)


def minimise_over_ball(
    objective: Objective, radius: float, *, start: Floats, method: str = "newton", **options: Any
) -> BallSolution:
    """Minimise ``objective`` over ||w|| <= radius from ``start``; ``options`` as in :func:`solver`.

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
    asking, n_evaluations = solver(radius, start=start, method=method, **options), 0
    answer: Any = None  # which starts the generator
    while True:
        try:
            asked = asking.send(answer)
        except StopIteration as stop:  # at once, where the start is known to be the minimum
            return replace(stop.value, n_evaluations=n_evaluations)
        n_evaluations += not asked.hessian  # asked for where value and gradient are known
        # Only objectives that have a Hessian are minimised by Newton's method.
        hessian = objective.hessian(asked.w) if asked.hessian else None  # type: ignore[attr-defined]
        answer = Answer(*objective.value_and_gradient(asked.w), hessian)


def solver(
    radius: float,
    *,
    start: Floats,
    method: str = "newton",
    tolerance: float = TOLERANCE,
    max_steps: int = 200,
    known: Answer | None = None,
    hessian: Floats | None = None,
    scale: float | None = None,
) -> Solver:
    """Generator that minimises over ||w|| <= radius (may be infinite) from ``start``.

    ``known`` is the answer at the start, if available; ``hessian`` an initial Hessian for Newton's
    method; ``scale`` the norm of the gradient at 0, requested if not given.
    """
    if method not in METHODS:
        raise ValueError(f"method should be one of {', '.join(METHODS)}, got {method!r}.")
    if not radius > 0:
        raise ValueError(f"radius should be positive, got {radius!r}. Infinity: no constraint.")
    begin = project(np.asarray(start, dtype=np.float64), radius)
    if known is None:
        known = yield Ask(begin)
    if scale is None:
        at_zero = (yield Ask(np.zeros(len(begin)))) if begin.any() else known
        scale = float(np.linalg.norm(at_zero.gradient))
    if scale == 0:  # 0 is a minimiser of a convex function, and a stationary point of any
        scale = 1.0
    how = _Point(begin, known.value, known.gradient), radius, tolerance * scale, max_steps
    if method == "newton":
        steps = _newton(*how, hessian if known.hessian is None else known.hessian)
    else:
        steps = (_lbfgs if method == "lbfgs" else _projected)(*how)

    point, n_steps, hessian = yield from steps
    multiplier, residual = kkt_residual(point.w, point.gradient, radius)
    return BallSolution(
        w=point.w,
        value=point.value,
        multiplier=multiplier,
        residual=residual / scale,
        converged=bool(residual <= tolerance * scale),
        n_steps=n_steps,
        radius=radius,
        hessian=hessian,
    )


def start_between(at_zero: Answer, solution: BallSolution, radius: float) -> dict[str, Any]:
    """Start and Hessian for a smaller ball, given a solution on a larger one.

    Between 0 and the solution the Hessian is taken to change in proportion to the norm.
    """
    first, last = at_zero.hessian, solution.hessian
    if first is None or last is None:
        return {"start": solution.w}
    t = min(radius / max(float(np.linalg.norm(solution.w)), 1e-300), 1.0)
    start = _minimise_quadratic((1 - t / 2) * first + t / 2 * last, at_zero.gradient, radius)
    return {"start": start, "hessian": (1 - t) * first + t * last}


def project(w: Floats, radius: float) -> Floats:
    """Project onto the ball."""
    norm = float(np.linalg.norm(w))
    return w if norm <= radius else w * (radius / norm)


def kkt_residual(w: Floats, gradient: Floats, radius: float) -> tuple[float, float]:
    """Multiplier and KKT residual, gradient + multiplier w, at a point of the ball."""
    norm = float(np.linalg.norm(w))
    touches = norm >= radius * (1 - 1e-9)
    multiplier = max(0.0, -float(gradient @ w) / norm**2) if touches and norm > 0 else 0.0
    return multiplier, float(np.linalg.norm(gradient + multiplier * w))


class _Point(NamedTuple):
    w: Floats
    value: float
    gradient: Floats


#: Where a method ends, after how many steps, and what it knows of the Hessian there.
_Steps = Generator[Ask, Answer, tuple[_Point, int, Floats | None]]


def _newton(
    at: _Point, radius: float, tolerance: float, max_steps: int, matrix: Floats | None
) -> _Steps:
    residual = kkt_residual(at.w, at.gradient, radius)[1]
    is_exact, latest = False, matrix
    for step in range(max_steps):
        if residual <= tolerance:
            return at, step, latest
        if matrix is None:
            matrix, is_exact = (yield Ask(at.w, hessian=True)).hessian, True
        assert matrix is not None  # it was asked for
        target = _minimise_quadratic(matrix, at.gradient - matrix @ at.w, radius)
        found = yield from _search(at, target - at.w)
        if found is None:
            if is_exact:  # no descent left at this precision
                return at, step, latest
            matrix = None
            continue
        moved, turned, before = found.w - at.w, found.gradient - at.gradient, residual
        at = found
        residual = kkt_residual(at.w, at.gradient, radius)[1]
        # While steps are as good as this, updates by gradients are enough: a Hessian costs three.
        updated = _updated(matrix, moved, turned)
        latest = matrix if updated is None else updated
        matrix, is_exact = updated if residual < 0.1 * before else None, False
    return at, max_steps, latest


def _updated(matrix: Floats, moved: Floats, turned: Floats) -> Floats | None:
    """BFGS update of a Hessian; None if the curvature is not positive."""
    product = matrix @ moved
    expected, seen = float(moved @ product), float(moved @ turned)
    if not (expected > 0 and seen > 0):
        return None
    update = np.outer(turned, turned) / seen - np.outer(product, product) / expected
    return np.asarray(matrix + update)


def _minimise_quadratic(matrix: Floats, linear: Floats, radius: float) -> Floats:
    """Minimum-norm minimiser of w'Aw/2 + linear'w over the ball, A positive semidefinite."""
    if np.isinf(radius) and (found := _where_curved(matrix, linear)) is not None:
        return found
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

    # On the sphere w(nu) = -(A + nu)^-1 linear; in logarithms its norm falls smoothly.
    def excess(log_nu: float) -> float:
        return float(np.log(np.linalg.norm(c / (values + np.exp(log_nu)))) - np.log(radius))

    # ||w(nu)|| lies between ||c|| / (largest + nu) and ||c|| / nu, which brackets the root.
    high = np.log(np.linalg.norm(c) / radius) + 1e-6
    low = high - 1.0
    while excess(low) < 0:
        low -= 2 * (high - low)
    nu = np.exp(brentq(excess, low, high, xtol=1e-14, rtol=1e-14))
    return np.asarray(vectors @ (-c / (values + nu)))


def _where_curved(matrix: Floats, linear: Floats) -> Floats | None:
    """Unique minimiser for a positive definite A, by Cholesky factorisation."""
    try:
        factor = cho_factor(matrix, lower=True, check_finite=False)
    except LinAlgError:
        return None
    pivots = np.diagonal(factor[0])
    if not pivots.min() ** 2 > _CURVED * pivots.max() ** 2:
        return None
    return np.asarray(-cho_solve(factor, linear, check_finite=False))


def _search(at: _Point, step: Floats) -> Generator[Ask, Answer, _Point | None]:
    """Backtracking line search from w + step; None if it fails."""
    slope = float(at.gradient @ step)
    size = 1.0
    noise = 1e-14 * max(abs(at.value), 1e-300)
    for _ in range(40):
        there = at.w + size * step
        value, gradient, _ = yield Ask(there)
        if value <= at.value + 1e-4 * size * slope + noise:
            return _Point(there, value, gradient) if slope < 0 else None
        size /= 2
    return None


def _lbfgs(at: _Point, radius: float, tolerance: float, max_steps: int) -> _Steps:
    """L-BFGS (Nocedal 1980) with weak Wolfe conditions, then the ball constraint."""
    moves: list[tuple[Floats, Floats]] = []
    n_steps = 0
    # Without the constraint it is left well inside the tolerance: flat directions take their time.
    while n_steps < max_steps and np.abs(at.gradient).max() > 0.1 * tolerance / len(at.w) ** 0.5:
        n_steps += 1
        found = yield from _wolfe(at, -_two_loops(moves, at.gradient))
        if found is None:
            break
        moved, turned = found.w - at.w, found.gradient - at.gradient
        at = found
        if moved @ turned > 0:
            moves = [*moves, (moved, turned)][-_MEMORY:]
    if np.linalg.norm(at.w) <= radius:
        return at, n_steps, None
    inside = project(at.w, radius)
    start = _Point(inside, *(yield Ask(inside))[:2])
    at, more, _ = yield from _projected(start, radius, tolerance, max_steps)
    return at, n_steps + more, None


def _two_loops(moves: list[tuple[Floats, Floats]], gradient: Floats) -> Floats:
    """Two-loop recursion of L-BFGS."""
    product, parts = gradient.copy(), []
    for moved, turned in reversed(moves):
        parts.append(float(moved @ product) / float(moved @ turned))
        product -= parts[-1] * turned
    if moves:
        moved, turned = moves[-1]
        product *= float(moved @ turned) / float(turned @ turned)
    else:
        product /= max(float(np.linalg.norm(gradient)), 1e-300)
    for (moved, turned), part in zip(moves, reversed(parts), strict=True):
        product += (part - float(turned @ product) / float(moved @ turned)) * moved
    return product


def _wolfe(at: _Point, step: Floats) -> Generator[Ask, Answer, _Point | None]:
    """Line search for the weak Wolfe conditions; None if it fails."""
    slope = float(at.gradient @ step)
    low, high, size = 0.0, np.inf, 1.0
    best: _Point | None = None
    for _ in range(40):
        there = at.w + size * step
        value, gradient, _ = yield Ask(there)
        # Bisection: ``low`` goes down enough but is too steep still, ``high`` is too far.
        if not value < at.value + 1e-4 * size * slope:
            high = size
        else:
            best = _Point(there, value, gradient)
            if float(gradient @ step) >= 0.9 * slope:
                return best
            low = size
        size = (low + high) / 2 if np.isfinite(high) else 2 * size
    return best


def _projected(at: _Point, radius: float, tolerance: float, max_steps: int) -> _Steps:
    """Spectral projected gradient (Birgin, Martinez, Raydan 2000), with a memory of 10 values.

    It ends after two evaluations for each of ``max_steps``: where columns have ranges of very
    different size, a step may need dozens of them.
    """
    recent, left = [at.value], 2 * max_steps
    length = 1.0 / max(float(np.linalg.norm(at.gradient)), 1e-300)
    for step in range(max_steps):
        if kkt_residual(at.w, at.gradient, radius)[1] <= tolerance:
            return at, step, None
        direction = project(at.w - length * at.gradient, radius) - at.w
        slope, size = float(at.gradient @ direction), 1.0
        while True:
            there = at.w + size * direction
            value, gradient, _ = yield Ask(there)
            left -= 1
            # Against the worst of the last values, not the last one: long steps pay off later.
            if value <= max(recent[-_MEMORY:]) + 1e-4 * size * slope:
                break
            size /= 2
            if size < 1e-12 or left <= 0:
                return at, step, None
        moved, turned = there - at.w, gradient - at.gradient
        # Barzilai and Borwein: the step that would have fitted the last change of the gradient.
        curvature = float(moved @ turned)
        length = float(moved @ moved) / curvature if curvature > 0 else length * 4
        at = _Point(there, value, gradient)
        recent.append(value)
    return at, max_steps, None


def adam_over_ball(
    epoch: Callable[[np.random.Generator], Iterator[Callable[[Floats], Floats]]],
    validation_loss: Callable[[Floats], float],
    radius: float,
    *,
    start: Floats,
    learning_rate: float,
    max_epochs: int = 200,
    patience: int = 10,
    halve_every: int = 20,
    random_state: int | np.random.Generator | None = None,
) -> tuple[Floats, int]:
    """Adam with step halving and early stopping, projected on the ball after each step.

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
