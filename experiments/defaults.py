"""Which defaults of AUUCMax rank best and safest on five real trials.

Ways to choose Lambda are compared on choosing splits (seeds from 1000), half of the rows for
training, and again with few rows for training, since a default must serve small trials too. What is
chosen is then compared with rivals on fresh splits (seeds from 0) that had no part in the choice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from sklearn.linear_model import LinearRegression

from auucmax import AUUCMax, TwoModels
from experiments import page
from experiments.harness import Line, Task
from experiments.models import describe, measure
from experiments.norm_paths import FAMILIES, RULES, Family, Rule, path_line, path_parameters
from experiments.searched import Tuned
from experiments.summaries import Paired, mean_ranks, paired
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


def _as_paper(selection: str, seed: int) -> AUUCMax:
    return AUUCMax(
        scale="column-l2", grid="paper", weights="uniform", selection=selection, random_state=seed
    )


MODELS: dict[str, Callable[[int], Any]] = {
    REFERENCE: lambda seed: Tuned("TM", random_state=seed),
    LINEAR: lambda seed: TwoModels(LinearRegression()),
    "CVT": lambda seed: Tuned("CVT", random_state=seed),
    DEFAULT: lambda seed: AUUCMax(random_state=seed),
    'AUUCMax(selection="bound")': lambda seed: AUUCMax(selection="bound", random_state=seed),
    UNCONSTRAINED: lambda seed: AUUCMax(selection=None, random_state=seed),
    'AUUCMax(weights="uniform")': lambda seed: AUUCMax(weights="uniform", random_state=seed),
    "the paper's setting, cv": lambda seed: _as_paper("cv", seed),
    "the paper's setting, bound": lambda seed: _as_paper("bound", seed),
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


def render(lines: list[Line]) -> str:
    """The page of the appendix."""
    choosing = [line for line in lines if line["split"] >= FIRST_CHOOSING]
    fresh = [line for line in lines if line["split"] < FIRST_CHOOSING]
    parts = ["# defaults: which defaults of AUUCMax\n", page.made_by(NAME, lines)]
    parts += _render_choice(_splits(choosing, [REFERENCE, *FAMILIES]))
    by_trial = _splits(fresh, list(MODELS))
    for title, trials in (
        ("half of the rows for training", TRIALS),
        (f"{FEW_ROWS:,} rows for training", SMALL),
    ):
        if present := [trial for trial in trials if by_trial.get(trial)]:
            parts += _render_fresh(title, {trial: by_trial[trial] for trial in present})
    return "\n".join(part.rstrip("\n") + "\n" for part in parts)


Split = dict[str, Line]


def _splits(lines: list[Line], models: Sequence[str]) -> dict[str, list[Split]]:
    """By trial: the splits that all models have, each a line a model."""
    found: dict[str, dict[int, Split]] = {}
    for line in lines:
        found.setdefault(line["trial"], {}).setdefault(line["split"], {})[line["model"]] = line
    return {
        trial: [splits[seed] for seed in sorted(splits) if set(splits[seed]) >= set(models)]
        for trial, splits in found.items()
    }


# Choosing.


class _Choice:
    """Mean differences of every rule to TM and to random, by trial."""

    def __init__(self, by_trial: dict[str, list[Split]]) -> None:
        self.trials = [trial for trial in (*TRIALS, *SMALL) if by_trial.get(trial)]
        self.large = [trial for trial in self.trials if trial in TRIALS]
        self.small = [trial for trial in self.trials if trial in SMALL]
        self.to_reference: dict[str, dict[str, float]] = {}
        self.to_random: dict[str, dict[str, float]] = {}
        for rule in RULES:
            for trial in self.trials:
                splits = by_trial[trial]
                scores = np.array([_score(rule, split) for split in splits])
                for kept, name in ((self.to_reference, "auuc"), (self.to_random, "random")):
                    other = np.array([split[REFERENCE][name] for split in splits])
                    kept.setdefault(rule.name, {})[trial] = float(np.mean(scores - other))
        self.rules = sorted(self.to_reference, key=self.mean, reverse=True)

    def mean(self, rule: str, trials: Sequence[str] | None = None) -> float:
        of = self.to_reference[rule]
        return float(np.mean([of[t] for t in (self.trials if trials is None else trials)]))

    def least_gain(self, rule: str) -> float:
        return min(self.to_random[rule].values())


def _score(rule: Rule, split: Split) -> float:
    path = split[rule.family.name]["path"]
    return float(path["auuc"][rule.pick(path)])


def _render_choice(by_trial: dict[str, list[Split]]) -> list[str]:
    choice = _Choice(by_trial)
    header = ["selection, grid, weights, scale", *choice.large, "mean"]
    header += [f"mean, {FEW_ROWS:,} rows", "mean of all", "least gain over random"]
    rows = [
        [
            f"**{rule}**" if rule == CHOSEN.name else rule,
            *(_units(choice.to_reference[rule][trial]) for trial in choice.large),
            _units(choice.mean(rule, choice.large)),
            _units(choice.mean(rule, choice.small)) if choice.small else "",
            _units(choice.mean(rule)),
            _units(choice.least_gain(rule)),
        ]
        for rule in choice.rules
    ]
    counts = sorted({len(by_trial[trial]) for trial in choice.trials})
    return [
        "## Choosing\n",
        f"Test AUUC minus that of TM in units of .00001, mean over {_span(counts)} splits a trial "
        f"(seeds from {FIRST_CHOOSING}, stratified by treatment). Columns of single trials: half "
        f'of the rows for training. "{FEW_ROWS:,} rows": so many for training, the others for '
        "testing. Grids are parts of the unconstrained norm: relative (.03, .1, .3, 1), wide "
        "(from .003), upper three, upper two; or the paper's (.5, .8, 1). With parts, mu does not "
        "matter but to the bound: s_poly with mu = 1 on a ball of radius Lambda is s_poly with "
        "mu = .1 on one of Lambda / 10. One-se: the smallest norm within one standard error of "
        "the best. TM: logistic regression, l2 by 5-fold CV.\n",
        page.table(header, rows),
        f"Chosen: **{CHOSEN.name}**, place {choice.rules.index(CHOSEN.name) + 1} of "
        f"{len(choice.rules)} by the mean of all. The columns with few rows were added after those "
        f"with half of the rows had been seen; the fresh splits came after the choice.\n",
    ]


# Fresh splits.


def _render_fresh(title: str, by_trial: dict[str, list[Split]]) -> list[str]:
    counts = [f"{len(splits)} splits of {whole(trial)}" for trial, splits in by_trial.items()]
    blocks = [
        [split[model]["auuc"] for model in MODELS]
        for splits in by_trial.values()
        for split in splits
    ]
    ranks = dict(zip(MODELS, mean_ranks(blocks), strict=True))
    random = [page.auuc(_mean(splits, REFERENCE, "random")) for splits in by_trial.values()]
    means = [
        [model, *(page.auuc(_mean(s, model)) for s in by_trial.values()), f"{ranks[model]:.2f}"]
        for model in MODELS
    ]
    to_reference = [
        [model, *(_difference(splits, model, "auuc") for splits in by_trial.values())]
        for model in MODELS
        if model != REFERENCE
    ]
    to_random = [
        [model, *(_difference(splits, model, "random") for splits in by_trial.values())]
        for model in MODELS
    ]
    errors = [_mean(splits, DEFAULT, "gain_standard_error") for splits in by_trial.values()]
    to_random.append(["*one split's standard error*", *(f"{e * 1e5:.0f}" for e in errors)])
    header = ["model", *map(whole, by_trial)]
    return [
        f"## On fresh splits, {title}\n",
        f"{', '.join(counts)}; seeds from 0. Mean test AUUC, and mean rank over splits:\n",
        page.table([*header, "mean rank"], [*means, ["random", *random, ""]]),
        "Minus TM on the same splits, units of .00001, with 95% interval over splits:\n",
        page.table(header, to_reference),
        "Minus random on the same splits, the same units. The last row is the closed-form standard "
        "error of the default's gain on the test rows of one split, the better measure of what a "
        "trial of this size can tell:\n",
        page.table(header, to_random),
    ]


def _values(splits: list[Split], model: str, name: str = "auuc") -> list[float]:
    return [split[model][name] for split in splits]


def _mean(splits: list[Split], model: str, name: str = "auuc") -> float:
    return float(np.mean(_values(splits, model, name)))


def _difference(splits: list[Split], model: str, name: str) -> str:
    return _interval(paired(_values(splits, model), _values(splits, REFERENCE, name)))


def _interval(found: Paired) -> str:
    return f"{_units(found.mean)} ({_units(found.low)} to {_units(found.high)})"


def _units(value: float) -> str:
    return f"{value * 1e5:+.0f}" if round(value * 1e5) else "0"


def _span(counts: list[int]) -> str:
    return " or ".join(str(count) for count in counts)
