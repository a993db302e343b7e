"""Hashes of rows, compiled; imported late. The twin is ``hash_rows_slow`` in ``fingerprint.py``."""

# mypy: disallow-untyped-defs=False
from __future__ import annotations

import numpy as np

from auucmax._compile import compiled


@compiled(nogil=True)
def hash_rows(X, y, treated):
    """(n,) hash of each row."""
    n_columns = X.shape[1]
    row = np.empty(n_columns + 1)
    bits = row.view(np.uint64)
    result = np.empty(len(y), np.uint64)
    for i in range(len(y)):
        row[0] = np.float64(np.float32(y[i])) + 0.0
        for j in range(n_columns):
            row[j + 1] = np.float64(np.float32(X[i, j])) + 0.0
        value = np.uint64(1) if treated[i] else np.uint64(2)
        for j in range(n_columns + 1):
            value = (value ^ bits[j]) * np.uint64(0xBF58476D1CE4E5B9)
            value ^= value >> np.uint64(30)
        value += np.uint64(0x9E3779B97F4A7C15)
        value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        value ^= value >> np.uint64(31)
        result[i] = value
    return result
