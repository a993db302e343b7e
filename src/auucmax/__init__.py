"""Rank people by how much a treatment helps them, from the rows of a randomised trial.

The names below are those that most users need; the packages hold the others, such as
``auucmax.targeting.calibrate``. Names and packages are imported on first use, so that
``import auucmax`` is quick.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from auucmax._optional import lazy_names
from auucmax._version import __version__

if TYPE_CHECKING:
    from auucmax import (
        baselines,
        campaign,
        certificates,
        comparison,
        data,
        estimators,
        export,
        metrics,
        mlflow,
        model,
        present,
        results,
        spark,
        targeting,
    )
    from auucmax._errors import InputError
    from auucmax.campaign import Monitor, plan_trial
    from auucmax.campaign.assign import assign
    from auucmax.campaign.verify import verify
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
        ResponseModel,
        ShrunkInteractions,
        TwoModels,
        UpliftEnsemble,
    )
    from auucmax.metrics import (
        DecileDisplay,
        UpliftCurveDisplay,
        auuc_difference,
        auuc_inference,
        auuc_score,
        auuc_scorer,
        conventions,
        policy_risk,
        qini_score,
        uplift_at_k,
        uplift_by_decile,
        uplift_curve,
    )
    from auucmax.model import Limits, UpliftModel, check_trial, fit, load

__all__ = [
    "AUUCMax",
    "BoostedEffect",
    "ClassTransformation",
    "DecileDisplay",
    "InputError",
    "Limits",
    "Monitor",
    "ResponseModel",
    "ShrunkInteractions",
    "Trial",
    "TrialKFold",
    "TwoModels",
    "UpliftCurveDisplay",
    "UpliftEnsemble",
    "UpliftModel",
    "__version__",
    "assign",
    "auuc_difference",
    "auuc_inference",
    "auuc_score",
    "auuc_scorer",
    "baselines",
    "campaign",
    "certificates",
    "certify",
    "check_randomisation",
    "check_trial",
    "compare",
    "comparison",
    "conventions",
    "data",
    "estimators",
    "export",
    "fit",
    "load",
    "load_hillstrom",
    "make_trial",
    "metrics",
    "mlflow",
    "model",
    "plan_trial",
    "policy_risk",
    "present",
    "qini_score",
    "read_trial",
    "results",
    "spark",
    "targeting",
    "uplift_at_k",
    "uplift_by_decile",
    "uplift_curve",
    "verify",
]

_HOME = {
    name: home
    for home, names in {
        "_errors": ("InputError",),
        "campaign": (
            "Monitor",
            "assign",
            "plan_trial",
            "verify",
        ),
        "certificates": ("certify",),
        "comparison": ("compare",),
        "data": (
            "Trial",
            "TrialKFold",
            "check_randomisation",
            "load_hillstrom",
            "make_trial",
            "read_trial",
        ),
        "estimators": (
            "AUUCMax",
            "BoostedEffect",
            "ClassTransformation",
            "ResponseModel",
            "ShrunkInteractions",
            "TwoModels",
            "UpliftEnsemble",
        ),
        "metrics": (
            "DecileDisplay",
            "UpliftCurveDisplay",
            "auuc_difference",
            "auuc_inference",
            "auuc_score",
            "auuc_scorer",
            "conventions",
            "policy_risk",
            "qini_score",
            "uplift_at_k",
            "uplift_by_decile",
            "uplift_curve",
        ),
        "model": (
            "Limits",
            "UpliftModel",
            "check_trial",
            "fit",
            "load",
        ),
    }.items()
    for name in names
}  # fmt: skip


__getattr__ = lazy_names(__name__, {name: name for name in __all__} | _HOME)


def __dir__() -> list[str]:
    return sorted(__all__)
