"""The texts that stand for values: the same from CSV, Parquet, SQL or Python.

A value has a text (:func:`level_text`), and a text counts as a level, as another text or as missing
(:func:`counted_as`): formats write the same value in different ways.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from auucmax._validation import listed

#: Texts that stand for a missing value.
MISSING_TEXTS = ("", "NA", "N/A", "NaN", "nan", "NULL", "null")
#: A number with zeros at the end of its decimals, or -0: the group is the same number without. No
#: text matches two alternatives, so that databases that try them in another order agree.
END_ZEROS = r"-?(0+)[.]0+|-(0)|(-?0*[1-9][0-9]*)[.]0+|(-?[0-9]+[.][0-9]*[1-9])0+"
#: How databases, pandas and R write false and true.
BOOLEAN_TEXTS = (("false", "False", "FALSE"), ("true", "True", "TRUE"))
#: The levels of a boolean column that comes as texts: at odd places the true ones.
TRUTHS = ("false", "true", "0", "1")
_MISSING = frozenset(MISSING_TEXTS)
_BOOLEAN = frozenset(text for spellings in BOOLEAN_TEXTS for text in spellings)
_LONGEST_DECIMAL = 60  # digits; beyond, a decimal is a text as it prints
# What an outcome in words may be, the word for 1 first.
_ANSWERS = (("yes", "no"), ("y", "n"), ("true", "false"), ("t", "f"))


def level_text(value: Any) -> str:
    """The text that stands for a value of a category: equal numbers have one, whatever their type.

    >>> level_text("north"), level_text(1), level_text(1.0), level_text(1.5), level_text(True)
    ('north', '1', '1', '1.5', 'true')
    >>> level_text(Decimal("1.00")), level_text(Decimal("1.50")), level_text(np.float32(0.1))
    ('1', '1.5', '0.1')
    >>> level_text(-0.0)
    '0'
    """
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    if isinstance(value, (float, np.floating)) and float(value).is_integer():
        return str(int(value))
    if not isinstance(value, Decimal):
        return str(value)
    if not value.is_finite() or abs(value.adjusted()) > _LONGEST_DECIMAL:
        return str(value)
    if value == value.to_integral_value():
        return str(int(value))
    near = str(float(value))  # small numbers print with an exponent
    return near if Decimal(near) == value else _without_end_zeros(format(value, "f"))


def arm_text(value: Any) -> str:
    """The text that stands for an arm of a trial: a boolean is one, however it is spelt.

    >>> arm_text("True"), arm_text(True), arm_text(1.0), arm_text("Mail")
    ('true', 'true', '1', 'Mail')
    """
    text = level_text(value)
    return text.lower() if text.lower() in ("true", "false") else text


def counted_as(text: str, levels: Collection[str]) -> str | None:
    """The text that a text of a category counts as, which may be a level; None: as missing.

    >>> counted_as("1.0", {"1"}), counted_as("1.0", {"1", "1.0"}), counted_as("NA", {"1"})
    ('1', '1.0', None)
    >>> counted_as("-0.0", {"0"}), counted_as("true", {"True", "False"})
    ('0', 'True')
    """
    if text in levels:
        return text
    if text in _MISSING:
        return None
    spelt = other_spellings(levels).get(text) if text in _BOOLEAN else None
    return spelt or _without_end_zeros(text)


def other_spellings(levels: Collection[str]) -> dict[str, str]:
    """Texts of booleans that are no levels, and the level that each counts as.

    A word that is a level in two spellings is told apart by them, and has no others.

    >>> other_spellings(["True", "no"])
    {'true': 'True', 'TRUE': 'True'}
    >>> other_spellings(["True", "TRUE"])
    {}
    """
    found: dict[str, str] = {}
    for spellings in BOOLEAN_TEXTS:
        own = [text for text in spellings if text in levels]
        if len(own) == 1:
            found |= {text: own[0] for text in spellings if text != own[0]}
    return found


def _without_end_zeros(text: str) -> str:
    found = re.fullmatch(END_ZEROS, text) if text.endswith("0") else None
    return "".join(filter(None, found.groups())) if found else text


def places_of(texts: Sequence[str], levels: Sequence[str]) -> tuple[NDArray[np.intp], list[str]]:
    """The place of each text among the levels, and the texts that are no level.

    Such texts have the place after all levels, missing ones have -1. One more -1 is at the end:
    rows without a value have the code -1, so that ``places[codes]`` is right for them as well.
    """
    known = {level: place for place, level in enumerate(levels)}
    counted = [counted_as(text, known) for text in texts]
    places = [-1 if text is None else known.get(text, len(known)) for text in counted]
    new = [text for text, place in zip(texts, places, strict=True) if place == len(known)]
    return np.array([*places, -1], dtype=np.intp), new


def outcome_numbers(column: pd.Series) -> pd.Series:
    """An outcome as numbers: yes or no, y or n, true or false, t or f (any case) are 1 or 0.

    Numbers and booleans, and texts that are numbers, stay as they are; so do missing values. Other
    texts, and words of two pairs, are errors.

    >>> outcome_numbers(pd.Series(["Yes", "no", None], name="buys")).tolist()
    [1.0, 0.0, nan]
    >>> outcome_numbers(pd.Series(["yes", "maybe"], name="buys"))
    Traceback (most recent call last):
    ValueError: the outcome 'buys' should hold numbers, or yes and no, got 'maybe', 'yes'.
    Convert the column to numbers first.
    """
    if pd.api.types.is_numeric_dtype(column.dtype):  # booleans are
        return column
    try:
        codes, levels = pd.factorize(column.astype(object))
    except TypeError as error:  # lists, say
        raise ValueError(
            f"the outcome {column.name!r} should hold numbers, or yes and no, got values such as "
            f"{str(column[column.notna()].iloc[0])[:50]!r}. Convert the column to numbers first."
        ) from error
    words = [str(level).strip().casefold() for level in levels]
    for one, zero in _ANSWERS:
        if words and set(words) <= {one, zero}:
            numbers = np.array([float(word == one) for word in words] + [np.nan])
            return pd.Series(numbers[codes], index=column.index, name=column.name)
    try:
        pd.to_numeric(pd.Series(levels))
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"the outcome {column.name!r} should hold numbers, or yes and no, got "
            f"{listed(sorted(map(str, levels)))}. Convert the column to numbers first."
        ) from error
    return column
