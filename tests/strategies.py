"""Hypothesis strategies for the rows of small trials: ties, weights, one-row arms."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from auucmax.estimators.formula import TreeScores


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


@st.composite
def forests(draw, n_features, cuts=(-1.0, -0.5, 0.0, 0.5, 1.0)):
    """Trees of any shape, some of them a leaf, in which few numbers are thresholds."""
    nodes, deepest = [], 0

    def grow(level):
        nonlocal deepest
        number, deepest = len(nodes), max(deepest, level)
        nodes.append([0, 0.0, number, number, False, draw(st.integers(-9, 9)) / 7])
        if level < 5 and draw(st.integers(0, 5)) > level:
            feature, cut = draw(st.integers(0, n_features - 1)), draw(st.sampled_from(cuts))
            children = grow(level + 1), grow(level + 1)
            nodes[number] = [feature, cut, *children, draw(st.booleans()), 0.0]
        return number

    roots = [grow(0) for _ in range(draw(st.integers(1, 6)))]
    feature, threshold, left, right, gap, value = zip(*nodes, strict=True)
    whole = [np.array(column, dtype=np.int64) for column in (feature, left, right, roots)]
    return TreeScores(
        whole[0], np.array(threshold), whole[1], whole[2], np.array(gap), np.array(value, float),
        whole[3], deepest,
    )  # fmt: skip
