"""Algorithm 1: fit one linear candidate per norm of a grid."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from auucmax._errors import level_of_caller
from auucmax._validation import Bools, Floats
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


def heaps(y: Floats, treated: Bools, levels: OutcomeLevels) -> NDArray[np.intp]:
    """Heap of each row, 0..3: control with low and high outcome, then treated."""
    return 2 * treated.astype(np.intp) + (y >= levels.cut_point)


class LinearObjective:
    """The objective as a function of w, the coefficients of scaled columns.

    Scaling the columns of X by ``factor`` is scaling the coefficients, so X is not copied: gradient
    and Hessian follow by the chain rule. Shifts of columns cancel in differences of scores.
    """

    def __init__(self, pairs: PairObjective | StreamedObjective, factor: Floats) -> None:
        self.pairs, self.factor = pairs, factor

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


class TrainingRows:
    """Scaled training rows, with the objective of each surrogate.

    ``factor`` (d,) of the columns; ``more`` goes to the objective: ``extremes`` of the columns of
    arrays, the ``known`` sums and the ``level`` of rows that are read batch by batch.
    """

    def __init__(
        self,
        rows: Rows,
        levels: OutcomeLevels,
        weights: str | tuple[float, float],
        factor: Floats,
        **more: Any,
    ) -> None:
        self.rows, self.levels, self.weights, self.factor = rows, levels, weights, factor
        self.more = more
        self._made: dict[int, LinearObjective] = {}

    def objective(self, surrogate: Surrogate) -> LinearObjective:
        """The objective for a surrogate, cached because it is expensive to build."""
        if id(surrogate) not in self._made:
            how: dict[str, Any] = {
                "surrogate": surrogate,
                "weights": self.weights,
                "levels": self.levels,
            }
            pairs: PairObjective | StreamedObjective
            if isinstance(self.rows, ArrayRows):
                X, y, treated, weight = self.rows.columns
                pairs = PairObjective(
                    X, y, treatment=treated, sample_weight=weight, **how, **self.more
                )
            else:
                pairs = StreamedObjective(self.rows, **how, **self.more)
            self._made[id(surrogate)] = LinearObjective(pairs, self.factor)
        return self._made[id(surrogate)]

    def take(self, places: NDArray[Any]) -> TrainingRows:
        """Select rows in memory by position."""
        assert isinstance(self.rows, ArrayRows)  # others are never taken apart
        return TrainingRows(self.rows.take(places), self.levels, self.weights, self.factor)


@dataclass(frozen=True)
class Candidate:
    """A fitted candidate: ``solution.w`` for scaled features, ``coef`` for the originals."""

    solution: BallSolution
    coef: Floats
    learning_rate: float | None
    seconds: float

    @property
    def norm(self) -> float:
        return self.solution.radius

    @property
    def w(self) -> Floats:
        return self.solution.w


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

    surrogate: Surrogate
    solver: str = "auto"
    random_state: int | None = None

    def top_fit(self, rows: TrainingRows, radius: float = np.inf) -> TopFit:
        """Minimise over the largest ball (with s_poly if the surrogate is not convex)."""
        convex = self.surrogate if self.surrogate.convex else _CONVEX
        objective, zero = rows.objective(convex), np.zeros(len(rows.factor))
        method = self._method(convex, len(zero))
        hessian = objective.hessian(zero) if method == "newton" else None
        at_zero = Answer(*objective.value_and_gradient(zero), hessian)
        solution = minimise_over_ball(objective, radius, start=zero, method=method, known=at_zero)
        return TopFit(at_zero, solution, objective.pairs.level)

    def fit(
        self,
        rows: TrainingRows,
        grid: Sequence[tuple[float, float | None]],
        top: TopFit | None = None,
    ) -> list[Candidate]:
        """Fit one candidate per (norm, learning rate) of the grid, in order.

        ``top`` is that of the same rows, if it is known.
        """
        if self.solver == "adam":
            return [self._fit_adam(rows, norm, rate or 1e-3) for norm, rate in grid]
        begin, norms = time.perf_counter(), [norm for norm, _ in grid]
        if not self.surrogate.convex:
            return _candidates([self._from_convex(rows, norm) for norm in norms], rows, begin)
        top = top or self.top_fit(rows, max(norms))
        solutions = []
        for norm in norms:  # smaller balls start from the minimiser over the largest
            found = top.solution
            if found.radius != norm:
                if found.converged and found.is_inside(norm):
                    found = replace(found, radius=norm, n_steps=0, n_evaluations=0)
                else:
                    start = start_between(top.at_zero, found, norm)
                    scale = float(np.linalg.norm(top.at_zero.gradient))
                    found = self._minimise(rows, norm, scale=scale, **start)
            solutions.append(found)
        return _candidates(solutions, rows, begin)

    def refit(
        self, rows: TrainingRows, near: Sequence[Candidate], top: TopFit | None, tolerance: float
    ) -> list[Candidate]:
        """Refit the same norms on similar rows, starting from the candidates ``near``."""
        if self.solver == "adam" or top is None or not self.surrogate.convex:
            return self.fit(rows, [(own.norm, own.learning_rate) for own in near])
        begin, scale = time.perf_counter(), float(np.linalg.norm(top.at_zero.gradient))
        solutions = [
            self._minimise(
                rows,
                own.norm,
                start=own.w,
                hessian=own.solution.hessian,
                scale=scale,
                tolerance=tolerance,
            )
            for own in near
        ]
        return _candidates(solutions, rows, begin)

    def _minimise(self, rows: TrainingRows, norm: float, **how: Any) -> BallSolution:
        method = self._method(self.surrogate, len(rows.factor))
        return minimise_over_ball(rows.objective(self.surrogate), norm, method=method, **how)

    def _method(self, surrogate: Surrogate, n_features: int) -> str:
        if self.solver not in ("auto", "adam"):
            return self.solver
        if not surrogate.convex:
            return "projected"
        return "newton" if n_features <= _MANY_FEATURES else "lbfgs"

    def _from_convex(self, rows: TrainingRows, norm: float) -> BallSolution:
        """Start from the direction of the convex s_poly solution."""
        zero = np.zeros(len(rows.factor))
        method = self._method(_CONVEX, len(zero)) if self.solver == "auto" else "newton"
        first = minimise_over_ball(rows.objective(_CONVEX), norm, start=zero, method=method)
        length = float(np.linalg.norm(first.w))
        start = first.w * (norm / length) if length > 0 and np.isfinite(norm) else first.w
        return self._minimise(rows, norm, start=start, max_steps=150)

    def _fit_adam(self, rows: TrainingRows, norm: float, rate: float) -> Candidate:
        assert isinstance(rows.rows, ArrayRows)  # checked before
        begin, rng = time.perf_counter(), np.random.default_rng(self.random_state)
        heap = heaps(rows.rows.y, rows.rows.treated, rows.levels)
        held_out = np.zeros(len(heap), dtype=bool)
        for code in np.unique(heap):  # both outcomes of both arms in both parts
            members = rng.permutation(np.flatnonzero(heap == code))
            held_out[members[: max(1, len(members) // _VALIDATION_PART)]] = True
        trained = np.flatnonzero(~held_out)
        judge = rows.take(np.flatnonzero(held_out)).objective(self.surrogate)

        def batches(generator: Generator) -> Iterator[Callable[[Floats], Floats]]:
            """Gradients over random batches that contain a pair to rank in each arm."""
            order = trained[generator.permutation(len(trained))]
            for index in np.array_split(order, max(1, len(order) // _BATCH)):
                if len(np.unique(heap[index])) == 4:
                    batch = rows.take(index).objective(self.surrogate)
                    yield lambda w, batch=batch: batch.value_and_gradient(w)[1]  # type: ignore[misc]

        zero = np.zeros(len(rows.factor))
        w, n_epochs = adam_over_ball(
            batches,
            lambda w: judge.value_and_gradient(w)[0],
            norm,
            start=zero,
            learning_rate=rate,
            random_state=rng,
        )
        whole = rows.objective(self.surrogate)
        value, gradient = whole.value_and_gradient(w)
        scale = float(np.linalg.norm(whole.value_and_gradient(zero)[1])) or 1.0
        multiplier, residual = kkt_residual(w, gradient, norm)
        solution = BallSolution(
            w=w,
            value=value,
            multiplier=multiplier,
            residual=residual / scale,
            converged=residual / scale <= TOLERANCE,
            n_steps=n_epochs,
            n_evaluations=n_epochs,
            radius=norm,
        )
        return Candidate(solution, w * rows.factor, rate, time.perf_counter() - begin)


def _candidates(
    solutions: Sequence[BallSolution], rows: TrainingRows, begin: float
) -> list[Candidate]:
    seconds = (time.perf_counter() - begin) / len(solutions)
    return [Candidate(found, found.w * rows.factor, None, seconds) for found in solutions]


def warn_of_failure(best: Candidate, solver: str) -> None:
    """Warn at the caller of ``fit`` if the chosen candidate has not converged."""
    if solver == "adam" and not best.w.any():
        warnings.warn(
            "adam should leave w = 0, got no epoch that improved the validation loss: all "
            "scores are equal. Try another learning rate, or solver='auto'.",
            ConvergenceWarning,
            stacklevel=level_of_caller(),
        )
    elif solver != "adam" and not best.solution.residual <= TOLERANCE:
        warnings.warn(
            f"the solver should reach a residual of 1e-6, got {best.solution.residual:.1g}. The "
            f"scores may still be useful; scale the features, or try another solver.",
            ConvergenceWarning,
            stacklevel=level_of_caller(),
        )
