"""The slider of a report: one decision per share or budget.

Every decision is made by :mod:`auucmax.targeting.rule`; the script of the page only shows them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from markupsafe import Markup

from auucmax.present import words
from auucmax.present.brief import brief
from auucmax.present.figures import WIDE, Axes, Points, dot, line, range_of, text, ticks
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
    """One position of the slider: a decision and its Brief.

    ``label``: the share or budget; ``at``: the part of the largest one; ``y``: profit, or gain in
    the unit of the page, with its interval, None if it is not known; ``sure``: the guaranteed y.
    """

    decision: Decision
    words: Brief
    label: str
    at: float
    y: Estimate | None
    sure: float | None

    @property
    def plan(self) -> Plan:
        return self.decision.plan

    @property
    def treated(self) -> float:
        """The share of people treated."""
        return sum(self.plan.counts) / self.plan.n_people

    @property
    def chip(self) -> tuple[str, str]:
        """Colour and label of the state."""
        style, word = STATES[self.decision.state]
        return style, f"{'profit' if self.plan.terms.has_profit else 'gain'}: {word}"

    def json(self, low: float, high: float) -> dict[str, Any]:
        """Data for the script; ``low`` and ``high`` are the range of the figure."""
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
    """All positions of the slider, and the one of the requested decision.

    ``largest``: share or amount of money at the right end; ``lines``: styles, names and places of
    other curves; ``marks``: names and numbers of points.
    """

    points: tuple[Point, ...]
    start: int
    in_money: bool
    largest: float
    y_title: str
    lines: tuple[tuple[str, str, Points], ...]
    marks: tuple[tuple[str, int], ...]

    @property
    def first(self) -> Point:
        return self.points[self.start]

    @property
    def title(self) -> str:
        return "Budget" if self.in_money else "Share of people treated"

    @property
    def tenths(self) -> list[int]:
        """Positions at each tenth of the largest share or budget."""
        return [
            k for k, own in enumerate(self.points) if abs(10 * own.at - round(10 * own.at)) < 1e-6
        ]

    def range(self) -> tuple[float, float]:
        """The lowest and highest y of the figure."""
        values = [y for _, _, points in self.lines for _, y in points]
        for own in self.points:
            if own.y is not None:
                values += [own.y.value, own.y.lower, own.y.upper]
        return range_of(values)

    def draw(self, width: int) -> Markup:
        """Draw the curve, band, other lines, guarantees, marks and the slider's position."""
        narrow = width < WIDE
        axes = Axes(width, 300 if narrow else 470, (0.0, 1.0, *self.range()), top=30)
        write = words.money if self.in_money else words.percent
        marks = ticks(0.0, self.largest, 4 if narrow else 6) if self.largest else []
        x_labels = [(x / self.largest, write(x)) for x in marks]
        known = [(own.at, own.y) for own in self.points if own.y is not None]
        lower, upper = [(at, y.lower) for at, y in known], [(at, y.upper) for at, y in known]
        parts = [
            axes.frame(x_labels, self.title.lower(), self.y_title),
            axes.path(lower, "band", upper),
            *(axes.path(points, style) for style, _, points in self.lines),
            # Last, so that no line is drawn over it.
            axes.path([(0.0, 0.0), *((at, y.value) for at, y in known)], "model"),
        ]
        for own in self.points:
            if own.sure is not None and own.sure > axes.bounds[2]:
                x, y = axes.x(own.at), axes.y(own.sure)
                parts.append(line("guarantee", x - 7, y, x + 7, y))
        for number, (name, place) in enumerate(self.marks):
            at, label = self.points[place].at, f"{name} {self.points[place].label}"
            above = axes.top - 4 - 15 * number
            anchor = "start" if at < 0.2 else "end" if at > 0.8 else "middle"
            parts.append(line("mark", axes.x(at), above + 2, axes.x(at), axes.base))
            parts.append(text(axes.x(at), above, label, anchor, "mark"))
        x, gain = axes.x(self.first.at), self.first.y
        parts.append(line("marker", x, axes.top, x, axes.base))
        style = "marker-dot" if gain else "marker-dot unseen"
        parts.append(dot(style, x, axes.y(gain.value if gain else 0.0)))
        return axes.svg("curve", f"Curve by {self.title.lower()}. A table has the numbers.", parts)


def slider(evidence: Evidence, terms: Terms, n: int, currency: str) -> Slider:
    """Decide by the terms, and for all other shares or budgets."""
    curve, outcome = evidence.policy.curve, evidence.roles.outcome
    unit, per = words.unit(outcome)
    gained = f"{words.gains(outcome)} gained {per}"
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
    if in_money:
        asked = [replace(terms, share=None, budget=money * spend) for spend in spends.tolist()]
    else:
        shares = np.interp(spends, curve.spend, np.array(curve.shares).sum(axis=1)).tolist()
        asked = [replace(terms, share=share, budget=None) for share in shares]
    plans = [plan_at(evidence, one, n, at) for one, at in zip(asked, spends, strict=True)]

    points = []
    for one, at in zip(asked, plans, strict=True):
        is_first = at.share == own
        decision = first if is_first else decide(evidence, one, n, plan=at, points=plans)
        plan, y = decision.plan, decision.plan.profit
        label = words.percent(sum(plan.counts) / n)
        if in_money:
            label = f"{words.money(money * plan.share)} {currency}".rstrip()
        sure = plan.guaranteed if (plan.guaranteed or 0) > 0 else None
        if not terms.has_profit:  # in the unit of the page
            y = None if plan.gain is None else plan.gain.scaled(unit / n)
            sure = None if sure is None else sure * unit / n
        points.append(Point(decision, brief(decision), label, plan.share / (most or 1.0), y, sure))
    # Other rankings or, with several arms, simpler policies: these spend other amounts, so that
    # they are drawn as gains only.
    others = evidence.arms[0].rivals
    if len(evidence.arms) > 1:
        others = () if terms.has_profit else evidence.policy.contrasts[1:]
    curves = [("random", "random targeting", curve.random)]
    for k, other in enumerate(others):
        curves.append((f"rival c{k % 5}", rival_name(evidence, other.against), other.curve))
    lines = []
    for style, name, gains in curves:
        heights = unit * np.interp([one.plan.share for one in points], curve.spend, gains)
        if terms.has_profit:
            spent = np.array([one.plan.spend or 0.0 for one in points])
            heights = (terms.value or 0.0) * n / unit * heights - spent
        line_of = [(0.0, 0.0), *zip([one.at for one in points], heights.tolist(), strict=True)]
        lines.append((style, name, line_of))
    return Slider(
        points=tuple(points),
        start=int(np.searchsorted(spends, own)),
        in_money=in_money,
        largest=most * money if in_money else most,
        y_title=f"profit, {currency}".rstrip(", ") if terms.has_profit else gained,
        lines=tuple(lines),
        marks=_marks(points),
    )


def rival_name(evidence: Evidence, against: str) -> str:
    """Name of the other ranking or policy in a contrast."""
    if len(evidence.arms) == 1:
        return words.model_name(against, evidence.roles.outcome)
    return words.policy_name(against)


def _marks(points: Sequence[Point]) -> tuple[tuple[str, int], ...]:
    """Positions of the highest profit and of break-even, if known."""
    profits = [-math.inf if own.plan.profit is None else own.plan.profit.value for own in points]
    gains = [k for k, profit in enumerate(profits) if profit > 0]
    if not gains or len(points) == 1:
        return ()
    best = max(gains, key=profits.__getitem__)
    is_used_up = any(profit > -math.inf for profit in profits[gains[-1] + 1 :])
    return ("highest profit", best), *([("break-even", gains[-1])] if is_used_up else [])
