"""Figures of a page, as SVG, and the slider of a report: one decision per share or budget.

Figures are drawn twice, for a wide and for a narrow screen, so that their text keeps its size.
Every decision is made by :mod:`auucmax.targeting.rule`; the script of the page only shows them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from markupsafe import Markup

from auucmax.present import words
from auucmax.present.brief import brief
from auucmax.results import Brief, Deciles, Decision, Estimate, Evidence, Plan, State, Terms
from auucmax.targeting.rule import decide, plan_at, price_factor

WIDE, NARROW = 720, 360

#: Points of a line; None where the number is not known.
Points = Sequence[tuple[float, float | None]]


def both(draw: Callable[..., Markup], *given: Any) -> Markup:
    """Draw a figure for wide and for narrow screens; CSS shows one of them."""
    return draw(*given, WIDE) + draw(*given, NARROW)


def label(value: float) -> str:
    """Format a tick label.

    >>> label(1500.0), label(-0.25)
    ('1,500', '−0.25')
    """
    return f"{value:,.10g}".replace("-", "\u2212")


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
    """Plot axes; ``bounds`` are lowest and highest x, then y."""

    width: int
    height: int
    bounds: tuple[float, float, float, float]
    top: int = 14
    left = 74
    right = 22

    @property
    def base(self) -> int:
        return self.height - 46

    def x(self, value: float) -> float:
        low, high = self.bounds[:2]
        inside = self.width - self.left - self.right
        return round(self.left + inside * (value - low) / (high - low), 2)

    def y(self, value: float) -> float:
        low, high = self.bounds[2:]
        return round(self.top + (self.base - self.top) * (high - value) / (high - low), 2)

    def frame(self, x_labels: Iterable[tuple[float, str]], x_title: str, y_title: str) -> Markup:
        """Grid lines, labels of both axes and their titles."""
        parts = []
        for value in ticks(*self.bounds[2:]):
            at = self.y(value)
            style = "grid" if value else "zero"
            parts.append(line(style, self.left, at, self.width - self.right, at))
            parts.append(text(self.left - 6, at + 4, label(value), "end"))
        parts += [text(self.x(at), self.base + 18, label, "middle") for at, label in x_labels]
        middle = (self.left + self.width - self.right) / 2
        parts.append(text(middle, self.height - 8, x_title, "middle", "title"))
        turned = Markup('<text class="title" text-anchor="middle" transform="{}">{}</text>')
        turn = f"translate(12 {(self.top + self.base) / 2}) rotate(-90)"
        return Markup("").join([*parts, turned.format(turn, y_title)])

    def path(self, points: Points, style: str, back: Points = ()) -> Markup:
        """Draw a line through the known points, or an area that returns ``back``."""
        ways = [f"{self.x(x)} {self.y(y)}" for x, y in (*points, *back[::-1]) if y is not None]
        end = "Z" if back else ""
        return Markup('<path class="{}" d="{}"/>').format(
            style, f"M{'L'.join(ways)}{end}" if ways else ""
        )

    def svg(self, name: str, about: str, parts: Sequence[Markup]) -> Markup:
        """The SVG element; its ``data-`` attributes let the script move the marker."""
        head = Markup(
            '<svg class="figure {} {}" viewBox="0 0 {} {}" role="img" aria-label="{}" '
            'data-x0="{}" data-x1="{}" data-y0="{}" data-y1="{}">'
        ).format(
            name, "narrow" if self.width < WIDE else "wide", self.width, self.height, about,
            self.left, self.width - self.right, self.base, self.top,
        )  # fmt: skip
        return head + Markup("").join(parts) + Markup("</svg>")


def line(style: str, x1: float, y1: float, x2: float, y2: float) -> Markup:
    return Markup('<line class="{}" x1="{}" y1="{}" x2="{}" y2="{}"/>').format(
        style, x1, y1, x2, y2
    )


def dot(style: str, x: float, y: float) -> Markup:
    return Markup('<circle class="{}" cx="{}" cy="{}" r="4.5"/>').format(style, x, y)


def text(x: float, y: float, label: str, anchor: str, style: str = "tick") -> Markup:
    return Markup('<text class="{}" x="{}" y="{}" text-anchor="{}">{}</text>').format(
        style, round(x, 2), round(y, 2), anchor, label
    )


def deciles_figure(deciles: Deciles, scale: float, y_title: str, width: int) -> Markup:
    """Draw the effect in each tenth with its interval, next to the prediction."""
    n = len(deciles.uplift)
    columns = [deciles.uplift, deciles.lower, deciles.upper, deciles.predicted or (None,) * n]
    rows = [[y if y is None else y * scale for y in row] for row in zip(*columns, strict=True)]
    axes = Axes(width, 280, (0.5, n + 0.5, *range_of(y for row in rows for y in row)))
    labels = [(place, str(place)) for place in range(1, n + 1)]
    parts = [axes.frame(labels, f"{part_of(n)} of the people, highest scores first", y_title)]
    # Side by side, or a good prediction would hide what it predicts.
    aside = 0.12 if deciles.predicted else 0.0
    for place, (actual, low, high, predicted) in enumerate(rows, start=1):
        x = axes.x(place - aside)
        if low is not None and high is not None:
            parts.append(line("whisker", x, axes.y(low), x, axes.y(high)))
        if actual is not None:
            parts.append(dot("actual", x, axes.y(actual)))
        if predicted is not None:
            x, y = axes.x(place + aside), round(axes.y(predicted) - 5.5, 2)
            diamond = Markup('<path class="predicted" d="M{} {}l5.5 5.5l-5.5 5.5l-5.5 -5.5z"/>')
            parts.append(diamond.format(x, y))
    return axes.svg("deciles", f"Effect in each {part_of(n)}, as in the table below.", parts)


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
    # The highest profit, and break-even: the last profit above 0, if there are losses beyond it.
    profits = [
        (one.plan.profit.value, k) for k, one in enumerate(points) if one.plan.profit is not None
    ]
    above, marks = [own for own in profits if own[0] > 0], []
    if above and len(points) > 1:
        marks.append(("highest profit", max(above, key=lambda own: own[0])[1]))
        if profits[-1] != above[-1]:
            marks.append(("break-even", above[-1][1]))
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
