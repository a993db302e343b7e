"""SVM-DP: a ranking support vector machine for both arms at once."""

from __future__ import annotations

import warnings
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from auucmax._validation import Bools, Floats, check_choice, check_level, check_whole
from auucmax.estimators.base import UpliftEstimator
from auucmax.estimators.pair_hinge import ArmPairs, HingeSolution, minimise_pair_hinge
from auucmax.estimators.scaling import SCALES, Scaling, fit_scaling
from auucmax.pairs import code_rows, group_weights, scores


class SVMDifferentialPrediction(UpliftEstimator):
    """Support vector machine for differential prediction (Kuusisto et al., ECML 2014).

    Minimises

        |w|^2 / 2 + C [ mean of max(0, 1 - z) over treated pairs + kappa mean over control pairs ]

    z = w.(x_i - x_j), where i responded and j did not if they are treated, and the other way round
    if they are controls. Needs 0/1 outcomes and both of them in each arm. All pairs count, at a
    cost of a sort of the rows for each step; two float64 copies of X are held.

    While no score of a winner exceeds that of a loser by 1 the hinge is a straight line, w is C
    times a difference of class means, and a larger C does not change the ranking. With features
    scaled to [0, 1] that may be so up to C = 1 or more: try 1, 10, 100. (SVM-perf counts errors in
    percent, so that its C would be 100 times as large here.) With 0/1 features and a large C many
    coefficients of the minimiser are 0 and most scores tie; what the solver leaves of these
    coefficients, some 1e-5, then breaks the ties.

    Parameters
    ----------
    C : weight of the pairs against |w|^2.
    weights : kappa: "lambda" (of AUUC, lam_C / lam_T with lam_g = p_g (1 - p_g), p_g the response
        rate), "absolute" (of Kuusisto et al., n_C lam_C / n_T lam_T; the same if arms are equally
        large), "uniform" (1), or two numbers in the places of 1 and kappa.
    scale : "min-max", "column-l2" (columns of unit norm), "unit-rows" or "none". Part of the model.
    tolerance : stop when the duality gap is at most this part of the objective.
    max_steps : of Newton's method.
    control : label of the control group, when treatment is not 0/1.

    Attributes
    ----------
    coef_ : (d,) in the user's own units: scores are X @ coef_ + intercept_. ("unit-rows": of the
        normalised rows.)
    scaled_coef_ : (d,) w, the coefficients of the scaled features.
    objective_ : the minimum reached.
    gap_ : the objective is proved to be within this part of itself of the minimum.
    converged_ : whether gap_ <= tolerance. n_steps_ : of Newton's method.
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

    _binary_outcome: ClassVar[bool] = True

    def __init__(
        self,
        C: float = 1.0,
        *,
        weights: str | tuple[float, float] = "lambda",
        scale: str = "min-max",
        tolerance: float = 1e-6,
        max_steps: int = 300,
        control: Any = None,
    ) -> None:
        self.C = C
        self.weights = weights
        self.scale = scale
        self.tolerance = tolerance
        self.max_steps = max_steps
        self.control = control

    def _fit(
        self, X: NDArray[Any], y: Floats, treated: Bools, sample_weight: Floats | None
    ) -> None:
        self._check_parameters()
        scaling = fit_scaling(X, self.scale, sample_weight)
        # On small matrices a second BLAS thread waits more than it works.
        with threadpool_limits(limits=1, user_api="blas"):
            found = minimise_pair_hinge(
                _arms(_scaled(X, scaling), y, treated, sample_weight, self.weights),
                float(self.C),
                tolerance=float(self.tolerance),
                max_steps=int(self.max_steps),
            )
        self.scaling_ = scaling
        self.scaled_coef_ = found.w
        self.coef_ = found.w * scaling.factor
        self.intercept_ = -float(self.coef_ @ scaling.shift)
        self.objective_, self.gap_, self.n_steps_ = found.objective, found.gap, found.n_steps
        self.converged_ = found.gap <= self.tolerance
        self.n_parameters_ = X.shape[1] + 1
        if not self.converged_:
            _warn_of_gap(found, float(self.tolerance))

    def _predict(self, X: NDArray[Any]) -> Floats:
        return scores(self.scaling_.rows(X), self.coef_) + self.intercept_

    def _check_parameters(self) -> None:
        if not (isinstance(self.C, Real) and 0 < float(self.C) < np.inf):
            raise ValueError(f"C should be a positive number, got {self.C!r}. Try 1, 10 and 100.")
        check_choice(self.scale, "scale", SCALES)
        check_level(self.tolerance, "tolerance")
        check_whole(self.max_steps, "max_steps", 1)


def _scaled(X: NDArray[Any], scaling: Scaling) -> Floats:
    """Scaled rows, centred: pairs see differences only, and rounding is least around 0."""
    rows = scaling.rows(X).astype(np.float64)
    rows -= scaling.shift
    rows *= scaling.factor
    rows -= rows.mean(axis=0)
    return rows


def _arms(
    X: Floats,
    y: Floats,
    treated: Bools,
    sample_weight: Floats | None,
    weights: str | tuple[float, float],
) -> list[ArmPairs]:
    """Pairs of the treated and of the controls, whose sums are means times 1 and kappa."""
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


def _warn_of_gap(found: HingeSolution, tolerance: float) -> None:
    warnings.warn(
        f"the duality gap should be at most {tolerance:g} of the objective, got {found.gap:.1g} "
        f"after {found.n_steps} steps. The scores may still be useful; raise max_steps or "
        f"tolerance, or take a smaller C.",
        ConvergenceWarning,
        stacklevel=4,
    )
