"""What every bound and every certificate says."""

from __future__ import annotations

from dataclasses import dataclass

from auucmax._validation import check_level, check_whole
from auucmax.results import Shown


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


@dataclass(frozen=True, repr=False, kw_only=True)
class Guarantee(Shown):
    """Claims and assumptions that all certificates have.

    ``n_rows`` were bet on. ``outcome_range``: outcomes lie in it; None for an approximation, which
    guarantees nothing. ``propensity``: the lowest and the highest known propensity, None if it was
    the same for all. ``grouped``: clusters of rows are independent, rows of a cluster are not.
    """

    delta: float
    n_rows: int
    outcome_range: tuple[float, float] | None
    n_candidates: int = 1
    propensity: tuple[float, float] | None = None
    grouped: bool = False

    @property
    def by_cluster(self) -> bool:
        """Whether every cluster has the same weight, as bets need it."""
        return self.grouped and self.outcome_range is not None


def shared_level(delta: float, n_candidates: int) -> float:
    """The error probability of each of several candidates."""
    check_level(delta, "delta")
    return delta / check_whole(n_candidates, "n_candidates", 1)
