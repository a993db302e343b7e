"""A certificate and its words: what is guaranteed, and what it rests on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from auucmax.bounds.holdout import asymptotic_bound
from auucmax.bounds.methods import METHODS, Method

__all__ = ["Certificate", "assumptions_of"]

_RANDOMISED = "{rows} are independent, and treatment was randomised with the same chance for all"
_BEFORE = "the score was fixed without looking at them, or at rows that depend on them"
_CANDIDATES = (
    "the {n} candidates were fixed without looking at them, or at rows that depend on them"
)


@dataclass(frozen=True)
class Certificate:
    """Lower bounds on AUUC and on the gain over random targeting, and what they rest on.

    ``lower_bound`` (AUUC) and ``gain_lower_bound`` (AUUC - ATE/2) hold *each* with probability
    1 - ``delta``; both at once only if ``joint``. ``estimate`` and ``gain_estimate`` are what the
    rows show, ``gap`` and ``gain_gap`` the differences, ``bin_gap`` the part of them that pays for
    the bins of a histogram.
    """

    lower_bound: float
    gain_lower_bound: float
    estimate: float
    gain_estimate: float
    delta: float
    joint: bool
    method: str
    assumptions: tuple[str, ...]
    n_rows: int
    n_candidates: int = 1
    bin_gap: float = 0.0

    @property
    def gap(self) -> float:
        return self.estimate - self.lower_bound

    @property
    def gain_gap(self) -> float:
        return self.gain_estimate - self.gain_lower_bound

    def __str__(self) -> str:
        chance = f"{1 - self.delta:.4g}" if self.delta > 1e-4 else f"1 - {self.delta:.1g}"
        verdict = "is not shown to beat random targeting: it gains at least"
        if self.gain_lower_bound > 0:
            verdict = "beats random targeting: it gains at least"
        together = "both at once" if self.joint else "each statement by itself"
        bins = f" in bins of scores, which cost {self.bin_gap:.2g}" if self.bin_gap > 0 else ""
        among = f", the best of {self.n_candidates}," if self.n_candidates > 1 else ""
        return (
            f"With probability {chance}, this ranking{among} {verdict} "
            f"{self.gain_lower_bound:+.5f} over random "
            f"(estimate {self.gain_estimate:+.5f}), and its AUUC is at least "
            f"{self.lower_bound:.5f} (estimate {self.estimate:.5f}), {together}: by "
            f"{METHODS[self.method].words} on {self.n_rows:,} held-out rows{bins}, if "
            f"{'; '.join(self.assumptions)}."
        )


def assumptions_of(
    call: Method, n_candidates: int, options: dict[str, Any], *, cross_fitted: bool = False
) -> tuple[str, ...]:
    """What a certificate rests on, a sentence each."""
    clustered = options.get("groups") is not None
    first = _RANDOMISED.format(rows="clusters" if clustered else "rows")
    low, high = (float(v) for v in options.get("outcome_range", (0, 1)))
    own = tuple(a.format(range=f"[{low:g}, {high:g}]") for a in call.assumptions)
    if cross_fitted:
        own += (
            "each fold's scores come from a model fitted on the others; the bounds are for the "
            "mean over these models",
        )
    else:
        own += (_BEFORE if n_candidates == 1 else _CANDIDATES.format(n=n_candidates),)
    if options.get("outcome_model") is not None:
        own += ("the outcome model, and the choice to use it, come from other rows",)
    if clustered and call.function is not asymptotic_bound:
        own += ("people are counted so that every cluster weighs the same",)
    return (first, *own)
