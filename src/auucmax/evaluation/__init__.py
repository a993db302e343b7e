"""Evaluate rankings: AUUC, curves, policy risk, intervals, and other libraries' numbers."""

from __future__ import annotations

from auucmax.evaluation.auuc import auuc_score
from auucmax.evaluation.bands import UpliftBand, uplift_band
from auucmax.evaluation.conventions import conventions
from auucmax.evaluation.curves import (
    qini_curve,
    qini_score,
    uplift_at_k,
    uplift_by_decile,
    uplift_curve,
)
from auucmax.evaluation.displays import DecileDisplay, PolicyRiskDisplay, UpliftCurveDisplay
from auucmax.evaluation.histogram import ScoreHistogram
from auucmax.evaluation.inference import (
    AUUCDifference,
    AUUCInference,
    auuc_difference,
    auuc_inference,
)
from auucmax.evaluation.policy import (
    PolicyRiskInference,
    pehe,
    policy_risk,
    policy_risk_inference,
)
from auucmax.evaluation.score_histograms import score_edges, score_histogram
from auucmax.evaluation.scorers import auuc_scorer, qini_scorer

__all__ = [
    "AUUCDifference",
    "AUUCInference",
    "DecileDisplay",
    "PolicyRiskDisplay",
    "PolicyRiskInference",
    "ScoreHistogram",
    "UpliftBand",
    "UpliftCurveDisplay",
    "auuc_difference",
    "auuc_inference",
    "auuc_score",
    "auuc_scorer",
    "conventions",
    "pehe",
    "policy_risk",
    "policy_risk_inference",
    "qini_curve",
    "qini_score",
    "qini_scorer",
    "score_edges",
    "score_histogram",
    "uplift_at_k",
    "uplift_band",
    "uplift_by_decile",
    "uplift_curve",
]
