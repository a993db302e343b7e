"""Scores of boosted trees: those that are saved and exported, against LightGBM's own.

many     a million rows through 600 trees of at most five steps, on all processors
one      a row at a time through the same trees, a thousand times: seconds are milliseconds a row
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.harness import Case

ROWS, FEATURES, N_TREES, CALLS = 1_000_000, 12, 600, 1_000
REFERENCES = {"to LightGBM": ["LightGBM"]}


def cases(*, quick: bool = False) -> list[Case]:
    """All cases; ``quick``: fewer rows and trees."""
    rows, n_trees = (40_000, 100) if quick else (ROWS, N_TREES)
    return [
        Case(case, library, n, FEATURES, f"benchmarks.scoring:{function}", arguments)
        for case, n, arguments in (
            ("many", rows, {"rows": rows, "n_trees": n_trees}),
            ("one", 1, {"rows": 1, "n_trees": n_trees, "times": 10 if quick else CALLS}),
        )
        for library, function in (("auucmax", "arrays"), ("LightGBM", "booster"))
    ]


def arrays(rows: int, n_trees: int, times: int = 1) -> Callable[[], Any]:
    from auucmax.estimators.trees import trees_of

    trees, X = trees_of(_booster(n_trees)), _features(rows)
    return lambda: [trees.predict(X) for _ in range(times)]


def booster(rows: int, n_trees: int, times: int = 1) -> Callable[[], Any]:
    own, X = _booster(n_trees), _features(rows)
    return lambda: [own.predict(X, raw_score=True) for _ in range(times)]


def _booster(n_trees: int) -> Any:
    import lightgbm

    X = _features(20_000)
    y = X[:, 0] * X[:, 1] + np.sin(3 * X[:, 2]) + np.random.default_rng(1).normal(size=len(X)) > 0
    params = {"objective": "binary", "num_leaves": 24, "max_depth": 5, "verbosity": -1}
    return lightgbm.train(params, lightgbm.Dataset(X, y), n_trees)


def _features(rows: int) -> Any:
    return np.random.default_rng(0).normal(size=(rows, FEATURES))
