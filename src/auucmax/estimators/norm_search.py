"""Algorithm 1 for a linear score: a candidate for each norm of a grid, and the choice of one.

Everything here is a question (:mod:`auucmax.rows`): solvers of all norms, and of all folds, share
the readings of the rows.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.random import Generator
from sklearn.exceptions import ConvergenceWarning

from auucmax._asking import relay
from auucmax._messages import level_of_caller
from auucmax._validation import Floats
from auucmax.certificates.bound import LowerBound
from auucmax.certificates.paper import paper_gap
from auucmax.estimators.learning_rows import FOLD_BINS, Fold, InMemory, LearningRows
from auucmax.estimators.scaling import Scaling
from auucmax.pairs import PairObjective, StreamedObjective, Surrogate, TooManyBinsError, s_poly
from auucmax.rows import Question, ask, together
from auucmax.solvers import (
    TOLERANCE,
    Answer,
    BallSolution,
    Solver,
    adam_over_ball,
    kkt_residual,
    solver,
    start_between,
)

Grid = list[tuple[float, float | None]]  #: norms and learning rates

FOLD_TOLERANCE = 1e-4  #: of the fits that are only compared
_MANY_FEATURES = 500  # above this a Hessian costs more than it gives
_BATCH = 1000
_VALIDATION_PART = 5


@dataclass(frozen=True)
class Candidate:
    """A fitted linear score: ``solution.w`` of the scaled features, ``coef`` of those given."""

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
    """The minimiser over the largest ball of a grid, or over no ball, and what was met at 0."""

    at_zero: Answer
    solution: BallSolution
    level: int

    @property
    def norm(self) -> float:
        return float(np.linalg.norm(self.solution.w))

    @property
    def scale(self) -> float:
        return float(np.linalg.norm(self.at_zero.gradient))


@dataclass(frozen=True)
class LinearPath:
    """Fits a linear score for each (norm, learning rate)."""

    surrogate: Surrogate
    weights: str | tuple[float, float]
    scaling: Scaling
    solver: str
    random_state: int | None = None

    def top_fit(self, rows: LearningRows, radius: float = np.inf) -> Question[TopFit]:
        """The minimiser over the largest ball (of s_poly, where the surrogate is not convex)."""
        convex = self.surrogate if self.surrogate.convex else s_poly(1.0)
        method = self._method(convex, rows.n_features)
        objective, zero = self._objective(rows, convex), np.zeros(rows.n_features)
        at_zero = yield from objective.answer(zero, method == "newton")
        found = yield from objective.answers(
            solver(radius, start=zero, method=method, known=at_zero)
        )
        return TopFit(at_zero, found, objective.level)

    def fit(
        self, rows: LearningRows, grid: Grid, top: TopFit | None = None
    ) -> Question[list[Candidate]]:
        """One candidate for each (norm, learning rate) of the grid, in its order.

        ``top`` is that of the same rows, if it is known.
        """
        if self.solver == "adam":
            return [self._fit_adam(rows, norm, rate or 1e-3) for norm, rate in grid]
        begin, norms = time.perf_counter(), [norm for norm, _ in grid]
        if self.surrogate.convex:
            # Smaller balls start from the minimiser over the largest, with its Hessian.
            if top is None:
                top = yield from self.top_fit(rows, max(norms))
            fits = [self._smaller(rows, norm, top) for norm in norms]
        else:
            fits = [self._from_convex(rows, norm) for norm in norms]
        return (yield from self._candidates(fits, begin))

    def refit(
        self, rows: LearningRows, near: Sequence[Candidate], top: TopFit | None, tolerance: float
    ) -> Question[list[Candidate]]:
        """Candidates of the same norms on other rows that resemble those of ``near``."""
        if self.solver == "adam" or top is None or not self.surrogate.convex:
            return (yield from self.fit(rows, [(c.norm, c.learning_rate) for c in near]))
        fits = [
            self._minimise(
                rows,
                candidate.norm,
                top.level,
                start=candidate.w,
                hessian=candidate.solution.hessian,
                scale=top.scale,
                tolerance=tolerance,
            )
            for candidate in near
        ]
        return (yield from self._candidates(fits, time.perf_counter()))

    def _candidates(
        self, fits: Sequence[Question[BallSolution]], begin: float
    ) -> Question[list[Candidate]]:
        solutions = yield from together(*fits)
        seconds = (time.perf_counter() - begin) / len(fits)
        return [self._candidate(solution, None, seconds) for solution in solutions]

    def _smaller(self, rows: LearningRows, radius: float, top: TopFit) -> Question[BallSolution]:
        """The minimiser over a smaller ball, started from that over the largest."""
        if top.solution.radius == radius:
            return top.solution
        if top.solution.converged and top.solution.is_inside(radius):
            return replace(top.solution, radius=radius, n_steps=0, n_evaluations=0)
        start = start_between(top.at_zero, top.solution, radius)
        return (yield from self._minimise(rows, radius, top.level, scale=top.scale, **start))

    def _minimise(
        self, rows: LearningRows, radius: float, level: int, **how: Any
    ) -> Question[BallSolution]:
        objective = self._objective(rows, self.surrogate, level)
        method = self._method(self.surrogate, rows.n_features)
        return (yield from objective.answers(solver(radius, method=method, **how)))

    def _objective(self, rows: LearningRows, surrogate: Surrogate, level: int = 0) -> _Rescaled:
        return _Rescaled(rows.objective(surrogate, self.weights, level), self.scaling.factor)

    def _method(self, surrogate: Surrogate, n_features: int) -> str:
        if self.solver not in ("auto", "adam"):
            return self.solver
        if not surrogate.convex:
            return "projected"
        return "newton" if n_features <= _MANY_FEATURES else "lbfgs"

    def _from_convex(self, rows: LearningRows, norm: float) -> Question[BallSolution]:
        """Start at the direction of the s_poly solution, on the sphere."""
        convex, zero = s_poly(1.0), np.zeros(rows.n_features)
        method = self._method(convex, len(zero)) if self.solver == "auto" else "newton"
        first = yield from self._objective(rows, convex).answers(
            solver(norm, start=zero, method=method)
        )
        length = float(np.linalg.norm(first.w))
        start = first.w * (norm / length) if length > 0 and np.isfinite(norm) else first.w
        return (yield from self._minimise(rows, norm, 0, start=start, max_steps=150))

    def _fit_adam(self, given: LearningRows, norm: float, rate: float) -> Candidate:
        if not isinstance(given, InMemory):
            raise ValueError(
                "solver='adam' should have all rows in memory, got rows that are read batch by "
                "batch. Use solver='auto'."
            )
        begin = time.perf_counter()
        rng = np.random.default_rng(self.random_state)
        held_out = np.zeros(given.n_rows, dtype=bool)
        for code in np.unique(given.cells):  # both outcomes of both arms in both parts
            members = rng.permutation(np.flatnonzero(given.cells == code))
            held_out[members[: max(1, len(members) // _VALIDATION_PART)]] = True
        train = given.take(np.flatnonzero(~held_out))
        judge = self._objective(given.take(np.flatnonzero(held_out)), self.surrogate)
        w, n_epochs = adam_over_ball(
            lambda generator: self._batches(train, generator),
            lambda w: ask(judge.answer(w)).value,
            norm,
            start=np.zeros(given.n_features),
            learning_rate=rate,
            random_state=rng,
        )
        whole = self._objective(given, self.surrogate)
        loss, gradient, _ = ask(whole.answer(w))
        multiplier, residual = kkt_residual(w, gradient, norm)
        scale = float(np.linalg.norm(ask(whole.answer(np.zeros(len(w)))).gradient)) or 1.0
        solution = BallSolution(
            w=w,
            value=loss,
            multiplier=multiplier,
            residual=residual / scale,
            converged=residual / scale <= TOLERANCE,
            n_steps=n_epochs,
            n_evaluations=n_epochs,
            radius=norm,
        )
        return self._candidate(solution, rate, time.perf_counter() - begin)

    def _batches(self, rows: InMemory, rng: Generator) -> Iterator[Callable[[Floats], Floats]]:
        """Gradients of batches of rows that hold a pair to rank in each arm."""
        order = rng.permutation(rows.n_rows)
        n_batches = max(1, len(order) // _BATCH)
        for index in np.array_split(order, n_batches):
            batch = rows.take(index)
            if len(np.unique(batch.cells)) == 4:
                yield partial(_gradient, self._objective(batch, self.surrogate))

    def _candidate(self, solution: BallSolution, rate: float | None, seconds: float) -> Candidate:
        return Candidate(solution, solution.w * self.scaling.factor, rate, seconds)


@dataclass(frozen=True)
class _Rescaled:
    """The objective as a function of w, the coefficients of the scaled columns.

    Scaling the columns of X by a factor is scaling the coefficients, so X is not copied: gradient
    and Hessian follow by the chain rule. Shifts of columns cancel in differences of scores.
    """

    objective: PairObjective | StreamedObjective
    factor: Floats

    @property
    def level(self) -> int:
        return self.objective.level

    def answer(self, w: Floats, hessian: bool = False) -> Question[Answer]:
        """Value, gradient and perhaps Hessian in w: what a solver asks for at a point."""
        try:
            value, gradient, bend = yield from self.objective.reply(w * self.factor, hessian)
        except TooManyBinsError:
            # A trial step so long that it cannot be the minimum: let the solver step back.
            return Answer(np.inf, np.zeros_like(w))
        bend = None if bend is None else bend * np.outer(self.factor, self.factor)
        return Answer(value, gradient * self.factor, bend)

    def answers(self, asking: Solver) -> Question[BallSolution]:
        """Run a solver to its solution, answering each point that it asks for."""
        return relay(asking, lambda asked: self.answer(*asked))


def _gradient(objective: _Rescaled, w: Floats) -> Floats:
    return ask(objective.answer(w)).gradient


class BestCandidate(NamedTuple):
    """The number of the chosen candidate, the first of equal ones, and what each was judged by."""

    best: int
    table: list[dict[str, float]]

    @classmethod
    def by(cls, values: Sequence[float], name: str) -> BestCandidate:
        """The candidate with the largest value.

        >>> BestCandidate.by([1.0, 3.0, 3.0], "bound").best
        1
        """
        return cls(int(np.argmax(values)), [{name: float(value)} for value in values])


def best_over_folds(values: Sequence[Sequence[float]]) -> BestCandidate:
    """The candidate with the largest mean; a row of ``values`` for each fold.

    >>> best_over_folds([[1.0, 5.0], [2.0, 3.0]]).best
    1
    """
    scores = np.array(values)
    mean, error = scores.mean(axis=0), scores.std(axis=0, ddof=1) / np.sqrt(len(scores))
    table = [
        {"cv": float(m), "cv_standard_error": float(e)} for m, e in zip(mean, error, strict=True)
    ]
    return BestCandidate(int(np.argmax(mean)), table)


class Choice(NamedTuple):
    """The chosen candidate, a row for each, and the paper's bound for the chosen one.

    The bound is None if there was no choice, or if outcomes are not 0/1.
    """

    best: Candidate
    paper_bound: LowerBound | None
    table: pd.DataFrame
    top: TopFit | None


@dataclass(frozen=True)
class NormSearch:
    """Candidates for each norm and each learning rate, and what they are compared by.

    ``norms`` go from small to large; ``relative``: they are parts of the norm of the unconstrained
    minimiser. ``selection`` is "cv", "bound", "certificate" (which takes rows held out) or None.
    """

    path: LinearPath
    norms: Sequence[float]
    relative: bool
    learning_rates: Sequence[float | None]
    selection: str | None
    delta: float

    def choose(self, rows: LearningRows, held_out: LearningRows | None = None) -> Question[Choice]:
        """Fit all on the rows, which are scaled, and choose on them or on those held out."""
        by_folds = self.selection == "cv" and len(self.norms) * len(self.learning_rates) > 1
        top, folds = yield from together(
            self._top(rows), rows.folds(self.path.random_state) if by_folds else _nothing()
        )
        grid = self._grid(top)
        candidates = yield from self.path.fit(rows, grid, top)
        if len(grid) == 1 and self.selection is None:  # nothing to choose: spare the sort
            table = _path_table(candidates, [None], BestCandidate(0, [{}]))
            return Choice(candidates[0], None, table, top)
        bounds, judged, held = yield from together(
            self._paper_bounds(candidates, rows),
            together(*(self._judge(fold, candidates, top) for fold in folds or [])),
            _nothing()
            if held_out is None
            else held_out.auucs([c.coef for c in candidates], "joint"),
        )
        if held_out is not None:
            selection = BestCandidate.by(held, "held_out_auuc")
        elif by_folds:
            selection = best_over_folds(judged)
        elif len(grid) == 1:
            selection = BestCandidate(0, [{}])
        else:
            selection = BestCandidate.by([bound.lower for bound in bounds], "paper_bound")
        best = selection.best
        table = _path_table(candidates, bounds, selection)
        bound = bounds[best] if rows.levels.binary else None
        return Choice(candidates[best], bound, table, top)

    def _top(self, rows: LearningRows) -> Question[TopFit | None]:
        """The fit over the largest ball, where others start from it or norms are parts of it.

        None where neither is so: without convexity no candidate is a start for another.
        """
        convex = self.path.surrogate.convex and self.path.solver != "adam"
        if not (convex or self.relative):
            return None
        radius = np.inf if self.relative else max(self.norms)
        return (yield from self.path.top_fit(rows, radius))

    def _grid(self, top: TopFit | None) -> Grid:
        norms = self.norms
        if self.relative and top is not None:
            # A trial in which no feature tells anything has a free norm of 0.
            norms = [(top.norm or 1.0) * part for part in norms]
        return [(norm, rate) for norm in norms for rate in self.learning_rates]

    def _judge(
        self, fold: Fold, candidates: Sequence[Candidate], top: TopFit | None
    ) -> Question[list[float]]:
        """AUUC of the candidates' norms in a fold, by models trained on the other folds."""
        fitted = yield from self.path.refit(fold.train(), candidates, top, FOLD_TOLERANCE)
        return (yield from fold.test().auucs([c.coef for c in fitted], "joint", FOLD_BINS))

    def _paper_bounds(
        self, candidates: Sequence[Candidate], rows: LearningRows
    ) -> Question[list[LowerBound]]:
        radius, auucs = yield from together(
            rows.radius(self.path.scaling), rows.auucs([c.coef for c in candidates], "separate")
        )
        bounds = []
        for candidate, auuc in zip(candidates, auucs, strict=True):
            # Without a constraint the norm that was reached stands for Lambda.
            reached = float(np.linalg.norm(candidate.w))
            norm = candidate.norm if np.isfinite(candidate.norm) else reached
            gap = np.nan  # the bound is one of 0/1 outcomes
            if rows.levels.binary:
                gap = paper_gap(*rows.class_counts(), norm=norm, radius=radius, delta=self.delta)
            bounds.append(LowerBound("paper", lower=auuc - gap, estimate=auuc, delta=self.delta))
        return bounds


def warn_of_failure(best: Candidate, solver: str) -> None:
    """Warn, at the line that called ``fit``, if the chosen candidate is no minimiser."""
    if solver == "adam":
        if not best.w.any():
            warnings.warn(
                "adam should leave w = 0, got no epoch that improved the validation loss: all "
                "scores are equal. Try another learning rate, or solver='auto'.",
                ConvergenceWarning,
                stacklevel=level_of_caller(),
            )
    elif not best.solution.residual <= TOLERANCE:
        warnings.warn(
            f"the solver should reach a residual of 1e-6, got {best.solution.residual:.1g}. The "
            f"scores may still be useful; scale the features, or try another solver.",
            ConvergenceWarning,
            stacklevel=level_of_caller(),
        )


def _nothing() -> Question[None]:
    """A question that asks nothing."""
    yield from ()


def _path_table(
    candidates: Sequence[Candidate], bounds: Sequence[LowerBound | None], selection: BestCandidate
) -> pd.DataFrame:
    """A row for each candidate: what it is, what it reached, and what it was chosen by."""
    table = [
        {
            "norm": c.norm,
            "learning_rate": c.learning_rate,
            "norm_reached": float(np.linalg.norm(c.w)),
            "loss": c.solution.value,
            "train_auuc": np.nan if bound is None else bound.estimate,
            "paper_bound": np.nan if bound is None else bound.lower,
            "converged": c.solution.converged,
            "residual": c.solution.residual,
            "evaluations": c.solution.n_evaluations,
            "seconds": c.seconds,
            **chosen_by,
            "chosen": number == selection.best,
        }
        for number, (c, bound, chosen_by) in enumerate(
            zip(candidates, bounds, selection.table, strict=True)
        )
    ]
    return pd.DataFrame(table)
