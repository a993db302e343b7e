"""What a policy of several arms gains at every budget, and how sure that is.

A *policy* gives each person one of K arms or the control, for every budget: steps along people's
hulls of (cost, uplift), from the highest rate down (``arm_steps.py``). The uplifts come from a
model; the rows that judge it must be new to it. M_ia(b) is the part of arm a that row i gets at the
budget b per person: 1 or 0, and a fraction where steps of one rate are cut. With

    z_ia = [mu_a(x_i) - mu_0(x_i)] / n  +  1{got a} w_i r_i  -  1{got control} w_i r_i,

r_i = y_i - mu(x_i) of the arm that the row got, and w_i = 1 / (chance of that arm), such that the
w of an arm's rows add up to 1,

    gain(b) = sum over rows i and arms a of M_ia(b) z_ia.

Without an outcome model mu is the mean of all outcomes, for every arm, and the gain is a difference
of means; with one it is doubly robust: right if the propensities are, which in a trial they are,
and less noisy the better mu is. To first order it is a sum of row terms, those of z around the
means H of their arms and, because the cut is itself estimated, one for what the row costs:

    psi_i(b) = sum over a of M_ia z_ia  -  (sign) w_i H  -  (plug-in mean) / n
               -  (slope of the gain at b) (cost of row i at b - b) / n.

*Random people* get the same arms in the same numbers: their gain is the sum over arms of the share
of people who get it times its average effect, and what the policy gains beyond is what it knows of
people. For one arm at one cost all this is the uplift curve and AUUC's gain over random.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
import pandas as pd
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from auucmax._shown import Shown
from auucmax._validation import (
    Bools,
    Floats,
    check_column,
    check_groups,
    check_labels,
    check_level,
    check_outcome,
    listed,
)
from auucmax.metrics.arm_policy import Policy
from auucmax.metrics.arm_steps import check_costs, check_uplifts
from auucmax.metrics.curves import largest_draws
from auucmax.metrics.inference import interval_words, p_value_of
from auucmax.metrics.intervals import student

N_BUDGETS = 101  #: of a curve, at equal distances
#: An interval needs so many rows with the rarer outcome (other outcomes than 0/1: with one that is
#: not 0), at their own rates, of each arm and of the control, among those who get the arm; but for
#: arms whose parts cannot vary by more than a third of the standard error: if the rows show nothing
#: of it, an interval of 95% holds in 94%.
FEW, FEW_SKEWED, SMALL_PART = 10, 50, 1 / 3


@dataclass(frozen=True, eq=False)
class ArmRows:
    """Checked rows of a trial with K arms: what happened to whom, and what each arm is worth.

    Attributes
    ----------
    y : (n,) outcomes. arm : (n,) 0 for the control, 1 to K.
    value : (n, K) z. own : (n,) the row's outcome in it, w r. weight : (n,) w.
    cost : (n, K) of giving each arm to each person.
    people : (n,) how many people a row stands for, with a mean of 1.
    clusters : (n,) numbers of households or shops, or None.
    by_chance : whether chances of the arms differ, so that rows of an arm are no sample of people.
    """

    y: Floats
    arm: NDArray[np.intp]
    value: Floats
    own: Floats
    weight: Floats
    cost: Floats
    people: Floats
    clusters: NDArray[np.intp] | None = None
    by_chance: bool = False

    @classmethod
    def of(
        cls,
        y: Floats,
        arm: NDArray[np.intp],
        cost: Floats,
        *,
        model: Floats | None = None,
        chance: Floats | None = None,
        clusters: NDArray[np.intp] | None = None,
        people: Floats | None = None,
    ) -> Self:
        """``model`` (n, K + 1): expected outcomes with the control and each arm, from other rows;
        ``chance`` (n, K + 1) of getting them, if it was not the same for everybody."""
        n, n_arms = cost.shape
        rows = np.arange(n)
        people = np.ones(n) if people is None else people / people.mean()
        weight = people if chance is None else people / chance[rows, arm]
        weight = weight / np.bincount(arm, weight, minlength=n_arms + 1)[arm]
        # Without a model outcomes are centred at their mean: the same target, less noise.
        own = weight * (y - (np.average(y, weights=people) if model is None else model[rows, arm]))
        value = np.zeros((n, n_arms))
        if model is not None:
            value = (model[:, 1:] - model[:, :1]) * (people[:, None] / n)
        treated = np.flatnonzero(arm > 0)
        value[treated, arm[treated] - 1] += own[treated]
        value[arm == 0] -= own[arm == 0, None]
        by_chance = chance is not None
        return cls(y, arm, value, own, weight, np.asarray(cost), people, clusters, by_chance)

    @property
    def n_arms(self) -> int:
        return self.value.shape[1]

    @cached_property
    def effects(self) -> Floats:
        """(K,) average effect of each arm on all people."""
        return self.value.sum(axis=0)

    @cached_property
    def is_binary(self) -> bool:
        return bool(np.isin(self.y, (0.0, 1.0)).all())


@dataclass(frozen=True, repr=False)
class BudgetCurve(Shown):
    """Gain per person of a policy at each budget, with intervals.

    Attributes
    ----------
    budget : (J,) money per person of the population.
    gain : (J,) outcome per person gained over treating nobody; standard_error : (J,).
    lower, upper : (J,) ends of intervals that hold at one budget; simultaneous_lower,
        simultaneous_upper : at all budgets at once. Not numbers where too few rows stand behind
        them; ``declined`` then says why.
    shares : (J, K) the part of the people who get each arm.
    covariance : (J, J) of the gains. level : of the intervals. n_rows : behind them.
    """

    budget: Floats
    gain: Floats
    standard_error: Floats
    lower: Floats
    upper: Floats
    simultaneous_lower: Floats
    simultaneous_upper: Floats
    shares: Floats
    covariance: Floats
    level: float
    n_rows: int
    declined: str | None = None

    def __str__(self) -> str:
        most = int(np.argmax(self.gain))
        sides = self.simultaneous_lower[most], self.simultaneous_upper[most]
        ends = interval_words(sides, self.level, self.declined)
        return (
            f"gains at {len(self.budget)} budgets, most at {self.budget[most]:.4g} a person: "
            f"{self.gain[most]:+.5f} ({ends}, all budgets at once), {self.n_rows:,} rows"
        )


@dataclass(frozen=True, repr=False)
class PolicyDifference(Shown):
    """Gain of one policy minus that of another at each budget, and averaged over the budgets.

    ``difference``, ``standard_error``, ``lower`` and ``upper`` are (J,); ``area`` is the mean
    difference over all budgets, with its own error, interval and p value. Each interval holds by
    itself. ``declined``: why there is none, or None.
    """

    budget: Floats
    difference: Floats
    standard_error: Floats
    lower: Floats
    upper: Floats
    area: float
    area_standard_error: float
    area_interval: tuple[float, float]
    p_value: float
    level: float
    n_rows: int
    declined: str | None = None

    def __str__(self) -> str:
        ends = interval_words(self.area_interval, self.level, self.declined)
        p_value = f", p = {self.p_value:.2g}" if self.declined is None else ""
        return (
            f"{self.area:+.5f} per person on average over all budgets ({ends}{p_value}), "
            f"{self.n_rows:,} rows"
        )


class PolicyTerms:
    """The gains of a policy at each budget, those of random people, and the row terms of both.

    Attributes
    ----------
    gain, random_gain : (J,). shares : (J, K) the part of the people who get each arm.
    counts : (2, K, J) rows of the arm, and of the control, among those who get the arm.
    """

    def __init__(self, rows: ArmRows, policy: Policy, budget: Floats) -> None:
        self.rows, self.policy, self.budget = rows, policy, budget
        n_arms = rows.n_arms
        self.gain, self.shares = np.zeros(len(budget)), np.zeros((n_arms, len(budget)))
        self.counts = np.zeros((2, n_arms, len(budget)))
        self._means = np.zeros((n_arms + 1, len(budget)))  # H
        for people, part in policy.parts(budget, n_arms):
            arm = rows.arm[people]
            self.gain += np.einsum("ik,ikj->j", rows.value[people], part)
            self.shares += np.einsum("i,ikj->kj", rows.people[people], part) / policy.n_people
            counted = rows.people[people] > 0
            self.counts[1] += part[(arm == 0) & counted].sum(axis=0)
            self._means[0] += rows.own[people][arm == 0] @ part[arm == 0].sum(axis=1)
            for k in range(n_arms):
                got = part[arm == k + 1, k]
                self.counts[0, k] += part[(arm == k + 1) & counted, k].sum(axis=0)
                self._means[k + 1] += rows.own[people][arm == k + 1] @ got
        self.shares = self.shares.T
        self.random_gain = self.shares @ rows.effects
        self._slopes = [self._slope(curve) for curve in (self.gain, self.random_gain)]

    def _slope(self, curve: Floats) -> Floats:
        """Gain for the money at the cut, (J,), over a window of some n^(-1/5) of the budgets."""
        budget, most = self.budget, self.policy.most
        reach = min(0.1, 0.5 * self.policy.n_people**-0.2) * most
        left, right = np.maximum(budget - reach, 0.0), np.minimum(budget + reach, most)
        rise = np.interp(right, budget, curve) - np.interp(left, budget, curve)
        # A budget that pays for everything cuts nothing.
        inside = (right > left) & (budget < most * (1 - 1e-12))
        return np.divide(rise, right - left, out=np.zeros(len(budget)), where=inside)

    def blocks(self) -> Iterator[tuple[slice, Floats, Floats]]:
        """People, and their terms (people, J): of the policy, and of random people."""
        rows, n = self.rows, self.policy.n_people
        # Of both gains, what is not a difference of the arms' own means: the outcome model's part.
        plug_in = (self.gain - self._means[1:].sum(axis=0) + self._means[0]) / n
        own_means = np.array([rows.own[rows.arm == k].sum() for k in range(rows.n_arms + 1)])
        random_means = np.vstack([own_means[0] * self.shares.sum(axis=1),
                                  own_means[1:, None] * self.shares.T])  # fmt: skip
        random_plug_in = (self.random_gain - random_means[1:].sum(0) + random_means[0]) / n
        for people, part in self.policy.parts(self.budget, rows.n_arms):
            arm, value, unit = rows.arm[people], rows.value[people], rows.people[people, None]
            spent = self.policy.spent(self.budget, people)
            away = unit * (np.einsum("ik,ikj->ij", rows.cost[people], part) - spent) / n
            sign = (np.where(arm == 0, -1.0, 1.0) * rows.weight[people])[:, None]
            own = np.einsum("ik,ikj->ij", value, part) - sign * self._means[arm] - unit * plug_in
            mixed = value @ self.shares.T - sign * random_means[arm] - unit * random_plug_in
            moved = unit * (np.einsum("k,ikj->ij", rows.effects, part) - self.random_gain)
            yield (
                people,
                own - self._slopes[0] * away,
                mixed + moved / n - self._slopes[1] * away,
            )

    def _enough(self, counts: Floats, shares: Floats, error: Floats) -> Bools:
        """(J,) whether rows (2, K, J) are enough behind shares (J, K) of people for intervals."""
        y, arm, binary = self.rows.y, self.rows.arm, self.rows.is_binary
        sizes = np.bincount(arm, minlength=self.rows.n_arms + 1)
        rates = np.bincount(arm, y != 0, minlength=len(sizes)) / sizes
        if binary:
            rates = np.minimum(rates, 1 - rates)
        behind = np.minimum(counts[0] * rates[1:, None], counts[1] * rates[0])
        # The variance of an arm's part is at most its share / rows of the arm and of the control,
        # times the largest residual squared; how much of it there is, few rows cannot show.
        # Rows of unequal weights count as fewer.
        per_row = np.bincount(arm, self.rows.weight**2, minlength=len(sizes))
        residual = np.divide(self.rows.own, self.rows.weight, where=self.rows.weight > 0,
                             out=np.zeros(len(y)))  # fmt: skip
        most = shares.T * (per_row[1:, None] + per_row[0]) * np.abs(residual).max() ** 2
        small = (SMALL_PART * error) ** 2
        return np.asarray(np.where(behind < self._least, most, 0.0).sum(axis=0) <= small)

    @property
    def _least(self) -> int:
        return FEW if self.rows.is_binary else FEW_SKEWED

    @property
    def _too_few(self) -> str:
        what = "the rarer outcome" if self.rows.is_binary else "an outcome other than 0"
        return f"fewer than {self._least} rows of an arm with {what} stand behind it"

    def unsupported_mean(self, error: float) -> str | None:
        """Why there is no interval of a mean over all budgets; None if there is.

        The rows behind an arm are those at the budget where they are most.
        """
        shares = _mean_over(self.budget) @ self.shares
        counts = self.counts.max(axis=2)[:, :, None]
        enough = self._enough(counts, shares[None, :], np.array([error]))
        return None if enough.all() else f"at every budget {self._too_few}"

    def supported(self, error: Floats) -> tuple[Bools, str | None]:
        """Where there are rows enough for an interval, (J,), and why not elsewhere.

        ``error`` (J,): the standard errors that the intervals are made of.
        """
        enough = self._enough(self.counts, self.shares, error)
        if enough.all():
            return enough, None
        told, untold = self.budget[enough & (self.budget > 0)], self.budget[~enough]
        if len(told) == 0:
            where = "at every budget"
        elif told[0] > untold[-1]:
            where = f"below {told[0]:.3g} per person"
        else:  # an arm that begins, or ends, at a middle budget
            where = f"at some budgets of {untold[0]:.3g} to {untold[-1]:.3g} per person"
        return enough, f"{where} {self._too_few}"


class _Spread(NamedTuple):
    """Covariance (J, J) of gains at the budgets, and degrees of freedom (J,) of the variances."""

    covariance: Floats
    degrees: Floats


def _spread(rows: ArmRows, blocks: Iterator[tuple[slice, Floats]]) -> _Spread:
    """From row terms. Rows of an arm are alike: terms are centred in it, or totals of clusters.

    Where chances differ, an arm has other people than another, and terms are centred as they are.
    """
    n_arms = rows.n_arms + 1
    if rows.clusters is not None:
        return _clustered_spread(rows, blocks)
    first: Floats | None = None
    for people, psi in blocks:
        if first is None:
            first = np.zeros((n_arms, psi.shape[1]))
            second = np.zeros((n_arms, psi.shape[1], psi.shape[1]))
        for k in range(n_arms):
            some = psi[rows.arm[people] == k]
            first[k] += some.sum(axis=0)
            second[k] += some.T @ some
    assert first is not None
    sizes = np.bincount(rows.arm, minlength=n_arms)
    covariance, loss = np.zeros(second.shape[1:]), np.zeros(second.shape[1])
    for size, total, square in zip(sizes.tolist(), first, second, strict=True):
        centred = square if rows.by_chance else square - np.outer(total, total) / size
        own = centred * size / max(size - 1, 1)
        covariance += own
        loss += np.diag(own) ** 2 / max(size - 1, 1)
    variance = np.diag(covariance)
    degrees = np.divide(variance**2, loss, out=np.full(len(loss), 1e9), where=loss > 0)
    return _Spread(covariance, np.clip(degrees, 1.0, 1e9))


def _clustered_spread(rows: ArmRows, blocks: Iterator[tuple[slice, Floats]]) -> _Spread:
    clusters = rows.clusters
    assert clusters is not None
    totals: Floats | None = None
    for people, psi in blocks:
        if totals is None:
            totals = np.zeros((int(clusters.max()) + 1, psi.shape[1]))
        np.add.at(totals, clusters[people], psi)
    assert totals is not None
    covariance = totals.T @ totals * (len(totals) / max(len(totals) - 1, 1))
    fewest = min(len(np.unique(clusters[rows.arm == k])) for k in range(rows.n_arms + 1))
    return _Spread(covariance, np.full(totals.shape[1], max(fewest - 1.0, 1.0)))


def curve_of(
    terms: PolicyTerms,
    *,
    level: float = 0.95,
    cross_fitted: bool = False,
    random_state: int | Generator | None = 0,
) -> BudgetCurve:
    """The gains of a policy with their intervals.

    ``cross_fitted``: uplifts come from models of several folds, each of which learnt from the rows
    of the others. The variance of what the policy gains over random people then counts twice, for
    the reason that :func:`auucmax.metrics.curves.allowing_for_folds` gives.
    """
    rows = terms.rows
    spread = _spread(rows, ((people, own) for people, own, _ in terms.blocks()))
    covariance = spread.covariance
    if cross_fitted:
        beyond = ((people, own - mixed) for people, own, mixed in terms.blocks())
        covariance = covariance + _spread(rows, beyond).covariance
    error = np.sqrt(np.maximum(np.diag(covariance), 0))
    enough, declined = terms.supported(error)
    one = float(ndtri(0.5 + level / 2))
    largest, vary = one, enough & (error > 1e-9 * error.max(initial=0.0))
    if vary.any():
        draws = largest_draws(covariance[np.ix_(vary, vary)], error[vary], random_state)
        largest = max(one, float(np.quantile(draws, level)))
    alone, together = (
        np.where(enough, student(multiple, spread.degrees) * error, np.nan)
        for multiple in (one, largest)
    )
    return BudgetCurve(
        budget=terms.budget,
        gain=terms.gain,
        standard_error=error,
        lower=terms.gain - alone,
        upper=terms.gain + alone,
        simultaneous_lower=terms.gain - together,
        simultaneous_upper=terms.gain + together,
        shares=terms.shares,
        covariance=covariance,
        level=level,
        n_rows=len(rows.y),
        declined=declined,
    )


def difference_of(
    terms: PolicyTerms,
    other: PolicyTerms | None = None,
    *,
    level: float = 0.95,
    cross_fitted: bool = False,
) -> PolicyDifference:
    """Gains of one policy minus those of another on the same rows, or minus those of random people.

    ``cross_fitted`` as in :func:`curve_of`: the variance counts twice.
    """
    rows = terms.rows
    if other is None:
        beyond = terms.gain - terms.random_gain
        blocks = ((people, own - mixed) for people, own, mixed in terms.blocks())
    else:
        beyond = terms.gain - other.gain
        blocks = (
            (people, own - theirs)
            for (people, own, _), (_, theirs, _) in zip(terms.blocks(), other.blocks(), strict=True)
        )
    spread = _spread(rows, blocks)
    covariance = spread.covariance * (2.0 if cross_fitted else 1.0)
    error = np.sqrt(np.maximum(np.diag(covariance), 0))
    both = [one for one in (terms, other) if one is not None]
    enough = np.logical_and.reduce([one.supported(error)[0] for one in both])
    spread = spread._replace(covariance=covariance)
    return _difference(both, beyond, spread, enough, level)


def _difference(
    both: Sequence[PolicyTerms], beyond: Floats, spread: _Spread, enough: Bools, level: float
) -> PolicyDifference:
    budget, (covariance, degrees) = both[0].budget, spread
    multiple = float(ndtri(0.5 + level / 2))
    error = np.sqrt(np.maximum(np.diag(covariance), 0))
    half = np.where(enough, student(multiple, degrees) * error, np.nan)
    weights = _mean_over(budget)
    area = float(weights @ beyond)
    of_area = float(np.sqrt(max(float(weights @ covariance @ weights), 0.0)))
    # The fewest of all budgets: where both policies treat everybody alike, there is no variance.
    some = error > 1e-9 * error.max(initial=0.0)
    fewest = float(degrees[some].min(initial=1e9))
    reach = float(student(multiple, fewest)) * of_area
    reasons = [one.unsupported_mean(of_area) for one in both]
    declined = next((why for why in reasons if why is not None), None)
    none = declined is not None
    return PolicyDifference(
        budget=budget,
        difference=beyond,
        standard_error=error,
        lower=beyond - half,
        upper=beyond + half,
        area=area,
        area_standard_error=of_area,
        area_interval=(np.nan, np.nan) if none else (area - reach, area + reach),
        p_value=np.nan if none else p_value_of(area, of_area, fewest),
        level=level,
        n_rows=len(both[0].rows.y),
        declined=declined,
    )


def _mean_over(budget: Floats) -> Floats:
    """(J,) weights whose sum with values at the budgets is their mean over all budgets."""
    widths = np.diff(budget)
    weights = np.zeros(len(budget))
    weights[:-1] += widths / 2
    weights[1:] += widths / 2
    return weights / max(float(widths.sum()), 1e-300)


def budget_curve(
    y: ArrayLike,
    uplift: ArrayLike,
    *,
    treatment: ArrayLike,
    control: Any = 0,
    arms: Sequence[Any] | None = None,
    cost: float | ArrayLike = 1.0,
    budget: ArrayLike | None = None,
    outcome_model: ArrayLike | None = None,
    propensity: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    level: float = 0.95,
    random_state: int | Generator | None = 0,
) -> BudgetCurve:
    """What a policy of several arms gains at every budget, on rows that are new to it.

    The policy gives each person the arm, or the control, that estimated uplifts and costs choose
    (:func:`auucmax.targeting.choose_arms`).

    Parameters
    ----------
    y : (n,) outcome.
    uplift : (n, K) estimated uplift of each arm over the control, by models of other rows.
    treatment : (n,) labels of the arms that people got; ``control`` names the control.
    arms : labels in the order of the columns of ``uplift``; None: sorted.
    cost : of a person treated: a number, (K,), or (n, K).
    budget : (J,) money per person of all people; None: 101 from 0 to all that helps.
    outcome_model : (n, K + 1) expected outcome with the control and each arm, by models of other
        rows: less noise, the same target.
    propensity : (n, K + 1) chance of the control and of each arm, by design; None: the same for
        everybody.
    sample_weight : (n,) how many people of the population a row stands for; budgets and gains are
        per person of the population. Standard errors take them as sampling weights, not copies.
    groups : (n,) households or shops, if rows are not independent.

    Examples
    --------
    >>> from auucmax import load_hillstrom
    >>> from auucmax.estimators import TwoModels
    >>> train, test = load_hillstrom(arm="all").split(test_size=0.5, random_state=0)
    >>> def uplift_of(arm):
    ...     own = np.isin(train.treatment, [arm, "No E-Mail"])
    ...     model = TwoModels(control="No E-Mail")
    ...     model.fit(train.X[own], train.y[own], treatment=train.treatment[own])
    ...     return model.predict(test.X)
    >>> uplift = np.column_stack([uplift_of("Mens E-Mail"), uplift_of("Womens E-Mail")])
    >>> found = budget_curve(
    ...     test.y, uplift, treatment=test.treatment, control="No E-Mail",
    ...     cost=[0.1, 0.12], budget=[0.0, 0.03, 0.06],
    ... )
    >>> found.gain.round(3).tolist()
    [0.0, 0.026, 0.044]
    """
    terms = _checked(
        y, uplift, treatment, control, arms, cost, outcome_model, propensity, sample_weight, groups
    ).terms(None if budget is None else _check_budgets(budget))
    check_level(level)
    return curve_of(terms, level=level, random_state=random_state)


def policy_difference(
    y: ArrayLike,
    uplift: ArrayLike,
    other: ArrayLike | None = None,
    *,
    treatment: ArrayLike,
    control: Any = 0,
    arms: Sequence[Any] | None = None,
    cost: float | ArrayLike = 1.0,
    budget: ArrayLike | None = None,
    outcome_model: ArrayLike | None = None,
    propensity: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    level: float = 0.95,
) -> PolicyDifference:
    """The gain of one policy minus that of another at every budget, and the area between them.

    ``other`` (n, K): uplifts that the other policy goes by; None: random people get the same arms
    in the same numbers. Parameters as in :func:`budget_curve`; the budgets are those of the first.
    """
    rows = _checked(
        y, uplift, treatment, control, arms, cost, outcome_model, propensity, sample_weight, groups
    )
    check_level(level)
    terms = rows.terms(None if budget is None else _check_budgets(budget))
    theirs = None
    if other is not None:
        trial = rows.rows
        policy = Policy.of(_check_uplift(other, len(trial.y)), trial.cost, people=trial.people)
        theirs = PolicyTerms(rows.rows, policy, terms.budget)
    return difference_of(terms, theirs, level=level)


class _Judged(NamedTuple):
    rows: ArmRows
    policy: Policy

    def terms(self, budget: Floats | None) -> PolicyTerms:
        if budget is None:
            budget = np.linspace(0, self.policy.most, N_BUDGETS)
        return PolicyTerms(self.rows, self.policy, budget)


def _checked(
    y: ArrayLike,
    uplift: ArrayLike,
    treatment: ArrayLike,
    control: Any,
    arms: Sequence[Any] | None,
    cost: Any,
    outcome_model: ArrayLike | None,
    propensity: ArrayLike | None,
    sample_weight: ArrayLike | None,
    groups: ArrayLike | None,
) -> _Judged:
    outcome = check_outcome(y)
    n = len(outcome)
    gains = _check_uplift(uplift, n)
    n_arms = gains.shape[1]
    code = arm_codes(treatment, control, n, arms=arms, n_arms=n_arms)
    costs = check_costs(cost, gains.shape)
    model = (
        None if outcome_model is None else _check_table(outcome_model, "outcome_model", n, n_arms)
    )
    chance = None if propensity is None else _check_table(propensity, "propensity", n, n_arms)
    if chance is not None and (chance.min() <= 0 or np.abs(chance.sum(axis=1) - 1).max() > 1e-6):
        raise ValueError(
            f"propensity should be above 0 and add up to 1 in each row, got values from "
            f"{chance.min():g} and sums of {chance.sum(axis=1).min():g} to "
            f"{chance.sum(axis=1).max():g}. Pass the chances of the control and of each arm."
        )
    clusters = None if groups is None else check_groups(groups, n)
    people = None if sample_weight is None else _check_people(sample_weight, code, n_arms)
    rows = ArmRows.of(
        outcome, code, costs, model=model, chance=chance, clusters=clusters, people=people
    )
    return _Judged(rows, Policy.of(gains, costs, people=rows.people))


def _check_people(weight: ArrayLike, arm: NDArray[np.intp], n_arms: int) -> Floats:
    people = check_column(weight, "sample_weight", len(arm))
    if people.min() < 0 or not np.bincount(arm, people, minlength=n_arms + 1).all():
        raise ValueError(
            "sample_weight should not be negative, and above 0 for some rows of each arm, got "
            "others. Pass how many people each row stands for."
        )
    return people


def _check_uplift(uplift: ArrayLike, n_rows: int) -> Floats:
    gains = check_uplifts(uplift)
    if len(gains) != n_rows:
        raise ValueError(
            f"uplift should have as many rows as y, {n_rows}; got {len(gains)}. Pass columns of "
            f"the same rows."
        )
    return gains


def _check_table(values: ArrayLike, name: str, n_rows: int, n_arms: int) -> Floats:
    table = np.asarray(values, dtype=np.float64)
    if table.shape != (n_rows, n_arms + 1) or not np.isfinite(table).all():
        raise ValueError(
            f"{name} should be finite numbers, a row for each of {n_rows} people and a column for "
            f"the control and each of {n_arms} arms, got an array of shape {table.shape}."
        )
    return table


def _check_budgets(budget: ArrayLike) -> Floats:
    grid = np.atleast_1d(check_column(np.atleast_1d(np.asarray(budget)), "budget"))
    if grid.min() < 0 or (np.diff(grid) <= 0).any():
        raise ValueError(
            f"budget should hold amounts per person, 0 or more, that increase, got {budget!r}. "
            f"Sort them."
        )
    return grid


def arm_codes(
    treatment: ArrayLike, control: Any, n_rows: int, *, arms: Sequence[Any] | None, n_arms: int
) -> NDArray[np.intp]:
    """(n,) 0 for the control, 1 to K for the arms in their order."""
    labels = check_labels(treatment, "treatment", n_rows)
    found = pd.unique(labels).tolist()
    others = [label for label in found if label != control]
    named = sorted(others, key=lambda label: (str(type(label)), label)) if arms is None else [*arms]
    if control not in found or len(named) != n_arms or not set(others) <= set(named):
        raise ValueError(
            f"treatment should hold the control {control!r} and {n_arms} arms, one for each column "
            f"of uplift, got {listed(found)}. Name the control, and arms=... in the order of the "
            f"columns."
        )
    place = {control: 0} | {label: k for k, label in enumerate(named, start=1)}
    codes, values = pd.factorize(labels)
    return np.array([place[value] for value in values], dtype=np.intp)[codes]
