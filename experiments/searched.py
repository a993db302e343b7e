"""Models whose hyper-parameters are chosen by AUUC on rows held out, as in the paper.

The paper's grids hold learning rates too; the convex models are solved exactly here, so that only
the l2 term, the norm or C is left to choose. The paper does not say what its folds are compared by;
here it is AUUC with joint ranking.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import MinMaxScaler

from auucmax import ClassTransformation, TrialKFold, TwoModels, auuc_score
from auucmax.estimators import (
    GANITE,
    DependentDataRepresentation,
    SharedDataRepresentation,
    SVMDifferentialPrediction,
    TARNet,
)
from auucmax.estimators.base import UpliftEstimator
from auucmax.selection import choose_by_cv, choose_by_held_out

L2_GRID = (0.0, 1e-6, 1e-4)
C_GRID = (0.1, 1.0, 10.0)
N_FOLDS = 5

Options = dict[str, Any]


def settings_of(model: Any) -> Options:
    """Every parameter of a model but its seed, in words: a changed default changes it."""
    return {"class": type(model).__name__} | {
        name: value if isinstance(value, (str, int, float, tuple, type(None))) else str(value)
        for name, value in sorted(model.get_params(deep=False).items())
        if name not in ("random_state", "control")
    }


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

    @property
    def coef_(self) -> NDArray[np.float64]:
        return np.asarray(self.model_.coef_ * self.scaler_.scale_)

    @property
    def intercept_(self) -> NDArray[np.float64]:
        return np.asarray(self.model_.intercept_ + self.model_.coef_ @ self.scaler_.min_)

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        return np.asarray(self.model_.predict_proba(self.scaler_.transform(X)))


class Searched(UpliftEstimator):
    """The model of a grid with the best AUUC on held-out rows, then fitted on all rows.

    ``model`` is a key of ``kinds``; ``folds`` is 5, or 1 for a single validation part (the first
    of the five); ``max_rows`` cuts the training rows down, before anything else is done. More
    options go to every candidate.
    """

    def __init__(
        self,
        model: str,
        *,
        folds: int = N_FOLDS,
        max_rows: int | None = None,
        options: Options | None = None,
        random_state: int = 0,
    ) -> None:
        self.model = model
        self.folds = folds
        self.max_rows = max_rows
        self.options = options
        self.random_state = random_state

    def candidates(self) -> list[tuple[Options, Any]]:
        """The points of the grid, each with a model that is not fitted."""
        kind, grid = GRIDS[self.model]
        points = [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]
        return [(point, kind(**point, **self._fixed())) for point in points]

    def searched(self) -> Options:
        """What the search goes over, in words."""
        grid = GRIDS[self.model][1]
        (_, first), *_ = self.candidates()
        return {"grid": grid, "fixed": FIXED[self.model], "first": settings_of(first)}

    def _fixed(self) -> Options:
        return FIXED[self.model] | (self.options or {}) | {"random_state": self.random_state}

    def _fit(self, X: Any, y: Any, treated: Any, sample_weight: Any) -> None:
        rows = self._some(treated)
        X, y, treated = X[rows], y[rows], treated[rows]
        points, models = zip(*self.candidates(), strict=True)

        def fit_all(rows: NDArray[np.intp]) -> list[Any]:
            return [
                clone(m).fit(X[rows], y[rows], treatment=treated[rows].astype(int)) for m in models
            ]

        def evaluate_all(fitted: Sequence[Any], rows: NDArray[np.intp]) -> list[float]:
            return [
                auuc_score(y[rows], m.predict(X[rows]), treatment=treated[rows]) for m in fitted
            ]

        splitter = TrialKFold(N_FOLDS, random_state=self.random_state)
        folds = list(splitter.split(X, y, treatment=treated))[: self._n_folds()]
        if len(folds) == 1:
            ((learn, judge),) = folds
            best = choose_by_held_out(
                fit_all(learn), lambda fitted: evaluate_all(fitted, judge)
            ).best
        else:
            best = choose_by_cv(fit_all, evaluate_all, folds).best
        self.chosen_ = points[best]
        self.model_ = models[best].fit(X, y, treatment=treated.astype(int))
        self.n_parameters_ = getattr(self.model_, "n_parameters_", None)
        self.n_rows_ = len(y)

    def _n_folds(self) -> int:
        return self.folds

    def _some(self, treated: NDArray[np.bool_]) -> Any:
        """All rows, or ``max_rows`` of them drawn with the shares of the arms kept."""
        most = getattr(self, "max_rows", None)
        if most is None or len(treated) <= most:
            return slice(None)
        rng = np.random.default_rng(self.random_state)
        order = rng.permutation(len(treated))
        kept = [order[treated[order] == arm] for arm in (True, False)]
        return np.sort(np.concatenate([k[: round(most * len(k) / len(order))] for k in kept]))

    def _predict(self, X: Any) -> NDArray[np.float64]:
        return np.asarray(self.model_.predict(X))


class Tuned(Searched):
    """TM, CVT, DDR or SDR with the l2 of its logistic models chosen by AUUC over 5 folds."""

    def __init__(
        self, model: str = "TM", *, l2_grid: tuple[float, ...] = L2_GRID, random_state: int = 0
    ) -> None:
        self.model = model
        self.l2_grid = l2_grid
        self.random_state = random_state

    def candidates(self) -> list[tuple[Options, Any]]:
        kind, options = LOGISTIC[self.model]
        return [({"l2": l2}, kind(MeanLogistic(l2), **options)) for l2 in self.l2_grid]

    def searched(self) -> Options:
        return {}  # the grid is a parameter

    def _n_folds(self) -> int:
        return N_FOLDS


LOGISTIC: dict[str, tuple[Any, Options]] = {
    "TM": (TwoModels, {}),
    "CVT": (ClassTransformation, {}),
    "DDR": (DependentDataRepresentation, {}),
    # Without a treatment column it has the paper's 67 parameters; the one-hot columns of Hillstrom
    # let the arms differ in level all the same.
    "SDR": (SharedDataRepresentation, {"treatment_column": False}),
    "SDR, treatment column": (SharedDataRepresentation, {}),
}
GRIDS: dict[str, tuple[Any, dict[str, tuple[Any, ...]]]] = {
    "SVM-DP": (lambda random_state, **given: SVMDifferentialPrediction(**given), {"C": C_GRID}),
    # The paper's l2 multiplies the squared weights, TARNet's half of them.
    "TARNet": (
        TARNet,
        {"learning_rate": (1e-3, 5e-3), "l2": tuple(2 * l2 for l2 in L2_GRID)},
    ),
    "GANITE": (GANITE, {"hidden": (30, 50, 100), "alpha": (1.0, 100.0, 1000.0)}),
}
FIXED: dict[str, Options] = {
    "SVM-DP": {},
    "TARNet": {"batch_size": 1000, "max_epochs": 200},
    "GANITE": {"batch_size": 1000, "max_epochs": 200, "generator_epochs": 20, "l2": 0.0},
}
