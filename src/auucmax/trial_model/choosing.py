"""Whom to treat of a new table, and what to expect of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from auucmax._validation import Floats, check_shares
from auucmax.data.pieces import PiecedTable, pieces_of
from auucmax.encoding.encoder import text_names
from auucmax.targeting import Plan, PlanRow, Selection, top_share, within_budget
from auucmax.targeting.planning import ENOUGH_EVENTS, ENOUGH_ROWS, EVERY_PERCENT
from auucmax.targeting.policy import check_money
from auucmax.trial_model.evidence import Evidence
from auucmax.trial_model.model import TrialModel

_PROFITS = ("profit", "profit_lower", "profit_upper")
_EFFECTS = ("effect", "gain", "gain_lower", "gain_upper", *_PROFITS)


@dataclass(frozen=True)
class Targeting:
    """People of a table, best first, and the plan that they are part of.

    Attributes
    ----------
    people : a row for each person of the table: the id (or ``row``, counted from 1), rank, score,
        uplift, decile (1 is the best tenth) and the arm to give. If
        the id has one of these names, the other column is called ``auucmax_rank``, and so on.
    selection : who is treated. expected : what that brings, from rows of the trial that the model
        has not seen; its intervals hold however the share was chosen. NaN where it is unknown.
    plan : the same for every percent, with the shares of highest profit among those at which the
        trial has rows enough. The report of the model has the same intervals.
    unknown : why the gain is unknown, in a sentence; None if it is known.
    cost, value : as they were given.
    """

    people: pd.DataFrame
    selection: Selection
    expected: PlanRow
    plan: Plan
    unknown: str | None = None
    cost: float | None = None
    value: float | None = None

    def chosen(self) -> pd.DataFrame:
        """The people to treat alone."""
        return self.people.iloc[: self.selection.n_treated]

    def to_dict(self) -> dict[str, Any]:
        """All numbers but the people, as plain JSON; None for what is not known.

        Without a cost there is no cost, and without cost and value no profit and no best share.
        """
        plan = self.plan.to_dict()
        plan["rows"] = [self._told(row, self.is_known(row["share"])) for row in plan["rows"]]
        for name in ("best", "cautious"):
            row = plan[name]
            plan[name] = self._told(row, self.is_known(row["share"])) if self.has_profit else None
        expected = {name: _finite(value) for name, value in self.expected._asdict().items()}
        return {
            "n_people": len(self.people),
            "n_treated": self.selection.n_treated,
            "threshold": _finite(self.selection.threshold),
            "cost": None if self.cost is None else self.selection.cost,
            "expected": self._told(expected, self.unknown is None),
            "unknown": self.unknown,
            "plan": plan | {"cost": self.cost, "value": self.value},
        }

    @property
    def has_profit(self) -> bool:
        return self.cost is not None and self.value is not None

    def is_known(self, share: float) -> bool:
        """Whether the trial has rows enough for the gain at a share of the plan."""
        return self.plan.expected.is_reliable(share)

    def _told(self, row: dict[str, Any], is_known: bool) -> dict[str, Any]:
        """A row of the plan, without what money or rows do not tell."""
        hidden = [] if is_known else [*_EFFECTS]
        hidden += [] if self.cost is not None else ["cost"]
        hidden += [] if self.has_profit else [*_PROFITS]
        return row | dict.fromkeys(hidden)


def target(
    model: TrialModel,
    table: pd.DataFrame | PiecedTable,
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
    table : a row for each person, with the feature columns of the trial. Of one that is read in
        pieces, ids and scores are held in memory, nothing else.
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
    names, score = _scored(model, table)
    known = model.evidence.expected.on(EVERY_PERCENT)
    worth, price = 1.0 if value is None else value, 0.0 if cost is None else cost

    def planned(*shares: float) -> Plan:
        return known.plan(
            new_score=score, value=worth, cost=price, share=shares, only_reliable=True
        )

    if share is None and budget is None:
        found = planned()
        at = found.best.share
        selection = top_share(score, found.best.n_treated / len(score), cost=price)
    else:
        if share is not None:
            selection = top_share(score, share, cost=price)
        else:
            selection = within_budget(score, budget, cost=price)  # type: ignore[arg-type]
        at = known.share_of(selection)
        found = planned(at)
    expected, unknown = _scaled(found.at(at), selection, value=worth, cost=price), None
    # Nobody is exact; but people above all scores of the trial have no share of it.
    if selection.n_treated and not (at > 0 and known.is_reliable(at)):
        expected = expected._replace(**dict.fromkeys(_EFFECTS, np.nan))  # type: ignore[arg-type]
        unknown = _too_few(model.evidence, at)
    return Targeting(
        people=_people(model, names, score, selection),
        selection=selection,
        expected=expected,
        plan=found,
        unknown=unknown,
        cost=cost,
        value=value,
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


def _too_few(evidence: Evidence, share: float) -> str:
    rows = evidence["rows"]
    needed = (
        f"{ENOUGH_EVENTS} rows with the outcome and {ENOUGH_EVENTS} without it"
        if rows["binary"]
        else f"{ENOUGH_ROWS} rows"
    )
    n_above = int(np.floor(share * rows["n_rows"] + 1e-9))
    return (
        f"What treating these people brings is not known: {n_above:,} of the {rows['n_rows']:,} "
        f"rows of the trial that judge have scores as high, and {needed} are needed in each arm. "
        f"Treat more people."
    )


def _scaled(row: PlanRow, selection: Selection, *, value: float, cost: float) -> PlanRow:
    """The row of the plan for the number of people that are treated indeed."""
    factor = selection.n_treated / row.n_treated if row.n_treated else 0.0
    gains = {name: factor * getattr(row, name) for name in ("gain", "gain_lower", "gain_upper")}
    spent = cost * selection.n_treated
    profits = {name.replace("gain", "profit"): value * gain - spent for name, gain in gains.items()}
    return row._replace(n_treated=selection.n_treated, cost=spent, **gains, **profits)


def _scored(model: TrialModel, table: pd.DataFrame | PiecedTable) -> tuple[pd.Series, Floats]:
    """The ids of the people, or their rows from 1 on, and their scores."""
    columns, id = None, model.columns.id
    if isinstance(table, PiecedTable):
        columns = [column.name for column in model.encoder.columns_]
        columns += [id] if id in table.columns else []
    names, scores, first = [], [], 1
    for piece in pieces_of(table, columns):
        piece = text_names(piece)
        scores.append(model.predict(piece))
        rows = pd.Series(np.arange(first, first := first + len(piece)), name="row")
        names.append(piece[id] if id in piece.columns else rows)
    if isinstance(table, PiecedTable) and first != table.n_rows + 1:
        raise ValueError(
            f"{table.name} should give the same rows every time it is read, got {first - 1:,} "
            f"after {table.n_rows:,}. Leave the file alone meanwhile."
        )
    return pd.concat(names), np.concatenate(scores)


def _people(
    model: TrialModel, names: pd.Series, score: Floats, selection: Selection
) -> pd.DataFrame:
    n = len(score)
    # Those who are treated come first, whatever rule broke the ties.
    order = np.lexsort((np.arange(n), ~selection.treat, -score))
    rank = np.arange(1, n + 1)
    labels = np.array([model.columns.control, model.columns.treated], dtype=object)
    columns: dict[str, Any] = {"rank": rank, "score": score[order]}
    columns["uplift"] = np.asarray(model.calibration(score[order]))
    columns["decile"] = (rank - 1) * 10 // n + 1
    columns["arm"] = labels[selection.treat[order].astype(int)]
    columns = {"auucmax_" * (name == names.name) + name: own for name, own in columns.items()}
    return pd.DataFrame({names.name: names.to_numpy()[order], **columns})


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None
