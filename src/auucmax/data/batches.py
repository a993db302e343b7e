"""Rows that are read batch by batch, again and again, because all of them together are too many.

A :class:`RowSource` can do one thing: apply functions to every batch and add up what they return.
Whatever adds is a summary: an array, a :class:`Extremes`, a histogram of scores. The same functions
serve batches from a disk (:mod:`auucmax.data.stream`) and partitions of a cluster
(:mod:`auucmax.spark`), which differ only in who adds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeGuard, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from auucmax._validation import Bools, Floats
from auucmax.data.fingerprint import mix_bits

__all__ = [
    "Batch",
    "Extremes",
    "Part",
    "RowSource",
    "Sample",
    "SharedReadings",
    "is_source",
    "part_of",
]


class Batch(NamedTuple):
    """Some rows: features (m, d) of any float dtype and strides, outcome, arm, and their names.

    ``keys`` (m,) are whole numbers that no other row of the source has, and that a row keeps when
    the source is read again: parts of the rows are drawn by them.
    """

    X: NDArray[Any]
    y: Floats
    treated: Bools
    keys: NDArray[np.uint64]

    def take(self, kept: Bools) -> Batch:
        return Batch(self.X[kept], self.y[kept], self.treated[kept], self.keys[kept])


S = TypeVar("S")


@runtime_checkable
class RowSource(Protocol):
    """Rows of a trial that can be read again and again, batch by batch."""

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the columns of X."""

    def total(self, *summaries: Callable[[Batch], Any]) -> list[Any]:
        """Each summary of every batch, added up; one reading of the rows, however many there are.

        Summaries are functions that can be pickled; what they return is added with ``+`` in the
        order of the batches, so the result does not depend on the number of threads.
        """


class SharedReadings:
    """A source whose next reading also answers what was asked for later.

    >>> class Rows:
    ...     feature_names, n_readings = ("x",), 0
    ...     def total(self, *summaries):
    ...         self.n_readings += 1
    ...         return [summary(np.arange(3.0)) for summary in summaries]
    >>> shared = SharedReadings(rows := Rows())
    >>> largest = shared.later(np.max)
    >>> shared.total(np.sum), largest(), rows.n_readings
    ([np.float64(3.0)], np.float64(2.0), 1)
    """

    def __init__(self, source: RowSource) -> None:
        self.source = source
        self._waiting: list[tuple[Callable[[Batch], Any], list[Any]]] = []

    @property
    def feature_names(self) -> tuple[str, ...]:
        return self.source.feature_names

    def later(self, summary: Callable[[Batch], Any]) -> Callable[[], Any]:
        """The summary of all rows, at the next reading; at one of its own if it is asked for."""
        found: list[Any] = []
        self._waiting.append((summary, found))

        def answer() -> Any:
            if not found:
                self.total()
            return found[0]

        return answer

    def keep_order(self) -> None:
        """Rows are told by their keys from now on: a source that can notice other ones should."""
        if hasattr(self.source, "keep_order"):
            self.source.keep_order()

    def total(self, *summaries: Callable[[Batch], Any]) -> list[Any]:
        """As that of the source."""
        waiting = self._waiting
        answers = self.source.total(*summaries, *(summary for summary, _ in waiting))
        self._waiting = []  # a reading that fails leaves them waiting
        for (_, found), answer in zip(waiting, answers[len(summaries) :], strict=True):
            found.append(answer)
        return answers[: len(summaries)]


def is_source(rows: Any) -> TypeGuard[RowSource]:
    """Whether these are rows to be read batch by batch, not a frame with columns of such names."""
    return isinstance(rows, RowSource) and callable(rows.total)


@dataclass(frozen=True, eq=False)
class Extremes:
    """Smallest and largest values; adding keeps the extreme ones.

    >>> both = Extremes(np.array([1.0]), np.array([2.0])) + Extremes(np.zeros(1), np.ones(1))
    >>> both.low, both.high
    (array([0.]), array([2.]))
    """

    low: Floats
    high: Floats

    def __add__(self, other: Extremes) -> Extremes:
        return Extremes(np.minimum(self.low, other.low), np.maximum(self.high, other.high))


@dataclass(frozen=True, eq=False)
class Sample:
    """At most ``size`` values, those of the rows with the smallest hashes: a random sample.

    Adding keeps the smallest of both, so the sample is the same whatever the batches.

    >>> halves = [Sample.of(np.arange(4.0)[h], np.arange(4, dtype=np.uint64)[h], size=2)
    ...           for h in (slice(0, 2), slice(2, 4))]
    >>> whole = Sample.of(np.arange(4.0), np.arange(4, dtype=np.uint64), size=2)
    >>> sorted((halves[0] + halves[1]).values) == sorted(whole.values)
    True
    """

    values: Floats
    hashes: NDArray[np.uint64]
    size: int

    @classmethod
    def of(cls, values: Floats, keys: NDArray[np.uint64], size: int, seed: int = 0) -> Sample:
        return cls(values, hash_keys(keys, seed), size)._smallest()

    def __add__(self, other: Sample) -> Sample:
        both = np.concatenate([self.values, other.values])
        return Sample(both, np.concatenate([self.hashes, other.hashes]), self.size)._smallest()

    def _smallest(self) -> Sample:
        if len(self.values) <= self.size:
            return self
        kept = np.argpartition(self.hashes, self.size - 1)[: self.size]
        return Sample(self.values[kept], self.hashes[kept], self.size)


@dataclass(frozen=True)
class Part:
    """The rows of some parts out of ``n_parts`` equally likely ones, drawn by a seeded hash."""

    n_parts: int
    members: tuple[int, ...]
    seed: int

    def __call__(self, batch: Batch) -> Batch:
        return batch.take(np.isin(part_of(batch.keys, self.n_parts, self.seed), self.members))


def part_of(keys: NDArray[np.uint64], n_parts: int, seed: int) -> NDArray[np.int64]:
    """Which of ``n_parts`` parts each row is in; (m,) numbers from 0."""
    return (hash_keys(keys, seed) % np.uint64(n_parts)).astype(np.int64)


def hash_keys(keys: NDArray[np.uint64], seed: int) -> NDArray[np.uint64]:
    """64 well-mixed bits of each key and the seed."""
    start = mix_bits(np.array([seed], dtype=np.int64).view(np.uint64))
    return mix_bits(mix_bits(keys ^ start))
