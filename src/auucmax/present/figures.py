"""Places in the figures of a page, and the slider of a report: one decision per share or budget.

``figures.html.jinja`` draws the figures. Every decision is made by :mod:`auucmax.targeting.rule`;
the script of the page only shows them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from auucmax.present import words
from auucmax.present.brief import brief
from auucmax.results import Brief, Deciles, Decision, Estimate, Evidence, Plan, State, Terms
from auucmax.targeting.rule import decide, plan_at, price_factor

#: Points of a line; None where the number is not known.
Points = list[tuple[float, float | None]]


def ticks(low: float, high: float, most: int = 6) -> list[float]:
    """At most ``most`` round numbers from low to high, low < high.

    >>> ticks(-0.3, 4.7)
    [0.0, 1.0, 2.0, 3.0, 4.0]
    """
    raw = (high - low) / (most - 1)
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * m for m in (1, 2, 2.5, 5, 10) if power * m >= raw * 0.999999)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(k * step, 12) + 0.0 for k in range(first, last + 1)]


def range_of(values: Iterable[float | None]) -> tuple[float, float]:
    """Axis range that contains all values and zero, with a margin."""
    known = [0.0, *(value for value in values if value is not None)]
    low, high = min(known), max(known)
    room = 0.04 * (high - low) or 0.5
    return low - room * (low < 0 or low == high), high + room


@dataclass(frozen=True)
class Axes:
    """Places in a figure for a wide or a narrow screen.

    ``bounds`` are lowest and highest x, then y; ``x_ticks``: values and labels.
    """

    is_wide: bool
    height: int
    bounds: tuple[float, float, float, float]
    x_ticks: Sequence[tuple[float, str]]
    top: int = 14
    left = 74

    @property
    def width(self) -> int:
        return 720 if self.is_wide else 360

    @property
    def right(self) -> int:
        return self.width - 22

    @property
    def base(self) -> int:
        return self.height - 46

    @property
    def y_ticks(self) -> list[float]:
        return ticks(*self.bounds[2:])

    def x(self, value: float) -> float:
        low, high = self.bounds[:2]
        return round(self.left + (self.right - self.left) * (value - low) / (high - low), 2)

    def y(self, value: float) -> float:
        low, high = self.bounds[2:]
        return round(self.top + (self.base - self.top) * (high - value) / (high - low), 2)


def axes_of_deciles(deciles: Deciles, scale: float, is_wide: bool) -> Axes:
    """Axes for the effect in each tenth, its interval and the prediction."""
    shown = (*deciles.uplift, *deciles.lower, *deciles.upper, *(deciles.predicted or ()))
    places = range(1, len(deciles.uplift) + 1)
    y_range = range_of(y if y is None else y * scale for y in shown)
    return Axes(is_wide, 280, (0.5, places[-1] + 0.5, *y_range), [(k, str(k)) for k in places])


def part_of(n: int) -> str:
    """The name of one of n equal parts."""
    return "tenth" if n == 10 else "part"


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
    the unit of the page, with its interval, None if it is not known; ``sure``: the guaranteed
    y, or 0.
    """

    decision: Decision
    words: Brief
    label: str
    at: float
    y: Estimate | None
    sure: float

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
        curves = [
            *(points for *_, points in self.lines),
            *map(self.line, ("value", "lower", "upper")),
        ]
        return range_of(y for points in curves for _, y in points)

    def line(self, of: str) -> Points:
        """Points of the curve: value, or lower or upper end of the interval, where it is known."""
        return [(own.at, getattr(own.y, of)) for own in self.points if own.y is not None]

    def axes(self, is_wide: bool) -> Axes:
        """Axes for the curve."""
        write = words.money if self.in_money else words.percent
        marks = ticks(0.0, self.largest, 6 if is_wide else 4) if self.largest else []
        x_ticks = [(x / self.largest, write(x)) for x in marks]
        return Axes(is_wide, 470 if is_wide else 300, (0.0, 1.0, *self.range()), x_ticks, top=30)


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

    scale = 1.0 if terms.has_profit else unit / n
    points = []
    for one, at in zip(asked, plans, strict=True):
        is_first = at.share == own
        decision = first if is_first else decide(evidence, one, n, plan=at, points=plans)
        plan = decision.plan
        label = words.percent(sum(plan.counts) / n)
        if in_money:
            label = f"{words.money(money * plan.share)} {currency}".rstrip()
        y = plan.profit if terms.has_profit else plan.gain
        y = None if y is None else y.scaled(scale)
        sure = scale * max(plan.guaranteed or 0.0, 0.0)
        points.append(Point(decision, brief(decision), label, plan.share / (most or 1.0), y, sure))
    # Other rankings or, with several arms, simpler policies: these spend other amounts, so that
    # they are drawn as gains only.
    others = evidence.arms[0].rivals
    if len(evidence.arms) > 1:
        others = () if terms.has_profit else evidence.policy.contrasts[1:]
    curves = [("random", "random targeting", curve.random)]
    for k, other in enumerate(others):
        curves.append((f"rival c{k % 5}", rival_name(evidence, other.against), other.curve))
    worth, spent = unit, np.zeros(len(plans))
    if terms.has_profit:
        worth, spent = n * (terms.value or 0.0), np.array([one.spend or 0.0 for one in plans])
    lines = []
    for style, name, gains in curves:
        heights = worth * np.interp([one.share for one in plans], curve.spend, gains) - spent
        line_of = [(0.0, 0.0), *zip([one.at for one in points], heights.tolist(), strict=True)]
        lines.append((style, name, line_of))
    # The highest profit, and break-even: the last profit above 0, if there are losses beyond it.
    profits = {k: one.y.value for k, one in enumerate(points) if one.y and terms.has_profit}
    above = [k for k, profit in profits.items() if profit > 0]
    marks = []
    if above and len(points) > 1:
        marks.append(("highest profit", max(above, key=profits.__getitem__)))
        if above[-1] != max(profits):
            marks.append(("break-even", above[-1]))
    return Slider(
        points=tuple(points),
        start=int(np.searchsorted(spends, own)),
        in_money=in_money,
        largest=most * money if in_money else most,
        y_title=f"profit, {currency}".rstrip(", ") if terms.has_profit else gained,
        lines=tuple(lines),
        marks=tuple(marks),
    )


def rival_name(evidence: Evidence, against: str) -> str:
    """Name of the other ranking or policy in a contrast."""
    if len(evidence.arms) == 1:
        return words.model_name(against, evidence.roles.outcome)
    return words.policy_name(against)
