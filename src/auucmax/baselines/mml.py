"""MML: a linear score from separate labels, by minimax in closed form (Yamane et al. 2018)."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from auucmax._validation import Bools, Floats, check_choice, check_positive
from auucmax.data.folds import places_in_strata
from auucmax.estimators.scaling import SCALES, LinearScore, fit_scaling

DESIGNS = ("pure-arms", "joint")


class SeparateLabels(NamedTuple):
    """A sample of (x, label) rows under two policies; the label is the outcome or the treatment.

    ``policy`` is True for rows that were collected under policy 1, False under policy 2. Policies
    treat different shares of people, of the same population.
    """

    X: Floats
    label: Floats | Bools
    policy: Bools
    weight: Floats


@dataclass(frozen=True)
class MinimaxSolution:
    """Coefficients (d + 1,) of the score, alpha, and of the dual function, beta."""

    alpha: Floats
    beta: Floats


@dataclass(eq=False, repr=False)
class MinimaxLinear(LinearScore):
    """MML: uplift when outcome and treatment are never seen together (Yamane et al. 2018).

    Solves, for linear f and g with an intercept,

        min over f, max over g of  2 E[w f g] - 4 E[z g] - E[g^2] + r_f |f|^2 - r_g |g|^2

    (squared norms of coefficients, intercepts left out). Rows come from two policies that treat
    different shares; z = y and w = t under policy 1, z = -y and w = -t under policy 2, t = 1 or -1.
    The score f estimates 2 E[z | x] / E[w | x], the uplift. See :func:`minimax_linear`, which
    takes samples whose labels are truly separate.

    Here the rows of an ordinary trial are made into such samples:

    * "pure-arms": treated rows are policy 1, control rows policy 2; half of the rows of each arm,
      drawn at random, keep y and lose the treatment, the other half keep the treatment and lose y;
    * "joint": every row keeps both labels. Not what the method is for: without regularisation, and
      with arms equally large, it is the least squares of
      :class:`~auucmax.estimators.meta.TransformedOutcome`.

    So half the outcomes are thrown away, by design: with a trial in hand, prefer another model.

    Parameters
    ----------
    design : "pure-arms" or "joint".
    r_f, r_g : regularisation of f and g, 0 or more.
    scale : "min-max", "column-l2" (columns of unit norm), "unit-rows" or "none". Part of the model.
    random_state : seed of the samples.
    control : label of the control group, when treatment is not 0/1.

    Attributes
    ----------
    coef_, intercept_ : in the units of X: scores are X @ coef_ + intercept_. ("unit-rows": of the
        normalised rows.)
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

    _: KW_ONLY
    design: str = "pure-arms"
    r_f: float = 0.01
    r_g: float = 0.01
    scale: str = "min-max"
    random_state: int | Generator | None = None

    def _fit(
        self, X: NDArray[Any], y: Floats, treated: Bools, sample_weight: Floats | None
    ) -> None:
        check_choice(self.design, "design", DESIGNS)
        check_choice(self.scale, "scale", SCALES)
        usual = "0.01 is usual for features scaled to [0, 1]."
        r_f = check_positive(self.r_f, "r_f", usual, or_zero=True)
        r_g = check_positive(self.r_g, "r_g", usual, or_zero=True)
        rng = np.random.default_rng(self.random_state)
        gives_y = gives_t = np.ones(len(y), dtype=bool)
        if self.design == "pure-arms":
            rng.permutation(len(y))  # keeps the samples of published tables for each seed
            gives_y = places_in_strata(treated.astype(np.intp), rng) % 2 == 0
            gives_t = ~gives_y
        scaling = fit_scaling(X, self.scale, sample_weight)
        rows = scaling.scaled(X)
        weight = np.ones(len(y)) if sample_weight is None else sample_weight
        self.solution_ = minimax_linear(
            SeparateLabels(rows[gives_y], y[gives_y], treated[gives_y], weight[gives_y]),
            SeparateLabels(rows[gives_t], treated[gives_t], treated[gives_t], weight[gives_t]),
            r_f=r_f,
            r_g=r_g,
        )
        self._set_score(scaling, self.solution_.alpha[:-1], self.solution_.alpha[-1])
        self.n_parameters_ = 2 * len(self.solution_.alpha)


def minimax_linear(
    outcomes: SeparateLabels, treatments: SeparateLabels, *, r_f: float = 0.01, r_g: float = 0.01
) -> MinimaxSolution:
    """The linear uplift from a sample of (x, y, policy) and another of (x, t, policy).

    With z = y or -y, w = t or -t (policy 1 or 2; t = 1 or -1), psi = (x, 1), N_z and N_w rows,

        A = mean of w psi psi',   b = mean of z psi,   D = diag(1, ..., 1, 0),
        Q = (mean of psi psi' over the first sample + over the second) / 2 + r_g D,
        alpha = 2 (A Q^-1 A' + r_f D)^-1 A Q^-1 b,   beta = Q^-1 (A' alpha - 2 b).

    The two policies count equally in each mean, whatever their numbers of rows. The intercepts
    are not penalised; scale the features beforehand. ``outcomes`` has y, and ``treatments`` 0/1 or
    boolean treatments, as labels.

    Examples
    --------
    The effect is 1 + x, and nobody has both labels. Policy 1 treats 80%, policy 2 30%:

    >>> rng = np.random.default_rng(0)
    >>> x, policy = rng.normal(size=(40_000, 1)), rng.random(40_000) < 0.5
    >>> t = rng.random(40_000) < np.where(policy, 0.8, 0.3)
    >>> y, one = t * (1 + x[:, 0]) + 0.1 * rng.normal(size=40_000), np.ones(20_000)
    >>> first = SeparateLabels(x[:20_000], y[:20_000], policy[:20_000], one)
    >>> second = SeparateLabels(x[20_000:], t[20_000:], policy[20_000:], one)
    >>> minimax_linear(first, second, r_f=0, r_g=0).alpha.round(1).tolist()
    [1.0, 1.0]
    """
    first, first_weight = _with_intercept(outcomes), _balanced_weight(outcomes)
    second, second_weight = _with_intercept(treatments), _balanced_weight(treatments)
    z = np.where(outcomes.policy, first_weight, -first_weight) * outcomes.label
    w = np.where(treatments.policy, second_weight, -second_weight) * np.where(
        treatments.label, 1.0, -1.0
    )
    # Weights sum to 1 up to rounding, which the division removes.
    n_first, n_second = first_weight.sum(), second_weight.sum()
    A, b = (second.T * w) @ second / n_second, first.T @ z / n_first
    squares = (first.T * first_weight) @ first / n_first
    Q = (squares + (second.T * second_weight) @ second / n_second) / 2
    penalised = np.ones(len(b))
    penalised[-1] = 0.0
    # One-hot columns and an intercept leave undetermined directions: take no step along them.
    inverse = np.linalg.pinv(Q + r_g * np.diag(penalised), hermitian=True)
    inner = A @ inverse @ A.T + r_f * np.diag(penalised)
    alpha = 2 * np.linalg.pinv(inner, hermitian=True) @ (A @ inverse @ b)
    return MinimaxSolution(alpha, inverse @ (A.T @ alpha - 2 * b))


def _with_intercept(sample: SeparateLabels) -> Floats:
    return np.column_stack([sample.X, np.ones(len(sample.X))])


def _balanced_weight(sample: SeparateLabels) -> Floats:
    """Weights that sum to 1/2 in each policy."""
    weight, policy = sample.weight, sample.policy
    shares = [float(weight[policy].sum()), float(weight[~policy].sum())]
    if min(shares) <= 0:
        raise ValueError(
            "each arm should have at least 2 rows, one to keep y and one to keep the treatment, "
            "got fewer. Use another model, or more rows."
        )
    return weight * np.where(policy, 0.5 / shares[0], 0.5 / shares[1])
