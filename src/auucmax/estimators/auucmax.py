"""AUUC-max: the linear score that maximises a smooth stand-in for AUUC under a norm constraint."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from threadpoolctl import threadpool_limits

from auucmax._validation import Bools, Floats, check_choice, check_level
from auucmax.estimators.base import UpliftEstimator
from auucmax.estimators.learning_rows import LearningRows, array_rows, scaled_weights
from auucmax.estimators.norm_search import LinearPath, NormSearch, warn_of_failure
from auucmax.estimators.scaling import SCALES, warn_of_ranges
from auucmax.metrics.bins import score_levels
from auucmax.pairs import OutcomeLevels, Surrogate, get_surrogate, scores
from auucmax.rows import Question, Rows, ask, together
from auucmax.solvers import TOLERANCE

SELECTIONS = ("bound", "cv", "certificate", None)
SOLVERS = ("auto", "newton", "lbfgs", "projected", "adam")
PAPER_GRID = (0.5, 0.8, 1.0)
RELATIVE_GRID = (0.03, 0.1, 0.3, 1.0)
SEARCH_ROWS = 1_000_000  #: random rows that are enough to choose a norm by
REFIT_TOLERANCE = 1e-7  #: of the fit on all rows, which begins near its end
_WEIGHTS = (
    "sample_weight should be equal for all rows with selection='certificate', got different "
    "weights: certificates are for unweighted rows. Use selection='cv'."
)


class AUUCMax(UpliftEstimator):
    """Linear ranking model that maximises AUUC (Algorithm 1 of Betlei, Diemert and Amini).

    Minimises, over ||w|| <= Lambda,

        weight_T mean of s(w.x_i - w.x_j) over treated pairs (i responded, j did not)
      + weight_C mean of s(w.x_k - w.x_l) over control pairs (k did not respond, l did)

    with s a surrogate of 1[z <= 0], exactly and at a cost linear in the rows; Lambda is chosen on
    a grid. Each arm needs rows of different outcomes.

    y may be any finite number: of counts, money or a measure, in a treated pair i has the higher
    outcome, in a control pair k the lower one, and a pair counts the difference of its outcomes, as
    it does in AUUC. Up to 32 different outcomes are taken as they are. More are cut into at most 32
    levels: 0 is one, and the others are cut at quantiles, so that each level holds at least 20 rows
    of an arm, or none of it (a quarter of an arm of fewer than 80). A level counts as the mean of
    its rows in the arm, which keeps the arm's total. So a single order of 5,000 counts no more than
    the mean of the highest level; nothing is clipped beyond that. Pairs within a level are not
    ranked; ``gap_share_`` says how much is.

    Parameters
    ----------
    surrogate : "s_poly" (mu = .1, p = 3: the paper's), "s_log", "sigmoid" (not convex; started at
        the s_poly solution), or an object of :mod:`auucmax.pairs`.
    weights : "lambda" (AUUC itself), "uniform" (the paper's optimisation box), "absolute", or two
        numbers: see :func:`auucmax.pairs.group_weights`.
    norm : Lambda when ``selection`` is None; None: no constraint.
    selection : "cv" (mean AUUC over 5 folds; where an arm has fewer than 100 rows of an outcome,
        folds are stratified by both, and may be fewer; of outcomes that are not 0/1, those above
        and below a level that parts the rows best), "bound" (the paper's bound, which is not a
        guarantee; of 0/1 outcomes), "certificate" (of 0/1 outcomes: half of the rows are kept
        apart; the candidate that ranks them best is taken and certified on them, with a guarantee
        that pays for all candidates; no refit on all rows, because the guarantee would not survive
        it; nor does it pay for a search around this model, such as GridSearchCV), or None
        (``norm`` is used).
    grid : "relative" (.03, .1, .3, 1 of the norm of the unconstrained minimiser), "paper" (.5, .8,
        1), or norms. Of more than a million rows a random million is searched (more, where an
        outcome is so rare that an arm would have fewer than 1,000 rows of it), and the chosen norm
        is then fitted once on all.
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
    gap_share_ : share of the sum of all pairs' differences of outcomes that lies between levels, at
        least; 1 if each outcome is a level. See :class:`auucmax.pairs.OutcomeLevels`.
    search_rows_ : how many rows the norm was searched on; all, up to a million.
    paper_bound_ : what Theorem 1 prints for the chosen norm on the rows that were searched. NOT a
        guarantee. None with ``selection=None``: :func:`auucmax.certificates.paper_bound` computes
        it. None where outcomes are not 0/1.
    certificate_ : :class:`auucmax.certificates.Certificate` of the chosen score, with
        ``selection="certificate"``.
    selection_path_ : frame with a row for each candidate on the rows that were searched;
        ``seconds`` is the mean over the path.
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
    ) -> Self:
        """Learn to rank from the rows of a trial: arrays, or rows that are read batch by batch.

        Parameters
        ----------
        X : (n, d) features, array or frame of numbers; or rows of
            :func:`auucmax.rows.stream_table`, which bring outcome and treatment with them, need
            memory for a few batches only and give the same coefficients to 1e-6; to 1e-5 where rows
            hardly determine one (a column that differs in one row only, a fit that warns). Folds
            and halves are drawn by a hash of the row's number in memory as well, so the choice is
            the same. (On Spark a row's number is that of its partition and its place there.)
        y, treatment, sample_weight : as for every model; see :class:`UpliftEstimator`.
        """
        if isinstance(X, Rows):
            given = {"y": y, "treatment": treatment, "sample_weight": sample_weight}
            if named := [name for name, value in given.items() if value is not None]:
                raise ValueError(
                    f"{named[0]} should be left out with rows that are read batch by batch, which "
                    f"bring it with them; got one. Call fit(rows)."
                )
            self.n_features_in_ = len(X.names)
            self.feature_names_in_ = np.array(X.names, dtype=object)
            learn, kept = self._fit_rows(scaled_weights(X))
            found = learn.look.rows
            self.checksum_ = found if kept is None else found + kept.look.rows
            return self
        if y is None:
            raise TypeError(
                "y should be given with X, got none. Call fit(X, y, treatment=treatment)."
            )
        return super().fit(X, y, treatment=treatment, sample_weight=sample_weight)

    def score(
        self,
        X: Any,
        y: ArrayLike | None = None,
        *,
        treatment: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> float:
        """AUUC (joint ranking) of the scores of ``X``, rows that are read batch by batch included.

        Of these it is right to :meth:`auucmax.metrics.BinnedLevels.auuc_error`.
        """
        if isinstance(X, Rows):
            return score_levels(X, self).auuc()
        if y is None:
            raise TypeError("y should be given with X, got none. Pass y and treatment.")
        return super().score(X, y, treatment=treatment, sample_weight=sample_weight)

    def _fit(
        self, X: NDArray[Any], y: Floats, treated: Bools, sample_weight: Floats | None
    ) -> None:
        if self.selection == "certificate":
            if sample_weight is not None and np.ptp(sample_weight) > 0:
                raise ValueError(_WEIGHTS)
            sample_weight = None
        self._fit_rows(array_rows(X, y, treated, sample_weight))

    def _fit_rows(self, rows: Rows) -> tuple[LearningRows, LearningRows | None]:
        """Fit rows of any kind; return the training rows and those kept apart."""
        self._check_parameters()
        if self.selection == "certificate" and rows.weighted:
            raise ValueError(_WEIGHTS)
        self.__dict__.pop("certificate_", None)  # of an earlier fit
        learn, kept = LearningRows.of(rows, levels=None), None
        # On small matrices a second BLAS thread waits more than it works.
        with threadpool_limits(limits=1, user_api="blas"):
            if self.selection == "certificate":
                learn, kept = learn.halves(self.random_state)
            self._check_selection(learn.levels)
            if kept is not None:
                _check_half(learn)
            self._fit_path(learn, kept)
        if kept is not None:  # the half with which the candidates were compared
            self.certificate_ = kept.scaled(self.scaling_).certified(
                self.coef_, delta=self.delta, n_candidates=len(self.selection_path_)
            )
        return learn, kept

    def _fit_path(self, given: LearningRows, held_out: LearningRows | None = None) -> None:
        scaling = given.scaling(self.scale)
        if self.scale == "none":
            warn_of_ranges(*given.column_range())
        rows = given.scaled(scaling)
        path = LinearPath(
            get_surrogate(self.surrogate), self.weights, scaling, self.solver, self.random_state
        )
        apart = None if held_out is None else held_out.scaled(scaling)
        # Without a search there is nothing to spare: a start from 0 takes as many steps.
        most = SEARCH_ROWS if self.selection else rows.n_rows
        with rows.at_most(most, self.random_state) as few:
            self.search_rows_ = few.n_rows
            questions: list[Question[Any]] = [self._search(path).choose(few, apart)]
            if few is rows:
                questions.append(given.radius(scaling))
            (best, bound, table, top), *radius = ask(together(*questions))
        if few is not rows:  # once on all rows, from where a part of them led
            (best,), *radius = ask(
                together(path.refit(rows, [best], top, REFIT_TOLERANCE), given.radius(scaling))
            )
        self.scaled_coef_ = best.w
        self.coef_ = best.coef
        self.intercept_ = -float(best.coef @ scaling.shift)
        self.scaling_, self.norm_, self.radius_ = scaling, best.norm, radius[0]
        self.paper_bound_ = bound
        self.residual_ = best.solution.residual
        self.converged_ = best.solution.residual <= TOLERANCE
        self.n_parameters_ = given.n_features + 1
        self.selection_path_ = table
        self.gap_share_ = given.levels.share
        warn_of_failure(best, self.solver)

    def _search(self, path: LinearPath) -> NormSearch:
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
        return NormSearch(path, norms, relative, rates, self.selection, self.delta)

    def _predict(self, X: NDArray[Any]) -> Floats:
        return scores(self.scaling_.rows(X), self.coef_) + self.intercept_

    def _check_selection(self, levels: OutcomeLevels) -> None:
        """Raise a ValueError for a bound or a certificate of outcomes that it is not for."""
        if self.selection in ("bound", "certificate") and not levels.binary:
            why = (
                "the paper's bound is proved for no other"
                if self.selection == "bound"
                else "a certificate needs outcomes whose range is known"
            )
            raise ValueError(
                f"y should be 0 or 1 with selection={self.selection!r}, got other outcomes: "
                f"{why}. Use selection='cv'."
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


def _check_half(rows: LearningRows) -> None:
    counts = rows.class_counts()
    for arm, own in (("treated", counts[:2]), ("control", counts[2:])):
        if not min(own):
            raise ValueError(
                f"each arm should have both outcomes in the training half, got one in "
                f"the {arm} arm. There are too few rows to keep half "
                f"apart: use selection='cv' or 'bound'."
            )
