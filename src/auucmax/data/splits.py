"""Folds that keep the share of each arm, and on request of each outcome within it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator

from auucmax._validation import (
    check_choice,
    check_column,
    check_labels,
    check_one_dimensional,
    check_whole,
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


class TrialKFold(BaseEstimator):
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
        """Yield (train, test) row positions, each in increasing order; the tests part the rows."""
        n_splits = self.get_n_splits()
        if treatment is None:
            raise ValueError(
                "TrialKFold needs treatment, one label a row, got none. Call split(X, y, "
                "treatment=t); inside cross_validate or GridSearchCV turn on "
                "sklearn.set_config(enable_metadata_routing=True) and pass treatment there."
            )
        n_rows = X.shape[0] if hasattr(X, "shape") else None if X is None else len(X)
        strata = make_strata(treatment, y, by=self.by, n_rows=n_rows, than="X")
        strata.require(n_splits, "one for each fold", "use fewer folds")
        rng = np.random.default_rng(self.random_state) if self.shuffle else None
        # Dealing on from stratum to stratum keeps the folds equal in size as well as in shares: no
        # two folds differ by more than one row, in all or within a stratum.
        fold = np.empty(len(strata.codes), dtype=np.intp)
        fold[_order_by_stratum(strata.codes, rng)] = np.arange(len(fold)) % n_splits
        for k in range(n_splits):
            test = fold == k
            yield np.flatnonzero(~test), np.flatnonzero(test)

    def get_n_splits(
        self, X: Any = None, y: Any = None, groups: Any = None, *, treatment: Any = None
    ) -> int:
        """Number of folds; the arguments are there for scikit-learn."""
        return check_whole(self.n_splits, "n_splits", 2)


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
    y = check_column(y, "y")
    if len(pd.unique(y)) <= 2:
        levels, values = pd.factorize(y, sort=True)
        level_names = [f"outcome {value:g}" for value in values]
    else:  # often most outcomes are 0, and quantiles of all of them would be too
        cuts = np.quantile(y[y != 0], [1 / 3, 2 / 3])
        levels = np.where(y != 0, 1 + np.searchsorted(cuts, y), 0)
        thirds = ("lowest", "middle", "highest")
        level_names = ["outcome 0", *(f"outcome in the {third} third" for third in thirds)]
    crossed = arm_codes * len(level_names) + levels
    # Arms need not have every level: number only the strata that occur.
    codes, present = pd.factorize(crossed, sort=True)
    pairs = [divmod(int(code), len(level_names)) for code in present]
    return Strata(codes, tuple(f"{names[a]} and {level_names[v]}" for a, v in pairs))


def places_in_strata(codes: NDArray[np.intp], rng: np.random.Generator | None) -> NDArray[np.intp]:
    """Position 0, 1, 2, ... of each row within its stratum, in random order if ``rng`` is given."""
    order = _order_by_stratum(codes, rng)
    starts = np.cumsum(np.bincount(codes)) - np.bincount(codes)
    position = np.empty(len(codes), dtype=np.intp)
    position[order] = np.arange(len(codes)) - starts[codes[order]]
    return position


def _order_by_stratum(codes: NDArray[np.intp], rng: np.random.Generator | None) -> NDArray[np.intp]:
    if rng is None:
        return np.argsort(codes, kind="stable")
    shuffled = rng.permutation(len(codes))
    return shuffled[np.argsort(codes[shuffled], kind="stable")]
