"""The formula of a fitted estimator's scores, checked against its ``predict``."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import is_classifier

from auucmax._validation import Floats
from auucmax.estimators.auucmax import AUUCMax
from auucmax.estimators.boosted import BoostedEffect
from auucmax.estimators.ensemble import UpliftEnsemble
from auucmax.estimators.formula import Formula, FormulaError, Part, RankMean
from auucmax.estimators.meta import (
    ClassTransformation,
    ResponseModel,
    TransformedOutcome,
    TwoModels,
)
from auucmax.estimators.shrunk import ShrunkInteractions
from auucmax.estimators.targets import loss_of

_N_CHECKS = 16


def formula_of(estimator: Any) -> Formula | RankMean:
    """The formula of a fitted model's scores, checked against its ``predict``.

    AUUCMax is one part with the identity (not with scale="unit-rows"). TwoModels,
    ClassTransformation, TransformedOutcome and ResponseModel are one part or two, if the models
    inside are linear or logistic; scalers before them in a pipeline are folded into the
    coefficients. ShrunkInteractions has hinges, BoostedEffect has trees, and an UpliftEnsemble of
    such models is a :class:`RankMean`. Others: :class:`FormulaError`.

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


def _formula(estimator: Any) -> Formula | RankMean:
    inner = getattr(estimator, "best_estimator_", None)
    if inner is not None:
        return _formula(inner)
    if hasattr(estimator, "steps"):
        *before, (_, last) = estimator.steps
        formula = _formula(last)
        if isinstance(formula, RankMean) or formula.hinges or formula.trees:
            raise _no_formula(estimator)
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


def _shrunk(estimator: Any) -> Formula:
    """A part for each arm and strength of shrinkage."""
    treated, control = estimator.amounts_.tolist()
    arms = (
        (treated, estimator.treated_intercept_, estimator.treated_coef_),
        (-control, estimator.control_intercept_, estimator.control_coef_),
    )
    link = loss_of(estimator.modelled_).link
    parts = [
        Part(sign * float(weight), link, float(intercept), coef)
        for sign, intercepts, coefs in arms
        for weight, intercept, coef in zip(estimator.weights_, intercepts, coefs, strict=True)
    ]
    hinges = zip(estimator.hinge_columns_.tolist(), estimator.hinge_knots_.tolist(), strict=True)
    return Formula(tuple(parts), hinges=tuple(hinges))


def _boosted(estimator: Any) -> Formula:
    """A part for each arm and member: g + (1 - share) f, and g - share f."""
    members, share = estimator.members_, estimator.share_
    trees = [tree for m in members for tree in (m.base_trees, m.effect_trees) if tree is not None]
    places = {id(tree): k for k, tree in enumerate(trees)}
    (treated, control), link = estimator.amounts_.tolist(), loss_of(estimator.modelled_).link
    parts = []
    for member in members:
        for sign, d in ((treated, 1 - share), (-control, -share)):
            of_trees = np.zeros(len(trees))
            for tree, weight in ((member.base_trees, 1.0), (member.effect_trees, d)):
                if tree is not None:
                    of_trees[places[id(tree)]] = weight
            coef = np.concatenate([member.base_coef + d * member.effect_coef, of_trees])
            intercept = member.base_intercept + d * member.effect_intercept
            parts.append(Part(sign * member.weight, link, float(intercept), coef))
    return Formula(tuple(parts), trees=tuple(trees))


def _ranks(estimator: Any) -> RankMean:
    members = [_formula(member) for member in estimator.estimators_]
    plain = tuple(member for member in members if isinstance(member, Formula))
    if len(plain) < len(members):
        raise FormulaError(
            "the members of an ensemble should be single models to write a formula, got an "
            "ensemble. Name its models instead."
        )
    return RankMean(plain, tuple(estimator.knots_))


_RULES: dict[type, Callable[[Any], Formula | RankMean]] = {
    AUUCMax: _linear_score,
    TwoModels: lambda e: Formula(
        (_part(e.treated_model_), replace(_part(e.control_model_), weight=-1.0))
    ),
    ClassTransformation: lambda e: Formula((replace(_part(e.model_), weight=2.0),), constant=-1.0),
    TransformedOutcome: lambda e: Formula((_part(e.model_),)),
    ResponseModel: lambda e: Formula((_part(e.model_),)),
    ShrunkInteractions: _shrunk,
    BoostedEffect: _boosted,
    UpliftEnsemble: _ranks,
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


def _check(formula: Formula | RankMean, estimator: Any) -> None:
    """A model that looks linear may still predict otherwise: compare, on made-up rows."""
    rng = np.random.default_rng(0)
    members = formula.members if isinstance(formula, RankMean) else (formula,)
    rows_to_check = [_rows_that_tell(part, m.n_features, rng) for m in members for part in m.parts]
    rows = np.concatenate(rows_to_check)
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


def _rows_that_tell(part: Part, n_features: int, rng: np.random.Generator) -> Floats:
    """Rows with intercept + coef . x around 0, where a sigmoid differs from other links."""
    coef = part.coef[:n_features]
    counts = np.abs(coef) > 1e-12 * np.abs(coef).max()
    used = max(int(counts.sum()), 1)
    terms = 2 * rng.normal(size=(_N_CHECKS, n_features)) / np.sqrt(used)
    terms -= part.intercept / used
    return np.divide(terms, coef, out=rng.normal(size=terms.shape), where=counts)


def _no_formula(model: Any) -> FormulaError:
    names = ", ".join(kind.__name__ for kind in _RULES)
    return FormulaError(
        f"the model should be one of {names}, with linear or logistic models inside, perhaps "
        f"behind a scaler, to write a formula; got {type(model).__name__}. Fit one of these, or "
        f"score in Python."
    )
