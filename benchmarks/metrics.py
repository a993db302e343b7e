"""AUUC of 100 thousand to 5 million rows: ours, scikit-uplift, CausalML, and one argsort."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.harness import Case

SIZES = (100_000, 1_000_000, 5_000_000)
REFERENCES = {
    "to best peer": ["scikit-uplift", "causalml"],
    "to argsort": ["np.argsort"],
}
LIBRARIES = {
    "np.argsort": "argsort",
    "auucmax": "ours",
    "auucmax with intervals": "ours_with_intervals",
    "scikit-uplift": "scikit_uplift",
    "causalml": "causalml",
}


def cases(*, quick: bool = False) -> list[Case]:
    """Each library at each size, on scores without ties (``auuc``) and with 1,000 levels."""
    sizes = SIZES[:1] if quick else SIZES
    return [
        Case(kind, library, rows, 0, f"benchmarks.metrics:{function}", {"rows": rows, "kind": kind})
        for kind in ("auuc", "auuc tied")
        for rows in sizes
        for library, function in LIBRARIES.items()
    ]


def _rows(rows: int, kind: str) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(0)
    score = rng.normal(0.02, 0.05, rows)
    if kind == "auuc tied":
        score = np.round(score, 4)
    treatment = (rng.random(rows) < 0.85).astype(np.int64)
    y = (rng.random(rows) < 0.05 + treatment * np.clip(score, -0.05, 0.2)).astype(np.int64)
    return y, score, treatment


def argsort(rows: int, kind: str) -> Callable[[], Any]:
    _, score, _ = _rows(rows, kind)
    return lambda: np.argsort(score)


def ours(rows: int, kind: str) -> Callable[[], Any]:
    from auucmax import auuc_score

    y, score, treatment = _rows(rows, kind)
    return lambda: auuc_score(y, score, treatment=treatment)


def ours_with_intervals(rows: int, kind: str) -> Callable[[], Any]:
    from auucmax import auuc_inference

    y, score, treatment = _rows(rows, kind)
    return lambda: auuc_inference(y, score, treatment=treatment)


def scikit_uplift(rows: int, kind: str) -> Callable[[], Any]:
    # It still uses a function that scikit-learn is about to drop.
    warnings.filterwarnings("ignore", message=".*stable_cumsum.*", category=FutureWarning)
    from sklift.metrics import uplift_auc_score

    y, score, treatment = _rows(rows, kind)
    return lambda: uplift_auc_score(y, score, treatment)


def causalml(rows: int, kind: str) -> Callable[[], Any]:
    import pandas as pd
    from causalml.metrics import auuc_score

    y, score, treatment = _rows(rows, kind)
    frame = pd.DataFrame({"y": y, "w": treatment, "model": score})
    return lambda: auuc_score(frame)
