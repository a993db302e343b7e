"""Boosted trees for the effect of a treatment, grown from a linear start by likelihood.

    logit P(y = 1 | x, t) = g(x) + d f(x),    d = t - share of treated rows

1. A start: g and f of a logistic model with shrunk interactions (:mod:`auucmax.estimators.shrunk`),
   once with a constant f, once averaged over its path.
2. Trees for g, with f held: LightGBM's own binary log-loss.
3. Trees for f, with g held: gradient d (p - y) and Hessian d^2 p (1 - p), few leaves, a strong
   penalty. Numbers of trees, 0 among them, are chosen by the log-loss of the folds in which the
   start was weighed, so that where rows tell nothing of the effect it stays that of the start.
4. The models of both starts are averaged with weights exp(-out-of-fold log-loss).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self, cast

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_expit

from auucmax._validation import Bools, Floats, check_whole
from auucmax.estimators.base import UpliftEstimator
from auucmax.estimators.learning_rows import LearningRows
from auucmax.estimators.meta import row_weights
from auucmax.estimators.shrunk import N_FOLDS, STRENGTHS, Path, folds_of, shrunk_path
from auucmax.rows import ArrayRows

BASE_ROUNDS = (0, 20, 40, 80, 160)
EFFECT_ROUNDS = (0, 10, 20, 40, 80, 160)
MAX_ROWS = 2_000_000  #: that trees are grown from
MANY_ROWS = 200_000  #: with fewer, threads wait more than they work
_PATIENCE = 2  # numbers of trees that are no better, after which no more are tried
_LEAST_WEIGHT = 1e-3  # of a start, below which it is left out
_BASE = {"num_leaves": 6, "learning_rate": 0.06, "lambda_l2": 1.0}
_EFFECT = {"num_leaves": 4, "learning_rate": 0.06, "min_sum_hessian_in_leaf": 0.0}


class BoostedEffect(UpliftEstimator):
    """HB: boosted trees for the base rate and for the effect, from two linear starts.

        score(x) = sum_m weight_m (P_m(y = 1 | x, treated) - P_m(y = 1 | x, control))

    See :mod:`auucmax.estimators.boosted`. The outcome must be 0/1; features may be missing (NaN).

    Parameters
    ----------
    base_rounds, effect_rounds : numbers of trees that are tried, from small to large.
    n_folds : by which they are chosen; fewer, where an outcome of an arm is rarer.
    max_rows : of more rows a random part of so many is learnt from.
    n_jobs : threads; -1: all; None: all from 200,000 rows on, otherwise one. The result does not
        depend on it.
    random_state : of the folds and of the part.
    control : label of the control group, when treatment is not 0/1.

    Attributes
    ----------
    members_ : a :class:`Member` for each start that counts.
    share_ : the share of treated rows. fill_ : (d,) what stands for missing values in the starts.
    n_rows_ : how many rows were learnt from.
    log_loss_ : out of fold, in total, of each start.
    n_parameters_ : coefficients, and a value for each leaf plus a threshold for each split.

    Examples
    --------
    >>> from auucmax import make_trial
    >>> train, test = make_trial(6_000, random_state=0).split(random_state=0)
    >>> model = BoostedEffect(random_state=0).fit(train.X, train.y, treatment=train.treatment)
    >>> len(model.members_) in (1, 2)
    True
    >>> model.predict(test.X).shape
    (1800,)
    """

    _binary_outcome: ClassVar[bool] = True
    _check_X: ClassVar[dict[str, Any]] = {
        "dtype": [np.float64, np.float32],
        "ensure_all_finite": "allow-nan",
    }

    def __init__(
        self,
        *,
        base_rounds: Sequence[int] = BASE_ROUNDS,
        effect_rounds: Sequence[int] = EFFECT_ROUNDS,
        n_folds: int = N_FOLDS,
        max_rows: int = MAX_ROWS,
        n_jobs: int | None = None,
        random_state: int | None = None,
        control: Any = None,
    ) -> None:
        self.base_rounds = base_rounds
        self.effect_rounds = effect_rounds
        self.n_folds = n_folds
        self.max_rows = max_rows
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.control = control

    def _fit(
        self, X: NDArray[Any], y: Floats, treated: Bools, sample_weight: Floats | None
    ) -> None:
        self._check_parameters()
        rows = ArrayRows(X, y, treated, row_weights(sample_weight))
        if len(y) > self.max_rows:
            rng = np.random.default_rng(self.random_state)
            rows = rows.take(np.sort(rng.choice(len(y), int(self.max_rows), replace=False)))
        self.n_rows_ = len(rows.y)
        X = rows.X
        with np.errstate(invalid="ignore"):
            missing = np.isnan(X)
        self.fill_ = np.zeros(X.shape[1])
        filled = rows
        if missing.any():
            self.fill_ = _medians(X)
            filled = rows.map(lambda values: np.where(np.isnan(values), self.fill_, values))
        learn = LearningRows.of(filled)
        path = shrunk_path(
            learn,
            strengths=STRENGTHS,
            n_folds=self.n_folds,
            hinges=False,
            random_state=self.random_state,
        )
        fold_of, n_folds = folds_of(learn, self.n_folds, self.random_state)
        self.share_ = path.share
        growing = _Growing(
            rows, path, np.asarray(filled.X), fold_of(rows.batch), n_folds, self._threads()
        )
        rounds = tuple(self.base_rounds), tuple(self.effect_rounds)
        found = [growing.member(weights, *rounds) for weights in _starts(path)]
        losses = np.array([loss for _, loss in found])
        weights = np.exp(losses.min() - losses)
        weights[weights < _LEAST_WEIGHT * weights.sum()] = 0.0
        weights /= weights.sum()
        self.log_loss_ = losses
        self.members_ = [
            member._replace(weight=float(weight))
            for (member, _), weight in zip(found, weights, strict=True)
            if weight > 0
        ]
        self.n_parameters_ = sum(member.n_parameters for member in self.members_)

    def _predict(self, X: NDArray[Any]) -> Floats:
        filled = np.where(np.isnan(X), self.fill_, X) if np.isnan(X).any() else X
        scores = np.zeros(len(X))
        for member in self.members_:
            base, effect = member.parts(X, filled, self._threads(len(X)))
            treated = expit(base + (1 - self.share_) * effect)
            scores += member.weight * (treated - expit(base - self.share_ * effect))
        return scores

    def _threads(self, n_rows: int | None = None) -> int:
        n_rows = self.n_rows_ if n_rows is None else n_rows
        if self.n_jobs is None:
            return 0 if n_rows >= MANY_ROWS else 1
        return 0 if self.n_jobs == -1 else int(self.n_jobs)  # 0: what OpenMP would take

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
                raise ValueError(
                    f"{name} should be different numbers of trees from small to large, got "
                    f"{rounds}. (0, 20, 40) is an example."
                )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


def _starts(path: Path) -> list[Floats]:
    """Weights of the strengths: that of a constant effect alone, and those of the path."""
    constant = np.zeros(len(path.strengths))
    constant[0] = 1.0
    return [constant, path.weights]


def _medians(X: NDArray[Any]) -> Floats:
    """Of the values that are there; 0 of columns without any."""
    found = np.zeros(X.shape[1])
    for k, column in enumerate(X.T):
        present = column[~np.isnan(column)]
        found[k] = np.median(present) if len(present) else 0.0
    return found


class Member(NamedTuple):
    """g(x) = base_intercept + base_coef.x + trees, f(x) likewise, and the weight of the two.

    ``base_trees`` and ``effect_trees`` are LightGBM's boosters, or the same trees as arrays
    (:class:`auucmax.estimators.trees.TreeScores`); None, if there are none.
    """

    weight: float
    base_intercept: float
    base_coef: Floats
    effect_intercept: float
    effect_coef: Floats
    base_trees: Any
    effect_trees: Any

    def parts(self, X: NDArray[Any], filled: NDArray[Any], threads: int) -> tuple[Floats, Floats]:
        """g and f of rows; ``filled`` has numbers for missing values."""
        base = filled @ self.base_coef + self.base_intercept
        effect = filled @ self.effect_coef + self.effect_intercept
        for part, trees in ((base, self.base_trees), (effect, self.effect_trees)):
            if trees is not None:
                part += trees_sum(trees, X, threads)
        return base, effect

    @property
    def n_parameters(self) -> int:
        trees = [t for t in (self.base_trees, self.effect_trees) if t is not None]
        leaves = [tree["num_leaves"] for t in trees for tree in t.dump_model()["tree_info"]]
        return 2 + 2 * len(self.base_coef) + 2 * sum(leaves) - len(leaves)


def trees_sum(trees: Any, X: NDArray[Any], threads: int, first: int = 0, n: int = -1) -> Floats:
    """What trees give together, (n,), or some of them."""
    if not hasattr(trees, "dump_model"):
        return np.asarray(trees.predict(X, num_threads=threads), dtype=np.float64)
    found = trees.predict(
        X, raw_score=True, start_iteration=first, num_iteration=n, num_threads=threads
    )
    return np.asarray(found, dtype=np.float64)


Gradients = Callable[[Floats, Any], tuple[Floats, Floats]]


@dataclass
class _Growing:
    """Rows, folds and starts from which trees grow."""

    rows: ArrayRows
    path: Path
    filled: NDArray[Any]
    fold: NDArray[np.int64]
    n_folds: int
    threads: int

    def __post_init__(self) -> None:
        import lightgbm

        params = {
            # Bins must not depend on rows that LightGBM would draw, nor sums on threads.
            "bin_construct_sample_cnt": len(self.rows.y),
            "feature_pre_filter": False,
            "deterministic": True,
            "force_row_wise": True,
            "num_threads": self.threads,
            "verbosity": -1,
        }
        self.common = params
        self.binned = lightgbm.Dataset(self.rows.X, label=self.rows.y, params=params).construct()
        self.d = self.rows.treated - self.path.share
        rate = float(np.average(self.rows.y, weights=self.rows.weight))
        self.spread = rate * (1 - rate)
        every = np.arange(len(self.rows.y))
        outside = [every[self.fold != k] for k in range(self.n_folds)]
        inside = [every[self.fold == k] for k in range(self.n_folds)]
        self.parts = [*zip(outside, inside, strict=True)]
        self.tests = [self.rows.X[test] for test in inside]
        self.every = every

    def member(
        self, weights: Floats, base_rounds: Sequence[int], effect_rounds: Sequence[int]
    ) -> tuple[Member, float]:
        """The model from a start, and its out-of-fold log-loss in total."""
        starts = [np.einsum("s,sij->ij", weights, models) for models in self.path.fold_models]
        logits = [self._linear(start) for start in starts]  # g and f of all rows, by fold
        runs = []
        for k, ((g, f), (train, test)) in enumerate(zip(logits, self.parts, strict=True)):
            logit = g + self.d * f
            runs.append(_Run(*self._base(train), start=logit[train]).watch(self.tests[k]))
            runs[-1].score = logit[test]
        n_base, _ = self._best(runs, base_rounds, lambda run, k: run.score)
        for (g, _), run in zip(logits, runs, strict=True):
            if n_base:
                g += trees_sum(run.booster, self.rows.X, self.threads, n=n_base)
        runs = [
            _Run(*self._effect(train, g[train], f[train])).watch(self.tests[k])
            for k, ((g, f), (train, _)) in enumerate(zip(logits, self.parts, strict=True))
        ]
        n_effect, loss = self._best(runs, effect_rounds, lambda run, k: self._logit(logits, run, k))
        return self._whole(weights, n_base, n_effect), loss

    def _whole(self, weights: Floats, n_base: int, n_effect: int) -> Member:
        """On all rows, with the numbers of trees that folds have chosen."""
        start = np.einsum("s,sij->ij", weights, self.path.models)
        g, f = self._linear(start)
        base_trees = effect_trees = None
        if n_base:
            base_trees = _Run(*self._base(self.every), start=g + self.d * f).grown(n_base)
            g += trees_sum(base_trees, self.rows.X, self.threads)
        if n_effect:
            effect_trees = _Run(*self._effect(self.every, g, f)).grown(n_effect)
        (b0, f0), (b, c) = self.path.design.unscaled(start)
        return Member(1.0, float(b0), b, float(f0), c, base_trees, effect_trees)

    def _linear(self, start: Floats) -> tuple[Floats, Floats]:
        intercept, coef = self.path.design.unscaled(start)
        g, f = (self.filled @ coef.T + intercept).T
        return np.ascontiguousarray(g), np.ascontiguousarray(f)

    def _logit(self, logits: list[tuple[Floats, Floats]], run: _Run, k: int) -> Floats:
        """Log-odds of the rows of a fold, with the trees for the effect that there are."""
        (g, f), (_, test) = logits[k], self.parts[k]
        return np.asarray(g[test] + self.d[test] * (f[test] + run.score))

    def _best(
        self, runs: list[_Run], rounds: Sequence[int], logit: Callable[[_Run, int], Floats]
    ) -> tuple[int, float]:
        """The number of trees of the smallest log-loss, and that loss."""
        best, lowest, worse = 0, np.inf, 0
        for number in rounds:
            loss = 0.0
            for k, run in enumerate(runs):
                run.grow(number)
                loss += self._loss(logit(run, k), self.parts[k][1])
            if loss < lowest:
                best, lowest, worse = number, loss, 0
                continue
            worse += 1
            if worse == _PATIENCE:
                break
        return best, lowest

    def _loss(self, logit: Floats, own: Any) -> float:
        """Log-loss in total of some rows."""
        y = self.rows.y[own]
        loss = -log_expit(np.where(y == 1, logit, -logit))
        return float(loss.sum() if self.rows.weight is None else loss @ self.rows.weight[own])

    def _base(self, own: NDArray[np.int64]) -> tuple[dict[str, Any], Any]:
        """Parameters and rows of trees for g."""
        least = int(np.clip(len(own) / 60, 20, 300))
        params = {"objective": "binary", "min_data_in_leaf": least}
        return self.common | _BASE | params, self._dataset(own)

    def _effect(
        self, own: NDArray[np.int64], g: Floats, f: Floats
    ) -> tuple[dict[str, Any], Any, Gradients]:
        """Parameters, rows and gradients of trees for f."""
        n, d, y = len(own), self.d[own], self.rows.y[own]
        weight = None if self.rows.weight is None else self.rows.weight[own]
        total = n if weight is None else float(weight.sum())
        params = {
            "objective": "none",
            "min_data_in_leaf": int(np.clip(n / 40, 30, 600)),
            "lambda_l2": 0.02 * total * float(np.average(d**2, weights=weight)) * self.spread,
        }
        start = g + d * f

        def gradients(score: Floats, _: Any) -> tuple[Floats, Floats]:
            p = expit(start + d * score)
            first, second = d * (p - y), d**2 * p * (1 - p)
            return (first, second) if weight is None else (first * weight, second * weight)

        return self.common | _EFFECT | params, self._dataset(own), gradients

    def _dataset(self, own: NDArray[np.int64]) -> Any:
        """Some of the rows, in the bins of all."""
        import lightgbm

        if len(own) == len(self.every):
            made = lightgbm.Dataset(
                self.rows.X, label=self.rows.y, reference=self.binned, params=self.common
            )
        else:
            made = self.binned.subset(cast(Any, own), params=self.common)
        made.construct()
        if self.rows.weight is not None:
            made.set_weight(self.rows.weight[own])
        return made


class _Run:
    """A booster that grows, and what its trees add up to in rows that it does not learn from."""

    def __init__(
        self,
        params: dict[str, Any],
        dataset: Any,
        gradients: Gradients | None = None,  # None: LightGBM's own
        *,
        start: Floats | None = None,
    ) -> None:
        import lightgbm

        if start is not None:
            dataset.set_init_score(start)
        self.booster = lightgbm.Booster(params, dataset)
        self.gradients, self.threads, self.n_trees = gradients, params["num_threads"], 0
        self.held: NDArray[Any] | None = None
        self.score = np.zeros(0)

    def watch(self, held: NDArray[Any]) -> Self:
        """Rows whose ``score`` is to be known."""
        self.held, self.score = held, np.zeros(len(held))
        return self

    def grow(self, n_trees: int) -> None:
        """Until there are so many, or no leaf can be split any more."""
        before, self.n_trees = self.n_trees, n_trees
        for _ in range(before, n_trees):
            if self.booster.update(fobj=self.gradients):
                break
        if self.held is not None and n_trees > before:
            more = trees_sum(self.booster, self.held, self.threads, before, n_trees - before)
            self.score = self.score + more

    def grown(self, n_trees: int) -> Any:
        """The booster with so many trees, without its rows."""
        self.grow(n_trees)
        return self.booster.free_dataset()
