"""AUUC-max: the linear score that maximises a smooth stand-in for AUUC under a norm constraint."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from auucmax._validation import Bools, Floats, check_choice, check_level
from auucmax.bounds.certify import certify
from auucmax.bounds.lower_bound import LowerBound
from auucmax.bounds.paper import paper_bound
from auucmax.data.splits import TrialKFold
from auucmax.estimators.base import SetAside, UpliftEstimator
from auucmax.estimators.linear_path import Candidate, LinearPath, TrainingRows
from auucmax.estimators.scaling import SCALES, fit_scaling
from auucmax.pairs import Surrogate, column_range, get_surrogate, scores
from auucmax.selection import Selection, choose_by_bound, choose_by_cv, choose_by_held_out

__all__ = ["AUUCMax"]

SELECTIONS = ("bound", "cv", "certificate", None)
SOLVERS = ("auto", "newton", "lbfgs", "projected", "adam")
PAPER_GRID = (0.5, 0.8, 1.0)
RELATIVE_GRID = (0.03, 0.1, 0.3, 1.0)
N_FOLDS = 5


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

    def _fit_path(self, given: TrainingRows, held_out: TrainingRows | None = None) -> None:
        scaling = fit_scaling(given.X, self.scale, given.weight)
        if self.scale == "none":
            _warn_of_ranges(given.X)
        rows = given._replace(X=scaling.training_rows(given.X))
        path = LinearPath(
            get_surrogate(self.surrogate), self.weights, scaling, self.solver, self.random_state
        )
        grid = self._grid(path, rows)
        candidates = path.fit(rows, grid)
        bounds: list[LowerBound | None] = [None]  # nothing to choose: spare the sort
        if len(candidates) > 1 or self.selection is not None:
            bounds = [self._paper_bound(c, rows, scaling.radius) for c in candidates]
        if held_out is None:
            selection = self._select(path, grid, rows, bounds)
        else:
            apart = held_out._replace(X=scaling.rows(held_out.X))
            selection = choose_by_held_out(candidates, lambda c: apart.auuc(c.coef, "joint"))
        best = candidates[selection.best]
        self.scaled_coef_ = best.w
        self.coef_ = best.coef
        self.intercept_ = -float(best.coef @ scaling.shift)
        self.scaling_, self.norm_, self.radius_ = scaling, best.norm, scaling.radius
        self.paper_bound_ = bounds[selection.best]
        self.converged_, self.residual_ = best.converged, best.residual
        self.n_parameters_ = given.X.shape[1] + 1
        self.selection_path_ = _path_table(candidates, bounds, selection)
        _warn_of_failure(best, self.solver)

    def _predict(self, X: NDArray[Any]) -> Floats:
        return scores(self.scaling_.rows(X), self.coef_) + self.intercept_

    def _grid(self, path: LinearPath, rows: TrainingRows) -> list[tuple[float, float | None]]:
        """Norms, from small to large, each with each learning rate."""
        norms: Sequence[float]
        if self.selection is None:
            norms = [np.inf if self.norm is None else float(self.norm)]
        elif isinstance(self.grid, str):
            relative = self.grid == "relative"
            # A trial in which no feature tells anything has a free norm of 0.
            free = (path.free_norm(rows) or 1.0) if relative else 1.0
            norms = [free * part for part in (RELATIVE_GRID if relative else PAPER_GRID)]
        else:
            norms = sorted(self.grid)
        rates: Sequence[float | None] = [None]
        if self.solver == "adam":  # the first rate, where nothing is to be selected
            rates = list(self.learning_rates)[: None if self.selection else 1]
        return [(norm, rate) for norm in norms for rate in rates]

    def _select(
        self,
        path: LinearPath,
        grid: list[tuple[float, float | None]],
        rows: TrainingRows,
        bounds: list[LowerBound | None],
    ) -> Selection:
        if self.selection == "cv" and len(grid) > 1:
            folds = _folds(rows, self.random_state)
            return choose_by_cv(
                lambda train: path.fit(rows.take(train), grid),
                lambda candidate, test: rows.take(test).auuc(candidate.coef, "joint"),
                folds.split(rows.X, rows.y, treatment=rows.treated),
            )
        if len(grid) == 1:
            return Selection(0, [{}])
        return choose_by_bound(bounds, lambda bound: {"bound": bound.lower})

    def _paper_bound(self, candidate: Candidate, rows: TrainingRows, radius: float) -> LowerBound:
        # Without a constraint the norm that was reached stands for Lambda.
        reached = float(np.linalg.norm(candidate.w))
        return paper_bound(
            rows.y,
            scores(rows.X, candidate.coef),
            treatment=rows.treated,
            norm=candidate.norm if np.isfinite(candidate.norm) else reached,
            radius=radius,
            delta=self.delta,
            sample_weight=rows.weight,
        )

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


def _folds(rows: TrainingRows, random_state: int | None) -> TrialKFold:
    """Folds that leave both outcomes of both arms to the training rows, and put them to the test.

    By treatment; by outcome too, and in fewer folds, where an outcome is rare.
    """
    fewest = min(
        int(np.sum((rows.treated == arm) & (rows.y == value)))
        for arm in (True, False)
        for value in (0, 1)
    )
    if fewest < 2:
        raise ValueError(
            f"each arm should have at least 2 rows of each outcome for selection='cv', got "
            f"{fewest} in one. Use selection='bound' or selection=None."
        )
    return TrialKFold(
        min(N_FOLDS, fewest),
        by="treatment-outcome" if fewest < 4 * N_FOLDS else "treatment",
        random_state=random_state,
    )


def _check_half(rows: TrainingRows) -> None:
    for arm in (True, False):
        if len(np.unique(rows.y[rows.treated == arm])) < 2:
            raise ValueError(
                f"each arm should have both outcomes in the half that is learnt from, got one in "
                f"the {'treated' if arm else 'control'} arm. There are too few rows to keep half "
                f"apart: use selection='cv' or 'bound'."
            )


def _warn_of_ranges(X: NDArray[Any]) -> None:
    low, high = column_range(X)
    ranges = (high - low)[high > low]
    if len(ranges) and ranges.max() > 1e4 * ranges.min():
        warnings.warn(
            f"columns should have similar ranges when scale='none', got ranges from "
            f"{ranges.min():.3g} to {ranges.max():.3g}: the solver may stop before the short "
            f"columns count. Use scale='min-max'.",
            UserWarning,
            stacklevel=5,
        )


def _warn_of_failure(best: Candidate, solver: str) -> None:
    if solver == "adam":
        if not best.w.any():
            warnings.warn(
                "adam should leave w = 0, got no epoch that improved the validation loss: all "
                "scores are equal. Try another learning rate, or solver='auto'.",
                ConvergenceWarning,
                stacklevel=5,
            )
    elif not best.converged:
        warnings.warn(
            f"the solver should reach a residual of 1e-6, got {best.residual:.1g}. The scores may "
            f"still be useful; scale the features, or try another solver.",
            ConvergenceWarning,
            stacklevel=5,
        )


def _path_table(
    candidates: list[Candidate], bounds: list[LowerBound | None], selection: Selection
) -> pd.DataFrame:
    """A row for each candidate: what it is, what it reached, and what it was chosen by."""
    table = [
        {
            "norm": c.norm,
            "learning_rate": c.learning_rate,
            "norm_reached": float(np.linalg.norm(c.w)),
            "loss": c.loss,
            "train_auuc": np.nan if bound is None else bound.estimate,
            "paper_bound": np.nan if bound is None else bound.lower,
            "converged": c.converged,
            "residual": c.residual,
            "evaluations": c.n_evaluations,
            "seconds": c.seconds,
            **{k: v for k, v in chosen_by.items() if k != "bound"},
            "chosen": number == selection.best,
        }
        for number, (c, bound, chosen_by) in enumerate(
            zip(candidates, bounds, selection.table, strict=True)
        )
    ]
    return pd.DataFrame(table)
