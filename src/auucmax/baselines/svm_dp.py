"""SVM-DP: one ranking support vector machine for both arms.

Minimise |w|^2 / 2 + C (mean hinge over pairs) exactly, with a duality gap as the proof.

The hinge max(0, 1 - z) of a pair is the largest of a (1 - z) over 0 <= a <= 1. So any choice of an
a for each pair gives a lower bound of the minimum over w,

    D(a) = C sum m a - |C v|^2 / 2,    v = sum m a (x_i - x_j),

m the weight of a pair, and the objective at any w minus any D(a) bounds the error of w. The kink
is rounded over a width h, a = clip((1 - z) / h, 0, 1), which gives a smooth function (gradient
w - C v) that Newton's method minimises, and a D(a) at every point. Then h shrinks. Where many pairs
lie at the kink the minimiser moves in proportion to h, so two of them are extrapolated to h = 0.

No sum runs over pairs: with the losers' scores sorted, the pairs of a winner with 0 < 1 - z < h
are a run of losers, found by two binary searches; sums over runs are differences of
running sums. One evaluation is O(n log n + n d), a Hessian O(n d^2).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from auucmax._validation import (
    Bools,
    Floats,
    check_choice,
    check_level,
    check_positive,
    check_whole,
)
from auucmax.estimators.scaling import SCALES, LinearScore, fit_scaling
from auucmax.pairs import code_rows, group_weights

_FIRST_WIDTH, _LAST_WIDTH, _SHRINK = 0.5, 1e-7, 8.0


class ArmPairs(NamedTuple):
    """The rows of one arm that should rank high and low, with weights."""

    winners: Floats
    losers: Floats
    winner_weight: Floats
    loser_weight: Floats
    multiplier: float


@dataclass
class HingeSolution:
    """The best w so far, its objective, and the highest proven lower bound of the minimum.

    They may come from different points.
    """

    w: Floats
    objective: float = np.inf
    lower: float = -np.inf
    n_steps: int = 0

    @property
    def gap(self) -> float:
        """Relative duality gap: an upper bound of the excess of the objective over its minimum."""
        return max(self.objective - self.lower, 0.0) / self.objective

    def learn(self, point: _Point) -> None:
        """Update w, objective and lower bound if a point improves them."""
        self.lower = max(self.lower, point.lower)
        if point.objective < self.objective:
            self.w, self.objective = point.w, point.objective


def minimise_pair_hinge(
    arms: list[ArmPairs], C: float, *, tolerance: float = 1e-6, max_steps: int = 300
) -> HingeSolution:
    """Minimise |w|^2 / 2 + C sum over arms of multiplier sum over pairs of max(0, 1 - z).

    z = w.(x_winner - x_loser); a pair counts the product of its rows' weights. Stops when the gap
    is at most ``tolerance`` times the objective, or after ``max_steps`` Newton steps.

    Examples
    --------
    >>> one = np.ones(1)
    >>> pair = ArmPairs(np.array([[1.0, 0.0]]), np.array([[0.0, 0.0]]), one, one, 1.0)
    >>> solution = minimise_pair_hinge([pair], C=0.25)  # below 1 the hinge is not yet met
    >>> solution.w.tolist(), solution.objective, solution.gap
    ([0.25, 0.0], 0.21875, 0.0)
    >>> minimise_pair_hinge([pair], C=10.0).w.round(5).tolist()
    [1.0, 0.0]
    """
    w = np.zeros(arms[0].winners.shape[1])
    width, previous = _FIRST_WIDTH, None
    best = HingeSolution(w)
    while width > _LAST_WIDTH and best.n_steps < max_steps:
        at = partial(_Point, arms, C, width)
        point = at(w)
        best.learn(point)
        while best.gap > tolerance and best.n_steps < max_steps:  # Newton's method
            # The squared gradient is twice what it adds to the gap of its point.
            if np.linalg.norm(point.gradient) <= 1e-2 * np.sqrt(2 * best.gap * best.objective):
                break
            step = np.asarray(np.linalg.solve(point.hessian(), -point.gradient), dtype=np.float64)
            before, point = point, _search(at, point, step)
            best.n_steps += 1
            best.learn(point)
            if np.array_equal(point.w, before.w):  # no descent left at this precision
                break
        w = point.w
        # The minimiser moves about in proportion to the width: extrapolate to width 0.
        if best.gap > tolerance and previous is not None:
            best.learn(at(w + (w - previous) / (_SHRINK - 1)))
        if best.gap <= tolerance:
            break
        previous, width = w, width / _SHRINK
    return best


def _search(at: Callable[[Floats], _Point], point: _Point, step: Floats) -> _Point:
    """Line search: a point whose slope is below a third of the initial one.

    The function is convex, so its slope along the step rises and the secant brackets its zero.
    """
    slope = float(point.gradient @ step)
    low, slope_low, high, slope_high = 0.0, slope, np.inf, np.inf
    size, there = 1.0, point
    for _ in range(20):
        there = at(point.w + size * step)
        slope_there = float(there.gradient @ step)
        if abs(slope_there) <= abs(slope) / 3:
            break
        if slope_there > 0:
            high, slope_high = size, slope_there
        else:
            low, slope_low = size, slope_there
        if np.isinf(high):
            size *= 2
        else:
            part = -slope_low / (slope_high - slope_low)
            size = low + (high - low) * min(max(part, 0.1), 0.9)
    return there


class _Point:
    """Objective and lower bound of the hinge itself, gradient and Hessian of the smoothed one.

    Kinks are rounded over ``width``.
    """

    def __init__(self, pairs: list[ArmPairs], C: float, width: float, w: Floats) -> None:
        self.C, self.w = C, w
        self.arms = [_ArmPoint(arm, w, width) for arm in pairs]
        v = np.asarray(C * sum(arm.v for arm in self.arms))
        self.objective = float(w @ w / 2 + C * sum(arm.hinge for arm in self.arms))
        self.lower = float(C * sum(arm.total for arm in self.arms) - v @ v / 2)
        self.gradient = w - v

    def hessian(self) -> Floats:
        bends = [arm.hessian() for arm in self.arms]
        return np.asarray(np.eye(len(self.w)) + self.C * sum(bends))


class _ArmPoint:
    """Sums over the pairs of one arm at w, times the multiplier."""

    def __init__(self, arm: ArmPairs, w: Floats, width: float) -> None:
        self.arm, self.width = arm, width
        winners, losers, u, v, m = arm
        gap, score = 1.0 - winners @ w, losers @ w  # 1 - z = gap_i + score_j
        # Winners are sorted only to speed up the searches: neighbours look at the same places.
        high, low = np.argsort(gap), np.argsort(score)
        gap, u, score, v = gap[high], u[high], score[low], v[low]
        # The losers of i with 0 < 1 - z are first_i, ...; those with 1 - z > width last_i, ...
        first = np.searchsorted(score, -gap, side="right")
        last = np.searchsorted(score, width - gap, side="right")
        count, moment = _running(v), _running(v * score)
        beyond = count[-1] - count
        inside = count[last] - count[first]
        per_winner = beyond[last] + (gap * inside + moment[last] - moment[first]) / width
        # The same runs seen from the losers: which winners' runs hold j, or lie before.
        covered = _covering(first, last, u, len(score))
        before = np.cumsum(np.bincount(last, u, len(score) + 1))[:-1]
        covered_gap = _covering(first, last, u * gap, len(score))
        per_loser = before + (covered_gap + score * covered) / width
        self.hinge = m * float(u @ (gap * beyond[first] + moment[-1] - moment[first]))
        self.total = m * float(u @ per_winner)  # sum of a
        # Sum of a (x_i - x_j).
        self.v = m * (
            _unsorted(u * per_winner, high) @ winners - _unsorted(v * per_loser, low) @ losers
        )
        # Of the sorted winners, the runs of sorted losers at the kink, and their weights.
        self._runs = high, low, first, last, u * inside, v * covered

    def hessian(self) -> Floats:
        """m / width times the sum of (x_i - x_j)(x_i - x_j)' over pairs with 0 < 1 - z < width."""
        winners, losers, u, v, m = self.arm
        high, low, first, last, per_winner, per_loser = self._runs
        some = np.flatnonzero(per_winner)  # winners with a pair at the kink; often few, or none
        if not len(some):
            return np.zeros((losers.shape[1], losers.shape[1]))
        # Beyond the runs of these no loser is at the kink.
        start, stop = int(first[some].min()), int(last[some].max())
        low, per_loser = low[start:stop], per_loser[start:stop]
        near_winners, near = winners[high[some]], losers[low]
        running = np.zeros((len(low) + 1, losers.shape[1]))
        np.cumsum(near * v[low, None], axis=0, out=running[1:])
        sums = running[last[some] - start] - running[first[some] - start]
        cross = (near_winners * u[high[some], None]).T @ sums
        square = (near_winners.T * per_winner[some]) @ near_winners + (near.T * per_loser) @ near
        return np.asarray((m / self.width) * (square - cross - cross.T))


def _unsorted(values: Floats, order: NDArray[np.intp]) -> Floats:
    result = np.empty_like(values)
    result[order] = values
    return result


def _running(values: Floats) -> Floats:
    """Cumulative sums with a leading zero."""
    return np.append(0.0, np.cumsum(values))


def _covering(first: NDArray[np.intp], last: NDArray[np.intp], weight: Floats, size: int) -> Floats:
    """For each j < size, the total weight of the intervals [first, last) that contain j."""
    change = np.bincount(first, weight, size + 1) - np.bincount(last, weight, size + 1)
    return np.asarray(np.cumsum(change)[:-1])


@dataclass(eq=False, repr=False)
class SVMDifferentialPrediction(LinearScore):
    """Support vector machine for differential prediction (Kuusisto et al., ECML 2014).

    Minimises

        |w|^2 / 2 + C [ mean of max(0, 1 - z) over treated pairs + kappa mean over control pairs ]

    z = w.(x_i - x_j), where i responded and j did not if they are treated, and the other way round
    if they are controls. Needs 0/1 outcomes and both of them in each arm. All pairs count, at the
    cost of one sort of the rows per step; two float64 copies of X are held.

    While no score of a winner exceeds that of a loser by 1 the hinge is a straight line, w is C
    times a difference of class means, and a larger C does not change the ranking. With features
    scaled to [0, 1] that may be so up to C = 1 or more: try 1, 10, 100. (SVM-perf counts errors in
    percent, so that its C would be 100 times as large here.) With 0/1 features and a large C many
    coefficients of the minimiser are 0 and most scores tie; their remainders of about 1e-5 then
    break the ties.

    Parameters
    ----------
    C : weight of the pairs against |w|^2.
    weights : kappa: "lambda" (of AUUC, lam_C / lam_T with lam_g = p_g (1 - p_g), p_g the response
        rate), "absolute" (of Kuusisto et al., n_C lam_C / n_T lam_T; the same if arms are equally
        large), "uniform" (1), or two numbers in the places of 1 and kappa.
    scale : "min-max", "column-l2" (columns of unit norm), "unit-rows" or "none". Part of the model.
    tolerance : stop when the duality gap is at most this part of the objective.
    max_steps : maximum number of Newton steps.
    control : label of the control group, when treatment is not 0/1.

    Attributes
    ----------
    coef_ : (d,) in the units of X: scores are X @ coef_ + intercept_. ("unit-rows": of the
        normalised rows.)
    scaled_coef_ : (d,) w, the coefficients of the scaled features.
    objective_ : the minimum reached.
    gap_ : proven bound of the relative excess of the objective over its minimum.
    converged_ : whether gap_ <= tolerance. n_steps_ : number of Newton steps.
    n_parameters_ : d + 1.

    Examples
    --------
    >>> from auucmax import load_hillstrom
    >>> train, test = load_hillstrom().split(random_state=0)
    >>> model = SVMDifferentialPrediction(C=10).fit(train.X, train.y, treatment=train.treatment)
    >>> model.converged_, model.n_parameters_
    (True, 23)
    >>> round(model.score(test.X, test.y, treatment=test.treatment), 3)
    0.031
    """

    needs_binary: ClassVar[bool] = True

    C: float = 1.0
    _: KW_ONLY
    weights: str | tuple[float, float] = "lambda"
    scale: str = "min-max"
    tolerance: float = 1e-6
    max_steps: int = 300

    def _fit(
        self, X: NDArray[Any], y: Floats, treated: Bools, sample_weight: Floats | None
    ) -> None:
        self._check_parameters()
        scaling = fit_scaling(X, self.scale, sample_weight)
        rows = scaling.scaled(X)
        rows -= rows.mean(axis=0)  # pairs depend on differences only
        # On small matrices a second BLAS thread waits more than it works.
        with threadpool_limits(limits=1, user_api="blas"):
            found = minimise_pair_hinge(
                _arms(rows, y, treated, sample_weight, self.weights),
                float(self.C),
                tolerance=float(self.tolerance),
                max_steps=int(self.max_steps),
            )
        self._set_score(scaling, found.w)
        self.scaled_coef_ = found.w
        self.objective_, self.gap_, self.n_steps_ = found.objective, found.gap, found.n_steps
        self.converged_ = found.gap <= self.tolerance
        if not self.converged_:
            warnings.warn(
                f"the duality gap should be at most {self.tolerance:g} of the objective, got "
                f"{found.gap:.1g} after {found.n_steps} steps. The scores may still be useful; "
                f"raise max_steps or tolerance, or take a smaller C.",
                ConvergenceWarning,
                stacklevel=3,
            )

    def _check_parameters(self) -> None:
        check_positive(self.C, "C", "Try 1, 10 and 100.")
        check_choice(self.scale, "scale", SCALES)
        check_level(self.tolerance, "tolerance")
        check_whole(self.max_steps, "max_steps", 1)


def _arms(
    X: Floats,
    y: Floats,
    treated: Bools,
    sample_weight: Floats | None,
    weights: str | tuple[float, float],
) -> list[ArmPairs]:
    """Pairs of both arms, weighted so that sums are means times 1 and kappa."""
    codes = code_rows(y, treatment=treated)
    weight = np.ones(len(y)) if sample_weight is None else sample_weight
    totals = np.bincount(codes, weight, minlength=4).astype(np.float64)
    arm_weights = group_weights(weights, totals)
    unit = arm_weights[0] if isinstance(weights, str) else 1.0
    arms = []
    for arm, arm_weight in enumerate(arm_weights):
        if arm_weight == 0:
            continue
        high, low = codes == 2 * arm, codes == 2 * arm + 1
        # Weights that sum to 1: the sum over pairs is the mean.
        u, v = weight[high] / totals[2 * arm], weight[low] / totals[2 * arm + 1]
        arms.append(ArmPairs(X[high], X[low], u, v, arm_weight / unit))
    return arms
