"""Which person gets which arm: by a keyed hash of the id, so that it can be computed again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from auucmax.results import Decision, Numbers, Result


class Balance(Result):
    """Comparison of the arms by what was known of the people, among those with one chosen arm.

    ``chosen`` is None without a model: all people. ``p_values``: of all tests, not corrected;
    ``smallest``: the smallest corrected one.
    """

    chosen: str | None
    passed: bool
    smallest: float
    p_values: Numbers


class Assignment(Result):
    """Which person gets which arm.

    Attributes
    ----------
    people : frame
        The new people in the order of their table, in a frame of the library that it came from:
        id, (group), arm, propensity (with several arms ``chance LABEL`` for each), (stratum), with
        a model score and chosen (with several arms ``uplift LABEL`` and the chosen arm), and the
        fingerprint of the rule. It is left out of JSON.
    id, groups, strata : columns.
    arms : labels, the control first.
    shares : planned shares of the arms; None with a model.
    counts : new people of each arm.
    n_people, n_units, n_before : new people, new people or groups, and people of the table who were
        assigned before and stay where they are.
    rule : fingerprint of key, arms and all else that decides.
    share, explore : the share that the model was to choose, and the part that gets another arm at
        random; None without a model.
    chosen : people for whom the model chose each arm, the control first; None without a model.
    n_explored : people who get another arm than the chosen one.
    decision : whether to treat the chosen at all, by the evidence of the model.
    balance : the arms compared; empty if nothing but ids is known, or it was not asked for.
    """

    people: Any
    id: str
    arms: tuple[str, ...]
    counts: tuple[int, ...]
    n_people: int
    n_units: int
    n_before: int
    rule: str
    groups: str | None = None
    strata: tuple[str, ...] = ()
    shares: Numbers | None = None
    share: float | None = None
    explore: float | None = None
    chosen: tuple[int, ...] | None = None
    n_explored: int | None = None
    decision: Decision | None = None
    balance: tuple[Balance, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """All numbers, without the people, as plain JSON."""
        found = super(Assignment, replace(self, people=None)).to_json()
        del found["people"]
        return found
