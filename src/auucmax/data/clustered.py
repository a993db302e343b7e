"""Cluster-robust tests for people randomised individually but grouped, as in shops.

People of one group may resemble each other, so standard errors come from sums over groups. They can
only widen those of independent people: callers use the larger of the two p-values.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import fdtrc

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


def clustered_p(statistic: float, scores: NDArray[Any]) -> float:
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


def _group_scores(values: NDArray[Any], treated: Bools, codes: Codes) -> NDArray[Any]:
    """What each group adds to the error of a difference between two means, (G, 1)."""
    scores = np.zeros(len(values))
    for arm, sign in ((treated, 1), (~treated, -1)):
        scores[arm] = sign * (values[arm] - values[arm].mean()) / np.count_nonzero(arm)
    return np.bincount(pd.factorize(codes)[0], scores)[:, None]


def compare_shares(marked: Bools, treated: Bools, codes: Codes) -> float:
    """p-value for equal shares of marked rows in two arms, with a clustered standard error."""
    difference = float(marked[treated].mean() - marked[~treated].mean())
    return clustered_p(difference**2, _group_scores(marked, treated, codes))


def auc_p(score: Floats, positive: Bools, auc: float, codes: Codes) -> float:
    """One-sided p-value for AUC <= 1/2, with a clustered standard error.

    The AUC is the mean share of the other class that a positive row is above, and one minus that of
    a negative row.
    """
    order = pd.Series(score)
    n_others = np.where(positive, np.count_nonzero(~positive), np.count_nonzero(positive))
    above = (order.rank() - order.groupby(positive).rank()).to_numpy() / n_others
    p_value = clustered_p((auc - 0.5) ** 2, _group_scores(above, positive, codes))
    return p_value / 2 if auc > 0.5 else 1 - p_value / 2
