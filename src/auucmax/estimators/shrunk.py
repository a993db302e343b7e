"""A logistic or linear model with shrunk interactions with the treatment, averaged over its path.

    logit P(y = 1 | x, t) = a + b.x + d (c + g.x),    d = t - share of treated rows

minimises the mean log-loss plus (tiny ||b||^2 + strength ||g||^2) / 2 on standardised features.
With a large strength the effect is a constant on the scale of log-odds, with a small one that of
two logistic regressions. Of numbers the mean, by squared loss, takes the place of the log-odds
(:mod:`auucmax.estimators.targets`). Deviations from a constant effect are bought by likelihood: the
models of all strengths are averaged with weights exp(-out-of-fold log-loss).

All folds and strengths are minimised together, each step by one pass over the rows
(:mod:`auucmax.estimators.logistic`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from auucmax._validation import Bools, Floats, check_positive, check_whole
from auucmax.estimators.base import UpliftEstimator
from auucmax.estimators.learning_rows import array_rows, cells, seed_of
from auucmax.estimators.logistic import (
    BLOCK,
    Codes,
    Design,
    FoldOf,
    Folds,
    Losses,
    Made,
    dealt_folds,
    design_of,
    expanded,
    filled,
)
from auucmax.estimators.targets import Loss, Target, loss_of, target_of
from auucmax.rows import ArrayRows, Batch, ask
from auucmax.solvers import Answer, Ask, BallSolution, Solver, solver

STRENGTHS = (1e4, 1.0, 0.1, 0.03, 0.01, 0.003, 0.0003)
N_FOLDS = 4
MAIN_STRENGTH = 1e-5  #: of the penalty on b, which only keeps it finite
_LEAST_WEIGHT = 1e-4  # of a strength, below which its model is left out
_TOLERANCE = 1e-6
_KEPT = 2**25  # features that are kept while models are fitted; of more, blocks are made anew


class ShrunkInteractions(UpliftEstimator):
    """SI: logistic regression with shrunk interactions, averaged over the strengths of shrinkage.

        score(x) = sum_k weight_k (P_k(y = 1 | x, treated) - P_k(y = 1 | x, control))

    See :mod:`auucmax.estimators.shrunk`. Of an outcome that is not 0/1 it learns whether, or
    numbers (:mod:`auucmax.estimators.targets`): P is then that of the outcome not being the usual
    one, times an amount, or a mean. Features may be missing (NaN): the median stands for them.

    Parameters
    ----------
    hinges : whether columns of more than 8 different values also enter as max(x - q, 0) at their
        quartiles q, in main effects and interactions.
    strengths : of the penalty on interactions.
    n_folds : by which strengths are weighed, each with its share of every arm and outcome; fewer,
        where an outcome of an arm has fewer rows.
    random_state : of the folds.
    control : label of the control group, when treatment is not 0/1.

    Attributes
    ----------
    modelled_ : "0/1", "whether" or "number": what of the outcome is modelled.
    amounts_ : (2,) what the predictions for treated and control are multiplied by; 1 for 0/1.
    path_ : frame with the strength, the out-of-fold log-loss (total) and the weight of each model.
    weights_ : (k,) of the models that count.
    treated_coef_, control_coef_ : (k, p) coefficients of each arm, for the columns and then the
        hinges, in the user's units; ``treated_intercept_`` and ``control_intercept_`` are (k,).
    hinge_columns_, hinge_knots_ : (h,) column, and q, of each hinge; p = d + h.
    fill_ : (d,) what stands for missing values.
    n_parameters_ : numbers that scoring needs.

    Examples
    --------
    >>> from auucmax import load_hillstrom
    >>> train, test = load_hillstrom().split(random_state=0)
    >>> model = ShrunkInteractions(random_state=0)
    >>> model = model.fit(train.X, train.y, treatment=train.treatment)
    >>> model.path_["weight"].sum().round(6)
    np.float64(1.0)
    >>> model.score(test.X, test.y, treatment=test.treatment) > 0.028
    True
    """

    _allows_missing = True

    def __init__(
        self,
        *,
        hinges: bool = True,
        strengths: Sequence[float] = STRENGTHS,
        n_folds: int = N_FOLDS,
        random_state: int | None = None,
        control: Any = None,
    ) -> None:
        self.hinges = hinges
        self.strengths = strengths
        self.n_folds = n_folds
        self.random_state = random_state
        self.control = control

    def _fit(
        self, X: NDArray[Any], y: Floats, treated: Bools, sample_weight: Floats | None
    ) -> None:
        check_whole(self.n_folds, "n_folds", 2)
        for strength in self.strengths:
            check_positive(strength, "strengths", "0.01 is usual.")
        rows = array_rows(X, y, treated, sample_weight)
        target = target_of(rows)
        path = shrunk_path(
            target.of(rows),
            strengths=sorted(map(float, self.strengths), reverse=True),
            n_folds=self.n_folds,
            hinges=self.hinges,
            random_state=self.random_state,
            target=target,
        )
        self.modelled_, self.amounts_ = target.modelled, target.amounts
        self.path_ = pd.DataFrame(
            {"strength": path.strengths, "log_loss": path.losses, "weight": path.weights}
        )
        kept = path.weights > 0
        self.weights_ = path.weights[kept]
        design = path.design
        (
            (self.treated_intercept_, self.treated_coef_),
            (
                self.control_intercept_,
                self.control_coef_,
            ),
        ) = (design.unscaled(own[kept]) for own in path.arms())
        self.hinge_columns_, self.hinge_knots_ = design.columns, design.knots
        self.fill_ = design.fill
        self.n_parameters_ = int(
            self.weights_.size + 2 * (self.treated_coef_.size + kept.sum()) + design.knots.size
        )

    def _predict(self, X: NDArray[Any]) -> Floats:
        scores, mean = np.empty(len(X)), loss_of(self.modelled_).mean
        for start in range(0, len(X), BLOCK):
            block = filled(X[start : start + BLOCK], self.fill_)
            block = expanded(block, self.hinge_columns_, self.hinge_knots_)
            treated = mean(block @ self.treated_coef_.T + self.treated_intercept_)
            control = mean(block @ self.control_coef_.T + self.control_intercept_)
            effect = self.amounts_[0] * treated - self.amounts_[1] * control
            scores[start : start + BLOCK] = effect @ self.weights_
        return scores


@dataclass(frozen=True, eq=False)
class Path:
    """Models of all strengths, on all rows and on those outside of each fold.

    ``models`` (strengths, 2, terms) are main effects and interactions; ``fold_models`` (folds,
    strengths, 2, terms). ``losses`` and ``weights`` (strengths,); ``share`` is that of the treated.
    """

    design: Design
    folds: Folds
    share: float
    strengths: Floats
    models: Floats
    fold_models: Floats
    losses: Floats
    weights: Floats

    def arms(self) -> tuple[Floats, Floats]:
        """(strengths, terms) coefficients of the log-odds of treated and of control rows."""
        main, effect = self.models[:, 0], self.models[:, 1]
        return main + (1 - self.share) * effect, main - self.share * effect


def shrunk_path(
    rows: ArrayRows,
    *,
    strengths: Sequence[float],
    n_folds: int,
    hinges: bool,
    random_state: int | None,
    target: Target,
) -> Path:
    """Fit all strengths, the largest first, on all rows and outside of each fold.

    The outcomes of the rows are those that a target has put in their place.
    """
    share, mean = _share_and_mean(rows, target)
    with threadpool_limits(limits=1, user_api="blas"):
        folds = ask(dealt_folds(rows, n_folds, seed_of(random_state), target.cut))
        design = design_of(rows, hinges)
        return _path(rows, share, mean, folds, strengths, design, target.loss)


def _share_and_mean(rows: ArrayRows, target: Target) -> tuple[float, float]:
    """The share of treated rows, and the mean of the target."""
    if target.modelled == "number":
        weight = np.ones(len(rows.y)) if rows.weight is None else rows.weight
        total = weight.sum()
        return float(weight @ rows.treated / total), float(weight @ rows.y / total)
    none, others, rest, both = np.bincount(cells(rows), rows.weight, minlength=4).tolist()
    total = both + rest + others + none
    return (both + rest) / total, (both + others) / total


def _path(
    rows: ArrayRows,
    share: float,
    mean: float,
    folds: Folds,
    strengths: Sequence[float],
    design: Design,
    of: Loss,
) -> Path:
    terms, n_folds = design.n_terms, folds.n_folds
    loss = _PathLoss(design, share, folds, of, np.sqrt(of.bend(mean)))
    if len(rows.y) * terms <= _KEPT:
        rows, code = _made(rows, design, folds)
        loss = replace(loss, design=Made(terms), fold_of=lambda batch: code)
    batch, w = rows.batch, np.zeros(2 * terms)
    w[0] = of.start(mean)
    whole: list[BallSolution] = []
    for strength in strengths:
        # What is known of the last Hessian, but for the penalty, is a start for the next.
        known = whole[-1] if whole else None
        task = _Task(strength, -1, w if known is None else known.w, _bend(known, loss, strength))
        whole += loss.minimise(batch, [task])
        loss = replace(loss, last=strength)
    tasks = [
        _Task(strength, fold, found.w, found.hessian)
        for fold in range(n_folds)
        for strength, found in zip(strengths, whole, strict=True)
    ]
    apart = loss.minimise(batch, tasks)
    totals = loss.at([f.w for f in apart], [t.fold for t in tasks], True)(batch)
    weight, value = totals[:, :2].T.reshape(2, n_folds, -1).sum(axis=1)
    losses = of.nats(value, float(weight[0]))
    weights = np.exp(losses.min() - losses)
    weights = np.where(weights < _LEAST_WEIGHT * weights.sum(), 0.0, weights)
    return Path(
        design,
        folds,
        share,
        np.array(strengths),
        np.array([found.w for found in whole]).reshape(-1, 2, terms),
        np.array([found.w for found in apart]).reshape(n_folds, -1, 2, terms),
        losses,
        weights / weights.sum(),
    )


def _made(rows: ArrayRows, design: Design, folds: Folds) -> tuple[ArrayRows, Codes]:
    """Rows with the features of a design, by fold and arm, and their folds."""
    code = folds(rows.batch)
    order = np.argsort(2 * code + rows.treated, kind="stable")
    X, y, treated, weight = rows.columns
    made = np.empty((len(y), design.n_terms))
    for start in range(0, len(y), BLOCK):
        made[start : start + BLOCK] = design(X[order[start : start + BLOCK]])
    weight = None if weight is None else weight[order]
    return ArrayRows(made, y[order], treated[order], weight), code[order]


class _Task(NamedTuple):
    """A model to fit: its penalty, the fold that it must not see (-1: none), where to begin."""

    strength: float
    fold: int
    start: Floats
    hessian: Floats | None


@dataclass(frozen=True, eq=False)
class _PathLoss:
    """Loss of models of all folds; ``scale`` is the size of a gradient that is not small."""

    design: Design | Made
    share: float
    fold_of: FoldOf
    of: Loss
    scale: float
    last: float = 0.0  # the strength that was fitted before

    def penalty(self, strength: float) -> Floats:
        """(2 terms,) of a model's squares."""
        terms = self.design.n_terms
        found = np.repeat([MAIN_STRENGTH, strength], terms)
        found[[0, terms]] = 0.0
        return found

    def at(self, points: Sequence[Floats], folds: Sequence[int], inside: bool = False) -> Losses:
        return Losses(
            self.design,
            self.share,
            self.fold_of,
            np.array(points),
            np.array(folds),
            inside,
            self.of,
        )

    def minimise(self, batch: Batch, tasks: Sequence[_Task]) -> list[BallSolution]:
        """Solutions of all tasks, which share their passes over the rows."""
        solvers: list[Solver] = [
            solver(
                np.inf,
                start=task.start,
                hessian=task.hessian,
                scale=self.scale,
                tolerance=_TOLERANCE,
            )
            for task in tasks
        ]
        found: list[Any] = [None] * len(tasks)
        asked: dict[int, Ask] = {number: next(one) for number, one in enumerate(solvers)}
        while asked:
            replies = self._answers(batch, tasks, asked)
            asked = {}
            for number, reply in replies.items():
                try:
                    asked[number] = solvers[number].send(reply)
                except StopIteration as stop:
                    found[number] = stop.value
        return found

    def _answers(
        self, batch: Batch, tasks: Sequence[_Task], asked: dict[int, Ask]
    ) -> dict[int, Answer]:
        """Value and gradient at all points, and Hessians where they are wanted."""
        numbers = list(asked)
        points, folds = [asked[k].w for k in numbers], [tasks[k].fold for k in numbers]
        values = self.at(points, folds)(batch)
        bends = {
            k: self.at([asked[k].w], [tasks[k].fold]).curvature(batch)
            for k in numbers
            if asked[k].hessian
        }
        answers = {}
        for k, point, (weight, value, *gradient) in zip(numbers, points, values, strict=True):
            penalty = self.penalty(tasks[k].strength)
            own = penalty * point
            hessian = None
            if k in bends:
                (a, b, c) = bends[k] / weight
                hessian = np.block([[a, b], [b, c]]) + np.diag(penalty)
            answers[k] = Answer(
                value / weight + float(own @ point) / 2, np.array(gradient) / weight + own, hessian
            )
        return answers


def _bend(known: BallSolution | None, loss: _PathLoss, strength: float) -> Floats | None:
    """The Hessian that is known of another strength, with this one's penalty."""
    if known is None or known.hessian is None:
        return None
    change = loss.penalty(strength) - loss.penalty(loss.last)
    return np.asarray(known.hessian + np.diag(change))
