"""Briefs of decisions: whom to treat, at what cost, with which expected gain."""

from __future__ import annotations

from dataclasses import replace

from auucmax.model.chosen import Targeting
from auucmax.present import randomisation, words
from auucmax.present.brief import brief, in_words
from auucmax.results import Brief, Decision, Plan, State, Why


@brief.register
def _(found: Targeting) -> Brief:
    own, plan = decision_brief(found.decision), found.decision.plan
    facts, caveats = list(own.facts), list(own.caveats)
    total = words.number(found.uplift, words.digits(found.uplift / 10))
    gains = words.gains(found.decision.outcome)
    if plan.missing not in (None, Why.FAILED_CHECK) and found.n_treated:
        facts.append((f"Predicted {gains}", f"{total} (model prediction only)"))
    left_out = {"excluded": found.n_excluded, "repeated rows": found.n_repeated}
    facts.append(("Left out", words.joined(f"{n:,} {why}" for why, n in left_out.items() if n)))
    far = max((shift.distance for shift in found.shifts if shift.is_large), default=0.0)
    if far:
        caveats.append(
            f"the scores are distributed differently from those in the trial (for up to "
            f"{words.percent(far)} of the people): check columns and units."
        )
    gain = plan.gain
    if gain is not None and not (gain.lower or 0) <= found.uplift <= (gain.upper or 0):
        caveats.append(
            f"the uplifts in the list add up to {total}, outside the interval of the expected "
            f"{gains}: use them to rank people, not to forecast."
        )
    if n := found.n_unknown_ids:
        caveats.append(f"{n:,} of the excluded ids {'is' if n == 1 else 'are'} not in this table.")
    if n := found.n_nameless:
        caveats.append(f"{words.people(n)} {'has' if n == 1 else 'have'} no id.")
    caveats += [randomisation.verdict(check) for check in found.warnings]
    if found.assumed_costs:
        caveats.append("costs are taken from the fit.")
    step = own.next_step
    if found.decision.is_good:
        # `assign` treats a share of all people, without exclusions, costs or limits.
        can_assign = plan.terms.share is not None and plan.terms.cost is None
        how = "leave a random tenth of the list untreated"
        if can_assign and plan.missing is None and not found.n_excluded:
            how = "auucmax assign --model MODEL --explore .1"
        step = f"{how}, so that auucmax verify can measure the gain"
    return in_words(own.verdict, facts, caveats, step)


@brief.register
def decision_brief(found: Decision) -> Brief:
    """Describe a decision."""
    plan, everyone, better = found.plan, found.everyone, found.better
    n_treated, n_people = sum(plan.counts), plan.n_people
    what = "profit" if plan.terms.has_profit else "gain"
    # Whether the results of other plans for these people are known.
    others_known = plan.missing in (None, Why.FEW_ROWS, Why.NO_RANGE)

    who = f"{n_treated:,} of {words.people(n_people)} ({words.percent(n_treated / n_people)})"
    if n_treated == n_people:
        who = f"everyone ({words.people(n_people)})"
    if not n_treated:
        who = words.people(n_people)
    if not n_treated and plan.missing is None:
        why = "nobody is chosen"
        if plan.terms.has_profit and not (plan.terms.share or plan.terms.budget):
            why = "treating any number of people is expected to lose money"
        verdict = f"Treat nobody: {why}."
    elif found.state == State.UNKNOWN:
        money = "" if not plan.spend else f" at a cost of {words.money(plan.spend)}"
        verdict = f"The {what} of treating {who}{money} is not known: {words.why(plan.missing)}."
    else:
        start = "Treat" if found.is_good else "Do not treat"
        if found.state == State.UNCLEAR:
            start = f"No clear {what} from treating"
        cost = "" if plan.spend is None else f"cost {words.money(plan.spend)}, "
        verdict = f"{start} {who}: {cost}{_expected(plan, found)}."

    facts = []
    if len(plan.counts) > 1 and n_treated:
        facts.append(("Arms", words.counts(found.arms[1:], plan.counts)))
    if plan.profit is not None and plan.gain is not None and n_treated:
        facts.append((f"Extra {words.gains(found.outcome)}", words.estimate(plan.gain)))
    if plan.guaranteed is not None and plan.guaranteed > 0:
        over = f" {words.gains(found.outcome)} over treating nobody"
        least = words.at_least(plan.guaranteed) + ("" if plan.terms.has_profit else over)
        facts.append((f"Guaranteed {what}", least))
    if everyone is not None and others_known and n_treated < sum(everyone.counts):
        facts.append((words.everyone(), _expected(everyone, found)))

    step = None
    if plan.missing == Why.OTHER_COSTS and plan.terms.cost is not None:
        prices = [f"{cost:.12g}" for cost in plan.terms.cost]
        step = f"{words.fit_with_costs(found.arms[1:], prices)}, then run this again"
    elif plan.missing in (Why.OTHER_COSTS, Why.PEOPLE_NOT_MONEY):
        step = "add --cost to --share, or use --budget"
    elif found.is_good or not n_treated:
        pass
    elif plan.missing == Why.FAILED_CHECK:
        step = "run auucmax check to see what fails, then ask those who assigned people"
    elif better is not None and others_known:
        n = sum(better.counts)
        share = words.percent(n / better.n_people)
        step = f"treat {words.people(n)} ({share}) instead: {_expected(better, found)}"
    elif found.state in (State.HARM, State.LOSS):
        verdict = f"Treat nobody. If you treat{verdict.removeprefix('Do not treat')}"
    elif found.state == State.UNCLEAR or others_known:
        step = "run a larger trial for a clear answer: auucmax plan, then auucmax assign"
    return in_words(verdict, facts, next_step=step)


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
