"""What the bounds from held-out rows share: the checked rows, an arm's summary, rates and AUC."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betaincinv

from auucmax._validation import Floats, Rows, check_choice, check_level, check_rows, check_whole
from auucmax.bounds.lower_bound import LowerBound
from auucmax.evaluation.ranking import RankedRows, ranked_parts

__all__ = [
    "ArmArea",
    "Target",
    "binary_arms",
    "centre_of",
    "check_binary",
    "check_setting",
    "held_out_rows",
    "log_inverse",
    "lower_bound",
    "rate_limits",
    "separate_arms",
]

Target = Literal["auuc", "gain"]
# What is subtracted from the share of people below a row: E[Y (G - 1/2)] is the gain over random.
CENTRES = {"auuc": 0.0, "gain": 0.5}


def centre_of(target: str) -> float:
    """0 for AUUC, 1/2 for the gain over random."""
    check_choice(target, "target", CENTRES)
    return CENTRES[target]


class ArmArea(NamedTuple):
    """One arm ranked on its own: ``total`` of y, ``area`` = mean(y u), u the share ranked below."""

    n_rows: int
    total: float
    area: float

    @classmethod
    def of(cls, part: RankedRows) -> ArmArea:
        n = len(part.y)
        below = part.ranking.mid_cumsum(None)
        return cls(n, float(part.y.sum()), float((below * part.y).sum()) / n**2)

    @property
    def mean(self) -> float:
        return self.total / self.n_rows

    @property
    def spread(self) -> float:
        """p (1 - p), of a 0/1 outcome."""
        return self.mean * (1 - self.mean)

    @property
    def auc(self) -> float:
        """Of a 0/1 outcome, from area = spread AUC + mean^2 / 2; 1/2 if there are no pairs."""
        return (self.area - self.mean**2 / 2) / self.spread if self.spread else 0.5

    def centred_area(self, centre: float) -> float:
        """mean(y (u - centre)), a row counting half of itself as below."""
        return self.area - centre * self.mean

    def unbiased_area(self, centre: float) -> float:
        """mean(y (v - centre)), v the share of the *other* rows below."""
        others = (self.n_rows * self.area - self.mean / 2) / (self.n_rows - 1)
        return others - centre * self.mean


def held_out_rows(
    y: ArrayLike,
    score: ArrayLike,
    *,
    treatment: ArrayLike,
    control: Any,
    outcome_range: tuple[float, float],
) -> tuple[Rows, float]:
    """Rows with y scaled to [0, 1], at least two an arm; and the length of the outcome range."""
    rows = check_rows(y, score, treatment=treatment, control=control)
    n_treated = int(rows.treated.sum())
    low, high = check_setting(
        outcome_range, (rows.y.min(), rows.y.max()), (len(rows.y) - n_treated, n_treated)
    )
    return rows._replace(y=(rows.y - low) / (high - low)), high - low


def check_setting(
    outcome_range: tuple[float, float], seen: tuple[float, float], arm_rows: tuple[int, int]
) -> tuple[float, float]:
    """The ends of the outcome range, if it holds what was seen and each arm has two rows."""
    low, high = _check_range(outcome_range)
    if seen[0] < low or seen[1] > high:
        raise ValueError(
            f"y should lie in outcome_range, {low:g} to {high:g}; got values from "
            f"{seen[0]:g} to {seen[1]:g}. Pass the range that y was known to have before "
            f"the rows were seen, outcome_range=(lowest, highest)."
        )
    if min(arm_rows) < 2:
        raise ValueError(
            f"each arm should have at least two rows, got {arm_rows[1]} treated and "
            f"{arm_rows[0]} control. A bound needs more held-out rows."
        )
    return low, high


def binary_arms(
    y: ArrayLike, score: ArrayLike, *, treatment: ArrayLike, control: Any
) -> tuple[ArmArea, ArmArea]:
    """Treated and control arm of rows with a 0/1 outcome."""
    rows = check_rows(y, score, treatment=treatment, control=control)
    check_binary(rows.y)
    return separate_arms(rows)


def check_binary(y: Floats) -> None:
    """Every outcome is 0 or 1."""
    if not np.array_equal(y, y.astype(bool)):
        raise ValueError(
            "y should be 0 or 1 for this bound, got other values. Use a binary outcome, or a bound "
            "that takes an outcome_range."
        )


def separate_arms(rows: Rows) -> tuple[ArmArea, ArmArea]:
    """Treated and control arm, each ranked on its own."""
    treated, untreated = ranked_parts(rows, "separate")
    return ArmArea.of(treated), ArmArea.of(untreated)


def log_inverse(delta: float, n_candidates: int, parts: float = 1) -> float:
    """ln(parts n_candidates / delta): delta shared by candidates, and by parts of a proof."""
    check_level(delta, "delta")
    return float(np.log(parts * check_whole(n_candidates, "n_candidates", 1) / delta))


def rate_limits(hits: float, n_rows: int, delta: float) -> tuple[float, float]:
    """Lower and upper limit of Clopper and Pearson for P(y = 1), each at error ``delta``."""
    misses = n_rows - hits
    low = float(betaincinv(hits, misses + 1, delta)) if hits else 0.0
    high = float(betaincinv(hits + 1, misses, 1 - delta)) if misses else 1.0
    return low, high


def lower_bound(name: str, estimate: float, gap: float, delta: float) -> LowerBound:
    """The result, as plain numbers."""
    return LowerBound(name, lower=float(estimate - gap), estimate=float(estimate), delta=delta)


def _check_range(outcome_range: tuple[float, float]) -> tuple[float, float]:
    try:
        low, high = (float(end) for end in outcome_range)
    except (TypeError, ValueError):
        low = high = np.nan
    if not (low < high and np.isfinite(high - low)):
        raise ValueError(
            f"outcome_range should be two finite numbers (lowest, highest), got {outcome_range!r}. "
            f"Pass the range that y can have, (0, 1) for a binary outcome."
        )
    return low, high
