"""Uplift and Qini curves, and what can be read off them at a share of people treated.

All of them are cumulative sums from the highest score down, joined by straight lines: inside a
level of equal scores the line is what treating a random part of the level gives on average.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.special import stdtrit

from auucmax._validation import Floats, Rows, check_choice, check_level, check_rows, check_shares
from auucmax.evaluation.auuc import RANKINGS, RankingKind
from auucmax.evaluation.ranking import RankedRows, ranked_parts

__all__ = ["qini_curve", "qini_score", "uplift_at_k", "uplift_by_decile", "uplift_curve"]


@dataclass(frozen=True)
class ArmSweep:
    """What the top-ranked share holds of each arm: knots of piecewise linear functions of it.

    ``share`` runs from 0 to 1; ``people`` and ``outcome`` hold, for each arm of the part, the
    weight of its rows above each knot and their weighted outcome.
    """

    share: Floats
    people: dict[bool, Floats]
    outcome: dict[bool, Floats]

    @classmethod
    def of(cls, part: RankedRows) -> ArmSweep:
        total = part.ranking.from_top(part.weight)
        arms = [arm for arm, _ in part.arms]
        return cls(
            share=total / total[-1],
            people={arm: part.ranking.from_top(part.arm_presence(arm)) for arm in arms},
            outcome={arm: part.ranking.from_top(part.arm_outcome(arm)) for arm in arms},
        )

    def mean_at(self, shares: Floats, arm: bool, *, rest: bool = False) -> Floats:
        """Mean outcome of the arm in the top shares, or below them; NaN where nobody is there."""
        at = self.on_knots(shares)
        people, outcome = self.people[arm], self.outcome[arm]
        n, total = np.interp(at, self.share, people), np.interp(at, self.share, outcome)
        if rest:
            n, total = people[-1] - n, outcome[-1] - total
        nobody = n <= 1e-12 * people[-1]  # what rounding leaves of nobody
        return np.divide(total, n, out=np.full(len(shares), np.nan), where=~nobody)

    def on_knots(self, shares: Floats) -> Floats:
        """Shares moved onto a knot that they miss by rounding only (0.1 + 0.2 is not 0.3)."""
        number = np.clip(np.searchsorted(self.share, shares), 1, len(self.share) - 1)
        left, right = self.share[number - 1], self.share[number]
        nearest = np.where(shares - left < right - shares, left, right)
        return np.where(np.abs(shares - nearest) < 1e-12, nearest, shares)


def uplift_curve(
    y: ArrayLike,
    score: ArrayLike,
    *,
    treatment: ArrayLike,
    ranking: RankingKind = "joint",
    sample_weight: ArrayLike | None = None,
    propensity: ArrayLike | None = None,
    control: Any = None,
) -> tuple[Floats, Floats]:
    """Gain per person of treating the top-ranked share, for every share.

    V(q) = (outcome of treated rows in the top q) / n_T - (the same of control rows) / n_C, at the
    knots where the score changes. V(0) = 0, V(1) is the average effect, and the area under the
    lines that join the knots is exactly :func:`auuc_score`. Parameters as there.

    Returns
    -------
    share, uplift : both (number of knots,)

    Examples
    --------
    >>> share, uplift = uplift_curve([1, 0, 1, 0], [4, 3, 2, 1], treatment=[1, 1, 0, 0])
    >>> share.tolist(), uplift.tolist()
    ([0.0, 0.25, 0.5, 0.75, 1.0], [0.0, 0.5, 0.5, 0.0, 0.0])
    """
    rows = _checked(y, score, treatment, ranking, sample_weight, propensity, control)
    arm_curves = []
    for part in ranked_parts(rows, ranking):
        sweep = ArmSweep.of(part)
        for arm, sign in part.arms:
            arm_curves.append((sweep.share, sign * sweep.outcome[arm] / part.arm_total(arm)))
    (share, uplift), (other_share, other) = arm_curves
    if ranking == "joint":
        return share, uplift + other
    knots = np.union1d(share, other_share)
    return knots, np.interp(knots, share, uplift) + np.interp(knots, other_share, other)


def qini_curve(
    y: ArrayLike,
    score: ArrayLike,
    *,
    treatment: ArrayLike,
    sample_weight: ArrayLike | None = None,
    propensity: ArrayLike | None = None,
    control: Any = None,
) -> tuple[Floats, Floats]:
    """Radcliffe's Qini curve per treated person, for every share of people treated.

    Q(q) = [Y_T(q) - Y_C(q) n_T(q) / n_C(q)] / n_T: controls of the top share are scaled to the
    number of treated people found *there*, where the uplift curve scales by the arms' sizes. No
    control yet: the second term is 0. Q(1) is the average effect.

    Examples
    --------
    >>> share, qini = qini_curve([1, 0, 1, 0], [4, 3, 2, 1], treatment=[1, 1, 0, 0])
    >>> qini.tolist()
    [0.0, 0.5, 0.5, -0.5, 0.0]
    """
    rows = _checked(y, score, treatment, "joint", sample_weight, propensity, control)
    (part,) = ranked_parts(rows, "joint")
    sweep = ArmSweep.of(part)
    n_treated, n_control = sweep.people[True], sweep.people[False]
    ratio = np.divide(n_treated, n_control, out=np.zeros_like(n_treated), where=n_control > 0)
    qini = (sweep.outcome[True] - sweep.outcome[False] * ratio) / n_treated[-1]
    return sweep.share, qini


def qini_score(
    y: ArrayLike,
    score: ArrayLike,
    *,
    treatment: ArrayLike,
    sample_weight: ArrayLike | None = None,
    propensity: ArrayLike | None = None,
    control: Any = None,
) -> float:
    """Area between the Qini curve and the straight line of random targeting, per treated person.

    On the scale of AUUC - ATE/2, and close to it in a randomised trial. A constant score has 0.
    Other libraries divide by other areas: see :func:`conventions`.

    Examples
    --------
    >>> qini_score([1, 0, 1, 0], [4, 3, 2, 1], treatment=[1, 1, 0, 0])
    0.125
    """
    share, qini = qini_curve(
        y,
        score,
        treatment=treatment,
        sample_weight=sample_weight,
        propensity=propensity,
        control=control,
    )
    return float(np.trapezoid(qini, share) - qini[-1] / 2)


def uplift_at_k(
    y: ArrayLike,
    score: ArrayLike,
    *,
    treatment: ArrayLike,
    share: float | ArrayLike = 0.3,
    ranking: RankingKind = "joint",
    sample_weight: ArrayLike | None = None,
    propensity: ArrayLike | None = None,
    control: Any = None,
) -> float | Floats:
    """Average effect among the top-ranked share of people.

    mean(y | treated, top share) - mean(y | control, top share). A level of equal scores that the
    share cuts counts in part. Not a number where an arm has nobody in the top share. ``"joint"``
    takes the top of all rows, ``"separate"`` the top of each arm.

    Examples
    --------
    >>> uplift_at_k([1, 0, 1, 0], [4, 2, 3, 1], treatment=[1, 1, 0, 0], share=0.5)
    0.0
    """
    shares = check_shares(share)
    rows = _checked(y, score, treatment, ranking, sample_weight, propensity, control)
    uplift = np.zeros(len(shares))
    for part in ranked_parts(rows, ranking):
        sweep = ArmSweep.of(part)
        for arm, sign in part.arms:
            uplift += sign * sweep.mean_at(shares, arm)
    return uplift if np.ndim(share) else float(uplift[0])


def uplift_by_decile(
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
    """Average effect in each tenth of the people, best tenth first, with an interval.

    Rows of equal score stay together, in the tenth where the middle of their level falls, so
    tenths of a tied score differ in size. One row a bin: ``rows``, ``treated``, ``control``,
    ``mean_treated``, ``mean_control``, ``uplift``, ``standard_error``, ``lower``, ``upper``.

    Examples
    --------
    >>> from auucmax import load_hillstrom
    >>> trial = load_hillstrom()
    >>> table = uplift_by_decile(trial.y, trial.X["history"], treatment=trial.treatment, bins=2)
    >>> table[["rows", "uplift"]].round(4)
          rows  uplift
    bin
    1    21346  0.0443
    2    21347  0.0455
    """
    if not isinstance(bins, Integral) or bins < 1:
        raise ValueError(f"bins should be a whole number of at least 1, got {bins!r}.")
    check_level(level)
    rows = _checked(y, score, treatment, "joint", sample_weight, propensity, control)
    (part,) = ranked_parts(rows, "joint")
    above = 1 - part.ranking.mid_cumsum(part.weight) / part.total_weight
    number = np.minimum((above * bins).astype(int), bins - 1)
    table: dict[str, NDArray[Any]] = {"rows": np.bincount(number, minlength=bins)}
    means, variances = [], []
    for arm, name in ((True, "treated"), (False, "control")):
        count, mean, variance = _binned_mean(part, arm, number, bins)
        table[name] = count
        means.append(mean)
        variances.append(variance)
    table["mean_treated"], table["mean_control"] = means
    table["uplift"] = means[0] - means[1]
    table["standard_error"] = np.sqrt(variances[0] + variances[1])
    smaller_arm = np.minimum(table["treated"], table["control"])
    half = stdtrit(np.maximum(smaller_arm - 1, 1), 0.5 + level / 2) * table["standard_error"]
    table["lower"], table["upper"] = table["uplift"] - half, table["uplift"] + half
    return pd.DataFrame(table, index=pd.RangeIndex(1, bins + 1, name="bin"))


def _binned_mean(
    part: RankedRows, arm: bool, number: Any, bins: int
) -> tuple[NDArray[np.intp], Floats, Floats]:
    """Rows, weighted mean and variance of the mean of an arm's outcome in each bin."""
    in_arm = part.treated == arm
    number, y = number[in_arm], part.y[in_arm]
    weight = np.ones(len(y)) if part.arm_weight is None else part.arm_weight[in_arm]
    count = np.bincount(number, minlength=bins).astype(np.intp)
    total = np.bincount(number, weights=weight, minlength=bins)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.bincount(number, weights=weight * y, minlength=bins) / total
        square = np.bincount(number, weights=(weight * (y - mean[number])) ** 2, minlength=bins)
        variance = square / total**2 * count / (count - 1)
    return count, mean, variance


def _checked(
    y: ArrayLike,
    score: ArrayLike,
    treatment: ArrayLike,
    ranking: str,
    sample_weight: ArrayLike | None,
    propensity: ArrayLike | None,
    control: Any,
) -> Rows:
    check_choice(ranking, "ranking", RANKINGS)
    return check_rows(
        y,
        score,
        treatment=treatment,
        control=control,
        sample_weight=sample_weight,
        propensity=propensity,
    )
