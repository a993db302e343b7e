"""What a column of texts stands for: missing values, numbers, dates, an outcome in words.

DuckDB looks at the texts, all of them; the type of a column is that of all its texts.
"""

from __future__ import annotations

import pandas as pd

from auucmax._validation import listed

__all__ = [
    "ANY_KIND",
    "JSON_KINDS",
    "KINDS_OF_COLUMNS",
    "MISSING_TEXTS",
    "ZONE_TYPE",
    "outcome_numbers",
    "type_of_texts",
]

#: Texts of a CSV file that stand for a missing value.
MISSING_TEXTS = ("", "NA", "N/A", "NaN", "nan", "NULL", "null")
ZONE_TYPE = "TIMESTAMP WITH TIME ZONE"
# Kinds of texts, as bits: those of a column add up.
_INTEGER, _LONG, _NUMBER, _DATE, _MOMENT, _ZONED, _OTHER = (1 << bit for bit in range(7))
_NUMBERS, _DATES = _INTEGER | _LONG | _NUMBER, _DATE | _MOMENT | _ZONED
ANY_KIND = _NUMBERS | _DATES
#: Types of JSON fields that are read as texts, and what these may turn out to be.
JSON_KINDS = {
    "DOUBLE": _NUMBERS, "HUGEINT": _NUMBERS, "UBIGINT": _NUMBERS,
    "VARCHAR": _DATES, "DATE": _DATES, "TIMESTAMP": _DATES, ZONE_TYPE: _DATES,
    "TIMESTAMP_NS": _DATES, "TIME": 0, "UUID": 0, "JSON": 0,
}  # fmt: skip
_DAY, _CLOCK = r"\d{4}-\d{2}-\d{2}", r"[ T]\d{2}:\d{2}(:\d{2}(\.\d+)?)?"
_KIND_OF_TEXT = rf"""CASE
    WHEN regexp_full_match(value, ' *-?(0|[1-9]\d*) *')
        THEN CASE WHEN TRY_CAST(value AS BIGINT) IS NULL THEN {_LONG} ELSE {_INTEGER} END
    WHEN regexp_full_match(value, ' *-?((0|[1-9]\d*)(\.\d*)?|\.\d+)([eE][+-]?\d+)? *')
        THEN CASE WHEN isfinite(TRY_CAST(value AS DOUBLE)) THEN {_NUMBER} ELSE {_OTHER} END
    WHEN NOT regexp_matches(value, '^{_DAY}') THEN {_OTHER}
    WHEN regexp_full_match(value, '{_DAY}')
        THEN CASE WHEN TRY_CAST(value AS DATE) IS NULL THEN {_OTHER} ELSE {_DATE} END
    WHEN regexp_full_match(value, '{_DAY}{_CLOCK}')
        THEN CASE WHEN TRY_CAST(value AS TIMESTAMP) IS NULL THEN {_OTHER} ELSE {_MOMENT} END
    WHEN regexp_full_match(value, '{_DAY}{_CLOCK} ?(Z|[+-]\d{{2}}(:?\d{{2}})?)')
        THEN CASE WHEN TRY_CAST(value AS TIMESTAMPTZ) IS NULL THEN {_OTHER} ELSE {_ZONED} END
    ELSE {_OTHER} END"""
# One expression for all cells, without the missing ones: one a column takes long to prepare.
KINDS_OF_COLUMNS = f"""
    SELECT name, bit_or({_KIND_OF_TEXT})
    FROM (UNPIVOT cells ON COLUMNS(*) INTO NAME name VALUE value) GROUP BY name
"""
#: What an outcome in words may be, the word for 1 first.
_ANSWERS = (("yes", "no"), ("y", "n"), ("true", "false"), ("t", "f"))


def type_of_texts(kinds: int, allowed: int) -> str:
    """The type of a column of texts, by the kinds that are among them."""
    if not kinds or kinds & ~allowed or (kinds & _LONG and not kinds & _NUMBER):
        return "VARCHAR"
    for type_, subset in (
        ("BIGINT", _INTEGER),
        ("DOUBLE", _NUMBERS),
        ("DATE", _DATE),
        ("TIMESTAMP", _DATE | _MOMENT),
        (ZONE_TYPE, _ZONED),
    ):
        if not kinds & ~subset:
            return type_
    return "VARCHAR"


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
    codes, levels = pd.factorize(column.astype(object))
    words = [str(level).strip().casefold() for level in levels]
    for one, zero in _ANSWERS:
        if words and set(words) <= {one, zero}:
            numbers = pd.Series([float(word == one) for word in words] + [float("nan")])
            return pd.Series(numbers.to_numpy()[codes], index=column.index, name=column.name)
    try:
        pd.to_numeric(pd.Series(levels))
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"the outcome {column.name!r} should hold numbers, or yes and no, got "
            f"{listed(sorted(map(str, levels)))}. Convert the column to numbers first."
        ) from error
    return column
