"""Whether to treat some people: one rule, for every number of arms."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from auucmax._errors import InputError
from auucmax._validation import Floats, check_shares
from auucmax.results import (
    Curve,
    Decision,
    Estimate,
    Evidence,
    Missing,
    Plan,
    State,
    Terms,
    Why,
)
from auucmax.targeting.choose import check_money

SAME_CUT = 0.005  #: how far a share may be from that of a guaranteed cut to be the same


def check_terms(terms: Terms, evidence: Evidence) -> Terms:
    """Terms that can be used: a share, a budget with costs, or costs and a value."""
    n_arms = len(evidence.arms)
    if terms.share is not None:
        check_shares(terms.share)
    for name in ("budget", "value"):
        if getattr(terms, name) is not None:
            check_money(getattr(terms, name), name)
    for price in terms.cost or ():
        check_money(price, "cost")
    if terms.cost is not None and len(terms.cost) != n_arms:
        raise InputError(
            "cost", f"one amount for each of {n_arms} arms", f"{len(terms.cost)}", "Pass them all."
        )
    if terms.share is not None and terms.budget is not None:
        raise InputError("share", "left out with budget", "both", "Leave one out.")
    if terms.budget is not None and not any(terms.cost or ()):
        raise InputError("budget", "given with a cost above 0", "no cost", "Pass the cost as well.")
    if terms.share is None and terms.budget is None:
        if not terms.has_profit:
            raise InputError(
                "share", "given, unless a budget with its cost, or cost and value are",
                "none of them", "Pass a share of 0.3, for example.",
            )  # fmt: skip
        if evidence.failed_check:
            raise InputError(
                "share", "given if the trial failed its check: no profit is known", "none",
                "Pass a share of 0.3, for example.",
            )  # fmt: skip
    return terms


def price_factor(curve: Curve, terms: Terms) -> float | None:
    """What the spend of a curve is multiplied by to be money; None if cost ratios differ.

    Without costs, or for a share, the spend is a number of people: 1.
    """
    own = np.array(curve.costs)
    given = np.ones(len(own)) if terms.cost is None or terms.share is not None else terms.cost
    prices = np.asarray(given, dtype=np.float64)
    if not prices.any():
        prices = np.ones(len(own))
    factor = float(prices.max() / own.max()) if own.max() > 0 else 1.0
    return factor if np.allclose(prices, factor * own, rtol=1e-9, atol=0) else None


def at(curve: Curve, spend: float) -> tuple[Floats, float, float, float]:
    """Shares of the arms, gain and ends of the band at a spend; NaN where they are not known.

    Between two points of the curve lies a straight line; below the first point nothing is known.
    """
    grid = np.array(curve.spend)
    near = int(np.abs(grid - spend).argmin())
    if abs(grid[near] - spend) <= 1e-9 * grid[-1]:
        spend = float(grid[near])
    columns = np.array([curve.gain, curve.band_lower, curve.band_upper], dtype=np.float64)
    shares = np.array([np.interp(spend, grid, own) for own in np.array(curve.shares).T])
    gain, lower, upper = (float(np.interp(spend, grid, column)) for column in columns)
    if 0 < spend < grid[:2][-1]:
        lower = upper = np.nan
    return shares, gain, lower, upper


def plan_at(
    evidence: Evidence,
    terms: Terms,
    n_people: int,
    spend: float,
    *,
    counts: Sequence[int] | None = None,
    missing: Missing | None = None,
    like_trial: bool = True,
) -> Plan:
    """What treating some of ``n_people`` brings, at a spend per person of the trial's curve.

    ``counts``: how many people get each arm, if they are known; otherwise as in the trial.
    ``like_trial``: guarantees hold for people like those of the trial only.
    """
    shares, gain, lower, upper = at(evidence.policy.curve, spend)
    one_arm = len(shares) == 1
    own = np.rint(shares * n_people).astype(int).tolist() if counts is None else list(counts)
    n_treated = int(sum(own))
    nobody = n_treated == 0 and (counts is not None or missing is None)
    if nobody:
        gain = lower = upper = 0.0
        missing = None
    elif missing is None and evidence.failed_check:
        missing = Missing(why=Why.FAILED_CHECK)
    elif missing is None and np.isnan(lower) and one_arm:
        missing = Missing(why=Why.FEW_ROWS, got=np.floor(spend * evidence.n_rows + 1e-9))
    money = None if terms.cost is None else float(np.dot(own, terms.cost))
    value = terms.value or 0.0
    found = profit = guaranteed = None
    if missing is None:
        # People above the trial's threshold stand for its share, however many they are.
        scale = n_treated / spend if one_arm and n_treated else float(n_people)
        ends = scale * np.array([gain, lower, upper])
        found = _estimate(*ends.tolist())
        if terms.has_profit and money is not None:
            profit = _estimate(*(value * ends - money).tolist())
        cuts = evidence.arms[0].cuts if one_arm and like_trial and n_treated else None
        for cut in cuts.cuts if cuts is not None else ():
            if abs(cut.share - n_treated / n_people) <= SAME_CUT:
                guaranteed = n_people * cut.lower
                if terms.has_profit:
                    price = (terms.cost or (0.0,))[0]
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


def _estimate(value: float, lower: float, upper: float) -> Estimate:
    known = np.isfinite([lower, upper]).all()
    return Estimate(value=value, lower=lower if known else None, upper=upper if known else None)


def best_spend(
    evidence: Evidence, terms: Terms, n_people: int, counts: Floats | None = None
) -> float:
    """The spend per person with the highest expected profit, where the trial has rows enough.

    ``counts``: how many of new people the points of the curve of one arm stand for.
    """
    curve = evidence.policy.curve
    grid = np.array(curve.spend)
    if len(curve.costs) == 1:
        grid = np.union1d(grid, np.linspace(0, 1, 101))
        people = np.rint(grid * n_people) if counts is None else counts
        per_share = np.divide(people, grid, out=np.zeros(len(grid)), where=grid > 0)
        money = (terms.cost or (0.0,))[0] * people
    else:
        per_share = np.full(len(grid), n_people)
        money = (price_factor(curve, terms) or 1.0) * grid * n_people
    points = np.array([at(curve, spend)[1:3] for spend in grid])
    known = np.isfinite(points[:, 1]) | (grid == 0)
    profit = (terms.value or 0.0) * per_share * points[:, 0] - money
    return float(grid[int(np.where(known, profit, -np.inf).argmax())])


def spend_of(evidence: Evidence, terms: Terms, n_people: int) -> float | None:
    """The spend per person on the curve that terms ask for; None if it has other cost ratios."""
    curve = evidence.policy.curve
    factor = price_factor(curve, terms)
    if factor is None:
        return None
    if terms.share is not None:
        treated = np.array(curve.shares).sum(axis=1)
        if terms.share >= treated[-1]:
            return float(curve.spend[-1])
        return float(np.interp(terms.share, treated, curve.spend))
    if terms.budget is not None:
        return min(terms.budget / n_people / factor, float(curve.spend[-1]))
    return best_spend(evidence, terms, n_people)


def state_of(plan: Plan, failed: bool = False) -> State:
    """The first state that holds: harm, loss, guaranteed, significant, unclear."""
    if failed or plan.gain is None:
        return State.UNKNOWN
    what = plan.profit if plan.terms.has_profit and plan.profit is not None else plan.gain
    if plan.gain.upper is not None and plan.gain.upper < 0:
        return State.HARM
    if plan.profit is not None and plan.profit.upper is not None and plan.profit.upper < 0:
        return State.LOSS
    if plan.guaranteed is not None and plan.guaranteed > 0:
        return State.GUARANTEED
    if what.lower is not None and what.lower > 0:
        return State.SIGNIFICANT
    return State.UNCLEAR


def decide(
    evidence: Evidence,
    terms: Terms,
    n_people: int,
    *,
    plan: Plan | None = None,
    points: Sequence[Plan] | None = None,
) -> Decision:
    """Whether to treat people as the terms ask.

    Parameters
    ----------
    evidence : of a fitted model.
    terms : a share, a budget with costs, or costs and a value (the highest expected profit).
    n_people : to choose from, like those of the trial.
    plan : for a list of people who were chosen already; by default that of the terms.
    points : plans along the curve, among which a better one is looked for.
    """
    check_terms(terms, evidence)
    spend = spend_of(evidence, terms, n_people)
    if plan is None:
        missing = Missing(why=Why.OTHER_COSTS) if spend is None else None
        plan = plan_at(evidence, terms, n_people, spend or 0.0, missing=missing)
    state = state_of(plan, evidence.failed_check)
    everyone = better = certain = None
    # Where too few rows are above a cut, other cuts may still be known.
    if spend is not None and (plan.missing is None or plan.missing.why == Why.FEW_ROWS):
        grid = evidence.policy.curve.spend
        if points is None:
            points = [plan_at(evidence, terms, n_people, point) for point in grid]
        if len(evidence.arms) == 1:
            everyone = plan_at(evidence, terms, n_people, grid[-1])
        if state not in (State.GUARANTEED, State.SIGNIFICANT):
            better = max((own for own in points if _lower(own) > 0), key=_lower, default=None)
        if state != State.GUARANTEED:
            sure = [own for own in points if (own.guaranteed or 0) > 0]
            certain = max(sure, key=lambda own: own.guaranteed or 0.0, default=None)
    return Decision(
        outcome=evidence.roles.outcome,
        arms=evidence.roles.arms,
        state=state,
        plan=plan,
        better=better,
        everyone=everyone,
        certain=certain,
    )


def _lower(plan: Plan) -> float:
    what = plan.profit if plan.terms.has_profit else plan.gain
    return -np.inf if what is None or what.lower is None else what.lower
