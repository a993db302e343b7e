"""Algorithm 1 of the paper: choose among candidates by a bound, cross-validation or a hold-out.

Knows no estimator: it receives candidates, or a function that fits them on some rows, and numbers
to compare them by. Equal numbers: the earlier candidate, so order candidates from simple to rich.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

R = TypeVar("R")


@dataclass(frozen=True)
class BestCandidate:
    """The number of the chosen candidate, and one row of numbers for each."""

    best: int
    table: list[dict[str, float]]


def choose_by_bound(
    candidates: Sequence[Any], lower_bound: Callable[[Any], dict[str, float]]
) -> BestCandidate:
    """The candidate with the largest ``lower_bound(candidate)["bound"]``: one fit each.

    Examples
    --------
    >>> choose_by_bound([1, 2, 3], lambda c: {"bound": -abs(c - 2)}).best
    1
    """
    table = [lower_bound(candidate) for candidate in candidates]
    return BestCandidate(int(np.argmax([row["bound"] for row in table])), table)


def choose_by_held_out(
    candidates: Sequence[Any], evaluate_all: Callable[[Sequence[Any]], Sequence[float]]
) -> BestCandidate:
    """The candidate with the largest of ``evaluate_all(candidates)``, on rows none was fitted on.

    A certificate on the same rows must then pay for all candidates: delta over their number.

    Examples
    --------
    >>> choose_by_held_out([1.0, 3.0, 2.0], lambda candidates: candidates).best
    1
    """
    values = [float(value) for value in evaluate_all(candidates)]
    return BestCandidate(int(np.argmax(values)), [{"held_out_auuc": value} for value in values])


def choose_by_cv(
    fit_all: Callable[[R], Sequence[Any]],
    evaluate_all: Callable[[Sequence[Any], R], Sequence[float]],
    folds: Iterable[tuple[R, R]],
) -> BestCandidate:
    """The candidate with the best mean over folds of ``evaluate_all(fitted, test rows)``.

    ``fit_all(train rows)`` fits every candidate, always in the same order. Rows are whatever the
    two functions take: their numbers, or the rows themselves.

    Examples
    --------
    >>> folds = [(np.array([0, 1]), np.array([2, 3])), (np.array([2, 3]), np.array([0, 1]))]
    >>> choose_by_cv(lambda rows: [1.0, 5.0], lambda fitted, rows: fitted, folds).table[1]
    {'cv': 5.0, 'cv_standard_error': 0.0}
    """
    return best_over_folds([evaluate_all(fit_all(train), test) for train, test in folds])


def best_over_folds(values: Sequence[Sequence[float]]) -> BestCandidate:
    """The candidate with the largest mean; a row of ``values`` for each fold.

    >>> best_over_folds([[1.0, 5.0], [2.0, 3.0]]).best
    1
    """
    scores = np.array(values)
    mean, error = scores.mean(axis=0), scores.std(axis=0, ddof=1) / np.sqrt(len(scores))
    table = [
        {"cv": float(m), "cv_standard_error": float(e)} for m, e in zip(mean, error, strict=True)
    ]
    return BestCandidate(int(np.argmax(mean)), table)
