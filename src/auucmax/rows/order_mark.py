"""Whether rows that are read again are the same, in the same order: told by a few of them."""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from auucmax.data.fingerprint import mix_bits, numbers_for
from auucmax.rows.base import Batch

FIRST_KEY = 40  #: bits of the place of a row in its partition; those above are the partition's
_BLOCK = 32  # rows that lie together
_STEPS = (2**10, 2**15)  # from one block to the next: among as many rows as the last, and after


def order_mark(batch: Batch) -> int:
    """The sum of hashes of some rows and their keys: other rows, or another order, have another.

    Marks of batches add up, modulo 2^64, to that of all. Which rows depends on their places in the
    partition (:data:`FIRST_KEY`), not on the batches: 32 of each 1,024 up to place 32,768, and then
    of each 32,768. Features and outcomes are told apart as float32: a query may add numbers in
    another order each time, which changes the last digits of a float64.
    """
    keys, base = batch.keys, int(batch.keys[0]) >> FIRST_KEY << FIRST_KEY
    start, stop = int(keys[0]) - base, int(keys[-1]) + 1 - base
    often, seldom = _STEPS
    blocks = np.concatenate(
        [
            np.arange(start // often * often, min(stop, seldom), often),
            np.arange(max(start // seldom, 1) * seldom, stop, seldom),
        ]
    )
    wanted = (blocks[:, None] + np.arange(_BLOCK)).ravel()
    wanted = wanted[(wanted >= start) & (wanted < stop)]
    places = wanted - start
    if len(keys) < stop - start:  # rows of other arms are left out
        named = wanted.astype(np.uint64) + np.uint64(base)
        places = np.searchsorted(keys, named)
        places = places[keys[places] == named]
    if not len(places):
        return 0
    values = np.empty((batch.X.shape[1] + 2, len(places)), dtype=np.float32)
    with np.errstate(over="ignore"):
        if isinstance(batch.X, np.ndarray):
            values[:-2] = batch.X.T.take(places, axis=1)
        else:  # hashes stand for what is not a number
            values[:-2] = numbers_for(batch.X.iloc[places]).T
        values[-2], values[-1] = batch.y[places], batch.treated[places]
    values += np.float32(0)  # 0.0 and -0.0 are one number
    factors = _factors(len(values) + 1)
    hashes = factors[1:] @ values.view(np.uint32) + factors[0] * keys[places]
    return int(mix_bits(hashes).sum())


@cache
def _factors(n: int) -> NDArray[np.uint64]:
    """Odd numbers that have nothing to do with each other."""
    return mix_bits(np.arange(n, dtype=np.uint64)) | np.uint64(1)
