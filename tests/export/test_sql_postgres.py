"""Queries run by a PostgreSQL server."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from tests.export.cases import (
    BOOLEANS,
    COSTS,
    HOSTILE_LEVELS,
    NUMBERED,
    PLANS,
    cases,
    check_arms,
    example,
    fitted_ensemble,
    model_of,
    numbered,
    plans,
    truth,
    two_arms,
)
from tests.postgres_server import postgres_server

from auucmax.encoding import TableEncoder
from auucmax.estimators.formula import Formula, Part
from auucmax.export import to_sql
from auucmax.export.dialects import DIALECTS

pytestmark = pytest.mark.gate


class Server:
    """A connection, and how its database calls the types of columns."""

    real, text, boolean, moment = "double precision", "text", "boolean", "timestamp"

    def __init__(self, connection):
        self.words, self.connection = DIALECTS["postgres"], connection

    def rows(self, query):
        return self.connection.execute(query.encode()).fetchall()

    def do(self, statement):
        self.connection.execute(statement.encode())

    def types(self, kinds):
        own = {
            "number": self.real, "code": self.real, "category": self.text,
            "boolean": self.boolean, "date": self.moment,
        }  # fmt: skip
        return {name: own[kind] for name, kind in kinds.items()}

    def make(self, types):
        name = self.words.identifier
        columns = ", ".join(f"{name(column)} {kind}" for column, kind in types.items())
        self.do("DROP TABLE IF EXISTS t")
        self.do(f"CREATE TABLE t ({columns}, {name('row number')} integer)")

    def fill(self, types, values):
        self.make(types)
        with self.connection.cursor().copy("COPY t FROM STDIN") as copy:
            for number, row in enumerate(zip(*values.values(), strict=True)):
                copy.write_row((*row, number))

    def scores(self, query):
        """What a query gives, in the order of the rows, without their numbers."""
        found = self.rows(f"{query} ORDER BY {self.words.identifier('row number')}")
        number, score, uplift, _ = zip(*found, strict=True)
        assert number == tuple(range(len(found)))
        return np.array(score), np.array(uplift)

    def scores_of(self, model, column, own, values):
        self.fill({column: own}, {column: values})
        query = to_sql(model_of(*model), table="t", dialect="postgres", keep=["row number"])
        return self.scores(query)[0].tolist()


@pytest.fixture(scope="module")
def server():
    psycopg = pytest.importorskip("psycopg")
    with postgres_server() as url, psycopg.connect(url, autocommit=True) as connection:
        yield Server(connection)


def check(server, case):
    server.fill(server.types(case.kinds), case.values)
    query = to_sql(
        case.model,
        table="t",
        dialect="postgres",
        keep=["row number"],
    )
    score, uplift = server.scores(query)
    assert (np.abs(score - case.score) <= case.tolerance).all()
    np.testing.assert_allclose(uplift, case.calibration(score), rtol=0, atol=1e-9)


@settings(max_examples=100, deadline=None)
@given(case=cases())
def test_scores_as_python_does(server, case):
    check(server, case)


@settings(max_examples=40, deadline=None)
@given(case=cases(bent=True))
def test_bends_and_branches_as_python_does(server, case):
    check(server, case)


@pytest.mark.parametrize("bent", [False, True])
def test_a_table_with_everything(server, bent):
    check(server, example(bent))


@pytest.mark.parametrize("bent", [False, True])
def test_all_columns_pass(server, bent):
    check(server, example(bent))  # which fills the table
    case = example(bent)
    query = to_sql(case.model, table="public.t", dialect="postgres", keep="all")
    found = server.connection.execute(query.encode())
    names = [column.name for column in found.description]
    assert names == [*case.kinds, "row number", "score", "uplift", "arm"]
    assert len(found.fetchall()) == len(case.frame)


KINDS = {
    "age": "number", "town": "category", "vip": "boolean", "joined": "date", "spent": "number",
    "zip": "category",
}  # fmt: skip


def fill_with(server, frame):
    values = {name: frame[name].astype(object).where(frame[name].notna(), None) for name in KINDS}
    server.fill(server.types(KINDS), {name: column.tolist() for name, column in values.items()})


def test_a_fitted_ensemble(server):
    frame, encoder, formula, expected = fitted_ensemble()
    fill_with(server, frame)
    query = to_sql(model_of(encoder, formula), table="t", dialect="postgres", keep=["row number"])
    np.testing.assert_allclose(server.scores(query)[0], expected, rtol=0, atol=1e-9)


def test_arms_of_ensembles(server):
    frame, encoder, formula, score = fitted_ensemble()
    fill_with(server, frame)
    model, uplift = two_arms(encoder, formula, score)
    query = to_sql(
        model, table="t", dialect="postgres", keep=["row number"], cost=COSTS, value=1.0
    )  # fmt: skip
    check_arms(server.rows(f'{query} ORDER BY "row number"'), score, uplift)


@pytest.mark.parametrize("standard", ["on", "off"])
def test_texts_mean_the_same_whatever_the_server_makes_of_backslashes(server, standard):
    server.do(f"SET standard_conforming_strings = {standard}")
    server.do("SET escape_string_warning = off")
    try:
        for level in HOSTILE_LEVELS:
            assert server.rows(f"SELECT {server.words.text(level)}") == [(level,)]
    finally:
        server.do("RESET standard_conforming_strings")


def test_dates_numbers_and_texts_of_other_types(server):
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
    others = {"n": [7, None], "c": [1, 2], "b": [0, 1]}
    types = {"n": "numeric(9, 2)", "c": "smallint", "b": "integer"}
    dates = {server.moment: moments, "date": moments.dt.date}
    server.do("SET TimeZone = 'America/New_York'")
    dates["timestamptz"] = moments.dt.tz_localize("Asia/Kolkata")
    for kind, own in dates.items():
        server.fill({"d": kind, **types}, {"d": own.tolist(), **others})
        query = to_sql(
            model_of(encoder, formula), table="t", dialect="postgres", keep=["row number"]
        )
        expected = formula(encoder.transform(pd.DataFrame({"d": own, **others})))
        np.testing.assert_allclose(server.scores(query)[0], expected, rtol=0, atol=1e-9)


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
def test_numbers_stand_for_texts(server, kind, own):
    values, scores = NUMBERED[kind]
    assert server.scores_of(numbered(), "c", own, values) == scores


@pytest.mark.parametrize(
    ("kind", "own"),
    [("int", "bigint"), ("float", "double precision"), ("decimal", "numeric(20, 2)")],
)
def test_codes_are_numbers_of_any_type(server, kind, own):
    values, scores = PLANS[kind]
    assert server.scores_of(plans(), "p", own, values) == scores


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
def test_booleans_numbers_and_texts_stand_for_a_boolean(server, kind, own):
    encoder, formula, scores = truth()
    assert server.scores_of((encoder, formula), "b", own, BOOLEANS[kind]) == scores


@pytest.mark.parametrize("text", ["yes", "t", "tRUE", "1x", " "])
def test_other_texts_for_a_boolean_stop_the_query(server, text):
    encoder, formula, _ = truth()
    with pytest.raises(Exception, match="syntax for type double"):
        server.scores_of((encoder, formula), "b", "text", ["true", text])


def days():
    train = {"d": pd.to_datetime(["2020-01-01", "2020-01-02", "2020-01-03"])}
    encoder = TableEncoder(min_level_rows=1).fit(pd.DataFrame(train))
    return encoder, Formula((Part(1.0, "identity", 0.0, np.array([1.0])),))


def test_dates_of_any_type_and_texts_of_them(server):
    texts = ["2024-03-31 00:00:00", "2024-03-31 12:00:00", "2024-03-31T12:00Z"]
    server.do("SET TimeZone = 'Asia/Kolkata'")
    for own, expected in (
        ("text", [19813.0, 19813.5, 19813.5]), ("timestamp", [19813.0, 19813.5, 19813.5]),
        ("date", [19813.0, 19813.0, 19813.0]),
    ):  # fmt: skip
        assert server.scores_of(days(), "d", own, texts) == expected
    zoned = [f"{text}+05:30" for text in texts[:2]]
    assert server.scores_of(days(), "d", "timestamptz", zoned) == pytest.approx(
        [19813 - 5.5 / 24, 19813.5 - 5.5 / 24]
    )
    with pytest.raises(Exception, match=r"not an ISO date: 05\.02\.2020"):
        server.scores_of(days(), "d", "text", ["05.02.2020"])
    server.do("RESET TimeZone")
