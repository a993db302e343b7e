"""Words for the evidence of a model: does the treatment work, and does targeting help?"""

from __future__ import annotations

from collections.abc import Sequence
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
    Roles,
    Segments,
    State,
)

TOP = 0.3  # of the people, or of the spending, in the verdict
DETECTABLE = 2.8  # standard errors: found with 80% power at the level of 95%
_ROWS = {
    Basis.CROSS_FITTED: "people",
    Basis.HELD_OUT: "held-out people",
    Basis.NEW_ROWS: "new people",
}


@brief.register
def evidence_brief(found: Evidence) -> Brief:
    """The words for the evidence of a model."""
    roles, policy = found.roles, found.policy
    trial = ("Trial", _trial(found))
    caveats: dict[str, None] = {}
    for arm in found.arms:
        if arm.check is not None:
            if not arm.check["ok"]:
                caveats[randomisation.verdict(arm.check)] = None
            caveats |= dict.fromkeys(randomisation.questions(arm.check))
    if found.failed_check:
        return Brief(
            verdict="The trial fails its check: it does not show what the treatment does.",
            facts=(trial,),
            caveats=tuple(caveats),
            next_step="find out how people were assigned, with auucmax check",
        )
    facts, details = [], []
    for arm in found.arms:
        several = len(found.arms) > 1
        name = words.arm_name(roles, arm.arm)
        who = f"{name} for everyone" if several else "Treat everyone"
        facts.append((who, words.effect(arm.effect, roles.outcome)))
        own = [("Ranking", ranking(arm, roles.outcome))]
        if arm.rivals:
            rivals = [words.model_name(one.against, roles.outcome) for one in arm.rivals]
            own.append(("Model", _compared(arm.rivals, rivals)))
        if several:
            own += _arm_details(arm, roles)
            details += [(f"{name}: {title}", value) for title, value in own]
        else:
            facts += own
            details += _arm_details(arm, roles)
        for one in arm.rivals:
            if one.difference.upper is not None and one.difference.upper < 0:
                other = words.model_name(one.against, roles.outcome)
                caveats[f"{other} ranks better here: try the model {one.against!r}."] = None
    if len(found.arms) > 1:
        facts.append(("Best arm for each", _policy(found)))
        promise = guarantee(policy.certificate, policy.missing, roles.outcome)
        (details if policy.certificate is None else facts).append(("Guarantee", promise))
    facts.append(trial)
    if policy.segments is not None:
        details += _segments(policy.segments, found)
    state = targeting_state(found)
    step = None
    if _is_harm(found) and not _at_top(found)[1]:
        step = "treat nobody"
    elif state in (State.UNCLEAR, State.UNKNOWN):
        step = "collect more people: auucmax plan --model MODEL says how many"
    return Brief(
        verdict=_verdict(found, state),
        facts=tuple(facts),
        caveats=tuple(caveats),
        next_step=step,
        details=tuple(details),
    )


@brief.register
def _(model: UpliftModel) -> Brief:
    found = evidence_brief(model.evidence)
    step = found.next_step or "auucmax report MODEL --cost ... --value ..."
    return replace(found, next_step=step, details=(*found.details, *_fit_details(model.info)))


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
    helps = any((arm.effect.lower or 0) > 0 for arm in found.arms)
    if all(arm.n_levels == 1 for arm in found.arms):
        return "The model ranks nobody: all people have the same score."
    top, gains = _at_top(found)
    if _is_harm(found):
        return f"Do not treat everyone: it does harm on average{f'; {top}' if gains else ''}."
    if state in (State.GUARANTEED, State.SIGNIFICANT):
        return f"Targeting works: {top}."
    if state == State.LOSS:
        return "Do not use this ranking: it is worse than random targeting."
    if state == State.UNKNOWN:
        return "Too few people to judge the targeting."
    if helps:
        return "The treatment works, but it is not clear that targeting people helps."
    return "No clear effect: neither the treatment nor the targeting is significant."


def _is_harm(found: Evidence) -> bool:
    """Whether every arm does harm on average."""
    return all((arm.effect.upper or 0) < 0 for arm in found.arms)


def _at_top(found: Evidence) -> tuple[str, bool]:
    """What the top people bring, as part of the total effect or per person; is it significant?"""
    curve, outcome = found.policy.curve, found.roles.outcome
    if len(curve.spend) < 3:
        return "the ranking beats random targeting", False
    inner = range(1, len(curve.spend) - 1)
    place = min(inner, key=lambda k: abs(curve.spend[k] - TOP * curve.spend[-1]))
    share = words.percent(sum(curve.shares[place]))
    who = f"treating the top {share}"
    if len(found.arms) > 1:
        who = f"treating {share} with the best arm for each"
    gain, random, whole = curve.gain[place], curve.random[place], curve.gain[-1]
    significant = (curve.band_lower[place] or 0) > 0
    if (curve.lower[-1] or 0) > 0 and 0 < gain <= whole:
        part, by_chance = words.percent(gain / whole), words.percent(random / whole)
        return f"{who} captures {part} of the total effect (random: {by_chance})", significant
    like = Estimate(value=gain, se=curve.se[place])
    scale, _ = words.unit(outcome)
    by_chance = words.number(scale * random, words.places_of(like, scale))
    return f"{who} gains {words.rate(gain, outcome, like)} (random: {by_chance})", significant


def ranking(arm: ArmEvidence, outcome: Outcome) -> str:
    """How a ranking compares with random targeting: a guarantee, or else the interval."""
    if arm.n_levels == 1:
        return "all people have the same score"
    gain = arm.gain
    if arm.certificate is not None and arm.certificate.gain > 0:
        return f"beats random targeting, guaranteed gain {_at_least(arm.certificate, outcome)}"
    if gain.lower is None or gain.upper is None:
        return f"not judged: {gain.missing}" if gain.missing else "not judged"
    if gain.lower > 0:
        return f"beats random targeting by {words.effect(gain, outcome, sign=False)}"
    if gain.upper < 0:
        return f"worse than random targeting: {words.effect(gain, outcome)}"
    return f"no clear gain over random targeting: {words.effect(gain, outcome)}"


def _at_least(found: Certificate, outcome: Outcome) -> str:
    scale, per = words.unit(outcome)
    return f"{words.at_least(scale * found.gain)} {per} ({1 - found.delta:.0%})"


def _compared(contrasts: Sequence[Contrast], names: Sequence[str]) -> str:
    """What is better than which others, worse, or not clearly different."""
    better, worse, unclear = [], [], []
    for own, name in zip(contrasts, names, strict=True):
        if (own.difference.lower or 0) > 0:
            better.append(name)
        elif (own.difference.upper or 0) < 0:
            worse.append(name)
        else:
            unclear.append(name)
    parts = [
        f"better than {words.joined(better)}" if better else "",
        f"worse than {words.joined(worse)}" if worse else "",
        f"no clear difference from {words.joined(unclear, 'or')}" if unclear else "",
    ]
    return "; ".join(filter(None, parts))


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
    return _compared(found.policy.contrasts, names)


def guarantee(found: Certificate | None, missing: Missing | None, outcome: Outcome) -> str:
    """A guarantee with its terms, or why there is none."""
    if found is None:
        return words.why_none(missing)
    if found.gain <= 0:
        return "none: too few people, or too small a gain"
    parts = [f"gain {_at_least(found, outcome)}"]
    if found.claim == "policy":
        parts.append(f"over treating nobody, at {found.budget:g} per person")
    if found.trained_on != (1.0, 1.0):
        low, high = map(words.percent, found.trained_on)
        parts.append(f"models trained on {low} to {high} of the people")
    if found.n_candidates > 1:
        parts.append(f"{found.n_candidates} models tried")
    if found.beyond:
        first, last = found.counted
        parts.append(
            f"outcomes counted from {first:g} to {last:g}, {words.percent(found.beyond)} outside"
        )
    return "; ".join(parts)


def _arm_details(arm: ArmEvidence, roles: Roles) -> list[tuple[str, str]]:
    outcome = roles.outcome
    scale, per = words.unit(outcome)
    found = [("Guarantee", guarantee(arm.certificate, arm.missing, outcome))]
    certified = arm.certificate is not None and arm.certificate.gain > 0
    if not certified or (arm.gain.lower or 0) > 0:  # an interval around 0 would contradict it
        found.append(("Gain over random", words.effect(arm.gain, outcome)))
    found.append(("AUUC", words.estimate(arm.auuc, scale=scale, unit=per)))
    qini = words.number(scale * arm.qini, words.places_of(arm.gain, scale))
    found.append(("Qini", f"{qini} {per}"))
    if arm.effect.se:
        least = words.rate(DETECTABLE * arm.effect.se, outcome, arm.effect)
        found.append(("Power", f"an average effect of {least} is found with 80% power"))
    means = []
    for own in reversed(arm.rows):
        mean = words.number(scale * own.mean, words.places_of(arm.effect, scale))
        events = "" if own.n_events is None else f" ({own.n_events:,} of {own.n_rows:,} not 0)"
        means.append(f"{words.arm_name(roles, own.name)} {mean}{events}")
    found.append((f"Mean {short(outcome.name)}", ", ".join(means)))
    if arm.drivers is not None and arm.drivers.drivers:
        names = dict.fromkeys(own.name for own in arm.drivers.drivers)
        found.append(("Score follows", words.joined(names, most=5)))
    return found


def _trial(found: Evidence) -> str:
    arms, checks = found.arms, [arm.check for arm in found.arms]
    rows = [arms[0].rows[0], *(arm.rows[1] for arm in arms)]
    parts = [f"{sum(own.n_rows for own in rows):,} {_ROWS[found.basis]}"]
    if arms[0].n_groups is not None:
        parts[0] += f" in {max(arm.n_groups or 0 for arm in arms):,} groups"
    if len(arms) == 1:
        parts.append(f"{rows[1].n_rows:,} treated")
    else:
        parts += [f"{own.n_rows:,} {words.arm_name(found.roles, own.name)}" for own in rows[1:]]
    state = "balanced"
    if found.failed_check:
        state = "fails its check"
    elif None in checks:
        state = "balance not checked"
    elif not all(check["ok"] for check in checks if check):
        state = "the check warns"
    return ", ".join([*parts, state])


def _segments(found: Segments, evidence: Evidence) -> list[tuple[str, str]]:
    outcome, several = evidence.roles.outcome, len(evidence.arms) > 1
    scale, per = words.unit(outcome)
    lines = []
    for part in found.parts:
        effects = [
            (f"{words.arm_name(evidence.roles, own.arm)} " if several else "")
            + words.estimate(own.effect, scale=scale, sign=True)
            for own in part.contrasts
            if own.over == evidence.roles.arms[0]
        ]
        rule = " and ".join(part.rule) or "everyone"
        gains = f"{', '.join(effects)} {words.gains(outcome)} {per}"
        lines.append(("Segment", f"{rule}: {words.percent(part.share)} of people, {gains}"))
    return lines


def _fit_details(info: Fit) -> list[tuple[str, str]]:
    lost = sum(info.without_outcome)
    left_out = [f"{n:,} with {short(name)!r}" for name, n in info.other_arms.items()]
    left_out += [f"{lost:,} without outcome"] if lost else []
    rare = [f"{name} ({words.percent(n)})" for name, n in info.rare_categories.items()]
    dropped = [f"{name} ({why})" for name, why in info.dropped.items()]
    found = [
        ("Fitted", f"{info.about} {info.target}. auucmax {info.version}, {info.date[:10]}"),
        ("Left out", words.joined(left_out)),
        ("Features", f"{max(info.n_features)} columns, {max(info.n_terms)} terms"),
        ("Not used", words.joined(dropped)),
        ("Read as categories", words.joined(info.codes)),
        ("Read as numbers", words.joined(info.quantities)),
        ("Rare categories", words.joined(rare)),
        ("Trees", f"trained on {info.n_tree_rows:,} people" if info.n_tree_rows else ""),
    ]
    return [(name, value) for name, value in found if value]
