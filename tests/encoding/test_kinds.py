"""What columns hold, by their type or by their values.

One text for equal values, whatever the file that they come from writes.
"""

import datetime
import re
from collections import Counter
from decimal import Decimal
from fractions import Fraction
from unittest.mock import patch

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auucmax.encoding import kinds as kinds_module
from auucmax.encoding.kinds import (
    BOOLEAN_TEXTS,
    END_ZEROS,
    KINDS,
    MISSING_TEXTS,
    code_counts,
    code_places,
    counted_as,
    kind_of,
    level_text,
    numbers_of,
    other_spellings,
    outcome_numbers,
    places_of,
    texts_of,
    truths_of,
)
from auucmax.encoding.reference import truth_slow


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


@pytest.mark.gate
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


TEXT = pd.Series(["a"]).dtype  #: of columns of texts: str, or object before pandas 3


@pytest.mark.parametrize("words", ["yes no", "Y n", "True FALSE", " t f"])
@pytest.mark.parametrize("dtype", [TEXT, "category", object])
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


COLUMNS = {
    "number": [
        [1, 2], [1.5, None], [np.nan], pd.Series([1, None], dtype="Int64"), [Decimal("1.5"), None],
        pd.Series([1, 2.5], dtype=object), [Decimal(1), 1.5, Fraction(1, 3)],
    ],
    "boolean": [
        [True, False], pd.Series([True, None], dtype="boolean"),
        pd.Series([True, None], dtype=object),
    ],
    "category": [["a", None], pd.Series(["a", "b"], dtype="category"), ["true", "false"]],
    "date": [
        [datetime.date(2024, 1, 1)], pd.to_datetime(["2024-01-01", None]),
        pd.to_datetime(["2024-01-01"]).tz_localize("Asia/Tokyo"),
    ],
    "empty": [[None, None], []],
    "mixed": [[1, "a"], [True, "a"], [Decimal(1), "a"], [True, 2], [np.True_, 1.5]],
}  # fmt: skip


@pytest.mark.parametrize("kind", list(COLUMNS))
def test_kinds(kind):
    assert kind in (*KINDS, "empty", "mixed")
    for values in COLUMNS[kind]:
        assert kind_of(pd.Series(values)) == kind


def test_columns_of_several_kinds_or_of_others_are_refused():
    for values in ([1j], [b"a"], [{}], ["a", b"a"], [1, datetime.date(2024, 1, 1)]):
        with pytest.raises(ValueError, match="column 'c' should hold numbers, texts, booleans"):
            kind_of(pd.Series(values, name="c", dtype=object))


def test_types_of_arrow():
    import pyarrow as pa

    known = {
        "number": [pa.int8(), pa.float32(), pa.decimal128(9, 2)], "boolean": [pa.bool_()],
        "category": [pa.string(), pa.large_string()], "date": [pa.date32(), pa.timestamp("us")],
        None: [pa.list_(pa.int8()), pa.binary(), pa.time64("us"), pa.duration("s"), pa.null()],
    }  # fmt: skip
    for kind, types in known.items():
        for type_ in types:
            assert kind_of(pd.Series([], dtype=pd.ArrowDtype(type_))) == (kind or "empty")


def test_numbers():
    assert numbers_of(pd.Series([True, False]), "boolean").tolist() == [1, 0]
    moments = pd.Series(pd.to_datetime(["1970-01-02 12:00", None]))
    np.testing.assert_array_equal(numbers_of(moments, "date"), [1.5, np.nan])
    with pytest.raises(ValueError, match="column 'c' should be finite numbers, got 1 infinite"):
        numbers_of(pd.Series([1.0, -np.inf], name="c"), "number")


def test_texts_of_values_that_are_equal_are_one():
    codes, texts = texts_of(pd.Series([1, "1", 1.0, True, None, "x"], dtype=object), "mixed")
    assert texts == ["1", "true", "x"]
    assert codes.tolist() == [0, 0, 0, 1, -1, 2]


def test_truths_are_the_slow_ones():
    known = [*BOOLEAN_TEXTS[0], *BOOLEAN_TEXTS[1], "0", "1", "1.0", "-0.0", *MISSING_TEXTS]
    values, unknown = truths_of(pd.Series(known, dtype=object), "category")
    slow = [truth_slow(text) for text in known]
    np.testing.assert_array_equal(values, [np.nan if v is None else v for v in slow])
    assert values[:10].tolist() == [0, 0, 0, 1, 1, 1, 0, 1, 1, 0]
    assert np.isnan(values[10:]).all()
    assert unknown == []
    assert truths_of(pd.Series(["true", "yes", "2", "tRUE"]), "category")[1] == ["yes", "2", "tRUE"]
    assert [truth_slow(True), truth_slow(0)] == [1, 0]
    values, unknown = truths_of(pd.Series([0.0, 1.0, np.nan, 2.0]), "number")
    np.testing.assert_array_equal(values, [0, 1, np.nan, 2])
    assert unknown == [2.0]


NUMBERS = st.lists(st.sampled_from([-1.0, 0.0, -0.0, 1.0, 2.0, 7.0, 0.5, 2.0**53]), max_size=30)


@settings(max_examples=60, deadline=None)
@given(NUMBERS, st.integers(1, 4))
def test_codes_are_counted_as_one_by_one(values, fewest):
    counts = Counter(value + 0.0 for value in values)
    is_code = (
        3 <= len(counts) <= 10
        and all(value.is_integer() and abs(value) < 2**53 for value in counts)
        and len(values) >= 2 * len(counts)
        and sum(n >= fewest for n in counts.values()) >= 2
    )
    expected = {int(v): counts[v] for v in sorted(counts)} if is_code else None
    with patch.object(kinds_module, "_FIRST_LOOK", 3):
        assert code_counts(np.array(values), fewest) == expected
    assert code_counts(np.array(values), fewest) == expected
    levels = ["-1", "0", "7"]
    texts = [level_text(value) for value in values]
    places = [levels.index(text) if text in levels else len(levels) for text in texts]
    assert code_places(np.array([*values, np.nan]), levels).tolist() == [*places, -1]
