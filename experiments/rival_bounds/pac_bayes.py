"""PAC-Bayes bounds: a guarantee from the training rows, for a randomised linear score.

Scores are x.w. Before looking at the rows w is N(0, I), the prior P; after training in any way
whatever it is drawn once from Q = N(mu w^ / ||w^||, I), and people are ranked by that draw. mu says
how closely the draws follow the trained direction w^, and KL(Q, P) = mu^2 / 2. **The guarantee is
for this randomised (Gibbs) scorer**, the expectation of AUUC over Q, not for w^ itself. The scaling
of the features must be fixed beforehand (known ranges, say): it decides what N(0, I) means.

How E_Q, the expectation over Q, is computed: :mod:`experiments.rival_bounds.gibbs`.

**The bound on AUUC.** Z(w) is the AUUC on the rows minus its target. For fixed w and sigma > 0

    E exp(sigma Z(w) - sigma^2 V / 8) <= 1,                                                    (1)

* target "conditional" (given treatments and outcomes, ``arms.py``): each arm's AUC
  is unbiased, and McDiarmid's martingale, whose steps lie in intervals of length c_i, gives (1) by
  Hoeffding's lemma with V = sum c_i^2 = lam_T / n_T + lam_C / n_C;
* target "population" (given treatments): an arm's estimate is the mean over ordered pairs of
  *different* rows of y 1{f > f'} (ties 1/2), unbiased for E[Y 1{f > f'}]; a new row moves it by at
  most 1 / n_g, so V = 1 / n_T + 1 / n_C;
* ``inequality="hoeffding"``: an arm's estimate is also an average over matchings of means of
  independent terms, and exp is convex, so (1) holds with V = sum lam_g^2 / min(m_g+, m_g-)
  (conditional), or V = sum 1 / (4 floor(n_g / 2)) (population: floor(n / 2) pairs with values in
  [0, 1/2]). Both are smaller, the second about half.

Integrate (1) over P, swap the expectations and use Markov: with probability at least 1 - delta the
integral over P of exp(sigma Z - sigma^2 V / 8) is at most 1 / delta, and then, by Donsker and
Varadhan, for **all** Q at once, sigma E_Q Z <= KL + ln(1 / delta) + sigma^2 V / 8. Only sigma must
be fixed beforehand. To each of K values of mu belongs its best sigma; a union over these K gives

    E_Q AUUC >= E_Q AUUC^ - sqrt(V (mu^2 / 2 + ln(K / delta)) / 2).

**The chromatic bound, arm by arm.** With m = min(m+, m-), R the ranking risk and R^ its value on
the rows, R^(w) is an average over the sets of the fractional cover (``cover.py``) of
means of m independent losses. exp(m kl) is convex in R^, so E exp(m kl(R^(w), R(w))) <= xi(m) =
sum_k binom(m, k) (k/m)^k (1 - k/m)^(m-k), the value for m independent 0/1 losses (for losses in
[0, 1] it is no larger, again by convexity). As above, with probability at least 1 - delta, for all
Q at once and so for every mu,

    kl(E_Q R^, E_Q R) <= E_Q kl(R^, R) <= (mu^2 / 2 + ln(xi(m) / delta)) / m.

Each term of xi is a probability, so xi(m) <= m + 1, which is what the published bound has.

**How delta is divided.** If E_Q is sampled, delta / 10 goes to that, in equal parts to the K values
of mu (and, in the chromatic bound, to the two arms), each by Hoeffding's inequality: values of a
pair lie in [0, 1], the AUUC of a draw of w in an interval of length lam_T + lam_C (each times
n / (n - 1) for the unbiased estimate). The rest, or all of delta if E_Q is exact, goes to the bound
on AUUC, or in halves to the arms of the chromatic bound.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaln, kl_div, xlogy

from auucmax._validation import Floats, check_choice, check_level
from auucmax.certificates.bound import LowerBound
from experiments.rival_bounds.arms import Arm, auuc_of_risks
from experiments.rival_bounds.bound import Bound
from experiments.rival_bounds.gibbs import auuc_of_aucs, gibbs_auc, linear_rows

DEFAULT_MU = (1.0, 2.0, 4.0, 8.0)
TARGETS = ("conditional", "population")
INEQUALITIES = ("mcdiarmid", "hoeffding")
_SAMPLING_SHARE = 0.1  # of delta, when the expectation over Q is sampled


@dataclass(frozen=True)
class GibbsLowerBound(LowerBound):
    """A bound for w ~ N(mu u, I), u the trained direction; ``estimate`` is AUUC expected over w."""

    mu: float


def pac_bayes_bound(
    y: ArrayLike,
    X: Any,
    *,
    treatment: ArrayLike,
    w: ArrayLike,
    mu: float | ArrayLike = DEFAULT_MU,
    target: str = "conditional",
    inequality: str = "mcdiarmid",
    integration: str = "pairs",
    n_samples: int | None = None,
    delta: float = 0.05,
    random_state: int | np.random.Generator | None = None,
    control: Any = None,
) -> GibbsLowerBound:
    """AUUC of the randomised scorer around a trained direction, from the training rows.

    Parameters
    ----------
    y, X, treatment : 0/1 outcome (n,), features (n, d) and treatment (n,) of the training rows. The
        scaling of X must have been fixed beforehand.
    w : (d,) the trained weights; only their direction counts.
    mu : distance of the posterior from the prior, or several of them, fixed beforehand; the best
        bound is returned.
    target : ``"conditional"`` (population ranking risks at the observed outcome rates) or
        ``"population"``.
    inequality : ``"mcdiarmid"`` or ``"hoeffding"``, which is never wider.
    integration : how E_Q is computed: ``"pairs"``, ``"draws"`` or ``"exact"`` (O(n^2)).
    n_samples : pairs an arm (default 1,000,000), or draws of w (default 1,000; their Hoeffding term
        is wide).

    Examples
    --------
    >>> y, t = [1, 0] * 800, [1, 1, 0, 0] * 400
    >>> X = [[1.0], [-1.0], [-1.0], [1.0]] * 400  # ranks every pair right
    >>> bound = pac_bayes_bound(y, X, treatment=t, w=[1.0], random_state=0)
    >>> bound.mu, round(bound.estimate, 3), round(bound.lower, 3)
    (2.0, 0.239, 0.193)
    """
    check_choice(target, "target", TARGETS)
    check_choice(inequality, "inequality", INEQUALITIES)
    check_level(delta, "delta")
    linear = linear_rows(y, X, treatment=treatment, w=w, control=control)
    gibbs = gibbs_auc(
        linear, mu, integration=integration, n_samples=n_samples, random_state=random_state
    )
    population, n_mu = target == "population", len(gibbs.aucs)
    sampling = 0.0 if integration == "exact" else _SAMPLING_SHARE * delta
    error = gibbs.error(_factors(linear.arms, population), sampling / n_mu) if sampling else 0.0
    variation = sum(_variation(arm, population, inequality) for arm in linear.arms)
    bounds = []
    for value, aucs in gibbs.aucs.items():
        estimate = auuc_of_aucs(linear.arms, aucs, unbiased=population)
        divergence = value**2 / 2 + np.log(n_mu / (delta - sampling))
        lower = estimate - error - np.sqrt(variation * divergence / 2)
        bounds.append(GibbsLowerBound("pac-bayes", float(lower), estimate, delta, value))
    return max(bounds, key=lambda bound: bound.lower)


def chromatic_pac_bayes_bound(
    y: ArrayLike,
    X: Any,
    *,
    treatment: ArrayLike,
    w: ArrayLike,
    mu: float | ArrayLike = DEFAULT_MU,
    constant: str = "exact",
    integration: str = "pairs",
    n_samples: int | None = None,
    delta: float = 0.05,
    random_state: int | np.random.Generator | None = None,
    control: Any = None,
) -> GibbsLowerBound:
    """Conditional AUUC of the randomised scorer, each arm's risk by inverting kl.

    ``constant`` is ``"exact"``, xi(m), or ``"published"``, m + 1. Other parameters are those of
    :func:`pac_bayes_bound`.

    Examples
    --------
    >>> y, t = [1, 0] * 800, [1, 1, 0, 0] * 400
    >>> X = [[1.0], [-1.0], [-1.0], [1.0]] * 400
    >>> bound = chromatic_pac_bayes_bound(y, X, treatment=t, w=[1.0], random_state=0)
    >>> bound.mu, round(bound.estimate, 3), round(bound.lower, 3)
    (4.0, 0.25, 0.228)
    """
    check_choice(constant, "constant", ("exact", "published"))
    check_level(delta, "delta")
    linear = linear_rows(y, X, treatment=treatment, w=w, control=control)
    gibbs = gibbs_auc(
        linear, mu, integration=integration, n_samples=n_samples, random_state=random_state
    )
    sampling = 0.0 if integration == "exact" else _SAMPLING_SHARE * delta
    # One arm at a time, and all of them for all mu.
    error = gibbs.error(np.ones(1), sampling / (2 * len(gibbs.aucs))) if sampling else 0.0
    log_moment = _log_xi if constant == "exact" else np.log1p
    bounds = []
    for value, aucs in gibbs.aucs.items():
        risks = []
        for arm, risk in zip(linear.arms, (1 - float(aucs[0]), float(aucs[1])), strict=True):
            m = arm.rarer
            divergence = value**2 / 2 + log_moment(m) + np.log(2 / (delta - sampling))
            risks.append(kl_inverse(min(1.0, risk + error), divergence / m))
        lower, estimate = auuc_of_risks(linear.arms, *risks), auuc_of_aucs(linear.arms, aucs)
        bounds.append(GibbsLowerBound("chromatic-pac-bayes", lower, estimate, delta, value))
    return max(bounds, key=lambda bound: bound.lower)


def kl_inverse(q: float, bound: float) -> float:
    """The largest p >= q with q ln(q / p) + (1 - q) ln((1 - q) / (1 - p)) <= bound.

    >>> round(kl_inverse(0.0, 0.5), 4)  # 1 - exp(-0.5)
    0.3935
    """
    low, high = q, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        inside = kl_div(q, middle) + kl_div(1 - q, 1 - middle) <= bound
        low, high = (middle, high) if inside else (low, middle)
    return float(high)


def _log_xi(m: float) -> float:
    """ln xi(m), xi(m) = sum_k binom(m, k) (k/m)^k (1 - k/m)^(m-k)."""
    if m > 10**6:
        return float(np.log(4 * m) / 2)  # xi(m) <= 2 sqrt(m) for m >= 8 (Maurer 2004)
    k = np.arange(m + 1)
    log_binomial = gammaln(m + 1) - gammaln(k + 1) - gammaln(m - k + 1)
    return float(np.log(np.exp(log_binomial + xlogy(k, k / m) + xlogy(m - k, 1 - k / m)).sum()))


def _factors(arms: tuple[Arm, Arm], population: bool) -> Floats:
    """What multiplies the arms' AUC in the estimate of AUUC: lam, or lam n / (n - 1)."""
    return np.array([a.weight * (a.size / (a.size - 1) if population else 1) for a in arms])


def _variation(arm: Arm, population: bool, inequality: str) -> float:
    """The arm's part of V."""
    if inequality == "mcdiarmid":
        return 1 / arm.size if population else arm.weight / arm.size
    return 1 / (4 * (arm.size // 2)) if population else arm.weight**2 / arm.rarer


_ASSUMPTIONS = (
    "y is 0/1; linear score; scaling of the features and the values of mu fixed beforehand; "
)
PAC_BAYES_BOUNDS = (
    Bound(
        name="pac-bayes",
        function=pac_bayes_bound,
        target="AUUC expected over the randomised scorer w ~ N(mu u, I): conditional (population "
        "ranking risks at the observed outcome rates), or of the population",
        ranking="separate",
        rows="training",
        assumptions=_ASSUMPTIONS + "given treatment and outcome the x of a class are independent "
        "and alike (conditional), or given treatment the rows of an arm are (population)",
        formula="E_Q AUUC - sqrt(V (mu^2/2 + ln(K/delta)) / 2), V = lam_T/n_T + lam_C/n_C "
        "(conditional) or 1/n_T + 1/n_C (population)",
        reference="derived in experiments/rival_bounds/pac_bayes.py, from the inequalities of "
        "McDiarmid, of Hoeffding and of Donsker and Varadhan",
        validity="holds, for the randomised scorer only",
    ),
    Bound(
        name="chromatic-pac-bayes",
        function=chromatic_pac_bayes_bound,
        target="conditional AUUC expected over the randomised scorer w ~ N(mu u, I)",
        ranking="separate",
        rows="training",
        assumptions=_ASSUMPTIONS
        + "given treatment and outcome the x of a class are independent and alike",
        formula="gamma - sum lam_g kl_inverse(E_Q R^_g, (mu^2/2 + ln(2 xi(m_g)/delta)) / m_g)",
        reference="Ralaivola, Szafranski and Stempfel (2010), with m + 1 for xi(m): recalled, not "
        "re-read; proved in experiments.rival_bounds.pac_bayes",
        validity="holds, for the randomised scorer only",
    ),
)
