"""Literals and names are read back by the grammar of their database as what they were."""

import duckdb
import pytest
import sqlglot
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlglot import exp
from tests.export.cases import HOSTILE_LEVELS, HOSTILE_NAMES, can_be_a_name

from auucmax._errors import InputError
from auucmax.export.dialects import DIALECTS, dialect_named

TEXTS = st.sampled_from(HOSTILE_LEVELS + HOSTILE_NAMES) | st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8
)
FINITE = st.floats(allow_nan=False, allow_infinity=False)


@pytest.mark.parametrize("dialect", list(DIALECTS))
@settings(max_examples=60, deadline=None)
@given(text=TEXTS)
def test_a_text_is_read_back(dialect, text):
    (statement,) = sqlglot.parse(f"SELECT {DIALECTS[dialect].text(text)} AS a", read=dialect)
    (translated,) = sqlglot.transpile(statement.sql("duckdb"), read="duckdb", write="duckdb")
    assert duckdb.sql(translated).fetchall() == [(text,)]


@pytest.mark.parametrize("dialect", list(DIALECTS))
@settings(max_examples=60, deadline=None)
@given(name=TEXTS.filter(bool).filter(can_be_a_name))
def test_a_name_is_read_back(dialect, name):
    (statement,) = sqlglot.parse(f"SELECT 1 AS {DIALECTS[dialect].identifier(name)}", read=dialect)
    (alias,) = statement.find_all(exp.Alias)
    assert alias.alias == name


@settings(max_examples=100, deadline=None)
@given(FINITE)
def test_a_number_is_read_back(value):
    literal = dialect_named("duckdb").number(value)
    assert float(literal) == value
    assert "e" in literal
    (kind, read) = duckdb.sql(f"SELECT typeof({literal}), {literal}").fetchall()[0]
    assert (kind, read) == ("DOUBLE", value)


@pytest.mark.parametrize("dialect", ["databricks", "spark"])
@settings(max_examples=60, deadline=None)
@given(text=TEXTS | st.text(st.sampled_from("${}\\'x"), max_size=8))
def test_spark_finds_nothing_to_replace_in_texts(dialect, text):
    assert "${" not in DIALECTS[dialect].text(text)


@pytest.mark.parametrize("dialect", ["spark", "databricks"])
@pytest.mark.parametrize("name", ["a${b}", "${"])
def test_names_that_quotes_do_not_keep_are_refused(dialect, name):
    with pytest.raises(InputError):
        DIALECTS[dialect].identifier(name)
    assert DIALECTS["duckdb"].identifier(name) == f'"{name}"'
