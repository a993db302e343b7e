"""Hypothesis strategies for the rows of small trials: ties, weights, one-row arms."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst


class SmallTrial(NamedTuple):
    y: np.ndarray
    score: np.ndarray
    treated: np.ndarray
    weight: np.ndarray
    propensity: np.ndarray


@st.composite
def small_trials(draw, max_rows=25, min_arm=1, outcomes=("binary", "real")):
    """Rows with at least ``min_arm`` rows an arm; scores from few values (ties) or from many."""
    n = draw(st.integers(2 * min_arm, max_rows))
    n_treated = draw(st.integers(min_arm, n - min_arm))
    order = draw(st.permutations(range(n)))
    treated = (np.arange(n) < n_treated)[list(order)]
    levels = draw(st.sampled_from([1, 2, 4, 10**6]))
    score = draw(npst.arrays(np.int64, n, elements=st.integers(-levels, levels))) / 7.0
    if draw(st.sampled_from(outcomes)) == "binary":
        y = draw(npst.arrays(np.int64, n, elements=st.integers(0, 1))).astype(float)
    else:
        y = draw(npst.arrays(np.int64, n, elements=st.integers(-300, 300))) / 8.0
    weight = draw(npst.arrays(np.int64, n, elements=st.integers(1, 4))).astype(float)
    propensity = draw(npst.arrays(np.int64, n, elements=st.integers(1, 9))) / 10.0
    return SmallTrial(y, score, treated, weight, propensity)


@st.composite
def binned_trials(draw, min_arm=1, **options):
    """A small trial, edges that may cut its scores anywhere, and the rows' bin numbers."""
    rows = draw(small_trials(min_arm=min_arm, **options))
    values = np.unique(rows.score)
    ends = st.sampled_from(np.concatenate([values, values - 0.01, values + 1e6]).tolist())
    edges = np.array(sorted(draw(st.sets(ends, max_size=6))))
    return rows, edges, (rows.score[:, None] > edges).sum(axis=1)
