"""The certificate of a histogram of scores, of rows that are too many for memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from auucmax._validation import listed
from auucmax.bounds.binned import binned_dkw_bernstein_bound, binned_mcdiarmid_bound
from auucmax.bounds.certificate import Certificate, assumptions_of
from auucmax.bounds.lower_bound import LowerBound
from auucmax.bounds.methods import METHODS
from auucmax.evaluation.histogram import ScoreHistogram

__all__ = ["certify_histogram", "check_no_rows"]

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


def certify_histogram(
    histogram: ScoreHistogram,
    delta: float,
    method: str,
    joint: bool,
    n_candidates: int,
    options: dict[str, Any],
) -> Certificate:
    """As :func:`auucmax.certify`, whose arguments these are; ``options``: outcome_range."""
    chosen = "dkw-bernstein" if method == "auto" else method
    if chosen not in _BINNED:
        raise ValueError(
            f"method should be one of {listed(_BINNED)} for a histogram, got {chosen!r}, which "
            f"needs the rows. The asymptotic interval is histogram.inference()."
        )
    if method == "auto" and not (histogram.binary or "outcome_range" in options):
        raise ValueError(
            f"outcomes should be 0/1, or come with outcome_range=(lowest, highest), as they are "
            f"possible, to get a guarantee; got outcomes from {histogram.outcome_low:g} to "
            f"{histogram.outcome_high:g} and no range. Pass it, or take the asymptotic interval, "
            f"histogram.inference()."
        )
    options = {name: options[name] for name in options if name == "outcome_range"}
    share = {"delta": delta / (2 if joint else 1), "n_candidates": n_candidates} | options
    auuc, gain = (_BINNED[chosen](histogram, target=target, **share) for target in ("auuc", "gain"))
    # The same rows with one score a bin: what is left of the gap is what bins cost.
    tied = _BINNED[chosen](replace(histogram, low=histogram.high), **share)
    return Certificate(
        lower_bound=auuc.lower,
        gain_lower_bound=gain.lower,
        estimate=auuc.estimate,
        gain_estimate=gain.estimate,
        delta=delta,
        joint=joint,
        method=chosen,
        assumptions=assumptions_of(METHODS[chosen], n_candidates, options),
        n_rows=histogram.n_rows,
        n_candidates=n_candidates,
        bin_gap=max(auuc.gap - tied.gap, 0.0) if histogram.rank_error() else 0.0,
    )
