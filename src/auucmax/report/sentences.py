"""The sentences of the page, each chosen by the numbers of the summary.

Names and numbers as the page shows them.

What the data cannot support: warnings computed from the numbers of the summary.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from auucmax._json import short


def short_list(names: Iterable[object], most: int = 5) -> str:
    """Names in one line, the first few of them.

    >>> short_list(["a", "b", "c"], most=2)
    '"a", "b" and 1 more'
    """
    texts = [f'"{short(name)}"' for name in names]
    if len(texts) > most:
        return f"{', '.join(texts[:most])} and {len(texts) - most} more"
    return " and ".join(filter(None, [", ".join(texts[:-1]), texts[-1]])) if texts else ""


def digits_for(error: float | None) -> int:
    """Decimals that show two significant digits of a standard error; 0 to 6.

    >>> digits_for(0.32), digits_for(45.0), digits_for(None)
    (2, 0, 2)
    """
    if error is None or not math.isfinite(error) or error <= 0:
        return 2
    return int(min(max(1 - math.floor(math.log10(error)), 0), 6))


Summary = Mapping[str, Any]

FEW_EVENTS = 100  # of an arm: below, a rate is known to some 10% of itself at best
FEW_GROUPS = 30
LOPSIDED = 0.1
WIDE = 0.5  # half-width of the band, relative to the gain


def caveats_of(summary: Summary) -> list[dict[str, str]]:
    """``kind``, ``severity`` ("problem", "caution", "note") and ``text``, the worst first."""
    parts = (_of_trial, _of_rows, _of_ranking, _of_rivals, _of_plan, _of_certificate)
    found = [
        {"kind": kind, "severity": severity, "text": text}
        for part in parts
        for kind, severity, text in part(summary)
    ]
    order = ("problem", "caution", "note")
    return sorted(found, key=lambda caveat: order.index(caveat["severity"]))


Found = Iterator[tuple[str, str, str]]


def _of_trial(summary: Summary) -> Found:
    check = summary["randomisation"]
    if check is None:
        yield (
            "not checked",
            "problem",
            "The randomisation was not checked. If treatment was not given at random, every "
            "number on this page can be wrong, whatever its interval says.",
        )
    elif not check["ok"]:
        advice = " ".join(check["advice"])
        yield (
            "not randomised",
            "problem",
            f"{check['verdict']} The intervals do not cover what follows from this. {advice}",
        )
    rows = summary["rows"]
    rarer = min(rows["treated"], rows["control"]) / rows["n_rows"]
    if rarer < LOPSIDED:
        yield (
            "lopsided",
            "caution",
            f"Only {rarer:.1%} of the rows are in the smaller arm, which sets the width of all "
            f"intervals: more rows of the larger arm would hardly narrow them.",
        )


def _of_rows(summary: Summary) -> Found:
    rows, outcome = summary["rows"], summary["names"]["outcome"]
    if rows["doubt"] is not None:
        yield "rows perhaps known", "problem", rows["doubt"]
    events = [rows["events_treated"], rows["events_control"]]
    if None not in events and min(events) < FEW_EVENTS:
        yield (
            "few outcomes",
            "caution",
            f"Few outcomes: {events[0]:,} treated and {events[1]:,} control rows have "
            f"{outcome} = 1. Effects in parts of the people rest on still fewer.",
        )
    if rows["groups"] is None:
        yield (
            "independence",
            "note",
            "Intervals take the rows as independent. If several rows belong to one household or "
            "shop, or treating one person changes another's outcome, they are too narrow: pass "
            "groups, and randomise groups.",
        )
    elif min(rows["groups_treated"], rows["groups_control"]) < FEW_GROUPS:
        yield (
            "few groups",
            "caution",
            f"Only {rows['groups_treated']:,} treated and {rows['groups_control']:,} control "
            f"groups (households, shops): intervals by group are approximate with so few.",
        )


def _of_ranking(summary: Summary) -> Found:
    auuc, head, effect = summary["auuc"], summary["headline"], summary["effect"]
    if summary["score"]["levels"] == 1:
        yield "constant", "problem", "The score is the same for all rows: it ranks nobody."
    elif auuc["gain_lower"] <= 0:
        yield (
            "not better than random",
            "problem",
            "These rows do not show that the ranking beats treating the same number of people at "
            "random.",
        )
    if effect["lower"] <= 0 <= effect["upper"]:
        yield (
            "no average effect",
            "caution",
            "These rows do not show that the treatment has an effect on average.",
        )
    if head["upper"] - head["lower"] > 2 * WIDE * abs(head["gain"]):
        yield (
            "wide band",
            "caution",
            f"The band is wide: at {head['share']:.0%} treated, the gain "
            f"{summary['unit']['per']} may be anything from {rate(summary, head['lower'])} to "
            f"{rate(summary, head['upper'])}.",
        )
    if 1 < summary["score"]["levels"] <= 10:
        yield (
            "ties",
            "note",
            f"The score has only {summary['score']['levels']} different values. Within one value "
            f"people are picked at random, and the curve is a straight line.",
        )
    yield from _of_small_shares(summary)


def _of_small_shares(summary: Summary) -> Found:
    reliable = summary["curve"]["reliable"]
    if not any(reliable):
        text = "No share holds enough rows of both arms for the intervals to be believed."
        yield "small shares", "problem", text
        return
    first = summary["curve"]["share"][reliable.index(True)]
    if first > 0.01 + 1e-9:
        yield (
            "small shares",
            "note",
            f"Below a share of {first:.0%} there are too few rows for the intervals to be "
            f"believed.",
        )


def _of_rivals(summary: Summary) -> Found:
    by_verdict: dict[str, list[str]] = {}
    for rival in summary["rivals"]:
        by_verdict.setdefault(rival["verdict"], []).append(rival["name"])
    if "better" in by_verdict:
        yield (
            "rival better",
            "problem",
            f"On these rows {short_list(by_verdict['better'])} ranks better than "
            f"{summary['names']['model']}, beyond chance.",
        )
    if "not told apart" in by_verdict:
        yield (
            "not told apart",
            "caution",
            f"These rows do not tell {summary['names']['model']} from "
            f"{short_list(by_verdict['not told apart'])}: either may be the better ranking.",
        )


def _of_plan(summary: Summary) -> Found:
    plan = summary["plan"]
    yield (
        "population",
        "note",
        f"The plan for {plan['cohort']:,} people takes them to be like the people of the trial, "
        f"at the same time and with the same treatment. The rows cannot tell.",
    )
    if plan["profit"] is None:
        lacking = [
            name
            for name, key in (("cost", "cost_per_person"), ("value", "value_per_outcome"))
            if plan[key] is None
        ]
        yield "no profit", "note", f"No profit is shown: no {' and no '.join(lacking)} was given."
    elif plan["cautious_share"] == 0:
        yield (
            "profit not shown",
            "caution",
            "At no share is the profit above zero beyond doubt: the lower end of its interval "
            "is below zero everywhere.",
        )


def _of_certificate(summary: Summary) -> Found:
    certificate = summary["certificate"]
    if certificate is None:
        text = "No certificate was computed: all intervals are approximations for many rows."
        yield "no certificate", "note", text
    elif certificate["gain_lower_bound"] <= 0:
        yield (
            "not certified",
            "caution",
            "The certificate does not show that the ranking beats random targeting. It asks for "
            "more rows than the intervals do, for it needs no approximation.",
        )


_KIND = "for all shares at once"  # as those of the curve and of the plan


def rate(summary: Summary, value: float, *, sign: bool = False) -> str:
    """A gain in the unit of the page: per 100 people for a 0/1 outcome, per person otherwise."""
    unit = summary["unit"]
    return f"{value * unit['scale']:{'+' if sign else ''},.{unit['digits']}f}"


def interval(summary: Summary, lower: float, upper: float) -> str:
    """The interval in the same unit, with its level."""
    return f"{summary['level']:.0%} interval {rate(summary, lower)} to {rate(summary, upper)}"


def trial_sentence(summary: Summary) -> str:
    """Was the trial balanced?"""
    check = summary["randomisation"]
    if check is None:
        return "The randomisation was not checked, so nothing is known of its balance."
    return str(check["verdict"])


def effect_sentence(summary: Summary) -> str:
    """How strong is the trial?"""
    effect, names = summary["effect"], summary["names"]
    what = f"{names['outcome']} {summary['unit']['per']}"
    ends = interval(summary, effect["lower"], effect["upper"])
    return (
        f"Treating everyone with {names['treated']} changes {what} by "
        f"{rate(summary, effect['estimate'], sign=True)} on average ({ends}). "
        f"These {summary['rows']['n_rows']:,} rows would find an average effect of "
        f"{rate(summary, effect['detectable'])} four times in five."
    )


def headline_sentence(summary: Summary) -> str:
    """What treating the top share gives, as a share of the whole effect where there is one."""
    head, effect = summary["headline"], summary["effect"]
    who = f"Treating the {head['share']:.0%} of people with the highest scores"
    if head["ratio"] is not None:
        return (
            f"{who} gives {head['ratio']:.0%} of the effect of treating everyone "
            f"({summary['level']:.0%} interval {head['ratio_lower']:.0%} to "
            f"{head['ratio_upper']:.0%}, {_KIND}); the same number picked at random would give "
            f"{head['share']:.0%}."
        )
    gain = (
        f"{who} changes {summary['names']['outcome']} by {rate(summary, head['gain'], sign=True)} "
        f"{summary['unit']['per']} of the whole cohort "
        f"({interval(summary, head['lower'], head['upper'])}, {_KIND})"
    )
    why = "is not shown to be above zero"
    if effect["upper"] < 0:
        why = "is below zero"
    elif effect["lower"] > 0:
        why = "is not far enough above zero"
    return f"{gain}. The average effect of treating everyone {why}, so no share of it is stated."


def ranking_sentence(summary: Summary) -> str:
    """Does the ranking beat random targeting on these rows?"""
    auuc = summary["auuc"]
    low, high = auuc["gain_lower"], auuc["gain_upper"]
    numbers = f"gain over random {rate(summary, auuc['gain'], sign=True)}, " + interval(
        summary, low, high
    )
    numbers = f"{numbers}; average over all shares, {summary['unit']['per']}"
    if low > 0:
        return f"On these rows the ranking beats random targeting ({numbers})."
    if high < 0:
        return f"On these rows the ranking is worse than random targeting ({numbers})."
    return f"On these rows the ranking is not shown to beat random targeting ({numbers})."
