"""From a table to the rows of a trial: which column plays which part, and the rows of two arms."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from auucmax._validation import (
    Bools,
    Floats,
    check_column,
    listed,
    missing_message,
    unknown_columns_message,
)
from auucmax.data import Trial
from auucmax.data.pieces import PiecedTable, pieces_of
from auucmax.data.table_errors import changed_message
from auucmax.encoding.encoder import text_names
from auucmax.encoding.texts import arm_text, outcome_numbers
from auucmax.trial_model.marks import (
    RowMarks,
    TableMarks,
    check_ids,
    id_texts,
    mark_rows,
    repeated_ids,
)

__all__ = [
    "ColumnNames",
    "TrialRows",
    "check_names",
    "check_unchanged",
    "different_values",
    "trial_pieces",
    "trial_rows",
]


@dataclass(frozen=True)
class ColumnNames:
    """Columns of the table, and the labels of the two arms, as texts."""

    treatment: str
    outcome: str
    id: str | None
    treated: str
    control: str
    features: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        return asdict(self) | {"features": list(self.features)}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Self:
        """What ``to_dict`` wrote; ValueError if it cannot have."""
        if not isinstance(plain, Mapping) or set(plain) != set(cls.__dataclass_fields__):
            raise ValueError("columns should have the entries that to_dict writes, got others.")
        columns = cls(**{**plain, "features": tuple(plain["features"])})
        texts = [columns.treatment, columns.outcome, columns.treated, columns.control]
        texts += [*columns.features] + ([] if columns.id is None else [columns.id])
        if not columns.features or not all(type(text) is str for text in texts):
            raise ValueError("the names of columns should be texts, got something else.")
        return columns


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

    def marks(self, features: tuple[str, ...]) -> RowMarks:
        features_ = self.frame[list(features)]
        return mark_rows(features_, self.y, self.treated, self.ids, self.first)

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

    def take(self, rows: Bools) -> TrialRows:
        """Some of the rows."""
        ids = None if self.ids is None else self.ids[rows]
        kept = self.frame[rows], self.y[rows], self.treated[rows], ids, self.positions[rows]
        return TrialRows(*kept, self.left_out, self.first)

    def some(self, rows: Bools) -> tuple[pd.DataFrame, Floats, NDArray[np.int8], NDArray[np.intp]]:
        """Frame, outcome, treatment and positions of some of the rows."""
        treatment = self.treated[rows].astype(np.int8)
        return self.frame[rows], self.y[rows], treatment, self.positions[rows]


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


def check_unchanged(now: TableMarks, before: TableMarks, table: pd.DataFrame | PiecedTable) -> None:
    """A table gives the same rows in the same order every time it is read."""
    if now != before:
        name = table.name if isinstance(table, PiecedTable) else "the table"
        raise ValueError(changed_message(name))


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


def different_values(table: pd.DataFrame | PiecedTable, column: str) -> list[Any]:
    """The values of a column that are there, each once."""
    found = [piece[column].dropna().drop_duplicates() for piece in pieces_of(table, [column])]
    return pd.concat(found).drop_duplicates().tolist()


def check_names(frame: pd.DataFrame | PiecedTable, names: list[str]) -> None:
    """All columns are there."""
    if unknown := [name for name in names if name not in frame.columns]:
        message = unknown_columns_message("the table", unknown, [str(c) for c in frame.columns])
        raise ValueError(message)
