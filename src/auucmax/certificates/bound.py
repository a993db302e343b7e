"""The result type of bounds, and the registry entry that describes a bound."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from auucmax._validation import check_level, check_whole
from auucmax.metrics.ranking import RankingKind


@dataclass(frozen=True)
class LowerBound:
    """A lower bound of a target that holds with probability 1 - ``delta``.

    ``estimate`` is what the rows show, ``gap`` what the bound subtracts from it. Which target, and
    whether the bound holds, is in its entry of :data:`auucmax.certificates.ALL_BOUNDS`.

    >>> LowerBound("betting", lower=0.25, estimate=0.375, delta=0.05).gap
    0.125
    """

    name: str
    lower: float
    estimate: float
    delta: float

    @property
    def gap(self) -> float:
        return self.estimate - self.lower


@dataclass(frozen=True)
class Bound:
    """One entry of :data:`ALL_BOUNDS`.

    ``target`` is what it bounds from below, ``ranking`` how the estimate ranks ("joint" or
    "separate"), ``rows`` which rows it reads ("training" or "held out"), ``validity`` whether the
    statement is true, and if not, why. Defaults are those of most bounds.
    """

    name: str
    function: Callable[..., Any]
    assumptions: str
    formula: str
    reference: str
    target: str = "AUUC, or gain over random, of the population"
    ranking: RankingKind = "joint"
    rows: str = "held out"
    validity: str = "holds for every n"


def shared_level(delta: float, n_candidates: int) -> float:
    """The error probability of each of several candidates."""
    check_level(delta, "delta")
    return delta / check_whole(n_candidates, "n_candidates", 1)
