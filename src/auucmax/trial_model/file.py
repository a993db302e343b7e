"""Fitted models as files: plain JSON beside a skops file of exactly known types; no code is run.

A model file is a zip archive, stored without compression:

* ``model.json``: format, version, encoder, columns, split, calibration, summary;
* ``ids.npy``: hashes of the ids of rows that the model learnt from;
* ``rows.npy``, ``some.npy``, ``others.npy``: short hashes of their contents, of all columns and of
  two halves of them; ``strata.npy``: short hashes of features and treatment that several of them
  share, with numbers of rows and of high outcomes;
* ``test.npy``: outcome, score and treatment of the test rows, (3, n), without names;
* ``estimator.skops``: what scoring needs of the estimator. Every node of it must be of a type in
  the list below, checked before skops sees it.
"""

from __future__ import annotations

import copy
import io
import json
import math
import os
import warnings
import zipfile
from collections.abc import Iterator
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import InconsistentVersionWarning

from auucmax._files import whole_file
from auucmax._optional import import_optional
from auucmax._version import __version__
from auucmax.encoding import TableEncoder
from auucmax.estimators import UpliftLambdaMART
from auucmax.targeting import Calibration
from auucmax.trial_model.fitting import MODELS
from auucmax.trial_model.model import JudgedRows, TrialModel
from auucmax.trial_model.rows import ColumnNames
from auucmax.trial_model.split import RowSplit
from auucmax.trial_model.trees import TreeScores, trees_of

__all__ = ["ModelFileError", "load_model", "save_model"]

FORMAT = "auucmax model"
VERSION = 1
LARGEST_FILE = 2**31  #: bytes
MOST_NODES = 2_000  #: of an estimator; a network has some hundred
_LARGEST_COMPRESSED = 2**20  # bytes of a newer file's model.json that are looked at
_LOOKS = ("rows.npy", "some.npy", "others.npy")
_MEMBERS = {"model.json", "ids.npy", *_LOOKS, "strata.npy", "test.npy", "estimator.skops"}
_FIELDS = {
    "format", "version", "auucmax", "model_name", "encoder", "columns", "split", "calibration",
    "summary", "estimator_hash",
}  # fmt: skip
_MARKS = ("__loader__", "__module__", "__class__")
_EPOCH_ZERO = (1980, 1, 1, 0, 0, 0)  # no clock in the archive

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


class ModelFileError(ValueError):
    """A file is no model that can be loaded: what was expected, what came, what to do."""


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
    skops = import_optional("skops.io", extra="tables")
    estimator = skops.dumps(_trimmed(model.estimator))
    content = {
        "format": FORMAT,
        "version": VERSION,
        "auucmax": __version__,
        "model_name": model.model_name,
        "encoder": model.encoder.to_dict(),
        "columns": model.columns.to_dict(),
        "split": model.split.to_dict(),
        "calibration": None if model.calibration is None else model.calibration.to_dict(),
        "summary": model.summary,
        "estimator_hash": _digest(estimator),
    }
    members = {
        "model.json": json.dumps(content, allow_nan=False, indent=1).encode(),
        "ids.npy": _array_bytes(model.split.learnt_ids),
        **{
            name: _array_bytes(hashes)
            for name, hashes in zip(_LOOKS, model.split.learnt_rows, strict=True)
        },
        "strata.npy": _array_bytes(model.split.learnt_strata),
        "test.npy": _array_bytes(np.array(model.test_rows, dtype=np.float64)),
        "estimator.skops": estimator,
    }
    with whole_file(path) as beside, zipfile.ZipFile(beside, "w", zipfile.ZIP_STORED) as archive:
        for name, data in members.items():
            archive.writestr(zipfile.ZipInfo(name, _EPOCH_ZERO), data)


def load_model(path: str | os.PathLike[str]) -> TrialModel:
    """Read a model that :func:`save_model` wrote; nothing in the file is executed.

    ModelFileError, in one line, for a file that is absent, damaged, of another kind, newer than
    this version, or made to do harm.
    """
    name = Path(path).name or str(Path(path))  # "." has no name, nor has the root
    content = _read(Path(path), name)
    try:
        # A newer file may have other members, in another form: its version comes first.
        newer = _newer_version(content)
        if newer is None:
            members = _members(content)
            return _restored(json.loads(members["model.json"]), members)
    except ImportError:
        raise
    except Exception as error:  # a damaged file makes parsers raise whatever they like
        lines = " ".join(f"{type(error).__name__}: {error}".split())
        raise ModelFileError(
            f"{name} should be a whole model file, got one that cannot be used ({lines[:200]}). "
            f"Save the model again, or fetch the file again."
        ) from error
    raise ModelFileError(
        f"{name} should have a format of version {VERSION} or older, got {newer}. A "
        f"newer auucmax wrote it: upgrade auucmax."
    )


def _read(path: Path, name: str) -> bytes:
    try:
        size = path.stat().st_size
        if size <= LARGEST_FILE:
            return path.read_bytes()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ModelFileError(
            f"{name} should be a model file that can be read, got: {reason}. Check the path."
        ) from error
    raise ModelFileError(
        f"{name} should be a model file of at most {LARGEST_FILE:,} bytes, got {size:,}. It is no "
        f"model of auucmax."
    )


def _newer_version(content: bytes) -> int | None:
    """The version of the format, if this one is too old for it."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        if "model.json" not in archive.namelist():
            return None
        entry = archive.getinfo("model.json")
        # Other compressions cannot be read a piece at a time.
        limits = {zipfile.ZIP_STORED: len(content), zipfile.ZIP_DEFLATED: _LARGEST_COMPRESSED}
        limit = limits.get(entry.compress_type, -1)
        if entry.file_size > limit:
            return None
        with archive.open(entry) as stream:
            text = stream.read(limit + 1)
    plain = json.loads(text) if len(text) <= limit else None
    if not isinstance(plain, dict) or plain.get("format") != FORMAT:
        return None
    version = plain.get("version")
    return version if type(version) is int and version > VERSION else None


def _members(content: bytes) -> dict[str, bytes]:
    members = _stored(content)
    if set(members) != _MEMBERS:
        raise ValueError(f"its members are {', '.join(sorted(members))[:100]}")
    return members


def _stored(content: bytes) -> dict[str, bytes]:
    """Members of an archive that is not compressed: together no larger than the file."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        entries = archive.infolist()
        is_stored = all(entry.compress_type == zipfile.ZIP_STORED for entry in entries)
        if not is_stored or sum(entry.file_size for entry in entries) > len(content):
            raise ValueError("its members are compressed")
        if len({entry.filename for entry in entries}) < len(entries):
            raise ValueError("its members have equal names")
        return {entry.filename: archive.read(entry) for entry in entries}


def _restored(plain: Any, members: dict[str, bytes]) -> TrialModel:
    if not isinstance(plain, dict) or plain.get("format") != FORMAT:
        raise ValueError("it is not marked as a model of auucmax")
    if set(plain) != _FIELDS:
        raise ValueError(f"its fields differ in {', '.join(sorted(set(plain) ^ _FIELDS))[:100]}")
    if type(plain["version"]) is not int or plain["version"] < 1:
        raise ValueError("its version is no number")
    if type(plain["model_name"]) is not str or plain["model_name"] not in MODELS:
        raise ValueError("it has an unknown kind of model")
    if not isinstance(plain["summary"], dict):
        raise ValueError("its summary is no list of entries")
    if plain["estimator_hash"] != _digest(members["estimator.skops"]):
        raise ValueError("its estimator is not the one that was saved")
    encoder = TableEncoder.from_dict(plain["encoder"])
    columns = ColumnNames.from_dict(plain["columns"])
    if not {column.name for column in encoder.columns_} <= set(columns.features):
        raise ValueError("its encoder knows other columns than the model")
    calibration = plain["calibration"]
    return TrialModel(
        encoder=encoder,
        estimator=_estimator(members["estimator.skops"], plain["model_name"], len(encoder.terms_)),
        model_name=plain["model_name"],
        columns=columns,
        split=RowSplit.from_dict(
            plain["split"],
            _hashes("ids.npy", members["ids.npy"], np.uint64),
            [_hashes(name, members[name], np.uint32) for name in _LOOKS],
            _strata(members["strata.npy"]),
        ),
        calibration=None if calibration is None else Calibration.from_dict(calibration),
        summary=plain["summary"],
        test_rows=_test_rows(members["test.npy"]),
    )


def _digest(content: bytes) -> str:
    return blake2b(content, digest_size=16).hexdigest()


def _array_bytes(array: NDArray[Any]) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()


def _test_rows(content: bytes) -> JudgedRows:
    _check_array("test.npy", content)
    rows = np.load(io.BytesIO(content), allow_pickle=False)
    if rows.dtype != np.float64 or rows.ndim != 2 or len(rows) != 3:
        raise ValueError("the test rows have no outcome, score and treatment")
    y, score, treatment = np.ascontiguousarray(rows)
    if set(np.unique(treatment)) != {0.0, 1.0}:
        raise ValueError("the test rows do not have two arms")
    return JudgedRows(y, score, treatment.astype(np.int8))


def _hashes(name: str, content: bytes, kind: type[np.unsignedinteger[Any]]) -> NDArray[Any]:
    _check_array(name, content)
    hashes = np.load(io.BytesIO(content), allow_pickle=False)
    if hashes.dtype != kind or hashes.ndim != 1 or (hashes[1:] <= hashes[:-1]).any():
        raise ValueError(f"the hashes of {name} are not sorted")
    return np.asarray(hashes)


def _strata(content: bytes) -> NDArray[np.uint32]:
    _check_array("strata.npy", content)
    strata = np.load(io.BytesIO(content), allow_pickle=False)
    right = strata.dtype == np.uint32 and strata.ndim == 2 and len(strata) == 3
    if not right or (strata[0, 1:] <= strata[0, :-1]).any() or (strata[1] < strata[2]).any():
        raise ValueError("the strata are not sorted, or have more high outcomes than rows")
    return np.ascontiguousarray(strata)


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
    skops = import_optional("skops.io", extra="tables")
    _check_nodes(content)
    trusted = [".".join(kind) for kind in sorted(_TYPES)]
    with warnings.catch_warnings():
        # Another scikit-learn wrote it: coefficients are coefficients.
        warnings.simplefilter("ignore", InconsistentVersionWarning)
        estimator = skops.loads(content, trusted=trusted)
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
    members = _stored(content)
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
        _check_array(name, data)


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


def _check_array(name: str, content: bytes) -> None:
    """The header agrees with the number of bytes, before any is allocated."""
    stream = io.BytesIO(content)
    if np.lib.format.read_magic(stream) != (1, 0):
        raise ValueError(f"{name[:50]} has an unknown array format")
    shape, _, dtype = np.lib.format.read_array_header_1_0(stream)
    expected = math.prod(shape) * dtype.itemsize
    if dtype.kind not in "biuf" or expected != len(content) - stream.tell():
        raise ValueError(f"{name[:50]} has {len(content)} bytes for shape {shape} of {dtype}")
    if dtype.kind == "f":
        values = np.frombuffer(content, dtype=dtype, offset=stream.tell())
        if not np.isfinite(values).all():
            raise ValueError(f"{name[:50]} has values that are not finite")
