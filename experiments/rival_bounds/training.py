"""Bounds that read the training rows of a linear score and hold for every w at once.

All are about the conditional AUUC (``arms.py``): given treatments and outcomes the x of a class are
independent draws of one distribution. On real trials they are far too wide to be of use; they show
what a correct version of the paper's theorem costs. Margins: the tools of Usunier, Amini and
Gallinari (2005) and of Bartlett and Mendelson (2002); counting: Agarwal, Graepel, Herbrich,
Har-Peled and Roth (2005) and Freund, Iyer, Schapire and Singer (2003), constants from memory.

**Margin bound.** The ramp phi(u) = min(1, max(0, 1 - u / rho)) lies above the ranking loss of a
pair with margin u and has slope at most 1 / rho. Let R^_g be the mean of phi over the pairs of arm
g, m_g = min(m_g+, m_g-) and D_g the mean of ||x - x'||^2 over pairs. For a fixed Lambda and rho,
with probability at least 1 - delta, for all ||w|| <= Lambda,

    AUUC >= gamma - sum lam_g R^_g - (2 Lambda / rho) sum lam_g sqrt(D_g / m_g) - tail,

    D_g <= 4 R^2 known beforehand (||x|| <= R):  tail = sqrt(V ln(1 / delta) / 2),
    D_g taken from the rows:                     tail = 3 sqrt(V ln(2 / delta) / 2).

*Proof.* Let Z be the supremum over w of sum lam_g (R_g - R^_g), R_g the expectation of R^_g. A new
x moves Z by at most c_i, and sum c_i^2 = V, so Z <= E Z + sqrt(V ln(1 / delta) / 2) (McDiarmid).
R^_g is the average, over all ways to match the rarer class into the other, of means over m_g
*independent* pairs; by Jensen the expected supremum is at most that for m_g independent pairs,
hence at most 2 Rad(phi) (symmetrisation) <= (2 / rho) Rad(w.z) (contraction) <= (2 Lambda / rho)
sqrt(D_g / m_g) (Cauchy-Schwarz). For D_g from the rows: the empirical complexity of the losses,
averaged over matchings, moves by at most 1 / m_g+ or 1 / m_g- as well, so sum lam_g Rad_g exceeds
it by more than sqrt(V ln(2 / delta) / 2) with probability at most delta / 2; it enters twice, and Z
takes the other delta / 2. Contraction and Cauchy-Schwarz are then applied on the rows.

**Usunier's form** treats each arm on its own, at delta / 2, with D_g = 4 R^2.

**Bounds that count rankings** add sum lam_g B_g(delta / 2) with, for linear scores of d features,

    Agarwal:  B = sqrt(8 (m+ + m-) (ln r + ln(4 / delta)) / (m+ m-)),  ln r = d ln(8 e m+ m- / d)
    Freund:   B = sum over m in (m+, m-) of 2 sqrt((D (ln(2 m / D) + 1) + ln(18 / delta)) / m),
              D = d + 1.

*Agarwal's*: compare with a second sample of the same size (a factor 2, and eps / 2) and swap rows
between the two at random: a swap moves the difference of the two AUC by 2 / m+ or 2 / m-, so by
McDiarmid it exceeds eps / 2 with probability at most 2 exp(-eps^2 m+ m- / (8 (m+ + m-))) for one
ranking. The N = 4 m+ m- differences of rows have at most r sign patterns: replace each hyperplane
w.z = 0 by two parallel ones; 2 N hyperplanes cut R^d into at most (2 e N / d)^d regions.
*Freund's*: for a fixed negative row the positive rows are classified by a half-space, of VC
dimension D, and the other way round; this is Vapnik's inequality for each.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from auucmax._validation import Floats, ScoredRows
from auucmax.certificates.types import LowerBound
from auucmax.metrics.functions import auuc_score
from experiments.rival_bounds.arms import Arm, auuc_of_risks, binary_rows, class_rows


def margin_bound(
    y: ArrayLike,
    score: ArrayLike,
    *,
    treatment: ArrayLike,
    norm: float,
    rho: float,
    radius: float | None = None,
    X: Any = None,
    n_candidates: int = 1,
    delta: float = 0.05,
) -> LowerBound:
    """Conditional AUUC of a linear score, from its training rows, by margins (module docstring).

    What the paper's Theorem 1 with Proposition 2 becomes when it is made correct.

    Parameters
    ----------
    y, treatment : (n,) 0/1 outcome and treatment of the rows that the score was fitted on.
    score : (n,) their scores x.w; a constant added to all of them changes nothing.
    norm : Lambda, the bound on ||w||, fixed before looking at the rows.
    rho : the margin, fixed as well; only norm / rho matters once w is scaled.
    radius : R with ||x|| <= R for all rows that could come, known beforehand. Or else
    X : (n, d) the features that the scores were made from; their distances are then read off.
    n_candidates : number of (norm, rho) fixed beforehand, of which this one was chosen by looking
        at the rows: delta is divided among them.

    Examples
    --------
    >>> y, t = [1, 0] * 800, [1, 1, 0, 0] * 400
    >>> score = [1, -1, -1, 1] * 400  # x.w with x = 1 or -1 and w = 1: ranks every pair right
    >>> bound = margin_bound(y, score, treatment=t, norm=1, rho=2, radius=1)
    >>> bound.estimate, round(bound.lower, 4)
    (0.25, 0.1694)
    """
    rows, arms = binary_rows(y, score, treatment=treatment)
    level = delta / n_candidates
    distances = _squared_distances(rows, norm, radius, X)
    complexity = sum(
        arm.weight * np.sqrt(distance / arm.rarer)
        for arm, distance in zip(arms, distances, strict=True)
    )
    factor, log_term = (3, np.log(2 / level)) if radius is None else (1, np.log(1 / level))
    tail = factor * np.sqrt(sum(arm.weight / arm.size for arm in arms) * log_term / 2)
    lower = auuc_of_risks(arms, *_ramp_risks(rows, rho)) - 2 * norm / rho * complexity - tail
    return _lower_bound("margin", rows, float(lower), delta)


def usunier_bound(
    y: ArrayLike,
    score: ArrayLike,
    *,
    treatment: ArrayLike,
    norm: float,
    rho: float,
    radius: float,
    delta: float = 0.05,
) -> LowerBound:
    """Conditional AUUC by margins, each arm on its own; never better than :func:`margin_bound`.

        AUUC >= gamma - sum lam_g R^_g - usunier_penalty

    Parameters are those of :func:`margin_bound`.
    """
    rows, arms = binary_rows(y, score, treatment=treatment)
    penalty = usunier_penalty(arms, norm=norm, rho=rho, radius=radius, delta=delta)
    _check_spread(rows, 2 * norm * radius)
    lower = auuc_of_risks(arms, *_ramp_risks(rows, rho)) - penalty
    return _lower_bound("usunier", rows, lower, delta)


def usunier_penalty(
    arms: tuple[Arm, Arm], *, norm: float, rho: float, radius: float, delta: float = 0.05
) -> float:
    """sum lam_g {4 Lambda R / (rho sqrt(m_g)) + sqrt((1/m_g+ + 1/m_g-) ln(2/delta) / 2)}.

    >>> round(usunier_penalty((Arm(3238, 18149), Arm(2262, 19044)), norm=0.5, rho=1, radius=1), 4)
    0.0147
    """
    return _weighted(
        arms,
        lambda arm: (
            4 * norm * radius / (rho * np.sqrt(arm.rarer))
            + np.sqrt(arm.inverse_sizes * np.log(2 / delta) / 2)
        ),
    )


def agarwal_uniform_bound(
    y: ArrayLike, score: ArrayLike, *, treatment: ArrayLike, dimension: int, delta: float = 0.05
) -> LowerBound:
    """Conditional AUUC of a linear score of ``dimension`` features, by counting rankings."""
    rows, arms = binary_rows(y, score, treatment=treatment)
    gap = agarwal_uniform_gap(arms, dimension=dimension, delta=delta)
    return _lower_bound("agarwal-uniform", rows, _separate_auuc(rows) - gap, delta)


def agarwal_uniform_gap(arms: tuple[Arm, Arm], *, dimension: int, delta: float = 0.05) -> float:
    """sum lam_g sqrt(8 (m+ + m-) (d ln(8 e m+ m- / d) + ln(8 / delta)) / (m+ m-)).

    Differences of 2 m+ and 2 m- rows span at most 2 m+ + 2 m- - 1 dimensions: d is cut there.

    >>> round(agarwal_uniform_gap((Arm(3238, 18149), Arm(2262, 19044)), dimension=22), 3)
    0.256
    """

    def of_arm(arm: Arm) -> float:
        d = min(dimension, 2 * arm.size - 1)
        log_rankings = d * np.log(8 * np.e * arm.positive * arm.negative / d)
        return float(np.sqrt(8 * arm.inverse_sizes * (log_rankings + np.log(8 / delta))))

    return _weighted(arms, of_arm)


def freund_bound(
    y: ArrayLike, score: ArrayLike, *, treatment: ArrayLike, dimension: int, delta: float = 0.05
) -> LowerBound:
    """Conditional AUUC of a linear score of ``dimension`` features, by the VC dimension d + 1."""
    rows, arms = binary_rows(y, score, treatment=treatment)
    gap = freund_gap(arms, dimension=dimension, delta=delta)
    return _lower_bound("freund", rows, _separate_auuc(rows) - gap, delta)


def freund_gap(arms: tuple[Arm, Arm], *, dimension: int, delta: float = 0.05) -> float:
    """sum lam_g sum over m in (m_g+, m_g-) of 2 sqrt((D (ln(2m / D) + 1) + ln(36 / delta)) / m).

    Where 2 m < D every labelling may occur, and 2 m ln 2 stands for D (ln(2m / D) + 1).

    >>> round(freund_gap((Arm(3238, 18149), Arm(2262, 19044)), dimension=22), 3)
    0.152
    """
    vc = dimension + 1

    def of_class(m: float) -> float:
        log_labellings = vc * (np.log(2 * m / vc) + 1) if 2 * m >= vc else 2 * m * np.log(2)
        return float(2 * np.sqrt((log_labellings + np.log(36 / delta)) / m))

    return _weighted(arms, lambda arm: of_class(arm.positive) + of_class(arm.negative))


def ramp_risk(first: Floats, last: Floats, rho: float) -> float:
    """Mean of min(1, max(0, 1 - (a - b) / rho)) over all pairs a in ``first``, b in ``last``.

    Sorted, the scores b fall in three stretches for each a: above a (loss 1), within rho below it
    (linear, so a count and a sum are enough) and farther below (0). O(n log n); rounding is of the
    order 1e-16 (range of scores) / rho.

    >>> ramp_risk(np.array([1.0, 0.0]), np.array([0.5]), 1.0)
    0.75
    """
    centre = last.mean()
    first, last = first - centre, np.sort(last) - centre
    begin = np.searchsorted(last, first - rho, side="right")
    end = np.searchsorted(last, first, side="left")
    sums = np.concatenate([[0.0], np.cumsum(last)])
    within = end - begin
    linear = within * (1 - first / rho) + (sums[end] - sums[begin]) / rho
    losses = len(last) - end + np.clip(linear, 0, within)
    return float(losses.mean() / len(last))


def _ramp_risks(rows: ScoredRows, rho: float) -> tuple[float, float]:
    """R^_T and R^_C; among the controls the rows with y = 0 should come first."""
    treated, control = class_rows(rows)
    return (
        ramp_risk(rows.score[treated.positive], rows.score[treated.negative], rho),
        ramp_risk(rows.score[control.negative], rows.score[control.positive], rho),
    )


def _squared_distances(rows: ScoredRows, norm: float, radius: float | None, X: Any) -> list[float]:
    """D_T and D_C: 4 R^2 if a radius was known, else the means over the pairs of rows."""
    if (radius is None) == (X is None):
        raise ValueError("exactly one of radius and X should be given, got both or neither.")
    if radius is not None:
        _check_spread(rows, 2 * norm * radius)
        return [4 * radius**2] * 2
    matrix = np.asarray(X, dtype=np.float64)
    farthest = np.linalg.norm(matrix - matrix.mean(axis=0), axis=1).max()
    _check_spread(rows, 2 * norm * float(farthest))
    return [_mean_squared_distance(*(matrix[c] for c in arm)) for arm in class_rows(rows)]


def _mean_squared_distance(a: Floats, b: Floats) -> float:
    """Mean of ||x - x'||^2 over all pairs of rows of a and b: two variances and a distance."""
    gap = a.mean(axis=0) - b.mean(axis=0)
    return float(a.var(axis=0).sum() + b.var(axis=0).sum() + gap @ gap)


def _weighted(arms: tuple[Arm, Arm], of_arm: Callable[[Arm], float]) -> float:
    return float(sum(arm.weight * of_arm(arm) for arm in arms))


def _separate_auuc(rows: ScoredRows) -> float:
    return auuc_score(rows.y, rows.score, treatment=rows.treated, ranking="separate")


def _lower_bound(name: str, rows: ScoredRows, lower: float, delta: float) -> LowerBound:
    return LowerBound(name, lower=lower, estimate=_separate_auuc(rows), delta=delta)


def _check_spread(rows: ScoredRows, largest: float) -> None:
    """Scores of a linear function within the stated norm cannot lie farther apart than this."""
    spread = float(rows.score.max() - rows.score.min())
    if spread > largest * (1 + 1e-9):
        raise ValueError(
            f"score should be x.w with ||w|| <= norm, so spread at most {largest:g}; got "
            f"{spread:g}. Pass the scores of the linear model itself, or a larger norm or radius."
        )
