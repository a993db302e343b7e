"""A logistic model whose interactions with the treatment are shrunk, averaged over its path.

    logit P(y = 1 | x, t) = a + b.x + d (c + g.x),    d = t - share of treated rows

minimises the mean log-loss plus (tiny ||b||^2 + strength ||g||^2) / 2 on standardised features.
With a large strength the effect is a constant on the scale of log-odds, with a small one that of
two logistic regressions. Deviations from a constant effect are bought by likelihood: the models of
all strengths are averaged with weights exp(-out-of-fold log-loss).

All folds and strengths are minimised together, each step by one reading of the rows, wherever they
are (:mod:`auucmax.rows`): scores of all of them are one product of matrices, and a row counts for
the models of the folds that it is not in. Rows are taken by fold and arm: those of an arm have one
coefficient for each feature, and those of a fold are left out where they do not count. Features are
expanded and standardised block by block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import expit
from threadpoolctl import threadpool_limits

from auucmax._validation import Bools, Floats, check_positive, check_whole
from auucmax.estimators.learning_rows import FitsRows, LearningRows, cells, seed_of
from auucmax.estimators.meta import row_weights
from auucmax.rows import ArrayRows, Batch, Question, Rows, Sample, ask
from auucmax.rows.base import Keys, hash_keys
from auucmax.solvers import Answer, Ask, BallSolution, Solver, solver

STRENGTHS = (1e4, 1.0, 0.1, 0.03, 0.01, 0.003, 0.0003)
N_FOLDS = 4
MAIN_STRENGTH = 1e-5  #: of the penalty on b, which only keeps it finite
MANY_VALUES = 8  #: a column with more different values than these has hinges
_SAMPLE = 50_000  # rows by which hinges are placed: all, if there are no more
_LEAST_WEIGHT = 1e-4  # of a strength, below which its model is left out
_TOLERANCE = 1e-6
_KEPT = 2**25  # features that are kept while models are fitted; of more, blocks are made anew
_BLOCK = 4_096  # rows whose features stay near the processor
_BITS = 12  # of a hash that one reading counts by: folds are dealt in two, to a part of 2^24

Codes = NDArray[np.int64]
FoldOf = Callable[[Batch], Codes]


class ShrunkInteractions(FitsRows):
    """SI: logistic regression with shrunk interactions, averaged over the strengths of shrinkage.

        score(x) = sum_k weight_k (P_k(y = 1 | x, treated) - P_k(y = 1 | x, control))

    See :mod:`auucmax.estimators.shrunk`. It takes a trial in memory, in files
    (:func:`auucmax.rows.stream_table`) or on Spark, and gives the same model to 1e-6 wherever rows
    are, if they have the same keys there: folds are dealt by a hash of these (on Spark a key is the
    partition and the place in it, unless rows bring their own). The outcome must be 0/1. In arrays
    features may be missing (NaN): the median stands for them.

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

    _binary_outcome: ClassVar[bool] = True
    _check_X: ClassVar[dict[str, Any]] = {
        "dtype": [np.float64, np.float32],
        "ensure_all_finite": "allow-nan",
    }

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
        self._fit_rows(ArrayRows(X, y, treated, row_weights(sample_weight)))

    def _fit_rows(self, rows: Rows) -> tuple[LearningRows, None]:
        check_whole(self.n_folds, "n_folds", 2)
        for strength in self.strengths:
            check_positive(strength, "strengths", "0.01 is usual.")
        learn = LearningRows(rows)
        path = shrunk_path(
            learn,
            strengths=sorted(map(float, self.strengths), reverse=True),
            n_folds=self.n_folds,
            hinges=self.hinges,
            random_state=self.random_state,
        )
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
        return learn, None

    def _predict(self, X: NDArray[Any]) -> Floats:
        scores = np.empty(len(X))
        for start in range(0, len(X), _BLOCK):
            block = filled(X[start : start + _BLOCK], self.fill_)
            block = expanded(block, self.hinge_columns_, self.hinge_knots_)
            treated = expit(block @ self.treated_coef_.T + self.treated_intercept_)
            control = expit(block @ self.control_coef_.T + self.control_intercept_)
            scores[start : start + _BLOCK] = (treated - control) @ self.weights_
        return scores

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


def filled(X: NDArray[Any], fill: Floats) -> NDArray[Any]:
    """X with (d,) numbers for missing values; X itself, if none is missing."""
    gaps = np.isnan(X)
    return np.where(gaps, fill, X) if gaps.any() else X


def expanded(X: NDArray[Any], columns: Codes, knots: Floats) -> Floats:
    """(n, d + h): the columns, and max(x - q, 0) for each hinge."""
    n, d = X.shape
    result = np.empty((n, d + len(knots)))
    result[:, :d] = X
    hinges = result[:, d:]
    np.subtract(result[:, columns], knots, out=hinges)
    np.maximum(hinges, 0, out=hinges)
    return result


@dataclass(frozen=True, eq=False)
class Design:
    """Columns and hinges, standardised: (x - shift) * factor; constant ones are 0.

    ``fill`` (d,) stands for missing values.
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
        """(n, 1 + p) a column of ones, and the features."""
        result = np.ones((len(X), self.n_terms))
        features = expanded(filled(X, self.fill), self.columns, self.knots)
        np.subtract(features, self.shift, out=features)
        np.multiply(features, self.factor, out=result[:, 1:])
        return result

    def unscaled(self, coef: Floats) -> tuple[Floats, Floats]:
        """Intercepts and coefficients (k, p) of features that are not standardised."""
        own = coef[:, 1:] * self.factor
        return coef[:, 0] - own @ self.shift, own


@dataclass(frozen=True)
class _Made:
    """The design of features that are made already."""

    n_terms: int

    def __call__(self, X: NDArray[Any]) -> Floats:
        return np.asarray(X)


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
    learn: LearningRows,
    *,
    strengths: Sequence[float],
    n_folds: int,
    hinges: bool,
    random_state: int | None,
) -> Path:
    """Fit all strengths, the largest first, on all rows and outside of each fold."""
    counts = np.array(learn.class_counts())  # treated with and without outcome, control ...
    share = float(counts[:2].sum() / counts.sum())
    rate = float(counts[[0, 2]].sum() / counts.sum())
    with threadpool_limits(limits=1, user_api="blas"):
        folds = ask(dealt_folds(learn.rows, n_folds, seed_of(random_state)))
        return ask(_path(learn.rows, share, rate, folds, strengths, hinges))


@dataclass(frozen=True, eq=False)
class Folds:
    """Folds that have their shares of every arm and outcome, the same wherever rows are.

    The rows of an arm and outcome are taken in the order of a hash of their keys. ``edges``
    (4, folds - 1) are the hashes from which on the next fold begins.
    """

    edges: Keys
    seed: int

    @property
    def n_folds(self) -> int:
        return self.edges.shape[1] + 1

    def __call__(self, batch: Batch) -> Codes:
        """(m,) the fold of each row."""
        hashes, edges = hash_keys(batch.keys, self.seed), self.edges[cells(batch)]
        return np.asarray((hashes[:, None] >= edges).sum(axis=1))


def dealt_folds(rows: Rows, n_folds: int, seed: int) -> Question[Folds]:
    """Folds of rows; no more of them than the rarest outcome of an arm has rows.

    Two readings: in which part of 2^12 of all hashes the edges are, and in which part of that one.
    So folds differ from their shares by rows whose hashes agree in 24 bits.
    """
    ((counts,),) = yield [(rows, (partial(_hash_counts, seed=seed),))]
    sizes = counts.sum(axis=1)
    if sizes.min() < 2:
        raise ValueError(
            f"each arm should have at least 2 rows of each outcome, got {sizes.min()} in one. "
            f"Collect more rows."
        )
    n_folds = min(n_folds, int(sizes.min()))
    before = -(-np.arange(1, n_folds) * sizes[:, None] // n_folds)  # rows of the folds before
    found, left = _places(counts[:, None], before)
    ((counts,),) = yield [(rows, (partial(_hash_counts, seed=seed, within=found),))]
    last, _ = _places(counts, left)
    edges = (found.astype(np.uint64) << np.uint64(_BITS)) + last.astype(np.uint64) + np.uint64(1)
    return Folds(edges << np.uint64(64 - 2 * _BITS), seed)


def _hash_counts(batch: Batch, seed: int, within: Codes | None = None) -> Codes:
    """How many rows of each arm and outcome have hashes that begin with 12 bits: (4, 2^12).

    ``within`` (4, m): of the rows that begin with these, (4, m, 2^12) by the next 12 bits.
    """
    hashes, cell = hash_keys(batch.keys, seed), cells(batch)
    size = 1 << _BITS
    first = (hashes >> np.uint64(64 - _BITS)).astype(np.int64)
    if within is None:
        return np.bincount(cell * size + first, minlength=4 * size).reshape(4, size)
    second = (hashes >> np.uint64(64 - 2 * _BITS)).astype(np.int64) % size
    found = np.zeros((*within.shape, size), dtype=np.int64)
    for k, own in enumerate(within.T):
        some = first == own[cell]
        code = cell[some] * size + second[some]
        found[:, k] = np.bincount(code, minlength=4 * size).reshape(4, size)
    return found


def _places(counts: Codes, before: Codes) -> tuple[Codes, Codes]:
    """(4, m) in which part so many rows are reached, and how many of them are in that part."""
    through = np.broadcast_to(counts.cumsum(axis=-1), (*before.shape, counts.shape[-1]))
    place = (through < before[..., None]).sum(axis=-1)
    own = np.broadcast_to(counts, through.shape)
    start = np.take_along_axis(through - own, place[..., None], axis=-1)[..., 0]
    return place, before - start


def _path(
    rows: Rows,
    share: float,
    rate: float,
    folds: Folds,
    strengths: Sequence[float],
    hinges: bool,
) -> Question[Path]:
    design = yield from _design(rows, hinges)
    terms, n_folds = design.n_terms, folds.n_folds
    loss = _Loss(design, share, folds, np.sqrt(rate * (1 - rate)))
    if isinstance(rows, ArrayRows) and len(rows.y) * terms <= _KEPT:
        rows, code = _made(rows, design, folds)
        loss = replace(loss, design=_Made(terms), fold_of=lambda batch: code)
    w = np.zeros(2 * terms)
    w[0] = np.log(rate / (1 - rate))
    whole: list[BallSolution] = []
    for strength in strengths:
        # What is known of the last Hessian, but for the penalty, is a start for the next.
        known = whole[-1] if whole else None
        task = _Task(strength, -1, w if known is None else known.w, _bend(known, loss, strength))
        whole += yield from loss.minimise(rows, [task])
        loss = replace(loss, last=strength)
    tasks = [
        _Task(strength, fold, found.w, found.hessian)
        for fold in range(n_folds)
        for strength, found in zip(strengths, whole, strict=True)
    ]
    apart = yield from loss.minimise(rows, tasks)
    ((totals,),) = yield [(rows, (loss.at([f.w for f in apart], [t.fold for t in tasks], True),))]
    losses = totals[:, 1].reshape(n_folds, -1).sum(axis=0)
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
    for start in range(0, len(y), _BLOCK):
        made[start : start + _BLOCK] = design(X[order[start : start + _BLOCK]])
    weight = None if weight is None else weight[order]
    return ArrayRows(made, y[order], treated[order], weight), code[order]


class _Task(NamedTuple):
    """A model to fit: its penalty, the fold that it must not see (-1: none), where to begin."""

    strength: float
    fold: int
    start: Floats
    hessian: Floats | None


@dataclass(frozen=True, eq=False)
class _Loss:
    """Log-loss of models of all folds; ``scale`` is the size of a gradient that is not small."""

    design: Design | _Made
    share: float
    fold_of: FoldOf
    scale: float
    last: float = 0.0  # the strength that was fitted before

    def penalty(self, strength: float) -> Floats:
        """(2 terms,) of a model's squares."""
        terms = self.design.n_terms
        found = np.repeat([MAIN_STRENGTH, strength], terms)
        found[[0, terms]] = 0.0
        return found

    def at(self, points: Sequence[Floats], folds: Sequence[int], inside: bool = False) -> LogLosses:
        return LogLosses(
            self.design, self.share, self.fold_of, np.array(points), np.array(folds), inside
        )

    def minimise(self, rows: Rows, tasks: Sequence[_Task]) -> Question[list[BallSolution]]:
        """Solutions of all tasks, which share their readings."""
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
            replies = yield from self._answers(rows, tasks, asked)
            asked = {}
            for number, reply in replies.items():
                try:
                    asked[number] = solvers[number].send(reply)
                except StopIteration as stop:
                    found[number] = stop.value
        return found

    def _answers(
        self, rows: Rows, tasks: Sequence[_Task], asked: dict[int, Ask]
    ) -> Question[dict[int, Answer]]:
        """Value and gradient at all points, and Hessians where they are wanted, in one reading."""
        numbers = list(asked)
        points, folds = [asked[k].w for k in numbers], [tasks[k].fold for k in numbers]
        bent = [k for k in numbers if asked[k].hessian]
        summaries: list[Any] = [self.at(points, folds)]
        summaries += [self.at([asked[k].w], [tasks[k].fold]).curvature for k in bent]
        (totals,) = yield [(rows, summaries)]
        values, bends = totals[0], dict(zip(bent, totals[1:], strict=True))
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


def _bend(known: BallSolution | None, loss: _Loss, strength: float) -> Floats | None:
    """The Hessian that is known of another strength, with this one's penalty."""
    if known is None or known.hessian is None:
        return None
    change = loss.penalty(strength) - loss.penalty(loss.last)
    return np.asarray(known.hessian + np.diag(change))


@dataclass(frozen=True, eq=False)
class LogLosses:
    """Summary of a batch: weight, log-loss and its gradient for each model, (k, 2 + 2 terms).

    Model k counts the rows outside of fold ``folds[k]`` (all, if it is -1), or ``inside`` of it.
    :func:`log_losses_slow` is the specification.
    """

    design: Design | _Made
    share: float
    fold_of: FoldOf
    points: Floats
    folds: Codes
    inside: bool = False

    def __call__(self, batch: Batch) -> Floats:
        terms = self.design.n_terms
        result = np.zeros((len(self.points), 2 + 2 * terms))
        # Models of several folds may be at one point.
        points, place = np.unique(self.points, axis=0, return_inverse=True)
        points = points.reshape(-1, 2, terms)
        for fold, d, blocks in self._groups(batch):
            models = self._counting(fold)
            own, places = np.unique(place[models], return_inverse=True)
            coef = np.ascontiguousarray((points[own, 0] + d * points[own, 1]).T)
            sums = np.zeros((len(own), 2 + terms))
            for X, y, weight in blocks if len(own) else ():
                logit = X @ coef
                small = np.exp(-np.abs(logit))
                above = 1 + small
                # expit, from the exponential that is there
                wrong = np.where(logit >= 0, 1.0, small) / above - y[:, None]
                wrong *= weight[:, None]
                sums[:, 0] += weight.sum()
                sums[:, 1] += _log_sums(above, weight) - (weight * y) @ logit
                sums[:, 1] += weight @ np.maximum(logit, 0, out=logit)
                sums[:, 2:] += wrong.T @ X
            result[models, : 2 + terms] += sums[places]
            result[models, 2 + terms :] += d * sums[places, 2:]
        return result

    def curvature(self, batch: Batch) -> Floats:
        """(3, terms, terms) parts of the Hessian of the first model."""
        terms = self.design.n_terms
        main, effect = self.points[0].reshape(2, terms)
        result = np.zeros((3, terms, terms))
        for fold, d, blocks in self._groups(batch):
            found = np.zeros((terms, terms))
            for X, _, weight in blocks if 0 in self._counting(fold) else ():
                chance = expit(X @ (main + d * effect))
                bend = chance * (1 - chance)
                root = X * np.sqrt(weight * bend)[:, None]
                found += root.T @ root
            result += np.array([1.0, d, d**2])[:, None, None] * found
        return result

    def _counting(self, fold: int) -> Codes:
        """The models that count the rows of a fold."""
        return np.flatnonzero((self.folds < 0) | ((self.folds == fold) == self.inside))

    def _groups(self, batch: Batch) -> Iterator[tuple[int, float, Iterator[Any]]]:
        """For each fold and arm: the fold, the treatment less its share, and blocks of rows."""
        code = 2 * self.fold_of(batch) + batch.treated
        order = np.argsort(code, kind="stable")
        edges = np.flatnonzero(np.diff(code[order], prepend=-1)).tolist()
        for start, stop in pairwise([*edges, len(code)]):
            own = order[start:stop]
            fold, treated = divmod(int(code[own[0]]), 2)
            yield fold, treated - self.share, self._blocks(batch, own)

    def _blocks(self, batch: Batch, own: Codes) -> Iterator[tuple[Floats, Floats, Floats]]:
        """Features, outcomes and weights of some rows of a batch, some at a time."""
        for start in range(0, len(own), _BLOCK):
            some: Any = own[start : start + _BLOCK]
            if some[-1] - some[0] == len(some) - 1:  # they lie together: no copy is needed
                some = slice(some[0], some[-1] + 1)
            X = self.design(np.asarray(batch.X[some], dtype=np.float64))
            weight = np.ones(len(X)) if batch.weight is None else batch.weight[some]
            yield X, batch.y[some], weight


def _log_sums(numbers: Floats, weight: Floats) -> Floats:
    """(k,) weighted sums of the logarithms of (m, k) numbers between 1 and 2.

    The sum of some logarithms is that of their product, which 512 of them keep below 2^512.
    """
    if (weight == 1).all():
        numbers = np.multiply.reduceat(numbers, np.arange(0, len(numbers), 512), axis=0)
        return np.asarray(np.log(numbers).sum(axis=0))
    return np.asarray(weight @ np.log(numbers))


def log_losses_slow(losses: LogLosses, batch: Batch) -> Floats:
    """What :class:`LogLosses` says, a model and a row at a time."""
    terms = losses.design.n_terms
    result = np.zeros((len(losses.points), 2 + 2 * terms))
    fold = losses.fold_of(batch)
    for k, point in enumerate(losses.points):
        for i in range(len(batch.y)):
            counts = losses.folds[k] < 0 or (fold[i] == losses.folds[k]) == losses.inside
            weight = float(counts) * (1.0 if batch.weight is None else batch.weight[i])
            x = losses.design(batch.X[i : i + 1])[0]
            z = np.concatenate([x, x * (batch.treated[i] - losses.share)])
            chance = expit(z @ point)
            wrong = chance - batch.y[i]
            loss = -np.log(chance if batch.y[i] else 1 - chance)
            result[k] += weight * np.concatenate([[1.0, loss], wrong * z])
    return result


# What features there are


def _design(rows: Rows, hinges: bool) -> Question[Design]:
    """Hinges by a sample of the rows, the same wherever they are; then means and deviations."""
    ((sample,),) = yield [(rows, (_row_sample,))]
    X = np.asarray(sample.values, dtype=np.float64)
    fill = medians(X)
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
    moments = partial(_moments, columns=places, knots=values, centre=centre, fill=fill)
    (((weight, *sums),),) = yield [(rows, (moments,))]
    first, second = np.array(sums).reshape(2, -1) / weight
    # What is left of a constant column are rounding errors.
    deviation = np.sqrt(np.maximum(second - first**2, 0))
    varies = deviation > 1e-9 * (1 + np.abs(centre))
    factor = np.divide(1.0, deviation, out=np.zeros_like(deviation), where=varies)
    return Design(places, values, centre + first, factor, fill)


def medians(X: Floats) -> Floats:
    """Of the values of each column that are there; 0 of a column without any."""
    found = np.zeros(X.shape[1])
    for k, column in enumerate(X.T):
        present = column[~np.isnan(column)]
        found[k] = np.median(present) if len(present) else 0.0
    return found


def _row_sample(batch: Batch) -> Sample:
    size = min(_SAMPLE, max(1_000, 2**25 // (8 * max(batch.X.shape[1], 1))))
    return Sample.of(np.asarray(batch.X), batch.keys, size)


def _moments(batch: Batch, columns: Codes, knots: Floats, centre: Floats, fill: Floats) -> Floats:
    """Total weight, then sums of the features less their centres, and of their squares."""
    result = np.zeros(1 + 2 * len(centre))
    for start in range(0, len(batch.y), _BLOCK):
        own = slice(start, start + _BLOCK)
        X = filled(np.asarray(batch.X[own], dtype=np.float64), fill)
        features = expanded(X, columns, knots) - centre
        weight = np.ones(len(features)) if batch.weight is None else batch.weight[own]
        result[0] += weight.sum()
        result[1:] += np.concatenate([weight @ features, weight @ features**2])
    return result
