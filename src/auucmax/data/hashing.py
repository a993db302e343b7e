"""Hashes of rows and ids, to 64 bits: numbers as float32, texts and others by their own hashes."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from auucmax._validation import Bools, Floats, check_labels

Hashes = NDArray[np.uint64]

COMPILE_ROWS = 200_000  #: from this many rows on, numba
#: Significant digits, and decimals at most, to which numbers are rounded before hashing, the
#: coarsest first. On that one a number that was rounded to a decimal or more hardly ever changes.
GRIDS = ((3, 1), (3, 99), (6, 99))
FINEST = len(GRIDS) - 1
_HASHED = 2**12  # rows that are hashed together: as many as stay near the processor
_THREADED = 2**16  # rows that one thread hashes at a time
_NUMBERS = ("integer", "floating", "mixed-integer-float", "decimal", "boolean")  # as objects
_MULTIPLY = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
_SHIFTS = (np.uint64(30), np.uint64(27), np.uint64(31))
_SIP_START = (0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573)


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
    try:
        codes, levels = pd.factorize(column)  # each different value is hashed once
    except TypeError:  # lists and the like
        codes, levels = pd.factorize(column.astype(str))
    hashes = pd.util.hash_array(np.array([str(level) for level in levels], dtype=object))
    return np.append(hashes.astype(np.float64), np.nan)[codes]  # missing: code -1, the last


def content_hashes(X: NDArray[Any]) -> dict[int, Hashes]:
    """(n,) a hash of the features of each row, by the place of each of the :data:`GRIDS`.

    >>> found = content_hashes(np.array([[1.23456], [1.2341], [1.2]]))
    >>> [len(set(hashes.tolist())) for hashes in found.values()]
    [1, 2, 3]
    """
    if len(X) < COMPILE_ROWS:
        starts = range(0, max(len(X), 1), _HASHED)
        blocks = [content_hashes_slow(X[start : start + _HASHED]) for start in starts]
        return dict(enumerate(np.concatenate(blocks, axis=1)))
    from auucmax.data.hashing_kernel import hash_contents

    found = np.empty((len(GRIDS), len(X)), dtype=np.uint64)

    def hash_block(start: int) -> None:
        own = slice(start, start + _THREADED)
        hash_contents(X[own], _TENS, _SCALES, _NEXT, found[:, own])

    with ThreadPoolExecutor() as pool:
        list(pool.map(hash_block, range(0, len(X), _THREADED)))
    return dict(enumerate(found))


def content_hashes_slow(X: NDArray[Any]) -> Hashes:
    """(grids, n) hash of each row: the twin of the compiled one."""
    found = []
    for codes in number_codes(X):
        result = np.ones(len(X), dtype=np.uint64)
        for column in codes.T:
            result = (result ^ column) * _MULTIPLY[0]
            result ^= result >> _SHIFTS[0]
        found.append(mix_bits(result))
    return np.array(found)


def row_total(contents: Hashes, y: Floats, treated: Bools) -> int:
    """The sum of hashes of whole rows, modulo 2^64: the same in any order.

    ``contents`` are the hashes of their features on the finest grid.
    """

    def total_of(start: int) -> int:
        own = slice(start, start + _THREADED)
        if ((y[own] == 0) | (y[own] == 1)).all():  # mostly so, and quicker
            known = _OF_BINARY[2 * treated[own].view(np.int8) + y[own].astype(np.int8)]
        else:
            known = _arm_and_outcome(y[own], treated[own])
        return int(mix_bits(contents[own] ^ known).sum(dtype=np.uint64))

    with ThreadPoolExecutor() as pool:
        return sum(pool.map(total_of, range(0, len(y), _THREADED))) % 2**64


def _arm_and_outcome(y: Floats, treated: Bools) -> Hashes:
    arms = np.where(treated, np.uint64(1), np.uint64(2))
    return mix_bits(number_codes(y)[-1] ^ arms)


def number_codes(numbers: NDArray[Any]) -> list[Hashes]:
    """A whole number for each number, on each grid: the same if they round to the same."""
    with np.errstate(over="ignore"):
        short = np.ascontiguousarray(numbers, dtype=np.float32)
    special = ~np.isfinite(short)
    found = []
    for digits, tens in on_grids(np.where(special, np.float32(0), short)):
        codes = digits.astype(np.int64)
        codes *= 1024
        codes += tens
        codes[special] = short.view(np.uint32)[special]
        found.append(codes.view(np.uint64))
    return found


def on_grids(short: NDArray[np.float32]) -> list[tuple[Floats, NDArray[np.int64]]]:
    """For each grid: the digits as a whole number, and the power of ten of the first one.

    By way of float32: a table may be stored so.

    >>> on_grids(np.array([123456, -0.09996], dtype=np.float32))[:2]
    [(array([123.,  -1.]), array([5, 1])), (array([ 123., -100.]), array([ 5, -1]))]
    """
    place = (short.view(np.uint32) >> np.uint32(23) & np.uint32(255)).astype(np.int64)
    place += 256 * (np.abs(short) >= _NEXT[place])
    scaled, tens = short * _SCALES[place], _TENS[place]
    found = []
    for n_digits, decimals in GRIDS:
        digits, own = np.rint(scaled * 10.0 ** (n_digits - 1)), tens
        rounded_up = np.flatnonzero(np.abs(digits) >= 10.0**n_digits)
        if len(rounded_up):
            own = tens.copy()
            digits.flat[rounded_up] /= 10
            own.flat[rounded_up] += 1
        first = n_digits - 1 - decimals  # of a number whose last digit is the last decimal
        if (small := own < first).any():
            digits = np.where(small, np.rint(short.astype(np.float64) * 10.0**decimals), digits)
            own = np.maximum(own, first)
        found.append((digits, own))
    return found


# By the exponent of a float32, whose numbers lie on both sides of at most one power of ten: that
# power, and for the numbers below and above it k, where 10^k is the first below them, and 10^-k.
_FIRST = np.floor((np.arange(256) - 127) * np.log10(2) + 1e-9).astype(np.int64)
_NEXT, _TENS = 10.0 ** (_FIRST + 1.0), np.concatenate([_FIRST, _FIRST + 1])
_SCALES = 10.0**-_TENS


def mix_bits(value: Hashes) -> Hashes:
    """A fixed scrambling of 64 bits (the finaliser of splitmix64)."""
    value = value + np.uint64(0x9E3779B97F4A7C15)  # a new array, which is then changed in place
    value ^= value >> _SHIFTS[0]
    value *= _MULTIPLY[0]
    value ^= value >> _SHIFTS[1]
    value *= _MULTIPLY[1]
    value ^= value >> _SHIFTS[2]
    return value


# Of control rows with the outcomes 0 and 1, then of treated ones.
_OF_BINARY = _arm_and_outcome(np.array([0.0, 1.0, 0.0, 1.0]), np.array([0, 0, 1, 1], dtype=bool))


def keyed_hashes(values: Hashes, key: bytes) -> Hashes:
    """(n,) hashes that nobody can compute who has not the key of 16 bytes (SipHash-2-4).

    >>> one = np.array([0x0706050403020100], dtype=np.uint64)
    >>> hex(keyed_hashes(one, bytes(range(16)))[0])  # of the paper that describes it
    '0x93f5f5799a932462'
    """
    starts = range(0, len(values), _THREADED)
    parts = [values[start : start + _THREADED] for start in starts]
    return np.concatenate([_siphash(part, key) for part in parts] or [values])


def _siphash(values: Hashes, key: bytes) -> Hashes:
    k = np.frombuffer(key, dtype="<u8")
    v = [np.full_like(values, k[i % 2] ^ np.uint64(start)) for i, start in enumerate(_SIP_START)]
    with np.errstate(over="ignore"):
        # One block of 8 bytes, and one with the length of the message.
        for block in (values, np.full_like(values, 8 << 56)):
            v[3] = v[3] ^ block
            _sip_rounds(v, 2)
            v[0] = v[0] ^ block
        v[2] = v[2] ^ np.uint64(255)
        _sip_rounds(v, 4)
    return v[0] ^ v[1] ^ v[2] ^ v[3]


def _sip_rounds(v: list[Hashes], times: int) -> None:
    def turned(x: Hashes, bits: int) -> Hashes:
        return (x << np.uint64(bits)) | (x >> np.uint64(64 - bits))

    for _ in range(times):
        for a, b, c, d, by in ((0, 1, 2, 3, (13, 16)), (2, 1, 0, 3, (17, 21))):
            v[a], v[c] = v[a] + v[b], v[c] + v[d]
            v[b], v[d] = turned(v[b], by[0]) ^ v[a], turned(v[d], by[1]) ^ v[c]
            v[a] = turned(v[a], 32)


def hash_ids(ids: ArrayLike, n_rows: int) -> Hashes:
    """Sorted hashes of the ids of rows; 1, 1.0 and "1" have the same."""
    labels = check_labels(ids, "ids", n_rows)
    if labels.dtype.kind == "f" and np.array_equal(labels, np.rint(labels)):
        labels = labels.astype(np.int64)
    return np.unique(pd.util.hash_array(labels.astype(str).astype(object)))
