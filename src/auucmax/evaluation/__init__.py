"""Evaluate rankings: AUUC, curves, policy risk, intervals, and other libraries' numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auucmax._optional import lazy_names
from auucmax.evaluation.bins import BinnedLevels, column_levels, score_edges, score_levels
from auucmax.evaluation.budget import (
    BudgetCurve,
    PolicyDifference,
    budget_curve,
    policy_difference,
)
from auucmax.evaluation.conventions import conventions
from auucmax.evaluation.curves import UpliftBand
from auucmax.evaluation.displays import DecileDisplay, PolicyRiskDisplay, UpliftCurveDisplay
from auucmax.evaluation.inference import AUUCDifference, AUUCInference
from auucmax.evaluation.levels import Levels
from auucmax.evaluation.metrics import (
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
from auucmax.evaluation.risk import PolicyRiskInference

if TYPE_CHECKING:
    from auucmax.evaluation.scorers import auuc_scorer, qini_scorer

__all__ = [
    "AUUCDifference",
    "AUUCInference",
    "BinnedLevels",
    "BudgetCurve",
    "DecileDisplay",
    "Levels",
    "PolicyDifference",
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
    "policy_difference",
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

__getattr__ = lazy_names(__name__, {"auuc_scorer": "scorers", "qini_scorer": "scorers"})
