"""Parse the costs of arms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from auucmax._errors import InputError
from auucmax.encoding.kinds import arm_text
from auucmax.targeting.choose import check_money


def arm_costs(
    cost: Mapping[Any, float] | Sequence[float] | float | None, arms: Sequence[str]
) -> tuple[float, ...]:
    """Cost of each arm, (K,), given by label or in order; 1 each by default."""
    if isinstance(cost, Mapping):
        given = {arm_text(label): price for label, price in cost.items()}
        if set(given) != set(arms):
            raise InputError(
                "cost", f"one amount for each arm, {', '.join(map(repr, arms))}",
                ", ".join(map(repr, given)) or "none", "Pass 0 for an arm that costs nothing.",
            )  # fmt: skip
        cost = [given[label] for label in arms]
    amounts = np.broadcast_to(np.array(1.0 if cost is None else cost, dtype=object), len(arms))
    return tuple(check_money(amount, "cost") for amount in amounts)
