"""Whom to treat, from scores: a share of people, a budget, or cost against value.

People are taken from the highest score down. Where the cut falls among people of equal score, some
of them are treated and some not, and nothing in the score says who: ``ties="row"`` takes those who
come first, ``ties="random"`` draws them, the same ones for the same seed. The result says how many
were in question. Several arms: ``auucmax.targeting.arms``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, Literal

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from auucmax._shown import Shown
from auucmax._validation import Bools, Floats, check_choice, check_column, check_shares

TieRule = Literal["row", "random"]
TIE_RULES = ("row", "random")
_MOST_MONEY = 1e50  # for any person or outcome, whatever the currency


@dataclass(frozen=True, repr=False)
class Selection(Shown):
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
    """An amount that is not negative, and not so large that products with it are no numbers."""
    if (
        isinstance(amount, Real)
        and not isinstance(amount, bool)
        and 0 <= float(amount) <= _MOST_MONEY
    ):
        return float(amount)
    raise ValueError(
        f"{name} should be a number, 0 or more, up to {_MOST_MONEY:g}; got {amount!r}. Pass one "
        f"amount."
    )


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
