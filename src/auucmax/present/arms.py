"""``summarise_arms``: every number and sentence of the report of several arms as one dictionary.

The numbers along the budget are on a grid of 101 budgets, from nothing to what the dearest of the
policies spends; between budgets that the evidence has kept lies a straight line.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import NormalDist
from typing import Any

import numpy as np

from auucmax._json import plain, short
from auucmax._validation import Floats, listed
from auucmax.data.outcomes import unit_of
from auucmax.model import ArmsEvidence, ArmsModel, Evidence
from auucmax.model.arm_evidence import is_judged
from auucmax.present.sentences import (
    decision_of,
    digits_for,
    interval,
    rate,
    short_list,
    told_decision,
)
from auucmax.present.summary import USUAL_SHARE, VERSION, Economy, Names, grid_place, origin
from auucmax.targeting.planning import EVERY_PERCENT
from auucmax.targeting.policy import check_money

ARMS_KIND = "auucmax report of arms"


def summarise_arms(
    model: ArmsModel,
    evidence: ArmsEvidence | None = None,
    *,
    costs: Mapping[str, float] | None = None,
    economy: Economy | None = None,
    share: float | None = None,
) -> dict[str, Any]:
    """All numbers of the report of a model with several arms, from its own evidence.

    Parameters
    ----------
    model : fitted by :func:`auucmax.model.fit_arms_model`.
    evidence : other than that of the fit, from ``model.judge(new rows)``.
    costs : of treating one person with each arm, by label; they, or some in the same ratios, must
        be those that the model was fitted with. None: those of the fit.
    economy : :class:`Economy`; its cost is that of ``costs``.
    share : of people treated, for the headline: the budget at which so many are, to a per cent of
        the largest. None: the budget of all whose uplift is worth more than the arm costs, as
        ``target`` chooses them; or that of .3 if no profit is known, or these are nobody.
    """
    evidence, economy = evidence or model.evidence, economy or Economy()
    facts, first = evidence.facts, next(iter(evidence.arms.values()))
    curve, factor = _curve_for(evidence, costs)
    by_people = costs is None and model.costs is None
    grid = EVERY_PERCENT * curve["budget"][-1]
    plan = _plan(curve, grid, economy, factor, by_people)
    rule = plan["best_share"] if plan["rule_share"] is None else plan["rule_share"]
    part = (rule if share is None else None) or _budget_of(
        USUAL_SHARE if share is None else share, curve, grid
    )
    summary: dict[str, Any] = {
        "kind": ARMS_KIND,
        "version": VERSION,
        "level": facts["level"],
        "names": _names(model, facts["control"]),
        "failed_check": facts["failed_check"],
        "banner": facts["failed_check"] or model.warning,
        "rows": {
            "n_rows": sum(facts["rows"].values()),
            "control": facts["rows"][facts["control"]],
            "outcome": first["rows"]["outcome"],
            "groups": first["rows"]["groups"],
        },
        "arms": [_arm(label, own, facts) for label, own in evidence.arms.items()],
        "curve": _curve(curve, grid, factor),
        "plan": plan,
        "differences": _differences(curve["differences"]),
        "headline": {"share": part},
        "unit": _unit(curve["policy"]["standard_error"], first["rows"]["outcome"]),
        "people": _people(facts["people"]),
        "segments": _segments(facts["segments"], facts["control"], plan),
        "certificate": facts["certificate"],
        "notes": list(facts["notes"]),
    }
    summary = dict(plain(summary))
    summary["headline"]["text"] = _headline(summary)
    summary["decision"] = told_decision(summary)
    summary["caveats"] = _caveats(summary)
    return summary


def _names(model: ArmsModel, control: str) -> dict[str, Any]:
    """What the trial calls things; the treatments are named arm by arm."""
    own = model.columns
    names = Names(own.outcome, own.treatment, "", control, model.model_name, **_origin(model))
    return names.to_dict() | {"gain": short(own.gain)}


def _budget_of(share: float, curve: Mapping[str, Any], grid: Floats) -> float:
    """The part of the largest budget that treats a share of people, as nearly as any does."""
    own, shares = grid_place(share) / 100, np.sum(curve["policy"]["shares"], axis=1)
    treated = np.interp(grid, curve["budget"], shares)
    return float(EVERY_PERCENT[int(np.argmin(np.abs(treated - own)))])


def _origin(model: ArmsModel) -> dict[str, str]:
    """The file is told of all arms, the date of each."""
    first = next(iter(model.models.values()))
    return origin(first.summary) | {"file": str(model.summary.get("file") or "")}


def _curve_for(
    evidence: ArmsEvidence, costs: Mapping[str, float] | None
) -> tuple[dict[str, Any], float]:
    """The kept curve for some costs, and what its money is to be multiplied by."""
    if costs is None:
        return evidence["curves"][-1], 1.0
    if set(costs) != set(evidence.labels):
        raise ValueError(
            f"cost should name each arm, {listed(evidence.labels)}; got {listed(list(costs))}. "
            f"Name all of them."
        )
    prices = [check_money(costs[label], f"cost of {label!r}") for label in evidence.labels]
    found = evidence.curve_for(prices)
    if found is None:
        known = [
            ", ".join(f"{label}={cost:g}" for label, cost in curve["costs"].items())
            for curve in evidence["curves"]
        ]
        raise ValueError(
            f"cost should have the ratios of those that the model was fitted with, "
            f"{' or '.join(known)}; got others. Fit again with these costs: what a policy gains "
            f"is told of the rows of the trial."
        )
    return found


def _at(grid: Floats, budget: Sequence[float], values: Sequence[float | None]) -> Floats:
    """Numbers at the budgets of the page; not numbers next to one that is not told."""
    own = np.array([np.nan if value is None else value for value in values], dtype=np.float64)
    if len(budget) == 1:
        return np.full(len(grid), own[0])
    return np.where(is_judged(grid, np.array(budget)), np.interp(grid, budget, own), np.nan)


def _arm(label: str, own: Evidence, facts: Mapping[str, Any]) -> dict[str, Any]:
    auuc, certificate = own["auuc"], own["certificate"]
    return {
        "label": short(label),
        "rows": facts["rows"][label],
        "effect": own["effect"],
        "gain": {
            "estimate": auuc["gain"],
            "lower": auuc["gain_lower"],
            "upper": auuc["gain_upper"],
        },
        "certified": None if certificate is None else certificate["gain_lower_bound"],
        "randomisation": own["randomisation"],
    }


def _curve(curve: Mapping[str, Any], grid: Floats, factor: float) -> dict[str, Any]:
    """Gains per person of the policy and of simpler ways, and what each of them spends."""
    budget, policy = curve["budget"], curve["policy"]
    prices = [cost * factor for cost in curve["costs"].values()]

    def spent(one: Mapping[str, Any]) -> Floats:
        return _at(grid, budget, [float(np.dot(row, prices)) for row in one["shares"]])

    gain = _at(grid, budget, policy["gain"])
    lower = _at(grid, budget, policy["simultaneous_lower"])
    return {
        "share": EVERY_PERCENT,
        "uplift": gain,
        "lower": lower,
        "upper": _at(grid, budget, policy["simultaneous_upper"]),
        "random": gain - _at(grid, budget, curve["differences"]["random"]["difference"]),
        "singles": [_at(grid, budget, one["gain"]) for one in curve["singles"].values()],
        "everybody": {
            "arm": short(curve["everybody"]["arm"]),
            "gain": _at(grid, budget, curve["everybody"]["gain"]),
        },
        "spent": {
            "policy": spent(policy),
            "singles": [spent(one) for one in curve["singles"].values()],
            "everybody": spent(curve["everybody"]),
        },
        "reliable": (np.isfinite(lower) | (grid == 0)).tolist(),
        "declined": policy["declined"],
    }


def _plan(
    curve: Mapping[str, Any], grid: Floats, economy: Economy, factor: float, by_people: bool
) -> dict[str, Any]:
    """What each budget brings to a cohort."""
    n, budget, policy = economy.cohort, curve["budget"], curve["policy"]
    gain = {
        name: n * _at(grid, budget, policy[source])
        for name, source in (
            ("gain", "gain"),
            ("gain_lower", "simultaneous_lower"),
            ("gain_upper", "simultaneous_upper"),
        )
    }
    shares = [_at(grid, budget, [row[k] for row in policy["shares"]])
              for k in range(len(curve["costs"]))]  # fmt: skip
    prices = [cost * factor for cost in curve["costs"].values()]
    # The policy stops where no arm is worth its money to it, whatever the budget.
    spent = n * sum(share * price for share, price in zip(shares, prices, strict=True))
    value = None if by_people else economy.value
    error = n * max((e for e in policy["standard_error"] if e is not None), default=0.0)
    profit: dict[str, Any] = dict.fromkeys(("profit", "profit_lower", "profit_upper"))
    best, rule = None, None
    if value is not None:
        rule = _rule_share(curve, grid, value / factor)
        profit = {name.replace("gain", "profit"): value * own - spent for name, own in gain.items()}
        if np.isfinite(profit["profit_lower"]).any():
            best = float(EVERY_PERCENT[int(np.nanargmax(profit["profit"]))])
    return {
        **gain,
        **profit,
        "share": EVERY_PERCENT,
        "cohort": n,
        "cost": n * factor * grid,
        "spent": spent,
        "shares": shares,
        "people": [n * share for share in shares],
        "treated": n * sum(shares),
        "prices": None if by_people else prices,
        "by_people": by_people,
        "value_per_outcome": economy.value,
        "currency": "" if by_people else short(economy.currency),
        "best_share": best,
        "rule_share": rule,
        "error": error / n,
        "digits": {"gain": digits_for(error), "money": 0 if by_people else 2},
    }


def _rule_share(curve: Mapping[str, Any], grid: Floats, worth: float) -> float | None:
    """Up to which part of the largest budget every step brings more than it costs.

    ``worth``: of a unit of the outcome, in the money of the curve. 0 if no step does; None of files
    that have no rates.
    """
    if (known := curve.get("rate")) is None:
        return None
    rate = np.array([np.inf if own is None else own for own in known], dtype=np.float64)
    pays = np.flatnonzero(worth * np.interp(grid, curve["budget"], rate) > 1)
    return float(EVERY_PERCENT[pays[-1]]) if len(pays) else 0.0


def _people(found: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Who gets each arm, with labels as the page shows them."""
    if found is None:
        return None
    return {**found, "arms": [{**own, "arm": short(own["arm"])} for own in found["arms"]]}


def _segments(
    found: Mapping[str, Any] | None, control: str, plan: Mapping[str, Any]
) -> dict[str, Any] | None:
    """Which arm for which part of the people, by what they cost where a profit is known.

    The rows that made the segments choose; the numbers are those of the others.
    """
    if found is None:
        return None
    labels = list(found["parts"][0]["learnt"])
    prices = plan["prices"] or [0.0] * len(labels)
    price = dict(zip((control, *labels), (0.0, *prices), strict=True))
    worth = None if plan["profit"] is None else plan["value_per_outcome"]
    nets = []
    for part in found["parts"]:
        gains = {control: 0.0, **part["learnt"]}
        # Without a value of the outcome, nothing can be weighed against costs.
        own = gains if worth is None else {k: worth * gains[k] - price[k] for k in gains}
        nets.append(own)
    single = max(
        labels,
        key=lambda k: sum(
            own[k] * part["share"] for own, part in zip(nets, found["parts"], strict=True)
        ),
    )
    parts = []
    for part, own in zip(found["parts"], nets, strict=True):
        arm = max(own, key=own.__getitem__)
        saved = price[single] - price[arm]
        sure = part["certified"] if arm != control else None
        parts.append({
            **{name: part[name] for name in ("rule", "rows", "share")},
            "arm": None if arm == control else short(arm),
            "net": own[arm],
            "effect": None if arm == control else _contrast(part, arm, control),
            "certified": None if sure is None else sure[arm],
            "against": None if arm == single else _contrast(part, arm, single),
            "saved": None if plan["prices"] is None else saved,
        })  # fmt: skip
    parts.sort(key=lambda one: -one["net"])
    return {"single": short(single), "worth": worth, "parts": parts} | _overall(
        parts, found["level"]
    )


def _contrast(part: Mapping[str, Any], arm: str, over: str) -> dict[str, float]:
    """The effect of an arm over another in a segment."""
    for one in part["contrasts"]:
        if (one["arm"], one["over"]) == (arm, over):
            return {name: one[name] for name in ("estimate", "standard_error", "lower", "upper")}
    found = _contrast(part, over, arm)
    return {
        "estimate": -found["estimate"],
        "standard_error": found["standard_error"],
        "lower": -found["upper"],
        "upper": -found["lower"],
    }


def _overall(parts: Sequence[Mapping[str, Any]], level: float) -> dict[str, Any]:
    """The arms of all segments against the single one for everybody: shares times differences."""
    saved = None
    if parts[0]["saved"] is not None:
        saved = sum(part["share"] * part["saved"] for part in parts)
    differing = [(part["share"], part["against"]) for part in parts if part["against"] is not None]
    if not differing:
        return {"overall": None, "saved": saved}
    value = sum(share * own["estimate"] for share, own in differing)
    error = sum((share * own["standard_error"]) ** 2 for share, own in differing) ** 0.5
    half = NormalDist().inv_cdf((1 + level) / 2) * error
    overall = {"estimate": value, "lower": value - half, "upper": value + half}
    return {"overall": overall, "saved": saved}


def _differences(found: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The policy against others, averaged over all budgets, in words that name them."""
    names = {
        "random": "random people, with the same arms in the same numbers",
        "single": "{} alone, by its own ranking (chosen on these rows, in its favour)",
        "everybody": "{} for everybody, or for as many random people as the budget pays for "
        "(chosen on these rows, in its favour)",
    }
    return [
        {
            "kind": kind,
            "name": names[kind].format(short(own["arm"] or "")),
            "estimate": own["area"],
            "lower": own["area_lower"],
            "upper": own["area_upper"],
            "declined": own["declined"],
        }
        for kind, own in found.items()
    ]


def _unit(errors: Sequence[float | None], kind: str) -> dict[str, Any]:
    scale, per = unit_of(kind)
    largest = max((e for e in errors if e is not None), default=0.0)
    return {"scale": scale, "digits": digits_for(largest * scale), "per": per}


def _budget(summary: Mapping[str, Any], place: int) -> str:
    """A budget of the page in words: money for the cohort, or a share of people."""
    plan = summary["plan"]
    if plan["by_people"]:
        return f"Treating {plan['cost'][place] / plan['cohort']:.0%} of the people"
    after = f" {plan['currency']}" if plan["currency"] else ""
    return f"Spending up to {plan['cost'][place]:,.2f}{after} for {plan['cohort']:,} people"


def _headline(summary: Mapping[str, Any]) -> str:
    if summary["failed_check"] is not None:
        return str(summary["failed_check"])
    place = round(summary["headline"]["share"] * 100)
    told = [harm_of_arms(summary), decision_of(summary).lead]
    if summary["plan"]["treated"][place] == 0:
        return " ".join(filter(None, [*told, "The model gives nobody an arm."]))
    return " ".join(filter(None, [*told, _at_budget(summary)]))


def harm_of_arms(summary: Mapping[str, Any]) -> str:
    """What is said before a decision that is no advice: arms of it do harm to everybody."""
    return "" if decision_of(summary).is_good else _harm_words(_harmful(summary)[0])


def _harmful(summary: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """Arms that are shown to do harm if everybody gets them; then those whom nobody gets.

    Where nobody gets any arm at all, harm is why: these are of the first kind.
    """
    plan, found = summary["plan"], (list[str](), list[str]())
    nobody = not any(plan["treated"])
    for arm, people in zip(summary["arms"], plan["people"], strict=True):
        if arm["effect"]["lower"] is not None and arm["effect"]["upper"] < 0:
            found[0 if nobody or any(people) else 1].append(arm["label"])
    return found


def _harm_words(labels: Sequence[str]) -> str:
    if not labels:
        return ""
    are = "is" if len(labels) == 1 else "are"
    return f"On average {short_list(labels)} {are} shown to do harm."


def _at_budget(summary: Mapping[str, Any]) -> str:
    """What the budget of the headline brings, whatever that is."""
    curve, place = summary["curve"], round(summary["headline"]["share"] * 100)
    start = f"{_budget(summary, place)} on the arm that is chosen for each"
    if summary["plan"]["by_people"]:
        start = f"{_budget(summary, place)}, each with the arm that is chosen for them,"
    gain, random = curve["uplift"][place], curve["random"][place]
    if gain is None:
        return f"{start} brings what these rows do not tell: too few of them stand behind it."
    if summary["plan"]["profit"] is not None:
        return f"{start} {_profit_words(summary, place)}."
    ends = interval(summary, curve["lower"][place], curve["upper"][place], curve["declined"])
    if curve["lower"][place] is not None:
        ends += ", for all budgets at once"
    text = (
        f"{start} changes {summary['names']['gain']} by {rate(summary, gain, sign=True)} "
        f"{summary['unit']['per']} of the whole cohort ({ends})"
    )
    if random is not None:
        text += f"; random people with the same arms would give {rate(summary, random, sign=True)}"
    return f"{text}."


def _profit_words(summary: Mapping[str, Any], place: int) -> str:
    """The same in money, where costs and value are known."""
    plan, curve, level = summary["plan"], summary["curve"], f"{summary['level']:.0%}"
    after = f" {plan['currency']}" if plan["currency"] else ""
    low, high = plan["profit_lower"][place], plan["profit_upper"][place]
    ends = f"{level} interval cannot be said: {curve['declined'] or 'too few rows'}"
    if low is not None:
        ends = f"{level} interval {low:,.2f} to {high:,.2f}, for all budgets at once"
    text = f"brings an expected profit of {plan['profit'][place]:,.2f}{after} ({ends})"
    if curve["random"][place] is None:
        return text
    random = plan["cohort"] * plan["value_per_outcome"] * curve["random"][place]
    return (
        f"{text}; random people with the same arms would give "
        f"{random - plan['spent'][place]:,.2f}{after}"
    )


def _of_effects(summary: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Harm and doubt by the average effects of arms."""
    found: list[tuple[str, str, str]] = []
    weak = [arm["label"] for arm in summary["arms"]
            if arm["effect"]["lower"] is None
            or arm["effect"]["lower"] <= 0 <= arm["effect"]["upper"]]  # fmt: skip
    given, unused = _harmful(summary)
    if given:
        text = f"{_harm_words(given)} The whole interval of the average effect lies below zero."
        found.append(("problem", "harm on average", text))
    if unused:
        it = "it" if len(unused) == 1 else "them"
        text = f"{_harm_words(unused)} Nobody gets {it} by this model, at any budget."
        found.append(("note", "harm of an arm that nobody gets", text))
    if weak:
        text = f"These rows do not show an average effect of {short_list(weak)}."
        found.append(("caution", "no average effect", text))
    return found


#: Said where the report opens at the budget of lists.
_SAME_RULE = (
    "An arm goes to everybody whose own uplift is worth more than it costs, as `target` with the "
    "same costs and value gives it: the budget is what that costs, by models that had not seen the "
    "people of the trial."
)
_NOBODY = (
    "By this model no arm is worth its cost to anybody: `target` with the same costs and value "
    "treats nobody."
)
#: Said where it opens at another one, for the file of the model does not tell that of lists.
_OTHER_RULE = (
    "The budget is that of the highest expected profit on the rows of the trial. `target` with the "
    "same costs and value gives an arm to everybody whose own uplift is worth more than it costs "
    "instead: it may treat other numbers of people, or nobody."
)


def _of_plan(plan: Mapping[str, Any], opens_at: float | None) -> list[tuple[str, str, str]]:
    """Caveats on the plan of a page that opens at a share."""
    text = (
        f"The plan for {plan['cohort']:,} people takes them to be like the people of the trial, "
        f"at the same time and with the same treatments. The rows cannot tell."
    )
    found = [("note", "population", text)]
    if plan["rule_share"] == 0:
        found.append(("caution", "nobody by the rule of lists", _NOBODY))
    elif plan["rule_share"] == opens_at:
        found.append(("note", "the rule of lists", _SAME_RULE))
    elif plan["rule_share"] is None and plan["best_share"] == opens_at:
        found.append(("caution", "another rule of lists", _OTHER_RULE))
    if not plan["by_people"] and plan["value_per_outcome"] is None:
        found.append(("note", "no profit", "No profit is shown: no value was given."))
    return found


def _caveats(summary: Mapping[str, Any]) -> list[dict[str, str]]:
    """What these data cannot support, the worst first."""
    found: list[tuple[str, str, str]] = []
    for arm in summary["arms"]:
        check = arm["randomisation"]
        if check is None:
            text = f"The randomisation of {arm['label']} was not checked: its numbers can be wrong."
            found.append(("problem", "not checked", text))
        elif not check["ok"]:
            severity = "problem" if check["stops"] or not check["tests"] else "caution"
            text = f"{arm['label']}: {check['verdict']} {' '.join(check['advice'])}"
            found.append((severity, "not randomised", text))
    for other in summary["differences"]:
        if other["lower"] is not None and other["lower"] > 0:
            continue
        severity = "problem" if other["kind"] == "random" else "caution"
        text = (
            f"These rows do not show that choosing arms by this model gains more, on average over "
            f"all budgets, than {other['name']}."
        )
        found.append((severity, f"not better than {other['kind']}", text))
    found += _of_effects(summary)
    if summary["certificate"] is None:
        text = (
            "Nothing is certified of the policy: its intervals are approximations for many rows. "
            "A budget that is named when the model is fitted can be certified."
        )
        found.append(("note", "no certificate", text))
    found += _of_plan(summary["plan"], summary["headline"]["share"])
    order = ("problem", "caution", "note")
    found.sort(key=lambda one: order.index(one[0]))
    return [{"severity": s, "kind": k, "text": t} for s, k, t in found]
