"""The slider of a report: a decision for each share, or budget, along the curve, with its words.

Every decision is made by :mod:`auucmax.targeting.rule`; the script of the page only shows them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from auucmax._json import short
from auucmax.present import words
from auucmax.present.brief import brief
from auucmax.present.figures import CurveFigure, Points, ticks
from auucmax.results import Brief, Decision, Estimate, Evidence, Plan, State, Terms
from auucmax.targeting.rule import decide, plan_at, price_factor

N_POINTS = 100
#: How a state is coloured, and what it is called next to a gain or profit.
STATES = {
    State.GUARANTEED: ("ok", "guaranteed"),
    State.SIGNIFICANT: ("ok", "significant"),
    State.UNCLEAR: ("caution", "not clear"),
    State.UNKNOWN: ("caution", "not known"),
    State.HARM: ("problem", "harm"),
    State.LOSS: ("problem", "loss"),
}


@dataclass(frozen=True)
class Point:
    """A place of the slider: a decision and its words.

    ``label``: the share or budget; ``at``: the part of the largest one; ``y``: profit, or gain in
    the unit of the page, with its interval; None if it is not known.
    """

    decision: Decision
    words: Brief
    label: str
    at: float
    y: Estimate | None

    @property
    def plan(self) -> Plan:
        return self.decision.plan

    @property
    def treated(self) -> float:
        """The share of people treated."""
        return sum(self.plan.counts) / self.plan.n_people

    @property
    def chip(self) -> tuple[str, str]:
        """Colour and words of the state."""
        style, word = STATES[self.decision.state]
        return style, f"{'profit' if self.plan.terms.has_profit else 'gain'}: {word}"

    def json(self, low: float, high: float) -> dict[str, Any]:
        """What the script needs; ``low`` and ``high``: the range of the figure."""
        return {
            "label": self.label,
            "share": self.treated,
            "at": round(self.at, 6),
            "y": None if self.y is None else round((self.y.value - low) / (high - low), 6),
            "value": words.why(self.plan.missing) if self.y is None else words.estimate(self.y),
            "style": self.chip[0],
            "state": self.chip[1],
            "verdict": self.words.verdict,
            "facts": self.words.facts,
            "next": self.words.next_step or "",
        }


@dataclass(frozen=True)
class Slider:
    """What the slider can show, and the place of the decision that was asked for.

    ``buttons``: names and places; ``legend``: styles and names of lines.
    """

    points: tuple[Point, ...]
    start: int
    title: str
    buttons: tuple[tuple[str, int], ...]
    figure: CurveFigure
    legend: tuple[tuple[str, str], ...]

    @property
    def first(self) -> Point:
        return self.points[self.start]

    @property
    def tenths(self) -> list[int]:
        """Places of the points at each tenth of the largest share or budget."""
        return [
            k for k, own in enumerate(self.points) if abs(10 * own.at - round(10 * own.at)) < 1e-6
        ]


def slider(evidence: Evidence, terms: Terms, n: int, currency: str) -> Slider:
    """The decision that the terms ask for, and those of all other shares or budgets."""
    curve, outcome = evidence.policy.curve, evidence.roles.outcome
    first = decide(evidence, terms, n)
    own = first.plan.share
    in_money = len(evidence.arms) > 1 and terms.cost is not None
    factor = price_factor(curve, replace(terms, share=None)) if in_money else 1.0
    most = curve.spend[-1]
    spends = np.array([own])
    if factor is not None and most > 0:  # no costs of other ratios, and arms for somebody
        spends = np.linspace(0, most, N_POINTS + 1)[1:]
        spends = np.sort(np.append(spends[abs(spends - own) > 1e-9 * most], own))
    money = (factor or 1.0) * n
    shares = np.interp(spends, curve.spend, np.array(curve.shares).sum(axis=1)).tolist()
    asked = [replace(terms, share=share, budget=None) for share in shares]
    if in_money:
        asked = [replace(terms, share=None, budget=money * spend) for spend in spends.tolist()]
    plans = [plan_at(evidence, one, n, at) for one, at in zip(asked, spends, strict=True)]
    points = []
    for one, plan in zip(asked, plans, strict=True):
        decision = first
        if plan.share != own:
            decision = decide(evidence, one, n, plan=plan, points=plans)
        plan = decision.plan
        label = words.percent(sum(plan.counts) / n)
        if in_money:
            label = f"{words.money(money * plan.share)} {currency}".rstrip()
        y = None
        if (gain := plan.gain) is not None:
            lower, upper = (
                None if end is None else _y(outcome, plan, end) for end in (gain.lower, gain.upper)
            )
            y = Estimate(value=_y(outcome, plan, gain.value), lower=lower, upper=upper)
        points.append(Point(decision, brief(decision), label, plan.share / (most or 1.0), y))
    start = int(np.searchsorted(spends, own))
    named = _named(evidence, terms.has_profit)
    known = [(one.at, one.y) for one in points if one.y is not None]
    marks, buttons = _places(points)
    y_title = f"{words.gains(outcome)} gained {words.unit(outcome)[1]}"
    if terms.has_profit:
        y_title = f"profit, {currency}" if currency else "profit"
    title = "Budget" if in_money else "Share of people treated"
    write, largest = (words.money, most * money) if in_money else (words.percent, most)
    figure = CurveFigure(
        curve=[(0.0, 0.0), *((at, y.value) for at, y in known)],
        lower=[(at, y.lower) for at, y in known if y.upper is not None],
        upper=[(at, y.upper) for at, y in known if y.lower is not None],
        lines=tuple((style, _line(evidence, points, gain)) for style, _, gain in named),
        guarantees=[
            (one.at, least if terms.has_profit else least * words.unit(outcome)[0] / n)
            for one in points
            if (least := one.plan.guaranteed or 0.0) > 0
        ],
        marks=marks,
        start=(points[start].at, None if (y := points[start].y) is None else y.value),
        x_labels=tuple(
            tuple((x / largest, write(x)) for x in (ticks(0.0, largest, k) if largest else ()))
            for k in (6, 4)
        ),
        titles=(title.lower(), y_title),
    )
    legend = tuple((style, name) for style, name, _ in named)
    return Slider(tuple(points), start, title, buttons, figure, legend)


def _y(outcome: Any, plan: Plan, gain: float) -> float:
    """A gain of all people as profit, or in the unit of the page."""
    if plan.terms.has_profit:
        return (plan.terms.value or 0.0) * gain - (plan.spend or 0.0)
    return gain * words.unit(outcome)[0] / plan.n_people


def _line(evidence: Evidence, points: Sequence[Point], gain: Sequence[float]) -> Points:
    """A line of gains per person along the trial's curve, in the unit of the page."""
    spend, outcome = evidence.policy.curve.spend, evidence.roles.outcome
    found = [(0.0, 0.0)]
    for own in points:
        here = own.plan.n_people * float(np.interp(own.plan.share, spend, gain))
        found.append((own.at, _y(outcome, own.plan, here)))
    return found


def _named(evidence: Evidence, has_profit: bool) -> list[tuple[str, str, Sequence[float]]]:
    """Styles, names and gains of the other lines.

    With several arms, simpler policies spend other amounts: they are drawn as gains only.
    """
    several = len(evidence.arms) > 1
    others = evidence.policy.contrasts[1:] if several else evidence.arms[0].rivals
    random: Sequence[float] = evidence.policy.curve.random
    found = [("random", "random targeting", random)]
    for number, own in enumerate(() if several and has_profit else others):
        found.append((f"rival c{number % 5}", rival_name(evidence, own.against), own.curve))
    return found


def rival_name(evidence: Evidence, against: str) -> str:
    """What a contrast is against."""
    if len(evidence.arms) == 1:
        return words.model_name(against, evidence.roles.outcome)
    if against == "random":
        return "the same arms for random people"
    everyone = against.removeprefix("everyone: ")
    return f"{short(everyone)} for everyone" if everyone != against else f"{short(against)} alone"


def _places(points: Sequence[Point]) -> tuple[Any, Any]:
    """Marks of the figure, and buttons, where a profit is known."""
    marks: list[tuple[str, float]] = []
    buttons: list[tuple[str, int]] = []
    known = {k: own.plan.profit for k, own in enumerate(points) if own.plan.profit is not None}
    gains = [k for k, profit in known.items() if profit.value > 0]
    if not gains or len(points) == 1:
        return (), ()
    lower = {k: profit.lower for k, profit in known.items() if profit.lower is not None}
    best = max(known, key=lambda k: known[k].value)
    safest = max(lower, key=lower.__getitem__, default=best)
    marks.append((f"best {points[best].label}", points[best].at))
    buttons.append(("Highest expected profit", best))
    if gains[-1] != max(known):
        marks.append((f"break-even {points[gains[-1]].label}", points[gains[-1]].at))
    if safest != best and lower[safest] > 0:
        buttons.append(("Highest lower end of the interval", safest))
    return tuple(marks), tuple(buttons)
