"""Which rows a model has learnt from: filters of hashed ids and contents, without the rows.

A Bloom filter holds a set of hashes in some bits each: a hash that was put in is always found, one
that was not is found by chance at a known rate. With ids, rows that are found are left out of every
judgement, one by one. Contents (encoded features, to a few digits) can be equal by chance, so of
these only the share that is found is compared with what chance explains: the rate of the filter,
and how often rows of the trial itself repeat each other.

It is no protection against someone who wants to deceive: it is there to catch a slip, and rows
whose numbers were changed are not known again. Whoever has the filter and guesses an id, or all
features of a person, can ask whether that person was in the trial; arm and outcome are not in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from auucmax._validation import Bools, Floats
from auucmax.data.fingerprint import COMPILE_ROWS, hash_rows_slow, mix_bits

Hashes = NDArray[np.uint64]

BITS = 16  #: of the filters for each row: two bytes
_ID_BITS = 10  # of these, for ids; a new id is then taken for a known one less than once in 100
_SLACK = 0.05  # a new population may repeat itself more often: by this at most, and twice as often
_TELLING = {"ids": 0.5, "contents": 0.1}  # repeats, above which an overlap might pass unseen
_BLOCK = 2**16


@dataclass(frozen=True, eq=False)
class BloomFilter:
    """A set of hashes. ``bits`` are packed, ``n_probes`` of them stand for a hash.

    >>> some = mix_bits(np.arange(1000, dtype=np.uint64))
    >>> found = BloomFilter.of(some[:500], bits_each=16)
    >>> bool(found.holds(some[:500]).all()), int(found.holds(some[500:]).sum())
    (True, 0)
    """

    bits: NDArray[np.uint8] = field(repr=False)
    n_probes: int

    @classmethod
    def of(cls, hashes: Hashes, bits_each: int) -> Self:
        """A filter of these hashes with so many bits for each."""
        bits = np.zeros(max(8, -(-len(hashes) * bits_each // 8)), dtype=np.uint8)
        found = cls(bits, max(1, round(bits_each * np.log(2))))
        for start in range(0, len(hashes), _BLOCK):
            for place in found._places(hashes[start : start + _BLOCK]):
                np.bitwise_or.at(bits, place >> 3, np.uint8(1) << (place & 7).astype(np.uint8))
        return found

    def holds(self, hashes: Hashes) -> Bools:
        """(n,) whether each is in the set, or is taken for one that is."""
        found = np.ones(len(hashes), dtype=bool)
        for place in self._places(hashes):
            found &= (self.bits[place >> 3] >> (place & 7).astype(np.uint8)) & 1 == 1
        return found

    @property
    def false_rate(self) -> float:
        """The share of new hashes that are taken for members."""
        return float((np.bitwise_count(self.bits).sum() / (8 * len(self.bits))) ** self.n_probes)

    def _places(self, hashes: Hashes) -> list[NDArray[np.int64]]:
        step = mix_bits(hashes) | np.uint64(1)
        size = np.uint64(8 * len(self.bits))
        return [
            ((hashes + np.uint64(k) * step) % size).astype(np.int64) for k in range(self.n_probes)
        ]


class Verdict(NamedTuple):
    """Which rows of a table may judge a model.

    ``is_own``: the table holds the very rows of the fit. ``new`` (n,): rows that may judge.
    ``is_sure``: an overlap would have been seen; if not, nothing should be certified. ``note`` says
    all that in words.
    """

    is_own: bool
    new: Bools
    is_sure: bool
    note: str


@dataclass(frozen=True, eq=False)
class SeenRows:
    """What a model remembers of the rows of its trial.

    ``n_rows`` and ``total`` (a sum of hashes, whatever the order) name the trial's own rows; the
    total is empty if they were to be forgotten.
    ``repeats`` is the share of them whose contents, numbers to ``digits`` digits, another one has.
    ``ids`` and ``contents`` are filters of the rows that it learnt from; None if they were to be
    forgotten, or if there are no ids.
    """

    n_rows: int
    total: str
    repeats: float
    digits: int
    ids: BloomFilter | None = None
    contents: BloomFilter | None = None

    @classmethod
    def of(
        cls,
        contents: Mapping[int, Hashes],
        total: int,
        ids: Hashes | None,
        learnt: Bools,
        *,
        forget: bool,
    ) -> Self:
        """From all rows of a trial, of which some were learnt from.

        ``total`` is that of :func:`row_total` of all rows. ``contents``: hashes to 3 and to 6
        digits. Three tell a row whose numbers were rounded; six are taken where three tell too
        little.
        """
        repeats = {digits: _repeats(hashes) for digits, hashes in contents.items()}
        digits = min(contents, key=lambda d: (repeats[d] > 0.01, d))
        own = contents[digits]
        named = cls(len(own), "" if forget else f"{total:016x}", repeats[digits], digits)
        if forget:
            return named
        for_ids = 0 if ids is None else _ID_BITS
        return cls(
            **vars(named)
            | {
                "ids": None if ids is None else BloomFilter.of(ids[learnt], for_ids),
                "contents": BloomFilter.of(own[learnt], BITS - for_ids),
            }
        )

    def is_own(self, n_rows: int, total: int) -> bool:
        """Whether rows with this number and total are those of the fit, in any order."""
        return n_rows == self.n_rows and f"{total:016x}" == self.total

    def judge(self, contents: Hashes, total: int, ids: Hashes | None) -> Verdict:
        """Which rows are new; ValueError if too many of them are not, and which cannot be told."""
        n, everyone = len(contents), np.ones(len(contents), dtype=bool)
        if self.is_own(n, total):
            return Verdict(
                True, ~everyone, True, "These are the rows that the model was fitted on."
            )
        if self.contents is None:
            return Verdict(False, everyone, False, f"All {n:,} rows. {_FORGOTTEN}")
        known = ~everyone
        if self.ids is not None and ids is not None:
            known = self.ids.holds(ids)
        new = ~known
        if known.all():
            raise ValueError(
                f"the table should hold rows that are new to the model, got {n:,} rows that it "
                f"learnt from. What they show was found when it was fitted: leave the table out."
            )
        self._check_contents(contents[new], has_ids=ids is not None)
        is_sure = self.repeats < _TELLING["contents" if self.ids is None or ids is None else "ids"]
        return Verdict(False, new, is_sure, self._note(known, is_sure))

    def _check_contents(self, contents: Hashes, has_ids: bool) -> None:
        """ValueError if more rows look like learnt ones than chance explains."""
        share = float(self.contents.holds(contents).mean())  # type: ignore[union-attr]
        chance = self.repeats + (1 - self.repeats) * self.contents.false_rate  # type: ignore[union-attr]
        # Two successes and two failures more keep a count of none from being taken for certainty.
        p = (chance * self.n_rows + 2) / (self.n_rows + 4)
        error = np.sqrt(p * (1 - p) * (1 / len(contents) + 1 / (self.n_rows + 4)))
        if share <= p + min(_SLACK, chance) + 4 * error:
            return
        why, advice = "there are no ids", "fit the model with an id column"
        if has_ids:
            why, advice = "their ids are new", "write the ids as the file of the fit has them"
        raise ValueError(
            f"the rows should be new to the model; got rows of which {_percent(share)} look like "
            f"rows that it learnt from (chance explains {_percent(chance)}), and {why}, so the "
            f"others cannot be told. Pass new rows only, or {advice}."
        )

    def _note(self, known: Bools, is_sure: bool) -> str:
        n, n_known = len(known), int(known.sum())
        by_chance = 0.0 if self.ids is None else self.ids.false_rate
        if not is_sure:
            what = f"{n - n_known:,} of {n:,} rows." if n_known else f"All {n:,} rows."
            return f"{what} {_ALIKE}"
        if n_known > by_chance * n + 4 * np.sqrt(by_chance * n):
            return (
                f"{n - n_known:,} of {n:,} rows: the others are rows that the model learnt from, "
                f"which are no evidence."
            )
        left_out = f" but {n_known:,} that might be known by their ids" if n_known else ""
        return f"All {n:,} rows{left_out}: none was recognised as one that the model learnt from."

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON, without the filters."""
        return {name: getattr(self, name) for name in _PLAIN}

    def arrays(self) -> dict[str, NDArray[np.uint8]]:
        """The filters by name, as far as there are some."""
        filters = {"ids": self.ids, "contents": self.contents}
        return {name: own.bits for name, own in filters.items() if own is not None}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """What ``to_dict`` and ``arrays`` gave; ValueError for anything else."""
        right = (
            set(plain) == set(_PLAIN)
            and type(plain["n_rows"]) is int
            and 0 < plain["n_rows"] < 2**53
            and type(plain["total"]) is str
            and isinstance(plain["repeats"], (int, float))
            and 0 <= plain["repeats"] <= 1
            and plain["digits"] in DIGITS
            and set(arrays) in ({"ids", "contents"}, {"contents"}, set())
            and all(a.dtype == np.uint8 and a.ndim == 1 and len(a) > 7 for a in arrays.values())
        )
        if not right:
            raise ValueError("the rows that were seen should be as a fit writes them, got others.")
        for_ids = _ID_BITS if "ids" in arrays else 0
        bits = {"ids": for_ids, "contents": BITS - for_ids}
        filters = {
            name: BloomFilter(array, max(1, round(bits[name] * np.log(2))))
            for name, array in arrays.items()
        }
        return cls(**dict(plain), ids=filters.get("ids"), contents=filters.get("contents"))


DIGITS = (3, 6)
_PLAIN = ("n_rows", "total", "repeats", "digits")
_FORGOTTEN = (
    "The model was told to forget its rows: whether it learnt from some of these cannot be seen "
    "here. The numbers hold only if you know that they are new."
)
_ALIKE = (
    "Rows of this trial look too much alike to be told apart by their contents: whether the model "
    "learnt from some of them under other ids cannot be seen here. The numbers hold only if you "
    "know that they are new."
)


def content_hashes(X: Floats, digits: int) -> Hashes:
    """(n,) a hash of the encoded features of each row, to so many significant digits.

    >>> X = np.array([[1.23456], [1.2341]])
    >>> [len(set(content_hashes(X, digits).tolist())) for digits in DIGITS]
    [1, 2]
    """
    nothing = np.zeros(len(X))
    return _row_hashes(X, nothing, nothing == 0, digits)


def row_total(X: Floats, y: Floats, treated: Bools) -> int:
    """The sum of hashes of whole rows, modulo 2^64: the same in any order."""
    return int(_row_hashes(X, y, treated, DIGITS[-1]).sum(dtype=np.uint64))


def _row_hashes(X: Floats, y: Floats, treated: Bools, digits: int) -> Hashes:
    hash_rows = hash_rows_slow
    if len(y) >= COMPILE_ROWS:
        from auucmax.data.fingerprint_kernel import hash_rows
    parts = [
        hash_rows(rounded(X[block], digits), rounded(y[block], digits), treated[block])
        for block in (slice(start, start + _BLOCK) for start in range(0, len(y), _BLOCK))
    ]
    return np.concatenate(parts) if parts else np.empty(0, dtype=np.uint64)


def rounded(numbers: Floats, digits: int) -> Floats:
    """To significant digits, by way of float32: a table may be stored so, and printed short."""
    with np.errstate(divide="ignore", over="ignore"):
        short = np.asarray(numbers, dtype=np.float32).astype(np.float64)
        power = 10.0 ** (digits - 1 - np.floor(np.log10(np.abs(short))))
    scale = np.where(np.isfinite(power) & (power > 0), power, 1.0)
    return np.asarray(np.rint(short * scale) / scale)


def _repeats(hashes: Hashes) -> float:
    """The share of rows whose hash another row has."""
    _, counts = np.unique(hashes, return_counts=True)
    return float(counts[counts > 1].sum() / len(hashes))


def _percent(share: float) -> str:
    return f"{share:.0%}" if share >= 0.01 else f"{share:.2%}"
