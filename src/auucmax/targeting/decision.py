"""Whether to treat some people: one rule, for commands, notebooks, pages and their script.

A decision is told by the ends of the intervals of what it brings. The rule and its words are
tables, which the script of a page walks as Python does: there is no second rule.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from auucmax._validation import Floats

#: State, number and sign: the first whose number, times the sign, is above zero holds.
#: ``lower`` is that of the profit, or of the gain where no profit is known.
RULE = (
    ("harm", "gain_upper", -1),
    ("loss", "profit_upper", -1),
    ("certified", "certified", 1),
    ("shown", "lower", 1),
)
OTHERWISE = "not shown"
GOOD = ("certified", "shown")  #: states in which treating them is advice
#: What is said first of people whom treating is no advice.
LEADS = {
    "harm": "Treating {who} is shown to do harm: {instead}.",
    "loss": "Treating {who} is shown to cost more than it brings: {instead}.",
    "not shown": "For {who} a {what} is not shown; it is shown for {other}.",
    "unknown": "For {who} a {what} is not shown.",
    "nowhere": "At no {along} is the {what} above zero beyond doubt.",
    "never": "At no {along} is the {what} above zero.",
}
INSTEAD = {"nobody": "treat nobody", "other": "choose {other} instead"}
#: How far a share may be from that of a certified cut to be the same.
SAME_CUT = 0.005
VERDICTS = {"harm": "shown to do harm", "loss": "shown to cost more than it brings"}
VERDICT = "{what} above zero: {state}"  #: of all other states


class Decision(NamedTuple):
    """``state`` of :data:`RULE`; ``lead`` comes first, or is empty; ``verdict`` is short.

    ``at_least``: the guaranteed gain or profit on which the state "certified" rests, else None. All
    other states rest on the interval.
    """

    state: str
    lead: str
    verdict: str
    at_least: float | None = None

    @property
    def is_good(self) -> bool:
        """Whether treating them is advice."""
        return self.state in GOOD

    def to_dict(self, who: str = "these people") -> dict[str, Any]:
        """Plain JSON, the same in all commands; ``who``: of whom it is.

        >>> unknown("gain").to_dict()["state"], unknown("gain").to_dict()["is_good"]
        ('not shown', False)
        """
        return {"who": who, "is_good": self.is_good, **self._asdict()}


class Terms(NamedTuple):
    """How a decision is told: of ``who``, ``along`` what it is chosen, and another choice.

    ``other`` names one by numbers of a plan and their form, as in "the {share percent}".
    """

    who: str = "these people"
    along: str = "share"
    other: str = "the {share percent} with the highest scores"


def terms_of_arms(by_people: bool) -> Terms:
    """How decisions on several arms are told: along budgets, of people or of money."""
    people = "the {treated whole} people with the highest uplifts"
    return Terms(along="budget", other=people if by_people else "a budget of {cost money}")


def state_of(numbers: Mapping[str, float | None]) -> str:
    """The state that some numbers of :data:`RULE` tell; those that are not there tell nothing.

    >>> state_of({"gain_upper": -0.1, "lower": -0.3}), state_of({"gain_upper": 0.2, "lower": -0.1})
    ('harm', 'not shown')
    """
    for state, name, sign in RULE:
        number = numbers.get(name)
        if number is not None and sign * number > 0:
            return state
    return OTHERWISE


def unknown(what: str, terms: Terms | None = None) -> Decision:
    """What to say of people of whom no gain, or profit, is known.

    >>> unknown("gain").lead
    'For these people a gain is not shown.'
    """
    lead = LEADS["unknown"].format(who=(terms or Terms()).who, what=what)
    return Decision(OTHERWISE, lead, VERDICT.format(what=what, state=OTHERWISE))


def of_gain(
    lower: float | None, upper: float | None, certified: float | None, who: str
) -> Decision:
    """What to say of people whose gain was measured, where no other choice was.

    >>> of_gain(-3.0, -1.0, None, "these people").lead
    'Treating these people is shown to do harm: treat nobody.'
    """
    plan = {"gain": [0.0], "gain_lower": [lower], "gain_upper": [upper], "profit": None}
    found = decide(plan, 0, certified, Terms(who=who))
    return unknown("gain", Terms(who=who)) if found.state == OTHERWISE else found


def certified_place(shares: Sequence[float], share: float) -> int | None:
    """The place of the certified cut of this share; None if there is no cut of it.

    What is certified of all above another cut tells nothing of these people: those between the two
    may lose more than all others gain.

    >>> certified_place([0.05, 0.1], 0.1), certified_place([0.05, 0.1], 0.08)
    (1, None)
    """
    near = int(np.abs(np.asarray(shares) - share).argmin())
    return near if abs(shares[near] - share) <= SAME_CUT else None


def of_list(decision: Decision, people: str, brings: str) -> str:
    """The first line on a list of people: advice to treat them only where it is good.

    >>> of_list(unknown("gain"), "3 of 9 people", "expected gain 1.0")
    'For these people a gain is not shown. If you treat 3 of 9 people: expected gain 1.0.'
    """
    if decision.is_good:
        return f"Treat {people}; {brings}."
    return f"{decision.lead} If you treat {people}: {brings}."


def decide(
    plan: Mapping[str, Any], place: int, certified: float | None = None, terms: Terms | None = None
) -> Decision:
    """What to say of the choice at a place of a plan.

    ``plan`` has ``gain``, ``gain_lower`` and ``gain_upper`` at each place, and the same of
    ``profit``, or None for these. ``certified``: what this choice brings at least.
    """
    terms, what = terms or Terms(), "gain" if plan["profit"] is None else "profit"
    lower = _floats(plan[f"{what}_lower"])
    state = state_of({
        "gain_upper": plan["gain_upper"][place],
        "profit_upper": None if what == "gain" else plan["profit_upper"][place],
        "certified": certified,
        "lower": plan[f"{what}_lower"][place],
    })  # fmt: skip
    verdict = VERDICTS.get(state, VERDICT.format(what=what, state=state))
    if state in GOOD:
        return Decision(state, "", verdict, certified if state == "certified" else None)
    best = int(np.nanargmax(np.append(lower, 0.0)))
    other = None if best == len(lower) or not lower[best] > 0 else best
    lead = state
    if state == OTHERWISE and other is None:
        lead = _lead_of_none(_floats(plan[what]), lower)
    words = {"who": terms.who, "what": what, "along": terms.along}
    words["other"] = "" if other is None else spoken(terms.other, plan, other)
    words["instead"] = INSTEAD["nobody" if other is None else "other"].format(**words)
    return Decision(state, LEADS[lead].format(**words), verdict)


def _lead_of_none(expected: Floats, lower: Floats) -> str:
    """What is said first where no place has a lower end above zero.

    That of nobody is exactly 0: if all others are unknown, nothing is said of other places.
    """
    if np.isnan(lower).any() and not (lower < 0).any():
        return "unknown"
    return "nowhere" if (expected > 0).any() else "never"


def _floats(values: Sequence[float | None]) -> Floats:
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)


def spoken(sentence: str, plan: Mapping[str, Any], place: int) -> str:
    """A sentence with numbers of a plan in it.

    >>> spoken("the {share percent}", {"share": [0.0, 0.25, 1.0]}, 1)
    'the 25%'
    """

    def number(found: re.Match[str]) -> str:
        name, form = found[1].split(" ")
        value = plan[name][place]
        if form == "money":
            after = f" {plan['currency']}" if plan["currency"] else ""
            return f"{value:,.{plan['digits']['money']}f}{after}"
        return f"{value:.0%}" if form == "percent" else f"{value:,.0f}"

    return re.sub(r"\{([^}]*)\}", number, sentence)


def tables(terms: Terms) -> dict[str, Any]:
    """The rule and its words as plain JSON, for the script of a page."""
    return {
        "rule": [list(entry) for entry in RULE],
        "otherwise": OTHERWISE,
        "same_cut": SAME_CUT,
        "good": list(GOOD),
        "leads": LEADS,
        "instead": INSTEAD,
        "verdicts": VERDICTS,
        "verdict": VERDICT,
        "terms": terms._asdict(),
    }
