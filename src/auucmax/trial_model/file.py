"""Fitted models as files: plain JSON, arrays, and a skops file of exactly known types.

A model file is an archive of :mod:`auucmax._archive` with

* the header: version of auucmax, encoder, columns, recipe, calibration, evidence, summary;
* ``ids.npy`` and ``contents.npy``: filters of hashed ids and rows, if they are to be kept;
* ``estimator.skops``: what scoring needs of the estimator. Every node of it must be of a type in
  the list below, checked before skops sees it.

No person's row is in it, and loading it runs no code.
"""

from __future__ import annotations

import copy
import json
import os
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from hashlib import blake2b
from itertools import islice
from typing import Any

import numpy as np

from auucmax._archive import ArchiveFormat, array_of, check_names, stored_members
from auucmax._version import __version__
from auucmax.encoding import TableEncoder
from auucmax.estimators import UpliftLambdaMART
from auucmax.targeting import Calibration
from auucmax.trial_model.crossfit import Recipe
from auucmax.trial_model.evidence import Evidence
from auucmax.trial_model.fitting import MODELS
from auucmax.trial_model.model import TrialModel
from auucmax.trial_model.rows import ColumnNames
from auucmax.trial_model.seen import SeenRows
from auucmax.trial_model.trees import TreeScores, trees_of

FORMAT = ArchiveFormat("auucmax model", 2, "model file")
MOST_NODES = 2_000  #: of an estimator; a network has some hundred
_FIELDS = {
    "auucmax", "encoder", "columns", "recipe", "calibration", "evidence", "seen", "summary",
    "estimator_hash",
}  # fmt: skip
_FILTERS = {"ids.npy": "ids", "contents.npy": "contents"}
_MARKS = ("__loader__", "__module__", "__class__")

#: Fitted attributes that scoring needs; parameters are kept as well.
_SCORING = {
    "coef_", "intercept_", "scaling_", "treated_model_", "control_model_", "model_", "order_",
    "arm_scale_", "treatment_column_", "booster_", "network_", "n_features_in_", "n_parameters_",
    "_own_model",
}  # fmt: skip
_PLAIN_NODES = {
    ("DictNode", "builtins", "dict"),
    ("ListNode", "builtins", "list"),
    ("TupleNode", "builtins", "tuple"),
    ("JsonNode", "builtins", "str"),
    ("TypeNode", "builtins", "str"),
    ("NdArrayNode", "numpy", "ndarray"),
    ("NdArrayNode", "numpy", "float64"),
    ("NdArrayNode", "numpy", "float32"),
    ("NdArrayNode", "numpy", "int64"),
    ("NdArrayNode", "numpy", "bool"),
}
_OBJECTS = {type(make(0)) for make in MODELS.values()}
_INNER = {
    ("auucmax.trial_model.trees", "TreeScores"),
    ("auucmax.estimators.scaling", "Scaling"),
    ("auucmax.estimators.networks.network", "Network"),
    ("auucmax.estimators.networks.network", "Scales"),
    ("sklearn.linear_model._logistic", "LogisticRegression"),
    ("sklearn.linear_model._base", "LinearRegression"),
}
_TYPES = {(kind.__module__, kind.__qualname__) for kind in _OBJECTS} | _INNER
_NODES = _PLAIN_NODES | {("ObjectNode", *kind) for kind in _TYPES}


def save_model(model: TrialModel, path: str | os.PathLike[str]) -> None:
    """Write a fitted model to ``path``, whole or not at all.

    Examples
    --------
    >>> import tempfile
    >>> from auucmax import make_trial
    >>> from auucmax.trial_model import fit_trial_model
    >>> trial = make_trial(8_000, random_state=0)
    >>> table = trial.X.assign(visit=trial.y, mail=trial.treatment)
    >>> model = fit_trial_model(table, treatment="mail", outcome="visit", model="tm")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_model(model, f"{folder}/visits.model")
    ...     again = load_model(f"{folder}/visits.model")
    >>> bool((again.predict(table) == model.predict(table)).all())
    True
    """
    import skops.io

    estimator = skops.io.dumps(_trimmed(model.estimator))
    header = {
        "auucmax": __version__,
        "encoder": model.encoder.to_dict(),
        "columns": model.columns.to_dict(),
        "recipe": asdict(model.recipe),
        "calibration": model.calibration.to_dict(),
        "evidence": model.evidence.to_dict(),
        "seen": model.seen.to_dict(),
        "summary": model.summary,
        "estimator_hash": _digest(estimator),
    }
    filters = model.seen.arrays()
    members = {file: filters[name] for file, name in _FILTERS.items() if name in filters}
    FORMAT.write(path, header, members | {"estimator.skops": estimator})


def load_model(path: str | os.PathLike[str]) -> TrialModel:
    """Read a model that :func:`save_model` wrote; nothing in the file is executed.

    ModelFileError, in one line, for a file that is absent, damaged, of another kind or another
    version, or made to do harm.
    """
    return FORMAT.read(path, _restored)


def _restored(header: Mapping[str, Any], members: Mapping[str, Any]) -> TrialModel:
    check_names("fields", set(header), _FIELDS)
    check_names("members", set(members) - set(_FILTERS), {"estimator.skops"})
    recipe = _recipe(header["recipe"])
    if not isinstance(header["summary"], dict):
        raise ValueError("its summary is no list of entries")
    content = members["estimator.skops"]
    if header["estimator_hash"] != _digest(content):
        raise ValueError("its estimator is not the one that was saved")
    encoder = TableEncoder.from_dict(header["encoder"])
    columns = ColumnNames.from_dict(header["columns"])
    if not {column.name for column in encoder.columns_} <= set(columns.features):
        raise ValueError("its encoder knows other columns than the model")
    filters = {name: members[file] for file, name in _FILTERS.items() if file in members}
    return TrialModel(
        encoder=encoder,
        estimator=_estimator(content, recipe.model, len(encoder.terms_)),
        recipe=recipe,
        columns=columns,
        calibration=Calibration.from_dict(header["calibration"]),
        evidence=Evidence.from_dict(header["evidence"]),
        seen=SeenRows.from_dict(header["seen"], filters),
        summary=header["summary"],
    )


def _recipe(plain: Mapping[str, Any]) -> Recipe:
    """What was saved; ValueError for anything that a fit cannot have written."""
    recipe = Recipe(**plain)
    kinds = {"model": str, "key": str, "seed": int, "hold_out": float, "n_folds": int}
    right = (
        all(type(getattr(recipe, name)) is kind for name, kind in kinds.items())
        and recipe.model in MODELS
        and len(recipe.key) == 16
        and recipe.key.isascii()
        and 0 <= recipe.seed < 2**31
        and 0 <= recipe.hold_out < 1
        and 1 <= recipe.n_folds <= 100
    )
    if not right:
        raise ValueError("it has an unknown kind of model, or folds that no fit makes")
    return recipe


def _digest(content: bytes) -> str:
    return blake2b(content, digest_size=16).hexdigest()


def _trimmed(estimator: Any) -> Any:
    """A copy with what scoring needs, trees as arrays."""
    trimmed = copy.copy(estimator)
    keep = _SCORING | set(estimator.get_params(deep=False))
    for name in [name for name in vars(trimmed) if name not in keep]:
        del trimmed.__dict__[name]
    if isinstance(estimator, UpliftLambdaMART):
        booster = estimator.booster_  # a model that was loaded has its trees already
        trimmed.booster_ = booster if isinstance(booster, TreeScores) else trees_of(booster)
    return trimmed


def _estimator(content: bytes, model_name: str, n_terms: int) -> Any:
    import skops.io
    from sklearn.exceptions import InconsistentVersionWarning

    _check_nodes(content)
    trusted = [".".join(kind) for kind in sorted(_TYPES)]
    with warnings.catch_warnings():
        # Another scikit-learn wrote it: coefficients are coefficients.
        warnings.simplefilter("ignore", InconsistentVersionWarning)
        estimator = skops.io.loads(content, trusted=trusted)
    if type(estimator) is not type(MODELS[model_name](0)):
        raise ValueError(f"its estimator is no {model_name}")
    if isinstance(estimator, UpliftLambdaMART):
        if type(estimator.booster_) is not TreeScores:
            raise ValueError("its estimator has no trees")
        estimator.booster_.check(n_terms)
    if estimator.n_features_in_ != n_terms:
        raise ValueError("its estimator and its encoder have different numbers of features")
    _check_scores(estimator, n_terms)
    return estimator


def _check_scores(estimator: Any, n_terms: int) -> None:
    """Whatever the attributes hold: rows must get scores."""
    rows = np.zeros((2, n_terms))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scores = np.asarray(estimator.predict(rows), dtype=np.float64)
    if scores.shape != (2,) or not np.isfinite(scores).all():
        raise ValueError("its estimator gives no finite scores")


def _check_nodes(content: bytes) -> None:
    """Only types of the list, and arrays that are as large as they say and are read once."""
    members = stored_members(content)
    nodes = list(islice(_nodes(json.loads(members.pop("schema.json"))), MOST_NODES + 1))
    if len(nodes) > MOST_NODES:
        raise ValueError(f"its estimator has more than {MOST_NODES} parts")
    if strange := {_kind(node) for node in nodes} - _NODES:
        names = sorted(f"{module}.{kind}" for _, module, kind in strange)
        raise ValueError(f"it asks for types that no model has: {', '.join(names)[:100]}")
    arrays = [node for node in nodes if node["__loader__"] == "NdArrayNode"]
    files = [str(node.get("file")) for node in arrays]
    # Together the arrays are then no larger than the file.
    if any(node.get("type") != "numpy" for node in arrays) or len(set(files)) < len(files):
        raise ValueError("its estimator names an array more than once, or holds one of objects")
    for name, data in members.items():
        if not name.endswith(".npy") or "/" in name or "\\" in name:
            raise ValueError(f"its estimator has a member {name[:50]!r}")
        array_of(name, data)


def _kind(node: dict[str, Any]) -> tuple[str, ...]:
    """Loader, module and name of the type of a node."""
    return tuple(str(node.get(mark)) for mark in _MARKS)


def _nodes(tree: Any) -> Iterator[dict[str, Any]]:
    """Every node that stands for an object."""
    pending = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, dict):
            if any(mark in node for mark in _MARKS):
                yield node
            pending.extend(node.values())
        elif isinstance(node, list):
            pending.extend(node)
