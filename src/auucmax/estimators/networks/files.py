"""Fitted networks as files: an archive of arrays with a JSON header; reading runs no code."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from auucmax._archive import ArchiveFormat, check_names
from auucmax._json import read
from auucmax.data.seen import SeenRows, TrainingRecord
from auucmax.estimators.networks.models import GANITE, CFRNet, TARNet, check_parameters, keep
from auucmax.estimators.networks.network import Network, Scales

Model = TARNet | CFRNet | GANITE

FORMAT = ArchiveFormat("auucmax network", 3, "file of save_network")
_CLASSES: dict[str, Any] = {cls.__name__: cls for cls in (TARNet, CFRNet, GANITE)}
_FIELDS = {
    "class": str, "parameters": {...: ...}, "normalise": bool, "n_features": int,
    "feature_names": (None, [str]), "binary": bool, "y_mean": float, "y_scale": float,
    "n_parameters": int, "n_epochs": int, "trained_on": {...: ...},
}  # fmt: skip
_DTYPES = {  # by what the name begins with
    "shift": (np.float32, np.float64),
    "factor": (np.float32, np.float64),
    "weights": (np.float32,),
    "history": (np.float64,),
}


def save_network(model: Model, path: str | os.PathLike[str]) -> None:
    """Write a fitted network to ``path``, whole or not at all.

    The file is an archive of arrays that ``numpy.load(path, allow_pickle=False)`` opens, with
    the parameters as JSON. A ``random_state`` that is a generator is stored as None. What was
    fitted is stored; if the widths of layers were changed since, it is an error. Which rows it
    learnt from is not stored: whoever has the file cannot ask whether a person was in the trial.

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
    check_parameters(model)
    _check_widths_since_fit(model)
    FORMAT.write(path, _header(model), _arrays(model))


def load_network(path: str | os.PathLike[str]) -> Model:
    """Read a network that :func:`save_network` wrote; it scores without torch.

    It cannot tell whether rows are new to it, and :func:`auucmax.certify` says so: certify its
    scores of rows that you know to be new.

    The file must hold what a network of its kind has, no less and no more: the parameters that
    ``fit`` would take, arrays of the shapes that follow from them, finite numbers. For any other
    file there is a ModelFileError (a ValueError) of one line.
    """
    return FORMAT.read(path, _restored)


def _check_widths_since_fit(model: Model) -> None:
    has = {name: array.shape for name, array in model.network_.weights.items()}
    asks = model._shapes(model.n_features_in_)
    if has != asks:
        changed = sorted(
            name for name in has.keys() | asks.keys() if has.get(name) != asks.get(name)
        )
        name = changed[0]
        raise ValueError(
            f"the parameters should be those that {type(model).__name__} was fitted with, got "
            f"others: {name} should have shape {asks.get(name)} by them, and has {has.get(name)}. "
            f"Set the widths of layers back with set_params, or fit again."
        )


def _header(model: Model) -> dict[str, Any]:
    scales = model.network_.scales
    names = getattr(model, "feature_names_in_", None)
    return {
        "class": type(model).__name__,
        "parameters": {k: _plain(k, v) for k, v in model.get_params(deep=False).items()},
        # As fitted: the parameter of this name may have been changed since.
        "normalise": bool(model.network_.normalise),
        "n_features": int(model.n_features_in_),
        "feature_names": None if names is None else [str(name) for name in names],
        "binary": scales.binary,
        "y_mean": scales.y_mean,
        "y_scale": scales.y_scale,
        "n_parameters": int(model.n_parameters_),
        "n_epochs": model.n_epochs_,
        # Networks set no rows aside: what they were given they have learnt from.
        "trained_on": model.training_record_.learnt.forgotten().to_dict(),
    }


def _arrays(model: Model) -> dict[str, NDArray[Any]]:
    network = model.network_
    arrays: dict[str, NDArray[Any]] = {
        "shift": network.scales.shift,
        "factor": network.scales.factor,
        **{f"weights.{name}": array for name, array in network.weights.items()},
        **{f"history.{name}": array for name, array in model.history_.items()},
    }
    return {f"{name}.npy": array for name, array in arrays.items()}


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


def _restored(header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Model:
    header = read(_FIELDS, header, "its header")
    for name, array in arrays.items():
        if array.dtype not in _DTYPES.get(name.split(".")[0], ()):
            raise ValueError(f"there is no place for {name[:50]}, numbers of {array.dtype}")
    model = _unfitted(header["class"], header["parameters"])
    d = header["n_features"]
    weights = {name: arrays.pop(f"weights.{name}.npy") for name in model._shapes(d)}
    if {name: array.shape for name, array in weights.items()} != model._shapes(d):
        raise ValueError(f"the weights are not those of {header['class']} on {d} features")
    normalise = header["normalise"]
    if normalise and not isinstance(model, CFRNet):
        raise ValueError(f"{header['class']} does not normalise")
    network = Network(weights, _scales(header, arrays, d), normalise)
    n_epochs, seen = header["n_epochs"], SeenRows.from_dict(header["trained_on"], {})
    if seen.total or seen.mark:
        raise ValueError("the rows that were seen should be forgotten")
    keep(model, network, _history(model, arrays, n_epochs))
    if arrays:
        raise ValueError(f"there are unknown arrays: {', '.join(sorted(arrays))}")
    if header["n_parameters"] != model.n_parameters_:
        raise ValueError(f"n_parameters is not {model.n_parameters_}, which the arrays have")
    model.n_features_in_ = d
    model.training_record_ = TrainingRecord((seen.n_rows, 0), seen)
    if (names := header["feature_names"]) is not None:
        if len(names) != d or len(set(names)) != d:
            raise ValueError(f"there are {len(set(names))} different names of {d} features")
        model.feature_names_in_ = np.array(names, dtype=object)
    return model


def _unfitted(name: str, stored: dict[str, Any]) -> Model:
    """A model with parameters that ``fit`` would take."""
    cls = _CLASSES[name]
    check_names("parameters", set(stored), set(cls().get_params(deep=False)))
    plain = {key: _plain(key, value) for key, value in stored.items()}
    model: Model = cls(**{k: tuple(v) if isinstance(v, list) else v for k, v in plain.items()})
    check_parameters(model)
    return model


def _scales(header: dict[str, Any], arrays: dict[str, NDArray[Any]], d: int) -> Scales:
    shift, factor = arrays.pop("shift.npy"), arrays.pop("factor.npy")
    if shift.shape != (d,) or factor.shape != (d,) or (factor < 0).any():
        raise ValueError(f"the scales are not those of {d} features")
    binary, y_mean, y_scale = header["binary"], header["y_mean"], header["y_scale"]
    if y_scale <= 0:
        raise ValueError(f"y_scale is {y_scale!r}")
    if binary and (y_mean, y_scale) != (0.0, 1.0):
        raise ValueError("outcomes of 0 and 1 have no other scale")
    return Scales(shift, factor, binary, y_mean, y_scale)


def _history(
    model: Model, arrays: dict[str, NDArray[Any]], n_epochs: int
) -> dict[str, NDArray[Any]]:
    """Losses by epoch, of the stages that the model has; taken out of ``arrays``."""
    first = ("generator", "discriminator") if isinstance(model, GANITE) else ()
    stages = (*first, "train", "validation")
    history = {stage: arrays.pop(f"history.{stage}.npy") for stage in stages}
    allowed = {"train": (n_epochs,), "validation": (0, n_epochs)}
    for stage, losses in history.items():
        lengths = allowed.get(stage, (len(history[stages[0]]),))
        if losses.ndim != 1 or len(losses) not in lengths:
            raise ValueError(f"the losses of {stage} have shape {losses.shape}")
    return history
