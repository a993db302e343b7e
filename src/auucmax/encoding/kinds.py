"""Column kinds, and conversion of values to numbers or texts; all type checks are here.

Columns come as pandas series of any type: of numpy, nullable, of Arrow, or Python objects. For
files without types DuckDB inspects all texts.

The texts that stand for values are the same from CSV, Parquet, SQL or Python. A value has a text
(:func:`level_text`), and a text counts as a level, as another text or as missing
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

from auucmax._validation import Bools, Floats, listed
from auucmax.results import Kind

#: Texts that stand for a missing value; the last one in dumps of MySQL, PostgreSQL and Hive.
MISSING_TEXTS = ("", "NA", "N/A", "NaN", "nan", "NULL", "null", r"\N")
#: A number with zeros at the end of its decimals, or -0: the group is the same number without. No
#: text matches two alternatives, so that databases that try them in another order agree.
END_ZEROS = r"-?(0+)[.]0+|-(0)|(-?0*[1-9][0-9]*)[.]0+|(-?[0-9]+[.][0-9]*[1-9])0+"
#: How databases, pandas and R write false and true.
BOOLEAN_TEXTS = (("false", "False", "FALSE"), ("true", "True", "TRUE"))
#: The levels of a boolean column that comes as texts: at odd places the true ones.
TRUTHS = ("false", "true", "0", "1")
_MISSING = frozenset(MISSING_TEXTS)
# How databases write booleans where a file has words: those of PostgreSQL in a file among them.
_TRUTH_TEXTS = tuple((*texts, letter) for texts, letter in zip(BOOLEAN_TEXTS, "ft", strict=True))
_TRUTH_WORDS = ({"no", "yes"}, {"n", "y"}, {"f", "t"})  # in this order, false and true
_BOOLEAN = frozenset(text for spellings in _TRUTH_TEXTS for text in spellings)
_LONGEST_DECIMAL = 60  # digits; beyond, a decimal is a text as it prints
# What an outcome in words may be, the word for 1 first.
_ANSWERS = (("yes", "no"), ("y", "n"), ("true", "false"), ("t", "f"))


def level_text(value: Any) -> str:
    """Text of a category value; equal numbers have the same text, whatever their type.

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
    """Text of an arm label; all spellings of a boolean have the same text.

    >>> arm_text("True"), arm_text(True), arm_text(1.0), arm_text("Mail")
    ('true', 'true', '1', 'Mail')
    """
    text = level_text(value)
    return text.lower() if text.lower() in ("true", "false") else text


def counted_as(text: str, levels: Collection[str]) -> str | None:
    """Normalise the text of a category to a level; None means missing.

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
    """Alternative spellings of boolean levels, and the level of each.

    A word that is a level in two spellings is distinguished by them, and has no others. Where the
    levels are no and yes, n and y, or f and t, booleans are these: a database may have read so.

    >>> other_spellings(["True", "no"])
    {'true': 'True', 'TRUE': 'True'}
    >>> other_spellings(["True", "TRUE"])
    {}
    >>> other_spellings(["No", "Yes"])["true"]
    'Yes'
    """
    if len(levels) == 2 and {level.lower() for level in levels} in _TRUTH_WORDS:
        no, yes = sorted(levels, key=str.lower)
        return {
            text: level
            for level, texts in zip((no, yes), _TRUTH_TEXTS, strict=True)
            for text in texts
            if text not in levels
        }
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
    """Level code of each text, and the texts that are not levels.

    Such texts have the place after all levels, missing ones have -1. One more -1 is at the end:
    rows without a value have the code -1, so that ``places[codes]`` is right for them as well.
    """
    known = {level: place for place, level in enumerate(levels)}
    counted = [counted_as(text, known) for text in texts]
    places = [-1 if text is None else known.get(text, len(known)) for text in counted]
    new = [text for text, place in zip(texts, places, strict=True) if place == len(known)]
    return np.array([*places, -1], dtype=np.intp), new


def outcome_numbers(column: pd.Series) -> pd.Series:
    """Convert an outcome to numbers; yes/no, y/n, true/false, t/f (any case) become 1/0.

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
        levels = column.dropna().unique()
        words = {level: str(level).strip().casefold() for level in levels}
        for one, zero in _ANSWERS:
            if words and set(words.values()) <= {one, zero}:
                numbers = {level: float(word == one) for level, word in words.items()}
                return column.astype(object).map(numbers).astype(float)
        pd.to_numeric(pd.Series(levels))
    except (TypeError, ValueError) as error:  # lists are not hashable
        examples = listed(sorted({str(value)[:50] for value in column.dropna()}))
        raise ValueError(
            f"the outcome {column.name!r} should hold numbers, or yes and no, got {examples}. "
            f"Convert the column to numbers first."
        ) from error
    return column


#: Kinds of columns; a "code" is a number whose values are levels.
KINDS = ("number", "category", "date", "boolean", "code")
FEWEST_CODES, MOST_CODES = 3, 10  #: different whole numbers of a column that are codes
_EXACT = 2.0**53  # whole numbers below differ as floats
_FIRST_LOOK = 1_000  # rows that show for most columns that they are not codes
_DAY_IN_MICROSECONDS = 86_400e6
# Kinds by what pandas infers from Python objects.
_INFERRED = {
    "string": "category", "categorical": "category", "boolean": "boolean",
    "integer": "number", "floating": "number", "mixed-integer-float": "number",
    "decimal": "number", "date": "date", "datetime": "date", "datetime64": "date",
    "empty": "empty",
}  # fmt: skip


def kind_of(series: pd.Series) -> str:
    """Kind of a column, one of ``KINDS``; "mixed" or "empty" if there is no single kind.

    >>> kind_of(pd.Series(["a", None])), kind_of(pd.Series([True])), kind_of(pd.Series([None]))
    ('category', 'boolean', 'empty')
    """
    dtype, types = series.dtype, pd.api.types
    if isinstance(dtype, (pd.CategoricalDtype, pd.StringDtype)):
        return "category"
    if types.is_bool_dtype(dtype):
        return "boolean"
    if types.is_numeric_dtype(dtype) and not types.is_complex_dtype(dtype):
        return "number"
    if isinstance(dtype, pd.ArrowDtype) and dtype.type is str:
        return "category"
    if types.is_datetime64_any_dtype(dtype):
        return "date"
    values = series.astype(object)
    if (kind := _INFERRED.get(pd.api.types.infer_dtype(values, skipna=True))) is not None:
        return kind
    classes = set(map(type, values[values.notna()]))
    if not all(issubclass(own, (str, bool, np.bool_, Real, Decimal)) for own in classes):
        raise unknown_kind(series)
    # A bool is a Real, but True beside 2 is no number.
    return "mixed" if any(issubclass(own, (str, bool, np.bool_)) for own in classes) else "number"


def unknown_kind(series: pd.Series) -> ValueError:
    """Error for a column of several kinds, or of unknown values."""
    example = series[series.notna()].iloc[0]
    return ValueError(
        f"column {series.name!r} should hold numbers, texts, booleans or dates, and one of "
        f"these only; got {series.dtype} values such as {example!r}. Convert or drop the "
        f"column."
    )


def numbers_of(series: pd.Series, kind: str, *, finite: bool = True) -> Floats:
    """Convert numbers, booleans or dates (days since 1970-01-01, UTC) to float64.

    Infinite numbers are an error, unless ``finite`` is False.

    >>> numbers_of(pd.Series([True, None, False]), "boolean")
    array([ 1., nan,  0.])
    """
    if kind == "date":
        micro = moments_of(series).dt.tz_localize(None).to_numpy().astype("datetime64[us]")
        return np.where(np.isnat(micro), np.nan, micro.astype(np.int64) / _DAY_IN_MICROSECONDS)
    if isinstance(series.dtype, np.dtype) and series.dtype != object:
        values = np.asarray(series, dtype=np.float64)
    else:
        values = np.asarray(series.to_numpy(dtype=np.float64, na_value=np.nan))
    if finite and (n_infinite := int(np.isinf(values).sum())):
        raise ValueError(
            f"column {series.name!r} should be finite numbers, got {n_infinite} infinite. Clip "
            f"them, or make them missing."
        )
    return values


def moments_of(series: pd.Series) -> pd.Series:
    """Convert dates and timestamps to UTC; those without a zone are taken as UTC.

    >>> import datetime
    >>> moments_of(pd.Series([datetime.date(9999, 12, 31), None]))[0].year
    9999
    """
    if isinstance(series.dtype, (np.dtype, pd.DatetimeTZDtype)) and series.dtype != object:
        return pd.to_datetime(series, utc=True)
    # By name: pandas 2 would count objects in nanoseconds, which end in 2262.
    return series.astype(object).astype("datetime64[us, UTC]")


def code_counts(values: Floats, fewest_rows: int) -> dict[int, int] | None:
    """Number of rows per value, if a complete numeric column is probably a code; else None.

    Its values are 3 to 10 whole numbers, which repeat: twice on average, and two of them in so many
    rows that they make levels. (Levels of fewer rows would tell less than the numbers do.) Codes
    are often like this, and treating a quantity as levels costs next to nothing.

    >>> code_counts(np.array([3.0, 1.0, 2.0, 1.0, 3.0, 3.0]), fewest_rows=2)
    {1: 2, 2: 1, 3: 3}
    >>> code_counts(np.array([0.5, 1.0, 2.0, 1.0, 2.0, 0.5]), fewest_rows=2)
    """
    for some in (values[:_FIRST_LOOK], values):  # the first rows decide for most columns
        codes, found = pd.factorize(some, sort=True)
        whole = (found == np.rint(found)) & (np.abs(found) < _EXACT)
        if len(found) > MOST_CODES or not whole.all():
            return None
    rows = np.bincount(codes)
    if len(found) < FEWEST_CODES or len(values) < 2 * len(found) or (rows >= fewest_rows).sum() < 2:
        return None
    return dict(zip(map(int, found), rows.tolist(), strict=True))


def code_places(values: Floats, levels: Sequence[str]) -> NDArray[np.intp]:
    """Level code of each number: the number of levels if new, -1 if missing.

    >>> code_places(np.array([2.0, np.nan, 5.0, 1.0]), ["1", "2"])
    array([ 1, -1,  2,  0])
    """
    places = pd.Index([float(level) for level in levels]).get_indexer(values)
    places[(places < 0) & ~np.isnan(values)] = len(levels)
    return places


def are_number_texts(present: pd.Series) -> bool:
    """Whether all values (none missing) are texts of plain numbers.

    >>> are_number_texts(pd.Series(["12", "-0.5"])), are_number_texts(pd.Series(["0012", "1"]))
    (True, False)
    """
    plain = r" *-?(?:(?:0|[1-9]\d*)(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)? *"
    if not len(present) or not all(isinstance(text, str) for text in present.unique()):
        return False
    return bool(present.astype("str").str.fullmatch(plain).all())


def texts_of(series: pd.Series, kind: str) -> tuple[NDArray[np.intp], list[str]]:
    """Text codes of the rows (-1 where missing), and the distinct texts.

    >>> texts_of(pd.Series([2.0, None, 1.0, 2.0]), "number")
    (array([ 0, -1,  1,  0]), ['2', '1'])
    """
    if kind == "mixed":  # factorize would take True and 1 for one value
        series = series.map(lambda value: _exact_text(value, series.name), na_action="ignore")
    array = series.array
    if isinstance(array, pd.arrays.NumpyExtensionArray):  # which pandas 2 does not take
        array = array.to_numpy()
    codes, found = pd.factorize(array)
    values = np.asarray(found)  # single precision stays: its 0.1 prints as such
    if pd.api.types.infer_dtype(values) == "string":
        return codes, values.tolist()
    text_of_value = np.array([_exact_text(value, series.name) for value in values], dtype=object)
    # Different values may have one text, such as 1 and 1.0 in a column of objects.
    own, texts = pd.factorize(text_of_value)
    return np.append(own, -1)[codes], texts.tolist()


def _exact_text(value: Any, name: Any) -> str:
    """Text of a value; a float too large to be an exact integer is an error."""
    if isinstance(value, (float, np.floating)) and np.isfinite(value):
        digits = np.finfo(type(value)).nmant + 1
        if abs(float(value)) >= 2.0**digits:
            raise ValueError(
                f"column {name!r} should hold floats below 2^{digits} where they stand for texts, "
                f"got {float(value)!r}, in which several whole numbers fall together. Convert the "
                f"column to integers or texts where it comes from."
            )
    return level_text(value)


def truths_of(series: pd.Series, kind: str) -> tuple[Floats, list[Any]]:
    """Convert booleans (also as text or 0/1) to numbers, NaN where missing; list invalid values.

    >>> truths_of(pd.Series(["True", "false", "0", "NA", "yes"]), "category")
    (array([ 1.,  0.,  0., nan, nan]), ['yes'])
    """
    if kind not in ("category", "mixed"):
        values = numbers_of(series, kind)
        return values, values[~np.isin(values, (0, 1)) & ~np.isnan(values)].tolist()
    codes, texts = texts_of(series, kind)
    places, unknown = places_of(texts, TRUTHS)
    # Unknown texts have the place after all levels, and missing ones the last.
    numbers = np.array([0.0, 1.0, 0.0, 1.0, np.nan, np.nan])
    return numbers[places][codes], unknown


# Kinds of outcomes

BINARY = Kind.BINARY
_ZEROS = 0.01  # share of zeros from which an outcome counts as money with zeros
MOSTLY = 0.5  #: share of the rows from which one value is the usual one
MOST_BEYOND = 0.2  #: of all outcomes, by size, may lie beyond the range of a certificate


def outcome_kind(y: Floats) -> Kind:
    """Infer the kind of outcome: 0/1, count, money with zeros, or any number.

    Money with zeros is never negative, and at least 1% of it is 0.

    >>> [str(outcome_kind(np.array(y))) for y in ([0, 1.0], [0, 3.0, 1], [0, 9.5], [1.5, 9.5])]
    ['0/1', 'count', 'money with zeros', 'any number']
    """
    if np.isin(y, (0.0, 1.0)).all():
        return Kind.BINARY
    if y.min() < 0:
        return Kind.NUMBER
    if np.array_equal(y, np.rint(y)):
        return Kind.COUNT
    return Kind.MONEY if (y == 0).mean() >= _ZEROS else Kind.NUMBER


def usual_value(y: Floats) -> float | None:
    """The smallest or largest outcome if at least half of the rows have it, else None.

    If most people buy nothing, for example, whether they buy is more informative than how much.

    >>> usual_value(np.array([0, 0, 0, 7.5])), usual_value(np.array([1.5, 2.5, 4.0]))
    (0.0, None)
    """
    for value in (float(y.min()), float(y.max())):
        if np.mean(y == value) >= MOSTLY:
            return float(value)
    return None


def responders(y: Floats) -> Bools | None:
    """Rows whose outcome differs from the most common one (for 0/1 outcomes: rows with 1).

    None if there is no usual value.

    >>> responders(np.array([0, 1.0, 1, 1])).tolist(), responders(np.array([0, 0, 7.5])).tolist()
    ([False, True, True, True], [False, False, True])
    """
    if outcome_kind(y) == Kind.BINARY:
        return np.asarray(y > 0)
    usual = usual_value(y)
    return None if usual is None else np.asarray(y != usual)


def share_beyond(y: Floats, outcome_range: tuple[float, float]) -> float:
    """Share of the total absolute outcome that lies outside a range.

    >>> share_beyond(np.array([0, 40.0, 60]), (0, 50))
    0.1
    """
    low, high = outcome_range
    lost = np.maximum(y - high, 0) + np.maximum(low - y, 0)
    return float(lost.sum()) / (float(np.abs(y).sum()) or 1.0)
