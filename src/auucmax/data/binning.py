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

    Numbers and dates are cut at quantiles, rounded; of levels the most frequent are kept.

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
    # Dates from one day for all, not from the first, which is somebody's.
    values = feature.numbers() + (feature.start or 0.0)
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
