"""Rows that belong together (a household, a shop): which of them may be tested as independent."""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from auucmax.data.trial import Trial

__all__ = ["Variation", "independent_rows", "warn_of_clusters", "within_clusters"]

Codes = NDArray[np.intp]

# Shares of the variation that rows randomised one by one would have: below the first, treatment
# goes by cluster; below the second it does so beyond doubt, with a few wrong records.
BY_CLUSTER = 0.5
NEARLY_NONE = 0.1
# With less expected than this, clusters without variation may be an accident.
ENOUGH = 10.0


class Variation(NamedTuple):
    """How treatment varies within clusters of two rows or more."""

    found: float
    expected: float  # if rows had been randomised one by one
    repeated: int  # clusters of two rows or more
    mixed: int  # those of them with more than one arm


def within_clusters(codes: Codes, treatment: NDArray[np.generic]) -> Variation:
    """Variation of treatment within clusters, against that of independent rows.

    found = sum over clusters of n - sum over arms of n_arm^2 / n, which for independent rows has
    the mean sum of (n - 1) (1 - sum over arms of share^2).
    """
    size = np.bincount(codes)
    squares, concentration = np.zeros(len(size)), 0.0
    arm_codes, arms = pd.factorize(treatment)
    largest = np.zeros(len(size), dtype=size.dtype)
    for arm in range(len(arms)):
        count = np.bincount(codes[arm_codes == arm], minlength=len(size))
        squares += count.astype(np.float64) ** 2
        largest = np.maximum(largest, count)
        concentration += (count.sum() / len(codes)) ** 2
    found = float(np.sum(size - squares / np.maximum(size, 1)))
    extra = len(codes) - np.count_nonzero(size)
    mixed = int(np.count_nonzero(largest < size))
    return Variation(found, extra * (1 - concentration), int(np.count_nonzero(size > 1)), mixed)


def independent_rows(trial: Trial, codes: Codes, rng: np.random.Generator) -> tuple[Trial, str]:
    """The rows that may be tested as independent, and a sentence that says which.

    One row of each cluster, drawn at random, where treatment goes by cluster; all rows where it
    varies within clusters about as much as it would if rows had been randomised one by one.
    """
    variation = within_clusters(codes, trial.treatment)
    if variation.repeated == 0:
        return trial, "each cluster has one row"
    if variation.found >= BY_CLUSTER * variation.expected:
        return trial, "all rows are tested, for treatment varies within clusters"
    order = rng.permutation(trial.n_rows)
    rows = np.sort(order[~pd.Series(codes[order]).duplicated().to_numpy()])
    exceptions = f" (but in {variation.mixed:,})" if variation.mixed else ""
    return trial.take(rows), (
        f"one row of each of the {len(rows):,} clusters is tested (of {trial.n_rows:,} rows), for "
        f"treatment is the same within clusters{exceptions}"
    )


def warn_of_clusters(trial: Trial) -> None:
    """Warn if rows share an id and treatment goes by it, more than chance would have it."""
    if trial.id is None:
        return
    variation = within_clusters(pd.factorize(trial.id)[0], trial.treatment)
    if variation.expected < ENOUGH or variation.found > NEARLY_NONE * variation.expected:
        return
    same = 1 - variation.mixed / variation.repeated
    warnings.warn(
        f"trial.id should name each row, or groups should be given; got {variation.repeated:,} ids "
        f"of several rows, {same:.1%} of them with one treatment for all. Rows of one id are then "
        f"not independent, and a fair trial may be blamed: pass groups=trial.id. (If each row was "
        f"randomised by itself, pass groups=range(len(y)).)",
        stacklevel=3,
    )
