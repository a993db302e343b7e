"""Bounds that the figures compare with: valid but wide, or from training rows, or not valid.

Bounds from held-out rows are in ``held_out``, from training rows in ``training`` and ``pac_bayes``.
"""

from __future__ import annotations

from experiments.rival_bounds.held_out import HELD_OUT_BOUNDS, Bound
from experiments.rival_bounds.pac_bayes import chromatic_pac_bayes_bound, pac_bayes_bound
from experiments.rival_bounds.training import (
    agarwal_uniform_bound,
    freund_bound,
    margin_bound,
    usunier_bound,
)

__all__ = [
    "HELD_OUT_BOUNDS",
    "Bound",
    "agarwal_uniform_bound",
    "chromatic_pac_bayes_bound",
    "freund_bound",
    "margin_bound",
    "pac_bayes_bound",
    "usunier_bound",
]
