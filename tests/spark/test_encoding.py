import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from auucmax.data.batches import Batch
from auucmax.spark.encoding import RawValues, _KeyCounts, _keys, _medians, _number, _place_counts

FLOATS = st.one_of(
    st.floats(allow_infinity=False, width=32),
    st.sampled_from([0.0, -0.0, 1.0, 5e-324, -5e-324, 1e300, -1e300, float("nan")]),
)


class Blocks:
    """Rows in memory that are summarised block by block."""

    def __init__(self, X, n_blocks=3):
        self.blocks = np.array_split(X, n_blocks)
        self.readings = 0

    def total(self, summary):
        self.readings += 1
        total = None
        for X in self.blocks:
            n = len(X)
            batch = Batch(X, np.zeros(n), np.zeros(n, dtype=bool), np.arange(n, dtype=np.uint64))
            one = summary(batch)
            total = one if total is None else total + one
        return [total]


def medians(X, n_blocks=3):
    columns, source = list(range(X.shape[1])), Blocks(X, n_blocks)

    def first(batch):
        return _KeyCounts.of(batch, columns, [(0, 2**64 - 1)] * len(columns))

    return _medians(source, columns, source.total(first)[0]), source.readings


def median_slow(column):
    present = column[~np.isnan(column)]
    return float(np.median(present)) if len(present) else None


@settings(deadline=None, max_examples=60)
@given(arrays(np.float64, st.tuples(st.integers(1, 12), st.integers(1, 3)), elements=FLOATS))
def test_medians_are_exact(X):
    found, _ = medians(X)
    assert found == [median_slow(column) for column in X.T]


@pytest.mark.parametrize("n", [10_000, 10_001])
def test_medians_of_many_different_values_take_few_readings(n):
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=n), 1e6 + rng.random(n), rng.integers(0, 90, n)])
    X[rng.random(n) < 0.3, 1] = np.nan
    found, readings = medians(X)
    assert found == [median_slow(column) for column in X.T]
    assert readings <= 6


@settings(deadline=None)
@given(st.lists(st.floats(allow_nan=False), min_size=2))
def test_keys_have_the_order_of_the_values(values):
    array = np.array(values)
    keys = _keys(array)
    assert np.array_equal(np.argsort(keys, kind="stable"), np.argsort(array + 0.0, kind="stable"))
    assert [_number(int(key)) for key in keys] == array.tolist()


def test_raw_values_and_their_places():
    frame = pd.DataFrame({"town": ["a", "NA", None, "b", "1.0"], "age": [1.0, None, 3.0, 4.0, 5.0]})
    values = RawValues({"town": "category", "age": "number"}, {"town": ("1", "a")})(frame)
    assert values[:, 0].tolist() == [1, -1, -1, 2, 0]
    assert np.array_equal(values[:, 1], [1, np.nan, 3, 4, 5], equal_nan=True)
    batch = Batch(values, np.zeros(5), np.zeros(5, dtype=bool), np.arange(5, dtype=np.uint64))
    counts = _place_counts(batch, 4)
    assert counts[0].tolist() == [2, 1, 1, 1]  # missing, "1", "a", other
    assert counts.sum(axis=1).tolist() == [5, 5]
