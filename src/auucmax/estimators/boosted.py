"""Boosted trees for the treatment effect, starting from a linear model.

    logit P(y = 1 | x, t) = g(x) + d f(x),    d = t - share of treated rows

1. A start: g and f of a logistic model with shrunk interactions (:mod:`auucmax.estimators.shrunk`),
   once with a constant f, once averaged over its path.
2. Trees for g, with f held: gradient p - y and Hessian p (1 - p), of numbers z - y and 1.
3. Trees for f, with g held: gradient d (p - y) and Hessian d^2 p (1 - p), few leaves, a strong
   penalty. Numbers of trees, 0 among them, are chosen by the loss of the folds in which the
   start was weighed, so that rows without information about the effect leave it as in the start.
   Folds are grown once, as far as the grid goes, and judged at each of its points on the way.
4. The models of both starts are averaged with weights exp(-out-of-fold log-loss).

Trees are grown best first from histograms: each is the one that LightGBM grows in the same bins.
The leaf with the largest gain is split, gains and values are those of a Newton step, each side of a
split must have enough rows, as estimated from its Hessian, and a column without gain in a leaf is
not tried below it. LightGBM is not used because trees of four to six leaves take half of its time
here (``python -m benchmarks ensemble``): rows of all folds share their bins, held-out rows are
scored on the way, and sums of whole numbers do not depend on their order.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import NDArray

from auucmax._errors import InputError
from auucmax._validation import Bools, Floats, check_whole
from auucmax.estimators.base import UpliftEstimator, row_weights, seed_of
from auucmax.estimators.formula import Formula, Part, TreeScores
from auucmax.estimators.shrunk import N_FOLDS, STRENGTHS, Path, filled, shrunk_path
from auucmax.estimators.targets import BINOMIAL, Loss, likelihood_weights, target_of
from auucmax.rows import ArrayRows
from auucmax.rows.base import hash_keys

BASE_ROUNDS = (0, 20, 40, 80, 160)
EFFECT_ROUNDS = (0, 10, 20, 40, 80, 160)
MAX_ROWS = 2_000_000  #: that trees are grown from
_PATIENCE = 2  # numbers of trees that are no better, after which no more are tried
_LEAST_WEIGHT = 1e-3  # of a start, below which it is left out
_RATE = 0.06


@dataclass(eq=False, repr=False)
class BoostedEffect(UpliftEstimator):
    """HB: boosted trees for base rate and treatment effect, with linear starts.

        score(x) = sum_m weight_m (P_m(y = 1 | x, treated) - P_m(y = 1 | x, control))

    See :mod:`auucmax.estimators.boosted`. Features may be missing (NaN). For an outcome that is not
    0/1 (:mod:`auucmax.estimators.targets`) P is the probability that it is not the usual one, times
    an amount, or a mean.

    Parameters
    ----------
    base_rounds, effect_rounds : numbers of trees that are tried, from small to large.
    n_folds : folds by which they are chosen; fewer where an outcome of an arm is rarer.
    max_rows : with more rows, a random sample of this size is used.
    n_jobs : folds that grow at a time, in threads; None or -1: as many as there are processors. The
        result does not depend on it.
    random_state : seed of the folds and of the sample.
    control : label of the control group, when treatment is not 0/1.

    Attributes
    ----------
    formula_ : two parts, one for each arm, for each start that counts, and the trees.
    fill_ : (d,) replacements of missing values in the starts.
    n_rows_ : number of training rows.
    modelled_ : "0/1", "whether" or "number": the modelled aspect of the outcome.
    amounts_ : (2,) factors of the predictions for treated and control; 1 for 0/1.
    log_loss_ : total out-of-fold log-loss of each start.
    n_parameters_ : coefficients, and a value for each leaf plus a threshold for each split.

    Examples
    --------
    >>> from auucmax import make_trial
    >>> train, test = make_trial(6_000, random_state=0).split(random_state=0)
    >>> model = BoostedEffect(random_state=0).fit(train.X, train.y, treatment=train.treatment)
    >>> len(model.formula_.parts) in (2, 4)
    True
    >>> model.predict(test.X).shape
    (1800,)
    """

    _allows_missing = True

    _: KW_ONLY
    base_rounds: Sequence[int] = BASE_ROUNDS
    effect_rounds: Sequence[int] = EFFECT_ROUNDS
    n_folds: int = N_FOLDS
    max_rows: int = MAX_ROWS
    n_jobs: int | None = None
    random_state: int | None = None

    def _fit(
        self, X: NDArray[Any], y: Floats, treated: Bools, sample_weight: Floats | None
    ) -> None:
        self._check_parameters()
        target = target_of(ArrayRows(X, y, treated, row_weights(sample_weight)))
        if len(y) > self.max_rows:  # in their order
            hashes = hash_keys(target.rows.keys, seed_of(self.random_state) ^ 2)
            drawn = np.argpartition(hashes, self.max_rows - 1)[: self.max_rows]
            target = replace(target, rows=target.rows.take(np.sort(drawn)))
        path = shrunk_path(
            target,
            strengths=STRENGTHS,
            n_folds=self.n_folds,
            hinges=False,
            random_state=self.random_state,
        )
        self.modelled_, self.amounts_ = target.modelled, target.amounts
        self.n_rows_, self.fill_ = len(target.rows.y), path.design.fill
        growing = _Growing(target.rows, path, target.loss, effective_n_jobs(self.n_jobs or -1))
        rounds = tuple(self.base_rounds), tuple(self.effect_rounds)
        # Weights of the strengths: that of a constant effect alone, and those of the path.
        starts = [np.eye(len(path.strengths))[0], path.weights]
        chosen = [growing.chosen(start, *rounds) for start in starts]
        totals = np.array([total for _, _, total in chosen])
        losses = target.loss.nats(totals, float(growing.weight.sum()))
        weights = likelihood_weights(losses, _LEAST_WEIGHT)
        self.log_loss_ = losses
        members = [
            (weight, *growing.member(start, n_base, n_effect))
            for weight, start, (n_base, n_effect, _) in zip(weights, starts, chosen, strict=True)
            if weight > 0
        ]
        forests = [forest for *_, own in members for forest in own]
        amounts, link = target.amounts.tolist(), target.loss.link
        parts, first = [], 0
        for weight, intercept, coef, own in members:
            for amount, d in ((amounts[0], 1 - path.share), (-amounts[1], -path.share)):
                sums = np.zeros(len(forests))
                sums[first : first + len(own)] = [d if of_effect else 1.0 for of_effect, _ in own]
                linear = np.concatenate([(1.0, d) @ coef, sums])
                parts.append(
                    Part(amount * float(weight), link, float((1.0, d) @ intercept), linear)
                )
            first += len(own)
        trees = tuple(forest for _, forest in forests)
        self.formula_ = Formula(tuple(parts), trees=trees)
        n_linear = sum(coef.size + intercept.size for _, intercept, coef, _ in members)
        self.n_parameters_ = n_linear + sum(len(forest.feature) for forest in trees)

    def _predict(self, X: NDArray[Any]) -> Floats:
        return self.formula_.scores(X, filled(X, self.fill_))

    def _check_parameters(self) -> None:
        check_whole(self.n_folds, "n_folds", 2)
        check_whole(self.max_rows, "max_rows", 100)
        if self.n_jobs not in (None, -1):
            check_whole(self.n_jobs, "n_jobs", 1)
        for name in ("base_rounds", "effect_rounds"):
            rounds = list(getattr(self, name))
            for number in rounds:
                check_whole(number, name, 0)
            if not rounds or sorted(set(rounds)) != rounds:
                raise InputError(
                    name, "different numbers of trees from small to large", repr(rounds),
                    "(0, 20, 40) is an example.",
                )  # fmt: skip


class _Growing:
    """Training rows by fold, and the linear starts."""

    def __init__(self, rows: ArrayRows, path: Path, loss: Loss, n_threads: int) -> None:
        fold = path.fold
        order = np.argsort(fold, kind="stable")
        X, y, treated, weight = rows.columns
        self.path, self.loss, self.n_threads, self.n_rows = path, loss, n_threads, len(y)
        self.X, self.order, self.bins = X, order, Bins.of(X, order)
        self.y, self.d = y[order], np.asarray(treated[order] - path.share, dtype=np.float64)
        self.weight = np.ones(len(y)) if weight is None else weight[order]
        self.one = np.ones(len(y))
        mean = float(np.average(self.y, weights=self.weight))
        self.spread = float(loss.hessian(np.array(loss.start(mean))))
        self.edges = np.searchsorted(fold[order], np.arange(int(fold.max()) + 2)).tolist()

    def chosen(
        self, start: Floats, base_rounds: Sequence[int], effect_rounds: Sequence[int]
    ) -> tuple[int, int, float]:
        """Numbers of trees for g and f chosen by cross-validation, and their loss."""
        models = np.einsum("s,fsij->fij", start, self.path.fold_models)
        # Ranges of rows outside each fold.
        parts = [np.array([[0, a], [b, self.n_rows]]) for a, b in pairwise(self.edges)]
        logits = [g + self.d * f for g, f in map(self._linear, models)]
        runs = list(map(self._boosting, logits, parts))
        n_base, _, scores = self._best(runs, base_rounds)
        effect = partial(self._boosting, of_effect=True)
        runs = list(map(effect, map(np.add, logits, scores), parts))
        n_effect, loss, _ = self._best(runs, effect_rounds)
        return n_base, n_effect, loss

    def member(
        self, start: Floats, n_base: int, n_effect: int
    ) -> tuple[Floats, Floats, list[tuple[bool, TreeScores]]]:
        """Intercepts (2,), coefficients (2, d) and trees of g and f, trained on all rows.

        Trees come with whether they are part of f.
        """
        model = np.einsum("s,sij->ij", start, self.path.models)
        (g, f), every = self._linear(model), np.array([[0, self.n_rows]])
        base = self._boosting(g + self.d * f, every)
        base.grow(n_base)
        effect = self._boosting(g + base.score + self.d * f, every, of_effect=True)
        effect.grow(n_effect)
        forests = [
            (run is effect, tree_scores(run.trees, self.bins))
            for run in (base, effect)
            if run.trees
        ]
        return *self.path.design.unscaled(model), forests

    def _linear(self, model: Floats) -> tuple[Floats, Floats]:
        """Linear starts g and f of all rows, from coefficients (2, terms)."""
        intercept, coef = self.path.design.unscaled(model)
        found = filled(self.X, self.path.design.fill) @ coef.T + intercept
        return found[self.order, 0], found[self.order, 1]

    def _best(self, runs: list[Boosting], rounds: Sequence[int]) -> tuple[int, float, list[Floats]]:
        """The number of trees with the smallest loss, that loss, and the fit with so many."""
        best, lowest, worse = 0, np.inf, 0
        scores: list[Floats] = []
        with ThreadPoolExecutor(min(self.n_threads, len(runs))) as pool:
            for number in rounds:
                loss = sum(pool.map(partial(self._loss, n_trees=number), runs, range(len(runs))))
                if loss < lowest:
                    best, lowest, worse = number, loss, 0
                    scores = [run.score.copy() for run in runs]
                    continue
                worse += 1
                if worse == _PATIENCE:
                    break
        return best, lowest, scores

    def _loss(self, run: Boosting, fold: int, n_trees: int) -> float:
        """Total loss on the rows of a fold with this many trees."""
        run.grow(n_trees)
        own = slice(self.edges[fold], self.edges[fold + 1])
        z = run.offset[own] + run.slope[own] * run.score[own]
        return float(self.loss.value(z, self.y[own]) @ self.weight[own])

    def _boosting(
        self, offset: Floats, parts: NDArray[np.int64], *, of_effect: bool = False
    ) -> Boosting:
        """Boosting for the base rate g, or for the effect f."""
        own = np.concatenate([np.arange(*part) for part in parts])
        least = int(np.clip(len(own) / 60, 20, 300))
        growth, slope = Growth(6, _RATE, least, 1.0, least_hessian=1e-3), self.one
        if of_effect:
            least = int(np.clip(len(own) / 40, 30, 600))
            penalty = 0.02 * float(self.weight[own] @ self.d[own] ** 2) * self.spread
            growth, slope = Growth(4, _RATE, least, penalty), self.d
        return Boosting(self.bins, offset, slope, self.y, self.weight, parts, growth, self.loss)


MOST_BINS = 255  #: of a column; missing values have one more
GAP = 255  #: the code of a missing value
_BEYOND = 1e300  # a threshold that all values are below: missing values alone are on the right
_LANES = 4  # columns whose histograms are made together: their number is rounded up
STEPS = np.array([2.0**21 - 1, 2.0**18 - 1])  #: of the largest gradient and Hessian of a row

Codes = NDArray[np.uint8]
Whole = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Bins:
    """Numeric columns in bins with about equally many rows.

    ``codes`` (columns, n), the number of columns rounded up to a multiple of 4: how many ``cuts``
    of its column lie below a value, or 255 where it is missing. ``has_gap`` (columns,): whether
    values are missing.

    >>> bins = Bins.of(np.array([[1.0], [2.0], [np.nan], [1.0]]))
    >>> bins.codes[0].tolist(), bins.cuts, bins.has_gap
    ([0, 1, 255, 0], [array([1.5])], array([ True]))
    """

    codes: Codes
    cuts: list[Floats]
    has_gap: Bools

    @classmethod
    def of(cls, X: NDArray[Any], order: Whole | None = None) -> Bins:
        """Bin the rows of X in a given order."""
        n, d = X.shape
        codes = np.zeros((-(-d // _LANES) * _LANES, n), dtype=np.uint8)
        cuts, has_gap = [], np.zeros(d, dtype=bool)
        for k in range(d):
            column = X[:, k] if order is None else X[order, k]
            gaps = np.isnan(column)
            has_gap[k] = gaps.any()
            cuts.append(_cuts(np.sort(column[~gaps] if has_gap[k] else column)))
            codes[k] = np.searchsorted(cuts[k], column)
            codes[k, gaps] = GAP
        return cls(codes, cuts, has_gap)

    @property
    def n_bins(self) -> Whole:
        """Number of bins per column, without that of missing values, (columns,)."""
        return np.array([len(own) + 1 for own in self.cuts], dtype=np.int64)


def _cuts(values: NDArray[Any]) -> Floats:
    """Cut points between neighbouring values; ``values`` are sorted."""
    last = np.flatnonzero(values[1:] > values[:-1])  # the places after which a value changes
    if len(last) >= MOST_BINS:
        wanted = np.arange(1, MOST_BINS) * len(values) / MOST_BINS - 1
        last = np.unique(last[np.minimum(np.searchsorted(last, wanted), len(last) - 1)])
    low, high = values[last].astype(np.float64), values[last + 1].astype(np.float64)
    middle = low + (high - low) / 2
    return np.where(middle < high, middle, low)


class Growth(NamedTuple):
    """Growth parameters of trees; ``rate`` is the learning rate."""

    n_leaves: int
    rate: float
    least_rows: int
    penalty: float
    least_hessian: float = 0.0


class Tree(NamedTuple):
    """Splits (k, 4): leaf, column, last code on the left, missing values left; leaf values.

    The rows on the right of split j go to leaf j + 1, the others stay.
    """

    splits: Whole
    values: Floats


@dataclass(eq=False)
class Boosting:
    """Trees grown one after the other; ``score`` (n,) is their current sum.

    ``offset``, ``slope``, ``y`` and ``weight`` are (n,); ``parts`` (m, 2) the ranges of rows that
    are trained on: the others are scored.
    """

    bins: Bins
    offset: Floats
    slope: Floats
    y: Floats
    weight: Floats
    parts: Whole
    growth: Growth
    loss: Loss = BINOMIAL
    trees: list[Tree] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.score = np.zeros(len(self.y))
        self.is_done = False
        slope = np.abs(self.slope).max()
        # Steps in a unit: for the log-loss p - y is at most 1, p (1 - p) at most 1/4.
        largest = slope * self.loss.steepest(self.offset, self.y), slope**2 * self.loss.most_bent
        self.scales = STEPS / (np.array(largest) * self.weight.max())

    def grow(self, n_trees: int) -> None:
        """Grow until there are this many trees, or no leaf can be split."""
        if self.is_done or len(self.trees) >= n_trees:
            return
        from auucmax.estimators import trees_kernel as kernel

        n, how, codes = len(self.y), self.growth, self.bins.codes
        room = (
            np.empty((how.n_leaves, 2, len(codes), 256), np.int64),
            np.zeros((_LANES, 256), np.int64),
            np.empty(n, np.uint32),
            np.empty(n, np.int64),
        )
        limits = np.array([how.least_rows, how.least_hessian, how.penalty])
        known = self.parts, self.bins.n_bins, self.bins.has_gap, limits, self.scales
        minus, packed = np.empty(n, np.float32), np.empty(n, np.int64)
        binomial = self.loss is BINOMIAL
        node, values = np.zeros(n, np.uint8), np.zeros(how.n_leaves)
        kernel.add_leaves(node, values, self.offset, self.slope, self.score, minus)
        while len(self.trees) < n_trees:
            for start, stop in self.parts.tolist():
                own = slice(start, stop)
                if binomial:
                    with np.errstate(over="ignore"):  # a chance of 0
                        np.exp(minus[own], out=minus[own])
                rows = self.slope[own], self.y[own], self.weight[own]
                kernel.pack(minus[own], binomial, *rows, self.scales, packed[own])
            splits, values = np.empty((how.n_leaves - 1, 4), np.int64), np.zeros(how.n_leaves)
            room[0].fill(0)
            n_splits = kernel.grow(codes, packed, *known, node, room, splits, values)
            if not n_splits:
                self.is_done = True
                return
            values *= how.rate
            kernel.add_leaves(node, values, self.offset, self.slope, self.score, minus)
            self.trees.append(Tree(splits[:n_splits], values[: n_splits + 1]))


def tree_scores(trees: Sequence[Tree], bins: Bins) -> TreeScores:
    """Convert trees to arrays that score rows.

    A value that is missing where none was in training counts as 0, as with LightGBM.
    """
    nodes: list[tuple[float, ...]] = []  # feature, threshold, left, right, missing_left, value
    roots = []
    for splits, values in trees:
        roots.append(first := len(nodes))
        place = {0: first}  # of each leaf
        inner: dict[int, tuple[float, ...]] = {}
        for j, (leaf, column, code, gap_left) in enumerate(splits.tolist()):
            cuts = bins.cuts[column]
            threshold = float(cuts[code]) if code < len(cuts) else _BEYOND
            goes_left = gap_left if bins.has_gap[column] else threshold >= 0
            left = first + 2 * j + 1
            inner[place[leaf]] = (column, threshold, left, left + 1, goes_left, 0.0)
            place[leaf], place[j + 1] = left, left + 1
        leaves = {k: (0, 0.0, k, k, False, float(values[leaf])) for leaf, k in place.items()}
        nodes += [(inner | leaves)[k] for k in range(first, first + 2 * len(splits) + 1)]
    return TreeScores.of(nodes, roots)
