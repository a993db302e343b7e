"""A fitted raw column and its terms, as plain data.

A *term* is a feature, a number that is made of one column's value: the value of a number, 1 where
it is missing, 1 where a text equals a level, the sine of a date's day of the year.

Each level of a column with many levels has two numbers, estimated from outcomes and shrunk:

    base_l   = s_l (mean outcome of the level's rows - that of all rows of their arms)
    effect_l = s_l (difference of the arms in the level - difference of the arms in all rows)

Each s_l = t / (t + v_l), with v_l the variance of the number behind it by chance, and t that of the
levels themselves, by the likelihood of the numbers of all levels (empirical Bayes). So a level of
few rows is shrunk most. Where levels differ no more than chance explains, all have 0, and there is
no such term. Texts that are no level share one number; missing values have 0, as all rows on
average.

A row's own outcome must not be in the number that it gets: a model would trust it too much. So
training rows are assigned to folds by their keys, and their numbers come from the other folds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from auucmax._validation import Bools, Floats
from auucmax.encoding.kinds import KINDS
from auucmax.results import read_json

#: Lengths in days of the cycles of dates.
CYCLES = {"year": 365.2425, "week": 7.0, "day": 1.0}
#: Share of a cycle by which a wave runs ahead of the sine.
SHIFTS = {"sine": 0.0, "cosine": 0.25}
WAVE_DIGITS = 6  #: to which waves are rounded
_OUTCOME_TERMS = ("base", "effect")  # terms of levels, estimated from outcomes


@dataclass(frozen=True)
class Term:
    """A numeric feature derived from a column, with its printed name.

    ``kind`` is "value", "missing", "level", "other", "base", "effect", "sine" or "cosine".
    ``level`` is that of a level, or the cycle of a sine or cosine.
    """

    kind: str
    column: str
    level: str | None = None
    fill: float = 0.0
    name: str = ""


@dataclass(frozen=True)
class Column:
    """A fitted raw column and the terms derived from it.

    A category has ``levels``, sorted; ``other_share`` if training had texts that are no level,
    their share among all texts; ``takes_new`` if such texts are accepted though training had few or
    none. A code has levels, too, the texts of whole numbers. Each level has a feature; but if there
    are many whose outcomes differ, they have numbers instead: ``base`` or ``effect``, or both, a
    number a level and one for all other texts.

    Another kind has ``fill``, the median, for missing values (None: all were missing), and
    ``varies`` unless all its values are the same. A date has ``cycles``, some of :data:`CYCLES`.
    """

    name: str
    kind: str
    levels: tuple[str, ...] = ()
    has_missing: bool = False
    fill: float | None = None
    varies: bool = True
    other_share: float = 0.0
    takes_new: bool = False
    cycles: tuple[str, ...] = ()
    base: tuple[float, ...] = ()
    effect: tuple[float, ...] = ()

    @classmethod
    def of_plain(cls, plain: Mapping[str, Any]) -> Self:
        """Restore a column from ``to_plain``; raise a ValueError for anything else."""
        # The class is a variable, which mypy does not take as a part of a type.
        column: Self = read_json(tuple[cls], [plain])[0]  # type: ignore[valid-type]
        levels = list(column.levels)
        means = [getattr(column, kind) for kind in column.outcome_terms]
        is_right = (
            column.kind in KINDS
            and 0 <= column.other_share <= 1
            and (column.fill is None) == column.has_levels
            and len(set(levels)) == len(levels)
            # Codes are whole numbers in order.
            and (
                column.kind != "code"
                or levels == [str(n) for n in sorted(map(int, levels)) if abs(n) < 2**53]
            )
            and (not column.cycles or column.kind == "date")
            and list(column.cycles) == [cycle for cycle in CYCLES if cycle in column.cycles]
            and all(len(own) == len(levels) + 1 for own in means)
            and (not means or column.kind == "category")
            and column.terms
        )
        if not is_right:
            raise ValueError(f"there is no such column as {column!r}"[:200])
        return column

    def to_plain(self) -> dict[str, Any]:
        """The column as plain JSON, without default values."""
        usual = asdict(Column(self.name, self.kind))
        held = asdict(self).items()
        return {
            name: value for name, value in held if name in ("name", "kind") or value != usual[name]
        }

    @property
    def has_other(self) -> bool:
        """Whether texts other than the levels have a feature."""
        return self.other_share > 0

    @property
    def has_levels(self) -> bool:
        """Whether the column is a category or a code."""
        return self.kind in ("category", "code")

    @property
    def outcome_terms(self) -> list[str]:
        """Kinds of terms that are estimated from outcomes."""
        return [kind for kind in _OUTCOME_TERMS if getattr(self, kind)]

    @property
    def means(self) -> Floats:
        """Outcome terms of each level, other texts, and missing, (levels + 2, terms)."""
        return np.array([(*getattr(self, kind), 0.0) for kind in self.outcome_terms]).T

    @cached_property
    def terms(self) -> list[Term]:
        """The features of the column, in order; none if it is constant.

        >>> [term.name for term in Column("town", "category", ("a", "b"), other_share=0.1).terms]
        ['town=a', 'town=b', 'town: other']
        """
        name, terms = self.name, []
        if self.outcome_terms:
            terms += [Term(kind, name, None, 0.0, f"{name}: {kind}") for kind in self.outcome_terms]
        elif self.has_levels:
            terms += [Term("level", name, level, 0.0, f"{name}={level}") for level in self.levels]
            terms += [Term("other", name, None, 0.0, f"{name}: other")] if self.has_other else []
        elif self.fill is None:
            return []
        elif self.varies:
            terms.append(Term("value", name, None, self.fill, name))
        terms += [
            Term(kind, name, cycle, 0.0, f"{name}: {kind} of the {cycle}")
            for cycle in self.cycles
            for kind in SHIFTS
        ]
        # One value and missing ones: only missingness varies.
        if self.has_missing:
            terms.append(Term("missing", name, None, 0.0, f"{name}: missing"))
        return [] if self.has_levels and not self.outcome_terms and len(terms) == 1 else terms

    @property
    def flaw(self) -> str:
        """Why the column has no terms, if it has none."""
        if self.has_other or (self.takes_new and not self.levels):
            return "with rare levels only"
        return "with one value" if self.levels or self.fill is not None else "without values"


def wave(days: Floats, kind: str, cycle: str) -> Floats:
    """Sine or cosine of the phase of dates in a cycle; 0 where missing.

    Rounded, since libraries differ in the last digits of a sine, and trees may cut between these.

    >>> wave(np.array([0.0, 1.75, np.nan]), "sine", "week").tolist()
    [0.0, 1.0, 0.0]
    """
    turns = days / CYCLES[cycle] + SHIFTS[kind]
    turns -= np.floor(turns)
    return np.nan_to_num(np.round(np.sin(2 * np.pi * turns), WAVE_DIGITS))


def write_features(features: Floats, column: Column, values: NDArray[Any], means: Floats) -> None:
    """Write the features of one column into a zero array.

    Values are numbers, NaN where missing; of a column of levels their places among all levels, the
    next place for other texts, -1 where missing. ``means``: of each row's level, if it has some.
    """
    if column.has_missing:
        features[:, -1] = values < 0 if column.has_levels else np.isnan(values)
    features[:, : means.shape[1]] = means
    if column.has_levels and not column.outcome_terms:
        # The feature of each place; the last is that of missing values, whose place is -1.
        n_levels = len(column.levels)
        of_place = np.array([*range(n_levels), n_levels if column.has_other else -1, -1])
        own = of_place[values]
        rows = np.flatnonzero(own >= 0)
        features[rows, own[rows]] = 1.0
    else:
        for k, term in enumerate(column.terms):
            if term.kind == "value":
                features[:, k] = np.where(np.isnan(values), term.fill, values)
            elif term.kind in SHIFTS:
                features[:, k] = wave(values, term.kind, str(term.level))


MOST_LEVELS = 500  #: of a column that are named, so that a model file stays small
N_FOLDS = 5
_CLEARLY = 2.7  # by which the deviance falls in one of twenty columns whose levels do not differ
_SPREADS = np.geomspace(1e-4, 1e4, 81)  # of levels that are tried, as variances by chance


class Means(NamedTuple):
    """Values of the levels of a column, and of other texts, (levels + 1,) each.

    All are 0 where levels do not differ.
    """

    base: Floats
    effect: Floats


def fold_of(keys: NDArray[Any]) -> NDArray[np.int64]:
    """The fold of each row by a hash of its key, (n,)."""
    return (pd.util.hash_array(np.asarray(keys)) % np.uint64(N_FOLDS)).astype(np.int64)


def sums_of(
    places: NDArray[np.intp],
    n_levels: int,
    y: Floats,
    treated: Bools,
    keys: NDArray[Any],
    weight: Floats | None = None,
) -> Floats:
    """Sums of 1, y and y^2 by fold, level and arm, (folds, levels + 2, 2, 3).

    ``places``: of the levels of the rows, -1 where missing. After the levels come other texts, and
    missing values; arms are control and treated. ``weight``: of rows that do not all count as one.
    """
    shape = (N_FOLDS, n_levels + 2, 2)
    cell = np.ravel_multi_index((fold_of(keys), places % shape[1], treated.astype(int)), shape)
    size = int(np.prod(shape))
    weight = np.ones(len(y)) if weight is None else weight
    sums = [np.bincount(cell, weight * y**power, minlength=size) for power in range(3)]
    return np.stack(sums, axis=-1, dtype=np.float64).reshape(*shape, 3)


def means_of(sums: Floats, fewest_rows: int, *, clearly: bool) -> Means:
    """Outcome-based values of each level, from sums (levels + 2, 2, 3).

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
    """Shrink the deviations of levels by their sampling variances.

    Those that are not known are 0. How far levels differ is estimated from the levels alone.

    >>> values = np.array([1.0, -1.0, 0.5, -0.5, 0.0])
    >>> shrunk(values, np.ones(5), np.full(5, True))
    array([0., 0., 0., 0., 0.])
    >>> shrunk(100 * values, np.ones(5), np.full(5, True)).round()
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
    """Values of the levels from the rows outside each fold, (folds, levels + 2, terms).

    For those levels of the column that have a number by all rows.
    """
    result = np.zeros((*sums.shape[:2], len(column.outcome_terms)))
    for fold in range(N_FOLDS):
        apart = means_of(sums.sum(axis=0) - sums[fold], 1, clearly=False)
        result[fold, :-1] = np.array([getattr(apart, kind) for kind in column.outcome_terms]).T
    return np.where(column.means != 0, result, 0.0)
