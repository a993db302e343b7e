"""Kinds of outcomes: 0/1, counts, money with zeros, or any number.

One place decides it, so that a fit, a check, a page and a message say the same.
"""

from __future__ import annotations

import numpy as np

from auucmax._validation import Bools, Floats
from auucmax.results import Kind

BINARY = Kind.BINARY
_ZEROS = 0.01  # of the rows, from which on zeros are a part of what money looks like
MOSTLY = 0.5  #: of the rows, from which on one value is the usual one
MOST_BEYOND = 0.2  #: of all outcomes, by size, may lie beyond the range of a certificate


def outcome_kind(y: Floats) -> Kind:
    """Infer the kind of outcome: 0/1, count, money with zeros, or any number.

    Money with zeros is never negative, and at least 1% of it is 0.

    >>> [str(outcome_kind(np.array(y))) for y in ([0, 1.0], [0, 3.0, 1], [0, 9.5], [1.5, 9.5])]
    ['0/1', 'count', 'money with zeros', 'any number']
    """
    if np.isin(y, (0.0, 1.0)).all():
        return Kind.BINARY
    if y.min() < 0:
        return Kind.NUMBER
    if np.array_equal(y, np.rint(y)):
        return Kind.COUNT
    return Kind.MONEY if (y == 0).mean() >= _ZEROS else Kind.NUMBER


def usual_value(y: Floats) -> float | None:
    """The smallest or largest outcome if at least half of the rows have it, else None.

    Most people buy nothing, say: whether they buy tells more of them than how much.

    >>> usual_value(np.array([0, 0, 0, 7.5])), usual_value(np.array([1.5, 2.5, 4.0]))
    (0.0, None)
    """
    for value in (float(y.min()), float(y.max())):
        if np.mean(y == value) >= MOSTLY:
            return float(value)
    return None


def responders(y: Floats) -> Bools | None:
    """Rows whose outcome differs from the most common one (for 0/1 outcomes: rows with 1).

    None if there is no usual value.

    >>> responders(np.array([0, 1.0, 1, 1])).tolist(), responders(np.array([0, 0, 7.5])).tolist()
    ([False, True, True, True], [False, False, True])
    """
    if outcome_kind(y) == Kind.BINARY:
        return np.asarray(y > 0)
    usual = usual_value(y)
    return None if usual is None else np.asarray(y != usual)


def share_beyond(y: Floats, outcome_range: tuple[float, float]) -> float:
    """Share of the total outcome, by size, that lies outside a range.

    >>> share_beyond(np.array([0, 40.0, 60]), (0, 50))
    0.1
    """
    low, high = outcome_range
    lost = np.maximum(y - high, 0) + np.maximum(low - y, 0)
    return float(lost.sum()) / (float(np.abs(y).sum()) or 1.0)
