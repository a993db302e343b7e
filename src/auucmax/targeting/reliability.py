"""At which shares a trial has rows enough for an interval."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from auucmax._validation import Floats, Rows

__all__ = ["ENOUGH_EVENTS", "ENOUGH_ROWS", "reliable_shares"]

# Rows with and without the outcome that each arm needs before a normal interval is believed.
ENOUGH_EVENTS, ENOUGH_ROWS = 10, 30


def reliable_shares(rows: Rows, share: Floats, *, binary: bool) -> list[bool]:
    """Whether each top share holds enough rows of both arms for a normal approximation.

    For a 0/1 outcome, 10 rows with it and 10 without in each arm; otherwise 30 rows in each arm.
    """
    order = np.argsort(-rows.score, kind="stable")
    treated, y = rows.treated[order], rows.y[order]
    cells: list[NDArray[np.bool_]] = [treated, ~treated]
    least = ENOUGH_ROWS
    if binary:
        cells = [arm & (y == value) for arm in cells for value in (0.0, 1.0)]
        least = ENOUGH_EVENTS
    count = np.min([np.concatenate([[0], np.cumsum(cell)]) for cell in cells], axis=0)
    reached = count[np.floor(share * len(y) + 1e-9).astype(int)] >= least
    return [bool(value) for value in reached]
