"""AUUC-max: the linear score that maximises a smooth stand-in for AUUC under a norm constraint."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from threadpoolctl import threadpool_limits

from auucmax._validation import Bools, Floats, check_choice, check_level
from auucmax.bounds.certify import certify
from auucmax.data.batches import RowSource, is_source
from auucmax.data.fingerprint import TrainingRecord
from auucmax.data.splits import TrialKFold
from auucmax.estimators.base import SetAside, UpliftEstimator
from auucmax.estimators.linear_path import LinearPath, warn_of_failure
from auucmax.estimators.norm_search import NormSearch
from auucmax.estimators.scaling import SCALES, warn_of_ranges
from auucmax.estimators.training_rows import LearningRows, StreamedRows, TrainingRows
from auucmax.evaluation.bins import N_BINS, score_levels
from auucmax.pairs import Surrogate, get_surrogate, scores

__all__ = ["AUUCMax"]

SELECTIONS = ("bound", "cv", "certificate", None)
SOLVERS = ("auto", "newton", "lbfgs", "projected", "adam")
PAPER_GRID = (0.5, 0.8, 1.0)
RELATIVE_GRID = (0.03, 0.1, 0.3, 1.0)


class AUUCMax(UpliftEstimator):
    """Linear ranking model that maximises AUUC (Algorithm 1 of Betlei, Diemert and Amini).

    Minimises, over ||w|| <= Lambda,

        weight_T mean of s(w.x_i - w.x_j) over treated pairs (i responded, j did not)
      + weight_C mean of s(w.x_k - w.x_l) over control pairs (k did not respond, l did)

    with s a surrogate of 1[z <= 0], exactly and at a cost linear in the rows; Lambda is chosen on
    a grid. Needs 0/1 outcomes and both of them in each arm.

    Parameters
    ----------
    surrogate : "s_poly" (mu = .1, p = 3: the paper's), "s_log", "sigmoid" (not convex; started at
        the s_poly solution), or an object of :mod:`auucmax.pairs`.
    weights : "lambda" (AUUC itself), "uniform" (the paper's optimisation box), "absolute", or two
        numbers: see :func:`auucmax.pairs.group_weights`.
    norm : Lambda when ``selection`` is None; None: no constraint.
    selection : "cv" (mean AUUC over 5 folds stratified by treatment; where an outcome is rare, by
        outcome too and in fewer folds), "bound" (the paper's bound, which is not a guarantee),
        "certificate" (half of the rows are kept apart; the candidate that ranks them best is taken
        and certified on them, with a guarantee that pays for all candidates; no refit on all rows,
        because the guarantee would not survive it; nor does it pay for a search around this model,
        such as GridSearchCV), or None (``norm`` is used).
    grid : "relative" (.03, .1, .3, 1 of the norm of the unconstrained minimiser), "paper" (.5, .8,
        1), or norms.
    scale : "min-max", "column-l2" (columns of unit norm), "unit-rows" or "none". Part of the model.
    solver : "auto" (Newton; L-BFGS for more than 500 features; projected gradient if s is not
        convex), one of these, or "adam" (the paper's: batches of 1000 rows, at most 200 epochs,
        early stopping on a fifth of the rows).
    learning_rates : tried by "adam" with each norm.
    delta : bound and certificate are given for a probability of 1 - delta.
    random_state : of the folds, of the rows kept apart, and of "adam".
    control : label of the control group, when treatment is not 0/1.

    Attributes
    ----------
    coef_ : (d,) in the user's own units: scores are X @ coef_ + intercept_. ("unit-rows": of the
        normalised rows.)
    scaled_coef_ : (d,) w, the coefficients of the scaled features, ||w|| <= norm_.
    norm_ : chosen Lambda. radius_ : R, the largest norm of a scaled training row.
    paper_bound_ : what Theorem 1 prints for this model on its training rows. NOT a guarantee. None
        with ``selection=None``: :func:`auucmax.bounds.paper_bound` computes it.
    certificate_ : :class:`auucmax.bounds.Certificate` of the chosen score, with
        ``selection="certificate"``.
    selection_path_ : frame with a row for each candidate; ``seconds`` is the mean over the path.
    converged_, residual_ : whether, and how well, the optimality conditions hold.
    n_parameters_ : d + 1.

    Examples
    --------
    >>> from auucmax import AUUCMax, load_hillstrom
    >>> train, test = load_hillstrom().split(random_state=0)
    >>> model = AUUCMax(random_state=0).fit(train.X, train.y, treatment=train.treatment)
    >>> model.converged_
    True
    >>> round(model.score(test.X, test.y, treatment=test.treatment), 3)
    0.031
    """

    _binary_outcome: ClassVar[bool] = True

    def __init__(
        self,
        surrogate: str | Surrogate = "s_poly",
        *,
        weights: str | tuple[float, float] = "lambda",
        norm: float | None = None,
        selection: str | None = "cv",
        grid: str | Sequence[float] = "relative",
        scale: str = "min-max",
        solver: str = "auto",
        learning_rates: Sequence[float] = (5e-4, 1e-3),
        delta: float = 0.05,
        random_state: int | None = None,
        control: Any = None,
    ) -> None:
        self.surrogate = surrogate
        self.weights = weights
        self.norm = norm
        self.selection = selection
        self.grid = grid
        self.scale = scale
        self.solver = solver
        self.learning_rates = learning_rates
        self.delta = delta
        self.random_state = random_state
        self.control = control

    def fit(
        self,
        X: Any,
        y: ArrayLike | None = None,
        *,
        treatment: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        ids: ArrayLike | None = None,
    ) -> Self:
        """Learn to rank from the rows of a trial: arrays, or rows that are read batch by batch.

        Parameters
        ----------
        X : (n, d) features, array or frame of numbers; or rows of
            :func:`auucmax.data.stream_table`, which bring outcome and treatment with them, need
            memory for a few batches only and give the same coefficients to 1e-6; to 1e-5 where rows
            hardly determine one (a column that differs in one row only, a fit that warns). Folds
            and halves of such rows are drawn by a hash of the row's number, so a *choice* may
            differ.
        y, treatment, sample_weight, ids : as for every model; see :class:`UpliftEstimator`.
        """
        if is_source(X):
            given = {"y": y, "treatment": treatment, "sample_weight": sample_weight, "ids": ids}
            if named := [name for name, value in given.items() if value is not None]:
                raise ValueError(
                    f"{named[0]} should be left out with rows that are read batch by batch, which "
                    f"bring it with them; got one. Call fit(rows)."
                )
            return self._fit_stream(X)
        if y is None or treatment is None:
            raise TypeError(
                f"{'y' if y is None else 'treatment'} should be given with X, got none. Call "
                f"fit(X, y, treatment=treatment)."
            )
        return super().fit(X, y, treatment=treatment, sample_weight=sample_weight, ids=ids)

    def score(
        self,
        X: Any,
        y: ArrayLike | None = None,
        *,
        treatment: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> float:
        """AUUC (joint ranking) of the scores of ``X``, rows that are read batch by batch included.

        Of these it is right to :meth:`auucmax.evaluation.BinnedLevels.auuc_error`.
        """
        if is_source(X):
            return score_levels(X, self).auuc()
        if y is None or treatment is None:
            raise TypeError("y and treatment should be given with X, got none. Pass both.")
        return super().score(X, y, treatment=treatment, sample_weight=sample_weight)

    def _fit_stream(self, source: RowSource) -> Self:
        self._check_parameters()
        self.__dict__.pop("certificate_", None)  # of an earlier fit
        rows = StreamedRows(source)
        self.n_features_in_ = rows.n_features
        self.feature_names_in_ = np.array(source.feature_names, dtype=object)
        with threadpool_limits(limits=1, user_api="blas"):
            if self.selection != "certificate":
                self._fit_path(rows)
                given = rows.first_look.rows
                self.training_record_ = TrainingRecord(given, learnt=given)
                return self
            learn, kept = rows.halves(self.random_state)
            self._fit_path(learn, kept)
        n_candidates = len(self.selection_path_)
        n_bins = min(N_BINS, kept.most_bins)
        (histogram,) = kept.scaled(self.scaling_).histograms([self.coef_], n_bins)
        self.certificate_ = certify(histogram, delta=self.delta, n_candidates=n_candidates)
        learnt, apart = learn.first_look.rows, kept.first_look.rows
        self.training_record_ = TrainingRecord(
            learnt + apart, learnt=learnt, set_aside=apart, n_candidates=n_candidates
        )
        return self

    def _fit(
        self, X: NDArray[Any], y: Floats, treated: Bools, sample_weight: Floats | None
    ) -> SetAside | None:
        self._check_parameters()
        self.__dict__.pop("certificate_", None)  # of an earlier fit
        # On small matrices a second BLAS thread waits more than it works.
        with threadpool_limits(limits=1, user_api="blas"):
            if self.selection == "certificate":
                return self._fit_and_certify(X, y, treated, sample_weight)
            self._fit_path(TrainingRows(X, y, treated, sample_weight))
            return None

    def _fit_and_certify(
        self, X: NDArray[Any], y: Floats, treated: Bools, sample_weight: Floats | None
    ) -> SetAside:
        """Learn from half of the rows; choose, and certify, with the other half."""
        if sample_weight is not None and np.ptp(sample_weight) > 0:
            raise ValueError(
                "sample_weight should be equal for all rows with selection='certificate', got "
                "different weights: certificates are for unweighted rows. Use selection='cv'."
            )
        given = TrainingRows(X, y, treated, None)
        halves = TrialKFold(2, random_state=self.random_state)
        learn, kept = next(iter(halves.split(X, y, treatment=treated)))
        _check_half(given.take(learn))
        held_out = given.take(kept)
        self._fit_path(given.take(learn), held_out)
        n_candidates = len(self.selection_path_)
        self.certificate_ = certify(
            self._predict(held_out.X),
            y=held_out.y,
            treatment=held_out.treated,
            delta=self.delta,
            n_candidates=n_candidates,
        )
        return SetAside(kept, n_candidates)

    def _fit_path(self, given: LearningRows, held_out: LearningRows | None = None) -> None:
        scaling = given.scaling(self.scale)
        if self.scale == "none":
            warn_of_ranges(*given.column_range())
        rows, radius = given.scaled(scaling), given.radius(scaling)
        path = LinearPath(
            get_surrogate(self.surrogate), self.weights, scaling, self.solver, self.random_state
        )
        best, bound, table = self._search(path, radius).choose(rows, held_out)
        self.scaled_coef_ = best.w
        self.coef_ = best.coef
        self.intercept_ = -float(best.coef @ scaling.shift)
        self.scaling_, self.norm_, self.radius_ = scaling, best.norm, radius()
        self.paper_bound_ = bound
        self.converged_, self.residual_ = best.converged, best.residual
        self.n_parameters_ = given.n_features + 1
        self.selection_path_ = table
        warn_of_failure(best, self.solver)

    def _search(self, path: LinearPath, radius: Callable[[], float]) -> NormSearch:
        """Norms, from small to large, and learning rates, as the parameters ask for them."""
        relative = False
        norms: Sequence[float]
        if self.selection is None:
            norms = [np.inf if self.norm is None else float(self.norm)]
        elif isinstance(self.grid, str):
            relative = self.grid == "relative"
            norms = RELATIVE_GRID if relative else PAPER_GRID
        else:
            norms = sorted(self.grid)
        rates: Sequence[float | None] = [None]
        if self.solver == "adam":  # the first rate, where nothing is to be selected
            rates = list(self.learning_rates)[: None if self.selection else 1]
        return NormSearch(path, radius, norms, relative, rates, self.selection, self.delta)

    def _predict(self, X: NDArray[Any]) -> Floats:
        return scores(self.scaling_.rows(X), self.coef_) + self.intercept_

    def _check_parameters(self) -> None:
        check_level(self.delta, "delta")
        check_choice(self.scale, "scale", SCALES)
        check_choice(self.solver, "solver", SOLVERS)
        if self.selection not in SELECTIONS:
            raise ValueError(
                f"selection should be 'bound', 'cv', 'certificate' or None, got "
                f"{self.selection!r}. "
                f"None uses the norm that you give."
            )
        if self.norm is not None:
            _check_positive(self.norm, "norm", "a positive number or None", scalar=True)
            if self.selection is not None:
                raise ValueError(
                    f"norm should be None while selection={self.selection!r} chooses it, got "
                    f"{self.norm!r}. Pass selection=None to use this norm, or grid=[...]."
                )
        if isinstance(self.grid, str):
            check_choice(self.grid, "grid", ("relative", "paper"))
        else:
            _check_positive(self.grid, "grid", "'relative', 'paper' or positive norms")
        _check_positive(self.learning_rates, "learning_rates", "positive numbers")


def _check_positive(value: Any, name: str, expected: str, scalar: bool = False) -> None:
    try:
        numbers = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        numbers = np.empty(0)
    right_shape = numbers.ndim == 0 if scalar else numbers.ndim == 1 and numbers.size > 0
    if not right_shape or not (numbers > 0).all():
        raise ValueError(f"{name} should be {expected}, got {value!r}.")


def _check_half(rows: TrainingRows) -> None:
    for arm in (True, False):
        if len(np.unique(rows.y[rows.treated == arm])) < 2:
            raise ValueError(
                f"each arm should have both outcomes in the half that is learnt from, got one in "
                f"the {'treated' if arm else 'control'} arm. There are too few rows to keep half "
                f"apart: use selection='cv' or 'bound'."
            )
