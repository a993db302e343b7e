"""Results in words: :func:`brief` makes a :class:`auucmax.results.Brief` of any result.

Each kind of result has one function, registered with ``@brief.register`` in the module of its
subject (``present/evidence.py``, ``present/chosen.py`` and so on), which is imported when a result
of that kind is first shown. Console, notebook, Markdown, page and ``--json`` start from the Brief.
"""

from __future__ import annotations

from functools import singledispatch
from html import escape
from importlib import import_module
from typing import Any

from auucmax._messages import visible
from auucmax.results import Brief

#: The modules with the words for results, by the module that defines the result.
_SUBJECTS = (
    "evidence", "chosen", "check", "plan", "assignment", "monitor", "verification", "comparison",
)  # fmt: skip


@singledispatch
def brief(result: Any) -> Brief:
    """The words for a result: the verdict first, then facts with units, caveats, a next step."""
    for subject in _SUBJECTS:
        try:
            import_module(f"auucmax.present.{subject}")
        except ModuleNotFoundError as error:
            if error.name != f"auucmax.present.{subject}":
                raise
    found = brief.dispatch(type(result))
    if found is brief.dispatch(object):
        raise TypeError(f"a result of a known kind is needed, got {type(result).__name__}")
    return found(result)


def text(result: Any, *, details: bool = False) -> str:
    """A result as lines of text.

    >>> print(text(Brief(verdict="It works.", facts=(("Trial", "10 people"), ("Model", "auto")))))
    It works.
      Trial  10 people
      Model  auto
    """
    found = result if isinstance(result, Brief) else brief(result)
    rows = [*found.facts, *(found.details if details else ())]
    rows += [("Next", found.next_step)] if found.next_step else []
    width = max((len(name) for name, _ in rows), default=0)
    lines = [found.verdict, *(f"  {name.ljust(width)}  {value}" for name, value in rows)]
    lines += [f"Note: {caveat}" for caveat in found.caveats]
    return "\n".join(visible(line) for line in lines)


def html(result: Any) -> str:
    """A result for a notebook; everything from data is escaped."""
    found = result if isinstance(result, Brief) else brief(result)
    rows = "".join(
        f"<tr><th style='text-align:left'>{escape(visible(name))}</th>"
        f"<td style='text-align:left'>{escape(visible(value))}</td></tr>"
        for name, value in found.facts
    )
    notes = "".join(f"<p>{escape(visible(caveat))}</p>" for caveat in found.caveats)
    return f"<p><strong>{escape(visible(found.verdict))}</strong></p><table>{rows}</table>{notes}"
