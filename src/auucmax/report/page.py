"""``render``: one self-contained HTML file from the dictionary of ``summarise``.

Everything that comes from data is text: jinja2 escapes it in the page, and the embedded JSON has no
``<``, ``>`` or ``&`` in it. The Content-Security-Policy admits the one style and the one script of
the page by their hashes, and no request at all.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined, Template
from markupsafe import Markup

from auucmax._files import whole_file
from auucmax.report.figures import NARROW, bar, decile_figure, swatch, uplift_figure
from auucmax.report.sentences import digits_for
from auucmax.report.summary import VERSION

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
    plan = summary["plan"]
    return _template().render(
        s=summary,
        policy=_policy(css, script),
        css=Markup(css),
        script=Markup(script),
        data=embedded_json(summary),
        uplift_wide=uplift_figure(summary),
        uplift_narrow=uplift_figure(summary, width=NARROW),
        deciles_wide=decile_figure(summary),
        deciles_narrow=decile_figure(summary, width=NARROW),
        swatch=swatch,
        bar=bar,
        balance=_balance(summary),
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
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return Markup(text)


def _balance(summary: Mapping[str, Any]) -> tuple[str, str]:
    """Class and word of the tag before the verdict on the randomisation."""
    check = summary["randomisation"]
    if check is None:
        return "problem", "not checked"
    return ("ok", "balanced") if check["ok"] else ("problem", "check fails")


def _formats(summary: Mapping[str, Any]) -> dict[str, Callable[..., Any]]:
    """How numbers are written; the script writes them in the same way."""
    unit, plan = summary["unit"], summary["plan"]
    digits, currency = plan["digits"], plan["currency"]
    after = f" {currency}" if currency else ""

    def money(value: float | None) -> str:
        return fixed(value, digits["money"]) + after

    def rate(value: float | None, more: int = 0) -> str:
        return fixed(None if value is None else value * unit["scale"], unit["digits"] + more)

    return {
        "fixed": fixed,
        "whole": lambda value: fixed(value, 0),
        "money": money,
        "unit_price": lambda value: f"{value:,.10g}{after}",
        "count": lambda value: fixed(value, digits["gain"]),
        "rate": rate,
        "finer": lambda value: rate(value, 1),
        "plainly": lambda value: "unknown" if value is None else _minus(f"{value:,.3g}"),
        "decimals": _decimals,
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


def _decimals(*values: float | None) -> int:
    """Decimals that show three digits of the largest of some numbers."""
    largest = max((abs(value) for value in values if value is not None), default=0.0)
    return digits_for(largest / 10)


def _minus(text: str) -> str:
    return text.replace("-", "\u2212")


def _policy(css: str, script: str) -> str:
    return (
        f"default-src 'none'; style-src {_hash(css)}; script-src {_hash(script)}; "
        f"base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"


@cache
def _resource(name: str) -> str:
    return files("auucmax.report").joinpath(name).read_text(encoding="utf-8")


@cache
def _template() -> Template:
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, keep_trailing_newline=True
    )
    return environment.from_string(_resource("page.html.jinja"))
