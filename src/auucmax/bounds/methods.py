"""The methods that ``certify`` chooses from: how each is called, and what it assumes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from auucmax._validation import Floats
from auucmax.bounds.bernstein import dkw_bernstein_bound
from auucmax.bounds.betting import betting_bound
from auucmax.bounds.holdout import asymptotic_bound, mcdiarmid_bound, mcdiarmid_conditional_bound
from auucmax.bounds.lower_bound import LowerBound

__all__ = ["BETTING_OPTIONS", "METHODS", "Method", "auto_method", "check_names", "check_options"]

_RANGE = "outcomes lie in {range}"


@dataclass(frozen=True)
class Method:
    """How ``certify`` calls a bound: what it takes beyond rows, target, delta and candidates."""

    function: Callable[..., LowerBound]
    words: str
    options: tuple[str, ...]
    assumptions: tuple[str, ...]


def _fixed(*args: Any, **options: Any) -> LowerBound:
    return betting_bound(*args, bets="fixed", **options)


#: What the betting bounds take.
BETTING_OPTIONS = (
    "outcome_range",
    "outcome_model",
    "outcome_model_range",
    "groups",
    "n_dealings",
    "random_state",
)
#: Every method by its name.
METHODS = {
    "betting": Method(betting_bound, "hedged block betting", BETTING_OPTIONS, (_RANGE,)),
    "betting-fixed": Method(_fixed, "block betting at one size", BETTING_OPTIONS, (_RANGE,)),
    "mcdiarmid": Method(mcdiarmid_bound, "McDiarmid's inequality", ("outcome_range",), (_RANGE,)),
    "mcdiarmid-conditional": Method(
        mcdiarmid_conditional_bound,
        "McDiarmid's inequality, given the numbers of responders",
        (),
        ("it speaks of AUUC at the response rates of these rows, each arm ranked on its own",),
    ),
    "dkw-bernstein": Method(
        dkw_bernstein_bound, "a DKW band and empirical Bernstein", ("outcome_range",), (_RANGE,)
    ),
    "asymptotic": Method(
        asymptotic_bound,
        "the normal approximation (not a guarantee)",
        ("outcome_model", "groups"),
        ("there are enough rows for the normal approximation",),
    ),
}


def auto_method(y: Floats, options: dict[str, Any]) -> str:
    """By what is known of the outcome; never by comparing bounds on the data."""
    bounded = "outcome_range" in options or bool(np.isin(y, (0, 1)).all())
    return "betting" if bounded else "asymptotic"


def check_options(options: dict[str, Any], method: str, asked: str) -> None:
    """An error for an option that the method does not take; ``asked``: the user's own choice."""
    known = METHODS[method].options
    for name in options:
        if name in known:
            continue
        others = [m for m, call in METHODS.items() if name in call.options]
        if asked == "auto" and method == "asymptotic" and name in BETTING_OPTIONS:
            hint = (
                "It was chosen because y is not 0/1: pass outcome_range=(lowest, highest), as they "
                "are possible, to get a guarantee."
            )
        elif others:
            hint = f"Use one of the methods {', '.join(others)}."
        else:
            hint = "Check its spelling."
        raise ValueError(
            f"options should be those of method={method!r}, got {name!r}, which it does not take. "
            f"{hint}"
        )


def check_names(options: dict[str, Any], known: tuple[str, ...]) -> None:
    """An error for an option with another name."""
    for name in options:
        if name not in known:
            raise ValueError(
                f"options should be among {', '.join(known)}, got {name!r}. Leave it out."
            )
