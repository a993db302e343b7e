"""Feature scaling that is part of a linear ranking model.

A norm constraint means something only on scaled features. Column scalings are a vector of factors
(x_k -> factor_k (x_k - shift_k)), so no scaled copy of X is made; shifts cancel in differences of
scores. ``"unit-rows"`` divides each row by its norm and does copy.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from auucmax._validation import Floats
from auucmax.pairs import column_range

__all__ = ["SCALES", "Scaling", "fit_scaling", "unit_rows"]

SCALES = ("min-max", "column-l2", "unit-rows", "none")
_BLOCK = 16_384  # rows whose float64 copy stays in the cache


@dataclass(frozen=True)
class Scaling:
    """Factors and shifts of the columns, and R, the largest norm of a scaled training row."""

    kind: str
    factor: Floats
    shift: Floats
    radius: float

    def rows(self, X: NDArray[Any]) -> NDArray[Any]:
        """X itself, or with rows of unit norm."""
        return unit_rows(X) if self.kind == "unit-rows" else X


def fit_scaling(X: NDArray[Any], kind: str) -> Scaling:
    """Learn a scaling from training rows; constant columns get factor 0 where they say nothing."""
    d = X.shape[1]
    factor, shift = np.ones(d), np.zeros(d)
    if kind == "min-max":
        low, high = column_range(X)
        factor, shift = _inverse(high - low), low
    elif kind == "column-l2":
        factor = _inverse(np.sqrt(np.sum(_each_block(X, _column_squares), axis=0)))
    elif kind == "unit-rows":
        return Scaling(kind, factor, shift, 1.0)
    norms = _each_block(X, lambda block: float(_norms((block - shift) * factor).max()))
    return Scaling(kind, factor, shift, max(norms))


def _each_block(X: NDArray[Any], f: Callable[[Floats], Any]) -> list[Any]:
    """f of each stretch of rows, as float64, in two threads: numpy works outside the lock."""
    with ThreadPoolExecutor(2) as pool:
        return list(
            pool.map(
                lambda start: f(X[start : start + _BLOCK].astype(np.float64, copy=False)),
                range(0, len(X), _BLOCK),
            )
        )


def _column_squares(block: Floats) -> Floats:
    return np.einsum("ij,ij->j", block, block)


def _norms(X: NDArray[Any]) -> Floats:
    return np.sqrt(np.einsum("ij,ij->i", X, X))


def unit_rows(X: NDArray[Any]) -> NDArray[Any]:
    """Rows divided by their norms; a row of zeros stays."""
    norms = _norms(X.astype(np.float64, copy=False))
    return np.asarray(X / np.where(norms > 0, norms, 1.0)[:, None], dtype=X.dtype)


def _inverse(size: Floats) -> Floats:
    return np.divide(1.0, size, out=np.zeros_like(size), where=size > 0)
