"""Evaluate rankings: AUUC, curves, policy risk, intervals, and conventions of other libraries."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auucmax._optional import lazy_names
from auucmax.metrics.bins import BinnedLevels, column_levels, score_edges, score_levels
from auucmax.metrics.conventions import conventions
from auucmax.metrics.curves import PolicyRiskInference, UpliftBand
from auucmax.metrics.functions import (
    auuc_difference,
    auuc_inference,
    auuc_score,
    pehe,
    policy_risk,
    policy_risk_inference,
    qini_curve,
    qini_score,
    uplift_at_k,
    uplift_band,
    uplift_by_decile,
    uplift_curve,
)
from auucmax.metrics.gains import budget_curve
from auucmax.metrics.inference import AUUCDifference, AUUCInference
from auucmax.metrics.levels import Levels

if TYPE_CHECKING:
    from auucmax.metrics.displays import (
        DecileDisplay,
        PolicyRiskDisplay,
        UpliftCurveDisplay,
        auuc_scorer,
        qini_scorer,
    )

__all__ = [
    "AUUCDifference",
    "AUUCInference",
    "BinnedLevels",
    "DecileDisplay",
    "Levels",
    "PolicyRiskDisplay",
    "PolicyRiskInference",
    "UpliftBand",
    "UpliftCurveDisplay",
    "auuc_difference",
    "auuc_inference",
    "auuc_score",
    "auuc_scorer",
    "budget_curve",
    "column_levels",
    "conventions",
    "pehe",
    "policy_risk",
    "policy_risk_inference",
    "qini_curve",
    "qini_score",
    "qini_scorer",
    "score_edges",
    "score_levels",
    "uplift_at_k",
    "uplift_band",
    "uplift_by_decile",
    "uplift_curve",
]

_LATE = (
    "DecileDisplay",
    "PolicyRiskDisplay",
    "UpliftCurveDisplay",
    "auuc_scorer",
    "qini_scorer",
)
__getattr__ = lazy_names(__name__, dict.fromkeys(_LATE, "displays"))
