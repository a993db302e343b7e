"""What is told of every bound: what it says, under which assumptions, and whether it holds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["Bound"]


@dataclass(frozen=True)
class Bound:
    """One bound, as an entry of :data:`ALL_BOUNDS`.

    ``target`` is what it bounds from below, ``ranking`` how the estimate ranks ("joint" or
    "separate"), ``rows`` which rows it reads ("training" or "held out"), ``validity`` whether the
    statement is true, and if not, why.
    """

    name: str
    function: Callable[..., object]
    target: str
    ranking: str
    rows: str
    assumptions: str
    formula: str
    reference: str
    validity: str
