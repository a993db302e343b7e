"""Briefs of decisions: whom to treat, at what cost, with which expected gain."""

from __future__ import annotations

from dataclasses import replace

from auucmax.model.chosen import Targeting
from auucmax.present import words
from auucmax.present.brief import brief, in_words
from auucmax.results import Brief, Decision, Plan, State, Why

_FIXED = (Why.FEW_ROWS, Why.NO_RANGE)  # with which other plans for the same people are still known


@brief.register
def _(found: Targeting) -> Brief:
    own, plan = decision_brief(found.decision), found.decision.plan
    facts, caveats = list(own.facts), list(own.caveats)
    if plan.missing is not None and plan.missing.why != Why.FAILED_CHECK and found.n_treated:
        total = words.number(found.uplift, words.digits(found.uplift / 10))
        gains = words.gains(found.decision.outcome)
        facts.append((f"Predicted {gains}", f"{total} (model prediction only)"))
    left_out = {"excluded": found.n_excluded, "repeated rows": found.n_repeated}
    facts.append(("Left out", words.joined(f"{n:,} {why}" for why, n in left_out.items() if n)))
    far = max((shift.distance for shift in found.shifts if shift.is_large), default=0.0)
    if far:
        caveats.append(
            f"the scores are distributed differently than in the trial (for up to "
            f"{words.percent(far)} of the people): check columns and units."
        )
    if found.n_unknown_ids:
        caveats.append(f"{found.n_unknown_ids:,} of the excluded ids are not in this table.")
    if found.n_nameless:
        caveats.append(f"{words.people(found.n_nameless)} have no id.")
    if found.assumed_costs:
        caveats.append("costs are taken from the fit.")
    step = own.next_step
    if found.decision.is_good:
        step = "auucmax assign --model MODEL --explore .1, to be able to verify the gain"
    return in_words(own.verdict, facts, caveats, step)


@brief.register
def decision_brief(found: Decision) -> Brief:
    """Describe a decision."""
    plan, everyone = found.plan, found.everyone
    n_treated, facts = sum(plan.counts), []
    if len(plan.counts) > 1 and n_treated:
        facts.append(("Arms", words.counts(found.arms[1:], plan.counts)))
    if plan.profit is not None and plan.gain is not None and n_treated:
        facts.append((f"Extra {words.gains(found.outcome)}", words.estimate(plan.gain)))
    if plan.guaranteed is not None and plan.guaranteed > 0:
        least = words.at_least(plan.guaranteed)
        unit = f" {words.gains(found.outcome)} over treating nobody"
        unit = "" if plan.terms.has_profit else unit
        facts.append((f"Guaranteed {_what(plan)}", least + unit))
    if everyone is not None and _others_known(plan) and n_treated < sum(everyone.counts):
        facts.append((words.everyone(), _expected(everyone, found)))
    return in_words(_verdict(found), facts, next_step=_instead(found))


def _what(plan: Plan) -> str:
    return "profit" if plan.terms.has_profit else "gain"


def _verdict(found: Decision) -> str:
    plan, n_treated, n_people = found.plan, sum(found.plan.counts), found.plan.n_people
    if not n_treated and plan.missing is None:
        why = "no expected profit above 0" if plan.terms.has_profit else "nobody is chosen"
        return f"Treat none of the {words.people(n_people)}: {why}."
    who = f"{n_treated:,} of {words.people(n_people)} ({words.percent(n_treated / n_people)})"
    if n_treated == n_people:
        who = f"everyone ({words.people(n_people)})"
    if not n_treated:
        who = words.people(n_people)
    what = _what(plan)
    cost = "" if plan.spend is None else f"cost {words.money(plan.spend)}, "
    if found.state == State.UNKNOWN:
        money = "" if not plan.spend else f" for {words.money(plan.spend)}"
        return f"The {what} of treating {who}{money} is not known: {words.why(plan.missing)}."
    start = "Treat" if found.is_good else "Do not treat"
    if found.state == State.UNCLEAR:
        start = f"No clear {what} from treating"
    return f"{start} {who}: {cost}{_expected(plan, found)}."


def _expected(plan: Plan, found: Decision) -> str:
    """Expected profit or gain of a plan, or the reason why it is unknown."""
    own, outcome = plan.profit or plan.gain, found.outcome
    if own is None:
        return words.why(plan.missing)
    if (plan.guaranteed or 0) > 0 >= (own.lower or 0):
        own = replace(own, lower=None, upper=None)  # the guarantee says more
    if plan.profit is not None:
        return f"expected {words.profit(own)}"
    places, unit = words.places_of(own), words.gains(replace(outcome, lower_is_better=False))
    change = ("decrease", "increase of") if outcome.lower_is_better else ("gain", "loss of")
    gain = words.up_or_down(own, *change, lambda value: words.number(value, places), unit)
    return f"expected {gain}"


def _others_known(plan: Plan) -> bool:
    """Whether the results of other plans for these people are known."""
    return plan.missing is None or plan.missing.why in _FIXED


def _instead(found: Decision) -> str | None:
    """The next step if the plan is not recommended."""
    better = found.better
    why, costs = found.plan.missing and found.plan.missing.why, found.plan.terms.cost
    if why == Why.OTHER_COSTS and costs is not None:
        prices = [f"{cost:.12g}" for cost in costs]
        return f"{words.fit_with_costs(found.arms[1:], prices)}, then run this again"
    if why in (Why.OTHER_COSTS, Why.PEOPLE_NOT_MONEY):
        return "use --budget instead of --share"
    if found.is_good or not sum(found.plan.counts):
        return None
    if why == Why.FAILED_CHECK:
        return "find out how people were assigned, with auucmax check"
    if better is not None and _others_known(found.plan):
        n = sum(better.counts)
        share = words.percent(n / better.n_people)
        return f"treat {words.people(n)} ({share}) instead: {_expected(better, found)}"
    if found.state in (State.HARM, State.LOSS):
        return "treat nobody"
    if found.state == State.UNCLEAR or _others_known(found.plan):
        return "run a larger trial for a clear answer: auucmax plan, then auucmax assign"
    return None
