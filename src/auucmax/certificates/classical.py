"""Classical lower bounds on AUUC and on the gain over random, for a score fixed before.

A DKW band with an empirical Bernstein bound (also from bins of scores), and the normal
approximation. Betting (``betting.py``) is narrower than the first, and holds.

Given who was treated, the rows should be independent, those of an arm identically distributed, and
x of the same law in both arms: a randomised trial, the held-out rows split off at random or by
treatment (not by outcome: class counts must be left to chance). With G(s) = P(f < s) + P(f = s) / 2
in the population and a centre c of 0 for AUUC, 1/2 for the gain over random, AUUC - ATE/2, the
bounds speak of

    theta = theta_T - theta_C,    theta_g = E[Y (G(f) - c) | arm g].

Choosing the best of ``n_candidates`` scores on these rows is allowed: delta is divided among them,
so that all their bounds hold together. Each ``estimate`` is the one that the bound subtracts from;
for large n they are all ``auuc_score``. Bounds with a proof have no condition on n.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Required, TypedDict, Unpack

import numpy as np
from numpy.typing import ArrayLike

from auucmax._validation import (
    Floats,
    ScoredRows,
    check_choice,
    check_level,
    check_rows,
    check_treatment,
    check_whole,
)
from auucmax.certificates.betting import known_range
from auucmax.certificates.blocks import CENTRES
from auucmax.certificates.bound import Bound, LowerBound, Target
from auucmax.metrics.bins import BinnedLevels
from auucmax.metrics.levels import Levels
from auucmax.metrics.ranking import sorted_rows

DKW_SHARE = 0.2  # of delta, for the band of G; the rest goes to the means


class Asked(TypedDict, total=False):
    """What the bounds from held-out rows take; :func:`dkw_bernstein_bound` explains it."""

    treatment: Required[ArrayLike]
    target: Target
    delta: float
    n_candidates: int
    outcome_range: tuple[float, float]
    control: Any


class Claim(NamedTuple):
    """What a bound is to say, and how surely; ``scale``: the length of the outcome range."""

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
    z = part.y * (part.ranking.mid_cumsum(None) / len(rows.y) - claim.centre)
    treated, untreated = (
        _ArmMeans.of(z[part.treated == arm], part.y[part.treated == arm]) for arm in (True, False)
    )
    return _dkw_bernstein(treated, untreated, claim)


def binned_dkw_bernstein_bound(
    histogram: BinnedLevels,
    *,
    target: Target = "auuc",
    delta: float = 0.05,
    n_candidates: int = 1,
    outcome_range: tuple[float, float] = (0.0, 1.0),
) -> LowerBound:
    """:func:`dkw_bernstein_bound` from a histogram: a wider band for G, and nothing else.

    The share of rows below a row, G_n, is replaced by that of its bin, half of the bin included,
    and eps by eps + max (n_b - 1) / (2n) over bins with more than one score.

    *Proof.* The two shares of a row differ by at most (n_b - 1) / (2n), always, and not at all in
    a bin with one score. So the bin's is within the wider eps of G at the score of every row, which
    is all that the proof there asks of G_n.

    Examples
    --------
    >>> from auucmax import load_hillstrom
    >>> from auucmax.certificates import dkw_bernstein_bound
    >>> from auucmax.metrics import BinnedLevels, score_edges
    >>> trial = load_hillstrom()
    >>> score = trial.X["history"]
    >>> histogram = BinnedLevels.of(trial.y, score, trial.treatment, score_edges(score, 1000))
    >>> bound = binned_dkw_bernstein_bound(histogram, target="gain")
    >>> exact = dkw_bernstein_bound(trial.y, score, treatment=trial.treatment, target="gain")
    >>> round(bound.gap, 4), round(exact.gap, 4)
    (0.0055, 0.0054)
    """
    seen = histogram.outcome_low, histogram.outcome_high
    low, high = check_setting(outcome_range, seen, histogram.arm_rows)
    claim = Claim.of(target, delta, n_candidates, high - low)
    # Rows, sum of y scaled to [0, 1], and its squares about its mean, by arm and bin.
    rows, outcome, square = (histogram.sums[:, :, k] for k in range(3))
    # Rounding can leave a negative sum of squares where all outcomes of a bin are equal.
    within = np.maximum(square - outcome**2 / np.maximum(rows, 1), 0.0) / (high - low) ** 2
    scaled = (outcome - low * rows) / (high - low)
    offsets = histogram.below() - claim.centre
    control, treated = map(_ArmMeans.of_bins, rows, scaled, within, offsets)
    return _dkw_bernstein(treated, control, claim, histogram.rank_error())


class _ArmMeans(NamedTuple):
    """What the bound needs of an arm: its rows, and mean(z), var(z), mean(y) and mean(y^2)."""

    n_rows: int
    z: float
    z_variance: float
    y: float
    y_square: float

    @classmethod
    def of(cls, z: Floats, y: Floats) -> _ArmMeans:
        means = float(z.mean()), float(z.var(ddof=1)), float(y.mean()), float(np.mean(y**2))
        return cls(len(z), *means)

    @classmethod
    def of_bins(cls, rows: Floats, y: Floats, within: Floats, offset: Floats) -> _ArmMeans:
        """The means of an arm from numbers of rows, sums and squares in bins; z = y offset."""
        n_rows, level = rows.sum(), y / np.maximum(rows, 1)
        mean = (y * offset).sum() / n_rows
        squares = rows * (level * offset - mean) ** 2 + within * offset**2
        return cls(
            n_rows=int(n_rows),
            z=float(mean),
            z_variance=float(squares.sum() / (n_rows - 1)),
            y=float(y.sum() / n_rows),
            y_square=float((within + y * level).sum() / n_rows),
        )


def _dkw_bernstein(
    treated: _ArmMeans, control: _ArmMeans, claim: Claim, rank_error: float = 0.0
) -> LowerBound:
    """The bound from the means of the arms; ``rank_error`` widens the band of G."""
    band_log = claim.log_inverse(parts=2 / DKW_SHARE)
    log_term = claim.log_inverse(parts=2 / (1 - DKW_SHARE))
    eps = np.sqrt(band_log / (2 * (treated.n_rows + control.n_rows))) + rank_error
    arms = treated, control
    outcome = sum(arm.y for arm in arms)
    variance = sum(arm.z_variance / arm.n_rows for arm in arms)
    square = sum(arm.y_square / (arm.n_rows - 1) for arm in arms)
    smallest = min(arm.n_rows for arm in arms)
    gap = eps * outcome + 7 * log_term / (3 * (smallest - 1))
    gap += np.sqrt(2 * log_term) * (np.sqrt(variance) + eps * np.sqrt(square))
    return claim.bound("dkw-bernstein", treated.z - control.z, gap)


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
    propensity: ArrayLike | None = None,
    control: Any = None,
) -> LowerBound:
    """The lower end of an interval of ``auuc_inference``: **no guarantee** for any n.

    The interval has level 1 - 2 delta / n_candidates. Narrowest of all, and right as n grows. Where
    ``auuc_inference`` declines to give an interval, the limit is minus infinity.

    Examples
    --------
    >>> from auucmax import load_hillstrom
    >>> trial = load_hillstrom()
    >>> score = trial.X["womens"]
    >>> round(asymptotic_bound(trial.y, score, treatment=trial.treatment, target="gain").gap, 4)
    0.0013
    """
    claim = Claim.of(target, delta, n_candidates)
    # The lower end of this two-sided interval is the one-sided limit.
    level = max(1 - 2 * delta / claim.n_candidates, 1e-9)
    treated = check_treatment(treatment, control=control)
    more: dict[str, Any] = {
        "outcome_model": outcome_model,
        "groups": groups,
        "propensity": propensity,
    }
    levels = Levels.of(y, score, treatment=treated, **more)
    if min(levels.support.units) < 2:
        raise ValueError(
            f"each arm should have at least 2 rows (or clusters) for a standard error, got "
            f"{min(levels.support.units)} in one. Collect more (in Python: or use "
            f"method='betting')."
        )
    result = levels.inference(level)
    low, estimate = result.interval[0], result.estimate
    if target == "gain":
        low, estimate = result.gain_interval[0], result.gain
    low = low if np.isfinite(low) else -np.inf
    return LowerBound("asymptotic", lower=low, estimate=estimate, delta=delta)


def held_out_rows(
    y: ArrayLike,
    score: ArrayLike,
    *,
    treatment: ArrayLike,
    target: Target = "auuc",
    delta: float = 0.05,
    n_candidates: int = 1,
    outcome_range: tuple[float, float] = (0.0, 1.0),
    control: Any = None,
) -> tuple[ScoredRows, Claim]:
    """Rows with y scaled to [0, 1], at least two an arm, and the claim."""
    rows = check_rows(y, score, treatment=treatment, control=control)
    n_treated = int(rows.treated.sum())
    low, high = check_setting(
        outcome_range, (rows.y.min(), rows.y.max()), (len(rows.y) - n_treated, n_treated)
    )
    rows = rows._replace(y=(rows.y - low) / (high - low))
    return rows, Claim.of(target, delta, n_candidates, high - low)


def check_setting(
    outcome_range: tuple[float, float], seen: tuple[float, float], arm_rows: tuple[int, int]
) -> tuple[float, float]:
    """The ends of the outcome range, if it holds what was seen and each arm has two rows."""
    low, high = known_range(outcome_range, *seen)
    if min(arm_rows) < 2:
        raise ValueError(
            f"each arm should have at least two rows, got {arm_rows[1]} treated and "
            f"{arm_rows[0]} control. A bound needs more held-out rows."
        )
    return low, high


RANDOMISED = "randomised trial, independent rows, score fixed before (or one of n_candidates)"
CLASSICAL_BOUNDS = (
    Bound(
        name="dkw-bernstein",
        function=dkw_bernstein_bound,
        assumptions=f"{RANDOMISED}; y in a known range",
        formula="eps (p_T + p_C) + sqrt(2L) (sd + eps rms) + 7L / (3(K-1))",
        reference="Massart 1990; Maurer and Pontil 2009",
        words="a DKW band and empirical Bernstein",
        options=("outcome_range",),
        from_bins=True,
    ),
    Bound(
        name="asymptotic",
        function=asymptotic_bound,
        assumptions=f"{RANDOMISED}; many rows and outcomes that are not rare",
        formula="t(1 - delta/M) standard errors",
        reference="Hajek projection of a U-statistic",
        validity="no guarantee: holds as n grows, misses too often with rare outcomes",
        words="the normal approximation (not a guarantee)",
        options=("outcome_model", "groups", "propensity"),
        proviso="there are enough rows for the normal approximation",
    ),
)
