"""Rows of a trial that can be read repeatedly in batches.

Rows only compute *summaries*: functions of a batch of rows whose results add up. An array,
:class:`Extremes`, a histogram of scores are summaries, and :meth:`Rows.total` answers any number of
them in one reading. Encoding, scaling and folds are views (:meth:`Rows.map`, :meth:`Rows.part`):
they change each batch on its way and copy nothing.

Hashes of a few rows show whether a later reading gives the same rows in the same order.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from auucmax._validation import Bools, Floats
from auucmax.data.hashing import mix_bits, numbers_for, row_hashes

FIRST_KEY = 40  #: bits of the place of a row in its partition; those above are the partition's
_OFTEN = np.uint64(2**10)


def order_mark(batch: Batch) -> int:
    """Sum of hashes of rows and keys, which changes with the rows and their order.

    Marks of batches add up, modulo 2^64, to that of all. The rows are the first 1,024 of each
    partition (:data:`FIRST_KEY`) and every 1,024th. Features and outcomes are compared as float32:
    a query may add numbers in another order each time, which changes the last digits of a float64.
    """
    place = batch.keys & np.uint64(2**FIRST_KEY - 1)
    some = np.flatnonzero((place < _OFTEN) | (place % _OFTEN == 0))
    if not len(some):
        return 0
    # Hashes stand for what is not a number.
    X = batch.X[some] if isinstance(batch.X, np.ndarray) else numbers_for(batch.X.iloc[some])
    rows = np.column_stack([X, batch.y[some], batch.treated[some]])
    return int(mix_bits(row_hashes(rows) ^ mix_bits(batch.keys[some])).sum())


Keys = NDArray[np.uint64]
Summary = Callable[["Batch"], Any]
Step = Callable[["Batch"], "Batch"]

MAX_BYTES = 2**25  #: of a summary, unless the rows say that it should be smaller
_HASHED = 2**14  # keys whose hashes are made in the cache of the processor


class Batch(NamedTuple):
    """A batch of rows: features, outcome, arm and keys.

    ``X`` (m, d) holds floats of any width and strides; of raw rows, whose features are not numbers
    yet, it is a DataFrame. ``keys`` (m,) are unique whole numbers that a row keeps when it is read
    again: parts are drawn by them. ``weight`` (m,): None if all weigh 1.
    """

    X: Any
    y: Floats
    treated: Bools
    keys: Keys
    weight: Floats | None = None

    def take(self, kept: NDArray[Any]) -> Batch:
        """Select rows by position or mask."""
        X = self.X[kept] if isinstance(self.X, np.ndarray) else self.X.iloc[kept]
        weight = None if self.weight is None else self.weight[kept]
        return Batch(X, self.y[kept], self.treated[kept], self.keys[kept], weight)


class Rows:
    """Base class: subclasses define ``names`` and ``batches``.

    >>> class Ten(Rows):
    ...     names = ("x",)
    ...     def batches(self):
    ...         for keys in (np.arange(4), np.arange(4, 10)):
    ...             yield Batch(keys[:, None] * 1.0, keys % 2.0, keys < 5, keys.astype(np.uint64))
    >>> Ten().total(lambda batch: len(batch.y), lambda batch: batch.X.sum())
    [10, np.float64(45.0)]
    >>> half = Ten().part(HashedPart(2, (0,), seed=1)).map(lambda X: 2 * X)
    >>> half.total(lambda batch: batch.X.sum())
    [np.float64(12.0)]
    """

    #: Names of the columns of X.
    names: tuple[str, ...]
    #: How large a summary may be: small, where summaries travel.
    max_bytes: int = MAX_BYTES
    #: Whether batches have weights.
    weighted: bool = False

    def batches(self) -> Generator[Batch, None, None]:
        """Iterate over all rows once, in a fixed order, in at least one batch."""
        raise NotImplementedError

    def total(self, *summaries: Summary) -> list[Any]:
        """Sums of batch summaries, in one reading, added in the order of batches.

        Summaries are functions that can be pickled, of batches that may be empty. The result does
        not depend on the number of threads.
        """
        return self._total((), summaries)

    def _total(self, steps: tuple[Step, ...], summaries: Sequence[Summary]) -> list[Any]:
        """Sums of the summaries of batches after these steps."""
        workers = n_threads()
        with ThreadPoolExecutor(workers) as pool, closing(self.batches()) as batches:

            def sums() -> Generator[list[Any], None, None]:
                waiting: deque[Future[list[Any]]] = deque()
                for batch in batches:
                    waiting.append(pool.submit(summarised, batch, steps, summaries))
                    # One batch more than threads: it is read while the others are worked on.
                    if len(waiting) > workers:
                        yield waiting.popleft().result()
                while waiting:
                    yield waiting.popleft().result()

            return reduce(plus, sums())

    def map(self, transform: Callable[[Any], Any], names: Sequence[str] | None = None) -> Rows:
        """A view with transformed features, by an encoder or scaling; ``names``: new names."""
        names = self.names if names is None else tuple(names)
        return View(self, Mapped(transform, len(names)), names)

    def part(self, part: Step) -> Rows:
        """A view of a subset: a :class:`HashedPart` (fold) or a :class:`Share`."""
        self.keep_order()
        return View(self, part, self.names)

    def keep_order(self) -> None:
        """Require the same row order in all later readings."""


class View(Rows):
    """A view that transforms batches."""

    def __init__(self, source: Rows, step: Step, names: tuple[str, ...]) -> None:
        self.source, self.step = source, step
        self.names, self.max_bytes, self.weighted = names, source.max_bytes, source.weighted

    def _total(self, steps: tuple[Step, ...], summaries: Sequence[Summary]) -> list[Any]:
        return self.source._total((self.step, *steps), summaries)

    def keep_order(self) -> None:
        self.source.keep_order()


def summarised(batch: Batch, steps: tuple[Step, ...], summaries: Sequence[Summary]) -> list[Any]:
    """The summaries of a batch that has gone through the steps of a view."""
    for step in steps:
        batch = step(batch)
    return [summary(batch) for summary in summaries]


def plus(one: Sequence[Any], other: Sequence[Any]) -> list[Any]:
    """Add two lists of totals."""
    return [a + b for a, b in zip(one, other, strict=True)]


@dataclass(frozen=True)
class Mapped:
    """A view with transformed features."""

    transform: Callable[[Any], Any]
    n_columns: int

    def __call__(self, batch: Batch) -> Batch:
        # An encoder need not know what to make of a frame without rows.
        X = self.transform(batch.X) if len(batch.y) else np.empty((0, self.n_columns))
        return batch._replace(X=X)


# Parts


@dataclass(frozen=True)
class HashedPart:
    """Rows of some of ``n_parts`` random parts, by a seeded hash."""

    n_parts: int
    members: tuple[int, ...]
    seed: int

    def __call__(self, batch: Batch) -> Batch:
        chosen = np.zeros(self.n_parts, dtype=bool)
        chosen[list(self.members)] = True
        part = part_of(batch.keys, self.n_parts, self.seed)
        return batch.take(np.flatnonzero(chosen[part]))  # by places: quicker than by a mask


@dataclass(frozen=True)
class Share:
    """A random share of the rows, by a seeded hash.

    >>> batch = Batch(np.zeros((9, 1)), np.zeros(9), np.zeros(9) > 0, np.arange(9, dtype=np.uint64))
    >>> len(Share(0.5, seed=1)(batch).y), len(Share(1.0, seed=1)(batch).y)
    (5, 9)
    """

    share: float
    seed: int

    def __call__(self, batch: Batch) -> Batch:
        most = np.uint64(min(int(self.share * 2.0**64), 2**64 - 1))
        return batch.take(np.flatnonzero(hash_keys(batch.keys, self.seed) <= most))


def part_of(keys: Keys, n_parts: int, seed: int) -> NDArray[np.int64]:
    """Part of each row, from 0 to ``n_parts`` - 1, (m,)."""
    return (hash_keys(keys, seed) % np.uint64(n_parts)).astype(np.int64)


def hash_keys(keys: Keys, seed: int) -> Keys:
    """64-bit hashes of keys and seed."""
    # Keys are often 0, 1, 2, ...: mixed twice, neighbours and near seeds have nothing in common.
    start = mix_bits(np.array([seed], dtype=np.int64).view(np.uint64))
    found = np.empty_like(keys)
    for k in range(0, len(keys), _HASHED):
        found[k : k + _HASHED] = mix_bits(mix_bits(keys[k : k + _HASHED] ^ start))
    return found


# What adds


@dataclass(frozen=True, eq=False)
class Extremes:
    """Minima and maxima; adding keeps the extremes.

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
    """A random sample of at most ``size`` values: those with the smallest hashes.

    Adding keeps the smallest of both, so the sample is the same whatever the batches.

    >>> halves = [Sample.of(np.arange(4.0)[h], np.arange(4, dtype=np.uint64)[h], size=2)
    ...           for h in (slice(0, 2), slice(2, 4))]
    >>> whole = Sample.of(np.arange(4.0), np.arange(4, dtype=np.uint64), size=2)
    >>> sorted((halves[0] + halves[1]).values) == sorted(whole.values)
    True
    """

    values: Floats
    hashes: Keys
    size: int

    @classmethod
    def of(cls, values: Floats, keys: Keys, size: int, seed: int = 0, n_rows: float = 0) -> Sample:
        """Sample a batch; the number of rows of all batches, if known, keeps samples small."""
        hashes = hash_keys(keys, seed)
        if size < n_rows:  # eight standard deviations more than needed
            most = np.uint64(min((size + 8 * size**0.5) / n_rows, 1.0) * (2.0**64 - 2**12))
            some = np.flatnonzero(hashes <= most)
            values, hashes = values[some], hashes[some]
        return cls(values, hashes, size)._smallest()

    def __add__(self, other: Sample) -> Sample:
        both = np.concatenate([self.values, other.values])
        return Sample(both, np.concatenate([self.hashes, other.hashes]), self.size)._smallest()

    def _smallest(self) -> Sample:
        if len(self.values) <= self.size:
            return self
        kept = np.argpartition(self.hashes, self.size - 1)[: self.size]
        return Sample(self.values[kept], self.hashes[kept], self.size)


# In memory


class ArrayRows(Rows):
    """Rows in memory: arrays, or a frame as X.

    ``keys`` name the rows; default: their places.
    """

    def __init__(
        self,
        X: Any,
        y: Floats,
        treated: Bools,
        weight: Floats | None = None,
        *,
        names: Sequence[str] | None = None,
        keys: Keys | None = None,
    ) -> None:
        if names is None:
            names = getattr(X, "columns", None)
        if names is None:
            names = [f"x{k}" for k in range(X.shape[1])]
        self.names = tuple(map(str, names))
        self.X, self.y, self.treated, self.weight = X, y, treated, weight
        self.keys = np.arange(len(y), dtype=np.uint64) if keys is None else keys
        self.weighted = weight is not None

    @property
    def columns(self) -> tuple[Any, Floats, Bools, Floats | None]:
        """X, outcome, arm and weight of all rows, without keys."""
        return self.X, self.y, self.treated, self.weight

    @property
    def batch(self) -> Batch:
        """All rows as one batch."""
        return Batch(self.X, self.y, self.treated, self.keys, self.weight)

    def _total(self, steps: tuple[Step, ...], summaries: Sequence[Summary]) -> list[Any]:
        return summarised(self.batch, steps, summaries)

    def take(self, places: NDArray[Any]) -> ArrayRows:
        """Select rows by position."""
        return self.part(lambda batch: batch.take(places))

    def map(self, transform: Callable[[Any], Any], names: Sequence[str] | None = None) -> ArrayRows:
        names = self.names if names is None else tuple(names)
        return self._of(Mapped(transform, len(names))(self.batch), names)

    def part(self, part: Step) -> ArrayRows:
        return self._of(part(self.batch), self.names)

    @staticmethod
    def _of(batch: Batch, names: Sequence[str]) -> ArrayRows:
        X, y, treated, keys, weight = batch
        return ArrayRows(X, y, treated, weight, names=names, keys=keys)


# Threads


def n_threads() -> int:
    """Number of threads: NUMBA_NUM_THREADS, which joblib lowers in workers."""
    import joblib

    asked = os.environ.get("NUMBA_NUM_THREADS", "")
    return max(int(asked) if asked.isdecimal() else joblib.cpu_count(), 1)
