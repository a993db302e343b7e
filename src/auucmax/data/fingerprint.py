"""Which rows a model has seen: fingerprints of sets of rows, whatever their order.

Each row (features, outcome, treatment, as float32) is hashed to 64 bits. The sum of the hashes
names the set, in any order; the smallest are a sample that shows an overlap with other rows.
It is no protection against someone who wants to deceive: it is there to catch a slip.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from auucmax._validation import Bools, Floats, check_labels

Hashes = NDArray[np.uint64]

_NONE = np.empty(0, dtype=np.uint64)
COMPILE_ROWS = 200_000  #: from this many rows on, numba
_NUMBERS = ("integer", "floating", "mixed-integer-float", "decimal", "boolean")  # as objects
SAMPLE = 1024  #: smallest hashes that are kept
_BLOCK = 2**16
_MULTIPLY = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
_SHIFTS = (np.uint64(30), np.uint64(27), np.uint64(31))


@dataclass(frozen=True)
class Fingerprint:
    """Number of rows, the sum of their hashes, and the smallest different ones, sorted."""

    n_rows: int
    total: int
    sample: tuple[int, ...] = field(default=(), repr=False, compare=False)

    def __add__(self, other: Fingerprint) -> Fingerprint:
        """Of the rows of both."""
        smallest = sorted(set(self.sample) | set(other.sample))[:SAMPLE]
        total = (self.total + other.total) % 2**64
        return Fingerprint(self.n_rows + other.n_rows, total, tuple(smallest))

    def share_seen(self, others: Fingerprint) -> float:
        """About which share of these rows is among the others."""
        if not (self.sample and others.sample):
            return 0.0
        # A full sample knows nothing above its largest hash.
        full = [sample[-1] for sample in (self.sample, others.sample) if len(sample) == SAMPLE]
        top = min(full, default=2**64)
        mine = [value for value in self.sample if value <= top]
        known = set(others.sample)
        return sum(value in known for value in mine) / len(mine) if mine else 0.0

    def repeats(self) -> float:
        """About which share of the rows repeats another: features may have few values."""
        if len(self.sample) < SAMPLE:
            return 1 - len(self.sample) / self.n_rows
        different = (SAMPLE - 1) / (self.sample[-1] / 2**64)  # as many fill the whole range
        return max(0.0, 1 - different / self.n_rows)

    def overlaps(self, others: Fingerprint) -> bool:
        """Whether more of these rows are among the others than repetition explains."""
        chance = 3 * self.repeats() * max(1.0, others.n_rows / self.n_rows)
        return self.share_seen(others) > 0.05 + chance


@dataclass(frozen=True)
class TrainingRecord:
    """What a fitted model remembers of its rows.

    ``given``: all rows that ``fit`` received; ``learnt``: those among them that it learnt from;
    ``set_aside``: those that it kept for its certificate, after choosing among ``n_candidates``
    with them; ``ids``: sorted hashes of the ids of the rows that it learnt from.
    """

    given: Fingerprint
    learnt: Fingerprint
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
    matrix = numbers_for(X)
    if matrix.dtype not in (np.float32, np.float64):
        matrix = matrix.astype(np.float64)
    hash_rows = hash_rows_slow
    if len(y) >= COMPILE_ROWS:
        from auucmax.data.fingerprint_kernel import hash_rows

    def of_block(start: int) -> tuple[int, Hashes]:
        block = slice(start, start + _BLOCK)
        hashes = hash_rows(matrix[block], y[block], treated[block])
        return int(hashes.sum()), _smallest(hashes)

    with ThreadPoolExecutor() as pool:
        parts = list(pool.map(of_block, range(0, len(y), _BLOCK)))
    total = sum(part for part, _ in parts) % 2**64
    sample = _smallest(np.concatenate([smallest for _, smallest in parts] or [_NONE]))
    return Fingerprint(len(y), total, tuple(sample.tolist()))


def numbers_for(X: Any) -> NDArray[Any]:
    """X itself if it holds numbers; in a frame of other things, hashes stand for their values."""
    values = np.asarray(X)
    if values.dtype.kind in "biuf":
        return values
    frame = X if isinstance(X, pd.DataFrame) else pd.DataFrame(values)
    return np.column_stack([_column_numbers(frame.iloc[:, k]) for k in range(frame.shape[1])])


def _column_numbers(column: pd.Series) -> Floats:
    kind = pd.api.types.infer_dtype(column, skipna=True)
    if pd.api.types.is_numeric_dtype(column) or kind in _NUMBERS:
        return column.to_numpy(dtype=np.float64, na_value=np.nan)
    codes, levels = pd.factorize(column)  # each different value is hashed once
    hashes = pd.util.hash_array(np.array([str(level) for level in levels], dtype=object))
    return np.append(hashes.astype(np.float64), np.nan)[codes]  # missing: code -1, the last


def _smallest(hashes: Hashes) -> Hashes:
    """The smallest different hashes, sorted."""
    if len(hashes) > 4 * SAMPLE:
        few = np.unique(np.partition(hashes, 2 * SAMPLE)[: 2 * SAMPLE])
        if len(few) >= SAMPLE:
            return few[:SAMPLE]
    return np.unique(hashes)[:SAMPLE]


def hash_rows_slow(X: NDArray[Any], y: Floats, treated: Bools) -> Hashes:
    """(n,) hash of each row: the twin of the compiled one."""
    result = np.where(treated, np.uint64(1), np.uint64(2))
    for column in (y, *X.T):
        with np.errstate(over="ignore"):
            value = column.astype(np.float32).astype(np.float64)
        bits = (value + 0.0).view(np.uint64)  # 0.0 and -0.0 are one number
        result = (result ^ bits) * _MULTIPLY[0]
        result ^= result >> _SHIFTS[0]
    return mix_bits(result)


def mix_bits(value: Hashes) -> Hashes:
    """A fixed scrambling of 64 bits (the finaliser of splitmix64)."""
    value = value + np.uint64(0x9E3779B97F4A7C15)
    value = (value ^ (value >> _SHIFTS[0])) * _MULTIPLY[0]
    value = (value ^ (value >> _SHIFTS[1])) * _MULTIPLY[1]
    return value ^ (value >> _SHIFTS[2])


def hash_ids(ids: ArrayLike, n_rows: int) -> Hashes:
    """Sorted hashes of the ids of rows; 1, 1.0 and "1" have the same."""
    labels = check_labels(ids, "ids", n_rows)
    if labels.dtype.kind == "f" and np.array_equal(labels, np.rint(labels)):
        labels = labels.astype(np.int64)
    return np.unique(pd.util.hash_array(labels.astype(str).astype(object)))
