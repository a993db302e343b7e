"""Derive formulas of fitted estimators, and check them against ``predict``."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import is_classifier

from auucmax._validation import Floats
from auucmax.estimators.formula import Formula, FormulaError, Part, RankMean

_N_CHECKS = 16


def formula_of(estimator: Any) -> Formula | RankMean:
    """Formula of a fitted model's scores, checked against its ``predict``.

    An estimator gives it in ``_formula``: AUUCMax (not with scale="unit-rows"), TwoModels,
    ClassTransformation, TransformedOutcome and ResponseModel (if the models inside are linear or
    logistic), ShrunkInteractions, BoostedEffect, and an UpliftEnsemble of such models, which is a
    :class:`RankMean`. Scalers before them in a pipeline are folded into the coefficients. Others
    raise a :class:`FormulaError`.

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
    formula = plain_formula(estimator)
    members = formula.members if isinstance(formula, RankMean) else (formula,)
    rng = np.random.default_rng(0)
    # A model that looks linear may still predict otherwise: compare, on made-up rows.
    made_up = [_telling_rows(part, own.n_features, rng) for own in members for part in own.parts]
    rows = np.concatenate(made_up)
    names = getattr(estimator, "feature_names_in_", None)
    table = rows if names is None else pd.DataFrame(rows, columns=names)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of names of features: values are what matters
        predicted = np.asarray(estimator.predict(table), dtype=np.float64)
    expected = formula(rows)
    if not np.allclose(predicted, expected, rtol=1e-6, atol=1e-9 * (1 + np.abs(expected).max())):
        raise FormulaError(
            f"the scores of {type(estimator).__name__} should be a sum of linear or logistic "
            f"parts, got other scores than its coefficients give. Use a model such as AUUCMax."
        )
    return formula


def plain_formula(estimator: Any) -> Formula | RankMean:
    """Formula of a fitted estimator, also inside a search or pipeline; not checked."""
    if hasattr(estimator, "best_estimator_"):
        return plain_formula(estimator.best_estimator_)
    if hasattr(estimator, "steps"):
        *before, (_, last) = estimator.steps
        formula = plain_formula(last)
        if isinstance(formula, RankMean) or formula.hinges or formula.trees:
            raise _no_formula(estimator)
        scaled = [_scaled(part, [step for _, step in before]) for part in formula.parts]
        return replace(formula, parts=tuple(scaled))
    if not hasattr(estimator, "_formula"):
        raise _no_formula(estimator)
    if not hasattr(estimator, "n_features_in_"):
        raise FormulaError(
            f"the model should be fitted, got {type(estimator).__name__} before fit. "
            f"Call fit first."
        )
    found: Formula | RankMean = estimator._formula()
    return found


def linear_part(model: Any) -> Part:
    """Formula part of a linear or logistic scikit-learn model, perhaps with scaling."""
    inner = getattr(model, "best_estimator_", None)
    if inner is not None:
        return linear_part(inner)
    if hasattr(model, "steps"):
        return _scaled(linear_part(model[-1]), [step for _, step in model.steps[:-1]])
    coef = getattr(model, "coef_", None)
    if coef is None or np.size(coef) != model.n_features_in_ or hasattr(model, "support_vectors_"):
        raise _no_formula(model)
    intercept = float(np.ravel(getattr(model, "intercept_", 0.0))[0])
    link = "sigmoid" if is_classifier(model) else "identity"
    return Part(1.0, link, intercept, np.ravel(np.array(coef, dtype=np.float64)))


def _scaled(part: Part, steps: list[Any]) -> Part:
    """Rewrite a part in terms of the unscaled inputs of a pipeline."""
    for step in reversed(steps):
        if step is None or step == "passthrough":
            continue
        factor, shift = _affine(step, len(part.coef))
        inner = part.intercept + float(part.coef @ shift)
        part = Part(part.weight, part.link, inner, part.coef * factor)
    return part


def _affine(step: Any, d: int) -> tuple[Floats, Floats]:
    """Factor and shift of a scaler: x -> factor x + shift."""
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


def _telling_rows(part: Part, n_features: int, rng: np.random.Generator) -> Floats:
    """Rows with linear predictors around 0, where link functions differ."""
    coef = part.coef[:n_features]
    counts = np.abs(coef) > 1e-12 * np.abs(coef).max()
    used = max(int(counts.sum()), 1)
    terms = 2 * rng.normal(size=(_N_CHECKS, n_features)) / np.sqrt(used)
    terms -= part.intercept / used
    return np.divide(terms, coef, out=rng.normal(size=terms.shape), where=counts)


def _no_formula(model: Any) -> FormulaError:
    return FormulaError(
        f"the model should be AUUCMax, TwoModels, ClassTransformation, TransformedOutcome, "
        f"ResponseModel, ShrunkInteractions, BoostedEffect or UpliftEnsemble, with linear or "
        f"logistic models inside, perhaps behind a scaler, to write a formula; got "
        f"{type(model).__name__}. Fit one of these, or score in Python."
    )
