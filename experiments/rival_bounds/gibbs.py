"""The randomised linear scorer: its AUC, in expectation over the draw of the weights.

w is drawn once from N(mu u, I), u a unit vector, and ranks people by x.w. It puts x above x' with
probability Phi(mu cos), cos = u.(x - x') / ||x - x'||, and 1/2 if x = x'. So the expectation of an
arm's AUC is a mean over its pairs of a positive and a negative row. Three ways to it:

* ``"pairs"``: the mean over pairs taken at random, O(n_samples d);
* ``"draws"``: the mean over draws of w of the AUC that they give, O(n_samples n (d + log n));
* ``"exact"``: the sum over all pairs, O(n^2 d), the slow twin of the other two.

For the same time "pairs" is by far the closest: each pair is integrated over w exactly, and a
million of them cost as much as some tens of draws.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike
from scipy.special import ndtr

from auucmax._validation import Floats, ScoredRows, check_choice, check_column, check_whole
from auucmax.metrics.ranking import sorted_rows
from experiments.rival_bounds.arms import Arm, binary_rows, check_features, check_size, class_rows

N_SAMPLES = {"pairs": 1_000_000, "draws": 1000, "exact": 0}
_BLOCK = 8192  # pairs whose differences stay in the cache


@dataclass(frozen=True)
class LinearRows:
    """Checked rows (``rows.score`` is x.u), their features and the unit vector u."""

    rows: ScoredRows
    arms: tuple[Arm, Arm]
    X: Floats
    direction: Floats


class GibbsAUC(NamedTuple):
    """Expected AUC of the treated and of the control arm (2,), for each mu.

    They are means of ``size`` samples with values in [0, 1]; infinity if nothing was sampled. The
    arms' samples are ``independent``, or not.
    """

    aucs: dict[float, Floats]
    size: float
    independent: bool

    def error(self, factors: Floats, delta: float) -> float:
        """Hoeffding: the sum of +-factor x AUC is off by more, to one side, with probability delta.

        Independent arms add in quadrature; otherwise a sample of the sum has a range of the sum of
        the factors.
        """
        if np.isinf(self.size):
            return 0.0
        spread = np.sqrt((factors**2).sum()) if self.independent else factors.sum()
        return float(spread * np.sqrt(np.log(1 / delta) / (2 * self.size)))


def linear_rows(
    y: ArrayLike, X: Any, *, treatment: ArrayLike, w: ArrayLike, control: Any = None
) -> LinearRows:
    """Check the rows of a linear score with a 0/1 outcome, and its weights."""
    matrix = check_features(X)
    weights = check_column(w, "w")
    length = float(np.linalg.norm(weights))
    if len(weights) != matrix.shape[1] or length == 0:
        raise ValueError(
            f"w should hold a weight for each of the {matrix.shape[1]} columns of X, not all zero; "
            f"got {len(weights)}{'' if length else ' zeros'}. Pass the trained weights, such as "
            f"model.coef_."
        )
    direction = weights / length
    rows, arms = binary_rows(y, matrix @ direction, treatment=treatment, control=control)
    return LinearRows(rows, arms, matrix, direction)


def gibbs_auc(
    linear: LinearRows,
    mu: float | ArrayLike,
    *,
    integration: str = "pairs",
    n_samples: int | None = None,
    random_state: int | Generator | None = None,
) -> GibbsAUC:
    """Expected AUC of both arms over w ~ N(mu u, I), for one mu or several.

    >>> rows = linear_rows([1, 0, 1, 0], [[1], [0], [2], [2]], treatment=[1, 1, 0, 0], w=[3])
    >>> gibbs_auc(rows, 1.0, integration="exact").aucs  # Phi(1), and a tie
    {1.0: array([0.84134475, 0.5       ])}
    """
    check_choice(integration, "integration", N_SAMPLES)
    size = N_SAMPLES[integration] if n_samples is None else check_whole(n_samples, "n_samples", 1)
    mus, rng = _check_mu(mu), np.random.default_rng(random_state)
    if integration == "draws":
        # The same noise for every mu: all their errors are paid for one by one anyway.
        aucs = np.mean([_aucs_of_draw(linear, mus, rng) for _ in range(size)], axis=0)
        return GibbsAUC(dict(zip(mus, aucs, strict=True)), size, independent=False)
    totals = np.zeros((len(mus), 2))
    for arm, classes in enumerate(class_rows(linear.rows)):
        positive, negative = (linear.X[index] for index in classes)
        blocks = (
            _all_differences(positive, negative)
            if integration == "exact"
            else _some_differences(positive, negative, size, rng)
        )
        n_pairs = len(positive) * len(negative) if integration == "exact" else size
        for block in blocks:
            cosines = _cosines(block, linear.direction)
            totals[:, arm] += [ndtr(value * cosines).sum() for value in mus]
        totals[:, arm] /= n_pairs
    aucs_of = dict(zip(mus, totals, strict=True))
    return GibbsAUC(aucs_of, np.inf if integration == "exact" else size, independent=True)


def gibbs_auuc_slow(
    y: ArrayLike, X: Any, *, treatment: ArrayLike, w: ArrayLike, mu: float, control: Any = None
) -> float:
    """Expectation over w ~ N(mu w / ||w||, I) of AUUC, arms ranked separately; all pairs, O(n^2).

    >>> gibbs_auuc_slow([1, 0, 1, 0], [[1], [1], [2], [2]], treatment=[1, 1, 0, 0], w=[1], mu=3)
    0.0
    """
    linear = linear_rows(y, X, treatment=treatment, w=w, control=control)
    (aucs,) = gibbs_auc(linear, mu, integration="exact").aucs.values()
    return auuc_of_aucs(linear.arms, aucs)


def auuc_of_aucs(arms: tuple[Arm, Arm], aucs: Floats, *, unbiased: bool = False) -> float:
    """AUUC, arms ranked separately, with these AUC of the treated and the control arm.

    An arm's area is the mean of y 1{f > f'} (ties 1/2) over all n^2 ordered pairs of its rows; if
    ``unbiased``, over the n (n - 1) pairs of different rows. Of two positive rows one always comes
    first, so that pairs of positives add a constant.

    >>> auuc_of_aucs((Arm(1, 1), Arm(1, 1)), np.array([1.0, 0.5]))
    0.125
    """
    own = 1 if unbiased else 0
    treated, control = (
        (arm.positive * arm.negative * auc + arm.positive * (arm.positive - own) / 2)
        / (arm.size * (arm.size - own))
        for arm, auc in zip(arms, aucs, strict=True)
    )
    return float(treated - control)


def _check_mu(mu: float | ArrayLike) -> list[float]:
    try:
        mus = np.atleast_1d(np.asarray(mu, dtype=np.float64))
    except (TypeError, ValueError):
        mus = np.array([])
    if mus.ndim != 1 or len(mus) == 0:
        raise ValueError(
            f"mu should be a number of at least 0 or a list of them, got {mu!r}. Pass mu=4, for "
            f"example."
        )
    for value in mus:
        check_size(float(value), "mu")
    return [float(value) for value in np.unique(mus)]


def _cosines(differences: Floats, direction: Floats) -> Floats:
    """u.z / ||z||, 0 where z = 0."""
    lengths = np.sqrt(np.einsum("ij,ij->i", differences, differences))
    along = differences @ direction
    return np.divide(along, lengths, out=np.zeros_like(along), where=lengths > 0)


def _all_differences(positive: Floats, negative: Floats) -> Iterator[Floats]:
    for x in positive:
        yield x - negative


def _some_differences(
    positive: Floats, negative: Floats, n_pairs: int, rng: Generator
) -> Iterator[Floats]:
    """Pairs with replacement: given the rows, independent draws of one distribution."""
    for start in range(0, n_pairs, _BLOCK):
        size = min(_BLOCK, n_pairs - start)
        first, second = (
            rng.integers(len(positive), size=size),
            rng.integers(len(negative), size=size),
        )
        yield positive[first] - negative[second]


def _aucs_of_draw(linear: LinearRows, mus: list[float], rng: Generator) -> Floats:
    """AUC (len(mus), 2) of the two arms for one draw of w, shifted by each mu."""
    noise = _scores(linear.X, rng.standard_normal(len(linear.direction)))
    along = _scores(linear.X, linear.direction)
    return np.array([_aucs(linear, noise + value * along) for value in mus])


def _scores(X: Floats, w: Floats) -> Floats:
    """X w, column by column: equal rows get equal scores to the last bit, so they stay tied."""
    scores = np.zeros(len(X))
    for k in range(len(w)):
        scores += w[k] * X[:, k]
    return scores


def _aucs(linear: LinearRows, score: Floats) -> list[float]:
    parts = sorted_rows(linear.rows._replace(score=score)).parts("separate")
    areas = [abs(part.area()) for part in parts]
    return [
        (area - arm.rate**2 / 2) / arm.weight for area, arm in zip(areas, linear.arms, strict=True)
    ]
