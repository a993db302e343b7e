"""Who gets which of three arms, of a million people and of ten times as many.

budget   within a budget that pays for about a third of them, arms at different costs. Wanted: a
         million people in at most 3 seconds, ten times as many in at most 12 times that
limits   the same, and at most a tenth of the people may get the first arm
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.harness import Case

ROWS, ARMS = (1_000_000, 10_000_000), 3
COSTS = (0.1, 0.12, 0.3)
REFERENCES: dict[str, list[str]] = {}


def cases(*, quick: bool = False) -> list[Case]:
    """All cases; ``quick``: fewer people."""
    sizes = (20_000,) if quick else ROWS
    return [
        Case(case, "auucmax", n, ARMS, "benchmarks.arms:choose", {"n": n, "limited": limited})
        for case, limited in (("budget", False), ("limits", True))
        for n in (sizes[:1] if limited else sizes)
    ]


def choose(n: int, limited: bool) -> Callable[[], Any]:
    from auucmax.targeting import choose as chosen

    uplift = np.random.default_rng(0).normal(0.02, 0.05, (n, ARMS))
    limits = {"at_most": [n / 10, np.inf, np.inf]} if limited else {}
    return lambda: chosen(uplift, cost=list(COSTS), budget=0.05 * n, **limits)
