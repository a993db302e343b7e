"""Scores that are a short formula of the features, and the formula of a fitted model.

    score(x) = constant + sum_k weight_k link_k(intercept_k + coef_k . x)

with the identity or the sigmoid as links. That is what SQL, ONNX or a spreadsheet can compute.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.special import expit
from sklearn.base import is_classifier

from auucmax._validation import Floats
from auucmax.estimators.auucmax import AUUCMax
from auucmax.estimators.meta import ClassTransformation, TransformedOutcome, TwoModels
from auucmax.estimators.mml import MinimaxLinear
from auucmax.estimators.representation import SharedDataRepresentation
from auucmax.estimators.svm_dp import SVMDifferentialPrediction

LINKS = ("identity", "sigmoid")
_N_CHECKS = 16


class FormulaError(ValueError):
    """The scores of a model are not a formula of this kind, or cannot be shown to be one."""


@dataclass(frozen=True, eq=False)
class Part:
    """weight link(intercept + coef . x), coef of shape (p,)."""

    weight: float
    link: str
    intercept: float
    coef: Floats


@dataclass(frozen=True, eq=False)
class Formula:
    """constant + sum of parts; calling it with (n, p) features gives (n,) scores.

    Examples
    --------
    >>> rise = Part(2.0, "identity", 1.0, np.array([1.0, -1.0]))
    >>> Formula((rise,), constant=0.5)([[3.0, 1.0]])
    array([6.5])
    """

    parts: tuple[Part, ...]
    constant: float = 0.0

    @property
    def n_features(self) -> int:
        """p, the number of features that go in."""
        return len(self.parts[0].coef)

    def __call__(self, X: ArrayLike) -> Floats:
        rows = np.asarray(X, dtype=np.float64)
        if rows.ndim != 2 or rows.shape[1] != self.n_features:
            raise ValueError(
                f"X should have {self.n_features} columns, got an array of shape {rows.shape}. "
                f"Pass the encoded features."
            )
        total = np.full(len(rows), self.constant)
        for part in self.parts:
            inner = rows @ part.coef + part.intercept
            total += part.weight * (expit(inner) if part.link == "sigmoid" else inner)
        return total


def formula_of(estimator: Any) -> Formula:
    """The formula of a fitted model's scores, checked against its ``predict``.

    AUUCMax, SVMDifferentialPrediction and MinimaxLinear (not with scale="unit-rows") are one part
    with the identity. TwoModels, ClassTransformation, SharedDataRepresentation and
    TransformedOutcome are one part or two, if the models inside are linear or logistic; scalers
    before them in a pipeline are folded into the coefficients. Others: :class:`FormulaError`.

    Examples
    --------
    >>> from auucmax import TwoModels, load_hillstrom
    >>> trial = load_hillstrom()
    >>> model = TwoModels().fit(trial.X, trial.y, treatment=trial.treatment)
    >>> formula = formula_of(model)
    >>> [(part.weight, part.link) for part in formula.parts]
    [(1.0, 'sigmoid'), (-1.0, 'sigmoid')]
    >>> bool(np.allclose(formula(trial.X), model.predict(trial.X)))
    True
    """
    formula = _formula(estimator)
    _check(formula, estimator)
    return formula


def _formula(estimator: Any) -> Formula:
    inner = getattr(estimator, "best_estimator_", None)
    if inner is not None:
        return _formula(inner)
    if hasattr(estimator, "steps"):
        *before, (_, last) = estimator.steps
        formula = _formula(last)
        scaled = [_scaled(part, [step for _, step in before]) for part in formula.parts]
        return replace(formula, parts=tuple(scaled))
    for kind, rule in _RULES.items():
        if isinstance(estimator, kind):
            if not hasattr(estimator, "n_features_in_"):
                raise FormulaError(
                    f"the model should be fitted, got {type(estimator).__name__} before fit. "
                    f"Call fit first."
                )
            return rule(estimator)
    raise _no_formula(estimator)


def _linear_score(estimator: Any) -> Formula:
    if estimator.scaling_.kind == "unit-rows":
        raise FormulaError(
            f"the scale should be one of columns to write a formula, got 'unit-rows' of "
            f"{type(estimator).__name__}. Fit with scale='min-max'."
        )
    coef = np.array(estimator.coef_, dtype=np.float64)
    return Formula((Part(1.0, "identity", float(estimator.intercept_), coef),))


def _two_models(estimator: Any) -> Formula:
    treated, control = _part(estimator.treated_model_), _part(estimator.control_model_)
    return Formula((treated, replace(control, weight=-control.weight)))


def _class_transformation(estimator: Any) -> Formula:
    part = _part(estimator.model_)
    return Formula((replace(part, weight=2.0),), constant=-1.0)


def _transformed_outcome(estimator: Any) -> Formula:
    return Formula((_part(estimator.model_),))


def _shared(estimator: Any) -> Formula:
    """Stacked columns [x, s x, 0, 1] and [x, 0, s x, 0]: the coefficients of x are sums."""
    whole, d, scale = _part(estimator.model_), estimator.n_features_in_, estimator.arm_scale_
    shared, own_treated, own_control = whole.coef[: 3 * d].reshape(3, d)
    level = float(whole.coef[3 * d]) if estimator.treatment_column_ else 0.0
    treated = Part(1.0, whole.link, whole.intercept + level, shared + scale * own_treated)
    return Formula((treated, Part(-1.0, whole.link, whole.intercept, shared + scale * own_control)))


_RULES: dict[type, Callable[[Any], Formula]] = {
    AUUCMax: _linear_score,
    SVMDifferentialPrediction: _linear_score,
    MinimaxLinear: _linear_score,
    TwoModels: _two_models,
    ClassTransformation: _class_transformation,
    SharedDataRepresentation: _shared,
    TransformedOutcome: _transformed_outcome,
}


def _part(model: Any) -> Part:
    """A scikit-learn model of the outcome: linear, or logistic, perhaps on scaled features."""
    inner = getattr(model, "best_estimator_", None)
    if inner is not None:
        return _part(inner)
    if hasattr(model, "steps"):
        return _scaled(_part(model[-1]), [step for _, step in model.steps[:-1]])
    coef = getattr(model, "coef_", None)
    if coef is None or np.size(coef) != model.n_features_in_ or hasattr(model, "support_vectors_"):
        raise _no_formula(model)
    intercept = float(np.ravel(getattr(model, "intercept_", 0.0))[0])
    link = "sigmoid" if is_classifier(model) else "identity"
    return Part(1.0, link, intercept, np.ravel(np.array(coef, dtype=np.float64)))


def _scaled(part: Part, steps: list[Any]) -> Part:
    """The part as a function of what goes into the steps, each of which scales columns."""
    for step in reversed(steps):
        if step is None or step == "passthrough":
            continue
        factor, shift = _affine(step, len(part.coef))
        inner = part.intercept + float(part.coef @ shift)
        part = Part(part.weight, part.link, inner, part.coef * factor)
    return part


def _affine(step: Any, d: int) -> tuple[Floats, Floats]:
    """factor, shift of a scaler: x -> factor x + shift."""
    name = type(step).__name__
    one, zero = np.ones(d), np.zeros(d)
    scale = getattr(step, "scale_", None)
    scale = one if scale is None else np.asarray(scale, dtype=np.float64)
    if name == "MinMaxScaler" and not getattr(step, "clip", False):
        return scale, np.asarray(step.min_, dtype=np.float64)
    if name in ("StandardScaler", "RobustScaler") or (
        name == "MaxAbsScaler" and not getattr(step, "clip", False)
    ):
        centre = getattr(step, "mean_" if name == "StandardScaler" else "center_", None)
        centred = name != "StandardScaler" or step.with_mean
        shift = zero if centre is None or not centred else np.asarray(centre, dtype=np.float64)
        return 1 / scale, -shift / scale
    raise _no_formula(step)


def _check(formula: Formula, estimator: Any) -> None:
    """A model that looks linear may still predict otherwise: compare, on made-up rows."""
    rng = np.random.default_rng(0)
    rows = np.concatenate([_rows_that_tell(part, rng) for part in formula.parts])
    names = getattr(estimator, "feature_names_in_", None)
    table = rows if names is None else pd.DataFrame(rows, columns=names)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of names of features: values are what matters
        predicted = np.asarray(estimator.predict(table), dtype=np.float64)
    expected = formula(rows)
    if not np.allclose(predicted, expected, rtol=1e-6, atol=1e-9 * (1 + np.abs(expected).max())):
        raise FormulaError(
            f"the scores of {type(estimator).__name__} should be a sum of linear or logistic "
            f"parts, got other scores than its coefficients tell. Use a model such as AUUCMax."
        )


def _rows_that_tell(part: Part, rng: np.random.Generator) -> Floats:
    """Rows with intercept + coef . x around 0, where a sigmoid differs from other links."""
    counts = np.abs(part.coef) > 1e-12 * np.abs(part.coef).max()
    used = max(int(counts.sum()), 1)
    terms = 2 * rng.normal(size=(_N_CHECKS, len(part.coef))) / np.sqrt(used)
    terms -= part.intercept / used
    return np.divide(terms, part.coef, out=rng.normal(size=terms.shape), where=counts)


def _no_formula(model: Any) -> FormulaError:
    names = ", ".join(kind.__name__ for kind in _RULES)
    return FormulaError(
        f"the model should be one of {names}, with linear or logistic models inside, perhaps "
        f"behind a scaler, to write a formula; got {type(model).__name__}. Fit one of these, or "
        f"score in Python."
    )
