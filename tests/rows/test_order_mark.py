from itertools import pairwise

import numpy as np

from auucmax.rows import Batch
from auucmax.rows.base import FIRST_KEY, order_mark


def is_marked(place: int) -> bool:
    return place % (2**10 if place < 2**15 else 2**15) < 32


def test_the_rows_of_a_mark_count_and_do_not_depend_on_the_batches():
    rng = np.random.default_rng(0)
    n = 150_000
    batch = Batch(
        rng.normal(size=(n, 3)), rng.random(n), rng.random(n) < 0.5, np.arange(n, dtype=np.uint64)
    )
    whole = order_mark(batch)
    cuts = [0, 1, 31, 40, 900, 1030, 12_345, 2**15 - 1, 2**15, 2**15 + 5, 2**16 + 31, n]
    parts = [Batch(*(column[a:b] for column in batch[:4])) for a, b in pairwise(cuts)]
    assert sum(map(order_mark, parts)) % 2**64 == whole
    places = [0, 31, 32, 1023, 1024, 1055, 1056, 2**15 - 1, 2**15, 2**15 + 1024, 2**16 + 31, n - 1]
    for place in places:
        X = batch.X.copy()
        X[place, 1] += 1
        assert (order_mark(batch._replace(X=X)) != whole) == is_marked(place)
    assert sum(map(is_marked, places)) == 6
    some = batch.take(rng.random(n) < 0.5)  # rows of other arms are left out
    halves = [
        Batch(*(column[part] for column in some[:4])) for part in (slice(7000), slice(7000, n))
    ]
    assert sum(map(order_mark, halves)) % 2**64 == order_mark(some) != whole
    negative, zero = (batch._replace(y=np.full(n, value)) for value in (-0.0, 0.0))
    assert order_mark(negative) == order_mark(zero)
    huge = batch._replace(y=np.full(n, 1e300))  # beyond float32: no warning
    assert order_mark(huge) != whole


def test_places_count_from_the_start_of_a_partition():
    rng = np.random.default_rng(1)
    n = 32_000
    for part in (0, 1, 7):
        keys = np.arange(n, dtype=np.uint64) + np.uint64(part << FIRST_KEY)
        batch = Batch(rng.normal(size=(n, 2)), rng.random(n), rng.random(n) < 0.5, keys)
        mixed = np.concatenate([np.arange(32), 32 + rng.permutation(n - 32)])
        other = Batch(*(column[mixed] for column in batch[:3]), keys)
        assert order_mark(other) != order_mark(batch)
        some = rng.random(n) < 0.5  # rows of other arms are left out
        halves = [Batch(*(c[some][part] for c in batch[:4])) for part in (slice(99), slice(99, n))]
        assert sum(map(order_mark, halves)) % 2**64 == order_mark(batch.take(some))
