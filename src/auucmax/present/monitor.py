"""Brief of a look at a running trial."""

from __future__ import annotations

from auucmax._errors import short
from auucmax.campaign.monitor import Look, Verdict
from auucmax.present import words
from auucmax.present.brief import brief, in_words
from auucmax.results import Brief, Estimate, Outcome

_VERDICTS = {
    Verdict.STOP_FAILED_RATIO: "Stop: the arms do not have the planned sizes",
    Verdict.STOP_FAILED_BOUNDS: "Stop: the numbers contradict each other, so something in the "
    "trial is broken",
    Verdict.HARM: "You may stop: the treatment does harm",
    Verdict.EFFECT_SHOWN: "You may stop: the treatment works",
    Verdict.GAIN_SHOWN: "You may stop: targeting by the score works",
    Verdict.LOSS_SHOWN: "You may stop: targeting by the score is worse than random",
    Verdict.CONTINUE: "Go on: nothing is certain yet",
    Verdict.TOO_EARLY: "Go on: too early for a statement",
}


@brief.register
def _(found: Look) -> Brief:
    outcome, several = found.roles.outcome, len(found.arms) > 1
    until = "" if found.until is None else f", outcomes until {found.until}"
    facts = []
    for own in found.arms:
        name = f"{short(own.arm)}: " if several else ""
        if own.effect is not None:
            facts.append((f"{name}Average effect", _bounds(own.effect, outcome)))
        if own.gain is not None:
            facts.append((f"{name}Ranking", f"{_bounds(own.gain, outcome)} over random targeting"))
    arms = found.roles.arms
    facts.append(("Arms", words.counts(arms, found.counts)))
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
        step = "before you act on this, run auucmax check on all rows"
    certain = f"all bounds hold at all looks ({words.percent(1 - found.delta)})"
    return in_words(
        f"{_VERDICTS[found.verdict]} ({words.people(found.n_rows)}{until}).",
        facts,
        caveats,
        step,
        [("Certainty", certain)],
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
