"""Queries for Spark, run by it; Databricks has the same grammar and meaning."""

import numpy as np
import pandas as pd
import pytest
from tests.export.cases import (
    BOOLEANS,
    COSTS,
    HOSTILE_LEVELS,
    NUMBERED,
    check_arms,
    example,
    fitted_ensemble,
    model_of,
    numbered,
    truth,
    two_arms,
)
from tests.spark.cases import MARKS

from auucmax.encoding import TableEncoder
from auucmax.estimators.formula import Formula, Part
from auucmax.export import to_sql
from auucmax.export.dialects import DIALECTS

pytestmark = [pytest.mark.gate, *MARKS]
TYPES = {
    "number": "double", "code": "double", "category": "string", "boolean": "boolean",
    "date": "timestamp_ntz",
}  # fmt: skip


def fill(spark, types, values):
    """The view t of these columns, and of ``row number``."""
    columns = [list(column) for column in values.values()]
    rows = [(*row, number) for number, row in enumerate(zip(*columns, strict=True))]
    name = DIALECTS["spark"].identifier
    schema = ", ".join(f"{name(column)} {own}" for column, own in types.items())
    frame = spark.createDataFrame(rows, f"{schema}, `row number` int")
    frame.createOrReplaceTempView("t")


def run(spark, query):
    return [tuple(row) for row in spark.sql(f"{query} ORDER BY `row number`").collect()]


def scores_of(spark, model, column, own, values):
    fill(spark, {column: own}, {column: values})
    query = to_sql(model_of(*model), table="t", dialect="spark", keep=["row number"])
    return [score for _, score, *_ in run(spark, query)]


@pytest.mark.parametrize("bent", [False, True])
def test_a_table_with_everything(spark, bent):
    case = example(bent)
    fill(spark, {name: TYPES[kind] for name, kind in case.kinds.items()}, case.values)
    query = to_sql(case.model, table="t", dialect="databricks", keep=["row number"])
    number, score, uplift, _ = map(np.array, zip(*run(spark, query), strict=True))
    assert (number == np.arange(len(number))).all()
    assert (np.abs(score - case.score) <= case.tolerance).all()
    np.testing.assert_allclose(uplift, case.calibration(score), rtol=0, atol=1e-9)
    query = to_sql(case.model, table="t", dialect="databricks", keep="all")
    assert spark.sql(query).columns == [*case.kinds, "row number", "score", "uplift", "arm"]


def test_several_arms(spark):
    case = example(bent=True)
    model, uplift = two_arms(case.encoder, case.formula, case.score)
    fill(spark, {name: TYPES[kind] for name, kind in case.kinds.items()}, case.values)
    query = to_sql(
        model, table="t", dialect="spark", keep=["row number"], cost=COSTS, value=1.0
    )  # fmt: skip
    check_arms(run(spark, query), case.score, uplift)


def test_a_fitted_ensemble(spark):
    frame, encoder, formula, expected = fitted_ensemble()
    some = frame.head(300)
    types = {
        "age": "double", "town": "string", "vip": "boolean", "joined": "timestamp_ntz",
        "spent": "double", "zip": "string",
    }  # fmt: skip
    values = {name: some[name].astype(object).where(some[name].notna(), None) for name in types}
    values["joined"] = [None if v is None else v.to_pydatetime() for v in values["joined"]]
    fill(spark, types, values)
    model = model_of(encoder, formula)
    query = to_sql(model, table="t", dialect="spark", keep=["row number"])
    found = [score for _, score, *_ in run(spark, query)]
    np.testing.assert_allclose(found, expected[:300], rtol=0, atol=1e-9)


def test_texts_are_read_back(spark):
    words = DIALECTS["databricks"]
    literals = ", ".join(map(words.text, HOSTILE_LEVELS))
    (row,) = spark.sql(f"SELECT {literals}").collect()
    assert tuple(row) == HOSTILE_LEVELS


@pytest.mark.parametrize(
    ("kind", "own"), [("int", "bigint"), ("float", "double"), ("text", "string")]
)
def test_numbers_stand_for_texts(spark, kind, own):
    values, scores = NUMBERED[kind]
    assert scores_of(spark, numbered(), "c", own, values) == scores


def test_booleans_numbers_and_texts_stand_for_a_boolean(spark):
    encoder, formula, scores = truth()
    for kind, own in (
        ("boolean", "boolean"), ("text", "string"), ("text of digits", "string"),
        ("integer", "int"), ("float", "double"),
    ):  # fmt: skip
        assert scores_of(spark, (encoder, formula), "b", own, BOOLEANS[kind]) == scores
    with pytest.raises(Exception, match="yes"):
        scores_of(spark, (encoder, formula), "b", "string", ["yes"])


def test_dates_of_any_type_whatever_the_zone_of_the_session(spark):
    train = {"d": pd.to_datetime(["2020-01-01", "2020-01-02", "2020-01-03"])}
    encoder = TableEncoder(min_level_rows=1).fit(pd.DataFrame(train))
    model = encoder, Formula((Part(1.0, "identity", 0.0, np.array([1.0])),))
    texts = [
        "2024-03-31",
        "2024-03-31 12:00:00",
        "2024-03-31T12:00:00Z",
        "2024-03-31 12:00:00+12:00",
    ]
    query = to_sql(model_of(*model), table="t", dialect="spark", keep=["row number"])
    spark.conf.set("spark.sql.session.timeZone", "Asia/Kolkata")
    try:
        days = [19813.0, 19813.5, 19813.5, 19813.0]
        assert scores_of(spark, model, "d", "string", texts) == days
        for own, expected in (
            ("DATE '2024-03-31'", 19813.0), ("TIMESTAMP_NTZ '2024-03-31 12:00:00'", 19813.5),
            ("TIMESTAMP '2024-03-31 12:00:00Z'", 19813.5),
        ):  # fmt: skip
            view = spark.sql(f"SELECT {own} AS d, 0 AS `row number`")
            view.createOrReplaceTempView("t")
            assert [score for _, score, *_ in run(spark, query)] == [expected]
        with pytest.raises(Exception, match=r"not an ISO date: 05\.02\.2020"):
            scores_of(spark, model, "d", "string", ["05.02.2020"])
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
