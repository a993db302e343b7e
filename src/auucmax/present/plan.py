"""Brief of the planned size of a trial."""

from __future__ import annotations

from dataclasses import replace

from auucmax._errors import short
from auucmax.campaign.plan import PlanLine, TrialPlan, What
from auucmax.present import words
from auucmax.present.brief import brief, in_words
from auucmax.results import Brief, Estimate

_NAMES = {
    What.EFFECT: "Average effect",
    What.GAIN: "Ranking",
    What.GUARANTEE: "Ranking, guaranteed",
}


@brief.register
def _(found: TrialPlan) -> Brief:
    base = words.rate(found.assumed[0].base_rate, replace(found.outcome, lower_is_better=False))
    treated = words.percent(found.treated_share)
    facts = [(_name(line), _needed(line, found)) for line in found.lines]
    return in_words(
        _verdict(found),
        [*facts, ("Assumed", f"{base} without treatment, {treated} treated")],
        next_step=f"auucmax assign PEOPLE --id ID {_shares(found)} --key SECRET -o list.csv",
    )


def _name(line: PlanLine) -> str:
    name = _NAMES[line.what]
    return name if line.arm is None else f"{short(line.arm)}: {name[0].lower()}{name[1:]}"


def _needed(line: PlanLine, found: TrialPlan) -> str:
    size = words.rate(line.value, found.outcome, Estimate(value=line.value))
    over = " over random targeting" if line.what != What.EFFECT else ""
    if line.rows is None:
        return f"{size}{over}: no realistic number of people can show it"
    needed = f"{words.people(line.rows)} for {words.percent(found.power)} power"
    if found.n_rows is not None and line.power is not None:
        needed = f"{words.percent(line.power)} power with {words.people(found.n_rows)}, {needed}"
    return f"{size}{over}: {needed}"


def _verdict(found: TrialPlan) -> str:
    if found.n_rows is not None:
        power = dict.fromkeys(What, 1.0)
        for line in found.lines:
            power[line.what] = min(power[line.what], line.power or 0.0)
        return (
            f"With {words.people(found.n_rows)} the trial detects the average effect with "
            f"{words.percent(power[What.EFFECT])} power and the gain of the ranking with "
            f"{words.percent(power[What.GAIN])} power."
        )
    effect, gain = (found.rows(what) for what in (What.EFFECT, What.GAIN))
    if gain and effect:
        return (
            f"The trial needs {max(effect, gain):,} people: {effect:,} to detect the average "
            "effect, "
            f"{gain:,} to show that the ranking beats random targeting."
        )
    needed = [
        f"{n:,} people" if n else "more people than any realistic trial has" for n in (effect, gain)
    ]
    return f"The average effect needs {needed[0]}, the gain of the ranking {needed[1]}."


def _shares(found: TrialPlan) -> str:
    arms = found.arms or (("treated",) if found.n_arms == 1 else ())
    arms = arms or tuple(f"arm{k}" for k in range(1, found.n_arms + 1))
    each = found.treated_share / found.n_arms
    shares = {"control": 1 - found.treated_share} | dict.fromkeys(arms, each)
    return words.option("arms", [f"{name}={share:.3g}" for name, share in shares.items()])
