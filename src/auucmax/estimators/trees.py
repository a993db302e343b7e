"""Boosted trees as plain arrays that score, save and export.

Arrays that come from a file are checked node by node.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from auucmax._validation import Bools, Floats
from auucmax.rows.base import n_threads

MOST_STEPS = 2_000_000  #: of a row through all trees
COMPILE_STEPS = 20_000_000  #: of all rows so far through all trees: from so many on, numba
READY_STEPS = 1_000_000  #: the same where numba is there already, as after trees were grown
FEW_STEPS = 20_000  #: of some rows: numpy takes these as quickly, whatever came before
_NODES = 16_384  # nodes, of rows and trees, that numpy steps on together: they stay in the cache
_THREAD_ROWS = 16_384  # rows that a thread takes
_numpy_steps = 0  # of all rows so far: many batches take as long as one of all their rows


@dataclass(frozen=True, eq=False)
class TreeScores:
    """A sum of trees; rows go left if the feature is at most the threshold.

    Node k has ``feature[k]``, ``threshold[k]``, ``left[k]``, ``right[k]`` and ``missing_left[k]``,
    whether a missing value (NaN) goes left, all (m,); a leaf is its own child on both sides and has
    the score ``value[k]``. ``roots`` has a node for each tree, ``depth`` is the most steps from a
    root to a leaf. The nodes of a tree lie together, its root first.

    Examples
    --------
    >>> stump = TreeScores(
    ...     np.array([1, 0, 0]), np.array([0.5, 0, 0]), np.array([1, 1, 2]), np.array([2, 1, 2]),
    ...     np.array([True, False, False]), np.array([0.0, -1, 1]), np.array([0]), 1,
    ... )
    >>> stump.predict(np.array([[9.0, 0.5], [9.0, 0.6], [9.0, np.nan]]))
    array([-1.,  1., -1.])
    """

    feature: NDArray[np.int64]
    threshold: Floats
    left: NDArray[np.int64]
    right: NDArray[np.int64]
    missing_left: Bools
    value: Floats
    roots: NDArray[np.int64]
    depth: int

    @classmethod
    def of(cls, nodes: Sequence[Sequence[float]], roots: Sequence[int]) -> Self:
        """Make trees from node rows: feature, threshold, left, right, missing_left, value."""
        columns = np.array(nodes, dtype=np.float64).T.reshape(6, -1)
        feature, left, right = (columns[k].astype(np.int64) for k in (0, 2, 3))
        gap_left, starts = columns[4].astype(np.bool_), np.array(roots, dtype=np.int64)
        made = cls(feature, columns[1].copy(), left, right, gap_left, columns[5].copy(), starts, 0)
        return replace(made, depth=made._steps())

    def predict(self, X: NDArray[Any]) -> Floats:
        """Predict scores, (n,).

        Uses numpy, or compiled code once there are enough rows to make up for loading numba.
        """
        global _numpy_steps
        steps = len(X) * len(self.roots) * self.depth
        if steps >= FEW_STEPS:
            _numpy_steps += steps
        enough = READY_STEPS if "numba" in sys.modules else COMPILE_STEPS
        if steps < FEW_STEPS or _numpy_steps < enough:
            return self.predict_slow(X)
        from auucmax.estimators.trees_kernel import walk

        scores = np.empty(len(X))
        nodes = self.feature, self.threshold, self.left, self.right, self.missing_left, self.value

        def add(start: int) -> None:
            own = slice(start, start + _THREAD_ROWS)
            walk(X[own], *nodes, self.roots, scores[own])

        with ThreadPoolExecutor(n_threads()) as pool:
            list(pool.map(add, range(0, len(X), _THREAD_ROWS)))
        return scores

    def predict_slow(self, X: NDArray[Any]) -> Floats:
        """Scores in numpy, stepping through all trees of a block of rows at once."""
        scores = np.zeros(len(X))
        block = max(_NODES // max(len(self.roots), 1), 1)
        for start in range(0, len(X) if len(self.roots) else 0, block):
            rows = X[start : start + block]
            values, first = rows.ravel(), np.arange(len(rows))[:, None] * X.shape[1]
            has_gaps = bool(np.isnan(values).any())
            node = np.tile(self.roots, (len(rows), 1))
            for _ in range(self.depth):
                x = values[first + self.feature[node]]
                goes_left = x <= self.threshold[node]
                if has_gaps:
                    goes_left |= np.isnan(x) & self.missing_left[node]
                node = np.where(goes_left, self.left[node], self.right[node])
            # One after the other, as LightGBM adds: a sum would add in pairs.
            scores[start : start + block] = np.cumsum(self.value[node], axis=1)[:, -1]
        return scores

    def _steps(self) -> int:
        """The most steps from a root to a leaf."""
        level = np.zeros(len(self.feature), dtype=np.int64)
        for node in np.flatnonzero(self.left != np.arange(len(level))):  # parents come first
            level[[self.left[node], self.right[node]]] = level[node] + 1
        return int(level.max(initial=0))

    def tree(self) -> NDArray[np.int64]:
        """Tree number of each node, (m,)."""
        return np.searchsorted(self.roots, np.arange(len(self.feature)), side="right") - 1

    def check(self, n_features: int) -> None:
        """Raise a ValueError unless all paths move forward in their tree and end in a leaf."""
        whole = (self.feature, self.left, self.right, self.roots)
        real = (self.threshold, self.value)
        m = len(self.feature)
        node = np.arange(m)
        is_leaf = (self.left == node) & (self.right == node)
        onward = (self.left > node) & (self.right > node)
        right = (
            all(array.dtype == np.int64 and array.ndim == 1 for array in whole)
            and all(array.dtype == np.float64 and array.shape == (m,) for array in real)
            and self.left.shape == self.right.shape == self.missing_left.shape == (m,)
            and self.missing_left.dtype == np.bool_
            and all(np.isfinite(array).all() for array in real)
            and all((array >= 0).all() for array in whole)
            and (self.feature < n_features).all()
            and all((array < m).all() for array in (self.left, self.right, self.roots))
            and (is_leaf | onward).all()
            and type(self.depth) is int
            and 0 <= self.depth < 1_000
            # Scoring takes so many steps a row, whatever the trees: a small file must not hang.
            and (np.diff(self.roots, prepend=-1) > 0).all()
            and len(self.roots) * self.depth <= MOST_STEPS
            and all((self.tree()[side] == self.tree()).all() for side in (self.left, self.right))
            and (self.tree() >= 0).all()
            and self._steps() == self.depth
        )
        if not right:
            raise ValueError("trees should be nodes that lead to leaves, got something else.")
