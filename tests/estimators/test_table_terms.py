"""Columns and terms are plain data that is checked when it is read."""

from dataclasses import asdict, replace

import pytest

from auucmax.estimators.table_terms import Column, Term, category_terms, column_of, term_of

TOWN = Column("town", "category", ("a", "b"), has_other=True, has_missing=True, other_share=0.1)
AGE = Column("age", "number", fill=3.0)


def test_round_trip():
    for column in (TOWN, AGE):
        assert column_of(asdict(column)) == column
    for term in (*category_terms(TOWN), Term("value", "age", None, 3.0, "age")):
        assert term_of(asdict(term), (TOWN, AGE)) == term


def test_terms_of_a_category():
    terms = category_terms(TOWN)
    assert [term.kind for term in terms] == ["level", "level", "other", "missing"]
    assert [term.level for term in terms] == ["a", "b", None, None]
    assert category_terms(replace(TOWN, has_other=False, has_missing=False)) == terms[:2]


@pytest.mark.parametrize(
    "change", [{"kind": "text"}, {"fill": 1.0}, {"levels": ("a", "a")}, {"other_share": 2.0}]
)
def test_other_columns_are_refused(change):
    with pytest.raises(ValueError, match=r"no such column|are not different"):
        column_of(asdict(replace(TOWN, **change)))


@pytest.mark.parametrize(
    "change",
    [{"kind": "value"}, {"kind": "sum"}, {"column": "x"}, {"level": "c"}, {"fill": float("nan")}],
)
def test_other_terms_are_refused(change):
    with pytest.raises(ValueError, match="no such term"):
        term_of(asdict(replace(category_terms(TOWN)[0], **change)), (TOWN, AGE))
