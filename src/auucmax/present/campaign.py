"""Briefs of plans, assignments, looks at a running trial and verified campaigns."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np

from auucmax._errors import short
from auucmax.campaign.assign import Assignment
from auucmax.campaign.monitor import Look, Verdict
from auucmax.campaign.plan import TrialPlan, What
from auucmax.campaign.verify import Against, Comparison, ForecastVerdict, Verification
from auucmax.present import words
from auucmax.present.brief import brief, in_words
from auucmax.results import Brief, Estimate, Outcome, State

_NAMES = {
    What.EFFECT: "Average effect",
    What.GAIN: "Ranking",
    What.GUARANTEE: "Ranking, guaranteed",
}
_VERDICTS = {
    Verdict.STOP_FAILED_RATIO: "Stop: the arms do not have the planned sizes",
    Verdict.STOP_FAILED_BOUNDS: "Stop: the numbers contradict each other, so something in the "
    "trial is broken",
    Verdict.HARM: "You may stop: the treatment does harm",
    Verdict.EFFECT_SHOWN: "You may stop: the treatment works",
    Verdict.GAIN_SHOWN: "You may stop: targeting by the score works",
    Verdict.LOSS_SHOWN: "You may stop: targeting by the score is worse than random",
    Verdict.CONTINUE: "Continue: no clear result yet",
    Verdict.TOO_EARLY: "Continue: too early for a result",
}
_STATES = {
    State.HARM: "The campaign did harm",
    State.SIGNIFICANT: "The campaign worked",
    State.GUARANTEED: "The campaign worked",
    State.UNCLEAR: "It is not clear whether the campaign worked",
}
_PROFITS = {
    1: "The campaign paid off",
    0: "It is not clear whether the campaign paid off",
    -1: "The campaign cost more than it earned",
}
_FORECASTS = {
    ForecastVerdict.HARM: "harm instead of a gain",
    ForecastVerdict.BELOW: "clearly below the forecast",
    ForecastVerdict.CONFIRMED: "confirmed",
    ForecastVerdict.TOO_NOISY: "consistent, but too noisy to confirm it",
    None: "no gain was forecast",
}


@brief.register
def _(found: TrialPlan) -> Brief:
    facts = []
    power = dict.fromkeys(What, 1.0)
    for line in found.lines:
        name = _NAMES[line.what]
        if line.arm is not None:
            name = f"{short(line.arm)}: {name[0].lower()}{name[1:]}"
        size = words.rate(line.value, found.outcome)
        over = " over random targeting" if line.what != What.EFFECT else ""
        needed = "no realistic number of people can show it"
        if line.rows is not None:
            needed = f"{words.people(line.rows)} for {words.percent(found.power)} power"
            if found.n_rows is not None and line.power is not None:
                with_these = f"{words.percent(line.power)} power with {words.people(found.n_rows)}"
                needed = f"{with_these}, {needed}"
        facts.append((name, f"{size}{over}: {needed}"))
        power[line.what] = min(power[line.what], line.power or 0.0)

    effect, gain = (found.rows(what) for what in (What.EFFECT, What.GAIN))
    of_each = " of each arm" if found.n_arms > 1 else ""
    caveats = []
    if of_each:
        caveats.append("power is for each arm on its own; it is lower for all arms at once.")
    if found.n_rows is not None:
        verdict = (
            f"With {words.people(found.n_rows)} the trial has {words.percent(power[What.EFFECT])} "
            f"power to detect the average effect{of_each}, and "
            f"{words.percent(power[What.GAIN])} to detect the gain of the ranking{of_each}."
        )
    elif gain and effect:
        verdict = (
            f"Without a guarantee, the trial needs {max(effect, gain):,} people: {effect:,} to "
            f"detect the average effect{of_each}, {gain:,} to show that the ranking{of_each} "
            f"beats random targeting."
        )
    else:
        needs = [
            f"{n:,} people" if n else "more people than any realistic trial has"
            for n in (effect, gain)
        ]
        verdict = (
            f"The average effect{of_each} needs {needs[0]}, the gain of the ranking{of_each} "
            f"{needs[1]}."
        )

    base = words.rate(found.assumed[0].base_rate, replace(found.outcome, lower_is_better=False))
    treated = words.percent(found.treated_share)
    facts.append(("Assumed", f"{base} without treatment, {treated} treated"))
    numbers = range(1, found.n_arms + 1)
    arms = found.arms or ([f"arm{k}" for k in numbers] if found.n_arms > 1 else ["treated"])
    # Shares that add up to 1 exactly.
    each = Fraction(found.treated_share / found.n_arms).limit_denominator(1000)
    shares = {"control": 1 - found.n_arms * each} | dict.fromkeys(arms, each)
    texts = [
        f"{name}={share if 1000 % share.denominator else float(share)}"
        for name, share in shares.items()
    ]
    asked = words.option("arms", texts)
    step = f"auucmax assign PEOPLE --id ID {asked} --key SECRET -o list.csv"
    return in_words(verdict, facts, caveats, next_step=step)


@brief.register
def _(found: Assignment) -> Brief:
    facts = []
    later = "auucmax monitor while the trial runs, then auucmax fit"
    if found.chosen is not None and found.n_explored is not None:
        n = sum(found.chosen[1:])
        part = words.percent(n / max(found.n_people, 1))
        facts.append(("Model", f"chooses {words.people(n)} ({part})"))
        others = f"{words.people(found.n_explored)} get a different arm than the model chose"
        facts.append(("At random", others))
        later = "run the campaign, then auucmax verify"
    if found.decision is not None:
        facts.append(("Without exploration", brief(found.decision).verdict))
    if found.n_before:
        facts.append(("Before", f"{words.people(found.n_before)} keep their arm"))
    if found.groups is not None:
        facts.append(("Groups", f"{found.n_units:,} by {short(found.groups)}, each in one arm"))
    facts.append(("Strata", words.joined(found.strata)))
    return in_words(
        f"Assigned {words.people(found.n_people)}: {words.counts(found.arms, found.counts)}.",
        facts,
        next_step=later,
        details=[("Assignment id", f"{found.rule}, also in column 'rule' of the list")],
    )


@brief.register
def _(found: Look) -> Brief:
    outcome = found.roles.outcome
    until = "" if found.until is None else f", outcomes until {found.until}"
    facts = []
    for own in found.arms:
        start = words.of_arm(found.roles, own.arm)
        if own.effect is not None:
            facts.append((f"{start}Average effect", _bounds(own.effect, outcome)))
        if own.gain is not None:
            facts.append((f"{start}Ranking", f"{_bounds(own.gain, outcome)} over random targeting"))
    sure = f"with {words.percent(1 - found.delta)} confidence, every bound holds at every look"
    details = [("Certainty", sure)] if facts else []
    facts.append(("Arms", words.counts(found.roles.arms, found.counts)))
    facts.append(
        ("Rows", f"{found.n_new:,} new, {found.n_waiting:,} still waiting for their outcome")
    )
    caveats = []
    if found.n_clipped:
        caveats.append(f"{found.n_clipped:,} outcomes lie outside the range and were clipped.")
    step = None
    if found.verdict.is_failure:
        step = "find out how people were assigned and which rows were lost"
    elif found.needs_check:
        step = "run auucmax check on all rows before you act on this"
    return in_words(
        f"{_VERDICTS[found.verdict]} ({words.people(found.n_rows)}{until}).",
        facts,
        caveats,
        step,
        details,
    )


def _bounds(found: Estimate, outcome: Outcome) -> str:
    """Format bounds that hold at all looks together."""
    scale, per = words.unit(outcome)
    unit = f"{words.gains(outcome)} {per}"
    if found.lower is None or found.upper is None:
        return f"not known ({unit})"
    places = words.places_of(found, scale)
    low, high = (words.number(scale * end, places, sign=True) for end in (found.lower, found.upper))
    return f"{low} to {high} {unit}"


@brief.register
def _(found: Verification) -> Brief:
    roles, extra, run = found.roles, words.gains(found.roles.outcome), found.comparisons[0]
    verdict = f"The gain of the campaign is not known: {_lacking(run, found)}"
    if run.gain is not None:
        gain = words.estimate(run.gain, unit=extra, sign=True)
        if found.state == State.GUARANTEED and run.certified_lower is not None:
            gain = f"{words.rounded(run.gain)} extra {extra}, guaranteed "
            gain += words.at_least(run.certified_lower)
        verdict = f"{_STATES[found.state]}: {gain}"
        if run.profit is not None:
            lead = _PROFITS[words.side(run.profit)]
            if found.state == State.HARM:
                lead = _STATES[State.HARM]
            verdict = f"{lead}: {words.profit(run.profit)}; {gain}"

    facts = []
    # The reason for missing intervals is printed once.
    has_reason = run.gain is not None and run.gain.missing is not None
    for own in found.comparisons[1:]:
        if has_reason:
            own = replace(own, gain=_without_reason(own.gain), profit=_without_reason(own.profit))
        has_reason = has_reason or (own.gain is not None and own.gain.missing is not None)
        name = "If all chosen were treated"
        if own.against != Against.NOBODY:
            other = "random"
            if own.arm is not None:
                other = f"{words.arm_name(roles, own.arm)} for everyone"
            name = f"All chosen against {other}"
        if own.gain is None:
            gain = f"not known: {_lacking(own, found)}"
        elif (own.certified_lower or 0) > 0 >= (own.gain.lower or 0):
            gain = f"{words.rounded(own.gain)} more {extra}, guaranteed "
            gain += words.at_least(own.certified_lower or 0)
        elif own.against == Against.NOBODY:
            gain = words.estimate(own.gain, unit=extra, sign=True)
            gain += f", {words.profit(own.profit)}" if own.profit else ""
        else:
            gain = words.more(own.gain, extra)
            gain += f", {words.more(own.profit, 'profit')}" if own.profit else ""
        facts.append((name, gain))
    forecast = found.forecast
    if forecast is not None:
        if has_reason:
            forecast = replace(forecast, realised=replace(forecast.realised, missing=None))
        whole = "" if forecast.all_treated else " of the chosen"
        value = words.rounded(forecast.forecast, forecast.realised)
        measured = f"{words.estimate(forecast.realised)} measured{whole}"
        text = _FORECASTS[forecast.verdict]
        if forecast.verdict == ForecastVerdict.TOO_NOISY and forecast.forecast.se is None:
            text = "not confirmed (its error is not known without the model)"
        facts.append(("Forecast", f"{text}: {value} {extra} forecast, {measured}"))
    given = np.array([cell.given for cell in found.cells])
    chosen = given[[cell.chosen != roles.arms[0] for cell in found.cells]]
    treated = f"{given[:, 1:].sum():,} treated, {chosen[:, 1:].sum():,} both"
    facts.append(("People", f"{given.sum():,}: {chosen.sum():,} chosen, {treated}"))
    lost = {
        "without an outcome": found.n_without_outcome,
        "not in the list": found.n_not_in_list,
        "in the list but not in the table": found.n_absent,
    }
    details = [
        ("Left out", words.joined(f"{words.people(n)} {why}" for why, n in lost.items() if n))
    ]
    smallest = min((p for own in found.cells for p in own.p_values.values()), default=None)
    if smallest is not None:
        details.append(("Check", f"passed (smallest corrected {words.p_value(smallest)})"))

    held = None if forecast is None else forecast.verdict
    if found.state == State.HARM or held == ForecastVerdict.HARM:
        step = "stop the campaign"
    elif run.profit is not None and words.side(run.profit) < 0:
        step = "stop, or treat fewer people: the campaign costs more than it earns"
    elif held == ForecastVerdict.BELOW:
        step = "fit again on these rows: the people or the treatment have changed"
    elif found.state in (State.GUARANTEED, State.SIGNIFICANT):
        step = "continue, and keep a random part to verify again"
    else:
        step = "continue with more people or a larger random part"
    assumed = "this assumes that people with the same chosen arm were equally likely to be treated."
    caveats = [assumed] if found.cells[0].propensity is None else []
    return in_words(f"{verdict}.", facts, caveats, step, details)


def _without_reason(found: Estimate | None) -> Estimate | None:
    return None if found is None else replace(found, missing=None)


def _lacking(own: Comparison, found: Verification) -> str:
    """Which people got an arm too rarely for this gain to be known."""
    if own.lacking is None:
        return "not available"
    roles, (number, arm) = found.roles, own.lacking
    cell = found.cells[number]
    name = "the chosen"
    if cell.chosen == roles.arms[0]:
        name = "the others"
    elif len(roles.arms) > 2:
        name = f"those chosen for {words.arm_name(roles, cell.chosen)}"
    if cell.propensity is not None:
        name += f" (treated with {words.percent(cell.propensity)})"
    return f"none of {name} got {words.arm_name(roles, arm)}"
