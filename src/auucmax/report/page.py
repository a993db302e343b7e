"""``render``: one self-contained HTML file from the dictionary of ``summarise``.

Everything that comes from data is text: jinja2 escapes it in the page, and the embedded JSON has no
``<``, ``>`` or ``&`` in it. The Content-Security-Policy admits the one style and the one script of
the page by their hashes, and no request at all.

Small SVG pictures of the numbers in the summary: lines, bands, dots; colours come from the CSS.

Each is drawn twice, for a wide and for a narrow screen, so that its letters keep their size.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined, Template
from markupsafe import Markup, escape

from auucmax._files import whole_file
from auucmax.report.sentences import digits_for
from auucmax.report.summary import VERSION

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
    left: int = 48
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
        """Grid lines, tick labels and titles."""
        y_ticks = ticks(*self.y_range)
        # As many decimals as the step has: 0.5, 1.0, 1.5, not 0.50 and not 0, 1, 2.
        step = y_ticks[1] - y_ticks[0]
        digits = max(0, -math.floor(math.log10(step) + 1e-9))
        if abs(round(step, digits) - step) > 1e-9 * step:
            digits += 1  # a step of 2.5
        parts = []
        for value in y_ticks:
            style = "zero" if value == 0 else "grid"
            at = self.y(value)
            right = self.width - self.right
            parts.append(
                Markup('<line class="{}" x1="{}" x2="{}" y1="{}" y2="{}"/>').format(
                    style, self.left, right, at, at
                )
            )
            parts.append(_text(self.left - 6, at + 4, f"{value:,.{digits}f}", "end"))
        base = self.height - self.bottom
        parts += [_text(self.x(place), base + 18, label, "middle") for place, label in x_labels]
        middle = (self.left + self.width - self.right) / 2
        parts.append(_text(middle, self.height - 8, x_title, "middle", "title"))
        turned = Markup('<text class="title" text-anchor="middle" transform="{}">{}</text>').format(
            f"translate(12 {(self.top + base) / 2}) rotate(-90)", y_title
        )
        return Markup("").join([*parts, turned])


def uplift_figure(summary: Mapping[str, Any], *, width: int = WIDE) -> Markup:
    """The uplift curve with its band, the random line, rivals, and a marker for the slider."""
    curve, scale = summary["curve"], summary["unit"]["scale"]
    share = list(curve["share"])
    lines = [curve["uplift"], *(rival["uplift"] for rival in summary["rivals"])]
    # Where so few are in the top that nothing can be said, there is no band.
    known = [place for place, low in enumerate(curve["lower"]) if low is not None and place > 0]
    lower, upper = ([curve[end][place] for place in known] for end in ("lower", "upper"))
    at = [share[place] for place in known]
    values = [v * scale for line in [*lines, lower, upper] for v in line] + [0.0]
    narrow = width < WIDE
    axes = Axes(width, 300 if narrow else 380, (0.0, 1.0), _around(values))
    places = (0, 0.5, 1) if narrow else (0, 0.2, 0.4, 0.6, 0.8, 1)
    parts = [
        axes.frame(
            [(p, f"{p:.0%}") for p in places],
            "share treated, highest score first",
            f"gain {summary['unit']['per']}",
        ),
        _line(axes, at + at[::-1], lower + upper[::-1], scale, "band", "Z") if known else Markup(),
        _line(axes, share, curve["random"], scale, "random"),
    ]
    for number, rival in enumerate(summary["rivals"]):
        style = f"rival r{min(number, MOST_STYLES - 1)}"
        parts.append(_line(axes, share, rival["uplift"], scale, style))
    # Last, so that no rival is drawn over it.
    parts.append(_line(axes, share, curve["uplift"], scale, "model"))
    head = summary["headline"]
    marker = Markup(
        '<line class="marker" x1="{0}" x2="{0}" y1="{2}" y2="{3}"/>'
        '<circle class="marker-dot" cx="{0}" cy="{1}" r="5"/>'
    )
    gain = curve["uplift"][round(head["share"] * 100)]
    x, y, base = axes.x(head["share"]), axes.y(gain * scale), axes.height - axes.bottom
    parts.append(marker.format(x, y, axes.top, base))
    label = (
        f"Uplift curve: gain {summary['unit']['per']} of {gain * scale:.3g} at a share of "
        f"{head['share']:.0%}, {curve['uplift'][-1] * scale:.3g} when everyone is treated. The "
        f"numbers are in the table below."
    )
    return _svg(axes, "uplift", label, parts, scale)


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


def bar(value: float | None, largest: float) -> Markup:
    """A bar from the middle to the right (positive) or to the left, for a cell of a table."""
    length = 0.0 if value is None or largest <= 0 else max(-1.0, min(1.0, value / largest))
    return Markup(
        '<svg class="bar" viewBox="-1 0 2 1" preserveAspectRatio="none" aria-hidden="true">'
        '<rect class="{}" x="{:.4f}" y="0.15" width="{:.4f}" height="0.7"/>'
        '<line class="zero" x1="0" x2="0" y1="0" y2="1"/></svg>'
    ).format("up" if length >= 0 else "down", min(length, 0.0), abs(length))


def swatch(style: str) -> Markup:
    """The key of a line in the legend."""
    shapes = {
        "actual": '<circle class="actual" cx="14" cy="6" r="4.5"/>',
        "predicted": '<path class="predicted" d="M14 0.5l5.5 5.5l-5.5 5.5l-5.5 -5.5z"/>',
        "band": '<rect class="band" x="1" y="0" width="26" height="12"/>',
    }
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
    """The picture; ``data-`` attributes tell the script where 0 and 1 lie."""
    size = "narrow" if axes.width < WIDE else "wide"
    head = Markup(
        '<svg class="figure {name} {size}" viewBox="0 0 {width} {height}" role="img" '
        'aria-label="{label}" data-x0="{x0}" data-x1="{x1}" data-y0="{y0}" data-y1="{y1}" '
        'data-scale="{scale}">'
    ).format(
        name=name, size=size, label=label, width=axes.width, height=axes.height, scale=scale,
        x0=axes.x(axes.x_range[0]), x1=axes.x(axes.x_range[1]), y0=axes.y(0.0), y1=axes.y(1.0),
    )  # fmt: skip
    return head + Markup("").join(parts) + Markup("</svg>")


def _line(axes: Axes, x: Numbers, y: Numbers, scale: float, style: str, end: str = "") -> Markup:
    """A line through the points; with the end "Z" it comes back to the first."""
    points = [f"{axes.x(a)} {axes.y(b * scale)}" for a, b in zip(x, y, strict=True)]
    return Markup('<path class="{}" d="M{}{}"/>').format(style, "L".join(points), end)


def _text(x: float, y: float, label: str, anchor: str, style: str = "tick") -> Markup:
    return Markup('<text class="{}" x="{}" y="{}" text-anchor="{}">{}</text>').format(
        style, round(x, 2), round(y, 2), anchor, label
    )


VERDICTS = {
    "worse": "ranks worse, beyond chance",
    "better": "ranks better, beyond chance",
    "not told apart": "not told apart",
}


def render(summary: Mapping[str, Any]) -> str:
    """The page of a summary, also of one that was saved as JSON and read again.

    Examples
    --------
    >>> from auucmax import load_hillstrom
    >>> from auucmax.report import summarise
    >>> trial = load_hillstrom()
    >>> page = render(summarise(trial.y, trial.X["womens"], treatment=trial.treatment))
    >>> "What these data cannot support" in page
    True
    """
    if summary.get("kind") != "auucmax report" or summary.get("version") != VERSION:
        raise ValueError(
            f"summary should come from auucmax.report.summarise, version {VERSION}; got "
            f"{summary.get('kind')!r}, version {summary.get('version')!r}. Make it again with this "
            f"version of auucmax."
        )
    css, script = _resource("page.css"), _resource("page.js")
    weights = [abs(term["weight"]) for term in summary["drivers"]["linear"] or []]
    plan, check = summary["plan"], summary["randomisation"]
    # Class and word of the tag before the verdict on the randomisation.
    balance = ("problem", "not checked")
    if check is not None:
        balance = ("ok", "balanced") if check["ok"] else ("caution", "check warns")
        if check["stops"] or not check["tests"]:
            balance = ("problem", "check fails")
    return _template().render(
        s=summary,
        policy=(
            f"default-src 'none'; style-src {_hash(css)}; script-src {_hash(script)}; "
            f"base-uri 'none'; form-action 'none'"
        ),
        css=Markup(css),
        script=Markup(script),
        data=embedded_json(summary),
        uplift_wide=uplift_figure(summary),
        uplift_narrow=uplift_figure(summary, width=NARROW),
        deciles_wide=decile_figure(summary),
        deciles_narrow=decile_figure(summary, width=NARROW),
        swatch=swatch,
        bar=bar,
        balance=balance,
        verdicts=VERDICTS,
        start=round(summary["headline"]["share"] * 100),
        tens=range(10, 101, 10),
        budget=bool(plan["cost"] and plan["cost"][-1] > 0),
        largest_weight=max(weights, default=0.0),
        **_formats(summary),
    )


def write_report(summary: Mapping[str, Any], path: str | Path) -> None:
    """Render into a file; written beside and renamed, so a killed run leaves the old one whole."""
    text = render(summary)
    with whole_file(path) as beside:
        beside.write_text(text, encoding="utf-8")


def embedded_json(summary: Mapping[str, Any]) -> Markup:
    """JSON that is safe inside a script element: ASCII, and nothing that HTML could read.

    >>> print(embedded_json({"name": "</script><b>"}))
    {"name":"\\u003c/script\\u003e\\u003cb\\u003e"}
    """
    text = json.dumps(summary, allow_nan=False, ensure_ascii=True, separators=(",", ":"))
    # A name may hold "</script>", which would end the element wherever it stands.
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return Markup(text)


def _formats(summary: Mapping[str, Any]) -> dict[str, Callable[..., Any]]:
    """How numbers are written; the script writes them in the same way."""
    unit, plan = summary["unit"], summary["plan"]
    digits, currency = plan["digits"], plan["currency"]
    after = f" {currency}" if currency else ""

    def money(value: float | None) -> str:
        return fixed(value, digits["money"]) + after

    def rate(value: float | None, more: int = 0) -> str:
        return fixed(None if value is None else value * unit["scale"], unit["digits"] + more)

    def decimals(*values: float | None) -> int:
        """Decimals that show three digits of the largest of some numbers."""
        return digits_for(max((abs(v) for v in values if v is not None), default=0.0) / 10)

    return {
        "fixed": fixed,
        "whole": lambda value: fixed(value, 0),
        "money": money,
        "unit_price": lambda value: f"{value:,.10g}{after}",
        "count": lambda value: fixed(value, digits["gain"]),
        "rate": rate,
        "finer": lambda value: rate(value, 1),
        "plainly": lambda value: "unknown" if value is None else _minus(f"{value:,.3g}"),
        "decimals": decimals,
        "p_value": lambda value: "< 0.0001" if value < 1e-4 else f"{value:.2g}",
    }


def fixed(value: float | None, digits: int) -> str:
    """A number with its decimals, a true minus sign, and no minus before zero.

    >>> fixed(-1234.5, 1), fixed(-0.001, 2), fixed(None, 2)
    ('−1,234.5', '0.00', 'unknown')
    """
    if value is None:
        return "unknown"
    text = f"{value:,.{digits}f}"
    return text.removeprefix("-") if float(text.replace(",", "")) == 0 else _minus(text)


def _minus(text: str) -> str:
    return text.replace("-", "\u2212")


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"


@cache
def _resource(name: str) -> str:
    return files("auucmax.report").joinpath(name).read_text(encoding="utf-8")


@cache
def _template() -> Template:
    made = Environment(autoescape=True, undefined=StrictUndefined, keep_trailing_newline=True)
    return made.from_string(_resource("page.html.jinja"))
