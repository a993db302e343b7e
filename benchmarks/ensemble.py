"""Cost of the default model of `auucmax fit`: whole commands, and its trees.

fit      `auucmax fit` of 20 columns, all folds, chunks, rivals and evidence included: CPU seconds,
         user and system, of all threads. "lines": effects are lines, and few trees are grown.
         "curves": no line helps, and as many trees are grown as there may be. At most 100 s of
         100,000 rows.
demo     `auucmax demo` with nothing compiled before: seconds by the clock. At most 40.
trees    160 trees of six leaves (g, whose Hessian is that of the outcome) and of four (f, with a
         strong penalty) from 60,000 x 20 rows on one processor, a fourth of which is scored:
         milliseconds a tree, against LightGBM with the same settings
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import ROOT, columns, number, usage_of

SIZES = (25_000, 50_000, 100_000)
KINDS: dict[str, dict[str, float]] = {
    "lines": {},
    "curves": {"nonlinearity": 1.0, "heterogeneity": 1.0},
}
GOALS = {("fit", 100_000): 100.0, ("demo", 42_693): 40.0}
N_TREES, TREE_ROWS = 160, 80_000


def run(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Records of all cases, or of one; ``--quick``: the smallest size."""
    found = []
    for case, measure in (("fit", _fits), ("demo", _demo), ("trees", _trees)):
        if arguments.only in (None, case):
            for record in measure(arguments.quick):
                print("  " + "  ".join(_cells(record)), flush=True)
                found.append({"benchmark": "ensemble", "case": case} | record)
    return found


def _fits(quick: bool) -> list[dict[str, Any]]:
    from auucmax import make_trial

    records = []
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "trial.parquet"
        for rows in SIZES[:1] if quick else SIZES:
            for kind, settings in KINDS.items():
                trial = make_trial(rows, n_features=20, random_state=0, **settings)
                trial.X.assign(mail=trial.treatment, visit=trial.y).to_parquet(table)
                line = f"fit {table} --treatment mail --outcome visit -o {folder}/model"
                records.append({"case": "fit", "library": kind, "rows": rows} | _command(line))
    return records


def _demo(quick: bool) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        measured = _command(f"demo -o {folder}/page.html", NUMBA_CACHE_DIR=f"{folder}/compiled")
    measured["seconds"] = measured["wall"]
    return [{"case": "demo", "library": "cold", "rows": 42_693} | measured]


def _command(line: str, **environment: str) -> dict[str, float]:
    """CPU and wall seconds and the highest memory of a command."""
    place = {"env": os.environ | {"PYTHONPATH": str(ROOT / "src")} | environment}
    begin = time.perf_counter()
    code, usage = usage_of(["-m", "auucmax", *line.split()], place)
    if code:
        raise RuntimeError(f"auucmax {line} should run, got exit code {code}.")
    return {
        "seconds": usage.ru_utime + usage.ru_stime,
        "wall": time.perf_counter() - begin,
        "resident_mb": usage.ru_maxrss / 1e3,
    }


def _trees(quick: bool) -> list[dict[str, Any]]:
    from auucmax import make_trial

    rows = 8_000 if quick else TREE_ROWS
    trial = make_trial(rows, n_features=20, random_state=0, **KINDS["curves"])
    X, y, t = trial.X.to_numpy(np.float64), trial.y, trial.treatment - trial.treatment.mean()
    records = []
    for part, slope, growth in (
        ("g", np.ones(rows), (6, 0.06, 300, 1.0, 1e-3)),
        ("f", np.asarray(t), (4, 0.06, 600, 0.02 * 0.75 * rows * 0.25 * y.mean(), 0.0)),
    ):
        calls = {"auucmax": _ours, "LightGBM": _lightgbm}
        grown = {name: call(X, y, slope, growth) for name, call in calls.items()}
        best = dict.fromkeys(calls, np.inf)
        for _ in range(3):  # in turn, so that a busy machine disturbs both equally
            for name, grow in grown.items():
                begin = time.process_time()
                grow()
                best[name] = min(best[name], time.process_time() - begin)
        records += [
            {
                "case": "trees",
                "library": f"{name}, {part}",
                "rows": rows,
                "seconds": seconds * 1e3 / N_TREES,
                "ratio": seconds / best["LightGBM"],
            }
            for name, seconds in best.items()
        ]
    return records


def _ours(X: Any, y: Any, slope: Any, growth: tuple[Any, ...]) -> Callable[[], Any]:
    from auucmax.estimators.boosted import Bins, Boosting, Growth

    bins, n = Bins.of(X), len(y)
    rest = bins, np.full(n, -2.0), slope, y, np.ones(n), np.array([[0, 3 * n // 4]])
    Boosting(*rest, Growth(*growth)).grow(1)  # compiles
    return lambda: Boosting(*rest, Growth(*growth)).grow(N_TREES)


def _lightgbm(X: Any, y: Any, slope: Any, growth: tuple[Any, ...]) -> Callable[[], Any]:
    import lightgbm
    from scipy.special import expit

    leaves, rate, least, penalty, hessian = growth
    n = 3 * len(y) // 4
    common = {"num_threads": 1, "verbosity": -1, "deterministic": True, "force_row_wise": True}
    rows = lightgbm.Dataset(X[:n], label=y[:n], params=common).construct()
    params = common | {
        "objective": "binary" if np.ptp(slope) == 0 else "none", "num_leaves": leaves,
        "learning_rate": rate, "min_data_in_leaf": least, "lambda_l2": penalty,
        "min_sum_hessian_in_leaf": hessian,
    }  # fmt: skip
    own, outcome = slope[:n], y[:n]

    def gradients(score: Any, _: Any) -> tuple[Any, Any]:
        p = expit(-2.0 + own * score)
        return own * (p - outcome), own**2 * p * (1 - p)

    def grow() -> Any:
        booster = lightgbm.Booster(params, rows)
        for _ in range(N_TREES):
            booster.update(fobj=None if params["objective"] == "binary" else gradients)
        return booster.predict(X[n:], raw_score=True, num_threads=1)

    return grow


def table_of(records: list[dict[str, Any]]) -> str:
    """A line for each record."""
    header = ["case", "what", "rows", "seconds", "clock", "MB", "goal", "to LightGBM"]
    return columns(header, list(map(_cells, records)), n_texts=2)


def _cells(record: dict[str, Any]) -> list[str]:
    unit = " ms" if record["case"] == "trees" else ""
    numbers = [
        number(record.get(name), digits)
        for name, digits in (("wall", 1), ("resident_mb", 0))
    ]  # fmt: skip
    goal = GOALS.get((record["case"], record["rows"]))
    return [
        record["case"], record["library"], f"{record['rows']:,}",
        f"{record['seconds']:.2f}{unit}", *numbers, number(goal, 0), number(record.get("ratio"), 2),
    ]  # fmt: skip
