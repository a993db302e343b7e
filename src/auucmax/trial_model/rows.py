"""The rows of two arms of a table: outcome, treatment, id, and the raw columns.

Which columns of a table play which part, and the labels of the two arms.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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
from auucmax.encoding.encoder import text_names
from auucmax.encoding.texts import arm_text, outcome_numbers

#: Labels of control and treated that need no telling.
NO_AND_YES = (("0", "1"), ("false", "true"), ("f", "t"), ("no", "yes"), ("n", "y"))


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
        """What ``to_dict`` wrote; ValueError for anything that it cannot have written."""
        if not isinstance(plain, Mapping) or set(plain) != set(cls.__dataclass_fields__):
            raise ValueError("columns should have the entries that to_dict writes, got others.")
        columns = cls(**{**plain, "features": tuple(plain["features"])})
        texts = [columns.treatment, columns.outcome, columns.treated, columns.control]
        texts += [*columns.features] + ([] if columns.id is None else [columns.id])
        if not columns.features or not all(type(text) is str for text in texts):
            raise ValueError("the names of columns should be texts, got something else.")
        return columns


def name_columns(
    table: pd.DataFrame | PiecedTable,
    *,
    treatment: str,
    outcome: str,
    treated: Any = None,
    control: Any = None,
    id: str | None = None,
    features: Sequence[str] | None = None,
) -> ColumnNames:
    """Which columns of a table play which part; parameters as in :func:`fit_trial_model`.

    >>> frame = pd.DataFrame({"mail": ["yes", "no"], "visit": [1, 0], "age": [30, 40]})
    >>> names = name_columns(frame, treatment="mail", outcome="visit", control="no")
    >>> names.treated, names.features
    ('yes', ('age',))
    """
    if not isinstance(table, PiecedTable):
        table = text_names(table)
    treatment, outcome = str(treatment), str(outcome)
    id = None if id is None else str(id)
    check_names(table, [name for name in (treatment, outcome, id) if name is not None])
    return ColumnNames(
        treatment,
        outcome,
        id,
        *_arm_labels(different_values(table, treatment), treatment, treated, control),
        features=_features(table, features, (treatment, outcome, id)),
    )


def _arm_labels(values: Sequence[Any], name: str, treated: Any, control: Any) -> tuple[str, str]:
    """Labels of the two arms as texts; one that is not given is the other of two."""
    labels = sorted({arm_text(value) for value in values}, key=str.lower)
    given = {
        k: arm_text(v) for k, v in (("treated", treated), ("control", control)) if v is not None
    }
    for what, label in given.items():
        if label not in labels:
            raise ValueError(
                f"{what} should be one of the labels of {name!r}, {listed(labels)}; got {label!r}. "
                f"Check the spelling."
            )
    if not given and tuple(label.lower() for label in labels) in NO_AND_YES:
        return labels[1], labels[0]
    if len(given) == 2 and given["treated"] != given["control"]:
        return given["treated"], given["control"]
    if len(given) == 1 and len(labels) == 2:
        ((what, label),) = given.items()
        other = labels[1 - labels.index(label)]
        return (label, other) if what == "treated" else (other, label)
    raise ValueError(
        f"the treatment {name!r} should be 0/1 or boolean, or come with the labels of two arms; "
        f"got the labels {listed(labels)}. Pass treated=... and control=..., two of them."
    )


def _features(
    table: pd.DataFrame | PiecedTable,
    features: Sequence[str] | None,
    others: tuple[str | None, ...],
) -> tuple[str, ...]:
    if features is None:
        chosen = [name for name in table.columns if name not in others]
    else:
        given = [features] if isinstance(features, str) else features
        chosen = list(dict.fromkeys(str(name) for name in given))
        check_names(table, chosen)
        if wrong := [name for name in chosen if name in others]:
            raise ValueError(
                f"features should be other columns than treatment, outcome and id, got "
                f"{listed(wrong)}. Leave them out."
            )
    if not chosen:
        raise ValueError(
            "features should be at least one column, got none beside treatment, outcome and id. "
            "Pass a table with features."
        )
    return tuple(chosen)


def different_values(table: pd.DataFrame | PiecedTable, column: str) -> list[Any]:
    """The values of a column that are there, each once."""
    found = [piece[column].dropna().drop_duplicates() for piece in pieces_of(table, [column])]
    return pd.concat(found).drop_duplicates().tolist()


def check_names(frame: pd.DataFrame | PiecedTable, names: list[str]) -> None:
    """All columns are there."""
    if unknown := [name for name in names if name not in frame.columns]:
        message = unknown_columns_message("the table", unknown, [str(c) for c in frame.columns])
        raise ValueError(message)


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
