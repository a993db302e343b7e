"""(Logistic) linear model with shrunk treatment interactions, averaged over its path.

    logit P(y = 1 | x, t) = a + b.x + d (c + g.x),    d = t - share of treated rows

minimises the mean log-loss plus (tiny ||b||^2 + strength ||g||^2) / 2 on standardised features.
With a large strength the effect is a constant on the scale of log-odds, with a small one that of
two logistic regressions. For numbers the mean, with squared loss, replaces the log-odds
(:mod:`auucmax.estimators.targets`). Deviations from a constant effect must be supported by
likelihood: the models of all strengths are averaged with weights exp(-out-of-fold log-loss).

All folds and strengths are minimised together, each step by one pass over the rows: scores of all
models are one product of matrices, and a row counts for the models of the folds that it is not in.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from auucmax._validation import Bools, Floats, check_positive, check_whole
from auucmax.estimators.base import UpliftEstimator, fold_codes, row_weights, seed_of
from auucmax.estimators.formula import Formula, Part, expanded
from auucmax.estimators.targets import BINOMIAL, Loss, Target, likelihood_weights, target_of
from auucmax.rows import ArrayRows, Sample
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

    See :mod:`auucmax.estimators.shrunk`. For an outcome that is not 0/1
    (:mod:`auucmax.estimators.targets`) P is the probability that it is not the usual one, times an
    amount, or a mean. Missing features (NaN) are replaced by the median.

    Parameters
    ----------
    hinges : whether columns of more than 8 different values also enter as max(x - q, 0) at their
        quartiles q, in main effects and interactions.
    strengths : penalties on interactions.
    n_folds : folds by which strengths are weighed, stratified by arm and outcome; fewer where an
        outcome of an arm has fewer rows.
    random_state : seed of the folds.
    control : label of the control group, when treatment is not 0/1.

    Attributes
    ----------
    modelled_ : "0/1", "whether" or "number": the modelled aspect of the outcome.
    amounts_ : (2,) factors of the predictions for treated and control; 1 for 0/1.
    path_ : frame with the strength, the out-of-fold log-loss (total) and the weight of each model.
    formula_ : a part for each arm and each model of weight above 0, and the hinges.
    fill_ : (d,) replacements of missing values.
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
                # The last Hessian is a start for the next one, except for the penalty.
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
    return Path(
        design,
        fold,
        share,
        np.array(strengths),
        np.array([found.w for found in whole]).reshape(-1, 2, terms),
        np.array([found.w for found in apart]).reshape(n_folds, -1, 2, terms),
        losses,
        likelihood_weights(losses, _LEAST_WEIGHT),
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


MANY_VALUES = 8  #: a column with more different values than these has hinges
BLOCK = 4_096  #: rows whose features stay near the processor
_SAMPLE = 50_000  # rows by which hinges are placed: all, if there are no more
_SAMPLE_BYTES = 2**25  # of them; fewer, if rows are wide
_KEPT = 2**25  # features that are kept while models are fitted; of more, blocks are made anew

Codes = NDArray[np.int64]


def filled(X: NDArray[Any], fill: Floats) -> NDArray[Any]:
    """Impute missing values of X with (d,) numbers; X itself if there are none."""
    gaps = np.isnan(X)
    return np.where(gaps, fill, X) if gaps.any() else X


@dataclass(frozen=True, eq=False)
class Design:
    """Standardised columns and hinges, (x - shift) * factor; 0 if constant.

    ``fill`` (d,) replaces missing values.
    """

    columns: Codes
    knots: Floats
    shift: Floats
    factor: Floats
    fill: Floats

    @property
    def n_terms(self) -> int:
        return len(self.shift) + 1

    def __call__(self, X: NDArray[Any]) -> Floats:
        """Design matrix with a column of ones, (n, 1 + p)."""
        result = np.ones((len(X), self.n_terms))
        features = expanded(filled(X, self.fill), self.columns, self.knots)
        np.subtract(features, self.shift, out=features)
        np.multiply(features, self.factor, out=result[:, 1:])
        return result

    def unscaled(self, coef: Floats) -> tuple[Floats, Floats]:
        """Intercepts and coefficients (k, p) for unstandardised features."""
        own = coef[:, 1:] * self.factor
        return coef[:, 0] - own @ self.shift, own


def design_of(rows: ArrayRows, hinges: bool) -> Design:
    """Choose hinges from a sample of rows; then compute means and deviations."""
    size = max(1_000, _SAMPLE_BYTES // (8 * max(len(rows.names), 1)))
    sample = Sample.of(np.asarray(rows.X), rows.keys, min(size, _SAMPLE), n_rows=len(rows.y))
    X = np.asarray(sample.values, dtype=np.float64)
    fill = pd.DataFrame(X).median().fillna(0.0).to_numpy()  # 0 for an empty column
    X = filled(X, fill)
    columns: list[int] = []
    knots: list[float] = []
    for number, column in enumerate(X.T if hinges else ()):
        if len(np.unique(column)) > MANY_VALUES:
            quartiles = np.unique(np.quantile(column, [0.25, 0.5, 0.75]))
            inner = quartiles[(quartiles > column.min()) & (quartiles < column.max())]
            columns += [number] * len(inner)
            knots += inner.tolist()
    places, values = np.array(columns, dtype=np.int64), np.array(knots)
    centre = expanded(X, places, values).mean(axis=0)
    total, sums = 0.0, np.zeros((2, len(centre)))
    for start in range(0, len(rows.y), BLOCK):
        own = slice(start, start + BLOCK)
        block = filled(np.asarray(rows.X[own], dtype=np.float64), fill)
        features = expanded(block, places, values) - centre
        weight = np.ones(len(features)) if rows.weight is None else rows.weight[own]
        total += weight.sum()
        sums += weight @ features, weight @ features**2
    first, second = sums / total
    # What is left of a constant column are rounding errors.
    deviation = np.sqrt(np.maximum(second - first**2, 0))
    varies = deviation > 1e-9 * (1 + np.abs(centre))
    factor = np.divide(1.0, deviation, out=np.zeros_like(deviation), where=varies)
    return Design(places, values, centre + first, factor, fill)


class PathRows:
    """Rows sorted by fold and arm, for fitting models without some folds.

    Rows of an arm have one coefficient for each feature, and rows of a fold are left out where they
    do not count. Features are made once if they take little memory, otherwise block by block.
    """

    def __init__(
        self, rows: ArrayRows, design: Design, fold: Codes, share: float, loss: Loss
    ) -> None:
        self.design, self.loss, self.n_terms = design, loss, design.n_terms
        code = 2 * fold + rows.treated
        self.order = np.argsort(code, kind="stable")
        code = code[self.order]
        edges = [*np.flatnonzero(np.diff(code, prepend=-1)).tolist(), len(code)]
        #: Fold, treatment less its share, and the range of the rows of each fold and arm.
        self.groups = [
            (int(code[start]) // 2, int(code[start]) % 2 - share, start, stop)
            for start, stop in pairwise(edges)
        ]
        self.X, self.y = rows.X, rows.y[self.order]
        self.weight = np.ones(len(code)) if rows.weight is None else rows.weight[self.order]
        self.made: Floats | None = None
        if len(code) * self.n_terms <= _KEPT:
            made = np.empty((len(code), self.n_terms))
            for start in range(0, len(code), BLOCK):
                own = slice(start, start + BLOCK)
                made[own] = design(self.X[self.order[own]])
            self.made = made

    def losses(self, points: Sequence[Floats], folds: Sequence[int], inside: bool = False) -> Any:
        """Weight, loss and gradient of each model, (k, 2 + 2 terms).

        Model k counts the rows outside of fold ``folds[k]`` (all, if it is -1), or ``inside`` it.
        """
        terms = self.n_terms
        result = np.zeros((len(points), 2 + 2 * terms))
        # Models of several folds may be at one point.
        unique, place = np.unique(np.array(points), axis=0, return_inverse=True)
        unique, place = unique.reshape(-1, 2, terms), place.ravel()  # a column in numpy 2.0
        of_model = np.array(folds)
        for fold, d, start, stop in self.groups:
            models = np.flatnonzero((of_model < 0) | ((of_model == fold) == inside))
            if not len(models):
                continue
            own, places = np.unique(place[models], return_inverse=True)
            coef = np.ascontiguousarray((unique[own, 0] + d * unique[own, 1]).T)
            sums = np.zeros((len(own), 2 + terms))
            for X, y, weight in self._blocks(start, stop):
                sums[:, 0] += weight.sum()
                wrong = self.loss.add_to(sums[:, 1], X @ coef, y, weight)
                sums[:, 2:] += wrong.T @ X
            result[models, : 2 + terms] += sums[places]
            result[models, 2 + terms :] += d * sums[places, 2:]
        return result

    def hessian(self, point: Floats, fold: int) -> Floats:
        """Total Hessian over the rows outside a fold, (2 terms, 2 terms)."""
        terms = self.n_terms
        main, effect = point.reshape(2, terms)
        result = np.zeros((2, 2, terms, terms))
        for other, d, start, stop in self.groups:
            if other == fold:
                continue
            found = np.zeros((terms, terms))
            for X, _, weight in self._blocks(start, stop):
                bend = self.loss.hessian(X @ (main + d * effect))
                root = X * np.sqrt(weight * bend)[:, None]
                found += root.T @ root
            result += np.array([[1.0, d], [d, d**2]])[:, :, None, None] * found
        return result.transpose(0, 2, 1, 3).reshape(2 * terms, 2 * terms)

    def _blocks(self, start: int, stop: int) -> Iterator[tuple[Floats, Floats, Floats]]:
        """Yield blocks of features, outcomes and weights."""
        for first in range(start, stop, BLOCK):
            own = slice(first, min(first + BLOCK, stop))
            if self.made is None:
                X = self.design(np.asarray(self.X[self.order[own]], dtype=np.float64))
            else:
                X = self.made[own]
            yield X, self.y[own], self.weight[own]
