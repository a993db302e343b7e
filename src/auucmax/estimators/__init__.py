"""Estimators: ``fit(X, y, *, treatment)``, ``predict(X)`` -> scores, ``score`` -> AUUC."""

from __future__ import annotations

from auucmax.estimators.auucmax import AUUCMax
from auucmax.estimators.lambdamart import UpliftLambdaMART, promoted_cumulative_gain
from auucmax.estimators.meta import ClassTransformation, TransformedOutcome, TwoModels
from auucmax.estimators.mml import MinimaxLinear
from auucmax.estimators.multi_arm import MultiArm
from auucmax.estimators.networks import GANITE, CFRNet, TARNet, load_network, save_network
from auucmax.estimators.representation import (
    DependentDataRepresentation,
    SharedDataRepresentation,
)
from auucmax.estimators.score_only import ScoreOnly
from auucmax.estimators.svm_dp import SVMDifferentialPrediction

__all__ = [
    "ALL_ESTIMATORS",
    "GANITE",
    "AUUCMax",
    "CFRNet",
    "ClassTransformation",
    "DependentDataRepresentation",
    "MinimaxLinear",
    "MultiArm",
    "SVMDifferentialPrediction",
    "ScoreOnly",
    "SharedDataRepresentation",
    "TARNet",
    "TransformedOutcome",
    "TwoModels",
    "UpliftLambdaMART",
    "load_network",
    "promoted_cumulative_gain",
    "save_network",
]

#: Tests run over all of them. (MultiArm has a score for each arm, ScoreOnly learns nothing itself.)
ALL_ESTIMATORS = (
    AUUCMax,
    CFRNet,
    ClassTransformation,
    DependentDataRepresentation,
    GANITE,
    MinimaxLinear,
    SVMDifferentialPrediction,
    SharedDataRepresentation,
    TARNet,
    TransformedOutcome,
    TwoModels,
    UpliftLambdaMART,
)
