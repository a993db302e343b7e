"""(Logistic) linear model with shrunk treatment interactions, averaged over its path.

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
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from auucmax._validation import Bools, Floats, check_positive, check_whole
from auucmax.estimators.base import UpliftEstimator, fold_codes, row_weights, seed_of
from auucmax.estimators.formula import Formula, Part
from auucmax.estimators.logistic import Codes, Design, PathRows, design_of, filled
from auucmax.estimators.targets import BINOMIAL, Target, target_of
from auucmax.rows import ArrayRows
from auucmax.solvers import Answer, Ask, BallSolution, Solver, solver

STRENGTHS = (1e4, 1.0, 0.1, 0.03, 0.01, 0.003, 0.0003)
N_FOLDS = 4
MAIN_STRENGTH = 1e-5  #: of the penalty on b, which only keeps it finite
_LEAST_WEIGHT = 1e-4  # of a strength, below which its model is left out
_TOLERANCE = 1e-6


@dataclass(eq=False, repr=False)
class ShrunkInteractions(UpliftEstimator):
    """SI: logistic regression with shrunk interactions, averaged over penalties.

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
    formula_ : a part for each arm and each model of weight above 0, and the hinges.
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

    _: KW_ONLY
    hinges: bool = True
    strengths: Sequence[float] = STRENGTHS
    n_folds: int = N_FOLDS
    random_state: int | None = None

    def _fit(
        self, X: NDArray[Any], y: Floats, treated: Bools, sample_weight: Floats | None
    ) -> None:
        check_whole(self.n_folds, "n_folds", 2)
        for strength in self.strengths:
            check_positive(strength, "strengths", "0.01 is usual.")
        target = target_of(ArrayRows(X, y, treated, row_weights(sample_weight)))
        path = shrunk_path(
            target,
            strengths=sorted(map(float, self.strengths), reverse=True),
            n_folds=self.n_folds,
            hinges=self.hinges,
            random_state=self.random_state,
        )
        self.modelled_, self.amounts_ = target.modelled, target.amounts
        self.path_ = pd.DataFrame(
            {"strength": path.strengths, "log_loss": path.losses, "weight": path.weights}
        )
        kept = path.weights > 0
        weights, design = path.weights[kept].tolist(), path.design
        main, effect = path.models[kept].transpose(1, 0, 2)
        amounts, link = target.amounts.tolist(), target.loss.link
        parts = []
        for amount, d in ((amounts[0], 1 - path.share), (-amounts[1], -path.share)):
            arm = zip(weights, *design.unscaled(main + d * effect), strict=True)
            parts += [Part(amount * weight, link, float(b), coef) for weight, b, coef in arm]
        hinges = zip(design.columns.tolist(), design.knots.tolist(), strict=True)
        self.formula_ = Formula(tuple(parts), hinges=tuple(hinges))
        self.fill_ = design.fill
        # Weights, intercepts and coefficients of both arms, and knots.
        self.n_parameters_ = len(weights) * (1 + 2 * design.n_terms) + len(design.knots)

    def _predict(self, X: NDArray[Any]) -> Floats:
        return self.formula_.scores(X, filled(X, self.fill_))


@dataclass(frozen=True, eq=False)
class Path:
    """Models for all penalties, on all rows and outside each fold.

    ``models`` (strengths, 2, terms) are main effects and interactions; ``fold_models`` (folds,
    strengths, 2, terms). ``losses`` and ``weights`` (strengths,); ``share`` is that of the treated;
    ``fold`` (n,) are the folds of the rows.
    """

    design: Design
    fold: Codes
    share: float
    strengths: Floats
    models: Floats
    fold_models: Floats
    losses: Floats
    weights: Floats


def shrunk_path(
    target: Target,
    *,
    strengths: Sequence[float],
    n_folds: int,
    hinges: bool,
    random_state: int | None,
) -> Path:
    """Fit all penalties, the largest first, on all rows and outside each fold."""
    rows = target.rows
    weight = np.ones(len(rows.y)) if rows.weight is None else rows.weight
    share = float(weight @ rows.treated / weight.sum())
    mean, loss = float(weight @ rows.y / weight.sum()), target.loss
    with threadpool_limits(limits=1, user_api="blas"):
        cut = 1.0 if loss is BINOMIAL else np.nextafter(0.0, 1.0)  # parts strata of the outcome
        fold = fold_codes(rows, n_folds, seed_of(random_state), cut)
        design = design_of(rows, hinges)
        own, terms = PathRows(rows, design, fold, share, loss), design.n_terms
        penalties = np.repeat([[MAIN_STRENGTH, strength] for strength in strengths], terms, axis=1)
        penalties[:, [0, terms]] = 0.0  # of intercepts
        w, hessian = np.zeros(2 * terms), None
        w[0] = loss.start(mean)
        scale = float(np.sqrt(loss.hessian(w[0])))  # the size of a gradient that is not small
        begin = partial(solver, np.inf, scale=scale, tolerance=_TOLERANCE)
        whole: list[BallSolution] = []
        for k in range(len(strengths)):
            if whole and whole[-1].hessian is not None:
                # The last Hessian is a start for the next one, but for the penalty.
                hessian = whole[-1].hessian + np.diag(penalties[k] - penalties[k - 1])
            whole += _minimise(own, [begin(start=w, hessian=hessian)], penalties[[k]], [-1])
            w, hessian = whole[-1].w, None
        n_folds = int(fold.max()) + 1
        folds = np.repeat(np.arange(n_folds), len(strengths)).tolist()
        solvers = [begin(start=one.w, hessian=one.hessian) for one in whole * n_folds]
        apart = _minimise(own, solvers, np.tile(penalties, (n_folds, 1)), folds)
        totals = own.losses([one.w for one in apart], folds, inside=True)
    total, value = totals[:, :2].T.reshape(2, n_folds, -1).sum(axis=1)
    losses = loss.nats(value, float(total[0]))
    weights = np.exp(losses.min() - losses)
    weights[weights < _LEAST_WEIGHT * weights.sum()] = 0.0
    return Path(
        design,
        fold,
        share,
        np.array(strengths),
        np.array([found.w for found in whole]).reshape(-1, 2, terms),
        np.array([found.w for found in apart]).reshape(n_folds, -1, 2, terms),
        losses,
        weights / weights.sum(),
    )


def _minimise(
    rows: PathRows, solvers: Sequence[Solver], penalties: Floats, folds: Sequence[int]
) -> list[BallSolution]:
    """Solve all models together, sharing passes over the rows.

    ``penalties`` are of a model's coefficients, (models, 2 terms), ``folds`` those that it leaves
    out (-1: none).
    """
    found: list[Any] = [None] * len(solvers)
    asked: dict[int, Ask] = {number: next(one) for number, one in enumerate(solvers)}
    while asked:
        values = rows.losses([one.w for one in asked.values()], [folds[k] for k in asked])
        following: dict[int, Ask] = {}
        for (k, (w, wants_hessian)), (weight, value, *gradient) in zip(
            asked.items(), values, strict=True
        ):
            own = penalties[k] * w
            hessian = None
            if wants_hessian:
                hessian = rows.hessian(w, folds[k]) / weight + np.diag(penalties[k])
            answer = Answer(
                value / weight + float(own @ w) / 2, np.array(gradient) / weight + own, hessian
            )
            try:
                following[k] = solvers[k].send(answer)
            except StopIteration as stop:
                found[k] = stop.value
        asked = following
    return found
