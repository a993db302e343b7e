"""The base class of all estimators, and helpers for scikit-learn.

Models inside pipelines, searches and wrappers are also copied, seeded, fitted and counted here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn import config_context
from sklearn.base import BaseEstimator, clone
from sklearn.utils import _safe_indexing
from sklearn.utils.metadata_routing import MetadataRouter, get_routing_for_object
from sklearn.utils.validation import _num_samples, check_is_fitted, validate_data

from auucmax._errors import InputError
from auucmax._validation import (
    LARGEST,
    Bools,
    Floats,
    check_column,
    check_treatment,
    check_treatment_given,
    check_weight,
)
from auucmax.data.hashing import Checksum
from auucmax.metrics.bins import score_levels
from auucmax.metrics.functions import auuc_score
from auucmax.rows import ArrayRows, Rows
from auucmax.rows.base import hash_keys

if TYPE_CHECKING:
    from auucmax.estimators.formula import Formula, RankMean


def fit_rows(model: Any, X: Any, y: Any, **rows: Any) -> Any:
    """Call ``model.fit(X, y, **rows)``, routing treatment and weights through pipelines.

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


def free_random_states(model: Any) -> list[str]:
    """Names of unset random states, also in nested models.

    A model that a clone shares, because it is fitted already, is the user's own: left out.
    """
    copy = clone(model)
    given, copied = {"": model} | model.get_params(), {"": copy} | copy.get_params()
    found = []
    for name, value in copied.items():
        owner, _, last = name.rpartition("__")
        if last == "random_state" and value is None and copied[owner] is not given[owner]:
            found.append(name)
    return found


def count_parameters(*models: Any) -> int | None:
    """Number of fitted parameters of models; None if unknown.

    What the model reports; else coefficients and intercepts of linear models and networks, nodes of
    trees; of a pipeline the last step, of a search the best model, of an ensemble the sum.

    Examples
    --------
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> count_parameters(DecisionTreeRegressor(max_depth=1).fit([[0], [1]], [0, 1]))
    3
    """
    counts = [_count(model) for model in models]
    return None if None in counts else sum(count for count in counts if count is not None)


def _count(model: Any) -> int | None:
    if hasattr(model, "n_parameters_"):
        return int(model.n_parameters_ or 0) or None  # 0: an unknown number
    for name in ("best_estimator_", "regressor_"):
        if hasattr(model, name):
            return _count(getattr(model, name))
    if hasattr(model, "steps"):
        return _count(model[-1])
    if hasattr(model, "tree_"):
        return int(model.tree_.node_count)
    if hasattr(model, "coefs_"):
        return sum(array.size for array in (*model.coefs_, *model.intercepts_))
    if hasattr(model, "coef_"):
        intercept = model.intercept_ if getattr(model, "fit_intercept", True) else ()
        return int(np.size(model.coef_) + np.size(intercept))
    if hasattr(model, "estimators_") and not hasattr(model, "final_estimator_"):
        members = model.estimators_
        return count_parameters(*(members.ravel() if isinstance(members, np.ndarray) else members))
    return None


def row_weights(sample_weight: Floats | None, rows: Bools | None = None) -> Floats | None:
    """Row weights: unchanged if whole numbers, else scaled to mean 1.

    Whole numbers count copies, and a penalised model of more rows is penalised less. Others have
    no such meaning, and should not set the strength of a penalty by their units.

    Examples
    --------
    >>> row_weights(np.array([1.0, 2, 3]))
    array([1., 2., 3.])
    >>> row_weights(np.array([0.1, 0.2, 0.3]))
    array([0.5, 1. , 1.5])
    """
    if sample_weight is None:
        return None
    weight = sample_weight if rows is None else sample_weight[rows]
    whole = np.array_equal(sample_weight, np.rint(sample_weight))
    return weight if whole else weight / weight.mean()


def seed_of(random_state: int | None) -> int:
    """Seed for hash-based sampling, derived from a random state."""
    return int(np.random.default_rng(random_state).integers(2**62))


def cells(rows: ArrayRows, cut: float = 1.0) -> NDArray[np.intp]:
    """Cell of each row: 0 control, 2 treated; plus 1 if the outcome is at least ``cut``."""
    return 2 * rows.treated.astype(np.intp) + (rows.y >= cut)


def fold_codes(rows: ArrayRows, n_folds: int, seed: int, cut: float = 1.0) -> NDArray[np.int64]:
    """Fold of each row, stratified by arm and outcome, (n,).

    The rows of an arm and outcome, below ``cut`` or not, are taken in the order of a hash of their
    keys. There are no more folds than the rarest outcome of an arm has rows.
    """
    stratum = cells(rows, cut)
    fewest = int(np.bincount(stratum, minlength=4).min())
    if fewest < 2:
        raise InputError(
            "each arm", "one with at least 2 rows of each outcome", f"{fewest} in one",
            "Collect more rows.",
        )  # fmt: skip
    n_folds = min(n_folds, fewest)
    hashes = hash_keys(rows.keys, seed) >> np.uint64(40)
    fold = np.empty(len(stratum), dtype=np.int64)
    for k in range(4):
        own = np.flatnonzero(stratum == k)
        last = -(-np.arange(1, n_folds) * len(own) // n_folds) - 1  # of each fold but one
        edges = np.partition(hashes[own], last)[last]
        fold[own] = np.searchsorted(edges, hashes[own])
    return fold


@dataclass(eq=False, repr=False, kw_only=True)
class UpliftEstimator(BaseEstimator):
    """Base class: ``fit(X, y, *, treatment)``, ``predict(X)`` -> scores, ``score`` -> AUUC.

    A subclass is a dataclass whose fields are its parameters (or stores them in ``__init__``, as
    in scikit-learn) and writes ``_fit`` and ``_predict``, which may trust their arguments.
    ``control`` is the label of the control group when treatment is not 0/1. Requests for
    ``treatment`` are declared here, so users of metadata routing never call ``set_fit_request``.
    """

    __metadata_request__fit: ClassVar = {"treatment": True, "sample_weight": True}
    __metadata_request__score: ClassVar = {"treatment": True, "sample_weight": True}

    control: Any = None
    #: Whether outcomes must be 0 or 1.
    needs_binary: ClassVar[bool] = False

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        treatment: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Fit to the rows of a trial.

        Parameters
        ----------
        X : (n, d) features, array or frame of numbers. (For AUUCMax also rows that are read batch
            by batch, :func:`auucmax.rows.stream_table`, alone.)
        y : (n,) outcome; higher is better.
        treatment : (n,) 0/1 or boolean, or two labels of which ``control`` names one. Required;
            scikit-learn's ``cross_validate`` passes it on with metadata routing only.
        sample_weight : (n,) weights of the rows.
        """
        if isinstance(X, Rows):
            given = {"y": y, "treatment": treatment, "sample_weight": sample_weight}
            for name, value in given.items():
                if value is not None:
                    raise InputError(
                        name, "left out with rows that are read batch by batch, which bring it",
                        "one", "Call fit(rows).",
                    )  # fmt: skip
            self._fit_rows(X)
            self.n_features_in_ = len(X.names)
            self.feature_names_in_ = np.array(X.names, dtype=object)
            return self
        treatment = check_treatment_given(treatment)
        matrix = self._check_rows(X, ensure_min_samples=2)
        _check_size(matrix)
        outcome, treated, weight = self._check_columns(matrix, y, treatment, sample_weight)
        if weight is not None and not weight.all():  # rows of weight 0 are no rows
            kept = np.flatnonzero(weight > 0)
            matrix, outcome, treated = _safe_indexing(matrix, kept), outcome[kept], treated[kept]
            weight = weight[kept]
        if self.needs_binary:
            _check_binary(outcome)
        self._fit(matrix, outcome, treated, weight)
        self.checksum_ = Checksum.of(matrix, outcome, treated)  # by which certify recognises them
        return self

    def predict(self, X: Any) -> Floats:
        """Predict scores, (n,); people with higher scores should be treated first."""
        check_is_fitted(self)
        return self._predict(self._check_rows(X, reset=False))

    def formula(self) -> Formula | RankMean:
        """The scores as a formula, which is saved and exported.

        It is the attribute ``formula_``. Raises an InputError for a model without one, because its
        scores are no sum of linear or logistic parts and trees.
        """
        check_is_fitted(self)
        formula: Formula | RankMean | None = getattr(self, "formula_", None)
        if formula is None:
            raise InputError(
                "the model", "one that has a formula", type(self).__name__,
                "Fit another, or score in Python.",
            )  # fmt: skip
        return formula

    def score(
        self,
        X: Any,
        y: Any = None,
        *,
        treatment: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> float:
        """AUUC (joint ranking) of the scores of ``X``.

        For rows that are read batch by batch, exact up to
        :meth:`auucmax.metrics.BinnedLevels.auuc_error`.
        """
        if isinstance(X, Rows):
            return score_levels(X, self).auuc()
        return auuc_score(
            y,
            self.predict(X),
            treatment=check_treatment_given(treatment, scoring=True),
            sample_weight=sample_weight,
            control=self.control,
        )

    def _check_rows(self, X: Any, **how: Any) -> Any:
        """Validate X; ``how`` is passed to ``validate_data``."""
        finite = "allow-nan" if self._allows_missing else True
        kinds = [np.float64, np.float32]  # others become float64
        return validate_data(self, X, dtype=kinds, ensure_all_finite=finite, **how)

    def _check_columns(
        self, X: Any, y: Any, treatment: Any, sample_weight: Any
    ) -> tuple[Floats, Bools, Floats | None]:
        """Validated outcome, treatment and weights of the rows of X."""
        outcome = check_column(y, "y", _num_samples(X), than="X")
        treated = check_treatment(treatment, len(outcome), control=self.control)
        weight = None if sample_weight is None else check_weight(sample_weight, treated)
        return outcome, treated, weight

    @property
    def _allows_missing(self) -> bool:
        """Whether X may contain NaN."""
        return False

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self._allows_missing
        return tags

    def _fit(
        self, X: NDArray[Any], y: Floats, treated: Bools, sample_weight: Floats | None
    ) -> None:
        raise NotImplementedError

    def _fit_rows(self, rows: Rows) -> None:
        """Fit to rows that are read batch by batch."""
        raise InputError(
            "X", "an array or a frame for this model", "rows that are read batch by batch",
            "Use AUUCMax, or a sample in memory.",
        )  # fmt: skip

    def _predict(self, X: NDArray[Any]) -> Floats:
        raise NotImplementedError


def _check_size(X: Any) -> None:
    """Raise a ValueError for numbers whose squares overflow float64."""
    if isinstance(X, np.ndarray) and X.dtype == np.float64 and X.size:
        size = max(float(X.max()), -float(X.min()))
        if size > LARGEST:
            raise InputError(
                "X", f"numbers of at most {LARGEST:g} in size, whose squares can be computed with",
                f"{size:g}", "Clip them, or use another unit.",
            )  # fmt: skip


def _check_binary(y: Floats) -> None:
    levels = np.unique(y)
    if np.array_equal(levels, [0, 1]):
        return
    shown = ", ".join(f"{v:g}" for v in levels[:4]) + (", ..." if len(levels) > 4 else "")
    raise InputError(
        "y", "0 or 1 for this model, with rows of both", shown,
        "Use a model for any outcome, such as auto (in Python: UpliftEnsemble), or cut it at a "
        "threshold.",
    )  # fmt: skip
