"""Briefs of evidence and of decisions by it.

Does the treatment work, and does targeting help? Whom to treat, at what cost, for which gain?
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from auucmax._errors import short
from auucmax.model.chosen import Targeting
from auucmax.model.uplift_model import UpliftModel
from auucmax.present import randomisation, words
from auucmax.present.brief import brief, in_words
from auucmax.results import (
    TOP,
    ArmEvidence,
    Basis,
    Brief,
    CertifiedGain,
    Contrast,
    Decision,
    Estimate,
    Evidence,
    Outcome,
    Plan,
    State,
    Why,
)

_PEOPLE = {
    Basis.CROSS_FITTED: "people",
    Basis.HELD_OUT: "held-out people",
    Basis.NEW_ROWS: "new people",
}


@brief.register
def evidence_brief(found: Evidence, then: str | None = None) -> Brief:
    """Describe the evidence of a model; ``then``: the next step if it is sound and not harm."""
    roles, policy, outcome = found.roles, found.policy, found.roles.outcome
    several = len(found.arms) > 1
    scale, per = words.unit(outcome)
    checks = [arm.check for arm in found.arms if arm.check is not None]
    caveats = [randomisation.verdict(check) for check in checks if not check["ok"]]
    asked = [text for check in checks for text in randomisation.questions(check)]
    caveats += asked

    treated = [arm.rows[1] for arm in found.arms]
    people = f"{found.n_rows:,} {_PEOPLE[found.basis]}"
    if found.arms[0].n_groups is not None:
        people += f" in {max(arm.n_groups or 0 for arm in found.arms):,} groups"
    given = f"{treated[0].n_rows:,} treated"
    if several:
        names = [words.arm_name(roles, own.name) for own in treated]
        given = words.counts(names, [own.n_rows for own in treated])
    tags = [randomisation.tag(arm.check) for arm in found.arms]
    _, worst = min(tags, key=lambda tag: ("problem", "caution", "ok").index(tag[0]))
    trial = ("Trial", f"{people}, {given}, {worst}")
    if found.failed_check:
        ask = "run auucmax check to see what fails, then ask those who assigned people"
        if found.basis == Basis.NEW_ROWS and not roles.propensity:
            ask = f"if `assign` chose these people, add --propensity COLUMN; otherwise {ask}"
        return in_words(
            "The trial fails its check, so it cannot show what the treatment does.",
            [trial],
            caveats,
            ask,
        )

    facts, details = [], []
    model_name = partial(words.model_name, outcome=outcome)
    for arm in found.arms:
        name = words.of_arm(roles, arm.arm, end="")
        facts.append((words.everyone(name), words.effect(arm.effect, outcome)))
        own = [("Ranking", ranking(arm, outcome)), ("Model", _compared(arm.rivals, model_name))]
        more = [("Guarantee for the ranking", guarantee(arm.certificate, arm.missing, outcome))]
        if arm.certificate is not None and arm.certificate.gain > 0 and words.side(arm.gain) > 0:
            more.append(("Gain over random", words.effect(arm.gain, outcome)))
        more.append(("AUUC", words.estimate(arm.auuc, scale=scale, unit=per)))
        drivers = dict.fromkeys(one.name for one in (arm.drivers.drivers if arm.drivers else ()))
        more.append(("Score depends on", words.joined(drivers, most=5)))
        if several:
            details += [(f"{name}: {title}", value) for title, value in (*own, *more)]
        else:
            facts += own
            details += more
        caveats += [
            f"the ranking of {model_name(one.against)} is better: try the model {one.against!r}."
            for one in arm.rivals
            if words.side(one.difference) < 0
        ]
    if several:
        facts.append(("Best arm for each", _compared(policy.contrasts, words.policy_name)))
        promise = guarantee(policy.certificate, policy.missing, outcome)
        (details if policy.certificate is None else facts).append(
            ("Guarantee for the best arm", promise)
        )
    for part in policy.segments.parts if policy.segments else ():
        effects = [
            words.of_arm(roles, one.arm, end=" ")
            + words.estimate(one.effect, scale=scale, sign=True)
            for one in part.contrasts
            if one.over == roles.arms[0]
        ]
        rule = " and ".join(part.rule) or "everyone"
        gains = f"{', '.join(effects)} {words.gains(outcome)} {per} of the segment"
        details.append(("Segment", f"{rule}: {words.percent(part.share)} of people, {gains}"))

    state, (top, is_gain) = targeting_state(found), _at_top(found)
    is_harm = all(words.side(arm.effect) < 0 for arm in found.arms)  # of every arm, on average
    if all(arm.n_levels == 1 for arm in found.arms):
        verdict = "The model does not rank people: all have the same score."
    elif is_harm:
        verdict = "Treat nobody: on average the treatment does harm."
        if is_gain:
            verdict = f"Do not treat everyone: that does harm on average; {top}."
    elif state in (State.GUARANTEED, State.SIGNIFICANT):
        verdict = f"Targeting works: {top}."
    elif state == State.LOSS:
        verdict = "Do not use this ranking: it is worse than random targeting."
    elif state == State.UNKNOWN:
        verdict = "Too few people to judge the targeting."
    elif any(words.side(arm.effect) > 0 for arm in found.arms):
        verdict = "The treatment works, but it is not clear that targeting people helps."
    else:
        verdict = "No clear effect: neither the treatment nor the targeting is significant."
    step = then
    if is_harm and not is_gain:
        step = None
    elif state in (State.UNCLEAR, State.UNKNOWN):
        hoped = " --gain ..." if any(arm.gain.value <= 0 for arm in found.arms) else ""
        step = (
            f"collect more data: auucmax plan --model MODEL{hoped} estimates how many people are "
            f"needed"
        )
    elif asked:
        step = "answer the questions about the trial; then fit again, or auucmax report MODEL"
    elif several and set(policy.curve.costs) == {1.0}:
        again = words.fit_with_costs([own.arm for own in found.arms], [".."] * len(found.arms))
        step = f"{again} if the arms cost different amounts, then auucmax report MODEL"
    return in_words(verdict, [*facts, trial], caveats, step, details)


@brief.register
def _(model: UpliftModel) -> Brief:
    info, outcome = model.info, model.roles.outcome
    target = f"{short(outcome.name)} is {outcome.kind.value}"
    cost = "--cost ... " if len(model.arms) == 1 else ""  # those of the fit
    found = evidence_brief(model.evidence, f"auucmax report MODEL {cost}--value ...")
    lost = sum(info.without_outcome)
    left_out = [f"{n:,} with {short(name)!r}" for name, n in info.other_arms.items()]
    left_out += [f"{lost:,} without outcome"] if lost else []
    about = [
        ("Fitted", f"{info.about} {target}. auucmax {info.version}, {info.date[:10]}"),
        ("Left out", words.joined(left_out)),
        ("Not used", words.joined(f"{name} ({why})" for name, why in info.dropped.items())),
        ("Read as categories", words.joined(info.codes)),
        ("Read as numbers", words.joined(info.quantities)),
    ]
    return replace(found, details=(*found.details, *((name, text) for name, text in about if text)))


def targeting_state(found: Evidence) -> State:
    """State of the evidence for a gain over random targeting."""
    if found.failed_check:
        return State.UNKNOWN
    if len(found.arms) == 1:
        own = found.arms[0].certificate
        return _state(found.arms[0].gain, own.gain if own else None)
    own = found.policy.certificate
    return _state(found.policy.contrasts[0].difference, own.over_random if own else None)


def _state(gain: Estimate, guaranteed: float | None) -> State:
    if guaranteed is not None and guaranteed > 0:
        return State.GUARANTEED
    if gain.lower is None or gain.upper is None:
        return State.UNKNOWN
    return {1: State.SIGNIFICANT, 0: State.UNCLEAR, -1: State.LOSS}[words.side(gain)]


def _at_top(found: Evidence) -> tuple[str, bool]:
    """Gain of treating the top people in words, and whether it is significant."""
    curve, outcome = found.policy.curve, found.roles.outcome
    if len(curve.spend) < 3:
        return "the ranking beats random targeting", False
    inner = range(1, len(curve.spend) - 1)
    place = min(inner, key=lambda k: abs(curve.spend[k] - TOP * curve.spend[-1]))
    share = words.percent(sum(curve.shares[place]))
    who = f"treating the top {share}"
    scale, _ = words.unit(outcome)
    if len(found.arms) > 1:
        who = f"treating {share}, each with their best arm,"
    gain, random = curve.gain[place], curve.random[place]
    like = Estimate(value=gain, se=curve.se[place])
    by_chance = words.number(scale * random, words.places_of(like, scale))
    is_significant = (curve.band_lower[place] or 0) > 0
    return f"{who} gains {words.rate(gain, outcome, like)} (random: {by_chance})", is_significant


def ranking(arm: ArmEvidence, outcome: Outcome) -> str:
    """Describe a ranking's gain over random targeting, by guarantee or interval."""
    if arm.n_levels == 1:
        return "all people have the same score"
    state = _state(arm.gain, arm.certificate.gain if arm.certificate else None)
    if arm.certificate is not None and state == State.GUARANTEED:
        gain = words.rate(arm.gain.value, outcome, arm.gain)
        least = words.at_least(words.unit(outcome)[0] * arm.certificate.gain)
        sure = words.percent(1 - arm.certificate.delta)
        return (
            f"beats random targeting by {gain} on average over all shares, guaranteed {least} "
            f"({sure})"
        )
    if state == State.UNKNOWN:
        return f"not available: {arm.gain.missing}" if arm.gain.missing else "not available"
    starts = {
        State.SIGNIFICANT: "beats random targeting",
        State.UNCLEAR: "no clear gain over random targeting",
        State.LOSS: "worse than random targeting",
    }
    return f"{starts[state]}: {words.effect(arm.gain, outcome)}"


def _compared(contrasts: Sequence[Contrast], name: Callable[[str], str]) -> str:
    """Summarise comparisons: better than, worse than, no clear difference from."""
    starts = {1: "better than", -1: "worse than", 0: "no clear difference from"}
    parts = []
    for side, start in starts.items():
        names = [name(own.against) for own in contrasts if words.side(own.difference) == side]
        if names:
            parts.append(f"{start} {words.joined(names, 'and' if side else 'or')}")
    return "; ".join(parts)


def guarantee(found: CertifiedGain | None, missing: Why | None, outcome: Outcome) -> str:
    """Describe a guarantee with its terms, or why there is none."""
    if found is None:
        return f"none: {words.why(missing)}"
    if found.gain <= 0:
        return "none: too few people, or too small a gain"
    over = "treating nobody" if found.claim == "policy" else "random targeting"
    scale, per = words.unit(outcome)
    least = f"{words.at_least(scale * found.gain)} {per} ({words.percent(1 - found.delta)})"
    parts = [f"gain over {over} {least}"]
    if found.claim == "policy":
        parts.append(f"at a budget of {found.budget:g} per person")
    if found.trained_on != (1.0, 1.0):
        low, high = map(words.percent, found.trained_on)
        parts.append(f"holds for models trained on parts ({low} to {high}) of the trial")
    if found.beyond:
        first, last = found.counted
        parts.append(
            f"outcomes counted from {first:g} to {last:g}, {words.percent(found.beyond)} outside"
        )
    return "; ".join(parts)


@brief.register
def _(found: Targeting) -> Brief:
    own, plan = decision_brief(found.decision), found.decision.plan
    facts, caveats = list(own.facts), list(own.caveats)
    total = words.number(found.uplift, words.digits(found.uplift / 10))
    gains = words.gains(found.decision.outcome)
    if plan.missing not in (None, Why.FAILED_CHECK) and found.n_treated:
        facts.append((f"Predicted {gains}", f"{total} (model prediction only)"))
    left_out = {
        "excluded": found.n_excluded, "repeated rows": found.n_repeated,
        "without an id": found.n_nameless,
    }  # fmt: skip
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
    caveats += [randomisation.verdict(check) for check in found.warnings]
    if found.assumed_costs:
        caveats.append("costs are taken from the fit.")
    step = own.next_step
    if found.decision.is_good:
        # `assign` treats a share of all people, without exclusions, costs or limits.
        can_assign = plan.terms.share is not None and plan.terms.cost is None
        how = "leave a random tenth of the list untreated"
        if can_assign and plan.missing is None and not any(left_out.values()):
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
