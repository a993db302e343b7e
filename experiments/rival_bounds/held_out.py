"""Bounds from held-out rows that are valid and wider than those that ``certify`` offers.

``classical.py`` has the setting and the notation.

*Conditional* bounds take the class counts as given: theta_g = lam_g A_g + p_g^2 / 2 - c p_g with
the sample's rate p_g and lam_g = p_g (1 - p_g), and the population's AUC A_g, the probability that
a responder of the arm ranks above a non-responder. They say nothing of the error of the rates.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Unpack

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray
from scipy.special import betaincinv

from auucmax._validation import Bools, Floats, ScoredRows, check_choice, check_rows, check_whole
from auucmax.certificates.blocks import block_floor
from auucmax.certificates.bound import LowerBound
from auucmax.metrics.ranking import RankedRows, sorted_rows
from experiments.rival_bounds.bound import Bound
from experiments.rival_bounds.classical import RANDOMISED, Asked, Claim, held_out_rows

CONDITIONAL = "AUUC, or gain over random, at the sample's class counts and the population's AUCs"


def mcdiarmid_bound(y: ArrayLike, score: ArrayLike, **asked: Unpack[Asked]) -> LowerBound:
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

    Parameters are those of :func:`experiments.rival_bounds.classical.dkw_bernstein_bound`.

    Examples
    --------
    >>> y, score, treatment = [1, 1, 0, 1, 0, 0], [6, 5, 4, 3, 2, 1], [1, 1, 1, 0, 0, 0]
    >>> bound = mcdiarmid_bound(y, score, treatment=treatment)
    >>> round(bound.estimate, 4), round(bound.gap, 4)
    (0.1667, 0.9993)
    """
    rows, claim = held_out_rows(y, score, **asked)
    treated, untreated = separate_arms(rows)
    estimate = treated.unbiased_area(claim.centre) - untreated.unbiased_area(claim.centre)
    gap = np.sqrt((1 / treated.n_rows + 1 / untreated.n_rows) * claim.log_inverse() / 2)
    return claim.bound("mcdiarmid", estimate, gap)


def mcdiarmid_conditional_bound(
    y: ArrayLike, score: ArrayLike, **asked: Unpack[Asked]
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
    rows, claim = binary_rows(y, score, **asked)
    arms = separate_arms(rows)
    gap = np.sqrt(sum(arm.spread / arm.n_rows for arm in arms) * claim.log_inverse() / 2)
    estimate = arms[0].centred_area(claim.centre) - arms[1].centred_area(claim.centre)
    return claim.bound("mcdiarmid-conditional", estimate, gap)


def agarwal_fixed_bound(y: ArrayLike, score: ArrayLike, **asked: Unpack[Asked]) -> LowerBound:
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
    rows, claim = binary_rows(y, score, **asked)
    arms, log_term = separate_arms(rows), claim.log_inverse(parts=2)
    # lam_g^2 (1/m_g+ + 1/m_g-) = lam_g / n_g, which is 0 for an arm with one class: no pairs.
    gap = sum(np.sqrt(arm.spread / arm.n_rows * log_term / 2) for arm in arms)
    return claim.bound("agarwal-fixed", _difference(arms, claim.centre), gap)


def per_class_bound(y: ArrayLike, score: ArrayLike, **asked: Unpack[Asked]) -> LowerBound:
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
    rows, claim = binary_rows(y, score, **asked)
    treated, untreated = arms = separate_arms(rows)
    delta, log_term = claim.delta, claim.log_inverse(parts=4)
    low, high = _auc_limit(treated, -1, log_term), _auc_limit(untreated, 1, log_term)
    if claim.centre == 0:  # AUUC
        lower = _area(_rates(treated, delta / 4)[0], low)
        lower -= _area(_rates(untreated, delta / 4)[1], high)
    else:
        lower = _lowest_gain(_rates(treated, delta / 8), low - 0.5)
        lower += _lowest_gain(_rates(untreated, delta / 8), 0.5 - high)
    estimate = _difference(arms, claim.centre)
    return claim.bound("per-class", estimate, estimate - lower)


def block_bernstein_bound(
    y: ArrayLike,
    score: ArrayLike,
    *,
    block_size: int = 10,
    random_state: int | Generator | None = 0,
    **asked: Unpack[Asked],
) -> LowerBound:
    """Population AUUC, or gain, from small blocks of rows, each an unbiased estimate by itself.

    Rows are dealt at random into K blocks of about ``block_size`` that hold both arms. In a block
    with a treated and b control rows, v_i the share of the *other* rows of the block that rank
    below row i (ties half), w = mean(y (v - c) | T) - mean(y (v - c) | C) lies in an interval whose
    length R depends on a and b only. With L = ln(2 n_candidates / delta) and V the sample variance
    of the w,

        lower = mean(w) - sqrt(2 V L / K) - 7 R L / (3 (K - 1)).

    *Proof.* Which rows share a block depends on t and on the dealing only, so the w are
    independent, and given row i each comparison has mean G(f_i): E[w] = theta. The theorem of
    Maurer and Pontil (2009) asks for independence, not for equal laws. Range: without ties the
    v - c are the numbers k/(a + b - 1) - c in some order, and the smallest w puts controls with
    y = 1 at the b places where they lower w most; ties average over such orders.

    Dealing at random makes the order of the file irrelevant. Fix ``random_state`` beforehand:
    taking the best of many dealings is not valid.

    Examples
    --------
    >>> from auucmax import load_hillstrom
    >>> trial = load_hillstrom()
    >>> score = trial.X["womens"]
    >>> bound = block_bernstein_bound(trial.y, score, treatment=trial.treatment, target="gain")
    >>> round(bound.estimate, 3), round(bound.gap, 4)
    (0.008, 0.0047)
    """
    block_size = check_whole(block_size, "block_size", 2)
    rows, claim = held_out_rows(y, score, **asked)
    centre, log_term = claim.centre, claim.log_inverse(parts=2)
    n_treated = int(rows.treated.sum())
    n_control = len(rows.y) - n_treated
    n_blocks = min(len(rows.y) // block_size, n_treated, n_control)
    if n_blocks < 2:
        raise ValueError(
            f"block_bernstein_bound needs rows for at least two blocks of {block_size}, each with "
            f"both arms; got {n_treated} treated and {n_control} control rows. Use mcdiarmid_bound."
        )
    block = _deal(rows.treated, n_blocks, np.random.default_rng(random_state))
    w, shapes = _block_statistics(rows, block, centre)
    # The largest w is minus the smallest w with the arms exchanged.
    length = max(block_floor(a, b, centre) for a, b in shapes)
    length += max(block_floor(b, a, centre) for a, b in shapes)
    gap = np.sqrt(2 * w.var(ddof=1) * log_term / n_blocks)
    gap += 7 * length * log_term / (3 * (n_blocks - 1))
    return claim.bound("block-bernstein", float(w.mean()), gap)


def _deal(treated: Bools, n_blocks: int, rng: Generator) -> NDArray[np.intp]:
    """A block number for each row: each arm shuffled and dealt, so sizes differ by at most one."""
    block = np.empty(len(treated), dtype=np.intp)
    for arm in (True, False):
        own = np.flatnonzero(treated == arm)
        block[rng.permutation(own)] = np.arange(len(own)) % n_blocks
    return block


def _block_statistics(
    rows: ScoredRows, block: NDArray[np.intp], centre: float
) -> tuple[Floats, set[tuple[int, int]]]:
    """w of each block, and the numbers of treated and control rows that occur."""
    order = np.lexsort((rows.score, block))
    block, score, treated = block[order], rows.score[order], rows.treated[order]
    new_block = np.concatenate([[True], block[1:] != block[:-1]])
    level_starts = np.flatnonzero(new_block | np.concatenate([[True], score[1:] != score[:-1]]))
    level_sizes = np.diff(level_starts, append=len(score))
    sizes = np.bincount(block)
    # Others below: those before the level, and half of the level without the row itself.
    below = np.repeat(level_starts + (level_sizes - 1) / 2, level_sizes)
    below -= np.repeat(np.flatnonzero(new_block), sizes)
    value = rows.y[order] * (below / (sizes - 1)[block] - centre)
    n_treated = np.bincount(block[treated])
    n_control = sizes - n_treated
    w = np.bincount(block, weights=value * treated) / n_treated
    w -= np.bincount(block, weights=value * ~treated) / n_control
    return w, set(zip(n_treated.tolist(), n_control.tolist(), strict=True))


class ArmArea(NamedTuple):
    """One arm ranked on its own: ``total`` of y, ``area`` = mean(y u), u the share ranked below."""

    n_rows: int
    total: float
    area: float

    @classmethod
    def of(cls, part: RankedRows) -> ArmArea:
        n = len(part.y)
        below = part.mid_cumsum(part.weight)
        return cls(n, float(part.y.sum()), float((below * part.y).sum()) / n**2)

    @property
    def mean(self) -> float:
        return self.total / self.n_rows

    @property
    def spread(self) -> float:
        """The variance p (1 - p) of a 0/1 outcome."""
        return self.mean * (1 - self.mean)

    @property
    def auc(self) -> float:
        """AUC of a 0/1 outcome, by area = spread AUC + mean^2 / 2; 1/2 if there are no pairs."""
        return (self.area - self.mean**2 / 2) / self.spread if self.spread else 0.5

    def centred_area(self, centre: float) -> float:
        """mean(y (u - centre)), a row counting half of itself as below."""
        return self.area - centre * self.mean

    def unbiased_area(self, centre: float) -> float:
        """mean(y (v - centre)), v the share of the *other* rows below."""
        others = (self.n_rows * self.area - self.mean / 2) / (self.n_rows - 1)
        return others - centre * self.mean


def separate_arms(rows: ScoredRows) -> tuple[ArmArea, ArmArea]:
    """Treated and control arm, each ranked on its own."""
    treated, untreated = sorted_rows(rows).parts("separate")
    return ArmArea.of(treated), ArmArea.of(untreated)


def binary_rows(y: ArrayLike, score: ArrayLike, **asked: Unpack[Asked]) -> tuple[ScoredRows, Claim]:
    """Rows whose outcomes are 0 or 1, so that a row an arm is enough, and the claim."""
    rows = check_rows(y, score, treatment=asked["treatment"], control=asked.get("control"))
    check_binary(rows.y)
    given = asked.get("target", "auuc"), asked.get("delta", 0.05), asked.get("n_candidates", 1)
    return rows, Claim.of(*given)


def check_binary(y: Floats) -> None:
    """Raise a ValueError unless every outcome is 0 or 1."""
    if not np.array_equal(y, y.astype(bool)):
        raise ValueError(
            "y should be 0 or 1 for this bound, got other values. Use a binary outcome, or a bound "
            "that takes an outcome_range."
        )


FORMS = ("counts", "rates")


@dataclass(frozen=True)
class ThresholdBand:
    """``lower`` <= V(s) at *all* s together, with probability 1 - ``delta``.

    Arrays (number of distinct scores + 1,), from nobody (``threshold`` infinite) to everybody:
    V(s) is the uplift per person of treating those with score >= s, ``share`` their share among the
    rows and ``estimate`` the rows' own V. For s between two thresholds the entry of the higher one
    holds.
    """

    threshold: Floats
    share: Floats
    estimate: Floats
    lower: Floats
    delta: float


def threshold_band_bound(
    y: ArrayLike,
    score: ArrayLike,
    *,
    treatment: ArrayLike,
    form: Literal["counts", "rates"] = "counts",
    delta: float = 0.05,
    n_candidates: int = 1,
    control: Any = None,
) -> ThresholdBand:
    """Lower limits of V(s) = E[Y 1{f >= s} | T] - E[Y 1{f >= s} | C] for all s together; y is 0/1.

    With d = delta / n_candidates, H_g(s) the share of an arm's responders with f >= s, and m_g the
    number of these responders:

    ``"counts"``: lower = V^(s) - e_T - e_C, e_g = sqrt(ln(2/d) / (2 n_g)); the same gap everywhere.

    ``"rates"``: lower = p_T max(H_T - h_T, 0) - p_C min(H_C + h_C, 1), h_g = sqrt(ln(4/d) / (2
    m_g)), p_T a lower and p_C an upper limit of Clopper and Pearson at delta/4 each. Narrower when
    responders are rare and the share is small.

    *Proof.* Let f' be f for responders, minus infinity for others. P(f' >= s | g) = E[Y 1{f >= s} |
    g] is one minus a distribution function (its left limit), so the one-sided inequality of
    Dvoretzky, Kiefer and Wolfowitz with Massart's constant bounds its error at all s, with
    probability 1 - d/2 in each arm (the constant asks for an error of at most 1/2: it is). For the
    second form apply it to the responders, whose scores are independent given their number.

    Examples
    --------
    >>> from auucmax import load_hillstrom
    >>> trial = load_hillstrom()
    >>> band = threshold_band_bound(trial.y, trial.X["womens"], treatment=trial.treatment)
    >>> band.estimate.round(4), band.lower.round(4)
    (array([0.    , 0.0405, 0.0452]), array([-0.0186,  0.0219,  0.0266]))
    """
    check_choice(form, "form", FORMS)
    claim = Claim.of("auuc", delta, n_candidates)
    log_term = claim.log_inverse(parts=2 if form == "counts" else 4)
    rows = check_rows(y, score, treatment=treatment, control=control)
    check_binary(rows.y)
    part = sorted_rows(rows)
    estimate = part.from_top(part.signed_outcome())
    if form == "counts":
        gap = sum(np.sqrt(log_term / (2 * part.arm_totals[arm])) for arm, _ in part.arms)
        lower = estimate - gap
    else:
        lower = _lower_by_rates(part, log_term, delta)
    scores, starts = rows.score[part.order], part.starts
    levels = scores if starts is None else scores[starts]
    return ThresholdBand(
        threshold=np.concatenate([[np.inf], levels[::-1]]),
        share=part.from_top(part.weight) / len(rows.y),
        estimate=estimate,
        lower=lower,
        delta=delta,
    )


def _lower_by_rates(part: RankedRows, log_term: float, delta: float) -> Floats:
    responders = {arm: part.from_top(part.arm_outcome(arm)) for arm, _ in part.arms}
    limits = {}
    for arm, sign in part.arms:
        n_rows, n_responders = int(part.arm_totals[arm]), responders[arm][-1]
        low, high = rate_limits(n_responders, n_rows, delta / 4)
        if n_responders == 0:  # nothing is known of where they would be
            limits[arm] = np.full(len(responders[arm]), 0.0 if arm else high)
            continue
        error = np.sqrt(log_term / (2 * n_responders))
        reach = np.clip(responders[arm] / n_responders - sign * error, 0, 1)
        limits[arm] = reach * (low if arm else high)
    return limits[True] - limits[False]


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


def rate_limits(hits: float, n_rows: int, delta: float) -> tuple[float, float]:
    """Lower and upper limit of Clopper and Pearson for P(y = 1), each at error ``delta``."""
    misses = n_rows - hits
    low = float(betaincinv(hits, misses + 1, delta)) if hits else 0.0
    high = float(betaincinv(hits + 1, misses, 1 - delta)) if misses else 1.0
    return low, high


def _rates(arm: ArmArea, delta: float) -> tuple[float, float]:
    return rate_limits(arm.total, arm.n_rows, delta)


def _area(rate: float, auc: float) -> float:
    return rate * (1 - rate) * auc + rate**2 / 2


def _lowest_gain(rates: tuple[float, float], excess: float) -> float:
    """Smallest p (1 - p) excess for p between the limits: the spread is largest nearest to 1/2."""
    low, high = rates
    worst = min(low, 1 - high) if excess >= 0 else min(max(low, 0.5), high)
    return worst * (1 - worst) * excess


HELD_OUT_RIVALS = (
    Bound(
        name="mcdiarmid",
        function=mcdiarmid_bound,
        ranking="separate",
        assumptions=f"{RANDOMISED}; y in a known range",
        formula="range(y) sqrt((1/n_T + 1/n_C) ln(M/delta) / 2)",
        reference="McDiarmid 1989",
    ),
    Bound(
        name="mcdiarmid-conditional",
        function=mcdiarmid_conditional_bound,
        target=CONDITIONAL,
        ranking="separate",
        assumptions=f"{RANDOMISED}; y 0/1",
        formula="sqrt((lam_T/n_T + lam_C/n_C) ln(M/delta) / 2)",
        reference="McDiarmid 1989",
        validity="holds for every n, given the class counts",
    ),
    Bound(
        name="agarwal-fixed",
        function=agarwal_fixed_bound,
        target=CONDITIONAL,
        ranking="separate",
        assumptions=f"{RANDOMISED}; y 0/1",
        formula="sum_g lam_g sqrt((1/m_g+ + 1/m_g-) ln(2M/delta) / 2)",
        reference="Agarwal, Graepel, Herbrich, Har-Peled and Roth 2005",
        validity="holds for every n, given the class counts",
    ),
    Bound(
        name="per-class",
        function=per_class_bound,
        ranking="separate",
        assumptions=f"{RANDOMISED}; y 0/1",
        formula="worst AUUC over limits for each arm's rate and AUC, delta/4 each",
        reference="Clopper and Pearson 1934; Agarwal et al. 2005",
    ),
    Bound(
        name="block-bernstein",
        function=block_bernstein_bound,
        assumptions=f"{RANDOMISED}; y in a known range; the dealing fixed before",
        formula="sqrt(2 V L / K) + 7 R L / (3(K-1)), K blocks of 10 rows",
        reference="Maurer and Pontil 2009",
    ),
)
