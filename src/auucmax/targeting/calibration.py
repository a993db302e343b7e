"""Calibrate scores to uplifts by monotone regression on held-out rows.

Nobody's own uplift is observed, so each row gets a transformed outcome whose mean is the effect.
With a_i the weight of row i in its arm, A_g the sum of these, w_i its weight among all rows and W
their sum,

    z_i = + (W / w_i) a_i (y_i - m) / A_T   (treated),   - (W / w_i) a_i (y_i - m) / A_C   (control)

has weighted mean mean(y | T) - mean(y | C), exactly and for every number m: both arms count
equally, however many rows they have. m = (1 - e) mean(y | T) + e mean(y | C), e the treated share,
makes z least noisy. Rows are put into bins of neighbouring scores, and the bins' means of z are
replaced by the closest non-decreasing sequence (isotonic regression, least squares). Equivalently:
these are the slopes of the smallest concave curve above the uplift curve of y - m at the bins'
edges.

These values are too extreme: they follow the noise of these very rows. Regressed on them, new rows
have z = effect + slope (value - effect) with a slope below 1, by which everybody is drawn towards
the average effect. That takes no second set of rows: bins that share a value move with the mean of
their own rows only, so how much of sum w (z - effect)(value - effect) is noise is known (Stein's
estimate, see ``_slope``). Rows of a group are not independent: their noise adds up before it is
squared, and groups instead of rows say how many bins there are.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import isotonic_regression

from auucmax._errors import InputError
from auucmax._validation import Bools, Floats, check_column, check_groups, check_rows, check_whole
from auucmax.metrics.inference import Clusters, ClusterUnits, some_rows
from auucmax.metrics.ranking import Ranking, sorted_rows
from auucmax.results import LEAST_ROWS, Shown

# In simulated trials of 4,000 to 40,000 rows 3 to 8 bins come closest to the true effects, 8 to 12
# have the least bias at the ends; with 20 the ends are already too extreme.
MOST_BINS = 10
FEWEST_ROWS = 100  # of each arm in every bin; three bins may have fewer, down to LEAST_ROWS
# The slope is itself uncertain, and where there is nothing to find its errors only go one way. Of
# 2,000 rows that models of folds have ranked, with an effect of .05 for everybody, the top tenth
# reads .074 as it is and .058 with the noise counted once. Counted 1.75 times it reads .054 (.055,
# standard error .001, in whole fits of trial models), and where effects differ, the slope of true
# effects on calibrated ones stays between .8 and 1.2. The number was chosen by these simulations.
NOISE = 1.75


@dataclass(frozen=True, repr=False)
class Calibration(Shown):
    """A non-decreasing, piecewise linear map from scores to uplifts.

    ``score`` (K,) increases, ``uplift`` (K,) does not decrease; between two knots the map is the
    straight line, beyond the first and the last it is constant. ``average_effect`` is the mean of
    the map over the ``n_rows`` rows that it was fitted on (``n_treated`` of them treated), and
    ``min_rows`` the rows of each arm behind every knot.

    Examples
    --------
    >>> calibration = Calibration((0.0, 1.0), (0.02, 0.04), 0.03, 1000, 500, 250)
    >>> calibration([-5.0, 0.5, 9.0]).tolist()
    [0.02, 0.03, 0.04]
    """

    score: tuple[float, ...]
    uplift: tuple[float, ...]
    average_effect: float
    n_rows: int
    n_treated: int
    min_rows: int

    def __post_init__(self) -> None:
        rises = (np.diff(self.score) > 0).all() and (np.diff(self.uplift) >= 0).all()
        is_whole = 0 < len(self.score) == len(self.uplift)
        if not (rises and is_whole) or min(self.n_rows, self.n_treated, self.min_rows) < 1:
            raise InputError(
                "calibration",
                "of as many uplifts as scores, scores that increase, uplifts that do not decrease, "
                "and rows",
                f"{len(self.score)} scores and {len(self.uplift)} uplifts of {self.n_rows} rows",
                "Make it with auucmax.targeting.calibrate.",
            )

    def __call__(self, score: ArrayLike) -> Any:
        """Calibrated uplift of a score, or of an array of scores (n,)."""
        values = check_column(np.atleast_1d(np.asarray(score)), "score")
        uplift = np.interp(values, self.score, self.uplift)
        return uplift if np.ndim(score) else float(uplift[0])

    @property
    def n_values(self) -> int:
        """Number of distinct uplifts; 1 if the map is constant."""
        return len(set(self.uplift))


def calibrate(
    y: ArrayLike,
    score: ArrayLike,
    *,
    treatment: ArrayLike,
    min_rows: int | None = None,
    sample_weight: ArrayLike | None = None,
    propensity: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    control: Any = None,
) -> Calibration:
    """Calibrate scores to uplift per person, on rows the model was not trained on.

    Isotonic regression of the transformed outcome (:mod:`auucmax.targeting.calibration`) over bins
    of neighbouring scores, drawn towards the average effect by the slope that new rows would show:
    all the way, if chance explains the differences. Each bin has a knot at its median score; the
    lines that join the knots are then moved up or down together so that their mean over these rows
    is the average effect, mean(y | treated) - mean(y | control). With a score of few levels, each
    with ``min_rows`` rows of both arms, nothing needs to be moved. The order of people stays, but
    for ties.

    Parameters
    ----------
    y : (n,) outcome, any real numbers.
    score : (n,) scores of rows that the model was not fitted on.
    treatment : (n,) 0/1 or boolean, or two labels of which ``control`` names one.
    min_rows : rows of each arm in every bin, whose rows of equal score stay together. By default a
        tenth of the rarer arm, and at least 100; or a third of it, and at least 20; with groups, as
        many bins as there would be if each group had one row. Fewer rows follow the data more
        closely, and more of what they follow is noise.
    sample_weight, propensity, control : as in :func:`auuc_score`.
    groups : (n,) the household or shop of each row, if rows of one are not independent.

    Examples
    --------
    >>> from auucmax import load_hillstrom
    >>> trial = load_hillstrom()
    >>> calibration = calibrate(trial.y, trial.X["womens"], treatment=trial.treatment)
    >>> calibration([0, 1]).round(4).tolist(), round(calibration.average_effect, 4)
    ([0.0118, 0.0727], 0.0452)
    """
    values = check_column(score, "score")  # the knots need the scores themselves, not their ranks
    rows = check_rows(
        y, values, treatment=treatment, control=control, propensity=propensity,
        sample_weight=np.ones(len(values)) if sample_weight is None else sample_weight,
    )  # fmt: skip
    clusters = None if groups is None else check_groups(groups, len(rows.y))
    # Rows of weight 0 say nothing, and must not count as rows.
    rows, clusters = some_rows(rows, clusters, np.asarray(rows.weight) > 0)
    n_treated = int(np.count_nonzero(rows.treated))
    rarer = min(n_treated, len(rows.y) - n_treated)
    if min_rows is None:
        # Ten bins of many rows, bins of 100 of fewer, three bins of few, and never under 20 rows.
        units = rarer
        if clusters is not None:
            units = int((ClusterUnits(rows.treated, clusters).sizes > 0).sum(axis=1).min())
        min_rows = max(units // MOST_BINS, min(FEWEST_ROWS, max(LEAST_ROWS, units // 3)))
        if units < rarer:
            min_rows = rarer // max(1, units // min_rows)
    least = check_whole(min_rows, "min_rows", 1)
    part = sorted_rows(rows)
    weight = np.asarray(part.weight)
    # As many bins as ``least`` allows, of equal size: what is left over is shared.
    starts = _bin_starts(part, part.treated, rarer // max(1, rarer // least))
    if len(starts) == 1:
        warnings.warn(
            f"calibration should have at least two bins of different scores with {least} rows of "
            f"each arm, got one bin of {n_treated} treated and {len(rows.y) - n_treated} control "
            f"rows: everybody gets the average effect. Collect more rows.",
            UserWarning,
            stacklevel=2,
        )
    # The transformed outcome, times the weight.
    effect = part.effect()
    e = float(np.average(part.treated, weights=weight))
    mean_treated = float(part.arm_outcome(True).sum()) / part.arm_totals[True]
    outcome = part.total_weight * part.less(mean_treated - e * effect).signed_outcome()
    sizes = np.add.reduceat(weight, starts)
    fit = isotonic_regression(np.add.reduceat(outcome, starts) / sizes, weights=sizes).x
    number = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(weight)))
    slope = _slope(
        fit, sizes, number, outcome - weight * fit[number],
        None if clusters is None else clusters[part.order],
    )  # fmt: skip
    uplift = effect + slope * (fit - effect)
    score_of = rows.score[part.order]
    # A knot is the mean score of about 20 rows around the median of its bin: the sorted row at
    # which half of the weight of the bin is reached.
    ends = np.append(starts[1:], len(weight))
    reached = np.append(0.0, np.cumsum(weight))
    middle = np.searchsorted(reached[1:], (reached[starts] + reached[ends]) / 2)
    middle = np.clip(middle, starts, ends - 1)
    first = np.maximum(middle - LEAST_ROWS // 2, starts)
    last = np.minimum(middle + LEAST_ROWS // 2 + 1, ends)
    knots = np.array([score_of[a:b].mean() for a, b in zip(first, last, strict=True)])
    # Straight lines between knots do not keep the mean of the bins; a shift of all does.
    off = effect - float(np.average(np.interp(score_of, knots, uplift), weights=weight))
    return Calibration(
        score=tuple(knots.tolist()),
        uplift=tuple((uplift + off).tolist()),
        average_effect=effect,
        n_rows=len(rows.y),
        n_treated=n_treated,
        min_rows=min(least, rarer),
    )


def scaled_to_gain(
    uplift: Floats, score: Floats, n_chosen: int, gain: float, whole: float
) -> Floats:
    """Rescale uplifts so that those of the chosen people add up to a known gain.

    ``uplift`` and ``score`` (n,) are from the highest score down, the first ``n_chosen`` people are
    chosen. Uplifts are drawn towards their mean if the chosen would have too much, and get a
    straight line in the rank added if they would have too little: their order stays, equal scores
    have equal uplifts, and all n add up to ``whole``. Only if the chosen gain less than people do
    on average, no order is left: everybody has their average.

    >>> uplift, score = np.array([3.0, 3.0, 1.0, 1.0]), np.array([9.0, 8.0, 7.0, 6.0])
    >>> scaled_to_gain(uplift, score, 2, gain=5, whole=8).tolist()
    [2.5, 2.5, 1.5, 1.5]
    >>> scaled_to_gain(uplift, score, 2, gain=8, whole=8).tolist()
    [4.5, 3.5, 0.5, -0.5]
    """
    average = whole / len(uplift)
    moved = uplift + (average - uplift.mean())
    if not 0 < n_chosen < len(uplift):
        return moved
    wanted, found = gain / n_chosen - average, float(moved[:n_chosen].mean()) - average
    if wanted <= 0 or score[0] == score[-1]:
        return np.full(len(uplift), gain / n_chosen)
    if wanted <= found:
        return average + wanted / found * (moved - average)
    # Equal scores share a rank.
    rank = np.searchsorted(-score, -score) + np.searchsorted(-score, -score, side="right")
    line = rank - rank.mean()
    return moved + (wanted - found) / line[:n_chosen].mean() * line


def _bin_starts(ranking: Ranking, treated: Bools, least: int) -> NDArray[np.intp]:
    """Start of each bin from the top: at least ``least`` rows per arm, ties together.

    What remains at the bottom with fewer rows joins the bin above it.
    """
    arms = [ranking.from_top(arm.astype(np.float64)) for arm in (treated, ~treated)]
    sizes = arms[0] + arms[1]
    starts, level = list[int](), 0
    while True:
        level = max(int(np.searchsorted(own, own[level] + least)) for own in arms)
        if level >= len(sizes):
            break
        starts.append(int(sizes[-1] - sizes[level]))
    return np.array([0, *starts[-2::-1]], dtype=np.intp)


def _slope(
    fit: Floats,
    sizes: Floats,
    number: NDArray[np.intp],
    residual: Floats,
    clusters: Clusters | None,
) -> float:
    """Regression slope of new rows on an isotonic fit, from 0 to 1.

    ``sizes`` are the sums of w in the bins, ``number`` (n,) the bin of each row and ``residual``
    (n,) its w (z - fit). With S the sum of squared residuals (summed within clusters first) and W
    the sum of w over a block of bins that share one value, the variance of that value is S / W^2
    and its noise adds S / W to the sum of w (z - effect)(fit - effect), less what goes into the
    average effect. But for noise that sum equals the one of w (fit - effect)^2.
    """
    _, block = np.unique(fit, return_inverse=True)
    noise = 0.0
    for own, sign in ((block, 1), (np.zeros_like(block), -1)):
        squares = residual**2
        if clusters is not None:
            # A row times the total of its cluster in the block: they add up to its square.
            _, code = np.unique(np.stack([clusters, own[number]]), axis=1, return_inverse=True)
            code = code.ravel()  # a row in numpy 2.0
            squares = residual * np.bincount(code, residual)[code]
        noise += sign * (np.bincount(own[number], squares) / np.bincount(own, sizes)).sum()
    spread = np.sum(sizes * (fit - np.average(fit, weights=sizes)) ** 2)
    return float(np.clip(1 - NOISE * noise / spread, 0, 1)) if spread > 0 else 0.0
