"""Encode features as numbers and level codes for tests, and divide them into bins for displays."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from auucmax._errors import short
from auucmax._validation import Bools, Floats
from auucmax.encoding.kinds import MISSING_TEXTS, kind_of, numbers_of, places_of, texts_of
from auucmax.results import LEAST_ROWS

# More levels than these are pooled, by their frequency alone, so the arms play no part in it.
MOST_LEVELS = 30


@dataclass(frozen=True, eq=False)
class Feature:
    """One encoded column: numbers, or the codes of its ``levels``.

    Missing values are NaN among numbers and -1 among codes. ``kind`` is "category" for codes. Dates
    are days since 1970.
    """

    name: str
    values: NDArray[Any]
    kind: str
    levels: tuple[str, ...] = ()

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
        feature = Feature(name, numbers, kind)
    known = feature.values[~feature.missing]
    if known.size == 0:
        return f"{name} (it has no values)"
    if known.min() == known.max() and known.size == len(column):
        return f"{name} (it has only one value)"
    return feature


# Bins, for displays

MOST_BINS = 6


@dataclass(frozen=True, eq=False)
class Binned:
    """A binned column; ``ordered`` bins run from low to high.

    ``code`` (n,): the bin of each row, -1 where the value is missing. ``names``: of the bins.
    ``cuts``: names of the numbers between two bins, if they are ordered.
    """

    name: str
    code: NDArray[np.intp]
    names: tuple[str, ...]
    cuts: tuple[str, ...] = ()

    @property
    def ordered(self) -> bool:
        return bool(self.cuts)

    def counts(self, weight: Floats | None = None) -> Floats:
        """Number of rows in each bin, or the sums of their weights."""
        known = self.code >= 0
        own = None if weight is None else weight[known]
        found = np.bincount(self.code[known], weights=own, minlength=len(self.names))
        return np.asarray(found, dtype=np.float64)

    def with_least(self, least: int) -> Binned | None:
        """Merge bins until each has enough rows; None if only one bin remains.

        A bin of fewer becomes one with its smaller neighbour; levels are sorted by their rows, so
        that rare ones become one.
        """
        code, names, cuts = self.code, [*self.names], [*self.cuts]
        if not self.ordered:
            order = np.argsort(-self.counts(), kind="stable")
            code = np.append(np.argsort(order, kind="stable"), -1)[code]
            names = [names[j] for j in order]
        while len(names) > 1:
            counts = np.bincount(code[code >= 0], minlength=len(names))
            worst = int(counts.argmin())
            if counts[worst] >= least:
                return replace(self, code=code, names=tuple(names), cuts=tuple(cuts))
            before, _, after = np.pad(1.0 * counts, 1, constant_values=np.inf)[worst : worst + 3]
            first = worst if after < before else worst - 1  # merged with the next one
            code = np.where(code > first, code - 1, code)
            if self.ordered:
                del cuts[first]
                names = _between(cuts)
            else:
                names[first : first + 2] = ["others"]
        return None


def binned(features: pd.DataFrame, most: int = MOST_BINS) -> list[Binned]:
    """Bin every column that varies, into at most ``most`` bins.

    Numbers and dates are cut at rounded quantiles; the most frequent levels are kept.

    >>> frame = pd.DataFrame({"age": [20, 30, 40, 50], "home": ["yes", "no", "no", "no"]})
    >>> [(one.name, one.names) for one in binned(frame, 2)]
    [('age', ('up to 30', 'over 30')), ('home', ('no', 'yes'))]
    """
    found = [_of_feature(feature, most) for feature in encode(features)[0]]
    return [one for one in found if len(one.names) > 1]


def _of_feature(feature: Feature, most: int) -> Binned:
    name = short(feature.name)
    if feature.levels:
        code = feature.values.astype(np.intp)
        names = [short(level, 60) for level in feature.levels]
        if len(names) > most:  # levels are sorted by how frequent they are
            code = np.minimum(code, most - 1)
            names = [*names[: most - 1], "others"]
        return Binned(name, code, tuple(names))
    # Dates count from a fixed day, since the first one may be one person's.
    values = feature.numbers()
    is_known = ~np.isnan(values)
    known = values[is_known]
    distinct, count = np.unique(known, return_counts=True)
    is_date = feature.kind == "date"
    is_flag = len(distinct) == 2 and not is_date
    if len(distinct) > most:
        wanted = np.quantile(known, np.linspace(0, 1, most + 1)[1:-1], method="inverted_cdf")
        spread = float(np.diff(np.quantile(known, (0.05, 0.95)))[0]) or float(np.ptp(known))
        cuts = np.unique(np.round(wanted, int(1 - np.floor(np.log10(spread)))))
        cuts = cuts[(cuts >= known.min()) & (cuts < known.max())]
    else:
        # Numbers that 20 people have: a rarer one must not be named.
        cuts = distinct[:-1][is_flag | (count[:-1] >= LEAST_ROWS)]
    code = np.where(is_known, np.searchsorted(cuts, values), -1).astype(np.intp)
    if is_flag:
        two = ("no", "yes") if feature.kind == "boolean" else tuple(f"{x:,.6g}" for x in distinct)
        return Binned(name, code, two)
    texts = [f"{cut:,.6g}" for cut in cuts]
    if is_date:
        texts = [str(np.datetime64(math.floor(days), "D")) for days in cuts]
    return Binned(name, code, tuple(_between(texts)), tuple(texts))


def _between(cuts: list[str]) -> list[str]:
    """Names of the bins between cut points."""
    if not cuts:
        return ["all"]
    inner = [f"{low} to {high}" for low, high in pairwise(cuts)]
    return [f"up to {cuts[0]}", *inner, f"over {cuts[-1]}"]
