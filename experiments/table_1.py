"""The paper's Table 1 with all of its models, on Hillstrom and on four more trials.

Every model has the paper's grid, the same splits and, if it is linear, the same features, min-max;
see :mod:`experiments.searched` for what is searched. Linear models are solved exactly, and once
more by the paper's optimiser. The page is written by :mod:`experiments.table_1_page`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from auucmax import AUUCMax
from auucmax.baselines import MinimaxLinear, UpliftLambdaMART
from experiments.arm_logistic import PathTuned
from experiments.harness import Line, Task
from experiments.models import describe, measure
from experiments.searched import RATES, ClassMeans, Searched, Tuned, Variant
from experiments.trials import CONVERSION, load_split

NAME = "table-1"
CLASS_MEANS = "class means"
MAIN = "Hillstrom women"
OTHERS = ("Hillstrom men", CONVERSION, "neighbours", "civic duty")
TEST_SIZE = 0.3
LINEAR_SPLITS = 100  # of the main trial
SPLITS = 20  # of slow models, and of the other trials
NETWORK_ROWS = 30_000  # training rows of networks, at most: about those of Hillstrom

Make = Callable[[int], Any]


def _as_paper(surrogate: str, selection: str, **more: Any) -> Make:
    """The paper's problem: its surrogate and grid, and arms that count the same."""
    return lambda seed: AUUCMax(
        surrogate, scale="min-max", grid="paper", weights="uniform", selection=selection,
        random_state=seed, **more,
    )  # fmt: skip


LINEAR: dict[str, Make] = {
    "TM": lambda seed: PathTuned("TM", random_state=seed),
    "CVT": lambda seed: Tuned("CVT", random_state=seed),
    "SVM-DP": lambda seed: Searched("SVM-DP", random_state=seed),
    "DDR": lambda seed: Tuned("DDR", random_state=seed),
    "SDR": lambda seed: Tuned("SDR", random_state=seed),
    "MML": lambda seed: MinimaxLinear(random_state=seed),
    "AUUC-max s_poly, cv": _as_paper("s_poly", "cv"),
    "AUUC-max s_poly, bound": _as_paper("s_poly", "bound"),
    "AUUC-max s_log, cv": _as_paper("s_log", "cv"),
    "AUUC-max s_log, bound": _as_paper("s_log", "bound"),
    "AUUCMax()": lambda seed: AUUCMax(random_state=seed),
    'AUUCMax(selection="certificate")': lambda seed: AUUCMax(
        selection="certificate", random_state=seed
    ),
    CLASS_MEANS: lambda seed: ClassMeans(),
}
SLOW: dict[str, Make] = {
    "TARNet": lambda seed: Searched("TARNet", max_rows=NETWORK_ROWS, random_state=seed),
    "PCG": lambda seed: UpliftLambdaMART("pcg", n_jobs=1, random_state=seed),
    "NDCG": lambda seed: UpliftLambdaMART("ndcg", n_jobs=1, random_state=seed),
    "GANITE": lambda seed: Searched("GANITE", folds=1, max_rows=NETWORK_ROWS, random_state=seed),
}
#: The paper's own optimiser, with its batches, learning rates and early stopping.
BY_ADAM: dict[str, Make] = {
    **{
        f"{model}, Adam": (
            lambda seed, model=model: Variant(model, rates=RATES[model], random_state=seed)
        )
        for model in ("TM", "CVT", "DDR", "SDR")
    },
    "AUUC-max s_poly, bound, Adam": _as_paper(
        "s_poly", "bound", solver="adam", learning_rates=RATES["AUUC-max"]
    ),
}
#: In the order of the paper's table.
MODELS = (
    *list(LINEAR)[:6], "TARNet", "GANITE", "PCG", "NDCG", *list(LINEAR)[6:10], *BY_ADAM,
    *list(LINEAR)[10:],
)  # fmt: skip


def tasks(splits: int | None = None) -> list[Task]:
    """The main trial and the quick models first, then split by split: a piece is of use alone."""
    found = []
    for trials, models, number in (
        ((MAIN,), LINEAR, LINEAR_SPLITS),
        ((MAIN,), SLOW | BY_ADAM, SPLITS),
        (OTHERS, LINEAR, SPLITS),
        (OTHERS, SLOW, SPLITS),
    ):
        seeds = range(min(splits or number, number))
        found += [Task(NAME, t, m, seed) for seed in seeds for t in trials for m in models]
    return found


def model_of(task: Task) -> Any:
    if task.model == "SDR" and not task.trial.startswith("Hillstrom"):
        return PathTuned("SDR, treatment column", random_state=task.split)
    return (LINEAR | SLOW | BY_ADAM)[task.model](task.split)


def parameters(task: Task) -> dict[str, Any]:
    return describe(model_of(task)) | {"test_size": TEST_SIZE}


def run(task: Task) -> Line:
    train, test = load_split(task.trial, task.split, TEST_SIZE)
    return measure(task, model_of(task), train, test) | {"parameters": parameters(task)}


def render(lines: list[Line]) -> str:
    """The page of the appendix."""
    from experiments.table_1_page import render_section  # it reads the names above

    return render_section(lines)
