"""Which columns of a table play which part: roles, arms, features, chances."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple, Self

import numpy as np
import pandas as pd

from auucmax._json import read
from auucmax._validation import (
    Floats,
    check_range,
    control_among,
    listed,
    unknown_columns_message,
)
from auucmax.data.chances import (
    ArmColumns,
    arm_columns,
    names_of,
)
from auucmax.data.outcomes import (
    BINARY,
    MONEY,
    MOST_BEYOND,
    beyond,
    outcome_kind,
    share_beyond,
)
from auucmax.data.reading import table_of
from auucmax.encoding.kinds import (
    arm_text,
    outcome_numbers,
)

_FEWEST_NAMED = 100  # rows, below which numbers of a feature may all differ by chance
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
    ignored: tuple[str, ...] = ()  # not learnt from, but tested as features are
    after: tuple[str, ...] = ()  # recorded after treatment: neither learnt from nor tested
    lower_is_better: bool = False
    drop_missing_outcomes: bool = False
    groups: str | None = None
    categorical: tuple[str, ...] = ()  # features whose numbers the user takes for levels
    numeric: tuple[str, ...] = ()  # and for quantities
    outcome_range: tuple[float, ...] = ()  # lowest and highest outcome that certificates count
    turn: float = 1.0  # what outcomes are subtracted from if lower is better: 1 if 0/1, otherwise 0
    # The chance of treatment of each row, where it was not the same; of several arms that of each.
    propensity: str | ArmColumns | None = None

    @property
    def all(self) -> list[str]:
        """Every column that is read."""
        more = (*self.features, self.id, self.groups, *names_of(self.propensity))
        names = dict.fromkeys(name for name in more if name is not None)
        return [self.treatment, self.outcome, *names]

    @property
    def gain(self) -> str:
        """What there is more of if treatment works."""
        return f"{self.outcome} avoided" if self.lower_is_better else self.outcome

    def in_table(self, y: Floats) -> Floats:
        """Outcomes of rows as the table has them; or, the same, those of the table as rows have."""
        return self.turn - y if self.lower_is_better else y

    def kind(self, y: Floats) -> str:
        """The kind of the outcomes of rows, as the table has them."""
        return outcome_kind(self.in_table(y))

    def bounded(self, y: Floats) -> Bounded | None:
        """What a certificate is told of outcomes: 0/1, or clipped to the range.

        None without a range, or if too much lies beyond it for what is counted to stand for all.
        """
        kind = self.kind(y)
        if kind == BINARY:
            return Bounded((0.0, 1.0), "")
        if not self.outcome_range:
            return None
        low, high = self.outcome_range
        own = self.in_table(y)
        if share_beyond(own, (low, high)) > MOST_BEYOND:
            return None
        told = beyond(own, (low, high), "money" if kind == MONEY else self.outcome)
        told = (
            f"Its numbers are {self.gain} per person, counted from {low:g} to {high:g} only. {told}"
        ).rstrip()
        ends = self.in_table(np.array([low, high]))
        return Bounded((float(ends.min()), float(ends.max())), told)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        return {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(self).items()}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Self:
        """Restore what ``to_dict`` wrote, or raise a ValueError for anything else."""
        columns: Self = read(cls, plain, "columns")
        levels = {*columns.categorical, *columns.numeric}
        if not columns.features or not levels <= set(columns.features):
            raise ValueError("there should be features, levels and quantities among them.")
        if columns.outcome_range:
            check_range(columns.outcome_range, "outcome_range")
        if not isinstance(columns.propensity, str | None) and not all(
            len(pair) == 2 for pair in columns.propensity
        ):
            raise ValueError("chances of arms should be columns by label.")
        return columns


class Bounded(NamedTuple):
    """The range of outcomes that a certificate counts, and a sentence on what lies beyond it."""

    range: tuple[float, float]
    told: str


def name_columns(
    table: Any,
    *,
    treatment: str,
    outcome: str,
    treated: Any = None,
    control: Any = None,
    id: str | None = None,
    groups: str | None = None,
    features: Sequence[str] | None = None,
    ignore: Sequence[str] | None = None,
    after: Sequence[str] | None = None,
    lower_is_better: bool = False,
    drop_missing_outcomes: bool = False,
    categorical: Sequence[str] | None = None,
    numeric: Sequence[str] | None = None,
    outcome_range: Sequence[float] | None = None,
    propensity: str | Mapping[Any, str] | None = None,
) -> ColumnNames:
    """Which columns of a table play which part; parameters as in :func:`fit_trial_model`.

    >>> frame = pd.DataFrame({"mail": ["yes", "no"], "visit": [1, 0], "age": [30, 40]})
    >>> names = name_columns(frame, treatment="mail", outcome="visit", control="no")
    >>> names.treated, names.features
    ('yes', ('age',))
    """
    table = table_of(table)
    treatment, outcome = str(treatment), str(outcome)
    id, groups = (None if name is None else str(name) for name in (id, groups))
    others = (treatment, outcome, id, groups)
    check_names(table, [name for name in others if name is not None])
    chances = _chances(table, treatment, propensity)
    if taken := [name for name in names_of(chances) if name in others]:
        raise ValueError(
            f"propensity should be another column than treatment, outcome, id and groups, got "
            f"{taken[0]!r}. Name the column of chances, between 0 and 1."
        )
    if groups in (treatment, outcome):
        raise ValueError(
            f"groups should be another column than treatment and outcome, got {groups!r}. Name the "
            f"column of the household, or shop."
        )
    known_after, left_out = _named(table, after), _named(table, ignore)
    if features is None:
        left_out = (*left_out, *names_of(chances))  # features only if they are named
    chosen = _features(table, features, others, {*known_after, *left_out})
    used = {*others, *chosen, *known_after, *names_of(chances)}
    return ColumnNames(
        treatment,
        outcome,
        id,
        *_arm_labels(different_values(table, treatment), treatment, treated, control),
        features=chosen,
        ignored=tuple(name for name in table.columns if name not in used),
        after=known_after,
        lower_is_better=bool(lower_is_better),
        drop_missing_outcomes=bool(drop_missing_outcomes),
        groups=groups,
        categorical=_decided(table, "categorical", categorical, chosen),
        numeric=_decided(table, "numeric", numeric, chosen),
        outcome_range=() if outcome_range is None else check_range(outcome_range, "outcome_range"),
        turn=_turn(table, outcome) if lower_is_better else 1.0,
        propensity=chances,
    )


def _chances(
    table: pd.DataFrame, treatment: str, given: str | Mapping[Any, str] | None
) -> str | ArmColumns | None:
    """The column of chances, or those of several arms by label."""
    columns = [str(name) for name in table.columns]
    if given is None or (isinstance(given, str) and given in columns):
        return given
    labels = {arm_text(value) for value in different_values(table, treatment)}
    if isinstance(given, str) and (len(labels) < 3 or f"{given} " not in " ".join(columns)):
        check_names(table, [given])
    if not isinstance(given, str):
        given = {arm_text(label): str(column) for label, column in given.items()}
    return arm_columns(given, labels, columns)


def _turn(table: pd.DataFrame, outcome: str) -> float:
    """1 if the outcomes of a table are 0/1, otherwise 0."""
    values = pd.Series(different_values(table, outcome))
    with suppress(ValueError):  # which is told when the rows are read
        return float(np.isin(outcome_numbers(values).to_numpy(), (0, 1)).all())
    return 1.0


def _decided(
    table: pd.DataFrame,
    option: str,
    names: Sequence[str] | None,
    features: Sequence[str],
) -> tuple[str, ...]:
    """Names of features of which the user says what they hold."""
    found = _named(table, names)
    if others := [name for name in found if name not in features]:
        raise ValueError(
            f"{option} should name columns to learn from, got {listed(others)}. Leave it out, or "
            f"name it among the features."
        )
    return found


def _arm_labels(values: Sequence[Any], name: str, treated: Any, control: Any) -> tuple[str, str]:
    """Labels of the two arms as texts; one that is not given is the other of two.

    A label "control" is the control, unless another one is given.
    """
    labels = sorted({arm_text(value) for value in values}, key=str.lower)
    _check_unlike(labels, name)
    given = {
        k: arm_text(v) for k, v in (("treated", treated), ("control", control)) if v is not None
    }
    for what, label in given.items():
        if label not in labels:
            raise ValueError(
                f"{what} should be one of the labels of {name!r}, {listed(labels)}; got {label!r}. "
                f"Check the spelling."
            )
    usual = control_among(labels)
    if "control" not in given and usual not in (None, given.get("treated")):
        given["control"] = usual
    # No and yes, 0 and 1: which one is treated needs no telling.
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
        f"got the labels {listed(labels)}. Pass treated=... and control=..., two of them; the "
        f"control alone takes all others for arms (in Python: of fit_arms_model)."
    )


def _check_unlike(labels: Sequence[str], name: str) -> None:
    """Raise a ValueError for labels that are surely meant to be one arm: its rows would be lost."""
    spelt: dict[str, list[str]] = {}
    for label in labels:
        spelt.setdefault(" ".join(label.casefold().split()), []).append(label)
    if alike := next((own for own in spelt.values() if len(own) > 1), None):
        raise ValueError(
            f"labels of the treatment {name!r} should differ in more than capitals and blanks, got "
            f"{listed(alike)}. Write them alike, or rename the arms if they are several."
        )


def _features(
    table: pd.DataFrame,
    features: Sequence[str] | None,
    others: tuple[str | None, ...],
    left_out: set[str],
) -> tuple[str, ...]:
    if features is None:
        chosen = [name for name in table.columns if name not in {*others, *left_out}]
        chosen = _without_ids(table, chosen)
    else:
        chosen = list(_named(table, features))
        if wrong := [name for name in chosen if name in others]:
            raise ValueError(
                f"features should be other columns than treatment, outcome and id, or groups, got "
                f"{listed(wrong)}. Leave them out."
            )
    chosen = [name for name in chosen if name not in left_out]
    if not chosen:
        raise ValueError(
            "features should be at least one column, got none beside treatment, outcome and id. "
            "Pass a table with features."
        )
    return tuple(chosen)


def _named(table: pd.DataFrame, names: Sequence[str] | str | None) -> tuple[str, ...]:
    """Names of columns that are there, each once."""
    given = [names] if isinstance(names, str) else names or ()
    found = tuple(dict.fromkeys(str(name) for name in given))
    check_names(table, list(found))
    return found


def _without_ids(table: pd.DataFrame, names: list[str]) -> list[str]:
    """The columns that may be learnt from: one that names each row is an id until told otherwise.

    Texts and whole numbers that are different in every row, of 100 or more, are taken for names.
    A warning says which.
    """
    ids = [name for name in names if names_rows(table[name])]
    if not ids or len(ids) == len(names):
        return names
    warnings.warn(
        f"{listed(ids)} should be features, got another value in every row: taken for ids, and not "
        f"learnt from. Pass features= with them to learn from them all the same.",
        UserWarning,
        stacklevel=4,
    )
    return [name for name in names if name not in ids]


def names_rows(column: pd.Series) -> bool:
    if len(column) < _FEWEST_NAMED or not (
        isinstance(column.dtype, pd.StringDtype)
        or column.dtype == object
        or pd.api.types.is_integer_dtype(column.dtype)
    ):
        return False
    head = column.iloc[:_FEWEST_NAMED]
    try:
        return bool(head.is_unique and column.notna().all() and column.is_unique)
    except TypeError:  # lists, say
        return False


def different_values(table: pd.DataFrame, column: str) -> list[Any]:
    """The values of a column that are there, each once."""
    return table[column].dropna().drop_duplicates().tolist()


def arm_counts(table: Any, treatment: str) -> dict[str, int]:
    """How many rows each label of the treatment has; the label as a text."""
    table = table_of(table, [treatment])
    check_names(table, [treatment])
    found: dict[str, int] = {}
    for value, n in table[treatment].value_counts().items():
        label = arm_text(value)
        found[label] = found.get(label, 0) + int(n)
    return found


def check_named(given: Mapping[str, Any]) -> None:
    """Raise a ValueError unless there are names for the columns of treatment and outcome."""
    for name in ("treatment", "outcome"):
        if given.get(name) is None:
            raise ValueError(
                f"{name} should name a column, got none. Pass {name}=COLUMN, or the model, which "
                f"knows it."
            )


def check_names(frame: pd.DataFrame, names: list[str]) -> None:
    """Raise a ValueError if columns are not there."""
    if unknown := [name for name in names if name not in frame.columns]:
        message = unknown_columns_message("the table", unknown, [str(c) for c in frame.columns])
        raise ValueError(message)
