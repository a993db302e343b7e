"""Models of the experiments, and the line that a fitted one leaves."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import lru_cache
from importlib.metadata import version
from platform import python_version
from typing import Any, TypeVar

import numpy as np

import auucmax
from auucmax import AUUCMax, Trial, auuc_inference, auuc_score
from auucmax.certificates.bound import paper_bound
from auucmax.metrics.functions import policy_risk_inference
from experiments.harness import Line, Task
from experiments.searched import Searched, settings_of

PACKAGES = ("numpy", "scipy", "scikit-learn", "torch", "lightgbm")
SHARES = tuple(k / 10 for k in range(1, 10))  # of people treated, in the paper's Table 6
_DIGITS = 9
T = TypeVar("T")


def describe(model: Any) -> dict[str, Any]:
    """Every parameter of a model but its seed, and what it searches: a change makes lines stale."""
    searched = model.searched() if isinstance(model, Searched) else {}
    return settings_of(model) | searched


def as_paper(seed: int, **changed: Any) -> AUUCMax:
    """AUUC-max in the paper's setting, with Lambda by its bound; ``changed``: other options."""
    options: dict[str, Any] = {
        "surrogate": "s_poly", "scale": "column-l2", "grid": "paper", "weights": "uniform",
        "selection": "bound",
    }  # fmt: skip
    return AUUCMax(**options | changed, random_state=seed)


def measure(task: Task, model: Any, train: Trial, test: Trial) -> Line:
    """Fit, rank the test rows, and return the line."""
    _, seconds = timed(lambda: model.fit(train.X, train.y, treatment=train.treatment))
    score = model.predict(test.X)
    inference = auuc_inference(test.y, score, treatment=test.treatment)
    line = start_line(task, describe(model)) | {
        "auuc": inference.estimate,
        "auuc_separate": auuc_score(test.y, score, treatment=test.treatment, ranking="separate"),
        "random": random_auuc(test),
        "gain_standard_error": inference.gain_standard_error,
        "train_auuc": model.score(train.X, train.y, treatment=train.treatment),
        "chosen": _chosen(model),
        "n_parameters": getattr(model, "n_parameters_", None),
        **seconds,
    }
    if np.isin(test.y, (0, 1)).all():
        risk = policy_risk_inference(test.y, score, treatment=test.treatment, share=SHARES)
        line |= {
            "policy_risk": np.atleast_1d(risk.estimate).tolist(),
            "policy_risk_error": np.atleast_1d(risk.standard_error).tolist(),
        }
    if isinstance(model, AUUCMax):
        line |= {"norm": model.norm_, "paper_bound": _printed_bound(model, train)}
    return rounded(line)


def random_auuc(test: Trial) -> float:
    """AUUC of a random ranking: half the difference of the arms."""
    return float(test.y[test.treated].mean() - test.y[~test.treated].mean()) / 2


def start_line(task: Task, parameters: dict[str, Any]) -> Line:
    """What every line begins with: the task, its parameters, versions and date."""
    return task._asdict() | {
        "parameters": parameters,
        "versions": dict(_versions()),
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
    }


def timed(call: Callable[[], T]) -> tuple[T, dict[str, float]]:
    """What a call returns, and the seconds that it takes, as a line has them."""
    start, start_cpu = time.perf_counter(), time.process_time()
    found = call()
    return found, {
        "fit_seconds": time.perf_counter() - start,
        "cpu_seconds": time.process_time() - start_cpu,
    }


def timed_line(task: Task, parameters: dict[str, Any], numbers: Callable[[], Line]) -> Line:
    """The line of a task whose numbers are computed here, with the seconds that it takes."""
    found, seconds = timed(numbers)
    return rounded(start_line(task, parameters) | seconds | found)


def rounded(value: Any) -> Any:
    """Floats to nine significant digits, infinity as text: JSON has no word for it."""
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [rounded(item) for item in value]
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}") if np.isfinite(value) else str(value)
    return value


def _chosen(model: Any) -> dict[str, Any]:
    if isinstance(model, Searched):
        return model.chosen_
    if not isinstance(model, AUUCMax):
        return {}
    path = model.selection_path_
    return {
        "norm": model.norm_,
        "grid": [float(norm) for norm in path["norm"]],
        "smallest": bool(path["chosen"].iloc[0]),
    }


def _printed_bound(model: AUUCMax, train: Trial) -> float:
    if model.paper_bound_ is not None:
        return model.paper_bound_.lower
    # Nothing was chosen, so the model has not computed it; the norm that was reached is Lambda.
    return paper_bound(
        train.y,
        model.predict(train.X),
        treatment=train.treatment,
        norm=float(np.linalg.norm(model.scaled_coef_)),
        radius=model.radius_,
    ).lower


@lru_cache(maxsize=1)
def _versions() -> tuple[tuple[str, str], ...]:
    own = (("Python", python_version()), ("auucmax", auucmax.__version__))
    return own + tuple((name, version(name)) for name in PACKAGES)
