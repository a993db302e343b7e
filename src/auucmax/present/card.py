"""Model cards in Markdown.

The head is the YAML by which model hubs, and cards of skops, name a library. Whatever is put into
the template is escaped: a name from data makes no heading, link, table or HTML.
"""

from __future__ import annotations

import re
from functools import partial
from importlib.resources import files

from jinja2 import Environment, StrictUndefined

from auucmax._errors import short, visible
from auucmax.model.uplift_model import UpliftModel
from auucmax.present import randomisation, words
from auucmax.present.brief import brief
from auucmax.present.page import limits_of

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
    found, roles = model.evidence, model.roles
    markdown = Environment(
        # Everything between braces is escaped.
        finalize=lambda value: escaped(value) if isinstance(value, str) else value,
        autoescape=False,
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
    )
    template = files("auucmax.present").joinpath("card.md.jinja").read_text(encoding="utf-8")
    return markdown.from_string(template).render(
        model=model,
        e=found,
        roles=roles,
        brief=brief(found),
        title=words.title(roles),
        arm_name=partial(words.arm_name, roles),
        short=short,
        tags=[randomisation.tag(arm.check)[1] for arm in found.arms],
        verdicts=[arm.check and randomisation.verdict(arm.check) for arm in found.arms],
        limits=limits_of(found),
    )


def escaped(text: str) -> str:
    r"""Escape a text so that Markdown shows it unchanged, on one line.

    >>> print(escaped("# a_b [x](http://y) <b>"), escaped("1. one"), escaped("-0.5"))
    \# a\_b \[x\](http\://y) \<b\> 1\. one -0.5
    """
    text = _SPECIAL.sub(r"\\\1", visible(text).replace("\t", " ").strip())
    text = _FIRST.sub(lambda m: f"\\{m[1]}" if m[1] else f"{m[2]}\\{m[3]}", text)
    return _LINK.sub(r"\1\\\2", text)
