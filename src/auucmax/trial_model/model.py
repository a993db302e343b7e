"""The fitted product: a raw table in, scores and uplift out, and an honest set of rows to judge."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from auucmax._validation import Bools, Floats, check_column, listed, missing_message
from auucmax.data import Trial
from auucmax.data.table_errors import unknown_columns_message
from auucmax.data.text_types import outcome_numbers
from auucmax.estimators.level_texts import level_text
from auucmax.estimators.table_encoder import TableEncoder, text_names
from auucmax.targeting import Calibration
from auucmax.trial_model.split import Judgeable, RowMarks, RowSplit, id_texts, mark_rows

__all__ = [
    "ColumnNames",
    "HeldOut",
    "JudgedRows",
    "ModelRows",
    "TrialModel",
    "TrialRows",
    "check_names",
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
    """The rows of the two arms, checked; ``left_out`` counts rows of other arms by label."""

    frame: pd.DataFrame
    y: Floats
    treated: Bools
    ids: NDArray[Any] | None
    positions: NDArray[np.intp]
    left_out: dict[str, int]

    def marks(self, features: tuple[str, ...]) -> RowMarks:
        return mark_rows(self.frame[list(features)], self.y, self.treated, self.ids)

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

    def some(self, rows: Bools) -> tuple[pd.DataFrame, Floats, NDArray[np.int8], NDArray[np.intp]]:
        """Frame, outcome, treatment and positions of some of the rows."""
        treatment = self.treated[rows].astype(np.int8)
        return self.frame[rows], self.y[rows], treatment, self.positions[rows]


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

    def held_out(self, frame: pd.DataFrame) -> HeldOut:
        """The rows of a table that this model may be judged on.

        Of the file that it was fitted on, the test rows; of another, all rows. With ids that is
        decided row by row. A file without ids that holds rows of the fit in another order, or not
        all of them, is refused, and so is one with its rows under other ids; single rows that look
        like such are left out. Where rows are too much alike for that, ``note`` says so.
        """
        rows, found = self._judgeable(frame)
        _check_arms_remain(rows.treated[found.usable], len(rows.y))
        is_sure = found.told or self.split.by == "id"
        return HeldOut(*rows.some(found.usable), found.seen, _note(found, self.split), is_sure)

    def learnt(self, frame: pd.DataFrame) -> ModelRows:
        """The rows of a table that the model was fitted or calibrated on."""
        rows, found = self._judgeable(frame)
        _check_seen(found.seen)
        return ModelRows(*rows.some(~found.usable))

    def trained(self, frame: pd.DataFrame) -> ModelRows:
        """The rows of a table that the model was fitted on, without those of the calibration."""
        rows, found = self._judgeable(frame)
        _check_seen(bool(found.trained.any()))
        return ModelRows(*rows.some(found.trained))

    def _judgeable(self, frame: pd.DataFrame) -> tuple[TrialRows, Judgeable]:
        rows = trial_rows(frame, self.columns)
        return rows, self.split.judgeable(rows.marks(self.columns.features))

    def __repr__(self) -> str:
        return (
            f"TrialModel({self.model_name!r}, {len(self.columns.features)} columns, outcome "
            f"{self.columns.outcome!r}, treatment {self.columns.treatment!r})"
        )


def trial_rows(frame: pd.DataFrame, columns: ColumnNames) -> TrialRows:
    """The rows of the two arms; missing outcomes, treatments and ids are errors."""
    frame = text_names(frame)
    features = list(columns.features)
    needed = [columns.treatment, columns.outcome, *features]
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
    if not len(positions) or treated.all() or not treated.any():
        raise ValueError(
            f"the treatment {columns.treatment!r} should hold {columns.treated!r} and "
            f"{columns.control!r}, got {listed(labels.tolist())}. Check the labels of the arms."
        )
    kept = frame.iloc[positions]
    outcome = kept[columns.outcome]
    if n_missing := int(outcome.isna().sum()):
        raise ValueError(missing_message(f"the outcome {columns.outcome!r}", n_missing))
    y = check_column(outcome_numbers(outcome).to_numpy(), f"the outcome {columns.outcome!r}")
    ids = None if columns.id is None else id_texts(kept[columns.id], columns.id)
    others = {str(labels[k]): int(counts[k]) for k in np.flatnonzero(~ours)}
    return TrialRows(kept, y, treated, ids, positions, others)


def arm_text(value: Any) -> str:
    """A label of an arm; booleans are the same in all files.

    >>> arm_text("True"), arm_text(True), arm_text(1.0), arm_text("Mail")
    ('true', 'true', '1', 'Mail')
    """
    text = level_text(value)
    return text.lower() if text.lower() in ("true", "false") else text


def check_names(frame: pd.DataFrame, names: list[str]) -> None:
    """All columns are there."""
    if unknown := [name for name in names if name not in frame.columns]:
        message = unknown_columns_message("the table", unknown, [str(c) for c in frame.columns])
        raise ValueError(message)


_NO_EVIDENCE = (
    "the others are rows that the model was fitted or calibrated on, which are no evidence."
)
_BY_ID_ALONE = (
    "This goes by their ids alone, for rows of this table look too much alike to be known by their "
    "contents: the numbers hold only if ids are written as in the file of the fit."
)


def _note(found: Judgeable, split: RowSplit) -> str:
    """Which rows are judged, and how sure it is that the model has not learnt from them."""
    n, n_usable = len(found.usable), int(found.usable.sum())
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
