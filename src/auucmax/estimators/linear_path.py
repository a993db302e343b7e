"""Linear scores fitted on a path of norms: the candidates among which AUUC-max chooses."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from auucmax._validation import Floats
from auucmax._warnings import level_of_caller
from auucmax.estimators.scaling import Scaling
from auucmax.estimators.training_rows import LearningRows, TrainingRows
from auucmax.pairs import Surrogate, TooManyBinsError, s_poly
from auucmax.pairs.linear import LinearPairs
from auucmax.solvers import (
    BallSolution,
    adam_over_ball,
    ball_path,
    kkt_residual,
    minimise_over_ball,
)

__all__ = ["Candidate", "LinearPath", "warn_of_failure"]

_MANY_FEATURES = 500  # above this a Hessian costs more than it gives
_BATCH = 1000
_VALIDATION_PART = 5


@dataclass(frozen=True)
class Candidate:
    """A fitted linear score: ``w`` of the scaled features, ``coef`` of the features themselves."""

    norm: float
    learning_rate: float | None
    w: Floats
    coef: Floats
    loss: float
    converged: bool
    residual: float
    n_evaluations: int
    seconds: float


class FreeFit(NamedTuple):
    """An objective, and its minimiser without a constraint if it is known."""

    surrogate: Surrogate
    objective: _Rescaled
    solution: BallSolution | None

    @property
    def norm(self) -> float:
        return 0.0 if self.solution is None else float(np.linalg.norm(self.solution.w))


@dataclass(frozen=True)
class LinearPath:
    """Fits a linear score for each (norm, learning rate), warm-started."""

    surrogate: Surrogate
    weights: str | tuple[float, float]
    scaling: Scaling
    solver: str
    random_state: int | None = None

    def free_fit(self, rows: LearningRows) -> FreeFit:
        """The unconstrained minimiser (of s_poly, where the surrogate is not convex)."""
        convex = self.surrogate if self.surrogate.convex else s_poly(1.0)
        objective, start = self._objective(rows, convex), np.zeros(rows.n_features)
        method = self._method(convex, len(start))
        return FreeFit(
            convex, objective, minimise_over_ball(objective, np.inf, start=start, method=method)
        )

    def fit(
        self,
        rows: LearningRows,
        grid: Sequence[tuple[float, float | None]],
        free: FreeFit | None = None,
    ) -> list[Candidate]:
        """One candidate for each (norm, learning rate) of the grid, in its order.

        ``free``: of the same rows, if it is known.
        """
        if self.solver == "adam":
            return [self._fit_adam(_in_memory(rows), norm, rate or 1e-3) for norm, rate in grid]
        start_time = time.perf_counter()
        if free is None or free.surrogate is not self.surrogate:
            free = FreeFit(self.surrogate, self._objective(rows, self.surrogate), None)
        method = self._method(self.surrogate, rows.n_features)
        norms = [norm for norm, _ in grid]
        if self.surrogate.convex:
            solutions = ball_path(
                free.objective,
                norms,
                start=np.zeros(rows.n_features),
                method=method,
                free=free.solution,
            )
        else:
            solutions = [
                self._fit_from_convex(rows, free.objective, norm, method) for norm in norms
            ]
        seconds = (time.perf_counter() - start_time) / len(norms)
        return [self._candidate(solution, None, seconds) for solution in solutions]

    def _objective(self, rows: LearningRows, surrogate: Surrogate) -> _Rescaled:
        return _Rescaled(rows.objective(surrogate, self.weights), self.scaling.factor)

    def _method(self, surrogate: Surrogate, n_features: int) -> str:
        if self.solver not in ("auto", "adam"):
            return self.solver
        if not surrogate.convex:
            return "projected"
        return "newton" if n_features <= _MANY_FEATURES else "lbfgs"

    def _fit_from_convex(
        self, rows: LearningRows, objective: _Rescaled, norm: float, method: str
    ) -> BallSolution:
        """Start at the direction of the s_poly solution, on the sphere."""
        convex, zero = s_poly(1.0), np.zeros(rows.n_features)
        first = minimise_over_ball(
            self._objective(rows, convex),
            norm,
            start=zero,
            method=self._method(convex, len(zero)) if self.solver == "auto" else "newton",
        ).w
        length = float(np.linalg.norm(first))
        start = first * (norm / length) if length > 0 and np.isfinite(norm) else first
        return minimise_over_ball(objective, norm, start=start, method=method, max_steps=500)

    def _fit_adam(self, rows: TrainingRows, norm: float, rate: float) -> Candidate:
        start_time = time.perf_counter()
        rng = np.random.default_rng(self.random_state)
        held_out = np.zeros(len(rows.y), dtype=bool)
        for code in np.unique(_strata(rows)):  # both outcomes of both arms in both parts
            members = rng.permutation(np.flatnonzero(_strata(rows) == code))
            held_out[members[: max(1, len(members) // _VALIDATION_PART)]] = True
        train, validation = (
            rows.take(np.flatnonzero(~held_out)),
            rows.take(np.flatnonzero(held_out)),
        )
        judge = self._objective(validation, self.surrogate)
        w, n_epochs = adam_over_ball(
            lambda generator: self._batches(train, generator),
            lambda w: judge.value_and_gradient(w)[0],
            norm,
            start=np.zeros(rows.X.shape[1]),
            learning_rate=rate,
            random_state=rng,
        )
        whole = self._objective(rows, self.surrogate)
        loss, gradient = whole.value_and_gradient(w)
        multiplier, residual = kkt_residual(w, gradient, norm)
        scale = float(np.linalg.norm(whole.value_and_gradient(np.zeros(len(w)))[1])) or 1.0
        solution = BallSolution(
            w=w,
            value=loss,
            multiplier=multiplier,
            residual=residual / scale,
            converged=residual / scale <= 1e-6,
            n_steps=n_epochs,
            n_evaluations=n_epochs,
            radius=norm,
        )
        return self._candidate(solution, rate, time.perf_counter() - start_time)

    def _batches(self, rows: TrainingRows, rng: Generator) -> Iterator[Callable[[Floats], Floats]]:
        """Gradients of batches of rows that hold a pair to rank in each arm."""
        order = rng.permutation(len(rows.y))
        n_batches = max(1, len(order) // _BATCH)
        for index in np.array_split(order, n_batches):
            batch = rows.take(index)
            if len(np.unique(_strata(batch))) == 4:
                yield self._objective(batch, self.surrogate).gradient

    def _candidate(self, solution: BallSolution, rate: float | None, seconds: float) -> Candidate:
        return Candidate(
            norm=solution.radius,
            learning_rate=rate,
            w=solution.w,
            coef=solution.w * self.scaling.factor,
            loss=solution.value,
            converged=solution.converged,
            residual=solution.residual,
            n_evaluations=solution.n_evaluations,
            seconds=seconds,
        )


def warn_of_failure(best: Candidate, solver: str) -> None:
    """Where the chosen candidate is no minimiser; for the caller's ``fit``."""
    if solver == "adam":
        if not best.w.any():
            warnings.warn(
                "adam should leave w = 0, got no epoch that improved the validation loss: all "
                "scores are equal. Try another learning rate, or solver='auto'.",
                ConvergenceWarning,
                stacklevel=level_of_caller(),
            )
    elif not best.converged:
        warnings.warn(
            f"the solver should reach a residual of 1e-6, got {best.residual:.1g}. The scores may "
            f"still be useful; scale the features, or try another solver.",
            ConvergenceWarning,
            stacklevel=level_of_caller(),
        )


@dataclass(frozen=True)
class _Rescaled:
    """The objective as a function of w, the coefficients of the scaled columns.

    Scaling the columns of X by a factor is scaling the coefficients, so X is not copied: gradient
    and Hessian follow by the chain rule. Shifts of columns cancel in differences of scores.
    """

    objective: LinearPairs
    factor: Floats

    def value_and_gradient(self, w: Floats) -> tuple[float, Floats]:
        try:
            value, gradient = self.objective.value_and_gradient(w * self.factor)
        except TooManyBinsError:
            # A trial step so long that it cannot be the minimum: let the solver step back.
            return np.inf, np.zeros_like(w)
        return value, gradient * self.factor

    def gradient(self, w: Floats) -> Floats:
        return self.value_and_gradient(w)[1]

    def hessian(self, w: Floats) -> Floats:
        return self.objective.rough_hessian(w * self.factor) * np.outer(self.factor, self.factor)


def _in_memory(rows: LearningRows) -> TrainingRows:
    if not isinstance(rows, TrainingRows):
        raise ValueError(
            "solver='adam' should have all rows in memory, got rows that are read batch by batch. "
            "Use solver='auto'."
        )
    return rows


def _strata(rows: TrainingRows) -> NDArray[np.int64]:
    return np.asarray(2 * rows.treated + (rows.y > 0), dtype=np.int64)
