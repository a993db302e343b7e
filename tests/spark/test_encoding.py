from datetime import date
from decimal import Decimal
from functools import reduce

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from tests.spark.cases import MARKS

from auucmax import spark as on_spark
from auucmax.data.table_errors import TableError
from auucmax.estimators.auucmax import AUUCMax
from auucmax.estimators.table_encoder import TableEncoder
from auucmax.rows import Batch
from auucmax.spark import encoding
from auucmax.spark.encoding import (
    RawValues,
    _KeyCounts,
    _keys,
    _medians,
    _number,
    _place_counts,
    fit_encoder,
)
from auucmax.spark.frame import arrow_columns
from auucmax.spark.rows import SparkRows, TableRows

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


def with_spark(test):
    """A test that needs a session."""
    return reduce(lambda marked, mark: mark(marked), MARKS, test)


# Spark's type of the arms; control, treated, and a third arm; labels that name the first two.
ARMS = {
    "boolean": (False, True, None, [(True, False), ("true", "FALSE")]),
    "tinyint": (0, 1, 2, [(1, 0), (1.0, "0")]),
    "bigint": (2**60, 2**60 + 1, 2**60 + 2, [(2**60 + 1, 2**60)]),
    "float": (float(np.float32(0.1)), float(np.float32(0.2)), float("nan"), [(0.2, "0.1")]),
    "double": (-0.0, 1.0, float("nan"), [(1, 0), ("1", "0")]),
    "decimal(5,2)": (Decimal("0.00"), Decimal("1.00"), Decimal("1.50"), [(1, 0), ("1", 0.0)]),
    "string": ("False", "TRUE", "no", [(True, False), ("true", "false")]),
    "date": (date(2024, 1, 1), date(2024, 1, 2), date(2024, 1, 3), [("2024-01-02", "2024-01-01")]),
}


@with_spark
@pytest.mark.parametrize("kind", ARMS)
def test_levels_and_rows_are_of_the_arms_that_are_named(spark, kind):
    control, treated, other, labels = ARMS[kind]
    towns = ["Oslo", "Rome", "Bern", "Lima"]
    arms = [control, treated, other, None]
    given = [(towns[k], arms[k], i % 3 % 2) for i in range(40) for k in range(4)]
    df = spark.createDataFrame(given, f"town string, t {kind}, y int").coalesce(2)
    for label_treated, label_control in labels:
        rows = arrow_columns(df, ["y"], "t", "y", label_treated, label_control)
        raw = TableRows(rows, ("town",))
        (column,) = fit_encoder(SparkRows(df, raw), TableEncoder(min_level_rows=1)).columns_
        assert column.levels == ("Oslo", "Rome")
    named = {"treated": labels[0][0], "control": labels[0][1]}
    found = on_spark.evaluate(df, treatment="t", outcome="y", score="y", **named)  # y is its score
    assert found.n_rows == 80


@with_spark
def test_roles_and_types_of_columns_are_told_before_a_job(spark, monkeypatch):
    given = [("a", "yes", 1, "1", [1], 0.5), ("b", "no", 0, "0", [0], 1.5)]
    df = spark.createDataFrame(
        given, "town string, t string, n int, s string, l array<int>, x double"
    )
    named = {"treated": "yes", "control": "no"}
    cases = [
        ({"treatment": "t", "outcome": "n", "features": ["x", "n"], **named}, "got 'n'. Leave it"),
        ({"treatment": "t", "outcome": "n", "features": ["x", "t"], **named}, "got 't'. Leave it"),
        ({"treatment": "t", "outcome": "n", "features": ["x", "x"], **named}, "'x' more than once"),
        ({"treatment": "n", "outcome": "n", "features": ["x"]}, "two columns, got 'n' for both"),
        ({"treatment": "t", "outcome": "s", "features": ["x"], **named}, "'s' should hold numbers"),
        ({"treatment": "n", "outcome": "s", "features": ["town"]}, "'s' should hold numbers"),
        ({"treatment": "n", "outcome": "l", "features": ["x"]}, "'l' should hold numbers"),
        (
            {"treatment": "t", "outcome": "n", "features": ["x"]},
            "Name the two arms with treated= a",
        ),
        ({"treatment": "t", "outcome": "n", "features": ["town"]}, "Name the two arms with treate"),
        ({"treatment": "l", "outcome": "n", "features": ["x"], **named}, "'l' should hold numbers"),
    ]
    for arguments, message in cases:
        with pytest.raises(TableError, match=message) as caught:
            on_spark.fit(df, **arguments, model=AUUCMax(selection=None))
        assert "\n" not in str(caught.value)
    for arguments, message in (cases[3], cases[4], cases[7]):
        known = {name: value for name, value in arguments.items() if name != "features"}
        with pytest.raises(TableError, match=message):
            on_spark.evaluate(df, **known, score="x")
    monkeypatch.setattr(encoding, "MAX_ARMS", 1)
    with pytest.raises(TableError, match="'t' should name the arms, got more than 1 different"):
        on_spark.fit(df, treatment="t", outcome="n", features=["town"], **named)
