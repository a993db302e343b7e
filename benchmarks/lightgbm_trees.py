"""Trees of LightGBM as the arrays that our trees are, to compare scores and speed."""

from __future__ import annotations

from typing import Any

from auucmax.estimators.formula import TreeScores


def trees_of(booster: Any) -> TreeScores:
    """The trees of a booster whose score is a sum of numbers in leaves."""
    nodes: list[list[float]] = []
    roots = []
    for tree in booster.dump_model()["tree_info"]:
        roots.append(len(nodes))
        pending = [(tree["tree_structure"], -1, 0)]  # node, parent, side
        while pending:
            node, parent, side = pending.pop()
            number = len(nodes)
            if parent >= 0:
                nodes[parent][side] = number
            if "leaf_value" in node:
                nodes.append([0, 0.0, number, number, False, node["leaf_value"]])
                continue
            # Where training had no missing value, LightGBM counts one as 0.
            left = bool(node["threshold"] >= 0)
            if node["missing_type"] == "NaN":
                left = bool(node["default_left"])
            nodes.append([node["split_feature"], node["threshold"], 0, 0, left, 0.0])
            pending.append((node["right_child"], number, 3))
            pending.append((node["left_child"], number, 2))
    return TreeScores.of(nodes, roots)
