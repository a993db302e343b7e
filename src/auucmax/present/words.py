"""Numbers as people read them: with units, signs and sensible digits."""

from __future__ import annotations

import math

from auucmax.results import Estimate, Kind, Outcome


def unit(outcome: Outcome) -> tuple[float, str]:
    """The factor and the name of the unit of an effect.

    >>> unit(Outcome(name="visit", kind=Kind.BINARY))
    (100.0, 'per 100 people')
    """
    return (1.0, "per person") if outcome.kind == Kind.NUMBER else (100.0, "per 100 people")


def digits(step: float) -> int:
    """Decimals such that a number shows about two digits of its uncertainty.

    >>> digits(0.34), digits(12.0), digits(0.004)
    (1, 0, 3)
    """
    if not step or not math.isfinite(step):
        return 2
    return int(min(max(-math.floor(math.log10(abs(step))), 0), 8))


def number(value: float, places: int, *, sign: bool = False) -> str:
    """A number with thousands separators.

    >>> number(1234.5, 0), number(0.25, 1, sign=True)
    ('1,234', '+0.2')
    """
    return f"{value:{'+' if sign else ''},.{places}f}"


def estimate(
    found: Estimate, *, scale: float = 1.0, places: int | None = None, sign: bool = False
) -> str:
    """An estimate with its interval, or the reason why there is none.

    >>> estimate(Estimate(value=0.045, se=0.003, lower=0.039, upper=0.051), scale=100, sign=True)
    '+4.5 (3.9 to 5.1)'
    """
    if places is None:
        wide = found.se
        if not wide and found.lower is not None and found.upper is not None:
            wide = (found.upper - found.lower) / 4
        places = digits(scale * (wide or abs(found.value) / 10))
    value = number(scale * found.value, places, sign=sign)
    if found.lower is None or found.upper is None:
        return f"{value} (no interval{f': {found.missing}' if found.missing else ''})"
    low, high = number(scale * found.lower, places), number(scale * found.upper, places)
    return f"{value} ({low} to {high})"


def percent(share: float) -> str:
    """A share in per cent.

    >>> percent(0.3), percent(0.005)
    ('30%', '0.5%')
    """
    return f"{100 * share:.2g}%" if 0 < abs(share) < 0.01 else f"{share:.0%}"
