"""Certificates: one bound from 100 thousand and 1 million rows against one argsort of the scores.

`mcdiarmid` and `dkw-bernstein` sort and add; `betting` is the default of `certify`: hedged bets, 20
dealings, for the gain over random. PAC-Bayes reads training rows, 22 features: by draws of w (200,
an AUUC each), and by pairs that are integrated exactly (the default).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.harness import Case

SIZES = (100_000, 1_000_000)
REFERENCES = {"to argsort": ["np.argsort"]}
LIBRARIES = {
    "np.argsort": "argsort",
    "mcdiarmid": "mcdiarmid",
    "dkw-bernstein": "dkw_bernstein",
    "asymptotic": "asymptotic",
    "betting": "betting",
    "betting-fixed": "betting_fixed",
}
TRAINING = {"pac-bayes, 200 draws": "pac_bayes_draws", "pac-bayes, pairs": "pac_bayes_pairs"}
N_FEATURES = 22


def cases(*, quick: bool = False) -> list[Case]:
    sizes = SIZES[:1] if quick else SIZES
    return [
        Case("held out", name, rows, 0, f"benchmarks.certify:{function}", {"rows": rows})
        for rows in sizes
        for name, function in LIBRARIES.items()
    ] + [
        Case(
            "training",
            name,
            SIZES[0],
            N_FEATURES,
            f"benchmarks.certify:{function}",
            {"rows": SIZES[0]},
        )
        for name, function in TRAINING.items()
    ]


def _rows(rows: int) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(0)
    score = rng.random(rows)
    treatment = rng.random(rows) < 0.5
    y = (rng.random(rows) < 0.1 + 0.06 * treatment * score).astype(np.float64)
    return y, score, treatment


def argsort(rows: int) -> Callable[[], Any]:
    _, score, _ = _rows(rows)
    return lambda: np.argsort(score)


def _bound(name: str, rows: int, **options: Any) -> Callable[[], Any]:
    from auucmax import bounds

    y, score, treatment = _rows(rows)
    function = getattr(bounds, f"{name}_bound")
    return lambda: function(y, score, treatment=treatment, target="gain", **options)


def mcdiarmid(rows: int) -> Callable[[], Any]:
    return _bound("mcdiarmid", rows)


def dkw_bernstein(rows: int) -> Callable[[], Any]:
    return _bound("dkw_bernstein", rows)


def asymptotic(rows: int) -> Callable[[], Any]:
    return _bound("asymptotic", rows)


def betting(rows: int) -> Callable[[], Any]:
    return _bound("betting", rows)


def betting_fixed(rows: int) -> Callable[[], Any]:
    return _bound("betting", rows, bets="fixed")


def _pac_bayes(rows: int, **options: Any) -> Callable[[], Any]:
    from auucmax.bounds import pac_bayes_bound

    rng = np.random.default_rng(0)
    X, w = rng.random((rows, N_FEATURES)), rng.normal(size=N_FEATURES)
    treatment = rng.random(rows) < 0.5
    chance = 0.1 + 0.06 * treatment * (X @ w > np.median(X @ w))
    y = (rng.random(rows) < chance).astype(np.float64)
    return lambda: pac_bayes_bound(y, X, treatment=treatment, w=w, random_state=0, **options)


def pac_bayes_draws(rows: int) -> Callable[[], Any]:
    return _pac_bayes(rows, integration="draws", n_samples=200)


def pac_bayes_pairs(rows: int) -> Callable[[], Any]:
    return _pac_bayes(rows)
