"""How large must a trial be, so that it shows what a ranking gains? What is assumed, and the plan.

What is assumed comes from a user, from untreated rows of the past or from the evidence of a model;
power, rows and widths follow from it in :mod:`auucmax.campaign.power`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from auucmax._optional import import_optional
from auucmax._shown import Shown
from auucmax._validation import (
    check_column,
    check_groups,
    check_level,
    check_positive,
    check_range,
    check_whole,
)
from auucmax.campaign.power import (
    BY,
    GAIN_OF_SD,
    MOST_ROWS,
    Assumed,
    Statement,
    difference_statement,
    gain_statement,
    share_statement,
)
from auucmax.data.outcomes import BINARY, outcome_kind
from auucmax.metrics.ranking import rank_rows
from auucmax.model import ArmsModel, TrialModel

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_LARGEST = 1e50  # what is assumed of outcomes; squares of it can be computed with
LEAST_SHARE = 1e-4  #: of people, that a plan can be made for


@dataclass(frozen=True, repr=False)
class TrialPlan(Shown):
    """What trials of any size would show, if all is as assumed.

    ``statements``: that the ranking is better than random and, if they were asked for, better than
    another one, and that treating its top share is better than treating nobody. ``n_rows``: the
    size that was asked for, or None. ``notes``: where what is assumed comes from. ``n_arms``: with
    several, each is compared with the control, and rows are those of the whole trial. ``arms``:
    what is assumed of each, if they differ; ``assumed`` is then that of the first.
    """

    assumed: Assumed
    statements: tuple[Statement, ...]
    power: float
    level: float
    delta: float
    n_rows: int | None = None
    notes: tuple[str, ...] = ()
    n_arms: int = 1
    arms: Mapping[str, Assumed] = field(default_factory=dict)

    @property
    def rows(self) -> int | None:
        """Rows after which the interval of the gain is above 0 with the chosen power."""
        return self.statements[0].rows(self.power)

    @cached_property
    def best_share(self) -> float | None:
        """The treated share, of all arms together, with which the gain of each is known best.

        None where arms differ: each has another.
        """
        if self.arms:
            return None
        control, treated = np.sqrt(self.assumed.rarer.rank_variances)
        treated *= np.sqrt(self.n_arms)
        return float(treated / (control + treated))

    @property
    def treated_share(self) -> float:
        """Of the rows of the whole trial, in all arms together."""
        return 1 - self.statements[0].part * (1 - self.statements[0].assumed.treated_share)

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
            "arms": {label: asdict(own) for label, own in self.arms.items()},
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
    (0.008, 4206)
    >>> [(line["by"], line["rows"]) for line in plan.table()]
    [('interval', 4206), ('certificate', ...)]
    >>> round(plan.statements[0].power(10_000), 2)
    0.99
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
    statements = [gain_statement(assumed, *each)]
    if other_gain is not None:
        other_gain = _number(other_gain, "other_gain")
        _check_size(other_gain, "other_gain")
        statements.append(difference_statement(assumed, other_gain, agreement, *each))
    if share is not None:
        check_level(share, "share")
        if share < LEAST_SHARE:
            raise ValueError(
                f"share should be at least {LEAST_SHARE:g}, got {share:g}. Nothing can be planned "
                f"for fewer people."
            )
        statements.append(share_statement(assumed, share, *each))
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
    over the sum over rows of t^2. t is (y - mean) c less its mean, or without scores y less its
    mean, whose design effect is the larger one where scores differ within clusters.

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
        terms = terms * place - (terms * place).mean()
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
    found["notes"] = (
        f"The gain of {gain:.5f} is that of {rows['n_rows']:,} rows of the model's own trial, and "
        f"{_uncertain(low, high)}.",
    )
    return found


def _uncertain(low: float | None, high: float | None) -> str:
    """How sure a value is that a plan is made from, by its interval, in words that follow on."""
    if low is None or high is None:
        return "uncertain as such: it has no interval"
    if low > 0:
        return f"uncertain as such; plan with {low:.5f}, the lower end, to be safe"
    return (
        f"not told from 0 (interval {low:+.5f} to {high:+.5f}): there may be nothing to show, and "
        f"the rows planned from it may be far too few"
    )


def plan_arms(
    model: ArmsModel,
    *,
    budget: float | None = None,
    share: float | None = None,
    n_rows: int | None = None,
    power: float = 0.8,
    level: float = 0.95,
    delta: float = 0.05,
    outcome_range: tuple[float, float] | None = None,
    cross_fitted: bool = False,
) -> TrialPlan:
    """Plan a trial with the arms of a model, in the shares of its own trial.

    Of each arm: that its ranking is better than random, at 1 - (1 - level) / K and delta / K, so
    that what is said of all of them holds together. Of the policy at a ``budget`` per person, at
    the costs of the fit: that it is better than the best arm alone by its ranking, and than the
    best arm for random people, as many as the budget pays, at the nearest budget that the model's
    evidence tells. By default the budget is that of the model's certificate, if it has one.
    Other parameters as in :func:`plan_trial`.

    The variance of a difference of policies is that of the model's own rows, where it counts twice,
    for models of several folds are judged there; the policy of a model that is there before the
    trial is one.
    """
    facts = model.evidence
    if facts["failed_check"] is not None:
        raise ValueError(f"the model should be of a sound trial. {facts['failed_check']}")
    counts, control = facts["rows"], facts["control"]
    n_total, n_arms = sum(counts.values()), len(model.labels)
    more: dict[str, Any] = {
        "n_rows": n_rows, "power": power, "share": share, "outcome_range": outcome_range,
        "level": 1 - (1 - level) / n_arms, "delta": delta / n_arms, "cross_fitted": cross_fitted,
    }  # fmt: skip
    statements, arms, notes = list[Statement](), dict[str, Assumed](), list[str]()
    for label, own in model.models.items():
        if (gain := own.evidence["auuc"]["gain"]) <= 0:
            notes.append(
                f"{label}: its ranking gained nothing over a random order ({gain:+.5f}) in the "
                f"model's own trial, so that no number of rows is known to show that it does."
            )
            continue
        plan = plan_trial(**model_evidence(own), **more)
        part = (counts[label] + counts[control]) / n_total
        arms[label] = plan.assumed
        named = (replace(one, name=f"{label}: {one.name}", part=part) for one in plan.statements)
        statements += named
        notes += [f"{label}: {note}" for note in plan.notes]
    if not arms:
        raise ValueError(f"an arm should gain over a random order, got none. {' '.join(notes)}")
    found, told = _policy_statements(model, budget, arms, level, delta)
    notes += [*told, _ARMS.format(n_arms, more["level"], more["delta"])]
    folds = 2 if cross_fitted else 1
    statements += [replace(one, variance=folds * one.variance) for one in found]
    first = next(iter(arms.values()))
    return TrialPlan(
        first, tuple(statements), power, level, delta, n_rows, tuple(notes), n_arms, arms
    )


def _policy_statements(
    model: ArmsModel, budget: float | None, arms: Mapping[str, Assumed], level: float, delta: float
) -> tuple[list[Statement], list[str]]:
    """The policy against the best arm alone and for everybody, by rows that were judged once."""
    facts, (curve, *_) = model.evidence, model.evidence["curves"]
    if budget is None and facts["certificate"] is not None:
        budget = facts["certificate"]["budget"]
    if budget is None:
        return [], ["Pass a budget per person to plan for the policy against the best arm alone."]
    grid = np.array(curve["budget"], dtype=np.float64)
    if not 0 < check_positive(budget, "budget", "It is money per person.") <= grid[-1]:
        raise ValueError(
            f"budget should be at most {grid[-1]:g} per person, which the policy spends if money "
            f"is no object, got {budget:g}. Pass a smaller one."
        )
    found, notes, n_total = list[Statement](), list[str](), sum(facts["rows"].values())
    for kind, words in (("single", "alone by its ranking"), ("everybody", "for random people")):
        own = curve["differences"][kind]
        names = "difference", "standard_error", "lower", "upper"
        told = [
            one
            for one in zip(grid.tolist(), *(own[name] for name in names), strict=True)
            if one[0] > 0 and one[1] is not None and one[2]
        ]
        if not told:
            notes.append(f"The policy against {own['arm']} {words} was told at no budget.")
            continue
        at, value, error, low, high = min(told, key=lambda one: abs(one[0] - budget))
        name = f"the policy better than {own['arm']} {words}, at a budget of {at:g}"
        label = own["arm"] if own["arm"] in arms else next(iter(arms))
        part = (facts["rows"][label] + facts["rows"][facts["control"]]) / n_total
        # Of the rows of one arm and the control, as all else; judged by folds, it counted twice.
        variance = error**2 / 2 * n_total * part
        found.append(Statement(name, value, variance, None, arms[label], level, delta, part=part))
        nearest = "" if at == budget else f", the nearest to {budget:g} that the model tells,"
        notes.append(
            f"The policy gained {value:.5f} more than {own['arm']} {words} at a budget of {at:g}"
            f"{nearest} on {n_total:,} rows of the model's own trial (standard error {error:.5f}), "
            f"and this is {_uncertain(low, high)}."
        )
    return found, notes


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
