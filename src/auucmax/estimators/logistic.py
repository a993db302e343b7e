"""Feature expansion of (logistic) linear models, and losses of many models at once.

Scores of all models are one product of matrices, and a row counts for the models of the folds that
it is not in.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from auucmax._validation import Floats
from auucmax.estimators.formula import expanded
from auucmax.estimators.targets import Loss
from auucmax.rows import ArrayRows, Sample

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
