"""Estimators: ``fit(X, y, *, treatment)``, ``predict(X)`` -> scores, ``score`` -> AUUC.

They are imported on first use, so that a command loads only the models it needs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

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


class Named(NamedTuple):
    """A model with a name: its class, what ``--help`` says, and what a sentence calls it."""

    estimator: str
    about: str
    in_words: str


#: Models that can be fitted by name, saved and exported.
MODELS = {
    "auto": Named("UpliftEnsemble", "average of shrunk and boosted", "the default model"),
    "shrunk": Named("ShrunkInteractions", "penalised logistic model", "shrunk interactions"),
    "boosted": Named("BoostedEffect", "boosted trees", "boosted trees"),
    "auucmax": Named("AUUCMax", "", "AUUC-max"),
    "tm": Named("TwoModels", "two models", "two separate models"),
    "cvt": Named("ClassTransformation", "class transformation", "the class transformation"),
    "response": Named("ResponseModel", "", "a response model"),
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
