"""Confidence limits from moments, valid for small arms, rare or skewed outcomes and clusters.

An estimate is a sum of independent terms, one per row or cluster of rows. Its normal interval fails
where an arm has few responders or an outcome has a long tail: the standard error is then small
whenever the estimate is. Three ways out, each a function of sums:

* **Score limits**, for 0/1 outcomes (:func:`score_limits`). In each arm all theta are kept whose
  own standard deviation, not that of the estimate, is compatible with the mean that was seen, as
  in Wilson's interval (1927); the arms are joined by Newcombe's method (1998). No interval
  collapses where an arm has no responder.
* **Skewed limits** (:func:`skewed_limits`): Hall's (1992) transformation of t, a cubic that takes
  the skewness out and has an inverse.
* **Degrees of freedom** (:class:`Spread`): Satterthwaite's, by the kurtosis of the terms, which
  says how well a variance is known, or Welch's (1947), by the number of terms.

Which of them holds where is measured by ``python -m experiments intervals``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from scipy.special import ndtr, stdtrit

from auucmax._validation import Floats

if TYPE_CHECKING:
    from auucmax.metrics.inference import Support

#: A number, or an array with one for each share.
Number = Any
_MOST_DEGREES = 1e9  # as good as normal
_INFLATION = (0.1, 3.0)  # of rows: what the ranks can plausibly do to a variance


class Moments(NamedTuple):
    """Moments of the terms of ``units`` independent units of one arm.

    With d the distances from their mean: ``variance`` of their sum, sum of d^2 n / (n - 1),
    ``third``, the same for d^3, and ``fourth``, sum of d^4 minus (sum of d^2)^2 / n.
    """

    units: Number
    variance: Number
    third: Number = 0.0
    fourth: Number = 0.0

    @classmethod
    def of(cls, terms: Floats) -> Self:
        """Moments of row terms, (n,) or (n, J)."""
        d = terms - terms.mean(axis=0)
        square = d * d
        pairs = (d, d), (square, d), (square, square)
        return cls.of_sums(len(d), *(np.einsum("i...,i...->...", *pair) for pair in pairs))

    @classmethod
    def of_powers(cls, units: int, powers: Sequence[Number], mean: Number) -> Self:
        """Moments from the sums of the first four powers of the terms.

        ``mean`` is that of the terms; 0 takes them as they are.
        """
        first, second, third, fourth = powers
        return cls.of_sums(
            units,
            np.maximum(second - mean * first, 0.0),
            third - 3 * mean * second + 2 * mean**2 * first,
            fourth - 4 * mean * third + 6 * mean**2 * second - 3 * mean**3 * first,
        )

    @classmethod
    def of_sums(cls, units: int, second: Number, third: Number, fourth: Number) -> Self:
        """Moments from sums of d^2, d^3 and d^4, d = deviation from the mean."""
        correction = small_sample(units)
        spare = np.maximum(fourth - second * second / max(units, 1), 0.0)
        return cls(units, second * correction, third * correction**1.5, spare)

    @classmethod
    def of_clusters(cls, totals: Floats, rest: Floats) -> Self:
        """Moments of cluster totals, (G,) or (G, J), which add up to 0.

        ``rest`` (G,) is 1 - h, with h the part of the arm's rows that a cluster has. A total varies
        less than it should, since its own rows made the mean: each square is divided by 1 - h (Bell
        and McCaffrey 2002, CR2). For clusters of one size that is G / (G - 1).
        """
        d = totals / np.sqrt(rest).reshape(-1, *[1] * (totals.ndim - 1))
        square, plain = d * d, totals * totals
        spare = (plain * plain).sum(axis=0) - plain.sum(axis=0) ** 2 / len(totals)
        third = (square * d).sum(axis=0)
        return cls(len(totals), square.sum(axis=0), third, np.maximum(spare, 0.0))


class Spread(NamedTuple):
    """Standard error, skewness and degrees of freedom of a sum over both arms.

    ``welch`` counts the terms: V^2 / sum over arms of V_g^2 / (n_g - 1). ``degrees`` is that or, if
    lower, 2 V^2 / (variance of V), by the kurtosis of the terms: few terms that carry much of the
    variance make it uncertain, however many there are.
    """

    error: Number
    skew: Number
    degrees: Number
    welch: Number

    @classmethod
    def of(cls, arms: Sequence[Moments]) -> Self:
        """Spread of the sum of all terms of the arms, or of all clusters."""
        variance, third, fourth = (sum(own) for own in zip(*(arm[1:] for arm in arms), strict=True))
        loss: Any = sum(arm.variance**2 / np.maximum(arm.units - 1, 1) for arm in arms)
        error = np.sqrt(variance)
        # Not a number stays what it is.
        kurtosis, welch, skew = (
            np.clip(ratio(above, below, otherwise), -_MOST_DEGREES, _MOST_DEGREES)
            for above, below, otherwise in (
                (2 * variance**2, fourth, _MOST_DEGREES),
                (variance**2, loss, _MOST_DEGREES),
                (third, error**3, 0.0),
            )
        )
        return cls(error, skew, np.maximum(np.minimum(kurtosis, welch), 1.0), welch)


class ArmMean(NamedTuple):
    """Mean of terms z >= 0 of an arm, with its mean-variance relation.

    The variance of z is taken as ``size`` theta - theta^2, as if theta were the chance of a z of
    this size: of a 0/1 outcome times a rank u, size is sum of z^2 / sum of z. ``inflation`` is the
    variance of the arm's part in the estimate over that of its mean of z: ranks and clusters.
    ``sign``: how the mean enters the estimate.
    """

    mean: Number
    size: Number
    inflation: Number
    rows: Number
    sign: int = 1

    @classmethod
    def of(
        cls,
        rows: Number,
        sums: Any,
        variance: Number,
        *,
        sign: int = 1,
        pseudo: tuple[float, float] = (1.0, 1.0),
        clustered: bool = False,
    ) -> Self:
        """Make a mean from sums of z and z^2; ``variance`` is its share of the estimate's.

        ``pseudo``: sums of z and z^2 of responders that are added to those of the arm for the size
        alone, so that it is known without any.
        """
        total, square = sums
        own = np.maximum(square - total**2 / rows, 0.0) / (rows * np.maximum(rows - 1, 1))
        least, most = _INFLATION
        inflation = np.clip(ratio(variance, own, 1.0), least, np.inf if clustered else most)
        size = (square + pseudo[1]) / (total + pseudo[0])
        return cls(total / rows, size, inflation, rows, sign)

    def limits(self, multiple: Number) -> tuple[Number, Number]:
        """Solve (mean - theta)^2 <= multiple^2 inflation (size theta - theta^2) / rows."""
        c = multiple**2 * self.inflation / self.rows
        middle = self.mean + c * self.size / 2
        root = np.sqrt(np.maximum(middle**2 - (1 + c) * self.mean**2, 0.0))
        return (middle - root) / (1 + c), (middle + root) / (1 + c)


def score_limits(
    estimate: Number, means: Sequence[ArmMean], multiple: Number
) -> tuple[Number, Number]:
    """Limits of a sum or difference of arm means, from the score limits of each.

    With (l, u) the limits of an arm, the lower limit of theta_T - theta_C is

        estimate - sqrt((theta_T - l_T)^2 + (u_C - theta_C)^2)

    and the upper one has the other ends: Newcombe (1998), method 10; Donner and Zou (2012). A mean
    whose sign is -1 has its upper limit in the lower one of the estimate, whichever arm it is of.

    Examples
    --------
    >>> none, one = (ArmMean(k / 50, 1.0, 1.0, 50, sign) for k, sign in ((0, 1), (1, -1)))
    >>> [round(float(end), 3) for end in score_limits(-1 / 50, (none, one), 1.96)]
    [-0.105, 0.053]
    """
    below, above = 0.0, 0.0
    for arm in means:
        low, high = arm.limits(multiple)
        reach = (arm.mean - low, high - arm.mean)[:: arm.sign]
        below, above = np.hypot(below, reach[0]), np.hypot(above, reach[1])
    return estimate - below, estimate + above


def skewed_limits(
    estimate: Number, error: Number, skew: Number, quantile: Number
) -> tuple[Number, Number]:
    """Limits from Hall's transformation of t; Student's t at zero skewness.

    g(t) = t + a t^2 + a^2 t^3 / 3 + a / 2 with a = skew / 3 has hardly any skewness left, and is
    increasing: the limits are estimate - error g^-1(quantile) and estimate - error g^-1(-quantile).

    Examples
    --------
    >>> [round(float(end), 2) for end in skewed_limits(10.0, 1.0, 0.5, 1.96)]
    [8.52, 17.67]
    """
    a = np.asarray(skew) / 3
    is_flat = np.abs(a) < 1e-6
    a = np.where(is_flat, 1.0, a)
    low, high = (
        estimate - error * np.where(is_flat, t, (np.cbrt(1 + 3 * a * (t - a / 2)) - 1) / a)
        for t in (quantile, -quantile)
    )
    return low, high


def area_limits(
    estimate: Number,
    moments: Sequence[Moments],
    multiple: Number,
    support: Support | None = None,
    *,
    means: Sequence[ArmMean] | None = None,
    cautious: bool = False,
    widening: Number = 1.0,
    degrees: float | None = None,
    least: Number = 0.0,
) -> tuple[Number, Number]:
    """Limits of AUUC, curve points or risks; ``multiple`` is a normal quantile.

    Score limits if there are ``means`` of the arms, otherwise Student's with Hall's transformation
    where outcomes are skewed (without ``support``: always). ``cautious``: the wider of the two at
    each end, for intervals that are to hold at many shares at once, where the noise of the
    estimated skewness tells. ``widening`` multiplies the standard error; ``degrees`` of freedom
    replace those of the moments. ``least``: no limit is closer than Student's with this error.
    """
    spread = Spread.of(moments)
    if degrees is None:
        degrees = spread.degrees
    if means is not None:
        # The variance of a mean of 0/1 outcomes follows from the mean; of clusters it is estimated.
        is_estimated = support is not None and support.clustered
        quantile = student(multiple, degrees) if is_estimated else multiple
        wide = [arm._replace(inflation=arm.inflation * widening**2) for arm in means]
        return score_limits(estimate, wide, quantile)
    quantile, error = student(multiple, degrees), widening * spread.error
    skew = spread.skew if support is None or support.shape == "skewed" else 0.0
    low, high = skewed_limits(estimate, error, skew, quantile)
    half = student(multiple, spread.welch) * widening * least
    if cautious:
        half = np.maximum(half, quantile * error)
    elif not np.any(half > 0):
        return low, high
    return np.minimum(low, estimate - half), np.maximum(high, estimate + half)


def student(multiple: Number, degrees: Number) -> Number:
    """Quantile of Student's t at the level of the normal quantile ``multiple``."""
    return -stdtrit(degrees, ndtr(-np.asarray(multiple)))[()]


def ratio(above: Number, below: Number, otherwise: Number = 0.0) -> Number:
    """Ratio of numbers; ``otherwise`` where the denominator is not positive."""
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        found: Any = np.where(np.greater(below, 0), np.divide(above, below), otherwise)
    return found[()]


def small_sample(n: Number) -> Number:
    """n / (n - 1), which corrects a variance for the mean taken; NaN for one term."""
    return ratio(n, np.subtract(n, 1), np.nan)
