"""Which defaults of AUUCMax rank best and safest on five real trials.

Ways to choose Lambda are compared on choosing splits (seeds from 1000), half of the rows for
training, and again with few rows for training, since a default must serve small trials too. What is
chosen is then compared with rivals on fresh splits (seeds from 0) that had no part in the choice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from sklearn.linear_model import LinearRegression

from auucmax import AUUCMax, TwoModels
from experiments import page
from experiments.harness import Line, Task
from experiments.models import as_paper, describe, measure
from experiments.norm_paths import FAMILIES, RULES, Family, Rule, path_line, path_parameters
from experiments.searched import Tuned
from experiments.summaries import Scores, mean_ranks, paired
from experiments.trials import (
    FEW_ROWS,
    HILLSTROM,
    SOCIAL_PRESSURE,
    load_split,
    whole,
    with_few_rows,
)

NAME = "defaults"
TEST_SIZE = 0.5
FIRST_CHOOSING = 1000
TRIALS = (*HILLSTROM, *SOCIAL_PRESSURE)
SMALL = tuple(with_few_rows(trial) for trial in TRIALS)
CHOOSING_SPLITS = dict.fromkeys(TRIALS, 10) | dict.fromkeys(SMALL, 20)
FRESH_SPLITS = (
    dict.fromkeys(HILLSTROM, 20) | dict.fromkeys(SOCIAL_PRESSURE, 10) | dict.fromkeys(SMALL, 20)
)
CHOSEN = Rule(Family("min-max", "lambda"), "relative", "cv")
REFERENCE = "TM"
LINEAR = "TM by least squares"
DEFAULT = "AUUCMax()"
UNCONSTRAINED = "AUUCMax(selection=None)"


MODELS: dict[str, Callable[[int], Any]] = {
    REFERENCE: lambda seed: Tuned("TM", random_state=seed),
    LINEAR: lambda seed: TwoModels(LinearRegression()),
    "CVT": lambda seed: Tuned("CVT", random_state=seed),
    DEFAULT: lambda seed: AUUCMax(random_state=seed),
    'AUUCMax(selection="bound")': lambda seed: AUUCMax(selection="bound", random_state=seed),
    UNCONSTRAINED: lambda seed: AUUCMax(selection=None, random_state=seed),
    'AUUCMax(weights="uniform")': lambda seed: AUUCMax(weights="uniform", random_state=seed),
    "the paper's setting, cv": lambda seed: as_paper(seed, selection="cv"),
    "the paper's setting, bound": as_paper,
}


def tasks(splits: int | None = None) -> list[Task]:
    """Paths and TM on choosing splits, then all models on fresh splits, trial by trial."""
    found = []
    for trial in (*TRIALS, *SMALL):
        for models, first, number in (
            ([REFERENCE, *FAMILIES], FIRST_CHOOSING, CHOOSING_SPLITS[trial]),
            (list(MODELS), 0, FRESH_SPLITS[trial]),
        ):
            seeds = range(first, first + min(splits or number, number))
            found += [Task(NAME, trial, model, seed) for seed in seeds for model in models]
    return found


def parameters(task: Task) -> dict[str, Any]:
    if task.model in FAMILIES:
        return path_parameters(task.model)
    return describe(MODELS[task.model](task.split))


def run(task: Task) -> Line:
    train, test = load_split(task.trial, task.split, TEST_SIZE)
    if task.model in FAMILIES:
        return path_line(task, train, test)
    return measure(task, MODELS[task.model](task.split), train, test)


# The page.


def render(lines: list[Line]) -> str:
    choosing = [line for line in lines if line["split"] >= FIRST_CHOOSING]
    fresh = [line for line in lines if line["split"] < FIRST_CHOOSING]
    parts = _choice(_by_trial(choosing, [REFERENCE, *FAMILIES]))
    by_trial = _by_trial(fresh, MODELS)
    for title, trials in (
        ("half of the rows for training", TRIALS),
        (f"{FEW_ROWS:,} rows for training", SMALL),
    ):
        if present := {trial: by_trial[trial] for trial in trials if trial in by_trial}:
            parts += _fresh(title, present)
    return page.written(f"{NAME}: which defaults of AUUCMax", lines, *parts)


def _by_trial(lines: list[Line], models: Iterable[str]) -> dict[str, Scores]:
    """By trial, in order: the lines of the splits that all models have."""
    found = {}
    for trial in (*TRIALS, *SMALL):
        scores = Scores((line for line in lines if line["trial"] == trial), models)
        if scores.splits(*models):
            found[trial] = scores
    return found


def _choice(by_trial: dict[str, Scores]) -> list[str]:
    """Mean differences of every rule to TM, and the least one to random, by trial."""
    to_reference: dict[str, dict[str, float]] = {rule.name: {} for rule in RULES}
    least_gain = dict.fromkeys(to_reference, np.inf)
    for trial, scores in by_trial.items():
        reference, random = (scores.mean(REFERENCE, n, scores.common) for n in ("auuc", "random"))
        for rule in RULES:
            paths = scores.values(rule.family.name, "path", scores.common)
            auuc = np.mean([path["auuc"][rule.pick(path)] for path in paths])
            to_reference[rule.name][trial] = float(auuc - reference)
            least_gain[rule.name] = min(least_gain[rule.name], float(auuc - random))
    large = [trial for trial in by_trial if trial in TRIALS]
    small = [trial for trial in by_trial if trial in SMALL]

    def mean(rule: str, trials: Iterable[str] = tuple(by_trial)) -> float:
        return float(np.mean([to_reference[rule][trial] for trial in trials]))

    order = sorted(to_reference, key=mean, reverse=True)
    header = ["selection, grid, weights, scale", *large, "mean", f"mean, {FEW_ROWS:,} rows",
              "mean of all", "least gain over random"]  # fmt: skip
    rows = [
        [
            f"**{rule}**" if rule == CHOSEN.name else rule,
            *(_units(to_reference[rule][trial]) for trial in large),
            _units(mean(rule, large)),
            _units(mean(rule, small)) if small else "",
            _units(mean(rule)),
            _units(least_gain[rule]),
        ]
        for rule in order
    ]
    counts = sorted({len(scores.common) for scores in by_trial.values()})
    return [
        "## Choosing\n",
        f"Test AUUC minus that of TM in units of .00001, mean over {' or '.join(map(str, counts))} "
        f"splits a trial (seeds from {FIRST_CHOOSING}, stratified by treatment). Columns of single "
        f'trials: half of the rows for training. "{FEW_ROWS:,} rows": so many for training, the '
        "others for testing. Grids are parts of the unconstrained norm: relative (.03, .1, .3, 1), "
        "wide (from .003), upper three, upper two; or the paper's (.5, .8, 1). With parts, mu "
        "matters to the bound only: s_poly with mu = 1 on a ball of radius Lambda is s_poly with "
        "mu = .1 on one of Lambda / 10. One-se: the smallest norm within one standard error of "
        "the best. TM: logistic regression, l2 by 5-fold CV.\n",
        page.table(header, rows),
        f"Chosen: **{CHOSEN.name}**, place {order.index(CHOSEN.name) + 1} of {len(order)} by the "
        "mean of all. The columns with few rows were added after those with half of the rows had "
        "been seen; the fresh splits came after the choice.\n",
    ]


def _fresh(title: str, by_trial: dict[str, Scores]) -> list[str]:
    counts = [f"{len(scores.common)} splits of {whole(t)}" for t, scores in by_trial.items()]
    blocks = [
        [scores.lines[model][split]["auuc"] for model in MODELS]
        for scores in by_trial.values()
        for split in scores.common
    ]
    ranks = dict(zip(MODELS, mean_ranks(blocks), strict=True))

    def cells(model: str, name: str) -> list[str]:
        """Minus TM, or minus the random ranking of TM's line."""
        found = []
        for scores in by_trial.values():
            own, other = (scores.values(m, n, scores.common)
                          for m, n in ((model, "auuc"), (REFERENCE, name)))  # fmt: skip
            d = paired(own, other)
            found.append(f"{_units(d.mean)} ({_units(d.low)} to {_units(d.high)})")
        return found

    def means(model: str, name: str = "auuc") -> list[float]:
        return [scores.mean(model, name, scores.common) for scores in by_trial.values()]

    header = ["model", *map(whole, by_trial)]
    errors = [f"{e * 1e5:.0f}" for e in means(DEFAULT, "gain_standard_error")]
    return [
        f"## On fresh splits, {title}\n",
        f"{', '.join(counts)}; seeds from 0. Mean test AUUC, and mean rank over splits:\n",
        page.table(
            [*header, "mean rank"],
            [
                *([m, *map(page.auuc, means(m)), f"{ranks[m]:.2f}"] for m in MODELS),
                ["random", *map(page.auuc, means(REFERENCE, "random")), ""],
            ],
        ),
        "Minus TM on the same splits, units of .00001, with 95% interval over splits:\n",
        page.table(header, [[m, *cells(m, "auuc")] for m in MODELS if m != REFERENCE]),
        "Minus random on the same splits, the same units. The last row is the closed-form standard "
        "error of the default's gain on the test rows of one split, the better measure of what a "
        "trial of this size can show:\n",
        page.table(
            header,
            [*([m, *cells(m, "random")] for m in MODELS),
             ["*one split's standard error*", *errors]],
        ),
    ]  # fmt: skip


def _units(value: float) -> str:
    return f"{value * 1e5:+.0f}" if round(value * 1e5) else "0"
