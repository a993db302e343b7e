"""Fit time of every baseline on Hillstrom (women's e-mail, 42,693 rows, 22 features) against TM.

Each with its default parameters, on one thread; no hyper-parameters are tuned but those that a
model chooses by itself (AUUC-max its norm by 5-fold CV; LambdaMART and the networks when to stop).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from benchmarks.harness import Case

REFERENCES = {"to TM": ["TM"]}
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "TM": ("TwoModels", {}),
    "CVT": ("ClassTransformation", {}),
    "MOM": ("TransformedOutcome", {}),
    "DDR": ("DependentDataRepresentation", {}),
    "SDR": ("SharedDataRepresentation", {}),
    "SVM-DP": ("SVMDifferentialPrediction", {}),
    "MML": ("MinimaxLinear", {"random_state": 0}),
    "AUUC-max": ("AUUCMax", {"random_state": 0}),
    "AUUC-max by the bound": ("AUUCMax", {"selection": "bound"}),
    "LambdaMART, PCG": ("UpliftLambdaMART", {"gain": "pcg", "random_state": 0}),
    "LambdaMART, NDCG": ("UpliftLambdaMART", {"gain": "ndcg", "random_state": 0}),
    "TARNet": ("TARNet", {"random_state": 0}),
    "CFRNet": ("CFRNet", {"random_state": 0}),
    "GANITE": ("GANITE", {"random_state": 0}),
}
QUICK = ("TM", "CVT", "SDR", "AUUC-max")


def cases(*, quick: bool = False) -> list[Case]:
    return [
        Case("fit", name, 42_693, 22, "benchmarks.baselines:fit", {"name": name})
        for name in (QUICK if quick else MODELS)
    ]


def fit(name: str) -> Callable[[], Any]:
    # Before numpy is imported: on so few rows a second thread waits more than it works.
    for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
        os.environ.setdefault(variable, "1")
    from threadpoolctl import threadpool_limits

    from auucmax import baselines, estimators, load_hillstrom

    threadpool_limits(1)
    trial = load_hillstrom()
    X = trial.X.to_numpy(dtype=float)
    kind, options = MODELS[name]
    home = estimators if kind in estimators.__all__ else baselines
    model = getattr(home, kind)(**options)
    return lambda: model.fit(X, trial.y, treatment=trial.treatment)
