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
from auucmax.report.arms import ARMS_KIND
from auucmax.report.figures import (
    NARROW,
    arms_figure,
    bar,
    decile_figure,
    policy_figure,
    promise_figure,
    swatch,
    uplift_figure,
)
from auucmax.report.sentences import digits_for
from auucmax.report.summary import KIND, VERSION

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
    kind, version = summary.get("kind"), summary.get("version")
    if kind not in _PAGES or version != VERSION:
        raise ValueError(
            f"summary should come from auucmax.report.summarise, version {VERSION}; got "
            f"{kind!r}, version {version!r}. Make it again with this version of auucmax."
        )
    template, values = _PAGES[kind]
    css, script = _resource("page.css"), _resource("page.js")
    return _template(template).render(
        s=summary,
        policy=(
            f"default-src 'none'; style-src {_hash(css)}; script-src {_hash(script)}; "
            f"base-uri 'none'; form-action 'none'"
        ),
        css=Markup(css),
        script=Markup(script),
        data=embedded_json(summary),
        swatch=swatch,
        start=round(summary["headline"]["share"] * 100),
        tens=range(10, 101, 10),
        **values(summary),
        **_formats(summary),
    )


def _of_ranking(summary: Mapping[str, Any]) -> dict[str, Any]:
    """What the page of one ranking shows beside the summary."""
    weights = [abs(term["weight"]) for term in summary["drivers"]["linear"] or []]
    plan, check = summary["plan"], summary["randomisation"]
    bars = (summary["campaign"] or {}).get("bars")
    return {
        "promise_wide": bars and promise_figure(bars),
        "promise_narrow": bars and promise_figure(bars, width=NARROW),
        "uplift_wide": uplift_figure(summary),
        "uplift_narrow": uplift_figure(summary, width=NARROW),
        "deciles_wide": decile_figure(summary),
        "deciles_narrow": decile_figure(summary, width=NARROW),
        "bar": bar,
        "balance": balance_tag(check),
        "verdicts": VERDICTS,
        "budget": bool(plan["cost"] and plan["cost"][-1] > 0),
        "largest_weight": max(weights, default=0.0),
    }


def _of_arms(summary: Mapping[str, Any]) -> dict[str, Any]:
    """What the page of several arms shows beside the summary."""
    return {
        "policy_wide": policy_figure(summary),
        "policy_narrow": policy_figure(summary, width=NARROW),
        "arms_wide": arms_figure(summary),
        "arms_narrow": arms_figure(summary, width=NARROW),
        "balances": [balance_tag(arm["randomisation"]) for arm in summary["arms"]],
    }


_PAGES = {KIND: ("page.html.jinja", _of_ranking), ARMS_KIND: ("arms.html.jinja", _of_arms)}


def balance_tag(check: Mapping[str, Any] | None) -> tuple[str, str]:
    """Class and word of the tag before the verdict on the randomisation."""
    if check is None:
        return "problem", "not checked"
    if check["stops"] or not check["tests"]:
        return "problem", "check fails"
    return ("ok", "balanced") if check["ok"] else ("caution", "check warns")


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
def _template(name: str) -> Template:
    made = Environment(autoescape=True, undefined=StrictUndefined, keep_trailing_newline=True)
    return made.from_string(_resource(name))
