"""Who gets which of several arms, within a budget.

A person's arms are points (cost, uplift), the control is (0, 0). Only those on the upper hull are
ever worth having: from each point the next is the one that adds most uplift for the money, and each
such step adds less for the money than the one before. All steps of all people are then taken from
the best down. Whatever is spent in the end, no other choice of arms at that cost or less has a
higher total of the given uplifts; some money, less than the next step costs, may be left.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from auucmax._validation import Floats
from auucmax.targeting.policy import TieRule, check_money, rounding_of, tie_keys


@dataclass(frozen=True)
class ArmChoice:
    """``arm`` (n,): the column of the arm that each person gets, -1 for the control.

    ``counts`` (K,) people an arm, ``cost`` of them all, ``uplift`` the sum of their given uplifts:
    an expectation only as far as these are calibrated.
    """

    arm: NDArray[np.intp]
    counts: tuple[int, ...]
    cost: float
    uplift: float
    ties: TieRule

    @property
    def n_treated(self) -> int:
        return sum(self.counts)


def choose_arms(
    uplift: ArrayLike,
    *,
    cost: float | ArrayLike = 1.0,
    budget: float | None = None,
    value: float | None = None,
    ties: TieRule = "row",
    random_state: int | Generator | None = 0,
) -> ArmChoice:
    """Give each person the control or one of K arms: most uplift for the money.

    Steps to a better arm are taken while the budget lasts and, if ``value`` is given, while
    value * (uplift added) > (cost added). An arm that is not estimated to help is never chosen.
    With one cost for all arms everybody's best arm is ranked, as by ``MultiArm.rank_pairs``.

    Parameters
    ----------
    uplift : (n, K) uplift of each arm over the control for each person, all on one scale, such as
        ``MultiArm.predict``; or (n,) for one arm.
    cost : of a person treated: a number, (K,) one an arm, or (n, K).
    budget : None for no limit. With the default cost of 1 it is a number of people.
    value : of one unit of the outcome, in the units of cost; None to leave no money unspent.
    ties, random_state : which of several equally good steps is taken first: that of the first row
        (``"row"``), or a random one (``"random"``), the same one for the same seed.

    Examples
    --------
    >>> uplift = [[0.3, 0.5], [0.2, 0.1], [0.0, -0.1]]
    >>> choose_arms(uplift, cost=[1, 3], budget=2).arm.tolist()
    [0, 0, -1]
    >>> choose_arms(uplift, cost=[1, 3], budget=4).arm.tolist()
    [1, 0, -1]
    """
    gains = _matrix(uplift)
    costs = _cost_matrix(cost, gains.shape)
    keys = tie_keys(len(gains), ties, random_state)
    steps = _all_steps(gains, costs)
    if value is not None:
        worth = check_money(value, "value") * steps.uplift > steps.cost
        steps = steps.take(np.flatnonzero(worth))
    order = np.lexsort((steps.number, keys[steps.person], -steps.rate))
    if budget is not None:
        money = check_money(budget, "budget")
        spent = np.cumsum(steps.cost[order])
        order = order[: np.searchsorted(spent, money + rounding_of(money), side="right")]
    steps = steps.take(order)
    arm = np.full(len(gains), -1)
    arm[steps.person] = steps.arm  # a person's later steps come later in the order
    treated = np.flatnonzero(arm >= 0)
    return ArmChoice(
        arm=arm,
        counts=tuple(np.bincount(arm[treated], minlength=gains.shape[1]).tolist()),
        cost=float(costs[treated, arm[treated]].sum()),
        uplift=float(gains[treated, arm[treated]].sum()),
        ties=ties,
    )


class _Steps(NamedTuple):
    """Moves of people from one arm to a better one: (number of moves,) each."""

    person: NDArray[Any]
    number: NDArray[Any]  # first, second, ... step of the person
    arm: NDArray[Any]  # after the step
    cost: NDArray[Any]  # added
    uplift: NDArray[Any]  # added
    rate: NDArray[Any]  # uplift for the money, falling along a person's steps

    def take(self, index: NDArray[np.intp]) -> _Steps:
        return _Steps(*(column[index] for column in self))


def _all_steps(gains: Floats, costs: Floats) -> _Steps:
    """At most K steps a person, each found for all people together: O(n K^2)."""
    n_people, n_arms = gains.shape
    people = np.arange(n_people)
    gain, spent, last_rate = np.zeros(n_people), np.zeros(n_people), np.full(n_people, np.inf)
    found: list[_Steps] = []
    for number in range(n_arms):
        more_gain, more_cost = gains[people] - gain[:, None], costs[people] - spent[:, None]
        # No arm is both cheaper and better than where the person stands: it would have come first.
        possible = (more_gain > 0) & (more_cost >= 0)
        rate = np.divide(
            more_gain, more_cost, out=np.full_like(more_gain, np.inf), where=more_cost > 0
        )
        rate[~possible] = -np.inf
        top = rate.max(axis=1, initial=-np.inf)
        # Among arms of the same rate the cheapest: a dearer one is a further step.
        arm = np.where(rate == top[:, None], more_cost, np.inf).argmin(axis=1)
        on = np.flatnonzero(top > -np.inf)
        people, arm, place = people[on], arm[on], (on, arm[on])
        last_rate = np.minimum(last_rate[on], top[on])
        found.append(
            _Steps(
                people, np.full(len(on), number), arm, more_cost[place], more_gain[place], last_rate
            )
        )
        gain, spent = gains[people, arm], costs[people, arm]
    return _Steps(*(np.concatenate(columns) for columns in zip(*found, strict=True)))


def _matrix(uplift: ArrayLike) -> Floats:
    gains = np.asarray(uplift, dtype=np.float64)
    gains = gains[:, None] if gains.ndim == 1 else gains
    if gains.ndim != 2 or gains.size == 0 or not np.isfinite(gains).all():
        raise ValueError(
            f"uplift should hold a finite number for each person and arm, got an array of shape "
            f"{np.shape(uplift)} with {int((~np.isfinite(gains)).sum())} that are not finite. "
            f"Pass one row a person and one column an arm."
        )
    return gains


def _cost_matrix(cost: Any, shape: tuple[int, ...]) -> Floats:
    costs = np.asarray(cost, dtype=np.float64)
    if costs.shape not in ((), shape[1:], shape):
        raise ValueError(
            f"cost should be a number, one an arm ({shape[1]}) or one a person and arm {shape}; "
            f"got an array of shape {costs.shape}. Pass one of these."
        )
    if not np.isfinite(costs).all() or costs.min() < 0:
        raise ValueError(
            f"cost should hold finite numbers, 0 or more, got a lowest of {costs.min():g}. "
            f"Count what treatment brings in as value."
        )
    return np.broadcast_to(costs, shape)
