"""Words for an assignment: who gets which arm."""

from __future__ import annotations

from auucmax._json import short
from auucmax.campaign.assign import Assignment
from auucmax.present import words
from auucmax.present.brief import brief
from auucmax.results import Brief


@brief.register
def _(found: Assignment) -> Brief:
    counts = _counts(found.arms, found.counts)
    facts = []
    if found.chosen is not None and found.n_explored is not None:
        chosen = sum(found.chosen[1:])
        part = words.percent(chosen / max(found.n_people, 1))
        facts.append(("Model", f"chooses {words.people(chosen)} ({part})"))
        facts.append(("At random", f"{words.people(found.n_explored)} get another arm than chosen"))
    if found.decision is not None:
        facts.append(("Expected", brief(found.decision).verdict))
    if found.n_before:
        facts.append(("Before", f"{words.people(found.n_before)} keep the arm they have"))
    if found.groups is not None:
        facts.append(("Groups", f"{found.n_units:,} by {short(found.groups)}, each in one arm"))
    if found.strata:
        facts.append(("Strata", words.joined(found.strata)))
    failed = [own for own in found.balance if not own.passed]
    if found.balance:
        smallest = min(own.smallest for own in found.balance)
        state = "arms differ" if failed else "arms are balanced"
        facts.append(("Balance", f"{state} (smallest corrected p {words.p_value(smallest)})"))
    later = "auucmax monitor while it runs, then auucmax fit"
    if found.chosen is not None:
        later = "run the campaign, then auucmax verify"
    return Brief(
        verdict=f"Assigned {words.people(found.n_people)}: {counts}.",
        facts=tuple(facts),
        caveats=("the arms differ in what is known of the people: take another key.",)
        * bool(failed),
        next_step=later,
        details=(("Rule", found.rule),),
    )


def _counts(arms: tuple[str, ...], counts: tuple[int, ...]) -> str:
    pairs = zip(arms, counts, strict=True)
    return ", ".join(f"{n:,} {short(name)}" for name, n in pairs)
