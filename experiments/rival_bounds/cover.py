"""Fractional covers of the pairs that a ranking is judged on, and Proposition 2.

The m+ m- pairs (positive row i, negative row j) of an arm are not independent: two pairs depend on
each other when they share a row. That graph has a *fractional cover* by sets of independent pairs
(Definition 2 of arXiv 2012.09897). With M = max(m+, m-) and m = min(m+, m-), cyclic shifts do it:

    C_k = {(i, i + k mod M) : i = 0, ..., m - 1},   k = 0, ..., M - 1   (i in the smaller class),

each with weight 1: no set uses a row twice, and every pair lies in exactly one set. The total
weight M is the least possible: the M pairs of one row of the smaller class all share that row, so a
set holds at most one of them, and they need total weight M. So the fractional chromatic number is
max(m+, m-), and the pairs are worth m+ m- / M = min(m+, m-) independent ones.

The *local fractional Rademacher complexity* (Definition 3) of the linear scores ||w|| <= Lambda
with variance at most r, on pairs z = x_i - x_j, is

    Rad = 1 / (m+ m-) E sum_k sup_w sum over pairs of C_k of sigma_ij w.z_ij
        = E over k and signs of sup_w w.g / m,    g = sum over pairs of C_k of sigma_ij z_ij.

Without the variance constraint the supremum is Lambda ||g||; with it, it is the smallest
value of sqrt(g' [t I / Lambda^2 + (1 - t) C / r]^-1 g) over t in [0, 1], C the covariance of z (the
dual of a linear function over the intersection of two ellipsoids). Definition 3 also takes the
expectation over x; here the rows are held fixed, as in the *empirical* complexity.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from auucmax._validation import Floats
from experiments.rival_bounds.arms import ClassRows, binary_rows, class_rows


class FractionalCover(NamedTuple):
    """``pairs[k]`` (m, 2) are the pairs (positive row, negative row) of set k, of weight[k]."""

    pairs: NDArray[np.intp]
    weights: Floats


class RademacherEstimate(NamedTuple):
    """A Monte-Carlo mean and its standard error."""

    value: float
    standard_error: float


def fractional_cover(m_pos: int, m_neg: int) -> FractionalCover:
    """An exact proper fractional cover of the m_pos m_neg pairs, of least weight (Definition 2).

    Returns ``pairs`` (M, m, 2) and ``weights`` (M,), M the larger and m the smaller count: all
    pairs, so memory grows with their number.

    >>> fractional_cover(1, 2)
    FractionalCover(pairs=array([[[0, 0]], [[0, 1]]]), weights=array([1., 1.]))
    """
    n_sets = fractional_chromatic_number(m_pos, m_neg)
    pairs = np.stack([_independent_pairs(m_pos, m_neg, shift) for shift in range(n_sets)])
    return FractionalCover(pairs, np.ones(n_sets))


def fractional_chromatic_number(m_pos: int, m_neg: int) -> int:
    """The least total weight of a fractional cover of the pairs: max(m_pos, m_neg).

    >>> fractional_chromatic_number(3238, 18149)
    18149
    """
    return max(m_pos, m_neg)


def _independent_pairs(m_pos: int, m_neg: int, shift: int) -> NDArray[np.intp]:
    """Set number ``shift`` of the cover: (min(m_pos, m_neg), 2) pairs that share no row."""
    small = np.arange(min(m_pos, m_neg))
    large = (small + shift) % max(m_pos, m_neg)
    return np.column_stack((small, large) if m_pos <= m_neg else (large, small))


def local_fractional_rademacher(
    X: Any,
    y: ArrayLike,
    *,
    treatment: ArrayLike,
    norm: float,
    arm: str = "treated",
    variance: float | None = None,
    n_draws: int = 200,
    random_state: int | np.random.Generator | None = None,
) -> RademacherEstimate:
    """Complexity of Definition 3 for linear scores on one arm's pairs, by Monte Carlo.

    Each draw takes a set of the cover and signs at random, O(m d); the sum over the cover is the
    mean over its sets, which is why one set a draw is enough. Flipping the labels of the control
    arm changes nothing: the signs are symmetric.

    Parameters
    ----------
    X, y, treatment : features (n, d), 0/1 outcome and treatment (n,).
    norm : Lambda, the bound on ||w||.
    arm : ``"treated"`` or ``"control"``.
    variance : r, the bound on the variance of w.z over the arm's pairs, as the rows show it. None
        leaves it out, as r = (Lambda ||x - x'||)^2 would: the constraint never binds then.
    n_draws : sets of the cover that are drawn, at least 2.

    Examples
    --------
    >>> X, y, t = [[1.0], [-1.0], [1.0], [-1.0]], [1, 0, 1, 0], [1, 1, 0, 0]
    >>> local_fractional_rademacher(X, y, treatment=t, norm=3)  # one pair, |z| = 2
    RademacherEstimate(value=6.0, standard_error=0.0)
    """
    matrix = np.asarray(X, dtype=np.float64)
    rows, _ = binary_rows(y, matrix[:, 0], treatment=treatment)
    classes = class_rows(rows)[("treated", "control").index(arm)]
    g = _signed_sums(matrix, classes, n_draws, np.random.default_rng(random_state))
    if variance is None:
        sup = norm * np.linalg.norm(g, axis=1)
    else:
        covariance = sum(np.cov(matrix[c].T, bias=True) for c in classes)
        sup = _sup_over_ball_and_ellipsoid(g, norm, np.atleast_2d(covariance), variance)
    values = sup / min(map(len, classes))
    return RademacherEstimate(float(values.mean()), float(values.std(ddof=1) / np.sqrt(n_draws)))


def _signed_sums(X: Floats, classes: ClassRows, n_draws: int, rng: np.random.Generator) -> Floats:
    """g (n_draws, d): sums of sigma z over a random set of the cover."""
    counts = len(classes.positive), len(classes.negative)
    sums = np.empty((n_draws, X.shape[1]))
    for draw in range(n_draws):
        pairs = _independent_pairs(*counts, int(rng.integers(max(counts))))
        signs = rng.choice((-1.0, 1.0), len(pairs))
        positive, negative = classes.positive[pairs[:, 0]], classes.negative[pairs[:, 1]]
        sums[draw] = signs @ X[positive] - signs @ X[negative]
    return sums


def _sup_over_ball_and_ellipsoid(
    g: Floats, norm: float, covariance: Floats, variance: float
) -> Floats:
    """sup of w.g over ||w|| <= norm, w' C w <= variance, for each row of g."""
    if norm == 0:
        return np.zeros(len(g))
    size, axes = np.linalg.eigh(covariance)
    squares = (g @ axes) ** 2
    ball, ellipsoid = 1 / norm**2, np.maximum(size, 0) / variance

    def weights(t: Floats) -> Floats:
        return 1 / (t[:, None] * ball + (1 - t[:, None]) * ellipsoid)

    # Convex in t: bisect on the sign of the derivative. Every t gives an upper bound, t = 0
    # possibly an infinite one.
    low, high = np.zeros(len(g)), np.ones(len(g))
    for _ in range(60):
        middle = (low + high) / 2
        falls = (squares * weights(middle) ** 2 * (ball - ellipsoid)).sum(axis=1) > 0
        low, high = np.where(falls, middle, low), np.where(falls, high, middle)
    return np.sqrt((squares * weights(high)).sum(axis=1))


def proposition2_printed(m: float, *, norm: float, radius: float, delta: float = 0.05) -> float:
    """What Proposition 2 prints: Lambda R / sqrt(m) + sqrt(ln(2 / delta) / (2 m)).

    It is not a bound on the complexity of Definition 3: a difference of two rows may be 2 R long,
    and the second term is that of a class with values in [0, 1], whatever Lambda R is.

    >>> round(proposition2_printed(3238, norm=0.5, radius=1), 4)
    0.0327
    """
    return float(norm * radius / np.sqrt(m) + np.sqrt(np.log(2 / delta) / (2 * m)))


def proposition2_corrected(m: float, *, norm: float, radius: float) -> float:
    """What should stand there: 4 Lambda R / sqrt(m), for every sample with ||x|| <= R.

    By Cauchy-Schwarz Definition 3 is at most Lambda sqrt(E||z||^2 / m) <= 2 Lambda R / sqrt(m), a
    factor of 2 for pairs. Symmetrisation puts *twice* the complexity into a bound on a risk, and
    Definition 3 leaves this 2 out; hence the 4. No confidence is spent when R is known beforehand.

    >>> round(proposition2_corrected(3238, norm=0.5, radius=1), 4)
    0.0351
    """
    return float(4 * norm * radius / np.sqrt(m))
