"""Scores of boosted trees: those that are saved and exported, against LightGBM's own.

many     a million rows through 600 trees of at most five steps, on all processors
one      a row at a time through the same trees, a thousand times: seconds are milliseconds a row
raw      a raw row of Hillstrom, a frame of eight columns, through the model of `auucmax fit` as it
         comes, which was saved and loaded, a thousand times. At most 1.
spark    a million raw rows of Hillstrom through that model: by `spark.score` on two worker
         processes of one core each, from a cached DataFrame of these columns, and in memory by one
         thread. Seconds are microseconds a row.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import Case

ROWS, FEATURES, N_TREES, CALLS = 1_000_000, 12, 600, 1_000
REFERENCES = {"to LightGBM": ["LightGBM"]}


def cases(*, quick: bool = False) -> list[Case]:
    """All cases; ``quick``: fewer rows and trees."""
    rows, n_trees = (40_000, 100) if quick else (ROWS, N_TREES)
    raw = {"rows": 3_000 if quick else 20_000, "times": 10 if quick else CALLS}
    return [
        Case(case, library, n, FEATURES, f"benchmarks.scoring:{function}", arguments)
        for case, n, arguments in (
            ("many", rows, {"rows": rows, "n_trees": n_trees}),
            ("one", 1, {"rows": 1, "n_trees": n_trees, "times": 10 if quick else CALLS}),
        )
        for library, function in (("auucmax", "arrays"), ("LightGBM", "booster"))
    ] + [
        Case("raw", "auucmax", 1, 8, "benchmarks.scoring:loaded", raw),
        Case("spark", "auucmax on Spark", rows, 8, "benchmarks.scoring:on_spark", {"rows": rows}),
        Case("spark", "auucmax, one thread", rows, 8, "benchmarks.scoring:alone", {"rows": rows}),
    ]


def arrays(rows: int, n_trees: int, times: int = 1) -> Callable[[], Any]:
    from auucmax.estimators.trees import trees_of

    trees, X = trees_of(_booster(n_trees)), _features(rows)
    return lambda: [trees.predict(X) for _ in range(times)]


def booster(rows: int, n_trees: int, times: int = 1) -> Callable[[], Any]:
    own, X = _booster(n_trees), _features(rows)
    return lambda: [own.predict(X, raw_score=True) for _ in range(times)]


def loaded(rows: int, times: int) -> Callable[[], Any]:
    model, people = _model(rows)
    row = people[:1]
    return lambda: [model.predict(row) for _ in range(times)]


def on_spark(rows: int) -> Callable[[], Any]:
    from auucmax import spark
    from benchmarks.scale import spark_session

    model, people = _model(20_000)
    frame = spark_session().createDataFrame(_repeated(people, rows)).repartition(4).cache()
    frame.count()
    return lambda: spark.score(frame, model).write.format("noop").mode("overwrite").save()


def alone(rows: int) -> Callable[[], Any]:
    import numba
    from threadpoolctl import threadpool_limits

    model, people = _model(20_000)
    people = _repeated(people, rows)

    def scores() -> Any:
        numba.set_num_threads(1)
        with threadpool_limits(limits=1):
            return model.predict(people)

    return scores


def _model(rows: int) -> tuple[Any, Any]:
    """The model of `auucmax fit` as it comes, saved and loaded, and the raw rows of its people."""
    from auucmax.data import load_hillstrom
    from auucmax.trial_model import fit_trial_model, load_model, save_model

    trial = load_hillstrom(encoding="raw")
    texts = trial.X.select_dtypes("category").columns
    people = trial.X.astype(dict.fromkeys(texts, "str"))[:rows]
    table = people.assign(mail=trial.treatment[:rows], visit=trial.y[:rows])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        save_model(fit_trial_model(table, treatment="mail", outcome="visit"), path)
        return load_model(path), people


def _repeated(people: Any, rows: int) -> Any:
    return people.iloc[np.arange(rows) % len(people)].reset_index(drop=True)


def _booster(n_trees: int) -> Any:
    import lightgbm

    X = _features(20_000)
    y = X[:, 0] * X[:, 1] + np.sin(3 * X[:, 2]) + np.random.default_rng(1).normal(size=len(X)) > 0
    params = {"objective": "binary", "num_leaves": 24, "max_depth": 5, "verbosity": -1}
    return lightgbm.train(params, lightgbm.Dataset(X, y), n_trees)


def _features(rows: int) -> Any:
    return np.random.default_rng(0).normal(size=(rows, FEATURES))
