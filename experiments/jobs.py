"""Policy risk on Jobs: the paper's Figure 4, on the ten published splits.

A randomised experiment (722 rows) inside a larger sample whose other rows are all controls. Models
are fitted to all training rows, as is usual, or to the randomised ones alone, where treatment is
random; risks are read on the randomised test rows. Hyper-parameters are chosen on one validation
part of the training rows, by AUUC of its randomised rows. The page is written by
:mod:`experiments.jobs_page`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import lru_cache
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from sklearn.model_selection import train_test_split

from auucmax import AUUCMax, Trial, TwoModels, auuc_inference, auuc_score
from auucmax.baselines import GANITE, SharedDataRepresentation, TARNet
from auucmax.data.fetch import fetch_jobs
from auucmax.metrics.functions import policy_risk_inference
from experiments import jobs_page
from experiments.harness import Line, Task
from experiments.models import describe, rounded, start_line
from experiments.searched import MeanLogistic

NAME = "jobs"
ALL, RANDOMISED = "all rows", "randomised rows"
SPLITS = 10
SHARES = tuple(k / 40 for k in range(41))
NORMS = (0.005, 0.01, 0.05, 0.1, 0.5)
POINTS = 50  # drawn from a grid that has more
VALIDATION = 0.25

Options = dict[str, Any]
_L2 = (0.0, 1e-6, 1e-4, 1e-2)
_BATCH = (100, 500, 1000)
_EPOCHS = (50, 100, 500)


class Grid(NamedTuple):
    """How to make a model from a point of the grid, and what is the same in all points."""

    make: Callable[..., Any]
    values: dict[str, tuple[Any, ...]]
    fixed: Options


#: Scores of these are estimated effects.
SEARCHED: dict[str, Grid] = {
    "TM": Grid(lambda l2, random_state: TwoModels(MeanLogistic(l2)), {"l2": _L2}, {}),
    "SDR": Grid(
        lambda l2, random_state: SharedDataRepresentation(MeanLogistic(l2)), {"l2": _L2}, {}
    ),
    "TARNet": Grid(
        TARNet,
        {
            "learning_rate": (1e-4, 1e-3, 1e-2),
            # The paper's l2 multiplies the squared weights, TARNet's half of them.
            "l2": tuple(2 * l2 for l2 in _L2),
            "batch_size": _BATCH,
            "max_epochs": _EPOCHS,
        },
        # As on the paper's other data, the loss of a fifth of the rows can end training sooner.
        {"validation_share": 0.2, "patience": 10},
    ),
    "GANITE": Grid(
        GANITE,
        {
            "learning_rate": (1e-5, 1e-4, 1e-3),
            "batch_size": _BATCH,
            "max_epochs": _EPOCHS,
            "hidden": (30, 50, 100),
            "alpha": (1.0, 100.0, 1000.0),
        },
        {"validation_share": 0.2, "patience": 10, "l2": 0.0, "generator_epochs": 20},
    ),
}
DIRECT: dict[str, Callable[[int], Any]] = {
    "AUUC-max": lambda seed: AUUCMax(
        "s_poly", scale="column-l2", grid=NORMS, weights="uniform", selection="bound",
        random_state=seed,
    ),
    "AUUCMax()": lambda seed: AUUCMax(random_state=seed),
}  # fmt: skip
#: From quick to slow, so that a piece of a run is whole in itself.
MODELS = (*DIRECT, *SEARCHED)


def tasks(splits: int | None = None) -> list[Task]:
    return [
        Task(NAME, trial, model, split)
        for model in MODELS
        for trial in (RANDOMISED, ALL)
        for split in range(min(splits or SPLITS, SPLITS))
    ]


def parameters(task: Task) -> Options:
    own = {"shares": len(SHARES)}
    if task.model in DIRECT:
        return describe(DIRECT[task.model](task.split)) | own
    grid = SEARCHED[task.model]
    most = min(POINTS, len(_points(grid)))
    return {"model": task.model, "grid": grid.values, "fixed": grid.fixed, "points": most} | own


@lru_cache(maxsize=2)
def load_split(trial: str, split: int) -> tuple[Trial, Trial]:
    """The training rows that a model may see, and the randomised test rows."""
    train, test = (fetch_jobs(split, part, download=False) for part in ("train", "test"))
    if trial == RANDOMISED:
        train = train.take(_randomised(train))
    return train, test.take(_randomised(test))


def probe(trial: str) -> None:
    """Raises DataNotFoundError if the files are not there."""
    load_split(trial, 0)


def run(task: Task) -> Line:
    train, test = load_split(task.trial, task.split)
    start, start_cpu = time.perf_counter(), time.process_time()
    model, chosen = fit(task.model, train, task.split)
    seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - start_cpu
    score = model.predict(test.X)
    auuc = auuc_inference(test.y, score, treatment=test.treatment)
    risk = policy_risk_inference(test.y, score, treatment=test.treatment, share=SHARES)
    line = start_line(task, parameters(task)) | {
        "risk": list(np.atleast_1d(risk.estimate)),
        # None: one of the two cells has fewer than two rows.
        "risk_error": [None if np.isnan(e) else e for e in np.atleast_1d(risk.standard_error)],
        "sign_rule": _sign_rule(test, score) if task.model in SEARCHED else None,
        "auuc": auuc.estimate,
        "random": auuc.estimate - auuc.gain,
        "gain_standard_error": auuc.gain_standard_error,
        "chosen": chosen,
        "train_rows": train.n_rows,
        "train_randomised": int(_randomised(train).sum()),
        "test_rows": test.n_rows,
        "fit_seconds": seconds,
        "cpu_seconds": cpu_seconds,
    }
    return rounded(line)


def fit(name: str, train: Trial, seed: int) -> tuple[Any, Options]:
    """The model, fitted to the training rows, and what was chosen for it."""
    if name in DIRECT:
        model = DIRECT[name](seed).fit(train.X, train.y, treatment=train.treatment)
        return model, {"norm": model.norm_}
    return search(SEARCHED[name], train, seed)


def search(grid: Grid, train: Trial, seed: int) -> tuple[Any, Options]:
    """Fit every point to three quarters of the rows, and the best one to all of them."""
    points = drawn_points(grid, seed)
    randomised = _randomised(train)
    learn, check = train_test_split(
        np.arange(train.n_rows),
        test_size=VALIDATION,
        stratify=2 * randomised + (train.treatment == 1),
        random_state=seed,
    )
    part, held_out = train.take(learn), train.take(check[randomised[check]])

    def evaluate(point: Options) -> float:
        model = grid.make(**point, **grid.fixed, random_state=seed)
        model.fit(part.X, part.y, treatment=part.treatment)
        score = model.predict(held_out.X)
        return auuc_score(held_out.y, score, treatment=held_out.treatment)

    chosen = points[int(np.argmax(list(map(evaluate, points))))]
    best = grid.make(**chosen, **grid.fixed, random_state=seed)
    return best.fit(train.X, train.y, treatment=train.treatment), chosen


def drawn_points(grid: Grid, seed: int) -> list[Options]:
    """All points of a grid, or POINTS of them; the same ones for both sets of training rows."""
    points = _points(grid)
    if len(points) <= POINTS:
        return points
    drawn = np.random.default_rng(seed).choice(len(points), POINTS, replace=False)
    return [points[k] for k in np.sort(drawn)]


def _points(grid: Grid) -> list[Options]:
    return [dict(zip(grid.values, v, strict=True)) for v in product(*grid.values.values())]


def _randomised(trial: Trial) -> Any:
    assert trial.randomised is not None  # fetch_jobs always has it
    return trial.randomised


def _sign_rule(test: Trial, score: Any) -> Options:
    """Treat everyone with an estimated effect above 0, as Shalit et al. do."""
    risk = policy_risk_inference(test.y, score, treatment=test.treatment)
    error = float(risk.standard_error)
    return {
        "share": risk.share,
        "risk": risk.estimate,
        "error": None if np.isnan(error) else error,
    }


def render(lines: list[Line]) -> str:
    return jobs_page.render(lines)
