"""Numpy versions of the passes in ``kernels.py``, with the same interface."""

# mypy: disallow-untyped-defs=False
from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array

from auucmax._validation import Floats

CHUNK = 16_384  # rows at a time, so that temporaries stay in the cache


def parts(X: NDArray[Any], start: int, stop: int) -> Iterator[tuple[int, Floats]]:
    for i in range(start, stop, CHUNK):
        yield i, np.asarray(X[i : min(i + CHUNK, stop)], dtype=np.float64)


class _Placed(NamedTuple):
    x: Floats
    weight: Floats
    where: NDArray[np.int64]  # class and bin, as one number
    r: Floats
    outside: int


def _placed(X, codes, weight, w, scale, first, count, start, stop):
    """Bin and offset of each row, some rows at a time."""
    for i, x in parts(X, start, stop):
        span = slice(i, i + len(x))
        position = (x @ w) * scale
        floor = np.floor(position)
        cell = floor.astype(np.int64) - first
        inside = np.clip(cell, 0, count - 1)
        part_weight = weight[span] if weight.size else np.ones(len(x))
        outside = int(np.count_nonzero(cell != inside))
        where = codes[span].astype(np.int64) * count + inside
        yield _Placed(x, part_weight, where, position - floor - 0.5, outside)


def _horner(part, coefficients):
    own = coefficients.reshape(-1, coefficients.shape[2])[part.where]
    value = own[:, -1].copy()
    for p in range(own.shape[1] - 2, -1, -1):
        value *= part.r
        value += own[:, p]
    return value * part.weight


def moments(X, codes, weight, w, scale, first, out, start, stop):
    outside = 0
    n_classes, count, _ = out.shape
    for part in _placed(X, codes, weight, w, scale, first, count, start, stop):
        outside += part.outside
        power = part.weight.copy()
        for p in range(out.shape[2]):
            out[:, :, p] += np.bincount(part.where, power, n_classes * count).reshape(-1, count)
            power *= part.r
    return outside


def vector_moments(X, codes, weight, w, scale, first, out, start, stop):
    outside = 0
    n_classes, count, n_moments, width = out.shape
    for part in _placed(X, codes, weight, w, scale, first, count, start, stop):
        outside += part.outside
        extended = np.column_stack([part.x, np.ones(len(part.x))])
        power = part.weight.copy()
        for p in range(n_moments):
            # One entry a column: row i of x goes, times its power, to the bin of row i.
            entries = (power, part.where, np.arange(len(power) + 1))
            spread = csc_array(entries, shape=(n_classes * count, len(power)))
            out[:, :, p] += (spread @ extended).reshape(n_classes, count, width)
            power = power * part.r
    return outside


def weighted_sum(X, codes, weight, w, scale, first, coefficients, out, start, stop):
    for part in _placed(X, codes, weight, w, scale, first, coefficients.shape[1], start, stop):
        out += _horner(part, coefficients) @ part.x


def weighted_gram(X, codes, weight, w, scale, first, coefficients, out, start, stop):
    for part in _placed(X, codes, weight, w, scale, first, coefficients.shape[1], start, stop):
        out += part.x.T @ (_horner(part, coefficients)[:, None] * part.x)


def row_values(X, codes, weight, w, scale, first, coefficients, out, start, stop):
    done = start
    for part in _placed(X, codes, weight, w, scale, first, coefficients.shape[1], start, stop):
        out[done : done + len(part.r)] = _horner(part, coefficients)
        done += len(part.r)
