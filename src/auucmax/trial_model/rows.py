"""The rows of two arms of a table: outcome, treatment, id, and the raw columns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from auucmax._validation import Bools, Floats, check_column, listed, missing_message
from auucmax.data import Trial
from auucmax.data.pieces import PiecedTable
from auucmax.encoding.encoder import text_names
from auucmax.encoding.texts import arm_text, outcome_numbers
from auucmax.trial_model.columns import ColumnNames, check_names

Hashes = NDArray[np.uint64]


class TrialRows(NamedTuple):
    """The rows of the two arms, checked; ``left_out`` counts rows of other arms by label.

    ``positions`` are their places in the table, ``first`` is that of the first among these rows.
    """

    frame: pd.DataFrame
    y: Floats
    treated: Bools
    ids: NDArray[Any] | None
    positions: NDArray[np.intp]
    left_out: dict[str, int]
    first: int = 0

    def keys(self, key: str) -> Hashes:
        """(n,) keyed hashes of the ids, or of the places of the rows in the table."""
        if self.ids is not None:
            return np.asarray(pd.util.hash_array(self.ids, hash_key=key))
        places = np.arange(self.first, self.first + len(self.y)).astype(str).astype(object)
        return np.asarray(pd.util.hash_array(places, hash_key=key))

    def trial(self, columns: ColumnNames) -> Trial:
        """The same rows as the rest of the library takes them."""
        return Trial(
            self.frame[list(columns.features)],
            self.y,
            self.treated.astype(np.int8),
            id=self.ids,
            name="the table",
            outcome_name=columns.outcome,
            treatment_name=columns.treatment,
            arm_names=(columns.control, columns.treated),
        )

    def take(self, rows: NDArray[np.intp]) -> TrialRows:
        """The rows at some places."""
        if len(rows) == len(self.y):
            return self
        ids = None if self.ids is None else self.ids[rows]
        kept = self.frame.iloc[rows], self.y[rows], self.treated[rows], ids, self.positions[rows]
        return TrialRows(*kept, self.left_out, self.first)


def joined(pieces: list[TrialRows]) -> TrialRows:
    """The rows of several pieces of one table as one."""
    if len(pieces) == 1:
        return pieces[0]
    frames, ys, treated, ids, positions, *_ = zip(*pieces, strict=True)
    return TrialRows(
        pd.concat(frames),
        np.concatenate(ys),
        np.concatenate(treated),
        None if ids[0] is None else np.concatenate(ids),
        np.concatenate(positions),
        {},
    )


def trial_rows(frame: pd.DataFrame, columns: ColumnNames) -> TrialRows:
    """The rows of the two arms; missing outcomes, treatments and ids are errors."""
    rows, labels = _rows_of_arms(text_names(frame), columns)
    _check_arms(int(rows.treated.sum()), len(rows.y), labels, columns)
    if columns.id is not None and rows.ids is not None:
        check_ids(rows.ids, columns.id)
    return rows


def trial_pieces(
    table: pd.DataFrame | PiecedTable, columns: ColumnNames, *, check: bool = False
) -> Iterator[TrialRows]:
    """The rows of the two arms, piece by piece; a frame is one piece.

    ``check``: also what only all pieces together show, at the end: both arms are there, and ids
    differ. It takes 8 bytes a row.
    """
    if not isinstance(table, PiecedTable):
        yield trial_rows(table, columns)
        return
    known = [columns.treatment, columns.outcome, *columns.features]
    known += [] if columns.id is None else [columns.id]
    hashes: list[NDArray[np.uint64]] = []
    first, start, n_treated, labels = 0, 0, 0, set[str]()
    for frame in table.pieces(known):
        rows, found = _rows_of_arms(frame, columns)
        yield rows._replace(positions=rows.positions + start, first=first)
        first, start = first + len(rows.y), start + len(frame)
        n_treated, labels = n_treated + int(rows.treated.sum()), labels | set(found)
        if check and rows.ids is not None:
            hashes.append(pd.util.hash_array(rows.ids))
    if check:
        _check_arms(n_treated, first, sorted(labels), columns)
        _check_hashes(hashes, columns)


def _rows_of_arms(frame: pd.DataFrame, columns: ColumnNames) -> tuple[TrialRows, list[str]]:
    """The rows of the two arms, and the labels of all arms."""
    needed = [columns.treatment, columns.outcome, *columns.features]
    check_names(frame, needed + ([] if columns.id is None else [columns.id]))
    arms = frame[columns.treatment]
    if n_missing := int(arms.isna().sum()):
        raise ValueError(missing_message(f"the treatment {columns.treatment!r}", n_missing))
    codes, values = pd.factorize(arms)
    labels = np.array([arm_text(value) for value in values], dtype=object)
    counts = np.bincount(codes, minlength=len(labels))
    ours = np.isin(labels, (columns.treated, columns.control))
    positions = np.flatnonzero(ours[codes])
    treated = np.asarray(labels[codes[positions]] == columns.treated, dtype=bool)
    kept = frame.iloc[positions]
    outcome = kept[columns.outcome]
    if n_missing := int(outcome.isna().sum()):
        raise ValueError(missing_message(f"the outcome {columns.outcome!r}", n_missing))
    y = np.empty(0)
    if len(outcome):  # of a piece, all rows may be of other arms
        y = check_column(outcome_numbers(outcome).to_numpy(), f"the outcome {columns.outcome!r}")
    ids = None if columns.id is None else id_texts(kept[columns.id], columns.id)
    others = {str(labels[k]): int(counts[k]) for k in np.flatnonzero(~ours)}
    return TrialRows(kept, y, treated, ids, positions, others), labels.tolist()


def _check_arms(n_treated: int, n_rows: int, labels: list[str], columns: ColumnNames) -> None:
    if not 0 < n_treated < n_rows:
        raise ValueError(
            f"the treatment {columns.treatment!r} should hold {columns.treated!r} and "
            f"{columns.control!r}, got {listed(labels)}. Check the labels of the arms."
        )


def _check_hashes(hashes: list[NDArray[np.uint64]], columns: ColumnNames) -> None:
    """All ids are different, as far as 64 bits tell."""
    if columns.id is None:
        return
    ordered = np.sort(np.concatenate(hashes))
    n_repeated = int((ordered[1:] == ordered[:-1]).sum())
    if n_repeated:
        raise repeated_ids(columns.id, "one", n_repeated)


def id_texts(column: pd.Series, name: str) -> NDArray[Any]:
    """Ids as texts, all there; 1, 1.0 and "1" are one id."""
    if n_missing := int(column.isna().sum()):
        raise ValueError(missing_message(f"the id {name!r}", n_missing))
    values = column.to_numpy()
    texts = values.astype(str).astype(object)
    if values.dtype.kind == "f":  # value by value: the text of an id is the same in every extract
        whole = (values == np.rint(values)) & (np.abs(values) < 2.0**63)
        texts[whole] = values[whole].astype(np.int64).astype(str)
    return texts


def check_ids(ids: NDArray[Any], name: str) -> None:
    """All are different."""
    repeated = pd.Series(ids)[pd.Series(ids).duplicated()]
    if len(repeated):
        raise repeated_ids(name, repr(repeated.iloc[0]), len(repeated))


def repeated_ids(name: str, example: str, n_repeated: int) -> ValueError:
    return ValueError(
        f"the id {name!r} should be different in every row, got {example} and {n_repeated - 1} "
        f"more again: rows of one id cannot be told apart. Keep one row an id, or leave the id out."
    )
