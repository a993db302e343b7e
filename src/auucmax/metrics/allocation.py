"""Optimal arms at every budget: steps along each person's hull of (cost, uplift).

A person's arms are points (cost, uplift); the control is (0, 0). Only the points on the upper hull
are worth having: from each of them the next is the one that adds most uplift per cost, and every
step adds less per cost than the step before. The *rate* of a step, uplift added over cost added,
plays the part that a score plays for one arm: the steps of all people, from the highest rate down,
are the allocations for every budget. No other choice of arms at the same total cost has a higher
total of the given uplifts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from auucmax._errors import InputError
from auucmax._validation import Bools, Floats
from auucmax.metrics.intervals import ratio
from auucmax.metrics.ranking import Indices, rank_rows

_IN_CACHE = 2**15  # people whose next steps fit into the processor's cache
_BLOCK = 4096  # people whose parts at all budgets are in memory together


class Steps(NamedTuple):
    """Moves of people from one arm to a better one; arrays of equal length.

    ``person`` moves from the arm ``before`` to ``arm`` (columns of the uplifts, -1 for the
    control); ``number`` counts a person's steps from 0. ``cost`` and ``uplift`` are what the step
    adds, ``rate`` is uplift over cost, which falls along the steps of a person.
    """

    person: Indices
    number: Indices
    before: Indices
    arm: Indices
    cost: Floats
    uplift: Floats
    rate: Floats

    def take(self, index: NDArray[Any] | slice) -> Steps:
        """Select steps, in this order."""
        columns: list[Any] = [column[index] for column in self]
        return Steps(*columns)

    @classmethod
    def joined(cls, parts: list[Steps]) -> Steps:
        """Concatenate lists of steps."""
        return cls(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))

    def best_first(self) -> Indices:
        """Order of the steps from the highest rate down; ties keep the order of people.

        The steps of a person stay in their order, because their rates never rise.
        """
        # Stable sorts keep the steps of a person in order where rates are equal.
        order = np.argsort(self.person, kind="stable")
        return order[rank_rows(-self.rate[order]).order] if len(order) else order


def arm_steps(uplift: Floats, cost: Floats, allowed: Bools | None = None) -> Steps:
    """Steps of all people along their hulls, at most K per person; O(n K^2).

    ``uplift``, ``cost`` and, if some people may not get some arms, ``allowed`` are (n, K).

    >>> steps = arm_steps(np.array([[0.3, 0.5], [0.2, 0.1]]), np.array([[1.0, 3.0], [1.0, 3.0]]))
    >>> steps.person.tolist(), steps.arm.tolist(), steps.rate.round(2).tolist()
    ([0, 1, 0], [0, 0, 1], [0.3, 0.2, 0.1])
    """
    found: list[Steps] = []
    n_arms = uplift.shape[1]
    for start in range(0, len(uplift), _IN_CACHE):
        block = slice(start, min(start + _IN_CACHE, len(uplift)))
        gains, prices = uplift[block].T.copy(), cost[block].T.copy()
        if allowed is not None:
            gains[~allowed[block].T] = -np.inf
        n = block.stop - start
        # Everybody starts at the control. These columns are about the people who may have a
        # further step: who, their arm, its uplift and cost, and the rate of their last step.
        person, arm = np.arange(n), np.full(n, -1)
        gain, price, rate = np.zeros(n), np.zeros(n), np.full(n, np.inf)
        for number in range(n_arms):
            more_gain, more_cost = gains - gain, prices - price
            # No arm is both cheaper and better than a person's own: it would have come first.
            best = (more_gain > 0) & (more_cost >= 0)
            with np.errstate(divide="ignore", invalid="ignore"):
                rates = np.where(best, more_gain / more_cost, -np.inf)
            top = rates.max(axis=0)
            best &= rates == top
            if (best.sum(axis=0, dtype=np.int32) > 1).any():
                # Among arms of the same rate the cheapest: the others are further steps. Among arms
                # that cost nothing more the one that gains most.
                best &= prices == np.where(best, prices, np.inf).min(axis=0)
                best &= gains == np.where(best, gains, -np.inf).max(axis=0)
                # Arms with the same uplift and cost are shared: the j-th is taken once in j times.
                draw = (person * 0x9E3779B1) >> 7
                best &= draw % np.maximum(np.cumsum(best, axis=0), 1) == 0
            on = np.flatnonzero(top > -np.inf)
            chosen = n_arms - 1 - best[::-1, on].argmax(axis=0)
            next_gain, next_price = gains[chosen, on], prices[chosen, on]
            # Rounding could make a later rate the higher one and change the order.
            rate = np.minimum(rate[on], top[on])
            found.append(
                Steps(
                    person=person[on] + start,
                    number=np.full(len(on), number),
                    before=arm[on],
                    arm=chosen,
                    cost=next_price - price[on],
                    uplift=next_gain - gain[on],
                    rate=rate,
                )
            )
            if not len(on):
                break
            person, arm, gain, price = person[on], chosen, next_gain, next_price
            gains, prices = gains[:, on], prices[:, on]
    return Steps.joined(found)


def check_uplifts(
    uplift: ArrayLike,
    n_rows: int | None = None,
    n_columns: int | None = None,
    name: str = "uplift",
) -> Floats:
    """Validate a table of finite numbers (n, K), such as uplifts."""
    table = np.asarray(uplift, dtype=np.float64)
    table = table[:, None] if table.ndim == 1 else table
    is_table = table.ndim == 2 and table.size > 0 and n_rows in (None, len(table))
    if is_table and n_columns is not None:
        is_table = table.shape[1] == n_columns
    if not is_table or not np.isfinite(table).all():
        n_wrong = int((~np.isfinite(table)).sum())
        raise InputError(
            name, f"a finite number for each person ({n_rows or 'n'}) and arm ({n_columns or 'K'})",
            f"shape {np.shape(uplift)} with {n_wrong} values that are not finite",
            "Pass one row per person and one column per arm, a control first if it has one.",
        )  # fmt: skip
    return table


def check_chances(propensity: ArrayLike, n_rows: int, n_arms: int) -> Floats:
    """Validate probabilities of the control and of K arms by design, (n, K + 1)."""
    chance = np.asarray(propensity, dtype=np.float64)
    if (
        chance.shape != (n_rows, n_arms + 1)
        or not (chance > 0).all()
        or np.abs(chance.sum(axis=1) - 1).max() > 1e-6
    ):
        raise InputError(
            "propensity",
            f"a row for each of {n_rows:,} people, the chances of the control and of {n_arms} "
            f"arms, above 0, which add up to 1",
            f"an array of shape {chance.shape} or other numbers", "Pass the chances by design.",
        )  # fmt: skip
    return chance


def check_costs(cost: Any, shape: tuple[int, ...]) -> Floats:
    """Validate costs per person and arm, (n, K); a view if costs do not vary by person."""
    costs = np.asarray(cost, dtype=np.float64)
    if costs.shape not in ((), shape[1:], shape) or not (np.isfinite(costs) & (costs >= 0)).all():
        raise InputError(
            "cost", f"finite, 0 or more: a number, one per arm ({shape[1]}) or an array {shape}",
            f"shape {costs.shape} with a lowest value of {costs.min(initial=np.inf):g}",
            "Count what treatment brings in as value.",
        )  # fmt: skip
    return np.broadcast_to(costs, shape)


def score_steps(score: Floats, cost: Floats, allowed: Bools | None = None) -> Steps:
    """One step per person to the only arm, with the score as its rate, whatever its sign."""
    person = np.arange(len(score)) if allowed is None else np.flatnonzero(allowed)
    none = np.zeros(len(person), dtype=np.intp)
    return Steps(person, none, none - 1, none, cost[person], score[person], score[person])


@dataclass(frozen=True, eq=False)
class Allocation:
    """Who gets which arm at every budget.

    ``steps`` are sorted by person. Each is taken between the budgets per person ``start`` and
    ``end``, (steps,) each: steps of one rate are taken together, in equal parts. ``most`` (n,) is
    what all steps cost per person, in the fold of each person.
    """

    steps: Steps
    start: Floats
    end: Floats
    most: Floats

    @classmethod
    def of(
        cls,
        uplift: Floats,
        cost: Floats,
        allowed: Bools | None = None,
        *,
        people: Floats | None = None,
        fold: NDArray[Any] | None = None,
    ) -> Self:
        """Allocate by uplifts (n, K) from models trained on other rows.

        Parameters
        ----------
        people : (n,) how many people a row stands for.
        fold : (n,) if the uplifts come from models of several folds: each fold spends the budget
            by itself. A fold with high uplifts was scored by a model trained on folds with high
            outcomes, so its own outcomes are low; cut at one rate, it would be preferred.
        """
        people = np.ones(len(uplift)) if people is None else people
        fold = np.zeros(len(uplift)) if fold is None else fold
        found, starts, ends, most = list[Steps](), [], [], np.zeros(len(uplift))
        for number in np.unique(fold):
            own = np.flatnonzero(fold == number)
            free = None if allowed is None else allowed[own]
            steps = arm_steps(uplift[own], cost[own], free)
            steps = steps.take(steps.best_first())
            paid = np.cumsum(steps.cost * people[own][steps.person]) / people[own].sum()
            paid = np.append(0.0, paid)
            sizes = np.unique(-steps.rate, return_counts=True)[1]  # of steps of one rate
            cuts = paid[np.append(0, np.cumsum(sizes))]
            starts.append(np.repeat(cuts[:-1], sizes))
            ends.append(np.repeat(cuts[1:], sizes))
            found.append(steps._replace(person=own[steps.person]))
            most[own] = paid[-1]
        steps = Steps.joined(found)
        order = np.argsort(steps.person, kind="stable")
        return cls(
            steps.take(order), np.concatenate(starts)[order], np.concatenate(ends)[order], most
        )

    def parts(self, budget: Floats, n_arms: int) -> Iterator[tuple[slice, Floats]]:
        """Yield blocks of people with M (people, K, J), their share of each arm at each budget."""
        for first in range(0, len(self.most), _BLOCK):
            people = slice(first, min(first + _BLOCK, len(self.most)))
            own = slice(*np.searchsorted(self.steps.person, (people.start, people.stop)))
            steps, start, end = self.steps.take(own), self.start[own, None], self.end[own, None]
            part = ratio(budget - start, end - start)
            # Rounding must not cut off the last step; one that costs nothing is taken at once.
            part = np.where(budget >= end * (1 - 1e-12), 1.0, np.clip(part, 0.0, 1.0))
            found = np.zeros((people.stop - first, n_arms, len(budget)))
            for number in range(int(steps.number.max(initial=-1)) + 1):
                now = np.flatnonzero(steps.number == number)  # each person at most once
                person = steps.person[now] - first
                found[person, steps.arm[now]] += part[now]
                if number:
                    found[person, steps.before[now]] -= part[now]
            yield people, found
