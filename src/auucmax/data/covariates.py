"""The features of a trial as numbers and level codes, whatever types the frame has."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

__all__ = ["BLOCK", "Covariates", "Feature", "encode"]

BLOCK = 2**14
# More levels than these are pooled, by their frequency alone, so the arms play no part in it.
MOST_LEVELS = 30


@dataclass(frozen=True, eq=False)
class Feature:
    """One column of X: numbers (NaN where missing), or codes of ``levels`` (-1 where missing)."""

    name: str
    values: NDArray[Any]
    levels: tuple[str, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the real columns it makes: itself, or one indicator a level."""
        return tuple(f"{self.name}={level}" for level in self.levels) or (self.name,)

    @property
    def missing(self) -> NDArray[np.bool_]:
        """True where the value is missing or infinite."""
        return self.values < 0 if self.levels else ~np.isfinite(self.values)

    def numbers(self, rows: Any) -> NDArray[np.float64]:
        """One column of these rows, codes as they are, NaN where missing."""
        values = self.values[rows].astype(np.float64)
        values[values < 0 if self.levels else ~np.isfinite(values)] = np.nan
        return values

    def ranked(self) -> Feature:
        """Mid-ranks in place of numbers, centred, over their count: between -1/2 and 1/2.

        Levels stay as they are; so does, but for scale and origin, a column of two values.
        """
        if self.levels:
            return self
        ranks = pd.Series(self.numbers(slice(None))).rank().to_numpy()
        known = max(int(np.count_nonzero(~np.isnan(ranks))), 1)
        return replace(self, values=((ranks - (known + 1) / 2) / known).astype(np.float32))


@dataclass(frozen=True, eq=False)
class Covariates:
    """All features that can be used, and why the others cannot."""

    features: tuple[Feature, ...]
    skipped: tuple[str, ...]
    n_rows: int

    @property
    def columns(self) -> list[str]:
        """Names of the real columns, one-hot for categories."""
        return [column for feature in self.features for column in feature.columns]

    def without(self, names: Collection[str]) -> Covariates:
        """All features but these."""
        return replace(self, features=tuple(f for f in self.features if f.name not in names))

    def ranked(self) -> Covariates:
        """Mid-ranks in place of all numbers, so that no value lies far out."""
        return replace(self, features=tuple(feature.ranked() for feature in self.features))

    def take(self, rows: NDArray[np.intp]) -> Covariates:
        """The same features of these rows."""
        features = tuple(replace(f, values=f.values[rows]) for f in self.features)
        return Covariates(features, self.skipped, len(rows))

    def blocks(self) -> Iterator[tuple[slice, NDArray[np.float64]]]:
        """Rows in blocks: their slice, and their real columns (m, k) with NaN where missing."""
        for start in range(0, self.n_rows, BLOCK):
            rows = slice(start, min(start + BLOCK, self.n_rows))
            yield rows, self._real_columns(rows)

    def table(self, rows: NDArray[np.intp]) -> NDArray[np.float32]:
        """One column a feature (codes for categories) of these rows, for trees."""
        out = np.empty((len(rows), len(self.features)), dtype=np.float32)
        # A number too large for float32 becomes infinite, which trees would refuse.
        most = np.finfo(np.float32).max
        for j, feature in enumerate(self.features):
            out[:, j] = np.clip(feature.numbers(rows), -most, most)
        return out

    def _real_columns(self, rows: slice) -> NDArray[np.float64]:
        out = np.empty((rows.stop - rows.start, len(self.columns)))
        at = 0
        for feature in self.features:
            values = feature.numbers(rows)
            if not feature.levels:
                out[:, at] = values
                at += 1
                continue
            for code in range(len(feature.levels)):
                out[:, at] = np.where(np.isnan(values), np.nan, values == code)
                at += 1
        return out


def encode(X: pd.DataFrame) -> Covariates:
    """Numbers, booleans, dates and durations become numbers; all else becomes level codes.

    Numbers of any Python type count, Decimal among them; text that spells numbers does not.
    Levels past the 30 most frequent are pooled. A column of text that names nearly every row
    differently is an identifier, and a column with one value only says nothing: both are skipped.

    >>> import pandas as pd
    >>> from auucmax.data.covariates import encode
    >>> covariates = encode(pd.DataFrame({"age": [20, 30], "zip": ["urban", None], "one": [1, 1]}))
    >>> covariates.columns, covariates.skipped
    (['age', 'zip=urban'], ("'one' has one value only",))
    """
    features, skipped = [], []
    for name in X.columns:
        feature = _encode_column(str(name), X[name])
        if isinstance(feature, str):
            skipped.append(feature)
        else:
            features.append(feature)
    return Covariates(tuple(features), tuple(skipped), len(X))


def _encode_column(name: str, column: pd.Series) -> Feature | str:
    if column.dtype == object:
        column = _from_objects(column)
    numbers = _as_numbers(column)
    if numbers is None:
        return _encode_levels(name, column)
    known = numbers[np.isfinite(numbers)]
    if known.size == 0:
        return f"{name!r} has no values"
    if known.min() == known.max() and known.size == len(numbers):
        return f"{name!r} has one value only"
    return Feature(name, numbers)


def _from_objects(column: pd.Series) -> pd.Series:
    """Objects of one type with that type; Decimals, fractions and mixed numbers as float64."""
    known = column.notna()
    try:
        inferred = column.infer_objects()
        if inferred.dtype != object or not _are_numbers(column[known]):
            return inferred
        return column.where(known, np.nan).astype(np.float64)
    except (OverflowError, ValueError):  # whole numbers beyond float64, signalling NaNs
        return column.astype(str).where(known, None)


def _are_numbers(objects: pd.Series) -> bool:
    return all(issubclass(kind, (Real, Decimal, np.bool_)) for kind in set(map(type, objects)))


def _as_numbers(column: pd.Series) -> NDArray[Any] | None:
    """The column as a numeric array, a view of it where possible; None if it is not numeric."""
    types = pd.api.types
    if types.is_datetime64_any_dtype(column.dtype):
        column = column - column.min()
    if types.is_timedelta64_dtype(column.dtype):
        column = column / pd.Timedelta(days=1)
    if types.is_complex_dtype(column.dtype) or not types.is_numeric_dtype(column.dtype):
        return None
    if isinstance(column.dtype, np.dtype):
        array = column.to_numpy()
        return array.view(np.int8) if array.dtype == bool else array
    return column.to_numpy(dtype=np.float64, na_value=np.nan)


def _encode_levels(name: str, column: pd.Series) -> Feature | str:
    try:
        codes, values = pd.factorize(column)
    except TypeError:  # values that cannot be hashed, such as lists
        codes, values = pd.factorize(column.astype(str).where(column.notna(), None))
    counts = np.bincount(codes[codes >= 0], minlength=len(values))
    if len(values) == 0:
        return f"{name!r} has no values"
    if len(values) == 1 and counts[0] == len(codes):
        return f"{name!r} has one value only"
    if len(values) > max(10, 0.5 * counts.sum()):
        return f"{name!r} names nearly every row differently ({len(values):,} values)"
    order = np.argsort(-counts, kind="stable")
    levels = [str(values[j]) for j in order[:MOST_LEVELS]]
    new_code = np.full(len(values) + 1, len(levels), dtype=np.int32)
    new_code[order[:MOST_LEVELS]] = np.arange(len(levels))
    new_code[-1] = -1  # a missing value has the code -1, the last place
    if len(values) > MOST_LEVELS:
        levels.append(f"({len(values) - MOST_LEVELS} others)")
    return Feature(name, new_code[codes], tuple(levels))
