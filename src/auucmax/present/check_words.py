"""Words for the check of a trial before a fit: is it randomised, and what does it show?"""

from __future__ import annotations

from auucmax._json import short
from auucmax.model.check import TrialCheck
from auucmax.present import words
from auucmax.present.brief import brief
from auucmax.present.randomisation import advice, check_brief, questions, verdict, worst
from auucmax.results import Brief


@brief.register
def _(found: TrialCheck) -> Brief:
    roles, several = found.trial.roles, len(found.arms) > 1
    outcome = roles.outcome
    checks = {own.arm: own.report.to_dict() for own in found.arms}
    bad = worst(list(checks.values()))
    facts, details = [], []
    for own in found.arms:
        if not found.failed:
            who = f"{words.arm_name(roles, own.arm)} for everyone" if several else "Treat everyone"
            facts.append((who, words.effect(own.effect, outcome)))
            if own.detectable is not None:
                least = words.rate(own.detectable, outcome, own.effect)
                name = f"{words.arm_name(roles, own.arm)}: power" if several else "Power"
                facts.append((name, f"an average effect of {least} is found with 80% power"))
        prefix = f"{words.arm_name(roles, own.arm)}: " if several else ""
        details += [(prefix + name, value) for name, value in check_brief(checks[own.arm]).details]
    control = found.arms[0].rows[0]
    rows = [control, *(own.rows[1] for own in found.arms)]
    counts = ", ".join(f"{own.n_rows:,} {words.arm_name(roles, own.name)}" for own in rows)
    facts.append(("Trial", f"{sum(own.n_rows for own in rows):,} people: {counts}"))
    others = found.trial.other_arms or {}
    if others:
        left_out = words.joined(f"{n:,} {short(label)}" for label, n in others.items())
        facts.append(("Left out", left_out))
    for name, columns in (
        ("Read as categories", found.codes),
        ("Read as numbers", found.quantities),
    ):
        if columns:
            details.append((name, words.joined(columns)))
    advised = advice(bad)
    arm = next(name for name, check in checks.items() if check is bad)
    start = f"{short(arm)}: " if several and not bad["ok"] else ""
    return Brief(
        verdict=start + verdict(bad),
        facts=tuple(facts),
        caveats=tuple(
            dict.fromkeys(text for check in checks.values() for text in questions(check))
        ),
        next_step=advised[0] if advised else "auucmax fit, with the same options",
        details=tuple(details),
    )
