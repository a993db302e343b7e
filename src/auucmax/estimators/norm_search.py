"""Algorithm 1: fit one linear candidate per norm of a grid.

``known_of`` first computes the statistics of the rows that this needs, in memory or by batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from auucmax._errors import InputError
from auucmax._validation import Floats
from auucmax.data.hashing import Checksum
from auucmax.estimators.base import cells
from auucmax.estimators.scaling import (
    Scaling,
    column_squares,
    fit_scaling,
    scaled_radius,
    scaling_of,
    unit_rows,
)
from auucmax.pairs import (
    OutcomeLevels,
    PairObjective,
    StreamedObjective,
    Surrogate,
    TooManyBinsError,
    s_poly,
)
from auucmax.pairs.linear import ClassSums, class_sums
from auucmax.pairs.losses import few_values, outcome_sums
from auucmax.rows import ArrayRows, Batch, Extremes, Rows, Share
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

    Scaling the columns of X by ``factor`` equals scaling the coefficients, so X is not copied:
    gradient and Hessian follow by the chain rule. Shifts of columns cancel in differences of
    scores.

    ``options`` are those of the objective of pairs: ``levels`` and ``weights``; ``extremes`` of the
    columns of arrays; the ``known`` sums and the ``level`` of rows that are read batch by batch.
    """

    def __init__(self, rows: Rows, factor: Floats, surrogate: Surrogate, **options: Any) -> None:
        self.rows, self.factor, self.surrogate, self.options = rows, factor, surrogate, options
        self.pairs: PairObjective | StreamedObjective
        how: dict[str, Any] = options | {"surrogate": surrogate}
        if isinstance(rows, ArrayRows):
            X, y, treated, weight = rows.columns
            self.pairs = PairObjective(X, y, treatment=treated, sample_weight=weight, **how)
        else:
            self.pairs = StreamedObjective(rows, **how)

    def take(self, places: NDArray[Any]) -> LinearObjective:
        """The objective of some of the rows in memory, by position."""
        assert isinstance(self.rows, ArrayRows)  # others are never taken apart
        options = {name: self.options[name] for name in ("levels", "weights")}
        return LinearObjective(self.rows.take(places), self.factor, self.surrogate, **options)

    def convex(self) -> LinearObjective:
        """This objective or, if its surrogate is not convex, the one with s_poly."""
        if self.surrogate.convex:
            return self
        return LinearObjective(self.rows, self.factor, _CONVEX, **self.options)

    def value_and_gradient(self, w: Floats) -> tuple[float, Floats]:
        try:
            value, gradient = self.pairs.value_and_gradient(w * self.factor)
        except TooManyBinsError:
            # A trial step so long that it cannot be the minimum: let the solver step back.
            return np.inf, np.zeros_like(w)
        return value, gradient * self.factor

    def hessian(self, w: Floats) -> Floats:
        """An approximate Hessian for choosing steps."""
        return self.pairs.hessian(w * self.factor) * np.outer(self.factor, self.factor)


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
        heap = cells(objective.rows, objective.pairs.levels.cut_point)
        held_out = np.zeros(len(heap), dtype=bool)
        for code in np.unique(heap):  # both outcomes of both arms in both parts
            members = rng.permutation(np.flatnonzero(heap == code))
            held_out[members[: max(1, len(members) // _VALIDATION_PART)]] = True
        trained = np.flatnonzero(~held_out)
        judge = objective.take(np.flatnonzero(held_out))

        def gradient_of(batch: LinearObjective, w: Floats) -> Floats:
            return batch.value_and_gradient(w)[1]

        def batches(generator: Generator) -> Iterator[Callable[[Floats], Floats]]:
            """Gradients over random batches that contain a pair to rank in each arm."""
            order = trained[generator.permutation(len(trained))]
            for index in np.array_split(order, max(1, len(order) // _BATCH)):
                if len(np.unique(heap[index])) == 4:
                    batch = objective.take(index)
                    yield partial(gradient_of, batch)

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


class Known(NamedTuple):
    """Statistics of the rows; ``sums`` and ``checksum`` only for streams.

    ``counts`` are the weights of treated rows with high and low outcomes, then of controls. High
    outcomes are responses, if outcomes are 0/1; see ``OutcomeLevels``.
    """

    n_rows: int
    levels: OutcomeLevels
    scaling: Scaling
    counts: Floats
    sums: ClassSums | None = None
    checksum: Checksum | None = None

    def objective(
        self,
        rows: Rows,
        weights: str | tuple[float, float],
        surrogate: Surrogate,
        level: int = 0,
    ) -> LinearObjective:
        """Objective on some or all of the rows.

        ``level`` is the initial resolution of the bins of streamed rows.
        """
        moved = self.scaling.of(rows)
        options: dict[str, Any] = {"levels": self.levels, "weights": weights}
        if not isinstance(rows, ArrayRows):
            options |= {"level": level, "known": self.sums if moved is rows else None}
        elif self.scaling.offset is None and len(rows.y) == self.n_rows:
            options["extremes"] = self.scaling.low, self.scaling.high
        return LinearObjective(moved, self.scaling.factor, surrogate, **options)


def heap_weights(rows: ArrayRows, levels: OutcomeLevels) -> Floats:
    """Weights of treated rows with high and low outcomes, then of controls."""
    found = np.bincount(cells(rows, levels.cut_point), rows.weight, minlength=4)
    return found[[3, 2, 1, 0]].astype(np.float64)


def known_of(rows: Rows, scale: str) -> Known:
    """Compute outcome levels and scaling, in one pass over a stream or a few more."""
    if isinstance(rows, ArrayRows):
        scaling, levels = fit_scaling(rows.X, scale, rows.weight), OutcomeLevels.of(rows)
        return Known(len(rows.y), levels, scaling, heap_weights(rows, levels))
    sums, squares, checksum, outcomes = rows.total(_binary_sums, _squares, checksum_of, few_values)
    _check(sums, rows.names)
    levels, extremes = OutcomeLevels.cut(rows, outcomes), sums.extremes
    if not levels.binary:
        sums, totals = rows.total(
            partial(class_sums, levels=levels), partial(outcome_sums, levels=levels)
        )
        levels = levels.valued(totals)
    if scale == "unit-rows":
        extremes = rows.map(unit_rows).total(_binary_sums)[0].extremes
    scaling = scaling_of(
        scale, extremes.low, extremes.high, squares=squares if scale == "column-l2" else None
    )
    counts = levels.high_counts(sums.weights)
    return Known(checksum.n_rows, levels, scaling, counts, sums, checksum)


def checksum_of(batch: Batch) -> Checksum:
    """Batch summary: the checksum of the rows."""
    return Checksum.of(batch.X, batch.y, batch.treated)


def _binary_sums(batch: Batch) -> ClassSums:
    """Batch summary: sums by class of 0/1 outcomes."""
    return class_sums(batch._replace(y=(batch.y == 1).astype(np.float64)))


def _squares(batch: Batch) -> Floats:
    return column_squares(batch.X, batch.weight)


def _check(sums: ClassSums, names: Sequence[str]) -> None:
    """Raise an InputError for non-finite features, or rows of only one arm."""
    treated, control = sums.counts.reshape(2, -1).sum(axis=1).tolist()
    if not treated + control:
        return  # other checks name the reason
    bad = np.flatnonzero(~np.isfinite(sums.extremes.low) | ~np.isfinite(sums.extremes.high))
    if len(bad):
        raise InputError(
            f"the column {names[bad[0]]!r}", "finite numbers", "a missing or infinite one",
            "Fill it in, or leave the column out.",
        )  # fmt: skip
    if not treated or not control:
        raise InputError(
            "treatment", "treated in some rows and control in others",
            f"{'treated' if treated else 'control'} in all {int(treated + control):,} rows",
            "An effect needs both arms.",
        )  # fmt: skip


def search_rows(rows: Rows, known: Known, share: float, seed: int) -> tuple[ArrayRows, float]:
    """Rows for the norm search: a random sample in memory, with the radius R of all rows."""
    if isinstance(rows, ArrayRows):
        few = rows if share >= 1 else rows.part(Share(share, seed))
        return few, scaled_radius(rows.X, known.scaling)
    gathered, largest = rows.total(
        partial(_gather, share=Share(share, seed)), partial(_largest_norm, scaling=known.scaling)
    )
    X, y, treated, keys, weight = zip(*gathered, strict=True)
    few = ArrayRows(
        np.concatenate(X),
        np.concatenate(y),
        np.concatenate(treated),
        np.concatenate(weight) if rows.weighted else None,
        names=rows.names,
        keys=np.concatenate(keys),
    )
    return few, float(largest.high)


def _gather(batch: Batch, share: Share) -> list[Batch]:
    return [share(batch)]


def _largest_norm(batch: Batch, scaling: Scaling) -> Extremes:
    return Extremes(np.zeros(()), np.asarray(scaled_radius(batch.X, scaling)))


def scaled_weights(rows: Rows) -> Rows:
    """A stream with weights as in :func:`auucmax.estimators.base.row_weights`.

    Weights that are not whole are scaled to mean 1: one reading, if there are weights.
    """
    if isinstance(rows, ArrayRows) or not rows.weighted:
        return rows
    ((n_rows, total, n_broken),) = rows.total(_weight_sums)
    return rows.part(partial(_reweighted, factor=n_rows / total)) if n_broken else rows


def _weight_sums(batch: Batch) -> Floats:
    """Number of rows, total weight, and number of fractional weights."""
    weight = np.asarray(batch.weight)
    return np.array([len(weight), weight.sum(), (weight != np.rint(weight)).sum()])


def _reweighted(batch: Batch, factor: float) -> Batch:
    return batch._replace(weight=factor * np.asarray(batch.weight))
