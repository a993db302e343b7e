"""Rows of a table are dealt to training, calibration and test."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from auucmax._validation import Bools, Floats
from auucmax.trial_model.coincidence import count_outcomes
from auucmax.trial_model.marks import (
    N_LOOKS,
    TEST,
    Hashes,
    RowMarks,
    Short,
    TableMarks,
    parts_of,
    remembered,
    short,
)
from auucmax.trial_model.split import RowSplit

__all__ = ["Dealer", "deal"]

REMEMBERED = 2**22  #: rows, about, of which hashes are kept


def deal(
    marks: RowMarks, *, test_share: float, calibration_share: float, key: str
) -> tuple[RowSplit, NDArray[np.int8]]:
    """The split of a table in one piece, and the part (0, 1, 2) of each of its rows."""
    dealer = Dealer(
        TableMarks.of([marks]),
        key=key,
        test_share=test_share,
        calibration_share=calibration_share,
        by="position" if marks.ids is None else "id",
    )
    parts = dealer(marks)
    return dealer.split(), parts


class Dealer:
    """Deals the rows of a table to the parts, piece by piece, and remembers what it has to."""

    def __init__(
        self, table: TableMarks, *, key: str, test_share: float, calibration_share: float, by: str
    ) -> None:
        self.table, self.key, self.by = table, key, by
        self.test_share, self.calibration_share = test_share, calibration_share
        self.one_in = -(-table.n_rows // REMEMBERED)
        self._ids: list[Hashes] = []
        self._looks: list[list[tuple[Short, Bools]]] = [[] for _ in range(N_LOOKS)]
        self._strata: list[tuple[Short, Floats]] = []
        self._n_test, self._high = 0, np.zeros(2)

    def __call__(self, marks: RowMarks) -> NDArray[np.int8]:
        """The part (0, 1, 2: see PARTS) of each row, (n,)."""
        hashes = marks.hashes(self.key, self.table.digest)
        parts = self._parts(hashes)
        learnt = parts != TEST
        self._n_test += int((~learnt).sum())
        self._high += (marks.y[learnt].sum(), learnt.sum())
        if self.by == "id":
            self._ids.append(hashes[learnt & remembered(hashes, self.one_in)])
        for kept, look in zip(self._looks, short(marks.looks), strict=True):
            some = remembered(look, self.one_in)
            kept.append((look[some], learnt[some]))
        strata = short(marks.strata)
        some = learnt & remembered(strata, self.one_in)
        self._strata.append((strata[some], marks.y[some]))
        return parts

    def parts(self, marks: RowMarks) -> NDArray[np.int8]:
        """The part of each row, of which nothing is remembered."""
        return self._parts(marks.hashes(self.key, self.table.digest))

    def _parts(self, hashes: Hashes) -> NDArray[np.int8]:
        return parts_of(hashes, self.test_share, self.calibration_share)

    def split(self) -> RowSplit:
        """What is to be remembered, when all pieces are dealt."""
        looks = [[np.concatenate(part) for part in zip(*own, strict=True)] for own in self._looks]
        known = [np.unique(look[learnt]) for look, learnt in looks]
        seen = [
            np.isin(look[~learnt], own) for (look, learnt), own in zip(looks, known, strict=True)
        ]
        total, n_learnt = self._high
        high = float(total / n_learnt) if n_learnt else 0.0
        strata, y = (np.concatenate(part) for part in zip(*self._strata, strict=True))
        counts = count_outcomes(strata, y > high)
        return RowSplit(
            key=self.key,
            test_share=self.test_share,
            calibration_share=self.calibration_share,
            by=self.by,
            digest=self.table.digest,
            totals=self.table.totals,
            n_rows=self.table.n_rows,
            n_test=self._n_test,
            chance=tuple(float(rows.mean()) if len(rows) else 0.0 for rows in seen),
            high=high,
            one_in=self.one_in,
            learnt_ids=np.unique(np.concatenate(self._ids or [np.empty(0, dtype=np.uint64)])),
            learnt_rows=tuple(known),
            learnt_strata=counts[:, counts[1] > 1],
        )
