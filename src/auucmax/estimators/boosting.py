"""Histogram-based boosting of small trees, grown best first.

    logit P(y = 1) = offset + slope s(x),    s = sum of trees

or of its mean, by squared loss (:mod:`auucmax.estimators.targets`).

Each tree is the one that LightGBM grows in the same bins: the leaf with the largest gain is split,
gains and values are those of a Newton step, a side of a split must have rows enough, as its Hessian
tells their number, and a column without gain in a leaf is not tried below it. It is not LightGBM
because trees of four to six leaves take half of its time here (``python -m benchmarks ensemble``):
rows of all folds share their bins, held-out rows are scored on the way, and sums
are of whole numbers, which no order changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from auucmax._validation import Bools, Floats
from auucmax.estimators.formula import TreeScores
from auucmax.estimators.targets import BINOMIAL, Loss

MOST_BINS = 255  #: of a column; missing values have one more
GAP = 255  #: the code of a missing value
_BEYOND = 1e300  # a threshold that all values are below: missing values alone are on the right
_LANES = 4  # columns whose histograms are made together: their number is rounded up
STEPS = np.array([2.0**21 - 1, 2.0**18 - 1])  #: of the largest gradient and Hessian of a row

Codes = NDArray[np.uint8]
Whole = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Bins:
    """Numeric columns in bins with about equally many rows.

    ``codes`` (columns, n), the number of columns rounded up to a multiple of 4: how many ``cuts``
    of its column lie below a value, or 255 where it is missing. ``has_gap`` (columns,): whether
    values are missing.

    >>> bins = Bins.of(np.array([[1.0], [2.0], [np.nan], [1.0]]))
    >>> bins.codes[0].tolist(), bins.cuts, bins.has_gap
    ([0, 1, 255, 0], [array([1.5])], array([ True]))
    """

    codes: Codes
    cuts: list[Floats]
    has_gap: Bools

    @classmethod
    def of(cls, X: NDArray[Any], order: Whole | None = None) -> Bins:
        """Bin the rows of X in a given order."""
        n, d = X.shape
        codes = np.zeros((-(-d // _LANES) * _LANES, n), dtype=np.uint8)
        cuts, has_gap = [], np.zeros(d, dtype=bool)
        for k in range(d):
            column = X[:, k] if order is None else X[order, k]
            gaps = np.isnan(column)
            has_gap[k] = gaps.any()
            cuts.append(_cuts(np.sort(column[~gaps] if has_gap[k] else column)))
            codes[k] = np.searchsorted(cuts[k], column)
            codes[k, gaps] = GAP
        return cls(codes, cuts, has_gap)

    @property
    def n_bins(self) -> Whole:
        """Number of bins per column, without that of missing values, (columns,)."""
        return np.array([len(own) + 1 for own in self.cuts], dtype=np.int64)


def _cuts(values: NDArray[Any]) -> Floats:
    """Cut points between neighbouring values; ``values`` are sorted."""
    last = np.flatnonzero(values[1:] > values[:-1])  # the places after which a value changes
    if len(last) >= MOST_BINS:
        wanted = np.arange(1, MOST_BINS) * len(values) / MOST_BINS - 1
        last = np.unique(last[np.minimum(np.searchsorted(last, wanted), len(last) - 1)])
    low, high = values[last].astype(np.float64), values[last + 1].astype(np.float64)
    middle = low + (high - low) / 2
    return np.where(middle < high, middle, low)


class Growth(NamedTuple):
    """Growth parameters of trees; ``rate`` is the learning rate."""

    n_leaves: int
    rate: float
    least_rows: int
    penalty: float
    least_hessian: float = 0.0


class Tree(NamedTuple):
    """Splits (k, 4): leaf, column, last code on the left, missing values left; leaf values.

    The rows on the right of split j go to leaf j + 1, the others stay.
    """

    splits: Whole
    values: Floats


@dataclass(eq=False)
class Boosting:
    """Trees grown one after the other; ``score`` (n,) is their current sum.

    ``offset``, ``slope``, ``y`` and ``weight`` are (n,); ``parts`` (m, 2) the ranges of rows that
    are trained on: the others are scored.
    """

    bins: Bins
    offset: Floats
    slope: Floats
    y: Floats
    weight: Floats
    parts: Whole
    growth: Growth
    loss: Loss = BINOMIAL
    trees: list[Tree] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.score = np.zeros(len(self.y))
        self.is_done = False
        slope = np.abs(self.slope).max()
        # Steps in a unit: for the log-loss p - y is at most 1, p (1 - p) at most 1/4.
        largest = slope * self.loss.steepest(self.offset, self.y), slope**2 * self.loss.most_bent
        self.scales = STEPS / (np.array(largest) * self.weight.max())

    def grow(self, n_trees: int) -> None:
        """Grow until there are this many trees, or no leaf can be split."""
        if self.is_done or len(self.trees) >= n_trees:
            return
        from auucmax.estimators import trees_kernel as kernel

        n, how, codes = len(self.y), self.growth, self.bins.codes
        room = (
            np.empty((how.n_leaves, 2, len(codes), 256), np.int64),
            np.zeros((_LANES, 256), np.int64),
            np.empty(n, np.uint32),
            np.empty(n, np.int64),
        )
        limits = np.array([how.least_rows, how.least_hessian, how.penalty])
        known = self.parts, self.bins.n_bins, self.bins.has_gap, limits, self.scales
        minus, packed = np.empty(n, np.float32), np.empty(n, np.int64)
        binomial = self.loss is BINOMIAL
        node, values = np.zeros(n, np.uint8), np.zeros(how.n_leaves)
        kernel.add_leaves(node, values, self.offset, self.slope, self.score, minus)
        while len(self.trees) < n_trees:
            for start, stop in self.parts.tolist():
                own = slice(start, stop)
                if binomial:
                    with np.errstate(over="ignore"):  # a chance of 0
                        np.exp(minus[own], out=minus[own])
                rows = self.slope[own], self.y[own], self.weight[own]
                kernel.pack(minus[own], binomial, *rows, self.scales, packed[own])
            splits, values = np.empty((how.n_leaves - 1, 4), np.int64), np.zeros(how.n_leaves)
            room[0].fill(0)
            n_splits = kernel.grow(codes, packed, *known, node, room, splits, values)
            if not n_splits:
                self.is_done = True
                return
            values *= how.rate
            kernel.add_leaves(node, values, self.offset, self.slope, self.score, minus)
            self.trees.append(Tree(splits[:n_splits], values[: n_splits + 1]))


def tree_scores(trees: Sequence[Tree], bins: Bins) -> TreeScores:
    """Convert trees to arrays that score rows.

    A value that is missing where none was in training counts as 0, as with LightGBM.
    """
    nodes: list[tuple[float, ...]] = []  # feature, threshold, left, right, missing_left, value
    roots = []
    for splits, values in trees:
        roots.append(first := len(nodes))
        place = {0: first}  # of each leaf
        inner: dict[int, tuple[float, ...]] = {}
        for j, (leaf, column, code, gap_left) in enumerate(splits.tolist()):
            cuts = bins.cuts[column]
            threshold = float(cuts[code]) if code < len(cuts) else _BEYOND
            goes_left = gap_left if bins.has_gap[column] else threshold >= 0
            left = first + 2 * j + 1
            inner[place[leaf]] = (column, threshold, left, left + 1, goes_left, 0.0)
            place[leaf], place[j + 1] = left, left + 1
        leaves = {k: (0, 0.0, k, k, False, float(values[leaf])) for leaf, k in place.items()}
        nodes += [(inner | leaves)[k] for k in range(first, first + 2 * len(splits) + 1)]
    return TreeScores.of(nodes, roots)
