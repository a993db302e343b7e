"""Brief of the planned size of a trial."""

from __future__ import annotations

from dataclasses import replace

from auucmax._errors import short
from auucmax.campaign.plan import TrialPlan, What
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
    facts = []
    power = dict.fromkeys(What, 1.0)
    for line in found.lines:
        name = _NAMES[line.what]
        if line.arm is not None:
            name = f"{short(line.arm)}: {name[0].lower()}{name[1:]}"
        size = words.rate(line.value, found.outcome, Estimate(value=line.value))
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
    if found.n_rows is not None:
        verdict = (
            f"With {words.people(found.n_rows)} the trial detects the average effect with "
            f"{words.percent(power[What.EFFECT])} power and the gain of the ranking with "
            f"{words.percent(power[What.GAIN])} power."
        )
    elif gain and effect:
        verdict = (
            f"The trial needs {max(effect, gain):,} people: {effect:,} to detect the average "
            f"effect, {gain:,} to show that the ranking beats random targeting."
        )
    else:
        needs = [
            f"{n:,} people" if n else "more people than any realistic trial has"
            for n in (effect, gain)
        ]
        verdict = f"The average effect needs {needs[0]}, the gain of the ranking {needs[1]}."

    base = words.rate(found.assumed[0].base_rate, replace(found.outcome, lower_is_better=False))
    treated = words.percent(found.treated_share)
    facts.append(("Assumed", f"{base} without treatment, {treated} treated"))
    numbers = range(1, found.n_arms + 1)
    arms = found.arms or ([f"arm{k}" for k in numbers] if found.n_arms > 1 else ["treated"])
    shares = {"control": 1 - found.treated_share}
    shares |= dict.fromkeys(arms, found.treated_share / found.n_arms)
    asked = words.option("arms", [f"{name}={share:.3g}" for name, share in shares.items()])
    step = f"auucmax assign PEOPLE --id ID {asked} --key SECRET -o list.csv"
    return in_words(verdict, facts, next_step=step)
