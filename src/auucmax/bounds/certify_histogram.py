"""The bounds of a histogram of scores, of rows that are too many for memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from auucmax._validation import listed
from auucmax.bounds.binned import binned_dkw_bernstein_bound, binned_mcdiarmid_bound
from auucmax.bounds.lower_bound import LowerBound
from auucmax.evaluation.bins import BinnedLevels

__all__ = ["binned_method", "check_no_rows", "histogram_bounds"]

#: The methods that a histogram of scores is enough for.
_BINNED: dict[str, Callable[..., LowerBound]] = {
    "dkw-bernstein": binned_dkw_bernstein_bound,
    "mcdiarmid": binned_mcdiarmid_bound,
}


def check_no_rows(given: dict[str, Any]) -> None:
    """A histogram stands for all the rows: nothing else may speak of them."""
    for name, value in given.items():
        if value is not None and name != "outcome_range":
            raise ValueError(
                f"a histogram should be certified without {name}, got it: the histogram stands for "
                f"all rows, and they are no longer there. Leave {name} out, or certify the scores "
                f"of the rows themselves."
            )


def binned_method(method: str) -> str:
    """The method that is meant, if a histogram is enough for it."""
    chosen = "dkw-bernstein" if method == "auto" else method
    if chosen not in _BINNED:
        raise ValueError(
            f"method should be one of {listed(_BINNED)} for a histogram, got {chosen!r}, which "
            f"needs the rows. The asymptotic interval is histogram.inference()."
        )
    return chosen


def histogram_bounds(
    histogram: BinnedLevels, method: str, options: dict[str, Any]
) -> tuple[str, LowerBound, LowerBound, float]:
    """The method chosen, its bounds of AUUC and gain, and what the bins cost.

    ``method`` as in :func:`auucmax.certify`; ``options``: delta, n_candidates, outcome_range.
    """
    chosen = binned_method(method)
    if method == "auto" and not (histogram.binary or "outcome_range" in options):
        raise ValueError(
            f"outcomes should be 0/1, or come with outcome_range=(lowest, highest), as they are "
            f"possible, to get a guarantee; got outcomes from {histogram.outcome_low:g} to "
            f"{histogram.outcome_high:g} and no range. Pass it, or take the asymptotic interval, "
            f"histogram.inference()."
        )
    bound = _BINNED[chosen]
    auuc, gain = (bound(histogram, target=target, **options) for target in ("auuc", "gain"))
    # The same rows with one score a bin: what is left of the gap is what bins cost.
    tied = bound(replace(histogram, low=histogram.high), **options)
    bin_gap = max(auuc.gap - tied.gap, 0.0) if histogram.rank_error() else 0.0
    return chosen, auuc, gain, bin_gap
