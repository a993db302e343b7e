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
from auucmax.present.chosen import decision_brief
from auucmax.present.figures import CurveFigure, ticks
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
    def chip(self) -> tuple[str, str]:
        """Colour and words of the state."""
        style, word = STATES[self.decision.state]
        return style, f"{'profit' if self.plan.terms.has_profit else 'gain'}: {word}"

    def json(self, low: float, high: float) -> dict[str, Any]:
        """What the script needs; ``low`` and ``high``: the range of the figure."""
        return {
            "label": self.label,
            "at": round(self.at, 6),
            "y": None if self.y is None else round((self.y.value - low) / (high - low), 6),
            "value": self.value,
            "style": self.chip[0],
            "state": self.chip[1],
            "verdict": self.words.verdict,
            "facts": self.words.facts,
            "next": self.words.next_step or "",
        }

    @property
    def value(self) -> str:
        """The profit or gain with its interval."""
        if self.y is None:
            return words.why(self.plan.missing)
        return words.estimate(self.y, sign=not self.plan.terms.has_profit)


@dataclass(frozen=True)
class Slider:
    """What the slider can show, and the place of the decision that was asked for.

    ``buttons``: names, labels and places; ``legend``: styles and names of lines.
    """

    points: tuple[Point, ...]
    start: int
    title: str
    buttons: tuple[tuple[str, str, int], ...]
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
    curve, several = evidence.policy.curve, len(evidence.arms) > 1
    first = decide(evidence, terms, n)
    in_money = several and terms.cost is not None
    factor = price_factor(curve, replace(terms, share=None)) if in_money else 1.0
    most = curve.spend[-1]
    if factor is None or most == 0:  # costs of other ratios, or no arm for anybody
        spends = np.array([first.plan.share])
    else:
        spends = np.linspace(0, most, N_POINTS + 1)[1:]
        spends = np.append(spends[abs(spends - first.plan.share) > 1e-9 * most], first.plan.share)
        spends.sort()
    money = (factor or 1.0) * n
    treated = np.array(curve.shares).sum(axis=1)
    asked = []
    for spend in spends.tolist():
        share = float(np.interp(spend, curve.spend, treated))
        other = {"budget": money * spend} if in_money else {"share": share, "budget": None}
        asked.append(replace(terms, **({"share": None} | other)))
    plans = [plan_at(evidence, own, n, at) for own, at in zip(asked, spends, strict=True)]
    points = []
    for own, plan in zip(asked, plans, strict=True):
        decision = first
        if plan.share != first.plan.share:
            decision = decide(evidence, own, n, plan=plan, points=plans)
        label = words.percent(sum(decision.plan.counts) / n)
        if in_money:
            label = f"{words.money(money * plan.share)} {currency}".rstrip()
        at = plan.share / most if most else 0.0
        points.append(
            Point(
                decision,
                decision_brief(decision),
                label,
                at,
                _in_unit(evidence, decision.plan),
            )
        )
    start = int(np.searchsorted(spends, first.plan.share))
    lines, legend = _lines(evidence, points)
    marks, buttons = _places(points)
    title = "Budget" if in_money else "Share of people treated"
    known = [(own.at, own.y) for own in points if own.y is not None]
    figure = CurveFigure(
        curve=[(0.0, 0.0), *((at, y.value) for at, y in known)],
        lower=[(at, y.lower) for at, y in known if y.upper is not None],
        upper=[(at, y.upper) for at, y in known if y.lower is not None],
        lines=lines,
        guarantees=_guarantees(evidence, points),
        marks=marks,
        start=(points[start].at, None if (y := points[start].y) is None else y.value),
        x_labels=tuple(_labels(most * (money if in_money else 1.0), in_money, k) for k in (6, 4)),
        titles=(title.lower(), _y_title(evidence, points[0].plan, currency)),
        label=f"Curve by {title.lower()}. The numbers are in a table below.",
    )
    return Slider(tuple(points), start, title, buttons, figure, legend)


def _in_unit(evidence: Evidence, plan: Plan) -> Estimate | None:
    """The profit of all people, or the gain in the unit of the page."""
    if plan.terms.has_profit or plan.gain is None:
        return plan.profit
    scale = words.unit(evidence.roles.outcome)[0] / plan.n_people
    found = plan.gain
    lower, upper = (None if end is None else scale * end for end in (found.lower, found.upper))
    return Estimate(value=scale * found.value, lower=lower, upper=upper)


def _y_title(evidence: Evidence, plan: Plan, currency: str) -> str:
    if plan.terms.has_profit:
        return f"profit, {currency}" if currency else "profit"
    return f"{words.gains(evidence.roles.outcome)} gained {words.unit(evidence.roles.outcome)[1]}"


def _gains(evidence: Evidence, points: Sequence[Point], gain: Sequence[float]) -> list[Any]:
    """A line of gains per person on the trial's curve, at the points, in the unit of the page."""
    curve, scale = evidence.policy.curve, words.unit(evidence.roles.outcome)[0]
    found = [(0.0, 0.0)]
    for own in points:
        terms, here = own.plan.terms, float(np.interp(own.plan.share, curve.spend, gain))
        y = scale * here
        if terms.has_profit:
            y = (terms.value or 0.0) * own.plan.n_people * here - (own.plan.spend or 0.0)
        found.append((own.at, y))
    return found


def _lines(evidence: Evidence, points: Sequence[Point]) -> tuple[Any, tuple[tuple[str, str], ...]]:
    """The other lines of the figure, and the legend.

    With several arms, simpler policies spend other amounts: they are drawn as gains only.
    """
    named = [("random", "random targeting", evidence.policy.curve.random)]
    rivals = evidence.arms[0].rivals if len(evidence.arms) == 1 else evidence.policy.contrasts[1:]
    if len(evidence.arms) == 1 or not points[0].plan.terms.has_profit:
        for number, own in enumerate(rivals):
            named.append((f"rival c{number % 5}", rival_name(own.against, evidence), own.curve))
    lines = tuple((style, _gains(evidence, points, gain)) for style, _, gain in reversed(named))
    return lines, tuple((style, name) for style, name, _ in named)


def rival_name(against: str, evidence: Evidence) -> str:
    """What a contrast is against."""
    if len(evidence.arms) == 1:
        return words.model_name(against, evidence.roles.outcome)
    everyone = against.removeprefix("everyone: ")
    if against == "random":
        return "the same arms for random people"
    return f"{short(everyone)} for everyone" if everyone != against else f"{short(against)} alone"


def _guarantees(evidence: Evidence, points: Sequence[Point]) -> list[tuple[float, float]]:
    """Guaranteed profits or gains above 0, in the unit of the page."""
    found = []
    for own in points:
        if (least := own.plan.guaranteed or 0.0) > 0:
            per_person = words.unit(evidence.roles.outcome)[0] / own.plan.n_people
            found.append((own.at, least if own.plan.terms.has_profit else least * per_person))
    return found


def _places(points: Sequence[Point]) -> tuple[Any, Any]:
    """Marks of the figure, and buttons, where a profit is known."""
    if not points[0].plan.terms.has_profit or len(points) == 1:
        return (), ()
    values = [-np.inf if own.y is None else own.y.value for own in points]
    lower = [-np.inf if own.y is None or own.y.lower is None else own.y.lower for own in points]
    best, safest = int(np.argmax(values)), int(np.argmax(lower))
    marks, buttons = [], []
    if values[best] > 0:
        marks.append((f"best {points[best].label}", points[best].at))
        buttons.append(("Highest expected profit", points[best].label, best))
        above = [own for own, value in zip(points, values, strict=True) if value > 0]
        if above[-1] is not points[-1]:
            marks.append((f"break-even {above[-1].label}", above[-1].at))
    if lower[safest] > 0 and safest != best:
        buttons.append(("Highest lower end of the interval", points[safest].label, safest))
    return tuple(marks), tuple(buttons)


def _labels(most: float, in_money: bool, n: int) -> tuple[tuple[float, str], ...]:
    """Round shares or amounts along the curve."""
    found = ticks(0.0, most, n) if most > 0 else [0.0]
    write = words.money if in_money else words.percent
    return tuple((value / most if most else 0.0, write(value)) for value in found)
