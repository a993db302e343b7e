"""Brief of an assignment."""

from __future__ import annotations

from auucmax._errors import short
from auucmax.campaign.assign import Assignment
from auucmax.present import words
from auucmax.present.brief import brief, in_words
from auucmax.results import Brief


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
        facts.append(("Expected", brief(found.decision).verdict))
    if found.n_before:
        facts.append(("Before", f"{words.people(found.n_before)} keep their arm"))
    if found.groups is not None:
        facts.append(("Groups", f"{found.n_units:,} by {short(found.groups)}, each in one arm"))
    facts.append(("Strata", words.joined(found.strata)))
    return in_words(
        f"Assigned {words.people(found.n_people)}: {words.counts(found.arms, found.counts)}.",
        facts,
        next_step=later,
        details=[("Rule id", found.rule)],
    )
