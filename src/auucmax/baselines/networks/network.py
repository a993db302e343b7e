"""Networks as named arrays: shapes, how they start, what they compute; a fitted one and its scales.

The functions of layers take numpy arrays or torch tensors, so training (torch) and scoring
(numpy) share one definition, and a fitted network scores without torch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from auucmax._validation import Floats
from auucmax.pairs import column_range

Array = Any  # numpy array or torch tensor
Weights = dict[str, Any]
Shapes = dict[str, tuple[int, ...]]

SCALES = ("z-score", "min-max")
_BLOCK = 8_192


# Layers


def chain(name: str, sizes: Sequence[int]) -> Shapes:
    """Shapes of dense layers, one after the other.

    >>> chain("shared", [3, 2])
    {'shared.0.weight': (3, 2), 'shared.0.bias': (2,)}
    """
    shapes: Shapes = {}
    for k, (fan_in, fan_out) in enumerate(pairwise(sizes)):
        shapes[f"{name}.{k}.weight"] = (fan_in, fan_out)
        shapes[f"{name}.{k}.bias"] = (fan_out,)
    return shapes


def two_headed(n_features: int, shared: Sequence[int], heads: Sequence[int]) -> Shapes:
    """A shared representation, and a head with one output for each arm.

    >>> sum(int(np.prod(s)) for s in two_headed(22, (64, 64), (64, 64)).values())
    22402
    """
    sizes = [n_features, *shared]
    return {
        **chain("shared", sizes),
        **chain("control", [sizes[-1], *heads, 1]),
        **chain("treated", [sizes[-1], *heads, 1]),
    }


def one_headed(n_features: int, shared: Sequence[int], heads: Sequence[int]) -> Shapes:
    """A shared representation, and one head that is fed with it and with the treatment."""
    sizes = [n_features, *shared]
    return {**chain("shared", sizes), **chain("head", [sizes[-1] + 1, *heads, 1])}


def initialise(shapes: Shapes, rng: np.random.Generator) -> dict[str, NDArray[np.float32]]:
    """Normal weights of variance 2 / fan-in, biases of 0.

    Weights of an output are a tenth of that: the effect starts near 0.
    """
    weights = {}
    for name, shape in shapes.items():
        drawn = np.zeros(shape)
        if name.endswith(".weight"):
            gain = 0.1 if shape[1] == 1 else 1.0
            drawn = rng.normal(0.0, gain * np.sqrt(2.0 / shape[0]), shape)
        weights[name] = drawn.astype(np.float32)
    return weights


def represent(weights: Weights, x: Array, *, normalise: bool = False) -> Array:
    """Phi(x), (n, width); with rows of unit norm if ``normalise``."""
    for weight, bias in layers_of(weights, "shared"):
        x = _rectified(_dense(x, weight, bias))
    return x / ((x * x).sum(1, keepdims=True) + 1e-12) ** 0.5 if normalise else x


def head(weights: Weights, phi: Array, arm: str) -> Array:
    """Output, (n,), of the head of ``arm``, "treated" or "control", before any link.

    A single head is fed with [phi, t]: the last row of its first weights is added for t = 1.
    """
    if f"{arm}.0.weight" in weights:
        return output(layers_of(weights, arm), phi)
    (weight, bias), *rest = layers_of(weights, "head")
    shift = bias + weight[-1] if arm == "treated" else bias
    return output([(weight[:-1], shift), *rest], phi)


def both_arms(weights: Weights, x: Array, *, normalise: bool = False) -> tuple[Array, Array]:
    """Outputs for control and treated, each (n,)."""
    phi = represent(weights, x, normalise=normalise)
    return head(weights, phi, "control"), head(weights, phi, "treated")


def output(layers: Iterable[tuple[Array, Array]], x: Array) -> Array:
    """Rectified layers and a linear last one with one output, (n,)."""
    *hidden, (weight, bias) = layers
    for inner, shift in hidden:
        x = _rectified(_dense(x, inner, shift))
    return _dense(x, weight, bias)[:, 0]


def _dense(x: Array, weight: Array, bias: Array) -> Array:
    return bias.addmm(x, weight) if hasattr(bias, "addmm") else x @ weight + bias


def _rectified(x: Array) -> Array:
    return x.relu() if hasattr(x, "relu") else np.maximum(x, 0.0)


def layers_of(weights: Weights, name: str) -> Iterator[tuple[Array, Array]]:
    """Weights and biases of a chain, first to last."""
    k = 0
    while f"{name}.{k}.weight" in weights:
        yield weights[f"{name}.{k}.weight"], weights[f"{name}.{k}.bias"]
        k += 1


# A fitted network


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
