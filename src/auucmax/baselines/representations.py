"""DDR and SDR: models of the two arms that share information through added columns.

Both are from Betlei, Diemert and Amini, "Uplift prediction with dependent feature representation in
imbalanced treatment and control conditions" (2018).
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.preprocessing import StandardScaler

from auucmax._validation import Bools, Floats, check_choice, check_positive
from auucmax.estimators.base import count_parameters, row_weights
from auucmax.estimators.meta import OverBaseModel, default_model, fit_model, mean_outcome

ORDERS = ("control-first", "treatment-first")


@dataclass(eq=False, repr=False)
class DependentDataRepresentation(OverBaseModel):
    """DDR: the model of one arm takes the prediction of the other arm's model as a feature.

    With ``order="control-first"``

        p_C(x) is fitted on the control rows,
        p_T(x, z) with z = p_C(x) on the treated rows,
        score(x) = p_T(x, p_C(x)) - p_C(x);

    ``"treatment-first"`` swaps the arms. z of a row is always out of sample: the first model never
    saw the rows of the second. Both models linear: (d + 1) + (d + 2) parameters, 47 for 22
    features. With least squares it changes nothing, since z is a linear function of x.

    Parameters
    ----------
    estimator : any scikit-learn classifier (0/1 outcome) or regressor; cloned for each arm. By
        default logistic regression on standardised features, or least squares if y is not 0/1.
    order : "control-first" or "treatment-first".
    control : label of the control group, when treatment is not 0/1.

    Attributes
    ----------
    treated_model_, control_model_ : the fitted models; the second one has d + 1 features.
    n_parameters_ : number of parameters of both; None if unknown.

    Examples
    --------
    >>> from auucmax import load_hillstrom
    >>> train, test = load_hillstrom().split(random_state=0)
    >>> model = DependentDataRepresentation()
    >>> model.fit(train.X, train.y, treatment=train.treatment).n_parameters_
    47
    """

    _adds_columns: ClassVar[bool] = True

    _: KW_ONLY
    order: str = "control-first"

    def _fit(
        self, X: NDArray[Any], y: Floats, treated: Bools, sample_weight: Floats | None
    ) -> None:
        check_choice(self.order, "order", ORDERS)

        def fit_arm(arm: Bools, features: NDArray[Any]) -> Any:
            weight = row_weights(sample_weight, arm)
            return self._fit_model(default_model(y), features, y[arm], weight)

        first_arm = ~treated if self.order == "control-first" else treated
        first = fit_arm(first_arm, X[first_arm])
        second = fit_arm(~first_arm, _with_prediction(X[~first_arm], first))
        models = (first, second) if self.order == "control-first" else (second, first)
        self.control_model_, self.treated_model_ = models
        self.n_parameters_ = count_parameters(first, second)

    def _predict(self, X: NDArray[Any]) -> Floats:
        if self.order == "control-first":
            first, second, sign = self.control_model_, self.treated_model_, 1.0
        else:
            first, second, sign = self.treated_model_, self.control_model_, -1.0
        return sign * (mean_outcome(second, _with_prediction(X, first)) - mean_outcome(first, X))


@dataclass(eq=False, repr=False)
class SharedDataRepresentation(OverBaseModel):
    """SDR: one model for both arms, with shared columns and a scaled copy of them for each arm.

        treated row -> [x, s x, 0, 1]        control row -> [x, 0, s x, 0]

    (the last column only if ``treatment_column``). A logistic regression on it has

        p_T(x) = sigmoid((w + s v_T).x + b + c),    p_C(x) = sigmoid((w + s v_C).x + b)

    and the score is p_T(x) - p_C(x), the same s at prediction. Under an l2 penalty the arms' own
    coefficients s v_g are penalised 1 / s^2 times as much as the shared ones: small s pulls the
    arms towards one pooled model (with an effect c on the log-odds), large s towards two models.
    Without a penalty the split is not determined, though the predictions are.

    3d + 2 parameters with the treatment column, 68 for 22 features; 3d + 1 without, 67. Without
    it the arms differ in level only if some features always sum to a constant, as one-hot columns
    do: then it may be left out, and the count is the one that the authors publish. The units of the
    features do not matter to the default model, nor do shifts if there is a treatment column.

    Parameters
    ----------
    estimator : any scikit-learn classifier (0/1 outcome) or regressor. By default logistic
        regression on features that are standardised before they are stacked, or least squares if y
        is not 0/1.
    arm_scale : s > 0.
    treatment_column : whether the treatment is a column too, so that an effect common to all
        people can be represented whatever the features.
    control : label of the control group, when treatment is not 0/1.

    Attributes
    ----------
    model_ : the fitted model of the stacked columns.
    scaler_ : standardises features for the default model, else None.
    n_parameters_ : number of parameters; None if unknown.

    Examples
    --------
    >>> from auucmax import load_hillstrom
    >>> train, test = load_hillstrom().split(random_state=0)
    >>> rows = {"X": train.X, "y": train.y, "treatment": train.treatment}
    >>> SharedDataRepresentation().fit(**rows).n_parameters_
    68
    >>> SharedDataRepresentation(treatment_column=False).fit(**rows).n_parameters_
    67
    """

    _adds_columns: ClassVar[bool] = True

    _: KW_ONLY
    arm_scale: float = 1.0
    treatment_column: bool = True

    def _fit(
        self, X: NDArray[Any], y: Floats, treated: Bools, sample_weight: Floats | None
    ) -> None:
        check_positive(
            self.arm_scale,
            "arm_scale",
            "1 penalises the arms' own coefficients as much as the shared ones, 0.1 a hundred "
            "times as much.",
        )
        weight = row_weights(sample_weight)
        self.scaler_ = None
        model = default_model(y)
        if self.estimator is None:
            # Without the treatment column only scales are removed: shifts of columns then carry the
            # levels of the arms.
            scaler = StandardScaler(with_mean=self.treatment_column)
            self.scaler_ = scaler.fit(X, sample_weight=weight)
        else:
            model = clone(self.estimator)
        self.model_ = fit_model(model, self._stack(X, treated), y, weight)
        self.n_parameters_ = count_parameters(self.model_)

    def _predict(self, X: NDArray[Any]) -> Floats:
        treated, control = (
            mean_outcome(self.model_, self._stack(X, np.full(len(X), arm))) for arm in (True, False)
        )
        return treated - control

    def _stack(self, X: NDArray[Any], treated: Bools) -> NDArray[Any]:
        if self.scaler_ is not None:
            X = self.scaler_.transform(X)
        own, zero = self.arm_scale * X, np.zeros((), dtype=X.dtype)
        # Not a product with the arm: a missing value times 0 is not 0.
        in_arm = treated[:, None]
        columns = [X, np.where(in_arm, own, zero), np.where(in_arm, zero, own)]
        return np.hstack([*columns, in_arm.astype(X.dtype)] if self.treatment_column else columns)


def _with_prediction(X: NDArray[Any], model: Any) -> NDArray[Any]:
    return np.column_stack([X, mean_outcome(model, X).astype(X.dtype)])
