"""Whom to treat, from scores: a share of people, a budget, or cost against value.

People are taken from the highest score down. Where the cut falls among people of equal score, some
of them are treated and some not, and nothing in the score says who: ``ties="row"`` takes those who
come first, ``ties="random"`` draws them, the same ones for the same seed. The result says how many
were in question.

Who gets which of several arms, within a budget.

A person's arms are points (cost, uplift), the control is (0, 0). Only those on the upper hull are
ever worth having: from each point the next is the one that adds most uplift for the money, and each
such step adds less for the money than the one before. All steps of all people are then taken from
the best down. Whatever is spent in the end, no other choice of arms at that cost or less has a
higher total of the given uplifts; some money, less than the next step costs, may be left.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from auucmax._validation import Bools, Floats, check_choice, check_column, check_shares


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
    gains = np.asarray(uplift, dtype=np.float64)
    gains = gains[:, None] if gains.ndim == 1 else gains
    if gains.ndim != 2 or gains.size == 0 or not np.isfinite(gains).all():
        raise ValueError(
            f"uplift should hold a finite number for each person and arm, got an array of shape "
            f"{np.shape(uplift)} with {int((~np.isfinite(gains)).sum())} that are not finite. "
            f"Pass one row a person and one column an arm."
        )
    costs = _cost_matrix(cost, gains.shape)
    keys = tie_keys(len(gains), ties, random_state)
    steps = _all_steps(gains, costs)
    if value is not None:
        worth = check_money(value, "value") * steps.uplift > steps.cost
        steps = steps.take(np.flatnonzero(worth))
    # By rate, so that a person's steps stay in their order: each adds less for the money.
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
        # Rounding could make a later rate the higher one, and turn the order around.
        last_rate = np.minimum(last_rate[on], top[on])
        added = more_cost[place], more_gain[place]
        found.append(_Steps(people, np.full(len(on), number), arm, *added, last_rate))
        gain, spent = gains[people, arm], costs[people, arm]
    return _Steps(*(np.concatenate(columns) for columns in zip(*found, strict=True)))


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


TieRule = Literal["row", "random"]
TIE_RULES = ("row", "random")


@dataclass(frozen=True)
class Selection:
    """Who is treated: ``treat`` (n,) is True for them.

    ``threshold`` is the lowest score among them (infinite if there is nobody). Of the ``n_tied``
    people who have it, ``n_tied_treated`` are treated, chosen as ``ties`` says.
    """

    treat: Bools
    threshold: float
    n_treated: int
    cost: float
    n_tied: int
    n_tied_treated: int
    ties: TieRule

    def __str__(self) -> str:
        people = f"{self.n_treated:,} of {len(self.treat):,} people"
        if self.n_treated == 0:
            return people
        text = f"{people}, scores of {self.threshold:.4g} and higher, cost {self.cost:,.2f}"
        if self.n_tied_treated == self.n_tied:
            return text
        how = "drawn at random" if self.ties == "random" else "taken in the order of the rows"
        return (
            f"{text}; {self.n_tied_treated:,} of the {self.n_tied:,} people at the lowest score "
            f"are treated, {how}"
        )


def top_share(
    score: ArrayLike,
    share: float,
    *,
    cost: float | ArrayLike = 0.0,
    ties: TieRule = "row",
    random_state: int | Generator | None = 0,
) -> Selection:
    """The round(share * n) people of the highest scores.

    Parameters
    ----------
    score : (n,) higher is treated first.
    share : from 0 to 1.
    cost : of treating a person, a number or (n,); only added up.
    ties, random_state : who is treated among equals at the cut, see
        :mod:`auucmax.targeting.policy`.

    Examples
    --------
    >>> print(top_share([0.1, 0.3, 0.2, 0.2], 0.5, cost=2))
    2 of 4 people, scores of 0.2 and higher, cost 4.00; 1 of the 2 people at the lowest score are
    treated, taken in the order of the rows
    """
    values = check_column(score, "score")
    shares = check_shares(share)
    if np.ndim(share) != 0:
        raise ValueError(f"share should be one number, got {len(shares)}. Call once for each.")
    order = _best_first(values, ties, random_state)
    costs = _costs(cost, len(values))
    return _selection(values, order[: round(float(shares[0]) * len(values))], costs, ties)


def within_budget(
    score: ArrayLike,
    budget: float,
    *,
    cost: float | ArrayLike,
    minimum: float | None = None,
    ties: TieRule = "row",
    random_state: int | Generator | None = 0,
) -> Selection:
    """From the highest score down, the most people that the money pays for.

    With one cost for all that is floor(budget / cost) people. With a cost for each it is the
    longest top of the list that can be paid: nobody is skipped for a cheaper one further down. To
    get most for the money then, pass calibrated uplift over cost as the score.

    Parameters
    ----------
    score : (n,) higher is treated first.
    budget : in the units of cost, 0 or more.
    cost : of treating a person, a number or (n,), 0 or more.
    minimum : people whose score is not above it are left out even if there is money for them; with
        calibrated uplift, 0 leaves out those who are estimated not to gain.
    ties, random_state : who is treated among equals at the cut, see
        :mod:`auucmax.targeting.policy`.

    Examples
    --------
    >>> within_budget([0.1, 0.3, 0.2], 5, cost=2).treat.tolist()
    [False, True, True]
    """
    values = check_column(score, "score")
    money = check_money(budget, "budget")
    costs = _costs(cost, len(values))
    order = _best_first(values, ties, random_state)
    spent = np.cumsum(costs[order])
    n_treated = int(np.searchsorted(spent, money + rounding_of(money), side="right"))
    if minimum is not None:
        n_treated = min(n_treated, int(np.count_nonzero(values > minimum)))
    return _selection(values, order[:n_treated], costs, ties)


def worth_treating(uplift: ArrayLike, *, value: float, cost: float | ArrayLike = 0.0) -> Selection:
    """Everybody whose expected gain is worth more than its cost: value * uplift > cost.

    Parameters
    ----------
    uplift : (n,) calibrated uplift per person, not a mere score: see :func:`calibrate`.
    value : of one unit of the outcome, 0 or more.
    cost : of treating a person, a number or (n,), 0 or more.

    Examples
    --------
    >>> worth_treating([0.01, 0.05, 0.03], value=100, cost=2).treat.tolist()
    [False, True, True]
    """
    gains = check_column(uplift, "uplift")
    costs = _costs(cost, len(gains))
    worth = check_money(value, "value") * gains > costs
    found = _selection(gains, np.flatnonzero(worth), costs, "row")
    return replace(found, n_tied=found.n_tied_treated)  # no tie is broken: costs tell them apart


def check_money(amount: Any, name: str) -> float:
    """A finite amount that is not negative."""
    if isinstance(amount, Real) and not isinstance(amount, bool) and 0 <= float(amount) < np.inf:
        return float(amount)
    raise ValueError(f"{name} should be a number, 0 or more, got {amount!r}. Pass one amount.")


def rounding_of(money: float) -> float:
    """What sums of costs may miss an amount by: thirty times 0.1 is not 3."""
    return 1e-9 * money


def tie_keys(n_rows: int, ties: str, random_state: int | Generator | None) -> NDArray[np.intp]:
    """(n,) different whole numbers; among equals the lowest goes first."""
    check_choice(ties, "ties", TIE_RULES)
    if ties == "row":
        return np.arange(n_rows)
    return np.random.default_rng(random_state).permutation(n_rows)


def _best_first(score: Floats, ties: str, random_state: int | Generator | None) -> NDArray[np.intp]:
    return np.lexsort((tie_keys(len(score), ties, random_state), -score))


def _costs(cost: float | ArrayLike, n_rows: int) -> Floats:
    if np.ndim(cost) == 0:
        return np.full(n_rows, check_money(cost, "cost"))
    costs = check_column(cost, "cost", n_rows, than="score")
    if costs.min() < 0:
        raise ValueError(
            f"cost should not be negative, got a lowest cost of {costs.min():g}. "
            f"Count what treatment brings in as value."
        )
    return costs


def _selection(score: Floats, chosen: NDArray[np.intp], costs: Floats, ties: TieRule) -> Selection:
    treat = np.zeros(len(score), dtype=bool)
    treat[chosen] = True
    threshold = float(score[chosen].min()) if len(chosen) else np.inf
    at_cut = score == threshold
    return Selection(
        treat=treat,
        threshold=threshold,
        n_treated=len(chosen),
        cost=float(costs[treat].sum()),
        n_tied=int(np.count_nonzero(at_cut)),
        n_tied_treated=int(np.count_nonzero(at_cut & treat)),
        ties=ties,
    )
