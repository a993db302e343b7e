"""Divide columns into a few named bins, for displays and segment rules."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from auucmax._errors import short
from auucmax._validation import Floats
from auucmax.data.covariates import Feature, encode
from auucmax.data.few import LEAST_ROWS
from auucmax.encoding.kinds import kind_of, numbers_of

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

    def merged(self, number: int) -> Binned:
        """Merge a bin with the next one."""
        code = np.where(self.code > number, self.code - 1, self.code)
        if not self.ordered:
            names = (*self.names[:number], "others", *self.names[number + 2 :])
            return replace(self, code=code, names=names)
        cuts = self.cuts[:number] + self.cuts[number + 1 :]
        return replace(self, code=code, names=_between(cuts), cuts=cuts)

    def with_least(self, least: int) -> Binned | None:
        """Merge bins until each has enough rows; None if only one bin remains.

        A bin of fewer becomes one with its smaller neighbour; levels are sorted by their rows, so
        that rare ones become one.
        """
        own = self
        if not own.ordered:
            order = np.argsort(-own.counts(), kind="stable")
            place = np.append(np.argsort(order, kind="stable"), -1)
            own = replace(own, code=place[own.code], names=tuple(own.names[j] for j in order))
        while len(own.names) > 1:
            counts = own.counts()
            if counts.min() >= least:
                return own
            worst = int(counts.argmin())
            after = counts[worst + 1] if worst + 1 < len(counts) else np.inf
            before = counts[worst - 1] if worst else np.inf
            own = own.merged(worst if after < before else worst - 1)
        return None


def binned(features: pd.DataFrame, most: int = MOST_BINS) -> list[Binned]:
    """Bin every column that varies, into at most ``most`` bins.

    Numbers and dates are cut at quantiles, rounded; of levels the most frequent are kept.

    >>> frame = pd.DataFrame({"age": [20, 30, 40, 50], "home": ["yes", "no", "no", "no"]})
    >>> [(one.name, one.names) for one in binned(frame, 2)]
    [('age', ('up to 30', 'over 30')), ('home', ('no', 'yes'))]
    """
    encoded, _ = encode(features)
    found = [_of_feature(feature, features, most) for feature in encoded]
    return [one for one in found if one is not None and len(one.names) > 1]


def _of_feature(feature: Feature, features: pd.DataFrame, most: int) -> Binned | None:
    name = short(feature.name)
    if feature.levels:
        code = feature.values.astype(np.intp)
        names = [short(level, 60) for level in feature.levels]
        if len(names) > most:  # levels are sorted by how frequent they are
            code = np.minimum(code, most - 1)
            names = [*names[: most - 1], "others"]
        return Binned(name, code, tuple(names))
    column = next(features[own] for own in features.columns if str(own) == feature.name)
    kind = kind_of(column)
    values = feature.numbers(slice(None))
    if kind == "date":  # from one day for all, not from the first, which is somebody's
        values = values + float(np.fmin.reduce(numbers_of(column, "date")))
    if kind == "boolean":
        return Binned(name, np.where(np.isnan(values), -1, values).astype(np.intp), ("no", "yes"))
    known = values[np.isfinite(values)]
    distinct = np.unique(known)
    if len(distinct) == 2 and kind != "date":
        code = np.where(np.isfinite(values), values == distinct[1], -1).astype(np.intp)
        return Binned(name, code, tuple(f"{own:,.6g}" for own in distinct.tolist()))
    cuts = _cuts(known, most)
    if not len(cuts):
        return None
    code = np.where(np.isfinite(values), np.searchsorted(cuts, values), -1).astype(np.intp)
    telling = _date if kind == "date" else "{:,.6g}".format
    texts = tuple(telling(cut) for cut in cuts.tolist())
    return Binned(name, code, _between(texts), texts)


def _cuts(values: Floats, most: int) -> Floats:
    """Upper ends of all bins but the last: quantiles, rounded.

    Of few different numbers those that 20 people have: a rarer one must not be named.
    """
    distinct, count = np.unique(values, return_counts=True)
    if len(distinct) <= most:
        return distinct[:-1][count[:-1] >= LEAST_ROWS]
    wanted = np.quantile(values, np.linspace(0, 1, most + 1)[1:-1], method="inverted_cdf")
    spread = float(np.diff(np.quantile(values, (0.05, 0.95)))[0]) or float(np.ptp(values))
    digits = int(1 - np.floor(np.log10(spread))) if spread > 0 else 0
    cuts = np.unique(np.round(wanted, digits))
    return cuts[(cuts >= values.min()) & (cuts < values.max())]


def _between(cuts: tuple[str, ...]) -> tuple[str, ...]:
    """Names of the bins between cut points."""
    if not cuts:
        return ("all",)
    inner = [f"{low} to {high}" for low, high in pairwise(cuts)]
    return (f"up to {cuts[0]}", *inner, f"over {cuts[-1]}")


def _date(days: float) -> str:
    """Convert days since 1970 to a date."""
    return str(np.datetime64(math.floor(days), "D"))
