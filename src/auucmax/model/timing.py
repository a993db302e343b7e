"""How long a fit takes, as small fits of its parts tell, and how it is kept within some minutes.

Every part of a fit takes time in proportion to rows: encoding, what a model does apart from trees,
trees, and each rival. So one small fit of each tells how long all folds, chunks and the model that
is kept will take. If that is too long, in this order: trees learn from fewer rows, down to 5,000;
rivals are left out; all models learn from fewer rows, down to 5,000.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from auucmax._progress import about
from auucmax.model.crossfit import LEAST, Recipe, TableRows, every_row, fewest_rows

LEAST_ROWS = 5_000  #: that models learn from, however little time there is
_PILOT_ROWS = 10_000  # of the small fits
_WARM_ROWS = 2_000  # of the fits before them, in which libraries are imported and compiled
_FIXED, _EACH = 3.0, 3e-5  # seconds that evidence takes: in any case, and for a row
_SPARE = 0.9  # of the time that is used: the rest is for what the small fits do not tell
_TREES = 40  # that a small fit grows, of the 160 that a fit may grow


@dataclass(frozen=True)
class Pace:
    """Seconds a row: of encoding, of a model apart from its trees, of trees, of each rival."""

    encoding: float
    model: float
    trees: float
    rivals: Mapping[str, float]

    def seconds(self, n_rows: int, recipe: Recipe, rivals: Sequence[str]) -> float:
        """What all fits of a recipe take, and all rows are scored."""
        every = np.array(recipe.fits) * n_rows
        learnt = np.minimum(every, recipe.learn_rows or np.inf)
        grown = np.minimum(learnt, recipe.max_rows or np.inf)
        # The fits of folds, or that of the hold-out, are those of rivals as well.
        shared = learnt[: 1 if recipe.hold_out else recipe.n_folds].sum()
        return float(
            self.encoding * (learnt.sum() + 3 * n_rows)
            + self.model * learnt.sum()
            + self.trees * grown.sum()
            + sum(self.rivals[name] for name in rivals) * shared
        )


class Kept(NamedTuple):
    """A recipe that keeps within a time, the rivals that are fitted, and what was done for it."""

    recipe: Recipe
    rivals: tuple[str, ...]
    told: str | None


def keep_within(
    rows: TableRows,
    recipe: Recipe,
    rivals: tuple[str, ...],
    ends: float,
    make: Callable[[str, Recipe], Any],
) -> Kept:
    """What of a fit is done until the clock is at ``ends``; ``make`` makes an estimator of a name.

    The clock is :func:`time.perf_counter`.
    """
    models = {name: make(name, recipe) for name in (recipe.model, *rivals)}
    pace = pace_of(rows, models, recipe.key)
    if pace is None:
        return Kept(recipe, rivals, "Outcomes are too rare for small fits to tell the time.")
    n = len(rows.y)
    left = _SPARE * (ends - time.perf_counter()) - _FIXED - _EACH * n

    def takes(trees: int, every: int, names: Sequence[str]) -> float:
        return pace.seconds(n, replace(recipe, max_rows=trees, learn_rows=every), names)

    if takes(0, 0, rivals) <= left:
        return Kept(recipe, rivals, None)
    gone = f"; rivals ({', '.join(rivals)}) were left out" if rivals else ""
    for names in (rivals, ()) if pace.trees else ():
        if takes(LEAST_ROWS, 0, names) <= left:
            most = recipe.max_rows or n
            trees = _most(lambda m: takes(m, 0, names) <= left, most)  # noqa: B023
            told = f"trees learnt from {trees:,} rows at most" + ("" if names else gone)
            return Kept(replace(recipe, max_rows=trees), tuple(names), f"To be in time, {told}.")
    if not pace.trees and takes(0, 0, ()) <= left:
        return Kept(recipe, (), f"To be in time, {gone.removeprefix('; ')}.")
    trees = LEAST_ROWS if pace.trees else 0
    every = _most(lambda m: takes(trees, m, ()) <= left, n)
    told = f"To be in time, models learnt from {every:,} rows at most{gone}."
    if (least := takes(trees, every, ())) > left:
        told += f" Even so it takes {about(least - left)} longer: there is no quicker way."
    return Kept(replace(recipe, max_rows=trees, learn_rows=every), (), told)


def _most(is_right: Callable[[int], bool], n: int) -> int:
    """The largest number of rows that is right, at least ``LEAST_ROWS``."""
    low, high = LEAST_ROWS, max(n, LEAST_ROWS)
    while high - low > low // 100:
        middle = (low + high) // 2
        low, high = (middle, high) if is_right(middle) else (low, middle)
    return low


def pace_of(rows: TableRows, models: Mapping[str, Any], key: str) -> Pace | None:
    """The pace of some models, the first of which is the one that is kept.

    None if outcomes are so rare that not even all rows are enough for a small fit.
    """
    # Other bits of the keys than those that deal folds.
    order = np.argsort(rows.keys * np.uint64(0x9E3779B97F4A7C15))
    found = None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of small fits nothing is to be known
        for size in (_WARM_ROWS, _PILOT_ROWS):
            small = _small(rows, order, size, key)
            if small is None:
                return None
            found = _timed(small, models)  # the second time, when libraries are compiled, counts
    return found


def _small(rows: TableRows, order: Any, size: int, key: str) -> TableRows | None:
    """The first of the rows in an order, or more, so that models can learn from them."""
    while True:
        small = TableRows(rows.raw.frame.iloc[order[:size]], rows.columns, key)
        if fewest_rows(small.y, small.treated, slice(None)) >= LEAST:
            return small
        if size >= len(order):
            return None
        size *= 4


def _timed(rows: TableRows, models: Mapping[str, Any]) -> Pace:
    # Late: a command that only reads a model waits for none of this.
    from auucmax.estimators.boosted import EFFECT_ROUNDS, BoostedEffect
    from auucmax.estimators.ensemble import UpliftEnsemble

    n = len(rows.y)

    def seconds(*made: Any) -> float:
        begin = time.perf_counter()
        fitted = rows.fit({str(k): one for k, one in enumerate(made)}, every_row)
        if made:
            rows.scores(fitted, every_row)
        return (time.perf_counter() - begin) / n

    encoding = seconds()
    (_, model), *rivals = models.items()
    members = model.new_members() if isinstance(model, UpliftEnsemble) else [clone(model)]
    trees = [one for one in members if isinstance(one, BoostedEffect)]
    rest = [one for one in members if not isinstance(one, BoostedEffect)]
    grid = dict.fromkeys(("base_rounds", "effect_rounds"), (0, _TREES))
    apart = [
        max(seconds(*made) - encoding, 0.0) if made else 0.0
        for made in (rest, [one.set_params(**grid) for one in trees])
    ]
    paces = {name: max(seconds(clone(one)) - encoding, 0.0) for name, one in rivals}
    return Pace(encoding, apart[0], max(EFFECT_ROUNDS) / _TREES * apart[1], paces)
