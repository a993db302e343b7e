"""Rows are the same rows however they are cut into batches, viewed, cached or asked together."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.batches_in_memory import ListedRows

from auucmax.rows import ArrayRows, Batch, Part, Rows, Share, ask, part_of, together


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
            rows = rows.part(Part(3, (0, 2), 5))
        else:
            rows = rows.part(Share(0.4, 7))
    return rows


@settings(deadline=None, max_examples=40)
@given(
    edges=st.lists(st.integers(0, 60), max_size=5),
    steps=st.lists(st.sampled_from(["map", "part", "share"]), max_size=3),
    cache=st.booleans(),
    seed=st.integers(0, 9),
)
def test_views_and_caches_are_those_of_the_rows_in_memory(edges, steps, cache, seed):
    X, y, treatment = made(seed=seed)
    memory = viewed(ArrayRows(X, y.astype(float), treatment == 1), steps)
    source = ListedRows(X, y, treatment, edges)
    rows = viewed(source, steps)
    expected = memory.total(listed, n_rows)
    assert rows.total(listed, n_rows) == expected
    assert rows.names == memory.names
    if cache:
        with rows.cached() as kept, memory.cached() as same:
            before = source.n_readings
            assert kept.total(listed, n_rows) == same.total(listed, n_rows) == expected
            assert source.n_readings == before
            if expected[1]:
                batch = next(iter(kept.batches()))
                assert batch.X.dtype == np.float32
                assert batch.weight is None


def test_parts_are_every_row_once_and_a_share_is_about_its_size():
    X, y, treatment = made(3000)
    rows = ArrayRows(X, y.astype(float), treatment == 1)
    parts = [rows.part(Part(4, (k,), 1)).total(n_rows)[0] for k in range(4)]
    assert sum(parts) == 3000
    assert min(parts) > 600
    assert 800 < rows.part(Share(0.3, 1)).total(n_rows)[0] < 1000
    other = rows.part(Share(0.3, 2)).keys
    assert not np.array_equal(rows.part(Share(0.3, 1)).keys, other)
    assert np.array_equal(
        part_of(rows.keys, 4, 1) == 2, np.isin(rows.keys, rows.part(Part(4, (2,), 1)).keys)
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


class Weighted(Rows):
    names = ("a",)

    def batches(self):
        for k in (0, 5):
            keys = np.arange(k, k + 5, dtype=np.uint64)
            yield Batch(keys[:, None] * 1.0, keys % 2.0, keys % 2 == 0, keys, keys * 0.5)


def test_weights_are_cached():
    with Weighted().cached() as kept:
        assert np.concatenate([b.weight for b in kept.batches()]).tolist() == [
            k / 2 for k in range(10)
        ]


def steps_of(rows, n):
    """A question of n readings."""
    found = []
    for _ in range(n):
        ((total,),) = yield [(rows, (n_rows,))]
        found.append(total)
    return found


def test_questions_share_their_readings():
    rows = ListedRows(*made(), [20])
    view, other = rows.part(Part(2, (0,), 1)), ListedRows(*made(30))
    (size,) = view.total(n_rows)
    rows.n_readings = 0
    answers = ask(
        together(
            steps_of(rows, 3), together(steps_of(view, 5), steps_of(other, 1)), steps_of(view, 0)
        )
    )
    assert answers == [[60] * 3, [[size] * 5, [30]], []]
    assert rows.n_readings == 5
    assert other.n_readings == 1


def test_a_question_that_fails_says_why():
    def wrong(rows):
        yield [(rows, (n_rows,))]
        raise ValueError("a reason")

    rows = ListedRows(*made())
    with pytest.raises(ValueError, match="a reason"):
        ask(together(steps_of(rows, 3), wrong(rows)))


def test_no_rows_at_all():
    class Empty(Rows):
        names = ("x",)

        def batches(self):
            return iter(())

    with pytest.raises(ValueError, match="at least one row, got none"):
        Empty().total(n_rows)
    with Empty().cached() as kept, pytest.raises(ValueError, match="at least one row"):
        kept.total(n_rows)
