"""What every bound returns."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["LowerBound"]


@dataclass(frozen=True)
class LowerBound:
    """``lower`` <= the target with probability 1 - ``delta``, if the bound holds.

    ``estimate`` is what the rows show, ``gap`` what the bound subtracts from it. Which target, and
    whether the bound holds, is told by its entry of :data:`auucmax.bounds.ALL_BOUNDS`.

    >>> LowerBound("mcdiarmid", lower=0.25, estimate=0.375, delta=0.05).gap
    0.125
    """

    name: str
    lower: float
    estimate: float
    delta: float

    @property
    def gap(self) -> float:
        return self.estimate - self.lower
