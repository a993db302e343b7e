"""Gain of an allocation of several arms at every budget, from row terms.

An allocation (:mod:`auucmax.metrics.allocation`) gives each person one of K arms or the control, at
every budget. The uplifts behind it come from models that were trained on other rows. M_ia(b) is the
share of arm a that row i gets at the budget b per person: 1 or 0, or a fraction if the budget ends
among steps of equal rate. With

    z_ia = [mu_a(x_i) - mu_0(x_i)] / n  +  1{got a} w_i r_i  -  1{got control} w_i r_i,

r_i = y_i - mu(x_i) of the arm that the row got, and w_i = 1 / (chance of that arm), scaled so that
the w of the rows of an arm add up to 1,

    gain(b) = sum over rows i and arms a of M_ia(b) z_ia.

Without an outcome model mu is the mean of all outcomes, for every arm, and the gain is a difference
of means; with one it is doubly robust. To first order the gain is a sum of row terms: those of z
around the means H of their arms and, because the cut is itself estimated, one for what the row
costs:

    psi_i(b) = sum over a of M_ia z_ia  -  (sign) w_i H  -  (plug-in mean) / n
               -  (slope of the gain at b) (cost of row i at b - b) / n.

For one arm at a cost of 1 these are the terms of :mod:`auucmax.metrics.curves`, where all rows
between two cuts have the same M and sums over them are enough; a person with several steps has
several M, so here the terms are formed for each row. Limits and bands are made by the same
:func:`auucmax.metrics.curves.band_of`.

*Random people* get the same arms in the same numbers: their gain is the sum over arms of the share
of people who get it times its average effect.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any

import numpy as np
import pandas as pd
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from auucmax._errors import InputError
from auucmax._validation import (
    Floats,
    check_column,
    check_groups,
    check_labels,
    check_level,
    check_outcome,
    listed,
)
from auucmax.metrics.allocation import (
    Allocation,
    check_chances,
    check_costs,
    check_uplifts,
)
from auucmax.metrics.curves import UpliftBand, band_of, fewest
from auucmax.metrics.inference import (
    AUUCDifference,
    ClusterUnits,
    student_test,
    support_of_rows,
)
from auucmax.metrics.intervals import Moments, Spread, ratio, small_sample
from auucmax.metrics.ranking import rarer_outcome

N_BUDGETS = 101  #: of a curve, at equal distances
#: An arm whose part in the gain cannot vary by more than this part of the standard error needs no
#: rows: if its rows show nothing of it, an interval of 95% holds in 94%.
SMALL_PART = 1 / 3


class AllocationRows:
    """Rows of a trial with K arms: assignment, and the value z of each arm.

    Parameters
    ----------
    y : (n,) outcomes. arm : (n,) 0 for the control, 1 to K.
    cost : (n, K) of giving each arm to each person.
    model : (n, K + 1) expected outcomes by arm, from other rows.
    chance : (n, K + 1) of getting the arms, if it was not the same for everybody.
    clusters : (n,) codes of rows that belong together.
    people : (n,) how many people a row stands for.

    Attributes
    ----------
    y : outcomes, less the outcome model's if there is one. people : with a mean of 1.
    value : (n, K) z. own : (n,) the row's outcome in it, w r. weight : (n,) w.
    support : what intervals can rest on. responds : (n,) rows with the rarer outcome, or not 0.
    units : clusters, or None. is_centred : whether terms vary around their mean in each arm.
    effects : (K,) the average effect of each arm.
    """

    def __init__(
        self,
        y: Floats,
        arm: NDArray[np.intp],
        cost: Floats,
        *,
        model: Floats | None = None,
        chance: Floats | None = None,
        clusters: NDArray[np.intp] | None = None,
        people: Floats | None = None,
    ) -> None:
        n, self.n_arms = cost.shape
        self.arm, self.cost = arm, cost
        self.responds = rarer_outcome(y)
        is_weighted = people is not None or chance is not None
        self.people = np.ones(n) if people is None else people / people.mean()
        weight = self.people if chance is None else self.people / chance[np.arange(n), arm]
        self.weight = weight / np.bincount(arm, weight, minlength=self.n_arms + 1)[arm]
        if model is None:
            # Outcomes are centred at their mean: the same target, less noise.
            value = np.zeros((n, self.n_arms))
            centre = float(np.average(y, weights=self.people))
        else:
            value = (model[:, 1:] - model[:, :1]) * (self.people[:, None] / n)
            y = y - model[np.arange(n), arm]
            centre = 0.0
        self.y = y
        self.own: Floats = self.weight * (y - centre)
        treated = np.flatnonzero(arm > 0)
        value[treated, arm[treated] - 1] += self.own[treated]
        value[arm == 0] -= self.own[arm == 0, None]
        self.value: Floats = value
        self.effects: Floats = value.sum(axis=0)
        self.units = None if clusters is None else ClusterUnits(arm, clusters)
        self.support = support_of_rows(
            y, arm, self.weight if is_weighted else None, self.units,
            None if model is None else self.responds,
            binary=bool(np.isin(y, (0.0, 1.0)).all()),
        )  # fmt: skip
        # Where chances differ the arms hold different people, for whom the model differs.
        self.is_centred = model is None or chance is None


class Gains:
    """Gains of an allocation and of random targeting at each budget, with row terms.

    Attributes
    ----------
    gain, random_gain : (J,). shares : (J, K) the part of the people who get each arm.
    """

    def __init__(self, rows: AllocationRows, allocation: Allocation, budget: Floats) -> None:
        self.rows, self.allocation, self.budget = rows, allocation, budget
        n, n_arms, size = len(rows.y), rows.n_arms, len(budget)
        most = float(allocation.most.max())
        # Slopes are over a window of some n^(-1/5) of the budgets.
        reach = min(0.1, 0.5 * n**-0.2) * most
        left, right = np.maximum(budget - reach, 0.0), np.minimum(budget + reach, most)
        points = np.concatenate([budget, left, right])
        curve, shares = np.zeros(3 * size), np.zeros((3 * size, n_arms))
        self._means = np.zeros((n_arms + 1, size))  # H
        self._squares = np.zeros(size)  # of what multiplies the outcomes of rows
        self._z = np.zeros((2, n_arms + 1, size))  # sums of z = (y or 1 - y) M, and of z^2
        self._behind = np.zeros((2, 2, n_arms, size))  # rows, responders; of arms, of the control
        is_rare = rows.y.mean() <= 0.5
        for people, part in allocation.parts(points, n_arms):
            curve += np.einsum("ik,ikj->j", rows.value[people], part)
            shares += np.einsum("i,ikj->jk", rows.people[people], part) / n
            part, arm = part[:, :, :size], rows.arm[people]
            whole = np.arange(n_arms + 1)[:, None] == arm  # (K + 1, people)
            mine = part.sum(axis=1)  # of the control rows all arms, of the others their own
            treated = np.flatnonzero(arm)
            mine[treated] = part[treated, arm[treated] - 1]
            self._means += (whole * rows.own[people]) @ mine
            self._squares += rows.weight[people] ** 2 @ mine**2
            z = rows.y[people] if is_rare else 1 - rows.y[people]
            self._z += np.stack([(whole * z) @ mine, (whole * z) @ mine**2])
            chosen = np.stack([np.ones(len(arm)), rows.responds[people]])
            for own, count in zip(self._behind, chosen, strict=True):
                own[0] += ((whole * count) @ mine)[1:]
                own[1] += np.einsum("i,ikj->kj", count * (arm == 0), part)
        self._sign = 1 if is_rare else -1
        self.gain, self.shares = curve[:size], shares[:size]
        random = shares @ rows.effects
        self.random_gain = random[:size]
        # A budget that pays for everything cuts nothing.
        inside = budget < most * (1 - 1e-12)
        self._slopes = [
            ratio(own[2 * size :] - own[size : 2 * size], (right - left) * inside)
            for own in (curve, random)
        ]

    def terms(self) -> Iterator[tuple[Floats, Floats]]:
        """Yield blocks of row terms (people, J): of the allocation, and of random targeting."""
        rows, n = self.rows, len(self.rows.y)
        own_means = np.bincount(rows.arm, rows.own)[:, None]
        random_means = own_means * np.vstack([self.shares.sum(axis=1), self.shares.T])
        for people, part in self.allocation.parts(self.budget, rows.n_arms):
            arm, value, unit = rows.arm[people], rows.value[people], rows.people[people, None]
            spent = np.minimum(self.budget, self.allocation.most[people, None])
            away = unit * (np.einsum("ik,ikj->ij", rows.cost[people], part) - spent) / n
            sign = (np.where(arm == 0, -1.0, 1.0) * rows.weight[people])[:, None]
            own = np.einsum("ik,ikj->ij", value, part)
            mixed = value @ self.shares.T
            for terms, means, gain in (
                (own, self._means, self.gain),
                (mixed, random_means, self.random_gain),
            ):
                # The last part is that of the outcome model: not a difference of means of arms.
                terms -= sign * means[arm] + unit * (gain - means[1:].sum(axis=0) + means[0]) / n
            mixed += unit * (np.einsum("k,ikj->ij", rows.effects, part) - self.random_gain) / n
            yield own - self._slopes[0] * away, mixed - self._slopes[1] * away

    def band(
        self,
        *,
        level: float = 0.95,
        cross_fitted: bool = False,
        random_state: int | Generator | None = 0,
    ) -> UpliftBand:
        """The gain curve with pointwise and simultaneous intervals.

        ``cross_fitted``: uplifts come from models of several folds, each trained on the rows of the
        others. The variance of the gain over random people then counts twice, for the reason given
        in :func:`auucmax.metrics.curves.allowing_for_folds`.
        """
        rows, support = self.rows, self.rows.support
        moments, covariance = self._moments(own for own, _ in self.terms())
        sizes = np.bincount(rows.arm).tolist()
        folds = None
        if cross_fitted:
            folds = covariance + self._moments(own - mixed for own, mixed in self.terms())[1]
        return band_of(
            self.budget,
            self.gain,
            covariance,
            moments,
            support,
            sums=[
                (sizes[k], self._z[:, k], self._sign if k else -self._sign)
                for k in (*range(1, rows.n_arms + 1), 0)
            ],
            counted=self.counted(np.sqrt(np.maximum(np.diag(covariance), 0))),
            nobody=self.shares.sum(axis=1) == 0,
            least=support.deviation[0] * np.sqrt(self._squares),
            level=level,
            random_state=random_state,
            folds=folds,
            shares=self.shares,
        )

    def difference(
        self, other: Gains | None = None, *, level: float = 0.95, cross_fitted: bool = False
    ) -> AUUCDifference:
        """Difference in gain from another allocation or random targeting, over all budgets.

        ``other`` has the same rows and budgets. ``cross_fitted`` as in :meth:`band`.
        """
        # The mean over all budgets, by trapezoids.
        widths = np.diff(self.budget)
        average = np.append(widths, 0.0) + np.append(0.0, widths)
        average /= max(float(average.sum()), 1e-300)
        pairs, both, gain = self.terms(), [self], self.random_gain
        if other is not None:
            pairs = (
                (own, theirs)
                for (own, _), (theirs, _) in zip(self.terms(), other.terms(), strict=True)
            )
            both, gain = [self, other], other.gain
        moments, _ = self._moments((own - theirs) @ average for own, theirs in pairs)
        spread = Spread.of(moments)
        if cross_fitted:
            spread = spread._replace(error=spread.error * np.sqrt(2))
        area, support = float(average @ (self.gain - gain)), self.rows.support
        declined, least = support.why_no_gain(), support.least_in_top
        if min(one.counted(spread.error, average)[0] for one in both) < least and not declined:
            declined = f"at no budget are there {least} {support.what_in_top}"
        return student_test(area, spread, level, support, declined, len(self.rows.y))

    def _moments(self, blocks: Iterable[Floats]) -> tuple[list[Moments], Floats]:
        """Moments of row (or cluster) terms by arm, control last; covariance (J, J).

        ``blocks`` hold the terms (people, J), or (people,), of consecutive rows.
        """
        rows, units = self.rows, self.rows.units
        sizes = np.bincount(rows.arm, minlength=rows.n_arms + 1)
        powers: list[Any] = [0.0] * len(sizes)
        second: list[Any] = [0.0] * len(sizes)
        totals: Any = 0.0
        start = 0
        for psi in blocks:
            people = slice(start, start + len(psi))
            start = people.stop
            if units is not None:
                totals += np.zeros((units.n_clusters, *psi.shape[1:]))
                np.add.at(totals, units.clusters[people], psi)
            for k in range(len(sizes)):
                some = psi[rows.arm[people] == k]
                second[k] += some.T @ some
                powers[k] += np.array([p.sum(axis=0) for p in accumulate([some] * 4, np.multiply)])
        means = [rows.is_centred * own[0] / n for own, n in zip(powers, sizes, strict=True)]
        if units is not None:
            totals -= units.sizes.T @ np.array(means)
            return units.moments(totals), units.covariance(totals)
        moments = []
        covariance: Any = 0.0
        for k in (*range(1, len(sizes)), 0):
            n = int(sizes[k])
            moments.append(Moments.of_powers(n, powers[k], means[k]))
            around = second[k] - n * np.outer(means[k], means[k])
            covariance = covariance + around * small_sample(n)
        return moments, covariance

    def counted(self, error: Floats, average: Floats | None = None) -> Floats:
        """Number of rows behind the limits, (J,), averaged over the arms given at each budget.

        ``average`` (J,): weights of a mean over the budgets, which rests on the rows of each arm
        where these are most.
        """
        behind, shares = self._behind, self.shares
        if average is not None:
            behind, shares = behind.max(axis=3, keepdims=True), average[None] @ shares
        rows, support = self.rows, self.rows.support
        sizes = np.bincount(rows.arm)
        # Clusters are counted as rows times the clusters per row of the arm.
        responders = np.maximum(np.bincount(rows.arm, rows.responds), 1)
        per_row = np.array([support.units / sizes, support.responders / responders])
        rate = np.stack([per_row[:, 1:], np.repeat(per_row[:, :1], rows.n_arms, axis=1)], axis=1)
        n, some = behind * rate[..., None]
        found = fewest(support, n, some, n - some)
        # The variance of an arm's part is at most its share / rows of the arm and of the control,
        # times the largest residual squared. Rows of unequal weights count as fewer.
        squares = np.bincount(rows.arm, rows.weight**2)
        residual = ratio(rows.own, rows.weight)
        largest = shares.T * (squares[1:, None] + squares[0]) * np.abs(residual).max() ** 2
        part = np.where(rows.n_arms * largest <= (SMALL_PART * error) ** 2, 0.0, largest)
        # Arms count by their parts in the variance, as in Welch's degrees of freedom.
        lost = np.where(part > 0, ratio(part, found, np.inf), 0.0).sum(axis=0)
        return np.asarray(ratio(part.sum(axis=0), lost, np.inf))


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
) -> UpliftBand:
    """Gain of an allocation of several arms at every budget, on new rows.

    It gives each person the arm, or the control, that estimated uplifts and costs choose
    (:func:`auucmax.targeting.choose`). In the result ``share`` is the budget and ``uplift`` the
    gain, both per person of the population; ``shares`` (J, K) are the people who get each arm.

    Parameters
    ----------
    y : (n,) outcome.
    uplift : (n, K) estimated uplift of each arm over the control, by models of other rows.
    treatment : (n,) labels of the arms that people got; ``control`` names the control.
    arms : labels in the order of the columns of ``uplift``; by default sorted.
    cost : cost of treating a person: a number, (K,), or (n, K).
    budget : (J,) money per person of all people; by default 101 from 0 to all that helps.
    outcome_model : (n, K + 1) expected outcome with the control and each arm, by models of other
        rows: less noise, the same target.
    propensity : (n, K + 1) probability of the control and of each arm, by design; by default the
        same for everybody.
    sample_weight : (n,) how many people of the population a row stands for. Standard errors take
        them as sampling weights, not copies.
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
    >>> found.uplift.round(3).tolist()
    [0.0, 0.026, 0.044]
    """
    check_level(level)
    outcome = check_outcome(y)
    n = len(outcome)
    gains = check_uplifts(uplift, n)
    n_arms = gains.shape[1]
    labels = check_labels(treatment, "treatment", n)
    given = pd.unique(labels).tolist()
    others = [label for label in given if label != control]
    named = sorted(others, key=lambda label: (str(type(label)), label)) if arms is None else [*arms]
    if control not in given or len(named) != n_arms or set(others) != set(named):
        raise InputError(
            "treatment", f"the control {control!r} and {n_arms} arms, one per column of uplift",
            listed(given), "Name the control, and arms=... in the order of the columns.",
        )  # fmt: skip
    arm = pd.Index([control, *named]).get_indexer(labels).astype(np.intp)
    model = chance = None
    if outcome_model is not None:
        model = check_uplifts(outcome_model, n, n_arms + 1, "outcome_model")
    if propensity is not None:
        chance = check_chances(propensity, n, n_arms)
    people = None if sample_weight is None else check_column(sample_weight, "sample_weight", n)
    if people is not None and (people.min() < 0 or not np.bincount(arm, people).all()):
        raise InputError(
            "sample_weight", "0 or more, and above 0 for some rows of each arm", "others",
            "Pass how many people each row stands for.",
        )  # fmt: skip
    costs = check_costs(cost, gains.shape)
    clusters = None if groups is None else check_groups(groups, n)
    # Rows of weight 0 must not count as rows.
    kept = np.arange(n) if people is None else np.flatnonzero(people)
    if clusters is not None:
        clusters = np.unique(clusters[kept], return_inverse=True)[1]
    model, chance, people = (None if own is None else own[kept] for own in (model, chance, people))
    rows = AllocationRows(
        outcome[kept], arm[kept], costs[kept], model=model, chance=chance, clusters=clusters,
        people=people,
    )  # fmt: skip
    allocation = Allocation.of(gains[kept], rows.cost, people=rows.people)
    grid = np.linspace(0, allocation.most.max(), N_BUDGETS)
    if budget is not None:
        grid = check_column(np.atleast_1d(budget), "budget")
        if grid.min() < 0 or (np.diff(grid) <= 0).any():
            raise InputError("budget", "amounts of 0 or more that increase", repr(budget), "Sort.")
    return Gains(rows, allocation, grid).band(level=level, random_state=random_state)
