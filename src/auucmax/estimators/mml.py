"""MML: a linear score from separate labels, by minimax in closed form (Yamane et al. 2018)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_array

from auucmax._validation import Bools, Floats, check_choice, check_column, check_mask, check_whole
from auucmax.data.trial import places_in_strata
from auucmax.estimators.base import SCALES, UpliftEstimator, fit_scaling
from auucmax.pairs import scores

DESIGNS = ("pure-arms", "tilted", "joint")
N_FOLDS = 5


class SeparateLabels(NamedTuple):
    """One sample of (x, label) rows under two policies; the label is y or the treatment.

    ``policy`` is True for rows that were collected under policy 1, False under policy 2. Policies
    treat different shares of people, of the same population.
    """

    X: Any
    label: ArrayLike
    policy: ArrayLike
    weight: ArrayLike | None = None


@dataclass(frozen=True)
class MinimaxSolution:
    """f(x) = alpha.(x, 1), the score, and g(x) = beta.(x, 1), which judged it; (d + 1,) each.

    ``path`` has a row (r_f, r_g, held-out criterion) for each pair that was tried, if several were.
    """

    alpha: Floats
    beta: Floats
    r_f: float
    r_g: float
    path: list[tuple[float, float, float]]

    def predict(self, X: Any) -> Floats:
        """Estimated uplift of the rows of X, (n,)."""
        return np.asarray(X, dtype=np.float64) @ self.alpha[:-1] + self.alpha[-1]


class MinimaxLinear(UpliftEstimator):
    """MML: uplift where no row has both its outcome and its treatment (Yamane et al. 2018).

    Solves, for linear f and g with an intercept,

        min over f, max over g of  2 E[w f g] - 4 E[z g] - E[g^2] + r_f |f|^2 - r_g |g|^2

    (squared norms of coefficients, intercepts left out). Rows come from two policies that treat
    different shares; z = y and w = t under policy 1, z = -y and w = -t under policy 2, t = 1 or -1.
    The score f estimates 2 E[z | x] / E[w | x], the uplift. See :func:`minimax_linear`, which
    takes samples whose labels are truly separate.

    Here the rows of an ordinary trial are made into such samples:

    * "pure-arms": treated rows are policy 1, control rows policy 2;
    * "tilted": a share ``tilt`` of the treated and 1 - ``tilt`` of the control rows, drawn at
      random, are policy 1, so its treated share is ``tilt`` if the arms are equally large; the
      other rows are policy 2. The nearer ``tilt`` is to 1/2, the less the samples tell;
    * then half of the rows of each arm and policy, drawn at random, keep y and lose the treatment,
      the other half keep the treatment and lose y;
    * "joint": as "pure-arms", but every row keeps both labels. Not what the method is for: without
      regularisation, and with arms equally large, it is the least squares of
      :class:`~auucmax.estimators.meta.TransformedOutcome`.

    So half the outcomes are thrown away, by design: with a trial in hand, prefer another model.

    Parameters
    ----------
    design : "pure-arms", "tilted" or "joint".
    tilt : between 1/2 and 1, for "tilted".
    r_f, r_g : regularisation of f and g; of several numbers the r_f with the smallest, over r_g
        largest, criterion on held-out rows is taken (5 folds), and the r_g that judged it.
    scale : "min-max", "column-l2" (columns of unit norm), "unit-rows" or "none". Part of the model.
    random_state : of the samples, and of the folds.
    control : label of the control group, when treatment is not 0/1.

    Attributes
    ----------
    coef_, intercept_ : in the user's own units: scores are X @ coef_ + intercept_. ("unit-rows":
        of the normalised rows.)
    solution_ : the :class:`MinimaxSolution` of the scaled features.
    n_parameters_ : 2 (d + 1), those of f and g.

    Examples
    --------
    >>> from auucmax import load_hillstrom
    >>> train, test = load_hillstrom().split(random_state=0)
    >>> model = MinimaxLinear(random_state=0)
    >>> model.fit(train.X, train.y, treatment=train.treatment).n_parameters_
    46
    """

    def __init__(
        self,
        *,
        design: str = "pure-arms",
        tilt: float = 0.75,
        r_f: float | Sequence[float] = 0.01,
        r_g: float | Sequence[float] = 0.01,
        scale: str = "min-max",
        random_state: int | Generator | None = None,
        control: Any = None,
    ) -> None:
        self.design = design
        self.tilt = tilt
        self.r_f = r_f
        self.r_g = r_g
        self.scale = scale
        self.random_state = random_state
        self.control = control

    def _fit(
        self, X: NDArray[Any], y: Floats, treated: Bools, sample_weight: Floats | None
    ) -> None:
        check_choice(self.design, "design", DESIGNS)
        check_choice(self.scale, "scale", SCALES)
        rng = np.random.default_rng(self.random_state)
        policy, gives_y, gives_t = separate_labels(treated, self.design, self.tilt, rng)
        scaling = fit_scaling(X, self.scale, sample_weight)
        rows = (scaling.rows(X).astype(np.float64) - scaling.shift) * scaling.factor
        weight = np.ones(len(y)) if sample_weight is None else sample_weight
        self.solution_ = minimax_linear(
            SeparateLabels(rows[gives_y], y[gives_y], policy[gives_y], weight[gives_y]),
            SeparateLabels(rows[gives_t], treated[gives_t], policy[gives_t], weight[gives_t]),
            r_f=self.r_f,
            r_g=self.r_g,
            random_state=rng,
        )
        self.scaling_ = scaling
        self.coef_ = self.solution_.alpha[:-1] * scaling.factor
        self.intercept_ = float(self.solution_.alpha[-1] - self.coef_ @ scaling.shift)
        self.n_parameters_ = 2 * len(self.solution_.alpha)

    def _predict(self, X: NDArray[Any]) -> Floats:
        return scores(self.scaling_.rows(X), self.coef_) + self.intercept_


def separate_labels(
    treated: Bools, design: str, tilt: float, rng: Generator
) -> tuple[Bools, Bools, Bools]:
    """Policy 1 or not, and whether the row keeps y, and t: three (n,) arrays of booleans.

    >>> treated = np.array([True] * 4 + [False] * 4)
    >>> rng = np.random.default_rng(0)
    >>> policy, gives_y, gives_t = separate_labels(treated, "pure-arms", 0.75, rng)
    >>> policy.sum(), (policy == treated).all(), gives_y.sum(), (gives_y ^ gives_t).all()
    (np.int64(4), np.True_, np.int64(4), np.True_)
    """
    if design == "joint":
        every = np.ones(len(treated), dtype=bool)
        return treated, every, every
    if design == "tilted" and not (isinstance(tilt, Real) and 0.5 < tilt < 1):
        raise ValueError(
            f"tilt should lie strictly between 0.5 and 1, got {tilt!r}. At 0.5 the policies are "
            f"equal and tell nothing; 1 is design='pure-arms'; 0.75 is usual."
        )
    place = places_in_strata(treated.astype(np.intp), rng)  # of each row in its arm, shuffled
    size = np.where(treated, treated.sum(), (~treated).sum())
    share = np.where(treated, tilt, 1 - tilt) if design == "tilted" else treated
    policy = np.asarray(place < np.round(share * size))
    gives_y = places_in_strata((2 * treated + policy).astype(np.intp), rng) % 2 == 0
    return policy, gives_y, ~gives_y


def minimax_linear(
    outcomes: SeparateLabels,
    treatments: SeparateLabels,
    *,
    r_f: float | Sequence[float] = 0.01,
    r_g: float | Sequence[float] = 0.01,
    n_folds: int = N_FOLDS,
    random_state: int | Generator | None = None,
) -> MinimaxSolution:
    """The linear uplift from a sample of (x, y, policy) and another of (x, t, policy).

    With z = y or -y, w = t or -t (policy 1 or 2; t = 1 or -1), psi = (x, 1), N_z and N_w rows,

        A = mean of w psi psi',   b = mean of z psi,   D = diag(1, ..., 1, 0),
        Q = (mean of psi psi' over the first sample + over the second) / 2 + r_g D,
        alpha = 2 (A Q^-1 A' + r_f D)^-1 A Q^-1 b,   beta = Q^-1 (A' alpha - 2 b).

    The two policies count equally in each mean, whatever their numbers of rows. The intercepts
    are not penalised; scale the features beforehand.

    Parameters
    ----------
    outcomes, treatments : samples with y, and with 0/1 or boolean treatments, as labels.
    r_f, r_g, n_folds, random_state : as in :class:`MinimaxLinear`.

    Examples
    --------
    The effect is 1 + x, and nobody has both labels. Policy 1 treats 80 %, policy 2 30 %:

    >>> rng = np.random.default_rng(0)
    >>> x, policy = rng.normal(size=(40_000, 1)), rng.random(40_000) < 0.5
    >>> t = rng.random(40_000) < np.where(policy, 0.8, 0.3)
    >>> y = t * (1 + x[:, 0]) + 0.1 * rng.normal(size=40_000)
    >>> first = SeparateLabels(x[:20_000], y[:20_000], policy[:20_000])
    >>> second = SeparateLabels(x[20_000:], t[20_000:], policy[20_000:])
    >>> minimax_linear(first, second, r_f=0, r_g=0).alpha.round(1).tolist()
    [1.0, 1.0]
    """
    first, second = _checked(outcomes, "outcomes"), _checked(treatments, "treatments")
    in_arm = check_mask(second.label, "treatments.label", len(second.X))
    second = second._replace(label=np.where(in_arm, 1.0, -1.0))
    if first.X.shape[1] != second.X.shape[1]:
        raise ValueError(
            f"outcomes.X and treatments.X should have the same columns, got "
            f"{first.X.shape[1] - 1} and {second.X.shape[1] - 1}. Pass the same features of both "
            f"samples."
        )
    grid = list(product(_numbers(r_f, "r_f"), _numbers(r_g, "r_g")))
    whole = _moments(first, second)
    if len(grid) == 1:
        return _solve(whole, *grid[0])
    path = _cross_validate(first, second, whole, grid, n_folds, np.random.default_rng(random_state))
    # For each r_f its severest judge; of these the mildest verdict.
    severest: dict[float, tuple[float, float, float]] = {}
    for row in path:
        if row[0] not in severest or row[2] > severest[row[0]][2]:
            severest[row[0]] = row
    best_f, best_g, _ = min(severest.values(), key=lambda row: row[2])
    return _solve(whole, best_f, best_g, path)


class _Sample(NamedTuple):
    """Checked rows with the intercept's column; weights by which both policies count equally."""

    X: Floats
    label: Floats
    policy: Bools
    weight: Floats

    def take(self, index: Any) -> _Sample:
        return _Sample(*(column[index] for column in self))


@dataclass(frozen=True)
class _Moments:
    """Sums over rows, which add and subtract: A and b before they are divided by the rows."""

    A: Floats
    b: Floats
    squares: Floats  # of the outcomes' rows, then of the treatments' rows; (2, d + 1, d + 1)
    size: Floats  # weights of both samples, (2,)

    def __sub__(self, other: _Moments) -> _Moments:
        return _Moments(
            self.A - other.A,
            self.b - other.b,
            self.squares - other.squares,
            self.size - other.size,
        )

    def means(self) -> tuple[Floats, Floats, Floats]:
        """A, b and the mean of psi psi' over both samples."""
        Q = (self.squares / self.size[:, None, None]).mean(axis=0)
        return self.A / self.size[1], self.b / self.size[0], Q


def _moments(outcomes: _Sample, treatments: _Sample) -> _Moments:
    z, w = (np.where(s.policy, s.weight, -s.weight) * s.label for s in (outcomes, treatments))
    squares = [(s.X.T * s.weight) @ s.X for s in (outcomes, treatments)]
    return _Moments(
        (treatments.X.T * w) @ treatments.X,
        outcomes.X.T @ z,
        np.array(squares),
        np.array([outcomes.weight.sum(), treatments.weight.sum()]),
    )


def _solve(
    moments: _Moments,
    r_f: float,
    r_g: float,
    path: list[tuple[float, float, float]] | None = None,
) -> MinimaxSolution:
    A, b, Q = moments.means()
    penalised = np.ones(len(b))
    penalised[-1] = 0.0
    # One-hot columns and an intercept leave directions that no row tells: take none along them.
    inverse = np.linalg.pinv(Q + r_g * np.diag(penalised), hermitian=True)
    inner = A @ inverse @ A.T + r_f * np.diag(penalised)
    alpha = 2 * np.linalg.pinv(inner, hermitian=True) @ (A @ inverse @ b)
    return MinimaxSolution(alpha, inverse @ (A.T @ alpha - 2 * b), r_f, r_g, path or [])


def _criterion(solution: MinimaxSolution, held_out: _Moments) -> float:
    """2 E[w f g] - 4 E[z g] - E[g^2] on rows that did not fit f and g."""
    A, b, Q = held_out.means()
    alpha, beta = solution.alpha, solution.beta
    return float(2 * alpha @ A @ beta - 4 * b @ beta - beta @ Q @ beta)


def _cross_validate(
    outcomes: _Sample,
    treatments: _Sample,
    whole: _Moments,
    grid: list[tuple[float, float]],
    n_folds: int,
    rng: Generator,
) -> list[tuple[float, float, float]]:
    """(r_f, r_g, mean held-out criterion) for each pair of the grid."""
    n_folds = check_whole(n_folds, "n_folds", 2)
    fewest = min(int(np.sum(s.policy == k)) for s in (outcomes, treatments) for k in (0, 1))
    if fewest < n_folds:
        raise ValueError(
            f"each policy should have at least {n_folds} rows of each label, one a fold, to choose "
            f"r_f and r_g; got {fewest}. Pass one number for each, or use fewer folds."
        )
    folds = [
        places_in_strata(s.policy.astype(np.intp), rng) % n_folds for s in (outcomes, treatments)
    ]
    total = np.zeros(len(grid))
    for k in range(n_folds):
        held_out = _moments(outcomes.take(folds[0] == k), treatments.take(folds[1] == k))
        rest = whole - held_out
        total += [_criterion(_solve(rest, *pair), held_out) for pair in grid]
    return [(*pair, float(value)) for pair, value in zip(grid, total / n_folds, strict=True)]


def _checked(sample: SeparateLabels, name: str) -> _Sample:
    X = check_array(sample.X, dtype=np.float64, input_name=f"{name}.X")
    label = check_column(sample.label, f"{name}.label", len(X), than=f"{name}.X")
    policy = check_mask(sample.policy, f"{name}.policy", len(X))
    weight = np.ones(len(X))
    if sample.weight is not None:
        weight = check_column(sample.weight, f"{name}.weight", len(X), than=f"{name}.X")
    shares = [float(weight[policy].sum()), float(weight[~policy].sum())]
    if min(shares) <= 0 or weight.min() < 0:
        raise ValueError(
            f"{name} should have rows of both policies with weights that are not negative, got "
            f"weights of {shares[0]:g} and {shares[1]:g}. An effect needs two policies; a trial "
            f"needs at least 2 rows in each arm, one to keep y and one to keep the treatment."
        )
    balanced = weight * np.where(policy, 0.5 / shares[0], 0.5 / shares[1])
    return _Sample(np.column_stack([X, np.ones(len(X))]), label, policy, balanced)


def _numbers(value: float | Sequence[float], name: str) -> list[float]:
    """One or several regularisation constants, none negative."""
    try:
        numbers = np.atleast_1d(np.asarray(value, dtype=np.float64))
    except (TypeError, ValueError):
        numbers = np.array([])
    if numbers.ndim != 1 or not numbers.size or not (np.isfinite(numbers) & (numbers >= 0)).all():
        raise ValueError(
            f"{name} should be a number that is not negative, or several; got {value!r}. "
            f"0.01 is usual for features scaled to [0, 1]."
        )
    return [float(number) for number in numbers]
