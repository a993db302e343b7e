"""Fitted models as files: plain JSON and arrays.

A model file is an archive of :mod:`auucmax._archive` with

* the header: version of auucmax, encoder, columns, recipe, calibration, evidence, summary, and the
  numbers and texts that scoring needs of the estimator, by their places in it;
* ``estimator.*.npy``: the arrays that scoring needs, named by their places in the estimator.

A model of several arms has such a header for each arm, ``arms``, and the members of the first are
named ``arm0.estimator.*.npy`` and so on.

The recipe says what the estimator is; the file only fills in numbers of known types and shapes. No
person's row is in it, and loading it runs no code.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from auucmax import estimators
from auucmax._archive import ArchiveFormat, check_same_names
from auucmax._json import read
from auucmax._version import __version__
from auucmax.data.hashing import Checksum
from auucmax.encoding import TableEncoder
from auucmax.estimators.scaling import Scaling
from auucmax.estimators.targets import LEARNT
from auucmax.estimators.trees import TreeScores, trees_of
from auucmax.model.arm_evidence import ArmsEvidence
from auucmax.model.arms import ArmsModel
from auucmax.model.by_name import MODELS, make_model
from auucmax.model.columns import ColumnNames
from auucmax.model.crossfit import Recipe
from auucmax.model.evidence import Evidence
from auucmax.model.model import TrialModel
from auucmax.targeting import Calibration

FORMAT = ArchiveFormat("auucmax model", 9, "model file")
_HEADER = {
    "auucmax", "encoder", "columns", "recipe", "calibration", "evidence", "checksum", "summary",
    "estimator",
}  # fmt: skip

#: What scoring needs of each type: its fields, and what each of them must be. A tuple is the shape
#: of an array of numbers, or of booleans if bool stands first ("d": the number of features; None:
#: any), "a or b" an object of one of these types,
#: a list of one entry any number of these, but for none.
_WIDE, _ANY = ("d",), (None,)
_OF_ALL: dict[str, Any] = {"n_parameters_": int}
_LINEAR = _OF_ALL | {"coef_": _WIDE, "intercept_": float, "scaling_": "Scaling"}
_PREDICTOR = "LogisticRegression or LinearRegression"
_ONE_MODEL = _OF_ALL | {"_own_model": bool, "model_": _PREDICTOR}
_TWO_MODELS = _OF_ALL | {
    "_own_model": bool, "treated_model_": _PREDICTOR, "control_model_": _PREDICTOR,
}  # fmt: skip
_TREES = "TreeScores or NoneType"
_TARGET: dict[str, Any] = {"learnt_": str, "amounts_": (2,)}
_NETWORK = _OF_ALL | {"network_": "Network"}
_FIELDS: dict[str, dict[str, Any]] = {
    "AUUCMax": _LINEAR,
    "SVMDifferentialPrediction": _LINEAR,
    "MinimaxLinear": _LINEAR,
    "TwoModels": _TWO_MODELS,
    "ClassTransformation": _ONE_MODEL,
    "TransformedOutcome": _ONE_MODEL,
    "ResponseModel": _ONE_MODEL,
    "DependentDataRepresentation": _TWO_MODELS | {"order_": str},
    "SharedDataRepresentation": _ONE_MODEL | {"arm_scale_": float, "treatment_column_": bool},
    "UpliftLambdaMART": _OF_ALL | {"booster_": "TreeScores"},
    "ShrunkInteractions": _OF_ALL | _TARGET | {
        "weights_": _ANY, "hinge_columns_": _ANY, "hinge_knots_": _ANY, "fill_": _WIDE,
        "treated_intercept_": _ANY, "treated_coef_": (None, None),
        "control_intercept_": _ANY, "control_coef_": (None, None),
    },
    "BoostedEffect": _OF_ALL | _TARGET | {
        "members_": ["Member"], "share_": float, "fill_": _WIDE,
    },
    "Member": {
        "weight": float, "base_intercept": float, "base_coef": _WIDE,
        "effect_intercept": float, "effect_coef": _WIDE,
        "base_trees": _TREES, "effect_trees": _TREES,
    },
    "UpliftEnsemble": _OF_ALL | {
        "estimators_": ["ShrunkInteractions or BoostedEffect"], "knots_": [(2, None)],
    },
    "TARNet": _NETWORK,
    "CFRNet": _NETWORK,
    "GANITE": _NETWORK,
    "Scaling": {"kind": str, "factor": _WIDE, "shift": _WIDE},
    "Network": {"weights": dict, "scales": "Scales", "normalise": bool},
    "Scales": {
        "shift": _WIDE, "factor": _WIDE, "binary": bool, "y_mean": float, "y_scale": float,
    },
    "LogisticRegression": {"coef_": (1, None), "intercept_": (1,)},
    "LinearRegression": {"coef_": _ANY, "intercept_": float},
    "TreeScores": {
        **dict.fromkeys(("feature", "threshold", "left", "right"), _ANY),
        **dict.fromkeys(("value", "roots"), _ANY),
        "missing_left": (bool, None),
        "depth": int,
    },
    "NoneType": {},
}  # fmt: skip
_ARMS = ("treated", "control")
_SHRUNK = (
    "weights_",
    "hinge_knots_",
    *(f"{arm}_{part}_" for arm in _ARMS for part in ("coef", "intercept")),
)
_ARRAYS = (np.float64, np.float32, np.int64)


def save_model(model: TrialModel | ArmsModel, path: str | os.PathLike[str]) -> None:
    """Write a fitted model to ``path``, whole or not at all.

    Examples
    --------
    >>> import tempfile
    >>> from auucmax import make_trial
    >>> from auucmax.model import fit_trial_model
    >>> trial = make_trial(8_000, random_state=0)
    >>> table = trial.X.assign(visit=trial.y, mail=trial.treatment)
    >>> model = fit_trial_model(table, treatment="mail", outcome="visit", model="tm")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_model(model, f"{folder}/visits.model")
    ...     again = load_model(f"{folder}/visits.model")
    >>> bool((again.predict(table) == model.predict(table)).all())
    True
    """
    models = list(model.models.values()) if isinstance(model, ArmsModel) else [model]
    written = [_written(one) for one in models]
    if isinstance(model, ArmsModel):
        header: dict[str, Any] = {
            "arms": dict(zip(model.models, (own for own, _ in written), strict=True)),
            "policy": model.policy,
            "summary": model.summary,
        }
        members = {
            f"arm{k}.{name}": array
            for k, (_, own) in enumerate(written)
            for name, array in own.items()
        }
    else:
        header, members = written[0]
    FORMAT.write(path, header, members)


def _written(model: TrialModel) -> tuple[dict[str, Any], dict[str, Any]]:
    """Header and members of a model of two arms."""
    _check_recipe(model)
    parts = dict(_parts("estimator", model.estimator))
    arrays = {place: part for place, part in parts.items() if isinstance(part, np.ndarray)}
    header = {
        "auucmax": __version__,
        "encoder": model.encoder.to_dict(),
        "columns": model.columns.to_dict(),
        "recipe": asdict(model.recipe),
        "calibration": model.calibration.to_dict(),
        "evidence": model.evidence.to_dict(),
        "checksum": asdict(model.checksum),
        "summary": model.summary,
        "estimator": {place: part for place, part in parts.items() if place not in arrays},
    }
    return header, {f"{place}.npy": a for place, a in arrays.items()}


def load_model(path: str | os.PathLike[str]) -> TrialModel | ArmsModel:
    """Read a model that :func:`save_model` wrote; nothing in the file is executed.

    ModelFileError, in one line, for a file that is absent, damaged, of another kind or another
    version, or made to do harm.
    """
    return FORMAT.read(path, _restored)


def _restored(header: Mapping[str, Any], members: dict[str, Any]) -> TrialModel | ArmsModel:
    return (_arms if "arms" in header else _two_arms)(header, members)


def _arms(header: Mapping[str, Any], members: dict[str, Any]) -> ArmsModel:
    """A model of several arms, all of the same table and folds."""
    check_same_names("fields", set(header), {"arms", "policy", "summary"})
    read({...: ...}, header["summary"], "its summary")
    arms, models = read({...: {...: ...}}, header["arms"], "its arms"), {}
    for k, (label, own) in enumerate(arms.items()):
        names = [name for name in members if name.startswith(f"arm{k}.")]
        parts = {name.removeprefix(f"arm{k}."): members.pop(name) for name in names}
        models[label] = _two_arms(own, parts)
    if members or len(models) < 2:
        raise ValueError("its arms should be two or more, each with its own members")
    first = next(iter(models.values()))
    for label, one in models.items():
        # To be in time, arms may have learnt from fewer rows.
        recipe = replace(
            first.recipe, max_rows=one.recipe.max_rows, learn_rows=one.recipe.learn_rows
        )
        if one.columns != replace(first.columns, treated=label) or one.recipe != recipe:
            raise ValueError("its arms should be of one table and its folds, got others")
    evidence = ArmsEvidence.from_dict(
        {label: one.evidence for label, one in models.items()}, header["policy"]
    )
    if first.columns.control != evidence["control"] or first.columns.control in models:
        raise ValueError("its policy should have the control of its arms, got another")
    return ArmsModel(models, evidence.facts, header["summary"])


def _two_arms(header: Mapping[str, Any], members: dict[str, Any]) -> TrialModel:
    check_same_names("fields", set(header), _HEADER)
    recipe = _recipe(header["recipe"])
    read({...: ...}, header["summary"], "its summary")
    encoder = TableEncoder.from_dict(header["encoder"])
    columns = ColumnNames.from_dict(header["columns"])
    if not {column.name for column in encoder.columns_} <= set(columns.features):
        raise ValueError("its encoder knows other columns than the model")
    arrays = {name.removesuffix(".npy"): array for name, array in members.items()}
    parts = header["estimator"] | arrays
    if len(parts) < len(header["estimator"]) + len(members):
        raise ValueError("its estimator has two values in one place")
    return TrialModel(
        encoder=encoder,
        estimator=_estimator(parts, recipe, len(encoder.terms_)),
        recipe=recipe,
        columns=columns,
        calibration=Calibration.from_dict(header["calibration"]),
        evidence=Evidence.from_dict(header["evidence"]),
        checksum=read(Checksum, header["checksum"], "its checksum"),
        summary=header["summary"],
    )


def _recipe(plain: Mapping[str, Any]) -> Recipe:
    """Read a recipe, or raise a ValueError for one that no fit writes."""
    recipe: Recipe = read(Recipe, plain, "its recipe")
    right = (
        recipe.model in MODELS
        and len(recipe.key) == 16
        and recipe.key.isascii()
        and 0 <= recipe.seed < 2**31
        and 0 <= recipe.hold_out < 1
        and 1 <= recipe.n_folds <= 100
        and 1 <= recipe.n_candidates < 2**31
        and 0 <= recipe.max_rows < 2**53
        and 0 <= recipe.learn_rows < 2**53
    )
    if not right:
        raise ValueError("it has an unknown kind of model, or folds that no fit makes")
    return recipe


def _check_recipe(model: TrialModel) -> None:
    """Raise a ValueError if the recipe makes another estimator: files hold no parameters."""
    expected = make_model(model.recipe.model, model.recipe)
    own = (type(model.estimator), model.estimator.get_params(deep=False))
    if own != (type(expected), expected.get_params(deep=False)):
        raise ValueError(
            f"the estimator of a model to be saved should be {expected}, as its recipe says, got "
            f"{model.estimator}. Save what fit_trial_model returned, unchanged."
        )


def _parts(place: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Numbers, texts and arrays that scoring needs of an object, each with its place in it."""
    if hasattr(value, "dump_model"):  # a model that was loaded has its trees already
        value = trees_of(value)
    kind = type(value).__name__
    if kind in _FIELDS:
        yield f"{place}.type", kind
    fields = {name: getattr(value, name) for name in _FIELDS.get(kind, ())}
    if isinstance(value, dict | list):
        fields = value if isinstance(value, dict) else {str(k): v for k, v in enumerate(value)}
    for name, part in fields.items():
        yield from _parts(f"{place}.{name}", part)
    if kind not in (*_FIELDS, "dict", "list"):
        yield place, value.item() if isinstance(value, np.generic) else value


def _estimator(parts: dict[str, Any], recipe: Recipe, n_terms: int) -> Any:
    estimator = make_model(recipe.model, recipe)
    kind, values = _fields(parts, "estimator", type(estimator).__name__, n_terms)
    if parts:
        raise ValueError(f"its estimator should not have {', '.join(sorted(parts))[:100]}")
    if kind == "UpliftEnsemble":
        _set_parameters(values["estimators_"], estimator.new_members())
    vars(estimator).update(values, n_features_in_=n_terms)
    if (network := values.get("network_")) is not None:
        shapes = {name: weight.shape for name, weight in network.weights.items()}
        if shapes != estimator._shapes(n_terms):
            raise ValueError("its network has layers of other widths")
    _check_scores(estimator, n_terms)
    return estimator


def _set_parameters(members: list[Any], templates: list[Any]) -> None:
    """Members of an ensemble have the parameters that its own makes them have."""
    if [type(member) for member in members] != [type(template) for template in templates]:
        raise ValueError("its estimator has other members than its recipe makes")
    for member, template in zip(members, templates, strict=True):
        member.set_params(**template.get_params(deep=False))


def _fields(
    parts: dict[str, Any], place: str, kinds: str, n_terms: int
) -> tuple[str, dict[str, Any]]:
    """Type and fields of the object at a place, which are taken out of ``parts``."""
    kind = parts.pop(f"{place}.type", None)
    if kind not in kinds.split(" or "):
        raise ValueError(f"its {place} should be {kinds}, got {str(kind)[:50]}")
    fields = {
        name: _value(parts, f"{place}.{name}", wanted, n_terms)
        for name, wanted in _FIELDS[kind].items()
    }
    _check_fields(kind, fields, n_terms)
    return kind, fields


def _value(parts: dict[str, Any], place: str, wanted: Any, n_terms: int) -> Any:
    """Take what is at a place out of ``parts``, or raise a ValueError if it is not as wanted."""
    if isinstance(wanted, str):
        return _object(*_fields(parts, place, wanted, n_terms), n_terms)
    if isinstance(wanted, list):
        found: list[Any] = []
        while not found or any(f"{place}.{len(found)}{end}" in parts for end in ("", ".type")):
            found.append(_value(parts, f"{place}.{len(found)}", wanted[0], n_terms))
        return found
    if wanted is dict:
        places = [other for other in parts if other.startswith(f"{place}.")]
        return {other[len(place) + 1 :]: parts.pop(other) for other in places}
    value = parts.pop(place)
    if not _fits(value, wanted, n_terms):
        raise ValueError(f"its {place} should be {wanted}, got another type or shape")
    return value


def _check_fields(kind: str, fields: dict[str, Any], n_terms: int) -> None:
    """Raise a ValueError for arrays that fit one by one, but not together."""
    if kind == "ShrunkInteractions":
        columns, knots = fields["hinge_columns_"], fields["hinge_knots_"]
        k, p = len(fields["weights_"]), n_terms + len(knots)
        right = (
            columns.dtype == np.int64
            and columns.shape == knots.shape
            and all(fields[name].dtype == np.float64 for name in fields if name in _SHRUNK)
            and all(fields[f"{arm}_coef_"].shape == (k, p) for arm in _ARMS)
            and all(fields[f"{arm}_intercept_"].shape == (k,) for arm in _ARMS)
            and bool(((columns >= 0) & (columns < n_terms)).all())
        )
    elif kind == "BoostedEffect":
        right = 0 < fields["share_"] < 1
    elif kind == "UpliftEnsemble":
        right = len(fields["knots_"]) == len(fields["estimators_"]) and all(
            knots.dtype == np.float64
            and knots.size > 0
            and bool((np.diff(knots[0]) > 0).all() and (np.diff(knots[1], prepend=0) >= 0).all())
            and knots[1, -1] <= 1
            for knots in fields["knots_"]
        )
    else:
        right = True
    if not right or fields.get("learnt_", LEARNT[0]) not in LEARNT:
        raise ValueError(f"its {kind} has arrays that do not fit together")


def _fits(value: Any, wanted: Any, n_terms: int) -> bool:
    if not isinstance(wanted, tuple):
        return type(value) is wanted
    kinds = (np.bool_,) if wanted[0] is bool else _ARRAYS
    if not isinstance(value, np.ndarray) or value.dtype not in kinds:
        return False
    sizes = [n_terms if size == "d" else size for size in wanted if size is not bool]
    return value.ndim == len(sizes) and all(
        size in (None, found) for size, found in zip(sizes, value.shape, strict=True)
    )


def _object(kind: str, fields: dict[str, Any], n_terms: int) -> Any:
    """An object that is part of an estimator."""
    if kind == "NoneType":
        return None
    if kind == "TreeScores":
        trees = TreeScores(**fields)
        trees.check(n_terms)
        return trees
    if kind in ("ShrunkInteractions", "BoostedEffect"):
        member = getattr(estimators, kind)()
        vars(member).update(fields, n_features_in_=n_terms)
        return member
    if kind == "Member":
        from auucmax.estimators.boosted import Member

        return Member(**fields)
    if kind == "Scaling":
        return Scaling(**fields)
    if kind in ("Network", "Scales"):
        from auucmax.estimators.networks import network

        return getattr(network, kind)(**fields)
    from auucmax.estimators.meta import default_model

    model = default_model(np.arange(2.0 if kind == "LogisticRegression" else 3.0))
    vars(model).update(fields, n_features_in_=fields["coef_"].shape[-1])
    if kind == "LogisticRegression":
        model.classes_ = np.arange(2)
    return model


def _check_scores(estimator: Any, n_terms: int) -> None:
    """Raise a ValueError unless rows get finite scores, whatever the attributes hold."""
    rows = np.zeros((2, n_terms))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scores = np.asarray(estimator.predict(rows), dtype=np.float64)
    if scores.shape != (2,) or not np.isfinite(scores).all():
        raise ValueError("its estimator gives no finite scores")
