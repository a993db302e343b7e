"""Estimates from past rows for a plan: base rate, clustering, and the value of a score."""

from __future__ import annotations

from typing import Any

import numpy as np

from auucmax._validation import check_outcome
from auucmax.campaign.plan import past_rows
from auucmax.data.read_trial import id_texts, read_trial
from auucmax.data.reading import table_of
from auucmax.data.roles import check_names
from auucmax.encoding.kinds import outcome_numbers
from auucmax.model import UpliftModel


def read_past(
    table: Any,
    *,
    outcome: str,
    treatment: str | None = None,
    control: Any = None,
    groups: str | None = None,
    model: UpliftModel | None = None,
) -> dict[str, Any]:
    """Estimate arguments of :func:`plan_trial` from a table of past rows.

    Parameters
    ----------
    table : frame
    outcome, groups : columns of the outcome and of the household or shop.
    treatment, control : optional
        Column of the arm and label of the control: its rows alone count. By default all rows do,
        as if none had been treated.
    model : UpliftModel, optional
        Whose scores rank the rows, if the table has its columns and there is one arm.

    Examples
    --------
    >>> import pandas as pd
    >>> found = read_past(pd.DataFrame({"visit": [1, 0, 0, 0]}), outcome="visit")
    >>> found["base_rate"], found["outcome_sd"]
    (0.25, None)
    """
    table = table_of(table)
    check_names(table, [name for name in (outcome, groups) if name is not None])
    if treatment is None:
        frame = table[table[outcome].notna().to_numpy(dtype=bool)]
    else:
        trial = read_trial(
            table, treatment=treatment, outcome=outcome, control=control, groups=groups,
            drop_missing_outcomes=True,
        )  # fmt: skip
        frame = table.iloc[trial.place[trial.arm == 0]]
    y = check_outcome(outcome_numbers(frame[outcome]).to_numpy(), f"the outcome {outcome!r}")
    score = None
    if model is not None:
        if model.roles.outcome.lower_is_better:
            y = 1 - y if np.isin(y, (0, 1)).all() else -y
        if len(model.arms) == 1 and all(name in frame for name in model.columns):
            score = model.predict(frame)
    codes = None if groups is None else id_texts(frame[groups], f"the group {groups!r}")
    return past_rows(y, codes, score)
