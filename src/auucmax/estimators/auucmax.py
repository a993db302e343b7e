"""AUUC-max: a linear score that maximises a smooth surrogate of AUUC over a ball."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial
from numbers import Real
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from auucmax._errors import InputError, level_of_caller
from auucmax._validation import Bools, Floats, ScoredRows, check_choice, check_level
from auucmax.certificates.bound import paper_gap
from auucmax.certificates.certify import certify
from auucmax.certificates.types import LowerBound
from auucmax.estimators.base import cells, fold_codes, row_weights, seed_of
from auucmax.estimators.formula import Formula, Part
from auucmax.estimators.norm_search import (
    Known,
    LinearObjective,
    LinearPath,
    TopFit,
    checksum_of,
    heap_weights,
    known_of,
    scaled_weights,
    search_rows,
)
from auucmax.estimators.scaling import SCALES, LinearScore, scaled_radius
from auucmax.metrics.bins import N_BINS, score_levels
from auucmax.metrics.levels import Levels
from auucmax.metrics.ranking import RankingKind
from auucmax.pairs import Surrogate, get_surrogate, scores
from auucmax.rows import ArrayRows, HashedPart, Rows, part_of
from auucmax.solvers import TOLERANCE, BallSolution

SELECTIONS = ("bound", "cv", "certificate", None)
SOLVERS = ("auto", "newton", "lbfgs", "projected", "adam")
PAPER_GRID = (0.5, 0.8, 1.0)
RELATIVE_GRID = (0.03, 0.1, 0.3, 1.0)
SEARCH_ROWS = 1_000_000  #: random rows that are enough to choose a norm by
SEARCH_BYTES = 2**29  #: of their features, where rows are read batch by batch
RARE_ROWS = 1000  #: of each outcome and arm, on average, that they should hold
N_FOLDS = 5
REFIT_TOLERANCE = 1e-7  #: of the fit on all rows, which begins near its end
FOLD_TOLERANCE = 1e-4  #: of the fits that are only compared


@dataclass(eq=False, repr=False)
class AUUCMax(LinearScore):
    """Linear ranking model that maximises AUUC (Algorithm 1 of Betlei, Diemert and Amini).

    Minimises, over ||w|| <= Lambda,

        weight_T mean of s(w.x_i - w.x_j) over treated pairs (i responded, j did not)
      + weight_C mean of s(w.x_k - w.x_l) over control pairs (k did not respond, l did)

    with s a surrogate of 1[z <= 0], exactly and at a cost linear in the rows; Lambda is chosen on
    a grid. Each arm needs rows of different outcomes.

    ``fit`` also takes rows of :func:`auucmax.rows.stream_table`, which include outcome and
    treatment. At most a million random rows (or 512 MB of features) are in memory at a time, to
    choose the norm; the chosen norm is fitted on all, batch by batch. Coefficients are those of the
    same rows in memory to 1e-6; to 1e-5 where rows hardly determine one (a column that differs in
    one row only, a fit that warns). Folds and halves are drawn by a hash of the row's number in
    memory as well. (On Spark a row's number is that of its partition and its place there.)

    y may be any finite number, such as counts, money or a measure: in a treated pair i has the
    higher outcome, in a control pair k the lower one, and a pair is weighted by the difference of
    its outcomes, as in AUUC. Up to 32 different outcomes are used unchanged. More are cut into at
    most 32 levels: 0 is one, and the others are cut at quantiles, so that each level holds at least
    20 rows of an arm, or none of it (a quarter of an arm of fewer than 80). A level counts as the
    mean of its rows in the arm, which keeps the arm's total. So a single order of 5,000 counts no
    more than the mean of the highest level; nothing is clipped beyond that. Pairs within a level
    are not ranked; ``gap_share_`` says how much is.

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
        that accounts for all candidates; no refit on all rows, because the guarantee would not
        survive it; nor does it account for a search around this model, such as GridSearchCV), or
        None (``norm`` is used).
    grid : "relative" (.03, .1, .3, 1 of the norm of the unconstrained minimiser), "paper" (.5, .8,
        1), or norms. With more than a million rows a random million is searched (more, where an
        outcome is so rare that an arm would have fewer than 1,000 rows of it), and the chosen norm
        is then fitted once on all.
    scale : "min-max", "column-l2" (columns of unit norm), "unit-rows" or "none". Part of the model.
    solver : "auto" (Newton; L-BFGS for more than 500 features; projected gradient if s is not
        convex), one of these, or "adam" (the paper's: batches of 1000 rows, at most 200 epochs,
        early stopping on a fifth of the rows).
    learning_rates : tried by "adam" with each norm.
    delta : bound and certificate are for a probability of 1 - delta.
    random_state : seed of the folds, the rows kept apart, and "adam".
    control : label of the control group, when treatment is not 0/1.

    Attributes
    ----------
    coef_ : (d,) in the units of X: scores are X @ coef_ + intercept_. ("unit-rows": of the
        normalised rows.)
    scaled_coef_ : (d,) w, the coefficients of the scaled features, ||w|| <= norm_.
    norm_ : chosen Lambda. radius_ : R, the largest norm of a scaled training row.
    gap_share_ : share of the sum of all pairs' differences of outcomes that lies between levels, at
        least; 1 if each outcome is a level. See :class:`auucmax.pairs.OutcomeLevels`.
    search_rows_ : how many rows the norm was searched on; all, up to a million.
    paper_bound_ : the bound of Theorem 1 for the chosen norm on the rows that were searched. NOT a
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

    surrogate: str | Surrogate = "s_poly"
    _: KW_ONLY
    weights: str | tuple[float, float] = "lambda"
    norm: float | None = None
    selection: str | None = "cv"
    grid: str | Sequence[float] = "relative"
    scale: str = "min-max"
    solver: str = "auto"
    learning_rates: Sequence[float] = (5e-4, 1e-3)
    delta: float = 0.05
    random_state: int | None = None

    def _fit(
        self, X: NDArray[Any], y: Floats, treated: Bools, sample_weight: Floats | None
    ) -> None:
        if self.selection == "certificate" and sample_weight is not None:
            sample_weight = sample_weight if np.ptp(sample_weight) > 0 else None
        self._fit_rows(ArrayRows(X, y, treated, row_weights(sample_weight)))

    def _fit_rows(self, rows: Rows) -> None:
        # On small matrices a second BLAS thread waits more than it works.
        with threadpool_limits(limits=1, user_api="blas"):
            self._fit_path(scaled_weights(rows))

    def _fit_path(self, rows: Rows) -> None:
        self._check_parameters()
        self.__dict__.pop("certificate_", None)  # of an earlier fit
        seed, kept = seed_of(self.random_state), None
        if self.selection == "certificate":
            if rows.weighted:
                raise InputError(
                    "sample_weight", "equal for all rows with selection='certificate'",
                    "different weights",
                    "Certificates are for unweighted rows: use selection='cv'.",
                )  # fmt: skip
            rows, kept = (rows.part(HashedPart(2, (k,), seed)) for k in (0, 1))
        known = known_of(rows, self.scale)
        scaling = known.scaling
        if self.selection in ("bound", "certificate") and not known.levels.binary:
            raise InputError(
                "y", f"0 or 1 with selection={self.selection!r}", "other outcomes",
                "Use selection='cv'.",
            )  # fmt: skip
        if self.selection == "certificate" and not known.counts.min():
            raise InputError(
                "each arm", "a mix of both outcomes in the training half", "one in an arm",
                "There are too few rows to keep half apart: use selection='cv' or 'bound'.",
            )  # fmt: skip
        in_memory = isinstance(rows, ArrayRows)
        fit_in = known.n_rows if in_memory else SEARCH_BYTES / (8 * len(rows.names))
        most = min(SEARCH_ROWS, fit_in)
        if in_memory and self.selection is None:
            most = known.n_rows  # nothing to spare: a start from 0 takes as many steps
        share = 1.0
        if known.n_rows > most:
            rare = RARE_ROWS / max(known.counts.min(), 1)
            share = max(most, min(rare * known.n_rows, fit_in)) / known.n_rows
        # A separate seed: folds of the rows that are drawn should not follow from the draw.
        few, self.radius_ = search_rows(rows, known, share, seed ^ 1)
        self.search_rows_ = len(few.y)
        is_whole = self.search_rows_ == known.n_rows
        if self.solver == "adam" and not is_whole and not in_memory:
            raise InputError(
                "solver", "'auto' for rows that do not fit into memory", "'adam'",
                "Adam draws batches of rows in memory.",
            )  # fmt: skip
        path, surrogate = LinearPath(self.solver, self.random_state), get_surrogate(self.surrogate)
        judges = None  # held-out rows that candidates are compared on
        if kept is not None:
            judges = (
                kept if isinstance(kept, ArrayRows) else search_rows(kept, known, share, seed)[0]
            )
        training = known.objective(few, self.weights, surrogate)
        point, best, top = self._choose(path, training, few, known, judges)
        if not is_whole:  # once on all rows, from where a part of them led
            level = 0 if top is None else top.level
            whole = known.objective(rows, self.weights, surrogate, level)
            (best,) = path.fit(whole, [point], top, [best], REFIT_TOLERANCE)
        self.scaled_coef_ = best.w
        self._set_score(scaling, best.w)
        self.formula_ = None  # norms of rows are not linear
        if self.scale != "unit-rows":
            self.formula_ = Formula((Part(1.0, "identity", self.intercept_, self.coef_),))
        self.norm_ = best.radius
        self.residual_ = best.residual
        self.converged_ = best.residual <= TOLERANCE
        self.gap_share_ = known.levels.share
        # Adam ends where it ends, but should have left 0.
        if not self.converged_ and (self.solver != "adam" or not best.w.any()):
            warnings.warn(
                f"the solver should reach a residual of 1e-6, got {best.residual:.1g}. The scores "
                f"may still be useful; scale the features, or try another solver.",
                ConvergenceWarning,
                stacklevel=level_of_caller(),
            )
        if known.checksum is not None:
            self.checksum_ = known.checksum
        if kept is None:
            return
        how: dict[str, Any] = {"delta": self.delta, "n_candidates": len(self.selection_path_)}
        kept = scaling.of(kept)
        if isinstance(kept, ArrayRows):
            X, y, treated, _ = kept.columns
            self.certificate_ = certify(scores(X, self.coef_), y=y, treatment=treated, **how)
        else:
            n_bins = min(N_BINS, kept.max_bytes // 256)  # summaries may have to be small
            levels = score_levels(kept, partial(scores, w=self.coef_), n_bins=n_bins)
            self.certificate_ = certify(levels, **how)
            (others,) = kept.total(checksum_of)
            self.checksum_ += others

    def _choose(
        self,
        path: LinearPath,
        training: LinearObjective,
        few: ArrayRows,
        known: Known,
        judges: ArrayRows | None,
    ) -> tuple[tuple[float, float | None], BallSolution, TopFit | None]:
        """Select a point of the grid; return it, its solution and the fit on the largest ball.

        ``training`` is the objective of ``few``; ``judges`` are held-out rows to select by.
        """
        relative, norms = False, list[float]()
        if self.selection is None:
            norms = [np.inf if self.norm is None else float(self.norm)]
        elif isinstance(self.grid, str):
            relative = self.grid == "relative"
            norms = list(RELATIVE_GRID if relative else PAPER_GRID)
        else:
            norms = sorted(self.grid)
        rates: Sequence[float | None] = [None]
        if self.solver == "adam":  # the first rate, where nothing is to be selected
            rates = list(self.learning_rates)[: None if self.selection else 1]
        begin, top = time.perf_counter(), None
        if relative or (training.surrogate.convex and self.solver != "adam"):
            top = path.top_fit(training, np.inf if relative else max(norms))
        if relative and top is not None:
            # Without any informative feature the free norm is 0.
            free = float(np.linalg.norm(top.solution.w)) or 1.0
            norms = [free * part for part in norms]
        grid = [(norm, rate) for norm in norms for rate in rates]
        found = path.fit(training, grid, top)
        table = pd.DataFrame(
            {
                "norm": [norm for norm, _ in grid],
                "learning_rate": [rate for _, rate in grid],
                "norm_reached": [float(np.linalg.norm(own.w)) for own in found],
                "loss": [own.value for own in found],
                "train_auuc": np.nan,
                "paper_bound": np.nan,
                "converged": [own.converged for own in found],
                "residual": [own.residual for own in found],
                "evaluations": [own.n_evaluations for own in found],
                "seconds": (time.perf_counter() - begin) / len(grid),
            }
        )
        self.selection_path_, self.paper_bound_ = table, None
        if self.selection is None:  # nothing to choose
            table["chosen"] = True
            return grid[0], found[0], top
        factor = training.factor
        table["train_auuc"] = [_auuc(training.rows, own.w * factor, "separate") for own in found]
        if known.levels.binary:  # the bound is proved for no other outcomes
            counts = heap_weights(few, known.levels).tolist()
            radius = scaled_radius(few.X, known.scaling)
            # Without a constraint the norm that was reached stands for Lambda.
            lambdas = table["norm"].where(np.isfinite(table["norm"]), table["norm_reached"])
            gaps = [paper_gap(*counts, norm=n, radius=radius, delta=self.delta) for n in lambdas]
            table["paper_bound"] = table["train_auuc"] - gaps
        by = "paper_bound"
        if judges is not None:
            by, moved = "held_out_auuc", known.scaling.of(judges)
            table[by] = [_auuc(moved, own.w * factor) for own in found]
        elif self.selection == "cv" and len(grid) > 1:
            by = "cv"
            values = self._cross_validated(path, training, grid, found, top)
            table["cv"] = values.mean(axis=0)
            table["cv_standard_error"] = values.std(axis=0, ddof=1) / np.sqrt(len(values))
        best = int(np.argmax(table[by])) if len(grid) > 1 else 0
        table["chosen"] = np.arange(len(grid)) == best
        if known.levels.binary:
            lower, auuc = table.loc[best, ["paper_bound", "train_auuc"]].tolist()
            self.paper_bound_ = LowerBound("paper", lower=lower, estimate=auuc, delta=self.delta)
        return grid[best], found[best], top

    def _cross_validated(
        self,
        path: LinearPath,
        training: LinearObjective,
        grid: Sequence[tuple[float, float | None]],
        near: list[BallSolution],
        top: TopFit | None,
    ) -> Floats:
        """AUUC of each fold and point of the grid, (folds, points)."""
        rows, cut, seed = training.rows, training.pairs.levels.cut_point, seed_of(self.random_state)
        assert isinstance(rows, ArrayRows)
        if np.bincount(cells(rows, cut), minlength=4).min() < 20 * N_FOLDS:
            # Too rare to be left to chance: each fold has its share.
            fold = fold_codes(rows, N_FOLDS, seed, cut)
        else:
            fold = part_of(rows.keys, N_FOLDS, seed)
        found = []
        for k in range(int(fold.max()) + 1):
            others = training.take(np.flatnonzero(fold != k))
            fitted = path.fit(others, grid, top, near, FOLD_TOLERANCE)
            test = rows.take(np.flatnonzero(fold == k))
            found.append([_auuc(test, own.w * training.factor) for own in fitted])
        return np.array(found)

    def _check_parameters(self) -> None:
        check_level(self.delta, "delta")
        check_choice(self.scale, "scale", SCALES)
        check_choice(self.solver, "solver", SOLVERS)
        if self.selection not in SELECTIONS:
            raise InputError(
                "selection", "'bound', 'cv', 'certificate' or None", repr(self.selection),
                "None uses the norm that you give.",
            )  # fmt: skip
        if self.norm is not None:
            _check_positive([self.norm], "norm", "a positive number or None")
            if self.selection is not None:
                raise InputError(
                    "norm", f"None while selection={self.selection!r} chooses it",
                    repr(self.norm), "Pass selection=None to use this norm, or grid=[...].",
                )  # fmt: skip
        if isinstance(self.grid, str):
            check_choice(self.grid, "grid", ("relative", "paper"))
        else:
            _check_positive(self.grid, "grid", "'relative', 'paper' or positive norms")
        _check_positive(self.learning_rates, "learning_rates", "positive numbers")


def _check_positive(values: Any, name: str, expected: str) -> None:
    numbers = list(values) if np.ndim(values) == 1 else []
    if not numbers or not all(isinstance(own, Real) and float(own) > 0 for own in numbers):
        raise InputError(name, expected, repr(values), "Pass one.")


def _auuc(rows: Rows, coef: Floats, ranking: RankingKind = "joint") -> float:
    """AUUC of the scores X coef of rows in memory."""
    assert isinstance(rows, ArrayRows)
    X, y, treated, weight = rows.columns
    return Levels(ScoredRows(y, scores(X, coef), treated, weight)).auuc(ranking)
