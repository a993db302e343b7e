"""LambdaMART for uplift (Devriendt et al. 2020), on LightGBM.

Promoted cumulative gain (PCG), and its LambdaMART gradients without pairs. Relevance r is 1/n_T for
a treated row that responded, -1/n_C for a control row that did, and 0 for all others. With ranks
1..n, 1 the highest score,

    PCG = sum_i r_i (n - rank_i + 1) = n AUUC + ATE/2,

so exchanging two rows changes it by |r_a - r_b| |rank_a - rank_b|. LambdaMART weights the logistic
loss of each pair r_a > r_b by that change:

    loss = sum |r_a - r_b| |rank_a - rank_b| log(1 + exp(s_b - s_a)),  ranks held fixed.

*Ties.* Two of m tied rows, in random order, are on average (m + 1)/3 ranks apart; that is the gap
they get. So the order of rows never matters, and boosting can start with all scores equal.

*Bins.* With more than ``n_bins`` different scores, neighbours in rank are put into bins of about
equal weight, and rows of a bin count as tied at its mean score. A bin then enters only through the
weight of its three relevances: O(n log n) for the ranks and O(n_bins^2) for all pairs.
``pair_gradients_slow`` of the tests is the specification.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from auucmax._errors import InputError
from auucmax._optional import import_optional
from auucmax._validation import (
    Bools,
    Floats,
    check_choice,
    check_level,
    check_positive,
    check_whole,
)
from auucmax.data.folds import TrialKFold
from auucmax.estimators.base import UpliftEstimator, cells, row_weights
from auucmax.metrics.functions import auuc_score
from auucmax.metrics.ranking import rank_rows
from auucmax.rows import ArrayRows

_STEEPEST = 300.0  # scores further than this from their middle are cut: exp must not overflow


class PromotedGainObjective:
    """Gradient and Hessian (diagonal) of the PCG lambdas, for one score per row.

    Parameters
    ----------
    y : (n,) 0/1. treated : (n,) bool. weight : (n,) positive, in numbers of rows, or None.
    n_bins : largest number of different scores; exact if there are no more.

    Calling it with scores (n,) returns gradient and Hessian, (n,) each, of the rows' own weight.
    They are scaled so that the Hessian sums to the total weight while all scores are equal.

    Examples
    --------
    >>> y, treated = np.array([1.0, 1, 0, 0]), np.array([True, False, True, False])
    >>> gradient, hessian = PromotedGainObjective(y, treated)(np.zeros(4))
    >>> gradient  # the treated response should rise, the one without treatment fall
    array([-2.66666667,  2.66666667,  0.        ,  0.        ])
    """

    def __init__(
        self, y: Floats, treated: Bools, weight: Floats | None = None, n_bins: int = 256
    ) -> None:
        self.weight = np.ones(len(y)) if weight is None else weight
        self.n_bins = n_bins
        self.total = float(self.weight.sum())
        treated_total = float(self.weight[treated].sum())
        relevances = np.array([1 / treated_total, 0.0, -1 / (self.total - treated_total)])
        #: Row's relevance: 0 treated and responded, 1 did not respond, 2 control and responded.
        self.kind = np.where(y == 0, 1, np.where(treated, 0, 2))
        difference = relevances[:, None] - relevances
        self.above, self.below = np.maximum(difference, 0), np.maximum(-difference, 0)
        counts = np.bincount(self.kind, weights=self.weight, minlength=3)
        # With all scores tied every pair is (n + 1)/3 ranks apart and has Hessian 1/4.
        pairs = float(counts @ np.abs(difference) @ counts)
        self.scale = 12 * self.total / ((self.total + 1) * pairs)

    def __call__(self, score: Floats, dataset: Any = None) -> tuple[Floats, Floats]:
        """Gradient and Hessian; LightGBM also passes a ``dataset``."""
        ranking = rank_rows(score)
        order = ranking.order
        weight, kind = self.weight[order], self.kind[order]
        # Bin of each sorted row; tied rows share one.
        n_levels = len(order) if ranking.starts is None else len(ranking.starts)
        if n_levels <= self.n_bins:
            level = ranking.spread(np.arange(n_levels, dtype=np.float64)).astype(np.intp)
        else:
            cell = np.floor(ranking.mid_cumsum(weight) * (self.n_bins / self.total))
            level = np.concatenate([[0], np.cumsum(np.diff(cell) > 0)])
        n_bins = int(level[-1]) + 1
        # Weight of each relevance in each bin, (bins, 3), and mean score of each bin.
        counts = np.bincount(3 * level + kind, weight, minlength=3 * n_bins).reshape(n_bins, 3)
        size = counts.sum(axis=1)
        centre = np.bincount(level, score[order] * weight) / size
        place = np.cumsum(size) - size / 2
        gap = np.abs(place[:, None] - place)
        np.fill_diagonal(gap, (size + 1) / 3)  # two of m tied rows, on average
        middle = (centre[0] + centre[-1]) / 2
        odds = np.exp(np.clip(centre - middle, -_STEEPEST, _STEEPEST))
        wrong = 1 / (1 + odds[:, None] * (1 / odds))  # P(row of bin k below row of bin l)
        weighted = gap * wrong
        towards = weighted @ counts
        away = gap @ counts - towards  # the same with 1 - wrong
        weighted *= 1 - wrong
        # For a row in each bin and relevance.
        pull = away @ self.below.T - towards @ self.above.T
        bend = weighted @ counts @ (self.above + self.below)
        gradient, hessian = np.empty((2, len(score)))
        gradient[order] = self.scale * pull[level, kind] * weight
        hessian[order] = self.scale * bend[level, kind] * weight
        return gradient, hessian


GAINS = ("pcg", "ndcg")
N_FOLDS = 5
LARGEST_GROUP = 10_000  # what LightGBM's ranker accepts
MANY_ROWS = 20_000  # with fewer, threads wait more than they work


@dataclass(eq=False, repr=False)
class UpliftLambdaMART(UpliftEstimator):
    """Boosted trees that rank: treated responders above the rest, control responders below.

    Each tree follows the gradient of a logistic loss over pairs of rows, a pair weighted by what
    its exchange would change (see :mod:`auucmax.baselines.lambdamart`):

    * ``gain="pcg"``, promoted cumulative gain: |r_a - r_b| |rank_a - rank_b|, the change of
      n AUUC. All rows are ranked together, in O(n log n + n_bins^2) per tree.
    * ``gain="ndcg"``: the change of normalised discounted cumulative gain, by LightGBM's own
      ranker. It emphasises the top of the ranking. Gains are 0 (control responders), 1/n_C (no
      response) and 1/n_T + 1/n_C (treated responders); rows are ranked within random groups, since
      LightGBM takes at most 10,000 rows in one and needs O(n group_size) per tree.

    Features may be missing (NaN). The outcome must be 0/1.

    Parameters
    ----------
    gain : "pcg" or "ndcg".
    n_trees : number of trees; with early stopping, the maximum.
    n_leaves : largest number of leaves of a tree.
    learning_rate : factor of each tree's values.
    min_leaf_share : smallest share of the rows in a leaf ("pcg": of the sum of the Hessian that all
        rows have before the first tree, so that weights count).
    early_stopping : "cv": the number of trees has the largest mean AUUC over 5 folds stratified by
        treatment and outcome; None: ``n_trees``. The model is then fitted to all rows.
    patience : early stopping ends after so many trees without a better AUUC.
    n_bins : "pcg": ranks are exact up to this many different scores, and binned beyond.
    group_size : "ndcg": most rows of a group. Groups are stratified by treatment and outcome.
    n_jobs : threads; -1: all; None: all from 20,000 rows on, otherwise one. The result does not
        depend on it.
    random_state : seed of the folds, the groups and LightGBM. With "pcg" and no early stopping
        nothing is random, and the order of rows does not matter.
    control : label of the control group, when treatment is not 0/1.

    Attributes
    ----------
    booster_ : the ``lightgbm.Booster``.
    n_trees_ : number of trees of the model.
    validation_auuc_ : mean AUUC of the held-out rows after 1, 2, ... trees; None without early
        stopping. Its largest value is optimistic, having been chosen.
    n_parameters_ : a value for each leaf plus a threshold for each split, over all trees.

    Notes
    -----
    With "pcg" an integer weight equals that many copies of the row (as long as LightGBM need not
    merge values of a feature: up to 255 different ones). With "ndcg" weights multiply each row's
    own gradient only, as in LightGBM. Weights that are not all whole numbers are divided by their
    mean, so that their unit does not matter.

    Examples
    --------
    >>> from auucmax import load_hillstrom
    >>> from auucmax.baselines import UpliftLambdaMART
    >>> train, test = load_hillstrom().split(random_state=0)
    >>> model = UpliftLambdaMART(n_trees=10, early_stopping=None)
    >>> model = model.fit(train.X, train.y, treatment=train.treatment)
    >>> model.score(test.X, test.y, treatment=test.treatment) > 0.025  # random: 0.0226
    True
    """

    needs_binary: ClassVar[bool] = True
    _allows_missing = True

    gain: str = "pcg"
    _: KW_ONLY
    n_trees: int = 200
    n_leaves: int = 8
    learning_rate: float = 0.05
    min_leaf_share: float = 0.05
    early_stopping: str | None = "cv"
    patience: int = 30
    n_bins: int = 256
    group_size: int = 500
    n_jobs: int | None = None
    random_state: int | Generator | None = None

    def _fit(
        self, X: NDArray[Any], y: Floats, treated: Bools, sample_weight: Floats | None
    ) -> None:
        self._check_parameters()
        # Ties and bins are counted in rows, whatever the unit of the weights.
        rows = ArrayRows(X, y, treated, row_weights(sample_weight))
        rng = np.random.default_rng(self.random_state)
        seed = int(rng.integers(2**31 - 1))
        n_trees, self.validation_auuc_ = int(self.n_trees), None
        if self.early_stopping is not None:
            fewest = int(np.bincount(cells(rows), minlength=4).min())
            if fewest < 2:
                raise InputError(
                    "each arm", "one of at least 2 rows of each outcome for early stopping",
                    f"{fewest} in one", "Use early_stopping=None, or collect more rows.",
                )  # fmt: skip
            folds = TrialKFold(min(N_FOLDS, fewest), by="treatment-outcome", random_state=rng)
            runs = [
                self._run(rows.take(train), seed, rng, rows.take(test))
                for train, test in folds.split(X, y, treatment=treated)
            ]
            means: list[float] = []
            best = 0
            for number in range(n_trees):
                finished = [run.grow() for run in runs]
                means.append(float(np.mean([run.auuc() for run in runs])))
                if means[-1] > means[best]:
                    best = number
                elif all(finished) or number - best >= self.patience:
                    break
            n_trees, self.validation_auuc_ = best + 1, np.array(means)
        run = self._run(rows, seed, rng)
        for _ in range(n_trees):
            if run.grow():
                break
        self.booster_ = run.booster.free_dataset()
        leaves = [tree["num_leaves"] for tree in self.booster_.dump_model()["tree_info"]]
        self.n_trees_ = len(leaves)
        self.n_parameters_ = 2 * sum(leaves) - len(leaves)

    def _predict(self, X: NDArray[Any]) -> Floats:
        return np.asarray(
            self.booster_.predict(X, num_threads=self._threads(len(X))), dtype=np.float64
        )

    def _run(
        self, rows: ArrayRows, seed: int, rng: Generator, held_out: ArrayRows | None = None
    ) -> _Run:
        """Booster for these rows, before its first tree."""
        n = len(rows.y)
        params = {
            "num_leaves": int(self.n_leaves),
            "learning_rate": self.learning_rate,
            "metric": "None",
            "seed": seed,
            # Bins of a feature must not depend on how often a value occurs, nor on which rows
            # LightGBM would draw, nor sums on threads.
            "min_data_in_bin": 1,
            "bin_construct_sample_cnt": n,
            "feature_pre_filter": False,
            "deterministic": True,
            "force_row_wise": True,
            "num_threads": self._threads(n),
            "verbosity": -1,
        }
        if self.gain == "pcg":
            objective = PromotedGainObjective(rows.y, rows.treated, rows.weight, int(self.n_bins))
            params |= {
                "objective": "none",
                # The objective's Hessian sums to the total weight at the start.
                "min_sum_hessian_in_leaf": self.min_leaf_share * objective.total,
                "min_data_in_leaf": 1,
            }
            return _Run(params, {"data": rows.X, "label": rows.y}, objective, held_out)
        order, sizes = _groups(cells(rows), int(self.group_size), rng)
        # In units in which two arms of equal size have gains 0, 1/2 and 1.
        weights = np.ones(n) if rows.weight is None else rows.weight
        treated, control = (n / float(weights[arm].sum()) for arm in (rows.treated, ~rows.treated))
        gains = np.array([0.0, control, treated + control]) / (treated + control)
        params |= {
            "objective": "lambdarank",
            "label_gain": gains.tolist(),
            "lambdarank_truncation_level": int(sizes.max()),
            "min_sum_hessian_in_leaf": 0.0,
            "min_data_in_leaf": max(1, int(self.min_leaf_share * n)),
        }
        label = np.where(rows.y == 0, 1, np.where(rows.treated, 2, 0))[order]
        weight = None if rows.weight is None else rows.weight[order]
        data = {"data": rows.X[order], "label": label, "group": sizes, "weight": weight}
        return _Run(params, data, None, held_out)

    def _threads(self, n_rows: int) -> int:
        if self.n_jobs is None:
            return 0 if n_rows >= MANY_ROWS else 1
        return 0 if self.n_jobs == -1 else int(self.n_jobs)  # 0: what OpenMP would take

    def _check_parameters(self) -> None:
        check_choice(self.gain, "gain", GAINS)
        if self.early_stopping not in ("cv", None):
            raise InputError(
                "early_stopping", "'cv' or None", repr(self.early_stopping),
                "None grows n_trees trees.",
            )  # fmt: skip
        for name, least, most in (
            ("n_trees", 1, None),
            ("n_leaves", 2, 131_072),
            ("patience", 1, None),
            ("n_bins", 2, None),
            ("group_size", 2, LARGEST_GROUP),
        ):
            check_whole(getattr(self, name), name, least, most)
        if self.n_jobs not in (None, -1):
            check_whole(self.n_jobs, "n_jobs", 1)
        check_level(self.min_leaf_share, "min_leaf_share")
        check_positive(self.learning_rate, "learning_rate", "0.05 is usual.")


def _groups(
    cell: NDArray[np.intp], largest: int, rng: Generator
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Shuffle rows into groups whose sizes differ by at most one.

    Each group has the same share of each cell, to within a row.
    """
    n_groups = -(-len(cell) // largest)
    shuffled = rng.permutation(len(cell))
    group = np.empty(len(cell), dtype=np.intp)
    group[shuffled[np.argsort(cell[shuffled], kind="stable")]] = np.arange(len(cell)) % n_groups
    # Equal scores are ranked in this order, so it must say nothing about the cell.
    return shuffled[np.argsort(group[shuffled], kind="stable")], np.bincount(group)


class _Run:
    """A booster trained tree by tree, with the AUUC of held-out rows.

    Without an ``objective`` gradients are LightGBM's own.
    """

    def __init__(
        self,
        params: dict[str, Any],
        data: dict[str, Any],
        objective: PromotedGainObjective | None,
        held_out: ArrayRows | None,
    ) -> None:
        lightgbm = import_optional("lightgbm", extra="lightgbm")
        self.objective, self.held_out = objective, held_out
        train = lightgbm.Dataset(**data, params=params)
        self.booster = lightgbm.Booster(params, train)
        if held_out is not None:
            others = train.create_valid(held_out.X, held_out.y, params=train.params)
            self.booster.add_valid(others, "held out")

    def grow(self) -> bool:
        """Add a tree; return True if no leaf can be split further."""
        return bool(self.booster.update(fobj=self.objective))

    def auuc(self) -> float:
        """AUUC of the held-out rows."""
        assert self.held_out is not None  # only called with held-out rows
        _, y, treated, weight = self.held_out.columns

        def evaluate(score: Floats, dataset: Any) -> tuple[str, float, bool]:
            return "auuc", auuc_score(y, score, treatment=treated, sample_weight=weight), True

        return float(self.booster.eval_valid(evaluate)[0][2])
