"""Stratified random splits of a trial, and folds for scikit-learn."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_consistent_length

from auucmax._errors import InputError
from auucmax._validation import (
    check_choice,
    check_column,
    check_labels,
    check_treatment_given,
    check_whole,
    listed,
)

Codes = NDArray[np.intp]


class TrialKFold(BaseEstimator):
    """K-fold cross-validation for scikit-learn, stratified by arm.

    Parameters
    ----------
    n_splits : int, default 5
        Number of folds, at least 2.
    by : {"treatment", "treatment-outcome"}, default "treatment"
        What has equal shares in all folds. "treatment-outcome" crosses the arm with the outcome:
        its values if there are at most two, otherwise zero and the tertiles of the rest. That
        steadies comparisons of models, but class counts of a fold are then no longer random, so
        unconditional finite-sample certificates no longer hold on it.
    random_state : int, Generator or None
        The same seed gives the same folds. Rows of a stratum are assigned in random order.

    Notes
    -----
    The request for ``treatment`` is declared on the class. With
    ``sklearn.set_config(enable_metadata_routing=True)`` pass ``params={"treatment": t}`` to
    ``cross_validate``, or ``treatment=t`` to ``GridSearchCV.fit``. Without that line scikit-learn
    passes the treatment neither to folds nor to scorers.

    Examples
    --------
    >>> import numpy as np
    >>> from auucmax.data.folds import TrialKFold
    >>> t = np.array(["mail", "none", "none", "mail", "none", "none"])
    >>> folds = TrialKFold(2, random_state=0)
    >>> [t[test].tolist() for _, test in folds.split(np.zeros((6, 1)), treatment=t)]
    [['none', 'mail', 'none'], ['mail', 'none', 'none']]
    """

    # Any class with ``split`` is a cross-validator for scikit-learn; its base class is slow to
    # import.
    __metadata_request__split: ClassVar = {"treatment": True}

    def __init__(
        self,
        n_splits: int = 5,
        *,
        by: str = "treatment",
        random_state: int | np.random.Generator | None = None,
    ) -> None:
        self.n_splits = n_splits
        self.by = by
        self.random_state = random_state

    def split(
        self,
        X: Any,
        y: ArrayLike | None = None,
        groups: Any = None,
        *,
        treatment: ArrayLike | None = None,
    ) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp]]]:
        """Yield sorted (train, test) row positions; the test sets are disjoint."""
        n_splits = self.get_n_splits()
        treatment = check_treatment_given(treatment)
        check_consistent_length(X, y, treatment)
        codes = make_strata(treatment, y, by=self.by, least=n_splits)
        rng = np.random.default_rng(self.random_state)
        # Numbers run on from stratum to stratum, so no two folds differ by more than one row, in
        # all or within a stratum.
        sizes = np.bincount(codes)
        fold = ((np.cumsum(sizes) - sizes)[codes] + places_in_strata(codes, rng)) % n_splits
        for k in range(n_splits):
            test = fold == k
            yield np.flatnonzero(~test), np.flatnonzero(test)

    def get_n_splits(
        self, X: Any = None, y: Any = None, groups: Any = None, *, treatment: Any = None
    ) -> int:
        """Number of folds; the arguments are ignored."""
        return check_whole(self.n_splits, "n_splits", 2)


def make_strata(
    treatment: ArrayLike, y: ArrayLike | None = None, *, by: str, least: int = 1
) -> Codes:
    """Stratify rows by arm, or by arm and outcome level: codes 0, 1, ... (n,).

    Each stratum should have at least ``least`` rows.
    """
    check_choice(by, "by", ("treatment", "treatment-outcome"))
    labels = check_labels(treatment, "treatment")
    codes, arms = pd.factorize(labels, sort=True)
    if len(arms) < 2:
        raise InputError(
            "treatment", "of two levels, treated and control", f"{listed(arms)} in all rows",
            "An effect needs both arms.",
        )  # fmt: skip
    if by == "treatment-outcome":
        if y is None:
            raise InputError("y", f"given with by={by!r}", "none", "Pass the outcomes.")
        outcome = check_column(y, "y", len(labels), than="treatment")
        levels, values = pd.factorize(outcome, sort=True)
        if len(values) > 2:  # often most outcomes are 0, and quantiles of all of them would be too
            cuts = np.quantile(outcome[outcome != 0], [1 / 3, 2 / 3])
            levels = np.where(outcome != 0, 1 + np.searchsorted(cuts, outcome), 0)
        # Arms need not have every level: number only the strata that occur.
        codes = pd.factorize(4 * codes + levels, sort=True)[0]
    sizes = np.bincount(codes)
    if sizes.min() < least:
        raise InputError(
            "strata", f"of at least {least} rows each", f"one of {sizes.min()}",
            'Use by="treatment" or fewer folds, or drop these rows.',
        )  # fmt: skip
    return codes


def places_in_strata(codes: Codes, rng: np.random.Generator) -> Codes:
    """Position of each row within its stratum, in random order."""
    rows = rng.permutation(len(codes))
    position = np.empty(len(codes), dtype=np.intp)
    position[rows] = pd.Series(rows).groupby(codes[rows]).cumcount()
    return position
