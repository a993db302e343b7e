"""From a score to an uplift per person: monotone calibration on rows that the model has not seen.

Nobody's own uplift is ever seen, so the rows take a transformed outcome whose mean is the effect.
With a_i the weight of row i in its arm, A_g the sum of these, w_i its weight among all rows and W
their sum,

    z_i = + (W / w_i) a_i (y_i - m) / A_T   (treated),   - (W / w_i) a_i (y_i - m) / A_C   (control)

has weighted mean mean(y | T) - mean(y | C), exactly and whatever the number m: the two arms count
alike however many rows they have. m = (1 - e) mean(y | T) + e mean(y | C), e the treated share,
makes z least noisy. Rows are put into bins of neighbouring scores, and the bins' means of z are
replaced by the closest non-decreasing sequence (isotonic regression, least squares). Equivalently:
these are the slopes of the smallest concave curve above the uplift curve of y - m at the bins'
edges.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self, overload

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import isotonic_regression

from auucmax._validation import Floats, check_column, check_rows, check_whole
from auucmax.evaluation.inference import with_weight
from auucmax.evaluation.metrics import uplift_by_decile
from auucmax.evaluation.ranking import RankedRows, rank_rows, ranked_parts

# In simulated trials of 4,000 to 40,000 rows 3 to 8 bins come closest to the true effects, 8 to 12
# have the least bias at the ends;
# with 20 the ends are already too extreme.
MOST_BINS = 10
FEWEST_ROWS = 100


@dataclass(frozen=True)
class Calibration:
    """A non-decreasing map from scores to uplift per person: straight lines between knots.

    ``score`` (K,) increases, ``uplift`` (K,) does not decrease; between two knots the map is the
    straight line, beyond the first and the last it is constant. ``average_effect`` is the mean of
    the map over the ``n_rows`` rows that it was fitted on (``n_treated`` of them treated), and
    ``min_rows`` the rows of each arm behind every knot.

    Examples
    --------
    >>> calibration = Calibration((0.0, 1.0), (0.02, 0.04), 0.03, 1000, 500, 250)
    >>> calibration([-5.0, 0.5, 9.0]).tolist()
    [0.02, 0.03, 0.04]
    >>> Calibration.from_dict(calibration.to_dict()) == calibration
    True
    """

    score: tuple[float, ...]
    uplift: tuple[float, ...]
    average_effect: float
    n_rows: int
    n_treated: int
    min_rows: int

    @overload
    def __call__(self, score: float) -> float: ...
    @overload
    def __call__(self, score: ArrayLike) -> Floats: ...
    def __call__(self, score: ArrayLike) -> float | Floats:
        """Calibrated uplift of each score: (n,) for (n,), a number for a number."""
        single = np.ndim(score) == 0
        values = check_column(np.atleast_1d(np.asarray(score)), "score")
        uplift = np.interp(values, self.score, self.uplift)
        return float(uplift[0]) if single else uplift

    @property
    def n_values(self) -> int:
        """How many different values the knots have; 1 if the map is constant."""
        return len(set(self.uplift))

    @property
    def caveat(self) -> str:
        """What the numbers mean, and what they do not, in plain words."""
        rows = f"{self.n_rows:,} rows, each scored by a model that was not fitted on it"
        if len(self.score) == 1:
            return (
                f"{rows} are too few, or their scores too much alike, to say who gains "
                f"more: everybody gets the average effect, {self.average_effect:.4g}."
            )
        if self.n_values == 1:
            return (
                f"On {rows}, people of higher scores did not gain more than others, so everybody "
                f"gets the average effect, {self.average_effect:.4g}. Do not choose people by it."
            )
        return (
            f"Calibrated uplift is the average effect among people of similar scores, estimated on "
            f"{rows} (at least {self.min_rows:,} of each arm behind every value). It is not known "
            f"of any single person. The lowest and the highest value are the least certain, and "
            f"too extreme if the score tells little; scores below {self.score[0]:.4g} and above "
            f"{self.score[-1]:.4g} take them. It speaks of people like those of the trial."
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON: numbers, and lists of them for ``score`` and ``uplift``."""
        return asdict(self) | {"score": list(self.score), "uplift": list(self.uplift)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """The calibration that :meth:`to_dict` wrote; anything else is refused."""
        names = set(cls.__dataclass_fields__)
        if not isinstance(values, Mapping) or set(values) != names:
            got = sorted(map(str, values)) if isinstance(values, Mapping) else type(values).__name__
            raise ValueError(
                f"a calibration should have the entries {sorted(names)}, got {got}. "
                f"Pass what Calibration.to_dict returned."
            )
        score, uplift = (check_column(values[name], name) for name in ("score", "uplift"))
        if len(score) != len(uplift) or (np.diff(score) <= 0).any() or (np.diff(uplift) < 0).any():
            raise ValueError(
                f"a calibration should have as many uplifts as scores, scores that increase and "
                f"uplifts that do not decrease; got {len(score)} scores and {len(uplift)} uplifts. "
                f"Pass what Calibration.to_dict returned."
            )
        (effect,) = check_column([values["average_effect"]], "average_effect")
        n_rows, n_treated, min_rows = (
            check_whole(values[name], name, 1) for name in ("n_rows", "n_treated", "min_rows")
        )
        knots = tuple(score.tolist()), tuple(uplift.tolist())
        return cls(*knots, float(effect), n_rows, n_treated, min_rows)


def calibrate(
    y: ArrayLike,
    score: ArrayLike,
    *,
    treatment: ArrayLike,
    min_rows: int | None = None,
    sample_weight: ArrayLike | None = None,
    propensity: ArrayLike | None = None,
    control: Any = None,
) -> Calibration:
    """Learn what uplift per person a score stands for, from rows that its model has not seen.

    Isotonic regression of the transformed outcome (:mod:`auucmax.targeting.calibration`) over bins
    of neighbouring scores. Each bin has a knot at its median score; the lines that join the knots
    are then moved up or down together so that their mean over these rows is the average effect,
    mean(y | treated) - mean(y | control). With a score of few levels, each with ``min_rows`` rows
    of both arms, nothing needs to be moved. The order of people stays, but for ties.

    Parameters
    ----------
    y : (n,) outcome, any real numbers.
    score : (n,) scores of rows that the model was not fitted on.
    treatment : (n,) 0/1 or boolean, or two labels of which ``control`` names one.
    min_rows : rows of each arm in every bin, whose rows of equal score stay together. By default a
        tenth of the rarer arm, and at least 100. Fewer follow the data more closely, and make
        the highest and lowest values more extreme than they are.
    sample_weight, propensity, control : as in :func:`auuc_score`.

    Examples
    --------
    >>> from auucmax import load_hillstrom
    >>> trial = load_hillstrom()
    >>> calibration = calibrate(trial.y, trial.X["womens"], treatment=trial.treatment)
    >>> calibration([0, 1]).round(4).tolist(), round(calibration.average_effect, 4)
    ([0.0112, 0.0732], 0.0452)
    """
    rows = check_rows(
        y,
        check_column(score, "score"),  # the knots need the scores themselves, not their ranks
        treatment=treatment,
        control=control,
        sample_weight=sample_weight,
        propensity=propensity,
    )
    rows, _ = with_weight(rows, None)
    n_treated = int(np.count_nonzero(rows.treated))
    rarer = min(n_treated, len(rows.y) - n_treated)
    if min_rows is None:
        min_rows = max(FEWEST_ROWS, rarer // MOST_BINS)
    least = check_whole(min_rows, "min_rows", 1)
    (part,) = ranked_parts(rows, "joint")
    starts = _bin_starts(part, rarer // max(1, rarer // least))
    if len(starts) == 1:
        warnings.warn(
            f"calibration should have at least two bins of different scores with {least} rows of "
            f"each arm, got one bin of {n_treated} treated and {len(rows.y) - n_treated} control "
            f"rows: everybody gets the average effect. Lower min_rows, or hold out more rows.",
            UserWarning,
            stacklevel=2,
        )
    values, effect = _isotonic(part, starts)
    sorted_score = rows.score[part.index]
    knots = sorted_score[_median_rows(part, starts)]
    off = effect - float(np.average(np.interp(sorted_score, knots, values), weights=part.weight))
    return Calibration(
        score=tuple(knots.tolist()),
        uplift=tuple((values + off).tolist()),
        average_effect=effect,
        n_rows=len(rows.y),
        n_treated=n_treated,
        min_rows=min(least, rarer),
    )


def calibration_table(
    calibration: Calibration,
    y: ArrayLike,
    score: ArrayLike,
    *,
    treatment: ArrayLike,
    bins: int = 10,
    level: float = 0.95,
    sample_weight: ArrayLike | None = None,
    propensity: ArrayLike | None = None,
    control: Any = None,
) -> pd.DataFrame:
    """Predicted against actual uplift in each tenth of *other* rows, highest scores first.

    The table of :func:`uplift_by_decile` with a first column ``predicted``, the mean calibrated
    uplift of the tenth. Each interval covers its own actual uplift at ``level``; among ten, one or
    two that miss the prediction are no surprise. Neither the model nor the calibration may have
    seen these rows.

    Examples
    --------
    >>> from auucmax import load_hillstrom
    >>> first, second = load_hillstrom().split(random_state=0)
    >>> calibration = calibrate(first.y, first.X["history"], treatment=first.treatment)
    >>> table = calibration_table(
    ...     calibration, second.y, second.X["history"], treatment=second.treatment, bins=2
    ... )
    >>> table[["predicted", "uplift", "lower", "upper"]].round(3)
         predicted  uplift  lower  upper
    bin
    1        0.047   0.048  0.031  0.065
    2        0.045   0.037  0.022  0.052
    """
    values = check_column(score, "score")
    table = uplift_by_decile(
        y,
        values,
        treatment=treatment,
        bins=bins,
        level=level,
        sample_weight=sample_weight,
        propensity=propensity,
        control=control,
    )
    best_first = rank_rows(values).order[::-1]
    weight = np.ones(len(values))
    if sample_weight is not None:
        weight = check_column(sample_weight, "sample_weight")
    # Tied rows share a bin, so bins are stretches of the sorted rows whatever the order of ties.
    number = np.repeat(np.arange(bins), table["rows"])
    sums, weights = (
        np.bincount(number, weights=column[best_first], minlength=bins)
        for column in (weight * calibration(values), weight)
    )
    predicted = np.divide(sums, weights, out=np.full(bins, np.nan), where=weights > 0)
    table.insert(0, "predicted", predicted)
    return table


def _bin_starts(part: RankedRows, least: int) -> NDArray[np.intp]:
    """First sorted row of each bin: from the top down, ``least`` rows of each arm, levels whole.

    What remains at the bottom with fewer rows joins the bin above it.
    """
    counts = {arm: part.ranking.from_top((part.treated == arm) * 1.0) for arm in (True, False)}
    sizes = part.ranking.from_top(None).astype(np.intp)
    starts, level = [], 0
    while True:
        ends = [np.searchsorted(c, c[level] + least) for c in counts.values()]
        level = int(max(ends))
        if level >= len(sizes):
            break
        starts.append(len(part.y) - sizes[level])
    return np.array([0, *starts[-2::-1]], dtype=np.intp)


def _isotonic(part: RankedRows, starts: NDArray[np.intp]) -> tuple[Floats, float]:
    """Non-decreasing means of z in the bins, and the average effect."""
    means = {arm: float(part.arm_outcome(arm).sum()) / part.arm_total(arm) for arm in (True, False)}
    e = float(np.average(part.treated, weights=part.weight))
    middle = (1 - e) * means[True] + e * means[False]
    signed = RankedRows(**(vars(part) | {"y": part.y - middle})).signed_outcome()
    weight = np.ones(len(part.y)) if part.weight is None else part.weight
    sizes = np.add.reduceat(weight, starts)
    z = part.total_weight * np.add.reduceat(signed, starts) / sizes
    return isotonic_regression(z, weights=sizes).x, means[True] - means[False]


def _median_rows(part: RankedRows, starts: NDArray[np.intp]) -> NDArray[np.intp]:
    """The sorted row of each bin at which half of the bin's weight is reached."""
    weight = np.ones(len(part.y)) if part.weight is None else part.weight
    reached = np.cumsum(weight)
    below = reached[starts] - weight[starts]
    middle = (below + np.append(below[1:], reached[-1])) / 2
    ends = np.append(starts[1:], len(part.y)) - 1
    return np.clip(np.searchsorted(reached, middle), starts, ends)
