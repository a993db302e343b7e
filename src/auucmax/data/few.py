"""Disclosure rules: no number about fewer than 20 people.

Whoever knows the number of people of a part, and the shares of all but a few of them, knows the few
as well. So levels are left out until the others are nobody, or 20 people of each part; and numbers
are rounded, such that no fraction gives its denominator, the people with a value, away.
"""

from __future__ import annotations

import numpy as np

from auucmax._validation import Bools, Floats
from auucmax.data.covariates import Covariates

LEAST_ROWS = 20  #: people, about fewer of whom no number is shown
_COARSEST = 0.01  # of a deviation, or of all people


def tellable(counts: Floats, *, of_arms: bool) -> Bools:
    """Levels (k,) whose shares may be shown, given counts (parts, k).

    Each has 20 people of each part, and so have all the others together, if there are any. Nobody
    in a part is fine too, but ``of_arms`` that would reveal the arm of all who have the level.

    >>> tellable(np.array([[500.0, 300.0, 40.0, 1.0], [500.0, 300.0, 40.0, 0.0]]), of_arms=True)
    array([ True,  True, False, False])
    """
    total = counts.sum(axis=0)
    kept = np.array([_enough(own, of_arms) for own in counts.T], dtype=bool)
    kept &= (total > 0) & (total < total.sum())  # what all have, or nobody, says nothing
    while kept.any() and not _enough(counts[:, ~kept].sum(axis=1), of_arms):
        kept[np.flatnonzero(kept)[total[kept].argmin()]] = False
    return kept


def _enough(counts: Floats, of_arms: bool) -> bool:
    """Whether a count is zero or at least 20 people in each part."""
    enough, none = counts >= LEAST_ROWS - 1e-6, counts <= 1e-6
    return bool(none.all() or (enough if of_arms else enough | none).all())


def tellable_columns(covariates: Covariates, parts: Floats, *, of_arms: bool) -> Bools:
    """Columns (k,) whose means may be shown for ``parts`` (m, n).

    Of a number, 20 people of a part differ from the most frequent value.
    """
    found: list[bool] = []
    for feature in covariates.features:
        known = ~feature.missing
        values, own = feature.values[known], parts[:, known]
        if feature.levels:
            size = len(feature.levels)
            counts = np.stack([np.bincount(values, part, size) for part in own], dtype=np.float64)
            found += tellable(counts, of_arms=of_arms).tolist()
        else:
            # A value that most people have is the median; without one, many differ from it.
            apart = own[:, values != np.median(values)].sum(axis=1) if len(values) else np.zeros(1)
            found.append(bool(apart.sum() > 0 and _enough(apart, of_arms)))
    return np.array(found, dtype=bool)


def step_of(n_people: Floats | float, scale: Floats | float = 1.0) -> Floats:
    """Rounding step for a mean of so many people: a power of ten.

    ``scale``: the deviation of a number; 1 of a share. Never more than a hundredth of it.

    >>> step_of(np.array([200.0, 4_000.0, 1e5])).tolist(), step_of(4_000, 30.0).item()
    ([0.01, 0.001, 0.0001], 0.1)
    """
    people = np.maximum(np.asarray(n_people, dtype=np.float64), 1.0)
    weight = np.asarray(scale) * np.minimum(_COARSEST, LEAST_ROWS / people)
    with np.errstate(divide="ignore"):
        exponent = np.floor(np.log10(weight) + 1e-9)
    return np.asarray(np.where(weight > 0, np.float64(10) ** exponent, 0.0))


def rounded(values: Floats, step: Floats | float) -> Floats:
    """Round values to multiples of a step (0: unchanged).

    >>> rounded(np.array([0.3337, 12.3]), 0.01).tolist()
    [0.33, 12.3]
    """
    values, step = np.broadcast_arrays(np.asarray(values, dtype=np.float64), step)
    digits = np.where(step > 0, -np.log10(np.where(step > 0, step, 1.0)), np.nan)
    found = [
        value if np.isnan(place) or np.isnan(value) else round(value, round(place))
        for value, place in zip(values.ravel().tolist(), digits.ravel().tolist(), strict=True)
    ]
    return np.array(found).reshape(values.shape)


def significant(values: Floats, digits: int = 3) -> Floats:
    """Round values to significant digits.

    >>> significant(np.array([0.123456, 98765.0])).tolist()
    [0.123, 98800.0]
    """
    return np.array([float(f"{value:.{digits}g}") for value in np.asarray(values).tolist()])
