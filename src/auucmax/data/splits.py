"""Folds that keep the share of each arm, and on request of each outcome within it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.model_selection import BaseCrossValidator

from auucmax._validation import (
    check_choice,
    check_column,
    check_labels,
    check_one_dimensional,
)

BY = ("treatment", "treatment-outcome")


class Strata(NamedTuple):
    """A stratum for each row: ``codes`` in 0..len(names)-1, every code with at least one row."""

    codes: NDArray[np.intp]
    names: tuple[str, ...]

    def require(self, at_least: int, reason: str, *remedies: str) -> None:
        """Raise an error that names the smallest stratum if it has fewer rows than ``at_least``."""
        sizes = np.bincount(self.codes, minlength=len(self.names))
        smallest = int(sizes.argmin())
        if sizes[smallest] < at_least:
            crossed = " and outcome " in self.names[smallest]
            advice = [*(['use by="treatment"'] if crossed else []), *remedies, "drop these rows"]
            raise ValueError(
                f"Each stratum should have at least {at_least} rows, {reason}; got "
                f"{sizes[smallest]} with {self.names[smallest]}. To go on, {', or '.join(advice)}."
            )


class TrialKFold(BaseCrossValidator):
    """K folds, each with the same share of every arm, for scikit-learn's cross-validation.

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
        Deal the rows of a stratum to the folds in random order; otherwise in the order of rows.
    random_state : int, Generator or None
        The same seed gives the same folds. Ignored without ``shuffle``.

    Notes
    -----
    The request for ``treatment`` is declared on the class. With
    ``sklearn.set_config(enable_metadata_routing=True)`` pass ``params={"treatment": t}`` to
    ``cross_validate``, or ``treatment=t`` to ``GridSearchCV.fit``. Without routing pass
    ``cv=list(folds.split(X, y, treatment=t))``.

    Examples
    --------
    >>> import numpy as np
    >>> from auucmax.data.splits import TrialKFold
    >>> t = np.array(["mail", "none", "none", "mail", "none", "none"])
    >>> folds = TrialKFold(2, random_state=0)
    >>> [t[test].tolist() for _, test in folds.split(np.zeros((6, 1)), treatment=t)]
    [['none', 'mail', 'none'], ['mail', 'none', 'none']]
    """

    __metadata_request__split = {"treatment": True}  # noqa: RUF012 (scikit-learn reads it so)

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
        """Yield (train, test) row positions, each in increasing order; the tests part the rows."""
        n_splits = self._checked_n_splits()
        if treatment is None:
            raise ValueError(
                "TrialKFold needs treatment, one label a row, got none. Call split(X, y, "
                "treatment=t); inside cross_validate or GridSearchCV turn on "
                "sklearn.set_config(enable_metadata_routing=True) and pass treatment there."
            )
        strata = make_strata(treatment, y, by=self.by, n_rows=_n_rows(X), than="X")
        strata.require(n_splits, "one for each fold", "use fewer folds")
        rng = np.random.default_rng(self.random_state) if self.shuffle else None
        fold = _fold_of_row(strata.codes, n_splits, rng)
        for k in range(n_splits):
            test = fold == k
            yield np.flatnonzero(~test), np.flatnonzero(test)

    def get_n_splits(
        self,
        X: Any = None,
        y: Any = None,
        groups: Any = None,
        *,
        treatment: Any = None,
    ) -> int:
        """Number of folds; the arguments are there for scikit-learn."""
        return self._checked_n_splits()

    def _checked_n_splits(self) -> int:
        n = self.n_splits
        if isinstance(n, bool) or not isinstance(n, (int, np.integer)) or n < 2:
            raise ValueError(
                f"n_splits should be a whole number of folds, at least 2, got {n!r}. 5 is usual."
            )
        return int(n)


def make_strata(
    treatment: ArrayLike,
    y: ArrayLike | None = None,
    *,
    by: str,
    n_rows: int | None = None,
    than: str = "y",
) -> Strata:
    """The stratum of each row: its arm, or its arm crossed with the level of its outcome.

    Columns should have ``n_rows`` rows, as many as the argument ``than`` of the caller has.
    """
    check_choice(by, "by", BY)
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
    levels, level_names = _outcome_levels(check_column(y, "y"))
    crossed = arm_codes * len(level_names) + levels
    # Arms need not have every level: number only the strata that occur.
    codes, present = pd.factorize(crossed, sort=True)
    pairs = [divmod(int(code), len(level_names)) for code in present]
    return Strata(codes, tuple(f"{names[a]} and {level_names[v]}" for a, v in pairs))


def deal(codes: NDArray[np.intp], rng: np.random.Generator | None) -> NDArray[np.intp]:
    """Position 0, 1, 2, ... of each row within its stratum, in random order if ``rng`` is given."""
    order = _order_by_stratum(codes, rng)
    starts = np.cumsum(np.bincount(codes)) - np.bincount(codes)
    position = np.empty(len(codes), dtype=np.intp)
    position[order] = np.arange(len(codes)) - starts[codes[order]]
    return position


def _fold_of_row(
    codes: NDArray[np.intp], n_splits: int, rng: np.random.Generator | None
) -> NDArray[np.intp]:
    # Dealing on from stratum to stratum keeps the folds equal in size as well as in shares: no
    # two folds differ by more than one row, in all or within a stratum.
    fold = np.empty(len(codes), dtype=np.intp)
    fold[_order_by_stratum(codes, rng)] = np.arange(len(codes)) % n_splits
    return fold


def _order_by_stratum(codes: NDArray[np.intp], rng: np.random.Generator | None) -> NDArray[np.intp]:
    if rng is None:
        return np.argsort(codes, kind="stable")
    shuffled = rng.permutation(len(codes))
    return shuffled[np.argsort(codes[shuffled], kind="stable")]


def _outcome_levels(y: NDArray[np.float64]) -> tuple[NDArray[np.intp], list[str]]:
    values = pd.unique(y)
    if len(values) <= 2:
        codes, values = pd.factorize(y, sort=True)
        return codes, [f"outcome {value:g}" for value in values]
    nonzero = y != 0
    cuts = np.quantile(y[nonzero], [1 / 3, 2 / 3])
    codes = np.where(nonzero, 1 + np.searchsorted(cuts, y), 0)
    thirds = ("lowest", "middle", "highest")
    return codes, ["outcome 0", *(f"outcome in the {third} third" for third in thirds)]


def _n_rows(X: Any) -> int | None:
    return X.shape[0] if hasattr(X, "shape") else None if X is None else len(X)
