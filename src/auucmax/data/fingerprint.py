"""Which rows a model has seen: fingerprints of sets of rows, whatever their order.

Each row (features, outcome, treatment) is hashed to 64 bits and the hashes are added, so the
fingerprint of a set does not depend on the order of its rows, and says nothing of them. It is no
protection against someone who wants to deceive: it is there to catch a slip.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from auucmax._validation import Bools, Floats, check_labels

__all__ = ["Fingerprint", "TrainingRecord", "fingerprint", "hash_ids", "hash_rows_slow"]

Hashes = NDArray[np.uint64]

COMPILE_ROWS = 200_000  #: from this many rows on, numba
_BLOCK = 2**16
_MULTIPLY = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
_SHIFTS = (np.uint64(30), np.uint64(27), np.uint64(31))


@dataclass(frozen=True)
class Fingerprint:
    """Number of rows, and the sum of their hashes."""

    n_rows: int
    total: int


@dataclass(frozen=True)
class TrainingRecord:
    """What a fitted model remembers of its rows.

    ``given``: all rows that ``fit`` received; ``set_aside``: those among them that it kept for its
    certificate, after choosing among ``n_candidates`` with them; ``ids``: sorted hashes of the ids
    of the rows that it learnt from.
    """

    given: Fingerprint
    set_aside: Fingerprint | None = None
    n_candidates: int = 1
    ids: Hashes | None = None

    def __repr__(self) -> str:
        return f"TrainingRecord({self.given.n_rows:,} rows)"


def fingerprint(X: Any, y: Floats, treated: Bools) -> Fingerprint:
    """Of the rows of a trial, in any order.

    Examples
    --------
    >>> X, y, t = np.arange(6.0).reshape(3, 2), np.array([0.0, 1, 1]), np.array([True, False, True])
    >>> fingerprint(X, y, t) == fingerprint(X[::-1], y[::-1], t[::-1])
    True
    >>> fingerprint(X, y, t) == fingerprint(X, 1 - y, t)
    False
    """
    matrix = np.asarray(X)
    if matrix.dtype not in (np.float32, np.float64):
        matrix = matrix.astype(np.float64)
    blocks = [slice(i, i + _BLOCK) for i in range(0, len(y), _BLOCK)]
    if len(y) < COMPILE_ROWS:
        totals = [int(hash_rows_slow(matrix[b], y[b], treated[b]).sum()) for b in blocks]
    else:
        from auucmax.data.fingerprint_kernel import sum_of_hashes

        with ThreadPoolExecutor() as pool:
            totals = list(
                pool.map(lambda b: int(sum_of_hashes(matrix[b], y[b], treated[b])), blocks)
            )
    return Fingerprint(len(y), sum(totals) % 2**64)


def hash_rows_slow(X: NDArray[Any], y: Floats, treated: Bools) -> Hashes:
    """(n,) hash of each row: the twin of the compiled one."""
    result = np.where(treated, np.uint64(1), np.uint64(2))
    for column in (y, *X.T):
        bits = (column.astype(np.float64) + 0.0).view(np.uint64)  # 0.0 and -0.0 are one number
        result = _mix(result ^ bits)
    return result


def _mix(value: Hashes) -> Hashes:
    """A fixed scrambling of 64 bits (the finaliser of splitmix64)."""
    value = value + np.uint64(0x9E3779B97F4A7C15)
    value = (value ^ (value >> _SHIFTS[0])) * _MULTIPLY[0]
    value = (value ^ (value >> _SHIFTS[1])) * _MULTIPLY[1]
    return value ^ (value >> _SHIFTS[2])


def hash_ids(ids: ArrayLike, n_rows: int) -> Hashes:
    """Sorted hashes of the ids of rows; equal ids, as numbers or as text, have equal hashes."""
    labels = check_labels(ids, "ids", n_rows)
    return np.unique(pd.util.hash_array(labels.astype(str).astype(object)))
