"""Boosted trees as flat lists, the way ONNX has them: LightGBM's, or those of a model file."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from auucmax._validation import Floats


class NodeArrays(Protocol):
    """Trees that share arrays of nodes, as a model file has them; a leaf is its own child."""

    @property
    def feature(self) -> NDArray[np.int64]: ...
    @property
    def threshold(self) -> Floats: ...
    @property
    def left(self) -> NDArray[np.int64]: ...
    @property
    def right(self) -> NDArray[np.int64]: ...
    @property
    def value(self) -> Floats: ...
    @property
    def roots(self) -> NDArray[np.int64]: ...


@dataclass
class Trees:
    """Nodes of all trees, in lists of equal length; leaves with their values.

    A row goes to the true branch where feature <= threshold.
    """

    tree: list[int] = field(default_factory=list)
    node: list[int] = field(default_factory=list)
    mode: list[str] = field(default_factory=list)
    feature: list[int] = field(default_factory=list)
    threshold: list[float] = field(default_factory=list)
    true: list[int] = field(default_factory=list)
    false: list[int] = field(default_factory=list)
    leaf_tree: list[int] = field(default_factory=list)
    leaf_node: list[int] = field(default_factory=list)
    leaf_value: list[float] = field(default_factory=list)

    @property
    def thresholds(self) -> Floats:
        return np.array(self.threshold)

    @property
    def leaf_values(self) -> Floats:
        return np.array(self.leaf_value)

    def attributes(self) -> dict[str, list[Any]]:
        """Attributes of a ``TreeEnsembleRegressor``, but for thresholds and values."""
        return {
            "nodes_treeids": self.tree,
            "nodes_nodeids": self.node,
            "nodes_modes": self.mode,
            "nodes_featureids": self.feature,
            "nodes_truenodeids": self.true,
            "nodes_falsenodeids": self.false,
            "target_treeids": self.leaf_tree,
            "target_nodeids": self.leaf_node,
            "target_ids": [0] * len(self.leaf_tree),
        }


def trees_of(booster: Any) -> Trees:
    """The trees of a LightGBM booster, or of ``NodeArrays``: what an UpliftLambdaMART has.

    Features are numbers without gaps, as encoded ones are.

    >>> root = {"split_feature": 0, "threshold": 0.5, "decision_type": "<="}
    >>> root |= {"left_child": {"leaf_value": 1.0}, "right_child": {"leaf_value": 3.0}}
    >>> class Stump:
    ...     def dump_model(self):
    ...         return {"tree_info": [{"tree_structure": root}]}
    >>> trees_of(Stump()).leaf_value
    [1.0, 3.0]
    """
    trees = Trees()
    for number, root in enumerate(_roots(booster)):
        _add(trees, number, root)
    return trees


def _roots(booster: Any) -> list[dict[str, Any]]:
    """The root of each tree, its children in it, and theirs in them."""
    if not hasattr(booster, "dump_model"):
        return _roots_of_arrays(booster)
    plain = booster.dump_model()
    if plain.get("average_output"):
        raise _unknown("trees whose mean is the score (boosting='rf')")
    return [tree["tree_structure"] for tree in plain["tree_info"]]


def _roots_of_arrays(arrays: NodeArrays) -> list[dict[str, Any]]:
    nodes: list[dict[str, Any]] = [{} for _ in arrays.feature]
    columns = (arrays.feature, arrays.threshold, arrays.left, arrays.right, arrays.value)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    for k, (feature, threshold, left, right, value) in enumerate(rows):
        if left == k:
            nodes[k]["leaf_value"] = value
            continue
        nodes[k] |= {"split_feature": feature, "threshold": threshold, "decision_type": "<="}
        nodes[k] |= {"left_child": nodes[left], "right_child": nodes[right]}
    return [nodes[root] for root in arrays.roots.tolist()]


def _add(trees: Trees, number: int, root: dict[str, Any]) -> None:
    """All nodes of a tree, parents before children, numbered in that order."""
    waiting, n_nodes, next_name = [root], 0, 1
    while n_nodes < len(waiting):
        node = waiting[n_nodes]
        is_leaf = "split_feature" not in node
        if is_leaf:
            _check_leaf(node)
            trees.leaf_tree.append(number)
            trees.leaf_node.append(n_nodes)
            trees.leaf_value.append(float(node["leaf_value"]))
        else:
            _check_split(node)
            waiting += [node["left_child"], node["right_child"]]
        trees.tree.append(number)
        trees.node.append(n_nodes)
        trees.mode.append("LEAF" if is_leaf else "BRANCH_LEQ")
        trees.feature.append(0 if is_leaf else int(node["split_feature"]))
        trees.threshold.append(0.0 if is_leaf else float(node["threshold"]))
        trees.true.append(0 if is_leaf else next_name)
        trees.false.append(0 if is_leaf else next_name + 1)
        next_name += 0 if is_leaf else 2
        n_nodes += 1


def _check_split(node: dict[str, Any]) -> None:
    if node["decision_type"] != "<=":
        raise _unknown("a split by sets of categories")
    if node.get("missing_type") == "Zero":
        raise _unknown("zeros that count as missing (zero_as_missing)")


def _check_leaf(node: dict[str, Any]) -> None:
    if "leaf_coeff" in node:
        raise _unknown("linear functions in leaves (linear_tree)")


def _unknown(what: str) -> ValueError:
    return ValueError(
        f"trees to export should split numbers by thresholds and have numbers in their leaves, got "
        f"{what}. Fit without that LightGBM parameter."
    )
