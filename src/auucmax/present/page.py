"""HTML pages and model cards: the report of a model, its card, and the page of a check.

Everything from data is text without control characters: jinja2 escapes it, and the embedded JSON
has no ``<``, ``>`` or ``&`` in it. The Content-Security-Policy admits the one style and the one
script of the page by their hashes.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
from dataclasses import replace
from functools import cache, partial
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np
from jinja2 import Environment, FunctionLoader, StrictUndefined
from jinja2.utils import htmlsafe_json_dumps
from markupsafe import Markup

from auucmax._errors import short, visible
from auucmax._files import whole_file
from auucmax._validation import check_whole
from auucmax.data.covariates import binned
from auucmax.model.profiles import describe_arms
from auucmax.model.uplift_model import UpliftModel
from auucmax.present import figures, randomisation, words
from auucmax.present.brief import brief
from auucmax.present.evidence import evidence_brief, targeting_state
from auucmax.present.figures import STATES, slider
from auucmax.results import (
    N_PEOPLE,
    TOP,
    Basis,
    Decision,
    Estimate,
    Evidence,
    Roles,
    Terms,
)
from auucmax.targeting.choose import arm_costs
from auucmax.targeting.rule import share_as_budget

if TYPE_CHECKING:
    from auucmax.model.check import TrialCheck

MOST_PEOPLE = 10**15
MOST_DIFFERENCES = 24
#: Limits of all evidence; the first only where models were trained on parts of the data.
LIMITS = (
    "The evidence is for models trained on parts of the data; the saved model was trained on all "
    "of it.",
    "It applies to people like those in the trial, to the same treatment and to that time.",
    "The score ranks people. It does not explain their effects, and the uplift of a single person "
    "cannot be verified.",
)
_LAST_DAY = 2_900_000  # some days before the year 10,000


def write_report(
    model: UpliftModel,
    path: str | os.PathLike[str],
    *,
    share: float | None = None,
    budget: float | None = None,
    cost: Any = None,
    value: float | None = None,
    n_people: int | None = None,
    evidence: Evidence | None = None,
    currency: str = "",
    campaign: Any = None,
) -> Decision | None:
    """Write the report of a model: decision, evidence and a slider for other decisions.

    Parameters
    ----------
    model : UpliftModel
    path : str or path
        The HTML file, written whole or not at all. It needs no network and holds nobody's row.
    share, budget, cost, value : as in :func:`auucmax.model.chosen.target`
        The decision that the page opens with. By default the top 30%, or the highest expected
        profit if cost and value are given. With several arms and costs, a share stands for the
        budget that treats as many.
    n_people : int, default 10,000
        How many people there are to choose from.
    evidence : Evidence, optional
        Other evidence than that of the fit, from ``model.evaluate`` or ``model.compare``.
    currency : str, default ""
        A name for amounts of money.
    campaign : Verification or Brief, optional
        What came of a campaign with this model.

    Returns
    -------
    Decision or None
        The decision that the page opens with; None if the trial failed its check.
    """
    found = evidence or model.evidence
    n = check_whole(N_PEOPLE if n_people is None else n_people, "n_people", 1, MOST_PEOPLE)
    # Costs of the fit by default, and the top 30%.
    costs = model.costs if cost is None else arm_costs(cost, model.arms)
    terms = Terms(share=share, budget=budget, cost=costs, value=value)
    if share is None and budget is None and not terms.has_profit:
        terms = replace(terms, share=TOP)
    terms = share_as_budget(found.policy.curve, terms, n)
    moved = None if found.failed_check else slider(found, terms, n, visible(currency))
    treated = moved.first.treated if moved else TOP
    panels = found.arms[0].people if len(found.arms) == 1 else ()
    _write(
        path,
        "report.html.jinja",
        found.roles,
        model=model,
        slider=moved,
        currency=f" {currency}" if currency else "",
        campaign=None if campaign is None else brief(campaign),
        **_about(found),
        ranking=STATES[targeting_state(found)],
        panels=panels,
        panel=min(range(len(panels)), key=lambda k: abs(panels[k].share - treated), default=0),
        data=moved and embedded_json([own.json(*moved.range()) for own in moved.points]),
    )
    return moved.first.decision if moved else None


def _about(found: Evidence) -> dict[str, Any]:
    """What pages and cards show of evidence: its brief, checks and limits."""
    return {
        "e": found,
        "brief": evidence_brief(found),
        "checks": [randomisation.tag(arm.check) for arm in found.arms],
        "limits": LIMITS if found.basis == Basis.CROSS_FITTED else LIMITS[1:],
    }


def write_check(check: TrialCheck, path: str | os.PathLike[str], *, file: str = "") -> None:
    """Write the page of a check: randomisation, balance and columns."""
    trial = check.trial
    reports = [arm.report.for_others() for arm in check.arms]
    _write(
        path,
        "check.html.jinja",
        trial.roles,
        brief=brief(check),
        check=check,
        file=file,
        reports=reports,
        checks=[randomisation.tag(report.to_dict()) for report in reports],
        differences=[
            report.differences.dropna(subset="difference").head(MOST_DIFFERENCES)
            for report in reports
        ],
        people=describe_arms(binned(trial.X), trial.arm, trial.roles.arms[1:], 1.0),
        slider=None,
    )


def _write(path: str | os.PathLike[str], template: str, roles: Roles, **values: Any) -> None:
    """Render a template with the style sheet, and the script if it has a slider."""
    css, script = _resource("page.css"), _resource("page.js")
    may_run = _hash(script) if values["slider"] else "'none'"
    policy = (
        f"default-src 'none'; style-src {_hash(css)}; script-src {may_run}; base-uri 'none'; "
        f"form-action 'none'"
    )
    own = {"policy": policy, "css": Markup(css), "script": Markup(script)}
    page = _render(templates(), template, roles, **own, **values)
    with whole_file(path) as beside:
        beside.write_text(page, encoding="utf-8")


def _render(source: Environment, template: str, roles: Roles, **values: Any) -> str:
    return source.get_template(template).render(
        roles=roles,
        arm_name=partial(words.arm_name, roles),
        words=words,
        figures=figures,
        check_verdict=randomisation.verdict,
        Estimate=Estimate,
        day=_day,
        short=short,
        **values,
    )


def _day(days: float) -> str:
    """Format days since 1970 as a date.

    >>> _day(1e30)
    'unknown'
    """
    if not abs(days) < _LAST_DAY:
        return "unknown"
    return str(np.datetime64(0, "D") + np.timedelta64(round(days), "D"))


def shown(value: Any) -> Any:
    """Remove control characters, and typeset minus signs before numbers."""
    if not isinstance(value, str) or isinstance(value, Markup):
        return value
    return re.sub(r"(?<![\w.)\]-])-(?=\d)", "\u2212", visible(value))


def embedded_json(value: Any) -> Markup:
    """JSON that is safe inside a script element: ASCII without HTML characters.

    >>> print(embedded_json({"name": "</script><b>"}))
    {"name":"\\u003c/script\\u003e\\u003cb\\u003e"}
    """
    return htmlsafe_json_dumps(_shown_in(value), allow_nan=False, separators=(",", ":"))


def _shown_in(value: Any) -> Any:
    if isinstance(value, dict):
        return {shown(str(name)): _shown_in(own) for name, own in value.items()}
    return [_shown_in(own) for own in value] if isinstance(value, list | tuple) else shown(value)


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"


@cache
def _resource(name: str) -> str:
    return files("auucmax.present").joinpath(name).read_text(encoding="utf-8")


@cache
def templates() -> Environment:
    """Templates of pages, which escape and typeset all values."""
    return Environment(
        loader=FunctionLoader(_resource),
        autoescape=True,
        finalize=shown,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


_SPECIAL = re.compile(r"([\\`*_\[\]<>|~&$#!])")
# What begins a list or underlines a heading, and where a reader makes links of plain text.
_FIRST = re.compile(r"^([-+=])(?=\s|\1|$)|^(\d+)([.)])(?=\s|$)")
_LINK = re.compile(r"(?i)\b(https?|ftp|mailto|www)([:.])")


def model_card(model: UpliftModel) -> str:
    """Make the model card: description, training data, intended use and evidence.

    A failed check of the trial comes first. No row is in it.

    Examples
    --------
    >>> from auucmax import fit, make_trial
    >>> print(model_card(fit(make_trial(4_000, random_state=0), "tm")).splitlines()[10])
    # Who should be treated? Effect on y
    """
    markdown = templates().overlay(
        # Everything between braces is escaped.
        finalize=lambda value: escaped(value) if isinstance(value, str) else value,
        autoescape=False,
        keep_trailing_newline=True,
    )
    return _render(markdown, "card.md.jinja", model.roles, model=model, **_about(model.evidence))


def escaped(text: str) -> str:
    r"""Escape a text so that Markdown shows it unchanged, on one line.

    >>> print(escaped("# a_b [x](http://y) <b>"), escaped("1. one"), escaped("-0.5"))
    \# a\_b \[x\](http\://y) \<b\> 1\. one -0.5
    """
    text = _SPECIAL.sub(r"\\\1", visible(text).replace("\t", " ").strip())
    text = _FIRST.sub(lambda m: f"\\{m[1]}" if m[1] else f"{m[2]}\\{m[3]}", text)
    return _LINK.sub(r"\1\\\2", text)
