"""Rank people by how much a treatment helps them, from a randomised trial; say how sure you are.

The map: trials come from :mod:`auucmax.data`, rankings are evaluated by
:mod:`auucmax.evaluation`. The names below are the ones that most users need. They are imported
when first used, so that ``auucmax --help`` does not wait for scikit-learn.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from auucmax._version import __version__

if TYPE_CHECKING:
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

_EVALUATION = (
    "UpliftCurveDisplay", "auuc_difference", "auuc_inference", "auuc_score", "auuc_scorer",
    "conventions", "policy_risk", "qini_score", "uplift_curve",
)  # fmt: skip
_DATA = ("Trial", "TrialKFold", "check_randomisation", "load_hillstrom", "make_trial")
_HOME = {
    **dict.fromkeys(("AUUCMax", "ClassTransformation", "TwoModels"), "estimators"),
    **dict.fromkeys(_EVALUATION, "evaluation"),
    **dict.fromkeys(_DATA, "data"),
    "certify": "bounds",
    "compare": "compare",
}
_MODULES = ("bounds", "data", "estimators", "evaluation", "pairs", "rows", "selection", "solvers")


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"auucmax.{name}")
    if name not in _HOME:
        raise AttributeError(f"module 'auucmax' has no attribute {name!r}")
    value = getattr(import_module(f"auucmax.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*__all__, *_MODULES})


class _Package(ModuleType):
    """Importing the module ``auucmax.compare`` must not hide the function of that name."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "compare" and isinstance(value, ModuleType):
            value = value.compare
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
