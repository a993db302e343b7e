"""Baselines of the paper, for comparison: ``fit(X, y, *, treatment)``, ``predict(X)``.

They are not saved and not exported. Networks need torch, and ``UpliftLambdaMART`` needs LightGBM.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from auucmax._optional import lazy_names

if TYPE_CHECKING:
    from auucmax.baselines.lambdamart import UpliftLambdaMART
    from auucmax.baselines.mml import MinimaxLinear
    from auucmax.baselines.networks import GANITE, CFRNet, TARNet
    from auucmax.baselines.representations import (
        DependentDataRepresentation,
        SharedDataRepresentation,
    )
    from auucmax.baselines.svm_dp import SVMDifferentialPrediction


__all__ = [
    "GANITE",
    "CFRNet",
    "DependentDataRepresentation",
    "MinimaxLinear",
    "SVMDifferentialPrediction",
    "SharedDataRepresentation",
    "TARNet",
    "UpliftLambdaMART",
]

__getattr__ = lazy_names(
    __name__,
    {
        "CFRNet": "networks",
        "DependentDataRepresentation": "representations",
        "GANITE": "networks",
        "MinimaxLinear": "mml",
        "SVMDifferentialPrediction": "svm_dp",
        "SharedDataRepresentation": "representations",
        "TARNet": "networks",
        "UpliftLambdaMART": "lambdamart",
    },
)
