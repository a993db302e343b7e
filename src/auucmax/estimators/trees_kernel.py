"""Scores of boosted trees, compiled; imported late. Twin: ``predict_slow`` in ``trees.py``."""

# mypy: disallow-untyped-defs=False
from __future__ import annotations

import numpy as np

from auucmax._compile import compiled


@compiled(nogil=True)
def add_trees(X, feature, threshold, sides, missing_left, value, roots, steps, block, scores):
    """Add to (n,) scores what each tree gives a row, tree after tree.

    Rows are taken a block at a time, which a tree goes through while both are near the processor.
    A leaf leads to itself, so that all rows take as many steps; and the next node is a place in a
    table, not a branch: half of them would be guessed wrong.
    """
    n = len(X)
    nodes = np.empty(block, np.int32)
    for start in range(0, n, block):
        size = min(block, n - start)
        for tree in range(len(roots)):
            nodes[:size] = roots[tree]
            for _ in range(steps[tree]):
                for i in range(size):
                    node = nodes[i]
                    x = np.float64(X[start + i, feature[node]])
                    left = (x <= threshold[node]) | ((x != x) & missing_left[node])
                    nodes[i] = sides[2 * node + np.int32(left)]
            for i in range(size):
                scores[start + i] += value[nodes[i]]
