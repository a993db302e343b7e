"""What columns hold, by their type or by their values.

One text for equal values, whatever the file that they come from writes.
"""

import re
from collections import Counter
from decimal import Decimal
from unittest.mock import patch

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.encoding.reference import truth_slow

from auucmax.data.read_trial import read_trial
from auucmax.encoding import kinds as kinds_module
from auucmax.encoding.kinds import (
    BOOLEAN_TEXTS,
    END_ZEROS,
    MISSING_TEXTS,
    code_counts,
    code_places,
    counted_as,
    level_text,
    other_spellings,
    outcome_kind,
    outcome_numbers,
    responders,
    share_beyond,
    truths_of,
    usual_value,
)
from auucmax.model.guarantee import counted_range
from auucmax.results import Why


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


@pytest.mark.parametrize(
    ("y", "kind"),
    [
        ([0, 1, 1], "0/1"),
        ([1, 1], "0/1"),
        ([0, 1, 2], "count"),
        ([3, 4], "count"),
        ([0, 0.5], "money with zeros"),
        ([0] + [0.5] * 99, "money with zeros"),
        ([0] + [0.5] * 100, "any number"),
        ([-1, 0, 0], "any number"),
        ([2.5, 3], "any number"),
    ],
)
def test_the_kind_of_an_outcome(y, kind):
    assert outcome_kind(np.array(y, dtype=float)) == kind


@given(st.lists(st.integers(-2, 3), min_size=1, max_size=30), st.sampled_from([2.5, -1.0]))
def test_the_usual_value_moves_with_the_outcomes(y, factor):
    """Money that is to be low, 1 - y, is learnt from as money."""
    y = np.array(y, dtype=float)
    usual = usual_value(y)
    if usual is not None:
        assert np.mean(y == usual) >= 0.5
        assert usual in (y.min(), y.max())
    moved = usual_value(1 + factor * y)
    if len(np.unique(y)) != 2:  # of two values, half each, either is the usual one
        assert moved == (None if usual is None else 1 + factor * usual)


def test_responders_are_all_that_are_not_usual():
    assert responders(np.array([0, 1, 1, 1.0])).tolist() == [False, True, True, True]
    assert responders(np.array([1, 1, 1, -4.0])).tolist() == [False, False, False, True]
    assert responders(np.array([1.0, 2, 3])) is None


def test_a_range_that_leaves_out_too_much_certifies_nothing():
    """What is counted would not stand for what is paid: small orders may rise, large ones fall."""
    y = np.repeat([0.0, 10.0, 1_000.0], [80, 15, 5])
    assert share_beyond(y, (0, 1_000)) == 0
    assert share_beyond(y, (0, 100)) == pytest.approx(4_500 / 5_150)
    table = pd.DataFrame({"t": np.arange(100) % 2, "y": y, "x": np.arange(100.0) ** 2})

    def counted(outcome_range, **options):
        trial = read_trial(
            table, treatment="t", outcome="y", outcome_range=outcome_range, **options
        )  # fmt: skip
        return counted_range(trial)

    for outcome_range in ((0, 100), (2_000, 3_000)):
        assert counted(outcome_range) == Why.NARROW_RANGE
    assert counted((0, 1_000)) == (0, 1_000)
    assert counted((0, 1_000), lower_is_better=True) == (-1_000, 0)
    assert counted(None) == Why.NO_RANGE
