"""Helpers that determine the role of each column of a table in a trial."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import pandas as pd

from auucmax._errors import InputError, level_of_caller
from auucmax._validation import control_among, listed
from auucmax.data.chances import arm_columns
from auucmax.data.outcomes import outcome_kind
from auucmax.data.table_errors import check_columns
from auucmax.encoding.kinds import arm_text, outcome_numbers
from auucmax.results import Kind

FEWEST_ROWS = 40  #: of an arm among several; one with fewer is left out
_FEWEST_NAMED = 100  # rows below which a feature may be unique in every row by chance
#: Labels of control and treated that need no explanation.
NO_AND_YES = (("0", "1"), ("false", "true"), ("f", "t"), ("no", "yes"), ("n", "y"))


def name_arms(counts: Mapping[str, int], name: str, treated: Any, control: Any) -> tuple[str, ...]:
    """Determine the labels of control and arms.

    A label "control" is the control unless another one is given, and so is "no" beside "yes".
    Without ``treated`` all other labels are arms.

    >>> name_arms({"mail": 50, "no": 60, "call": 2}, "arm", "mail", None)
    Traceback (most recent call last):
    auucmax._errors.InputError: control should be the label of the control group of 'arm', 'call', \
    'mail', 'no', beside an arm or more, got none. Name the control, and the treated label if one \
    arm alone is meant.
    """
    labels = sorted(counts, key=str.lower)
    if len({" ".join(label.casefold().split()) for label in labels}) < len(labels):
        raise InputError(
            f"the treatment {name!r}", "labels that differ in more than capitals and blanks",
            listed(labels), "Use one spelling per arm, or rename the arms.",
        )  # fmt: skip
    spelt = {label.strip(): label for label in labels}
    given = {"control": [control], "treated": treated}
    if not isinstance(treated, list | tuple):
        given["treated"] = [treated]
    known: dict[str, list[str]] = {}
    for parameter, values in given.items():
        texts = [arm_text(value) for value in values if value is not None]
        if unknown := [text for text in texts if text.strip() not in spelt]:
            raise InputError(
                parameter, f"one of the labels of {name!r}, {listed(labels)}", listed(unknown),
                "Check the spelling.",
            )  # fmt: skip
        known[parameter] = [spelt[text.strip()] for text in texts]
    wanted = known["treated"]
    others = [label for label in labels if label not in wanted]
    own = known["control"][0] if known["control"] else control_among(others)
    needs_no_control = wanted or tuple(map(str.lower, labels)) in NO_AND_YES
    if own is None and len(labels) == 2 and others and needs_no_control:
        own = others[0]
    arms = sorted({*(wanted or others)} - {own})
    if own is None or own in wanted or not arms:
        raise InputError(
            "control", f"the label of the control group of {name!r}, {listed(labels)}, beside an "
            f"arm or more", "none" if own is None else repr(own),
            "Name the control, and the treated label if one arm alone is meant.",
        )  # fmt: skip
    large = [label for label in arms if counts[label] >= FEWEST_ROWS]
    if len(arms) > 1 and 0 < len(large) < len(arms):
        each = ", ".join(f"{label!r} {counts[label]:,}" for label in arms if label not in large)
        warnings.warn(
            f"each arm should have at least {FEWEST_ROWS} rows, got {each}: left out.",
            UserWarning,
            stacklevel=level_of_caller(),
        )
        arms = large
    return (own, *arms)


def kind_of_outcome(column: pd.Series) -> Kind:
    """The kind of the outcome column."""
    with suppress(ValueError):  # reported when the rows are read
        values = outcome_numbers(column.dropna()).to_numpy(dtype=np.float64)
        if len(values) and np.isfinite(values).all():
            return outcome_kind(values)
    return Kind.BINARY


def propensity_columns(
    table: pd.DataFrame, treatment: str, given: str | Mapping[Any, str] | None
) -> tuple[tuple[str, str], ...]:
    """Pairs (arm, propensity column); the arm is "" for one column."""
    if given is None:
        return ()
    labels = arm_counts(table, treatment)
    if isinstance(given, str):
        if given in table.columns or len(labels) < 3:
            check_names(table, [given])
            return (("", given),)
    else:
        given = {arm_text(label): str(column) for label, column in given.items()}
    found = arm_columns(given, labels, [str(name) for name in table.columns])
    return tuple((label, column) for label, column in found)


def without_ids(table: pd.DataFrame, names: Sequence[str]) -> list[str]:
    """The columns ``names`` but those that are unique in every row."""
    ids = [name for name in names if names_rows(table[name])]
    if not ids or len(ids) == len(names):
        return list(names)
    were = "is unique in every row, so it is treated as an identifier"
    if len(ids) > 1:
        were = "are unique in every row, so they are treated as identifiers"
    warnings.warn(
        f"{listed(ids)} {were} and not used. Name it among the features to use it.",
        UserWarning,
        stacklevel=level_of_caller(),
    )
    return [name for name in names if name not in ids]


def names_rows(column: pd.Series) -> bool:
    """Whether a text or integer column is unique in every row, for 100 rows or more."""
    if len(column) < _FEWEST_NAMED or column.dtype.kind not in "Oiu":
        return False
    with suppress(TypeError):  # lists, say
        head = column.iloc[:_FEWEST_NAMED]
        return bool(head.is_unique and column.notna().all() and column.is_unique)
    return False


def arm_counts(table: pd.DataFrame, treatment: str) -> dict[str, int]:
    """Number of rows per treatment label, as text."""
    check_names(table, [treatment])
    counts = table[treatment].value_counts()
    found: dict[str, int] = counts.groupby(counts.index.map(arm_text)).sum().to_dict()
    return found


def check_names(table: pd.DataFrame, names: Iterable[str]) -> None:
    """Raise a ValueError if columns are missing."""
    check_columns(names, [str(column) for column in table.columns], "the table")
