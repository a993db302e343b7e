"""Choose the arm of each person by share, budget or profit, within limits.

Each person gets at most one arm. The steps of all people along their hulls of (cost, uplift)
(:mod:`auucmax.metrics.allocation`) are taken from the highest rate down. This is the optimum of the
fractional knapsack, except for the last step, which is left out if the money pays only a part.

With limits of the arms (at most, or at least, so many people) the optimum is that of a linear
program. Its dual has a price for money and for a place in each arm, at most 2 K + 1 numbers: at the
right prices everybody takes the arm that is best after paying for it. With many people the prices
come from a random part of them first. Then only people who are close to indifferent at these prices
are solved for; if nobody else prefers another arm at the final prices, it is the optimum for all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from auucmax._errors import InputError
from auucmax._validation import Floats, check_shares
from auucmax.encoding.kinds import arm_text
from auucmax.metrics.allocation import Steps, arm_steps, check_costs, check_uplifts, score_steps

Indices = NDArray[np.intp]
_MOST_MONEY = 1e50  # for any person or outcome, whatever the currency
_ROUNDING = 1 + 1e-9  # sums of costs are rounded: thirty times 0.1 is not 3
_PROGRAM_PEOPLE = 2_000  # so many are solved for at once
_PART = 16  # one in so many of more people gives the prices, or the rates, to start with
_MANY = 262_144  # people whose steps are in memory together
_MARGIN = 0.02  # of the money, around the cut


class Choice(NamedTuple):
    """The chosen arm of each person.

    Attributes
    ----------
    arm : (n,) the column of the arm that each person gets, -1 for the control.
    counts : (K,) people per arm.
    cost, uplift : totals. Uplifts are an expectation only if they are calibrated.
    threshold : the lowest score, or uplift per unit of money, of the steps taken; infinite if there
        are none.
    n_tied, n_tied_taken : steps at the threshold, and how many of them were taken, in row order.
    is_cut : whether money is lacking for more steps.
    """

    arm: Indices
    counts: tuple[int, ...]
    cost: float
    uplift: float
    threshold: float = np.inf
    n_tied: int = 0
    n_tied_taken: int = 0
    is_cut: bool = False


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
    budget : budget for all people together; by default there is no limit.
    cost : cost of treating a person: a number, (K,) one per arm, or (n, K).
    value : value of one unit of the outcome, in the units of cost. Only steps with value * (uplift
        added) > (cost added) are taken.
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
    if np.shape(cost) == np.shape(uplift):
        cost = np.reshape(cost, gains.shape)
    costs = check_costs(cost, gains.shape)
    money = np.inf if budget is None else check_money(budget, "budget")
    worth = gains if value is None else check_money(value, "value") * gains - costs
    free = np.ones(gains.shape, dtype=bool) if allowed is None else np.asarray(allowed)
    if free.shape not in (gains.shape, np.shape(uplift)) or free.dtype != bool:
        raise InputError(
            "allowed", f"booleans of shape {gains.shape}, one per person and arm",
            f"{free.dtype} of shape {free.shape}", "Pass True where a person may get an arm.",
        )  # fmt: skip
    free = free.reshape(gains.shape)
    at_cut: dict[str, Any] = {}
    if at_most is not None or at_least is not None:
        most = np.full(n_arms, np.inf) if at_most is None else np.asarray(at_most, np.float64)
        least = np.zeros(n_arms) if at_least is None else np.asarray(at_least, np.float64)
        highest = np.minimum(most, n_people)
        for name, own, end in (("at_most", most, np.inf), ("at_least", least, highest)):
            if own.shape != (n_arms,) or not ((own >= 0) & (own <= end)).all():
                raise InputError(
                    name, f"a number of people for each of the {n_arms} arms, 0 or more",
                    repr(own.tolist()), "At least may not be above at most, nor above all people.",
                )  # fmt: skip
        # What is not worth its cost is given only where a least number of people asks for it.
        worth = np.where(free & ((worth > 0) | (least > 0)), worth, -np.inf)
        arm = _within_limits(worth, costs, money * _ROUNDING, most, least)
    else:

        def steps_of(some: slice) -> Steps:
            if np.ndim(uplift) == 1 and value is None:
                return score_steps(gains[some, 0], costs[some, 0], free[some, 0])
            steps = arm_steps(gains[some], costs[some], free[some])
            if value is None:
                return steps
            return steps.take(np.flatnonzero(value * steps.uplift > steps.cost))

        # With many people only the steps around the cut, whose rates a sample shows, are kept and
        # sorted, which bounds memory; if the cut is not among them, all are.
        ranges = [(-np.inf, np.inf)]
        if n_people > _MANY and money < np.inf:
            sample = steps_of(slice(None, None, _PART))
            best = sample.best_first()
            ends = money / _PART * np.array([1 + _MARGIN, 1 - _MARGIN])
            places = np.searchsorted(np.cumsum(sample.cost[best]), ends)
            low, high = np.append(sample.rate[best], -np.inf)[places].tolist()
            ranges.insert(0, (low, high))
        for low, high in ranges:
            arm, spent, between = np.full(n_people, -1), 0.0, list[Steps]()
            for start in range(0, n_people, _MANY):
                steps = steps_of(slice(start, start + _MANY))
                steps = steps._replace(person=steps.person + start)
                sure = np.flatnonzero(steps.rate >= high)
                arm[steps.person[sure]] = steps.arm[sure]  # later steps of a person come later
                spent += float(steps.cost[sure].sum())
                between.append(
                    steps.take(np.flatnonzero((steps.rate >= low) & (steps.rate < high)))
                )
            steps = Steps.joined(between)
            order = steps.best_first()
            total = spent + np.cumsum(steps.cost[order])
            n_taken = int(np.searchsorted(total, money * _ROUNDING, side="right"))
            if 0 < n_taken < len(order):
                break
        rate = steps.rate[order]
        threshold = float(rate[n_taken - 1]) if n_taken else np.inf
        taken = order[:n_taken]
        arm[steps.person[taken]] = steps.arm[taken]
        at_cut = {
            "threshold": threshold,
            "n_tied": int(np.count_nonzero(rate == threshold)),
            "n_tied_taken": int(np.count_nonzero(rate[:n_taken] == threshold)),
            "is_cut": n_taken < len(order),
        }
    treated = np.flatnonzero(arm >= 0)
    return Choice(
        arm=arm,
        counts=tuple(np.bincount(arm[treated], minlength=n_arms).tolist()),
        cost=float(costs[treated, arm[treated]].sum()),
        uplift=float(gains[treated, arm[treated]].sum()),
        **at_cut,
    )


def check_money(amount: Any, name: str) -> float:
    """Validate a non-negative amount."""
    if (
        isinstance(amount, Real)
        and not isinstance(amount, bool)
        and 0 <= float(amount) <= _MOST_MONEY
    ):
        return float(amount)
    raise InputError(
        name, f"a number, 0 or more, up to {_MOST_MONEY:g}", repr(amount), "Pass one amount."
    )


def by_arm(given: Mapping[Any, Any], arms: Sequence[str], name: str) -> list[Any]:
    """Values by label, one for each arm, in the order of the arms."""
    found = {arm_text(label): own for label, own in given.items()}
    if set(found) != set(arms):
        raise InputError(
            name, f"given for each arm, {', '.join(map(repr, arms))}",
            ", ".join(map(repr, found)) or "none",
            "Name all arms but the control; 0 is a number as well.",
        )  # fmt: skip
    return [found[arm] for arm in arms]


def arm_costs(
    cost: Mapping[Any, float] | Sequence[float] | float | None, arms: Sequence[str]
) -> tuple[float, ...]:
    """Cost of each arm, (K,), given by label or in order; 1 each by default."""
    own: Any = by_arm(cost, arms, "cost") if isinstance(cost, Mapping) else cost
    amounts = np.broadcast_to(np.array(1.0 if own is None else own, dtype=object), len(arms))
    return tuple(check_money(amount, "cost") for amount in amounts)


# Below, worth and costs are (n, K + 1): the last column is the control, whose number is -1. Limits
# and their prices are (2 K + 1,): of money, of people in each arm, and of minus these people.


def _within_limits(
    worth: Floats, cost: Floats, money: float, most: Floats, least: Floats
) -> Indices:
    """Optimal arm of each person within the limits, -1 for the control, (n,).

    ``worth`` (n, K) is minus infinity where a person may not get an arm.
    """
    control = np.zeros(len(worth))
    unit = float(cost.max()) or 1.0  # as large as people, for a solver with seven digits
    worth, cost = np.column_stack([worth, control]), np.column_stack([cost, control]) / unit
    limit = np.concatenate([[money / unit], most, -least])
    parts, _ = _solve(worth, cost, limit, np.random.default_rng(0))
    if (_use(parts, cost) - limit > 1e-6 * (1 + least.max())).any():
        raise InputError(
            "at_least", "numbers that people, budget and at_most allow together",
            f"{' + '.join(f'{n:,.0f}' for n in least if n)} for {len(parts):,} people",
            "Lower at_least, or raise the budget or at_most.",
        )  # fmt: skip
    return _rounded(parts, cost, limit)


def _net(worth: Floats, cost: Floats, prices: Floats) -> Floats:
    """Net value of each arm at shadow prices of money and places, (n, K + 1)."""
    of_place, of_joining = prices[1:].reshape(2, -1)
    return worth - prices[0] * cost + np.append(of_joining - of_place, 0.0)


def _use(parts: Floats, cost: Floats) -> Floats:
    """Amount that shares of arms (n, K + 1) use of each limit, (2 K + 1,)."""
    counts = parts.sum(axis=0)[:-1]
    return np.concatenate([[(parts * cost).sum()], counts, -counts])


def _solve(worth: Floats, cost: Floats, limit: Floats, rng: Generator) -> tuple[Floats, Floats]:
    """Solve the relaxed problem: shares of arms (n, K + 1) and prices."""
    n_people = len(worth)
    if n_people <= _PROGRAM_PEOPLE:
        return _program(worth, cost, limit)
    n_some = max(_PROGRAM_PEOPLE, n_people // _PART)
    some = rng.choice(n_people, n_some, replace=False)
    _, start = _solve(worth[some], cost[some], limit * (n_some / n_people), rng)
    net = _net(worth, cost, start)
    second, first = np.partition(net, -2, axis=1)[:, -2:].T
    best = net.argmax(axis=1)
    # The error of a sample: some people, in the root of their number.
    n_asked = int(8 * n_people / np.sqrt(n_some))
    while True:
        # Those nearest to indifferent are solved for, the others get their best arm.
        n_asked = min(n_asked, n_people)
        asked = first - second <= np.partition(first - second, n_asked - 1)[n_asked - 1]
        parts = np.eye(worth.shape[1])[best]
        left = limit - _use(parts[~asked], cost[~asked])
        parts[asked], prices = _program(worth[asked], cost[asked], left)
        net = _net(worth, cost, prices)[~asked]
        own = net[np.arange(len(net)), best[~asked]]
        if (own >= net.max(axis=1) - 1e-9 * np.abs(own)).all():
            return parts, prices
        n_asked *= 2


def _program(worth: Floats, cost: Floats, limit: Floats) -> tuple[Floats, Floats]:
    """Solve the linear program: shares of arms (n, K + 1), and prices.

    It has a variable for each person and arm, and one for each limit: by how much it is exceeded,
    at a price that is paid only if there is no other way.
    """
    from scipy.optimize import linprog
    from scipy.sparse import csr_array

    n_people, n_arms = len(worth), worth.shape[1] - 1
    person, arm = np.nonzero(np.isfinite(worth))
    gain, place = worth[person, arm], np.eye(n_arms + 1)[arm, :-1]
    spread = float(np.ptp(gain)) or 1.0
    use = np.column_stack([cost[person, arm], place, -place])
    money = 2 / use[use[:, 0] > 0, 0].min(initial=np.inf)
    joining = 2 + money * float(use[:, 0].max())
    highest = np.repeat([money, 2, joining], [1, n_arms, n_arms])
    people = csr_array((np.ones(len(gain)), (person, np.arange(len(gain)))))
    people.resize(n_people, len(gain) + len(limit))
    used = np.isfinite(limit)
    found = linprog(
        np.append(-gain / spread, highest),
        A_ub=np.vstack([use, -np.eye(len(limit))]).T[used],
        b_ub=limit[used],
        A_eq=people,
        b_eq=np.ones(n_people),
        method="highs-ipm",  # simplex takes ten times as long
    )
    parts, prices = np.zeros(worth.shape), np.zeros(len(limit))
    parts[person, arm] = found.x[: len(gain)]
    prices[used] = -found.ineqlin.marginals * spread
    return parts, prices


def _rounded(parts: Floats, cost: Floats, limit: Floats) -> Indices:
    """Round shares of arms to whole people: -1 for the control, (n,)."""
    n_arms = parts.shape[1] - 1
    is_whole = parts.max(axis=1) > 1 - 1e-6
    whole = np.where(is_whole[:, None], parts.round(), 0.0)
    for person in np.flatnonzero(~is_whole):  # no more than there are limits
        # Money, places, and people that an arm still needs if negative.
        room = limit - _use(whole, cost)
        part, price = parts[person, :-1], cost[person, :-1]
        fits = (part > 1e-6) & (room[1 : n_arms + 1] >= 1) & (price <= room[0])
        # Arms that still need people first, then the larger parts.
        k = np.lexsort((-part, room[n_arms + 1 :] >= 0, ~fits))[0]
        whole[person, k] = fits[k]
    return np.where(whole[:, :-1].any(axis=1), whole.argmax(axis=1), -1)
