"""Boosted trees as plain arrays, so that a file of them can be checked before it is used.

LightGBM's own reader of model texts trusts them: a damaged one can end the process. Arrays are
checked node by node, and scoring them needs no LightGBM.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from auucmax._validation import Floats

MOST_STEPS = 2_000_000  #: of a row through all trees
_BLOCK = 8_192  # rows whose nodes stay in the cache


@dataclass(frozen=True, eq=False)
class TreeScores:
    """A sum of trees: at a node a row goes left if its feature is at most the threshold.

    Node k has ``feature[k]``, ``threshold[k]``, ``left[k]`` and ``right[k]``, all (m,); a leaf is
    its own child on both sides and has the score ``value[k]``. ``roots`` has a node for each tree,
    ``depth`` is the most steps from a root to a leaf.

    Examples
    --------
    >>> stump = TreeScores(
    ...     np.array([1, 0, 0]), np.array([0.5, 0, 0]), np.array([1, 1, 2]), np.array([2, 1, 2]),
    ...     np.array([0.0, -1, 1]), np.array([0]), 1,
    ... )
    >>> stump.predict(np.array([[9.0, 0.5], [9.0, 0.6]]))
    array([-1.,  1.])
    """

    feature: NDArray[np.int64]
    threshold: Floats
    left: NDArray[np.int64]
    right: NDArray[np.int64]
    value: Floats
    roots: NDArray[np.int64]
    depth: int

    def predict(self, X: NDArray[Any], num_threads: int | None = None) -> Floats:
        """Scores, (n,), of rows without missing values; ``num_threads`` is LightGBM's."""
        scores = np.zeros(len(X))
        for start in range(0, len(X), _BLOCK):
            block = X[start : start + _BLOCK]
            rows = np.arange(len(block))
            for root in self.roots:
                node = np.full(len(block), root)
                for _ in range(self.depth):
                    goes_left = block[rows, self.feature[node]] <= self.threshold[node]
                    node = np.where(goes_left, self.left[node], self.right[node])
                scores[start : start + _BLOCK] += self.value[node]
        return scores

    def check(self, n_features: int) -> None:
        """ValueError unless every step leads from a node to a later one, and ends in a leaf."""
        whole = (self.feature, self.left, self.right, self.roots)
        real = (self.threshold, self.value)
        m = len(self.feature)
        node = np.arange(m)
        is_leaf = (self.left == node) & (self.right == node)
        onward = (self.left > node) & (self.right > node)
        right = (
            all(array.dtype == np.int64 and array.ndim == 1 for array in whole)
            and all(array.dtype == np.float64 and array.shape == (m,) for array in real)
            and self.left.shape == self.right.shape == (m,)
            and all(np.isfinite(array).all() for array in real)
            and all((array >= 0).all() for array in whole)
            and (self.feature < n_features).all()
            and all((array < m).all() for array in (self.left, self.right, self.roots))
            and (is_leaf | onward).all()
            and type(self.depth) is int
            and 0 <= self.depth < 1_000
            # Scoring takes so many steps a row, whatever the trees: a small file must not hang.
            and len(np.unique(self.roots)) == len(self.roots)
            and len(self.roots) * self.depth <= MOST_STEPS
        )
        if not right:
            raise ValueError("trees should be nodes that lead to leaves, got something else.")


def trees_of(booster: Any) -> TreeScores:
    """The trees of a LightGBM booster whose score is a sum of numbers in leaves.

    ValueError for others, whose arrays would give other scores: splits by sets of categories or
    with zeros that count as missing, linear functions in leaves, random forests (a mean).
    """
    plain = booster.dump_model()
    if plain.get("average_output"):
        raise _unknown("trees whose mean is the score (boosting='rf')")
    nodes: list[list[float]] = []  # feature, threshold, left, right, value
    roots, depth = [], 0
    for tree in plain["tree_info"]:
        roots.append(len(nodes))
        pending = [(tree["tree_structure"], -1, 0, 0)]  # node, parent, side, depth
        while pending:
            node, parent, side, level = pending.pop()
            number = len(nodes)
            depth = max(depth, level)
            if parent >= 0:
                nodes[parent][side] = number
            _check_node(node)
            if "leaf_value" in node:
                nodes.append([0, 0.0, number, number, node["leaf_value"]])
                continue
            nodes.append([node["split_feature"], node["threshold"], 0, 0, 0.0])
            pending.append((node["right_child"], number, 3, level + 1))
            pending.append((node["left_child"], number, 2, level + 1))
    feature, threshold, left, right, value = np.array(nodes).T.reshape(5, -1)
    whole = [column.astype(np.int64) for column in (feature, left, right)]
    return TreeScores(
        whole[0], threshold.copy(), whole[1], whole[2], value.copy(), np.array(roots), depth
    )


def _check_node(node: dict[str, Any]) -> None:
    if node.get("decision_type", "<=") != "<=":
        raise _unknown("a split by sets of categories (categorical_feature)")
    if node.get("missing_type") == "Zero":
        raise _unknown("zeros that count as missing (zero_as_missing)")
    if "leaf_coeff" in node:
        raise _unknown("linear functions in leaves (linear_tree)")


def _unknown(what: str) -> ValueError:
    return ValueError(
        f"trees to be saved should split numbers by thresholds and add up numbers in their leaves, "
        f"got {what}. Leave that parameter out of lightgbm_params, and fit again."
    )
