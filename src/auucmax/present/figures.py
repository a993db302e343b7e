"""Small SVG pictures of the numbers in a summary: lines, bands, dots; colours come from the CSS.

Each is drawn twice, for a wide and for a narrow screen, so that its letters keep their size.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup, escape

WIDE, NARROW = 720, 360
MOST_STYLES = 5  # rivals beyond these share the last style

Numbers = Sequence[float]


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


@dataclass(frozen=True)
class Axes:
    """A frame in which numbers become places."""

    width: int
    height: int
    x_range: tuple[float, float]
    y_range: tuple[float, float]
    left: int = 74
    right: int = 22
    top: int = 12
    bottom: int = 46

    def x(self, value: float) -> float:
        low, high = self.x_range
        inside = self.width - self.left - self.right
        return round(self.left + inside * (value - low) / (high - low), 2)

    def y(self, value: float) -> float:
        low, high = self.y_range
        inside = self.height - self.top - self.bottom
        return round(self.top + inside * (high - value) / (high - low), 2)

    def frame(self, x_labels: Iterable[tuple[float, str]], x_title: str, y_title: str) -> Markup:
        """Grid lines, tick labels and titles; those along y are one group, for the script."""
        y_ticks = ticks(*self.y_range)
        # As many decimals as the step has: 0.5, 1.0, 1.5, not 0.50 and not 0, 1, 2.
        step = y_ticks[1] - y_ticks[0]
        digits = max(0, -math.floor(math.log10(step) + 1e-9))
        if abs(round(step, digits) - step) > 1e-9 * step:
            digits += 1  # a step of 2.5
        along_y = []
        for value in y_ticks:
            style = "zero" if value == 0 else "grid"
            at = self.y(value)
            right = self.width - self.right
            along_y.append(
                Markup('<line class="{}" x1="{}" x2="{}" y1="{}" y2="{}"/>').format(
                    style, self.left, right, at, at
                )
            )
            label = f"{value:,.{digits}f}".replace("-", "\u2212")
            along_y.append(_text(self.left - 6, at + 4, label, "end"))
        base = self.height - self.bottom
        parts = [
            Markup('<text class="tick" x="{}" y="{}" text-anchor="middle" data-at="{}">{}</text>')
            .format(round(self.x(place), 2), round(base + 18, 2), round(place, 6), label)
            for place, label in x_labels
        ]  # fmt: skip
        middle = (self.left + self.width - self.right) / 2
        parts.append(_text(middle, self.height - 8, x_title, "middle", "title"))
        turned = Markup(
            '<text class="title of-y" text-anchor="middle" transform="{}">{}</text>'
        ).format(f"translate(12 {(self.top + base) / 2}) rotate(-90)", y_title)
        group = Markup('<g class="along-y">{}</g>').format(Markup("").join(along_y))
        return Markup("").join([group, *parts, turned])

    def marker(self, x: float, y: float | None) -> Markup:
        """An upright line for the slider, and a dot on the curve, if there is one."""
        dot = Markup('<circle class="marker-dot" cx="{}" cy="{}" r="5"/>')
        return Markup('<line class="marker" x1="{0}" x2="{0}" y1="{1}" y2="{2}"/>').format(
            self.x(x), self.top, self.height - self.bottom
        ) + (Markup() if y is None else dot.format(self.x(x), self.y(y)))


def uplift_figure(summary: Mapping[str, Any], *, width: int = WIDE) -> Markup:
    """The curve with its band, the random line, rivals, marks, and a marker for the slider.

    In money for the cohort where cost and value are known, otherwise the gain in the unit of the
    page. The script draws the same from the same numbers when cost, value or cohort are changed.
    """
    curve, plan = summary["curve"], summary["plan"]
    share, by_money = list(curve["share"]), plan["profit"] is not None
    # Where so few are in the top that nothing can be said, there is no band.
    known = [place for place, low in enumerate(curve["lower"]) if low is not None and place > 0]
    at = [share[place] for place in known]
    lower, upper = (
        _in_unit(summary, at, [curve[end][place] for place in known]) for end in ("lower", "upper")
    )
    lines = [("random", curve["random"])]
    for number, rival in enumerate(summary["rivals"]):
        lines.append((f"rival r{min(number, MOST_STYLES - 1)}", rival["uplift"]))
    lines.append(("model", curve["uplift"]))  # last, so that no rival is drawn over it
    drawn = [(style, _in_unit(summary, share, gains)) for style, gains in lines]
    values = [*lower, *upper, *(v for _, line in drawn for v in line), 0.0]
    narrow = width < WIDE
    axes = Axes(width, 300 if narrow else 470, (0.0, 1.0), _around(values), top=30)
    places = (0, 0.5, 1) if narrow else (0, 0.2, 0.4, 0.6, 0.8, 1)
    unit = summary["unit"]["per"]
    after = f", {plan['currency']}" if plan["currency"] else ""
    parts = [
        axes.frame(
            [(p, f"{p:.0%}") for p in places],
            "share treated, highest score first",
            f"profit{after}" if by_money else f"gain {unit}",
        ),
        _line(axes, at + at[::-1], lower + upper[::-1], 1.0, "band", "Z"),
    ]
    parts += [_line(axes, share, line, 1.0, style) for style, line in drawn]
    marks = [("best", plan["best_share"]), ("break-even", plan["break_even"])]
    parts.append(Markup('<g class="marks">{}</g>').format(_marks(axes, marks)))
    head = summary["headline"]
    here = drawn[-1][1][round(head["share"] * 100)]
    parts.append(axes.marker(head["share"], here))
    label = (
        f"Curve of the {'profit' if by_money else f'gain {unit}'} by share treated: {here:,.3g} at "
        f"a share of {head['share']:.0%}, {drawn[-1][1][-1]:,.3g} when everyone is treated. The "
        f"numbers are in a table below."
    )
    return _svg(axes, "uplift", label, parts, 1.0)


def _in_unit(summary: Mapping[str, Any], share: Numbers, gains: Numbers) -> list[float]:
    """Gains per person as profits of the cohort, or in the unit of the page."""
    plan = summary["plan"]
    if plan["profit"] is None:
        return [gain * summary["unit"]["scale"] for gain in gains]
    n, value, cost = plan["cohort"], plan["value_per_outcome"], plan["cost_per_person"]
    return [n * (value * gain - cost * q) for q, gain in zip(share, gains, strict=True)]


def _marks(axes: Axes, marks: Sequence[tuple[str, float | None]]) -> Markup:
    """Upright lines at shares that have a name; names of neighbours are not written on one line."""
    parts = []
    for name, share in marks:
        if not share:
            continue
        x, above = axes.x(share), axes.top - (4 if name == "best" else 15)
        line = Markup('<line class="mark" x1="{0}" x2="{0}" y1="{1}" y2="{2}"/>')
        parts.append(line.format(x, above + 2, axes.height - axes.bottom))
        anchor = "start" if share < 0.15 else "end" if share > 0.85 else "middle"
        parts.append(_text(x, above, f"{name} {share:.0%}", anchor, "mark"))
    return Markup("").join(parts)


def policy_figure(summary: Mapping[str, Any], *, width: int = WIDE) -> Markup:
    """What the policy of several arms brings by budget, each arm alone, and random people.

    In money for the cohort where costs and value are known, otherwise in the unit of the page; the
    script draws the same from the same numbers.
    """
    curve, plan = summary["curve"], summary["plan"]
    share, spent = list(curve["share"]), curve["spent"]
    lines = [("random", curve["random"], spent["policy"])]  # the same arms in the same numbers
    lines.append(("everybody", curve["everybody"]["gain"], spent["everybody"]))
    for number, own in enumerate(zip(curve["singles"], spent["singles"], strict=True)):
        lines.append((f"rival r{min(number, MOST_STYLES - 1)}", *own))
    lines.append(("model", curve["uplift"], spent["policy"]))  # no other is drawn over it
    drawn = [(style, _of_policy(summary, gains, money)) for style, gains, money in lines]
    lower, upper = (_of_policy(summary, curve[end], spent["policy"]) for end in ("lower", "upper"))
    band = [
        (x, low, high)
        for x, low, high in zip(share, lower, upper, strict=True)
        if x > 0 and low is not None and high is not None
    ]
    there = [v for line in (*(one for _, one in drawn), lower, upper) for v in line]
    axes = _budget_axes(width, _around([v for v in there if v is not None] + [0.0]))
    after = f", {plan['currency']}" if plan["currency"] else ""
    title = f"gain {summary['unit']['per']}" if plan["profit"] is None else f"profit{after}"
    around = [(x, low) for x, low, _ in band] + [(x, high) for x, _, high in band[::-1]]
    parts = [
        axes.frame(_budget_labels(summary, axes), "budget", title),
        _line(axes, [x for x, _ in around], [y for _, y in around], 1.0, "band", "Z"),
    ]
    for style, values in drawn:
        told = [(x, value) for x, value in zip(share, values, strict=True) if value is not None]
        parts.append(_line(axes, [x for x, _ in told], [y for _, y in told], 1.0, style))
    start = summary["headline"]["share"]
    parts.append(axes.marker(start, drawn[-1][1][round(start * 100)]))
    what = "Gain" if plan["profit"] is None else "Profit"
    label = f"{what} of the policy at each budget. The numbers are in the table below."
    return _svg(axes, "uplift", label, parts, 1.0)


def _of_policy(
    summary: Mapping[str, Any], gains: Sequence[float | None], spent: Sequence[float | None]
) -> list[float | None]:
    """Gains per person as profits of the cohort, or in the unit of the page; None as it is."""
    plan, scale = summary["plan"], summary["unit"]["scale"]
    if plan["profit"] is None:
        return [None if gain is None else gain * scale for gain in gains]
    n, value = plan["cohort"], plan["value_per_outcome"]
    return [
        None if gain is None or money is None else n * (value * gain - money)
        for gain, money in zip(gains, spent, strict=True)
    ]


def arms_figure(summary: Mapping[str, Any], *, width: int = WIDE) -> Markup:
    """Which part of the people gets each arm, by budget: areas on top of each other."""
    share, below = list(summary["curve"]["share"]), [0.0] * len(summary["curve"]["share"])
    axes = _budget_axes(width, (0.0, 100.0))
    parts = [axes.frame(_budget_labels(summary, axes), "budget", "people, %")]
    for number, shares in enumerate(summary["plan"]["shares"]):
        own = [0.0 if one is None else one for one in shares]  # blank where nothing is told
        above = [a + b for a, b in zip(below, own, strict=True)]
        style = f"area a{min(number, MOST_STYLES - 1)}"
        parts.append(_line(axes, share + share[::-1], above + below[::-1], 100.0, style, "Z"))
        below = above
    parts.append(axes.marker(summary["headline"]["share"], None))
    label = "Part of the people who get each arm at each budget; the numbers are in the table."
    return _svg(axes, "arms", label, parts, 100.0)


def _budget_axes(width: int, y_range: tuple[float, float]) -> Axes:
    return Axes(width, 300 if width < WIDE else 380, (0.0, 1.0), y_range)


def _budget_labels(summary: Mapping[str, Any], axes: Axes) -> list[tuple[float, str]]:
    """Places of round amounts of money, or shares of people, on the axis of budgets."""
    plan = summary["plan"]
    most = plan["cost"][-1]
    if plan["by_people"]:
        return [(p, f"{p * most / plan['cohort']:.0%}") for p in (0, 0.25, 0.5, 0.75, 1)]
    found = ticks(0.0, most, 3 if axes.width < WIDE else 6) if most > 0 else [0.0]
    return [(value / most if most else 0.0, f"{value:,.10g}") for value in found]


def decile_figure(summary: Mapping[str, Any], *, width: int = WIDE) -> Markup:
    """Actual effect of each tenth (of few rows: part) with its interval, and the predicted one."""
    deciles, scale = summary["deciles"], summary["unit"]["scale"]
    bins, predicted = deciles["bin"], deciles["predicted"]
    part = "tenth" if len(bins) == 10 else "part"
    shown = [deciles["uplift"], deciles["lower"], deciles["upper"], predicted or []]
    values = [v * scale for column in shown for v in column if v is not None] + [0.0]
    axes = Axes(width, 280, (0.5, len(bins) + 0.5), _around(values), bottom=46)
    parts = [
        axes.frame(
            [(b, str(b)) for b in bins],
            f"{part} of the people, highest score first",
            f"effect {summary['unit']['per']}",
        )
    ]
    # Actual and predicted side by side, or a good prediction would hide what it predicts.
    aside = 0.12 if predicted else 0.0
    for j, place in enumerate(bins):
        low, high, actual = (deciles[name][j] for name in ("lower", "upper", "uplift"))
        x = axes.x(place - aside)
        if low is not None and high is not None:
            ends = axes.y(low * scale), axes.y(high * scale)
            parts.append(
                Markup('<line class="whisker" x1="{0}" x2="{0}" y1="{1}" y2="{2}"/>').format(
                    x, *ends
                )
            )
        if actual is not None:
            dot = Markup('<circle class="actual" cx="{}" cy="{}" r="4.5"/>')
            parts.append(dot.format(x, axes.y(actual * scale)))
        if predicted and predicted[j] is not None:
            x, y = axes.x(place + aside), axes.y(predicted[j] * scale)
            diamond = Markup('<path class="predicted" d="M{0} {1}l5.5 5.5l-5.5 5.5l-5.5 -5.5z"/>')
            parts.append(diamond.format(x, round(y - 5.5, 2)))
    label = (
        f"Effect in each {part} of the people, with intervals. The numbers are in the table below."
    )
    return _svg(axes, "deciles", label, parts, scale)


def promise_figure(bars: Mapping[str, Sequence[float | None]], *, width: int = WIDE) -> Markup:
    """What was promised and what came: a dot each, with its interval; words if it is unknown."""
    values = [v for bar in bars.values() for v in bar if v is not None]
    low, high = _around([*values, 0.0])
    axes = Axes(width, 130, (low, high), (0.0, 1.0), left=80, top=8, bottom=34)
    places = dict(zip(bars, (0.75, 0.3), strict=True))
    base = axes.height - axes.bottom
    parts = [
        Markup('<line class="zero" x1="{0}" x2="{0}" y1="{1}" y2="{2}"/>').format(
            axes.x(0.0), axes.top, base
        )
    ]
    marks = ticks(low, high, 5 if width < WIDE else 8)
    parts += [_text(axes.x(mark), base + 18, f"{mark:,.10g}", "middle") for mark in marks]
    for name, (value, lower, upper) in bars.items():
        y = axes.y(places[name])
        parts.append(_text(axes.left - 10, y + 4, name, "end", "title"))
        if lower is not None and upper is not None:
            parts.append(
                Markup('<line class="whisker" x1="{}" x2="{}" y1="{}" y2="{}"/>').format(
                    axes.x(lower), axes.x(upper), y, y
                )
            )
        if value is not None:
            dot = Markup('<circle class="actual" cx="{}" cy="{}" r="5"/>')
            parts.append(dot.format(axes.x(value), y))
        else:
            parts.append(_text(axes.left, y + 4, "cannot be told: too few rows", "start"))
    label = "What was promised and what came, with intervals; the numbers are in the table below."
    return _svg(axes, "promise", label, parts, 1.0)


def love_figure(differences: Sequence[Mapping[str, Any]], *, width: int = WIDE) -> Markup:
    """Standardised differences of the arms: a dot a column or level, lines at a tenth."""
    values = [one["difference"] for one in differences]
    most = max(0.15, 1.1 * max(abs(v) for v in values))
    height = 20 * len(values) + 50
    left = 150 if width < WIDE else 240
    axes = Axes(width, height, (-most, most), (0.0, float(len(values))), left=left, top=4)
    base = axes.height - axes.bottom
    upright = Markup('<line class="{0}" x1="{1}" x2="{1}" y1="{2}" y2="{3}"/>')
    parts = [
        upright.format(style, axes.x(at), axes.top, base)
        for style, at in (("zero", 0.0), ("random", -0.1), ("random", 0.1))
    ]
    parts += [_text(axes.x(at), base + 18, f"{at:g}", "middle") for at in (-0.1, 0.0, 0.1)]
    parts.append(_text(axes.x(0.0), axes.height - 8, "standard deviations", "middle", "title"))
    longest = 18 if width < WIDE else 32
    for row, one in enumerate(differences):
        y = axes.y(len(values) - row - 0.5)
        name = str(one["feature"])
        told = name if len(name) <= longest else f"{name[: longest - 1]}\u2026"
        parts.append(_text(axes.left - 10, y + 4, told, "end"))
        dot = Markup('<circle class="actual" cx="{}" cy="{}" r="4.5"/>')
        parts.append(dot.format(axes.x(one["difference"]), y))
    return _svg(axes, "love", "Differences of the arms; the largest first.", parts, 1.0)


def bar(value: float | None, largest: float) -> Markup:
    """A bar from the middle to the right (positive) or to the left, for a cell of a table."""
    length = 0.0 if value is None or largest <= 0 else max(-1.0, min(1.0, value / largest))
    return Markup(
        '<svg class="bar" viewBox="-1 0 2 1" preserveAspectRatio="none" aria-hidden="true">'
        '<rect class="{}" x="{:.4f}" y="0.15" width="{:.4f}" height="0.7"/>'
        '<line class="zero" x1="0" x2="0" y1="0" y2="1"/></svg>'
    ).format("up" if length >= 0 else "down", min(length, 0.0), abs(length))


def pair(top: float | None, rest: float | None) -> Markup:
    """Two bars, one above the other: parts of the top and of the rest; none where they are few."""
    rows = [
        Markup('<rect class="area {}" x="0" y="{}" width="{:.4f}" height="0.42"/>').format(
            style, y, part or 0.0
        )
        for style, y, part in (("a-top", 0.04, top), ("a-rest", 0.54, rest))
    ]
    return Markup(
        '<svg class="bar" viewBox="0 0 1 1" preserveAspectRatio="none" aria-hidden="true">{}</svg>'
    ).format(Markup("").join(rows))


def swatch(style: str) -> Markup:
    """The key of a line in the legend."""
    shapes = {
        "actual": '<circle class="actual" cx="14" cy="6" r="4.5"/>',
        "predicted": '<path class="predicted" d="M14 0.5l5.5 5.5l-5.5 5.5l-5.5 -5.5z"/>',
        "band": '<rect class="band" x="1" y="0" width="26" height="12"/>',
    }
    if style.startswith("area"):
        shapes[style] = f'<rect class="{escape(style)}" x="1" y="0" width="26" height="12"/>'
    line = f'<line class="{escape(style)}" x1="1" x2="27" y1="6" y2="6"/>'
    return Markup(
        f'<svg class="key" width="28" height="12" viewBox="0 0 28 12" aria-hidden="true">'
        f"{shapes.get(style, line)}</svg>"
    )


def _around(values: Sequence[float]) -> tuple[float, float]:
    """A range a little wider than the values; of length 1 if they are all the same."""
    low, high = min(values), max(values)
    # No room below a curve that starts at zero: the axis is its own line.
    room = 0.04 * (high - low) or 0.5
    return low - room * (low < 0 or low == high), high + room


def _svg(axes: Axes, name: str, label: str, parts: Sequence[Markup], scale: float) -> Markup:
    """The picture; ``data-`` attributes tell the script where its ends lie, and what they mean."""
    size = "narrow" if axes.width < WIDE else "wide"
    low, high = (round(end / scale, 12) for end in axes.y_range)
    head = Markup(
        '<svg class="figure {name} {size}" viewBox="0 0 {width} {height}" role="img" '
        'aria-label="{label}" data-x0="{x0}" data-x1="{x1}" data-y0="{y0}" data-y1="{y1}" '
        'data-low="{low}" data-high="{high}">'
    ).format(
        name=name, size=size, label=label, width=axes.width, height=axes.height, low=low, high=high,
        x0=axes.x(axes.x_range[0]), x1=axes.x(axes.x_range[1]),
        y0=axes.height - axes.bottom, y1=axes.top,
    )  # fmt: skip
    return head + Markup("").join(parts) + Markup("</svg>")


def _line(axes: Axes, x: Numbers, y: Numbers, scale: float, style: str, end: str = "") -> Markup:
    """A line through the points; with the end "Z" it comes back to the first."""
    points = [f"{axes.x(a)} {axes.y(b * scale)}" for a, b in zip(x, y, strict=True)]
    way = f"M{'L'.join(points)}{end}" if points else ""
    return Markup('<path class="{}" d="{}"/>').format(style, way)


def _text(x: float, y: float, label: str, anchor: str, style: str = "tick") -> Markup:
    return Markup('<text class="{}" x="{}" y="{}" text-anchor="{}">{}</text>').format(
        style, round(x, 2), round(y, 2), anchor, label
    )
