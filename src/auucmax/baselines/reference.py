"""Slow twins that tests compare with."""

from __future__ import annotations

import numpy as np
from scipy.stats import rankdata

from auucmax._validation import Bools, Floats


def pair_gradients_slow(y: Floats, treated: Bools, score: Floats) -> tuple[Floats, Floats]:
    """Slow twin of :class:`PromotedGainObjective`: all pairs, without bins or weights."""
    n = len(y)
    relevance = np.where(treated, y / treated.sum(), -y / (~treated).sum())
    lead = relevance[:, None] - relevance  # (n, n): row's relevance minus the column's
    tied = score[:, None] == score
    rank = rankdata(score)
    gap = np.where(tied, (tied.sum(axis=1) + 1) / 3, np.abs(rank[:, None] - rank))
    delta = np.abs(lead) * gap * 12 * n / ((n + 1) * np.abs(lead).sum())
    with np.errstate(over="ignore"):
        wrong = 1 / (1 + np.exp(np.sign(lead) * (score[:, None] - score)))
    return -(delta * np.sign(lead) * wrong).sum(1), (delta * wrong * (1 - wrong)).sum(1)
