"""Sums over all pairs of rows in linear time, the core of AUUC-max.

=================  ===============================================================================
losses             s(z) with derivatives: ``s_poly``, ``s_log``, ``hinge``, ``sigmoid``; levels of
                   any outcome: classes, and what a pair of them counts
summary            moments by class and bin, additive, and their convolution with polynomial pieces
                   of a surrogate; the algorithm is explained there
passes             what is summed over rows; numpy for few rows, numba for many
exact              without bins: ``s_poly`` and ``hinge`` by sorting, ``s_poly`` by powers of scores
objective          the choice of bins, weights of the arms; ``ScoreObjective`` (of scores)
linear             ``PairObjective`` (of w), ``StreamedObjective`` (of w, of rows read in batches)
=================  ===============================================================================
"""

from auucmax.pairs.linear import PairObjective, StreamedObjective
from auucmax.pairs.losses import (
    OutcomeLevels,
    Surrogate,
    get_surrogate,
    hinge,
    s_log,
    s_poly,
    sigmoid,
)
from auucmax.pairs.objective import RowDerivatives, ScoreObjective, TooManyBinsError, group_weights
from auucmax.pairs.passes import Bins, PairRows, column_range, scores
from auucmax.pairs.summary import PairField, PairSummary, bins_per_length, box_range, code_rows

__all__ = [
    "Bins",
    "OutcomeLevels",
    "PairField",
    "PairObjective",
    "PairRows",
    "PairSummary",
    "RowDerivatives",
    "ScoreObjective",
    "StreamedObjective",
    "Surrogate",
    "TooManyBinsError",
    "bins_per_length",
    "box_range",
    "code_rows",
    "column_range",
    "get_surrogate",
    "group_weights",
    "hinge",
    "s_log",
    "s_poly",
    "scores",
    "sigmoid",
]
