"""Targets and loss functions of the shrunk and boosted models.

Outcomes of three kinds are modelled in one way, as z(x, t) = g(x) + d f(x), d = t - share of
treated:

* 0/1: log-loss, P(y = 1) = expit(z).
* Whether, where at least half of the rows have the smallest or the largest outcome, 0 say: the
  log-loss of y != 0. How much is one number, the mean of the outcomes that are not 0: a model of
  these, who are few, would learn noise, and the ranking of people by money with it.
* Numbers, all others: squared loss of the outcome in standard deviations.

Outcomes are winsorised, since a single large one could decide a ranking: at the 1% and 99%
quantiles of those that are not the usual one, or of all that are modelled as numbers.

    score(x) = treated amount mean(z(x, 1)) - control amount mean(z(x, 0))

Both amounts are 1 for 0/1, the standard deviation for numbers. For "whether" they are the mean of
both arms together; their difference is kept as far as it clearly exceeds noise
(:func:`arm_amounts`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit, log_expit

from auucmax._errors import InputError
from auucmax._validation import Bools, Floats
from auucmax.encoding.kinds import MOSTLY
from auucmax.rows import ArrayRows, Sample

TAIL = 0.01  #: of outcomes on either side that are winsorised
CLEARLY = 4.0  #: squared standard errors that a difference of amounts has to be beyond, to count
SAMPLE = 1_000_000  #: rows, at most, that amounts, quantiles and ranks are computed from


class Binomial:
    """Log-loss of 0/1 outcomes with linear predictor z.

    >>> Binomial().value(np.zeros(1), np.ones(1)).round(4).tolist()
    [0.6931]
    """

    link, most_bent = "sigmoid", 0.25  #: means are expit(z); Hessians are at most most_bent

    def value(self, z: Floats, y: Floats) -> Floats:
        """The loss of each row."""
        return np.asarray(-log_expit(np.where(y == 1, z, -z)))

    def hessian(self, z: Floats) -> Floats:
        """Second derivative in z."""
        chance = expit(z)
        return np.asarray(chance * (1 - chance))

    def steepest(self, z: Floats, y: Floats) -> float:
        """Bound of the gradient in z; if unbounded, twice the largest on these rows."""
        return 1.0

    def add_to(self, totals: Floats, z: Floats, y: Floats, weight: Floats) -> Floats:
        """Add losses to ``totals``; return weighted derivatives in z.

        One exponential serves both; ``z`` is written over.
        """
        small = np.exp(-np.abs(z))
        above = 1 + small
        # expit, from the exponential at hand
        wrong = np.where(z >= 0, 1.0, small) / above - y[:, None]
        wrong *= weight[:, None]
        totals += _log_sums(above, weight) - (weight * y) @ z
        totals += weight @ np.maximum(z, 0, out=z)
        return np.asarray(wrong)

    def start(self, mean: float) -> float:
        """Linear predictor for a mean outcome."""
        return float(np.log(mean / (1 - mean)))

    def nats(self, total: Floats, weight: float) -> Floats:
        """Negative log-likelihood up to a constant, from total losses."""
        return total


class Gaussian:
    """Squared loss of a linear predictor z: (z - y)^2 / 2.

    >>> Gaussian().value(np.zeros(1), np.full(1, 3.0)).tolist()
    [4.5]
    """

    link, most_bent = "identity", 1.0

    def value(self, z: Floats, y: Floats) -> Floats:
        return np.asarray((z - y) ** 2 / 2)

    def hessian(self, z: Floats) -> Floats:
        return np.ones(z.shape)

    def add_to(self, totals: Floats, z: Floats, y: Floats, weight: Floats) -> Floats:
        wrong = z - y[:, None]
        totals += weight @ (wrong**2 / 2)
        return wrong * weight[:, None]

    def steepest(self, z: Floats, y: Floats) -> float:
        return 2 * float(np.abs(z - y).max()) or 1.0

    def start(self, mean: float) -> float:
        return mean

    def nats(self, total: Floats, weight: float) -> Floats:
        """Negative log-likelihood at the maximum-likelihood variance."""
        smallest = np.finfo(np.float64).tiny
        return np.asarray(weight / 2 * np.log(np.maximum(2 * total / weight, smallest)))


def _log_sums(numbers: Floats, weight: Floats) -> Floats:
    """Weighted sums of logarithms of (m, k) numbers between 1 and 2.

    The sum of some logarithms is that of their product, which 512 of them keep below 2^512.
    """
    if (weight == 1).all():
        numbers = np.multiply.reduceat(numbers, np.arange(0, len(numbers), 512), axis=0)
        return np.asarray(np.log(numbers).sum(axis=0))
    return np.asarray(weight @ np.log(numbers))


BINOMIAL, GAUSSIAN = Binomial(), Gaussian()
Loss = Binomial | Gaussian


@dataclass(frozen=True, eq=False)
class Target:
    """The target of a model; ``rows`` have it as their outcome.

    ``amounts`` (2,) are those of treated and control.
    """

    modelled: str
    amounts: Floats
    rows: ArrayRows

    @property
    def loss(self) -> Loss:
        return GAUSSIAN if self.modelled == "number" else BINOMIAL


def target_of(rows: ArrayRows) -> Target:
    """Choose the target for these outcomes."""
    y = rows.y
    low, high = float(y.min()), float(y.max())
    if low == high:
        raise InputError("y", "of two levels", f"{low:g} in all rows", "There is nothing to learn.")
    if np.isin(y, (0.0, 1.0)).all():
        return Target("0/1", np.ones(2), rows)
    usual = next((end for end in (low, high) if np.mean(y == end) >= MOSTLY), None)
    some = rows.batch if usual is None else rows.batch.take(y != usual)
    weight = np.ones(len(some.y)) if some.weight is None else some.weight
    values = np.column_stack([some.y, some.treated, weight])
    sample, arm, weight = Sample.of(values, some.keys, SAMPLE, n_rows=len(values)).values.T
    if usual is None:
        middle = np.sort(sample)[len(sample) // 2]
        # Where most are 0 and some below, quantiles of all would leave nothing but 0.
        varied = sample
        if np.mean(sample == middle) >= MOSTLY:
            varied = sample[sample != middle]
        low, high = np.quantile(varied, (TAIL, 1 - TAIL)).tolist()
        clipped = np.clip(sample, low, high)
        if clipped.min() == clipped.max():
            low, high, clipped = float(sample.min()), float(sample.max()), sample
        centre = float(np.average(clipped, weights=weight))
        scale = float(np.sqrt(np.average((clipped - centre) ** 2, weights=weight)))
        modelled, amounts = "number", np.full(2, scale)
        outcome = (np.clip(y, low, high) - centre) / scale
    else:
        amount = sample - usual
        largest = np.quantile(np.abs(amount), 1 - TAIL)
        modelled = "whether"
        amounts = arm_amounts(np.clip(amount, -largest, largest), arm > 0, weight)
        outcome = (y != usual).astype(np.float64)
    own = ArrayRows(rows.X, outcome, rows.treated, rows.weight, keys=rows.keys)
    return Target(modelled, amounts, own)


def arm_amounts(amount: Floats, treated: Bools, weight: Floats) -> Floats:
    """Mean amounts of treated and control rows, equal unless they clearly differ, (2,).

    mean + (1 - 4 error^2 / difference^2)+ (mean of the arm - mean): a difference between the arms
    of up to two standard errors is ignored, and a larger one is shrunk.

    >>> amount, treated = np.array([9.0, 11, 10, 9, 11, 11]), np.arange(6) < 3
    >>> arm_amounts(amount, treated, np.ones(6)).round(2).tolist()
    [10.17, 10.17]
    >>> arm_amounts(amount + 90 * treated, treated, np.ones(6)).round(2).tolist()
    [99.98, 10.35]
    """
    every = float(np.average(amount, weights=weight))
    means, squares = [], 0.0
    for arm in (treated, ~treated):
        if arm.sum() < 2:
            return np.full(2, every)
        own, w = amount[arm], weight[arm]
        means.append(float(np.average(own, weights=w)))
        total = float(w.sum())
        n = total**2 / float(w @ w)  # effective number of rows
        spread = float(np.average((own - means[-1]) ** 2, weights=w))
        squares += spread / max(n - 1, 1)
    difference = means[0] - means[1]
    kept = max(0.0, 1 - CLEARLY * squares / difference**2) if difference else 0.0
    return every + kept * (np.array(means) - every)


def likelihood_weights(losses: Floats, least: float) -> Floats:
    """Weights of models proportional to exp(-loss), with sum 1; those below ``least`` are 0."""
    weights = np.exp(losses.min() - losses)
    weights[weights < least * weights.sum()] = 0.0
    return np.asarray(weights / weights.sum())
