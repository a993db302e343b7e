"""Estimators: ``fit(X, y, *, treatment)``, ``predict(X)`` -> scores, ``score`` -> AUUC."""

from __future__ import annotations

from auucmax.estimators.auucmax import AUUCMax
from auucmax.estimators.meta import ClassTransformation, TwoModels

__all__ = ["ALL_ESTIMATORS", "AUUCMax", "ClassTransformation", "TwoModels"]

#: Tests run over all of them.
ALL_ESTIMATORS = (AUUCMax, ClassTransformation, TwoModels)
