"""How large must a trial be, so that it shows what a ranking gains? Power, rows and widths.

Everything follows from the variance of the estimates, whose row terms are in
:mod:`auucmax.evaluation.inference`. With u the share of people ranked below a person, c = u - 1/2,
e the treated share and y the outcome, n times the variance of the gain over random is

    Var(y c | treated) / e + Var(y c | control) / (1 - e) + 2 Cov(tau c, V) + Var(V),

V(u) the effect on those above u. Its closed form needs how outcomes go with the score, of which the
gain is known, g = Cov(E[y | arm, u], u) of the treated minus that of the control. With z the normal
quantile of u, means of 0/1 outcomes are taken to be m exp(k z - k^2 / 2), so that with
h = k / sqrt 2, and Owen's function T,

    g = m (Phi(h) - 1/2),     E[y c^2] = m (1/4 - 2 T(h, 1 / sqrt 3)),

and those of others m + k z, g = k / (2 sqrt(pi)), E[(k z c)^2] = k^2 (1/12 + 1 / (2 pi sqrt 3)). In
the last two terms, which are small, effects are linear in z: -effect^2/12 - (3 - 4/sqrt 3) gain^2.
A score that explains a share of the variance of the effects gains sqrt(explained) times their
standard deviation over 2 sqrt(pi), if both are normal.

An *interval* that is wholly above 0 is what is hoped for: its power is Phi(gain / error - z). (Of a
top share with 0/1 outcomes limits are score limits: Phi of the lower one, at the truth, over the
error.) The *certificate* (hedged block betting, ``auucmax.bounds``) bets on outcomes less their
mean, and its hedge aims at the 1 - .75 delta quantile of the normal; what it loses beyond that has
been measured, not derived: see :func:`certificate_quantile`. ``python -m experiments power``
compares promises of both with simulated trials.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri, owens_t, pdtrc

from auucmax._optional import import_optional
from auucmax._shown import Shown
from auucmax._validation import (
    Floats,
    check_choice,
    check_column,
    check_groups,
    check_level,
    check_positive,
    check_range,
    check_whole,
)
from auucmax.bounds.betting import AIM
from auucmax.bounds.blocks import block_floor, block_size
from auucmax.data.outcomes import BINARY, outcome_kind
from auucmax.evaluation.inference import FEW_OF_ARM
from auucmax.evaluation.intervals import ArmMean, score_limits
from auucmax.evaluation.ranking import rank_rows
from auucmax.trial_model import TrialModel

if TYPE_CHECKING:
    from matplotlib.figure import Figure

GAIN_OF_SD = 1 / (2 * np.sqrt(np.pi))  #: gain of a score that knows all, in sds of the effects
SPREAD = 1 / (2 * np.pi * np.sqrt(3))  #: E[z^2 c^2] - 1/12, z the normal quantile of a rank
MOST_ROWS = 1e11
_LARGEST = 1e50  # what is assumed of outcomes; squares of it can be computed with
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

    def rank_variances(self, *, centred: bool) -> Floats:
        """Var(y c) of control and treated; ``centred``: of outcomes less the mean of all."""
        middle = float(self.shares @ self.means) if centred else 0.0
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
    middle of the estimate: those of a top share with 0/1 outcomes. ``part``: of the rows that the
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
        rows = n_rows * self.assumed.shares
        control, treated = (
            ArmMean(mean, 1.0, self.assumed.design_effect, own)
            for mean, own in zip(self.arm_means, rows, strict=True)
        )
        low, high = score_limits(self.value, treated, control, multiple)
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


@dataclass(frozen=True, repr=False)
class TrialPlan(Shown):
    """What trials of any size would show, if all is as assumed.

    ``statements``: that the ranking is better than random and, if they were asked for, better than
    another one, and that treating its top share is better than treating nobody. ``n_rows``: the
    size that was asked for, or None. ``notes``: where what is assumed comes from. ``n_arms``: with
    several, each is compared with the control, and rows are those of the whole trial.
    """

    assumed: Assumed
    statements: tuple[Statement, ...]
    power: float
    level: float
    delta: float
    n_rows: int | None = None
    notes: tuple[str, ...] = ()
    n_arms: int = 1

    @property
    def rows(self) -> int | None:
        """Rows after which the interval of the gain is above 0 with the chosen power."""
        return self.statements[0].rows(self.power)

    @cached_property
    def best_share(self) -> float:
        """The treated share, of all arms together, with which the gain of each is known best."""
        control, treated = np.sqrt(self.assumed.rank_variances(centred=False))
        treated *= np.sqrt(self.n_arms)
        return float(treated / (control + treated))

    @property
    def treated_share(self) -> float:
        """Of the rows of the whole trial, in all arms together."""
        odds = self.n_arms * self.assumed.treated_share / (1 - self.assumed.treated_share)
        return odds / (1 + odds)

    def table(self) -> list[dict[str, Any]]:
        """A line for each statement and verdict: rows, and power and width at ``n_rows``."""
        lines = []
        for statement in self.statements:
            for by in statement.kinds:
                needed = statement.rows(self.power, by)
                n = self.n_rows or needed
                known = n is not None
                lines.append(
                    {
                        "statement": statement.name,
                        "by": by,
                        "value": statement.value,
                        "rows": needed,
                        "power": statement.power(n, by) if known and n is not None else None,
                        "width": statement.width(n) if known and by == BY[0] and n else None,
                    }
                )
        return lines

    def __str__(self) -> str:
        lines = []
        for line in self.table():
            rows = "more than can be planned" if line["rows"] is None else f"{line['rows']:,}"
            shown = f"{line['statement']}, by its {line['by']}"
            lines.append(f"{shown}: rows for a power of {self.power:.0%}: {rows}")
        return "\n".join([*lines, *self.notes])

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        return {
            "assumed": asdict(self.assumed),
            "n_rows": self.n_rows,
            "power": self.power,
            "level": self.level,
            "delta": self.delta,
            "n_arms": self.n_arms,
            "treated_share": self.treated_share,
            "best_share": self.best_share,
            "statements": self.table(),
            "notes": list(self.notes),
        }

    def draw(self) -> Figure:
        """Power against rows, for each statement by interval and by certificate."""
        matplotlib = import_optional("matplotlib.figure", extra="plot")
        figure: Figure = matplotlib.Figure(figsize=(7, 4.6), layout="constrained")
        axes = figure.subplots()
        found = [line["rows"] for line in self.table() if line["rows"]]
        middle = np.array([*found, self.n_rows or found[0] if found else 1e4])
        rows = np.geomspace(max(20, middle.min() / 12), min(MOST_ROWS, 6 * middle.max()), 200)
        for k, statement in enumerate(self.statements):
            for by in statement.kinds:
                axes.plot(
                    rows,
                    [statement.power(n, by) for n in rows],
                    color=f"C{k}",
                    linestyle="-" if by == BY[0] else "--",
                    label=f"{statement.name}, by {by}",
                )
        axes.axhline(self.power, color="0.6", linewidth=0.8)
        if self.n_rows is not None:
            axes.axvline(self.n_rows, color="0.6", linewidth=0.8)
        axes.set(xscale="log", ylim=(0, 1.02), xlim=(rows[0], rows[-1]), xlabel="rows of the trial")
        axes.set_ylabel("chance that it is shown")
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
        figure.legend(loc="outside lower center", ncols=2, fontsize="small", frameon=False)
        return figure


def plan_trial(
    *,
    base_rate: float,
    effect: float,
    gain: float | None = None,
    effect_sd: float | None = None,
    explained: float | None = None,
    base_gain: float = 0.0,
    treated_share: float = 0.5,
    n_rows: int | None = None,
    power: float = 0.8,
    level: float = 0.95,
    delta: float = 0.05,
    outcome_sd: float | None = None,
    outcome_range: tuple[float, float] | None = None,
    design_effect: float = 1.0,
    cluster_size: float = 1.0,
    other_gain: float | None = None,
    agreement: float = 0.5,
    share: float | None = None,
    cross_fitted: bool = False,
    n_arms: int = 1,
    notes: tuple[str, ...] = (),
) -> TrialPlan:
    """Plan a trial that is to show what a ranking gains.

    Parameters
    ----------
    base_rate, effect : mean outcome without treatment, and the average effect on it.
    gain : AUUC of the ranking minus that of a random order, as a pilot showed it; or
    effect_sd, explained : standard deviation of the effects over people, and the share of their
        variance that the score explains. The gain is then sqrt(explained) effect_sd / (2 sqrt(pi)).
    base_gain : covariance of the outcome without treatment with the rank of the score, between 0
        and 1, as :func:`past_rows` finds it; 0: the score tells nothing of the outcome itself.
    treated_share : of the rows, in all arms together.
    n_arms : beside the control, of equal shares; effect and gain are those of the arm that matters.
        Each is compared with the control at 1 - (1 - level) / n_arms and delta / n_arms, so that
        what is said of all of them holds together; rows are those of the whole trial.
    n_rows : a size to tell power and width of; by default that which is needed.
    power : chance with which the trial is to show it.
    level, delta : of the two-sided interval, and the chance with which a certificate may fail.
    outcome_sd : standard deviation of the outcome in an arm, where outcomes are not 0/1.
    outcome_range : lowest and highest outcome; without it outcomes that are not 0/1 have no
        certificate.
    design_effect : how many times as many rows are needed as if rows were independent, for clusters
        or for what a pilot showed.
    cluster_size : mean number of rows of a cluster. :func:`past_rows` finds both.
    other_gain, agreement : gain of another ranking, and the rank correlation of the two scores.
    share : compare treating this top share with treating nobody.
    cross_fitted : the model is to be fitted on the rows of this very trial, by folds, as ``auucmax
        fit`` does: the variance of the gain counts twice. Otherwise the score is fixed before it.
    notes : where these numbers come from.

    Examples
    --------
    >>> plan = plan_trial(base_rate=0.1, effect=0.03, effect_sd=0.04, explained=0.5)
    >>> round(plan.assumed.gain, 4), plan.rows
    (0.008, 4766)
    >>> [(line["by"], line["rows"]) for line in plan.table()]
    [('interval', 4766), ('certificate', ...)]
    >>> round(plan.statements[0].power(10_000), 2)
    0.98
    """
    gain = _gain(gain, effect_sd, explained)
    if outcome_range is not None:
        outcome_range = check_range(outcome_range, "outcome_range")
    check_level(treated_share, "treated_share")
    check_whole(n_arms, "n_arms", 1)
    own_rows = 1 - treated_share + treated_share / n_arms  # of an arm and the control
    assumed = Assumed(
        _number(base_rate, "base_rate"),
        _number(effect, "effect"),
        gain,
        _number(base_gain, "base_gain"),
        treated_share / n_arms / own_rows,
        None if outcome_sd is None else check_positive(outcome_sd, "outcome_sd", "It scatters."),
        effect_sd,
        outcome_range,
        check_positive(design_effect, "design_effect", "1 means independent rows."),
        check_positive(cluster_size, "cluster_size", "1 means independent rows."),
        cross_fitted,
    )
    _check(assumed)
    for value, name in ((power, "power"), (level, "level"), (delta, "delta")):
        check_level(value, name)
    if n_rows is not None:
        n_rows = check_whole(n_rows, "n_rows", 4)
    each = 1 - (1 - level) / n_arms, delta / n_arms
    statements = [_gain_statement(assumed, *each)]
    if other_gain is not None:
        other_gain = _number(other_gain, "other_gain")
        _check_size(other_gain, "other_gain")
        statements.append(_difference_statement(assumed, other_gain, agreement, *each))
    if share is not None:
        check_level(share, "share")
        statements.append(_share_statement(assumed, share, *each))
    if n_arms > 1:
        notes = (*notes, _ARMS.format(n_arms, 1 - (1 - level) / n_arms, delta / n_arms))
    parts = tuple(replace(one, part=own_rows) for one in statements)
    return TrialPlan(assumed, parts, power, level, delta, n_rows, notes, n_arms)


_ARMS = (
    "Each of the {0} arms is compared with the control, at a level of {1:.4g} and a delta of "
    "{2:.4g}: what is said of all of them holds together. `fit` certifies each arm by itself, at "
    "the whole delta. Power is that of one comparison; rows are those of the whole trial."
)


def past_rows(
    y: ArrayLike, groups: ArrayLike | None = None, score: ArrayLike | None = None
) -> dict[str, Any]:
    """What untreated rows of the past tell of a trial: arguments of :func:`plan_trial`.

    ``base_rate`` and ``outcome_sd`` (None if 0/1); with ``score`` also ``base_gain``; with
    ``groups`` the ``cluster_size`` and the ``design_effect``, the sum over clusters of (sum of t)^2
    over the sum over rows of t^2. t is y c less its mean, or without scores y less its mean, whose
    design effect is the larger one where scores differ within clusters.

    Examples
    --------
    >>> past_rows([1, 1, 0, 0, 0, 0], groups=["a", "a", "b", "b", "c", "c"])
    {'base_rate': 0.3333..., 'outcome_sd': None, 'cluster_size': 2.0, 'design_effect': 2.0}
    """
    y = check_column(y, "y")
    if (y == y[0]).all():
        raise ValueError(
            f"y should have different outcomes, got {y[0]:g} in all {len(y)} rows. Nothing can be "
            f"planned from it."
        )
    found: dict[str, Any] = {"base_rate": float(y.mean()), "outcome_sd": None}
    if outcome_kind(y) != BINARY:
        found["outcome_sd"] = float(y.std())
    terms = y - y.mean()
    if score is not None:
        ranking = rank_rows(check_column(score, "score", len(y)))
        place = np.empty(len(y))
        place[ranking.order] = ranking.mid_cumsum(np.ones(len(y))) / len(y) - 0.5
        found["base_gain"] = float((terms * place).mean())
        terms = y * place - (y * place).mean()
    if groups is not None:
        terms = terms / (np.abs(terms).max() or 1.0)  # squares of tiny numbers would vanish
        sums = np.bincount(check_groups(groups, len(y)), weights=terms)
        found["cluster_size"] = len(y) / len(sums)
        found["design_effect"] = max(1.0, float(sums @ sums) / (float(terms @ terms) or 1.0))
    return found


def model_evidence(model: TrialModel) -> dict[str, Any]:
    """What the trial of a fitted model tells of another one: arguments of :func:`plan_trial`.

    ``gain`` is what it was in the model's own trial, on rows that the model had not learnt from.
    """
    facts = model.evidence
    if facts["failed_check"] is not None:
        raise ValueError(f"the model should be of a sound trial. {facts['failed_check']}")
    gain, rows, error = facts["auuc"]["gain"], facts["rows"], facts["effect"]["standard_error"]
    if gain <= 0:
        raise ValueError(
            f"the model should gain over a random order in its own trial, got {gain:+.5f}. Pass "
            f"the gain that you hope for, gain=0.005 say."
        )
    n = np.array([rows["control"], rows["treated"]], dtype=np.float64)
    means = np.array([rows["mean_control"], rows["mean_treated"]])
    binary = bool(rows["binary"])
    if rows["lower_is_better"]:  # what is avoided is counted
        means = 1 - means if binary else -means
    found: dict[str, Any] = {
        "gain": gain,
        "base_rate": float(means[0]),
        "effect": float(means[1] - means[0]),
        "treated_share": float(n[1] / n.sum()),
        "outcome_sd": None if binary else float(error / np.sqrt((1 / n).sum())),
    }
    if rows["groups"] is not None:
        found["cluster_size"] = rows["n_rows"] / rows["groups"]
    low, high = facts["auuc"]["gain_lower"], facts["auuc"]["gain_upper"]
    if low is not None:
        # Clusters, and how base rates go with the score, make the variance what it was.
        folds = 1 if model.recipe.hold_out else 2
        seen = ((high - low) / (2 * ndtri(0.5 + facts["level"] / 2))) ** 2 * n.sum() / folds
        found["design_effect"] = float(seen / plan_trial(**found).statements[0].variance)
    at_least = (
        "" if low is None or low <= 0 else f"; plan with {low:.5f}, the lower end, to be safe"
    )
    found["notes"] = (
        f"The gain of {gain:.5f} is that of {rows['n_rows']:,} rows of the model's own trial, and "
        f"uncertain as such{at_least}.",
    )
    return found


def _gain(gain: float | None, effect_sd: float | None, explained: float | None) -> float:
    if gain is not None:
        if explained is not None:
            raise ValueError(
                "gain, or effect_sd with explained, should be given, got both. Leave one out."
            )
        if effect_sd is not None:
            check_positive(effect_sd, "effect_sd", "It says how much effects differ.")
        return check_positive(gain, "gain", "It is what the ranking is better by than random.")
    if effect_sd is None or explained is None:
        raise ValueError(
            "gain, or effect_sd with explained, should be given, got neither: they say how good "
            "the ranking is. Pass gain=0.005, say, or effect_sd=0.03 and explained=0.3."
        )
    check_positive(effect_sd, "effect_sd", "It says how much effects differ between people.")
    if not 0 < explained <= 1:
        raise ValueError(
            f"explained should be a share of the effects' variance, above 0 and at most 1, got "
            f"{explained!r}. 0.3 is a good score."
        )
    return float(np.sqrt(explained) * effect_sd * GAIN_OF_SD)


def _number(value: Any, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not np.isfinite(value):
        raise ValueError(f"{name} should be a number, got {value!r}. Check it.")
    return float(value)


def _check_size(value: float | None, name: str) -> None:
    """Raise a ValueError for numbers whose squares, or ratios, cannot be computed with."""
    least = 1 / _LARGEST if name == "outcome_sd" else 0.0
    if value is not None and not least <= abs(value) <= _LARGEST:
        raise ValueError(
            f"{name} should be from {least:g} to {_LARGEST:g} in size, got {value:g}. Use another "
            f"unit."
        )


def _check(assumed: Assumed) -> None:
    """Raise a ValueError if outcomes cannot be as assumed."""
    for name in ("base_rate", "effect", "effect_sd", "gain", "base_gain", "outcome_sd"):
        _check_size(getattr(assumed, name), name)
    for end in assumed.outcome_range or ():
        _check_size(end, "outcome_range")
    check_level(assumed.treated_share, "treated_share")
    if assumed.outcome_sd is None:
        for value, name in zip(assumed.means, ("base_rate", "base_rate + effect"), strict=True):
            if not 0 < value < 1:
                raise ValueError(
                    f"{name} should lie between 0 and 1, got {value:g}. Pass outcome_sd, too, if "
                    f"outcomes are not 0/1."
                )
        # The control may lose what the treated gain, but ranks end at 0 and 1.
        most = float(np.min((assumed.means * (1 - assumed.means)) / 2))
        if np.abs(assumed.rank_gains).max() >= most:
            raise ValueError(
                f"gain should be such as outcomes can have, below {most:.4g} in each arm, got "
                f"{np.abs(assumed.rank_gains).max():.4g}. A gain is AUUC minus that of a random "
                f"order."
            )


def _gain_statement(assumed: Assumed, level: float, delta: float) -> Statement:
    def variance(*, centred: bool) -> float:
        arms = assumed.rank_variances(centred=centred) / assumed.shares
        rest = assumed.effect**2 / 12 + (3 - 4 / np.sqrt(3)) * assumed.gain**2
        return float(assumed.design_effect * (arms.sum() - rest))

    return _statement("better than random", assumed.gain, variance, assumed, level, delta)


def _statement(
    name: str,
    value: float,
    variance: Callable[..., float],
    assumed: Assumed,
    level: float,
    delta: float,
    floors: int = 1,
) -> Statement:
    folds = 2 if assumed.cross_fitted else 1
    certified = variance(centred=True) if assumed.is_certifiable else None
    of_interval = folds * variance(centred=False)
    return Statement(name, value, of_interval, certified, assumed, level, delta, floors)


def _difference_statement(
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
    if assumed.outcome_sd is None:
        ours = assumed.slopes / np.sqrt(2)
        theirs = replace(assumed, gain=other_gain).slopes / np.sqrt(2)
        moments = np.array([_apart(*h, agreement) for h in zip(ours, theirs, strict=True)])

    def variance(*, centred: bool) -> float:
        middle = float(assumed.shares @ assumed.means) if centred else 0.0
        if assumed.outcome_sd is None:
            squares = (1 - 2 * middle) * assumed.means * moments + middle**2 * apart
        else:
            squares = (assumed.totals + (assumed.means - middle) ** 2) * apart
        arms = (squares - np.array([0.0, value**2])) / assumed.shares
        return float(assumed.design_effect * (arms.sum() - apart * assumed.effect**2))

    name = "better than the other ranking"
    return _statement(name, value, variance, assumed, level, delta, floors=2)


def _apart(ours: float, theirs: float, agreement: float) -> float:
    """E[(Phi(z_a) - Phi(z_b))^2] of normals with means sqrt(2) times these, and this agreement."""
    from scipy.stats import multivariate_normal

    half = np.sin(np.pi * agreement / 6)  # half of the correlation of the normals
    both = multivariate_normal.cdf([ours, theirs], cov=[[1.0, half], [half, 1.0]])
    squares = [ndtr(h) - 2 * owens_t(h, 1 / np.sqrt(3)) for h in (ours, theirs)]
    return float(sum(squares) - 2 * both)


def _share_statement(assumed: Assumed, share: float, level: float, delta: float) -> Statement:
    """The effect of treating the top share, V(q), whose limit is at the score's own quantile."""
    z, k = float(ndtri(1 - share)), assumed.slopes
    if assumed.outcome_sd is None:
        sums = assumed.means * ndtr(k - z)
        at_limit = float(np.diff(assumed.means * np.exp(k * z - k**2 / 2))[0])
        squares = sums
    else:
        density = float(np.exp(-0.5 * z * z) / np.sqrt(2 * np.pi))
        sums = share * assumed.means + k * density
        at_limit = assumed.effect + float(k[1] - k[0]) * z
        around = share * (assumed.totals - k**2)  # what the score does not tell
        squares = around + share * assumed.means**2 + 2 * assumed.means * k * density
        squares = squares + k**2 * (share + z * density)
    value = float(sums[1] - sums[0])
    arms = (squares - sums**2) / assumed.shares
    rest = at_limit**2 * share * (1 - share) - 2 * at_limit * value * (1 - share)
    variance = assumed.design_effect * float(arms.sum() + rest)
    name = f"treating the top {share:.0%} is better than nobody"
    means = (float(sums[0]), float(sums[1])) if assumed.outcome_sd is None else None
    return Statement(name, value, variance, None, assumed, level, delta, arm_means=means)
