"""How results look at a prompt and in a notebook: their text, the verdict first."""

from __future__ import annotations

from functools import wraps
from html import escape
from importlib import import_module
from typing import Any

from auucmax._messages import visible, visible_lines

_FOLDED = 'style="white-space: pre-wrap"'  # sentences are lines, and longer than a screen
_LONG = 120  # characters of a first line, from which on its verdict is what stands before a colon


class Shown:
    """A result whose text is what a prompt and a notebook show.

    Classes define ``__str__``; dataclasses need ``repr=False``, or they would write all fields.

    >>> class Found(Shown):
    ...     def __str__(self):
    ...         return "It works.\\n10 rows of <b>"
    >>> Found()
    It works.
    10 rows of <b>
    >>> Found()._repr_html_()
    '<p><strong>It works.</strong></p><pre style="white-space: pre-wrap">10 rows of &lt;b&gt;</pre>'
    """

    __slots__ = ()

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        # A label must not steer a terminal, whether it is printed or shown by a prompt.
        if own := vars(cls).get("__str__"):
            cls.__str__ = wraps(own)(lambda self: visible_lines(own(self)))  # type: ignore[method-assign]

    def __str__(self) -> str:
        return str(import_module("auucmax.present.brief").text(self))

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return text_as_html(str(self))


def text_as_html(text: str) -> str:
    """The first line in bold and the rest as it is; names from data are escaped.

    A first line that is long, as of a certificate, is bold up to its first colon.
    """
    first, _, rest = text.partition("\n")
    verdict, colon, reasons = first.partition(": ") if len(first) > _LONG else (first, "", "")
    html = f"<p><strong>{_safe(verdict + colon)}</strong>{_safe(reasons)}</p>"
    return html + (f"<pre {_FOLDED}>{escape(visible_lines(rest))}</pre>" if rest else "")


def _safe(line: str) -> str:
    return escape(visible(line))
