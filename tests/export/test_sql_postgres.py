"""Queries for PostgreSQL, run by a real server."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from tests.export.cases import (
    BOOLEANS,
    HOSTILE_LEVELS,
    NUMBERED,
    PLANS,
    cases,
    check_arms,
    example,
    fitted_ensemble,
    numbered,
    plans,
    truth,
    two_arms,
    zero,
)
from tests.postgres_server import postgres_server

from auucmax.encoding import TableEncoder
from auucmax.estimators.formula import Formula, Part
from auucmax.export import arms_to_sql, to_sql
from auucmax.export.dialects import DIALECTS

pytestmark = pytest.mark.gate
TYPES = {
    "number": "double precision",
    "category": "text",
    "code": "double precision",
    "boolean": "boolean",
    "date": "timestamp",
}


@pytest.fixture(scope="module")
def connection():
    psycopg = pytest.importorskip("psycopg")
    with postgres_server() as url, psycopg.connect(url, autocommit=True) as own:
        yield own


def fill(connection, types, values):
    name = DIALECTS["postgres"].identifier
    columns = ", ".join(f"{name(column)} {kind}" for column, kind in types.items())
    connection.execute("DROP TABLE IF EXISTS t")
    connection.execute(f'CREATE TABLE t ({columns}, "row number" integer)'.encode())
    with connection.cursor().copy("COPY t FROM STDIN") as copy:
        for number, row in enumerate(zip(*values.values(), strict=True)):
            copy.write_row((*row, number))


def run(connection, query):
    return np.array(connection.execute(query.encode()).fetchall(), dtype=np.float64)


def check(connection, case):
    types = {name: TYPES[kind] for name, kind in case.kinds.items()}
    fill(connection, types, case.values)
    query = to_sql(
        case.encoder,
        case.formula,
        table="public.t",
        dialect="postgres",
        keep=["row number"],
        calibration=case.calibration,
    )
    number, score, uplift = run(connection, f'{query} ORDER BY "row number"').T
    assert (number == np.arange(len(number))).all()
    assert (np.abs(score - case.score) <= case.tolerance).all()
    np.testing.assert_allclose(uplift, case.calibration(score), rtol=0, atol=1e-9)


@settings(max_examples=200, deadline=None)
@given(case=cases())
def test_scores_as_python_does(connection, case):
    check(connection, case)


@settings(max_examples=60, deadline=None)
@given(case=cases(bent=True))
def test_bends_and_branches_as_python_does(connection, case):
    check(connection, case)


@pytest.mark.parametrize("bent", [False, True])
def test_a_table_with_everything(connection, bent):
    check(connection, example(bent))


@pytest.mark.parametrize("bent", [False, True])
def test_all_columns_pass(connection, bent):
    check(connection, example(bent))  # which fills the table
    case = example(bent)
    query = to_sql(case.encoder, case.formula, table="public.t", dialect="postgres", keep="all")
    found = connection.execute(query.encode())
    names = [column.name for column in found.description]
    assert names == [*case.kinds, "row number", "score"]
    assert len(found.fetchall()) == len(case.frame)


def test_a_fitted_ensemble(connection):
    frame, encoder, model, expected = fitted_ensemble()
    types = {
        "age": "double precision", "town": "text", "vip": "boolean", "joined": "timestamp",
        "spent": "double precision", "zip": "text",
    }  # fmt: skip
    values = {name: frame[name].astype(object).where(frame[name].notna(), None) for name in types}
    fill(connection, types, {name: column.tolist() for name, column in values.items()})
    query = to_sql(encoder, model, table="t", dialect="postgres", keep=["row number"])
    found = run(connection, f'{query} ORDER BY "row number"')[:, 1]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9)


def test_arms_of_ensembles(connection):
    """Each arm's query, made in steps, reads the rows of the one before."""
    frame, encoder, model, score = fitted_ensemble()
    types = {
        "age": "double precision", "town": "text", "vip": "boolean", "joined": "timestamp",
        "spent": "double precision", "zip": "text",
    }  # fmt: skip
    values = {name: frame[name].astype(object).where(frame[name].notna(), None) for name in types}
    fill(connection, types, {name: column.tolist() for name, column in values.items()})
    arms, uplift = two_arms(encoder, model, score)
    query = arms_to_sql(arms, control="none", table="t", dialect="postgres", keep=["row number"])
    found = connection.execute(f'{query} ORDER BY "row number"'.encode()).fetchall()
    check_arms(found, uplift)


def test_the_result_has_doubles(connection):
    frame = pd.DataFrame({"c": ["a", "b"] * 2})
    encoder = TableEncoder(min_level_rows=1).fit(frame)
    formula = Formula((Part(1.0, "identity", 0.1, np.array([0.2, 0.3])),))
    fill(connection, {"c": "text"}, {"c": ["a"]})
    query = to_sql(encoder, formula, table="t", dialect="postgres")
    (kind,) = connection.execute(f"SELECT pg_typeof(score) FROM ({query}) AS q".encode()).fetchone()
    assert kind == "double precision"


@pytest.mark.parametrize("standard", ["on", "off"])
def test_texts_mean_the_same_whatever_the_server_makes_of_backslashes(connection, standard):
    connection.execute(f"SET standard_conforming_strings = {standard}")
    connection.execute("SET escape_string_warning = off")
    try:
        for level in HOSTILE_LEVELS:
            literal = DIALECTS["postgres"].text(level)
            assert connection.execute(f"SELECT {literal}".encode()).fetchone() == (level,)
    finally:
        connection.execute("RESET standard_conforming_strings")


def test_dates_numbers_and_texts_of_other_types(connection):
    train = pd.DataFrame(
        {
            "d": pd.to_datetime(["2020-01-01", "2020-01-02", "2020-01-03"]),
            "n": [1.0, 2.0, 3.0],
            "c": ["1", "2", "1"],
            "b": [True, False, True],
        }
    )
    encoder = TableEncoder(min_level_rows=1).fit(train)
    formula = Formula((Part(1.0, "identity", 0.5, np.arange(1.0, len(encoder.terms_) + 1)),))
    moments = pd.Series(pd.to_datetime(["2024-03-31 01:30:00.25", "1960-05-05 00:00:00.5"]))
    with_zone = moments.dt.tz_localize("Asia/Kolkata")
    others = {"n": [7, None], "c": [1, 2], "b": [0, 1]}
    types = {"n": "numeric(9, 2)", "c": "smallint", "b": "integer"}
    connection.execute("SET TimeZone = 'America/New_York'")
    for kind, dates in (
        ("timestamp", moments), ("timestamptz", with_zone), ("date", moments.dt.date)
    ):  # fmt: skip
        values = {"d": dates.tolist(), **others}
        fill(connection, {"d": kind, **types}, values)
        query = to_sql(encoder, formula, table="t", dialect="postgres", keep=["row number"])
        got = run(connection, query)[:, 1]
        frame = pd.DataFrame({"d": dates, **others})
        np.testing.assert_allclose(got, formula(encoder.transform(frame)), rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    ("kind", "own"),
    [
        ("int", "bigint"),
        ("float", "double precision"),
        ("float", "real"),
        ("decimal", "numeric(10, 2)"),
        ("decimal", "numeric(20, 8)"),
        ("text", "text"),
    ],
)
def test_numbers_stand_for_texts(connection, kind, own):
    values, scores = NUMBERED[kind]
    fill(connection, {"c": own}, {"c": values})
    query = to_sql(*numbered(), table="t", dialect="postgres", keep=["row number"])
    got = run(connection, f'{query} ORDER BY "row number"')[:, 1]
    assert got.tolist() == scores


@pytest.mark.parametrize(
    ("kind", "own"),
    [("int", "bigint"), ("float", "double precision"), ("decimal", "numeric(20, 2)")],
)
def test_codes_are_numbers_of_any_type(connection, kind, own):
    values, scores = PLANS[kind]
    assert scores_of(connection, plans(), "p", own, values) == scores


def scores_of(connection, model, column, own, values):
    fill(connection, {column: own}, {column: values})
    query = to_sql(*model, table="t", dialect="postgres", keep=["row number"])
    return run(connection, f'{query} ORDER BY "row number"')[:, 1].tolist()


@pytest.mark.parametrize(
    ("kind", "own"),
    [
        ("boolean", "boolean"),
        ("text", "text"),
        ("text of pandas", "text"),
        ("text of R", "varchar(9)"),
        ("text of digits", "text"),
        ("integer", "smallint"),
        ("float", "double precision"),
        ("decimal", "numeric(10, 2)"),
    ],
)
def test_booleans_numbers_and_texts_stand_for_a_boolean(connection, kind, own):
    encoder, formula, scores = truth()
    assert scores_of(connection, (encoder, formula), "b", own, BOOLEANS[kind]) == scores


@pytest.mark.parametrize("words", [("true", "false"), ("True", "False")])
def test_booleans_and_their_spellings_stand_for_a_category(connection, words):
    encoder, formula, scores = truth(words)
    for kind in ("boolean", "text", "text of pandas", "text of R"):
        own = "boolean" if kind == "boolean" else "text"
        assert scores_of(connection, (encoder, formula), "b", own, BOOLEANS[kind]) == scores


def test_booleans_stand_for_yes_and_no(connection):
    encoder, formula, scores = truth(("yes", "no"))
    for own, values in (("boolean", [True, False, None]), ("text", ["t", "f", "NA"])):
        assert scores_of(connection, (encoder, formula), "b", own, values) == scores


def test_dates_of_any_type_and_texts_of_them(connection):
    train = {"d": pd.to_datetime(["2020-01-01", "2020-01-02", "2020-01-03"])}
    encoder = TableEncoder(min_level_rows=1).fit(pd.DataFrame(train))
    model = encoder, Formula((Part(1.0, "identity", 0.0, np.array([1.0])),))
    texts = ["2024-03-31 00:00:00", "2024-03-31 12:00:00", "2024-03-31T12:00Z"]
    connection.execute("SET TimeZone = 'Asia/Kolkata'")
    for own, days in (
        ("text", [19813.0, 19813.5, 19813.5]), ("timestamp", [19813.0, 19813.5, 19813.5]),
        ("date", [19813.0, 19813.0, 19813.0]),
    ):  # fmt: skip
        assert scores_of(connection, model, "d", own, texts) == days
    zoned = [f"{text}+05:30" for text in texts[:2]]
    assert scores_of(connection, model, "d", "timestamptz", zoned) == pytest.approx(
        [19813 - 5.5 / 24, 19813.5 - 5.5 / 24]
    )
    with pytest.raises(Exception, match=r"not an ISO date: 05\.02\.2020"):
        scores_of(connection, model, "d", "text", ["05.02.2020"])
    connection.execute("RESET TimeZone")


def test_minus_zero_is_zero(connection):
    for own in ("real", "double precision", "text"):
        assert scores_of(connection, zero(), "c", own, [0.0, -0.0, 1.0]) == [1, 1, 2]


def test_extreme_predictors_do_not_overflow(connection):
    encoder = TableEncoder(min_level_rows=1).fit(pd.DataFrame({"x": [1.0, 2.0, 3.0]}))
    formula = Formula((Part(2.0, "sigmoid", 0.0, np.array([1.0])),))
    values = [-1e307, -1e4, -600.0, -30.0, 30.0, 1e4, 1e307]
    fill(connection, {"x": "double precision"}, {"x": values})
    got = run(connection, to_sql(encoder, formula, table="t", dialect="postgres"))[:, 0]
    np.testing.assert_allclose(got, formula(np.array(values)[:, None]), rtol=1e-12, atol=1e-200)
