"""The JSON, scored by the program that the page shows."""

import json
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from tests.export.cases import BOOLEANS, NUMBERED, cases, example, numbered, truth, zero

from auucmax.encoding import TableEncoder
from auucmax.estimators.formula import Formula, FormulaError, Part
from auucmax.export import to_json

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "export.md").read_text()
BLOCKS = [part.split("```")[0] for part in PAGE.split("```python\n")[1:]]


def scorer_of_the_page():
    names = {}
    exec(compile(BLOCKS[1], "export.md", "exec"), names)
    return names


def check(case):
    names = scorer_of_the_page()
    model = json.loads(to_json(case.encoder, case.formula, calibration=case.calibration))
    expected = case.score
    scores = np.array([names["score"](model, row) for row in case.rows()])
    assert (np.abs(scores - expected) <= case.tolerance).all()
    uplifts = [names["uplift"](model, score) for score in expected]
    np.testing.assert_allclose(uplifts, case.calibration(expected), rtol=0, atol=1e-9)


@settings(max_examples=40, deadline=None)
@given(cases())
def test_the_program_of_the_page_scores_as_python_does(case):
    check(case)


def test_it_is_short_and_needs_nothing():
    lines = [line for line in BLOCKS[1].splitlines() if line.strip()]
    assert len(lines) <= 30
    imported = [line for line in lines if "import" in line]
    assert imported == ["import re", "from math import tanh"]


@pytest.mark.parametrize("kind", list(NUMBERED))
def test_numbers_stand_for_texts(kind):
    names, model = scorer_of_the_page(), json.loads(to_json(*numbered()))
    values, scores = NUMBERED[kind]
    assert [names["score"](model, {"c": value}) for value in values] == scores


def test_booleans_stand_for_texts():
    frame = pd.DataFrame({"c": ["true", "false", "x", "true"]})
    encoder = TableEncoder(min_level_rows=1).fit(frame)
    formula = Formula((Part(1.0, "identity", 0.0, np.array([1.0, 2.0, 4.0])),))
    names, model = scorer_of_the_page(), json.loads(to_json(encoder, formula))
    assert [names["score"](model, {"c": value}) for value in (False, True, "x")] == [1, 2, 4]


@pytest.mark.parametrize("words", [("true", "false"), ("TRUE", "FALSE")])
def test_spellings_of_booleans_are_one_level(words):
    encoder, formula, scores = truth(words)
    names, model = scorer_of_the_page(), json.loads(to_json(encoder, formula))
    for kind in ("boolean", "text", "text of pandas", "text of R"):
        assert [names["score"](model, {"b": value}) for value in BOOLEANS[kind]] == scores


def test_minus_zero_is_zero():
    names, model = scorer_of_the_page(), json.loads(to_json(*zero()))
    values = [0, 0.0, -0.0, "-0", "-0.00", Decimal("-0.0")]
    assert {names["score"](model, {"c": value}) for value in values} == {1.0}


def test_a_table_with_everything():
    check(example())


def test_the_first_example_of_the_page_runs(capsys):
    exec(compile(BLOCKS[0], "export.md", "exec"), {})
    assert 'AS "score"\nFROM "customers"' in capsys.readouterr().out


def test_coefficients_are_in_the_units_of_the_table():
    case = example()
    (first, *_) = json.loads(to_json(case.encoder, case.formula))["parts"]
    age = first["effects"][0]
    coef = case.formula.parts[0].coef
    terms = [(term.kind, term.level) for term in case.encoder.terms_ if term.column == 'a"ge']
    assert terms == [("value", None), ("missing", None)]
    assert (age["column"], age["per_unit"], age["missing"]) == ('a"ge', coef[0], coef[1])
    assert age["fill"] == 40.0
    assert set(first["effects"][1]["levels"]) == {"Os'lo"}


def test_what_is_no_formula_is_named():
    with pytest.raises(FormulaError, match=r"AUUCMax.*got str"):
        to_json(example().encoder, "a model")


def test_another_encoder_is_refused():
    formula = Formula((Part(1.0, "identity", 0.0, np.ones(3)),))
    with pytest.raises(ValueError, match=r"each of the encoder's \d+ features, got 3"):
        to_json(example().encoder, formula)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_coefficients_are_finite(bad):
    case = example()
    coef = np.full(len(case.encoder.terms_), bad)
    with pytest.raises(ValueError, match="finite"):
        to_json(case.encoder, Formula((Part(1.0, "identity", 0.0, coef),)))


def test_links_are_known():
    case = example()
    part = Part(1.0, "probit", 0.0, np.ones(len(case.encoder.terms_)))
    with pytest.raises(ValueError, match="identity, sigmoid, got 'probit'"):
        to_json(case.encoder, Formula((part,)))
