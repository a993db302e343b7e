"""Words for a decision: whom to treat, what it costs and brings, and what else is known."""

from __future__ import annotations

from dataclasses import replace

from auucmax._json import short
from auucmax.model.chosen import Targeting
from auucmax.present import words
from auucmax.present.brief import brief
from auucmax.results import Brief, Decision, Plan, State, Why

_FIXED = (Why.FEW_ROWS, Why.NO_RANGE)  # with which other plans for the same people are still known


@brief.register
def _(found: Targeting) -> Brief:
    told = decision_brief(found.decision)
    facts = list(told.facts)
    plan, outcome = found.decision.plan, found.decision.outcome
    if plan.missing is not None and plan.missing.why != Why.FAILED_CHECK and found.n_treated:
        total = words.number(found.uplift, words.digits(found.uplift / 10))
        facts.append((f"Predicted {words.gains(outcome)}", f"{total} by the model alone"))
    left_out = [
        (found.n_excluded, "excluded"),
        (found.n_repeated, "repeated rows"),
    ]
    if any(n for n, _ in left_out):
        facts.append(("Left out", ", ".join(f"{n:,} {why}" for n, why in left_out if n)))
    caveats = list(told.caveats)
    far = [own for own in found.shifts if own.is_large]
    if far and (plan.missing is None or plan.missing.why != Why.UNLIKE_TRIAL):
        distance = words.percent(max(own.distance for own in far))
        caveats.append(
            f"scores differ from those of the trial by up to {distance} of the people: check "
            f"columns and units."
        )
    if found.n_unknown_ids:
        caveats.append(f"ids to exclude that are not in this table: {found.n_unknown_ids:,}.")
    if found.n_nameless:
        caveats.append(f"{words.people(found.n_nameless)} have no id.")
    if found.assumed_costs:
        caveats.append("costs are those of the fit.")
    step = told.next_step
    if found.decision.is_good:
        step = "auucmax assign --model MODEL --explore .1 leaves some untreated, to verify the gain"
    details = list(told.details)
    choice = found.choice
    if choice.n_tied_taken < choice.n_tied:
        details.append(
            ("Ties", f"{choice.n_tied_taken:,} of {choice.n_tied:,} with the last score, by row")
        )
    return replace(
        told, facts=tuple(facts), caveats=tuple(caveats), next_step=step, details=tuple(details)
    )


@brief.register
def decision_brief(found: Decision) -> Brief:
    """The words for a decision."""
    plan = found.plan
    n_treated = sum(plan.counts)
    facts = []
    counts = [f"{n:,} {short(name)}" for n, name in zip(plan.counts, found.arms[1:], strict=True)]
    if len(counts) > 1 and n_treated:
        facts.append(("Arms", ", ".join(counts)))
    if plan.profit is not None and plan.gain is not None and n_treated:
        facts.append((f"Extra {words.gains(found.outcome)}", words.estimate(plan.gain)))
    what = "profit" if plan.terms.has_profit else "gain"
    if guaranteed := _guaranteed(found, what):
        facts.append((f"Guaranteed {what}", guaranteed))
    everyone = found.everyone
    if everyone is not None and _others_known(plan) and n_treated < sum(everyone.counts):
        facts.append(("Treat everyone", _expected(everyone, found)))
    return Brief(verdict=_verdict(found), facts=tuple(facts), next_step=_instead(found))


def _verdict(found: Decision) -> str:
    plan, n_treated, n_people = found.plan, sum(found.plan.counts), found.plan.n_people
    if not n_treated and plan.missing is None:
        why = "no expected profit above 0" if plan.terms.has_profit else "nobody is chosen"
        return f"Treat nobody of {words.people(n_people)}: {why}."
    who = f"{n_treated:,} of {words.people(n_people)} ({words.percent(n_treated / n_people)})"
    if n_treated == n_people:
        who = f"everyone ({words.people(n_people)})"
    if not n_treated:
        who = words.people(n_people)
    what = "profit" if plan.terms.has_profit else "gain"
    cost = "" if plan.spend is None else f"cost {words.money(plan.spend)}, "
    if found.state == State.UNKNOWN:
        money = "" if not plan.spend else f" for {words.money(plan.spend)}"
        return f"The {what} of treating {who}{money} is not known: {words.why(plan.missing)}."
    start = "Treat" if found.is_good else "Do not treat"
    if found.state == State.UNCLEAR:
        start = f"No clear {what} from treating"
    return f"{start} {who}: {cost}{_expected(plan, found)}."


def _expected(plan: Plan, found: Decision) -> str:
    """What a plan is expected to bring: profit, or else gain; or why that is not known."""
    own, outcome = plan.profit or plan.gain, found.outcome
    if own is None:
        return words.why(plan.missing)
    if (plan.guaranteed or 0) > 0 >= (own.lower or 0):
        own = replace(own, lower=None, upper=None)  # the guarantee says more
    if plan.profit is not None:
        return f"expected {words.gain_or_loss(own)}"
    unit = words.gains(replace(outcome, lower_is_better=False))
    change = ("decrease of", "increase of") if outcome.lower_is_better else ("gain", "loss of")
    return f"expected {words.gain_or_loss(own, *change, unit)}"


def _others_known(plan: Plan) -> bool:
    """Whether other plans for these people are known, too."""
    return plan.missing is None or plan.missing.why in _FIXED


def _guaranteed(found: Decision, what: str) -> str:
    plan, certain = found.plan, found.certain
    n = plan.n_people

    def amount(value: float) -> str:
        unit = "" if plan.terms.has_profit else f" {words.gains(found.outcome)}"
        return words.at_least(value) + unit

    if (plan.guaranteed or 0) > 0:
        return amount(plan.guaranteed or 0)
    if certain is None or certain.guaranteed is None or not _others_known(plan):
        return "none" if plan.guaranteed is not None else ""
    own, other = (words.percent(sum(one.counts) / n) for one in (plan, certain))
    return f"none at {own}; {amount(certain.guaranteed)} at {other}"


def _instead(found: Decision) -> str | None:
    """What to do instead of a plan that is no advice."""
    better = found.better
    if found.is_good or not sum(found.plan.counts):
        return None
    if found.plan.missing is not None and found.plan.missing.why == Why.FAILED_CHECK:
        return "find out how people were assigned, with auucmax check"
    if better is not None and _others_known(found.plan):
        n = sum(better.counts)
        share = words.percent(n / better.n_people)
        return f"treat {words.people(n)} ({share}) instead: {_expected(better, found)}"
    if found.state in (State.HARM, State.LOSS):
        return "treat nobody"
    if found.state == State.UNCLEAR or _others_known(found.plan):
        return "treat a random part and others not, for a clear answer: auucmax assign"
    return None
