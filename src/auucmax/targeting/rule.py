"""The decision rule: whether to treat some people."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from auucmax._errors import InputError
from auucmax._validation import Floats, check_shares
from auucmax.results import (
    Curve,
    Decision,
    Estimate,
    Evidence,
    Plan,
    State,
    Terms,
    Why,
)
from auucmax.targeting.choose import check_money

SAME_CUT = 0.005  #: how far a share may be from that of a guaranteed cut to be the same


def check_terms(terms: Terms, evidence: Evidence) -> None:
    """Validate terms: a share, a budget with costs, or costs and a value."""
    if terms.share is not None:
        check_shares(terms.share)
    for name in ("budget", "value"):
        if getattr(terms, name) is not None:
            check_money(getattr(terms, name), name)
    if terms.share is not None and terms.budget is not None:
        raise InputError("share", "left out with budget", "both", "Leave one out.")
    if terms.budget is not None and not any(terms.cost or ()):
        raise InputError("budget", "given with a cost above 0", "no cost", "Pass the cost as well.")
    if terms.value is not None and terms.cost is None:
        raise InputError(
            "cost", "given with a value", "none", "Pass the cost of treating one person."
        )
    if terms.share is None and terms.budget is None:
        expected = "given, unless a budget with its cost, or cost and value are"
        if evidence.failed_check:
            expected = "given if the trial failed its check: no profit is known"
        if evidence.failed_check or not terms.has_profit:
            raise InputError("share", expected, "none", "Pass a share of 0.3, for example.")


def price_factor(curve: Curve, terms: Terms) -> float | None:
    """Factor from a curve's spend to money; None if cost ratios differ.

    Without costs, or for a share, the spend is a number of people: 1.
    """
    prices = None if terms.share is not None else terms.cost
    if prices is None or not any(prices):
        prices = (1.0,) * len(curve.costs)
    factor = max(prices) / (max(curve.costs) or 1.0)
    has_ratios = np.allclose(prices, np.multiply(factor, curve.costs), rtol=1e-9, atol=0)
    return factor if has_ratios else None


def share_as_budget(curve: Curve, terms: Terms, n_people: int) -> Terms:
    """Terms with the budget that treats their share, for several arms with costs.

    Such arms are judged along budgets. Other terms, and other cost ratios, stay as they are.
    """
    if terms.share is None or not any(terms.cost or ()) or len(curve.costs) == 1:
        return terms
    factor = price_factor(curve, replace(terms, share=None))
    if factor is None:
        return terms
    check_shares(terms.share)
    spend = float(np.interp(terms.share, np.sum(curve.shares, axis=1), curve.spend))
    return replace(terms, share=None, budget=spend * n_people * factor)


def at(curve: Curve, spend: float) -> tuple[Floats, float, float, float]:
    """Arm shares, gain and band at a spend; NaN where unknown.

    Between two points of the curve lies a straight line; below the first point nothing is known.
    """
    grid = np.array(curve.spend)
    near = float(grid[np.abs(grid - spend).argmin()])
    if abs(near - spend) <= 1e-9 * grid[-1]:
        spend = near
    rows = [*zip(*curve.shares, strict=True), curve.gain, curve.band_lower, curve.band_upper]
    columns = np.array(rows, dtype=np.float64)
    *shares, gain, lower, upper = (float(np.interp(spend, grid, own)) for own in columns)
    if 0 < spend < grid[:2][-1]:
        lower = upper = np.nan
    return np.array(shares), gain, lower, upper


def plan_at(
    evidence: Evidence,
    terms: Terms,
    n_people: int,
    spend: float,
    *,
    counts: Sequence[int] | None = None,
    missing: Why | None = None,
    parts: Sequence[tuple[float, float]] | None = None,
) -> Plan:
    """Plan for ``n_people`` at a spend per person of the trial's curve.

    ``counts``: how many people get each arm, if they are known; otherwise as in the trial.
    ``parts``: spends, and how often the gain per person at each counts; by default that at
    ``spend``, for all people. Guarantees hold for people like those of the trial only.
    """
    curve = evidence.policy.curve
    shares, gain, lower, upper = at(curve, spend)
    one_arm = len(shares) == 1
    own = np.rint(shares * n_people).astype(int).tolist() if counts is None else list(counts)
    n_treated = sum(own)
    # People above the trial's threshold stand for its share, however many they are.
    scale = n_treated / spend if one_arm and n_treated and spend else float(n_people)
    ends = scale * np.array([gain, lower, upper])
    if parts is not None:
        ends = np.zeros(3)
        for point, times in parts:
            _, gain, lower, upper = at(curve, point)
            ends += times * np.array([gain, lower, upper] if times > 0 else [gain, upper, lower])
    by_profit = terms.has_profit and terms.share is None and terms.budget is None
    if n_treated == 0 and by_profit and set(curve.band_lower[1:]) <= {None}:
        missing = Why.FEW_ROWS  # no other plan is known
    elif n_treated == 0 and (counts is not None or missing is None):
        ends = np.zeros(3)
        missing = None
    elif missing is None and evidence.failed_check:
        missing = Why.FAILED_CHECK
    elif missing is None and np.isnan(ends[1]):
        missing = Why.FEW_ROWS
    money = None if terms.cost is None else float(np.dot(own, terms.cost))
    found = profit = guaranteed = None
    if missing is None:
        found = Estimate.of(ends[0], ends[1:])
        value, price = 1.0, 0.0
        if terms.value is not None and terms.cost is not None:
            value, price = terms.value, terms.cost[0]
            profits = value * ends - (money or 0.0)
            profit = Estimate.of(profits[0], profits[1:])
        cuts = evidence.arms[0].cuts if one_arm and n_treated else None
        for cut in cuts.cuts if cuts is not None else ():
            if abs(cut.share - n_treated / n_people) <= SAME_CUT:
                guaranteed = n_people * (value * cut.lower - price * cut.share_upper)
    return Plan(
        terms=terms,
        n_people=n_people,
        counts=tuple(own),
        share=float(spend),
        spend=money,
        gain=found,
        profit=profit,
        guaranteed=guaranteed,
        missing=missing,
    )


def best_spend(
    evidence: Evidence, terms: Terms, n_people: int, counts: Floats | None = None
) -> float:
    """Spend per person with the highest expected profit.

    ``counts``: how many of new people the points of the curve of one arm stand for.
    """
    curve = evidence.policy.curve
    grid = np.array(curve.spend)
    total = n_people * grid  # of the spend, in people with one arm
    if len(curve.costs) == 1:
        grid = np.union1d(grid, np.linspace(0, 1, 101))
        total = np.rint(grid * n_people) if counts is None else counts
    gain, lower = np.array([at(curve, spend)[1:3] for spend in grid]).T
    scale = np.divide(total, grid, out=np.full(len(grid), float(n_people)), where=grid > 0)
    price = max(terms.cost or (0.0,)) / (max(curve.costs) or 1.0)
    profit = (terms.value or 0.0) * scale * gain - price * total
    known = np.isfinite(lower) | (grid == 0)
    return float(grid[np.where(known, profit, -np.inf).argmax()])


def state_of(plan: Plan, failed: bool = False) -> State:
    """The first state that applies: harm, loss, guaranteed, significant, unclear."""
    if failed or plan.gain is None:
        return State.UNKNOWN
    if (plan.gain.upper or 0.0) < 0:
        return State.HARM
    if ((plan.profit or plan.gain).upper or 0.0) < 0:
        return State.LOSS
    if (plan.guaranteed or 0.0) > 0:
        return State.GUARANTEED
    return State.SIGNIFICANT if _lower(plan) > 0 else State.UNCLEAR


def decide(
    evidence: Evidence,
    terms: Terms,
    n_people: int,
    *,
    plan: Plan | None = None,
    points: Sequence[Plan] | None = None,
) -> Decision:
    """Decide whether to treat people by these terms.

    Parameters
    ----------
    evidence : evidence of a fitted model.
    terms : a share, a budget with costs, or costs and a value (the highest expected profit).
    n_people : to choose from, like those of the trial.
    plan : for a list of people who were chosen already; by default that of the terms.
    points : plans along the curve, among which a better one is looked for.
    """
    check_terms(terms, evidence)
    curve = evidence.policy.curve
    factor = price_factor(curve, terms)
    spend = missing = everyone = better = None
    if factor is None:
        missing = Why.OTHER_COSTS
    elif terms.share is not None:
        spend = float(np.interp(terms.share, np.sum(curve.shares, axis=1), curve.spend))
    elif terms.budget is not None:
        spend = min(terms.budget / n_people / factor, curve.spend[-1])
    else:
        spend = best_spend(evidence, terms, n_people)
    if plan is None:
        plan = plan_at(evidence, terms, n_people, spend or 0.0, missing=missing)
    state = state_of(plan, evidence.failed_check)
    # Where too few rows are above a cut, other cuts may still be known.
    if spend is not None and plan.missing in (None, Why.FEW_ROWS):
        if len(evidence.arms) == 1:
            everyone = plan_at(evidence, terms, n_people, curve.spend[-1])
        if state not in (State.GUARANTEED, State.SIGNIFICANT):
            if points is None:
                points = [plan_at(evidence, terms, n_people, point) for point in curve.spend]
            best = max(points, key=_lower)
            better = best if _lower(best) > 0 else None
    return Decision(
        outcome=evidence.roles.outcome,
        arms=evidence.roles.arms,
        state=state,
        plan=plan,
        better=better,
        everyone=everyone,
    )


def without_guarantee(decision: Decision) -> Decision:
    """The decision without its guarantee."""
    plan = replace(decision.plan, guaranteed=None)
    failed = decision.state == State.UNKNOWN
    return replace(decision, plan=plan, state=state_of(plan, failed))


def _lower(plan: Plan) -> float:
    """Lower end of the profit or gain; 0 if unknown."""
    what = plan.profit or plan.gain
    return 0.0 if what is None else what.lower or 0.0
