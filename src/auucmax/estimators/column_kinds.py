"""What a column of a raw table holds, and numbers, booleans and dates as plain numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from auucmax._validation import Floats

__all__ = ["KINDS", "kind_of", "numbers_of"]

KINDS = ("number", "category", "date", "boolean")
_MICROSECONDS = 86_400e6  # of a day
_INFERRED = {
    "string": "category",
    "categorical": "category",
    "boolean": "boolean",
    "integer": "number",
    "floating": "number",
    "mixed-integer-float": "number",
    "decimal": "number",
    "date": "date",
    "datetime": "date",
    "datetime64": "date",
    "empty": "empty",
}


def kind_of(series: pd.Series) -> str:
    """One of ``KINDS``; "empty" if all is missing.

    >>> kind_of(pd.Series(["a", None])), kind_of(pd.Series([True])), kind_of(pd.Series([None]))
    ('category', 'boolean', 'empty')
    """
    if not series.notna().any():
        return "empty"
    kind = _kind_of_dtype(series.dtype)
    if kind is None:
        kind = _INFERRED.get(pd.api.types.infer_dtype(series.astype(object), skipna=True))
    if kind is None:
        example = series[series.notna()].iloc[0]
        raise ValueError(
            f"column {series.name!r} should hold numbers, texts, booleans or dates, and one of "
            f"these only; got {series.dtype} values such as {example!r}. Convert or drop the "
            f"column."
        )
    return kind


def _kind_of_dtype(dtype: Any) -> str | None:
    """What the type tells; None if the values have to be looked at."""
    types = pd.api.types
    if isinstance(dtype, (pd.CategoricalDtype, pd.StringDtype)):
        return "category"
    if types.is_bool_dtype(dtype):
        return "boolean"
    if types.is_numeric_dtype(dtype) and not types.is_complex_dtype(dtype):
        return "number"
    return "date" if types.is_datetime64_any_dtype(dtype) else None


def numbers_of(series: pd.Series, kind: str) -> Floats:
    """Numbers, booleans or dates (days since 1970-01-01, UTC) as float64, NaN where missing.

    >>> numbers_of(pd.Series([True, None, False]), "boolean")
    array([ 1., nan,  0.])
    """
    if kind == "date":
        return _days(series)
    if series.dtype == object:
        series = series.where(series.notna(), np.nan)
    values = np.asarray(series.to_numpy(dtype=np.float64, na_value=np.nan))
    if n_infinite := int(np.isinf(values).sum()):
        raise ValueError(
            f"column {series.name!r} should hold finite numbers, got {n_infinite} infinite. Clip "
            f"them, or make them missing."
        )
    return values


def _days(series: pd.Series) -> Floats:
    """Days since 1970-01-01; a time without a zone is taken to be UTC."""
    if not isinstance(series.dtype, (np.dtype, pd.DatetimeTZDtype)):
        series = series.astype(object)
    moments = pd.to_datetime(series, utc=True).dt.tz_localize(None)
    micro = moments.to_numpy().astype("datetime64[us]")
    return np.where(np.isnat(micro), np.nan, micro.astype(np.int64) / _MICROSECONDS)
