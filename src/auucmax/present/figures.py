"""Small SVG figures: lines, bands and dots; their colours come from the style sheet.

Each is drawn twice, for a wide and for a narrow screen, so that its text keeps its size.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from auucmax.results import Deciles

WIDE, NARROW = 720, 360

#: Points of a line; None where the number is not known.
Points = Sequence[tuple[float, float | None]]


def both(draw: Callable[..., Markup], *given: Any) -> Markup:
    """A figure for a wide and for a narrow screen; the style sheet shows one of them."""
    return draw(*given, WIDE) + draw(*given, NARROW)


def label(value: float) -> str:
    """A round number.

    >>> label(1500.0), label(-0.25)
    ('1,500', '−0.25')
    """
    return f"{value:,.10g}".replace("-", "\u2212")


def ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Round numbers from low to high, low < high; at most ``most``.

    >>> ticks(-0.3, 4.7)
    [0.0, 1.0, 2.0, 3.0, 4.0]
    """
    raw = (high - low) / (most - 1)
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * m for m in (1, 2, 2.5, 5, 10) if power * m >= raw * 0.999999)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(k * step, 12) + 0.0 for k in range(first, last + 1)]


def range_of(values: Iterable[float | None]) -> tuple[float, float]:
    """A range that holds all values and zero, with a little room around them."""
    known = [0.0, *(value for value in values if value is not None)]
    low, high = min(known), max(known)
    room = 0.04 * (high - low) or 0.5
    return low - room * (low < 0 or low == high), high + room


@dataclass(frozen=True)
class Axes:
    """A frame in which numbers become places; ``bounds``: lowest and highest x, then y."""

    width: int
    height: int
    bounds: tuple[float, float, float, float]
    left: int = 74
    right: int = 22
    top: int = 14
    bottom: int = 46

    @property
    def base(self) -> int:
        return self.height - self.bottom

    def x(self, value: float) -> float:
        low, high = self.bounds[:2]
        inside = self.width - self.left - self.right
        return round(self.left + inside * (value - low) / (high - low), 2)

    def y(self, value: float) -> float:
        low, high = self.bounds[2:]
        return round(self.top + (self.base - self.top) * (high - value) / (high - low), 2)

    def frame(
        self, x_labels: Iterable[tuple[float, str]], x_title: str, y_title: str, sign: str = ""
    ) -> Markup:
        """Grid lines, labels of both axes and their titles."""
        marks = ticks(*self.bounds[2:])
        parts = []
        for value in marks:
            at = self.y(value)
            style = "grid" if value else "zero"
            parts.append(line(style, self.left, at, self.width - self.right, at))
            parts.append(text(self.left - 6, at + 4, label(value) + sign, "end"))
        parts += [text(self.x(at), self.base + 18, label, "middle") for at, label in x_labels]
        middle = (self.left + self.width - self.right) / 2
        parts.append(text(middle, self.height - 8, x_title, "middle", "title"))
        turned = Markup('<text class="title" text-anchor="middle" transform="{}">{}</text>')
        turn = f"translate(12 {(self.top + self.base) / 2}) rotate(-90)"
        return Markup("").join([*parts, turned.format(turn, y_title)])

    def path(self, points: Points, style: str, back: Points = ()) -> Markup:
        """A line through the known points; an area if it goes ``back`` along others."""
        ways = [f"{self.x(x)} {self.y(y)}" for x, y in (*points, *back[::-1]) if y is not None]
        end = "Z" if back else ""
        return Markup('<path class="{}" d="{}"/>').format(
            style, f"M{'L'.join(ways)}{end}" if ways else ""
        )

    def svg(self, name: str, about: str, parts: Sequence[Markup]) -> Markup:
        """The figure; ``data-`` attributes are the frame in which the script moves the marker."""
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


def diamond(x: float, y: float) -> Markup:
    shape = Markup('<path class="predicted" d="M{} {}l5.5 5.5l-5.5 5.5l-5.5 -5.5z"/>')
    return shape.format(x, round(y - 5.5, 2))


def text(x: float, y: float, label: str, anchor: str, style: str = "tick") -> Markup:
    return Markup('<text class="{}" x="{}" y="{}" text-anchor="{}">{}</text>').format(
        style, round(x, 2), round(y, 2), anchor, label
    )


@dataclass(frozen=True)
class CurveFigure:
    """A curve with its band, other lines (style, points), guarantees, and marks with a name.

    ``start``: where the slider stands at first; ``x_labels`` of a wide and of a narrow figure.
    """

    curve: Points
    lower: Points
    upper: Points
    lines: tuple[tuple[str, Points], ...]
    guarantees: Points
    marks: tuple[tuple[str, float], ...]
    start: tuple[float, float | None]
    x_labels: tuple[tuple[tuple[float, str], ...], ...]
    titles: tuple[str, str]

    def range(self) -> tuple[float, float]:
        """The lowest and highest y."""
        lines = (self.curve, self.lower, self.upper, *(points for _, points in self.lines))
        return range_of(y for points in lines for _, y in points)

    def draw(self, width: int) -> Markup:
        narrow = width < WIDE
        axes = Axes(width, 300 if narrow else 470, (0.0, 1.0, *self.range()), top=30)
        parts = [
            axes.frame(self.x_labels[narrow], *self.titles),
            axes.path(self.lower, "band", self.upper),
            *(axes.path(points, style) for style, points in self.lines),
            axes.path(self.curve, "model"),  # last, so that no line is drawn over it
        ]
        low = axes.bounds[2]
        for x, y in self.guarantees:
            if y is not None and y > low:
                parts.append(line("guarantee", axes.x(x) - 7, axes.y(y), axes.x(x) + 7, axes.y(y)))
        for number, (name, at) in enumerate(self.marks):
            x, above = axes.x(at), axes.top - 4 - 11 * number
            anchor = "start" if at < 0.2 else "end" if at > 0.8 else "middle"
            parts.append(line("mark", x, above + 2, x, axes.base))
            parts.append(text(x, above, name, anchor, "mark"))
        x, y = self.start
        parts.append(line("marker", axes.x(x), axes.top, axes.x(x), axes.base))
        style = "marker-dot" if y is not None else "marker-dot unseen"
        parts.append(dot(style, axes.x(x), axes.y(y or 0.0)))
        return axes.svg("curve", f"Curve by {self.titles[0]}. A table has the numbers.", parts)


def areas_figure(shares: Sequence[Points], figure: CurveFigure, width: int) -> Markup:
    """Which part of the people gets each arm: areas on top of each other, along a curve's x."""
    narrow = width < WIDE
    axes = Axes(width, 300 if narrow else 380, (0.0, 1.0, 0.0, 1.0))
    percent = Axes(width, axes.height, (0.0, 1.0, 0.0, 100.0))
    parts = [percent.frame(figure.x_labels[narrow], figure.titles[0], "people", "%")]
    below: list[tuple[float, float]] = [(x, 0.0) for x, _ in shares[0]]
    for number, own in enumerate(shares):
        above = [(x, y + (more or 0.0)) for (x, y), (_, more) in zip(below, own, strict=True)]
        parts.append(axes.path(above, f"area c{number % 5}", below))
        below = above
    at = axes.x(figure.start[0])
    parts.append(line("marker", at, axes.top, at, axes.base))
    return axes.svg("areas", "Part of the people who get each arm, as in the table.", parts)


def deciles_figure(deciles: Deciles, scale: float, y_title: str, width: int) -> Markup:
    """The effect in each tenth with its interval, and next to it the predicted one."""
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
            parts.append(diamond(axes.x(place + aside), axes.y(predicted)))
    return axes.svg("deciles", f"Effect in each {part_of(n)}, as in the table below.", parts)


def part_of(n: int) -> str:
    """The name of one of n equal parts."""
    return "tenth" if n == 10 else "part"


def differences_figure(differences: Sequence[Any], width: int) -> Markup:
    """Standardised differences between the arms: (name, value) pairs, dotted lines at a tenth."""
    most = max(0.15, 1.1 * max(abs(value) for _, value in differences))
    n = len(differences)
    left, longest = (150, 18) if width < WIDE else (240, 32)
    axes = Axes(width, 20 * n + 50, (-most, most, 0.0, float(n)), left=left, top=4)
    parts = []
    for style, at in (("zero", 0.0), ("random", -0.1), ("random", 0.1)):
        parts.append(line(style, axes.x(at), axes.top, axes.x(at), axes.base))
    marks = ticks(-most, most, 5)
    parts += [text(axes.x(at), axes.base + 18, label(at), "middle") for at in marks]
    parts.append(text(axes.x(0.0), axes.height - 8, "standard deviations", "middle", "title"))
    for row, (name, value) in enumerate(differences):
        y = axes.y(n - row - 0.5)
        short = name if len(name) <= longest else f"{name[: longest - 1]}\u2026"
        parts.append(text(axes.left - 10, y + 4, short, "end"))
        parts.append(dot("actual", axes.x(value), y))
    return axes.svg("differences", "Differences between the arms, the largest first.", parts)
