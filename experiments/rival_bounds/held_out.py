"""Lower bounds on AUUC and on the gain over random from held-out rows, for a score fixed before.

``auucmax.certify`` is narrower than all of them that hold. Outcomes are 0 or 1. Given who was
treated, the rows should be independent, those of an arm identically distributed, and x of the same
distribution in both arms: a randomised trial, the held-out rows split off at random or by treatment
(not by outcome: class counts must be left to chance). With G(s) = P(f < s) + P(f = s) / 2 in the
population and a centre c of 0 for AUUC, 1/2 for the gain over random, AUUC - ATE/2, the bounds are
about

    theta = theta_T - theta_C,    theta_g = E[Y (G(f) - c) | arm g].

*Conditional* bounds take the class counts as given: theta_g = lam_g A_g + p_g^2 / 2 - c p_g with
the sample's rate p_g and lam_g = p_g (1 - p_g), and the population's AUC A_g, the probability that
a responder of the arm ranks above a non-responder. They ignore the error of the rates.

Each ``estimate`` is the one that the bound subtracts from; for large n they are all
``auuc_score``. L is ln(1 / delta), and every bound that holds does so for every n.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray
from scipy.special import betaincinv

from auucmax import certify
from auucmax._validation import Bools, Floats, ScoredRows, check_choice, check_rows
from auucmax.certificates.blocks import CENTRES, block_floor
from auucmax.certificates.types import LowerBound
from auucmax.metrics.ranking import RankedRows, RankingKind, sorted_rows

DKW_SHARE = 0.2  # of delta, for the band of G; the rest goes to the means
BLOCK_SIZE = 10


class Bound(NamedTuple):
    """A bound by name: how its estimate ranks, and whether its statement is true."""

    name: str
    function: Callable[..., LowerBound]
    ranking: RankingKind = "joint"
    validity: str = "holds"

    @property
    def is_conditional(self) -> bool:
        return "class counts" in self.validity


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


def checked(
    y: ArrayLike, score: ArrayLike, treatment: ArrayLike, target: str
) -> tuple[ScoredRows, float]:
    """Rows with a 0/1 outcome, and the centre of the target."""
    check_choice(target, "target", ("auuc", "gain"))
    rows = check_rows(y, score, treatment=treatment)
    if not np.isin(rows.y, (0, 1)).all():
        raise ValueError("y should be 0 or 1 for these bounds, got other values. Use certify.")
    return rows, CENTRES[target == "gain"]


def _bound(name: str, estimate: float, gap: float, delta: float) -> LowerBound:
    estimate = float(estimate)
    return LowerBound(name, lower=estimate - float(gap), estimate=estimate, delta=delta)


def mcdiarmid_bound(
    y: ArrayLike, score: ArrayLike, *, treatment: ArrayLike, target: str = "auuc",
    delta: float = 0.05,
) -> LowerBound:  # fmt: skip
    """Population AUUC, or gain, by bounded differences: the simplest bound that holds.

    With h_ij = 1 if f_i > f_j, 1/2 if they tie and 0 otherwise, the estimate of theta_g is

        sum over i != j in arm g of y_i (h_ij - c) / (n_g (n_g - 1)),

    and gap = sqrt((1/n_T + 1/n_C) L / 2).

    *Proof.* Given row i, h_ij has mean G(f_i) for every other row j, so the estimate is unbiased.
    Replacing row k changes the n_g - 1 sums y_k (h_kj - c) + y_j (h_jk - c); as h_jk = 1 - h_kj,
    each is a mixture of y_k and y_j (c = 0) or (y_k - y_j)(h_kj - 1/2) (c = 1/2), which for a given
    row j lies in an interval of length 1. So the estimate moves by at most 1/n_g, the squares sum
    to 1/n_T + 1/n_C, and McDiarmid's inequality gives the gap. Ranks are taken inside the arms
    because with all rows ranked together a row also moves the ranks of the other arm.
    """
    rows, centre = checked(y, score, treatment, target)
    treated, untreated = separate_arms(rows)
    estimate = treated.unbiased_area(centre) - untreated.unbiased_area(centre)
    gap = np.sqrt((1 / treated.n_rows + 1 / untreated.n_rows) * np.log(1 / delta) / 2)
    return _bound("mcdiarmid", estimate, gap, delta)


def mcdiarmid_conditional_bound(
    y: ArrayLike, score: ArrayLike, *, treatment: ArrayLike, target: str = "auuc",
    delta: float = 0.05,
) -> LowerBound:  # fmt: skip
    """AUUC, or gain, given the class counts, by bounded differences.

    The estimate is that of ``auuc_score(..., ranking="separate")`` (Proposition 1 of the paper) and
    gap = sqrt(V L / 2), V = lam_T / n_T + lam_C / n_C.

    *Proof.* Given t and y the x are independent, and an arm's AUC is a mean over pairs of a
    responder and a non-responder, m_g+ m_g- of them, so it is unbiased. Replacing the x of a
    responder moves it by at most 1/m_g+, of a non-responder 1/m_g-; times lam_g = m_g+ m_g- / n_g^2
    the squares sum to lam_g^2 (1/m_g+ + 1/m_g-) = lam_g / n_g. McDiarmid's inequality.
    """
    rows, centre = checked(y, score, treatment, target)
    arms = separate_arms(rows)
    gap = np.sqrt(sum(arm.spread / arm.n_rows for arm in arms) * np.log(1 / delta) / 2)
    return _bound("mcdiarmid-conditional", _difference(arms, centre), gap, delta)


def agarwal_fixed_bound(
    y: ArrayLike, score: ArrayLike, *, treatment: ArrayLike, target: str = "auuc",
    delta: float = 0.05,
) -> LowerBound:  # fmt: skip
    """AUUC, or gain, given the class counts, from one bound for the AUC of each arm.

    gap = sum over arms of lam_g sqrt((1/m_g+ + 1/m_g-) ln(2 / delta) / 2): the inequality of
    Agarwal, Graepel, Herbrich, Har-Peled and Roth (2005) for a fixed score, one-sided, delta/2 an
    arm. Valid by the proof of :func:`mcdiarmid_conditional_bound`, whose gap is smaller: there the
    arms add in quadrature and share one delta.
    """
    rows, centre = checked(y, score, treatment, target)
    arms = separate_arms(rows)
    # lam_g^2 (1/m_g+ + 1/m_g-) = lam_g / n_g, which is 0 for an arm with one class: no pairs.
    gap = sum(np.sqrt(arm.spread / arm.n_rows * np.log(2 / delta) / 2) for arm in arms)
    return _bound("agarwal-fixed", _difference(arms, centre), gap, delta)


def per_class_bound(
    y: ArrayLike, score: ArrayLike, *, treatment: ArrayLike, target: str = "auuc",
    delta: float = 0.05,
) -> LowerBound:  # fmt: skip
    """Population AUUC, or gain, from bounds for each arm's rate and AUC.

    In the population theta_g = p_g (1 - p_g) A_g + p_g^2 / 2, non-decreasing in the rate p_g (its
    slope (1 - 2 p) A + p is at least min(p, 1 - p)) and in A_g. So

        lower = theta(p_T low, A_T - e_T) - theta(p_C high, A_C + e_C),
        e_g = sqrt((1/m_g+ + 1/m_g-) ln(4 / delta) / 2),

    p by Clopper and Pearson at delta/4 each, the AUC cut to [0, 1]. The bounds for AUC hold given
    the class counts, hence also without. The gain is lam_g (A_g - 1/2), not monotone in p_g: there
    rates have two-sided limits, delta/8 a side, and the worst rate between them counts.
    """
    rows, centre = checked(y, score, treatment, target)
    treated, untreated = arms = separate_arms(rows)
    low = _auc_limit(treated, -1, np.log(4 / delta))
    high = _auc_limit(untreated, 1, np.log(4 / delta))
    if centre == 0:  # AUUC
        lower = _area(_rates(treated, delta / 4)[0], low)
        lower -= _area(_rates(untreated, delta / 4)[1], high)
    else:
        lower = _lowest_gain(_rates(treated, delta / 8), low - 0.5)
        lower += _lowest_gain(_rates(untreated, delta / 8), 0.5 - high)
    estimate = _difference(arms, centre)
    return _bound("per-class", estimate, estimate - lower, delta)


def dkw_bernstein_bound(
    y: ArrayLike, score: ArrayLike, *, treatment: ArrayLike, target: str = "auuc",
    delta: float = 0.05,
) -> LowerBound:  # fmt: skip
    """Population AUUC, or gain: a band for G from all rows, an empirical Bernstein bound for means.

    With G_n the share of all rows below (ties and the row itself half), z_i = y_i (G_n(f_i) - c),
    s_g^2 its sample variance in an arm, K = min(n_T, n_C), eps = sqrt(ln(2 / .2 delta) / (2n)) and
    L = ln(2 / .8 delta), the estimate is mean(z | T) - mean(z | C) and

        gap = eps (mean(y | T) + mean(y | C)) + 7 L / (3 (K - 1))
              + sqrt(2L) [ sqrt(s_T^2/n_T + s_C^2/n_C)
                           + eps sqrt(mean(y^2 | T)/(n_T - 1) + mean(y^2 | C)/(n_C - 1)) ].

    *Proof.* All rows have one law of f, so |G_n - G| <= eps everywhere with probability 1 - .2
    delta (Dvoretzky, Kiefer, Wolfowitz, Massart; G is the mean of a distribution function and its
    left limit). Then means of z differ from those with G by at most eps mean(y), and sqrt(W), W =
    s_T^2/n_T + s_C^2/n_C, being a seminorm, by at most the last term. With G the z are independent,
    in an interval of length 1, and the theorem of Maurer and Pontil (2009) extends from one sample
    to two: Bernstein's inequality gives theta >= estimate - sqrt(2 L E[W]) - L / (3K) with error
    .4 delta; replacing row k of arm g by the mean of its arm's others lowers W by
    (z_k - mean)^2 / n_g^2 <= 1/K^2, and these sum to at most K/(K-1) W, so K^2 W is self-bounding
    and sqrt(E[W]) <= sqrt(W) + sqrt(2 L / (K (K-1))) with error .4 delta.
    """
    rows, centre = checked(y, score, treatment, target)
    part = sorted_rows(rows)
    z = part.y * (part.middle_ranks() - centre)
    log_term = np.log(2 / (1 - DKW_SHARE) / delta)
    eps = np.sqrt(np.log(2 / DKW_SHARE / delta) / (2 * len(rows.y)))
    estimate = outcome = variance = square = 0.0
    for arm, sign in ((True, 1), (False, -1)):
        own, n_rows = part.treated == arm, int((part.treated == arm).sum())
        estimate += sign * z[own].mean()
        outcome += part.y[own].mean()
        variance += z[own].var(ddof=1) / n_rows
        square += np.mean(part.y[own] ** 2) / (n_rows - 1)
    smallest = min(int(part.treated.sum()), int((~part.treated).sum()))
    gap = eps * outcome + 7 * log_term / (3 * (smallest - 1))
    gap += np.sqrt(2 * log_term) * (np.sqrt(variance) + eps * np.sqrt(square))
    return _bound("dkw-bernstein", estimate, gap, delta)


def block_bernstein_bound(
    y: ArrayLike, score: ArrayLike, *, treatment: ArrayLike, target: str = "auuc",
    delta: float = 0.05, random_state: int | Generator | None = 0,
) -> LowerBound:  # fmt: skip
    """Population AUUC, or gain, from blocks of ten rows, each an unbiased estimate by itself.

    Rows are assigned at random to K blocks that hold both arms. In a block with a treated and b
    control rows, v_i the share of the *other* rows of the block that rank below row i (ties half),
    w = mean(y (v - c) | T) - mean(y (v - c) | C) lies in an interval whose length R depends on a
    and b only. With L = ln(2 / delta) and V the sample variance of the w,

        lower = mean(w) - sqrt(2 V L / K) - 7 R L / (3 (K - 1)).

    *Proof.* Which rows share a block depends on t and on the assignment only, so the w are
    independent, and given row i each comparison has mean G(f_i): E[w] = theta. The theorem of
    Maurer and Pontil (2009) asks for independence, not for equal laws. Range: without ties the
    v - c are the numbers k/(a + b - 1) - c in some order, and the smallest w puts controls with
    y = 1 at the b places where they lower w most; ties average over such orders.

    Fix ``random_state`` beforehand: taking the best of many assignments is not valid.
    """
    rows, centre = checked(y, score, treatment, target)
    n_treated, log_term = int(rows.treated.sum()), np.log(2 / delta)
    n_blocks = min(len(rows.y) // BLOCK_SIZE, n_treated, len(rows.y) - n_treated)
    block = assign_blocks(rows.treated, n_blocks, np.random.default_rng(random_state))
    w, shapes = block_statistics(rows, block, centre)
    # The largest w is minus the smallest w with the arms exchanged.
    length = max(block_floor(a, b, centre) for a, b in shapes)
    length += max(block_floor(b, a, centre) for a, b in shapes)
    gap = np.sqrt(2 * w.var(ddof=1) * log_term / n_blocks)
    gap += 7 * length * log_term / (3 * (n_blocks - 1))
    return _bound("block-bernstein", w.mean(), gap, delta)


def asymptotic_bound(
    y: ArrayLike, score: ArrayLike, *, target: str = "auuc", **options: Any
) -> LowerBound:
    """The lower end of an interval of ``auuc_inference``: **no guarantee** for any n."""
    check_choice(target, "target", ("auuc", "gain"))
    found = certify(score, y=y, method="asymptotic", **options)
    lower, estimate = found.lower_bound, found.estimate
    if target == "gain":
        lower, estimate = found.gain_lower_bound, found.gain_estimate
    return LowerBound("asymptotic", lower=lower, estimate=estimate, delta=found.delta)


def assign_blocks(treated: Bools, n_blocks: int, rng: Generator) -> NDArray[np.intp]:
    """A block number for each row: each arm shuffled, so that sizes differ by at most one."""
    block = np.empty(len(treated), dtype=np.intp)
    for arm in (True, False):
        own = np.flatnonzero(treated == arm)
        block[rng.permutation(own)] = np.arange(len(own)) % n_blocks
    return block


def block_statistics(
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


_CONDITIONAL = "holds, given the class counts"
#: In the order of the figures.
HELD_OUT_BOUNDS = (
    Bound("mcdiarmid", mcdiarmid_bound, "separate"),
    Bound("mcdiarmid-conditional", mcdiarmid_conditional_bound, "separate", _CONDITIONAL),
    Bound("agarwal-fixed", agarwal_fixed_bound, "separate", _CONDITIONAL),
    Bound("per-class", per_class_bound, "separate"),
    Bound("dkw-bernstein", dkw_bernstein_bound),
    Bound("block-bernstein", block_bernstein_bound),
    Bound("asymptotic", asymptotic_bound, validity="no guarantee"),
)
