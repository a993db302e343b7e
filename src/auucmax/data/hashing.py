"""Hashes of rows, and order-independent checksums of tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from auucmax._validation import Floats

Hashes = NDArray[np.uint64]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # 2^64 divided by the golden ratio, odd
MODULUS = 2**53  #: of checksums: whole numbers that JSON holds


def numbers_for(X: Any) -> NDArray[Any]:
    """X if it is numeric; otherwise a matrix of hashes of its values."""
    values = np.asarray(X)
    if values.dtype.kind in "biuf":
        return values
    columns = []
    frame = X if isinstance(X, pd.DataFrame) else pd.DataFrame(values)
    for place in range(frame.shape[1]):
        column = frame.iloc[:, place]
        if pd.api.types.is_numeric_dtype(column):
            columns.append(column.to_numpy(dtype=np.float64, na_value=np.nan))
            continue
        codes, levels = pd.factorize(column)  # each different value is hashed once
        hashes = pd.util.hash_array(np.array([str(level) for level in levels], dtype=object))
        # Missing values have the code -1, the last.
        columns.append(np.append(hashes.astype(np.float64), np.nan)[codes])
    return np.column_stack(columns)


def row_hashes(X: NDArray[Any]) -> Hashes:
    """Hash each row of a matrix, as float32, (n,).

    >>> len(set(row_hashes(np.array([[1.0, 2], [2, 1], [1, 2 + 1e-12]]))))
    2
    """
    found = np.zeros(len(X), dtype=np.uint64)
    factors = mix_bits(np.arange(X.shape[1], dtype=np.uint64)) | np.uint64(1)
    with np.errstate(over="ignore"):
        for column, factor in zip(X.T, factors, strict=True):
            short = column.astype(np.float32) + np.float32(0)  # 0.0 and -0.0 are one number
            found += short.view(np.uint32) * factor
    return mix_bits(found)


@dataclass(frozen=True)
class Checksum:
    """An order-independent checksum of the rows of a trial.

    ``features`` is the sum of the hashes of the features alone, ``rows`` of features, outcome and
    arm, both modulo 2^53. Checksums of parts add up to that of all rows.

    >>> X, y, t = np.arange(6.0).reshape(3, 2), np.array([0.0, 1, 1]), np.array([True, False, True])
    >>> Checksum.of(X, y, t) == Checksum.of(X[::-1], y[::-1], t[::-1])
    True
    >>> Checksum.of(X, y, t) == Checksum.of(X, 1 - y, t)
    False
    """

    n_rows: int
    features: int
    rows: int

    @classmethod
    def of(cls, X: Any, y: Floats, treated: NDArray[Any]) -> Self:
        """The checksum of these rows, with features as a model sees them."""
        features = row_hashes(numbers_for(X))
        rows = mix_bits(features ^ row_hashes(np.column_stack([y, treated])))
        return cls(len(y), *(int(own.sum()) % MODULUS for own in (features, rows)))

    def __add__(self, other: Self) -> Self:
        features, rows = self.features + other.features, self.rows + other.rows
        return type(self)(self.n_rows + other.n_rows, features % MODULUS, rows % MODULUS)


def mix_bits(value: Hashes) -> Hashes:
    """Mix 64 bits (splitmix64: pandas hashes integers by its finaliser)."""
    return np.asarray(pd.util.hash_array(value + _GOLDEN))


def second_hashes(hashes: Hashes) -> Hashes:
    """Hashes for a second draw of the same rows: their upper bits mix all bits of the first."""
    return hashes * _GOLDEN


def keyed_hashes(values: Hashes, key: bytes) -> Hashes:
    """Keyed hashes (SipHash-2-4 with a 16-byte key), (n,).

    >>> one = np.array([0x0706050403020100], dtype=np.uint64)
    >>> hex(keyed_hashes(one, bytes(range(16)))[0])  # of the paper that describes it
    '0x93f5f5799a932462'
    """
    # What pandas.util.hash_array makes of objects, before it mixes the bits once more.
    from pandas._libs.hashing import hash_object_array

    blocks = values.astype("<u8").tobytes()
    texts = [blocks[start : start + 8] for start in range(0, len(blocks), 8)]
    found = hash_object_array(np.array(texts, dtype=object), key.decode("latin-1"), "latin-1")
    return np.asarray(found)
