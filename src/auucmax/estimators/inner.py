"""Models that hold other models: pipelines, searches and wrappers of our estimators."""

from __future__ import annotations

from typing import Any

from sklearn import config_context
from sklearn.base import clone
from sklearn.utils.metadata_routing import MetadataRouter, get_routing_for_object


def fit_rows(model: Any, X: Any, y: Any, **rows: Any) -> Any:
    """``model.fit(X, y, **rows)``; pipelines and searches hand treatment, weights and ids on.

    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from auucmax import TwoModels, make_trial
    >>> trial = make_trial(200, random_state=0)
    >>> model = make_pipeline(StandardScaler(), TwoModels())
    >>> fit_rows(model, trial.X, trial.y, treatment=trial.treatment).predict(trial.X).shape
    (200,)
    """
    if not isinstance(get_routing_for_object(model), MetadataRouter):
        return model.fit(X, y, **rows)
    with config_context(enable_metadata_routing=True):
        return model.fit(X, y, **rows)


def copy_with(model: Any, **values: Any) -> Any:
    """A clone in which the parameters of these names are set, in the models inside it as well.

    >>> from auucmax import TwoModels
    >>> copy_with(TwoModels(control="b"), control=None).control is None
    True
    """
    copy = clone(model)
    own = _own_parameters(model, copy)
    return copy.set_params(**{name: values[last] for name, last in own.items() if last in values})


def free_random_states(model: Any) -> list[str]:
    """Names of the random states that are None, in the models inside it as well."""
    copy = clone(model)
    own, values = _own_parameters(model, copy), copy.get_params()
    return [name for name, last in own.items() if last == "random_state" and values[name] is None]


def count_parameters(model: Any) -> int | None:
    """As the model says, or the one inside it; None if it does not say.

    0 is what models say that cannot count.
    """
    inner = getattr(model, "best_estimator_", model)
    inner = inner[-1] if hasattr(inner, "steps") else inner
    return int(getattr(inner, "n_parameters_", None) or 0) or None


def _own_parameters(model: Any, copy: Any) -> dict[str, str]:
    """Full name of each parameter of the copy -> its last part.

    A model that a clone shares, because it is fitted already, is the user's own: left out.
    """
    given, copied = {"": model} | model.get_params(), {"": copy} | copy.get_params()
    parts = {name: name.rpartition("__") for name in copied if name}
    return {
        name: last for name, (owner, _, last) in parts.items() if copied[owner] is not given[owner]
    }
