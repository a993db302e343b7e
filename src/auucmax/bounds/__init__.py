"""Bounds on AUUC: the paper's, which reproduces the paper and is no guarantee."""

from __future__ import annotations

from auucmax.bounds.lower_bound import LowerBound
from auucmax.bounds.paper import paper_bound, paper_gap

__all__ = ["LowerBound", "paper_bound", "paper_gap"]
