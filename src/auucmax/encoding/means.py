"""What outcomes tell of the levels of a column that has many: two numbers a level, shrunk.

    base_l   = s_l (mean outcome of the level's rows - that of all rows of their arms)
    effect_l = s_l (difference of the arms in the level - difference of the arms in all rows)

Each s_l = t / (t + v_l), with v_l the variance of the number behind it by chance, and t that of the
levels themselves, by the likelihood of the numbers of all levels (empirical Bayes). So a level of
few rows is shrunk most. Where levels differ no more than chance explains, all have 0, and there is
no such term. Texts that are no level count as one; missing values have 0, as all rows on average.

A row's own outcome must not be in the number that it gets: a model would trust it too much. So rows
are dealt into folds by their keys, and those that were learnt from get numbers learnt from the
other folds. All of it comes from sums by fold, level and arm, which add up over batches of rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from auucmax._validation import Bools, Floats
from auucmax.encoding.columns import Column

MOST_LEVELS = 500  #: of a column that are named, so that a model file stays small
N_FOLDS = 5
_CLEARLY = 2.7  # by which the deviance falls in one of twenty columns whose levels do not differ
_SPREADS = np.geomspace(1e-4, 1e4, 81)  # of levels that are tried, as variances by chance


class Means(NamedTuple):
    """Numbers of the levels of a column, and of other texts, (levels + 1,) each.

    All are 0 where levels do not differ.
    """

    base: Floats
    effect: Floats


@dataclass(frozen=True, eq=False)
class LevelSums:
    """Sums of rows of some columns, by name: (folds, levels + 2, 2 arms, 3).

    After the levels come other texts, and missing ones; arms are control and treated; the sums are
    those of 1, y and y^2.
    """

    of: Mapping[str, Floats]

    def __add__(self, other: LevelSums) -> LevelSums:
        return LevelSums({name: own + other.of[name] for name, own in self.of.items()})


def fold_of(keys: NDArray[Any]) -> NDArray[np.int64]:
    """(n,) the fold of each row, by a hash of its key."""
    return (pd.util.hash_array(np.asarray(keys)) % np.uint64(N_FOLDS)).astype(np.int64)


def sums_of(
    places: NDArray[np.intp],
    n_levels: int,
    y: Floats,
    treated: Bools,
    keys: NDArray[Any],
    weight: Floats | None = None,
) -> Floats:
    """The sums of a column, by the places of its rows' levels, -1 where missing.

    ``weight``: of rows, if they do not all count as one.
    """
    shape = (N_FOLDS, n_levels + 2, 2)
    cell = np.ravel_multi_index((fold_of(keys), places % shape[1], treated.astype(int)), shape)
    size = int(np.prod(shape))
    times = (None, y, y * y) if weight is None else (weight, weight * y, weight * y * y)
    sums = [np.bincount(cell, each, minlength=size) for each in times]
    return np.stack(sums, axis=-1, dtype=np.float64).reshape(*shape, 3)


def means_of(sums: Floats, fewest_rows: int, *, clearly: bool) -> Means:
    """The numbers of each level, from sums (levels + 2, 2, 3) of rows.

    Levels of fewer rows have 0; so have effects of levels that have fewer rows of an arm.
    ``clearly``: all have 0 unless they differ by more than chance explains.
    """
    n, total, squares = np.moveaxis(sums, -1, 0)
    arms = np.maximum(n.sum(axis=0), 1)
    mean = total.sum(axis=0) / arms
    variance = np.maximum(squares.sum(axis=0) / arms - mean**2, 0)
    n, above = n[:-1], (total - n * mean)[:-1]  # without missing ones
    rows, of_arm = np.maximum(n.sum(axis=1), 1), np.maximum(n, 1)
    base = above.sum(axis=1) / rows
    enough = n.sum(axis=1) >= fewest_rows
    effect = above[:, 1] / of_arm[:, 1] - above[:, 0] / of_arm[:, 0]
    enough_of_both = n.min(axis=1) >= fewest_rows
    return Means(
        shrunk(base, (n @ variance) / rows**2, enough, clearly),
        shrunk(effect, (variance / of_arm).sum(axis=1), enough_of_both, clearly),
    )


def shrunk(deviation: Floats, variance: Floats, known: Bools, clearly: bool = True) -> Floats:
    """Deviations of levels, and of other texts, that have these variances by chance, shrunk.

    Those that are not known are 0. How far levels differ is told by the levels alone.

    >>> alike = np.array([1.0, -1.0, 0.5, -0.5, 0.0])
    >>> shrunk(alike, np.ones(5), np.full(5, True))
    array([0., 0., 0., 0., 0.])
    >>> shrunk(100 * alike, np.ones(5), np.full(5, True)).round()
    array([ 100., -100.,   50.,  -50.,    0.])
    """
    known = known & (variance > 0)
    square, chance = deviation[:-1][known[:-1]] ** 2, variance[:-1][known[:-1]]
    if not len(square):
        return np.zeros(len(deviation))
    spreads = np.append(0.0, np.median(chance) * _SPREADS)
    total = spreads[:, None] + chance
    # Deviance: twice the log-likelihood, with the sign of a loss.
    loss = (np.log(total) + square / total).sum(axis=1)
    best = int(np.argmin(loss))
    t = spreads[best]
    if t == 0 or loss[0] - loss[best] <= _CLEARLY * clearly:
        return np.zeros(len(deviation))
    return np.where(known, deviation * t / (t + np.where(known, variance, 1.0)), 0.0)


def means_apart(sums: Floats, column: Column) -> Floats:
    """(folds, levels + 2, learnt terms): what the rows outside of each fold tell of the levels.

    For those levels of the column that have a number by all rows.
    """
    result = np.zeros((*sums.shape[:2], len(column.learnt)))
    for fold in range(N_FOLDS):
        apart = means_of(sums.sum(axis=0) - sums[fold], 1, clearly=False)
        for k, kind in enumerate(column.learnt):
            result[fold, :-1, k] = getattr(apart, kind)
    return np.where(column.means != 0, result, 0.0)
