"""Networks as named arrays: their shapes, how they start, what they compute.

The functions take numpy arrays and torch tensors alike, so training (torch) and scoring (numpy)
share one definition, and a fitted network scores without torch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "both_arms",
    "chain",
    "head",
    "initialise",
    "layers_of",
    "one_headed",
    "output",
    "represent",
    "two_headed",
]

Array = Any  # numpy array or torch tensor
Weights = dict[str, Any]
Shapes = dict[str, tuple[int, ...]]


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
