"""Lower bounds on AUUC and on the gain over random, from held-out rows, for a score fixed before.

Given who was treated, the rows should be independent, those of an arm alike, and x of the same law
in both arms: a randomised trial, the held-out rows split off at random or by treatment (not by
outcome: class counts must be left to chance). With G(s) = P(f < s) + P(f = s) / 2 in the
population and a centre c of 0 for AUUC, 1/2 for the gain over random, AUUC - ATE/2, all but the
conditional bounds speak of

    theta = theta_T - theta_C,    theta_g = E[Y (G(f) - c) | arm g].

*Conditional* bounds take the class counts as given: theta_g = lam_g A_g + p_g^2 / 2 - c p_g with
the sample's rate p_g and lam_g = p_g (1 - p_g), and the population's AUC A_g, the probability that
a responder of the arm ranks above a non-responder. They say nothing of the error of the rates.

Choosing the best of ``n_candidates`` scores on these rows is allowed: delta is divided among them,
so that all their bounds hold together. Each ``estimate`` is the one that the bound subtracts from;
for large n they are all ``auuc_score``. Bounds with a proof have no condition on n.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from auucmax._validation import check_groups, check_level, check_treatment, check_whole
from auucmax.bounds.bernstein import block_bernstein_bound, dkw_bernstein_bound
from auucmax.bounds.lower_bound import LowerBound
from auucmax.bounds.registry import Bound
from auucmax.bounds.setting import (
    ArmArea,
    Target,
    binary_arms,
    centre_of,
    held_out_rows,
    log_inverse,
    lower_bound,
    rate_limits,
    separate_arms,
)
from auucmax.evaluation.inference import Units, interval_around
from auucmax.evaluation.metrics import auuc_inference

__all__ = [
    "HOLDOUT_BOUNDS",
    "agarwal_fixed_bound",
    "asymptotic_bound",
    "block_bernstein_bound",
    "dkw_bernstein_bound",
    "mcdiarmid_bound",
    "mcdiarmid_conditional_bound",
    "per_class_bound",
]


def mcdiarmid_bound(
    y: ArrayLike,
    score: ArrayLike,
    *,
    treatment: ArrayLike,
    target: Target = "auuc",
    delta: float = 0.05,
    n_candidates: int = 1,
    outcome_range: tuple[float, float] = (0.0, 1.0),
    control: Any = None,
) -> LowerBound:
    """Population AUUC, or gain, by bounded differences: the simplest bound that holds.

    With h_ij = 1 if f_i > f_j, 1/2 if they tie and 0 otherwise, the estimate of theta_g is

        sum over i != j in arm g of y_i (h_ij - c) / (n_g (n_g - 1)),

    and gap = (range of y) sqrt((1/n_T + 1/n_C) ln(n_candidates / delta) / 2).

    *Proof*, y in [0, 1]. Given row i, h_ij has mean G(f_i) for every other row j, so the estimate
    is unbiased. Replacing row k changes the n_g - 1 sums y_k (h_kj - c) + y_j (h_jk - c); as
    h_jk = 1 - h_kj, each is a mixture of y_k and y_j (c = 0) or (y_k - y_j)(h_kj - 1/2) (c = 1/2),
    which for a given row j lies in an interval of length 1. So the estimate moves by at most 1/n_g,
    the squares sum to 1/n_T + 1/n_C, and McDiarmid's inequality gives the gap.

    Ranks are taken inside the arms for this reason: with all rows ranked together a row also moves
    the ranks of the other arm, up to 1/n_g + 1/(n - 1) in all, half as much again when arms are
    balanced. A row is compared with others only: counting its own rank as half, as AUUC on a
    sample does, would bias the estimate by the gain over n.

    Parameters
    ----------
    y : (n,) outcomes in ``outcome_range``, the range that was known before the rows.
    score : (n,) scores fixed before these rows; treatment : (n,) as in ``auuc_score``.
    target : ``"auuc"`` or ``"gain"`` (over random).
    delta : allowed probability that ``lower`` exceeds the target.
    n_candidates : number of scores from which this one was chosen by looking at these rows.

    Examples
    --------
    >>> y, score, treatment = [1, 1, 0, 1, 0, 0], [6, 5, 4, 3, 2, 1], [1, 1, 1, 0, 0, 0]
    >>> bound = mcdiarmid_bound(y, score, treatment=treatment)
    >>> round(bound.estimate, 4), round(bound.gap, 4)
    (0.1667, 0.9993)
    """
    centre = centre_of(target)
    rows, scale = held_out_rows(
        y, score, treatment=treatment, control=control, outcome_range=outcome_range
    )
    return mcdiarmid_of_arms(*separate_arms(rows), centre, scale, delta, n_candidates)


def mcdiarmid_of_arms(
    treated: ArmArea,
    untreated: ArmArea,
    centre: float,
    scale: float,
    delta: float,
    n_candidates: int,
) -> LowerBound:
    """The bound of :func:`mcdiarmid_bound`, from what it needs of y scaled to [0, 1]."""
    log_term = log_inverse(delta, n_candidates)
    estimate = treated.unbiased_area(centre) - untreated.unbiased_area(centre)
    gap = np.sqrt((1 / treated.n_rows + 1 / untreated.n_rows) * log_term / 2)
    return lower_bound("mcdiarmid", scale * estimate, scale * gap, delta)


def mcdiarmid_conditional_bound(
    y: ArrayLike,
    score: ArrayLike,
    *,
    treatment: ArrayLike,
    target: Target = "auuc",
    delta: float = 0.05,
    n_candidates: int = 1,
    control: Any = None,
) -> LowerBound:
    """AUUC, or gain, given the class counts, by bounded differences; y is 0 or 1.

    The estimate is that of ``auuc_score(..., ranking="separate")`` (Proposition 1 of the paper) and
    gap = sqrt(V ln(n_candidates / delta) / 2), V = lam_T / n_T + lam_C / n_C.

    *Proof.* Given t and y the x are independent, and an arm's AUC is a mean over pairs of a
    responder and a non-responder, m_g+ m_g- of them, so it is unbiased. Replacing the x of a
    responder moves it by at most 1/m_g+, of a non-responder 1/m_g-; times lam_g = m_g+ m_g- / n_g^2
    the squares sum to lam_g^2 (1/m_g+ + 1/m_g-) = lam_g / n_g. McDiarmid's inequality.

    Examples
    --------
    >>> from auucmax import load_hillstrom
    >>> trial = load_hillstrom()
    >>> score = trial.X["womens"]
    >>> bound = mcdiarmid_conditional_bound(trial.y, score, treatment=trial.treatment)
    >>> round(bound.gap, 5), round(bound.lower, 4)
    (0.00396, 0.0263)
    """
    centre, log_term = centre_of(target), log_inverse(delta, n_candidates)
    arms = binary_arms(y, score, treatment=treatment, control=control)
    gap = np.sqrt(sum(arm.spread / arm.n_rows for arm in arms) * log_term / 2)
    return lower_bound("mcdiarmid-conditional", _difference(arms, centre), gap, delta)


def agarwal_fixed_bound(
    y: ArrayLike,
    score: ArrayLike,
    *,
    treatment: ArrayLike,
    target: Target = "auuc",
    delta: float = 0.05,
    n_candidates: int = 1,
    control: Any = None,
) -> LowerBound:
    """AUUC, or gain, given the class counts, from one bound for the AUC of each arm; y is 0 or 1.

    gap = sum over arms of lam_g sqrt((1/m_g+ + 1/m_g-) ln(2 n_candidates / delta) / 2): the
    inequality of Agarwal et al. (2005) for a fixed score, one-sided, delta/2 an arm. Valid by the
    proof of :func:`mcdiarmid_conditional_bound`, whose gap is smaller: there the arms add in
    quadrature and share one delta.

    Examples
    --------
    >>> from auucmax import load_hillstrom
    >>> trial = load_hillstrom()
    >>> score = trial.X["womens"]
    >>> round(agarwal_fixed_bound(trial.y, score, treatment=trial.treatment).gap, 5)
    0.00619
    """
    centre, log_term = centre_of(target), log_inverse(delta, n_candidates, parts=2)
    arms = binary_arms(y, score, treatment=treatment, control=control)
    # lam_g^2 (1/m_g+ + 1/m_g-) = lam_g / n_g, which is 0 for an arm with one class: no pairs.
    gap = sum(np.sqrt(arm.spread / arm.n_rows * log_term / 2) for arm in arms)
    return lower_bound("agarwal-fixed", _difference(arms, centre), gap, delta)


def per_class_bound(
    y: ArrayLike,
    score: ArrayLike,
    *,
    treatment: ArrayLike,
    target: Target = "auuc",
    delta: float = 0.05,
    n_candidates: int = 1,
    control: Any = None,
) -> LowerBound:
    """Population AUUC, or gain, from bounds for each arm's rate and AUC; y is 0 or 1.

    In the population theta_g = p_g (1 - p_g) A_g + p_g^2 / 2, non-decreasing in the rate p_g (its
    slope (1 - 2 p) A + p is at least min(p, 1 - p)) and in A_g. So

        lower = theta(p_T low, A_T - e_T) - theta(p_C high, A_C + e_C),
        e_g = sqrt((1/m_g+ + 1/m_g-) ln(4 n_candidates / delta) / 2),

    p by Clopper and Pearson at delta/4 each, the AUC cut to [0, 1]. The bounds for AUC hold given
    the class counts, hence also without; rates do not depend on the score, so candidates do not
    share their part of delta. The gain is lam_g (A_g - 1/2), not monotone in p_g: there rates have
    two-sided limits, delta/8 a side, and the worst rate between them counts.

    Examples
    --------
    >>> from auucmax import load_hillstrom
    >>> trial = load_hillstrom()
    >>> score = trial.X["womens"]
    >>> round(per_class_bound(trial.y, score, treatment=trial.treatment).gap, 4)
    0.0122
    """
    centre, log_term = centre_of(target), log_inverse(delta, n_candidates, parts=4)
    treated, untreated = arms = binary_arms(y, score, treatment=treatment, control=control)
    low, high = _auc_limit(treated, -1, log_term), _auc_limit(untreated, 1, log_term)
    if target == "auuc":
        lower = _area(_rates(treated, delta / 4)[0], low)
        lower -= _area(_rates(untreated, delta / 4)[1], high)
    else:
        lower = _lowest_gain(_rates(treated, delta / 8), low - 0.5)
        lower += _lowest_gain(_rates(untreated, delta / 8), 0.5 - high)
    estimate = _difference(arms, centre)
    return lower_bound("per-class", estimate, estimate - lower, delta)


def asymptotic_bound(
    y: ArrayLike,
    score: ArrayLike,
    *,
    treatment: ArrayLike,
    target: Target = "auuc",
    delta: float = 0.05,
    n_candidates: int = 1,
    outcome_model: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    control: Any = None,
) -> LowerBound:
    """One-sided limit from the standard error of ``auuc_inference``: **no guarantee** for any n.

    gap = t(1 - delta / n_candidates) standard errors, Student's t with one degree less than the
    rows (or clusters) of the rarer arm. Narrowest of all, and right as n grows; with few rows or
    rare outcomes it misses far more often than delta says.

    Examples
    --------
    >>> from auucmax import load_hillstrom
    >>> trial = load_hillstrom()
    >>> score = trial.X["womens"]
    >>> round(asymptotic_bound(trial.y, score, treatment=trial.treatment, target="gain").gap, 4)
    0.0014
    """
    centre_of(target)
    check_level(delta, "delta")
    level = 1 - 2 * delta / check_whole(n_candidates, "n_candidates", 1)
    treated = check_treatment(treatment, control=control)
    result = auuc_inference(y, score, treatment=treated, outcome_model=outcome_model, groups=groups)
    estimate, error = result.estimate, result.standard_error
    if target == "gain":
        estimate, error = result.gain, result.gain_standard_error
    clusters = None if groups is None else check_groups(groups, len(treated))
    degrees = Units.of(treated, clusters).degrees
    if degrees < 1:
        raise ValueError(
            f"each arm should have at least 2 rows (or clusters) for a standard error, got "
            f"{degrees + 1} in one. Collect more, or use method='betting'."
        )
    low, _ = interval_around(estimate, error, level, degrees)
    return LowerBound("asymptotic", lower=low, estimate=estimate, delta=delta)


def _difference(arms: tuple[ArmArea, ArmArea], centre: float) -> float:
    """AUUC with separate ranks, or its gain over random."""
    return arms[0].centred_area(centre) - arms[1].centred_area(centre)


def _auc_limit(arm: ArmArea, sign: float, log_term: float) -> float:
    """Upper (sign 1) or lower (-1) limit of the population's AUC; 0 or 1 if there are no pairs."""
    if arm.spread == 0:
        return (1 + sign) / 2
    # 1/m+ + 1/m- = 1 / (n lam)
    error = np.sqrt(log_term / (2 * arm.n_rows * arm.spread))
    return float(np.clip(arm.auc + sign * error, 0, 1))


def _rates(arm: ArmArea, delta: float) -> tuple[float, float]:
    return rate_limits(arm.total, arm.n_rows, delta)


def _area(rate: float, auc: float) -> float:
    return rate * (1 - rate) * auc + rate**2 / 2


def _lowest_gain(rates: tuple[float, float], excess: float) -> float:
    """Smallest p (1 - p) excess for p between the limits: the spread is largest nearest to 1/2."""
    low, high = rates
    worst = min(low, 1 - high) if excess >= 0 else min(max(low, 0.5), high)
    return worst * (1 - worst) * excess


def _entry(name: str, function: Callable[..., LowerBound], **facts: str) -> Bound:
    return Bound(name=name, function=function, rows="held out", **facts)


_RANDOMISED = "randomised trial, independent rows, score fixed before (or one of n_candidates)"
_POPULATION = "AUUC, or gain over random, of the population"
_CONDITIONAL = "AUUC, or gain over random, at the sample's class counts and the population's AUCs"
_HOLDS = "holds for every n"

HOLDOUT_BOUNDS = (
    _entry(
        "mcdiarmid",
        mcdiarmid_bound,
        target=_POPULATION,
        ranking="separate",
        assumptions=f"{_RANDOMISED}; y in a known range",
        formula="range(y) sqrt((1/n_T + 1/n_C) ln(M/delta) / 2)",
        reference="McDiarmid 1989",
        validity=_HOLDS,
    ),
    _entry(
        "mcdiarmid-conditional",
        mcdiarmid_conditional_bound,
        target=_CONDITIONAL,
        ranking="separate",
        assumptions=f"{_RANDOMISED}; y 0/1",
        formula="sqrt((lam_T/n_T + lam_C/n_C) ln(M/delta) / 2)",
        reference="McDiarmid 1989",
        validity=f"{_HOLDS}, given the class counts",
    ),
    _entry(
        "agarwal-fixed",
        agarwal_fixed_bound,
        target=_CONDITIONAL,
        ranking="separate",
        assumptions=f"{_RANDOMISED}; y 0/1",
        formula="sum_g lam_g sqrt((1/m_g+ + 1/m_g-) ln(2M/delta) / 2)",
        reference="Agarwal, Graepel, Herbrich, Har-Peled and Roth 2005",
        validity=f"{_HOLDS}, given the class counts",
    ),
    _entry(
        "per-class",
        per_class_bound,
        target=_POPULATION,
        ranking="separate",
        assumptions=f"{_RANDOMISED}; y 0/1",
        formula="worst AUUC over limits for each arm's rate and AUC, delta/4 each",
        reference="Clopper and Pearson 1934; Agarwal et al. 2005",
        validity=_HOLDS,
    ),
    _entry(
        "dkw-bernstein",
        dkw_bernstein_bound,
        target=_POPULATION,
        ranking="joint",
        assumptions=f"{_RANDOMISED}; y in a known range",
        formula="eps (p_T + p_C) + sqrt(2L) (sd + eps rms) + 7L / (3(K-1))",
        reference="Massart 1990; Maurer and Pontil 2009",
        validity=_HOLDS,
    ),
    _entry(
        "block-bernstein",
        block_bernstein_bound,
        target=_POPULATION,
        ranking="joint",
        assumptions=f"{_RANDOMISED}; y in a known range; the dealing fixed before",
        formula="sqrt(2 V L / K) + 7 R L / (3(K-1)), K blocks of 10 rows",
        reference="Maurer and Pontil 2009",
        validity=_HOLDS,
    ),
    _entry(
        "asymptotic",
        asymptotic_bound,
        target=_POPULATION,
        ranking="joint",
        assumptions=f"{_RANDOMISED}; many rows and outcomes that are not rare",
        formula="t(1 - delta/M) standard errors",
        reference="Hajek projection of a U-statistic",
        validity="no guarantee: holds as n grows, misses too often with rare outcomes",
    ),
)
