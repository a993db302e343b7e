"""``render``: one self-contained HTML file from the dictionary of ``summarise``.

Everything that comes from data is text without control characters: jinja2 escapes it in the page,
and the embedded JSON has no ``<``, ``>`` or ``&`` in it. The Content-Security-Policy admits the one
style and the one script of the page by their hashes, and no request at all.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Callable, Mapping
from functools import cache
from importlib.resources import files
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from auucmax._files import whole_file
from auucmax._messages import visible
from auucmax.model.evidence import provided
from auucmax.present.arms import ARMS_KIND, harm_of_arms
from auucmax.present.check import CHECK_KIND
from auucmax.present.figures import (
    NARROW,
    arms_figure,
    bar,
    decile_figure,
    love_figure,
    pair,
    policy_figure,
    promise_figure,
    swatch,
    uplift_figure,
)
from auucmax.present.sentences import (
    against_single,
    certificate_sentence,
    decision_of,
    digits_for,
    overall_sentence,
    terms_of,
)
from auucmax.present.summary import KIND, VERSION
from auucmax.targeting.decision import tables

_LAST_DAY = 2_900_000  # some days before the year 10,000
#: How verdicts are coloured.
STATES = {
    "certified": "ok", "shown": "note", "not shown": "caution", "harm": "problem",
    "loss": "problem",
}  # fmt: skip
#: What words of the page mean, told where they stand and at its end.
WORDS = {
    "share": "The part of all people who are treated, those with the highest scores first.",
    "score": (
        "Who should be treated first: the higher it is, the more the treatment is expected to help."
    ),
    "gain": "How much more of the outcome there is than if nobody were treated.",
    "per 100 people": "Of all people, treated or not.",
    "at random": "As many people, picked by lot.",
    "interval": (
        "Trials like this one find the true value inside it about 19 times in 20. It holds for all "
        "shares together, so also for one that is chosen by looking."
    ),
    "shown": (
        "The whole interval lies above zero; of harm, below it. Intervals are approximations for "
        "many people."
    ),
    "certified": (
        "Proven, without any approximation, up to a small chance of error. It holds for one share, "
        "while the interval holds for all shares together: either may be the tighter one."
    ),
}
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
    >>> from auucmax.present import summarise
    >>> trial = load_hillstrom()
    >>> page = render(summarise(trial.y, trial.X["womens"], treatment=trial.treatment))
    >>> "What these data cannot support" in page
    True
    """
    kind, version = summary.get("kind"), summary.get("version")
    if kind not in _PAGES or version != VERSION:
        raise ValueError(
            f"summary should come from auucmax.present.summarise, version {VERSION}; got "
            f"{kind!r}, version {version!r}. Make it again with this version of auucmax."
        )
    template, values = _PAGES[kind]
    summary = _visible(summary)
    # Of a check, and of rows that are no trial, there is nothing to choose: no slider.
    chooses = summary["failed_check"] is None and kind != CHECK_KIND
    words = WORDS if kind != CHECK_KIND else {}
    return page_of(template, summary, with_script=chooses, glossary=words, **values(summary))


def _visible(value: Any) -> Any:
    """Plain JSON whose texts cannot turn the direction of what is read, or hide in it."""
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, Mapping):
        return {visible(name): _visible(one) for name, one in value.items()}
    return [_visible(one) for one in value] if isinstance(value, list | tuple) else value


def page_of(template: str, summary: Mapping[str, Any], *, with_script: bool, **values: Any) -> str:
    """A template with the style of all pages, and the script if it has a slider."""
    css, script = _resource("page.css"), _resource("page.js")
    may_run = _hash(script) if with_script else "'none'"
    return (
        _templates()
        .get_template(template)
        .render(
            s=summary,
            names=summary["names"],
            policy=(
                f"default-src 'none'; style-src {_hash(css)}; script-src {may_run}; "
                f"base-uri 'none'; form-action 'none'"
            ),
            css=Markup(css),
            script=Markup(script) if with_script else "",
            data=embedded_json(summary),
            swatch=swatch,
            fixed=fixed,
            whole=lambda value: fixed(value, 0),
            term=_terms(),
            unbroken=_unbroken,
            **values,
        )
    )


def _terms() -> Callable[[str], Markup]:
    """A function that writes a word whose meaning appears under the pointer, or with the focus."""
    numbers = count(1)

    def term(word: str) -> Markup:
        return Markup(
            '<span class="term-of"><button type="button" class="term" aria-describedby="term-{n}">'
            '{word}</button><span role="tooltip" class="meaning" id="term-{n}">{meaning}</span>'
            "</span>"
        ).format(n=next(numbers), word=word, meaning=WORDS[word])

    return term


def _of_ranking(summary: Mapping[str, Any]) -> dict[str, Any]:
    """What the page of one ranking shows beside the summary."""
    weights = [abs(term["weight"]) for term in summary["drivers"]["linear"] or []]
    check = summary["randomisation"]
    bars = (summary["campaign"] or {}).get("bars")
    return (
        _formats(summary)
        | _decided(summary)
        | {
            "title": title_of(summary),
            "certificate": certificate_of(summary),
            "proviso": provided("", check).removesuffix(": "),
            "promise_wide": bars and promise_figure(bars),
            "promise_narrow": bars and promise_figure(bars, width=NARROW),
            "uplift_wide": uplift_figure(summary),
            "uplift_narrow": uplift_figure(summary, width=NARROW),
            "deciles_wide": decile_figure(summary),
            "deciles_narrow": decile_figure(summary, width=NARROW),
            "bar": bar,
            "pair": pair,
            "percent": _percent,
            "day": _day,
            "per_treated": summary["unit"]["per"].replace("people", "treated"),
            "balance": balance_tag(check),
            "verdicts": VERDICTS,
            "largest_weight": max(weights, default=0.0),
        }
    )


def _decided(summary: Mapping[str, Any], is_better: bool = True) -> dict[str, Any]:
    """What is said of the decision, and what the script says it by at other places.

    ``is_better``: whether it is shown that people, or their arms, are chosen better than by lot.
    """
    if summary["failed_check"] is not None:
        return {"decision": None, "states": STATES}
    found = decision_of(summary)
    rule = tables(terms_of(summary)) | {"styles": STATES, "is_better": is_better}
    return {
        "decision": found,
        "is_advice": found.is_good and is_better,
        "states": STATES,
        "rule": embedded_json(rule),
    }


def title_of(summary: Mapping[str, Any]) -> str:
    """The question of a page: that of its names, or what treatment and outcome make of it."""
    names = summary["names"]
    what = "what" if summary["kind"] == ARMS_KIND else _given(names)
    return str(names["trial"] or f"Who should get {what}? Effect on {names['outcome']}")


def certificate_of(summary: Mapping[str, Any]) -> str:
    """What is certified of a ranking, or of the arms that are chosen, in one line."""
    if summary["kind"] != ARMS_KIND or summary["certificate"] is None:
        return certificate_sentence(summary)
    return f"{summary['certificate']['text'].partition(', each statement by itself')[0]}."


def _given(names: Mapping[str, str]) -> str:
    """What people get: the name of the treated arm, or of its column where that says yes or 1."""
    treatment = names["treatment"]
    return treatment if names["treated"].startswith(f"{treatment} = ") else names["treated"]


def _day(days: float) -> str:
    """The date of a number of days since 1970; a file may hold one that no calendar has.

    >>> _day(18262.4), _day(1e30)
    ('2020-01-01', 'unknown')
    """
    if not abs(days) < _LAST_DAY:
        return "unknown"
    return str(np.datetime64(0, "D") + np.timedelta64(round(days), "D"))


def _of_arms(summary: Mapping[str, Any]) -> dict[str, Any]:
    """What the page of several arms shows beside the summary."""
    balances = [balance_tag(arm["randomisation"]) for arm in summary["arms"]]
    trials = [(style, f"trial: {word}") for style, word in balances]
    random = next(one for one in summary["differences"] if one["kind"] == "random")
    state = "shown" if random["lower"] is not None and random["lower"] > 0 else "not shown"
    how = f" by the {summary['level']:.0%} interval" if state == "shown" else ""
    sure = summary["certificate"]
    if sure is not None and sure.get("random_lower_bound", 0) > 0:
        state, how = "certified", ""
    return (
        _formats(summary)
        | _decided(summary, state != "not shown")
        | {
            "title": title_of(summary),
            "harm": harm_of_arms(summary),
            "nobody": not any(summary["plan"]["treated"]),
            "overall": overall_sentence(summary, "\u2212") if summary["segments"] else "",
            "against": lambda own: against_single(summary, own, "\u2212"),
            "per_treated": summary["unit"]["per"].replace("people", "treated"),
            "policy_wide": policy_figure(summary),
            "policy_narrow": policy_figure(summary, width=NARROW),
            "arms_wide": arms_figure(summary),
            "arms_narrow": arms_figure(summary, width=NARROW),
            "balances": balances,
            "pair": pair,
            "percent": _percent,
            "chips": [
                (STATES[state], f"better than random choice: {state}{how}"),
                *dict.fromkeys(trials),
            ],
            "certificate": certificate_of(summary),
        }
    )


def _of_check(summary: Mapping[str, Any]) -> dict[str, Any]:
    """What the page of a check shows beside the summary."""
    check = summary["randomisation"]
    drawn = [one for one in check["differences"] if one["difference"] is not None]
    return {
        "title": f"Can this trial be trusted? Effect on {summary['names']['outcome']}",
        "balance": balance_tag(check),
        "love_wide": drawn and love_figure(drawn),
        "love_narrow": drawn and love_figure(drawn, width=NARROW),
        "n_drawn": len(drawn),
        "pair": pair,
        "percent": _percent,
        "p_value": _p_value,
        "number": lambda value: "unknown" if value is None else _minus(f"{value:,.4g}"),
    }


def _unbroken(text: str) -> str:
    """A text whose dates stay on one line: with hyphens that are no place for a line to end."""
    return re.sub(r"(\d{4})-(\d\d)-(\d\d)", "\\1\u2011\\2\u2011\\3", text)


def _percent(value: float | None) -> str:
    """A part of some people, whole per cents; of few nothing is told."""
    return "few" if value is None else f"{value:.0%}"


def _p_value(value: float) -> str:
    return "< 0.0001" if value < 1e-4 else f"{value:.2g}"


_PAGES = {
    KIND: ("page.html.jinja", _of_ranking),
    ARMS_KIND: ("arms.html.jinja", _of_arms),
    CHECK_KIND: ("check.html.jinja", _of_check),
}


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


def _formats(summary: Mapping[str, Any]) -> dict[str, Any]:
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
        "start": round(summary["headline"]["share"] * 100),
        "tens": range(10, 101, 10),
        "money": money,
        "unit_price": lambda value: f"{value:,.10g}{after}",
        "count": lambda value: fixed(value, digits["gain"]),
        "rate": rate,
        "signed": lambda value: ("+" if value and value > 0 else "") + rate(value),
        "plain_number": lambda value: "" if value is None else f"{value:.15g}",
        "finer": lambda value: rate(value, 1),
        "plainly": lambda value: "unknown" if value is None else _minus(f"{value:,.3g}"),
        "decimals": decimals,
        "p_value": _p_value,
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
    return files("auucmax.present").joinpath(name).read_text(encoding="utf-8")


@cache
def _templates() -> Environment:
    return Environment(
        autoescape=True,
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        loader=FunctionLoader(_resource),
    )
