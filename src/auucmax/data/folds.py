"""Stratified random splits of a trial, and folds for scikit-learn."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator

from auucmax._validation import (
    ROUTING,
    check_choice,
    check_column,
    check_labels,
    check_one_dimensional,
    check_whole,
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
    shuffle : bool, default True
        Assign the rows of a stratum to folds in random order; otherwise in the order of rows.
    random_state : int, Generator or None
        The same seed gives the same folds. Ignored without ``shuffle``.

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

    # Whatever splits is a cross-validator for scikit-learn, whose own base class takes long to
    # import: it brings all of model selection.
    __metadata_request__split: ClassVar = {"treatment": True}

    def __init__(
        self,
        n_splits: int = 5,
        *,
        by: str = "treatment",
        shuffle: bool = True,
        random_state: int | np.random.Generator | None = None,
    ) -> None:
        self.n_splits = n_splits
        self.by = by
        self.shuffle = shuffle
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
        if treatment is None:
            raise ValueError(
                f"TrialKFold needs treatment, one label a row, got none. Call split(X, y, "
                f"treatment=t); for cross_validate or GridSearchCV add the line {ROUTING} and pass "
                f"treatment there."
            )
        n_rows = X.shape[0] if hasattr(X, "shape") else None if X is None else len(X)
        strata = make_strata(treatment, y, by=self.by, n_rows=n_rows, than="X")
        strata.require(n_splits, "one for each fold", "use fewer folds")
        rng = np.random.default_rng(self.random_state) if self.shuffle else None
        # Numbers run on from stratum to stratum, so no two folds differ by more than one row, in
        # all or within a stratum.
        fold = np.empty(len(strata.codes), dtype=np.intp)
        fold[_order_by_stratum(strata.codes, rng)] = np.arange(len(fold)) % n_splits
        for k in range(n_splits):
            test = fold == k
            yield np.flatnonzero(~test), np.flatnonzero(test)

    def get_n_splits(
        self, X: Any = None, y: Any = None, groups: Any = None, *, treatment: Any = None
    ) -> int:
        """Number of folds; the arguments are ignored."""
        return check_whole(self.n_splits, "n_splits", 2)


@dataclass(frozen=True)
class Strata:
    """Strata of rows: ``codes`` (n,) from 0 to len(names) - 1, none empty."""

    codes: Codes
    names: tuple[str, ...]

    def require(self, at_least: int, reason: str, *remedies: str) -> None:
        """Raise an error if the smallest stratum has fewer rows than ``at_least``."""
        sizes = np.bincount(self.codes)
        smallest = int(sizes.argmin())
        name = self.names[smallest]
        if sizes[smallest] < at_least:
            crossed = ['use by="treatment"'] * (" and outcome " in name)
            raise ValueError(
                f"Each stratum should have at least {at_least} rows, {reason}; got "
                f"{sizes[smallest]} with {name}. To go on, "
                f"{', or '.join([*crossed, *remedies, 'drop these rows'])}."
            )


def make_strata(
    treatment: ArrayLike,
    y: ArrayLike | None = None,
    *,
    by: str,
    n_rows: int | None = None,
    than: str = "y",
) -> Strata:
    """Stratify rows by arm, or by arm and outcome level.

    Columns should have ``n_rows`` rows, as many as the argument ``than`` of the caller has.
    """
    check_choice(by, "by", ("treatment", "treatment-outcome"))
    labels = check_labels(treatment, "treatment", n_rows, than=than)
    if y is not None:
        y = check_one_dimensional(y, "y", len(labels), than="treatment" if n_rows is None else than)
    arm_codes, arms = pd.factorize(labels, sort=True)
    if len(arms) < 2:
        raise ValueError(
            f"treatment should have at least two levels, treated and control; all {len(labels)} "
            f"rows have {arms.tolist()[0]!r}. An effect needs both arms."
        )
    names = [f"treatment {arm!r}" for arm in arms.tolist()]
    if by == "treatment":
        return Strata(arm_codes, tuple(names))
    if y is None:
        raise ValueError('by="treatment-outcome" needs y, got none. Pass the outcomes.')
    y = check_column(y, "y")
    levels, values = pd.factorize(y, sort=True)
    level_names = [f"outcome {value:g}" for value in values[:2]]
    if len(values) > 2:  # often most outcomes are 0, and quantiles of all of them would be too
        cuts = np.quantile(y[y != 0], [1 / 3, 2 / 3])
        levels = np.where(y != 0, 1 + np.searchsorted(cuts, y), 0)
        thirds = ("lowest", "middle", "highest")
        level_names = ["outcome 0", *(f"outcome in the {third} third" for third in thirds)]
    # Arms need not have every level: number only the strata that occur.
    n = len(level_names)
    codes, present = pd.factorize(arm_codes * n + levels, sort=True)
    return Strata(codes, tuple(f"{names[k // n]} and {level_names[k % n]}" for k in present))


def places_in_strata(codes: Codes, rng: np.random.Generator | None) -> Codes:
    """Position of each row within its stratum, in random order if ``rng`` is given."""
    order = _order_by_stratum(codes, rng)
    starts = np.cumsum(np.bincount(codes)) - np.bincount(codes)
    position = np.empty(len(codes), dtype=np.intp)
    position[order] = np.arange(len(codes)) - starts[codes[order]]
    return position


def _order_by_stratum(codes: Codes, rng: np.random.Generator | None) -> Codes:
    rows = np.arange(len(codes)) if rng is None else rng.permutation(len(codes))
    return rows[np.argsort(codes[rows], kind="stable")]
