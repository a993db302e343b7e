"""Words for the evidence of a model: does the treatment work, and does targeting help?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from auucmax._json import short
from auucmax.model.uplift_model import UpliftModel
from auucmax.present import randomisation, words
from auucmax.present.brief import brief
from auucmax.results import (
    ArmEvidence,
    Basis,
    Brief,
    Certificate,
    Contrast,
    Estimate,
    Evidence,
    Fit,
    Missing,
    Outcome,
    Segments,
    State,
)

TOP = 0.3  # of the people, or of the spending, in the verdict
FEW_EVENTS = 100
DETECTABLE = 2.8  # standard errors: found with 80% power at the level of 95%
_ROWS = {
    Basis.CROSS_FITTED: "people",
    Basis.HELD_OUT: "held-out people",
    Basis.NEW_ROWS: "new people",
}
_MORE_ROWS = "collect more people: auucmax plan --model MODEL says how many"


@brief.register
def evidence_brief(found: Evidence) -> Brief:
    """The words for the evidence of a model."""
    outcome, policy = found.roles.outcome, found.policy
    several = len(found.arms) > 1
    trial = ("Trial", _trial(found))
    if found.failed_check:
        return Brief(
            verdict="The trial fails its check: it does not show what the treatment does.",
            facts=(trial,),
            caveats=_of_checks(found.arms),
            next_step="find out how people were assigned, with auucmax check",
        )
    state = targeting_state(found)
    facts = []
    details = []
    for arm in found.arms:
        who = f"{arm.arm} for everyone" if several else "Treat everyone"
        facts.append((who, words.effect(arm.effect, outcome)))
        own = [("Ranking", ranking(arm, outcome)), ("Model", compared(arm.rivals, outcome))]
        own = [(name, value) for name, value in own if value]
        (details if several else facts).extend(_of_arm(own, arm, several))
        details += _of_arm(_arm_details(arm, outcome), arm, several)
    if several:
        facts.append(("Best arm for each", _policy(found)))
        sure = policy.certificate is not None and policy.certificate.gain > 0
        promise = guarantee(policy.certificate, policy.missing, outcome)
        (facts if sure else details).append(("Guarantee", promise))
    facts.append(trial)
    if policy.segments is not None:
        details += _segments(policy.segments, found)
    return Brief(
        verdict=_verdict(found, state),
        facts=tuple(facts),
        caveats=(*_of_checks(found.arms), *_of_rows(found), *_of_rivals(found)),
        next_step=_MORE_ROWS if state in (State.UNCLEAR, State.UNKNOWN) else None,
        details=tuple(details),
    )


@brief.register
def _(model: UpliftModel) -> Brief:
    found = evidence_brief(model.evidence)
    step = found.next_step or "auucmax report MODEL --cost ... --value ..."
    details = (*found.details, *_fit_details(model.info, model.roles.arms))
    return replace(found, next_step=step, details=details)


def targeting_state(found: Evidence) -> State:
    """What is known of the gain over random targeting."""
    if found.failed_check:
        return State.UNKNOWN
    gain, certificate = found.arms[0].gain, found.arms[0].certificate
    guaranteed = certificate.gain if certificate else None
    if len(found.arms) > 1:
        gain = found.policy.contrasts[0].difference
        certificate = found.policy.certificate
        guaranteed = certificate.over_random if certificate else None
    if guaranteed is not None and guaranteed > 0:
        return State.GUARANTEED
    if gain.lower is None or gain.upper is None:
        return State.UNKNOWN
    if gain.lower > 0:
        return State.SIGNIFICANT
    return State.LOSS if gain.upper < 0 else State.UNCLEAR


def _verdict(found: Evidence, state: State) -> str:
    effects = [arm.effect for arm in found.arms]
    harm = all(own.upper is not None and own.upper < 0 for own in effects)
    helps = any(own.lower is not None and own.lower > 0 for own in effects)
    if all(arm.n_levels == 1 for arm in found.arms):
        return "The model ranks nobody: all people have the same score."
    if state in (State.GUARANTEED, State.SIGNIFICANT):
        if harm:
            return f"Do not treat everyone: on average it does harm. {_at_top(found)}"
        return f"Targeting works: {_at_top(found)}"
    if harm:
        return "Do not treat: on average it does harm, and targeting does not clearly help."
    if state == State.LOSS:
        return "Do not use this ranking: it is worse than random targeting."
    if state == State.UNKNOWN:
        return "Too few people to judge the targeting."
    if helps:
        return "The treatment works, but it is not clear that targeting people helps."
    return "No clear effect: neither the treatment nor the targeting is significant."


def _at_top(found: Evidence) -> str:
    """What the top people bring, in parts of the effect on everyone or per 100 people."""
    curve, outcome = found.policy.curve, found.roles.outcome
    inner = range(1, len(curve.spend) - 1)
    if not inner:
        return "the ranking beats random targeting."
    place = min(inner, key=lambda k: abs(curve.spend[k] - TOP * curve.spend[-1]))
    share = words.percent(sum(curve.shares[place]))
    several = len(found.arms) > 1
    who = f"treating {share} with the best arm for each" if several else f"treating the top {share}"
    gain, random, whole = curve.gain[place], curve.random[place], curve.gain[-1]
    end = curve.lower[-1]
    if end is not None and end > 0 and 0 < gain <= whole:
        part, by_chance = words.percent(gain / whole), words.percent(random / whole)
        return f"{who} captures {part} of the total effect (random: {by_chance})."
    like = Estimate(value=gain, se=curve.se[place])
    scale = words.unit(outcome)[0]
    by_chance = words.number(scale * random, words.places_of(like, scale))
    return f"{who} gains {words.rate(gain, outcome, like)} (random: {by_chance})."


def ranking(arm: ArmEvidence, outcome: Outcome) -> str:
    """How a ranking compares with random targeting: a guarantee, or else the interval."""
    if arm.n_levels == 1:
        return "all people have the same score"
    gain = arm.gain
    if arm.certificate is not None and arm.certificate.gain > 0:
        return f"beats random targeting, {_at_least(arm.certificate, outcome)}"
    if gain.lower is None or gain.upper is None:
        return f"not judged: {gain.missing}" if gain.missing else "not judged"
    if gain.lower > 0:
        return f"beats random targeting by {words.effect(gain, outcome, sign=False)}"
    if gain.upper < 0:
        return f"worse than random targeting: {words.effect(gain, outcome)}"
    return f"no clear gain over random targeting: {words.effect(gain, outcome)}"


def _at_least(found: Certificate, outcome: Outcome) -> str:
    scale, per = words.unit(outcome)
    least = words.number(scale * found.gain, max(words.digits(scale * found.gain), 0) + 1)
    return f"guaranteed gain at least {least} {per} ({1 - found.delta:.0%})"


def compared(rivals: Sequence[Contrast], outcome: Outcome) -> str:
    """Which rankings this one is better than, worse than, or not clearly different from."""
    return _groups(rivals, [words.model_name(own.against, outcome) for own in rivals])


def _groups(contrasts: Sequence[Contrast], names: Iterable[str]) -> str:
    found: dict[str, list[str]] = {
        "better than": [],
        "worse than": [],
        "no clear difference from": [],
    }
    for own, name in zip(contrasts, names, strict=True):
        lower, upper = own.difference.lower, own.difference.upper
        kind = "no clear difference from"
        if lower is not None and lower > 0:
            kind = "better than"
        elif upper is not None and upper < 0:
            kind = "worse than"
        found[kind].append(name)
    return "; ".join(
        f"{kind} {words.joined(own, 'or' if kind.startswith('no') else 'and')}"
        for kind, own in found.items()
        if own
    )


def _policy(found: Evidence) -> str:
    """How giving each person the best arm compares with simpler policies."""
    names = []
    for own in found.policy.contrasts:
        everyone = own.against.removeprefix("everyone: ")
        name = f"targeting {own.against} alone"
        if own.against == "random":
            name = "the same arms for random people"
        elif everyone != own.against:
            name = f"{everyone} for everyone"
        names.append(name)
    return _groups(found.policy.contrasts, names)


def guarantee(found: Certificate | None, missing: Missing | None, outcome: Outcome) -> str:
    """A guarantee with its terms, or why there is none."""
    if found is None:
        return words.why_none(missing)
    if found.gain <= 0:
        return "none: too few people, or too small a gain"
    parts = [_at_least(found, outcome).removeprefix("guaranteed ")]
    if found.claim == "policy":
        parts.append(f"over treating nobody, at {found.budget:g} per person")
    if found.trained_on != (1.0, 1.0):
        low, high = map(words.percent, found.trained_on)
        parts.append(f"models trained on {low} to {high} of the people")
    if found.n_candidates > 1:
        parts.append(f"{found.n_candidates} models tried")
    if found.beyond:
        low, high = found.counted
        parts.append(
            f"outcomes counted from {low:g} to {high:g}, {words.percent(found.beyond)} lie outside"
        )
    return "; ".join(parts)


def _arm_details(arm: ArmEvidence, outcome: Outcome) -> list[tuple[str, str]]:
    scale, _ = words.unit(outcome)
    certified = arm.certificate is not None and arm.certificate.gain > 0
    found = [("Guarantee", guarantee(arm.certificate, arm.missing, outcome))]
    if not certified or (arm.gain.lower is not None and arm.gain.lower > 0):
        found.append(("Gain over random", words.effect(arm.gain, outcome)))
    found.append(("AUUC", f"{words.estimate(arm.auuc, scale=scale)}; Qini {arm.qini:.4g}"))
    if arm.effect.se:
        least = words.rate(DETECTABLE * arm.effect.se, outcome, arm.effect)
        found.append(("Power", f"an average effect of {least} is found with 80% power"))
    means = []
    for own in reversed(arm.rows):
        mean = words.number(scale * own.mean, words.places_of(arm.effect, scale))
        events = "" if own.n_events is None else f" ({own.n_events:,} of {own.n_rows:,} not 0)"
        means.append(f"{short(own.name)} {mean}{events}")
    found.append((f"Mean {short(outcome.name)}", ", ".join(means)))
    if arm.drivers is not None and arm.drivers.drivers:
        names = dict.fromkeys(own.name for own in arm.drivers.drivers)
        found.append(("Score follows", words.joined(names, most=5)))
    return found


def _of_arm(
    facts: Iterable[tuple[str, str]], arm: ArmEvidence, several: bool
) -> list[tuple[str, str]]:
    """Facts of one of several arms, with its name."""
    return [(f"{arm.arm}: {name}" if several else name, value) for name, value in facts]


def _trial(found: Evidence) -> str:
    arms = found.arms
    control = arms[0].rows[0]
    rows = [arm.rows[1] for arm in arms]
    total = control.n_rows + sum(own.n_rows for own in rows)
    parts = [f"{total:,} {_ROWS[found.basis]}"]
    if arms[0].n_groups is not None:
        parts[0] += f" in {max(arm.n_groups or 0 for arm in arms):,} groups"
    if len(arms) == 1:
        parts.append(f"{rows[0].n_rows:,} treated")
    else:
        parts += [f"{own.n_rows:,} {short(own.name)}" for own in rows]
    checks = [arm.check for arm in arms]
    if any(check is None for check in checks):
        parts.append("balance not checked")
    elif found.failed_check:
        parts.append("fails its check")
    else:
        parts.append("balanced" if all(own["ok"] for own in checks if own) else "the check warns")
    return ", ".join(parts)


def _of_checks(arms: Sequence[ArmEvidence]) -> tuple[str, ...]:
    """What the checks found, each once."""
    found: dict[str, None] = {}
    for arm in arms:
        if arm.check is not None:
            if not arm.check["ok"]:
                found[randomisation.verdict(arm.check)] = None
            found |= dict.fromkeys(randomisation.questions(arm.check))
    return tuple(found)


def _of_rows(found: Evidence) -> tuple[str, ...]:
    rows = {own.name: own.n_events for arm in found.arms for own in arm.rows}
    few = {name: n for name, n in rows.items() if n is not None and n < FEW_EVENTS}
    if not few:
        return ()
    name, n = min(few.items(), key=lambda own: own[1])
    return (
        f"only {n:,} people of {short(name)!r} have an outcome other than 0: parts of the "
        f"people rest on still fewer.",
    )


def _of_rivals(found: Evidence) -> tuple[str, ...]:
    better = {
        own.against: words.model_name(own.against, found.roles.outcome)
        for arm in found.arms
        for own in arm.rivals
        if own.difference.upper is not None and own.difference.upper < 0
    }
    return tuple(f"{name} ranks better here: try model={key!r}." for key, name in better.items())


def _segments(found: Segments, evidence: Evidence) -> list[tuple[str, str]]:
    outcome, several = evidence.roles.outcome, len(evidence.arms) > 1
    scale, per = words.unit(outcome)
    lines = []
    for part in found.parts:
        effects = [
            (f"{short(own.arm)} " if several else "")
            + words.estimate(own.effect, scale=scale, sign=True)
            for own in part.contrasts
            if own.over == evidence.roles.arms[0]
        ]
        rule = " and ".join(part.rule) or "everyone"
        gains = f"{', '.join(effects)} {words.gains(outcome)} {per}"
        lines.append(("Segment", f"{rule}: {words.percent(part.share)} of people, {gains}"))
    return lines


def _fit_details(info: Fit, arms: Sequence[str]) -> list[tuple[str, str]]:
    lost = sum(info.without_outcome)
    left_out = [f"{n:,} with {short(name)!r}" for name, n in info.other_arms.items()]
    left_out += [f"{lost:,} without outcome"] if lost else []
    rare = [f"{name} ({words.percent(n)})" for name, n in info.rare_categories.items()]
    dropped = [f"{name} ({why})" for name, why in info.dropped.items()]
    found = [
        ("Fitted", f"{info.about} {info.target}. auucmax {info.version}, {info.date}"),
        ("Left out", words.joined(left_out)),
        ("Features", f"{max(info.n_features)} columns, {max(info.n_terms)} terms"),
        ("Not used", words.joined(dropped)),
        ("Categories", words.joined(info.codes)),
        ("Numbers", words.joined(info.quantities)),
        ("Rare categories", words.joined(rare)),
        ("Trees", f"trained on {info.n_tree_rows:,} people" if info.n_tree_rows else ""),
    ]  # fmt: skip
    return [(name, value) for name, value in found if value]
