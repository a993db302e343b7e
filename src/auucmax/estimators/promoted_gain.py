"""Promoted cumulative gain (Devriendt et al. 2020), and its LambdaMART gradients without pairs.

Relevance r is 1/n_T for a treated row that responded, -1/n_C for a control row that did, and 0
for all others. With ranks 1..n, 1 the highest score,

    PCG = sum_i r_i (n - rank_i + 1) = n AUUC + ATE/2,

so exchanging two rows changes it by |r_a - r_b| |rank_a - rank_b|. LambdaMART weights the logistic
loss of each pair r_a > r_b by that change:

    loss = sum |r_a - r_b| |rank_a - rank_b| log(1 + exp(s_b - s_a)),  ranks held fixed.

*Ties.* Two of m tied rows, in random order, are on average (m + 1)/3 ranks apart; that is the gap
they get. So the order of rows never matters, and boosting can start with all scores equal.

*Bins.* With more than ``n_bins`` different scores, neighbours in rank are put into bins of about
equal weight, and rows of a bin count as tied at its mean score. A bin then enters only through the
weight of its three relevances: O(n log n) for the ranks and O(n_bins^2) for all pairs.
:func:`pair_gradients_slow` is the specification.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import rankdata

from auucmax._validation import Bools, Floats, check_rows
from auucmax.evaluation.ranking import Ranking, rank_rows

_STEEPEST = 300.0  # scores further than this from their middle are cut: exp must not overflow


def promoted_cumulative_gain(
    y: ArrayLike,
    score: ArrayLike,
    *,
    treatment: ArrayLike,
    sample_weight: ArrayLike | None = None,
    control: Any = None,
) -> float:
    """Promoted cumulative gain of a ranking (higher score = treated first).

        PCG = sum_i r_i (n - rank_i + 1),  r_i = y_i/n_T (treated) or -y_i/n_C (control)

    It is the sum of the uplift curve over k = 1..n, and equals n AUUC + ATE/2. Tied ranks are
    averaged; with weights n is their sum, and an integer weight equals that many copies.

    Parameters
    ----------
    y : (n,) outcome, any real numbers.
    score : (n,) any real numbers; only their order matters.
    treatment : (n,) 0/1 or boolean, or two labels of which ``control`` names one.
    sample_weight : (n,) weights.
    control : label of the control group, when ``treatment`` is not 0/1.

    Examples
    --------
    The curve is 1/2, 1/2, 0, 0:

    >>> promoted_cumulative_gain([1, 0, 1, 0], [4, 3, 2, 1], treatment=[1, 1, 0, 0])
    1.0
    """
    rows = check_rows(y, score, treatment=treatment, sample_weight=sample_weight, control=control)
    weight = np.ones(len(rows.y)) if rows.weight is None else rows.weight
    ranking = rank_rows(rows.score)
    order = ranking.order
    promotion = ranking.mid_cumsum(weight[order]) + 0.5
    gain = weight[order] * rows.y[order] * promotion
    treated = rows.treated[order]
    arms = ((treated, rows.treated, 1.0), (~treated, ~rows.treated, -1.0))
    return float(sum(sign * gain[arm].sum() / weight[rest].sum() for arm, rest, sign in arms))


class PromotedGainObjective:
    """Gradient and Hessian (diagonal) of the PCG lambdas, for one score a row.

    Parameters
    ----------
    y : (n,) 0/1. treated : (n,) bool. weight : (n,) positive, in numbers of rows, or None.
    n_bins : largest number of different scores that are told apart; exact if there are no more.

    Calling it with scores (n,) returns gradient and Hessian, (n,) each, of the rows' own weight.
    They are scaled so that the Hessian sums to the total weight while all scores are equal.

    Examples
    --------
    >>> y, treated = np.array([1.0, 1, 0, 0]), np.array([True, False, True, False])
    >>> gradient, hessian = PromotedGainObjective(y, treated)(np.zeros(4))
    >>> gradient  # the treated response should rise, the one without treatment fall
    array([-2.66666667,  2.66666667,  0.        ,  0.        ])
    """

    def __init__(
        self, y: Floats, treated: Bools, weight: Floats | None = None, n_bins: int = 256
    ) -> None:
        self.weight = weight
        self.n_bins = n_bins
        self.total = float(len(y)) if weight is None else float(weight.sum())
        treated_total = float(treated.sum() if weight is None else weight[treated].sum())
        relevances = np.array([1 / treated_total, 0.0, -1 / (self.total - treated_total)])
        #: Row's relevance: 0 treated and responded, 1 did not respond, 2 control and responded.
        self.kind = np.where(y == 0, 1, np.where(treated, 0, 2))
        difference = relevances[:, None] - relevances
        self.above, self.below = np.maximum(difference, 0), np.maximum(-difference, 0)
        counts = np.bincount(self.kind, weights=weight, minlength=3)
        pairs = float(counts @ np.abs(difference) @ counts)
        self.scale = 12 * self.total / ((self.total + 1) * pairs)

    def __call__(self, score: Floats) -> tuple[Floats, Floats]:
        ranking = rank_rows(score)
        order = ranking.order
        weight = None if self.weight is None else self.weight[order]
        level, kind = self._bins(ranking, weight), self.kind[order]
        counts, centre = _contents(level, kind, weight, score[order])
        pull, curve = self._per_bin(counts, centre)
        result = np.empty((2, len(score)))
        for row, table in zip(result, (pull, curve), strict=True):
            values = self.scale * table[level, kind]
            row[order] = values if weight is None else values * weight
        return result[0], result[1]

    def _bins(self, ranking: Ranking, weight: Floats | None) -> NDArray[np.intp]:
        """Bin of each sorted row, 0, 1, ...; tied rows are never parted."""
        n_levels = len(ranking.order) if ranking.starts is None else len(ranking.starts)
        if n_levels <= self.n_bins:
            return ranking.spread(np.arange(n_levels, dtype=np.float64)).astype(np.intp)
        cell = np.floor(ranking.mid_cumsum(weight) * (self.n_bins / self.total))
        return np.concatenate([[0], np.cumsum(np.diff(cell) > 0)])

    def _per_bin(self, counts: Floats, centre: Floats) -> tuple[Floats, Floats]:
        """Gradient and Hessian of a row of each bin and relevance, (bins, 3) each."""
        size = counts.sum(axis=1)
        place = np.cumsum(size) - size / 2
        gap = np.abs(place[:, None] - place)
        np.fill_diagonal(gap, (size + 1) / 3)
        middle = (centre[0] + centre[-1]) / 2
        odds = np.exp(np.clip(centre - middle, -_STEEPEST, _STEEPEST))
        wrong = 1 / (1 + odds[:, None] * (1 / odds))  # P(row of bin k below row of bin l)
        weighted = gap * wrong
        towards = weighted @ counts
        away = gap @ counts - towards  # the same with 1 - wrong
        weighted *= 1 - wrong
        gradient = away @ self.below.T - towards @ self.above.T
        return gradient, weighted @ counts @ (self.above + self.below)


def _contents(
    level: NDArray[np.intp], kind: NDArray[np.intp], weight: Floats | None, score: Floats
) -> tuple[Floats, Floats]:
    """Weight of each relevance in each bin, (bins, 3), and mean score of each bin."""
    n_bins = int(level[-1]) + 1
    flat = np.bincount(3 * level + kind, weights=weight, minlength=3 * n_bins)
    counts = np.asarray(flat.reshape(n_bins, 3), dtype=np.float64)
    total = np.bincount(level, weights=score if weight is None else score * weight)
    return counts, total / counts.sum(axis=1)


def pair_gradients_slow(y: Floats, treated: Bools, score: Floats) -> tuple[Floats, Floats]:
    """What :class:`PromotedGainObjective` computes without bins or weights, over all pairs."""
    n = len(y)
    relevance = np.where(treated, y / treated.sum(), -y / (~treated).sum())
    lead = relevance[:, None] - relevance  # (n, n): row's relevance minus the column's
    tied = score[:, None] == score
    rank = rankdata(score)
    gap = np.where(tied, (tied.sum(axis=1) + 1) / 3, np.abs(rank[:, None] - rank))
    delta = np.abs(lead) * gap * 12 * n / ((n + 1) * np.abs(lead).sum())
    with np.errstate(over="ignore"):
        wrong = 1 / (1 + np.exp(np.sign(lead) * (score[:, None] - score)))
    return -(delta * np.sign(lead) * wrong).sum(1), (delta * wrong * (1 - wrong)).sum(1)
