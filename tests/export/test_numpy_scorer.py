"""The program of Python files reads values as the encoder does, and adds up as formulas do."""

import math
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.export.cases import (
    BOOLEANS,
    HOSTILE_LEVELS,
    NUMBERED,
    PLANS,
    cases,
    fit_encoder,
    numbered,
    plans,
    truth,
    zero,
)

from auucmax.encoding import kinds
from auucmax.estimators.formula import Formula, Part
from auucmax.export import numpy_scorer, to_python
from auucmax.export.numpy_scorer import level_text, without_end_zeros


def names_of(text):
    """What the module has that a text is."""
    names = {"__name__": "scores"}
    exec(compile(text, "scores.py", "exec"), names)
    return names


def scores_by(encoder, formula, table, **how):
    return names_of(to_python(encoder, formula, **how))["scores"](table)


def check(case):
    found = scores_by(case.encoder, case.formula, case.values, calibration=case.calibration)
    assert (np.abs(found["score"] - case.score) <= case.tolerance).all()
    # Of the same score, so that a step of the calibration is the same one.
    np.testing.assert_allclose(found["uplift"], case.calibration(found["score"]), atol=1e-12)


@settings(max_examples=50, deadline=None)
@given(cases())
def test_scores_are_those_of_python(case):
    check(case)


@settings(max_examples=50, deadline=None)
@given(cases(bent=True))
def test_it_bends_and_branches_as_python_does(case):
    check(case)


def test_what_stands_for_values_is_that_of_the_encoder():
    assert numpy_scorer.MISSING == kinds.MISSING_TEXTS
    assert numpy_scorer.END_ZEROS == kinds.END_ZEROS
    spelt = {t: n for n, texts in enumerate(kinds.BOOLEAN_TEXTS) for t in texts}
    assert spelt | {"0": 0, "1": 1} == numpy_scorer.BOOLEANS


@given(
    st.sampled_from(HOSTILE_LEVELS)
    | st.text(max_size=5)
    | st.integers(-(10**20), 10**20)
    | st.floats()
    | st.floats(width=32).map(np.float32)
    | st.decimals(allow_nan=False)
    | st.booleans()
)
def test_texts_of_values_are_those_of_the_encoder(value):
    assert level_text(value) == kinds.level_text(value)
    assert without_end_zeros(str(value)) == kinds._without_end_zeros(str(value))


def test_texts_of_numbers_have_the_decimal_sign_of_the_fit():
    encoder = fit_encoder({"x": "number"}, {"x": [1.0, 2.0, 3.0]})
    model = encoder, Formula((Part(1.0, "identity", 0.0, np.array([1.0])),))
    texts = ["7.036", "1.234.567,5", "-0,5", " 12 ", "1e3"]
    found = scores_by(*model, {"x": texts}, decimal=",")["score"].tolist()
    assert found == [7036, 1234567.5, -0.5, 12, 1000]
    assert scores_by(*model, {"x": [7.036, "7"]}, decimal=",")["score"].tolist() == [7.036, 7]
    for decimal in (None, "."):
        assert scores_by(*model, {"x": ["7.036"]}, decimal=decimal)["score"].tolist() == [7.036]
        with pytest.raises(ValueError, match="'x' should hold numbers, as in training, got '1,5'"):
            scores_by(*model, {"x": ["1,5"]}, decimal=decimal)
    with pytest.raises(ValueError, match=r"texts with a comma before decimals, .* got '7\.5'"):
        scores_by(*model, {"x": ["7.5"]}, decimal=",")


@pytest.mark.parametrize("kind", list(NUMBERED))
def test_numbers_stand_for_texts(kind):
    values, expected = NUMBERED[kind]
    assert scores_by(*numbered(), {"c": values})["score"].tolist() == expected


@pytest.mark.parametrize("dtype", ["int64", "float32", "float64", "Int64", "object", "category"])
def test_types_of_columns(dtype):
    values = pd.Series([1, 2, 20, 10], dtype=dtype)
    assert scores_by(*numbered(), {"c": values})["score"].tolist() == [1.5, 4.5, 16.5, 16.5]
    assert scores_by(*plans(), {"p": values})["score"].tolist() == [1.5, 2.5, 8.5, 8.5]


def test_single_precision_and_gaps_of_pandas():
    encoder = fit_encoder({"c": "category"}, {"c": ["0.1", "x"] * 3 + [None, None]})
    formula = Formula((Part(1.0, "identity", 0.0, np.array([1.0, 2.0, 4.0])),))
    assert scores_by(encoder, formula, {"c": np.array([0.1], np.float32)})["score"].tolist() == [1]
    gaps = pd.array(["x", None], dtype="string")
    assert scores_by(encoder, formula, {"c": gaps})["score"].tolist() == [2, 4]
    assert scores_by(encoder, formula, {"c": np.array([0.1, np.nan])})["score"].tolist() == [1, 4]


@pytest.mark.parametrize("kind", list(PLANS))
def test_codes_are_numbers_of_any_type(kind):
    values, expected = PLANS[kind]
    assert scores_by(*plans(), {"p": values})["score"].tolist() == expected
    texts = ["" if v is None or v != v else str(v) for v in values]
    assert scores_by(*plans(), {"p": texts})["score"].tolist() == expected


@pytest.mark.parametrize("kind", list(BOOLEANS))
def test_booleans_of_any_type(kind):
    encoder, formula, expected = truth()
    assert scores_by(encoder, formula, {"b": BOOLEANS[kind]})["score"].tolist() == expected


@pytest.mark.parametrize("words", [("true", "false"), ("TRUE", "FALSE"), ("yes", "no")])
def test_booleans_stand_for_words(words):
    encoder, formula, _ = truth(words)
    coef = dict(zip(encoder.columns_[0].levels, formula.parts[0].coef, strict=False))
    expected = [coef[words[0]] + 0.5, coef[words[1]] + 0.5, 4.5]
    for kind in ("boolean", "text", "text of pandas", "text of R"):
        assert scores_by(encoder, formula, {"b": BOOLEANS[kind]})["score"].tolist() == expected


def test_true_and_1_are_two_texts():
    encoder = fit_encoder({"c": "category"}, {"c": ["true", "1", "x"] * 2})
    formula = Formula((Part(1.0, "identity", 0.0, np.array([1.0, 2.0, 4.0])),))
    values = [True, 1, 1.0, Decimal("1.0"), "1", "true", np.True_, None]
    found = scores_by(encoder, formula, {"c": values})["score"].tolist()
    assert found == [2, 1, 1, 1, 1, 2, 2, 0]


def test_minus_zero_is_zero():
    values = [0, 0.0, -0.0, "-0", "-0.00", Decimal("-0.0")]
    assert set(scores_by(*zero(), {"c": values})["score"].tolist()) == {1.0}


DAYS = [datetime(2020 + k % 2, 1 + k, 3 * k + 1, 3 * k, 5, 7, 11) for k in range(7)]
WRITTEN = {
    "moments": DAYS,
    "with a zone": [d.replace(tzinfo=UTC).astimezone(timezone(timedelta(hours=3))) for d in DAYS],
    "numpy": np.array(DAYS, dtype="datetime64[us]"),
    "pandas": pd.Series(DAYS),
    "pandas with a zone": pd.Series(DAYS).dt.tz_localize("UTC").dt.tz_convert("Europe/Oslo"),
    "texts": [str(d) for d in DAYS],
    "texts with a zone": [f"{d.isoformat()}Z" for d in DAYS],
    "texts of PostgreSQL": [f"{d + timedelta(hours=2)}+02" for d in DAYS],
}


@pytest.mark.parametrize("written", list(WRITTEN))
def test_dates_however_they_are_written(written):
    encoder = fit_encoder({"d": "date"}, {"d": [*DAYS, None]})
    coef = np.linspace(-1, 1, len(encoder.terms_))
    coef[0] = 1e-4
    formula = Formula((Part(1.0, "identity", 0.0, coef),))
    expected = formula(encoder.transform(pd.DataFrame({"d": DAYS})))
    found = scores_by(encoder, formula, {"d": WRITTEN[written]})["score"]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


def test_days_without_a_time_and_missing_ones():
    encoder = fit_encoder({"d": "date"}, {"d": [*DAYS, None]})
    formula = Formula((Part(1.0, "identity", 0.0, np.eye(len(encoder.terms_))[0]),))
    values = [date(1970, 1, 3), "1970-01-03", None, "", "NA", pd.NaT]
    found = scores_by(encoder, formula, {"d": values})["score"].tolist()
    assert found == [2.0, 2.0] + [encoder.terms_[0].fill] * 4


NUMBERS = ("number", [1.0, 2.0, 3.5, 9.25, None, None])
DATES = ("date", [*DAYS, None])
TRUTHS = ("boolean", [True, False, None, True, False, None])
TEXTS = ("category", ["a", "b"] * 3)


@pytest.mark.parametrize(
    ("of", "values", "got"),
    [
        (NUMBERS, ["1", "two"], "'two'"),
        (NUMBERS, ["1_000"], "'1_000'"),
        (NUMBERS, ["1,5"], "'1,5'"),
        (NUMBERS, [math.inf], "infinite"),
        (NUMBERS, ["1e999"], "infinite"),
        (NUMBERS, [date(2020, 1, 1)], "datetime.date"),
        (NUMBERS, np.array(["2020-01-01"], "datetime64[D]"), "datetime.date"),
        (NUMBERS, [[1.0]], "lists"),
        (NUMBERS, np.ones((2, 2)), "shape"),
        (DATES, ["05.02.2020"], "'05.02.2020'"),
        (DATES, ["2020-02-31"], "'2020-02-31'"),
        (DATES, [18_000], "18000"),
        (DATES, np.array([18_000.0]), "18000"),
        (TRUTHS, ["yes"], "'yes'"),
        (TRUTHS, [2], "other numbers"),
        (TRUTHS, ["2"], "'2'"),
        (TEXTS, [2.0**53], "several whole numbers"),
        (TEXTS, [date(2020, 1, 1)], "datetime.date"),
    ],
)
def test_values_of_another_kind_are_refused(of, values, got):
    kind, train = of
    encoder = fit_encoder({"c": kind}, {"c": train})
    formula = Formula((Part(1.0, "identity", 0.0, np.ones(len(encoder.terms_))),))
    with pytest.raises(ValueError, match=rf"column 'c' should hold [\s\S]*got [\s\S]*{got}"):
        scores_by(encoder, formula, {"c": values})


def test_columns_are_there_and_as_long():
    encoder = fit_encoder({"a": "number", "b": "number"}, {"a": [1.0, 2.0], "b": [3.0, 5.0]})
    formula = Formula((Part(1.0, "identity", 0.0, np.ones(2)),))
    with pytest.raises(ValueError, match="got none named 'b'"):
        scores_by(encoder, formula, {"a": [1.0]})
    with pytest.raises(ValueError, match="as many rows"):
        scores_by(encoder, formula, {"a": [1.0], "b": [1.0, 2.0]})
    found = scores_by(encoder, formula, {"a": [1.0], "b": [2.0], "more": "anything"})
    assert found["score"].tolist() == [3.0]
    assert scores_by(encoder, formula, {"a": [], "b": []})["score"].tolist() == []


def test_rows_are_scored_in_blocks_in_their_order():
    encoder = fit_encoder({"a": "number"}, {"a": [1.0, 2.0, 3.5, 2.0]})
    formula = Formula((Part(1.0, "identity", 0.0, np.ones(1)),))
    values = np.arange(2 * numpy_scorer.BLOCK + 7, dtype=np.float64)
    assert (scores_by(encoder, formula, {"a": values})["score"] == values).all()
