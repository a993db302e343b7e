"""Parameters that the networks share, checked: how to descend, and the widths of layers."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np

from auucmax._validation import check_choice, check_whole
from auucmax.estimators.networks.network import SCALES
from auucmax.estimators.networks.rows import NetworkRows
from auucmax.estimators.networks.training import Settings

__all__ = ["at_least_zero", "check_settings", "check_widths", "warn_of_lost_penalty"]


def check_settings(model: Any) -> Settings:
    """How a model descends, if its parameters say so."""
    check_choice(model.scale, "scale", SCALES)
    rate: Any = model.learning_rate
    share: Any = model.validation_share
    if not _is_number(rate) or not 0 < rate < np.inf:
        raise ValueError(f"learning_rate should be a positive number, got {rate!r}. Try 0.001.")
    if not _is_number(share) or not 0 <= share < 1:
        raise ValueError(
            f"validation_share should be at least 0 and below 1, got {share!r}. 0.2 keeps a fifth "
            f"of the rows to stop by."
        )
    return Settings(
        learning_rate=float(rate),
        l2=at_least_zero(model.l2, "l2"),
        batch_size=_batch_size(model.batch_size),
        max_epochs=check_whole(model.max_epochs, "max_epochs", 1),
        patience=check_whole(model.patience, "patience", 1),
    )


def check_widths(model: Any, name: str) -> list[int]:
    """Widths of layers, none or more."""
    widths = getattr(model, name)
    if isinstance(widths, (str, bytes)) or not isinstance(widths, (Sequence, np.ndarray)):
        raise ValueError(
            f"{name} should be a list of widths of layers, got {widths!r}. For two layers of 64, "
            f"pass (64, 64)."
        )
    return [check_whole(width, f"each width of {name}", 1) for width in widths]


def at_least_zero(value: Any, name: str) -> float:
    """``value`` as a float, if it is finite and not negative."""
    if not _is_number(value) or not 0 <= value < np.inf:
        raise ValueError(f"{name} should be a number of at least 0, got {value!r}. 0 turns it off.")
    return float(value)


def warn_of_lost_penalty(
    train: NetworkRows, validation: NetworkRows | None, batch_size: int | None
) -> None:
    """Say it, once, if some batch has too few rows of an arm to compare the arms by."""
    for part, rows in (("training", train), ("validation", validation)):
        if rows is None or rows.fewest_of_an_arm(batch_size) >= 2:
            continue
        would_help = rows.fewest_of_an_arm(None) >= 2
        remedy = "a larger batch_size" if would_help else "more rows of the smaller arm"
        warnings.warn(
            f"CFRNet should have at least 2 rows of each arm in every batch, got "
            f"{rows.fewest_of_an_arm(batch_size)} in some batches of {part} rows with "
            f"batch_size={batch_size}: these batches have no penalty. Use {remedy}, or alpha=0.",
            UserWarning,
            stacklevel=5,  # the line that calls fit
        )
        return


def _batch_size(value: Any) -> int | None:
    # With two rows a batch, the larger arm has a row for every batch: none is empty.
    return None if value is None else check_whole(value, "batch_size", 2)


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)
