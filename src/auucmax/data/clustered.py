"""Cluster-robust tests for people randomised individually but grouped, as in shops.

People of one group may resemble each other, so standard errors come from sums over groups. They can
only widen those of independent people: callers use the larger of the two p-values.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import fdtrc, stdtr

from auucmax._validation import Bools, Floats

Codes = NDArray[np.intp]

#: With fewer groups than this, standard errors by group are too uncertain to be used.
LEAST_GROUPS = 20


def group_codes(groups: NDArray[Any] | None) -> Codes | None:
    """Group codes (n,); None if there are too few groups, or none has two rows.

    >>> group_codes(np.repeat(np.arange(30), 2)).tolist()[:4]
    [0, 0, 1, 1]
    """
    if groups is None:
        return None
    codes, labels = pd.factorize(groups)
    if len(labels) < LEAST_GROUPS or len(labels) == len(codes):
        return None
    return codes.astype(np.intp, copy=False)


def add_by_group(sums: Floats, codes: Codes, values: Floats) -> None:
    """Sum the rows of ``values`` (n, k) by group into ``sums`` (G, k)."""
    order = np.argsort(codes, kind="stable")
    own, starts = np.unique(codes[order], return_index=True)
    sums[own] += np.add.reduceat(values[order], starts, axis=0)


def clustered_p(statistic: float, scores: Floats) -> float:
    """Cluster-robust p-value of k estimates, from group scores (G, k).

    With V the covariance by group, the statistic over the trace of V has, nearly, an F law
    with d = tr(V)^2 / tr(V^2) and d (G - 1) degrees of freedom (Thomas and Rao 1987). Of one
    estimate this is the t test with the cluster-robust standard error. 0 if no group varies.
    """
    n_groups = len(scores)
    covariance = scores.T @ scores * (n_groups / (n_groups - 1))
    trace = float(np.trace(covariance))
    if trace <= 0:
        return 0.0
    degrees = trace**2 / float((covariance**2).sum())
    return float(fdtrc(degrees, degrees * (n_groups - 1), statistic / trace))


def compare_shares(lacking: NDArray[Any], rows: NDArray[Any]) -> float:
    """p-value for equal shares in two arms, from counts by arm and group (2, G)."""
    n = rows.sum(axis=1)
    share = lacking.sum(axis=1) / n
    parts = (lacking - share[:, None] * rows) / n[:, None]
    scores = (parts[1] - parts[0])[rows.any(axis=0)]
    return clustered_p(float(share[1] - share[0]) ** 2, scores[:, None])


def auc_p(score: Floats, positive: Bools, auc: float, codes: Codes) -> float:
    """One-sided p-value for AUC <= 1/2, with a clustered standard error.

    The error of the AUC is a sum over rows of how many rows of the other class each is above
    (or below, if negative), less the AUC.
    """
    every = pd.Series(score).rank().to_numpy()
    above = np.empty(len(score))
    for own in (positive, ~positive):
        within = pd.Series(score[own]).rank().to_numpy()
        above[own] = (every[own] - within) / np.count_nonzero(~own)
    size = np.where(positive, np.count_nonzero(positive), np.count_nonzero(~positive))
    parts = (np.where(positive, above, 1 - above) - auc) / size
    own, places = np.unique(codes, return_inverse=True)
    if len(own) < 2:
        return 1.0
    sums = np.bincount(places, parts)
    error = np.sqrt((sums**2).sum() * len(own) / (len(own) - 1))
    return float(stdtr(len(own) - 1, (0.5 - auc) / error)) if error > 0 else 0.0


def halves_by_group(codes: Codes, rng: np.random.Generator, max_rows: int) -> tuple[Codes, Codes]:
    """Two disjoint random halves of the groups, with at most ``max_rows`` rows."""
    rows = np.arange(len(codes))
    if len(rows) > max_rows:
        rows = np.sort(rng.choice(len(codes), max_rows, replace=False))
    n_groups = int(codes.max()) + 1
    first = (rng.permutation(n_groups) < n_groups // 2)[codes[rows]]
    return rows[first], rows[~first]
