"""TM and SDR with the l2 of their logistic models searched, by one Newton's method for both.

Both models are a logistic regression in each arm, theta = (beta_T, alpha_T, beta_C, alpha_C), and
differ in the penalty alone:

    mean log-loss of the rows + l2 theta' Q theta.

For TM the mean is taken within each arm and Q adds up the squared coefficients of the arm's
min-max features. SDR's stacked row [x, x 1_T, x 1_C, 1_T] gives an arm the coefficient w + v_g of
a feature; least over w, the penalty w^2 + k_T (b_T - w)^2 + k_C (b_C - w)^2 of a feature is

    k_T b_T^2 + k_C b_C^2 - (k_T b_T + k_C b_C)^2 / (1 + k_T + k_C),

k_g the squared ratio of the range of column x 1_g to that of x. So 3d + 2 columns that depend on
each other become 2d + 2 that do not; a Hessian has a block for each arm, plus Q. The models of the
folds start at that of all rows with the same l2, and are solved as exactly as any other.
:class:`experiments.searched.Tuned`, which fits them with scikit-learn, is the slow twin.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from threadpoolctl import threadpool_limits

from auucmax import TrialKFold, auuc_score
from experiments.searched import N_FOLDS, Tuned

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

KINDS = ("TM", "SDR, treatment column")
_LEAST_L2 = 1e-9  # of the slow twin: flat directions take the shortest solution
_BLOCK = 8192  # rows whose features stay in the cache from the scores to the Hessian
_MAX_STEPS = 100


class PathTuned(Tuned):
    """TM or SDR with l2 chosen by AUUC over 5 folds: what :class:`Tuned` fits, sooner.

    Attributes
    ----------
    coef_ : (2, d), intercept_ : (2,), of the treated and of the controls, in the units of X.
    """

    def _fit(self, X: Any, y: Any, treated: Any, sample_weight: Any) -> None:
        # On small matrices a second BLAS thread waits more than it works.
        with threadpool_limits(limits=1, user_api="blas"):
            self._search(np.asarray(X), y, treated)

    def _search(self, X: NDArray[Any], y: Floats, treated: NDArray[np.bool_]) -> None:
        low, width = _ranges(X)
        Z = np.ones((len(X), X.shape[1] + 1))
        np.divide(X - low, width, out=Z[:, :-1])
        origin = -low / width  # Z at x = 0
        whole = path(self._problem(Z, y, treated, origin), self.l2_grid)

        def fit_all(rows: Indices) -> Sequence[Floats]:
            problem = self._problem(Z[rows], y[rows], treated[rows], origin)
            return path(problem, self.l2_grid, whole)

        def evaluate_all(thetas: Sequence[Floats], rows: Indices) -> list[float]:
            part = Z[rows]
            return [
                auuc_score(y[rows], _uplift(part, theta), treatment=treated[rows])
                for theta in thetas
            ]

        splitter = TrialKFold(N_FOLDS, random_state=self.random_state)
        folds = splitter.split(X, y, treatment=treated)
        best = 0
        if len(self.l2_grid) > 1:
            judged = [evaluate_all(fit_all(train), test) for train, test in folds]
            best = int(np.argmax(np.mean(judged, axis=0)))
        self.chosen_ = {"l2": self.l2_grid[best]}
        beta, alpha = whole[best].reshape(2, -1)[:, :-1], whole[best].reshape(2, -1)[:, -1]
        self.coef_, self.intercept_ = beta / width, alpha + beta @ origin
        self.n_parameters_ = (2 * X.shape[1] if self.model == "TM" else 3 * X.shape[1]) + 2
        self.n_rows_ = len(y)

    def _problem(self, Z: Floats, y: Floats, treated: NDArray[np.bool_], origin: Floats) -> Problem:
        parts = tuple((Z[arm], y[arm]) for arm in (treated, ~treated))
        if self.model == "TM":
            return Problem(parts, [1 / len(part[1]) for part in parts], _two_penalties(parts))
        return Problem(parts, [1 / len(y)] * 2, _shared_penalty(parts, origin))

    def _predict(self, X: Any) -> Floats:
        treated, control = expit(np.asarray(X) @ self.coef_.T + self.intercept_).T
        return np.asarray(treated - control)


Arms = tuple[tuple[Floats, Floats], ...]  # (Z, y) of the treated and of the controls


class Problem(NamedTuple):
    """Rows of the arms, the weight of a row of each, and the penalty matrix Q."""

    arms: Arms
    weights: Sequence[float]
    penalty: Floats

    def derivatives(self, theta: Floats, l2: float) -> tuple[float, Floats, Floats]:
        """Value (), gradient (2d + 2,) and Hessian (2d + 2, 2d + 2) of loss + l2 theta' Q theta."""
        hessian = 2 * l2 * self.penalty
        gradient = hessian @ theta
        value, k = float(theta @ gradient) / 2, len(theta) // 2
        for arm, ((Z, y), weight) in enumerate(zip(self.arms, self.weights, strict=True)):
            own = slice(arm * k, arm * k + k)
            loss, slope, curvature = _log_loss(Z, y, theta[own])
            value += weight * loss
            gradient[own] += weight * slope
            hessian[own, own] += weight * curvature
        return value, gradient, hessian


def path(
    problem: Problem, grid: Sequence[float], starts: Sequence[Floats] | None = None
) -> list[Floats]:
    """The minimiser for each l2, from the given start or from that of the l2 before."""
    found: list[Floats] = []
    for number, l2 in enumerate(grid):
        if starts is not None:
            start = starts[number]
        else:
            start = found[-1] if found else np.zeros(len(problem.penalty))
        found.append(minimise(problem, max(l2, _LEAST_L2), start))
    return found


def minimise(problem: Problem, l2: float, theta: Floats) -> Floats:
    """Newton's method; the last step, from where half the squared decrement is 1e-8, is made."""
    value, gradient, hessian = problem.derivatives(theta, l2)
    for _ in range(_MAX_STEPS):
        step = np.linalg.solve(hessian, -gradient)
        decrement = -float(gradient @ step)
        if decrement <= 1e-8:
            return np.asarray(theta + step)
        size = 1.0
        there = problem.derivatives(theta + step, l2)
        while there[0] > value - 1e-4 * size * decrement:
            size /= 2
            there = problem.derivatives(theta + size * step, l2)
        theta = theta + size * step
        value, gradient, hessian = there
    raise RuntimeError(
        f"a logistic model should be solved in {_MAX_STEPS} steps, got a decrement of "
        f"{decrement:.1g}. Are the outcomes of an arm separated by the features? Raise l2."
    )


def _log_loss(Z: Floats, y: Floats, theta: Floats) -> tuple[float, Floats, Floats]:
    """Sum of the log-losses of the rows, its gradient and Hessian, in one pass."""
    k = len(theta)
    value, gradient, hessian = 0.0, np.zeros(k), np.zeros((k, k))
    for start in range(0, len(y), _BLOCK):
        rows, outcome = Z[start : start + _BLOCK], y[start : start + _BLOCK]
        eta = rows @ theta
        p = expit(eta)
        value += float(np.logaddexp(0, eta).sum() - eta @ outcome)
        gradient += (p - outcome) @ rows
        hessian += (rows.T * (p * (1 - p))) @ rows
    return value, gradient, hessian


def _two_penalties(arms: Arms) -> Floats:
    """Q of TM: the squared coefficients of features scaled to [0, 1] within each arm."""
    return np.diag(np.concatenate([np.append(_ranges(Z[:, :-1])[1] ** 2, 0) for Z, _ in arms]))


def _shared_penalty(arms: Arms, origin: Floats) -> Floats:
    """Q of SDR: the formula above, and the squared difference of the arms' levels at x = 0."""
    d = len(origin)
    low, high = (
        np.array([extreme(Z[:, :-1], axis=0) for Z, _ in arms]) for extreme in (np.min, np.max)
    )
    shared = _width(low.min(axis=0), high.max(axis=0))
    # The column of an arm is 0 for the rows of the other.
    own = _width(np.minimum(low, origin), np.maximum(high, origin))
    k = (own / shared) ** 2
    # In units of the shared column; coefficients of Z are coefficients of it over its width.
    blocks = np.einsum("gj,hj->jgh", k, -k / (1 + k.sum(axis=0)))
    blocks[:, [0, 1], [0, 1]] += k.T
    penalty = np.zeros((2, d + 1, 2, d + 1))
    penalty[:, np.arange(d), :, np.arange(d)] = blocks * (shared**2)[:, None, None]
    level = np.append(origin, 1.0)
    difference = np.concatenate([level, -level])
    return penalty.reshape(2 * d + 2, -1) + np.outer(difference, difference)


def _uplift(Z: Floats, theta: Floats) -> Floats:
    treated, control = expit(Z @ theta.reshape(2, -1).T).T
    return np.asarray(treated - control)


def _ranges(X: NDArray[Any]) -> tuple[Floats, Floats]:
    """Least value and width of each column."""
    low = X.min(axis=0).astype(np.float64)
    return low, _width(low, X.max(axis=0))


def _width(low: Floats, high: NDArray[Any]) -> Floats:
    """A column of one value has width 1, as in scikit-learn's scaler."""
    return np.asarray(np.where(high > low, high - low, 1.0), dtype=np.float64)
