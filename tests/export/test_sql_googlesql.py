"""Queries for BigQuery, run by the reference implementation of GoogleSQL, its language.

It checks names, functions and types as BigQuery does, and computes. What it is not: BigQuery's own
engine, whose limits of the length and depth of a query are others.
"""

from datetime import datetime

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings
from tests.export.cases import (
    BOOLEANS,
    COSTS,
    NUMBERED,
    PLANS,
    cases,
    check_arms,
    example,
    fit_encoder,
    fitted_ensemble,
    model_of,
    numbered,
    plans,
    truth,
    two_arms,
)

from auucmax.estimators.formula import Formula, Part
from auucmax.export import to_sql
from auucmax.targeting.calibration import Calibration

pytestmark = pytest.mark.gate
KINDS = {
    "number": "DOUBLE", "code": "DOUBLE", "category": "STRING", "boolean": "BOOL",
    "date": "TIMESTAMP", "integer": "INT64",
}  # fmt: skip


class GoogleSQL:
    """A table in the memory of an evaluator."""

    def __init__(self):
        self.api = pytest.importorskip("zetasql.api", reason="zetasql is not installed")
        import zetasql.types

        self.types = zetasql.types
        self.language = self.types.LanguageOptions.maximum_features()

    def fill(self, kinds, values):
        types, table = self.types, self.api.TableBuilder("t")
        kinds = {**kinds, "row number": "integer"}
        for name, kind in kinds.items():
            table = table.add_column(name, getattr(types.TypeKind, f"TYPE_{KINDS[kind]}"))
        functions = types.ZetaSQLBuiltinFunctionOptions(language_options=self.language)
        catalog = self.api.CatalogBuilder("c").add_table(table.build())
        self.catalog = catalog.with_builtin_functions(functions).build()
        rows = zip(*values.values(), range(len(next(iter(values.values())))), strict=True)
        cells = [
            [self.cell(v, k) for v, k in zip(row, kinds.values(), strict=True)] for row in rows
        ]
        self.content = types.TableContent(
            table_data=types.TableData(row=[types.TableData.Row(cell=own) for own in cells])
        )

    def cell(self, value, kind):
        if value is None or value is pd.NaT:
            return self.types.Value()
        if isinstance(value, datetime):
            from google.protobuf.timestamp_pb2 import Timestamp

            moment, value = value, Timestamp()
            value.FromDatetime(moment)
        return self.types.Value(**{f"{KINDS[kind].lower()}_value": value})

    def rows(self, query):
        """In the order of the row numbers, which come first."""
        options = self.types.AnalyzerOptions(language_options=self.language)
        builder = self.api.PreparedQuery.builder().set_sql(query).set_analyzer_options(options)
        builder = builder.set_catalog(self.catalog).set_table_content({"t": self.content})
        with builder.prepare() as prepared:
            found = prepared.execute().content.table_data.row
        return sorted(tuple(self.value(cell) for cell in row.cell) for row in found)

    @staticmethod
    def value(cell):
        given = [cell.int64_value, cell.double_value, cell.string_value]
        return next((own for own in given if own is not None), None)


@pytest.fixture(scope="module")
def bigquery():
    return GoogleSQL()


def check(bigquery, case):
    bigquery.fill(case.kinds, case.values)
    query = to_sql(
        case.model,
        table="t",
        dialect="bigquery",
        keep=["row number"],
    )
    number, score, uplift, _ = zip(*bigquery.rows(query), strict=True)
    number, score, uplift = map(np.array, (number, score, uplift))
    assert (number == np.arange(len(case.frame))).all()
    assert (np.abs(score - case.score) <= case.tolerance).all()
    np.testing.assert_allclose(uplift, case.calibration(score), rtol=0, atol=1e-9)


@settings(max_examples=60, deadline=None)
@given(case=cases())
def test_scores_as_python_does(bigquery, case):
    assume(not any("." in name for name in case.kinds))
    check(bigquery, case)


@settings(max_examples=20, deadline=None)
@given(case=cases(bent=True))
def test_bends_and_branches_as_python_does(bigquery, case):
    assume(not any("." in name for name in case.kinds))
    check(bigquery, case)


@pytest.mark.parametrize("bent", [False, True])
def test_a_table_with_everything(bigquery, bent):
    check(bigquery, example(bent))


@pytest.mark.parametrize("bent", [False, True])
def test_all_columns_pass(bigquery, bent):
    case = example(bent)
    bigquery.fill(case.kinds, case.values)
    query = to_sql(case.model, table="t", dialect="bigquery", keep="all")
    score = [row[-1] for row in bigquery.rows(f"SELECT `row number`, score FROM (\n{query})")]
    assert (np.abs(score - case.score) <= case.tolerance).all()


def test_a_fitted_ensemble_and_its_arms(bigquery):
    frame, encoder, formula, expected = fitted_ensemble()
    frame, expected = frame[:200], expected[:200]
    kinds = {
        "age": "number", "town": "category", "vip": "boolean", "joined": "date",
        "spent": "number", "zip": "category",
    }  # fmt: skip
    values = {name: frame[name].astype(object).where(frame[name].notna(), None) for name in kinds}
    bigquery.fill(kinds, {name: column.tolist() for name, column in values.items()})
    query = to_sql(model_of(encoder, formula), table="t", dialect="bigquery", keep=["row number"])
    found = [score for _, score, *_ in bigquery.rows(query)]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9)
    model, uplift = two_arms(encoder, formula, expected)
    query = to_sql(
        model, table="t", dialect="bigquery", keep=["row number"], cost=COSTS, value=1.0
    )  # fmt: skip
    check_arms(bigquery.rows(query), expected, uplift)


def scores_of(bigquery, model, column, kind, values):
    bigquery.fill({column: kind}, {column: values})
    query = to_sql(model_of(*model), table="t", dialect="bigquery", keep=["row number"])
    return [score for _, score, *_ in bigquery.rows(query)]


OWN = {"int": "integer", "float": "number", "text": "category"}


@pytest.mark.parametrize("kind", ["int", "float", "text"])
def test_numbers_stand_for_texts(bigquery, kind):
    values, scores = NUMBERED[kind]
    assert scores_of(bigquery, numbered(), "c", OWN[kind], values) == scores


@pytest.mark.parametrize("kind", ["int", "float"])
def test_codes_are_numbers_of_any_type(bigquery, kind):
    values, scores = PLANS[kind]
    assert scores_of(bigquery, plans(), "p", OWN[kind], values) == scores


@pytest.mark.parametrize("kind", [kind for kind in BOOLEANS if kind != "decimal"])
def test_booleans_numbers_and_texts_stand_for_a_boolean(bigquery, kind):
    encoder, formula, scores = truth()
    own = "category" if "text" in kind else {"float": "number"}.get(kind, kind)
    assert scores_of(bigquery, (encoder, formula), "b", own, BOOLEANS[kind]) == scores


@pytest.mark.parametrize("name", ["t", "T", "scored", "estimated"])
def test_a_column_that_is_called_as_a_table_is_a_column(bigquery, name):
    for hinges in ((), ((0, 1.5),)):
        kinds, values = {name: "number"}, {name: [1.0, 2.0, 4.0]}
        encoder = fit_encoder(kinds, values)
        coef = np.array([1.0, 2.0][: 1 + len(hinges)])
        formula = Formula((Part(1.0, "identity", 0.0, coef),), hinges=hinges)
        score = formula(encoder.transform(pd.DataFrame(values)))
        bigquery.fill(kinds, values)
        calibration = Calibration((0.0, 9.0), (0.0, 9.0), 0.1, 9, 4, 1)
        options = {"table": "t", "dialect": "bigquery"}
        model = model_of(encoder, formula, calibration)
        query = to_sql(model, keep=["row number", name], **options)
        found = zip(range(3), values[name], score, score, ["treated"] * 3, strict=True)
        assert bigquery.rows(query) == list(found)
        model, uplift = two_arms(encoder, formula, score)
        query = to_sql(model, keep=["row number"], cost=COSTS, value=1.0, **options)
        check_arms(bigquery.rows(query), score, uplift)
