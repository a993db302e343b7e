"""Logistic and linear models of rows: features, folds, losses of many models at once.

Losses of any number of models, with their gradients, are a summary of a batch: scores of all
models are one product of matrices, and a row counts for the models of the folds that it is not in.
Rows are taken by fold and arm: those of an arm have one coefficient for each feature, and those of
a fold are left out where they do not count. Features are expanded and standardised block by block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from auucmax._validation import Floats
from auucmax.estimators.targets import BINOMIAL, Loss
from auucmax.rows import ArrayRows, Batch, Question, Rows, Sample
from auucmax.rows.base import Keys, hash_keys

MANY_VALUES = 8  #: a column with more different values than these has hinges
BLOCK = 4_096  #: rows whose features stay near the processor
_SAMPLE = 50_000  # rows by which hinges are placed: all, if there are no more
_SAMPLE_BYTES = 2**25  # of them; fewer, if rows are wide
_BITS = 12  # of a hash that one reading counts by; two readings split rows to one in 2^24

Codes = NDArray[np.int64]
FoldOf = Callable[[Batch], Codes]


# What features there are


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
class Made:
    """The design of features that are made already."""

    n_terms: int

    def __call__(self, X: NDArray[Any]) -> Floats:
        return np.asarray(X)


def design_of(rows: ArrayRows, hinges: bool) -> Design:
    """Hinges by a sample of the rows; then means and deviations."""
    size = max(1_000, _SAMPLE_BYTES // (8 * max(len(rows.names), 1)))
    sample = Sample.of(np.asarray(rows.X), rows.keys, min(size, _SAMPLE), n_rows=len(rows.y))
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
    weight, *sums = _moments(rows.batch, places, values, centre, fill)
    first, second = np.array(sums).reshape(2, -1) / weight
    # What is left of a constant column are rounding errors.
    deviation = np.sqrt(np.maximum(second - first**2, 0))
    varies = deviation > 1e-9 * (1 + np.abs(centre))
    factor = np.divide(1.0, deviation, out=np.zeros_like(deviation), where=varies)
    return Design(places, values, centre + first, factor, fill)


def medians(X: Floats) -> Floats:
    """Median of each column, missing values left out; 0 for a column without any value."""
    found = np.zeros(X.shape[1])
    for k, column in enumerate(X.T):
        present = column[~np.isnan(column)]
        found[k] = np.median(present) if len(present) else 0.0
    return found


def _moments(batch: Batch, columns: Codes, knots: Floats, centre: Floats, fill: Floats) -> Floats:
    """Total weight, then sums of the features less their centres, and of their squares."""
    result = np.zeros(1 + 2 * len(centre))
    for start in range(0, len(batch.y), BLOCK):
        own = slice(start, start + BLOCK)
        X = filled(np.asarray(batch.X[own], dtype=np.float64), fill)
        features = expanded(X, columns, knots) - centre
        weight = np.ones(len(features)) if batch.weight is None else batch.weight[own]
        result[0] += weight.sum()
        result[1:] += np.concatenate([weight @ features, weight @ features**2])
    return result


def weight_sums(batch: Batch) -> Floats:
    """A summary of a batch: its rows, their weight, and the rows whose weight is not whole."""
    weight = np.ones(len(batch.y)) if batch.weight is None else batch.weight
    return np.array([len(weight), weight.sum(), (weight != np.rint(weight)).sum()])


# Folds


@dataclass(frozen=True, eq=False)
class Folds:
    """Folds that have their shares of every arm and outcome, the same wherever rows are.

    The rows of an arm and outcome, above ``cut`` or not, are taken in the order of a hash of their
    keys. ``edges`` (4, folds - 1) are the hashes from which on the next fold begins.
    """

    edges: Keys
    seed: int
    cut: float = 0.5

    @property
    def n_folds(self) -> int:
        return self.edges.shape[1] + 1

    def __call__(self, batch: Batch) -> Codes:
        """(m,) the fold of each row."""
        hashes, edges = hash_keys(batch.keys, self.seed), self.edges[_strata(batch, self.cut)]
        return np.asarray((hashes[:, None] >= edges).sum(axis=1))


@dataclass(frozen=True, eq=False)
class DealtPart:
    """The rows inside of a fold, or outside of it: a step of a view."""

    folds: Folds
    fold: int
    inside: bool

    def __call__(self, batch: Batch) -> Batch:
        return batch.take(np.flatnonzero((self.folds(batch) == self.fold) == self.inside))


def dealt_folds(rows: Rows, n_folds: int, seed: int, cut: float = 0.5) -> Question[Folds]:
    """Folds of rows; no more of them than the rarest outcome of an arm has rows.

    Two readings: in which part of 2^12 of all hashes the edges are, and in which part of that one.
    So folds differ from their shares by rows whose hashes agree in 24 bits.
    """
    ((counts,),) = yield [(rows, (partial(_hash_counts, seed=seed, cut=cut),))]
    sizes = counts.sum(axis=1)
    if sizes.min() < 2:
        raise ValueError(
            f"each arm should have at least 2 rows of each outcome, got {sizes.min()} in one. "
            f"Collect more rows."
        )
    n_folds = min(n_folds, int(sizes.min()))
    before = -(-np.arange(1, n_folds) * sizes[:, None] // n_folds)  # rows of the folds before
    found, left = _places(counts[:, None], before)
    ((counts,),) = yield [(rows, (partial(_hash_counts, seed=seed, cut=cut, within=found),))]
    last, _ = _places(counts, left)
    edges = (found.astype(np.uint64) << np.uint64(_BITS)) + last.astype(np.uint64) + np.uint64(1)
    return Folds(edges << np.uint64(64 - 2 * _BITS), seed, cut)


def _strata(batch: Batch, cut: float) -> Codes:
    """0..3 for each row: control with an outcome up to the cut and above, treated likewise."""
    return 2 * batch.treated.astype(np.int64) + (batch.y > cut)


def _hash_counts(batch: Batch, seed: int, cut: float, within: Codes | None = None) -> Codes:
    """How many rows of each arm and outcome have hashes that begin with 12 bits: (4, 2^12).

    ``within`` (4, m): of the rows that begin with these, (4, m, 2^12) by the next 12 bits.
    """
    hashes, cell = hash_keys(batch.keys, seed), _strata(batch, cut)
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


# Losses


@dataclass(frozen=True, eq=False)
class Losses:
    """Summary of a batch: weight, loss and its gradient for each model, (k, 2 + 2 terms).

    Model k counts the rows outside of fold ``folds[k]`` (all, if it is -1), or ``inside`` of it.
    :func:`losses_slow` is the specification.
    """

    design: Design | Made
    share: float
    fold_of: FoldOf
    points: Floats
    folds: Codes
    inside: bool = False
    loss: Loss = BINOMIAL

    def __call__(self, batch: Batch) -> Floats:
        terms = self.design.n_terms
        result = np.zeros((len(self.points), 2 + 2 * terms))
        # Models of several folds may be at one point.
        points, place = np.unique(self.points, axis=0, return_inverse=True)
        points, place = points.reshape(-1, 2, terms), place.ravel()  # a column in numpy 2.0
        for fold, d, blocks in self._groups(batch):
            models = self._counting(fold)
            own, places = np.unique(place[models], return_inverse=True)
            coef = np.ascontiguousarray((points[own, 0] + d * points[own, 1]).T)
            sums = np.zeros((len(own), 2 + terms))
            for X, y, weight in blocks if len(own) else ():
                sums[:, 0] += weight.sum()
                wrong = self.loss.add_to(sums[:, 1], X @ coef, y, weight)
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
                bend = self.loss.hessian(X @ (main + d * effect))
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
        for start in range(0, len(own), BLOCK):
            some: Any = own[start : start + BLOCK]
            if some[-1] - some[0] == len(some) - 1:  # they lie together: no copy is needed
                some = slice(some[0], some[-1] + 1)
            X = self.design(np.asarray(batch.X[some], dtype=np.float64))
            weight = np.ones(len(X)) if batch.weight is None else batch.weight[some]
            yield X, batch.y[some], weight


def losses_slow(losses: Losses, batch: Batch) -> Floats:
    """What :class:`Losses` says, a model and a row at a time."""
    terms = losses.design.n_terms
    result = np.zeros((len(losses.points), 2 + 2 * terms))
    fold = losses.fold_of(batch)
    for k, point in enumerate(losses.points):
        for i in range(len(batch.y)):
            counts = losses.folds[k] < 0 or (fold[i] == losses.folds[k]) == losses.inside
            weight = float(counts) * (1.0 if batch.weight is None else batch.weight[i])
            x = losses.design(batch.X[i : i + 1])[0]
            z = np.concatenate([x, x * (batch.treated[i] - losses.share)])
            at, y = z @ point, batch.y[i]
            value = losses.loss.value(at, y)
            result[k] += weight * np.concatenate([[1.0, value], losses.loss.gradient(at, y) * z])
    return result
