"""Queries are run: DuckDB's as they are, those of other databases translated to it by sqlglot.

Those for PostgreSQL are run by a server, in ``test_sql_servers.py``, those for BigQuery by
GoogleSQL, in ``test_sql_googlesql.py``, and those for Spark by Spark, in ``tests/spark``.
"""

from functools import cache

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import sqlglot
from hypothesis import assume, given, settings
from sqlglot import exp
from tests.export.cases import (
    BOOLEANS,
    COSTS,
    NUMBERED,
    PLANS,
    cases,
    check_arms,
    encoded,
    example,
    fit_encoder,
    fitted_ensemble,
    model_of,
    numbered,
    plans,
    truth,
    two_arms,
)

from auucmax._errors import InputError
from auucmax.encoding import TableEncoder
from auucmax.estimators.formula import Formula, Part
from auucmax.export import to_sql
from auucmax.export.dialects import DIALECTS

#: Columns of the result for two arms.
NAMES = ["score it's", "uplift it's", "score b", "uplift b", "arm"]
TRANSLATED = ("bigquery", "snowflake", "spark")
#: The same, of which the gate runs some where a test takes a while.
SLOWLY = ("bigquery", "snowflake", pytest.param("spark", marks=pytest.mark.gate))


def translated(query, dialect):
    """For DuckDB."""
    (statement,) = sqlglot.parse(query, read=dialect)
    groups = DIALECTS[dialect].groups

    def plain(node):
        if isinstance(node, exp.Literal) and node.this == groups:
            return exp.Literal.string(DIALECTS["duckdb"].groups)
        return node

    # sqlglot makes block comments, whose quotes DuckDB takes for those of names.
    return statement.transform(plain).sql("duckdb", comments=False)


@cache
def database():
    own = duckdb.connect()
    own.execute("SET TimeZone = 'UTC'")
    return own


def run(query, table, name="t"):
    database().register(name, table)
    return database().sql(query).to_arrow_table()


def check(case, dialect):
    query = to_sql(
        case.model,
        table="t",
        dialect=dialect,
        keep=["row number"],
    )
    if dialect != "duckdb":
        query = translated(query, dialect)
    result = run(query, case.arrow())
    assert result.column_names == ["row number", "score", "uplift", "arm"]
    assert result.schema.types[1:] == [pa.float64(), pa.float64(), pa.string()]
    result = result.sort_by("row number")
    score = result["score"].to_numpy()
    assert (np.abs(score - case.score) <= case.tolerance).all()
    np.testing.assert_allclose(
        result["uplift"].to_numpy(), case.calibration(score), rtol=0, atol=1e-9
    )
    treated = ["treated" if own > 0 else "none" for own in result["uplift"].to_pylist()]
    assert result["arm"].to_pylist() == treated


def can_have(dialect, case):
    """BigQuery has no name with a dot: sqlglot takes it for a path there."""
    return dialect != "bigquery" or not any("." in name for name in case.kinds)


@settings(max_examples=40, deadline=None)
@given(cases())
def test_duckdb_scores_as_python_does(case):
    check(case, "duckdb")


@pytest.mark.gate
@settings(max_examples=40, deadline=None)
@given(cases(bent=True))
def test_duckdb_bends_and_branches_as_python_does(case):
    check(case, "duckdb")


@pytest.mark.gate
@pytest.mark.parametrize("dialect", SLOWLY)
@settings(max_examples=10, deadline=None)
@given(case=cases(whole_seconds=True, bent=True))
def test_other_dialects_translated_bend_and_branch_as_python_does(dialect, case):
    assume(can_have(dialect, case))
    check(case, dialect)


@pytest.mark.gate
@pytest.mark.parametrize("dialect", SLOWLY)
@settings(max_examples=15, deadline=None)
@given(case=cases(whole_seconds=True))
def test_other_dialects_translated_score_as_python_does(dialect, case):
    assume(can_have(dialect, case))
    check(case, dialect)


@pytest.mark.gate
@pytest.mark.parametrize("dialect", ["duckdb", *SLOWLY])
@settings(max_examples=150, deadline=None)
@given(case=cases(whole_seconds=True))
def test_many_tables(dialect, case):
    assume(can_have(dialect, case))
    check(case, dialect)


def quickly(dialect, bent):
    """Dates make steps of both forms: of each translated dialect one is enough in the inner loop,
    and the other waits for the gate; of BigQuery the bent one, which takes seconds."""
    once = dialect == "duckdb" or bent != (dialect == "bigquery")
    return pytest.param(dialect, bent, marks=() if once else pytest.mark.gate)


FORMS = [quickly(dialect, bent) for dialect in ("duckdb", *TRANSLATED) for bent in (False, True)]


@pytest.mark.parametrize(("dialect", "bent"), FORMS)
def test_a_table_with_everything(dialect, bent):
    check(example(bent), dialect)


@pytest.mark.gate_cases("duckdb-True")
@pytest.mark.parametrize(("dialect", "bent"), FORMS)
def test_all_columns_pass(dialect, bent):
    case = example(bent)
    query = to_sql(case.model, table="t", keep="all",
        dialect=dialect,
    )  # fmt: skip
    query = translated(query, dialect)
    table = case.arrow()
    assert run(query, table).column_names == [*table.column_names, "score", "uplift", "arm"]


TYPES = {
    "int": (pa.int32(), pa.int64()),
    "float": (pa.float64(), pa.float32()),
    "decimal": (pa.decimal128(10, 2), pa.decimal128(20, 8)),
    "text": (pa.string(),),
}


@pytest.mark.parametrize("dialect", ["duckdb", *SLOWLY])
@pytest.mark.parametrize("kind", list(TYPES))
def test_numbers_stand_for_texts(kind, dialect):
    encoder, formula = numbered()
    values, scores = NUMBERED[kind]
    query = to_sql(model_of(encoder, formula), table="t", dialect=dialect)
    query = translated(query, dialect)
    for own in TYPES[kind]:
        table = pa.table({"c": pa.array(values, own, from_pandas=False)})
        assert run(query, table)["score"].to_pylist() == scores
    frame = pd.DataFrame({"c": pd.Series(values, dtype=None if kind == "float" else object)})
    assert formula(encoded(encoder, frame)).tolist() == scores


PLAN_TYPES = {"int": (pa.int64(),), "float": (pa.float64(),), "decimal": (pa.decimal128(20, 2),)}


@pytest.mark.parametrize("dialect", ["duckdb", *SLOWLY])
@pytest.mark.parametrize("kind", list(PLAN_TYPES))
def test_codes_are_numbers_of_any_type(kind, dialect):
    encoder, formula = plans()
    values, scores = PLANS[kind]
    query = to_sql(model_of(encoder, formula), table="t", dialect=dialect)
    query = translated(query, dialect)
    for own in PLAN_TYPES[kind]:
        table = pa.table({"p": pa.array(values, own, from_pandas=False)})
        assert run(query, table)["score"].to_pylist() == scores
    frame = pd.DataFrame({"p": pd.Series(values, dtype=None if kind == "float" else object)})
    assert formula(encoded(encoder, frame)).tolist() == scores


BOOLEAN_TYPES = {
    "boolean": (pa.bool_(),),
    "integer": (pa.int8(), pa.int64()),
    "float": (pa.float64(), pa.float32()),
    "decimal": (pa.decimal128(10, 2),),
}


def scores_of(query, values, own, dialect="duckdb"):
    query = translated(query, dialect)
    return run(query, pa.table({"b": pa.array(values, own, from_pandas=False)}))[
        "score"
    ].to_pylist()


@pytest.mark.parametrize("dialect", ["duckdb", *SLOWLY])
@pytest.mark.parametrize("kind", list(BOOLEANS))
def test_booleans_numbers_and_texts_stand_for_a_boolean(kind, dialect):
    encoder, formula, scores = truth()
    query = to_sql(model_of(encoder, formula), table="t", dialect=dialect)
    for own in BOOLEAN_TYPES.get(kind, (pa.string(),)):
        assert scores_of(query, BOOLEANS[kind], own, dialect) == scores
        assert scores_of(query, BOOLEANS[kind][:2], own, dialect) == scores[:2]
    frame = pd.DataFrame({"b": BOOLEANS[kind]})
    assert formula(encoder.transform(frame)).tolist() == scores


def test_dates_that_are_texts():
    train = {"d": pd.to_datetime(["2020-01-01", "2020-01-02", "2020-01-03"])}
    encoder = TableEncoder(min_level_rows=1).fit(pd.DataFrame(train))
    formula = Formula((Part(1.0, "identity", 0.0, np.array([1.0])),))
    query = to_sql(model_of(encoder, formula), table="t")
    texts = [
        "2024-03-31", "2024-03-31 12:00:00", "2024-03-31T12:00Z", "2024-03-31 12:00:00+12:00",
        "2024-03-31 12:00", "2024-03-31 12:00+12", "2024-03-31T12:00:00.5Z",
    ]  # fmt: skip
    with duckdb.connect() as db:
        for zone in ("UTC", "Asia/Kolkata"):
            db.execute(f"SET TimeZone = '{zone}'")
            db.register("t", pa.table({"d": texts}))
            found = [score for score, *_ in db.execute(query).fetchall()]
            half_a_second = 19813.5 + 0.5 / 86_400
            assert found == [19813.0, 19813.5, 19813.5, 19813.0, 19813.5, 19813.0, half_a_second]
        db.register("t", pa.table({"d": ["05.02.2020"]}))
        with pytest.raises(duckdb.ConversionException, match=r"not an ISO date: 05\.02\.2020"):
            db.execute(query)


def test_other_texts_for_a_boolean_stop_the_query():
    encoder, formula, _ = truth()
    query = to_sql(model_of(encoder, formula), table="t")
    for text in ("yes", "t", "tRUE"):
        with pytest.raises(duckdb.ConversionException, match=text):
            scores_of(query, ["true", text], pa.string())
        with pytest.raises(ValueError, match=text):
            encoder.transform(pd.DataFrame({"b": ["true", text]}))


def test_a_text_that_is_a_level_keeps_its_zeros():
    encoder = fit_encoder({"c": "category"}, {"c": ["1", "1.0", "2.0"] * 2})
    # The level 1.0 has the weight of other, and must not be taken for 1 all the same.
    formula = Formula((Part(1.0, "identity", 0.0, np.array([4.0, 0.0, 2.0])),))
    table = pa.table({"c": ["1", "1.0", "1.00", "2.0", "2"]})
    assert run(to_sql(model_of(encoder, formula), table="t"), table)["score"].to_pylist() == [
        4,
        0,
        4,
        2,
        0,
    ]
    assert formula(encoder.transform(table.to_pandas())).tolist() == [4, 0, 4, 2, 0]


def test_columns_that_differ_in_case_only():
    encoder = TableEncoder().fit(pd.DataFrame({"a": [1.0, 2, 3], "A": [4.0, 5, 9]}))
    formula = Formula((Part(1.0, "identity", 0.0, np.array([1.0, 2.0])),))
    for dialect in ("duckdb", "bigquery", "spark"):
        with pytest.raises(InputError):
            to_sql(model_of(encoder, formula), table="t", dialect=dialect)
    for dialect in ("postgres", "snowflake"):
        assert '"A"' in to_sql(model_of(encoder, formula), table="t", dialect=dialect)


def test_dates_with_and_without_time_zones():
    train = {"d": pd.to_datetime(["2020-01-01", "2020-01-02", "2020-01-03"])}
    encoder = TableEncoder(min_level_rows=1).fit(pd.DataFrame(train))
    formula = Formula((Part(1.0, "identity", 0.0, np.array([1.0])),))
    query = to_sql(model_of(encoder, formula), table="t")
    moments = pd.Series(pd.to_datetime(["2024-03-31 01:30:00.25", "1960-05-05 00:00:00.5"]))
    with_zone = moments.dt.tz_localize("Asia/Kolkata")
    cases = (
        (pa.array(moments), moments),
        (pa.array(with_zone), with_zone),
        (pa.array(moments.dt.date), pd.Series(moments.dt.date)),
    )
    for values, series in cases:
        got = run(query, pa.table({"d": values}))["score"].to_numpy()
        expected = encoder.transform(pd.DataFrame({"d": series}))[:, 0]
        np.testing.assert_allclose(got, expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("link", ["identity", "sigmoid"])
def test_extreme_predictors_do_not_overflow(link):
    encoder = TableEncoder(min_level_rows=1).fit(pd.DataFrame({"x": [1.0, 2.0, 3.0]}))
    formula = Formula((Part(2.0, link, 0.0, np.array([1.0])),))
    frame = pd.DataFrame({"x": [-1e307, -1e4, -600.0, -30.0, 30.0, 1e4, 1e307, 5e-324]})
    got = run(to_sql(model_of(encoder, formula), table="t"), pa.Table.from_pandas(frame))["score"]
    np.testing.assert_allclose(got.to_numpy(), formula(frame), rtol=1e-12, atol=1e-200)


@pytest.mark.skipif(pd.__version__ < "3", reason="pandas 2 ends a text at its first NUL")
def test_a_level_that_a_database_cannot_hold_is_left_out():
    encoder = fit_encoder({"c": "category"}, {"c": ["a\0b", "a\0b", "a", "a"]})
    formula = Formula((Part(1.0, "identity", 0.0, np.array([1.0, 2.0])),))
    query = to_sql(model_of(encoder, formula), table="t", dialect="postgres")
    assert "\0" not in query
    assert "'a'" in query
    table = pa.table({"c": ["a\0b", "a"]})
    assert sorted(
        run(to_sql(model_of(encoder, formula), table="t"), table)["score"].to_pylist()
    ) == [1, 2]


@pytest.mark.gate_cases("duckdb")
@pytest.mark.parametrize(
    "dialect", ["duckdb", *(pytest.param(name, marks=pytest.mark.gate) for name in TRANSLATED)]
)
def test_a_fitted_ensemble(dialect):
    frame, encoder, formula, _ = fitted_ensemble()
    frame = frame.assign(joined=frame["joined"].dt.floor("s"))  # Snowflake has no more
    expected = formula(encoder.transform(frame))
    query = to_sql(model_of(encoder, formula), table="t", dialect=dialect)
    if dialect != "duckdb":
        query = translated(query, dialect)
    score = run(query, pa.Table.from_pandas(frame))["score"].to_numpy()
    np.testing.assert_allclose(score, expected, rtol=0, atol=1e-9)
    assert len(np.unique(score)) > 1_000


@pytest.mark.gate
@pytest.mark.parametrize(
    "dialect", ["duckdb", *(pytest.param(name, marks=pytest.mark.gate) for name in TRANSLATED)]
)
def test_arms_of_ensembles(dialect):
    frame, encoder, formula, _ = fitted_ensemble()
    frame = frame.assign(joined=frame["joined"].dt.floor("s"), **{"row number": range(len(frame))})
    score = formula(encoder.transform(frame))
    model, uplift = two_arms(encoder, formula, score)
    query = to_sql(
        model, table="t", dialect=dialect, keep=["row number"], cost=COSTS, value=1.0
    )  # fmt: skip
    if dialect != "duckdb":
        query = translated(query, dialect)
    found = run(query, pa.Table.from_pandas(frame)).to_pandas()
    assert list(found) == ["row number", *NAMES]
    check_arms(found.sort_values("row number").to_numpy(), score, uplift)


@pytest.mark.quick_cases("keep0-str")
@pytest.mark.parametrize("names", [str, str.upper, str.title])
@pytest.mark.parametrize("keep", [["row number"], "all"])
def test_columns_that_are_called_as_scores_and_uplifts_decide_nothing(keep, names):
    case = example()
    taken = ["auucmax_z0", "auucmax_7c1e94d2_", "score", "uplift"]
    table = case.arrow()
    for name in taken:
        table = table.append_column(names(name), pa.array([1e6] * len(table)))
    model, uplift = two_arms(case.encoder, case.formula, case.score)
    query = to_sql(model, table="t", keep=keep, cost=COSTS, value=1.0)
    found = run(query, table).sort_by("row number")
    if keep == "all":
        assert found.column_names[:-5] == table.column_names
        found = found.select([found.column_names.index("row number"), *range(-5, 0)])
    assert found.column_names == ["row number", *NAMES]
    check_arms(list(zip(*found.to_pydict().values(), strict=True)), case.score, uplift)


def test_dates_are_the_same_doubles_as_in_python():
    """A tree that cuts at a moment, or a sine, sends it where the encoder's number goes."""
    moments = pd.date_range("1969-12-30 23:59:59.999999", periods=4_000, freq="41h13min7s11us")
    frame = pd.DataFrame({"d": moments})
    encoder = TableEncoder().fit(frame)
    features = encoder.transform(frame)
    assert features.shape[1] == 7
    for unit, expected in zip(np.eye(7), features.T, strict=True):
        formula = Formula((Part(1.0, "identity", 0.0, unit),))
        query = to_sql(model_of(encoder, formula), table="t", keep=["d"])
        result = run(query, pa.Table.from_pandas(frame)).sort_by("d")
        np.testing.assert_array_equal(result["score"].to_numpy(), expected)
