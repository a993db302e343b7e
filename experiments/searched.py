"""Models whose hyper-parameters are chosen by AUUC on rows held out, as in the paper.

The paper's grids hold learning rates too; where the convex models are solved exactly, only the l2
term, the norm or C is left to choose. :class:`Variant` searches the learning rates as well. The
paper does not say what its folds are compared by; here it is AUUC with joint ranking.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.linear_model import LogisticRegression

from auucmax import ClassTransformation, TrialKFold, TwoModels, auuc_score
from auucmax.baselines import (
    GANITE,
    DependentDataRepresentation,
    SharedDataRepresentation,
    SVMDifferentialPrediction,
    TARNet,
)
from auucmax.estimators.base import UpliftEstimator
from auucmax.estimators.scaling import fit_scaling
from auucmax.solvers import adam_over_ball

L2_GRID = (0.0, 1e-6, 1e-4)
C_GRID = (0.1, 1.0, 10.0)
N_FOLDS = 5

Options = dict[str, Any]
Floats = NDArray[np.float64]


def settings_of(model: Any) -> Options:
    """Every parameter of a model but its seed, in words: a changed default changes it."""
    return {"class": type(model).__name__} | {
        name: value if isinstance(value, (str, int, float, tuple, type(None))) else str(value)
        for name, value in sorted(model.get_params(deep=False).items())
        if name not in ("random_state", "control")
    }


class MeanLogistic(ClassifierMixin, BaseEstimator):
    """Logistic regression on scaled features: mean log-loss + l2 ||w||^2, intercept free.

    Solved exactly; with a learning rate by Adam, as the paper's models are: batches of 1,000 rows,
    at most 200 epochs, a rate that is halved every 20, early stopping by a fifth of the rows.
    """

    def __init__(
        self,
        l2: float = 0.0,
        *,
        scale: str = "min-max",
        learning_rate: float | None = None,
        random_state: int = 0,
    ) -> None:
        self.l2 = l2
        self.scale = scale
        self.learning_rate = learning_rate
        self.random_state = random_state

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> MeanLogistic:
        X, y = np.asarray(X, dtype=np.float64), np.asarray(y)
        weight = np.ones(len(y)) if sample_weight is None else np.asarray(sample_weight)
        scaling = fit_scaling(X, self.scale)
        self.classes_ = np.unique(y)
        fit = self._exactly if self.learning_rate is None else self._by_adam
        coef, intercept = fit((X - scaling.shift) * scaling.factor, y == self.classes_[1], weight)
        self.coef_ = (coef * scaling.factor)[None]
        self.intercept_ = np.array([intercept - self.coef_[0] @ scaling.shift])
        return self

    def _exactly(self, Z: Floats, y: Any, weight: Floats) -> tuple[Floats, float]:
        # One-hot blocks leave flat directions; a vanishing penalty takes the shortest solution.
        c = 1 / (2 * weight.sum() * max(self.l2, 1e-9))
        model = LogisticRegression(C=c, solver="newton-cholesky", tol=1e-6)
        model.fit(Z, y, sample_weight=weight)
        return model.coef_[0], float(model.intercept_[0])

    def _by_adam(self, Z: Floats, y: Any, weight: Floats) -> tuple[Floats, float]:
        rng = np.random.default_rng(self.random_state)
        rows = np.column_stack([Z, np.ones(len(y))])
        penalty = np.append(np.full(Z.shape[1], self.l2), 0.0)
        judge, learn = np.split(rng.permutation(len(y)), [len(y) // 5])

        def gradient(index: Any, w: Floats) -> Floats:
            excess = weight[index] * (expit(rows[index] @ w) - y[index])
            return np.asarray(excess @ rows[index] / weight[index].sum() + 2 * penalty * w)

        def batches(rng: np.random.Generator) -> Iterator[Callable[[Floats], Floats]]:
            parts = np.array_split(rng.permutation(learn), max(1, len(learn) // 1000))
            return (partial(gradient, part) for part in parts)

        def loss(w: Floats) -> float:
            eta = rows[judge] @ w
            found = np.average(np.logaddexp(0, eta) - eta * y[judge], weights=weight[judge])
            return float(found + penalty @ w**2)

        assert self.learning_rate is not None  # otherwise solved exactly
        w, self.n_epochs_ = adam_over_ball(
            batches,
            loss,
            np.inf,
            start=np.zeros(rows.shape[1]),
            learning_rate=self.learning_rate,
            random_state=rng,
        )
        return w[:-1], float(w[-1])

    def predict_proba(self, X: Any) -> Floats:
        p = expit(np.asarray(X) @ self.coef_[0] + self.intercept_)
        return np.column_stack([1 - p, p])


class ClassMeans(UpliftEstimator):
    """A direction that nothing is minimised for: differences of class means of scaled features.

        w = mean(x | treated, y=1) - mean(x | treated, y=0)
            - (mean(x | control, y=1) - mean(x | control, y=0)),      score(x) = w.x

    It is where AUUC-max with uniform weights starts: minus the gradient at w = 0.

    Examples
    --------
    >>> X, y = [[0.0], [1.0], [0.0], [1.0]], [0, 1, 1, 0]
    >>> ClassMeans().fit(X, y, treatment=[1, 1, 0, 0]).predict([[0.0], [1.0]]).tolist()
    [0.0, 2.0]
    """

    needs_binary = True

    def __init__(self, scale: str = "min-max", control: Any = None) -> None:
        self.scale = scale
        self.control = control

    def _fit(self, X: Any, y: Any, treated: Any, sample_weight: Any) -> None:
        treated_part, control_part = (
            X[arm & (y == 1)].mean(axis=0) - X[arm & (y == 0)].mean(axis=0)
            for arm in (treated, ~treated)
        )
        self.coef_ = (treated_part - control_part) * fit_scaling(X, self.scale).factor ** 2
        self.n_parameters_ = X.shape[1] + 1

    def _predict(self, X: Any) -> Floats:
        return np.asarray(X @ self.coef_)


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
        judged = [evaluate_all(fit_all(learn), judge) for learn, judge in folds]
        best = int(np.argmax(np.mean(judged, axis=0)))
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

    def _predict(self, X: Any) -> Floats:
        return np.asarray(self.model_.predict(X))


class Tuned(Searched):
    """TM, CVT, DDR or SDR with the l2 of its logistic models chosen by AUUC over 5 folds.

    They are solved exactly on min-max features; :class:`Variant` has other ones.
    """

    scale = "min-max"
    rates: tuple[float | None, ...] = (None,)

    def __init__(
        self, model: str = "TM", *, l2_grid: tuple[float, ...] = L2_GRID, random_state: int = 0
    ) -> None:
        self.model = model
        self.l2_grid = l2_grid
        self.random_state = random_state

    def candidates(self) -> list[tuple[Options, Any]]:
        kind, options = LOGISTIC[self.model]
        found = []
        for rate, l2 in product(self.rates, self.l2_grid):
            point = {"l2": l2} | ({} if rate is None else {"learning_rate": rate})
            logistic = MeanLogistic(scale=self.scale, random_state=self.random_state, **point)
            found.append((point, kind(logistic, **options)))
        return found

    def searched(self) -> Options:
        return {}  # the grid is a parameter

    def _n_folds(self) -> int:
        return N_FOLDS


class Variant(Tuned):
    """The same models on other features, or by Adam, whose learning rates are searched too."""

    def __init__(
        self,
        model: str = "TM",
        *,
        rates: tuple[float | None, ...] = (None,),
        scale: str = "min-max",
        l2_grid: tuple[float, ...] = L2_GRID,
        random_state: int = 0,
    ) -> None:
        super().__init__(model, l2_grid=l2_grid, random_state=random_state)
        self.rates = rates
        self.scale = scale


#: The paper's learning rates for Hillstrom.
RATES: dict[str, tuple[float, float]] = {
    "TM": (0.1, 0.5),
    "CVT": (0.005, 0.01),
    "DDR": (0.1, 0.5),
    "SDR": (0.1, 0.5),
    "AUUC-max": (5e-4, 1e-3),
}
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
