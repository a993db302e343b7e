"""Bounds on AUUC: the paper's, which reproduces the paper and is no guarantee."""

from __future__ import annotations

from auucmax.bounds.paper import PaperBound, paper_bound, paper_gap

__all__ = ["PaperBound", "paper_bound", "paper_gap"]
