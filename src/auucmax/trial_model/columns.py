"""Which columns of a table play which part, and the labels of the two arms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

import pandas as pd

from auucmax._validation import listed, unknown_columns_message
from auucmax.data.pieces import PiecedTable, pieces_of
from auucmax.encoding.encoder import text_names
from auucmax.encoding.texts import arm_text

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
