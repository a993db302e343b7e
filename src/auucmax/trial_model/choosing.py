"""Whom to treat of a new table, and what to expect of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from auucmax._validation import Floats, check_shares
from auucmax.targeting import Plan, PlanRow, Selection, plan, top_share, within_budget
from auucmax.targeting.policy import check_money
from auucmax.trial_model.model import TrialModel

__all__ = ["Targeting", "check_policy", "target"]

COLUMNS = ("rank", "score", "uplift", "decile", "arm")


@dataclass(frozen=True)
class Targeting:
    """People of a table, best first, and the plan that they are part of.

    Attributes
    ----------
    people : a row for each person of the table: the id (or ``row``, counted from 1), rank, score,
        uplift (if the model is calibrated), decile (1 is the best tenth) and the arm to give.
    selection : who is treated. expected : what that brings, from rows of the trial that the model
        has not seen; its intervals hold however the share was chosen.
    plan : the same for all shares, with the shares of highest profit.
    """

    people: pd.DataFrame
    selection: Selection
    expected: PlanRow
    plan: Plan

    def chosen(self) -> pd.DataFrame:
        """The people to treat alone."""
        return self.people.iloc[: self.selection.n_treated]

    def to_dict(self) -> dict[str, Any]:
        """All numbers but the people, as plain JSON."""
        plain = self.plan.to_dict()
        return {
            "n_people": len(self.people),
            "n_treated": self.selection.n_treated,
            "threshold": _finite(self.selection.threshold),
            "cost": self.selection.cost,
            "expected": {name: _finite(value) for name, value in self.expected._asdict().items()},
            "plan": plain,
        }


def target(
    model: TrialModel,
    frame: pd.DataFrame,
    *,
    share: float | None = None,
    budget: float | None = None,
    cost: float | None = None,
    value: float | None = None,
) -> Targeting:
    """Rank the people of a table and choose whom to treat.

    Parameters
    ----------
    model : fitted by :func:`fit_trial_model`.
    frame : a row for each person, with the feature columns of the trial.
    share : treat this part of the people; or
    budget : treat as many as the money pays for, at ``cost`` each; or neither, with ``cost`` and
        ``value``: the share with the highest expected profit.
    cost, value : of treating one person, and of one unit of the outcome.

    Examples
    --------
    >>> from auucmax import load_hillstrom
    >>> from auucmax.trial_model import fit_trial_model
    >>> trial = load_hillstrom()
    >>> table = trial.X.assign(visit=trial.y, mail=trial.treatment)
    >>> model = fit_trial_model(table, treatment="mail", outcome="visit")
    >>> found = target(model, trial.X.head(1000), share=0.3)
    >>> len(found.chosen()), found.expected.n_treated
    (300, 300)
    """
    check_policy(share, budget, cost, value)
    score = model.predict(frame)
    test = model.test_rows
    money = {"value": 1.0 if value is None else value, "cost": 0.0 if cost is None else cost}

    def planned(at: float | None) -> Plan:
        given = {"treatment": test.treatment, "new_score": score, "share": at}
        return plan(test.y, test.score, **given, **money)  # type: ignore[arg-type]

    if share is None and budget is None:
        found = planned(None)
        at = found.best.share
        selection = top_share(score, found.best.n_treated / len(score), cost=money["cost"])
    else:
        if share is not None:
            selection = top_share(score, share, cost=money["cost"])
        else:
            selection = within_budget(score, budget, cost=money["cost"])  # type: ignore[arg-type]
        at = _share_of_trial(test.score, score, selection)
        found = planned(at)
    return Targeting(
        people=_people(model, frame, score, selection),
        selection=selection,
        expected=_scaled(found.at(at), selection, **money),
        plan=found,
    )


def check_policy(
    share: float | None, budget: float | None, cost: float | None, value: float | None
) -> None:
    """A share, or a budget with its cost, or cost and value: as :func:`target` takes them."""
    if share is not None:
        check_shares(share)
    for name, amount in (("budget", budget), ("cost", cost), ("value", value)):
        if amount is not None:
            check_money(amount, name)
    if share is not None and budget is not None:
        raise ValueError("share or budget should be given, got both. Leave one out.")
    if budget is not None and not cost:
        raise ValueError(
            "a budget should come with the cost of treating one person, got none above 0. Pass a "
            "cost."
        )
    if share is None and budget is None and (cost is None or value is None):
        raise ValueError(
            "whom to treat should be said by a share, by a budget with its cost, or by cost and "
            "value; got none of them. Pass share=0.3, for example."
        )


def _share_of_trial(trial: Floats, cohort: Floats, selection: Selection) -> float:
    """The part of the trial's people that the policy would treat.

    Those above the threshold, and of those just at it the same part as in the cohort.
    """
    if selection.n_treated == 0:
        return 0.0
    if selection.n_treated == len(cohort):
        return 1.0
    part = selection.n_tied_treated / selection.n_tied
    above = np.count_nonzero(trial > selection.threshold)
    level = np.count_nonzero(trial == selection.threshold)
    return float((above + part * level) / len(trial))


def _scaled(row: PlanRow, selection: Selection, *, value: float, cost: float) -> PlanRow:
    """The row of the plan for the number of people that are treated indeed."""
    factor = selection.n_treated / row.n_treated if row.n_treated else 0.0
    gains = {name: factor * getattr(row, name) for name in ("gain", "gain_lower", "gain_upper")}
    spent = cost * selection.n_treated
    profits = {name.replace("gain", "profit"): value * gain - spent for name, gain in gains.items()}
    return row._replace(n_treated=selection.n_treated, cost=spent, **gains, **profits)


def _people(
    model: TrialModel, frame: pd.DataFrame, score: Floats, selection: Selection
) -> pd.DataFrame:
    n = len(score)
    # Those who are treated come first, whatever rule broke the ties.
    order = np.lexsort((np.arange(n), ~selection.treat, -score))
    named = model.columns.id if model.columns.id in frame.columns else None
    names = np.arange(1, n + 1) if named is None else frame[named].to_numpy()
    rank = np.arange(1, n + 1)
    labels = np.array([model.columns.control, model.columns.treated], dtype=object)
    columns: dict[str, Any] = {
        named or "row": names[order],
        "rank": rank,
        "score": score[order],
    }
    if model.calibration is not None:
        columns["uplift"] = np.asarray(model.calibration(score[order]))
    columns["decile"] = (rank - 1) * 10 // n + 1
    columns["arm"] = labels[selection.treat[order].astype(int)]
    return pd.DataFrame(columns)


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None
