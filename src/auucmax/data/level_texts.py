"""The texts that stand for values of a category: the same from CSV, Parquet, SQL or Python.

A value has a text (:func:`level_text`), and a text counts as a level, as another text or as missing
(:func:`counted_as`): formats write the same value in different ways.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from auucmax._validation import Floats
from auucmax.data.text_types import MISSING_TEXTS

__all__ = [
    "BOOLEAN_TEXTS",
    "END_ZEROS",
    "arm_text",
    "counted_as",
    "is_mix",
    "level_text",
    "other_spellings",
    "places_of",
    "texts_of",
    "truth_slow",
    "truths",
]

#: A number with zeros at the end of its decimals, or -0: the group is the same number without. No
#: text matches two alternatives, so that databases that try them in another order agree.
END_ZEROS = r"-?(0+)[.]0+|-(0)|(-?0*[1-9][0-9]*)[.]0+|(-?[0-9]+[.][0-9]*[1-9])0+"
#: How databases, pandas and R write false and true.
BOOLEAN_TEXTS = (("false", "False", "FALSE"), ("true", "True", "TRUE"))
_TRUTHS = ("false", "true", "0", "1")  # levels of a boolean: at odd places the true ones
_MISSING = frozenset(MISSING_TEXTS)
_BOOLEAN = frozenset(text for spellings in BOOLEAN_TEXTS for text in spellings)
_LONGEST_DECIMAL = 60  # digits; beyond, a decimal is a text as it prints
_MIXED = ("mixed", "mixed-integer")


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
    if isinstance(value, Decimal):
        return _decimal_text(value)
    if isinstance(value, (float, np.floating)) and float(value).is_integer():
        return str(int(value))
    return str(value)


def arm_text(value: Any) -> str:
    """A label of an arm; booleans are the same in all files.

    >>> arm_text("True"), arm_text(True), arm_text(1.0), arm_text("Mail")
    ('true', 'true', '1', 'Mail')
    """
    text = level_text(value)
    return text.lower() if text.lower() in ("true", "false") else text


def _decimal_text(value: Decimal) -> str:
    if not value.is_finite() or abs(value.adjusted()) > _LONGEST_DECIMAL:
        return str(value)
    if value == value.to_integral_value():
        return str(int(value))
    near = str(float(value))  # small numbers print with an exponent
    return near if Decimal(near) == value else _without_end_zeros(format(value, "f"))


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
    found = re.fullmatch(END_ZEROS, text)
    return "".join(filter(None, found.groups())) if found else text


def places_of(texts: Sequence[str], levels: Sequence[str]) -> tuple[NDArray[np.intp], int]:
    """Place of the level of each text, and last -1; and the number of texts that are no level.

    -1 is of missing values, whose code is -1 as well; of unknown texts the place is after all.
    """
    known = {level: place for place, level in enumerate(levels)}
    counted = [counted_as(text, known) for text in texts]
    places = [-1 if text is None else known.get(text, len(known)) for text in counted]
    return np.array([*places, -1], dtype=np.intp), places.count(len(known))


def texts_of(series: pd.Series) -> tuple[NDArray[np.intp], list[str]]:
    """Code of the text of each row (-1 where missing), and the texts."""
    if is_mix(series):  # factorize would take True and 1 for one value
        series = series.map(lambda value: _exact_text(value, series.name), na_action="ignore")
    codes, values = pd.factorize(series)
    if pd.api.types.is_float_dtype(values.dtype):
        values = np.asarray(values)  # single precision stays: its 0.1 prints as such
    text_of_value = np.array([_exact_text(value, series.name) for value in values], dtype=object)
    own, texts = pd.factorize(text_of_value)
    return np.append(own, -1)[codes].astype(np.intp), [str(text) for text in texts]


def is_mix(series: pd.Series) -> bool:
    """Whether it is texts, numbers and booleans in one column, each of which is a text."""
    if series.dtype != object or pd.api.types.infer_dtype(series, skipna=True) not in _MIXED:
        return False
    types = set(map(type, series[series.notna()]))
    return all(issubclass(own, (str, Real, Decimal, np.bool_)) for own in types)


def _exact_text(value: Any, name: Any) -> str:
    """The text of a value, unless it is a float that stands for several whole numbers."""
    if isinstance(value, (float, np.floating)) and np.isfinite(value):
        digits = np.finfo(type(value)).nmant + 1
        if abs(float(value)) >= 2.0**digits:
            raise ValueError(
                f"column {name!r} should hold floats below 2^{digits} where they stand for texts, "
                f"got {float(value)!r}, in which several whole numbers fall together. Convert the "
                f"column to integers or texts where it comes from."
            )
    return level_text(value)


def truths(series: pd.Series) -> tuple[Floats, list[str]]:
    """Texts of booleans as 0 and 1, NaN where missing; and the texts that are none.

    >>> truths(pd.Series(["True", "false", "0", "NA", "yes"]))
    (array([ 1.,  0.,  0., nan, nan]), ['yes'])
    """
    codes, texts = texts_of(series)
    places, _ = places_of(texts, _TRUTHS)
    unknown = [text for text, place in zip(texts, places, strict=False) if place == len(_TRUTHS)]
    is_known = (places >= 0) & (places < len(_TRUTHS))
    return np.where(is_known, places % 2, np.nan)[codes], unknown


def truth_slow(value: Any) -> float | None:
    """One boolean, number or text as 0 or 1, None where it is missing: the twin of ``truths``."""
    if not isinstance(value, str):
        return float(value)
    text = counted_as(value, _TRUTHS)
    return None if text is None else float(_TRUTHS.index(text) % 2)
