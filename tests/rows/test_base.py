"""Rows are the same rows however they are cut into batches, viewed, cached or asked together."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.batches_in_memory import ListedRows

from auucmax.rows import ArrayRows, Batch, HashedPart, Share, part_of
from auucmax.rows.base import order_mark


def made(n=60, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 2)).astype(np.float32), rng.integers(0, 2, n), rng.integers(0, 2, n)


def listed(batch):
    return list(zip(batch.keys.tolist(), batch.X.tolist(), batch.y.tolist(), strict=True))


def n_rows(batch):
    return len(batch.y)


def first_column(X):
    return 2 * X[:, :1]


def viewed(rows, steps):
    for step in steps:
        if step == "map":
            rows = rows.map(first_column, ("twice",))
        elif step == "part":
            rows = rows.part(HashedPart(3, (0, 2), 5))
        else:
            rows = rows.part(Share(0.4, 7))
    return rows


@settings(deadline=None, max_examples=40)
@given(
    edges=st.lists(st.integers(0, 60), max_size=5),
    steps=st.lists(st.sampled_from(["map", "part", "share"]), max_size=3),
    seed=st.integers(0, 9),
)
def test_views_are_those_of_the_rows_in_memory(edges, steps, seed):
    X, y, treatment = made(seed=seed)
    memory = viewed(ArrayRows(X, y.astype(float), treatment == 1), steps)
    source = ListedRows(X, y, treatment, edges)
    rows = viewed(source, steps)
    expected = memory.total(listed, n_rows)
    assert rows.total(listed, n_rows) == expected
    assert rows.names == memory.names


def test_parts_are_every_row_once_and_a_share_is_about_its_size():
    X, y, treatment = made(3000)
    rows = ArrayRows(X, y.astype(float), treatment == 1)
    parts = [rows.part(HashedPart(4, (k,), 1)).total(n_rows)[0] for k in range(4)]
    assert sum(parts) == 3000
    assert min(parts) > 600
    assert 800 < rows.part(Share(0.3, 1)).total(n_rows)[0] < 1000
    other = rows.part(Share(0.3, 2)).keys
    assert not np.array_equal(rows.part(Share(0.3, 1)).keys, other)
    assert np.array_equal(
        part_of(rows.keys, 4, 1) == 2, np.isin(rows.keys, rows.part(HashedPart(4, (2,), 1)).keys)
    )


def test_weights_and_frames_go_along():
    pd = pytest.importorskip("pandas")
    X = pd.DataFrame({"a": ["x", "y", "x"], "b": [1, 2, 3]})
    rows = ArrayRows(X, np.zeros(3), np.array([True, False, True]), np.array([1.0, 2.0, 3.0]))
    assert rows.names == ("a", "b")
    few = rows.take(np.array([0, 2]))
    assert few.X["b"].tolist() == [1, 3]
    assert few.weight.tolist() == [1.0, 3.0]
    assert few.keys.tolist() == [0, 2]
    assert rows.map(lambda frame: frame[["b"]].to_numpy(), ("b",)).X.tolist() == [[1], [2], [3]]


# The mark of rows and their order.


def is_marked(place: int) -> bool:
    return place < 1024 or place % 1024 == 0


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
    assert sum(map(is_marked, places)) == 7
    some = batch.take(rng.random(n) < 0.5)  # rows of other arms are left out
    halves = [
        Batch(*(column[part] for column in some[:4])) for part in (slice(7000), slice(7000, n))
    ]
    assert sum(map(order_mark, halves)) % 2**64 == order_mark(some) != whole
    negative, zero = (batch._replace(y=np.full(n, value)) for value in (-0.0, 0.0))
    assert order_mark(negative) == order_mark(zero)
    huge = batch._replace(y=np.full(n, 1e300))  # beyond float32: no warning
    assert order_mark(huge) != whole
