"""Baselines that reduce uplift to ordinary prediction of another target, or in each arm."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn import get_config
from sklearn.base import clone, is_classifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.utils.validation import has_fit_parameter

from auucmax._validation import Bools, Floats, check_choice, check_level
from auucmax.estimators.base import UpliftEstimator

__all__ = ["ClassTransformation", "TransformedOutcome", "TwoModels"]


class TwoModels(UpliftEstimator):
    """TM: one model of the outcome in each arm; the score is the difference of their predictions.

        score(x) = P(y = 1 | x, treated) - P(y = 1 | x, control)

    (means instead of probabilities for a regressor).

    Parameters
    ----------
    estimator : any scikit-learn classifier (0/1 outcome) or regressor; cloned for each arm. By
        default logistic regression, or least squares if y is not 0/1.
    control : label of the control group, when treatment is not 0/1.

    Attributes
    ----------
    treated_model_, control_model_ : the fitted models.
    n_parameters_ : coefficients and intercepts of both, if the models are linear.

    Examples
    --------
    >>> from auucmax import load_hillstrom
    >>> train, test = load_hillstrom().split(random_state=0)
    >>> model = TwoModels().fit(train.X, train.y, treatment=train.treatment)
    >>> model.n_parameters_
    46
    >>> round(model.score(test.X, test.y, treatment=test.treatment), 3)
    0.031
    """

    def __init__(self, estimator: Any = None, *, control: Any = None) -> None:
        self.estimator = estimator
        self.control = control

    def _fit(
        self, X: NDArray[Any], y: Floats, treated: Bools, sample_weight: Floats | None
    ) -> None:
        base = self.estimator if self.estimator is not None else default_model(y)
        models = []
        for arm in (treated, ~treated):
            weight = None if sample_weight is None else sample_weight[arm]
            models.append(fit_model(clone(base), X[arm], y[arm], weight))
        self.treated_model_, self.control_model_ = models
        self.n_parameters_ = sum(count_parameters(model) for model in models)

    def _predict(self, X: NDArray[Any]) -> Floats:
        return mean_outcome(self.treated_model_, X) - mean_outcome(self.control_model_, X)


class ClassTransformation(UpliftEstimator):
    """CVT: predict z = 1[y = t], whose probability is (1 + uplift) / 2; score = 2 P(z = 1) - 1.

    That identity needs as many treated as control rows. Where the arms differ in size, weights
    t / (2e) + (1 - t) / (2(1 - e)) with e the treated share restore it (``balance="weights"``, the
    default; no effect on a balanced trial). ``balance="none"`` leaves the rows as they are.

    Parameters
    ----------
    estimator : a scikit-learn classifier, logistic regression by default.
    balance : "weights" or "none".
    propensity : e, the probability of treatment by design; None: the treated share of the rows.
    control : label of the control group, when treatment is not 0/1.

    Attributes
    ----------
    model_ : the fitted model of z.
    n_parameters_ : its coefficients and intercept, if it is linear: d + 1 by default.

    Examples
    --------
    >>> from auucmax import load_hillstrom
    >>> train, test = load_hillstrom().split(random_state=0)
    >>> model = ClassTransformation().fit(train.X, train.y, treatment=train.treatment)
    >>> model.n_parameters_
    23
    """

    _binary_outcome: ClassVar[bool] = True

    def __init__(
        self,
        estimator: Any = None,
        *,
        balance: str = "weights",
        propensity: float | None = None,
        control: Any = None,
    ) -> None:
        self.estimator = estimator
        self.balance = balance
        self.propensity = propensity
        self.control = control

    def _fit(
        self, X: NDArray[Any], y: Floats, treated: Bools, sample_weight: Floats | None
    ) -> None:
        check_choice(self.balance, "balance", ("weights", "none"))
        if self.propensity is not None and self.balance == "none":
            raise ValueError(
                f"propensity should be None with balance='none', which makes no use of it; got "
                f"{self.propensity!r}. Drop one of the two."
            )
        agrees = (y == treated).astype(np.float64)
        weight = sample_weight
        if self.balance == "weights":
            share = treatment_probability(self.propensity, treated, sample_weight)
            own = np.where(treated, 1 / (2 * share), 1 / (2 * (1 - share)))
            weight = own if sample_weight is None else own * sample_weight
        base = self.estimator if self.estimator is not None else default_model(agrees)
        self.model_ = fit_model(clone(base), X, agrees, weight)
        self.n_parameters_ = count_parameters(self.model_)

    def _predict(self, X: NDArray[Any]) -> Floats:
        return 2 * mean_outcome(self.model_, X) - 1


class TransformedOutcome(UpliftEstimator):
    """MOM: regress a target whose mean given x is the uplift; the score is the prediction.

        target = y (t - e) / (e (1 - e)),        e = P(treated)

    so y / e for a treated row and -y / (1 - e) for a control row; E[target | x] is the uplift
    whatever the outcome's law. One model, d + 1 parameters if it is linear; the price is a noisier
    target than two models have.

    Parameters
    ----------
    estimator : a scikit-learn regressor, least squares by default.
    propensity : e, the probability of treatment by design; None: the treated share of the rows.
    control : label of the control group, when treatment is not 0/1.

    Attributes
    ----------
    model_ : the fitted regressor.
    n_parameters_ : its coefficients and intercept, if it is linear.

    Examples
    --------
    >>> from auucmax import load_hillstrom
    >>> train, test = load_hillstrom().split(random_state=0)
    >>> model = TransformedOutcome().fit(train.X, train.y, treatment=train.treatment)
    >>> model.n_parameters_
    23
    >>> round(model.score(test.X, test.y, treatment=test.treatment), 3)
    0.03
    """

    def __init__(
        self, estimator: Any = None, *, propensity: float | None = None, control: Any = None
    ) -> None:
        self.estimator = estimator
        self.propensity = propensity
        self.control = control

    def _fit(
        self, X: NDArray[Any], y: Floats, treated: Bools, sample_weight: Floats | None
    ) -> None:
        base = LinearRegression() if self.estimator is None else self.estimator
        if is_classifier(base):
            raise ValueError(
                f"estimator should be a regressor, since the target is not 0/1; got the classifier "
                f"{type(base).__name__}. Use ClassTransformation with it, or a regressor."
            )
        share = treatment_probability(self.propensity, treated, sample_weight)
        target = np.where(treated, y / share, -y / (1 - share))
        self.model_ = fit_model(clone(base), X, target, sample_weight)
        self.n_parameters_ = count_parameters(self.model_)

    def _predict(self, X: NDArray[Any]) -> Floats:
        return mean_outcome(self.model_, X)


def treatment_probability(
    propensity: float | None, treated: Bools, sample_weight: Floats | None
) -> float:
    """The probability that the user states, else the treated share of the rows."""
    if propensity is None:
        return float(np.average(treated, weights=sample_weight))
    check_level(propensity, "propensity")
    return float(propensity)


def fit_model(model: Any, X: NDArray[Any], y: Floats, weight: Floats | None) -> Any:
    """Fit a scikit-learn model, with weights only where there are some."""
    if is_classifier(model):
        levels = np.unique(y)
        if not np.isin(levels, (0, 1)).all() or len(levels) < 2:
            raise ValueError(
                f"y should have both 0 and 1 among the rows of each model to fit a classifier, got "
                f"{', '.join(f'{v:g}' for v in levels[:4])}. Use a regressor, or collect more rows."
            )
        if not hasattr(model, "predict_proba"):
            raise ValueError(
                f"a classifier should have predict_proba, got {type(model).__name__}. Wrap it in "
                f"CalibratedClassifierCV, or use another."
            )
        y = y.astype(np.int64)
    if weight is None or np.ptp(weight) == 0:  # equal weights are no weights
        return model.fit(X, y)
    name, target = "sample_weight", model
    if hasattr(model, "steps") and not get_config()["enable_metadata_routing"]:
        name, target = f"{model.steps[-1][0]}__sample_weight", model.steps[-1][1]
    routed = target is model and hasattr(model, "steps")
    if not routed and not has_fit_parameter(target, "sample_weight"):
        raise ValueError(
            f"the model should take sample_weight, got {type(target).__name__}, which does not. "
            f"Use another model, no weights, and balance='none' for class transformation."
        )
    return model.fit(X, y, **{name: weight})


def mean_outcome(model: Any, X: NDArray[Any]) -> Floats:
    """P(y = 1 | x) of a classifier, the prediction of a regressor."""
    predicted = model.predict_proba(X)[:, 1] if is_classifier(model) else model.predict(X)
    return np.asarray(predicted, dtype=np.float64)


def count_parameters(model: Any) -> int:
    """Coefficients and intercepts of a linear model, or of the last step of a pipeline."""
    last = model[-1] if hasattr(model, "steps") else model
    return int(sum(np.size(getattr(last, name, ())) for name in ("coef_", "intercept_")))


def default_model(y: Floats) -> Any:
    """Logistic regression for a 0/1 outcome, least squares for any other."""
    if np.isin(y, (0, 1)).all():
        # A second-order method: exact, and indifferent to the units of the features.
        return LogisticRegression(solver="newton-cholesky")
    return LinearRegression()
