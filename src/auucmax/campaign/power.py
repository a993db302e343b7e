"""Power, rows and widths of what a trial may show of a ranking, from what is assumed of people.

Everything follows from the variance of the estimates, whose row terms are in
:mod:`auucmax.metrics.inference`. With u the share of people ranked below a person, c = u - 1/2,
e the treated share and y the outcome, n times the variance of the gain over random is

    Var(y c | treated) / e + Var(y c | control) / (1 - e) + 2 Cov(tau c, V) + Var(V),

y less the mean of all outcomes, V(u) the effect on those above u. Its closed form needs how
outcomes go with the score, of which the gain is known, g = Cov(E[y | arm, u], u) of the treated
minus that of the control. With z the normal quantile of u, means of 0/1 outcomes are taken to be
m exp(k z - k^2 / 2), so that with h = k / sqrt 2, and Owen's function T,

    g = m (Phi(h) - 1/2),     E[y c^2] = m (1/4 - 2 T(h, 1 / sqrt 3)),

and those of others m + k z, g = k / (2 sqrt(pi)), E[(k z c)^2] = k^2 (1/12 + 1 / (2 pi sqrt 3)). In
the last two terms, which are small, effects are linear in z: -effect^2/12 - (3 - 4/sqrt 3) gain^2.
A score that explains a share of the variance of the effects gains sqrt(explained) times their
standard deviation over 2 sqrt(pi), if both are normal.

An *interval* that is wholly above 0 is what is hoped for: its power is Phi(gain / error - z). (Of a
top share with 0/1 outcomes limits are score limits: Phi of the lower one, at the truth, over the
error.) The *certificate* (hedged block betting, ``auucmax.certificates``) bets on outcomes less
their mean, and its hedge aims at the 1 - .75 delta quantile of the normal; what it loses beyond
that has been measured, not derived: see :func:`certificate_quantile`. ``python -m experiments
power`` compares promises of both with simulated trials.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri, owens_t, pdtrc

from auucmax._validation import Floats, check_choice, check_level
from auucmax.certificates.betting import AIM
from auucmax.certificates.blocks import block_floor, block_size
from auucmax.metrics.inference import FEW_OF_ARM
from auucmax.metrics.intervals import DIFFERENCE, ArmMean, score_limits

GAIN_OF_SD = 1 / (2 * np.sqrt(np.pi))  #: gain of a score that knows all, in sds of the effects
SPREAD = 1 / (2 * np.pi * np.sqrt(3))  #: E[z^2 c^2] - 1/12, z the normal quantile of a rank
MOST_ROWS = 1e11
BY = ("interval", "certificate")


@dataclass(frozen=True)
class Assumed:
    """What is assumed of people, treatment and score; numbers in the units of the outcome.

    ``base_gain``: Cov(y, u) without treatment, 0 if the score tells nothing of the outcome itself.
    ``outcome_sd`` is None for outcomes 0/1. ``design_effect``: how many times as large variances
    are as those of independent rows; ``cluster_size``: mean number of rows of a cluster.
    """

    base_rate: float
    effect: float
    gain: float
    base_gain: float = 0.0
    treated_share: float = 0.5
    outcome_sd: float | None = None
    effect_sd: float | None = None
    outcome_range: tuple[float, float] | None = None
    design_effect: float = 1.0
    cluster_size: float = 1.0
    cross_fitted: bool = False

    @property
    def means(self) -> Floats:
        """Mean outcome of the control and of the treated."""
        return np.array([self.base_rate, self.base_rate + self.effect])

    @property
    def shares(self) -> Floats:
        """Of the control and of the treated."""
        return np.array([1 - self.treated_share, self.treated_share])

    @property
    def rank_gains(self) -> Floats:
        """Cov(y, u) in the control and in the treated arm."""
        return np.array([self.base_gain, self.base_gain + self.gain])

    @property
    def is_certifiable(self) -> bool:
        bounded = self.outcome_sd is None or self.outcome_range is not None
        return bounded and not self.cross_fitted

    @property
    def rarer(self) -> Assumed:
        """The same of the rarer of two outcomes: 1 - y, and the score reversed, if y is common.

        Gains keep their values, since both turn. Means that grow exponentially with the score fit
        a rare outcome; of a common one they would pass 1.
        """
        if self.outcome_sd is not None or self.middle <= 0.5:
            return self
        return replace(self, base_rate=1 - self.base_rate, effect=-self.effect)

    @property
    def slopes(self) -> Floats:
        """k of each arm: how its mean outcomes go with the normal quantile of the rank."""
        if self.outcome_sd is None:
            return np.asarray(np.sqrt(2) * ndtri(0.5 + self.rank_gains / self.means))
        return self.rank_gains / GAIN_OF_SD

    @property
    def totals(self) -> Floats:
        """Variances of the outcome in the arms, where outcomes are not 0/1."""
        more = self.effect_sd if self.effect_sd is not None else self.gain / GAIN_OF_SD
        return np.array([0.0, more**2]) + float(self.outcome_sd or 0) ** 2

    @property
    def middle(self) -> float:
        """Mean of all outcomes, which is subtracted from them."""
        return float(self.shares @ self.means)

    @property
    def rank_variances(self) -> Floats:
        """Var(y c) of control and treated."""
        middle = self.middle
        if self.outcome_sd is None:
            weighed = self.means * (0.25 - 2 * owens_t(self.slopes / np.sqrt(2), 1 / np.sqrt(3)))
            squares = (1 - 2 * middle) * weighed + middle**2 / 12
        else:
            squares = (self.totals + (self.means - middle) ** 2) / 12
            squares = squares + self.slopes**2 * SPREAD
        return np.asarray(squares - self.rank_gains**2)


@dataclass(frozen=True)
class Statement:
    """Something that a trial may show, and how its estimate varies.

    ``value``: the truth, if all is as assumed. ``variance`` and ``certified_variance``: n times
    that of the estimate behind the interval and of the one that is bet on; the latter is None where
    there is no certificate. ``floors``: how many statistics of a block, and so floors, are bet on.
    ``arm_means``: of control and treated, where limits are score limits, which are not in the
    middle of the estimate: those of a top share with 0/1 outcomes, of the rarer one; ``signs`` are
    then those of the treated and the control mean in the estimate. ``part``: of the rows that the
    statement is of, those of one arm and the control among several; all else is of these rows.
    """

    name: str
    value: float
    variance: float
    certified_variance: float | None
    assumed: Assumed
    level: float
    delta: float
    floors: int = 1
    arm_means: tuple[float, float] | None = None
    signs: tuple[int, int] = DIFFERENCE
    part: float = 1.0

    @property
    def kinds(self) -> tuple[str, ...]:
        """Verdicts that there can be: by the interval, and by the certificate."""
        return BY if self.certified_variance is not None else BY[:1]

    def power(self, n_rows: float, by: str = "interval") -> float:
        """The chance that the interval, or the certificate, of so many rows is above 0."""
        check_choice(by, "by", self.kinds)
        n_rows = self.part * n_rows
        if by == "interval":
            error = np.sqrt(self.variance / n_rows)
            found = ndtr(self._limits(n_rows)[0] / error)
            return float(found * self._supported(n_rows))
        assert self.certified_variance is not None
        error = np.sqrt(self.certified_variance / n_rows)
        quantile = certificate_quantile(self.assumed, n_rows, float(error), self.delta, self.floors)
        return float(ndtr(self.value / error - quantile))

    def rows(self, power: float, by: str = "interval") -> int | None:
        """How many rows have this power; None if no number of rows that anybody has."""
        check_level(power, "power")

        def lacking(log_rows: float) -> float:
            return self.power(float(np.exp(log_rows)), by) - power

        low, high = np.log(4.0), np.log(MOST_ROWS)
        if self.value <= 0 or lacking(high) < 0:
            return None
        if lacking(low) >= 0:
            return 4
        return int(np.ceil(np.exp(brentq(lacking, low, high, xtol=1e-6))))

    def width(self, n_rows: float) -> float:
        """How wide the interval is to be expected, from end to end."""
        low, high = self._limits(self.part * n_rows)
        return high - low

    def _limits(self, n_rows: float) -> tuple[float, float]:
        """The interval, if the estimate is the truth."""
        multiple = float(ndtri(0.5 + self.level / 2))
        if self.arm_means is None:
            half = multiple * float(np.sqrt(self.variance / n_rows))
            return self.value - half, self.value + half
        means, shares = np.array(self.arm_means), self.assumed.shares
        # The variance of the estimate over that of a difference of these two means.
        inflation = self.variance / float(np.sum(means * (1 - means) / shares))
        control, treated = (
            ArmMean(mean, 1.0, inflation, own)
            for mean, own in zip(means, n_rows * shares, strict=True)
        )
        low, high = score_limits(self.value, (treated, control), multiple, self.signs)
        return float(low), float(high)

    def _supported(self, n_rows: float) -> float:
        """The chance of responders, and others, enough for an interval (0/1 outcomes)."""
        if self.assumed.outcome_sd is not None:
            return 1.0
        means = self.assumed.means
        counts = n_rows * self.assumed.shares * np.minimum(means, 1 - means)
        return float(np.prod(pdtrc(FEW_OF_ARM - 1, counts / self.assumed.cluster_size)))


# What it costs beyond the hedge's quantile, by `python -m experiments.certificate_price`: 40
# kinds of trials of 800 to 25,000 rows, base rates of 1% to 50%, treated shares of .3 to .85,
# delta .01 to .1. The terms were chosen by these trials, too; what the fit leaves is .05 (root
# mean square), .13 at most. Fewer than 180 blocks were not measured. Of more than 2,500 the price
# is held: in 8 trials of 100,000 rows it was .14 above what the terms would give, and .03 above
# this.
_CURVATURE, _ROOT, _INVERSE, _BLOCKS = 0.57, 11.8, -79.0, (180, 2500)


def certificate_quantile(
    assumed: Assumed, n_rows: float, error: float, delta: float, floors: int = 1
) -> float:
    """How many standard errors of what is bet on the bound of a certificate lies below it.

    The hedge aims at z = Phi^-1(1 - .75 delta). With N blocks, and r the most that one block can
    lose in standard errors of the whole, it comes to

        z + .57 (r z)^2 + 11.8 / sqrt(N) - 79 / N,   N from 180 to 2,500,

    whose last terms are fitted to simulated trials: they are no theorem.
    """
    n_units = n_rows / assumed.cluster_size  # clusters are dealt whole
    arms = assumed.shares * n_units
    n_blocks = max(1.0, min(n_units / block_size(int(n_units)), *arms))
    control, treated = (max(1, round(own / n_blocks)) for own in arms)
    low, high = assumed.outcome_range or (0.0, 1.0)
    middle = float(np.clip((assumed.shares @ assumed.means - low) / (high - low), 0, 1))
    floor = block_floor(treated, control, 0.5, (middle, middle))
    if floors == 2:
        floor += block_floor(control, treated, 0.5, (middle, middle))
    loss = floor * (high - low) / (error * n_blocks)
    z, blocks = float(-ndtri(AIM * delta)), float(np.clip(n_blocks, *_BLOCKS))
    return z + _CURVATURE * (loss * z) ** 2 + _ROOT / np.sqrt(blocks) + _INVERSE / blocks


def gain_statement(assumed: Assumed, level: float, delta: float) -> Statement:
    arms = assumed.rarer.rank_variances / assumed.shares
    rest = assumed.effect**2 / 12 + (3 - 4 / np.sqrt(3)) * assumed.gain**2
    variance = float(assumed.design_effect * (arms.sum() - rest))
    return _statement("better than random", assumed.gain, variance, assumed, level, delta)


def _statement(
    name: str,
    value: float,
    variance: float,
    assumed: Assumed,
    level: float,
    delta: float,
    floors: int = 1,
) -> Statement:
    folds = 2 if assumed.cross_fitted else 1
    certified = variance if assumed.is_certifiable else None
    return Statement(name, value, folds * variance, certified, assumed, level, delta, floors)


def difference_statement(
    assumed: Assumed, other_gain: float, agreement: float, level: float, delta: float
) -> Statement:
    """The gains of two scores, whose normal quantiles are jointly normal.

    E[y (u_a - u_b)^2] is that of shifted normals: E[Phi(z_a)^2] + E[Phi(z_b)^2] less twice
    E[Phi(z_a) Phi(z_b)], which is a normal probability in the plane.
    """
    if not -1 <= agreement < 1:
        raise ValueError(
            f"agreement should be a rank correlation, at least -1 and below 1, got {agreement!r}. "
            f"Scores of two models of the same rows often have 0.5 to 0.9."
        )
    value, apart = assumed.gain - other_gain, (1 - agreement) / 6
    moments = np.full(2, apart)
    rarer = assumed.rarer
    if assumed.outcome_sd is None:
        ours = rarer.slopes / np.sqrt(2)
        theirs = replace(rarer, gain=other_gain).slopes / np.sqrt(2)
        moments = np.array([_apart(*h, agreement) for h in zip(ours, theirs, strict=True)])

    middle = rarer.middle
    if assumed.outcome_sd is None:
        squares = (1 - 2 * middle) * rarer.means * moments + middle**2 * apart
    else:
        squares = (assumed.totals + (assumed.means - middle) ** 2) * apart
    arms = (squares - np.array([0.0, value**2])) / assumed.shares
    variance = float(assumed.design_effect * (arms.sum() - apart * assumed.effect**2))
    name = "better than the other ranking"
    return _statement(name, value, variance, assumed, level, delta, floors=2)


def _apart(ours: float, theirs: float, agreement: float) -> float:
    """E[(Phi(z_a) - Phi(z_b))^2] of normals with means sqrt(2) times these, and this agreement."""
    from scipy.stats import multivariate_normal

    half = np.sin(np.pi * agreement / 6)  # half of the correlation of the normals
    both = multivariate_normal.cdf([ours, theirs], cov=[[1.0, half], [half, 1.0]])
    squares = [ndtr(h) - 2 * owens_t(h, 1 / np.sqrt(3)) for h in (ours, theirs)]
    return float(sum(squares) - 2 * both)


def share_statement(assumed: Assumed, share: float, level: float, delta: float) -> Statement:
    """The effect of treating the top share, V(q), whose limit is at the score's own quantile."""
    rarer, middle = assumed.rarer, assumed.middle
    z, k = float(ndtri(1 - share)), rarer.slopes
    means, signs = None, DIFFERENCE
    if assumed.outcome_sd is None:
        if rarer is assumed:
            sums = rarer.means * ndtr(k - z)
        else:  # those of 1 - y at the other end, whose cut is at -z
            sums = rarer.means * (1 - ndtr(k + z))
            z, signs = -z, (-1, 1)
        means = float(sums[0]), float(sums[1])
        at_limit = float(np.diff(rarer.means * np.exp(k * z - k**2 / 2))[0])
        if rarer is not assumed:
            sums, at_limit = share - sums, -at_limit
        squares = (1 - 2 * middle) * sums + share * middle**2
        sums = sums - share * middle
    else:
        density = float(np.exp(-0.5 * z * z) / np.sqrt(2 * np.pi))
        away = assumed.means - middle
        sums = share * away + k * density
        at_limit = assumed.effect + float(k[1] - k[0]) * z
        around = share * (assumed.totals - k**2)  # variance that the score does not explain
        squares = around + share * away**2 + 2 * away * k * density
        squares = squares + k**2 * (share + z * density)
    value = float(sums[1] - sums[0])
    arms = (squares - sums**2) / assumed.shares
    rest = at_limit**2 * share * (1 - share) - 2 * at_limit * value * (1 - share)
    variance = assumed.design_effect * float(arms.sum() + rest)
    name = f"treating the top {share:.0%} is better than nobody"
    more: dict[str, Any] = {"arm_means": means, "signs": signs}
    return Statement(name, value, variance, None, assumed, level, delta, **more)
