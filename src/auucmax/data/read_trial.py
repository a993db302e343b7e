"""Read a :class:`Trial` from a table."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from auucmax._errors import InputError, level_of_caller
from auucmax._validation import (
    Floats,
    check_outcome,
    check_range,
    control_among,
    listed,
    missing_values,
)
from auucmax.data.reading import read_table, table_of
from auucmax.data.tables import Draw, check_columns
from auucmax.data.trial import Lost, Trial
from auucmax.encoding.kinds import arm_text, kind_of, moments_of, outcome_kind, outcome_numbers
from auucmax.results import Kind, Outcome, Roles

FEWEST_ROWS = 40  #: of an arm among several; one with fewer is left out
_FEWEST_NAMED = 100  # rows below which a feature may be unique in every row by chance
#: Labels of control and treated that need no explanation.
NO_AND_YES = (("0", "1"), ("false", "true"), ("f", "t"), ("no", "yes"), ("n", "y"))


def read_trial(
    table: Any,
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
    outcome_range: tuple[float, float] | None = None,
    drop_missing_outcomes: bool = False,
    max_rows: int | None = None,
) -> Trial:
    """Read the rows of a randomised trial from a table or a file.

    Parameters
    ----------
    table : frame, path or ibis table
        One row for each person: numbers, texts, booleans, dates, missing values. A path is read
        by :func:`auucmax.data.read_table`.
    treatment, outcome : str
        Names of columns. The treatment is the one that a person was assigned to, taken or not. A
        higher outcome is better.
    treated, control : labels of arms, optional
        The control is the label "control", "no" beside "yes" or 0 beside 1 unless it is given.
        Without ``treated`` all other labels are arms; with it, rows of other arms are left out.
    id : str, optional
        Column that identifies a row.
    groups : str, optional
        Column of the household or shop, if its rows belong together: a group is in one fold, and
        intervals and certificates are by group.
    propensity : str or mapping, optional
        Column with the probability of treatment that each row had by design, where it was not the
        same for all. With several arms a column for each arm, by label, or the prefix of their
        names ("chance" for "chance mail", "chance call").
    features : list of str, optional
        Columns that a model uses; by default all others.
    ignore : list of str, optional
        Columns that no model uses. The randomisation check tests them all the same.
    after : list of str, optional
        Columns that were recorded after treatment: neither used nor checked.
    categorical, numeric : list of str, optional
        Features whose numbers are categories, such as a shop, and features whose whole numbers are
        quantities; by default 3 to 10 different whole numbers are categories.
    lower_is_better : bool, default False
        The outcome is a cost or a relapse: effects and gains are what is avoided.
    outcome_range : (float, float), optional
        Lowest and highest outcome that a certificate counts, if outcomes are not 0/1.
    drop_missing_outcomes : bool, default False
        Leave out rows without an outcome; otherwise they are an error.
    max_rows : int, optional
        From a table with more rows, use a random sample of about this size, drawn where the rows
        are and by ``groups`` or ``id`` if they are named. By default, a table that is not in memory
        yet is sampled, with a warning, if it takes more than a quarter of the free memory.

    Examples
    --------
    >>> frame = pd.DataFrame({"mail": [0, 1, 0, 1], "visit": [0, 1, 1, 1], "age": [30, 40, 50, 60]})
    >>> trial = read_trial(frame, treatment="mail", outcome="visit")
    >>> trial.roles.arms, trial.arm.tolist()
    (('0', '1'), [0, 1, 0, 1])
    """
    frame = read_table(table, draw=Draw(groups or id, max_rows))
    single = {"treatment": treatment, "outcome": outcome, "groups": groups, "id": id}
    for parameter, column in single.items():
        if column is None and parameter in ("treatment", "outcome"):
            raise InputError(parameter, "the name of a column", "none", "Name the column.")
    own = {parameter: str(column) for parameter, column in single.items() if column is not None}
    check_names(frame, own.values())
    chances = propensity_columns(frame, treatment, propensity)
    columns_of_chances = [column for _, column in chances]
    lists = {
        "features": features, "ignore": ignore, "after": after, "categorical": categorical,
        "numeric": numeric,
    }  # fmt: skip
    named: dict[str, list[str]] = {}
    for parameter, names in lists.items():
        given = [names] if isinstance(names, str) else names or ()
        named[parameter] = list(dict.fromkeys(str(name) for name in given))
        check_names(frame, named[parameter])
    left_out = {*named["ignore"], *named["after"]}
    if features is None:
        left_out |= {*own.values(), *columns_of_chances}  # features only if they are named
        chosen = without_ids(frame, [name for name in frame.columns if name not in left_out])
    else:
        chosen = [name for name in named["features"] if name not in left_out]
    if not chosen:
        raise InputError(
            "features", "at least one column beside treatment, outcome and id", "none",
            "Pass a table with features.",
        )  # fmt: skip
    others = {*frame.columns} - {*chosen}
    for parameter, names, taken in (
        ("treatment", [treatment], [outcome, groups]),
        ("outcome", [outcome], [groups]),
        ("propensity", columns_of_chances, own.values()),
        ("features", chosen, own.values()),
        ("categorical", named["categorical"], others),
        ("numeric", named["numeric"], others),
    ):
        if wrong := [name for name in names if name in taken]:
            raise InputError(
                parameter,
                "another column than those of other roles, or a feature where kinds are named",
                listed(wrong), "Check the names.",
            )  # fmt: skip
    used = {*own.values(), *chosen, *named["after"], *columns_of_chances}
    roles = Roles(
        treatment=own["treatment"],
        arms=name_arms(arm_counts(frame, treatment), treatment, treated, control),
        outcome=Outcome(
            name=own["outcome"],
            kind=kind_of_outcome(frame[outcome]),
            lower_is_better=bool(lower_is_better),
            range=None if outcome_range is None else check_range(outcome_range, "outcome_range"),
        ),
        features=tuple(chosen),
        id=own.get("id"),
        groups=own.get("groups"),
        propensity=chances,
        ignored=tuple(name for name in frame.columns if name not in used),
        after=tuple(named["after"]),
        categorical=tuple(named["categorical"]),
        numeric=tuple(named["numeric"]),
        drop_missing_outcomes=bool(drop_missing_outcomes),
    )
    return trial_of(frame, roles)


def trial_of(table: Any, roles: Roles) -> Trial:
    """Make a trial from a table with known roles, such as new rows for a model."""
    frame = table_of(table, roles.columns, roles.ignored)
    check_names(frame, roles.columns)
    labels = frame[roles.treatment]
    if n_missing := int(labels.isna().sum()):
        raise missing_values(f"the treatment {roles.treatment!r}", n_missing)
    codes, values = pd.factorize(labels)
    texts = pd.Index([arm_text(value) for value in values])
    arm = pd.Index(roles.arms).get_indexer(texts)[codes]
    counts = pd.Series(np.bincount(codes)).groupby(texts).sum()
    rows = np.flatnonzero(arm >= 0)
    missing = frame[roles.outcome.name].isna().to_numpy(dtype=bool)[rows]
    kept = rows[~missing]
    n_lost, n_rows = (
        np.bincount(arm[some], minlength=len(roles.arms)) for some in (rows[missing], kept)
    )
    if missing.any() and not roles.drop_missing_outcomes:
        each = " and ".join(
            f"{n:,} of {n + m:,} rows of {label!r}"
            for label, n, m in zip(roles.arms, n_lost, n_rows, strict=True)
        )
        raise InputError(
            f"the outcome {roles.outcome.name!r}", "known in every row", f"none in {each}",
            "If outcomes were lost, or are not known yet, ask to drop missing outcomes (on the "
            "command line --drop-missing-outcomes): the rows are left out, and the check compares "
            "the arms.",
        )  # fmt: skip
    if not n_rows.all():
        raise InputError(
            f"the treatment {roles.treatment!r}", f"rows of each of {listed(roles.arms)}",
            f"the labels {listed(sorted(counts.index))}, with "
            f"{listed(np.array(roles.arms)[n_rows == 0])} in no row",
            "Check the labels of the arms.",
        )  # fmt: skip
    lost = None
    if missing.any():
        gone = frame.iloc[rows[missing]]
        names = first = None
        if roles.groups is not None:
            names = id_texts(gone[roles.groups], f"the group {roles.groups!r}")
            first = ~frame[roles.groups].iloc[rows].duplicated().to_numpy()[missing]
        lost = Lost(arm[rows[missing]], propensities(gone, roles), names, first)
    chosen = frame.iloc[kept] if len(kept) < len(frame) else frame
    y = check_outcome(
        outcome_numbers(chosen[roles.outcome.name]).to_numpy(),
        f"the outcome {roles.outcome.name!r}",
    )
    named = {
        role: id_texts(chosen[column], f"the {role} {column!r}")
        for role, column in (("id", roles.id), ("group", roles.groups))
        if column is not None
    }
    n_repeated = int(pd.Index(named.get("id", [])).duplicated().sum())
    if n_repeated and roles.groups != roles.id:
        raise InputError(
            f"the id {roles.id!r}", "different in every row",
            f"{n_repeated:,} row{'s' if n_repeated > 1 else ''} with the id of another one",
            f"If the rows of an id belong together, name {roles.id!r} as the column of groups; "
            f"otherwise keep one row of each id.",
        )  # fmt: skip
    checked = [name for name in roles.ignored if name in frame.columns]
    checked += [
        column
        for column in dict.fromkeys((roles.id, roles.groups))
        if column is not None and kind_of(chosen[column]) in ("number", "date")
    ]
    return Trial(
        chosen[list(roles.features)],
        y,
        np.array(roles.arms, dtype=object)[arm[kept]],
        control=roles.arms[0],
        id=named.get("id"),
        groups=named.get("group"),
        propensity=propensities(chosen, roles),
        name="the table",
        outcome_name=roles.outcome.name,
        treatment_name=roles.treatment,
        arm_names=roles.arms,
        roles=roles,
        extra=chosen[checked] if checked else None,
        lost=lost,
        place=kept,
        other_arms=counts.drop(list(roles.arms)).to_dict(),
    )


def id_texts(column: pd.Series, name: str, *, blanks: bool = False) -> NDArray[Any]:
    """Convert ids to texts; 1, 1.0 and "1" are the same id.

    ``blanks``: whether an empty text, or one of blanks, is an id.
    """
    if n_missing := int(column.isna().sum()):
        raise missing_values(name, n_missing)
    if pd.api.types.is_datetime64_any_dtype(column.dtype):
        # One moment is one id in every time zone and unit; days are written without a time.
        texts = [moment.tz_localize(None).isoformat() for moment in moments_of(column)]
        return np.array([text.removesuffix("T00:00:00") for text in texts], dtype=object)
    values = column.to_numpy()
    if values.dtype == object and any(map(pd.api.types.is_list_like, values)):
        raise InputError(name, "numbers or texts", "lists or the like", "Name another column.")
    written = values.astype(str)
    if not blanks and (n_blank := int(((written == "") | np.strings.isspace(written)).sum())):
        raise InputError(
            name, "known in every row", f"{n_blank:,} blank text{'s' if n_blank > 1 else ''}",
            "Fill them in, or drop these rows.",
        )  # fmt: skip
    texts = written.astype(object)
    if values.dtype.kind == "f":  # the text of an id does not depend on the other rows
        whole = (values == np.rint(values)) & (np.abs(values) < 2.0**63)
        texts[whole] = values[whole].astype(np.int64).astype(str)
    return texts


# Roles of columns


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
            hint = "Check the spelling."
            if "" in unknown:
                hint = "Empty cells are missing values: write a label into them."
            raise InputError(
                parameter, f"one of the labels of {name!r}, {listed(labels)}", listed(unknown), hint
            )
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


def without_ids(table: pd.DataFrame, names: Sequence[str]) -> list[str]:
    """The columns ``names`` without those that are unique in every row."""
    ids = [name for name in names if names_rows(table[name])]
    if not ids or len(ids) == len(names):
        return list(names)
    warnings.warn(
        f"columns that are unique in every row are treated as identifiers and not used, got "
        f"{listed(ids)}. To use one, name it among the features.",
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


# Propensities by design


def check_chances(column: pd.Series, name: str) -> Floats:
    """Validate propensities (n,), strictly between 0 and 1; ``name`` is for messages.

    >>> check_chances(pd.Series(["0.1", "0.9"]), "the propensity 'chance'").tolist()
    [0.1, 0.9]
    """
    chance = pd.to_numeric(column, errors="coerce").to_numpy(dtype=np.float64)
    if (wrong := ~((chance > 0) & (chance < 1))).any():
        raise InputError(
            name, "the chance of treatment that each row had, above 0 and below 1, in every row",
            f"{listed(column[wrong].unique())} in {wrong.sum():,} rows",
            "If these are percentages, divide by 100. Leave out rows with missing values, 0 or "
            "1, for which nothing was left to chance.",
        )  # fmt: skip
    return chance


def propensity_columns(
    table: pd.DataFrame, treatment: str, given: str | Mapping[Any, str] | None
) -> tuple[tuple[str, str], ...]:
    """Pairs (arm, propensity column) of all arms but one, whose propensity is the rest.

    ``given``: by label; one column of two arms, whose label is ""; or the prefix of the columns of
    several arms, as ``assign`` writes them.

    >>> frame = pd.DataFrame({"arm": ["no", "call", "mail"], "p mail": 0.3, "p call": 0.2})
    >>> propensity_columns(frame, "arm", "p")
    (('call', 'p call'), ('mail', 'p mail'))
    """
    if given is None:
        return ()
    labels = sorted(arm_counts(table, treatment))
    if isinstance(given, str) and (given in table or len(labels) < 3):
        check_names(table, [given])
        return (("", given),)
    if isinstance(given, str):
        named = {label: f"{given} {label}" for label in labels if f"{given} {label}" in table}
    else:
        named = {arm_text(label): str(column) for label, column in given.items()}
    if not {*named} < {*labels} or not len(named) == len({*named.values()}) == len(labels) - 1:
        raise _no_propensities(labels, given)
    check_names(table, named.values())
    return tuple(sorted(named.items()))


def _no_propensities(labels: Sequence[str], given: object) -> InputError:
    return InputError(
        "propensity", f"a column for each arm of {listed(labels)}, but for the control, which "
        f"has the rest", repr(given),
        'Name them by arm, as in "A=chance A,B=chance B" (in Python: a mapping of labels to '
        "columns).",
    )  # fmt: skip


def propensities(frame: pd.DataFrame, roles: Roles) -> Floats | None:
    """Probabilities of the control, which has the rest, and each arm, (n, K + 1), if known."""
    if not roles.propensity:
        return None
    own = {
        label or roles.arms[1]: check_chances(frame[column], f"the propensity {column!r}")
        for label, column in roles.propensity
    }
    if len(own) < len(roles.arms) - 1:
        raise _no_propensities(roles.arms, roles.propensity)
    rest = 1 - np.sum([*own.values()], axis=0)
    if len(rest) and rest.min() < 1e-9:
        raise InputError(
            f"the propensities {listed(column for _, column in roles.propensity)}",
            "less than 1 together in every row, for the control has the rest",
            f"1 or more in {np.count_nonzero(rest < 1e-9):,} rows, up to {1 - rest.min():.3g}",
            "Name the columns of the propensities of the arms.",
        )  # fmt: skip
    return np.column_stack([own.get(label, rest) for label in roles.arms])
