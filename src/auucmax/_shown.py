"""How results look at a prompt and in a notebook: their words, the verdict first."""

from __future__ import annotations

from importlib import import_module
from typing import Any


class Shown:
    """A result whose words, from :mod:`auucmax.present`, are what a prompt and a notebook show.

    Dataclasses need ``repr=False``, or they would write all fields.
    """

    __slots__ = ()

    def __str__(self) -> str:
        return str(_words().text(self))

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return str(_words().html(self))


def _words() -> Any:
    return import_module("auucmax.present.brief")
