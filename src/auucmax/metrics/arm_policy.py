"""Who gets which of several arms at every budget: steps of people, and where budgets cut them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from auucmax._validation import Bools, Floats
from auucmax.metrics.arm_steps import Steps, arm_steps, best_steps_first

_BLOCK = 4096  # people whose parts at all budgets are in memory together


@dataclass(frozen=True, eq=False)
class Policy:
    """Who gets which arm at every budget.

    ``steps`` are sorted by person. Step s is taken between the budgets per person ``start`` and
    ``end``, (steps,) each: steps of one rate are taken together, in equal parts. ``most`` is what
    all steps cost per person; ``most_of_fold`` (n,), if each fold spends the budget by itself, what
    those of a person's fold cost.
    """

    steps: Steps
    start: Floats
    end: Floats
    n_people: int
    most: float
    most_of_fold: Floats | None = None

    @classmethod
    def of(
        cls,
        uplift: Floats,
        cost: Floats,
        allowed: Bools | None = None,
        people: Floats | None = None,
    ) -> Self:
        """By uplifts (n, K), which must come from other rows than those that judge the policy.

        ``people`` (n,): how many people a row stands for, with a mean of 1; None: one each.
        """
        n_people = len(uplift)
        steps = arm_steps(uplift, cost, allowed)
        steps = steps.take(best_steps_first(steps, np.arange(n_people)))
        first = np.flatnonzero(steps.rate != np.concatenate([[-1.0], steps.rate])[:-1])
        sizes = np.diff(np.append(first, len(steps.rate)))
        spent = steps.cost if people is None else steps.cost * people[steps.person]
        ends = np.cumsum(spent)[first + sizes - 1] / n_people
        starts = np.concatenate([[0.0], ends])[: len(ends)]
        order = np.argsort(steps.person, kind="stable")
        return cls(
            steps.take(order),
            np.repeat(starts, sizes)[order],
            np.repeat(ends, sizes)[order],
            n_people,
            float(ends[-1]) if len(ends) else 0.0,
        )

    @classmethod
    def of_folds(
        cls, uplift: Floats, cost: Floats, fold: NDArray[Any], allowed: Bools | None = None
    ) -> Self:
        """The same in each fold by itself, (n,) its numbers, if uplifts are of models of folds.

        A fold whose uplifts are high has learnt from other folds with high outcomes, and so has low
        ones itself: cut at one rate, it would be preferred, and the gain be told too low.
        """
        found, most = list[tuple[Any, ...]](), np.zeros(len(uplift))
        for number in np.unique(fold):
            own = np.flatnonzero(fold == number)
            free = None if allowed is None else allowed[own]
            part = cls.of(uplift[own], cost[own], free)
            found.append(
                (*part.steps._replace(person=own[part.steps.person]), part.start, part.end)
            )
            most[own] = part.most
        *steps, start, end = (np.concatenate(columns) for columns in zip(*found, strict=True))
        order = np.argsort(steps[0], kind="stable")
        taken = Steps(*steps).take(order)
        return cls(taken, start[order], end[order], len(uplift), float(most.max()), most)

    @classmethod
    def of_one_arm(
        cls, uplift: Floats, cost: Floats, arm: int, fold: NDArray[Any] | None = None
    ) -> Self:
        """The policy if there were no other arm than this one (0, 1, ...)."""
        allowed = np.zeros(uplift.shape, dtype=bool)
        allowed[:, arm] = True
        if fold is not None:
            return cls.of_folds(uplift, cost, fold, allowed)
        return cls.of(uplift, cost, allowed)

    @classmethod
    def of_everybody(cls, n_people: int, cost: Floats, arm: int) -> Self:
        """One arm for everybody, or for random people where the budget pays for some only."""
        people = np.arange(n_people)
        own = np.ascontiguousarray(cost[:, arm])
        most = float(own.mean())
        steps = Steps(
            people, np.zeros(n_people, np.intp), np.full(n_people, -1), np.full(n_people, arm),
            own, own, np.ones(n_people),
        )  # fmt: skip
        return cls(steps, np.zeros(n_people), np.full(n_people, most), n_people, most)

    def parts(self, budget: Floats, n_arms: int) -> Iterator[tuple[slice, Floats]]:
        """For blocks of people: the people, and M (people, K, J), the part of each arm they get."""
        for first in range(0, self.n_people, _BLOCK):
            people = slice(first, min(first + _BLOCK, self.n_people))
            own = slice(*np.searchsorted(self.steps.person, (people.start, people.stop)))
            part = self._taken(budget, own)
            steps = self.steps.take(own)
            found = np.zeros((people.stop - first, n_arms, len(budget)))
            for number in range(int(steps.number.max(initial=-1)) + 1):
                now = np.flatnonzero(steps.number == number)  # each person at most once
                person = steps.person[now] - first
                found[person, steps.arm[now]] += part[now]
                if number:
                    found[person, steps.before[now]] -= part[now]
            yield people, found

    def spent(self, budget: Floats, people: slice) -> Floats:
        """(people or 1, J) what is spent per person: all that there is to be spent, at most."""
        if self.most_of_fold is None:
            return np.minimum(budget, self.most)[None, :]
        return np.minimum(budget[None, :], self.most_of_fold[people, None])

    def _taken(self, budget: Floats, some: slice) -> Floats:
        """(some steps, J) the part of each step that each budget pays for."""
        start, end = self.start[some, None], self.end[some, None]
        with np.errstate(divide="ignore", invalid="ignore"):
            part = np.clip((budget - start) / (end - start), 0.0, 1.0)
        # Rounding must not cut off the last step; one that costs nothing is taken at once.
        return np.where(budget >= end * (1 - 1e-12), 1.0, np.nan_to_num(part))
