"""Algorithm 1: fit one linear candidate per norm of a grid."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from auucmax._validation import Floats
from auucmax.estimators.base import cells
from auucmax.pairs import (
    OutcomeLevels,
    PairObjective,
    StreamedObjective,
    Surrogate,
    TooManyBinsError,
    s_poly,
)
from auucmax.rows import ArrayRows, Rows
from auucmax.solvers import (
    TOLERANCE,
    Answer,
    BallSolution,
    adam_over_ball,
    kkt_residual,
    minimise_over_ball,
    start_between,
)

_CONVEX = s_poly(1.0)  # where fits of a surrogate that is not convex start
_MANY_FEATURES = 500  # above this a Hessian costs more than it gives
_BATCH = 1000
_VALIDATION_PART = 5


class LinearObjective:
    """The objective of rows as a function of w, the coefficients of scaled columns.

    Scaling the columns of X by ``factor`` is scaling the coefficients, so X is not copied: gradient
    and Hessian follow by the chain rule. Shifts of columns cancel in differences of scores.

    ``more`` goes to the objective of pairs: ``extremes`` of the columns of arrays, the ``known``
    sums and the ``level`` of rows that are read batch by batch.
    """

    def __init__(
        self,
        rows: Rows,
        levels: OutcomeLevels,
        weights: str | tuple[float, float],
        surrogate: Surrogate,
        factor: Floats,
        **more: Any,
    ) -> None:
        self.rows, self.levels, self.weights = rows, levels, weights
        self.surrogate, self.factor, self.more = surrogate, factor, more
        self.pairs: PairObjective | StreamedObjective
        how: dict[str, Any] = {"surrogate": surrogate, "weights": weights, "levels": levels} | more
        if isinstance(rows, ArrayRows):
            X, y, treated, weight = rows.columns
            self.pairs = PairObjective(X, y, treatment=treated, sample_weight=weight, **how)
        else:
            self.pairs = StreamedObjective(rows, **how)

    def take(self, places: NDArray[Any]) -> LinearObjective:
        """The objective of some of the rows in memory, by position."""
        assert isinstance(self.rows, ArrayRows)  # others are never taken apart
        some = self.rows.take(places)
        return LinearObjective(some, self.levels, self.weights, self.surrogate, self.factor)

    def convex(self) -> LinearObjective:
        """This objective or, if its surrogate is not convex, the one with s_poly."""
        if self.surrogate.convex:
            return self
        how = self.rows, self.levels, self.weights, _CONVEX, self.factor
        return LinearObjective(*how, **self.more)

    def value_and_gradient(self, w: Floats) -> tuple[float, Floats]:
        try:
            value, gradient = self.pairs.value_and_gradient(w * self.factor)
        except TooManyBinsError:
            # A trial step so long that it cannot be the minimum: let the solver step back.
            return np.inf, np.zeros_like(w)
        return value, gradient * self.factor

    def hessian(self, w: Floats) -> Floats:
        """An approximate Hessian for choosing steps."""
        w, pairs = w * self.factor, self.pairs
        rough = pairs.rough_hessian(w) if isinstance(pairs, PairObjective) else pairs.hessian(w)
        return rough * np.outer(self.factor, self.factor)


class TopFit(NamedTuple):
    """The solution on the largest ball (or without one), and the value at 0.

    ``level`` is how fine the bins of the objective had to be.
    """

    at_zero: Answer
    solution: BallSolution
    level: int


@dataclass(frozen=True)
class LinearPath:
    """Fits a linear score for each (norm, learning rate) of a grid."""

    solver: str = "auto"
    random_state: int | None = None

    def top_fit(self, objective: LinearObjective, radius: float = np.inf) -> TopFit:
        """Minimise over the largest ball (with s_poly if the surrogate is not convex)."""
        convex, zero = objective.convex(), np.zeros(len(objective.factor))
        method = self._method(convex)
        hessian = convex.hessian(zero) if method == "newton" else None
        at_zero = Answer(*convex.value_and_gradient(zero), hessian)
        solution = minimise_over_ball(convex, radius, start=zero, method=method, known=at_zero)
        return TopFit(at_zero, solution, convex.pairs.level)

    def fit(
        self,
        objective: LinearObjective,
        grid: Sequence[tuple[float, float | None]],
        top: TopFit | None = None,
        near: Sequence[BallSolution] | None = None,
        tolerance: float = TOLERANCE,
    ) -> list[BallSolution]:
        """A solution for each (norm, learning rate) of the grid, in order.

        ``top`` is the fit on the largest ball of the same rows, if it is known, or with ``near``,
        solutions of the same grid to start from, of similar rows.
        """
        if self.solver == "adam":
            return [self._fit_adam(objective, norm, rate or 1e-3) for norm, rate in grid]
        method, norms = self._method(objective), [norm for norm, _ in grid]
        if not objective.surrogate.convex:
            return self._from_convex(objective, norms, method)
        top = top or self.top_fit(objective, max(norms))
        scale = float(np.linalg.norm(top.at_zero.gradient))
        solutions = []
        for k, norm in enumerate(norms):
            found = top.solution
            if near is None and found.radius == norm:
                solutions.append(found)
                continue
            if near is None and found.converged and found.is_inside(norm):
                solutions.append(replace(found, radius=norm, n_steps=0, n_evaluations=0))
                continue
            start = start_between(top.at_zero, found, norm)
            if near is not None:
                start = {"start": near[k].w, "hessian": near[k].hessian}
            start |= {"method": method, "scale": scale, "tolerance": tolerance}
            solutions.append(minimise_over_ball(objective, norm, **start))
        return solutions

    def _method(self, objective: LinearObjective) -> str:
        if self.solver not in ("auto", "adam"):
            return self.solver
        if not objective.surrogate.convex:
            return "projected"
        return "newton" if len(objective.factor) <= _MANY_FEATURES else "lbfgs"

    def _from_convex(
        self, objective: LinearObjective, norms: Sequence[float], method: str
    ) -> list[BallSolution]:
        """Start from the direction of the convex s_poly solution."""
        convex, zero = objective.convex(), np.zeros(len(objective.factor))
        first_method = self._method(convex) if self.solver == "auto" else "newton"
        solutions = []
        for norm in norms:
            first = minimise_over_ball(convex, norm, start=zero, method=first_method)
            length = float(np.linalg.norm(first.w))
            start = first.w * (norm / length) if length > 0 and np.isfinite(norm) else first.w
            found = minimise_over_ball(objective, norm, start=start, method=method, max_steps=150)
            solutions.append(found)
        return solutions

    def _fit_adam(self, objective: LinearObjective, norm: float, rate: float) -> BallSolution:
        assert isinstance(objective.rows, ArrayRows)  # checked before
        rng = np.random.default_rng(self.random_state)
        heap = cells(objective.rows, objective.levels.cut_point)
        held_out = np.zeros(len(heap), dtype=bool)
        for code in np.unique(heap):  # both outcomes of both arms in both parts
            members = rng.permutation(np.flatnonzero(heap == code))
            held_out[members[: max(1, len(members) // _VALIDATION_PART)]] = True
        trained = np.flatnonzero(~held_out)
        judge = objective.take(np.flatnonzero(held_out))

        def batches(generator: Generator) -> Iterator[Callable[[Floats], Floats]]:
            """Gradients over random batches that contain a pair to rank in each arm."""
            order = trained[generator.permutation(len(trained))]
            for index in np.array_split(order, max(1, len(order) // _BATCH)):
                if len(np.unique(heap[index])) == 4:
                    batch = objective.take(index)
                    yield lambda w, batch=batch: batch.value_and_gradient(w)[1]  # type: ignore[misc]

        zero = np.zeros(len(objective.factor))
        w, n_epochs = adam_over_ball(
            batches,
            lambda w: judge.value_and_gradient(w)[0],
            norm,
            start=zero,
            learning_rate=rate,
            random_state=rng,
        )
        value, gradient = objective.value_and_gradient(w)
        scale = float(np.linalg.norm(objective.value_and_gradient(zero)[1])) or 1.0
        multiplier, residual = kkt_residual(w, gradient, norm)
        return BallSolution(
            w=w,
            value=value,
            multiplier=multiplier,
            residual=residual / scale,
            converged=residual / scale <= TOLERANCE,
            n_steps=n_epochs,
            n_evaluations=n_epochs,
            radius=norm,
        )
