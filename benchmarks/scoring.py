"""Scores of boosted trees: those that are saved and exported, against LightGBM's own.

many     a million rows through 600 trees of at most five steps, on all processors
one      a row at a time through the same trees, a thousand times: seconds are milliseconds a row
raw      a raw row of Hillstrom, a frame of eight columns, through the model of `auucmax fit` as it
         comes, which was saved and loaded, a thousand times. At most 1.
spark    a million raw rows of Hillstrom through that model: by `spark.score` on two worker
         processes of one core each, from a cached DataFrame of these columns, and in memory by one
         thread. Seconds are microseconds a row. And what of it takes how long: Spark's reading of
         the cached rows alone, and with their way to Python and back, as Arrow; encoding alone, and
         trees alone, by one thread.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import Case

ROWS, FEATURES, N_TREES, CALLS = 1_000_000, 12, 600, 1_000
REFERENCES = {"to LightGBM": ["LightGBM"]}
ON_SPARK = {
    "auucmax on Spark": "on_spark",
    "Spark, reading alone": "reading",
    "Spark, to Python and back": "there_and_back",
    "auucmax, one thread": "alone",
    "auucmax, encoding alone": "encoding",
    "auucmax, trees alone": "tree_scores",
}


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
        *(
            Case("spark", library, rows, 8, f"benchmarks.scoring:{function}", {"rows": rows})
            for library, function in ON_SPARK.items()
        ),
    ]


def arrays(rows: int, n_trees: int, times: int = 1) -> Callable[[], Any]:
    from benchmarks.lightgbm_trees import trees_of

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

    model, people = _model(20_000)
    frame = _cached(people, rows)
    return lambda: _written(spark.score(frame, model))


def reading(rows: int) -> Callable[[], Any]:
    frame = _cached(_model(20_000)[1], rows)
    return lambda: _written(frame)


def there_and_back(rows: int) -> Callable[[], Any]:
    frame = _cached(_model(20_000)[1], rows)
    same = frame.mapInArrow(lambda batches: batches, frame.schema)
    return lambda: _written(same)


def alone(rows: int) -> Callable[[], Any]:
    model, people = _by_one_thread(rows)
    return lambda: model.predict(people)


def encoding(rows: int) -> Callable[[], Any]:
    model, people = _by_one_thread(rows)
    return lambda: model.scorers[0].encoder.transform(people)


def tree_scores(rows: int) -> Callable[[], Any]:
    model, people = _by_one_thread(rows)
    features = model.scorers[0].encoder.transform(people)
    forests = [trees for member in model.scorers[0].formula.members for trees in member.trees]
    return lambda: [trees.predict(features) for trees in forests]


def _by_one_thread(rows: int) -> tuple[Any, Any]:
    os.environ["NUMBA_NUM_THREADS"] = "1"  # before numba is loaded
    from threadpoolctl import threadpool_limits

    model, people = _model(20_000)
    threadpool_limits(limits=1)
    return model, _repeated(people, rows)


def _cached(people: Any, rows: int) -> Any:
    """The rows as a DataFrame that executors have in their memory."""
    from benchmarks.scale import spark_session

    frame = spark_session().createDataFrame(_repeated(people, rows)).repartition(4).cache()
    frame.count()
    return frame


def _written(frame: Any) -> None:
    """All rows are made, and given to nobody."""
    frame.write.format("noop").mode("overwrite").save()


def _model(rows: int) -> tuple[Any, Any]:
    """The default model, saved and loaded, and the raw rows of its people."""
    from auucmax import fit, load, load_hillstrom, read_trial

    trial = load_hillstrom(encoding="raw")
    texts = trial.X.select_dtypes("category").columns
    people = trial.X.astype(dict.fromkeys(texts, "str"))[:rows]
    table = people.assign(mail=trial.treatment[:rows], visit=trial.y[:rows])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        fit(read_trial(table, treatment="mail", outcome="visit")).save(path)
        return load(path), people


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


# What the table cannot show.


def summary(records: list[dict[str, Any]]) -> str:
    """Rows a second and core, and what of the time of a row is whose."""
    took = {r["library"]: r["seconds"] / r["rows"] * 1e6 for r in records if r["case"] == "spark"}
    if not took.keys() >= ON_SPARK.keys():
        return "On Spark: not measured yet."
    # Two cores work at a time.
    whole, read, moved = (2 * took[name] for name in list(ON_SPARK)[:3])
    own, encoded, trees = (took[name] for name in list(ON_SPARK)[3:])
    return (
        f"On Spark {1e6 / whole:,.0f} rows a second and core: {whole:.2f} microseconds a row, of "
        f"which Spark reads for {read:.2f}\nand takes rows to Python and back for "
        f"{moved - read:.2f}; {whole - moved:.2f} are left for the model. In memory\na thread "
        f"scores {1e6 / own:,.0f} rows a second: {own:.2f} microseconds a row, {encoded:.2f} for "
        f"the encoding\nand {trees:.2f} for the trees."
    )
