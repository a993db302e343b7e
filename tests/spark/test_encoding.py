from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import reduce

import numpy as np
import pandas as pd
import pytest
from tests.spark.cases import MARKS

from auucmax import spark as on_spark
from auucmax.data.table_errors import TableError
from auucmax.encoding import TableEncoder
from auucmax.estimators.auucmax import AUUCMax
from auucmax.spark import encoding
from auucmax.spark.encoding import _medians, _summaries, fit_encoder
from auucmax.spark.rows import arrow_columns


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
        (column,) = fit_encoder(df, ["town"], TableEncoder(min_level_rows=1), rows).columns_
        assert column.levels == ("Oslo", "Rome")
    named = {"treated": labels[0][0], "control": labels[0][1]}
    found = on_spark.evaluate(df, treatment="t", outcome="y", score="y", **named)  # y is its score
    assert found.n_rows == 80


TEXTS = ["a", "a", "b", "b", "1", "1.0", "1.0", "-0", "0", "0", "0.50", "True", "True", "true", "x",
         "1.0\n", "", "NA", None, "null", "00.0", "FALSE"]  # fmt: skip


@with_spark
@pytest.mark.parametrize("min_level_rows", [1, 2, 3, 99])
def test_columns_of_every_type_are_learnt_as_in_memory(spark, min_level_rows):
    n = len(TEXTS)
    start = datetime(2024, 3, 30, 22, 30, 0, 250_000)  # a night that a zone may cut an hour of
    moments = [start + timedelta(hours=k) for k in range(n)]
    frame = {
        "text.s": TEXTS,
        "day": [None, *(moment.date() for moment in moments[1:])],
        "local": moments,
        "int": range(n),
        "float": [float(np.float32(k / 3)) for k in range(n)],
        "double": [None, float("nan"), *np.linspace(-5, 7, n - 2).tolist()],
        "decimal": [Decimal(k * k) / 8 for k in range(n)],
        "flag": [None, *(k % 3 == 0 for k in range(1, n))],
        "code": [None, *(k % 5 for k in range(1, n))],
        "whole": [float(k % 4) - 1 for k in range(n)],
        "quantity": [k % 6 for k in range(n)],
        "shop": [float(np.float32(k % 3 / 10)) for k in range(n)],
        "price": [Decimal(k % 3) / 2 for k in range(n)],
        "one": [7] * n,
        "none": [float("nan")] * n,
    }
    types = "text string, day date, local timestamp_ntz, int int, float float, double double, "
    types = types.replace("text", "`text.s`") + "decimal decimal(9,3), flag boolean, code int, "
    types += "whole double, quantity int, shop float, price decimal(9,3), "
    given = zip(*frame.values(), range(n), strict=True)
    df = spark.createDataFrame(list(given), types + "one int, none double, y int").repartition(3)
    df = df.selectExpr("*", "y % 2 as t", "to_timestamp(concat(local, 'Z')) as moment")
    names = [name for name in df.columns if name not in ("t", "y")]
    memory = pd.DataFrame(frame).assign(moment=pd.Series(moments).dt.tz_localize("UTC"))
    memory["shop"] = memory["shop"].astype("float32")

    def encoder():
        decided = {"categorical": ["shop", "price"], "numeric": ["quantity"]}
        return TableEncoder(min_level_rows=min_level_rows, **decided)

    with pytest.warns(UserWarning, match="columns should tell rows apart"):
        expected = encoder().fit(memory[names])
    rows = arrow_columns(df, ["y"], "t", "y")
    with pytest.warns(UserWarning, match="columns should tell rows apart"):
        found = fit_encoder(df, names, encoder(), rows)
    assert found.columns_ == expected.columns_
    codes = ["code", "whole"] if min_level_rows < 4 else []
    assert (found.code_columns, expected.code_columns) == (codes, codes)
    assert found.dropped_ == expected.dropped_
    assert found.feature_names_in_.tolist() == names


@with_spark
@pytest.mark.parametrize("n", [1, 2, 9, 10, 60_000, 60_001])
def test_medians_are_exact(spark, n, monkeypatch):
    monkeypatch.setattr(encoding, "ACCURACY", 1_000)  # many more rows than that
    rng = np.random.default_rng(n)
    frame = pd.DataFrame(
        {
            "normal": rng.normal(size=n),
            "wide": np.exp(50 * rng.normal(size=n)) * rng.choice([-1, 1], n),
            "ties": rng.integers(0, 4, n).astype(float),
            "two": np.where(np.arange(n) < n // 2, -1e300, 1.0),
            "gaps": np.where(rng.random(n) < 0.7, np.nan, rng.random(n)),
        }
    )
    df = spark.createDataFrame(frame).repartition(4).replace(float("nan"), None)

    def summaries():
        from pyspark.sql import functions as F

        wanted = [F.struct(*_summaries(F.col(name))).alias(name) for name in frame]
        return df.agg(*wanted).collect()[0].asDict()

    known = frame.median().dropna().to_dict()
    assert _medians(df, summaries()) == known
    # Quantiles that do not enclose the median are found out.
    far = {name: own.asDict() | {"near": [own.high, own.high]} for name, own in summaries().items()}
    assert _medians(df, {name: _Summary(**own) for name, own in far.items()}) == known


class _Summary:
    def __init__(self, **values):
        self.__dict__.update(values)


@with_spark
def test_infinite_numbers_and_no_rows_are_told(spark):
    df = spark.createDataFrame([(1.0, 0, 1), (float("-inf"), 1, 0)], "x double, t int, y int")
    rows = arrow_columns(df, ["x"], "t", "y")
    with pytest.raises(ValueError, match="column 'x' should hold finite numbers, got 1 infinite"):
        fit_encoder(df, ["x"], TableEncoder(), rows)
    with pytest.raises(TableError, match="should have rows of the two arms, got none"):
        fit_encoder(df.where("y > 5"), ["x"], TableEncoder(), rows)


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
    monkeypatch.setattr(encoding, "MAX_VALUES", 1)
    with pytest.raises(TableError, match="'t' should name the arms, got more than 1 different"):
        on_spark.fit(df, treatment="t", outcome="n", features=["town"], **named)
