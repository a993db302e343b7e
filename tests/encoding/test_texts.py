"""One text for equal values, whatever the file that they come from writes."""

import re
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auucmax.encoding.texts import (
    BOOLEAN_TEXTS,
    END_ZEROS,
    counted_as,
    level_text,
    other_spellings,
    outcome_numbers,
    places_of,
)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Decimal("12345678901234567890.50"), "12345678901234567890.5"),
        (Decimal("123456789012345678901234567890123.40"), "123456789012345678901234567890123.4"),
        (Decimal("1E+2"), "100"),
        (Decimal("-0.0"), "0"),
        (Decimal("0.000010"), "1e-05"),
        (Decimal("1E+999999"), "1E+999999"),
        (Decimal("1E-999999"), "1E-999999"),
        (Decimal("Infinity"), "Infinity"),
        (np.float32(0.1), "0.1"),
        (2**70, str(2**70)),
        (-0.0, "0"),
        (np.float32(-0.0), "0"),
        (-0.5, "-0.5"),
        (np.True_, "true"),
        (False, "false"),
    ],
)
def test_texts_of_numbers(value, text):
    assert level_text(value) == text


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("0.0", "0"), ("-0.0", "0"), ("-0", "0"), ("-0.000", "0"), ("00.0", "00"), ("10.0", "10"),
        ("-10.00", "-10"), ("010.0", "010"), ("1.50", "1.5"), ("-0.50", "-0.5"), ("0.010", "0.01"),
    ],
)  # fmt: skip
def test_zeros_at_the_end_and_minus_zero(text, same):
    assert counted_as(text, ()) == same
    assert counted_as(text, (text,)) == text


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "-0.5", "1.", ".0", "v1.0", "1.0 ", "--0", "-"])
def test_other_texts_stay(text):
    assert counted_as(text, ()) == text


@settings(max_examples=80, deadline=None)
@given(st.from_regex(END_ZEROS, fullmatch=True))
def test_one_alternative_matches_and_the_number_stays_the_same(text):
    assert sum(bool(re.fullmatch(part, text)) for part in END_ZEROS.split("|")) == 1
    same = counted_as(text, ())
    assert Decimal(same) == Decimal(text)
    assert counted_as(same, ()) == same


def test_spellings_of_booleans():
    for spellings in BOOLEAN_TEXTS:
        for own in spellings:
            assert {counted_as(text, {own, "x"}) for text in spellings} == {own}
            assert other_spellings([own]) == dict.fromkeys(set(spellings) - {own}, own)
    assert counted_as("true", {"True", "TRUE"}) == "true"
    assert counted_as("tRUE", {"True"}) == "tRUE"
    assert counted_as("true", {"False"}) == "true"


def test_places():
    places, new = places_of(["b", "a", "NA", "z", "1.0"], ["a", "b", "1"])
    assert places.tolist() == [1, 0, -1, 3, 2, -1]
    assert new == ["z"]


@pytest.mark.parametrize("words", ["yes no", "Y n", "True FALSE", " t f"])
@pytest.mark.parametrize("dtype", ["str", "category", object])
def test_an_outcome_in_words(words, dtype):
    one, zero = words.rsplit(" ", 1)
    column = pd.Series([zero, one, None, zero], name="y", index=[5, 6, 7, 9]).astype(dtype)
    expected = pd.Series([0.0, 1.0, np.nan, 0.0], name="y", index=[5, 6, 7, 9])
    pd.testing.assert_series_equal(outcome_numbers(column), expected)


def test_outcomes_that_are_numbers_stay_and_others_are_refused():
    for values in ([1, 0], [0.5, None], [True, False], ["1", "0.5"]):
        column = pd.Series(values, name="y")
        pd.testing.assert_series_equal(outcome_numbers(column), column)
    for bad in (["yes", "maybe"], ["yes", "false"], ["yes", "1"], ["a", "b"], ["no", ""]):
        with pytest.raises(ValueError, match="the outcome 'y' should hold numbers, or yes and no"):
            outcome_numbers(pd.Series(bad, name="y"))
