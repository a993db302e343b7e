"""Feature scaling that is part of a linear ranking model.

A norm constraint means something only on scaled features. Column scalings are a vector of factors
(x_k -> factor_k (x_k - shift_k)), so no scaled copy of X is made; shifts cancel in differences of
scores. ``"unit-rows"`` divides each row by its norm and does copy.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from auucmax._validation import Floats

__all__ = ["SCALES", "Scaling", "fit_scaling", "unit_rows"]

SCALES = ("min-max", "column-l2", "unit-rows", "none")
_BLOCK = 65_536


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
        low, high = (f(X, axis=0).astype(np.float64) for f in (np.min, np.max))
        factor, shift = _inverse(high - low), low
    elif kind == "column-l2":
        squares = sum(np.einsum("ij,ij->j", block, block) for block in _blocks(X))
        factor = _inverse(np.sqrt(squares))
    elif kind == "unit-rows":
        return Scaling(kind, factor, shift, 1.0)
    largest = max(float(_norms((block - shift) * factor).max()) for block in _blocks(X))
    return Scaling(kind, factor, shift, largest)


def _blocks(X: NDArray[Any]) -> Iterator[Floats]:
    for start in range(0, len(X), _BLOCK):
        yield X[start : start + _BLOCK].astype(np.float64, copy=False)


def _norms(X: NDArray[Any]) -> Floats:
    return np.sqrt(np.einsum("ij,ij->i", X, X))


def unit_rows(X: NDArray[Any]) -> NDArray[Any]:
    """Rows divided by their norms; a row of zeros stays."""
    norms = _norms(X.astype(np.float64, copy=False))
    return np.asarray(X / np.where(norms > 0, norms, 1.0)[:, None], dtype=X.dtype)


def _inverse(size: Floats) -> Floats:
    return np.divide(1.0, size, out=np.zeros_like(size), where=size > 0)
