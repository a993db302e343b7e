"""A fitted network as numbers: scales of what goes in and comes out, weights, and the score."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from auucmax._validation import Floats
from auucmax.estimators.networks.layers import both_arms
from auucmax.pairs import column_range

__all__ = ["SCALES", "Network", "Scales", "fit_scales"]

SCALES = ("z-score", "min-max")
_BLOCK = 8_192


@dataclass(frozen=True)
class Scales:
    """Features become (x - shift) * factor; outcomes that are not 0/1, (y - y_mean) / y_scale."""

    shift: Floats
    factor: Floats
    binary: bool
    y_mean: float = 0.0
    y_scale: float = 1.0

    def features(
        self, X: NDArray[Any], index: NDArray[np.intp] | None = None
    ) -> NDArray[np.float32]:
        """Scaled rows in single precision, (n, d); of X[index] without a copy of them."""
        rows = np.arange(len(X)) if index is None else index
        scaled = np.empty((len(rows), X.shape[1]), dtype=np.float32)
        for part in _blocks(len(rows)):
            scaled[part] = (X[rows[part]] - self.shift) * self.factor
        return scaled


@dataclass(frozen=True)
class Network:
    """A fitted network: arrays, and the scales of what goes in and comes out. Knows no torch."""

    weights: dict[str, NDArray[np.float32]]
    scales: Scales
    normalise: bool = False

    def uplift(self, X: NDArray[Any]) -> Floats:
        """Mean outcome if treated minus that if not, (n,), in the units of the outcome."""
        # In double precision a row's score does not depend on the rows that it comes with.
        weights = {name: array.astype(np.float64) for name, array in self.weights.items()}
        effect = np.empty(len(X))
        for part in _blocks(len(X)):
            x = (X[part] - self.scales.shift) * self.scales.factor
            control, treated = both_arms(weights, x, normalise=self.normalise)
            if self.scales.binary:
                control, treated = expit(control), expit(treated)
            effect[part] = (treated - control) * self.scales.y_scale
        return effect


def fit_scales(X: NDArray[Any], y: Floats, weight: Floats | None, kind: str) -> Scales:
    """Learn the scales; a constant column gets factor 0."""
    low, high = column_range(X)
    largest = np.maximum(np.abs(low), np.abs(high))
    width = np.where(high - low > 1e-12 * largest, high - low, 0.0)
    factor = np.divide(1.0, width, out=np.zeros_like(width), where=width > 0)
    shift = low
    if kind == "z-score":  # of features in [0, 1]: no square overflows
        mean, spread = _moments(X, low, factor, weight)
        shift, factor = low + mean * width, factor / np.where(spread > 0, spread, 1.0)
    if np.ptp(y) == 0:
        raise ValueError(
            f"y should have two levels, got {y[0]:g} in all rows. There is nothing to learn."
        )
    if np.isin(y, (0, 1)).all():
        return Scales(shift, factor, binary=True)
    y_mean = float(np.average(y, weights=weight))
    largest_y = float(np.abs(y - y_mean).max())  # no square overflows
    y_scale = largest_y * np.sqrt(np.average(((y - y_mean) / largest_y) ** 2, weights=weight))
    return Scales(shift, factor, binary=False, y_mean=y_mean, y_scale=float(y_scale))


def _moments(
    X: NDArray[Any], low: Floats, factor: Floats, weight: Floats | None
) -> tuple[Floats, Floats]:
    """Mean and standard deviation of columns that are scaled to [0, 1]."""
    own = np.ones(len(X)) if weight is None else weight
    total, mean, square = own.sum(), np.zeros(X.shape[1]), np.zeros(X.shape[1])
    for part in _blocks(len(X)):
        mean += own[part] @ ((X[part] - low) * factor)
    mean /= total
    for part in _blocks(len(X)):
        square += own[part] @ ((X[part] - low) * factor - mean) ** 2
    return mean, np.sqrt(square / total)


def _blocks(n: int) -> Iterator[slice]:
    return (slice(start, start + _BLOCK) for start in range(0, n, _BLOCK))
