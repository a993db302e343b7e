"""Fitted networks as files: an .npz archive of arrays with a JSON header; reading runs no code."""

from __future__ import annotations

import io
import json
import math
import os
import zipfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from auucmax.data.fingerprint import Fingerprint, TrainingRecord
from auucmax.estimators.networks.models import GANITE, CFRNet, TARNet, keep
from auucmax.estimators.networks.network import Network, Scales
from auucmax.estimators.networks.training import Fitted

__all__ = ["load_network", "save_network"]

Model = TARNet | CFRNet | GANITE

FORMAT = "auucmax network"
VERSION = 1
_CLASSES: dict[str, Any] = {cls.__name__: cls for cls in (TARNet, CFRNet, GANITE)}
_HEADER = "header.json"
_DTYPES = (np.float32, np.float64, np.uint64)
_EPOCH_ZERO = (1980, 1, 1, 0, 0, 0)  # no clock in the file: the same network, the same bytes


def save_network(model: Model, path: str | os.PathLike[str]) -> None:
    """Write a fitted network to ``path``, whole or not at all.

    The file is an archive of arrays that ``numpy.load(path, allow_pickle=False)`` opens, with
    the parameters as JSON. A ``random_state`` that is a generator is stored as None.

    Examples
    --------
    >>> import tempfile
    >>> from auucmax import make_trial
    >>> trial = make_trial(500, random_state=0)
    >>> model = TARNet(max_epochs=1, random_state=0).fit(
    ...     trial.X, trial.y, treatment=trial.treatment
    ... )
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_network(model, f"{folder}/tarnet.npz")
    ...     again = load_network(f"{folder}/tarnet.npz")
    >>> bool((again.predict(trial.X) == model.predict(trial.X)).all())
    True
    """
    if type(model) not in _CLASSES.values():
        raise ValueError(
            f"model should be one of {', '.join(_CLASSES)}, got {type(model).__name__}. "
            f"Other models are saved in other ways."
        )
    model._check_is_fitted()
    target = Path(path)
    # Written beside and renamed: a killed run leaves the old file whole.
    beside = target.with_name(f"{target.name}.{os.getpid()}.part")
    try:
        with zipfile.ZipFile(beside, "w", zipfile.ZIP_STORED) as archive:
            for name, content in _members(model).items():
                archive.writestr(zipfile.ZipInfo(name, _EPOCH_ZERO), content)
        os.replace(beside, target)
    finally:
        beside.unlink(missing_ok=True)


def load_network(path: str | os.PathLike[str]) -> Model:
    """Read a network that :func:`save_network` wrote; it scores without torch.

    Everything in the file is checked against what a network of its kind must hold.
    """
    content = Path(path).read_bytes()  # a file that is absent is its own error
    try:
        members = _read(content)
        header = json.loads(members.pop(_HEADER))
        if header["format"] != FORMAT:
            raise ValueError(f"the format is {header['format']!r}")
        is_newer = header["version"] > VERSION
        if not is_newer:
            return _restored(header, {name: _array(name, data) for name, data in members.items()})
    except Exception as error:  # a damaged file makes parsers raise whatever they like
        reason = f"{type(error).__name__}: {error}"
        raise ValueError(
            f"{Path(path).name} should be a whole file of save_network, got one that cannot be "
            f"read ({reason[:200]}). Save the network again, or fetch the file again."
        ) from error
    raise ValueError(
        f"{Path(path).name} should have a format of version {VERSION} or older, got "
        f"{header['version']!r}. A newer auucmax wrote it: upgrade auucmax."
    )


def _members(model: Model) -> dict[str, bytes]:
    network = model.network_
    scales = network.scales
    names = getattr(model, "feature_names_in_", None)
    record = model.training_record_
    header = {
        "format": FORMAT,
        "version": VERSION,
        "class": type(model).__name__,
        "parameters": {k: _plain(k, v) for k, v in model.get_params(deep=False).items()},
        "n_features": int(model.n_features_in_),
        "feature_names": None if names is None else [str(name) for name in names],
        "binary": scales.binary,
        "y_mean": scales.y_mean,
        "y_scale": scales.y_scale,
        "n_parameters": int(model.n_parameters_),
        "n_epochs": model.n_epochs_,
        # Networks set no rows aside: what they were given they have learnt from.
        "trained_on": asdict(record.learnt),
    }
    arrays: dict[str, NDArray[Any]] = {"shift": scales.shift, "factor": scales.factor}
    arrays |= {f"weights.{name}": array for name, array in network.weights.items()}
    arrays |= {f"history.{name}": array for name, array in model.history_.items()}
    if record.ids is not None:
        arrays["ids"] = record.ids
    return {
        _HEADER: json.dumps(header, indent=1, allow_nan=False).encode(),
        **{f"{name}.npy": _bytes(array) for name, array in arrays.items()},
    }


def _plain(name: str, value: Any) -> Any:
    """A parameter as JSON can hold it."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, np.random.Generator | np.random.RandomState):
        return None
    if isinstance(value, (list, tuple, np.ndarray)):
        return [_plain(name, entry) for entry in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise ValueError(
        f"{name} should be a number, a string or a list of them to be saved, got {value!r}. "
        f"Set it to one of these first."
    )


def _bytes(array: NDArray[Any]) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()


def _read(content: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        entries = archive.infolist()
        # Stored as they are, the members together are no larger than the file: no bombs.
        is_stored = all(entry.compress_type == zipfile.ZIP_STORED for entry in entries)
        if not is_stored or sum(entry.file_size for entry in entries) > len(content):
            raise ValueError("members should be stored without compression")
        return {entry.filename: archive.read(entry) for entry in entries}


def _array(name: str, content: bytes) -> NDArray[Any]:
    """An array of numbers whose header agrees with the number of bytes, before any is allocated."""
    stream = io.BytesIO(content)
    if np.lib.format.read_magic(stream) != (1, 0):
        raise ValueError(f"{name} has an unknown array format")
    shape, _, dtype = np.lib.format.read_array_header_1_0(stream)
    expected = math.prod(shape) * dtype.itemsize
    if dtype not in _DTYPES or expected != len(content) - stream.tell():
        raise ValueError(f"{name} has {len(content)} bytes for shape {shape} of {dtype}")
    array = np.load(io.BytesIO(content), allow_pickle=False)
    if not np.isfinite(array).all():
        raise ValueError(f"{name} has values that are not finite")
    return np.asarray(array)


def _restored(header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Model:
    parameters = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in header["parameters"].items()
    }
    model: Model = _CLASSES[header["class"]](**parameters)
    d = _whole(header["n_features"])
    found = _under("weights.", arrays)
    expected = model._shapes(d)
    if {name: array.shape for name, array in found.items()} != expected:
        raise ValueError(f"the arrays are not those of {header['class']} on {d} features")
    shift, factor = arrays["shift.npy"], arrays["factor.npy"]
    if shift.shape != (d,) or factor.shape != (d,):
        raise ValueError(f"the scales are not those of {d} features")
    scales = Scales(
        shift, factor, bool(header["binary"]), float(header["y_mean"]), float(header["y_scale"])
    )
    weights = {name: found[name].astype(np.float32, copy=False) for name in expected}
    network = Network(weights, scales, bool(parameters.get("normalise", False)))
    history = _under("history.", arrays)
    keep(model, network, Fitted(weights, history, _whole(header["n_epochs"])))
    model.n_parameters_, model.n_features_in_ = _whole(header["n_parameters"]), d
    seen = _fingerprint(**header["trained_on"])
    model.training_record_ = TrainingRecord(seen, learnt=seen, ids=arrays.get("ids.npy"))
    if header["feature_names"] is not None:
        names = np.array([str(name) for name in header["feature_names"]], dtype=object)
        if len(names) != d:
            raise ValueError(f"there are {len(names)} names of {d} features")
        model.feature_names_in_ = names
    return model


def _fingerprint(n_rows: Any, total: Any, sample: Any) -> Fingerprint:
    return Fingerprint(_whole(n_rows), _whole(total), tuple(_whole(value) for value in sample))


def _under(prefix: str, arrays: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    chosen = (name for name in arrays if name.startswith(prefix))
    return {name.removeprefix(prefix).removesuffix(".npy"): arrays[name] for name in chosen}


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(f"a count is {value!r}")
    return value
