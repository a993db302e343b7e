"""What a column holds, and its values as numbers or texts: the one place that looks at types.

Columns come as pandas series of any type: of numpy, nullable, of Arrow, or Python objects. Columns
of files that have no types are looked at by DuckDB, all texts of them.
"""

from __future__ import annotations

from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from auucmax._validation import Floats
from auucmax.encoding.texts import TRUTHS, level_text, places_of

KINDS = ("number", "category", "date", "boolean")
_DAY_IN_MICROSECONDS = 86_400e6
# Kinds by what pandas infers from Python objects.
_INFERRED = {
    "string": "category", "categorical": "category", "boolean": "boolean",
    "integer": "number", "floating": "number", "mixed-integer-float": "number",
    "decimal": "number", "date": "date", "datetime": "date", "datetime64": "date",
    "empty": "empty",
}  # fmt: skip


def kind_of(series: pd.Series) -> str:
    """One of ``KINDS``; "mixed" for texts beside numbers, say; "empty" for objects all missing.

    >>> kind_of(pd.Series(["a", None])), kind_of(pd.Series([True])), kind_of(pd.Series([None]))
    ('category', 'boolean', 'empty')
    """
    kind = kind_of_type(series.dtype)
    if kind is None:
        values = series.astype(object)
        kind = _INFERRED.get(pd.api.types.infer_dtype(values, skipna=True))
        if kind is None:
            kind = _kind_of_classes(set(map(type, values[values.notna()])))
    if kind is None:
        raise unknown_kind(series)
    return kind


def kind_of_type(dtype: Any) -> str | None:
    """What a type of pandas, or of Arrow in pandas, tells; None if the values have to.

    >>> kind_of_type(np.dtype("int8")), kind_of_type(np.dtype(object))
    ('number', None)
    """
    types = pd.api.types
    if isinstance(dtype, (pd.CategoricalDtype, pd.StringDtype)):
        return "category"
    if types.is_bool_dtype(dtype):
        return "boolean"
    if types.is_numeric_dtype(dtype) and not types.is_complex_dtype(dtype):
        return "number"
    if isinstance(dtype, pd.ArrowDtype) and dtype.type is str:
        return "category"
    return "date" if types.is_datetime64_any_dtype(dtype) else None


def _kind_of_classes(classes: set[type]) -> str | None:
    """What Python objects of several classes are together, if they are of a kind at all."""
    if not all(issubclass(own, (str, bool, np.bool_, Real, Decimal)) for own in classes):
        return None
    # A bool is a Real, but True beside 2 is no number.
    return "mixed" if any(issubclass(own, (str, bool, np.bool_)) for own in classes) else "number"


def unknown_kind(series: pd.Series) -> ValueError:
    """The error for a column of several kinds, or of values that no kind has."""
    example = series[series.notna()].iloc[0]
    return ValueError(
        f"column {series.name!r} should hold numbers, texts, booleans or dates, and one of "
        f"these only; got {series.dtype} values such as {example!r}. Convert or drop the "
        f"column."
    )


def numbers_of(series: pd.Series, kind: str, *, finite: bool = True) -> Floats:
    """Numbers, booleans or dates (days since 1970-01-01, UTC) as float64, NaN where missing.

    Infinite numbers are an error, unless ``finite`` is False.

    >>> numbers_of(pd.Series([True, None, False]), "boolean")
    array([ 1., nan,  0.])
    """
    if kind == "date":
        return _days(series)
    if series.dtype == object:
        series = series.where(series.notna(), np.nan)
    values = np.asarray(series.to_numpy(dtype=np.float64, na_value=np.nan))
    if finite and (n_infinite := int(np.isinf(values).sum())):
        raise infinite_numbers(series.name, n_infinite)
    return values


def infinite_numbers(name: Any, count: int) -> ValueError:
    """The error for a column with infinite numbers."""
    return ValueError(
        f"column {name!r} should hold finite numbers, got {count} infinite. Clip them, or make "
        f"them missing."
    )


def _days(series: pd.Series) -> Floats:
    """Days since 1970-01-01; a time without a zone is taken to be UTC."""
    if not isinstance(series.dtype, (np.dtype, pd.DatetimeTZDtype)):
        series = series.astype(object)
    moments = pd.to_datetime(series, utc=True).dt.tz_localize(None)
    micro = moments.to_numpy().astype("datetime64[us]")
    return np.where(np.isnat(micro), np.nan, micro.astype(np.int64) / _DAY_IN_MICROSECONDS)


def texts_of(series: pd.Series, kind: str) -> tuple[NDArray[np.intp], list[str]]:
    """Code of the text of each row (-1 where missing), and the texts.

    >>> texts_of(pd.Series([2.0, None, 1.0, 2.0]), "number")
    (array([ 0, -1,  1,  0]), ['2', '1'])
    """
    if kind == "mixed":  # factorize would take True and 1 for one value
        series = series.map(lambda value: _exact_text(value, series.name), na_action="ignore")
    codes, found = pd.factorize(series)
    values = np.asarray(found)  # single precision stays: its 0.1 prints as such
    if pd.api.types.infer_dtype(values) == "string":
        return codes.astype(np.intp, copy=False), [str(text) for text in values]
    text_of_value = np.array([_exact_text(value, series.name) for value in values], dtype=object)
    # Different values may have one text, such as 1 and 1.0 in a column of objects.
    own, texts = pd.factorize(text_of_value)
    return np.append(own, -1)[codes].astype(np.intp, copy=False), [str(text) for text in texts]


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


def truths_of(series: pd.Series, kind: str) -> tuple[Floats, list[Any]]:
    """Booleans, their texts, or 0 and 1, as numbers, NaN where missing; and values that are none.

    >>> truths_of(pd.Series(["True", "false", "0", "NA", "yes"]), "category")
    (array([ 1.,  0.,  0., nan, nan]), ['yes'])
    """
    if kind not in ("category", "mixed"):
        values = numbers_of(series, kind)
        return values, values[~np.isin(values, (0, 1)) & ~np.isnan(values)].tolist()
    codes, texts = texts_of(series, kind)
    places, unknown = places_of(texts, TRUTHS)
    is_known = (places >= 0) & (places < len(TRUTHS))
    return np.where(is_known, places % 2, np.nan)[codes], unknown


ZONE_TYPE = "TIMESTAMP WITH TIME ZONE"
# Kinds of texts of a file without types, as bits: those of a column add up.
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


def type_of_texts(kinds: int, allowed: int) -> str:
    """DuckDB's type of a column of texts, by the kinds that are among them.

    >>> type_of_texts(_INTEGER | _NUMBER, ANY_KIND), type_of_texts(_INTEGER | _DATE, ANY_KIND)
    ('DOUBLE', 'VARCHAR')
    """
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
