"""Several arms as steps: what a person's next arm adds, and what it costs.

A person's arms are points (cost, uplift), the control is (0, 0). Only those on the upper hull are
ever worth having: from each point the next is the one that adds most uplift for the money, and each
such step adds less for the money than the one before. The *rate* of a step, uplift added over cost
added, plays the part that a score plays for one arm: all steps of all people, from the highest rate
down, are the assignments for every budget, and whatever is spent in the end, no other choice of
arms at that cost or less has a higher total of the given uplifts.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from auucmax._validation import Bools, Floats
from auucmax.metrics.ranking import blocks, rank_rows


class Steps(NamedTuple):
    """Moves of people from one arm to a better one, (number of moves,) each.

    ``person`` moves from the arm ``before`` to ``arm`` (columns of the uplifts, -1 for the
    control), which is that person's first, second, ... step (``number`` 0, 1, ...). ``cost`` and
    ``uplift`` are what the step adds, ``rate`` is uplift over cost, which falls along a person's
    steps.
    """

    person: NDArray[np.intp]
    number: NDArray[np.intp]
    before: NDArray[np.intp]
    arm: NDArray[np.intp]
    cost: Floats
    uplift: Floats
    rate: Floats

    def take(self, index: NDArray[Any] | slice) -> Steps:
        """Some of the steps, in this order."""
        taken: list[Any] = [column[index] for column in self]
        return Steps(*taken)


def arm_steps(uplift: Floats, cost: Floats, allowed: Bools | None = None) -> Steps:
    """The steps of all people along their hulls: at most K a person, O(n K^2).

    ``uplift``, ``cost`` and, if some people may not get some arms, ``allowed`` are (n, K).

    >>> steps = arm_steps(np.array([[0.3, 0.5], [0.2, 0.1]]), np.array([[1.0, 3.0], [1.0, 3.0]]))
    >>> steps.person.tolist(), steps.arm.tolist(), steps.rate.round(2).tolist()
    ([0, 1, 0], [0, 0, 1], [0.3, 0.2, 0.1])
    """
    found: list[Steps] = []
    for block in blocks(len(uplift)):  # of which all numbers stay in the processor's cache
        columns = [
            (uplift[block, k].copy(), cost[block, k].copy(), free)
            for k, free in enumerate(
                [None] * uplift.shape[1] if allowed is None else allowed[block].T.copy()
            )
        ]
        here = _Standing.at_the_control(block.stop - block.start)
        for number in range(len(columns)):
            step, here = here.next(columns, number)
            if not len(step.person):
                break
            found.append(step._replace(person=step.person + block.start))
    if not found:
        none = np.empty(0, dtype=np.intp)
        return Steps(none, none, none, none, *(np.empty(0) for _ in range(3)))
    return Steps(*(np.concatenate(columns) for columns in zip(*found, strict=True)))


class _Standing(NamedTuple):
    """People who may have a further step, (m,) each: who, their arm, what it brings and costs."""

    person: NDArray[np.intp]
    arm: NDArray[np.intp]
    uplift: Floats
    cost: Floats
    rate: Floats  # of the last step

    @classmethod
    def at_the_control(cls, n_people: int) -> _Standing:
        zeros = np.zeros(n_people)
        start = np.full(n_people, np.inf)
        return cls(np.arange(n_people), np.full(n_people, -1), zeros, zeros, start)

    def next(
        self, columns: list[tuple[Floats, Floats, Bools | None]], number: int
    ) -> tuple[Steps, _Standing]:
        """The best step of each person who has one, and where they stand after it."""
        top, n_equal = np.full(len(self.person), -np.inf), np.ones(len(self.person), np.int64)
        # Arms that bring and cost the same are shared: the j-th of them is taken once in j times.
        draw = (self.person * 0x9E3779B1) >> 7
        arm, uplift, cost = self.arm.copy(), self.uplift.copy(), self.cost.copy()
        everybody = number == 0
        for k, (gain, price, free) in enumerate(columns):
            own, own_price = (gain, price) if everybody else (gain[self.person], price[self.person])
            more_gain, more_cost = own - self.uplift, own_price - self.cost
            # No arm is both cheaper and better than where a person stands: it would come first.
            possible = (more_gain > 0) & (more_cost >= 0)
            if free is not None:
                possible &= free if everybody else free[self.person]
            with np.errstate(divide="ignore", invalid="ignore"):
                rate = np.where(possible, more_gain / more_cost, -np.inf)
            # Among arms of the same rate the cheapest: a dearer one is a further step.
            equal = (rate == top) & possible
            better = (rate > top) | (equal & (own_price < cost))
            equal &= own_price == cost
            better |= equal & (own > uplift)  # of arms that cost nothing more
            equal &= own == uplift
            n_equal = np.where(better, 1, n_equal + equal)
            better |= equal & (draw % n_equal == 0)
            top[better], arm[better] = rate[better], k
            uplift[better], cost[better] = own[better], own_price[better]
        on = np.flatnonzero(top > -np.inf)
        # Rounding could make a later rate the higher one, and turn the order around.
        after = _Standing(
            self.person[on], arm[on], uplift[on], cost[on], np.minimum(self.rate[on], top[on])
        )
        step = Steps(
            after.person,
            np.full(len(on), number),
            self.arm[on],
            after.arm,
            after.cost - self.cost[on],
            after.uplift - self.uplift[on],
            after.rate,
        )
        return step, after


def best_steps_first(steps: Steps, keys: NDArray[Any]) -> NDArray[np.intp]:
    """The order of steps from the highest rate down; among equals by the person's key, (n,).

    A person's steps stay in their order: their rates fall, or are equal.
    """
    # A person's steps come in their order: stable sorts keep it where rates are equal.
    order = np.argsort(keys[steps.person], kind="stable")
    return order[rank_rows(-steps.rate[order]).order] if len(order) else order


def check_uplifts(uplift: ArrayLike) -> Floats:
    """A finite number for each person and arm, (n, K)."""
    gains = np.asarray(uplift, dtype=np.float64)
    gains = gains[:, None] if gains.ndim == 1 else gains
    if gains.ndim != 2 or gains.size == 0 or not np.isfinite(gains).all():
        raise ValueError(
            f"uplift should hold a finite number for each person and arm, got an array of shape "
            f"{np.shape(uplift)} with {int((~np.isfinite(gains)).sum())} that are not finite. "
            f"Pass one row a person and one column an arm."
        )
    return gains


def check_costs(cost: Any, shape: tuple[int, ...]) -> Floats:
    """The cost of each person and arm, (n, K); a view if it is the same for all people."""
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
