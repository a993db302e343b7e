"""The sentences of the page, each chosen by the numbers of the summary."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Summary = Mapping[str, Any]

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
