"""The paper's Table 7, test AUUC on CU2-1M: a million rows, four models, 100 splits.

CU2-1M itself needs the Criteo file. Two more trials go through the same protocol: a synthetic one
with the published size, shares and rates, whose true AUUC is known, and the largest real trial that
is small enough to be at hand. The section is written by :mod:`experiments.cu2_page`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from auucmax import AUUCMax, Trial, make_trial
from auucmax.data import DataNotFoundError
from auucmax.data.fetch import CRITEO, _locate, fetch_criteo
from auucmax.data.synthetic import SyntheticTrial
from experiments import cu2_page, trials
from experiments.arm_logistic import PathTuned
from experiments.harness import Line, Task
from experiments.models import describe, measure, rounded
from experiments.searched import Searched

NAME = cu2_page.NAME
REAL, SYNTHETIC, NEIGHBOURS = cu2_page.REAL, cu2_page.SYNTHETIC, cu2_page.NEIGHBOURS
TEST_SIZE = cu2_page.TEST_SIZE
SPLITS = 100
N_ROWS = 1_000_000
SEED = 0  # of the rows that are drawn, and of the synthetic trial
NORMS = (0.5, 1.0, 5.0)
TOLERANCE = 1e-5  # of the true AUUC

MODELS: dict[str, Callable[[int], Any]] = {
    "TM": lambda seed: PathTuned("TM", random_state=seed),
    "SVM-DP": lambda seed: Searched("SVM-DP", random_state=seed),
    # With a treatment column: without one-hot columns the arms could not differ in level.
    "SDR": lambda seed: PathTuned("SDR, treatment column", random_state=seed),
    "AUUC-max": lambda seed: AUUCMax(
        "s_poly",
        scale="column-l2",
        grid=NORMS,
        weights="uniform",
        selection="bound",
        random_state=seed,
    ),
    "AUUCMax()": lambda seed: AUUCMax(random_state=seed),
}


def tasks(splits: int | None = None) -> list[Task]:
    """Split by split, on the trials that are at hand; the real one is left out with the reason."""
    found = [NEIGHBOURS, SYNTHETIC]
    reason = why_missing()
    if reason is None:
        found.append(REAL)
    else:
        print(f"skipped {REAL}: {reason}", file=sys.stderr)
    seeds = range(min(splits or SPLITS, SPLITS))
    return [Task(NAME, trial, model, s) for trial in found for s in seeds for model in MODELS]


def why_missing() -> str | None:
    """Why CU2-1M cannot be drawn, or None; the file is looked for, not read."""
    try:
        _locate(CRITEO, None, False)
    except DataNotFoundError as error:
        return str(error)
    return None


def draw_rows(trial: Trial, n_rows: int = N_ROWS) -> Trial:
    """So many rows of a trial, drawn without replacement by a fixed seed, in their order."""
    rng = np.random.default_rng(SEED)
    rows = rng.choice(trial.n_rows, n_rows, replace=False)
    return trial.take(np.sort(rows))


@lru_cache(maxsize=1)
def load_trial(name: str) -> Trial:
    """The trial of this name; tasks of a trial follow each other."""
    if name == REAL:
        return draw_rows(fetch_criteo(download=False))
    if name == SYNTHETIC:
        return make_trial(preset="cu2-1m", random_state=SEED)
    return trials.load_trial(name)


@lru_cache(maxsize=1)
def _load_split(name: str, seed: int) -> tuple[Trial, Trial]:
    return split(load_trial(name), seed)


def split(trial: Trial, seed: int) -> tuple[Trial, Trial]:
    """Training and test part, with the same share of treated in both."""
    return trial.split(test_size=TEST_SIZE, by="treatment", random_state=seed)


def parameters(task: Task) -> dict[str, Any]:
    return describe(MODELS[task.model](task.split))


def run(task: Task) -> Line:
    return line_of(task, *_load_split(task.trial, task.split))


def line_of(task: Task, train: Trial, test: Trial) -> Line:
    """The line of a model on given parts of a trial; the true AUUC too, where it is known."""
    model = MODELS[task.model](task.split)
    line = measure(task, model, train, test)
    if isinstance(train, SyntheticTrial):
        population = train.population
        value, error = population.auuc_with_error(model, tolerance=TOLERANCE)
        true = {"true_auuc": value, "true_auuc_error": error, "best_auuc": population.best_auuc}
        line |= rounded(true | {"true_random": population.ate / 2})
    return line


def render(lines: list[Line]) -> str:
    return cu2_page.render(lines)
