"""How large a trial must be to show the average effect, and the gain of a ranking.

Everything follows from the variance of the estimates. With u the share of people ranked below a
person, c = u - 1/2, e the treated share and y the outcome less its overall mean, n times the
variance of the gain over random targeting is

    Var(y c | treated) / e + Var(y c | control) / (1 - e) + 2 Cov(tau c, V) + Var(V),

V(u) the effect on those above u. Its closed form needs how outcomes vary with the score, of which
the gain is known: g = Cov(E[y | arm, u], u) of the treated minus that of the control. With z the
normal quantile of u, means of 0/1 outcomes are taken to be m exp(k z - k^2 / 2), so that with
h = k / sqrt 2, and Owen's function T,

    g = m (Phi(h) - 1/2),     E[y c^2] = m (1/4 - 2 T(h, 1 / sqrt 3)),

and those of others m + k z, g = k / (2 sqrt(pi)), E[(k z c)^2] = k^2 (1/12 + 1 / (2 pi sqrt 3)). In
the last two terms, which are small, effects are linear in z: -effect^2/12 - (3 - 4/sqrt 3) gain^2.
A score that explains a share of the variance of the effects gains sqrt(explained) times their
standard deviation over 2 sqrt(pi), if both are normal.

The power of an interval is Phi(value / error - z). The certificate aims at the 1 - .75 delta
quantile of the normal; what it costs beyond was measured, see :func:`certificate_quantile`.
``python -m experiments power`` compares both with simulated trials.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri, owens_t, pdtrc

from auucmax._errors import InputError
from auucmax._optional import import_optional
from auucmax._validation import (
    Floats,
    check_column,
    check_groups,
    check_level,
    check_positive,
    check_range,
    check_whole,
)
from auucmax.certificates.betting import AIM
from auucmax.certificates.blocks import block_floor, block_size
from auucmax.data.outcomes import BINARY, outcome_kind
from auucmax.metrics.inference import FEW_OF_ARM
from auucmax.metrics.ranking import rank_rows
from auucmax.model import UpliftModel
from auucmax.results import Kind, Outcome, Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure

GAIN_OF_SD = 1 / (2 * np.sqrt(np.pi))  #: gain of a perfect score, in sds of the effects
_SPREAD = 1 / (2 * np.pi * np.sqrt(3))  # E[z^2 c^2] - 1/12, z the normal quantile of a rank
_MOST_ROWS = 1e11
_LARGEST = 1e50  # of what is assumed: squares can be computed with


class What(StrEnum):
    """What a trial may show: the average effect, or the gain of a ranking over random targeting."""

    EFFECT = "effect"
    GAIN = "gain"


class By(StrEnum):
    """By which it is shown."""

    INTERVAL = "interval"
    CERTIFICATE = "certificate"


class Assumed(Result):
    """What is assumed of people, treatment and score, in the units of the outcome.

    ``gain``: AUUC of the ranking minus that of random targeting. ``base_gain``: Cov(y, u) without
    treatment, 0 if the score says nothing about the outcome itself. ``outcome_sd`` is None for 0/1
    outcomes. ``design_effect``: how many times the variance of independent rows;
    ``cluster_size``: mean number of rows of a cluster. ``cross_fitted``: the model is trained on
    the rows of the trial itself, so the variance of the gain counts twice.
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
    def middle(self) -> float:
        """Mean of all outcomes, which is subtracted from them."""
        return float(self.shares @ self.means)

    @property
    def rarer(self) -> Assumed:
        """The same for the rarer of two outcomes: 1 - y, and the score reversed, if y is common.

        Means that grow exponentially with the score fit a rare outcome; of a common one they would
        exceed 1. Gains keep their values.
        """
        if self.outcome_sd is not None or self.middle <= 0.5:
            return self
        return replace(self, base_rate=1 - self.base_rate, effect=-self.effect)

    @property
    def variances(self) -> Floats:
        """Variances of the outcome of control and treated."""
        if self.outcome_sd is None:
            return self.means * (1 - self.means)
        more = self.effect_sd if self.effect_sd is not None else self.gain / GAIN_OF_SD
        return np.array([0.0, more**2]) + self.outcome_sd**2

    @property
    def rank_variances(self) -> Floats:
        """Var(y c) of control and treated."""
        middle = self.middle
        if self.outcome_sd is None:
            slopes = np.sqrt(2) * ndtri(0.5 + self.rank_gains / self.means)
            weighed = self.means * (0.25 - 2 * owens_t(slopes / np.sqrt(2), 1 / np.sqrt(3)))
            squares = (1 - 2 * middle) * weighed + middle**2 / 12
        else:
            slopes = self.rank_gains / GAIN_OF_SD
            squares = (self.variances + (self.means - middle) ** 2) / 12 + slopes**2 * _SPREAD
        return np.asarray(squares - self.rank_gains**2)


@dataclass(frozen=True)
class Statement:
    """Something that a trial may show: its value and n times the variance of its estimate.

    ``part``: the rows of one arm and the control among those of the trial.
    """

    what: What
    value: float
    variance: float
    assumed: Assumed
    level: float
    delta: float
    part: float = 1.0
    arm: str | None = None

    @property
    def ways(self) -> tuple[By, ...]:
        """By which it can be shown: its interval and, for a gain, its certificate."""
        bounded = self.assumed.outcome_sd is None or self.assumed.outcome_range is not None
        certified = self.what == What.GAIN and bounded and not self.assumed.cross_fitted
        return (By.INTERVAL, By.CERTIFICATE) if certified else (By.INTERVAL,)

    def power(self, n_rows: float, by: str = By.INTERVAL) -> float:
        """The probability that the interval, or the certificate, of so many rows is above 0."""
        n_rows = self.part * n_rows
        error = float(np.sqrt(self.variance / n_rows))
        if by == By.CERTIFICATE:
            quantile = certificate_quantile(self.assumed, n_rows, error, self.delta)
            return float(ndtr(abs(self.value) / error - quantile))
        found = ndtr(abs(self.value) / error - ndtri(0.5 + self.level / 2))
        if self.assumed.outcome_sd is None:
            # Responders and others must be enough for an interval.
            means = self.assumed.means
            counts = n_rows * self.assumed.shares * np.minimum(means, 1 - means)
            found *= np.prod(pdtrc(FEW_OF_ARM - 1, counts / self.assumed.cluster_size))
        return float(found)

    def rows(self, power: float, by: str = By.INTERVAL) -> int | None:
        """The number of rows with this power; None if no realistic number has it."""

        def lacking(log_rows: float) -> float:
            return self.power(float(np.exp(log_rows)), by) - power

        low, high = np.log(4.0), np.log(_MOST_ROWS)
        if self.value == 0 or (self.what == What.GAIN and self.value < 0) or lacking(high) < 0:
            return None
        if lacking(low) >= 0:
            return 4
        return int(np.ceil(np.exp(brentq(lacking, low, high, xtol=1e-6))))

    def width(self, n_rows: float) -> float:
        """The expected width of the interval, from end to end."""
        multiple = float(ndtri(0.5 + self.level / 2))
        return 2 * multiple * float(np.sqrt(self.variance / (self.part * n_rows)))


# What a certificate costs beyond the quantile that its hedge aims at, by `python -m
# experiments.certificate_price`: 40 kinds of trials of 800 to 25,000 rows, base rates of 1% to 50%,
# treated shares of .3 to .85, delta .01 to .1. The fit leaves .05 (root mean square), .13 at most.
# Fewer than 180 blocks were not measured; above 2,500 the price is held.
_CURVATURE, _ROOT, _INVERSE, _BLOCKS = 0.57, 11.8, -79.0, (180, 2500)


def certificate_quantile(assumed: Assumed, n_rows: float, error: float, delta: float) -> float:
    """How many standard errors below the estimate the bound of a certificate lies.

    With z = Phi^-1(1 - .75 delta), N blocks, and r the most that one block can lose in standard
    errors of the whole,

        z + .57 (r z)^2 + 11.8 / sqrt(N) - 79 / N,   N from 180 to 2,500,

    whose last terms are fitted to simulated trials: they are no theorem.
    """
    n_units = n_rows / assumed.cluster_size  # a cluster is in one block
    arms = assumed.shares * n_units
    n_blocks = max(1.0, min(n_units / block_size(int(n_units)), *arms))
    control, treated = (max(1, round(own / n_blocks)) for own in arms)
    low, high = assumed.outcome_range or (0.0, 1.0)
    middle = float(np.clip((assumed.middle - low) / (high - low), 0, 1))
    floor = block_floor(treated, control, 0.5, (middle, middle))
    loss = floor * (high - low) / (error * n_blocks)
    z = float(-ndtri(AIM * delta))
    blocks = float(np.clip(n_blocks, *_BLOCKS))
    return z + _CURVATURE * (loss * z) ** 2 + _ROOT / np.sqrt(blocks) + _INVERSE / blocks


def statements_of(
    assumed: Assumed, level: float, delta: float, part: float = 1.0, arm: str | None = None
) -> tuple[Statement, Statement]:
    """What a trial may show: the average effect, and the gain of the ranking."""
    effect = assumed.design_effect * float((assumed.variances / assumed.shares).sum())
    ranks = float((assumed.rarer.rank_variances / assumed.shares).sum())
    rest = assumed.effect**2 / 12 + (3 - 4 / np.sqrt(3)) * assumed.gain**2
    gain = (2 if assumed.cross_fitted else 1) * assumed.design_effect * (ranks - rest)
    return (
        Statement(What.EFFECT, assumed.effect, effect, assumed, level, delta, part, arm),
        Statement(What.GAIN, assumed.gain, gain, assumed, level, delta, part, arm),
    )


class PlanLine(Result):
    """What a trial needs to show the effect, or the gain, of an arm by interval or certificate.

    ``rows`` for the wanted power, None if no realistic number has it; ``power`` and ``width`` of
    the interval at the size that was asked for, or else at ``rows``.
    """

    what: What
    by: By
    arm: str | None
    value: float
    rows: int | None
    power: float | None
    width: float | None


class TrialPlan(Result):
    """How many rows a trial needs, for each arm against the control.

    Attributes
    ----------
    assumed : what is assumed of each arm; one for all of them without a model.
    lines : what is needed for each statement.
    power, level, delta : wanted power; level of intervals, probability that a certificate fails.
    n_arms, arms : arms beside the control, and their labels if a model of several knows them.
    treated_share : of the rows, in all arms together. best_share : the one with which the gain is
        known best.
    n_rows : the size that was asked for.
    gain_intervals : of the gains, if they are those of a model.
    outcome : that of the model.
    """

    assumed: tuple[Assumed, ...]
    lines: tuple[PlanLine, ...]
    power: float
    level: float
    delta: float
    n_arms: int
    treated_share: float
    best_share: float | None
    n_rows: int | None = None
    arms: tuple[str, ...] = ()
    gain_intervals: tuple[tuple[float, float] | None, ...] = ()
    outcome: Outcome | None = None

    def rows(self, what: str = What.GAIN, by: str = By.INTERVAL) -> int | None:
        """The rows that show the effect, or the gain, of every arm."""
        found = [line.rows for line in self.lines if (line.what, line.by) == (what, by)]
        return None if None in found else max((n for n in found if n), default=None)

    def statements(self) -> list[Statement]:
        """The statements behind the lines."""
        n = self.n_arms
        each = 1 - (1 - self.level) / n, self.delta / n
        found: list[Statement] = []
        for k, assumed in enumerate(self.assumed):
            arm = self.arms[k] if self.arms else None
            found += statements_of(assumed, *each, part=_part(self, assumed), arm=arm)
        return found

    def draw(self) -> Figure:
        """Power against rows, for each statement."""
        matplotlib = import_optional("matplotlib.figure", extra="plot")
        figure: Figure = matplotlib.Figure(figsize=(7, 4.6), layout="constrained")
        axes = figure.subplots()
        sizes = [line.rows for line in self.lines if line.rows] or [self.n_rows or 10_000]
        rows = np.geomspace(max(20, min(sizes) / 12), min(_MOST_ROWS, 6 * max(sizes)), 200)
        for k, statement in enumerate(self.statements()):
            of_arm = "" if statement.arm is None else f"{statement.arm}: "
            name = "average effect" if statement.what == What.EFFECT else "gain of the ranking"
            for by in statement.ways:
                axes.plot(
                    rows, [statement.power(n, by) for n in rows], color=f"C{k}",
                    linestyle="-" if by == By.INTERVAL else "--", label=f"{of_arm}{name}, {by}",
                )  # fmt: skip
        axes.axhline(self.power, color="0.6", linewidth=0.8)
        if self.n_rows is not None:
            axes.axvline(self.n_rows, color="0.6", linewidth=0.8)
        axes.set(xscale="log", ylim=(0, 1.02), xlim=(rows[0], rows[-1]), xlabel="rows of the trial")
        axes.set_ylabel("power")
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
        figure.legend(loc="outside lower center", ncols=2, fontsize="small", frameon=False)
        return figure


def _part(plan: TrialPlan, assumed: Assumed) -> float:
    """The rows of an arm and the control, as a part of the trial."""
    return (1 - plan.treated_share) / (1 - assumed.treated_share)


def plan_trial(
    *,
    model: UpliftModel | None = None,
    base_rate: float | None = None,
    effect: float | None = None,
    gain: float | None = None,
    effect_sd: float | None = None,
    explained: float | None = None,
    base_gain: float | None = None,
    treated_share: float | None = None,
    n_arms: int = 1,
    n_rows: int | None = None,
    power: float = 0.8,
    level: float = 0.95,
    delta: float = 0.05,
    outcome_sd: float | None = None,
    outcome_range: tuple[float, float] | None = None,
    design_effect: float | None = None,
    cluster_size: float | None = None,
    cross_fitted: bool = False,
) -> TrialPlan:
    """Plan the size of a trial, for the average effect and for the gain of a ranking.

    Parameters
    ----------
    model : UpliftModel, optional
        Whose own trial says what to assume; what is passed besides replaces it (with one arm).
    base_rate, effect : float
        Mean outcome without treatment, and the average effect on it.
    gain : float
        AUUC of the ranking minus that of random targeting, as a pilot showed it; or
    effect_sd, explained : float
        standard deviation of the effects over people, and the share of their variance that the
        score explains: the gain is sqrt(explained) effect_sd / (2 sqrt(pi)).
    base_gain : float, optional
        Covariance of the outcome without treatment with the rank of the score, between 0 and 1;
        see :func:`past_rows`.
    treated_share : float, optional
        Of the rows, in all arms together; .5 by default.
    n_arms : int, default 1
        Arms beside the control, of equal shares. Each is compared with the control at levels that
        hold together; rows are those of the whole trial.
    n_rows : int, optional
        A size to report power and width of; by default the one that is needed.
    power, level, delta : float
        Wanted power; level of the two-sided interval; probability that a certificate fails.
    outcome_sd, outcome_range : optional
        Standard deviation of the outcome in an arm, and its lowest and highest value, where
        outcomes are not 0/1. Without a range there is no certificate.
    design_effect, cluster_size : float, optional
        Variance relative to independent rows, and mean size of a cluster; see :func:`past_rows`.
    cross_fitted : bool, default False
        The model is trained on the rows of this trial, as ``auucmax fit`` does. Otherwise the
        score is fixed before the trial.

    Examples
    --------
    >>> plan = plan_trial(base_rate=0.1, effect=0.03, effect_sd=0.04, explained=0.5)
    >>> round(plan.assumed[0].gain, 4), plan.rows(), plan.rows("effect")
    (0.008, 4206, 3543)
    """
    for value, name in ((power, "power"), (level, "level"), (delta, "delta")):
        check_level(value, name)
    check_whole(n_arms, "n_arms", 1)
    if n_rows is not None:
        n_rows = check_whole(n_rows, "n_rows", 4)
    if outcome_range is not None:
        outcome_range = check_range(outcome_range, "outcome_range")
    given = {
        "base_rate": base_rate, "effect": effect, "base_gain": base_gain,
        "treated_share": treated_share, "outcome_sd": outcome_sd, "effect_sd": effect_sd,
        "design_effect": design_effect, "cluster_size": cluster_size,
    }  # fmt: skip
    known = {name: own for name, own in given.items() if own is not None}
    if gain is not None or explained is not None:
        known["gain"] = _gain(gain, effect_sd, explained)
    shared: dict[str, Any] = {"outcome_range": outcome_range, "cross_fitted": cross_fitted}
    arms: tuple[str, ...] = ()
    intervals: list[tuple[float, float] | None] = []
    if model is not None:
        n_arms = len(model.arms)
        if n_arms > 1 and known:
            raise InputError(
                next(iter(known)), "left out with a model of several arms",
                repr(next(iter(known.values()))), "The model says it for each arm.",
            )  # fmt: skip
        assumed = []
        for k in range(n_arms):
            own, interval = _of_model(model, k, gain_known="gain" in known)
            values = own | known | shared
            assumed.append(_checked(Assumed(**values)))
            intervals.append(None if "gain" in known else interval)
        if n_arms > 1:
            arms = model.arms
        rows = [arm.rows[1].n_rows for arm in model.evidence.arms]
        n_control = model.evidence.arms[0].rows[0].n_rows
        share = sum(rows) / (sum(rows) + n_control)
        share = share if treated_share is None else treated_share
    else:
        for name in ("base_rate", "effect"):
            if name not in known:
                raise InputError(name, "given", "none", "Give it, or a model.")
        if "gain" not in known:
            known["gain"] = _gain(gain, effect_sd, explained)
        share = 0.5 if treated_share is None else treated_share
        check_level(share, "treated_share")
        own_rows = 1 - share + share / n_arms  # of an arm and the control
        values = known | shared | {"treated_share": share / n_arms / own_rows}
        assumed = [_checked(Assumed(**values))]
    best = None
    if len(assumed) == 1:
        control, treated = np.sqrt(assumed[0].rarer.rank_variances)
        treated *= np.sqrt(n_arms)
        best = float(treated / (control + treated))
    plan = TrialPlan(
        assumed=tuple(assumed), lines=(), power=power, level=level, delta=delta, n_arms=n_arms,
        treated_share=share, best_share=best, n_rows=n_rows, arms=arms,
        gain_intervals=tuple(intervals), outcome=None if model is None else model.roles.outcome,
    )  # fmt: skip
    return replace(plan, lines=tuple(_lines(plan.statements(), power, n_rows)))


def _lines(statements: Sequence[Statement], power: float, n_rows: int | None) -> list[PlanLine]:
    found = []
    for one in statements:
        for by in one.ways:
            needed = one.rows(power, by)
            size = n_rows or needed
            found.append(
                PlanLine(
                    what=one.what,
                    by=by,
                    arm=one.arm,
                    value=one.value,
                    rows=needed,
                    power=None if size is None else one.power(size, by),
                    width=one.width(size) if size is not None and by == By.INTERVAL else None,
                )
            )
    return found


def past_rows(
    y: ArrayLike, groups: ArrayLike | None = None, score: ArrayLike | None = None
) -> dict[str, Any]:
    """Arguments of :func:`plan_trial` from untreated rows of the past.

    ``base_rate`` and ``outcome_sd`` (None if 0/1); with ``score`` also ``base_gain``; with
    ``groups`` the ``cluster_size`` and the ``design_effect``: the sum over clusters of (sum of t)^2
    over the sum over rows of t^2, where t is (y - mean) c less its mean, or y less its mean.

    Examples
    --------
    >>> past_rows([1, 1, 0, 0, 0, 0], groups=["a", "a", "b", "b", "c", "c"])
    {'base_rate': 0.3333..., 'outcome_sd': None, 'cluster_size': 2.0, 'design_effect': 2.0}
    """
    y = check_column(y, "y")
    if (y == y[0]).all():
        raise InputError(
            "y", "different outcomes", f"{y[0]:g} in all {len(y)} rows",
            "Nothing can be planned from it.",
        )  # fmt: skip
    found: dict[str, Any] = {"base_rate": float(y.mean()), "outcome_sd": None}
    if outcome_kind(y) != BINARY:
        found["outcome_sd"] = float(y.std())
    terms = y - y.mean()
    if score is not None:
        ranking = rank_rows(check_column(score, "score", len(y)))
        place = np.empty(len(y))
        place[ranking.order] = ranking.mid_cumsum(np.ones(len(y))) / len(y) - 0.5
        found["base_gain"] = float((terms * place).mean())
        terms = terms * place - (terms * place).mean()
    if groups is not None:
        terms = terms / (np.abs(terms).max() or 1.0)  # squares of tiny numbers would vanish
        sums = np.bincount(check_groups(groups, len(y)), weights=terms)
        found["cluster_size"] = len(y) / len(sums)
        found["design_effect"] = max(1.0, float(sums @ sums) / (float(terms @ terms) or 1.0))
    return found


def _of_model(
    model: UpliftModel, k: int, *, gain_known: bool
) -> tuple[dict[str, Any], tuple[float, float] | None]:
    """What the trial of a model says about an arm, and the interval of its gain."""
    evidence, own = model.evidence, model.evidence.arms[k]
    if evidence.failed_check:
        raise InputError(
            "model", "of a trial that passed its check", "a failed one", "Fit another."
        )
    gain, outcome = own.gain, evidence.roles.outcome
    if gain.value <= 0 and not gain_known:
        raise InputError(
            "model", f"one whose ranking gained over random targeting, for {own.arm!r}",
            f"{gain.value:+.5f}", "Give the gain that you hope for, 0.005 say.",
        )  # fmt: skip
    n = np.array([arm.n_rows for arm in own.rows], dtype=np.float64)
    means = np.array([arm.mean for arm in own.rows])
    binary = outcome.kind == Kind.BINARY
    if outcome.lower_is_better:
        means = 1 - means if binary else -means
    error = own.effect.se or 0.0
    found: dict[str, Any] = {
        "gain": gain.value,
        "base_rate": float(means[0]),
        "effect": float(means[1] - means[0]),
        "treated_share": float(n[1] / n.sum()),
        "outcome_sd": None if binary else float(error / np.sqrt((1 / n).sum())),
    }
    if own.n_groups is not None:
        found["cluster_size"] = float(n.sum()) / own.n_groups
    if gain.lower is None or gain.upper is None:
        return found, None
    # Clusters, and how base rates vary with the score, made the variance what it was.
    folds = 1 if model.recipe.hold_out else 2
    width = gain.upper - gain.lower
    seen = (width / (2 * ndtri(0.5 + evidence.level / 2))) ** 2 * n.sum() / folds
    if gain.value > 0:
        plain = statements_of(Assumed(**found), 0.95, 0.05)[1].variance
        found["design_effect"] = float(seen / plain)
    return found, (gain.lower, gain.upper)


def _gain(gain: float | None, effect_sd: float | None, explained: float | None) -> float:
    if gain is not None:
        if explained is not None:
            raise InputError("gain", "left out with explained", "both", "Leave one out.")
        return check_positive(gain, "gain", "It is the gain of the ranking over random targeting.")
    if effect_sd is None or explained is None:
        raise InputError(
            "gain", "given, or effect_sd with explained: they say how good the ranking is",
            "neither", "Give a gain of 0.005, say, or an effect_sd of 0.03 and explained 0.3.",
        )  # fmt: skip
    check_positive(effect_sd, "effect_sd", "It says how much effects differ between people.")
    if not 0 < explained <= 1:
        raise InputError(
            "explained", "a share of the effects' variance, above 0 and at most 1",
            repr(explained), "0.3 is a good score.",
        )  # fmt: skip
    return float(np.sqrt(explained) * effect_sd * GAIN_OF_SD)


def _checked(assumed: Assumed) -> Assumed:
    """Raise an InputError if outcomes cannot be as assumed."""
    numbers = ("base_rate", "effect", "effect_sd", "gain", "base_gain", "outcome_sd")
    for name in numbers:
        value = getattr(assumed, name)
        least = 1 / _LARGEST if name == "outcome_sd" else 0.0
        wrong = isinstance(value, bool | str) or (
            value is not None and not least <= abs(value) <= _LARGEST
        )
        if wrong:
            raise InputError(
                name, f"a number from {least:g} to {_LARGEST:g} in size", repr(value),
                "Use another unit.",
            )  # fmt: skip
    for name in ("design_effect", "cluster_size", "effect_sd", "outcome_sd"):
        if (value := getattr(assumed, name)) is not None:
            check_positive(value, name, "1 means independent rows.")
    check_level(assumed.treated_share, "treated_share")
    if assumed.outcome_sd is not None:
        return assumed
    for value, name in zip(assumed.means, ("base_rate", "effect"), strict=True):
        if not 0 < value < 1:
            raise InputError(
                name, "such that means of 0/1 outcomes lie between 0 and 1", f"a mean of {value:g}",
                "Outcomes that are not 0/1 also need their standard deviation.",
            )  # fmt: skip
    # The control may lose what the treated gain, but ranks end at 0 and 1.
    most = float(np.min(assumed.means * (1 - assumed.means)) / 2)
    if (largest := np.abs(assumed.rank_gains).max()) >= most:
        raise InputError(
            "gain", f"below {most:.4g}, the most that such outcomes allow", f"{largest:.4g}",
            "A gain is AUUC minus that of random targeting.",
        )  # fmt: skip
    return assumed
