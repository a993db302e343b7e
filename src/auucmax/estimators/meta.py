"""Baselines that reduce uplift modelling to regression or classification.

They wrap any scikit-learn model. One given by the user gets X unchanged (frames, strings and
missing values too). The default models are linear, on features that are standardised for the fit,
so that neither units nor shifts of a column matter and the l2 penalty of logistic regression (C =
1) acts on all columns equally; the coefficients are then converted back to the units of X.

Weights that are whole numbers count copies of rows. For other weights only ratios matter: they are
scaled to mean 1 over the rows of each model. Weights of 1 are not passed on.
"""

from __future__ import annotations

import inspect
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.sparse import issparse
from sklearn import config_context
from sklearn.base import clone, is_classifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.preprocessing import StandardScaler
from sklearn.utils import _safe_indexing, get_tags
from sklearn.utils.validation import validate_data

from auucmax._errors import InputError
from auucmax._validation import Bools, Floats, check_choice, check_level
from auucmax.estimators.base import UpliftEstimator, count_parameters, row_weights
from auucmax.estimators.formula import Formula, Part


@dataclass(eq=False, repr=False)
class OverBaseModel(UpliftEstimator):
    """Base class of the reductions: their ``estimator`` and how it is fitted."""

    estimator: Any = None
    #: Whether columns are added to X, which then has to be an array of numbers.
    _adds_columns: ClassVar[bool] = False

    def _check_rows(self, X: Any, **how: Any) -> Any:
        own = self.estimator
        if own is None:
            return super()._check_rows(X, **how)
        if isinstance(own, type) or not (hasattr(own, "fit") and hasattr(own, "get_params")):
            raise InputError(
                "estimator", "a scikit-learn classifier or regressor", repr(own),
                "Pass an instance, such as LogisticRegression(), or None for the default.",
            )  # fmt: skip
        plain = issparse(X) or (not hasattr(X, "columns") and np.asarray(X).dtype.kind in "biufc")
        if not self._adds_columns and not plain:
            rows = X if hasattr(X, "shape") else np.asarray(X)
            return validate_data(self, rows, skip_check_array=True, **how)
        # The model decides whether values may be missing.
        how["ensure_all_finite"] = "allow-nan"
        return validate_data(self, X, dtype=[np.float64, np.float32], **how)

    def _fit_model(self, default: Any, X: Any, y: Floats, weight: Floats | None) -> Any:
        """Fit a clone of the estimator, or the default on standardised columns, in units of X."""
        if self.estimator is not None:
            return fit_model(clone(self.estimator), X, y, weight)
        scaler = StandardScaler().fit(X, sample_weight=weight)
        model = fit_model(default, scaler.transform(X), y, weight)
        model.coef_ = model.coef_ / scaler.scale_
        model.intercept_ = model.intercept_ - model.coef_ @ scaler.mean_
        return model

    def _set_formula(self, *models: tuple[Any, float], constant: float = 0.0) -> None:
        """Weighted sum of the predictions of linear models; None for others."""
        parts = []
        for model, weight in models:
            if not isinstance(model, (LinearRegression, LogisticRegression)):
                self.formula_ = None
                return
            link = "sigmoid" if is_classifier(model) else "identity"
            intercept = float(np.ravel(model.intercept_)[0])
            parts.append(Part(weight, link, intercept, np.ravel(model.coef_)))
        self.formula_ = Formula(tuple(parts), constant=constant)

    @property
    def _allows_missing(self) -> bool:
        return _allows_nan(self.estimator)


class OverOneModel(OverBaseModel):
    """A reduction to one model: score = factor * prediction + shift."""

    _factor: ClassVar[float] = 1.0
    _shift: ClassVar[float] = 0.0

    def _fit_one(self, default: Any, X: Any, y: Floats, weight: Floats | None) -> None:
        self.model_ = self._fit_model(default, X, y, weight)
        self.n_parameters_ = count_parameters(self.model_)
        self._set_formula((self.model_, self._factor), constant=self._shift)

    def _predict(self, X: Any) -> Floats:
        return self._factor * mean_outcome(self.model_, X) + self._shift


class TwoModels(OverBaseModel):
    """TM: one model of the outcome in each arm; the score is the difference of their predictions.

        score(x) = P(y = 1 | x, treated) - P(y = 1 | x, control)

    (means instead of probabilities for a regressor).

    Weights that are whole numbers count copies of rows: w rows of weight 1 are as good as one of
    weight w, for the strength of a penalty too. Other weights are scaled to mean 1 in each arm.

    Parameters
    ----------
    estimator : any scikit-learn classifier (0/1 outcome) or regressor; cloned for each arm. By
        default logistic regression on standardised features, or least squares if y is not 0/1.
    control : label of the control group, when treatment is not 0/1.

    Attributes
    ----------
    treated_model_, control_model_ : the fitted models.
    n_parameters_ : number of parameters of both, coefficients and intercepts of linear models; None
        if unknown.

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

    def _fit(self, X: Any, y: Floats, treated: Bools, sample_weight: Floats | None) -> None:
        models = []
        for arm in (treated, ~treated):
            rows, weight = _safe_indexing(X, np.flatnonzero(arm)), row_weights(sample_weight, arm)
            models.append(self._fit_model(default_model(y), rows, y[arm], weight))
        self.treated_model_, self.control_model_ = models
        self.n_parameters_ = count_parameters(*models)
        self._set_formula((models[0], 1.0), (models[1], -1.0))

    def _predict(self, X: Any) -> Floats:
        return mean_outcome(self.treated_model_, X) - mean_outcome(self.control_model_, X)


@dataclass(eq=False, repr=False)
class ClassTransformation(OverOneModel):
    """CVT: predict z = 1[y = t], whose probability is (1 + uplift) / 2; score = 2 P(z = 1) - 1.

    That identity needs as many treated as control rows. Where the arms differ in size, weights
    t / (2e) + (1 - t) / (2(1 - e)) with e the treated share restore it (``balance="weights"``, the
    default; no effect on a balanced trial). ``balance="none"`` leaves the rows as they are.

    Parameters
    ----------
    estimator : a scikit-learn classifier, by default logistic regression on standardised features.
    balance : "weights" or "none".
    propensity : e, the probability of treatment by design; None: the treated share of the rows.
    control : label of the control group, when treatment is not 0/1.

    Attributes
    ----------
    model_ : the fitted model of z.
    n_parameters_ : number of parameters, d + 1 by default; None if unknown.

    Examples
    --------
    >>> from auucmax import load_hillstrom
    >>> train, test = load_hillstrom().split(random_state=0)
    >>> model = ClassTransformation().fit(train.X, train.y, treatment=train.treatment)
    >>> model.n_parameters_
    23
    """

    _factor, _shift = 2.0, -1.0
    needs_binary: ClassVar[bool] = True

    _: KW_ONLY
    balance: str = "weights"
    propensity: float | None = None

    def _fit(self, X: Any, y: Floats, treated: Bools, sample_weight: Floats | None) -> None:
        check_choice(self.balance, "balance", ("weights", "none"))
        if self.propensity is not None and self.balance == "none":
            raise InputError(
                "propensity", "None with balance='none', which makes no use of it",
                repr(self.propensity), "Drop one of the two.",
            )  # fmt: skip
        agrees = (y == treated).astype(np.float64)
        weight = row_weights(sample_weight)
        if self.balance == "weights":
            share = treatment_probability(self.propensity, treated, sample_weight)
            own = np.where(treated, 1 / (2 * share), 1 / (2 * (1 - share)))
            weight = own if weight is None else own * weight
        self._fit_one(default_model(agrees), X, agrees, weight)


@dataclass(eq=False, repr=False)
class TransformedOutcome(OverOneModel):
    """MOM: regress a transformed outcome whose conditional mean is the uplift.

        target = y (t - e) / (e (1 - e)),        e = P(treated)

    so y / e for a treated row and -y / (1 - e) for a control row; E[target | x] is the uplift
    whatever the distribution of the outcome. One model, d + 1 parameters if it is linear; the price
    is a noisier target than two models have.

    Parameters
    ----------
    estimator : a scikit-learn regressor, least squares by default.
    propensity : e, the probability of treatment by design; None: the treated share of the rows.
    control : label of the control group, when treatment is not 0/1.

    Attributes
    ----------
    model_ : the fitted regressor.
    n_parameters_ : number of parameters, d + 1 by default; None if unknown.

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

    _: KW_ONLY
    propensity: float | None = None

    def _fit(self, X: Any, y: Floats, treated: Bools, sample_weight: Floats | None) -> None:
        if self.estimator is not None and is_classifier(self.estimator):
            raise InputError(
                "estimator", "a regressor, since the target is not 0/1", repr(self.estimator),
                "Use ClassTransformation with it, or a regressor.",
            )  # fmt: skip
        share = treatment_probability(self.propensity, treated, sample_weight)
        target = np.where(treated, y / share, -y / (1 - share))
        self._fit_one(LinearRegression(), X, target, row_weights(sample_weight))


class ResponseModel(OverOneModel):
    """Rank people by their expected outcome, ignoring the treatment.

        score(x) = P(y = 1 | x)

    What many teams do before they have a trial, and the first rival to beat: those who buy anyway
    come first, whatever the treatment does for them.

    Parameters
    ----------
    estimator : a scikit-learn classifier (0/1 outcome) or regressor. By default logistic regression
        on standardised features, or least squares if y is not 0/1.
    control : label of the control group, when treatment is not 0/1.

    Attributes
    ----------
    model_ : the fitted model.
    n_parameters_ : number of parameters, d + 1 by default; None if unknown.

    Examples
    --------
    >>> from auucmax import make_trial
    >>> trial = make_trial(500, random_state=0)
    >>> ResponseModel().fit(trial.X, trial.y, treatment=trial.treatment).predict(trial.X).shape
    (500,)
    """

    def _fit(self, X: Any, y: Floats, treated: Bools, sample_weight: Floats | None) -> None:
        self._fit_one(default_model(y), X, y, row_weights(sample_weight))


def treatment_probability(
    propensity: float | None, treated: Bools, sample_weight: Floats | None
) -> float:
    """Treatment probability: given by the user, or the treated share."""
    if propensity is None:
        return float(np.average(treated, weights=sample_weight))
    check_level(propensity, "propensity")
    return float(propensity)


def fit_model(model: Any, X: Any, y: Floats, weight: Floats | None) -> Any:
    """Fit a scikit-learn model, with weights if there are any."""
    if is_classifier(model):
        if not np.array_equal(np.unique(y), [0, 1]):
            raise InputError(
                "y", "both 0 and 1 among the rows of each model to fit a classifier",
                "other outcomes, or one of them", "Collect more rows, or use a regressor.",
            )  # fmt: skip
        if not hasattr(model, "predict_proba"):
            raise InputError(
                "estimator", "a classifier with predict_proba", repr(model),
                "Wrap it in CalibratedClassifierCV, or use another.",
            )  # fmt: skip
        y = y.astype(np.int64)
    # We pass weights on ourselves, so no routing requests are needed.
    with config_context(enable_metadata_routing=False):
        if weight is None or np.abs(weight - 1).max() < 1e-12:
            return model.fit(X, y)
        return model.fit(X, y, **{_weight_name(model): weight})


def _weight_name(model: Any) -> str:
    """Name of the weight argument of ``fit``; in pipelines, of the last step."""
    if hasattr(model, "steps"):
        name, last = model.steps[-1]
        return f"{name}__{_weight_name(last)}"
    parameters = inspect.signature(model.fit).parameters
    if "sample_weight" in parameters:
        return "sample_weight"
    if any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values()):
        # A search, or another model around a model, passes on what it gets.
        inner = getattr(model, "estimator", getattr(model, "regressor", None))
        return "sample_weight" if inner is None else _weight_name(inner)
    raise InputError(
        "estimator", "a model that takes sample_weight", repr(model),
        "Use another model, no weights, and balance='none' for class transformation.",
    )  # fmt: skip


def _allows_nan(estimator: Any) -> bool:
    if isinstance(estimator, type) or not hasattr(estimator, "__sklearn_tags__"):
        return False
    if hasattr(estimator, "steps"):  # what the first step takes, though a pipeline's tags deny it
        return _allows_nan(estimator.steps[0][1])
    return bool(get_tags(estimator).input_tags.allow_nan)


def mean_outcome(model: Any, X: Any) -> Floats:
    """Expected outcome: P(y = 1 | x) of a classifier, or a regressor's prediction."""
    predicted = model.predict_proba(X)[:, 1] if is_classifier(model) else model.predict(X)
    return np.asarray(predicted, dtype=np.float64)


def default_model(y: Floats) -> Any:
    """Default base model: logistic regression for 0/1 outcomes, else least squares."""
    if np.isin(y, (0, 1)).all():
        # Exact, and quick for few columns; to as many digits as where rows are read in batches.
        return LogisticRegression(solver="newton-cholesky", tol=1e-8)
    return LinearRegression()
