"""Estimators: ``fit(X, y, *, treatment)``, ``predict(X)`` -> scores, ``score`` -> AUUC.

They are imported on first use, so that a command loads only the models it needs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from auucmax._optional import lazy_names

if TYPE_CHECKING:
    from auucmax.estimators.auucmax import AUUCMax
    from auucmax.estimators.boosted import BoostedEffect
    from auucmax.estimators.ensemble import UpliftEnsemble
    from auucmax.estimators.meta import (
        ClassTransformation,
        ResponseModel,
        TransformedOutcome,
        TwoModels,
    )
    from auucmax.estimators.score_only import ScoreOnly
    from auucmax.estimators.shrunk import ShrunkInteractions

__all__ = [
    "AUUCMax",
    "BoostedEffect",
    "ClassTransformation",
    "ResponseModel",
    "ScoreOnly",
    "ShrunkInteractions",
    "TransformedOutcome",
    "TwoModels",
    "UpliftEnsemble",
]

#: Models that can be fitted by name, saved and exported: the class, and what ``--help`` says.
MODELS = {
    "auto": ("UpliftEnsemble", "average of shrunk and boosted"),
    "shrunk": ("ShrunkInteractions", "penalised logistic model"),
    "boosted": ("BoostedEffect", "boosted trees"),
    "auucmax": ("AUUCMax", ""),
    "tm": ("TwoModels", "two models"),
    "cvt": ("ClassTransformation", "class transformation"),
    "response": ("ResponseModel", ""),
}

__getattr__ = lazy_names(
    __name__,
    {
        "AUUCMax": "auucmax",
        "BoostedEffect": "boosted",
        "ClassTransformation": "meta",
        "ResponseModel": "meta",
        "ScoreOnly": "score_only",
        "ShrunkInteractions": "shrunk",
        "TransformedOutcome": "meta",
        "TwoModels": "meta",
        "UpliftEnsemble": "ensemble",
    },
)
