"""Words for the size of a planned trial."""

from __future__ import annotations

from dataclasses import replace

from auucmax._json import short
from auucmax.campaign.plan import By, PlanLine, TrialPlan, What
from auucmax.present import words
from auucmax.present.brief import brief
from auucmax.results import Brief, Estimate, Kind, Outcome

_NAMES = {What.EFFECT: "Average effect", What.GAIN: "Ranking"}


@brief.register
def _(found: TrialPlan) -> Brief:
    outcome = _outcome(found)
    own = found.assumed[0]
    base = words.rate(own.base_rate, replace(outcome, lower_is_better=False))
    facts = [(_name(line), _needed(line, found, outcome)) for line in found.lines]
    treated = words.percent(found.treated_share)
    facts.append(("Assumed", f"{base} without treatment, {treated} treated"))
    details = []
    if found.best_share is not None:
        details.append(("Best treated share", f"{words.percent(found.best_share)} for the ranking"))
    scale, per = words.unit(outcome)
    for line in found.lines:
        if line.width is not None:
            half = scale * line.width / 2
            width = f"plus or minus {words.number(half, words.digits(half / 4))} {per}"
            details.append((f"{_name(line)}: interval", width))
    if own.design_effect > 1.05:
        details.append(("Groups", f"{own.design_effect:.2g} times the variance of single people"))
    return Brief(
        verdict=_verdict(found),
        facts=tuple(facts),
        next_step=f"auucmax assign PEOPLE --arms {_shares(found)} --key NAME",
        details=tuple(details),
    )


def _outcome(found: TrialPlan) -> Outcome:
    if found.outcome is not None:
        return found.outcome
    kind = Kind.BINARY if found.assumed[0].outcome_sd is None else Kind.NUMBER
    return Outcome(name="", kind=kind)


def _name(line: PlanLine) -> str:
    name = _NAMES[line.what] + (", guaranteed" if line.by == By.CERTIFICATE else "")
    return name if line.arm is None else f"{short(line.arm)}: {name[0].lower()}{name[1:]}"


def _needed(line: PlanLine, found: TrialPlan, outcome: Outcome) -> str:
    size = words.rate(line.value, outcome, Estimate(value=line.value))
    over = " over random targeting" if line.what == What.GAIN else ""
    if line.rows is None:
        return f"{size}{over}: no realistic number of people shows it"
    needed = f"{words.people(line.rows)} for {words.percent(found.power)} power"
    if found.n_rows is not None and line.power is not None:
        needed = f"{words.percent(line.power)} power with {words.people(found.n_rows)}, {needed}"
    return f"{size}{over}: {needed}"


def _verdict(found: TrialPlan) -> str:
    effect, gain = (found.rows(what) for what in (What.EFFECT, What.GAIN))
    if found.n_rows is not None:
        powers = {
            what: min((line.power or 0.0) for line in found.lines if _is(line, what))
            for what in What
        }
        return (
            f"{words.people(found.n_rows)} show the average effect with "
            f"{words.percent(powers[What.EFFECT])} power, and the gain of the ranking with "
            f"{words.percent(powers[What.GAIN])}."
        )
    if gain is None or effect is None:
        needed = [
            f"{n:,} people" if n else "more people than any trial has" for n in (effect, gain)
        ]
        return f"The average effect needs {needed[0]}, the gain of the ranking {needed[1]}."
    return (
        f"The trial needs {max(effect, gain):,} people: {effect:,} show the average effect, "
        f"{gain:,} that the ranking beats random targeting."
    )


def _is(line: PlanLine, what: What) -> bool:
    return line.what == what and line.by == By.INTERVAL


def _shares(found: TrialPlan) -> str:
    arms = found.arms or (("treated",) if found.n_arms == 1 else ())
    arms = arms or tuple(f"arm{k}" for k in range(1, found.n_arms + 1))
    each = found.treated_share / found.n_arms
    shares = {"control": 1 - found.treated_share} | dict.fromkeys(arms, each)
    return ",".join(f"{name}={share:.3g}" for name, share in shares.items())
