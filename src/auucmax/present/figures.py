"""SVG figures with lines, bands and dots, coloured by the style sheet.

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
