"""Format numbers with units, signs and sensible digits."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Iterable

from auucmax._errors import short
from auucmax.estimators import MODELS
from auucmax.results import Estimate, Kind, Outcome, Roles, Why

# Names of outcomes that are counted: "4.5 visits". Other names are shown as they are.
_NOUNS = {
    "booking", "call", "cancellation", "click", "complaint", "conversion", "donation", "lead",
    "login", "order", "outcome", "purchase", "registration", "renewal", "response", "sale",
    "signup", "subscription", "visit",
}  # fmt: skip


def unit(outcome: Outcome) -> tuple[float, str]:
    """Factor and name of the unit of an effect.

    >>> unit(Outcome(name="visit", kind=Kind.BINARY))
    (100.0, 'per 100 people')
    """
    return (1.0, "per person") if outcome.kind == Kind.NUMBER else (100.0, "per 100 people")


def digits(step: float) -> int:
    """Number of decimals to show for a given uncertainty.

    >>> digits(0.34), digits(12.0), digits(0.004)
    (1, 0, 3)
    """
    if not step or not math.isfinite(step):
        return 2
    return int(min(max(math.ceil(-math.log10(abs(step) / 3)), 0), 8))


def number(value: float, places: int, *, sign: bool = False) -> str:
    """Format a number with thousands separators.

    >>> number(1234.5, 0), number(0.25, 1, sign=True), number(-0.01, 1)
    ('1,234', '+0.2', '0.0')
    """
    rounded = round(value, places) + 0.0  # no minus before a zero
    return f"{rounded:{'+' if sign and rounded else ''},.{places}f}"


def places_of(found: Estimate, scale: float = 1.0) -> int:
    """Number of decimals for an estimate, from its uncertainty."""
    wide = found.se
    if not wide and found.lower is not None and found.upper is not None:
        wide = (found.upper - found.lower) / 4
    return digits(scale * (wide or abs(found.value) / 10))


def estimate(
    found: Estimate,
    *,
    scale: float = 1.0,
    places: int | None = None,
    sign: bool = False,
    unit: str = "",
) -> str:
    """Format an estimate with its interval, or the reason why there is none.

    >>> found = Estimate(value=0.045, se=0.003, lower=0.039, upper=0.051)
    >>> estimate(found, scale=100, sign=True, unit="visits per 100 people")
    '+4.5 visits per 100 people (3.9 to 5.1)'
    """
    places = places_of(found, scale) if places is None else places
    value = f"{number(scale * found.value, places, sign=sign)} {unit}".rstrip()
    none = f" (no interval{f': {found.missing}' if found.missing else ''})"
    return value + (interval(found, lambda end: number(scale * end, places)) or none)


def rounded(found: Estimate, like: Estimate | None = None) -> str:
    """Format an estimate without its interval, with its decimals or those of another."""
    return number(found.value, places_of(like or found))


def interval(found: Estimate, write: Callable[[float], str]) -> str:
    """Format an interval to follow an estimate; empty if there is none."""
    if found.lower is None or found.upper is None:
        return ""
    return f" ({write(found.lower)} to {write(found.upper)})"


def effect(found: Estimate, outcome: Outcome, *, sign: bool = True) -> str:
    """Format an effect in units of the outcome, with its interval.

    >>> found = Estimate(value=0.045, se=0.003, lower=0.039, upper=0.051)
    >>> effect(found, Outcome(name="visit", kind=Kind.BINARY))
    '+4.5 visits per 100 people (3.9 to 5.1)'
    """
    scale, per = unit(outcome)
    return estimate(found, scale=scale, sign=sign, unit=f"{gains(outcome)} {per}")


def rate(value: float, outcome: Outcome, like: Estimate | None = None) -> str:
    """Format a gain in units of the outcome, with the decimals of another estimate."""
    scale, per = unit(outcome)
    places = places_of(like or Estimate(value=value), scale)
    return " ".join(filter(None, [number(scale * value, places), gains(outcome), per]))


def gains(outcome: Outcome) -> str:
    """Name of what is gained, from the outcome's name.

    >>> gains(Outcome(name="visit", kind=Kind.BINARY))
    'visits'
    >>> gains(Outcome(name="churn", kind=Kind.BINARY, lower_is_better=True))
    'churn avoided'
    """
    name = short(outcome.name)
    counted = outcome.kind in (Kind.BINARY, Kind.COUNT) and name in _NOUNS
    return f"{name}s" * counted + name * (not counted) + " avoided" * outcome.lower_is_better


def money(value: float, like: Estimate | None = None) -> str:
    """Format money; ``like``: with the precision of this estimate.

    >>> money(2012.4), money(3.456), money(64.05, Estimate(value=64.05, se=20.0))
    ('2,012', '3.46', '64')
    """
    if like is not None:
        return number(value, 2 if places_of(like) and abs(value) < 100 else 0)
    return number(value, 0 if abs(value) >= 100 or value == round(value) else 2)


def at_least(value: float) -> str:
    """Format a guaranteed amount with two digits, rounded down.

    >>> at_least(0.3187), at_least(171.4)
    ('at least 0.31', 'at least 171')
    """
    places = digits(value / 5)
    return f"at least {number(math.floor(value * 10**places) / 10**places, places)}"


def profit(found: Estimate) -> str:
    """Format a profit, or a clear loss, with its interval.

    >>> profit(Estimate(value=-300.0, lower=-500.0, upper=-100.0))
    'loss of 300 (100 to 500)'
    >>> profit(Estimate(value=-300.0, lower=-700.0, upper=100.0))
    'profit -300 (-700 to 100)'
    """
    return up_or_down(found, "profit", "loss of", lambda value: money(value, found))


def up_or_down(
    found: Estimate, gain: str, loss: str, amount: Callable[[float], str], unit: str = ""
) -> str:
    """Format a total as a gain, or as a loss if it is clearly negative."""
    name = gain
    if found.value < 0 and (found.upper is None or found.upper <= 0):
        name, found = loss, found.scaled(-1.0)
    return f"{name} {amount(found.value)} {unit}".rstrip() + interval(found, amount)


def more(found: Estimate, what: str) -> str:
    """Format the difference of a total as more or less of it.

    >>> more(Estimate(value=-300.0, lower=-500.0, upper=-100.0), "visits")
    '300 fewer visits (100 to 500)'
    """
    if found.value >= 0:
        return estimate(found, unit=f"more {what}")
    less = "fewer" if what.split()[0].endswith("s") else "less"
    return estimate(found.scaled(-1.0), unit=f"{less} {what}")


def side(found: Estimate) -> int:
    """1 if the interval lies above 0, -1 if it lies below, 0 if neither or unknown."""
    return ((found.lower or 0) > 0) - ((found.upper or 0) < 0)


def people(n: int) -> str:
    """Format a number of people.

    >>> people(1), people(1200)
    ('1 person', '1,200 people')
    """
    return f"{n:,} {'person' if n == 1 else 'people'}"


def joined(names: Iterable[str], last: str = "and", most: int = 6) -> str:
    """Join names for a sentence.

    >>> joined(["a", "b", "c"]), joined(["a", "b"], "or"), joined(["a", "b", "c"], most=2)
    ('a, b and c', 'a or b', 'a, b and 1 more')
    """
    texts = [short(str(name)) for name in names]
    if len(texts) > most:
        texts = [*texts[:most], f"{len(texts) - most} more"]
        last = "and"
    return f" {last} ".join(filter(None, [", ".join(texts[:-1]), *texts[-1:]]))


def model_name(name: str, outcome: Outcome) -> str:
    """Descriptive name of a model."""
    if name == "tm" and outcome.kind == Kind.BINARY:
        return "two logistic models"
    return MODELS[name].in_words if name in MODELS else name


def policy_name(against: str) -> str:
    """Descriptive name of a simpler policy."""
    if against == "random":
        return "assigning the arms at random"
    arm = against.removeprefix("everyone: ")
    return (
        f"{short(arm)} for everyone" if arm != against else f"targeting with {short(against)} only"
    )


def everyone(arm: str = "") -> str:
    """Label for treating everyone, with the arm's name if there are several."""
    return f"If everyone gets {arm}" if arm else "If everyone is treated"


def option(name: str, values: Iterable[str]) -> str:
    """Format a command option, quoted for the shell.

    >>> option("after", ["clicks", "page views"])
    "--after 'clicks,page views'"
    """
    return f"--{name} {shlex.quote(','.join(map(short, values)))}"


def fit_with_costs(arms: Iterable[str], prices: Iterable[str]) -> str:
    """Advice to fit again with these costs.

    >>> fit_with_costs(["mail", "a call"], ["1", "3"])
    "fit again with --cost 'mail=1,a call=3'"
    """
    costs = [f"{short(arm)}={price}" for arm, price in zip(arms, prices, strict=True)]
    return f"fit again with {option('cost', costs)}"


def percent(share: float) -> str:
    """Format a share as a percentage.

    >>> percent(0.3), percent(0.005)
    ('30%', '0.5%')
    """
    return f"{100 * share:.2g}%" if 0 < abs(share) < 0.01 else f"{share:.0%}"


def p_value(value: float) -> str:
    """Format a p-value.

    >>> p_value(0.0312), p_value(1.0), p_value(1e-7)
    ('p = 0.031', 'p = 1.00', 'p < 0.0001')
    """
    if value < 1e-4:
        return "p < 0.0001"
    return f"p = {value:.2f}" if value > 0.995 else f"p = {value:.2g}"


_WHY = {
    Why.FAILED_CHECK: "the trial fails its check",
    Why.FEW_ROWS: "too few people in the trial",
    Why.MIXED_GROUPS: "some groups hold people of both arms",
    Why.GROUPS: "the size of the largest group is not known",
    Why.NO_RANGE: "the lowest and highest possible outcome are not known (outcome_range)",
    Why.NARROW_RANGE: "too many outcomes lie outside the range",
    Why.EXTREME_PROPENSITY: "some propensities are too close to 0 or 1",
    Why.NO_BUDGET: "the model was fitted without a budget",
    Why.OTHER_COSTS: "the model was evaluated at a different ratio of costs",
    Why.PEOPLE_NOT_MONEY: "the model was evaluated by budget, not by number of people",
    Why.LIMITS: "the evidence does not cover choices with these limits",
    Why.UNLIKE_TRIAL: "these people differ too much from those in the trial",
    Why.OTHER_ARMS: "the mix of arms for these people differs from that in the trial",
}


def why(missing: Why | None) -> str:
    """The reason why a number is missing."""
    return "not available" if missing is None else _WHY[missing]


#: Labels that mean nothing without the name of their column, besides numbers and letters.
_ANSWERS = {
    "yes", "nein", "nee", "non", "oui", "sim", "tak", "nie", "true", "false", "treated",
    "treatment", "control", "test", "none",
}  # fmt: skip


def is_code(label: str) -> bool:
    """Whether a label means nothing without its column, such as 1, B2, Ja or treated.

    >>> [is_code(label) for label in ("1", "ja", "Treated", "Womens E-Mail")]
    [True, True, True, False]
    """
    has_word = any(char.isalpha() for char in label) and len(label) > 2
    return not has_word or label.casefold() in _ANSWERS


def arm_name(roles: Roles, label: str) -> str:
    """Name of an arm or the control; codes are shown with their column.

    >>> from auucmax.results import Outcome, Roles
    >>> visit = Outcome(name="visit", kind=Kind.BINARY)
    >>> roles = Roles(treatment="mail", arms=("0", "1"), outcome=visit, features=())
    >>> arm_name(roles, "1"), title(roles)
    ('mail = 1', 'Who should be treated? Effect on visit')
    """
    column = roles.treatment
    if is_code(label) and label != "none" and (column != "treatment" or label.isdigit()):
        return f"{short(column)} = {short(label)}"
    return short(label)


def of_arm(roles: Roles, arm: str, end: str = ": ") -> str:
    """Name of an arm in front of a text about it; empty if there is only one arm."""
    return f"{arm_name(roles, arm)}{end}" if len(roles.arms) > 2 else ""


def counts(names: Iterable[str], numbers: Iterable[int]) -> str:
    """List the number of people in each arm.

    >>> counts(["letter", "mail = 0", "1"], [1200, 3, 4])
    '1,200 letter, 3 with mail = 0, 4 in arm 1'
    """
    parts = []
    for name, n in zip(names, numbers, strict=True):
        before = "with " if " = " in name else ""
        if is_code(name) and name not in ("control", "treated", "treatment"):
            before = "in arm "
        parts.append(f"{n:,} {before}{short(name)}")
    return ", ".join(parts)


def treatments(roles: Roles) -> str:
    """Names of all arms except the control."""
    return joined(arm_name(roles, arm) for arm in roles.arms[1:])


def title(roles: Roles) -> str:
    """Title of a page or card."""
    question = "Who should get which treatment?"
    if len(roles.arms) == 2:
        arm = roles.arms[1]
        question = "Who should be treated?" if is_code(arm) else f"Who should get {short(arm)}?"
    return f"{question} Effect on {short(roles.outcome.name)}"
