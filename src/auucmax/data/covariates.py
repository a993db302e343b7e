"""Encode features as numbers and level codes for the randomisation tests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from auucmax._validation import Bools, Floats
from auucmax.encoding.kinds import MISSING_TEXTS, kind_of, numbers_of, places_of, texts_of

# More levels than these are pooled, by their frequency alone, so the arms play no part in it.
MOST_LEVELS = 30


@dataclass(frozen=True, eq=False)
class Feature:
    """One encoded column: numbers, or the codes of its ``levels``.

    Missing values are NaN among numbers and -1 among codes. ``kind`` is "category" for codes. Dates
    are stored as days after ``start``, the first date in days since 1970.
    """

    name: str
    values: NDArray[Any]
    kind: str
    levels: tuple[str, ...] = ()
    start: float | None = None

    @property
    def missing(self) -> Bools:
        """True where the value is missing or infinite."""
        return np.isnan(self.numbers())

    def numbers(self, rows: Any = slice(None)) -> Floats:
        """The values of these rows, codes unchanged, NaN where missing."""
        values = self.values[rows].astype(np.float64)
        values[values < 0 if self.kind == "category" else ~np.isfinite(values)] = np.nan
        return values


def encode(X: pd.DataFrame) -> tuple[list[Feature], list[str]]:
    """Encode numbers, booleans, dates and durations as numbers, all else as level codes.

    Numbers of any Python type count, Decimal among them; text that spells numbers does not.
    Levels past the 30 most frequent are pooled. A column of text that names nearly every row
    differently is an identifier, and a column with only one value says nothing: both are skipped.

    Returns the features, and the reasons why other columns are skipped.

    >>> import pandas as pd
    >>> from auucmax.data.covariates import encode
    >>> features, skipped = encode(pd.DataFrame({"zip": ["urban", None], "one": [1, 1]}))
    >>> features[0].levels, features[0].values.tolist(), skipped
    (('urban',), [0, -1], ['one (it has only one value)'])
    """
    found = [_encode_column(str(name), X[name]) for name in X.columns]
    features = [feature for feature in found if isinstance(feature, Feature)]
    return features, [reason for reason in found if isinstance(reason, str)]


def _encode_column(name: str, column: pd.Series) -> Feature | str:
    """The encoded feature, or the reason why there is none."""
    numbers: NDArray[Any] | None = None
    start = None
    try:
        if column.dtype == object:
            column = column.infer_objects()
        if pd.api.types.is_timedelta64_dtype(column.dtype):
            column = column / pd.Timedelta(days=1)
        kind = kind_of(column)
        if isinstance(column.dtype, np.dtype) and column.dtype.kind in "biuf":
            numbers = column.to_numpy()  # without a copy
        elif kind in ("category", "mixed"):
            codes, texts = texts_of(column, kind)
        else:
            numbers = numbers_of(column, kind, finite=False)
    except (OverflowError, ValueError):
        # Values of no kind, such as lists; or numbers that float64 cannot hold, or would merge.
        codes, texts = texts_of(column.astype(str).where(column.notna(), None), "category")
    if numbers is None:
        counts = np.bincount(codes[codes >= 0], minlength=len(texts))
        if len(texts) > max(10, 0.5 * counts.sum()):
            return f"{name} (it has {len(texts):,} values, a different one in nearly every row)"
        order = np.argsort(-counts, kind="stable")
        levels = [texts[j] for j in order if texts[j] not in MISSING_TEXTS][:MOST_LEVELS]
        places, others = places_of(texts, levels)
        if others:
            levels.append(f"({len(others)} others)")
        feature = Feature(name, places.astype(np.int32)[codes], "category", tuple(levels))
    else:
        if kind == "date":
            # fmin leaves NaN out, and has nothing to say where all are.
            start = float(np.fmin.reduce(numbers, initial=np.inf))
            numbers = numbers - start
        feature = Feature(name, numbers, kind, start=start)
    known = feature.values[~feature.missing]
    if known.size == 0:
        return f"{name} (it has no values)"
    if known.min() == known.max() and known.size == len(column):
        return f"{name} (it has only one value)"
    return feature
