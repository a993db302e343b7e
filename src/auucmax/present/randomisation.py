"""Briefs of a trial and of its randomisation check.

The numbers of a check come from its report or, in a model file, from a dictionary.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from auucmax._errors import short
from auucmax.data.randomisation import RandomisationReport
from auucmax.data.trial import Trial, TrialSummary
from auucmax.model.check import TrialCheck
from auucmax.present import words
from auucmax.present.brief import brief, in_words
from auucmax.results import Brief, Estimate

Check = Mapping[str, Any]
_FAILURES = {
    "sample ratio": "the arms do not have the planned sizes",
    "chances": "the numbers of treated people contradict the propensities",
    "likelihood ratio": "the features predict who was treated",
    "classifier": "the features predict who was treated",
    "missing values": "missing values differ between the arms",
    "missing outcomes": "outcomes are missing more often in one arm",
}
_LOST = "no analysis of the remaining rows can repair this"
_ADVICE = {
    "sample ratio": f"find out which rows were lost or added after assignment: {_LOST}",
    "chances": "check that each propensity is the probability of treatment by design, and that no "
    "rows were lost after assignment",
    "missing values": "find out why values are missing more often in one arm",
    "missing outcomes": f"find out why outcomes are missing more often in one arm: {_LOST}",
}


@brief.register
def _(report: RandomisationReport) -> Brief:
    return check_brief(report.to_dict())


def check_brief(found: Check) -> Brief:
    """Describe a check: verdict, advice, and all tests as details."""
    advised = advice(found)
    counts = found["counts"]
    details = [("Note", found["grouping"]), ("Note", found["evened"])]
    for test in found["tests"]:
        own, corrected = (words.p_value(test[name]) for name in ("p_value", "adjusted_p_value"))
        p_value = own if own == corrected else f"{own}, corrected {corrected.removeprefix('p = ')}"
        name = f"{test['name']} ({short(test['arm'])})" if test["arm"] else str(test["name"])
        details.append((name, f"{p_value}; {test['detail']}"))
    known = [own for own in found["differences"] if own["difference"] == own["difference"]]
    largest = [f"{short(own['feature'])} {own['difference']:+.3f}" for own in known[:5]]
    if largest:
        details.append(("Largest differences", f"{', '.join(largest)} standard deviations"))
    for own in found["suspects"]:
        value, target = own["value"], own["target"]
        texts = {
            "values": f"all {value:,.0f} values are in one arm",
            "p": f"predicts the outcome, and differs between the arms ({words.p_value(value)})",
            "rows": f"{value:,.0f} rows at one end all have the same {target}",
        }
        predicts = f"predicts the {target}{' perfectly' * (value > 0.9995)}"
        text = texts.get(own["measure"], f"{predicts} ({own['measure']} {value:.3f})")
        details.append(("Suspect", f"{short(own['feature'])}: {text}"))
    details += [("Not tested", note) for note in found["notes"]]
    details += [("Advice", text) for text in advised[1:]]
    return in_words(
        verdict(found),
        [("Arms", words.counts(counts, counts.values()))],
        questions(found),
        advised[0] if advised else None,
        details,
    )


def verdict(found: Check) -> str:
    """One sentence: the trial looks randomised, or what failed."""
    n_tests = len(found["tests"])
    if not found["stops"] and not found["failures"]:
        if not n_tests:
            return "The randomisation is unknown: nothing could be tested."
        after = ""
        if found["provided"]:
            after = f", if {words.joined(found['provided'])} were recorded after treatment"
        return f"The trial looks randomised{after} ({n_tests} test{'s' * (n_tests > 1)})."
    reasons = []
    texts = dict.fromkeys(_FAILURES[test["name"]] for test in found["failures"])
    if found["treated_by"]:
        names = words.joined(found["treated_by"])
        reasons.append(f"treatment depends on {names}, so it was not randomised")
        texts.pop(_FAILURES["classifier"], None)
    for target, what in (("treatment", "who was treated"), ("outcome", "the outcome")):
        own = [s["feature"] for s in found["suspects"] if s["is_after"] and s["target"] == target]
        if own:
            reasons.append(f"{words.joined(own)} reveals {what}")
    why = "; ".join([*reasons, *texts])
    if found["stops"]:
        return f"The check fails: {why}."
    rate = f"{1 / found['alpha']:,.0f}"
    return f"The check warns: {why}. One in {rate} properly randomised trials looks like this."


def tag(found: Check | None) -> tuple[str, str]:
    """Colour and label of a check."""
    if found is None:
        return "caution", "not checked"
    if found["stops"] or not found["tests"]:
        return "problem", "check fails"
    return ("ok", "passed the check") if found["ok"] else ("caution", "check warns")


def message(found: Check) -> str:
    """Verdict, advice and questions in one line, for errors and warnings."""
    more = (*advice(found), *questions(found))
    return " ".join(
        [verdict(found), *(f"{text[0].upper()}{text[1:]}".rstrip(".?") + "." for text in more)]
    )


def questions(found: Check) -> tuple[str, ...]:
    """Questions that only someone who knows the trial can answer."""
    asked = []
    if found["households"]:
        names = words.joined(found["households"], "or")
        asked.append(
            f"do rows with the same {names} belong together, such as a household? Then "
            f"{words.option('groups', found['households'][:1])}: otherwise intervals are too "
            f"narrow."
        )
    asked += [
        f"{short(doubt['feature'])} predicts the {doubt['target']} with {doubt['measure']} "
        f"{doubt['value']:.2f}. If it was recorded after treatment: "
        f"{words.option('after', [doubt['feature']])}."
        for doubt in found["doubts"]
    ]
    return tuple(asked)


def advice(found: Check) -> tuple[str, ...]:
    """Advice on each failure."""
    failed = dict.fromkeys(test["name"] for test in found["failures"])
    after = [own["feature"] for own in found["suspects"] if own["is_after"]]
    predicted = "likelihood ratio" in failed or "classifier" in failed
    depends = predicted or len(after) < len(found["suspects"])
    given = []
    if not found["tests"]:
        given.append("give the planned share of treated rows (--expected-share) or more features")
    assigned = "find out how people were assigned"
    if not found["evened"]:
        assigned += "; if probabilities differed by design: --propensity COLUMN"
    if late := list(dict.fromkeys([*after, *found["treated_by"]])):
        were = "were" if len(late) > 1 else "was"
        cure = f"if {words.joined(late)} {were} recorded after treatment: "
        cure += words.option("after", late)
        given.append(f"{cure}; if not, {assigned}" if depends else cure)
    elif depends:
        given.append(assigned)
    given += [text for name, text in _ADVICE.items() if name in failed]
    if (failed or depends) and not found["grouping"]:
        groups = words.option("groups", found["households"][:1] or ["COLUMN"])
        grouped = f"if whole groups were treated together (households): {groups}"
        given.insert(0 if found["households"] and not late else len(given), grouped)
    return tuple(given)


@brief.register
def _(trial: Trial) -> Brief:
    return brief(trial.summary())


@brief.register
def _(found: TrialSummary) -> Brief:
    roles, facts = found.roles, []
    outcome = replace(roles.outcome, lower_is_better=False)
    scale, per = words.unit(outcome)
    for arm in found.arms:
        value = f"{arm.n_rows:,} rows ({arm.share:.1%}), mean {scale * arm.mean:.4g} {per}"
        facts.append((words.arm_name(roles, arm.name), value))
    for own in found.effects:
        effect, p_value = Estimate(value=own.effect), ""
        if math.isfinite(own.standard_error):
            effect = Estimate(value=own.effect, lower=own.low, upper=own.high)
            p_value = f", {words.p_value(own.p_value)}"
        name = f"Effect of {words.arm_name(roles, own.name)}"
        facts.append((name, words.effect(effect, outcome) + p_value))
    features = f"{found.n_features:,} feature{'s' * (found.n_features != 1)}"
    name = "" if found.name == "the table" else f"{short(found.name)}: "
    return in_words(
        f"{name}{found.n_rows:,} rows, {features}; outcome: {short(outcome.name)}; "
        f"treatment: {short(roles.treatment)}.",
        facts,
    )


@brief.register
def _(found: TrialCheck) -> Brief:
    roles, several = found.trial.roles, len(found.arms) > 1
    checks = [own.report.to_dict() for own in found.arms]
    # The worst comes first: failed, not tested, warning, passed.
    bad = max(checks, key=lambda one: (bool(one["stops"]), not one["tests"], not one["ok"]))
    facts, details = [], []
    for own, check in zip(found.arms, checks, strict=True):
        start = words.of_arm(roles, own.arm)
        if not found.failed:
            everyone = words.everyone(words.of_arm(roles, own.arm, end=""))
            facts.append((everyone, words.effect(own.effect, roles.outcome)))
            if own.detectable is not None:
                least = words.rate(own.detectable, roles.outcome, own.effect)
                power = f"80% chance to detect an effect of {least} or more"
                facts.append((f"{start}Power", power))
        details += [(start + title, value) for title, value in check_brief(check).details]
    rows = [found.arms[0].rows[0], *(own.rows[1] for own in found.arms)]
    sizes = [own.n_rows for own in rows]
    names = [words.arm_name(roles, own.name) for own in rows]
    facts.append(("Trial", f"{words.people(sum(sizes))}: {words.counts(names, sizes)}"))
    others = found.trial.other_arms or {}
    facts.append(("Left out", words.counts(others, others.values())))
    n_lost = 0 if found.trial.lost is None else len(found.trial.lost.arm)
    facts.append(("No outcome", f"{n_lost:,} rows, dropped" if n_lost else ""))
    details.append(("Read as categories", words.joined(found.codes)))
    details.append(("Read as numbers", words.joined(found.quantities)))
    advised = advice(bad)
    arm = found.arms[checks.index(bad)].arm
    first = ("" if bad["ok"] else words.of_arm(roles, arm)) + verdict(bad)
    harmful = [words.arm_name(roles, own.arm) for own in found.arms if words.side(own.effect) < 0]
    if harmful and not found.failed:
        first += f" On average {words.joined(harmful) if several else 'the treatment'} did harm."
        if not roles.outcome.lower_is_better:
            lower = f"lower values of {short(roles.outcome.name)} are better"
            first += f" If {lower}, add --lower-is-better."
    asked = [text for check in checks for text in questions(check)]
    step = f"auucmax fit, with the same options{' and --drop-missing-outcomes' * (n_lost > 0)}"
    step = f"answer the questions about the trial, then {step}" if asked else step
    return in_words(first, facts, asked, advised[0] if advised else step, details)
