"""The fitted product: a raw table in, scores and uplift out, and an honest set of rows to judge."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from auucmax._validation import Bools, Floats
from auucmax.data.pieces import PiecedTable, sampled
from auucmax.encoding import TableEncoder
from auucmax.targeting import Calibration
from auucmax.trial_model.marks import RowMarks, TableMarks
from auucmax.trial_model.rows import (
    ColumnNames,
    TrialRows,
    check_unchanged,
    trial_pieces,
    trial_rows,
)
from auucmax.trial_model.split import Judgement, RowSplit

__all__ = ["HeldOut", "JudgedRows", "ModelRows", "TrialModel"]

MAX_JUDGED = 2_000_000  #: rows of a table in pieces that a model is judged on; fewer if wide
_JUDGED_BYTES = 2**30

Read = Callable[[], Iterable[tuple[TrialRows, RowMarks]]]


class JudgedRows(NamedTuple):
    """Outcome, score and treatment (0/1) of the test rows, (n,) each: what the evidence is from."""

    y: Floats
    score: Floats
    treatment: NDArray[np.int8]


@dataclass(frozen=True, eq=False)
class ModelRows:
    """Some rows of a table: ``frame``, ``y`` and ``treatment`` (0/1) have a row each.

    ``positions`` are the places of the rows in the table that was given.
    """

    frame: pd.DataFrame = field(repr=False)
    y: Floats = field(repr=False)
    treatment: NDArray[np.int8] = field(repr=False)
    positions: NDArray[np.intp] = field(repr=False)


@dataclass(frozen=True, eq=False)
class HeldOut(ModelRows):
    """Rows that a model may be judged on.

    ``seen_before`` is whether rows that the model learnt from were in the table and are left out;
    ``note`` says so in words. ``is_sure`` is whether ids or contents tell that no other is among
    these; if not, nothing should be certified from them.
    """

    seen_before: bool
    note: str
    is_sure: bool


@dataclass(eq=False)
class TrialModel:
    """What :func:`fit_trial_model` makes: encoder, estimator, calibration and evidence.

    Attributes
    ----------
    encoder : :class:`TableEncoder`, fitted on the train rows.
    estimator : the fitted estimator of encoded rows. model_name : its name.
    columns : :class:`ColumnNames`. split : :class:`RowSplit`.
    calibration : score -> uplift, fitted on the calibration rows; None without such rows.
    summary : plain JSON: rows, randomisation, test AUUC with interval, certificate, warnings.
    test_rows : :class:`JudgedRows`, to tell what to expect of a policy without the table.
    """

    encoder: TableEncoder
    estimator: Any
    model_name: str
    columns: ColumnNames
    split: RowSplit
    calibration: Calibration | None
    summary: dict[str, Any]
    test_rows: JudgedRows

    def predict(self, frame: pd.DataFrame) -> Floats:
        """Scores, (n,), of any rows with the feature columns: the higher, the sooner to treat."""
        if len(frame) == 0:
            raise ValueError("the table should have rows to score, got none. Check its source.")
        return np.asarray(self.estimator.predict(self.encoder.transform(frame)), dtype=np.float64)

    def uplift(self, frame: pd.DataFrame) -> Floats:
        """Estimated uplift per person, (n,): the calibrated score."""
        if self.calibration is None:
            raise ValueError(
                "the model should have been fitted with calibration rows to tell uplift, got none. "
                "Fit it with calibration_share > 0, or use predict, whose order is the same."
            )
        return np.asarray(self.calibration(self.predict(frame)))

    def held_out(self, table: pd.DataFrame | PiecedTable) -> HeldOut:
        """The rows of a table that this model may be judged on.

        Of the file that it was fitted on, the test rows; of another, all rows. With ids that is
        decided row by row. A file without ids that holds rows of the fit in another order, or not
        all of them, is refused, and so is one with its rows under other ids; single rows that look
        like such are left out. Where rows are too much alike for that, ``note`` says so.

        Of a table that is read in pieces, at most 2 million such rows, drawn at random. Of a model
        whose table had more than 4 million rows not every id is remembered: if some are known, all
        rows whose id would have put them among those that were learnt from are left out.
        """
        read = self._reader(table)
        found = self.split.judge(lambda: (marks for _, marks in read()))
        n_most, kept = found.n_usable, []
        if isinstance(table, PiecedTable):
            n_most = min(MAX_JUDGED, table.rows_in(_JUDGED_BYTES))

        def judged() -> Iterator[RowMarks]:
            for rows, marks in read():
                some = sampled(rows.positions, n_most, found.n_usable)
                kept.append(rows.some(found.usable(marks) & some))
                yield marks

        if isinstance(table, PiecedTable):
            check_unchanged(TableMarks.of(judged()), found.table, table)
        else:
            list(judged())
        held = _joined(kept)
        _check_arms_remain(held.treatment == 1, found.table.n_rows)
        note, is_sure = _note(found, self.split), found.told or self.split.by == "id"
        if len(held.y) < found.n_usable:
            note = f"{note} Of these, {len(held.y):,} are judged, drawn at random."
        return HeldOut(
            held.frame, held.y, held.treatment, held.positions, found.seen, note, is_sure
        )

    def learnt(self, frame: pd.DataFrame) -> ModelRows:
        """The rows of a table that the model was fitted or calibrated on."""
        ((rows, marks),) = (read := self._reader(frame))()
        found = self.split.judge(lambda: (marks for _, marks in read()))
        _check_seen(found.seen)
        return ModelRows(*rows.some(~found.usable(marks)))

    def trained(self, frame: pd.DataFrame) -> ModelRows:
        """The rows of a table that the model was fitted on, without those of the calibration."""
        ((rows, marks),) = (read := self._reader(frame))()
        trained = self.split.judge(lambda: (marks for _, marks in read())).trained(marks)
        _check_seen(bool(trained.any()))
        return ModelRows(*rows.some(trained))

    def _reader(self, table: pd.DataFrame | PiecedTable) -> Read:
        """The rows with their marks, piece by piece, as often as it is called."""
        features = self.columns.features
        if isinstance(table, PiecedTable):
            times = count()
            return lambda: (
                (rows, rows.marks(features))
                for rows in trial_pieces(table, self.columns, check=next(times) == 0)
            )
        rows = trial_rows(table, self.columns)
        both = [(rows, rows.marks(features))]
        return lambda: both

    def __repr__(self) -> str:
        return (
            f"TrialModel({self.model_name!r}, {len(self.columns.features)} columns, outcome "
            f"{self.columns.outcome!r}, treatment {self.columns.treatment!r})"
        )


def _joined(
    pieces: list[tuple[pd.DataFrame, Floats, NDArray[np.int8], NDArray[np.intp]]],
) -> ModelRows:
    if len(pieces) == 1:
        return ModelRows(*pieces[0])
    frames, *columns = zip(*pieces, strict=True)
    return ModelRows(pd.concat(frames), *map(np.concatenate, columns))


_NO_EVIDENCE = (
    "the others are rows that the model was fitted or calibrated on, which are no evidence."
)
_BY_ID_ALONE = (
    "This goes by their ids alone, for rows of this table look too much alike to be known by their "
    "contents: the numbers hold only if ids are written as in the file of the fit."
)


def _note(found: Judgement, split: RowSplit) -> str:
    """Which rows are judged, and how sure it is that the model has not learnt from them."""
    n, n_usable = found.table.n_rows, found.n_usable
    if split.by == "id":
        what = f"{n_usable:,} of {n:,} rows: {_NO_EVIDENCE}"
        if not found.seen:
            what = f"All {n_usable:,} rows are new to the model."
        return what if found.told else f"{what} {_BY_ID_ALONE}"
    if found.seen:
        return f"{n_usable:,} of {n:,} rows: {_NO_EVIDENCE}"
    if not found.told:
        return (
            f"All {n_usable:,} rows. Rows of this table look too much alike to be told apart "
            f"without ids: whether the model learnt from some of them cannot be seen here. The "
            f"numbers hold only if you know that they are new."
        )
    if found.n_alike:
        return (
            f"{n_usable:,} of {n:,} rows: the others look like rows that the model was fitted or "
            f"calibrated on, and are left out."
        )
    return f"All {n_usable:,} rows: no row was recognised as one that the model learnt from."


def _check_seen(seen: bool) -> None:
    if not seen:
        raise ValueError(
            "the table should hold rows that the model was fitted on, got none of them. Pass the "
            "file of the fit."
        )


def _check_arms_remain(treated: Bools, n_given: int) -> None:
    if treated.any() and not treated.all():
        return
    raise ValueError(
        f"rows of both arms should be left to judge the model on, got {int(treated.sum())} treated "
        f"of {len(treated)} rows that are new to it, of {n_given} in the table. Pass the whole "
        f"file that it was fitted on, or new rows of both arms."
    )
