"""Sample size of a trial that should show the average effect and the gain of a ranking.

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

from bisect import bisect_left
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy.special import ndtr, ndtri, owens_t, pdtrc
from scipy.stats import rankdata

from auucmax._errors import InputError
from auucmax._optional import import_optional
from auucmax._validation import (
    Floats,
    check_column,
    check_level,
    check_outcome,
    check_positive,
    check_range,
    check_whole,
)
from auucmax.certificates.betting import AIM
from auucmax.certificates.blocks import block_floor, block_size
from auucmax.data.read_trial import check_names, id_texts, read_trial
from auucmax.data.reading import table_of
from auucmax.encoding.kinds import BINARY, outcome_kind, outcome_numbers
from auucmax.metrics.inference import FEW_OF_ARM
from auucmax.model import UpliftModel
from auucmax.results import ArmEvidence, Kind, Outcome, Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure

GAIN_OF_SD = 1 / (2 * np.sqrt(np.pi))  #: gain of a perfect score, in sds of the effects
_SPREAD = 1 / (2 * np.pi * np.sqrt(3))  # E[z^2 c^2] - 1/12, z the normal quantile of a rank
_MOST_ROWS = 10**11
_LARGEST = 1e100
_POSITIVE = ("gain", "effect_sd", "outcome_sd", "design_effect", "cluster_size")


class What(StrEnum):
    """The statements that a trial can show."""

    EFFECT = "effect"  #: the average effect, by its interval
    GAIN = "gain"  #: the gain of a ranking over random targeting, by its interval
    GUARANTEE = "guaranteed gain"  #: the same, by its certificate


class Assumed(Result):
    """Assumptions about people, treatment and score, in the units of the outcome.

    ``gain``: AUUC of the ranking minus that of random targeting. ``base_gain``: Cov(y, u) without
    treatment, 0 if the score says nothing about the outcome itself. ``outcome_sd`` is None for 0/1
    outcomes. ``design_effect``: how many times the variance of independent rows;
    ``effect_design``: that of the average effect, where it differs from that of the gain;
    ``cluster_size``: mean number of rows of a cluster. ``cross_fitted``: the model is trained on
    the rows of the trial itself, so the variance of the gain counts twice. ``part``: the rows of
    the arm and the control among those of the trial. ``level`` and ``delta`` are those of one arm:
    the statements about all arms hold together.
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
    effect_design: float | None = None
    cluster_size: float = 1.0
    cross_fitted: bool = False
    part: float = 1.0
    level: float = 0.95
    delta: float = 0.05

    @property
    def means(self) -> Floats:
        """Mean outcomes of control and treated."""
        return np.array([self.base_rate, self.base_rate + self.effect])

    @property
    def shares(self) -> Floats:
        """Shares of control and treated."""
        return np.array([1 - self.treated_share, self.treated_share])

    def value(self, what: str) -> float:
        """The assumed effect or gain."""
        return self.effect if what == What.EFFECT else self.gain

    @property
    def statements(self) -> list[What]:
        """The statements that can be shown under these assumptions."""
        bounded = self.outcome_sd is None or self.outcome_range is not None
        return [*What] if bounded and not self.cross_fitted else [What.EFFECT, What.GAIN]

    def arm_variances(self) -> tuple[Floats, Floats]:
        """Var(y) and Var(y c) of the control and of the treated."""
        means = self.means
        middle = float(self.shares @ means)
        gains = np.array([self.base_gain, self.base_gain + self.gain])
        if self.outcome_sd is None:
            variances = means * (1 - means)
            if middle > 0.5:
                # Means that grow exponentially with the score fit a rare outcome; of a common one
                # they would exceed 1. So 1 - y is ranked by the reversed score: the same gains.
                means, middle = 1 - means, 1 - middle
            slopes = np.sqrt(2) * ndtri(0.5 + gains / means)
            weighed = means * (0.25 - 2 * owens_t(slopes / np.sqrt(2), 1 / np.sqrt(3)))
            squares = (1 - 2 * middle) * weighed + middle**2 / 12
        else:
            more = self.effect_sd if self.effect_sd is not None else self.gain / GAIN_OF_SD
            variances = np.array([0.0, more**2]) + self.outcome_sd**2
            slopes = gains / GAIN_OF_SD
            squares = (variances + (means - middle) ** 2) / 12 + slopes**2 * _SPREAD
        return variances, squares - gains**2

    def variance(self, what: str) -> float:
        """Variance of the estimated effect or gain, times the number of rows."""
        outcomes, ranks = (float((own / self.shares).sum()) for own in self.arm_variances())
        if what == What.EFFECT:
            return (self.effect_design or self.design_effect) * outcomes
        rest = self.effect**2 / 12 + (3 - 4 / np.sqrt(3)) * self.gain**2
        return (1 + self.cross_fitted) * self.design_effect * float(ranks - rest)

    def error(self, n_rows: float, what: str) -> float:
        """Standard error of the estimated effect or gain with this number of rows."""
        return float(np.sqrt(self.variance(what) / (self.part * n_rows)))

    def power(self, n_rows: float, what: str) -> float:
        """Power with this number of rows: the probability that the lower limit is above 0."""
        error, n_own = self.error(n_rows, what), self.part * n_rows
        if what == What.GUARANTEE:
            return float(ndtr(self.gain / error - certificate_quantile(self, n_own, error)))
        z, at_zero = ndtri(0.5 + self.level / 2), error
        if what == What.EFFECT and self.outcome_sd is None:
            # An effect of 0 is outside score limits by the error that equal rates would have.
            middle, variances = float(self.shares @ self.means), self.arm_variances()[0]
            equal = middle * (1 - middle) / self.shares
            at_zero = error * np.sqrt(equal.sum() / (variances / self.shares).sum())
        found = ndtr((abs(self.value(what)) - z * at_zero) / error)
        if self.outcome_sd is None:
            # Responders and others must be enough for an interval.
            counts = n_own * self.shares * np.minimum(self.means, 1 - self.means)
            found *= np.prod(pdtrc(FEW_OF_ARM - 1, counts / self.cluster_size))
        return float(found)

    def rows(self, power: float, what: str) -> int | None:
        """Number of rows for this power; None if unrealistically large."""
        sizes = range(4, _MOST_ROWS)
        found = bisect_left(sizes, power, key=lambda n: self.power(n, what))
        return None if self.value(what) == 0 or found == len(sizes) else sizes[found]

    def width(self, n_rows: float, what: str) -> float:
        """Expected width of the interval."""
        return float(2 * ndtri(0.5 + self.level / 2)) * self.error(n_rows, what)


# What a certificate costs beyond the quantile that its hedge aims at, by `python -m
# experiments.certificate_price`: 40 kinds of trials of 800 to 25,000 rows, base rates of 1% to 50%,
# treated shares of .3 to .85, delta .01 to .1. The fit leaves .05 (root mean square), .13 at most.
# Fewer than 180 blocks were not measured; above 2,500 the price is held.
_CURVATURE, _ROOT, _INVERSE, _BLOCKS = 0.57, 11.8, -79.0, (180, 2500)


def certificate_quantile(assumed: Assumed, n_rows: float, error: float) -> float:
    """Distance of a certificate's bound below the estimate, in standard errors.

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
    mean = float(assumed.shares @ assumed.means)
    middle = float(np.clip((mean - low) / (high - low), 0, 1))
    floor = block_floor(treated, control, 0.5, (middle, middle))
    z = float(-ndtri(AIM * assumed.delta))
    loss = floor * (high - low) / (error * n_blocks)
    blocks = float(np.clip(n_blocks, *_BLOCKS))
    return z + _CURVATURE * (loss * z) ** 2 + _ROOT / np.sqrt(blocks) + _INVERSE / blocks


class PlanLine(Result):
    """Rows needed to show the effect or the gain of one arm.

    ``rows`` for the wanted power, None if no realistic number has it; ``power`` and ``width`` of
    the interval at the size that was asked for, or else at ``rows``.
    """

    what: What
    arm: str | None
    value: float
    rows: int | None
    power: float | None = None
    width: float | None = None


class TrialPlan(Result):
    """The number of rows a trial needs, for each arm against the control.

    Attributes
    ----------
    assumed : assumptions about each arm; one for all of them without a model.
    lines : what is needed for each statement.
    power : wanted power, for each arm on its own.
    outcome : outcome of the model; without a model it has no name.
    n_arms, arms : arms besides the control, and their labels if a model of several knows them.
    treated_share : share of the rows in all arms together.
    n_rows : the size that was asked for.
    """

    assumed: tuple[Assumed, ...]
    lines: tuple[PlanLine, ...]
    power: float
    outcome: Outcome
    n_arms: int
    treated_share: float
    n_rows: int | None = None
    arms: tuple[str, ...] = ()

    def rows(self, what: str = What.GAIN) -> int | None:
        """Rows with which each arm, on its own, shows its effect or gain with the wanted power.

        All arms at once do so less often. None if no realistic number has that power.
        """
        found = [line.rows or np.inf for line in self.lines if line.what == what]
        most = max(found, default=np.inf)
        return None if most == np.inf else int(most)

    @property
    def best_share(self) -> float | None:
        """The treated share with the smallest error of the gain; None for several arms."""
        if len(self.assumed) > 1:
            return None
        control, treated = np.sqrt(self.assumed[0].arm_variances()[1]) * [1, np.sqrt(self.n_arms)]
        return float(treated / (control + treated))

    def draw(self) -> Figure:
        """Plot power against the number of rows."""
        matplotlib = import_optional("matplotlib.figure", extra="plot")
        figure: Figure = matplotlib.Figure(figsize=(7, 4.6), layout="constrained")
        axes = figure.subplots()
        sizes = [line.rows for line in self.lines if line.rows] or [self.n_rows or 10_000]
        rows = np.geomspace(min(sizes) / 12, 6 * max(sizes), 200).clip(20)
        for arm, own in zip(self.arms or ("",), self.assumed, strict=True):
            for what in own.statements:
                axes.plot(rows, [own.power(n, what) for n in rows], label=f"{arm} {what}".strip())
        axes.axhline(self.power, color="0.6", linewidth=0.8)
        if self.n_rows is not None:
            axes.axvline(self.n_rows, color="0.6", linewidth=0.8)
        axes.set(xscale="log", xlabel="rows of the trial", ylabel="power")
        axes.xaxis.set_major_formatter("{x:,.0f}")
        axes.legend(frameon=False)
        return figure


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
        Its trial gives the assumptions about each arm; other arguments replace them.
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
        Share of the rows in all arms together; .5 by default.
    n_arms : int, default 1
        Arms besides the control, of equal shares. Each is compared with the control at levels that
        hold together; rows are those of the whole trial.
    n_rows : int, optional
        A size to report power and width for; by default the required one.
    power, level, delta : float
        Wanted power, for each arm on its own; level of the two-sided interval; probability that a
        certificate fails.
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
    (0.008, 4206, 3548)
    """
    for value, name in ((power, "power"), (level, "level"), (delta, "delta")):
        check_level(value, name)
    check_whole(n_arms, "n_arms", 1)
    if n_rows is not None:
        n_rows = check_whole(n_rows, "n_rows", 4)
    if outcome_range is not None:
        outcome_range = check_range(outcome_range, "outcome_range")
    given = {
        "base_rate": base_rate, "effect": effect, "gain": gain, "base_gain": base_gain,
        "outcome_sd": outcome_sd, "effect_sd": effect_sd, "design_effect": design_effect,
        "cluster_size": cluster_size,
    }  # fmt: skip
    known: dict[str, Any] = {}
    for name, number in given.items():
        if number is not None:
            known[name] = float(check_column([number], name)[0])
            if name == "design_effect":
                known["effect_design"] = known[name]
            if name in _POSITIVE:
                check_positive(number, name, "Check the unit.")
            if abs(known[name]) > _LARGEST:  # floats cannot square it
                raise InputError(name, "at most 1e100 in size", repr(number), "Check the unit.")
    if explained is not None:
        if gain is not None or effect_sd is None or not 0 < explained <= 1:
            raise InputError(
                "explained", "above 0 and at most 1, for effects whose spread is given and whose "
                "gain is not", repr(explained),
                "It is a share of the effects' variance; 0.3 is a good score.",
            )  # fmt: skip
        known["gain"] = float(np.sqrt(explained) * effect_sd * GAIN_OF_SD)
    pilots: list[dict[str, Any]] = [{}]
    arms: tuple[str, ...] = ()
    outcome = Outcome(name="", kind=Kind.BINARY if outcome_sd is None else Kind.NUMBER)
    share = 0.5 if treated_share is None else treated_share
    check_level(share, "treated_share")
    if model is not None:
        pilots = [_of_model(model, own, "gain" in known) for own in model.evidence.arms]
        n_arms, outcome = len(model.arms), model.roles.outcome
        arms = model.arms if n_arms > 1 else ()
        if treated_share is None:  # as in its trial
            odds = sum(own["treated_share"] / (1 - own["treated_share"]) for own in pilots)
            share = odds / (1 + odds)
    if model is None or treated_share is not None:
        # The share among the rows of one arm and the control.
        known["treated_share"] = share / n_arms / (1 - share + share / n_arms)
    assumed, lines = [], []
    for arm, pilot in zip(arms or (None,), pilots, strict=True):
        values = pilot | known
        if lacking := {"base_rate", "effect", "gain"} - {*values}:
            raise InputError(
                min(lacking), "given, or a model", "neither",
                "A gain may be given as effect_sd and explained, 0.03 and 0.3 say.",
            )  # fmt: skip
        own = Assumed(
            **values, outcome_range=outcome_range, cross_fitted=cross_fitted,
            part=(1 - share) / (1 - values["treated_share"]), level=1 - (1 - level) / n_arms,
            delta=delta / n_arms,
        )  # fmt: skip
        if own.outcome_sd is None:
            for value, name in zip(own.means.tolist(), ("base_rate", "effect"), strict=True):
                if not 0 < value < 1:
                    raise InputError(
                        name, "such that means of 0/1 outcomes lie between 0 and 1",
                        f"a mean of {value:g}",
                        "Outcomes that are not 0/1 also need their standard deviation.",
                    )  # fmt: skip
            # The control may lose what the treated gain, but ranks end at 0 and 1.
            most = float(np.min(own.means * (1 - own.means)) / 2)
            largest = max(abs(own.base_gain), abs(own.base_gain + own.gain))
            if largest >= most:
                raise InputError(
                    "gain", f"below {most:.4g}, the most that such outcomes allow",
                    f"{largest:.4g}", "A gain is AUUC minus that of random targeting.",
                )  # fmt: skip
        assumed.append(own)
        for what in own.statements:
            needed = own.rows(power, what)
            size = n_rows or needed
            found = {"power": own.power(size, what), "width": own.width(size, what)} if size else {}
            lines.append(PlanLine(what=what, arm=arm, value=own.value(what), rows=needed, **found))
    return TrialPlan(
        assumed=tuple(assumed), lines=tuple(lines), power=power, outcome=outcome, n_arms=n_arms,
        treated_share=share, n_rows=n_rows, arms=arms,
    )  # fmt: skip


def past_rows(
    table: Any,
    *,
    outcome: str,
    treatment: str | None = None,
    control: Any = None,
    groups: str | None = None,
    score: str | None = None,
    model: UpliftModel | None = None,
) -> dict[str, Any]:
    """Estimate arguments of :func:`plan_trial` from a table of past rows.

    Returns ``base_rate`` and ``outcome_sd`` (None if 0/1); with scores also ``base_gain``; with
    ``groups`` the ``cluster_size`` and the ``design_effect``: the sum over clusters of (sum of t)^2
    over the sum over rows of t^2, where t is (y - mean) c less its mean, or y less its mean.

    Parameters
    ----------
    table : frame
    outcome, groups : columns of the outcome and of the household or shop.
    treatment, control : optional
        Column of the arm and label of the control, to use only its rows. By default all rows are
        used, as untreated.
    score : str, optional
        Column of scores.
    model : UpliftModel, optional
        Whose scores rank the rows instead, if the table has its columns and there is one arm.

    Examples
    --------
    >>> rows = pd.DataFrame({"visit": [1, 1, 0, 0, 1, 1, 0, 0], "home": [*"aabbccdd"]})
    >>> past_rows(rows, outcome="visit", groups="home")
    {'base_rate': 0.5, 'outcome_sd': None, 'cluster_size': 2.0, 'design_effect': 2.0}
    """
    table = table_of(table)
    check_names(table, filter(None, [outcome, groups, score]))
    if treatment is None:
        frame = table.dropna(subset=[outcome])
    else:
        trial = read_trial(
            table, treatment=treatment, outcome=outcome, control=control, groups=groups,
            drop_missing_outcomes=True,
        )  # fmt: skip
        frame = table.iloc[trial.place[trial.arm == 0]]
    y = check_outcome(outcome_numbers(frame[outcome]).to_numpy(), f"the outcome {outcome!r}")
    if (y == y[0]).all():
        raise InputError(
            f"the outcome {outcome!r}", "a column of different outcomes",
            f"{y[0]:g} in all {len(y)} rows", "Nothing can be planned from it.",
        )  # fmt: skip
    is_binary = outcome_kind(y) == BINARY
    if model is not None and model.roles.outcome.lower_is_better:
        y = is_binary - y
    found = {"base_rate": float(y.mean()), "outcome_sd": None if is_binary else float(y.std())}
    terms = y - y.mean()
    scores = None if score is None else check_column(frame[score], f"the score {score!r}")
    if model is not None and len(model.arms) == 1 and {*model.columns} <= {*frame}:
        scores = model.predict(frame)
    if scores is not None:
        terms *= (rankdata(scores) - 0.5) / len(y) - 0.5
        found["base_gain"] = float(terms.mean())
        terms -= terms.mean()
    if groups is not None:
        codes, names = pd.factorize(id_texts(frame[groups], f"the group {groups!r}"))
        sums = np.bincount(codes, terms)
        found["cluster_size"] = len(y) / len(names)
        found["design_effect"] = max(1.0, float(sums @ sums) / (float(terms @ terms) or 1.0))
    return found


def _of_model(model: UpliftModel, own: ArmEvidence, gain_known: bool) -> dict[str, Any]:
    """Assumptions for one arm from the trial of a model."""
    evidence, gain, outcome = model.evidence, own.gain, model.roles.outcome
    if evidence.failed_check or (gain.value <= 0 and not gain_known):
        raise InputError(
            "model", f"one that gained over random targeting in a sound trial, for {own.arm!r}",
            "a failed check" if evidence.failed_check else f"{gain.value:+.5f}",
            "Give the gain that you hope for, 0.005 say, or fit another model.",
        )  # fmt: skip
    n = np.array([arm.n_rows for arm in own.rows], dtype=np.float64)
    control, treated = (arm.mean for arm in own.rows)
    is_binary = outcome.kind == Kind.BINARY
    if outcome.lower_is_better:
        control, treated = is_binary - control, is_binary - treated
    found: dict[str, Any] = {
        "gain": gain.value,
        "base_rate": control,
        "effect": treated - control,
        "treated_share": float(n[1] / n.sum()),
        "outcome_sd": None,
    }
    if not is_binary:
        found["outcome_sd"] = float((own.effect.se or 0.0) / np.sqrt((1 / n).sum()))
    # The design effect of the gain, below, also has the variance that cross-fitting adds.
    found["effect_design"] = 1.0
    if own.n_groups is not None:
        found["cluster_size"] = float(n.sum()) / own.n_groups
        plain = Assumed(**found).variance(What.EFFECT)
        found["effect_design"] = float((own.effect.se or 0.0) ** 2 * n.sum() / plain)
    if gain.lower is not None and gain.upper is not None and gain.value > 0:
        # The variance includes clusters and how base rates vary with the score.
        folds = 1 if model.recipe.hold_out else 2
        error = (gain.upper - gain.lower) / (2 * ndtri(0.5 + evidence.level / 2))
        plain = folds * Assumed(**found).variance(What.GAIN)
        found["design_effect"] = float(error**2 * n.sum() / plain)
    return found
