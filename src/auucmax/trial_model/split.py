"""Which rows a model learns from, is calibrated on and is judged on; and how to tell them again.

The part of a row follows from a keyed hash of its id, so it stays the same in any order and any
extract of the table. Without ids it follows from the row's position and the contents of the whole
file: the same file has the same parts, whatever the format it is stored in, and a file that was
reordered or changed is refused if more of its rows look like rows that the model learnt from than
chance explains. So is a file whose ids are new and whose rows are not, for ids can be written in
several ways. It is no protection against someone who wants to deceive: it is there to catch a slip.

Where rows are alike, and looks (:mod:`auucmax.trial_model.marks`) tell little, outcomes of the same
features and treatment are compared: those of rows that were learnt from agree too well.

Of large tables not all is remembered: only hashes that ``one_in`` divides, of ids, looks and strata
alike, and only those of other tables are compared with them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from auucmax._validation import Bools
from auucmax.trial_model.coincidence import agrees_too_well, count_outcomes, sum_outcomes
from auucmax.trial_model.marks import (
    KEY_LENGTH,
    N_LOOKS,
    TEST,
    TRAIN,
    Hashes,
    RowMarks,
    Short,
    TableMarks,
    parts_of,
    remembered,
    short,
)

__all__ = ["Judgement", "RowSplit"]

_SLACK = 0.05  # a new population may repeat itself more often: by this at most, and twice as often
_ENOUGH = 100  # hashes to compare, where not all are remembered, before none means no row
_TOLD_APART = 0.01  # below this chance, a row that looks like a known one is taken for it

Pieces = Callable[[], Iterable[RowMarks]]


@dataclass(frozen=True, eq=False)
class Judgement:
    """Which rows of a table a model has not learnt from, piece by piece.

    ``seen``: rows that it learnt from are there, known by their ids or by the file. ``n_alike``: so
    many others are left out because they look like such rows. ``told``: no usable row can be one
    that it learnt from, or rows differ so much that this would have been seen. ``n_usable`` of the
    rows of the ``table`` are left.
    """

    rows_of: Callable[[RowMarks], tuple[Bools, Bools]]
    table: TableMarks
    n_usable: int
    seen: bool
    n_alike: int = 0
    told: bool = True

    def usable(self, marks: RowMarks) -> Bools:
        """Rows that the model has not learnt from, (n,)."""
        return self.rows_of(marks)[0]

    def trained(self, marks: RowMarks) -> Bools:
        """Rows that it was trained on, (n,)."""
        return self.rows_of(marks)[1]


@dataclass(frozen=True, eq=False)
class RowSplit:
    """How rows were dealt into train, calibration and test, and which the model learnt from.

    ``by`` is "id" or "position". ``digest``, ``totals`` and ``n_rows`` are of the table.
    ``chance`` is the share of the ``n_test`` test rows that look like a learnt row, for each look:
    what to expect of new rows. ``high`` is the outcome above which one counts as high. Of train and
    calibration rows there are ``learnt_ids``, sorted hashes of ids (none by position),
    ``learnt_rows``, sorted short hashes of each look, and ``learnt_strata``, see
    ``count_outcomes``, of which only those with two rows or more are kept; of each, the hashes that
    ``one_in`` divides.
    """

    key: str
    test_share: float
    calibration_share: float
    by: str
    digest: str
    totals: tuple[str, ...]
    n_rows: int
    n_test: int
    chance: tuple[float, ...]
    high: float
    one_in: int
    learnt_ids: Hashes = field(repr=False)
    learnt_rows: tuple[Short, ...] = field(repr=False)
    learnt_strata: Short = field(repr=False)

    @property
    def tells_apart(self) -> bool:
        """Whether rows differ so much that a row can be known by its contents."""
        return self.chance[0] < _TOLD_APART

    def judge(self, pieces: Pieces) -> Judgement:
        """Which rows the model has not learnt from; ValueError if that cannot be told.

        ``pieces`` gives the marks of the table from its first row on; it is called up to three
        times.
        """
        table, has_ids, n_known = self._first_look(pieces)
        if self.by == "id" and has_ids:
            return self._by_id(pieces, table, n_known)
        if table.digest == self.digest:
            return Judgement(self._of_file, table, self.n_test, seen=True)
        self._check_order(table, has_ids)
        leaves_out = self.tells_apart
        overlap = _Overlap(self)
        for marks in pieces():
            overlap.add(marks, np.ones(marks.n_rows, dtype=bool))
        overlap.check()
        n_alike = int(overlap.n_known[0]) if leaves_out else 0
        return Judgement(
            self._of_new_rows if leaves_out else _everyone,
            table,
            table.n_rows - n_alike,
            False,
            n_alike,
            self.tells_apart and self._has_met(table),
        )

    def _has_met(self, table: TableMarks) -> bool:
        """Whether so many hashes are compared that rows of the fit would have been met."""
        return self.one_in == 1 or table.n_rows >= _ENOUGH * self.one_in

    def _first_look(self, pieces: Pieces) -> tuple[TableMarks, bool, int]:
        """The table, whether it has ids, and how many of them are remembered ones."""
        has_ids, n_known = False, 0

        def looked_at() -> Iterable[RowMarks]:
            nonlocal has_ids, n_known
            for marks in pieces():
                if self.by == "id" and marks.ids is not None:
                    has_ids = True
                    known = np.isin(marks.hashes(self.key, ""), self.learnt_ids)
                    n_known += int(known.sum())
                yield marks

        return TableMarks.of(looked_at()), has_ids, n_known

    def _by_id(self, pieces: Pieces, table: TableMarks, n_known: int) -> Judgement:
        is_changed = table.digest != self.digest
        if is_changed and n_known < len(self.learnt_ids):
            self._check_order(table, has_ids=True)
        overlap, n_usable, has_others = _Overlap(self), 0, False
        seen = n_known > 0 or not self._has_met(table)

        def rows_of(marks: RowMarks) -> tuple[Bools, Bools]:
            hashes = marks.hashes(self.key, self.digest)
            parts = self._parts(hashes)
            known = np.isin(hashes, self.learnt_ids)
            if self.one_in > 1:  # not all ids are remembered: the part decides
                known = (parts != TEST) & seen
            return ~known, known & (parts == TRAIN)

        for marks in pieces():
            usable, _ = rows_of(marks)
            n_usable += int(usable.sum())
            if is_changed:
                overlap.add(marks, usable)
            # Rows of the fit are known or test rows: any other id is of a new row, or anew written.
            learnt = self._parts(marks.hashes(self.key, self.digest)) != TEST
            has_others = has_others or bool((usable & learnt).any())
        overlap.check()
        told = self.tells_apart or not has_others
        return Judgement(rows_of, table, n_usable, seen, told=told)

    def _of_file(self, marks: RowMarks) -> tuple[Bools, Bools]:
        """Of the very file of the fit, by position."""
        parts = self._parts(marks.hashes(self.key, self.digest))
        return parts == TEST, parts == TRAIN

    def _of_new_rows(self, marks: RowMarks) -> tuple[Bools, Bools]:
        """Of another file: a row that looks like one of the fit is taken for it."""
        alike = np.isin(short(marks.looks[0]), self.learnt_rows[0])
        return ~alike, np.zeros(marks.n_rows, dtype=bool)

    def _parts(self, hashes: Hashes) -> NDArray[np.int8]:
        return parts_of(hashes, self.test_share, self.calibration_share)

    def _check_order(self, table: TableMarks, has_ids: bool) -> None:
        """ValueError for the rows of the fit in another order, however much they look alike."""
        telling = [k == 0 or self.chance[k] < _TOLD_APART for k in range(N_LOOKS)]
        equal = [a == b for a, b in zip(table.totals, self.totals, strict=True)]
        if table.n_rows == self.n_rows and (np.array(telling) & equal).any():
            how = "under other ids" if has_ids else "in another order"
            raise ValueError(self.refusal(f"got these rows {how}"))

    def refusal(self, got: str) -> str:
        """Why the rows cannot be judged."""
        why, advice = "there are no ids", "fit the model with an id column"
        if self.by == "id":
            why, advice = "their ids are new", "write the ids as they are written there"
        return (
            f"the rows should be the file that the model was fitted on, in its order, or rows that "
            f"are new to it; {got}, and {why}, so the others cannot be told. Pass the file as it "
            f"was, or {advice}."
        )

    def explained(self, chance: float, n: int) -> float:
        """The largest share of n new rows that look like learnt ones, by chance.

        4 standard errors above what the test rows have; two successes and two failures more keep a
        count of none from being taken for certainty.
        """
        n_test = self.n_test / self.one_in
        p = (chance * n_test + 2) / (n_test + 4)
        error = np.sqrt(p * (1 - p) * (1 / n + 1 / (n_test + 4)))
        return float(p + min(_SLACK, chance) + 4 * error)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON, without the hashes of rows."""
        plain = {name: getattr(self, name) for name in _PLAIN}
        return plain | {"totals": list(self.totals), "chance": list(self.chance)}

    @classmethod
    def from_dict(
        cls,
        plain: Mapping[str, Any],
        learnt_ids: Hashes,
        learnt_rows: Sequence[Short],
        learnt_strata: Short,
    ) -> Self:
        """What ``to_dict`` wrote; ValueError if it cannot have."""
        if not isinstance(plain, Mapping) or set(plain) != set(_PLAIN):
            raise ValueError("a split should have the entries that to_dict writes, got others.")
        texts = [plain[name] for name in ("key", "by", "digest")]
        shares = [plain[name] for name in ("test_share", "calibration_share")]
        right = (
            all(type(text) is str for text in texts)
            and all(type(share) is float and 0 <= share < 1 for share in shares)
            and 0 < sum(shares) < 1
            and all(type(plain[name]) is int and plain[name] >= 0 for name in ("n_rows", "n_test"))
            and _is_triple(plain["chance"], float)
            and all(0 <= chance <= 1 for chance in plain["chance"])
            and _is_triple(plain["totals"], str)
            and type(plain["one_in"]) is int
            and plain["one_in"] > 0
            and type(plain["high"]) is float
            and np.isfinite(plain["high"])
            and len(plain["key"]) == KEY_LENGTH
            and plain["key"].isascii()
            and plain["by"] in ("id", "position")
        )
        if not right or len(learnt_rows) != N_LOOKS:
            raise ValueError("a split should hold shares, a key and a digest, got other values.")
        values = {name: plain[name] for name in _PLAIN}
        values |= {name: tuple(plain[name]) for name in ("totals", "chance")}
        return cls(
            **values,
            learnt_ids=learnt_ids,
            learnt_rows=tuple(learnt_rows),
            learnt_strata=learnt_strata,
        )


class _Overlap:
    """Whether more rows of a table look like learnt rows than new rows would by chance."""

    def __init__(self, split: RowSplit) -> None:
        self.split = split
        self.n_rows, self.n_known = np.zeros((2, N_LOOKS), dtype=np.int64)
        self._strata: list[Short] = []

    def add(self, marks: RowMarks, rows: Bools) -> None:
        """Some rows of a piece."""
        split = self.split
        for k, (look, learnt) in enumerate(zip(marks.looks, split.learnt_rows, strict=True)):
            own = short(look[rows])
            self.n_rows[k] += int(remembered(own, split.one_in).sum())
            self.n_known[k] += int(np.isin(own, learnt).sum())
        strata = short(marks.strata)
        both = rows & np.isin(strata, split.learnt_strata[0])
        self._strata.append(count_outcomes(strata[both], marks.y[both] > split.high))

    def check(self) -> None:
        """ValueError if so."""
        split = self.split
        for n, n_known, chance in zip(self.n_rows, self.n_known, split.chance, strict=True):
            if n and n_known / n > split.explained(chance, int(n)):
                share = _percent(float(n_known / n))
                rows_got = f"rows of which {share} look like rows that it was fitted on"
                raise ValueError(split.refusal(f"got {rows_got}"))
        if self._strata and agrees_too_well(split.learnt_strata, sum_outcomes(self._strata)):
            rows_got = "rows whose outcomes agree with rows that it was fitted on as no new rows do"
            raise ValueError(split.refusal(f"got {rows_got}"))


_PLAIN = (
    "key", "test_share", "calibration_share", "by", "digest", "totals", "n_rows", "n_test",
    "chance", "high", "one_in",
)  # fmt: skip


def _is_triple(values: Any, kind: type) -> bool:
    """One value of a kind for each look, in a list of JSON."""
    is_list = type(values) is list and len(values) == N_LOOKS
    return is_list and all(type(value) is kind for value in values)


def _percent(share: float) -> str:
    return f"{share:.0%}" if share >= 0.01 else f"{share:.2%}"


def _everyone(marks: RowMarks) -> tuple[Bools, Bools]:
    return np.ones(marks.n_rows, dtype=bool), np.zeros(marks.n_rows, dtype=bool)
