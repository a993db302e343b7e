"""Rank people by how much a treatment helps them, from a randomised trial; say how sure you are.

The map: trials come from :mod:`auucmax.data`, rankings are evaluated by
:mod:`auucmax.evaluation`. The names below are the ones that most users need.
"""

from __future__ import annotations

from auucmax._version import __version__
from auucmax.bounds import certify
from auucmax.compare import compare
from auucmax.data import Trial, TrialKFold, check_randomisation, load_hillstrom, make_trial
from auucmax.estimators import AUUCMax, ClassTransformation, TwoModels
from auucmax.evaluation import (
    UpliftCurveDisplay,
    auuc_difference,
    auuc_inference,
    auuc_score,
    auuc_scorer,
    conventions,
    policy_risk,
    qini_score,
    uplift_curve,
)

__all__ = [
    "AUUCMax",
    "ClassTransformation",
    "Trial",
    "TrialKFold",
    "TwoModels",
    "UpliftCurveDisplay",
    "__version__",
    "auuc_difference",
    "auuc_inference",
    "auuc_score",
    "auuc_scorer",
    "certify",
    "check_randomisation",
    "compare",
    "conventions",
    "load_hillstrom",
    "make_trial",
    "policy_risk",
    "qini_score",
    "uplift_curve",
]
