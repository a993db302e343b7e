"""``model_card``: what a model is, and what is known of it, as Markdown to keep beside its file.

The head is the YAML by which model hubs, and cards of skops, name a library. All of the rest comes
from the summary of the page. Whatever is put into the template is escaped: a name from data stays a
name, and makes no heading, link, table or HTML.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from jinja2 import Environment, StrictUndefined

from auucmax._messages import visible
from auucmax._version import __version__
from auucmax.model import ArmsModel, TrialModel
from auucmax.present.arms import summarise_arms
from auucmax.present.page import certificate_of, title_of
from auucmax.present.sentences import rate, short_list
from auucmax.present.summary import summarise_model

_SPECIAL = re.compile(r"([\\`*_\[\]<>|~&$#!])")
# What begins a list or underlines a heading, and where a reader makes links of plain text.
_FIRST = re.compile(r"^([-+=])(?=\s|\1|$)|^(\d+)([.)])(?=\s|$)")
_LINK = re.compile(r"(?i)\b(https?|ftp|mailto|www)([:.])")


def model_card(model: TrialModel | ArmsModel, summary: Mapping[str, Any] | None = None) -> str:
    """The card of a model, Markdown: what it is, on what trial, for what, and how sure that is.

    A failed check of the trial comes first. No row is in it.

    Parameters
    ----------
    model : fitted by ``fit_trial_model`` or ``fit_arms_model``.
    summary : from :func:`summarise_model` or :func:`summarise_arms`. None: of the model's own
        evidence.

    Examples
    --------
    >>> from auucmax import make_trial
    >>> from auucmax.model import fit_trial_model
    >>> trial = make_trial(4_000, random_state=0)
    >>> table = trial.X.assign(visit=trial.y, mail=trial.treatment)
    >>> model = fit_trial_model(table, treatment="mail", outcome="visit", model="tm")
    >>> print(model_card(model).splitlines()[10])
    # Who should get mail? Effect on visit
    """
    is_one = isinstance(model, TrialModel)
    if summary is None:
        summary = summarise_model(model) if isinstance(model, TrialModel) else summarise_arms(model)
    template = _markdown().from_string(
        files("auucmax.present").joinpath("card.md.jinja").read_text(encoding="utf-8")
    )
    return template.render(
        s=summary,
        names=summary["names"],
        arms=not is_one,
        arm_names="" if is_one else short_list([arm["label"] for arm in summary["arms"]]),
        title=title_of(summary),
        version=__version__,
        outcome=summary["rows"]["outcome"],
        lower_is_better=model.columns.lower_is_better,
        inputs=model.inputs,
        certificate=certificate_of(summary),
        rate=lambda value: "unknown" if value is None else rate(summary, value),
        whole=lambda value: f"{value:,}",
    )


def _markdown() -> Environment:
    # Everything between braces is escaped, whoever wrote it.
    return Environment(
        finalize=lambda value: escaped(value) if isinstance(value, str) else value,
        autoescape=False,
        undefined=StrictUndefined,
        keep_trailing_newline=True,
    )


def escaped(text: str) -> str:
    r"""A text that Markdown shows as it is, on one line.

    >>> print(escaped("# a_b [x](http://y) <b>"), escaped("1. one"), escaped("-0.5"))
    \# a\_b \[x\](http\://y) \<b\> 1\. one -0.5
    """
    text = _SPECIAL.sub(r"\\\1", visible(text).replace("\t", " ").strip())
    text = _FIRST.sub(lambda m: f"\\{m[1]}" if m[1] else f"{m[2]}\\{m[3]}", text)
    return _LINK.sub(r"\1\\\2", text)
