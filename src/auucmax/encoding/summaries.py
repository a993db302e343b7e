"""Mergeable column statistics, of a frame or of batches anywhere.

A text column is counts of its texts, a column of numbers, booleans or dates the number of its
values, the ends of them, counts of few different ones (which may be codes), and bounds of the
median. A fitted column follows from its summary, the same for the rows of a frame and
for batches of rows on a cluster. Summaries stay small for any number of rows:

* Of a text column at most so many texts are counted. If there are more, one more reading counts
  those that may be among the most frequent (:class:`TextCounts`).
* A median is wanted to three digits, so that it is enough to count values between the numbers at
  which rounding goes up (:class:`Bins`). A first reading counts in wide bins, and one or two more
  between the ends of the one that holds the median.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf, nextafter
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from auucmax._validation import Floats
from auucmax.encoding.columns import CYCLES
from auucmax.encoding.kinds import (
    MISSING_TEXTS,
    MOST_CODES,
    kind_of,
    may_count_as,
    numbers_of,
    several_kinds,
    texts_of,
    unknown_kind,
    value_counts,
)

MOST_EDGES = 2**13  #: of bins, 24 bytes each; most medians need some tens of them
_LARGEST = float(np.finfo(np.float64).max)
_MISSING = frozenset(MISSING_TEXTS)
#: What the user decided of a column, by its name and kind: are its values levels?
Decides = Callable[[str, str], bool | None]


def three_digits(value: float) -> float:
    """A number to three digits, which is nobody's.

    >>> three_digits(1234.5), three_digits(-0.0098765)
    (1230.0, -0.00988)
    """
    return float(f"{value:.3g}")


def next_edge(value: float) -> float:
    """The smallest number that is more than a value to three digits.

    >>> next_edge(1.23), three_digits(next_edge(1.23))
    (1.235, 1.24)
    """
    if value == 0:
        return nextafter(0.0, inf)
    sign = "-" if value < 0 else ""
    mantissa, power = f"{abs(value):.2e}".split("e")
    digits, exponent = int(mantissa.replace(".", "")), int(power)
    if not sign:  # half a step up; towards 0 the steps below 1.00 are a tenth of those above
        half = f"{digits}5e{exponent - 3}"
    else:
        half = f"-{digits - 1}5e{exponent - 3}" if digits > 100 else f"-9995e{exponent - 4}"
    # The number nearest to the half, or the one above it, is the first that is rounded up.
    edge = float(half)
    return edge if three_digits(edge) > three_digits(value) else nextafter(edge, inf)


def edges_between(low: float, high: float) -> Floats:
    """Numbers at which rounding to three digits goes up, from that of ``low`` to that of ``high``.

    If these are too many, the bin that holds the median may have to be cut again. That is so around
    0, where they are as dense as floats are: there they are taken from both ends, down to about a
    thousandth of these.

    >>> edges_between(1.226, 1.24)
    array([1.225, 1.235, 1.245])
    """
    edges = _upwards(low, high, MOST_EDGES)
    if edges[-1] > high:
        return np.array(edges)
    if not low < 0 < high:
        return np.array(_spread(low, nextafter(high, inf), MOST_EDGES))
    below = _upwards(low, 0.0, 3 * MOST_EDGES // 8)
    # An edge is the first number of a bin: the mirror image of the last one below 0.
    above = [nextafter(-edge, inf) for edge in _upwards(-high, 0.0, 3 * MOST_EDGES // 8)]
    middle = _spread(below[-1], above[-1], MOST_EDGES // 4)
    return np.unique([*below, *middle, *above])


def _upwards(low: float, high: float, most: int) -> list[float]:
    """At most so many edges, from the first number that is rounded as ``low`` is."""
    edges = [-nextafter(next_edge(-low), -inf)]
    while edges[-1] <= high and len(edges) < most:
        edges.append(next_edge(edges[-1]))
    return edges


def _spread(low: float, high: float, n: int) -> list[float]:
    """About ``n`` numbers from ``low`` to ``high``, spread as floats are."""
    first, last = _place(low), _place(high)
    places = [first + (last - first) * k // n for k in range(n + 1)]
    return [_number_at(place) for place in dict.fromkeys(places)]


def _place(value: float) -> int:
    """The place of a number among all floats, 0 for 0."""
    size = int(np.float64(abs(value)).view(np.int64))
    return -size if value < 0 else size


def _number_at(place: int) -> float:
    size = float(np.int64(abs(place)).view(np.float64))
    return -size if place < 0 else size


def _lowest(values: Floats) -> float:
    return float(values.min(initial=inf))


def _highest(values: Floats) -> float:
    return float(values.max(initial=-inf))


@dataclass(frozen=True, eq=False)
class Bins:
    """How many values are below, between and above some edges, and the ends of those of each bin.

    ``counts``, ``low`` and ``high`` are (edges + 1,); an edge is in the bin above it. An empty bin
    has the ends inf and -inf.
    """

    edges: Floats
    counts: Floats
    low: Floats
    high: Floats

    @classmethod
    def of(cls, values: Floats, edges: Floats) -> Bins:
        """Of values, none of which is missing."""
        below, above = values < edges[0], values >= edges[-1]
        inside = np.append(np.sort(values[~(below | above)]), np.nan)
        cuts = np.searchsorted(inside[:-1], edges)
        counts, outer = np.diff(cuts), (values[below], values[above])
        low = np.where(counts > 0, inside[cuts[:-1]], inf)
        high = np.where(counts > 0, inside[cuts[1:] - 1], -inf)
        n, lowest, highest = (
            [measure(part) for part in outer] for measure in (len, _lowest, _highest)
        )
        return cls(
            edges,
            np.array([n[0], *counts, n[1]]),
            np.array([lowest[0], *low, lowest[1]]),
            np.array([highest[0], *high, highest[1]]),
        )

    def __add__(self, other: Bins) -> Bins:
        low, high = np.minimum(self.low, other.low), np.maximum(self.high, other.high)
        return Bins(self.edges, self.counts + other.counts, low, high)

    @property
    def median(self) -> tuple[float, float]:
        """Numbers between which the median lies; the same, if it is known."""
        ends, n = np.cumsum(self.counts), int(self.counts.sum())
        if not n:
            return np.nan, np.nan
        ranks = (n - 1) // 2, n // 2
        bounds = []
        for rank in ranks:
            place = int(np.searchsorted(ends, rank, side="right"))
            low, high = float(self.low[place]), float(self.high[place])
            first, last = ends[place] - self.counts[place], ends[place] - 1
            bounds.append((low if rank < last else high, high if rank > first else low))
        # Of an even number of values it is the mean of the two in the middle.
        low, high = (float(np.median(ends)) for ends in zip(*bounds, strict=True))
        return low, high


@dataclass(frozen=True, eq=False)
class NumberSummary:
    """Of numbers, booleans or dates: their number, ends, and bounds of their median.

    ``few`` counts the rows of each value, if they are few whole numbers; None if not. ``low`` and
    ``high`` are the ends of the values and, of dates, of their places in each cycle.
    ``bins`` is None if all values were at hand: then the median is ``known``.
    """

    n: int
    n_infinite: int
    few: dict[float, int] | None
    low: Floats
    high: Floats
    bins: Bins | None
    known: float = np.nan

    @classmethod
    def of(cls, series: pd.Series, kind: str, edges: Floats | None) -> NumberSummary:
        """``edges``: of the bins in which the median is looked for; None: it is known."""
        values = numbers_of(series, kind, finite=False)
        present = values[~np.isnan(values)]
        parts = [present]
        if kind == "date":
            parts += [np.mod(present, period) for period in CYCLES.values()]
        found = cls(
            len(present),
            int(np.isinf(present).sum()),
            value_counts(present) if kind == "number" else None,
            np.array([_lowest(part) for part in parts]),
            np.array([_highest(part) for part in parts]),
            None if edges is None else Bins.of(present, edges),
        )
        if edges is not None or not len(present) or found.n_infinite:
            return found
        return replace(found, known=float(np.median(present, overwrite_input=True)))

    def __add__(self, other: NumberSummary) -> NumberSummary:
        few = _added(self.few, other.few)
        m = min(len(self.low), len(other.low))  # a column of dates and numbers is refused
        return NumberSummary(
            self.n + other.n,
            self.n_infinite + other.n_infinite,
            few if few is not None and len(few) <= MOST_CODES else None,
            np.minimum(self.low[:m], other.low[:m]),
            np.maximum(self.high[:m], other.high[:m]),
            None if self.bins is None or other.bins is None else self.bins + other.bins,
        )

    @property
    def bounds(self) -> tuple[float, float]:
        """Numbers between which the median lies; the same, if it is known."""
        return (self.known, self.known) if self.bins is None else self.bins.median

    @property
    def is_known(self) -> bool:
        """Whether the median is known to three digits."""
        low, high = self.bounds
        return not self.n or three_digits(low) == three_digits(high)


def _added(one: dict[Any, int] | None, other: dict[Any, int] | None) -> dict[Any, int] | None:
    """Counts by value of both together, of the values in the order in which they came."""
    if one is None or other is None:
        return None
    found = dict(one)
    for value, n in other.items():
        found[value] = found.get(value, 0) + n
    return found


@dataclass(frozen=True, eq=False)
class TextCounts:
    """How many rows have each text, of the ``n`` rows whose text stands for a value.

    Of more than ``most`` texts the rarest are dropped, so that half of them are left: the largest
    count among those that go is subtracted from all (Misra and Gries). ``short``, the sum of what
    was subtracted, is what a count may lack; a text that is not there may have as many rows. It is
    at most 2 n / most, whatever the batches: each subtraction takes as much from half of ``most``
    texts, and all of them together from n rows.
    """

    n: int
    counts: dict[str, int]
    most: float = inf
    short: int = 0

    @classmethod
    def of(
        cls,
        series: pd.Series,
        kind: str,
        most: float = inf,
        wanted: Collection[str] | None = None,
    ) -> TextCounts:
        """``wanted``: texts; all that may count as one of them are kept, and no others."""
        codes, texts = texts_of(series, kind)
        rows = np.bincount(codes[codes >= 0], minlength=len(texts)).tolist()
        counts = {t: n for t, n in zip(texts, rows, strict=True) if t not in _MISSING}
        n = sum(counts.values())
        if wanted is not None:
            own = {text: k for text, k in counts.items() if may_count_as(text, wanted)}
            return cls(n, own)
        return cls(n, counts, most)._pruned()

    def __add__(self, other: TextCounts) -> TextCounts:
        counts = _added(self.counts, other.counts) or {}
        short = self.short + other.short
        return TextCounts(self.n + other.n, counts, self.most, short)._pruned()

    def _pruned(self) -> TextCounts:
        if len(self.counts) <= self.most:
            return self
        rows, left = np.array(list(self.counts.values())), int(self.most // 2)
        less = int(np.partition(rows, len(rows) - left - 1)[len(rows) - left - 1])
        counts = {text: n - less for text, n in self.counts.items() if n > less}
        return TextCounts(self.n, counts, self.most, self.short + less)

    def frequent(self, most: int, least: int) -> frozenset[str]:
        """The texts that may be among the ``most`` most frequent, and have ``least`` rows."""
        rows = sorted(self.counts.values(), reverse=True)
        fewest = max([least, *rows[most - 1 : most]])
        return frozenset(t for t, n in self.counts.items() if n + self.short >= fewest)


class Task(NamedTuple):
    """How columns are counted; all rows of a frame at once have no limits.

    ``edges`` are those of the bins of each column that may hold numbers. At most ``most_texts`` are
    counted; of columns in ``wanted`` those that may count as one of these texts, all of them.
    """

    edges: Mapping[str, Floats] | None = None
    most_texts: float = inf
    wanted: Mapping[str, Collection[str]] = MappingProxyType({})


_ALL = Task()


@dataclass(frozen=True, eq=False)
class ColumnSummary:
    """Statistics of a column.

    ``kinds`` are those of batches that have values, ``types`` of those that have none.
    """

    n_rows: int = 0
    kinds: frozenset[str] = frozenset()
    types: frozenset[str] = frozenset()
    texts: TextCounts | None = None
    numbers: NumberSummary | None = None

    @classmethod
    def of(cls, series: pd.Series, decides: Decides, task: Task = _ALL) -> ColumnSummary:
        """``decides``: what the user says of the column; ``task``: how it is counted."""
        if not len(series):
            return cls()
        name, kind = str(series.name), kind_of(series)
        decided = decides(name, kind)
        if kind == "mixed" and not decided:
            raise unknown_kind(series)
        texts = numbers = None
        if kind == "category" or (decided and kind != "empty"):
            texts = TextCounts.of(series, kind, task.most_texts, task.wanted.get(name))
        elif kind != "empty":
            edges = None if task.edges is None else task.edges[name]
            numbers = NumberSummary.of(series, kind, edges)
        found, own = texts or numbers, frozenset([kind])
        has_values = found is not None and bool(found.n or series.notna().any())
        kinds, types = (own, frozenset[str]()) if has_values else (frozenset[str](), own)
        return cls(len(series), kinds, types, texts, numbers)

    def __add__(self, other: ColumnSummary) -> ColumnSummary:
        return ColumnSummary(
            self.n_rows + other.n_rows,
            self.kinds | other.kinds,
            self.types | other.types,
            _sum(self.texts, other.texts),
            _sum(self.numbers, other.numbers),
        )

    def kind(self, name: str) -> str:
        """That of all rows together, as :func:`auucmax.encoding.kinds.kind_of` has it."""
        found = (self.kinds or self.types) - {"empty"}
        if len(found) < 2:
            return next(iter(found), "empty")
        if "date" in found:
            raise several_kinds(name, found)
        return "mixed"


def _sum(one: Any, other: Any) -> Any:
    return other if one is None else one if other is None else one + other


@dataclass(frozen=True, eq=False)
class TableSummary:
    """Statistics of each column."""

    columns: dict[str, ColumnSummary]

    def __add__(self, other: TableSummary) -> TableSummary:
        return TableSummary({k: own + other.columns[k] for k, own in self.columns.items()})


@dataclass(frozen=True)
class Counting:
    """A summary of batches of raw rows: what an encoder learns from them, of some columns."""

    decides: Decides
    task: Task
    names: tuple[str, ...]

    @classmethod
    def first(cls, decides: Decides, names: Sequence[str], most_texts: int) -> Counting:
        """For a first reading, which only brackets medians."""
        edges = np.array(_spread(-_LARGEST, inf, MOST_EDGES))
        return cls(decides, Task(dict.fromkeys(names, edges), most_texts), tuple(names))

    def __call__(self, batch: Any) -> TableSummary:
        return TableSummary(
            {name: ColumnSummary.of(batch.X[name], self.decides, self.task) for name in self.names}
        )

    def again(self, found: TableSummary, most: int, least: int) -> Counting | None:
        """For one more reading, if it is needed: of columns that are not known to the end.

        ``most`` texts may be levels, of at least so many rows.
        """
        edges, wanted = {}, {}
        for name, own in found.columns.items():
            if own.numbers is not None and not own.numbers.n_infinite and not own.numbers.is_known:
                edges[name] = edges_between(*own.numbers.bounds)
            if own.texts is not None and own.texts.short:
                wanted[name] = own.texts.frequent(most, least)
        names = tuple(name for name in found.columns if name in edges or name in wanted)
        if not names:
            return None
        # Of columns whose texts are counted again no median is looked for, whatever the edges.
        known = dict.fromkeys(names, edges_between(0.0, 0.0)) | edges
        return replace(self, task=Task(known, inf, wanted), names=names)
