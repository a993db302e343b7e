"""Standard errors of AUUC, of the gain over random, and of paired differences.

AUUC is a ratio of sums over pairs of rows, so to first order it is a sum of independent terms,
one a row (its Hajek projection). With u_i the share of people ranked below row i, V_i the uplift
curve at row i, a_i the weight of the row in its arm and A_g the sum of these weights,

    psi_i = +- a_i (y_i u_i - theta_g) / A_g  +  w_i (V_i - theta) / W

(+ treated, - control). The first term is the row's own outcome; the second its effect on the
ranks of all others. The variance of AUUC is the sum over arms of n_g times the variance of psi in
the arm. No bootstrap, and O(n log n); in the tests a bootstrap is the slow twin.

The gain over random has u_i - 1/2 in place of u_i, and y_i minus the mean m of all outcomes in
place of y_i. Its expectation is that of AUUC - ATE/2, because the ranks of both arms have the same
expectation; without m the estimate would carry the noise of

    m (mean(u | treated) - mean(u | control)),

and the errors for y and for 1 - y would differ. The curve with its band, and the difference of two
scores, are those of centred outcomes too. AUUC itself is not centred: it is Definition 1 of the
paper.

Limits come from :mod:`auucmax.metrics.intervals`. Of AUUC: score limits for 0/1 outcomes, with
z = y u; otherwise Student's t, after Hall's transformation where outcomes are skewed. Of the gain
and of a difference of two scores, whose terms have both signs: Student's t. Those of policy risk
(:mod:`auucmax.metrics.curves`) are made as those of AUUC. Where nothing holds
(:class:`Support`) there is no interval, and a sentence says why.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit

from auucmax._validation import Bools, Floats, ScoredRows
from auucmax.metrics.intervals import ArmMean, Moments, Spread
from auucmax.metrics.ranking import RankedRows, RankingKind, arm_sums, rarer_outcome
from auucmax.results import Shown

Clusters = NDArray[np.intp]


@dataclass(frozen=True, repr=False)
class AUUCInference(Shown):
    """AUUC and gain over random, with standard errors and intervals.

    The gain is AUUC - ATE/2 of outcomes less their mean. It has the same expectation as
    ``estimate`` minus half of the average effect, from which it differs by noise, and a smaller
    error.

    Intervals are two-sided and asymptotic, at ``level``; ``p_value`` is two-sided, for no gain
    over random. ``bin_error`` is the largest possible difference between this estimate (or gain)
    and that of the exact scores, when these were only known by their bins
    (:class:`BinnedLevels`): intervals are widened by it, and ``p_value`` allows for it.
    It is 0 when computed from the rows themselves.

    Where too few rows or responders make every interval unreliable, ``declined`` (for AUUC) or
    ``gain_declined`` says why, in words; the interval, and the p value of a gain, are then not
    numbers. Both are None otherwise.
    """

    estimate: float
    standard_error: float
    interval: tuple[float, float]
    gain: float
    gain_standard_error: float
    gain_interval: tuple[float, float]
    p_value: float
    level: float
    n_rows: int
    bin_error: float = 0.0
    declined: str | None = None
    gain_declined: str | None = None


@dataclass(frozen=True, repr=False)
class AUUCDifference(Shown):
    """AUUC of score a minus AUUC of score b on the same rows, with interval and test.

    Both are of outcomes less their mean, which leaves the expectation and narrows the interval.

    ``declined``: why there is no interval, or None.
    """

    estimate: float
    standard_error: float
    interval: tuple[float, float]
    p_value: float
    level: float
    n_rows: int
    declined: str | None = None


@dataclass(frozen=True)
class Support:
    """Number of rows (or clusters) per arm that support an interval.

    ``shape`` of the outcome: "binary" (0/1, equal weights, clusters within arms), otherwise "even"
    or "skewed" by the skewness of all outcomes around the means of their arms, 1 or more.
    ``responders`` are the rows (clusters) with an outcome other than 0, of 0/1 outcomes with the
    rarer of the two, ``others`` all others.
    ``heavy`` says how many of them (of even outcomes rows) carry the variance of weighted means
    (:func:`effective_share`), and how many should for the gain. ``deviation``: that of all skewed
    outcomes around the means of their arms where rows count unequally (:func:`least_error`),
    otherwise 0; for AUUC and the curve, and for the gain. ``of``: whose rows they are, in words.
    ``is_zero_one``: skewed outcomes are 0/1. The numbers below are where simulated 95%
    intervals miss 3% to 7% of the time.
    """

    shape: str
    units: tuple[int, ...]
    responders: tuple[int, ...]
    others: tuple[int, ...]
    clustered: bool = False
    heavy: tuple[float, int] = (np.inf, 0)
    deviation: tuple[float, float] = (0.0, 0.0)
    of: str = "of an arm"
    is_zero_one: bool = False

    @property
    def unit(self) -> str:
        """The unit of the counts."""
        return "clusters" if self.clustered else "rows"

    @property
    def n_rarer(self) -> int:
        """Rows (clusters) of all arms with the rarer outcome."""
        return min(sum(self.responders), sum(self.others))

    def why_no_area(self) -> str | None:
        """Reason for a missing interval of AUUC or the curve, or None."""
        what = "have the rarer outcome"
        return self._why_not(FEW_OF_ARM, self.n_rarer, what, RARE, FEW, FEW_SKEWED)

    def why_no_gain(self, carried: tuple[float, ...] = (np.inf,)) -> str | None:
        """Reason for a missing interval of a gain or difference, or None.

        ``carried``: the part of the rows of control and treated on whose ranks it rests
        (:func:`effective_share`). A few rows of an arm that are set apart from all others would
        have no variance, if none of them responded.
        """
        heavy = self.heavy[1]
        if min(carried) < 1 and self.heavy[0] >= heavy:
            rate, what = 1.0, ""
            if self.shape == "binary":
                rate = self.n_rarer / sum(self.units)
                what = " with the rarer outcome, at the rate of both arms,"
            count = rate * min(n * part for n, part in zip(self.units, carried, strict=True))
            if count < FEW_OF_ARM:
                return (
                    f"it rests on the ranks of few: about {count:.1f} rows of an arm{what} where "
                    f"at least {FEW_OF_ARM} are needed"
                )
        rarest, what = min(*self.responders, *self.others), "of an arm have the rarer outcome"
        return self._why_not(heavy, rarest, what, FEW_OF_ARM, FEW_OF_ARM, FEW_SKEWED_GAIN)

    def why_no_risk(self, units: float, responders: float) -> str | None:
        """Reason for a missing interval of policy risk, or None.

        ``units`` are the rows or clusters, and ``responders`` those of them with an outcome other
        than 0, of the treated whom a rule picks or the controls whom it leaves, whoever are fewer.
        """
        enough = FEW_OF_ARM if self.clustered else 2
        if units < enough:
            return f"the rule counts fewer than {enough} {self.unit} of an arm"
        count, least = responders if self.shape == "skewed" else units, FEW
        if self.shape == "binary":
            if (rare := self.why_no_area()) is not None:
                return rare
            # At the rate of both arms: intervals must not be missing because few responded.
            count, least = units * self.n_rarer / sum(self.units), 1
        return None if count >= least else f"the rule counts fewer than {least} {self.what_in_top}"

    @property
    def least_in_top(self) -> int:
        """Minimum rows or clusters in a top share for an interval of the band."""
        return {"binary": FEW_OF_ARM, "even": FEW, "skewed": FEW_SKEWED}[self.shape]

    @property
    def what_in_top(self) -> str:
        """The unit of :attr:`least_in_top`."""
        what = {
            "binary": " with the rarer outcome, at the rate of both arms",
            "even": "",
            "skewed": " with an outcome other than 0, and outcomes are skewed",
        }
        return f"{self.unit} of an arm{what[self.shape]}"

    def _why_not(self, heavy: int, rarest: int, what: str, *least: int) -> str | None:
        """Reason for a missing interval: unequal weights, or too few rows.

        ``rarest`` 0/1 outcomes there are; ``least`` are needed, of even outcomes, of skewed ones.
        """
        if self.heavy[0] < heavy:
            return (
                f"a few rows have most of the weight: about {self.heavy[0]:.1f} {self.unit} of an "
                f"arm that decide its mean carry the variance, where at least {heavy} are needed"
            )
        rare = "which is rare" if self.is_zero_one else "and outcomes are skewed"
        all_units = f"{self.of} are there"
        skewed = f"{self.of} have an outcome other than 0, {rare}"
        count, what, needed = {
            "binary": (rarest, what, least[0]),
            "even": (min(self.units), all_units, least[1]),
            "skewed": (min(self.responders), skewed, least[2]),
        }[self.shape]
        enough = FEW_OF_ARM if self.clustered else 2
        if min(self.units) < enough:
            count, what, needed = min(self.units), all_units, enough
        if count >= needed:
            return None
        return f"only {count} {self.unit} {what}, where at least {needed} are needed"


#: Least numbers of rows or clusters. Outcomes 0/1: of both arms together with each outcome; for the
#: gain, of each arm with each outcome, and in a top share of each arm, at the rate of both. Others:
#: of each arm; skewed: of each arm, other than 0, but for policy risk, where FEW of them suffice.
RARE, FEW_OF_ARM, FEW, FEW_SKEWED, FEW_SKEWED_GAIN = 10, 5, 10, 50, 20
SKEWED = 1.0
UNEQUAL = 1.5  # the part of a row in the mean of its arm over that of another, from which it tells


def effective_share(contrast: Floats, rows: Floats | Bools) -> float:
    """Effective share of the rows in a sum of c y; infinite from one half on.

    ``contrast`` has c of each line: a weight, or by how much a rank is above the middle, or above
    that of another score. Of n rows (sum c^2)^2 / sum c^4 carry the sum: all, if their c are of one
    size, one, if it alone has any. If none of these few responded, nothing shows how little is
    known of the sum.
    """
    square = np.square(contrast)
    second, fourth = float(rows @ square), float(rows @ square**2)
    part = second**2 / (fourth * float(rows.sum())) if fourth > 0 else 1.0
    return part if part < 0.5 else np.inf


def least_error(ranked: RankedRows, deviation: float, contrast: Floats) -> float:
    """Standard error of sum c y if y had this deviation in all rows.

    c is the part of the row in the mean of its arm times ``contrast``, as in
    :func:`effective_share`.

    Few rows of a small arm, or of a large weight, seldom hold one of the large outcomes that make
    the mean of money. Without one their mean and their variance are too low together, and no
    effect looks like harm, or a gain. All other rows show how outcomes vary. 0 where rows count
    equally: their own variance then is as good.
    """
    if deviation == 0:
        return 0.0
    return deviation * float(np.linalg.norm(ranked.arm_scale() * ranked.arm_weight * contrast))


def row_terms(
    ranked: RankedRows, ranking: RankingKind, *, less_half_effect: bool = False
) -> tuple[Floats, Floats]:
    """psi of AUUC by line, summed over its rows, and of bins its slope in y within the line.

    ``less_half_effect``: of AUUC minus half of the average effect. Without weights the terms are
    not centred: what is constant in an arm drops out of its variance.
    """
    found = np.empty((2, len(ranked.y)))
    for part in ranked.parts(ranking):
        signed = part.signed_outcome()
        above = part.mid_cumsum(signed)
        np.subtract(signed.sum(), above, out=above)  # V_i: the curve at row i, half its own level
        psi = part.middle_ranks()
        if less_half_effect:
            psi -= 0.5
        own = ... if ranking == "joint" else ranked.treated == part.treated[0]
        if part.squares is not None:
            found[1, own] = psi * part.arm_scale()
        psi *= signed
        if part.is_weighted:
            for arm, _ in part.arms:
                share = part.arm_presence(arm) / part.arm_totals[arm]
                psi -= psi[part.treated == arm].sum() * share
            above -= np.dot(part.weight, above) / part.total_weight
        above *= part.weight
        above /= part.total_weight
        psi += above
        found[0, own] = psi
    return found[0], found[1]


def area_means(
    parts: tuple[RankedRows, ...], moments: list[Moments], *, clustered: bool
) -> list[ArmMean]:
    """Means of z = y u of treated and control, for score limits."""
    found: list[ArmMean] = []
    for part in parts:
        below = part.middle_ranks()
        first = arm_sums(part.y * below, part.treated)
        below *= below
        second = arm_sums(part.y * below, part.treated)
        for arm, sign in part.arms:
            found.append(
                ArmMean.of(
                    part.arm_rows[arm],
                    (first[arm], second[arm]),
                    moments[len(found)].variance,
                    sign=sign,
                    # Three responders more: the ranks u have mean 1/2 and mean square 1/3.
                    pseudo=(3 / 2, 3 / 3),
                    clustered=clustered,
                )
            )
    return found


class ClusterUnits:
    """Independent clusters of rows. A cluster may lie in one arm or reach into several.

    ``sizes`` (K + 1, G): the rows of each arm in each cluster, the control first.
    """

    def __init__(self, arm: NDArray[Any], clusters: Clusters) -> None:
        """``arm`` (n,) is 0 or False for the control, else True or 1 to K."""
        self.arm, self.clusters = arm, clusters
        self.n_clusters = int(clusters.max()) + 1
        self.sizes = np.array(
            [
                np.bincount(clusters[arm == k], minlength=self.n_clusters)
                for k in range(int(arm.max()) + 1)
            ]
        )

    @property
    def within_arms(self) -> bool:
        """Whether no cluster has rows in several arms."""
        return np.count_nonzero(self.sizes) == self.n_clusters

    def totals(self, psi: Floats) -> Floats:
        """Cluster sums of row terms, centred by arm."""
        means = np.bincount(self.arm, psi) / np.bincount(self.arm)
        return np.asarray(np.bincount(self.clusters, psi - means.take(self.arm)), np.float64)

    @cached_property
    def rest(self) -> Floats:
        """1 - h, with h the cluster's part of an arm's rows (the largest, if in several arms).

        Not a number for a cluster that has them all, which is no evidence.
        """
        h = (self.sizes / self.sizes.sum(axis=1, keepdims=True)).max(axis=0)
        return np.where(h < 1, 1 - h, np.nan)

    def moments(self, totals: Floats) -> list[Moments]:
        """Moments of cluster totals (G,) or (G, J), by arm, control last.

        One for all clusters if some reach into several arms.
        """
        groups = [*(self.sizes[1:] > 0), self.sizes[0] > 0]
        if not self.within_arms:
            groups = [np.ones(self.n_clusters, dtype=bool)]
        return [Moments.of_clusters(totals[own], self.rest[own]) for own in groups]

    def covariance(self, totals: Floats) -> Floats:
        """Covariance (J, J) of sums of cluster ``totals`` (G, J)."""
        return np.asarray((totals.T / self.rest) @ totals)


def support_of_rows(
    y: Floats,
    arm: NDArray[Any],
    arm_weight: Floats | None,
    units: ClusterUnits | None,
    responds: Bools | None,
    *,
    binary: bool,
) -> Support:
    """Support of intervals from rows of the control and K arms.

    ``arm`` (n,) as in :class:`ClusterUnits`; ``arm_weight`` the weights of the rows in the mean of
    their arm, None if they are equal; ``responds`` where y is adjusted by a model.
    """
    members = [arm == k for k in range(int(arm.max()) + 1)]
    shape = "binary"
    deviation = 0.0
    is_plain = binary and arm_weight is None and responds is None
    if not is_plain or (units is not None and not units.within_arms):
        # Standard deviation and skewness of the outcomes around the means of their arms.
        d = y - (np.bincount(arm, y) / np.bincount(arm)).take(arm)
        variance = float(np.square(d).mean())
        deviation = variance**0.5
        skewness = float((d**3).mean()) / variance**1.5 if variance > 0 else 0.0
        shape = "skewed" if abs(skewness) >= SKEWED else "even"

    def count(chosen: Bools | bool) -> tuple[int, ...]:
        """Chosen rows (or their clusters) of each arm."""
        found = [rows & chosen for rows in members]
        if units is not None:
            found = [np.bincount(units.clusters[rows]) > 0 for rows in found]
        return tuple(int(np.count_nonzero(rows)) for rows in found)

    responds = rarer_outcome(y) if responds is None else responds
    own, some, others = count(True), count(responds), count(~responds)
    heavy = (np.inf, 0)
    weight = np.ones(len(y)) if arm_weight is None else arm_weight
    if arm_weight is not None:
        carried = []
        counted = some if binary or shape == "skewed" else own
        for rows, n in zip(members, counted, strict=True):
            sizes = weight[rows]
            if units is not None:
                sizes = np.bincount(units.clusters[rows], sizes)
            # None of infinitely many is not a number.
            carried.append(max(n, 1e-9) * effective_share(sizes / sizes.max(), sizes > 0))
        heavy = (min(carried), FEW_OF_ARM if binary else FEW if shape == "even" else FEW_SKEWED)
    deviations = (0.0, 0.0)
    if shape == "skewed" and not binary:
        # Whether rows have unequal parts in the means: all of them, and those of one arm. One arm
        # matters for the gain: else both ends of its ranks count equally, and the skewness of their
        # outcomes cancels.
        part = weight / np.bincount(arm, weight).take(arm)
        least, most = np.transpose([(part[rows].min(), part[rows].max()) for rows in members])
        whole, within = most.max() >= UNEQUAL * least.min(), (most >= UNEQUAL * least).any()
        deviations = deviation * whole, deviation * within
    return Support(shape, own, some, others, units is not None, heavy, deviations)


def interval_around(
    estimate: float, error: float, level: float, degrees: float
) -> tuple[float, float]:
    """Two-sided interval from Student's t distribution."""
    half = float(stdtrit(degrees, 0.5 + level / 2)) * error if degrees > 0 else np.nan
    return float(estimate - half), float(estimate + half)


def student_test(
    estimate: float,
    spread: Spread,
    level: float,
    support: Support,
    declined: str | None,
    n_rows: int,
    *,
    more: float = 0.0,
    slack: float = 0.0,
    degrees: float | None = None,
) -> AUUCDifference:
    """Test of a gain or difference; without interval and p-value if ``declined``.

    Degrees of freedom are Welch's; those of clusters allow for totals of unlike size. ``more`` is
    added to the error, and ``slack`` to what may be chance: the costs of bins.
    """
    low = high = p_value = np.nan
    if not declined:
        if degrees is None:
            # The kurtosis of skewed totals, itself hardly known, would make intervals far too wide.
            by_kurtosis = support.clustered and support.shape != "skewed"
            degrees = float(spread.degrees if by_kurtosis else spread.welch)
        error = float(spread.error) + more
        low, high = interval_around(estimate, error, level, degrees)
        # What bins could have made of no gain is no evidence of one.
        p_value = p_value_of(max(abs(estimate) - slack, 0.0), error, degrees)
    return AUUCDifference(
        estimate=estimate,
        standard_error=float(spread.error),
        interval=(low - slack, high + slack),
        p_value=p_value,
        level=level,
        n_rows=n_rows,
        declined=declined,
    )


def p_value_of(estimate: float, error: float, degrees: float) -> float:
    """Two-sided p-value for zero; 1 if estimate and error are both 0."""
    # A constant score has neither gain nor error.
    if error == 0:
        return 1.0 if estimate == 0 else 0.0
    return float(2 * stdtr(degrees, -abs(estimate) / error)) if degrees > 0 else float("nan")


def some_rows(
    rows: ScoredRows, clusters: Clusters | None, kept: Bools
) -> tuple[ScoredRows, Clusters | None]:
    """Select rows and renumber their clusters."""
    if kept.all():
        return rows, clusters
    index = np.flatnonzero(kept)
    if clusters is not None:
        clusters = np.unique(clusters[index], return_inverse=True)[1]
    return rows.take(index), clusters
