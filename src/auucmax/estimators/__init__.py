"""Estimators: ``fit(X, y, *, treatment)``, ``predict(X)`` -> scores, ``score`` -> AUUC.

They are imported when they are first used: a command that has one model waits for no other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from auucmax._optional import lazy_names

if TYPE_CHECKING:
    from auucmax.estimators.auucmax import AUUCMax
    from auucmax.estimators.boosted import BoostedEffect
    from auucmax.estimators.ensemble import UpliftEnsemble
    from auucmax.estimators.lambdamart import UpliftLambdaMART
    from auucmax.estimators.meta import (
        ClassTransformation,
        DependentDataRepresentation,
        ResponseModel,
        SharedDataRepresentation,
        TransformedOutcome,
        TwoModels,
    )
    from auucmax.estimators.mml import MinimaxLinear
    from auucmax.estimators.networks import GANITE, CFRNet, TARNet
    from auucmax.estimators.score_only import ScoreOnly
    from auucmax.estimators.shrunk import ShrunkInteractions
    from auucmax.estimators.svm_dp import SVMDifferentialPrediction

    #: Tests run over all of them. (ScoreOnly is not trained, ResponseModel ignores the treatment.)
    ALL_ESTIMATORS: tuple[type, ...]

__all__ = [
    "ALL_ESTIMATORS",
    "GANITE",
    "AUUCMax",
    "BoostedEffect",
    "CFRNet",
    "ClassTransformation",
    "DependentDataRepresentation",
    "MinimaxLinear",
    "ResponseModel",
    "SVMDifferentialPrediction",
    "ScoreOnly",
    "SharedDataRepresentation",
    "ShrunkInteractions",
    "TARNet",
    "TransformedOutcome",
    "TwoModels",
    "UpliftEnsemble",
    "UpliftLambdaMART",
]

_HOME = {
    "AUUCMax": "auucmax", "BoostedEffect": "boosted", "CFRNet": "networks",
    "ClassTransformation": "meta",
    "DependentDataRepresentation": "meta", "GANITE": "networks", "MinimaxLinear": "mml",
    "SVMDifferentialPrediction": "svm_dp", "SharedDataRepresentation": "meta",
    "ShrunkInteractions": "shrunk", "TARNet": "networks", "TransformedOutcome": "meta",
    "TwoModels": "meta", "UpliftEnsemble": "ensemble", "UpliftLambdaMART": "lambdamart",
}  # fmt: skip
_OTHERS = {
    "ResponseModel": "meta", "ScoreOnly": "score_only",
}  # fmt: skip
_lazy = lazy_names(__name__, _HOME | _OTHERS)


def __getattr__(name: str) -> object:
    return tuple(map(_lazy, _HOME)) if name == "ALL_ESTIMATORS" else _lazy(name)
