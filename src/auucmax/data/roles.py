"""The role of each column of a table in a trial."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import pandas as pd

from auucmax._errors import InputError
from auucmax._validation import check_range, control_among, listed, unknown_columns_message
from auucmax.data.chances import arm_columns
from auucmax.data.outcomes import outcome_kind
from auucmax.encoding.kinds import arm_text, outcome_numbers
from auucmax.results import Kind, Outcome, Roles

FEWEST_ROWS = 40  #: of an arm among several; one with fewer is left out
_FEWEST_NAMED = 100  # rows below which a feature may be unique in every row by chance
#: Labels of control and treated that need no explanation.
NO_AND_YES = (("0", "1"), ("false", "true"), ("f", "t"), ("no", "yes"), ("n", "y"))


def name_roles(
    table: pd.DataFrame,
    *,
    treatment: str,
    outcome: str,
    treated: Any = None,
    control: Any = None,
    id: str | None = None,
    groups: str | None = None,
    propensity: str | Mapping[Any, str] | None = None,
    features: Sequence[str] | None = None,
    ignore: Sequence[str] | None = None,
    after: Sequence[str] | None = None,
    categorical: Sequence[str] | None = None,
    numeric: Sequence[str] | None = None,
    lower_is_better: bool = False,
    outcome_range: Sequence[float] | None = None,
    drop_missing_outcomes: bool = False,
) -> Roles:
    """Determine the roles of columns; parameters as in :func:`auucmax.read_trial`.

    >>> frame = pd.DataFrame({"mail": ["yes", "no"], "visit": [1, 0], "age": [30, 40]})
    >>> roles = name_roles(frame, treatment="mail", outcome="visit", control="no")
    >>> roles.arms, roles.features
    (('no', 'yes'), ('age',))
    """
    for name, given in (("treatment", treatment), ("outcome", outcome)):
        if given is None:
            raise InputError(name, "the name of a column", "none", "Name the column.")
    named = {"treatment": str(treatment), "outcome": str(outcome)}
    named |= {k: str(v) for k, v in (("id", id), ("groups", groups)) if v is not None}
    check_names(table, named.values())
    for name, column in named.items():
        if name != "id" and [*named.values()].count(column) > 1 + (named.get("id") == column):
            raise InputError(
                name, "another column than the other roles", repr(column), "Check the names."
            )
    labels = arm_counts(table, named["treatment"])
    chances = _propensity(table, labels, propensity)
    columns_of_chances = [column for _, column in chances]
    if taken := [name for name in columns_of_chances if name in named.values()]:
        raise InputError(
            "propensity", "another column than treatment, outcome, id and groups", repr(taken[0]),
            "Name the column of the chances, between 0 and 1.",
        )  # fmt: skip
    known_after = _named(table, after)
    left_out = {*_named(table, ignore), *known_after}
    if features is None:
        left_out |= {*columns_of_chances}  # features only if they are named
    chosen = _features(table, features, [*named.values()], left_out)
    used = {*named.values(), *chosen, *known_after, *columns_of_chances}
    return Roles(
        treatment=named["treatment"],
        arms=name_arms(labels, named["treatment"], treated, control, bool(chances)),
        outcome=Outcome(
            name=named["outcome"],
            kind=_kind(table[named["outcome"]]),
            lower_is_better=bool(lower_is_better),
            range=None if outcome_range is None else check_range(outcome_range, "outcome_range"),
        ),
        features=chosen,
        id=named.get("id"),
        groups=named.get("groups"),
        propensity=chances,
        ignored=tuple(name for name in table.columns if name not in used),
        after=known_after,
        categorical=_among(table, "categorical", categorical, chosen),
        numeric=_among(table, "numeric", numeric, chosen),
        drop_missing_outcomes=bool(drop_missing_outcomes),
    )


def name_arms(
    counts: Mapping[str, int], name: str, treated: Any, control: Any, has_chances: bool
) -> tuple[str, ...]:
    """Determine the labels of control and arms.

    A label "control" is the control unless another one is given, and so is "no" beside "yes".
    Without ``treated`` all other labels are arms.
    """
    labels = sorted(counts, key=str.lower)
    spelt: dict[str, list[str]] = {}
    for label in labels:
        spelt.setdefault(" ".join(label.casefold().split()), []).append(label)
    if same := next((own for own in spelt.values() if len(own) > 1), None):
        raise InputError(
            f"the treatment {name!r}", "labels that differ in more than capitals and blanks",
            listed(same), "Use one spelling per arm, or rename the arms.",
        )  # fmt: skip
    given = [] if treated is None else [treated]
    if isinstance(treated, list | tuple):
        given = list(treated)
    wanted = list(dict.fromkeys(_spelt(label, labels) for label in given))
    own = None if control is None else _spelt(control, labels)
    for parameter, chosen in [("control", own), *(("treated", label) for label in wanted)]:
        if chosen is not None and chosen not in labels:
            raise InputError(
                parameter, f"one of the labels of {name!r}, {listed(labels)}", repr(chosen),
                "Check the spelling.",
            )  # fmt: skip
    if own is None and (usual := control_among(labels)) not in wanted:
        own = usual
    if own is None and not wanted and tuple(map(str.lower, labels)) in NO_AND_YES:
        own = labels[0]
    if own is None and len(wanted) == 1 and len(labels) == 2:
        own = labels[1 - labels.index(wanted[0])]
    if own is None or own in wanted:
        raise InputError(
            "control", f"the label of the control group of {name!r}, {listed(labels)}",
            "none" if own is None else f"{own!r} for control and treated",
            "Name the control, and the treated label if one arm alone is meant.",
        )  # fmt: skip
    arms = sorted(wanted or (label for label in labels if label != own))
    if len(arms) > 1:
        few = {label: counts[label] for label in arms if counts[label] < FEWEST_ROWS}
        each = ", ".join(f"{label!r} {n:,}" for label, n in few.items())
        if few and has_chances:
            raise InputError(
                "propensity", f"left out unless each arm has at least {FEWEST_ROWS} rows", each,
                "Leave propensities out, or collect more rows.",
            )  # fmt: skip
        if few and len(few) < len(arms):
            arms = [label for label in arms if label not in few]
            warnings.warn(
                f"each arm should have at least {FEWEST_ROWS} rows, got {each}: left out.",
                UserWarning,
                stacklevel=4,
            )
    if not arms:
        raise InputError(
            "treatment", "a column with two or more arms", listed(labels), "Check the column."
        )
    return (own, *arms)


def _spelt(given: Any, labels: Sequence[str]) -> str:
    """Match a label to the table's spelling, ignoring outer blanks."""
    text = arm_text(given)
    same = [label for label in labels if label.strip() == text.strip()]
    return same[0] if text not in labels and len(same) == 1 else text


def _kind(column: pd.Series) -> Kind:
    """The kind of the outcome column."""
    with suppress(ValueError):  # reported when the rows are read
        known = outcome_numbers(column.dropna().drop_duplicates()).to_numpy(dtype=np.float64)
        if len(known) and np.isfinite(known).all():
            if np.isin(known, (0.0, 1.0)).all():
                return Kind.BINARY
            values = outcome_numbers(column.dropna()).to_numpy(dtype=np.float64)
            return Kind(outcome_kind(values))
    return Kind.BINARY


def _propensity(
    table: pd.DataFrame, labels: Mapping[str, int], given: str | Mapping[Any, str] | None
) -> tuple[tuple[str, str], ...]:
    """Pairs (arm, propensity column); the arm is "" for a two-arm trial."""
    if given is None:
        return ()
    columns = [str(name) for name in table.columns]
    if isinstance(given, str) and given in columns:
        return (("", given),)
    if isinstance(given, str) and (len(labels) < 3 or f"{given} " not in " ".join(columns)):
        check_names(table, [given])
    if not isinstance(given, str):
        given = {arm_text(label): str(column) for label, column in given.items()}
    return tuple((label, column) for label, column in arm_columns(given, labels, columns))


def propensity_columns(
    table: pd.DataFrame, roles: Roles, given: Any
) -> tuple[tuple[str, str], ...]:
    """Pairs (arm, propensity column) for new rows; the arm is "" for one column."""
    return _propensity(table, arm_counts(table, roles.treatment), given)


def _features(
    table: pd.DataFrame, features: Sequence[str] | None, others: list[str], left_out: set[str]
) -> tuple[str, ...]:
    if features is None:
        chosen = [name for name in table.columns if name not in {*others, *left_out}]
        ids = [name for name in chosen if names_rows(table[name])]
        if ids and len(ids) < len(chosen):
            chosen = [name for name in chosen if name not in ids]
            were = "is unique in every row, so it is treated as an identifier"
            if len(ids) > 1:
                were = "are unique in every row, so they are treated as identifiers"
            warnings.warn(
                f"{listed(ids)} {were} and not used. Name it among the features to use it.",
                UserWarning,
                stacklevel=4,
            )
    else:
        chosen = list(_named(table, features))
        if wrong := [name for name in chosen if name in others]:
            raise InputError(
                "features", "other columns than treatment, outcome, id and groups",
                listed(wrong), "Leave them out.",
            )  # fmt: skip
    chosen = [name for name in chosen if name not in left_out]
    if not chosen:
        raise InputError(
            "features", "at least one column beside treatment, outcome and id", "none",
            "Pass a table with features.",
        )  # fmt: skip
    return tuple(chosen)


def _named(table: pd.DataFrame, names: Sequence[str] | str | None) -> tuple[str, ...]:
    """Validate a list of unique, existing column names."""
    given = [names] if isinstance(names, str) else names or ()
    found = tuple(dict.fromkeys(str(name) for name in given))
    check_names(table, found)
    return found


def _among(
    table: pd.DataFrame, option: str, names: Sequence[str] | None, features: Sequence[str]
) -> tuple[str, ...]:
    found = _named(table, names)
    if others := [name for name in found if name not in features]:
        raise InputError(
            option, "names of features", listed(others), "Leave them out, or add them to features."
        )
    return found


def names_rows(column: pd.Series) -> bool:
    """Whether a text or integer column is unique in every row, for 100 rows or more."""
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


def arm_counts(table: pd.DataFrame, treatment: str) -> dict[str, int]:
    """Number of rows per treatment label, as text."""
    check_names(table, [treatment])
    found: dict[str, int] = {}
    for value, n in table[treatment].value_counts().items():
        label = arm_text(value)
        found[label] = found.get(label, 0) + int(n)
    return found


def check_names(table: pd.DataFrame, names: Iterable[str]) -> None:
    """Raise a ValueError if columns are missing."""
    if unknown := [name for name in names if name not in table.columns]:
        columns = [str(column) for column in table.columns]
        raise ValueError(unknown_columns_message("the table", unknown, columns))
