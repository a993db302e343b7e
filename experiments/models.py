"""Models of the experiments, and the line that a fitted one leaves."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from functools import lru_cache
from importlib.metadata import version
from platform import python_version
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import MinMaxScaler

import auucmax
from auucmax import (
    AUUCMax,
    ClassTransformation,
    Trial,
    TrialKFold,
    TwoModels,
    auuc_inference,
    auuc_score,
)
from auucmax.bounds.paper import paper_bound
from auucmax.estimators.base import UpliftEstimator
from auucmax.selection import choose_by_cv
from experiments.harness import Line, Task

PACKAGES = ("numpy", "scipy", "scikit-learn")
L2_GRID = (0.0, 1e-6, 1e-4)
_DIGITS = 9


class MeanLogistic(ClassifierMixin, BaseEstimator):
    """Logistic regression on min-max features: mean log-loss + l2 ||w||^2, intercept free."""

    def __init__(self, l2: float = 0.0) -> None:
        self.l2 = l2

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> MeanLogistic:
        total = len(y) if sample_weight is None else float(np.sum(sample_weight))
        # One-hot blocks leave flat directions; a vanishing penalty takes the shortest solution.
        c = 1 / (2 * total * max(self.l2, 1e-9))
        self.scaler_ = MinMaxScaler().fit(X)
        self.model_ = LogisticRegression(C=c, solver="newton-cholesky", tol=1e-6)
        self.model_.fit(self.scaler_.transform(X), y, sample_weight=sample_weight)
        self.classes_ = self.model_.classes_
        return self

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        return np.asarray(self.model_.predict_proba(self.scaler_.transform(X)))


class Tuned(UpliftEstimator):
    """TM or CVT with the l2 of its logistic models chosen by AUUC over 5 folds, as the paper."""

    def __init__(
        self, model: str = "TM", *, l2_grid: tuple[float, ...] = L2_GRID, random_state: int = 0
    ) -> None:
        self.model = model
        self.l2_grid = l2_grid
        self.random_state = random_state

    def _fit(self, X: Any, y: Any, treated: Any, sample_weight: Any) -> None:
        kind = {"TM": TwoModels, "CVT": ClassTransformation}[self.model]
        candidates = [kind(MeanLogistic(l2)) for l2 in self.l2_grid]

        def fit_all(rows: NDArray[np.intp]) -> list[Any]:
            return [
                clone(c).fit(X[rows], y[rows], treatment=treated[rows].astype(int))
                for c in candidates
            ]

        def evaluate(fitted: Any, rows: NDArray[np.intp]) -> float:
            return auuc_score(y[rows], fitted.predict(X[rows]), treatment=treated[rows])

        folds = TrialKFold(5, random_state=self.random_state).split(X, y, treatment=treated)
        best = choose_by_cv(fit_all, evaluate, folds).best
        self.l2_ = self.l2_grid[best]
        self.model_ = candidates[best].fit(X, y, treatment=treated.astype(int))

    def _predict(self, X: Any) -> NDArray[np.float64]:
        return np.asarray(self.model_.predict(X))


def describe(model: Any) -> dict[str, Any]:
    """Every parameter of a model but its seed, in words: a changed default changes it."""
    parameters = model.get_params(deep=False)
    return {"class": type(model).__name__} | {
        name: value if isinstance(value, (str, int, float, tuple, type(None))) else str(value)
        for name, value in sorted(parameters.items())
        if name not in ("random_state", "control")
    }


def measure(task: Task, model: Any, train: Trial, test: Trial) -> Line:
    """Fit, rank the test rows, and put down what came out."""
    start = time.perf_counter()
    model.fit(train.X, train.y, treatment=train.treatment)
    seconds = time.perf_counter() - start
    score = model.predict(test.X)
    inference = auuc_inference(test.y, score, treatment=test.treatment)
    line = start_line(task, describe(model)) | {
        "auuc": inference.estimate,
        "auuc_separate": auuc_score(test.y, score, treatment=test.treatment, ranking="separate"),
        "random": inference.estimate - inference.gain,
        "gain_standard_error": inference.gain_standard_error,
        "train_auuc": model.score(train.X, train.y, treatment=train.treatment),
        "chosen": _chosen(model),
        "fit_seconds": seconds,
    }
    if isinstance(model, AUUCMax):
        line |= {"norm": model.norm_, "paper_bound": _printed_bound(model, train)}
    return rounded(line)


def start_line(task: Task, parameters: dict[str, Any]) -> Line:
    """What every line begins with: the task, its parameters, versions and date."""
    return task._asdict() | {
        "parameters": parameters,
        "versions": dict(_versions()),
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
    }


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
    if isinstance(model, Tuned):
        return {"l2": model.l2_}
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
