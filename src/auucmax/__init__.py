"""Rank people by how much a treatment helps them, from a randomised trial; say how sure you are.

The map: the names below are the ones that most users need; others are in the submodules, which are
attributes as well (``auucmax.targeting``, ``auucmax.spark``). Names and submodules are imported
when they are first used, so that ``import auucmax`` and ``auucmax --help`` wait for no library.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from auucmax._version import __version__

if TYPE_CHECKING:
    from auucmax import (
        bounds,
        data,
        encoding,
        estimators,
        evaluation,
        export,
        mlflow,
        pairs,
        report,
        rows,
        solvers,
        spark,
        targeting,
        trial,
        trial_model,
    )
    from auucmax.bounds import certify
    from auucmax.compare import compare
    from auucmax.data import Trial, TrialKFold, check_randomisation, load_hillstrom, make_trial
    from auucmax.estimators import (
        AUUCMax,
        BoostedEffect,
        ClassTransformation,
        ShrunkInteractions,
        TwoModels,
        UpliftEnsemble,
    )
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

# "compare" is the function: the module of that name has little else.
__all__ = [
    "AUUCMax",
    "BoostedEffect",
    "ClassTransformation",
    "ShrunkInteractions",
    "Trial",
    "TrialKFold",
    "TwoModels",
    "UpliftCurveDisplay",
    "UpliftEnsemble",
    "__version__",
    "auuc_difference",
    "auuc_inference",
    "auuc_score",
    "auuc_scorer",
    "bounds",
    "certify",
    "check_randomisation",
    "compare",
    "conventions",
    "data",
    "encoding",
    "estimators",
    "evaluation",
    "export",
    "load_hillstrom",
    "make_trial",
    "mlflow",
    "pairs",
    "policy_risk",
    "qini_score",
    "report",
    "rows",
    "solvers",
    "spark",
    "targeting",
    "trial",
    "trial_model",
    "uplift_curve",
]

_HOME = {
    name: home
    for home, names in {
        "bounds": ("certify",),
        "compare": ("compare",),
        "data": ("Trial", "TrialKFold", "check_randomisation", "load_hillstrom", "make_trial"),
        "estimators": (
            "AUUCMax", "BoostedEffect", "ClassTransformation", "ShrunkInteractions", "TwoModels",
            "UpliftEnsemble",
        ),
        "evaluation": (
            "UpliftCurveDisplay", "auuc_difference", "auuc_inference", "auuc_score", "auuc_scorer",
            "conventions", "policy_risk", "qini_score", "uplift_curve",
        ),
    }.items()
    for name in names
}  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'auucmax' has no attribute {name!r}")
    module = import_module(f"auucmax.{_HOME.get(name, name)}")
    value = getattr(module, name) if name in _HOME else module
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)


class _Package(ModuleType):
    """Importing the module ``auucmax.compare`` must not hide the function of that name."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "compare" and isinstance(value, ModuleType):
            value = value.compare
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
