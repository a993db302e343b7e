"""Feature scaling inside linear ranking models.

A norm constraint means something only on scaled features. Column scalings are a vector of factors
(x_k -> factor_k (x_k - shift_k)), so no scaled copy of X is made; shifts cancel in differences of
scores. ``"unit-rows"`` divides each row by its norm and does copy.

Sums over rows lose the digits of a column that lies far from 0, so such columns are moved to 0 for
training, with every scale and for rows in memory and in batches.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from auucmax._validation import Floats
from auucmax.estimators.base import UpliftEstimator
from auucmax.pairs import column_range, scores
from auucmax.rows import Rows

SCALES = ("min-max", "column-l2", "unit-rows", "none")
_FAR = 1e3  # ranges from 0
_BLOCK = 16_384  # rows whose float64 copy stays in the cache


@dataclass(frozen=True)
class Scaling:
    """Factors and shifts of the columns.

    ``offset`` (d,) is what training rows are moved by; None if no column lies far from 0. It is no
    part of the model: neither radius nor scores depend on it. ``low`` and ``high`` (d,) are the
    extremes of the columns, of rows of unit norm for "unit-rows".
    """

    kind: str
    factor: Floats
    shift: Floats
    offset: Floats | None
    low: Floats
    high: Floats

    def rows(self, X: NDArray[Any]) -> NDArray[Any]:
        """X itself, or X with rows normalised to unit length."""
        return unit_rows(X) if self.kind == "unit-rows" else X

    def scaled(self, X: NDArray[Any]) -> Floats:
        """The scaled rows, a copy."""
        return np.asarray((self.rows(X).astype(np.float64) - self.shift) * self.factor)

    def training_rows(self, X: NDArray[Any]) -> NDArray[Any]:
        """The rows of :meth:`rows`, shifted where columns are too far from 0 for precision.

        Offsets cancel in every difference of scores. A copy is made only in that case.
        """
        if self.offset is None:
            return self.rows(X)
        if self.kind == "unit-rows":
            # What is left of a far column are the last digits of the norms: they should not depend
            # on how X lies in memory.
            X = unit_rows(np.ascontiguousarray(X))
        return np.subtract(X, self.offset, dtype=np.float64)

    def of(self, rows: Rows) -> Rows:
        """Transform rows for the objective: unchanged, normalised or shifted."""
        is_needed = self.offset is not None or self.kind == "unit-rows"
        return rows.map(self.training_rows) if is_needed else rows


def fit_scaling(X: NDArray[Any], kind: str, weight: Floats | None = None) -> Scaling:
    """Compute the scaling of training rows; constant columns get factor 0."""
    X = unit_rows(X) if kind == "unit-rows" else X
    squares = column_squares(X, weight) if kind == "column-l2" else None
    return scaling_of(kind, *column_range(X), squares=squares)


def scaling_of(kind: str, low: Floats, high: Floats, *, squares: Floats | None) -> Scaling:
    """Scaling from column extremes and, for "column-l2", sums of squares.

    For "unit-rows" they are those of rows that are divided by their norms.
    """
    size, shift = np.ones(len(low)), np.zeros(len(low))
    if kind == "min-max":
        largest = np.maximum(np.abs(low), np.abs(high))
        # What differs in the last digits only is constant.
        size, shift = np.where(high - low > 1e-12 * largest, high - low, 0.0), low
    elif squares is not None:  # "column-l2"
        size = np.sqrt(squares)
    factor = np.divide(1.0, size, out=np.zeros_like(size), where=size > 0)
    # Where one column lies more than 1000 ranges from 0, every column that lies more than one from
    # 0 is moved by its lower end. That costs no digits, because numbers of such a column lie within
    # a factor of two of each other. A constant column has no range: it is measured by that of the
    # widest one, whose products it would hide.
    width = factor * (high - low)
    width = np.where(width > 0, width, width.max())
    distance = factor * np.minimum(np.abs(low), np.abs(high))
    is_far = bool((distance > _FAR * width).any())
    offset = np.where(distance > width, low, 0.0) if is_far else None
    return Scaling(kind, factor, shift, offset, low, high)


def scaled_radius(X: NDArray[Any], scaling: Scaling) -> float:
    """R, the largest norm of a scaled row; 0 without rows."""
    if scaling.kind == "unit-rows":
        return 1.0
    own_shift, own_factor = scaling.shift.astype(X.dtype), scaling.factor.astype(X.dtype)

    def largest(start: int) -> float:
        scaled = X[start : start + _BLOCK] - own_shift
        scaled *= own_factor
        return float(np.sqrt(np.einsum("ij,ij->i", scaled, scaled).max()))

    with ThreadPoolExecutor(2) as pool:
        return max(pool.map(largest, range(0, len(X), _BLOCK)), default=0.0)


def column_squares(X: NDArray[Any], weight: Floats | None) -> Floats:
    """Weighted sum of squares of each column, (d,), without a float64 copy of X."""
    squares = np.zeros(X.shape[1])
    for start in range(0, len(X), _BLOCK):
        own = slice(start, start + _BLOCK)
        block = X[own].astype(np.float64)
        squares += (np.ones(len(block)) if weight is None else weight[own]) @ block**2
    return squares


def unit_rows(X: NDArray[Any]) -> NDArray[Any]:
    """Normalise rows to unit length; zero rows stay zero."""
    wide = X.astype(np.float64, copy=False)
    norms = np.sqrt(np.einsum("ij,ij->i", wide, wide))
    return np.asarray(X / np.where(norms > 0, norms, 1.0)[:, None], dtype=X.dtype)


class LinearScore(UpliftEstimator):
    """Base class of linear scores of scaled features, kept in the units of X."""

    def _set_score(self, scaling: Scaling, w: Floats, constant: float = 0.0) -> None:
        """Keep the score w . x + constant of scaled rows x."""
        self.scaling_ = scaling
        self.coef_ = w * scaling.factor
        self.intercept_ = float(constant - self.coef_ @ scaling.shift)
        self.n_parameters_ = len(w) + 1

    def _predict(self, X: NDArray[Any]) -> Floats:
        return scores(self.scaling_.rows(X), self.coef_) + self.intercept_
