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

    #: Tests run over all of them. (ScoreOnly is not trained, ResponseModel ignores the treatment.)
    ALL_ESTIMATORS: tuple[type, ...]

__all__ = [
    "ALL_ESTIMATORS",
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

_HOME = {
    "AUUCMax": "auucmax",
    "BoostedEffect": "boosted",
    "ClassTransformation": "meta",
    "ShrunkInteractions": "shrunk",
    "TransformedOutcome": "meta",
    "TwoModels": "meta",
    "UpliftEnsemble": "ensemble",
}
_OTHERS = {"ResponseModel": "meta", "ScoreOnly": "score_only"}
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
_lazy = lazy_names(__name__, _HOME | _OTHERS)


def __getattr__(name: str) -> object:
    return tuple(map(_lazy, _HOME)) if name == "ALL_ESTIMATORS" else _lazy(name)
