"""The sentences of the page, each chosen by the numbers of the summary.

Names and numbers as the page shows them.

What the data cannot support: warnings computed from the numbers of the summary.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from auucmax._json import short
from auucmax.model.evidence import provided
from auucmax.targeting.decision import (
    Decision,
    Terms,
    certified_place,
    decide,
    terms_of_arms,
    unknown,
)


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
    found: Found = {"problem": {}, "caution": {}, "note": {}}
    for part in (_of_trial, _of_rows, _of_ranking, _of_rivals, _of_plan, _of_certificate):
        part(summary, found)
    return [
        {"kind": kind, "severity": severity, "text": text}
        for severity, texts in found.items()
        for kind, text in texts.items()
    ]


Found = dict[str, dict[str, str]]  # the text of each kind, by severity


def _of_trial(summary: Summary, found: Found) -> None:
    check = summary["randomisation"]
    if check is None:
        found["problem"]["not checked"] = (
            "The randomisation was not checked. If treatment was not given at random, every "
            "number on this page can be wrong, whatever its interval says."
        )
    elif not check["ok"]:
        advice = " ".join(check["advice"])
        is_sure = check["stops"] or not check["tests"]
        found["problem" if is_sure else "caution"]["not randomised"] = (
            f"{check['verdict']} The intervals do not cover what follows from this. {advice}"
        )
    rows = summary["rows"]
    rarer = min(rows["treated"], rows["control"]) / rows["n_rows"]
    if rarer < LOPSIDED:
        found["caution"]["lopsided"] = (
            f"Only {rarer:.1%} of the rows are in the smaller arm, which sets the width of all "
            f"intervals: more rows of the larger arm would hardly narrow them."
        )


def _of_rows(summary: Summary, found: Found) -> None:
    rows, outcome = summary["rows"], summary["names"]["outcome"]
    events = [rows["events_treated"], rows["events_control"]]
    if None not in events and min(events) < FEW_EVENTS:
        found["caution"]["few outcomes"] = (
            f"Few outcomes: {events[0]:,} treated and {events[1]:,} control rows have "
            f"{outcome} {'= 1' if rows['binary'] else 'other than 0'}. Effects in parts of the "
            f"people rest on still fewer."
        )
    if rows["groups"] is None:
        found["note"]["independence"] = (
            "Intervals take the rows as independent. If several rows belong to one household or "
            "shop, or treating one person changes another's outcome, they are too narrow: pass "
            "groups=, and randomise groups."
        )
    elif min(rows["groups_treated"], rows["groups_control"]) < FEW_GROUPS:
        found["caution"]["few groups"] = (
            f"Only {rows['groups_treated']:,} treated and {rows['groups_control']:,} control "
            f"groups (households, shops): intervals by group are approximate with so few."
        )


def _of_ranking(summary: Summary, found: Found) -> None:
    auuc, head, effect = summary["auuc"], summary["headline"], summary["effect"]
    if summary["score"]["levels"] == 1:
        found["problem"]["constant"] = "The score is the same for all rows: it ranks nobody."
    elif auuc["gain_declined"] is not None or auuc["gain_lower"] <= 0:
        found["problem"]["not better than random"] = (
            "These rows do not show that the ranking beats treating the same number of people at "
            "random."
        )
    if summary["curve"]["step"] == 1:
        found["caution"]["no curve"] = (
            "There are too few rows for a curve: fewer than 20 of an arm are in a half of the "
            "people. Between nobody and everybody the numbers are on a straight line, as of "
            "people picked by lot, and tell nothing of the ranking."
        )
    if effect["lower"] is not None and effect["upper"] < 0:
        found["problem"]["harm on average"] = (
            "On average the treatment does harm: the whole interval of its effect lies below zero."
        )
    elif effect["lower"] is None or effect["lower"] <= 0:
        found["caution"]["no average effect"] = (
            "These rows do not show that the treatment has an effect on average."
        )
    if head["lower"] is not None and head["upper"] - head["lower"] > 2 * WIDE * abs(head["gain"]):
        found["caution"]["wide band"] = (
            f"The band is wide: at {head['share']:.0%} treated, the gain "
            f"{summary['unit']['per']} may be anything from {rate(summary, head['lower'])} to "
            f"{rate(summary, head['upper'])}."
        )
    if 1 < summary["score"]["levels"] <= 10:
        found["note"]["ties"] = (
            f"The score has only {summary['score']['levels']} different values. Within one value "
            f"people are picked at random, and the curve is a straight line."
        )
    reliable = summary["curve"]["reliable"]
    if not any(reliable):
        found["problem"]["small shares"] = (
            f"Intervals of the gain at a share cannot be said: {summary['curve']['declined']}."
        )
    elif (first := summary["curve"]["share"][reliable.index(True)]) > 0.01 + 1e-9:
        found["note"]["small shares"] = (
            f"Below a share of {first:.0%} intervals cannot be said, for there are too few rows."
        )


def _of_rivals(summary: Summary, found: Found) -> None:
    by_verdict: dict[str, list[str]] = {}
    for rival in summary["rivals"]:
        by_verdict.setdefault(rival["verdict"], []).append(rival["name"])
    if "better" in by_verdict:
        found["problem"]["rival better"] = (
            f"On these rows {short_list(by_verdict['better'])} ranks better than "
            f"{summary['names']['model']}, beyond chance."
        )
    if "not told apart" in by_verdict:
        found["caution"]["not told apart"] = (
            f"These rows do not tell {summary['names']['model']} from "
            f"{short_list(by_verdict['not told apart'])}: either may be the better ranking."
        )


def _of_plan(summary: Summary, found: Found) -> None:
    plan = summary["plan"]
    found["note"]["population"] = (
        f"The plan for {plan['cohort']:,} people takes them to be like the people of the trial, "
        f"at the same time and with the same treatment. The rows cannot tell."
    )
    if plan["profit"] is None:
        known = {"cost": plan["cost_per_person"], "value": plan["value_per_outcome"]}
        lacking = [name for name, amount in known.items() if amount is None]
        found["note"]["no profit"] = f"No profit is shown: no {' and no '.join(lacking)} was given."
    elif plan["cautious_share"] == 0:
        found["caution"]["profit not shown"] = (
            "At no share is the profit above zero beyond doubt: the lower end of its interval is "
            "at most zero at every share that has one."
            if any(summary["curve"]["reliable"])
            else "No profit is shown: at no share can an interval of it be said."
        )


def _of_certificate(summary: Summary, found: Found) -> None:
    certificate = summary["certificate"]
    if certificate is None:
        found["note"]["no certificate"] = (
            "No certificate was computed: all intervals are approximations for many rows."
        )
    elif certificate["gain_lower_bound"] <= 0:
        found["caution"]["not certified"] = (
            "It is not certified that the ranking beats random targeting."
        )


_KIND = "for all shares at once"  # as those of the curve and of the plan


def rate(summary: Summary, value: float, *, sign: bool = False) -> str:
    """A gain in the unit of the page: per 100 people, of any number per person."""
    unit = summary["unit"]
    return f"{value * unit['scale']:{'+' if sign else ''},.{unit['digits']}f}"


def interval(
    summary: Summary, lower: float | None, upper: float | None, declined: str | None = None
) -> str:
    """The interval in the same unit, with its level; or why there is none."""
    if lower is None or upper is None:
        return f"{summary['level']:.0%} interval cannot be said: {declined}"
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
    what = f"{names['gain']} {summary['unit']['per']}"
    ends = interval(summary, effect["lower"], effect["upper"], effect["declined"])
    return (
        f"Treating everyone with {names['treated']} changes {what} by "
        f"{rate(summary, effect['estimate'], sign=True)} on average ({ends}). "
        f"These {summary['rows']['n_rows']:,} rows would find an average effect of "
        f"{rate(summary, effect['detectable'])} four times in five."
    )


def headline_sentence(summary: Summary) -> str:
    """What to do, for how many people, and what it brings: profit, or gain where that is unknown.

    That treating them does harm, or is not shown to help, is said first.
    """
    if summary["failed_check"] is not None:
        return str(summary["failed_check"])
    decision = decision_of(summary)
    found = provided(_headline(summary, decision), summary["randomisation"])
    return f"{decision.lead} {found}" if decision.lead else found


def terms_of(summary: Summary) -> Terms:
    """How decisions of a page are told: along shares, or along budgets of several arms."""
    if "arms" not in summary:
        return Terms()
    return terms_of_arms(summary["plan"]["by_people"])


def decision_of(summary: Summary) -> Decision:
    """Whether to treat the people of the headline."""
    if summary["failed_check"] is not None:
        return unknown("gain" if summary["plan"]["profit"] is None else "profit")
    place = round(summary["headline"]["share"] * 100)
    return decide(summary["plan"], place, _certified_at(summary), terms_of(summary))


def told_decision(summary: Summary) -> dict[str, Any] | None:
    """The same as JSON, as that of a list of people has it; None if nobody is treated."""
    plan, place = summary["plan"], round(summary["headline"]["share"] * 100)
    treated = plan["treated" if "arms" in summary else "people"][place]
    return decision_of(summary).to_dict() if treated else None


def _certified_at(summary: Summary) -> float | None:
    """What is certified per person of profit, or gain, at the cut of the headline's share."""
    known = summary.get("certified_shares")
    if known is None:
        return None
    share, plan = summary["headline"]["share"], summary["plan"]
    cut = certified_place(known["share"], share)
    if cut is None:
        return None
    lower = float(known["gain_lower"][cut])
    if plan["profit"] is None:
        return lower
    cost = plan["cost_per_person"] * known["share_upper"][cut]
    return float(plan["value_per_outcome"] * lower - cost)


def _headline(summary: Summary, decision: Decision) -> str:
    head, plan = summary["headline"], summary["plan"]
    place = round(head["share"] * 100)
    start = "Treat" if decision.is_good else "If you treat"
    who = (
        f"{start} the {head['share']:.0%} with the highest scores, {plan['people'][place]:,} of "
        f"{plan['cohort']:,} people"
    )
    if plan["profit"] is not None:
        level, after = f"{summary['level']:.0%}", f" {plan['currency']}" if plan["currency"] else ""
        low, high = plan["profit_lower"][place], plan["profit_upper"][place]
        ends = f"{level} interval cannot be said: {_why_none(summary)}"
        if decision.at_least is not None:
            least = decision.at_least * plan["cohort"]
            ends = f"guaranteed: at least {least:,.2f}{after}"
        elif low is not None:
            ends = f"{level} interval {low:,.2f} to {high:,.2f}, {_KIND}"
        cost = f"cost {plan['cost'][place]:,.2f}{after}"
        return f"{who}: {cost}, expected profit {plan['profit'][place]:,.2f}{after} ({ends})."
    ends = interval(summary, head["lower"], head["upper"], _why_none(summary))
    if decision.at_least is not None:
        ends = f"guaranteed: at least {rate(summary, decision.at_least)}"
    elif head["lower"] is not None:
        ends = f"{ends}, {_KIND}"
    return (
        f"{who}: {summary['names']['gain']} changes by {rate(summary, head['gain'], sign=True)} "
        f"{summary['unit']['per']} ({ends})."
    )


def _why_none(summary: Summary) -> str:
    """Why there is no interval at a share; the curve tells it of rows, not of where it was kept."""
    few = "there are too few rows for so small a share"
    if summary["curve"]["step"] == 1:
        few = "there are too few rows for a curve, and this is for people picked by lot"
    return str(summary["curve"]["declined"] or few)


def part_sentence(summary: Summary) -> str:
    """Which part of the whole effect the top share has, or why that cannot be said."""
    if summary["failed_check"] is not None:
        return ""
    head, effect = summary["headline"], summary["effect"]
    who = f"Treating the {head['share']:.0%} of people with the highest scores"
    if head["ratio"] is not None:
        return (
            f"{who} gives {head['ratio']:.0%} of the effect of treating everyone "
            f"({summary['level']:.0%} interval {head['ratio_lower']:.0%} to "
            f"{head['ratio_upper']:.0%}, {_KIND}); the same number picked at random would give "
            f"{head['share']:.0%}."
        )
    why = "is not known well enough"
    if effect["lower"] is not None:
        why = "is not shown to be above zero"
        if effect["upper"] < 0:
            why = "is below zero"
        elif effect["lower"] > 0:
            why = "is not far enough above zero"
    return f"The average effect of treating everyone {why}, so no share of it is stated."


def verdicts_of(summary: Summary) -> list[dict[str, str]]:
    """What is certified, shown or not shown: of the decision, then of the ranking.

    ``state`` is "certified", "shown" (by an interval, which is an approximation) or "not shown";
    of a decision also "harm" or "loss", if the whole interval of gain or profit lies below zero.
    ``text`` says it in short. Rows that are no trial show nothing.
    """
    if summary["failed_check"] is not None:
        return []
    decision, order = decision_of(summary), _of_order(summary)
    how = f" by the {summary['level']:.0%} interval" if order == "shown" else ""
    return [
        {"of": "decision", "state": decision.state, "text": decision.verdict},
        {"of": "ranking", "state": order, "text": f"better than random choice: {order}{how}"},
    ]


def _of_order(summary: Summary) -> str:
    """Whether the ranking gains more than a random order."""
    certificate, lower = summary["certificate"], summary["auuc"]["gain_lower"]
    if certificate is not None and certificate["gain_lower_bound"] > 0:
        return "certified"
    return "shown" if lower is not None and lower > 0 else "not shown"


def ranking_sentence(summary: Summary) -> str:
    """Does the ranking beat random targeting on these rows?"""
    auuc = summary["auuc"]
    low, high = auuc["gain_lower"], auuc["gain_upper"]
    ends = interval(summary, low, high, auuc["gain_declined"])
    numbers = f"gain over random {rate(summary, auuc['gain'], sign=True)}, {ends}"
    numbers = f"{numbers}; average over all shares, {summary['unit']['per']}"
    if low is None:
        return f"These rows do not tell whether the ranking beats random targeting ({numbers})."
    if low > 0:
        return f"On these rows the ranking beats random targeting ({numbers})."
    if high < 0:
        return f"On these rows the ranking is worse than random targeting ({numbers})."
    return f"On these rows the ranking is not shown to beat random targeting ({numbers})."


def certificate_sentence(summary: Summary) -> str:
    """What is certified of the ranking, in one line; assumptions are in its own text."""
    found, names = summary["certificate"], summary["names"]
    if found is None:
        return "Not computed: all intervals are approximations for many people."
    if found["gain_lower_bound"] <= 0:
        by_interval = " Its interval, an approximation for many people, is above zero."
        return (
            "It is not guaranteed that the ranking beats random choice on average over all shares."
            + (by_interval if _of_order(summary) == "shown" else "")
        )
    who = (
        "rankings learnt like this one, from parts of these people,"
        if "learnt" in found
        else ("this ranking")
    )
    gains = "gain" if "learnt" in found else "gains"
    scale, digits = summary["unit"]["scale"], summary["unit"]["digits"] + 1
    return (
        f"With probability {1 - found['delta']:.4g}, {who} {gains} at least "
        f"{found['gain_lower_bound'] * scale:,.{digits}f} {names['gain']} {summary['unit']['per']} "
        f"more than random choice, averaged over all shares."
    )


def segment_lines(summary: Summary) -> dict[str, str]:
    """What is told of each segment, by its conditions; empty if none is."""
    found = summary["segments"]
    if not found or summary["failed_check"] is not None:
        return {}
    if "arms" not in summary:
        return {" and ".join(one["rule"]): _effect_in(summary, one) for one in found}
    lines = {}
    for one in found["parts"]:
        text = one["arm"] or summary["names"]["control"]
        if one["effect"] is not None:
            text = f"{text}: {_effect_in(summary, one, summary['names']['control'])}"
        if one["against"] is not None:
            text = f"{text}; {against_single(summary, one)}"
        lines[" and ".join(one["rule"])] = text
    return lines | {"all segments": overall_sentence(summary)}


def _effect_in(summary: Summary, one: Mapping[str, Any], control: str = "") -> str:
    effect, per = one["effect"], summary["unit"]["per"].replace("people", "treated")
    ends = "no interval: too few rows"
    if effect["lower"] is not None:
        ends = f"{rate(summary, effect['lower'])} to {rate(summary, effect['upper'])}"
    estimate = rate(summary, effect["estimate"], sign=True)
    against = f" against {control}" if control else ""
    text = f"{estimate} {summary['names']['gain']} {per}{against} ({ends})"
    if one["certified"] is None:
        return text
    if one["certified"] > 0:
        return f"{text}, certified at least {rate(summary, one['certified'])}"
    harmed = effect["upper"] is not None and effect["upper"] < 0
    return f"{text}, {'shown to be harmed' if harmed else 'not certified to be above zero'}"


def against_single(summary: Summary, one: Mapping[str, Any], minus: str = "-") -> str:
    """The arm of a segment minus the one that is best for all: its profit, or its effect."""
    found = summary["segments"]
    what = "" if found["worth"] is None else "profit "
    gap = _gap_words(summary, one["against"], one["saved"], "", minus)
    return f"{what}against {found['single']} for all {gap}"


def overall_sentence(summary: Summary, minus: str = "-") -> str:
    """Whether arms by segment bring more than the best single arm for everybody."""
    found = summary["segments"]
    overall, single = found["overall"], found["single"]
    if overall is None:
        return f"All segments get {single}: no other arm is better for some of them."
    what = f"of {summary['names']['gain']}" if found["worth"] is None else "profit"
    low, high = _net_ends(found["worth"], overall, found["saved"])[1:]
    verdict = f"are not shown to bring more {what} than {single} for everybody"
    if low > 0 or high < 0:
        more = "more" if low > 0 else "less"
        verdict = f"bring {more} {what} than {single} for everybody, beyond chance"
    per = f" {summary['unit']['per']}"
    return f"These arms {verdict}: {_gap_words(summary, overall, found['saved'], per, minus)}."


def _net_ends(
    worth: float | None, gap: Mapping[str, Any], saved: float | None
) -> tuple[float, float, float]:
    """A difference with its ends: of the profit where the outcome has a worth."""
    found = (float(gap["estimate"]), float(gap["lower"]), float(gap["upper"]))
    if worth is None:
        return found
    return (
        worth * found[0] + (saved or 0.0),
        worth * found[1] + (saved or 0.0),
        worth * found[2] + (saved or 0.0),
    )


def _gap_words(
    summary: Summary, gap: Mapping[str, Any], saved: float | None, per: str, minus: str
) -> str:
    worth, after = summary["segments"]["worth"], summary["plan"]["currency"]
    after = f" {after}" if after else ""
    value, low, high = _net_ends(worth, gap, saved)
    if worth is not None:
        digits = digits_for((high - low) / 6)
        texts = [f"{value:+,.{digits}f}", f"{low:,.{digits}f}", f"{high:,.{digits}f}"]
        per = f"{after} a person"
    else:
        texts = [rate(summary, value, sign=True), rate(summary, low), rate(summary, high)]
    estimate, start, end = (text.replace("-", minus) for text in texts)
    text = f"{estimate}{per} ({start} to {end})"
    if worth is not None or not saved:
        return text
    return f"{text}, for {abs(saved):,.3g}{after} {'less' if saved > 0 else 'more'} a person"
