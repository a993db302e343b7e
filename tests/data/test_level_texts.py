"""One text for equal values, whatever the file that they come from writes."""

import re
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auucmax.data.level_texts import (
    BOOLEAN_TEXTS,
    END_ZEROS,
    counted_as,
    level_text,
    other_spellings,
    places_of,
    texts_of,
    truth_slow,
    truths,
)
from auucmax.data.text_types import MISSING_TEXTS


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
    places, n_new = places_of(["b", "a", "NA", "z", "1.0"], ["a", "b", "1"])
    assert places.tolist() == [1, 0, -1, 3, 2, -1]
    assert n_new == 1


def test_texts_of_values_that_are_equal_are_one():
    codes, texts = texts_of(pd.Series([1, "1", 1.0, True, None, "x"], dtype=object))
    assert texts == ["1", "true", "x"]
    assert codes.tolist() == [0, 0, 0, 1, -1, 2]


def test_truths_are_the_slow_ones():
    known = [*BOOLEAN_TEXTS[0], *BOOLEAN_TEXTS[1], "0", "1", "1.0", "-0.0", *MISSING_TEXTS]
    values, unknown = truths(pd.Series(known, dtype=object))
    slow = [truth_slow(text) for text in known]
    np.testing.assert_array_equal(values, [np.nan if v is None else v for v in slow])
    assert values[:10].tolist() == [0, 0, 0, 1, 1, 1, 0, 1, 1, 0]
    assert np.isnan(values[10:]).all()
    assert unknown == []
    assert truths(pd.Series(["true", "yes", "2", "tRUE"]))[1] == ["yes", "2", "tRUE"]
    assert [truth_slow(True), truth_slow(0)] == [1, 0]
