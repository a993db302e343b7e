"""Read a :class:`Trial` from a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from auucmax._errors import InputError
from auucmax._validation import Floats, check_outcome, listed, missing_message
from auucmax.data.balance import equal_shares
from auucmax.data.chances import arm_chances, check_chances
from auucmax.data.reading import read_sample, table_of
from auucmax.data.roles import check_names, name_roles
from auucmax.data.trial import Lost, Trial
from auucmax.encoding.kinds import arm_text, kind_of, outcome_numbers
from auucmax.results import Roles


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
        same for all. With several arms a column for each arm, by label, or the word that their
        names begin with ("chance" for "chance mail", "chance call").
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
        Of a table with more rows, use a random sample of about this size, drawn where the rows are
        and by ``groups`` or ``id`` if they are named. By default, a table that is not in memory
        yet is sampled, with a warning, if it takes more than a quarter of the free memory.

    Examples
    --------
    >>> frame = pd.DataFrame({"mail": [0, 1, 0, 1], "visit": [0, 1, 1, 1], "age": [30, 40, 50, 60]})
    >>> trial = read_trial(frame, treatment="mail", outcome="visit")
    >>> trial.roles.arms, trial.arm.tolist()
    (('0', '1'), [0, 1, 0, 1])
    """
    frame = read_sample(table, by=groups or id, max_rows=max_rows)
    roles = name_roles(
        frame, treatment=treatment, outcome=outcome, treated=treated, control=control, id=id,
        groups=groups, propensity=propensity, features=features, ignore=ignore, after=after,
        categorical=categorical, numeric=numeric, lower_is_better=lower_is_better,
        outcome_range=outcome_range, drop_missing_outcomes=drop_missing_outcomes,
    )  # fmt: skip
    return trial_of(frame, roles)


def trial_of(table: Any, roles: Roles) -> Trial:
    """Make a trial from a table with known roles, such as new rows for a model."""
    frame = table_of(table, roles.columns, roles.ignored)
    check_names(frame, roles.columns)
    labels = frame[roles.treatment]
    if n_missing := int(labels.isna().sum()):
        raise ValueError(missing_message(f"the treatment {roles.treatment!r}", n_missing))
    codes, values = pd.factorize(labels)
    texts = [arm_text(value) for value in values]
    place = {label: k for k, label in enumerate(roles.arms)}
    arm = np.array([place.get(text, -1) for text in texts], dtype=np.intp)[codes]
    counts = np.bincount(codes, minlength=len(texts))
    others: dict[str, int] = {}
    for text, n in zip(texts, counts.tolist(), strict=True):
        if text not in place:
            others[text] = others.get(text, 0) + n
    rows = np.flatnonzero(arm >= 0)
    missing = frame[roles.outcome.name].isna().to_numpy(dtype=bool)[rows]
    kept = rows[~missing]
    lost = _lost(frame, roles, arm[rows], rows, missing) if missing.any() else None
    if lost is not None and not roles.drop_missing_outcomes:
        raise _missing_outcomes(roles, lost.arm, arm[kept])
    n_rows = np.bincount(arm[kept], minlength=len(roles.arms))
    if not n_rows.all():
        raise InputError(
            f"the treatment {roles.treatment!r}", f"rows of each of {listed(roles.arms)}",
            f"the labels {listed(sorted(set(texts)))}, with "
            f"{listed(label for label, n in zip(roles.arms, n_rows, strict=True) if not n)} "
            f"in no row",
            "Check the labels of the arms.",
        )  # fmt: skip
    chosen = frame.iloc[kept] if len(kept) < len(frame) else frame
    y = check_outcome(
        outcome_numbers(chosen[roles.outcome.name]).to_numpy(),
        f"the outcome {roles.outcome.name!r}",
    )
    ids = None if roles.id is None else id_texts(chosen[roles.id], f"the id {roles.id!r}")
    groups = None
    if roles.groups is not None:
        groups = id_texts(chosen[roles.groups], f"the group {roles.groups!r}")
    n_repeated = 0 if ids is None or roles.groups == roles.id else len(ids) - len(pd.unique(ids))
    if n_repeated:
        raise InputError(
            f"the id {roles.id!r}", "different in every row",
            f"{n_repeated:,} row{'s' if n_repeated > 1 else ''} with the id of another one",
            f"If the rows of an id belong together, name {roles.id!r} as the column of groups; "
            f"otherwise keep one row of each id.",
        )  # fmt: skip
    own = dict.fromkeys(name for name in (roles.id, roles.groups) if name is not None)
    checked = [name for name in roles.ignored if name in frame.columns]
    checked += [name for name in own if kind_of(chosen[name]) in ("number", "date")]
    several = len(roles.arms) > 2
    return Trial(
        chosen[list(roles.features)],
        y,
        np.array(roles.arms, dtype=object)[arm[kept]] if several else arm[kept].astype(np.int8),
        control=roles.arms[0] if several else 0,
        id=ids,
        groups=groups,
        propensity=_propensities(chosen, roles) if roles.propensity else None,
        name="the table",
        outcome_name=roles.outcome.name,
        treatment_name=roles.treatment,
        arm_names=roles.arms,
        roles=roles,
        extra=chosen[checked] if checked else None,
        lost=lost,
        place=kept,
        other_arms=others,
    )


def _lost(
    frame: pd.DataFrame,
    roles: Roles,
    arm: NDArray[np.intp],
    rows: NDArray[np.intp],
    missing: NDArray[np.bool_],
) -> Lost:
    """The rows without an outcome."""
    gone = frame.iloc[rows[missing]]
    names = first = None
    if roles.groups is not None:
        column = frame[roles.groups].iloc[rows]
        names = id_texts(column[missing], f"the group {roles.groups!r}")
        first = ~column.duplicated().to_numpy()[missing]
    chances = _propensities(gone, roles) if roles.propensity else None
    return Lost(arm[missing], chances, names, first)


def _propensities(frame: pd.DataFrame, roles: Roles) -> Floats:
    """Probabilities of the control and each arm, (n, K + 1)."""
    (label, column), *more = roles.propensity
    if not label and not more:
        if len(roles.arms) > 2:
            raise InputError(
                "propensity", f"a column with the probability of each arm of {listed(roles.arms)}",
                f"one column, {column!r}",
                "Name the column of every arm but the control.",
            )  # fmt: skip
        chance = check_chances(frame[column], f"the propensity {column!r}")
        return np.column_stack([1 - chance, chance])
    return arm_chances(frame, roles.propensity, roles.arms)


def _missing_outcomes(roles: Roles, lost: NDArray[np.intp], kept: NDArray[np.intp]) -> InputError:
    n_lost, n_kept = (np.bincount(arm, minlength=len(roles.arms)) for arm in (lost, kept))
    each = " and ".join(
        f"{n:,} of {n + m:,} rows of {label!r}"
        for label, n, m in zip(roles.arms, n_lost.tolist(), n_kept.tolist(), strict=True)
    )
    chance = ""
    if roles.groups is None:  # rows of a group are lost together
        p_value = equal_shares(np.column_stack([n_lost, n_kept])) if n_kept.all() else 0.0
        p = "p < 0.0001" if p_value < 1e-4 else f"p = {p_value:.2g}"
        chance = f" ({p}: {'' if p_value > 0.01 else 'not '}explained by chance)"
    return InputError(
        f"the outcome {roles.outcome.name!r}", "known in every row", f"none in {each}{chance}",
        "If outcomes were lost, or are not known yet, ask to drop missing outcomes: the rows "
        "are left out, and the check compares the arms.",
    )  # fmt: skip


def id_texts(column: pd.Series, name: str, *, blanks: bool = False) -> NDArray[Any]:
    """Convert ids to texts; 1, 1.0 and "1" are the same id.

    ``blanks``: whether an empty text, or one of blanks, is an id.
    """
    if n_missing := int(column.isna().sum()):
        raise ValueError(missing_message(name, n_missing))
    if isinstance(column.dtype, pd.DatetimeTZDtype):
        column = column.dt.tz_convert(None)  # one moment is one id in every time zone
    values = column.to_numpy()
    if values.dtype == object and any(np.ndim(v) or isinstance(v, dict) for v in values):
        raise InputError(name, "numbers or texts", "lists or the like", "Name another column.")
    if values.dtype.kind == "M":
        return _moment_texts(values)
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


def _moment_texts(values: NDArray[Any]) -> NDArray[Any]:
    """Convert timestamps to texts, independent of their unit."""
    texts = np.full(len(values), "", dtype=object)
    left = np.ones(len(values), dtype=bool)
    for unit in ("D", "s", "us", "ns"):
        own = values.astype(f"datetime64[{unit}]")
        exact = left & (own == values)
        texts[exact] = own[exact].astype(str)
        left &= ~exact
    return texts
