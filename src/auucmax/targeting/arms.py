"""Who gets which of several arms, within a budget and within limits of the arms.

Each person gets at most one arm. All steps of all people along their hulls of (cost, uplift)
(``auucmax.metrics.arm_steps``) are taken from the best down: the optimum of the fractional
knapsack, but for the last step, of which money may pay a part only, and which is then left out.

With limits of the arms (at most, or at least, so many people) the optimum is that of a linear
program. What money and places are worth, its shadow prices, is all that people need to know of each
other: at the right prices everybody takes the arm that is best after paying for it. These prices
minimise a convex function of K + 1 numbers or so, what money and places would fetch plus what
people have left, by cutting planes: a few hundred times everybody is asked for the best arm at some
prices, and the answers, mixed, are the optimum. Of many people, prices come from a random part of
them first; then only those are asked who are not far from indifferent at these prices. If at the
final prices nobody who was not asked prefers another arm, it is the optimum for all; otherwise more
people are asked.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from auucmax._shown import Shown
from auucmax._validation import Bools, Floats
from auucmax.metrics.arm_steps import (
    Steps,
    arm_steps,
    best_steps_first,
    check_costs,
    check_uplifts,
)
from auucmax.targeting.policy import TieRule, check_money, rounding_of, tie_keys

_PROGRAM_PEOPLE = 20_000  # who are all asked at once
_MANY = 2**18  # people whose steps are made together; of more, only those near the cut are sorted
_MARGIN = 0.05  # of the budget, by which some people may miss what all would spend
_PART = 16  # of more people, one in so many tells the prices to start with
_MOST_PLANES = 2_000  # far more than are ever needed


class PartStep(NamedTuple):
    """The step that money pays for in part only, and which is not taken.

    ``person`` (row) would have gone to ``arm`` (column); ``paid`` is the part that money is left
    for, from 0 to 1.
    """

    person: int
    arm: int
    paid: float


@dataclass(frozen=True, repr=False)
class ArmChoice(Shown):
    """Who gets which arm.

    Attributes
    ----------
    arm : (n,) the column of the arm that each person gets, -1 for the control.
    counts : (K,) people an arm; cost : of them all.
    uplift : the sum of their given uplifts: an expectation only as far as these are calibrated.
    rate : uplift for the money that the last step taken adds; infinite if there is none.
    n_tied, n_tied_taken : how many steps have this rate, and how many of them were taken, chosen as
        ``ties`` says.
    part : the step that money pays for in part only, or None.
    """

    arm: NDArray[np.intp]
    counts: tuple[int, ...]
    cost: float
    uplift: float
    ties: TieRule
    rate: float = np.inf
    n_tied: int = 0
    n_tied_taken: int = 0
    part: PartStep | None = None

    @property
    def n_treated(self) -> int:
        return sum(self.counts)

    def __str__(self) -> str:
        text = f"{self.n_treated:,} of {len(self.arm):,} people, cost {self.cost:,.2f}"
        if self.n_tied_taken < self.n_tied:
            how = "drawn at random" if self.ties == "random" else "taken in the order of the rows"
            text += (
                f"; {self.n_tied_taken:,} of {self.n_tied:,} people who gain equally for the "
                f"money get their arm, {how}"
            )
        if self.part is not None and self.part.paid >= 0.005:  # a per cent, rounded
            text += f"; money is left for {self.part.paid:.0%} of the next person"
        return text


def choose_arms(
    uplift: ArrayLike,
    *,
    cost: float | ArrayLike = 1.0,
    budget: float | None = None,
    value: float | None = None,
    at_most: ArrayLike | None = None,
    at_least: ArrayLike | None = None,
    allowed: ArrayLike | None = None,
    ties: TieRule = "row",
    random_state: int | Generator | None = 0,
) -> ArmChoice:
    """Give each person the control or one of K arms: most uplift for the money.

    Steps to a better arm are taken while the budget lasts and, if ``value`` is given, while
    value * (uplift added) > (cost added). An arm that is not estimated to help is chosen only where
    ``at_least`` asks for it. Arms that bring and cost a person the same are shared evenly. With one
    cost for all arms everybody's best arm is ranked.

    Parameters
    ----------
    uplift : (n, K) uplift of each arm over the control for each person, all on one scale;
        or (n,) for one arm.
    cost : of a person treated: a number, (K,) one an arm, or (n, K).
    budget : None for no limit. With the default cost of 1 it is a number of people.
    value : of one unit of the outcome, in the units of cost; None to leave no money unspent.
    at_most, at_least : (K,) numbers of people an arm; infinite and 0 are no limits. None: no limit.
    allowed : (n, K) False where a person may not get an arm; None: everybody may get all.
    ties, random_state : which of several equally good steps is taken first: that of the first row
        (``"row"``), or a random one (``"random"``), the same one for the same seed. With limits of
        arms it is not told: one optimum is taken, always the same.

    Examples
    --------
    >>> uplift = [[0.3, 0.5], [0.2, 0.1], [0.0, -0.1]]
    >>> choose_arms(uplift, cost=[1, 3], budget=2).arm.tolist()
    [0, 0, -1]
    >>> choose_arms(uplift, cost=[1, 3], budget=4).arm.tolist()
    [1, 0, -1]
    >>> choose_arms(uplift, cost=[1, 3], budget=4, at_most=[1, 0]).arm.tolist()
    [0, -1, -1]
    """
    gains = check_uplifts(uplift)
    costs = check_costs(cost, gains.shape)
    free = None if allowed is None else _check_allowed(allowed, gains.shape)
    money = None if budget is None else check_money(budget, "budget")
    worth = None if value is None else check_money(value, "value")
    keys = tie_keys(len(gains), ties, random_state)
    if at_most is not None or at_least is not None:
        limits = Limits.of(at_most, at_least, money, gains.shape[1])
        arm = _within_limits(_Offers.of(gains, costs, free, worth, limits), limits)
        return _choice(arm, gains, costs, ties)
    people = _People(gains, costs, free, worth)
    found = None
    if money is not None and len(gains) > _MANY:
        found = people.within(money, keys, *people.rates_around(money))
    if found is None:
        found = people.within(np.inf if money is None else money, keys, -np.inf, np.inf)
    assert found is not None  # between these all steps lie
    return _choice(found[0], gains, costs, ties, **found[1])


class _People(NamedTuple):
    """Who may get what: (n, K) uplifts, costs, and who may get which; and the value, or None."""

    gains: Floats
    costs: Floats
    free: Bools | None
    worth: float | None

    def steps(self, some: slice) -> Steps:
        """The steps of some people that are worth their money; their numbers among these."""
        free = None if self.free is None else self.free[some]
        steps = arm_steps(self.gains[some], self.costs[some], free)
        if self.worth is None:
            return steps
        return steps.take(np.flatnonzero(self.worth * steps.uplift > steps.cost))

    def rates_around(self, money: float) -> tuple[float, float]:
        """Rates that surely are below and above the cut, as far as some of the people show."""
        one_in = max(1, len(self.gains) // max(_PROGRAM_PEOPLE, len(self.gains) // 64))
        some = self.steps(slice(None, None, one_in))
        order = np.argsort(-some.rate, kind="stable")
        spent = np.cumsum(some.cost[order]) * one_in
        ends = np.searchsorted(spent, [money * (1 + _MARGIN), money * (1 - _MARGIN)])
        rates = np.append(some.rate[order], -np.inf)[ends]
        return float(rates[0]), float(rates[1])

    def within(
        self, money: float, keys: NDArray[np.intp], low: float, high: float
    ) -> tuple[NDArray[np.intp], dict[str, Any]] | None:
        """The arm of each person (n,) within a budget, and what is known of the cut.

        Steps of a rate of at least ``high`` are taken as they come, those below ``low`` are not
        looked at: what lies between is put in order. So neither memory nor time grow faster than
        the people. None if the cut is not between the two.
        """
        arm, spent, between = np.full(len(self.gains), -1), 0.0, list[Steps]()
        for start in range(0, len(arm), _MANY):
            steps = self.steps(slice(start, start + _MANY))
            steps = steps._replace(person=steps.person + start)
            sure = np.flatnonzero(steps.rate >= high)
            arm[steps.person[sure]] = steps.arm[sure]  # a person's later steps come later
            spent += float(steps.cost[sure].sum())
            between.append(steps.take(np.flatnonzero((steps.rate >= low) & (steps.rate < high))))
        steps = Steps(*(np.concatenate(columns) for columns in zip(*between, strict=True)))
        order = best_steps_first(steps, keys)
        n_taken, part = _paid(steps, order, money, spent)
        if (high < np.inf and n_taken == 0) or (low > -np.inf and n_taken == len(order)):
            return None
        taken = steps.take(order[:n_taken])
        arm[taken.person] = taken.arm
        rate = float(taken.rate[-1]) if n_taken else np.inf
        return arm, {
            "rate": rate,
            "n_tied": int(np.count_nonzero(steps.rate == rate)),
            "n_tied_taken": int(np.count_nonzero(taken.rate == rate)),
            "part": part,
        }


def _paid(
    steps: Steps, order: NDArray[np.intp], money: float, before: float
) -> tuple[int, PartStep | None]:
    """How many of the steps, in this order, a budget pays for, of which a part is spent; and the
    next one."""
    spent = before + np.cumsum(steps.cost[order])
    n_taken = int(np.searchsorted(spent, money + rounding_of(money), side="right"))
    if n_taken == len(order):
        return n_taken, None
    following = int(order[n_taken])
    left = max(money - (float(spent[n_taken - 1]) if n_taken else before), 0.0)
    paid = min(left / float(steps.cost[following]), 1.0)
    return n_taken, PartStep(int(steps.person[following]), int(steps.arm[following]), paid)


def _choice(
    arm: NDArray[np.intp], gains: Floats, costs: Floats, ties: TieRule, **at_cut: Any
) -> ArmChoice:
    treated = np.flatnonzero(arm >= 0)
    return ArmChoice(
        arm=arm,
        counts=tuple(np.bincount(arm[treated], minlength=gains.shape[1]).tolist()),
        cost=float(costs[treated, arm[treated]].sum()),
        uplift=float(gains[treated, arm[treated]].sum()),
        ties=ties,
        **at_cut,
    )


def _check_allowed(allowed: ArrayLike, shape: tuple[int, ...]) -> Bools:
    free = np.asarray(allowed)
    free = free[:, None] if free.ndim == 1 and shape[1] == 1 else free
    if free.shape != shape or free.dtype != bool:
        raise ValueError(
            f"allowed should be booleans, one a person and arm {shape}, got {free.dtype} of shape "
            f"{free.shape}. Pass True where a person may get an arm."
        )
    return free


@dataclass(frozen=True)
class Limits:
    """How many people each arm may have, at most and at least, (K,) each; and the budget."""

    most: Floats
    least: Floats
    budget: float

    @classmethod
    def of(cls, at_most: Any, at_least: Any, budget: float | None, n_arms: int) -> Limits:
        """Checked; None is no limit."""
        ends = []
        for name, given, none in (("at_most", at_most, np.inf), ("at_least", at_least, 0.0)):
            values = np.full(n_arms, none) if given is None else np.asarray(given, np.float64)
            if values.shape != (n_arms,) or np.isnan(values).any() or (values < 0).any():
                raise ValueError(
                    f"{name} should hold a number of people, 0 or more, for each of the {n_arms} "
                    f"arms, got {given!r}. Pass one number an arm."
                )
            ends.append(values)
        most, least = ends
        if (least > most).any() or np.isinf(least).any():
            raise ValueError(
                f"at_least should not be above at_most, got {least.tolist()} and {most.tolist()}. "
                f"Lower the one, or raise the other."
            )
        return cls(most, least, np.inf if budget is None else budget + rounding_of(budget))

    def scaled(self, part: float) -> Limits:
        """For a part of the people."""
        return Limits(self.most * part, self.least * part, self.budget * part)

    def without(self, counts: Floats, cost: float) -> Limits:
        """What is left of them when so many people have their arms."""
        return Limits(self.most - counts, self.least - counts, self.budget - cost)


class _Offers(NamedTuple):
    """What the program may give: (n, K) worth and cost, and who may get what."""

    worth: Floats
    cost: Floats
    allowed: Bools

    @classmethod
    def of(
        cls, gains: Floats, costs: Floats, free: Bools | None, value: float | None, limits: Limits
    ) -> _Offers:
        worth = gains if value is None else value * gains - costs
        # What is not worth having is given only where a least number of people asks for it.
        offered = (worth > 0) | (limits.least > 0)
        return cls(worth, costs, offered if free is None else offered & free)

    def take(self, index: NDArray[np.intp]) -> _Offers:
        return _Offers(self.worth[index], self.cost[index], self.allowed[index])


class _Prices(NamedTuple):
    """Of money, of a place in each arm (K,), and what is paid to get people into each (K,)."""

    money: float
    places: Floats
    bonus: Floats

    @classmethod
    def of(cls, values: Floats) -> _Prices:
        n_arms = len(values) // 2
        return cls(float(values[0]), values[1 : n_arms + 1], values[n_arms + 1 :])

    def net(self, offers: _Offers) -> Floats:
        """(n, K) what is left of the worth of each arm, minus infinity if it is not offered."""
        net = offers.worth - self.money * offers.cost + (self.bonus - self.places)
        return np.where(offers.allowed, net, -np.inf)


def _within_limits(offers: _Offers, limits: Limits) -> NDArray[np.intp]:
    """(n,) the arm of each person, -1 for the control: the optimum within the limits."""
    start = np.zeros(2 * offers.worth.shape[1] + 1)
    parts, _ = _solve(offers, limits, start, np.random.default_rng(0))
    counts, cost = parts.sum(axis=0), float((parts * offers.cost).sum())
    over = np.concatenate([limits.least - counts, counts - limits.most, [cost - limits.budget]])
    if (over > 1e-6 * (1 + limits.least.max())).any():
        raise ValueError(
            f"at_least should be numbers that people, budget and at_most allow together, got "
            f"{' + '.join(f'{n:,.0f}' for n in limits.least if n)} for {len(offers.worth):,} "
            f"people. Lower at_least, or raise the budget or at_most."
        )
    return _rounded(parts, offers, limits)


def _solve(offers: _Offers, limits: Limits, start: Floats, rng: Generator) -> tuple[Floats, Floats]:
    """(n, K) the part of each arm that each person gets, and the prices, from near ``start``."""
    n_people = len(offers.worth)
    n_asked = n_people
    if n_people > _PROGRAM_PEOPLE:
        n_some = max(_PROGRAM_PEOPLE, n_people // _PART)
        some = rng.choice(n_people, n_some, replace=False)
        _, start = _solve(offers.take(some), limits.scaled(n_some / n_people), start, rng)
        # What a part of the people is off by: some people in the root of their number.
        n_asked = int(8 * n_people / np.sqrt(n_some))
    while True:
        asked, parts, best = _sure(offers, start, min(n_asked, n_people))
        sure = np.flatnonzero(~asked & (best >= 0))
        cost = float(offers.cost[sure, best[sure]].sum())
        left = limits.without(parts.sum(axis=0), cost)
        parts[asked], start = _cutting_planes(offers.take(np.flatnonzero(asked)), left, start)
        net = np.column_stack([_Prices.of(start).net(offers), np.zeros(n_people)])[~asked]
        own = net[np.arange(len(net)), best[~asked]]
        if (own >= net.max(axis=1, initial=0.0) - 1e-9 * np.abs(own)).all():
            return parts, start
        n_asked *= 2


def _sure(offers: _Offers, prices: Floats, n_asked: int) -> tuple[Bools, Floats, NDArray[np.intp]]:
    """Who is nearest to indifferent (n,); the arms of all others (n, K); everybody's best (n,)."""
    net = _Prices.of(prices).net(offers)
    best, _ = _answers(net)
    asked = np.zeros(len(net), dtype=bool)
    if n_asked >= len(net):
        asked[:] = True
    elif n_asked:
        two = np.partition(np.column_stack([net, np.zeros(len(net))]), -2, axis=1)[:, -2:]
        asked[np.argpartition(two[:, 1] - two[:, 0], n_asked)[:n_asked]] = True
    parts = np.zeros(net.shape)
    sure = np.flatnonzero(~asked & (best >= 0))
    parts[sure, best[sure]] = 1.0
    return asked, parts, best


def _cutting_planes(offers: _Offers, limits: Limits, start: Floats) -> tuple[Floats, Floats]:
    """The optimum of these people: parts of arms (n, K), and prices.

    With z the prices, b the limits and a_i(z) the use that person i's best arm makes of them,

        D(z) = b.z + sum over i of max(0, net worth of the best arm at z)

    is convex, and b - sum of a_i(z) a slope of it. The largest of the planes found so far lies
    below D; its minimum is the next z. Where both meet, the planes' weights mix the answers that
    made them into an optimum.
    """
    limit = np.concatenate([[limits.budget], limits.most, -limits.least])
    n_arms = len(limits.most)
    used = np.isfinite(limit) & np.concatenate([np.full(n_arms + 1, True), limits.least > 0])
    limit = np.where(used, limit, 0.0)
    highest = np.where(used, _highest_prices(offers, n_arms), 0.0)
    z, best = np.clip(start, 0, highest), np.zeros(len(limit))
    lowest, planes, reach = np.inf, list[_Plane](), 1.0
    for _ in range(_MOST_PLANES):
        arm, left_over = _answers(_Prices.of(z).net(offers))
        slope = np.where(used, limit - _use(arm, offers), 0.0)
        value = float(limit @ z) + left_over
        planes.append(_Plane(z, slope, value, arm))
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


class _Plane(NamedTuple):
    """A plane that lies below D: its slope and its value at the point z, and who took which arm."""

    z: Floats
    slope: Floats
    value: float
    arm: NDArray[np.intp]


def _lowest_point(
    planes: list[_Plane], best: Floats, highest: Floats, reach: float
) -> tuple[Floats, float, Floats]:
    """Where the largest of the planes is lowest, its value there, and the weights of the planes.

    Only prices within ``reach`` of the best ones so far are looked at, relative to the highest, and
    all is measured from there: a solver that is exact to seven digits then comes ever closer. If
    the lowest point lies at the edge of that, its value is minus infinity.
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


def _answers(net: Floats) -> tuple[NDArray[np.intp], float]:
    """(n,) the best arm of each person, -1 for the control, and what all have left together."""
    arm = net.argmax(axis=1)
    top = net[np.arange(len(net)), arm]
    return np.where(top > 0, arm, -1), float(top[top > 0].sum())


def _use(arm: NDArray[np.intp], offers: _Offers) -> Floats:
    """(2 K + 1,) what arms that people take use of each limit: money, places, and minus places."""
    treated = np.flatnonzero(arm >= 0)
    counts = np.bincount(arm[treated], minlength=offers.worth.shape[1])
    return np.concatenate([[offers.cost[treated, arm[treated]].sum()], counts, -counts])


def _highest_prices(offers: _Offers, n_arms: int) -> Floats:
    """Above these nobody would buy: of money, places, and what people are paid."""
    worth = np.where(offers.allowed, offers.worth, 0.0)
    spread = float(worth.max(initial=0.0) - worth.min(initial=0.0)) + 1e-300
    costs = offers.cost[offers.allowed & (offers.cost > 0)]
    money = 2 * spread / float(costs.min()) if len(costs) else 0.0
    high = float(offers.cost.max(initial=0.0))
    return np.concatenate(
        [[money], np.full(n_arms, 2 * spread), np.full(n_arms, 2 * (spread + money * high))]
    )


def _rounded(parts: Floats, offers: _Offers, limits: Limits) -> NDArray[np.intp]:
    """Whole people: of those who have the same parts of arms, as many get each as the parts say."""
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
    room = _Room.of(arm, offers, limits)
    for person in left_over:  # fewer than arms and patterns
        # Arms that still want people first, then the larger parts.
        for k in np.lexsort((-parts[person], room.counts >= limits.least)).tolist():
            if parts[person, k] > 1e-6 and room.give(person, k):
                break
    # Costs that differ between people of one pattern can add up to more than their parts.
    for person in mixed[np.argsort(-offers.cost[mixed, np.maximum(arm[mixed], 0)])].tolist():
        if room.money >= 0:
            break
        if arm[person] >= 0:
            room.take_back(person)
    return arm


@dataclass
class _Room:
    """What is left of money and places while people get their arms."""

    arm: NDArray[np.intp]
    offers: _Offers
    limits: Limits
    counts: Floats
    money: float

    @classmethod
    def of(cls, arm: NDArray[np.intp], offers: _Offers, limits: Limits) -> _Room:
        treated = np.flatnonzero(arm >= 0)
        counts = np.bincount(arm[treated], minlength=offers.worth.shape[1]).astype(np.float64)
        spent = float(offers.cost[treated, arm[treated]].sum())
        return cls(arm, offers, limits, counts, limits.budget - spent)

    def give(self, person: int, k: int) -> bool:
        """Give an arm to a person, if there is room."""
        cost = float(self.offers.cost[person, k])
        if self.counts[k] + 1 > self.limits.most[k] or cost > self.money:
            return False
        self.arm[person], self.money = k, self.money - cost
        self.counts[k] += 1
        return True

    def take_back(self, person: int) -> None:
        """Leave a person to the control after all."""
        k = int(self.arm[person])
        self.arm[person], self.money = -1, self.money + float(self.offers.cost[person, k])
        self.counts[k] -= 1
