"""PAC-Bayes bounds: a guarantee from the training rows, for a randomised linear score.

Scores are x.w. Before looking at the rows w is N(0, I), the prior P; after training in any way
whatever it is drawn once from Q = N(mu w^ / ||w^||, I), and people are ranked by that draw. mu says
how closely the draws follow the trained direction w^, and KL(Q, P) = mu^2 / 2. **The guarantee is
for this randomised (Gibbs) scorer**, the expectation of AUUC over Q, not for w^ itself. The scaling
of the features must be fixed beforehand (known ranges, say): it decides what N(0, I) means.

**The expectation over Q.** The draw puts x above x' with probability Phi(mu cos), cos =
u.(x - x') / ||x - x'||, u = w^ / ||w^||, and 1/2 if x = x'. So the expectation of an arm's AUC is a
mean over its pairs of a positive and a negative row: of pairs taken at random, or of all of them.

**The bound on AUUC.** Z(w) is the AUUC on the rows minus its target, which is conditional (given
treatments and outcomes, ``arms.py``). For fixed w and sigma > 0

    E exp(sigma Z(w) - sigma^2 V / 8) <= 1:                                                    (1)

* ``inequality="mcdiarmid"``: each arm's AUC is unbiased, and McDiarmid's martingale, whose steps
  lie in intervals of length c_i, gives (1) by Hoeffding's lemma with V = sum c_i^2 =
  lam_T / n_T + lam_C / n_C;
* ``"hoeffding"``: an arm's estimate is also an average over matchings of means of independent
  terms, and exp is convex, so (1) holds with V = sum lam_g^2 / min(m_g+, m_g-), which is smaller.

Integrate (1) over P, swap the expectations and use Markov: with probability at least 1 - delta the
integral over P of exp(sigma Z - sigma^2 V / 8) is at most 1 / delta, and then, by Donsker and
Varadhan, for **all** Q at once, sigma E_Q Z <= KL + ln(1 / delta) + sigma^2 V / 8. Only sigma must
be fixed beforehand. To each of K values of mu belongs its best sigma; a union over these K gives

    E_Q AUUC >= E_Q AUUC^ - sqrt(V (mu^2 / 2 + ln(K / delta)) / 2).

**The chromatic bound, arm by arm** (Ralaivola, Szafranski and Stempfel 2010). With m =
min(m+, m-), R the ranking risk and R^ its value on the rows, R^(w) is an average over the sets of
the fractional cover (``cover.py``) of means of m independent losses. exp(m kl) is convex in R^, so
E exp(m kl(R^(w), R(w))) <= xi(m) = sum_k binom(m, k) (k/m)^k (1 - k/m)^(m-k), the value for m
independent 0/1 losses (for losses in [0, 1] it is no larger, again by convexity). As above, with
probability at least 1 - delta, for all Q at once and so for every mu,

    kl(E_Q R^, E_Q R) <= E_Q kl(R^, R) <= (mu^2 / 2 + ln(xi(m) / delta)) / m.

**How delta is divided.** If E_Q is sampled, delta / 10 goes to that, in equal parts to the K values
of mu (and, in the chromatic bound, to the two arms), each by Hoeffding's inequality. The rest, or
all of delta if E_Q is exact, goes to the bound on AUUC, or in halves to the arms of the chromatic
bound.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike
from scipy.special import gammaln, kl_div, ndtr, xlogy

from auucmax._validation import Floats, check_choice
from auucmax.certificates.types import LowerBound
from experiments.rival_bounds.arms import Arm, auuc_of_risks, binary_rows, class_rows

DEFAULT_MU = (1.0, 2.0, 4.0, 8.0)
INEQUALITIES = ("mcdiarmid", "hoeffding")
N_PAIRS = 1_000_000  # of an arm
_SAMPLING_SHARE = 0.1  # of delta, when the expectation over Q is sampled
_BLOCK = 8192  # pairs whose differences stay in the cache


@dataclass(frozen=True)
class GibbsLowerBound(LowerBound):
    """A bound for w ~ N(mu u, I), u the trained direction; ``estimate`` is AUUC expected over w."""

    mu: float


class GibbsAUC(NamedTuple):
    """Expected AUC of the treated and of the control arm (2,) for each mu, and the arms.

    The AUCs are means of ``size`` pairs; infinity if all pairs were summed.
    """

    aucs: dict[float, Floats]
    arms: tuple[Arm, Arm]
    size: float

    def error(self, factors: Floats, delta: float) -> float:
        """Hoeffding: the sum of +-factor x AUC is off by more, to one side, with chance delta."""
        spread = np.sqrt((factors**2).sum())
        return float(spread * np.sqrt(np.log(1 / delta) / (2 * self.size))) if delta else 0.0


def gibbs_auc(
    y: ArrayLike,
    X: Any,
    *,
    treatment: ArrayLike,
    w: ArrayLike,
    mu: Sequence[float] = DEFAULT_MU,
    n_pairs: int | None = N_PAIRS,
    random_state: int | Generator | None = None,
) -> GibbsAUC:
    """Expected AUC of both arms over w ~ N(mu u, I), from random pairs; ``None``: all pairs.

    >>> rows = {"y": [1, 0, 1, 0], "X": [[1], [0], [2], [2]], "treatment": [1, 1, 0, 0]}
    >>> gibbs_auc(**rows, w=[3], mu=[1.0], n_pairs=None).aucs  # Phi(1), and a tie
    {1.0: array([0.84134475, 0.5       ])}
    """
    matrix, weights = np.asarray(X, dtype=np.float64), np.asarray(w, dtype=np.float64)
    direction = weights / np.linalg.norm(weights)
    rows, arms = binary_rows(y, matrix @ direction, treatment=treatment)
    rng, totals = np.random.default_rng(random_state), np.zeros((len(mu), 2))
    for arm, classes in enumerate(class_rows(rows)):
        positive, negative = (matrix[index] for index in classes)
        n = len(positive) * len(negative) if n_pairs is None else n_pairs
        for block in _differences(positive, negative, n_pairs, rng):
            lengths = np.sqrt(np.einsum("ij,ij->i", block, block))
            cosines = np.divide(
                block @ direction, lengths, out=np.zeros_like(lengths), where=lengths > 0
            )
            totals[:, arm] += [ndtr(value * cosines).sum() for value in mu]
        totals[:, arm] /= n
    return GibbsAUC(dict(zip(mu, totals, strict=True)), arms, n_pairs or np.inf)


def _differences(
    positive: Floats, negative: Floats, n_pairs: int | None, rng: Generator
) -> Iterator[Floats]:
    """Of all pairs, or of pairs with replacement: independent draws, given the rows."""
    if n_pairs is None:
        yield from (x - negative for x in positive)
        return
    for start in range(0, n_pairs, _BLOCK):
        size = min(_BLOCK, n_pairs - start)
        first = rng.integers(len(positive), size=size)
        second = rng.integers(len(negative), size=size)
        yield positive[first] - negative[second]


def auuc_of_aucs(arms: tuple[Arm, Arm], aucs: Floats) -> float:
    """AUUC, arms ranked separately, with these AUC of the treated and the control arm.

    >>> auuc_of_aucs((Arm(1, 1), Arm(1, 1)), np.array([1.0, 0.5]))
    0.125
    """
    return auuc_of_risks(arms, 1 - float(aucs[0]), float(aucs[1]))


def pac_bayes_bound(
    y: ArrayLike,
    X: Any,
    *,
    inequality: str = "mcdiarmid",
    delta: float = 0.05,
    **options: Any,
) -> GibbsLowerBound:
    """AUUC of the randomised scorer around a trained direction, from the training rows.

    ``options`` are those of :func:`gibbs_auc`: treatment, w, the values of mu (fixed beforehand;
    the best bound is returned), n_pairs and random_state.

    Examples
    --------
    >>> y, t = [1, 0] * 800, [1, 1, 0, 0] * 400
    >>> X = [[1.0], [-1.0], [-1.0], [1.0]] * 400  # ranks every pair right
    >>> bound = pac_bayes_bound(y, X, treatment=t, w=[1.0], random_state=0)
    >>> bound.mu, round(bound.estimate, 3), round(bound.lower, 3)
    (2.0, 0.239, 0.193)
    """
    check_choice(inequality, "inequality", INEQUALITIES)
    gibbs = gibbs_auc(y, X, **options)
    sampling = 0.0 if np.isinf(gibbs.size) else _SAMPLING_SHARE * delta
    n_mu = len(gibbs.aucs)
    error = gibbs.error(np.array([arm.weight for arm in gibbs.arms]), sampling / n_mu)
    v = sum(variation(arm, inequality) for arm in gibbs.arms)
    bounds = []
    for value, aucs in gibbs.aucs.items():
        estimate = auuc_of_aucs(gibbs.arms, aucs)
        divergence = value**2 / 2 + np.log(n_mu / (delta - sampling))
        lower = estimate - error - np.sqrt(v * divergence / 2)
        bounds.append(GibbsLowerBound("pac-bayes", float(lower), estimate, delta, value))
    return max(bounds, key=lambda bound: bound.lower)


def chromatic_pac_bayes_bound(
    y: ArrayLike, X: Any, *, delta: float = 0.05, **options: Any
) -> GibbsLowerBound:
    """Conditional AUUC of the randomised scorer, each arm's risk by inverting kl.

    Examples
    --------
    >>> y, t = [1, 0] * 800, [1, 1, 0, 0] * 400
    >>> X = [[1.0], [-1.0], [-1.0], [1.0]] * 400
    >>> bound = chromatic_pac_bayes_bound(y, X, treatment=t, w=[1.0], random_state=0)
    >>> bound.mu, round(bound.estimate, 3), round(bound.lower, 3)
    (4.0, 0.25, 0.228)
    """
    gibbs = gibbs_auc(y, X, **options)
    sampling = 0.0 if np.isinf(gibbs.size) else _SAMPLING_SHARE * delta
    # One arm at a time, and all of them for all mu.
    error = gibbs.error(np.ones(1), sampling / (2 * len(gibbs.aucs)))
    bounds = []
    for value, aucs in gibbs.aucs.items():
        risks = []
        for arm, risk in zip(gibbs.arms, (1 - float(aucs[0]), float(aucs[1])), strict=True):
            divergence = value**2 / 2 + log_xi(arm.rarer) + np.log(2 / (delta - sampling))
            risks.append(kl_inverse(np.clip(risk + error, 0, 1), divergence / arm.rarer))
        lower, estimate = auuc_of_risks(gibbs.arms, *risks), auuc_of_aucs(gibbs.arms, aucs)
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


def log_xi(m: float) -> float:
    """ln xi(m), xi(m) = sum_k binom(m, k) (k/m)^k (1 - k/m)^(m-k)."""
    k = np.arange(m + 1)
    log_binomial = gammaln(m + 1) - gammaln(k + 1) - gammaln(m - k + 1)
    return float(np.log(np.exp(log_binomial + xlogy(k, k / m) + xlogy(m - k, 1 - k / m)).sum()))


def variation(arm: Arm, inequality: str) -> float:
    """The arm's part of V."""
    return arm.weight / arm.size if inequality == "mcdiarmid" else arm.weight**2 / arm.rarer
