"""Encode features as numbers and level codes for the randomisation tests."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from auucmax.encoding.kinds import MISSING_TEXTS, kind_of, numbers_of, places_of, texts_of

BLOCK = 2**14
# More levels than these are pooled, by their frequency alone, so the arms play no part in it.
MOST_LEVELS = 30


@dataclass(frozen=True, eq=False)
class Feature:
    """One encoded column: numbers (NaN where missing), or codes of ``levels`` (-1).

    Of dates, numbers are days after ``start``, which is the first of them, in days since 1970.
    """

    name: str
    values: NDArray[Any]
    levels: tuple[str, ...] = ()
    start: float | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of its real columns: itself, or one indicator per level."""
        return tuple(f"{self.name}={level}" for level in self.levels) or (self.name,)

    @property
    def missing(self) -> NDArray[np.bool_]:
        """True where the value is missing or infinite."""
        return self.values < 0 if self.levels else ~np.isfinite(self.values)

    def numbers(self, rows: Any) -> NDArray[np.float64]:
        """The values of these rows, codes unchanged, NaN where missing."""
        values = self.values[rows].astype(np.float64)
        values[values < 0 if self.levels else ~np.isfinite(values)] = np.nan
        return values

    def ranked(self) -> Feature:
        """Replace numbers by centred mid-ranks between -1/2 and 1/2.

        Levels stay as they are; so does, but for scale and origin, a column of two values.
        """
        if self.levels:
            return self
        ranks = pd.Series(self.numbers(slice(None))).rank().to_numpy()
        known = max(int(np.count_nonzero(~np.isnan(ranks))), 1)
        return replace(self, values=((ranks - (known + 1) / 2) / known).astype(np.float32))


@dataclass(frozen=True, eq=False)
class Covariates:
    """All usable features, and the reasons why others are not."""

    features: tuple[Feature, ...]
    skipped: tuple[str, ...]
    n_rows: int

    @property
    def columns(self) -> list[str]:
        """Names of the real columns, with categories one-hot encoded."""
        return [column for feature in self.features for column in feature.columns]

    def without(self, names: Collection[str]) -> Covariates:
        """Drop the features with these names."""
        return replace(self, features=tuple(f for f in self.features if f.name not in names))

    def ranked(self) -> Covariates:
        """Replace all numbers by mid-ranks, so that there are no outliers."""
        return replace(self, features=tuple(feature.ranked() for feature in self.features))

    def take(self, rows: NDArray[np.intp]) -> Covariates:
        """Select rows by position."""
        features = tuple(replace(f, values=f.values[rows]) for f in self.features)
        return Covariates(features, self.skipped, len(rows))

    def blocks(self) -> Iterator[tuple[slice, NDArray[np.float64]]]:
        """Iterate over blocks of rows: slice and real columns (m, k), NaN where missing."""
        for start in range(0, self.n_rows, BLOCK):
            rows = slice(start, min(start + BLOCK, self.n_rows))
            out, at = np.empty((rows.stop - start, len(self.columns))), 0
            for feature in self.features:
                own = feature.numbers(rows)[:, None]
                if feature.levels:
                    is_level = own == np.arange(len(feature.levels))
                    own = np.where(np.isnan(own), np.nan, is_level)
                out[:, at : at + own.shape[1]] = own
                at += own.shape[1]
            yield rows, out

    def table(self, rows: NDArray[np.intp]) -> NDArray[np.float32]:
        """One column per feature (codes for categories) of these rows, for trees."""
        out = np.empty((len(rows), len(self.features)), dtype=np.float32)
        # A number too large for float32 becomes infinite, which trees would refuse.
        most = np.finfo(np.float32).max
        for j, feature in enumerate(self.features):
            out[:, j] = np.clip(feature.numbers(rows), -most, most)
        return out


def encode(X: pd.DataFrame) -> Covariates:
    """Encode numbers, booleans, dates and durations as numbers, all else as level codes.

    Numbers of any Python type count, Decimal among them; text that spells numbers does not.
    Levels past the 30 most frequent are pooled. A column of text that names nearly every row
    differently is an identifier, and a column with one value only says nothing: both are skipped.

    >>> import pandas as pd
    >>> from auucmax.data.covariates import encode
    >>> covariates = encode(pd.DataFrame({"age": [20, 30], "zip": ["urban", None], "one": [1, 1]}))
    >>> covariates.columns, covariates.skipped
    (['age', 'zip=urban'], ("'one' has one value only",))
    """
    found = [_encode_column(str(name), X[name]) for name in X.columns]
    features = tuple(feature for feature in found if isinstance(feature, Feature))
    skipped = tuple(reason for reason in found if isinstance(reason, str))
    return Covariates(features, skipped, len(X))


def _encode_column(name: str, column: pd.Series) -> Feature | str:
    """The encoded feature, or the reason why there is none."""
    try:
        if column.dtype == object:
            column = column.infer_objects()
        if pd.api.types.is_timedelta64_dtype(column.dtype):
            column = column / pd.Timedelta(days=1)
        kind = kind_of(column)
        if kind not in ("category", "mixed"):
            numbers, start = _numbers(column, kind), None
            if kind == "date":
                # fmin leaves NaN out, and has nothing to say where all are.
                start = float(np.fmin.reduce(numbers, initial=np.inf))
                numbers = numbers - start
            known = numbers[np.isfinite(numbers)]
            if known.size == 0:
                return f"{name!r} has no values"
            if known.min() == known.max() and known.size == len(numbers):
                return f"{name!r} has one value only"
            return Feature(name, numbers, start=start)
        codes, texts = texts_of(column, kind)
    except (OverflowError, ValueError):
        # Values of no kind, such as lists; or numbers that float64 cannot hold, or would merge.
        codes, texts = texts_of(column.astype(str).where(column.notna(), None), "category")
    return _of_texts(name, codes, texts)


def _numbers(column: pd.Series, kind: str) -> NDArray[Any]:
    """Convert to a numeric array without copying if possible."""
    if kind == "empty":
        return np.empty(0)
    if isinstance(column.dtype, np.dtype) and column.dtype.kind in "biuf":
        array = column.to_numpy()
        return array.view(np.int8) if array.dtype == bool else array
    return numbers_of(column, kind, finite=False)


def _of_texts(name: str, codes: NDArray[np.intp], texts: list[str]) -> Feature | str:
    counts = np.bincount(codes[codes >= 0], minlength=len(texts))
    if len(texts) > max(10, 0.5 * counts.sum()):
        return f"{name!r} names nearly every row differently ({len(texts):,} values)"
    order = np.argsort(-counts, kind="stable")
    present = [texts[j] for j in order if texts[j] not in MISSING_TEXTS]
    levels = present[:MOST_LEVELS]
    places, others = places_of(texts, levels)
    if others:
        levels.append(f"({len(others)} others)")
    values = places.astype(np.int32)[codes]
    if not levels:
        return f"{name!r} has no values"
    if len(levels) == 1 and (values == 0).all():
        return f"{name!r} has one value only"
    return Feature(name, values, tuple(levels))
