"""Fitting AUUC-max against two logistic regressions: on Hillstrom, and on up to 14 million rows.

hillstrom 3, 4   choosing Lambda by the paper's bound on its grid of 3, or on our grid of 4, against
                 TM (logistic regression) tuned by 5-fold CV on as many l2, and one plain TM fit
criteo           one fit without selection on rows like those of Criteo-UPLIFT v2.1, against one TM
                 fit by scikit-learn and by LightGBM
evaluation       loss and gradient at one point, against the two matrix-vector products X w, X' r
growth           one fit, the rows doubled from 109 thousand up to all of them
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import numpy as np

from benchmarks.harness import Case

CRITEO_ROWS = 13_979_592
SIZES = (1_000_000, CRITEO_ROWS)
GROWTH = tuple(CRITEO_ROWS // 2**k for k in range(7, 0, -1))  # and then criteo's own
FEATURES = 12
REFERENCES = {
    "to TM by CV": ["TM by 5-fold CV"],
    "to one TM fit": ["TM", "TM scikit-learn"],
    "to LightGBM": ["TM LightGBM"],
    "to products": ["X w and X' r"],
}
L2 = {3: (0.0, 1e-6, 1e-4), 4: (0.0, 1e-6, 1e-5, 1e-4)}


def cases(*, quick: bool = False) -> list[Case]:
    """All cases; ``quick``: Hillstrom, and the smallest sizes of the others."""
    found = [
        _case(f"hillstrom {size}", library, 42_693, 22, function, **options)
        for size, grid in ((3, "paper"), (4, "relative"))
        for library, function, options in (
            ("auucmax by bound", "fit:hillstrom_auucmax", {"grid": grid}),
            ("TM by 5-fold CV", "fit:hillstrom_tuned", {"size": size}),
            ("TM", "fit:hillstrom_plain", {}),
        )
    ]
    for rows in GROWTH[:1] if quick else SIZES:
        for case, library, function in (
            ("criteo", "auucmax", "scale:memory_auucmax"),
            ("criteo", "TM scikit-learn", "scale:memory_logistic"),
            ("criteo", "TM LightGBM", "scale:memory_lightgbm"),
            ("evaluation", "auucmax", "fit:evaluation"),
            ("evaluation", "X w and X' r", "fit:products"),
        ):
            found.append(_case(case, library, rows, FEATURES, function, rows=rows))
    return found + [
        _case("growth", "auucmax", rows, FEATURES, "scale:memory_auucmax", rows=rows)
        for rows in (GROWTH[:2] if quick else GROWTH)
    ]


def _case(
    case: str, library: str, n_rows: int, features: int, function: str, **options: Any
) -> Case:
    return Case(case, library, n_rows, features, f"benchmarks.{function}", options)


# Hillstrom: scaling is part of every call, reading the data is not. One BLAS thread for all models:
# on so few rows a second one waits more than it works, and would only slow our rivals.


def hillstrom_auucmax(grid: str) -> Callable[[], Any]:
    from auucmax import AUUCMax

    X, y, treatment = _hillstrom()
    model = AUUCMax(selection="bound", grid=grid)
    return lambda: model.fit(X, y, treatment=treatment)


def hillstrom_plain() -> Callable[[], Any]:
    X, y, treatment = _hillstrom()
    return _on_one_thread(lambda: two_logistic(_min_max(X), y, treatment == 1))


def hillstrom_tuned(size: int) -> Callable[[], Any]:
    """The same fits for each l2 in 5 folds, AUUC of the held-out part, and the best on all rows."""
    from auucmax import TrialKFold, auuc_score

    X, y, treatment = _hillstrom()

    def call() -> Any:
        scaled, mean = _min_max(X), np.zeros(size)
        for train, test in TrialKFold(5, random_state=0).split(X, y, treatment=treatment):
            for k, l2 in enumerate(L2[size]):
                models = two_logistic(scaled[train], y[train], treatment[train] == 1, l2)
                treated, control = (m.predict_proba(scaled[test])[:, 1] for m in models)
                mean[k] += auuc_score(y[test], treated - control, treatment=treatment[test])
        return two_logistic(scaled, y, treatment == 1, L2[size][int(np.argmax(mean))])

    return _on_one_thread(call)


def _on_one_thread(call: Callable[[], Any]) -> Callable[[], Any]:
    from threadpoolctl import threadpool_limits

    def limited() -> Any:
        with threadpool_limits(limits=1, user_api="blas"):
            return call()

    return limited


def _hillstrom() -> tuple[Any, Any, Any]:
    from auucmax import load_hillstrom

    trial = load_hillstrom()
    return np.ascontiguousarray(trial.X.to_numpy()), trial.y, trial.treatment


def _min_max(X: Any) -> Any:
    from sklearn.preprocessing import MinMaxScaler

    return MinMaxScaler().fit_transform(X)


def two_logistic(X: Any, y: Any, treated: Any, l2: float | None = None) -> list[Any]:
    """scikit-learn's logistic regression (lbfgs) in each arm: its default penalty, or l2 ||w||^2
    beside the mean log-loss."""
    from sklearn.linear_model import LogisticRegression

    models = []
    for arm in (treated, ~treated):
        rows = int(np.count_nonzero(arm))
        c = 1.0 if l2 is None else np.inf if l2 == 0 else 1 / (2 * rows * l2)
        models.append(LogisticRegression(C=c, max_iter=1000).fit(X[arm], y[arm]))
    return models


def evaluation(rows: int) -> Callable[[], Any]:
    """At points near the minimiser, never the same twice: the objective remembers the last one."""
    from auucmax import AUUCMax
    from auucmax.pairs import PairObjective
    from benchmarks.scale import in_memory

    X, y, treatment = in_memory(rows)
    part = slice(0, 100_000)
    first = AUUCMax(selection=None).fit(X[part], y[part], treatment=treatment[part]).coef_
    objective, points = PairObjective(X, y, treatment=treatment), _points(first)
    return lambda: objective.value_and_gradient(next(points))


def products(rows: int) -> Callable[[], Any]:
    from benchmarks.scale import in_memory

    X, y, _ = in_memory(rows)
    w, r = np.full(FEATURES, 0.1, dtype=X.dtype), (y - y.mean()).astype(X.dtype)
    return lambda: (X @ w, X.T @ r)


def _points(w: Any) -> Iterator[Any]:
    return (w * (1 + 1e-3 * k) for k in count())


# What the table cannot show.


def summary(records: list[dict[str, Any]]) -> str:
    """Growth, time(2n) / time(n), and peak memory above X in bytes a row."""
    lines = []
    known = [record for record in records if record["seconds"] is not None]
    steps = {
        record["rows"]: record["seconds"]
        for record in known
        if record["library"] == "auucmax" and record["case"] in ("growth", "criteo")
    }
    for half, rows in zip(GROWTH, (*GROWTH[1:], CRITEO_ROWS), strict=True):
        if half in steps and rows in steps:
            ratio = steps[rows] / steps[half]
            lines.append(f"growth {half:>12,} to {rows:>12,} rows: {ratio:.2f}")
    lines += [
        f"memory {record['library']:<18} {record['case']:<12} {record['rows']:>12,} rows: "
        f"{record['peak_mb'] * 1e6 / record['rows']:6.1f} bytes a row above X"
        for record in known
        if record["case"] in ("criteo", "evaluation")
    ]
    return "\n".join(lines)
