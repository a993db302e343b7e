"""Rank people by how much a treatment helps them, from a randomised trial; say how sure you are.

The map: the names below are the ones that most users need; others are in the submodules, which are
attributes as well (``auucmax.targeting``, ``auucmax.spark``). Names and submodules are imported
when they are first used, so that ``import auucmax`` and ``auucmax --help`` wait for no library.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from auucmax._version import __version__

if TYPE_CHECKING:
    from auucmax import (
        campaign,
        certificates,
        comparison,
        data,
        encoding,
        estimators,
        export,
        metrics,
        mlflow,
        model,
        pairs,
        present,
        results,
        rows,
        solvers,
        spark,
        targeting,
    )
    from auucmax.certificates import certify
    from auucmax.comparison import compare
    from auucmax.data import (
        Trial,
        TrialKFold,
        check_randomisation,
        load_hillstrom,
        make_trial,
        read_trial,
    )
    from auucmax.estimators import (
        AUUCMax,
        BoostedEffect,
        ClassTransformation,
        ShrunkInteractions,
        TwoModels,
        UpliftEnsemble,
    )
    from auucmax.metrics import (
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
    from auucmax.model import UpliftModel, fit, load

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
    "UpliftModel",
    "__version__",
    "auuc_difference",
    "auuc_inference",
    "auuc_score",
    "auuc_scorer",
    "campaign",
    "certificates",
    "certify",
    "check_randomisation",
    "compare",
    "comparison",
    "conventions",
    "data",
    "encoding",
    "estimators",
    "export",
    "fit",
    "load",
    "load_hillstrom",
    "make_trial",
    "metrics",
    "mlflow",
    "model",
    "pairs",
    "policy_risk",
    "present",
    "qini_score",
    "read_trial",
    "results",
    "rows",
    "solvers",
    "spark",
    "targeting",
    "uplift_curve",
]

_HOME = {
    name: home
    for home, names in {
        "certificates": ("certify",),
        "comparison": ("compare",),
        "data": (
            "Trial", "TrialKFold", "check_randomisation", "load_hillstrom", "make_trial",
            "read_trial",
        ),
        "model": ("UpliftModel", "fit", "load"),
        "estimators": (
            "AUUCMax", "BoostedEffect", "ClassTransformation", "ShrunkInteractions", "TwoModels",
            "UpliftEnsemble",
        ),
        "metrics": (
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
