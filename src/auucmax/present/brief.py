""":func:`brief` turns any result into a :class:`auucmax.results.Brief`.

Each kind of result has one function, registered with ``@brief.register`` in the module of its
subject (``present/evidence.py``, ``present/campaign.py`` and so on). These are imported when a
result is first shown. Console, notebook, Markdown, page and ``--json`` start from the Brief.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import singledispatch
from html import escape
from importlib import import_module
from typing import Any

from auucmax._errors import visible
from auucmax.results import Brief, Result, plain

#: The modules with the words for results.
_SUBJECTS = ("campaign", "evidence", "measures", "randomisation")
_MODEL = "MODEL"  #: in a next step: the file of the model


Facts = Iterable[tuple[str, str]]


def in_words(
    verdict: str,
    facts: Facts = (),
    caveats: Iterable[str] = (),
    next_step: str | None = None,
    details: Facts = (),
) -> Brief:
    """Make a Brief, dropping empty facts and repeated caveats."""
    return Brief(
        verdict=verdict,
        facts=tuple((name, value) for name, value in facts if value),
        caveats=tuple(dict.fromkeys(filter(None, caveats))),
        next_step=next_step,
        details=tuple((name, value) for name, value in details if value),
    )


@singledispatch
def brief(result: Any) -> Brief:
    """Describe a result: verdict, facts with units, caveats and a next step."""
    for subject in _SUBJECTS:
        import_module(f"auucmax.present.{subject}")
    found = brief.dispatch(type(result))
    if found is brief.dispatch(object):
        if isinstance(result, Result):  # a part of a larger one
            return Brief(verdict=repr(result))
        raise TypeError(f"a result of a known kind is needed, got {type(result).__name__}")
    return found(result)


@brief.register
def _(result: Brief) -> Brief:
    return result


def text(result: Any, *, details: bool = False, file: str | None = None) -> str:
    """Format a result as text; ``file`` is the model's file, for the next step.

    >>> print(text(Brief(verdict="It works.", facts=(("Trial", "10 people"), ("Model", "auto")))))
    It works.
      Trial  10 people
      Model  auto
    """
    found = _with_file(result, file)
    rows = [*found.facts, *(found.details if details else ())]
    rows += [("Next", found.next_step)] if found.next_step else []
    width = max((len(name) for name, _ in rows), default=0)
    lines = [found.verdict, *(f"  {name.ljust(width)}  {value}" for name, value in rows)]
    lines += [f"Note: {caveat}" for caveat in found.caveats]
    return "\n".join(visible(line) for line in lines)


def html(result: Any) -> str:
    """Format a result as HTML for a notebook; all data are escaped."""
    found = brief(result)
    rows = "".join(
        f"<tr><th style='text-align:left'>{escape(visible(name))}</th>"
        f"<td style='text-align:left'>{escape(visible(value))}</td></tr>"
        for name, value in found.facts
    )
    notes = "".join(f"<p>{escape(visible(caveat))}</p>" for caveat in found.caveats)
    return f"<p><strong>{escape(visible(found.verdict))}</strong></p><table>{rows}</table>{notes}"


def as_json(result: Any, *, file: str | None = None) -> dict[str, Any]:
    """Convert a result to plain JSON, with its Brief."""
    words = {"brief": _with_file(result, file).to_json()}
    if hasattr(result, "evidence"):  # of a model, whose to_json is an export
        return {"result": result.evidence.to_json(), "fit": result.info.to_json(), **words}
    numbers = getattr(result, "to_json", None) or result.to_dict
    return {"result": plain(numbers()), **words}


def _with_file(result: Any, file: str | None) -> Brief:
    """Brief of a result with the model's file in the next step."""
    found = brief(result)
    if found.next_step is None or file is None:
        return found
    return replace(found, next_step=found.next_step.replace(_MODEL, file))
