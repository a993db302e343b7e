"""Numba passes over rows; imported late.

Each pass walks through its rows in chunks of ``CHUNK``. A chunk of X is copied, whatever its dtype
and strides, into a small float64 buffer of shape (features, CHUNK) that stays in the first-level
cache, so X itself is read once and never copied. All arithmetic is float64.

A pass handles the rows start <= i < stop and adds to ``out``. The caller gives every block of rows
a separate ``out`` and adds them up in block order: the result does not depend on the number of
threads. The twins in numpy, with the same arguments, are in ``passes.py``.
"""

# mypy: disallow-untyped-defs=False
from __future__ import annotations

from typing import Any

import numba
import numpy as np

from auucmax._optional import compiled

CHUNK = 128
# Sums may be reordered (for vector instructions); infinities and NaN keep their meaning.
_OPTIONS: dict[str, Any] = {"nogil": True, "fastmath": {"reassoc", "contract", "nsz"}}


# Parts of a pass. They are compiled into the pass and need no place on disk of their own.
_part = numba.njit(**_OPTIONS)


_pass = compiled(**_OPTIONS)


@_part
def _load(X, i0, m, buffer):
    """Copy m rows of X into a column-major buffer, for contiguous inner loops."""
    if X.strides[0] < X.strides[1]:
        for j in range(X.shape[1]):
            for c in range(m):
                buffer[j, c] = X[i0 + c, j]
    else:
        for c in range(m):
            for j in range(X.shape[1]):
                buffer[j, c] = X[i0 + c, j]


@_part
def _place(buffer, m, w, scale, first, count, cell, r):
    """Bin and offset of each row; return the number of rows outside the bins (0)."""
    for c in range(m):
        r[c] = 0.0
    for j in range(buffer.shape[0]):
        for c in range(m):
            r[c] += w[j] * buffer[j, c]
    outside = 0
    for c in range(m):
        position = r[c] * scale
        floor = np.floor(position)
        k = np.int64(floor) - first
        if k < 0 or k >= count:
            outside += 1
            k = min(max(k, 0), count - 1)
        cell[c] = k
        r[c] = position - floor - 0.5
    return outside


@_part
def _row_values(codes, weight, i0, m, coefficients, cell, r, result):
    """weight * polynomial of the row's class and bin, at its offset r (Horner)."""
    top = coefficients.shape[2] - 1
    for c in range(m):
        row = coefficients[codes[i0 + c], cell[c]]
        value = row[top]
        for p in range(top - 1, -1, -1):
            value = value * r[c] + row[p]
        result[c] = value
    if weight.size > 0:
        for c in range(m):
            result[c] *= weight[i0 + c]


@_pass
def moments(X, codes, weight, w, scale, first, out, start, stop):
    """out[class, bin, p] += weight r^p."""
    buffer = np.empty((X.shape[1], CHUNK))
    cell, r = np.empty(CHUNK, np.int64), np.empty(CHUNK)
    outside = 0
    for i0 in range(start, stop, CHUNK):
        m = min(CHUNK, stop - i0)
        _load(X, i0, m, buffer)
        outside += _place(buffer, m, w, scale, first, out.shape[1], cell, r)
        for c in range(m):
            power = weight[i0 + c] if weight.size > 0 else 1.0
            row = out[codes[i0 + c], cell[c]]
            for p in range(out.shape[2]):
                row[p] += power
                power *= r[c]
    return outside


@_pass
def vector_moments(X, codes, weight, w, scale, first, out, start, stop):
    """out[class, bin, p, :] += weight r^p (x, 1)."""
    d = X.shape[1]
    buffer, x = np.empty((d, CHUNK)), np.ones(d + 1)
    cell, r = np.empty(CHUNK, np.int64), np.empty(CHUNK)
    outside = 0
    for i0 in range(start, stop, CHUNK):
        m = min(CHUNK, stop - i0)
        _load(X, i0, m, buffer)
        outside += _place(buffer, m, w, scale, first, out.shape[1], cell, r)
        for c in range(m):
            for j in range(d):
                x[j] = buffer[j, c]
            power = weight[i0 + c] if weight.size > 0 else 1.0
            block = out[codes[i0 + c], cell[c]]
            for p in range(out.shape[2]):
                for j in range(d + 1):
                    block[p, j] += power * x[j]
                power *= r[c]
    return outside


@_pass
def weighted_sum(X, codes, weight, w, scale, first, coefficients, out, start, stop):
    """out += sum_i c_i x_i, c_i = weight polynomial_i."""
    d = X.shape[1]
    buffer = np.empty((d, CHUNK))
    cell, r, value = np.empty(CHUNK, np.int64), np.empty(CHUNK), np.empty(CHUNK)
    for i0 in range(start, stop, CHUNK):
        m = min(CHUNK, stop - i0)
        _load(X, i0, m, buffer)
        _place(buffer, m, w, scale, first, coefficients.shape[1], cell, r)
        _row_values(codes, weight, i0, m, coefficients, cell, r, value)
        for j in range(d):
            total = 0.0
            for c in range(m):
                total += value[c] * buffer[j, c]
            out[j] += total


@_pass
def weighted_gram(X, codes, weight, w, scale, first, coefficients, out, start, stop):
    """Lower triangle of out += sum_i c_i x_i x_i', c_i = weight polynomial_i."""
    d = X.shape[1]
    buffer = np.empty((d, CHUNK))
    cell, r = np.empty(CHUNK, np.int64), np.empty(CHUNK)
    value, scaled = np.empty(CHUNK), np.empty(CHUNK)
    for i0 in range(start, stop, CHUNK):
        m = min(CHUNK, stop - i0)
        _load(X, i0, m, buffer)
        _place(buffer, m, w, scale, first, coefficients.shape[1], cell, r)
        _row_values(codes, weight, i0, m, coefficients, cell, r, value)
        for a in range(d):
            for c in range(m):
                scaled[c] = value[c] * buffer[a, c]
            for b in range(a + 1):
                total = 0.0
                for c in range(m):
                    total += scaled[c] * buffer[b, c]
                out[a, b] += total


@_pass
def row_values(X, codes, weight, w, scale, first, coefficients, out, start, stop):
    """out[i] = weight_i polynomial_i, in blocks of rows of a shared array."""
    buffer = np.empty((X.shape[1], CHUNK))
    cell, r = np.empty(CHUNK, np.int64), np.empty(CHUNK)
    for i0 in range(start, stop, CHUNK):
        m = min(CHUNK, stop - i0)
        _load(X, i0, m, buffer)
        _place(buffer, m, w, scale, first, coefficients.shape[1], cell, r)
        _row_values(codes, weight, i0, m, coefficients, cell, r, out[i0 : i0 + m])
