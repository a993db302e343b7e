"""The result type of bounds, and the registry entry that describes a bound."""

from __future__ import annotations

from dataclasses import dataclass

from auucmax._validation import check_level, check_whole


@dataclass(frozen=True)
class LowerBound:
    """A lower bound of a target that holds with probability 1 - ``delta``.

    ``estimate`` is what the rows show, ``gap`` what the bound subtracts from it. What is bounded,
    and whether the bound holds, depends on the function that returned it.

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


def shared_level(delta: float, n_candidates: int) -> float:
    """The error probability of each of several candidates."""
    check_level(delta, "delta")
    return delta / check_whole(n_candidates, "n_candidates", 1)
