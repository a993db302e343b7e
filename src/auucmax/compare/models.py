"""The models of a comparison, checked and named."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from inspect import isclass, signature
from typing import Any

from auucmax._validation import listed

Models = Sequence[Any] | Mapping[str, Any]


def name_models(models: Models) -> dict[str, Any]:
    """Name -> estimator, all names different.

    >>> from auucmax import AUUCMax, TwoModels
    >>> list(name_models([AUUCMax(), AUUCMax("s_log", selection=None), TwoModels()]))
    ['AUUCMax', "AUUCMax(selection=None, surrogate='s_log')", 'TwoModels']
    """
    if hasattr(models, "fit") or not isinstance(models, (list, tuple, Mapping)):
        raise ValueError(
            f"models should be a list of estimators or a dict of name -> estimator, got "
            f"{type(models).__name__}. Put a single model into a list."
        )
    if len(models) == 0:
        raise ValueError("models should hold at least one estimator, got none. Pass a list.")
    listing = list(models.values()) if isinstance(models, Mapping) else list(models)
    for model in listing:
        _check_estimator(model)
    names = [str(n) for n in models] if isinstance(models, Mapping) else [*map(_short, listing)]
    if repeated := [name for name, count in Counter(names).items() if count > 1]:
        raise ValueError(
            f"models should have different names, got {listed(repeated)} more than once. "
            f"Drop the copies, or pass a dict of name -> estimator."
        )
    return dict(zip(names, listing, strict=True))


def _check_estimator(model: Any) -> None:
    if isclass(model):
        raise ValueError(
            f"models should hold estimators, got the class {model.__name__}. "
            f"Make one: {model.__name__}()."
        )
    needed = ("fit", "predict", "get_params", "set_params")
    if lacks := [name for name in needed if not hasattr(model, name)]:
        raise ValueError(
            f"models should hold estimators with {', '.join(needed)}, got a "
            f"{type(model).__name__} without {', '.join(lacks)}. Use a model of "
            f"auucmax.estimators, or derive yours from scikit-learn's BaseEstimator."
        )


def _short(model: Any) -> str:
    """Class, and the parameters that differ from its defaults; of a pipeline, its steps."""
    if hasattr(model, "steps"):
        return f"{type(model).__name__}({', '.join(_short(step) for _, step in model.steps)})"
    defaults = {p.name: p.default for p in signature(type(model).__init__).parameters.values()}
    changed = [
        f"{name}={_text(value)}"
        for name, value in model.get_params(deep=False).items()
        if name not in defaults or repr(value) != repr(defaults[name])
    ]
    return type(model).__name__ + (f"({', '.join(changed)})" if changed else "")


def _text(value: Any) -> str:
    if hasattr(value, "get_params") and not isclass(value):
        return _short(value)
    if hasattr(value, "__qualname__"):  # a function or a class
        return str(value.__qualname__)
    text = " ".join(repr(value).split())
    return type(value).__name__ if " at 0x" in text else text
