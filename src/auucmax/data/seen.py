"""Which rows a model has learnt from: filters of hashed ids and contents, without the rows.

A Bloom filter holds a set of hashes in some bits each: a hash that was put in is always found, one
that was not is found by chance at a known rate. With ids, rows that are found are left out of every
judgement, one by one. Contents (features as a model sees them, to a few digits) can be equal by
chance, so of these only the number that is found is compared with what chance explains: the rate of
the filter, and how often a new row of the trial itself would repeat another (Good and Turing: as
often as a row of the trial is not the only one of its kind). Estimators, models of tables, files,
streams and Spark are told by the same code.

It is no protection against someone who wants to deceive: it is there to catch a slip, and rows
whose numbers were changed are not known again. Models of tables hash what they keep with a secret
key, random for each fit, that a model file does not hold: without it nobody can ask. Whoever has
both, or the filter of an estimator, and guesses an id, or all features of a person, can ask whether
that person was in the trial; arm and outcome are not in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import repeat
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtrc, ndtri

from auucmax._json import read
from auucmax._validation import Bools, Floats
from auucmax.data.hashing import (
    FINEST,
    GRIDS,
    content_hashes,
    keyed_hashes,
    mix_bits,
    numbers_for,
    row_total,
)

Hashes = NDArray[np.uint64]

BITS = 16  #: of the filters for each row: two bytes
_ID_BITS = 9  # of these, for ids; a new id is then taken for a known one about once in 75
_RARELY = 0.01  # a grid on which rows repeat each other more often is too coarse
_SLACK = 0.05  # a new population may repeat itself more often: by this at most, and twice as often
_CHANCE = 1e-5  # of refusing rows that are new
MOST_KINDS = 2**17  #: different contents that are kept: of more, those with the smallest hashes
_TELLING = {"ids": 0.5, "contents": 0.2}  # repeats, above which an overlap might pass unseen
_FEW_PEOPLE = 20
_WORTH_TELLING = 0.03  # of the rows, that might be learnt ones without being seen
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
        # Double hashing: all places come from two hashes.
        step = mix_bits(hashes) | np.uint64(1)
        size = np.uint64(8 * len(self.bits))
        return [
            ((hashes + np.uint64(k) * step) % size).astype(np.int64) for k in range(self.n_probes)
        ]


@dataclass(frozen=True, eq=False)
class Kinds:
    """Rows by kind: a kind is all rows of one hash.

    ``hashes`` are sorted and differ; ``counts`` and ``treated`` are the numbers of rows, and of
    treated rows, of each kind. Of more than :data:`MOST_KINDS` kinds those with the smallest hashes
    are kept: all up to the hash ``top``.
    """

    hashes: Hashes
    counts: NDArray[np.int64]
    treated: NDArray[np.int64]
    top: int = 2**64 - 1

    @classmethod
    def of(cls, hashes: Hashes, treated: Bools) -> Self:
        """The kinds of some rows."""
        if len(hashes) > 4 * MOST_KINDS:  # of many rows those with small hashes are often enough
            low = np.flatnonzero(hashes <= np.uint64(2 * MOST_KINDS / len(hashes) * 2.0**64))
            found = cls._of_all(hashes[low], treated[low])
            if len(found.hashes) > MOST_KINDS:
                return found._smallest(2**64 - 1)
        return cls._of_all(hashes, treated)._smallest(2**64 - 1)

    @classmethod
    def _of_all(cls, hashes: Hashes, treated: Bools) -> Self:
        order = np.argsort(hashes)  # once, where np.unique would also write down all places
        hashes, so_far = hashes[order], np.append(0, np.cumsum(treated[order]))
        start = np.flatnonzero(np.append(True, hashes[1:] != hashes[:-1])[: len(hashes)])
        ends = np.append(start, len(hashes))
        return cls(hashes[start], np.diff(ends), np.diff(so_far[ends]))

    def __add__(self, other: Self) -> Self:
        """The kinds of the rows of both."""
        # A kind above the top of one of them may lack rows.
        top = min(self.top, other.top)
        mine, new = self._smallest(top), other._smallest(top)
        place = np.searchsorted(mine.hashes, new.hashes)
        known = np.append(mine.hashes, np.uint64(0))[place] == new.hashes
        known &= place < len(mine.hashes)
        counts, treated = mine.counts.copy(), mine.treated.copy()
        counts[place[known]] += new.counts[known]
        treated[place[known]] += new.treated[known]
        place, others = place[~known], ~known
        return type(self)(
            np.insert(mine.hashes, place, new.hashes[others]),
            np.insert(counts, place, new.counts[others]),
            np.insert(treated, place, new.treated[others]),
        )._smallest(top)

    def _smallest(self, top: int) -> Self:
        """The kinds with hashes up to ``top``, and of these no more than MOST_KINDS."""
        if len(self.hashes) > MOST_KINDS:
            top = min(top, int(self.hashes[MOST_KINDS - 1]))
        n = int(np.searchsorted(self.hashes, np.uint64(top), side="right"))
        return type(self)(self.hashes[:n], self.counts[:n], self.treated[:n], top)

    @property
    def n_rows(self) -> int:
        return int(self.counts.sum())

    def arms_apart(self) -> tuple[float, float]:
        """How much treatment varies within kinds, and how much it would among independent rows.

        The sum over kinds of n - sum over arms of n_arm^2 / n, which has the mean
        sum of (n - 1) (1 - sum over arms of share^2) if each row was randomised by itself.
        """
        n = np.maximum(self.counts, 1)
        share = self.treated.sum() / max(self.n_rows, 1)
        found = float((2 * self.treated * (n - self.treated) / n).sum())
        return found, float((n - 1).sum() * 2 * share * (1 - share))

    @property
    def are_copies(self) -> bool:
        """Whether rows of one kind are in one arm, as copies of one row are, far beyond chance."""
        found, expected = self.arms_apart()
        return expected >= _ENOUGH and found < _COPIES * expected

    @property
    def are_together(self) -> bool:
        """Whether rows of one kind are in one arm more often than five standard errors explain."""
        found, expected = self.arms_apart()
        return found < _TOGETHER * expected and expected - found > 5 * np.sqrt(expected)

    @property
    def repeats(self) -> float:
        """About the chance that a new row is of one of these kinds.

        It is the share of rows that are not alone in their kind. Copies of rows say nothing of
        chance: as far as rows of a kind are in one arm, they are not counted.
        """
        share = 1 - float((self.counts == 1).sum()) / max(self.n_rows, 1)
        if self.are_copies:
            found, expected = self.arms_apart()
            share *= found / expected
        return share


_ENOUGH = 10.0  # variation of treatment within kinds that is expected, below which it tells little
_TOGETHER = 0.8  # of it, below which rows of a kind are not randomised one by one
_COPIES = 0.1  # of it that copies of rows may show: a few kinds are of two people after all


@dataclass(frozen=True, eq=False)
class RowSet:
    """Rows of a trial as hashes, which add up: how many, the sum of their hashes, their kinds.

    ``total`` names the rows, in any order. ``kinds`` are those of the features, by grid: a row
    whose outcome was changed is still known.

    >>> X, y, t = np.arange(6.0).reshape(3, 2), np.array([0.0, 1, 1]), np.array([True, False, True])
    >>> RowSet.of(X, y, t).own == RowSet.of(X[::-1], y[::-1], t[::-1]).own
    True
    >>> RowSet.of(X, y, t).own == RowSet.of(X, 1 - y, t).own
    False
    """

    n_rows: int
    total: int
    kinds: dict[int, Kinds]

    @classmethod
    def of(cls, X: Any, y: Floats, treated: Bools) -> Self:
        """The set of some rows, with features as a model sees them, or a frame of anything."""
        matrix = numbers_for(X)
        contents = content_hashes(matrix)
        with ThreadPoolExecutor() as pool:  # numpy sorts outside the lock
            found = pool.map(Kinds.of, contents.values(), repeat(treated))
            kinds = dict(zip(contents, found, strict=True))
        return cls(len(y), row_total(contents[FINEST], y, treated), kinds)

    def __add__(self, other: Self) -> Self:
        kinds = {grid: own + other.kinds[grid] for grid, own in self.kinds.items()}
        return type(self)(self.n_rows + other.n_rows, (self.total + other.total) % 2**64, kinds)

    @property
    def own(self) -> tuple[int, int]:
        """Number and total: what names the rows."""
        return self.n_rows, self.total


class Overlap(NamedTuple):
    """The share of rows that look like learnt ones, the share by chance, and whether it is more."""

    share: float
    chance: float
    is_more: bool


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
    ``repeats`` is the chance that a new row has the contents, numbers on a ``grid``, of a learnt
    one, estimated from ``n_counted`` rows.
    ``ids`` and ``contents`` are filters of the rows that it learnt from; None if they were to be
    forgotten, or if there are no ids. The filter of contents holds hashes up to ``top``.
    ``mark`` tells which ``key`` the filters and the total were hashed with; it is empty if there is
    none. A key that is not here is None: then nothing can be told.
    """

    n_rows: int
    total: str
    repeats: float
    n_counted: int
    grid: int
    top: str
    mark: str = ""
    ids: BloomFilter | None = None
    contents: BloomFilter | None = None
    key: bytes | None = field(default=None, repr=False)

    @classmethod
    def of(
        cls,
        learnt: RowSet,
        ids: Hashes | None = None,
        *,
        forget: bool = False,
        key: bytes | None = None,
    ) -> Self:
        """What to remember of the rows that were learnt from, and of the hashes of their ids.

        A coarse grid tells a row whose numbers were rounded; a finer one is taken where it tells
        too little. ``learnt`` has number and total of all rows of the trial, if others were set
        aside.
        """
        repeats = {grid: kinds.repeats for grid, kinds in learnt.kinds.items()}
        grid = next((g for g, own in repeats.items() if own <= _RARELY), max(repeats))
        kinds = learnt.kinds[grid]
        counted = repeats[grid], kinds.n_rows, grid, f"{kinds.top:016x}"
        if forget:
            return cls(learnt.n_rows, "", *counted)
        # Ids tell rows one by one, and contents only many together: ids get most of the bits.
        for_ids = 0 if ids is None else _ID_BITS
        mark = "" if key is None else keyed_text(0, key)
        named = cls(learnt.n_rows, "", *counted, mark, key=key)
        return replace(
            named,
            total=named._text(learnt.total),
            ids=None if ids is None else BloomFilter.of(named._keyed(ids), for_ids),
            contents=BloomFilter.of(named._keyed(kinds.hashes), BITS - for_ids),
        )

    def among(self, kinds: Kinds, ids: Hashes | None) -> Self:
        """The record with filters of more rows than its own: those of a trial of several arms.

        The filters of two arms would tell who was in which.
        """
        for_ids = 0 if ids is None else _ID_BITS
        return replace(
            self,
            repeats=kinds.repeats,
            top=f"{kinds.top:016x}",
            ids=None if ids is None else BloomFilter.of(self._keyed(ids), for_ids),
            contents=BloomFilter.of(self._keyed(kinds.hashes), BITS - for_ids),
        )

    def with_key(self, key: bytes | None) -> Self:
        """The record with its key, or without one if the key is another record's."""
        is_right = key is not None and keyed_text(0, key) == self.mark
        return replace(self, key=key if is_right else None)

    @property
    def is_locked(self) -> bool:
        """Whether there are filters, but not the key to ask them."""
        return self.contents is not None and bool(self.mark) and self.key is None

    def _keyed(self, hashes: Hashes) -> Hashes:
        return hashes if self.key is None else keyed_hashes(hashes, self.key)

    def _text(self, total: int) -> str:
        return f"{total:016x}" if self.key is None else keyed_text(total, self.key)

    def is_own(self, n_rows: int, total: int) -> bool:
        """Whether rows with this number and total are those of the fit, in any order."""
        return n_rows == self.n_rows and not self.is_locked and self._text(total) == self.total

    def holds_all(self, contents: Hashes, ids: Hashes | None = None) -> bool:
        """Whether these are all rows that were learnt from, and no others: by their ids, if known.

        There have to be as many different ones, or one person could stand for all.
        """
        if self.contents is None or self.is_locked or len(contents) != self.n_rows:
            return False
        if self.ids is not None and ids is not None:
            is_all = len(np.unique(ids)) == len(ids)
            return bool(is_all and self.ids.holds(self._keyed(ids)).all())
        known = contents[contents <= np.uint64(int(self.top, 16))]
        most_alike = self.repeats * len(contents) + _FEW_PEOPLE
        return bool(
            self.can_tell(by_ids=False)
            and len(known) >= _FEW_PEOPLE
            and len(np.unique(contents)) >= len(contents) - most_alike
            and self.contents.holds(self._keyed(known)).all()
        )

    def overlap(self, kinds: Kinds) -> Overlap:
        """How many rows look like learnt ones; ``is_more``: than chance would have it.

        A new kind is one of the learnt ones with a probability of at most ``repeats``, its error
        and some slack for another population; if not, the filter finds it at a rate that is known.
        So the number of kinds that are found is binomial, and more than chance explains if so many
        have a probability below 1 in 100,000. (Of rows it would not be: those of a kind are found
        together.)
        """
        assert self.contents is not None
        chance = self.repeats + (1 - self.repeats) * self.contents.false_rate
        some = kinds.hashes <= np.uint64(min(kinds.top, int(self.top, 16)))
        found, counts = self.contents.holds(self._keyed(kinds.hashes[some])), kinds.counts[some]
        if not found.any():
            return Overlap(0.0, chance, False)
        p = self._most_by_chance()
        is_more = bool(p < 1 and bdtrc(int(found.sum()) - 1, len(found), p) < _CHANCE)
        return Overlap(float(counts[found].sum() / counts.sum()), chance, is_more)

    def _most_by_chance(self) -> float:
        """The chance that a new kind is found, at most."""
        assert self.contents is not None
        # Two rows more keep a count of none from being taken for certainty.
        p = (self.repeats * self.n_counted + 2) / (self.n_counted + 4)
        p += min(_SLACK, self.repeats) + 4 * np.sqrt(p * (2 - p) / (self.n_counted + 4))
        return float(min(p + (1 - p) * self.contents.false_rate, 1.0))

    def unseen(self, n: int) -> float:
        """About the share of n rows that might be learnt ones without being noticed."""
        assert self.contents is not None
        p, chance = self._most_by_chance(), self.repeats + self.contents.false_rate
        noticed = p + ndtri(1 - _CHANCE) * np.sqrt(p * (1 - p) / max(n, 1))
        return float(min(max((noticed - chance) / max(1 - chance, 1e-9), 0.0), 1.0))

    def can_tell(self, *, by_ids: bool) -> bool:
        """Whether rows that were learnt from would have been recognised among others."""
        return self.repeats < _TELLING["ids" if by_ids else "contents"]

    def judge(self, contents: Hashes, total: int, ids: Hashes | None) -> Verdict:
        """Tell which rows are new; raise a ValueError if many are not and cannot be singled out."""
        n, everyone = len(contents), np.ones(len(contents), dtype=bool)
        if self.is_own(n, total):
            return Verdict(
                True, ~everyone, True, "These are the rows that the model was fitted on."
            )
        if self.contents is None:
            return Verdict(False, everyone, False, f"All {n:,} rows. {_FORGOTTEN}")
        if self.is_locked:
            return Verdict(False, everyone, False, f"All {n:,} rows. {_NO_KEY}")
        # Without ids on both sides no single row can be told.
        known = ~everyone
        if self.ids is not None and ids is not None:
            known = self.ids.holds(self._keyed(ids))
        new = ~known
        if known.all():
            raise ValueError(
                f"the table should hold rows that are new to the model, got {n:,} rows that it "
                f"learnt from. What they show was found when it was fitted: pass new rows, or none."
            )
        self._check_contents(contents[new], has_ids=ids is not None)
        is_sure = self.can_tell(by_ids=self.ids is not None and ids is not None)
        return Verdict(False, new, is_sure, self._note(known, is_sure))

    def _check_contents(self, contents: Hashes, has_ids: bool) -> None:
        """Raise a ValueError if more rows look like learnt ones than chance explains."""
        share, chance, is_more = self.overlap(Kinds.of(contents, np.zeros(len(contents), bool)))
        if not is_more:
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
                f"or of groups that it learnt from, which are no evidence."
            )
        left_out = f" but {n_known:,} that might be known by their ids" if n_known else ""
        limit = self.unseen(n)
        but = f" (fewer than {limit:.0%} might not be)" if limit > _WORTH_TELLING else ""
        return (
            f"All {n:,} rows{left_out}: none was recognised as one that the model learnt from{but}."
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON, without the filters."""
        return {name: getattr(self, name) for name in _PLAIN}

    def arrays(self) -> dict[str, NDArray[np.uint8]]:
        """The filters by name, as far as there are some."""
        filters = {"ids": self.ids, "contents": self.contents}
        return {name: own.bits for name, own in filters.items() if own is not None}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Restore what ``to_dict`` and ``arrays`` gave, or raise a ValueError for anything else."""
        found = read(_PLAIN, plain, "the rows that were seen")
        right = (
            found["n_rows"] > 0
            and all(_is_hash(found[name] or "0" * 16) for name in ("total", "mark"))
            and _is_hash(found["top"])
            and 0 <= found["repeats"] <= 1
            and 0 <= found["n_counted"] <= found["n_rows"]
            and 0 <= found["grid"] < len(GRIDS)
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
        return cls(**found, ids=filters.get("ids"), contents=filters.get("contents"))


@dataclass(frozen=True, eq=False)
class TrainingRecord:
    """What a fitted model remembers of its rows.

    ``given``: number and total of all rows that ``fit`` received; ``learnt``: those among them that
    it learnt from; ``set_aside``: those that it kept for its certificate, after choosing among
    ``n_candidates`` with them; ``ids``: sorted hashes of the ids of the rows that it learnt from;
    ``warning``: that these rows fail the check of a trial, if they do.
    """

    given: tuple[int, int]
    learnt: SeenRows
    set_aside: SeenRows | None = None
    n_candidates: int = 1
    ids: Hashes | None = None
    warning: str | None = None

    @classmethod
    def of(
        cls,
        learnt: RowSet,
        set_aside: RowSet | None = None,
        n_candidates: int = 1,
        ids: Hashes | None = None,
    ) -> Self:
        """The record of some rows; ``ids`` are hashes of the ids of those that were learnt from."""
        seen = SeenRows.of(learnt)
        if set_aside is None:
            return cls(learnt.own, seen, ids=ids)
        given = learnt.n_rows + set_aside.n_rows, (learnt.total + set_aside.total) % 2**64
        return cls(given, seen, SeenRows.of(set_aside), n_candidates, ids)

    def __repr__(self) -> str:
        return f"TrainingRecord({self.given[0]:,} rows)"

    def __getstate__(self) -> dict[str, Any]:
        """Without the ids: whoever gets a pickle could guess who was in the trial."""
        return self.__dict__ | {"ids": None}

    def candidates_compared(self, rows: RowSet, *, by_ids: bool = False) -> int:
        """How many candidates the model compared on these rows; an error if it learnt from them.

        Also if that cannot be told, because rows look too much alike. ``by_ids``: ids were compared
        and are new. Of rows that may be among those set aside, because rows look too much alike to
        tell, it is taken that they are.
        """
        learnt, aside = self.learnt, self.set_aside
        if self.warning is not None:
            raise ValueError(
                f"the model should be that of a trial, got one that is not. {self.warning} What "
                f"rows of a sound trial show of it is told by model.judge(table), which checks "
                f"them first."
            )
        if learnt.contents is None or learnt.is_locked:
            raise ValueError(
                "the model should know the rows that it learnt from, got one that was told to "
                "forget them, or whose key is not beside its file: "
                f"whether these are new cannot be seen. {_ASSERTED}"
            )
        found = learnt.overlap(rows.kinds[learnt.grid])
        is_own = rows.own == self.given or learnt.is_own(*rows.own)
        if is_own or found.is_more:
            share = 1.0 if is_own else found.share
            raise ValueError(
                f"the rows should be new to the model, got rows of which {_percent(share)} are "
                f"rows that it was fitted on, or look like them (chance explains "
                f"{_percent(found.chance)}): what they show is no evidence of how it ranks others. "
                f"Certify on rows that were kept apart, or fit AUUCMax(selection='certificate'), "
                f"which keeps half of them apart."
            )
        if aside is not None and aside.is_own(*rows.own):
            return self.n_candidates
        if not learnt.can_tell(by_ids=by_ids):
            raise ValueError(
                f"the rows should be told from those that the model learnt from, got rows that "
                f"look too much alike: a new one equals a learnt one with a chance of "
                f"{_percent(learnt.repeats)}. {_ASSERTED}"
            )
        if aside is None:
            return self.n_candidates
        known = not aside.can_tell(by_ids=False)
        known = known or aside.overlap(rows.kinds[aside.grid]).is_more
        return self.n_candidates if known else 1


_PLAIN = {
    "n_rows": int, "total": str, "repeats": float, "n_counted": int, "grid": int, "top": str,
    "mark": str,
}  # fmt: skip
_ASSERTED = (
    "If you know that they are new, certify the scores: certify(model.predict(X), y=y, "
    "treatment=t)."
)
_FORGOTTEN = (
    "The model was told to forget its rows: whether it learnt from some of these cannot be seen "
    "here. The numbers hold only if you know that they are new."
)
_NO_KEY = (
    "The key of the model, which is kept beside its file, is not here: whether it learnt from some "
    "of these rows cannot be seen. The numbers hold only if you know that they are new."
)
_ALIKE = (
    "Rows of this trial look too much alike to be told apart by their contents: whether the model "
    "learnt from some of them under other ids cannot be seen here. The numbers hold only if you "
    "know that they are new."
)


def keyed_text(number: int, key: bytes) -> str:
    """A number of 64 bits as a text that tells nothing of it without the key."""
    return f"{int(keyed_hashes(np.array([number], dtype=np.uint64), key)[0]):016x}"


def _is_hash(text: str) -> bool:
    return len(text) == 16 and set(text) <= set("0123456789abcdef")


def _percent(share: float) -> str:
    return f"{share:.0%}" if share >= 0.01 else f"{share:.2%}"
