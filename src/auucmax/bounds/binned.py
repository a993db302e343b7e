"""Lower bounds on AUUC and on the gain over random, from a histogram of the scores of the rows.

For rows that are too many for memory. What is guaranteed is the ranking by the *exact* scores: the
gap pays for all that the bins can hide, however their edges were chosen.
:mod:`auucmax.bounds.holdout` has the setting and the notation.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from auucmax._validation import Floats
from auucmax.bounds.bernstein import ArmMeans, dkw_bernstein_of_means
from auucmax.bounds.holdout import mcdiarmid_of_arms
from auucmax.bounds.lower_bound import LowerBound
from auucmax.bounds.setting import ArmArea, Target, centre_of, check_setting
from auucmax.evaluation.bins import BinnedLevels

__all__ = ["binned_dkw_bernstein_bound", "binned_mcdiarmid_bound"]


def binned_dkw_bernstein_bound(
    histogram: BinnedLevels,
    *,
    target: Target = "auuc",
    delta: float = 0.05,
    n_candidates: int = 1,
    outcome_range: tuple[float, float] = (0.0, 1.0),
) -> LowerBound:
    """:func:`dkw_bernstein_bound` from a histogram: a wider band for G, and nothing else.

    The share of rows below a row, G_n, is replaced by that of its bin, half of the bin included,
    and eps by eps + max (n_b - 1) / (2n) over bins with more than one score.

    *Proof.* The two shares of a row differ by at most (n_b - 1) / (2n), always, and not at all in
    a bin with one score. So the bin's is within the wider eps of G at the score of every row, which
    is all that the proof there asks of G_n.

    Examples
    --------
    >>> from auucmax import load_hillstrom
    >>> from auucmax.bounds import dkw_bernstein_bound
    >>> from auucmax.evaluation import BinnedLevels, score_edges
    >>> trial = load_hillstrom()
    >>> score = trial.X["history"]
    >>> histogram = BinnedLevels.of(trial.y, score, trial.treatment, score_edges(score, 1000))
    >>> bound = binned_dkw_bernstein_bound(histogram, target="gain")
    >>> exact = dkw_bernstein_bound(trial.y, score, treatment=trial.treatment, target="gain")
    >>> round(bound.gap, 4), round(exact.gap, 4)
    (0.0055, 0.0054)
    """
    centre = centre_of(target)
    arms, width = _scaled_arms(histogram, outcome_range)
    control, treated = map(_arm_means, arms, histogram.below() - centre)
    rank_error = histogram.rank_error()
    return dkw_bernstein_of_means(treated, control, width, delta, n_candidates, rank_error)


def binned_mcdiarmid_bound(
    histogram: BinnedLevels,
    *,
    target: Target = "auuc",
    delta: float = 0.05,
    n_candidates: int = 1,
    outcome_range: tuple[float, float] = (0.0, 1.0),
) -> LowerBound:
    """:func:`mcdiarmid_bound` from a histogram; the gap grows by what bins can change.

    The estimate there is a mean over the *other* rows of an arm, n_g / (n_g - 1) times that of
    ``auuc_score(..., ranking="separate")`` up to a term without ranks. So bins change it by at most
    K / (K - 1) times ``histogram.auuc_error("separate")``, K the rows of the rarer arm.

    Examples
    --------
    >>> from auucmax.evaluation import BinnedLevels
    >>> y, score, treated = [1, 1, 0, 1, 0, 0], [6, 5, 4, 3, 2, 1], [1, 1, 1, 0, 0, 0]
    >>> bound = binned_mcdiarmid_bound(BinnedLevels.of(y, score, treated, edges=[2, 4]))
    >>> round(bound.estimate, 4), round(bound.gap, 4)
    (0.1667, 0.9993)
    """
    centre = centre_of(target)
    arms, width = _scaled_arms(histogram, outcome_range)
    control, treated = map(_arm_area, arms, histogram.below("separate"))
    bound = mcdiarmid_of_arms(treated, control, centre, width, delta, n_candidates)
    rarer = min(histogram.arm_rows)
    error = histogram.auuc_error("separate") * rarer / (rarer - 1)
    return replace(bound, lower=bound.lower - error)


def _scaled_arms(
    histogram: BinnedLevels, outcome_range: tuple[float, float]
) -> tuple[Floats, float]:
    """By arm and bin: rows, sum of y scaled to [0, 1], its squares about its mean; (2, 3, B)."""
    seen = histogram.outcome_low, histogram.outcome_high
    low, high = check_setting(outcome_range, seen, histogram.arm_rows)
    rows, outcome, square = (histogram.sums[:, :, k] for k in range(3))
    within = np.maximum(square - outcome**2 / np.maximum(rows, 1), 0.0)
    width = high - low
    return np.stack([rows, (outcome - low * rows) / width, within / width**2], axis=1), width


def _arm_means(arm: Floats, offset: Floats) -> ArmMeans:
    """Of y and z = y offset."""
    rows, y, within = arm
    n_rows, level = rows.sum(), y / np.maximum(rows, 1)
    mean = (y * offset).sum() / n_rows
    squares = rows * (level * offset - mean) ** 2 + within * offset**2
    return ArmMeans(
        n_rows=int(n_rows),
        z=float(mean),
        z_variance=float(squares.sum() / (n_rows - 1)),
        y=float(y.sum() / n_rows),
        y_square=float((within + y * level).sum() / n_rows),
    )


def _arm_area(arm: Floats, below: Floats) -> ArmArea:
    rows, y, _ = arm
    n_rows = int(rows.sum())
    return ArmArea(n_rows, float(y.sum()), float((y * below).sum()) / n_rows)
