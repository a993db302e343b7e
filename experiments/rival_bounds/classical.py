"""Classical lower bounds on AUUC and on the gain over random, for a score fixed beforehand.

A DKW band with an empirical Bernstein bound, and the normal approximation. Betting
(``auucmax.certificates.betting``) is narrower than the first, and holds.

Given who was treated, the rows should be independent, those of an arm identically distributed, and
x of the same distribution in both arms: a randomised trial, the held-out rows split off at random
or by treatment (not by outcome: class counts must be left to chance). With G(s) = P(f < s) +
P(f = s) / 2 in the population and a centre c of 0 for AUUC, 1/2 for the gain over random,
AUUC - ATE/2, the bounds are about

    theta = theta_T - theta_C,    theta_g = E[Y (G(f) - c) | arm g].

Choosing the best of ``n_candidates`` scores on these rows is allowed: delta is divided among them,
so that all their bounds hold together. Each ``estimate`` is the one that the bound subtracts from;
for large n they are all ``auuc_score``. Bounds with a proof have no condition on n.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Required, TypedDict, Unpack

import numpy as np
from numpy.typing import ArrayLike

from auucmax import certify
from auucmax._validation import ScoredRows, check_choice, check_level, check_rows, check_whole
from auucmax.certificates.blocks import CENTRES, known_range
from auucmax.certificates.bound import LowerBound
from auucmax.metrics.ranking import sorted_rows
from experiments.rival_bounds.bound import Bound

DKW_SHARE = 0.2  # of delta, for the band of G; the rest goes to the means


class Asked(TypedDict, total=False):
    """Arguments of the bounds from held-out rows; see :func:`dkw_bernstein_bound`."""

    treatment: Required[ArrayLike]
    target: str
    delta: float
    n_candidates: int
    outcome_range: tuple[float, float]
    control: Any


class Claim(NamedTuple):
    """What a bound is about, and how sure it is; ``scale``: the length of the outcome range."""

    centre: float
    delta: float
    n_candidates: int
    scale: float

    @classmethod
    def of(cls, target: str, delta: float, n_candidates: int, scale: float = 1.0) -> Claim:
        """``target``: "auuc" or "gain"."""
        check_choice(target, "target", ("auuc", "gain"))
        check_level(delta, "delta")
        n_candidates = check_whole(n_candidates, "n_candidates", 1)
        return cls(CENTRES[target == "gain"], delta, n_candidates, scale)

    def log_inverse(self, parts: float = 1) -> float:
        """ln(parts n_candidates / delta): delta shared by candidates, and by parts of a proof."""
        return float(np.log(parts * self.n_candidates / self.delta))

    def bound(self, name: str, estimate: float, gap: float) -> LowerBound:
        """The answer, in the units of y."""
        estimate, gap = float(self.scale * estimate), float(self.scale * gap)
        return LowerBound(name, lower=estimate - gap, estimate=estimate, delta=self.delta)


def dkw_bernstein_bound(y: ArrayLike, score: ArrayLike, **asked: Unpack[Asked]) -> LowerBound:
    """Population AUUC, or gain: a band for G from all rows, an empirical Bernstein bound for means.

    With y scaled to [0, 1], G_n the share of all rows below (ties and the row itself half), z_i =
    y_i (G_n(f_i) - c), s_g^2 its sample variance in an arm, K = min(n_T, n_C), d = delta /
    n_candidates, eps = sqrt(ln(2 / .2d) / (2n)) and L = ln(2 / .8d), the estimate is mean(z | T) -
    mean(z | C) and

        gap = eps (mean(y | T) + mean(y | C)) + 7 L / (3 (K - 1))
              + sqrt(2L) [ sqrt(s_T^2/n_T + s_C^2/n_C)
                           + eps sqrt(mean(y^2 | T)/(n_T - 1) + mean(y^2 | C)/(n_C - 1)) ].

    *Proof.* All rows have one law of f, so |G_n - G| <= eps everywhere with probability 1 - .2d
    (Dvoretzky, Kiefer, Wolfowitz, Massart; G is the mean of a distribution function and its left
    limit). Then means of z differ from those with G by at most eps mean(y), and sqrt(W), W =
    s_T^2/n_T + s_C^2/n_C, being a seminorm, by at most the last term. With G the z are independent,
    in an interval of length 1, and the theorem of Maurer and Pontil (2009) extends from one sample
    to two: Bernstein's inequality gives theta >= estimate - sqrt(2 L E[W]) - L / (3K) with error
    .4d; replacing row k of arm g by the mean of its arm's others lowers W by (z_k - mean)^2 / n_g^2
    <= 1/K^2, and these sum to at most K/(K-1) W, so K^2 W is self-bounding and sqrt(E[W]) <=
    sqrt(W) + sqrt(2 L / (K (K-1))) with error .4d.

    Parameters
    ----------
    y : (n,) outcomes in ``outcome_range``, the range that was known before the rows.
    score : (n,) scores fixed before these rows; treatment : (n,) as in ``auuc_score``.
    target : ``"auuc"`` or ``"gain"`` (over random).
    delta : allowed probability that ``lower`` exceeds the target.
    n_candidates : number of scores from which this one was chosen by looking at these rows.
    control : label of the control group, when ``treatment`` is not 0/1.

    Examples
    --------
    >>> from auucmax import load_hillstrom
    >>> trial = load_hillstrom()
    >>> score = trial.X["womens"]
    >>> round(dkw_bernstein_bound(trial.y, score, treatment=trial.treatment, target="gain").gap, 4)
    0.0049
    """
    rows, claim = held_out_rows(y, score, **asked)
    part = sorted_rows(rows)
    z = part.y * (part.middle_ranks() - claim.centre)
    log_term = claim.log_inverse(parts=2 / (1 - DKW_SHARE))
    eps = np.sqrt(claim.log_inverse(parts=2 / DKW_SHARE) / (2 * len(rows.y)))
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
    return claim.bound("dkw-bernstein", float(estimate), float(gap))


def asymptotic_bound(
    y: ArrayLike, score: ArrayLike, *, target: str = "auuc", **options: Any
) -> LowerBound:
    """The lower end of an interval of ``auuc_inference``: **no guarantee** for any n.

    ``options`` as in :func:`auucmax.certify`, which calls this method "asymptotic". The interval
    has level 1 - 2 delta / n_candidates. It is the narrowest of all, and right as n grows.

    Examples
    --------
    >>> from auucmax import load_hillstrom
    >>> trial = load_hillstrom()
    >>> score = trial.X["womens"]
    >>> round(asymptotic_bound(trial.y, score, treatment=trial.treatment, target="gain").gap, 4)
    0.0013
    """
    check_choice(target, "target", ("auuc", "gain"))
    found = certify(score, y=y, method="asymptotic", **options)
    lower, estimate = found.lower_bound, found.estimate
    if target == "gain":
        lower, estimate = found.gain_lower_bound, found.gain_estimate
    return LowerBound("asymptotic", lower=lower, estimate=estimate, delta=found.delta)


def held_out_rows(
    y: ArrayLike,
    score: ArrayLike,
    *,
    treatment: ArrayLike,
    target: str = "auuc",
    delta: float = 0.05,
    n_candidates: int = 1,
    outcome_range: tuple[float, float] = (0.0, 1.0),
    control: Any = None,
) -> tuple[ScoredRows, Claim]:
    """Rows with y scaled to [0, 1], at least two an arm, and the claim."""
    rows = check_rows(y, score, treatment=treatment, control=control)
    low, high = known_range(outcome_range, rows.y.min(), rows.y.max())
    n_treated = int(rows.treated.sum())
    n_control = len(rows.y) - n_treated
    if min(n_treated, n_control) < 2:
        raise ValueError(
            f"each arm should have at least two rows, got {n_treated} treated and {n_control} "
            f"control. A bound needs more held-out rows."
        )
    rows = rows._replace(y=(rows.y - low) / (high - low))
    return rows, Claim.of(target, delta, n_candidates, high - low)


RANDOMISED = "randomised trial, independent rows, score fixed before (or one of n_candidates)"
CLASSICAL_BOUNDS = (
    Bound(
        name="dkw-bernstein",
        function=dkw_bernstein_bound,
        assumptions=f"{RANDOMISED}; y in a known range",
        formula="eps (p_T + p_C) + sqrt(2L) (sd + eps rms) + 7L / (3(K-1))",
        reference="Massart 1990; Maurer and Pontil 2009",
    ),
    Bound(
        name="asymptotic",
        function=asymptotic_bound,
        assumptions=f"{RANDOMISED}; many rows and outcomes that are not rare",
        formula="t(1 - delta/M) standard errors",
        reference="Hajek projection of a U-statistic",
        validity="no guarantee: holds as n grows, misses too often with rare outcomes",
    ),
)
