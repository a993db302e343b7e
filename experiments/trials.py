"""The five real trials of the experiments, by name."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any

from auucmax import Trial, load_hillstrom
from auucmax.data import DataNotFoundError
from auucmax.data.fetch import fetch_social_pressure
from experiments.harness import Task

HILLSTROM = ("Hillstrom women", "Hillstrom men")
CONVERSION = "Hillstrom women, conversion"
SOCIAL_PRESSURE = ("neighbours", "civic duty", "self")
FEW_ROWS = 4_000

_LOADERS: dict[str, Callable[[], Trial]] = {
    "Hillstrom women": partial(load_hillstrom, "womens", "visit", "22"),
    "Hillstrom men": partial(load_hillstrom, "mens", "visit", "22"),
    CONVERSION: partial(load_hillstrom, "womens", "conversion", "22"),
    "neighbours": partial(fetch_social_pressure, "neighbors", download=False),
    "civic duty": partial(fetch_social_pressure, "civic", download=False),
    "self": partial(fetch_social_pressure, "self", download=False),
}


@lru_cache(maxsize=5)
def load_trial(name: str) -> Trial:
    """The trial of this name; read once."""
    return _LOADERS[name]()


def with_few_rows(name: str) -> str:
    """Name of the trial of which only FEW_ROWS rows are for training."""
    return f"{name}, {FEW_ROWS:,} rows"


@lru_cache(maxsize=2)
def load_split(name: str, seed: int, test_size: float) -> tuple[Trial, Trial]:
    """Training and test part, with the same share of treated in both."""
    trial = load_trial(whole(name))
    if name != whole(name):
        test_size = 1 - FEW_ROWS / trial.n_rows
    return trial.split(test_size=test_size, by="treatment", random_state=seed)


def whole(name: str) -> str:
    """Name of the trial without what :func:`with_few_rows` adds."""
    return name.removesuffix(with_few_rows(""))


def probe(name: str) -> None:
    """Load a trial of this module; names of others (drawn populations) are left alone."""
    if whole(name) in _LOADERS:
        load_trial(whole(name))


def available(tasks: Sequence[Task], load: Callable[[str], Any] | None = None) -> list[Task]:
    """Tasks whose trial can be loaded; the others are named once, with the reason."""
    missing = set()
    for trial in dict.fromkeys(task.trial for task in tasks):
        try:
            (load or probe)(trial)
        except DataNotFoundError as error:
            print(f"skipped {trial}: {error}", file=sys.stderr)
            missing.add(trial)
    return [task for task in tasks if task.trial not in missing]
