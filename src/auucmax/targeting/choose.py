"""Who gets which arm: a share of the people, a budget, or all whose gain is worth its cost.

Each person gets at most one arm. The steps of all people along their hulls of (cost, uplift)
(:mod:`auucmax.metrics.allocation`) are taken from the highest rate down. This is the optimum of the
fractional knapsack, except for the last step, which is left out if the money pays only a part.

With limits of the arms (at most, or at least, so many people) the optimum is that of a linear
program. Its dual has a price for money and for a place in each arm, at most 2 K + 1 numbers: at the
right prices everybody takes the arm that is best after paying for it. The prices minimise a convex
function, the value of all money and places plus what people have left, by cutting planes; the
answers of the people at a few hundred prices, mixed, are the optimum. With many people the prices
come from a random part of them first. Then only people who are close to indifferent at these prices
are solved for; if nobody else prefers another arm at the final prices, it is the optimum for all.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from auucmax._errors import InputError
from auucmax._validation import Bools, Floats, check_column, check_shares
from auucmax.metrics.allocation import (
    Steps,
    arm_steps,
    check_costs,
    check_uplifts,
    score_steps,
)

Indices = NDArray[np.intp]
_MOST_MONEY = 1e50  # for any person or outcome, whatever the currency
_ROUNDING = 1 + 1e-9  # sums of costs are rounded: thirty times 0.1 is not 3
_PROGRAM_PEOPLE = 20_000  # so many are solved for at once
_MANY = 2**18  # people whose steps are made together; of more, only steps near the cut are sorted
_MARGIN = 0.05  # of the budget, by which a sample of people may miss what all would spend
_PART = 16  # one in so many of more people gives the prices to start with
_MOST_PLANES = 2_000  # far more than are ever needed


@dataclass(frozen=True, eq=False)
class Choice:
    """Who gets which arm.

    Attributes
    ----------
    arm : (n,) the column of the arm that each person gets, -1 for the control.
    counts : (K,) people per arm.
    cost, uplift : totals. Uplifts are an expectation only if they are calibrated.
    threshold : the lowest score, or uplift per unit of money, of the steps taken; infinite if there
        are none.
    n_tied, n_tied_taken : steps at the threshold, and how many of them were taken, in row order.
    part : how much of the next step the money that is left pays for; None if no step is left.
    """

    arm: Indices
    counts: tuple[int, ...]
    cost: float
    uplift: float
    threshold: float = np.inf
    n_tied: int = 0
    n_tied_taken: int = 0
    part: float | None = None


def choose(
    uplift: ArrayLike,
    *,
    share: float | None = None,
    budget: float | None = None,
    cost: float | ArrayLike = 1.0,
    value: float | None = None,
    at_most: ArrayLike | None = None,
    at_least: ArrayLike | None = None,
    allowed: ArrayLike | None = None,
) -> Choice:
    """Give each person the control or one of K arms: most uplift for the money.

    Parameters
    ----------
    uplift : (n, K) uplift of each arm over the control, all on one scale: steps to a better arm are
        taken as long as they add uplift. Or (n,) scores of one arm: without ``value`` people are
        taken from the highest score down, whatever its sign.
    share : part of the people who get an arm, round(share * n); every person then costs 1.
    budget : for all people together; by default there is no limit.
    cost : of treating a person: a number, (K,) one per arm, or (n, K).
    value : of one unit of the outcome, in the units of cost. Only steps with
        value * (uplift added) > (cost added) are taken.
    at_most, at_least : (K,) numbers of people per arm; infinite and 0 are no limits. An arm that
        is not estimated to help is chosen only where ``at_least`` asks for it.
    allowed : (n, K) False where a person may not get an arm.

    Examples
    --------
    >>> uplift = [[0.3, 0.5], [0.2, 0.1], [0.0, -0.1]]
    >>> choose(uplift, cost=[1, 3], budget=2).arm.tolist()
    [0, 0, -1]
    >>> choose(uplift, cost=[1, 3], budget=4).arm.tolist()
    [1, 0, -1]
    >>> choose(uplift, cost=[1, 3], budget=4, at_most=[1, 0]).arm.tolist()
    [0, -1, -1]
    >>> choose([0.1, -0.3, 0.2, 0.2], share=0.5).threshold
    0.2
    """
    gains = check_uplifts(uplift)
    n_people, n_arms = gains.shape
    if share is not None:
        part = check_shares(share)
        if np.ndim(share):
            raise InputError("share", "one number", f"{len(part)}", "Choose once for each.")
        budget, cost = round(float(part[0]) * n_people), 1.0
    if np.ndim(cost) == 1 and n_arms == 1 and np.shape(cost) == (n_people,):
        cost = check_column(cost, "cost")[:, None]
    costs = check_costs(cost, gains.shape)
    money = np.inf if budget is None else check_money(budget, "budget")
    worth = None if value is None else check_money(value, "value")
    free = None
    if allowed is not None:
        free = np.asarray(allowed)
        free = free[:, None] if free.ndim == 1 and n_arms == 1 else free
        if free.shape != gains.shape or free.dtype != bool:
            raise InputError(
                "allowed", f"booleans of shape {gains.shape}, one per person and arm",
                f"{free.dtype} of shape {free.shape}", "Pass True where a person may get an arm.",
            )  # fmt: skip
    if at_most is not None or at_least is not None:
        limit = _limits(money * _ROUNDING, at_most, at_least, n_arms)
        value_of = gains if worth is None else worth * gains - costs
        # What is not worth its cost is given only where a least number of people asks for it.
        offered = (value_of > 0) | (limit[n_arms + 1 :] < 0)
        offers = _Offers(value_of, costs, offered if free is None else offered & free)
        return _choice(_within_limits(offers, limit), gains, costs)
    people = _People(gains, costs, free, worth, np.ndim(uplift) == 1 and worth is None)
    found = None
    if n_people > _MANY and money < np.inf:
        found = people.within(money, *people.rates_around(money))
    if found is None:
        found = people.within(money, -np.inf, np.inf)
    assert found is not None  # all steps lie between these rates
    return found


def check_money(amount: Any, name: str) -> float:
    """An amount of 0 or more, small enough to compute with."""
    if (
        isinstance(amount, Real)
        and not isinstance(amount, bool)
        and 0 <= float(amount) <= _MOST_MONEY
    ):
        return float(amount)
    raise InputError(
        name, f"a number, 0 or more, up to {_MOST_MONEY:g}", repr(amount), "Pass one amount."
    )


def _choice(arm: Indices, gains: Floats, costs: Floats, **at_cut: Any) -> Choice:
    treated = np.flatnonzero(arm >= 0)
    return Choice(
        arm=arm,
        counts=tuple(np.bincount(arm[treated], minlength=gains.shape[1]).tolist()),
        cost=float(costs[treated, arm[treated]].sum()),
        uplift=float(gains[treated, arm[treated]].sum()),
        **at_cut,
    )


class _People(NamedTuple):
    """People and their (n, K) uplifts, costs and allowed arms; ``worth`` of a unit, or None.

    ``is_score``: the only column is a score, which ranks people whatever its sign.
    """

    gains: Floats
    costs: Floats
    free: Bools | None
    worth: float | None
    is_score: bool

    def steps(self, some: slice) -> Steps:
        """The steps of some people that are worth their money, numbered among these people."""
        gains, costs = self.gains[some], self.costs[some]
        free = None if self.free is None else self.free[some]
        if self.is_score:
            return score_steps(gains[:, 0], costs[:, 0], None if free is None else free[:, 0])
        steps = arm_steps(gains, costs, free)
        if self.worth is None:
            return steps
        return steps.take(np.flatnonzero(self.worth * steps.uplift > steps.cost))

    def rates_around(self, money: float) -> tuple[float, float]:
        """Rates below and above the cut, as estimated from a sample of the people."""
        one_in = max(1, len(self.gains) // max(_PROGRAM_PEOPLE, len(self.gains) // 64))
        some = self.steps(slice(None, None, one_in))
        order = np.argsort(-some.rate, kind="stable")
        spent = np.cumsum(some.cost[order]) * one_in
        ends = np.searchsorted(spent, [money * (1 + _MARGIN), money * (1 - _MARGIN)])
        rates = np.append(some.rate[order], -np.inf)[ends]
        return float(rates[0]), float(rates[1])

    def within(self, money: float, low: float, high: float) -> Choice | None:
        """The choice within a budget; None if the cut is not between the rates low and high.

        Steps with a rate of at least ``high`` are taken in any order, those below ``low`` are left
        out; only the steps between are kept and sorted, which bounds memory.
        """
        arm, spent, between = np.full(len(self.gains), -1), 0.0, list[Steps]()
        for start in range(0, len(arm), _MANY):
            steps = self.steps(slice(start, start + _MANY))
            steps = steps._replace(person=steps.person + start)
            sure = np.flatnonzero(steps.rate >= high)
            arm[steps.person[sure]] = steps.arm[sure]  # later steps of a person come later
            spent += float(steps.cost[sure].sum())
            between.append(steps.take(np.flatnonzero((steps.rate >= low) & (steps.rate < high))))
        steps = Steps.joined(between)
        order = steps.best_first()
        total = spent + np.cumsum(steps.cost[order])
        n_taken = int(np.searchsorted(total, money * _ROUNDING, side="right"))
        if (high < np.inf and n_taken == 0) or (low > -np.inf and n_taken == len(order)):
            return None
        part = None
        if n_taken < len(order):
            left = max(money - (float(total[n_taken - 1]) if n_taken else spent), 0.0)
            part = min(left / float(steps.cost[order[n_taken]]), 1.0)
        taken = steps.take(order[:n_taken])
        arm[taken.person] = taken.arm
        threshold = float(taken.rate[-1]) if n_taken else np.inf
        return _choice(
            arm,
            self.gains,
            self.costs,
            threshold=threshold,
            n_tied=int(np.count_nonzero(steps.rate == threshold)),
            n_tied_taken=int(np.count_nonzero(taken.rate == threshold)),
            part=part,
        )


def _limits(money: float, at_most: Any, at_least: Any, n_arms: int) -> Floats:
    """(2 K + 1,) what is not to be exceeded: money, people per arm, and minus people per arm."""
    ends = []
    for name, given, none in (("at_most", at_most, np.inf), ("at_least", at_least, 0.0)):
        values = np.full(n_arms, none) if given is None else np.asarray(given, np.float64)
        if values.shape != (n_arms,) or not (values >= 0).all():
            raise InputError(
                name, f"a number of people, 0 or more, for each of the {n_arms} arms",
                repr(given), "Pass one number per arm.",
            )  # fmt: skip
        ends.append(values)
    most, least = ends
    if (least > most).any() or np.isinf(least).any():
        raise InputError(
            "at_least", f"at most at_most, {most.tolist()}", f"{least.tolist()}",
            "Lower the one, or raise the other.",
        )  # fmt: skip
    return np.concatenate([[money], most, -least])


class _Offers(NamedTuple):
    """What the program may give: (n, K) worth and cost, and who may get what."""

    worth: Floats
    cost: Floats
    allowed: Bools

    def take(self, index: Indices) -> _Offers:
        return _Offers(self.worth[index], self.cost[index], self.allowed[index])

    def net(self, prices: Floats) -> Floats:
        """(n, K) what is left of the worth of each arm, minus infinity if it is not offered.

        ``prices`` (2 K + 1,): of money, of a place in each arm, and what is paid for joining it.
        """
        n_arms = self.worth.shape[1]
        of_place = prices[n_arms + 1 :] - prices[1 : n_arms + 1]
        return np.where(self.allowed, self.worth - prices[0] * self.cost + of_place, -np.inf)

    def use(self, arm: Indices) -> Floats:
        """(2 K + 1,) what the arms of people use of each limit."""
        treated = np.flatnonzero(arm >= 0)
        counts = np.bincount(arm[treated], minlength=self.worth.shape[1])
        return np.concatenate([[self.cost[treated, arm[treated]].sum()], counts, -counts])


def _best(net: Floats) -> tuple[Indices, float]:
    """(n,) the best arm of each person, -1 for the control, and what all have left together."""
    arm = net.argmax(axis=1)
    top = net[np.arange(len(net)), arm]
    return np.where(top > 0, arm, -1), float(top[top > 0].sum())


def _within_limits(offers: _Offers, limit: Floats) -> Indices:
    """(n,) the arm of each person, -1 for the control: the optimum within the limits."""
    parts, _ = _solve(offers, limit, np.zeros(len(limit)), np.random.default_rng(0))
    counts = parts.sum(axis=0)
    used = np.concatenate([[(parts * offers.cost).sum()], counts, -counts])
    least = -limit[len(counts) + 1 :]
    if (used - limit > 1e-6 * (1 + least.max())).any():
        raise InputError(
            "at_least", "numbers that people, budget and at_most allow together",
            f"{' + '.join(f'{n:,.0f}' for n in least if n)} for {len(parts):,} people",
            "Lower at_least, or raise the budget or at_most.",
        )  # fmt: skip
    return _rounded(parts, offers, limit)


def _solve(offers: _Offers, limit: Floats, start: Floats, rng: Generator) -> tuple[Floats, Floats]:
    """(n, K) the part of each arm that each person gets, and the prices, from near ``start``."""
    n_people = len(offers.worth)
    n_asked = n_people
    if n_people > _PROGRAM_PEOPLE:
        n_some = max(_PROGRAM_PEOPLE, n_people // _PART)
        some = rng.choice(n_people, n_some, replace=False)
        _, start = _solve(offers.take(some), limit * (n_some / n_people), start, rng)
        # The error of a sample: some people, in the root of their number.
        n_asked = int(8 * n_people / np.sqrt(n_some))
    while True:
        net = offers.net(start)
        best, _ = _best(net)
        asked = np.ones(n_people, dtype=bool)
        if n_asked < n_people:  # those nearest to indifferent
            two = np.partition(np.column_stack([net, np.zeros(n_people)]), -2, axis=1)[:, -2:]
            asked[:] = False
            asked[np.argpartition(two[:, 1] - two[:, 0], n_asked)[:n_asked]] = True
        sure = np.where(asked, -1, best)
        parts = np.zeros(net.shape)
        parts[sure >= 0, sure[sure >= 0]] = 1.0
        left = limit - offers.use(sure)
        parts[asked], start = _cutting_planes(offers.take(np.flatnonzero(asked)), left, start)
        net = np.column_stack([offers.net(start), np.zeros(n_people)])[~asked]
        own = net[np.arange(len(net)), best[~asked]]
        if (own >= net.max(axis=1, initial=0.0) - 1e-9 * np.abs(own)).all():
            return parts, start
        n_asked *= 2


class _Plane(NamedTuple):
    """A plane below D: its slope, its value at the prices z, and who took which arm there."""

    z: Floats
    slope: Floats
    value: float
    arm: Indices


def _cutting_planes(offers: _Offers, limit: Floats, start: Floats) -> tuple[Floats, Floats]:
    """The optimum of these people: parts of arms (n, K), and prices.

    With z the prices, b the limits and a_i(z) the use that person i's best arm makes of them,

        D(z) = b.z + sum over i of max(0, net worth of the best arm at z)

    is convex, and b - sum of a_i(z) is a slope of it. The largest of the planes found so far lies
    below D; its minimum is the next z. Where both meet, the weights of the planes mix the answers
    that made them into an optimum.
    """
    n_arms = offers.worth.shape[1]
    used = np.isfinite(limit) & ((np.arange(len(limit)) <= n_arms) | (limit < 0))
    limit = np.where(used, limit, 0.0)
    # Above these prices nobody would buy.
    worth = np.where(offers.allowed, offers.worth, 0.0)
    spread = float(worth.max(initial=0.0) - worth.min(initial=0.0)) + 1e-300
    costs = offers.cost[offers.allowed & (offers.cost > 0)]
    money = 2 * spread / float(costs.min()) if len(costs) else 0.0
    bonus = 2 * (spread + money * float(offers.cost.max(initial=0.0)))
    highest = np.repeat([money, 2 * spread, bonus], [1, n_arms, n_arms])
    highest = np.where(used, highest, 0.0)
    z, best = np.clip(start, 0, highest), np.zeros(len(limit))
    lowest, planes, reach = np.inf, list[_Plane](), 1.0
    for _ in range(_MOST_PLANES):
        arm, left_over = _best(offers.net(z))
        value = float(limit @ z) + left_over
        planes.append(_Plane(z, np.where(used, limit - offers.use(arm), 0.0), value, arm))
        if value < lowest:
            lowest, best = value, z
        z, height, weights = _lowest_point(planes, best, highest, reach)
        if lowest - height <= 1e-11 * (1 + abs(lowest)):
            break
        moved = float(np.max(np.abs(z - best) / np.where(highest > 0, highest, 1.0)))
        reach = min(1.0, 16 * reach if np.isinf(height) else max(8 * moved, reach / 8))
    parts = np.zeros(offers.worth.shape)
    for weight, plane in zip(weights, planes, strict=True):
        treated = np.flatnonzero(plane.arm >= 0)
        if weight > 0:
            parts[treated, plane.arm[treated]] += weight
    return parts, best


def _lowest_point(
    planes: list[_Plane], best: Floats, highest: Floats, reach: float
) -> tuple[Floats, float, Floats]:
    """Where the largest of the planes is lowest, its value there, and the weights of the planes.

    Only prices within ``reach`` of the best ones so far are looked at, relative to the highest, and
    everything is measured from there: a solver that is exact to seven digits then comes ever
    closer. If the lowest point lies at the edge of this range, its value is minus infinity.
    """
    from scipy.optimize import linprog

    slopes = np.array([plane.slope for plane in planes])
    here = np.array([plane.value + plane.slope @ (best - plane.z) for plane in planes])
    unit = np.where(highest > 0, reach * highest, 1.0)
    size = np.abs(slopes * unit).sum(axis=1).max(initial=1e-300)
    low, high = -np.minimum(best / unit, 1.0), np.minimum((highest - best) / unit, 1.0)
    # The first variable is the height, the others are prices.
    table = np.column_stack([-np.ones(len(planes)), slopes * unit / size])
    found = linprog(
        np.eye(1, table.shape[1])[0],
        A_ub=table,
        b_ub=-(here - here.max()) / size,
        bounds=[(None, None), *zip(low.tolist(), high.tolist(), strict=True)],
    )
    weights = np.maximum(-found.ineqlin.marginals, 0)
    at_edge = np.abs(found.x[1:]) >= 1 - 1e-9
    height = -np.inf if reach < 1 and at_edge.any() else here.max() + size * found.fun
    return best + unit * found.x[1:], float(height), weights / weights.sum()


def _rounded(parts: Floats, offers: _Offers, limit: Floats) -> Indices:
    """Whole people: of those who have the same parts of arms, as many get each as the parts say."""
    n_arms = parts.shape[1]
    arm = np.where(parts.max(axis=1) > 1 - 1e-6, parts.argmax(axis=1), -1)
    mixed = np.flatnonzero((parts.max(axis=1) > 1e-6) & (arm < 0))
    patterns, code = np.unique(parts[mixed].round(9), axis=0, return_inverse=True)
    left_over = []
    for number, pattern in enumerate(patterns):
        people = mixed[code.ravel() == number]
        sizes = np.floor(np.append(pattern, 1 - pattern.sum()) * len(people) + 1e-6).astype(int)
        ends = np.cumsum(sizes)
        for k, end in enumerate(ends[:-1].tolist()):
            arm[people[end - sizes[k] : end]] = k
        left_over += people[ends[-1] :].tolist()
    room = limit - offers.use(arm)  # money, places, and people that an arm still needs if negative
    for person in left_over:  # fewer than arms and patterns
        # Arms that still need people first, then the larger parts.
        for k in np.lexsort((-parts[person], room[n_arms + 1 :] >= 0)).tolist():
            cost = float(offers.cost[person, k])
            if parts[person, k] > 1e-6 and room[1 + k] >= 1 and cost <= room[0]:
                arm[person] = k
                room[[0, 1 + k, 1 + n_arms + k]] += -cost, -1, 1
                break
    # Costs that differ between people of one pattern can add up to more than their parts.
    for person in mixed[np.argsort(-offers.cost[mixed, np.maximum(arm[mixed], 0)])].tolist():
        if room[0] >= 0:
            break
        if arm[person] >= 0:
            room[0] += float(offers.cost[person, arm[person]])
            arm[person] = -1
    return arm
