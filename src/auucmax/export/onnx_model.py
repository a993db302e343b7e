"""A fitted model as an ONNX graph: one input a raw column, the score out.

Building an ONNX graph: raw columns in, linear functions of the encoded features out.

Numbers are doubles throughout. In single precision a date would lose its hours, and scores that
differ in the eighth digit would tie. The only file that loads onnx.

Boosted trees as flat lists, the way ONNX has them: LightGBM's, or those of a model file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from auucmax._optional import import_optional
from auucmax._validation import Floats
from auucmax.encoding.encoder import Column, TableEncoder, Term
from auucmax.encoding.texts import MISSING_TEXTS, other_spellings
from auucmax.estimators.formula import Formula, FormulaError
from auucmax.estimators.lambdamart import UpliftLambdaMART
from auucmax.estimators.networks.network import Network, layers_of
from auucmax.export.raw_formula import checked_formula, knots_of

OPSET, ML_OPSET, IR_VERSION = 17, 3, 8  # what runtimes since 2022 read


class Graph:
    """Nodes, constants and inputs, each value with a name that no other has."""

    def __init__(self, taken: Iterable[str]) -> None:
        self._onnx = import_optional("onnx", extra="onnx")
        self._taken = set(taken)
        self._nodes: list[Any] = []
        self._constants: list[Any] = []
        self._inputs: dict[str, Any] = {}

    def input(self, name: str, kind: str) -> str:
        """A raw column, (rows,): doubles, or texts for kind "category"."""
        if name not in self._inputs:
            types = self._onnx.TensorProto
            element = types.STRING if kind == "category" else types.DOUBLE
            info = self._onnx.helper.make_tensor_value_info(name, element, ["rows"])
            self._inputs[name] = info
        return name

    def constant(self, value: Any) -> str:
        """Doubles or whole numbers that are part of the model."""
        array = np.asarray(value)
        array = array.astype(np.int64 if array.dtype.kind in "iu" else np.float64)
        name = self._fresh("constant")
        self._constants.append(self._onnx.numpy_helper.from_array(array, name))
        return name

    def node(
        self, operator: str, *inputs: str, output: str | None = None, **attributes: Any
    ) -> str:
        """The name of what an operator makes of its inputs."""
        name = output or self._fresh(operator)
        domain = "ai.onnx.ml" if operator in ("LabelEncoder", "TreeEnsembleRegressor") else ""
        made = self._onnx.helper.make_node(
            operator, list(inputs), [name], domain=domain, **attributes
        )
        self._nodes.append(made)
        return name

    def tensor(self, values: Floats) -> Any:
        """Doubles as an attribute of a node."""
        return self._onnx.numpy_helper.from_array(np.asarray(values, dtype=np.float64))

    def as_double(self, name: str) -> str:
        """Booleans or single-precision numbers as doubles."""
        return self.node("Cast", name, to=self._onnx.TensorProto.DOUBLE)

    def to_bytes(self, outputs: Iterable[str]) -> bytes:
        """The model, checked, with one column of doubles for each output."""
        helper, types = self._onnx.helper, self._onnx.TensorProto
        results = [helper.make_tensor_value_info(name, types.DOUBLE, ["rows"]) for name in outputs]
        inputs = list(self._inputs.values())
        graph = helper.make_graph(self._nodes, "score", inputs, results, self._constants)
        opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid("ai.onnx.ml", ML_OPSET)]
        model = helper.make_model(graph, opset_imports=opsets, producer_name="auucmax")
        model.ir_version = IR_VERSION
        self._onnx.checker.check_model(model, full_check=True)
        return bytes(model.SerializeToString())

    def _fresh(self, stem: str) -> str:
        name = stem
        while name in self._taken:
            name = f"{stem}_{len(self._taken)}_"
        self._taken.add(name)
        return name


def linear_in_features(
    graph: Graph, encoder: TableEncoder, coef: Floats, shift: Floats, missing_text: str
) -> str:
    """shift + x @ coef, (rows, K), x the (rows, p) features of the encoder.

    ``coef`` is (p, K), ``shift`` (K,). The features themselves are never built: each raw column
    adds its rows of ``coef``.
    """
    own: dict[str, list[tuple[Term, Floats]]] = {column.name: [] for column in encoder.columns_}
    for term, row in zip(encoder.terms_, coef, strict=True):
        own[term.column].append((term, row))
    total = graph.constant(shift[None, :])
    for column in encoder.columns_:
        if not own[column.name]:
            continue
        name = graph.input(column.name, column.kind)
        if column.kind == "category":
            added = _category(graph, name, column, own[column.name], missing_text)
        else:
            added = _number(graph, name, own[column.name])
        total = graph.node("Add", total, added)
    return total


def _number(graph: Graph, name: str, weighted: list[tuple[Term, Floats]]) -> str:
    """value @ row, the fill and one row more where it is missing, (rows, K)."""
    column = graph.node("Unsqueeze", name, graph.constant([1]))
    is_missing = graph.node("IsNaN", column)
    parts = []
    for term, row in weighted:
        if term.kind == "value":
            value = graph.node("Where", is_missing, graph.constant([[term.fill]]), column)
        else:
            value = graph.as_double(is_missing)
        parts.append(graph.node("Mul", value, graph.constant(row[None, :])))
    return parts[0] if len(parts) == 1 else graph.node("Add", *parts)


def _category(
    graph: Graph,
    name: str,
    column: Column,
    weighted: list[tuple[Term, Floats]],
    missing_text: str,
) -> str:
    """The row of the level, of other, or of missing, (rows, K)."""
    if missing_text in column.levels:
        raise ValueError(
            f"missing_text, which stands for a missing text, should be no level, got "
            f"{missing_text!r}, a level of column {column.name!r}. Pass another missing_text."
        )
    n_levels = len(column.levels)
    place = {level: k for k, level in enumerate(column.levels)}
    table: NDArray[np.float64] = np.zeros((n_levels + 2, len(weighted[0][1])))
    for term, row in weighted:
        table[_place(term, place)] = row
    missing = dict.fromkeys(t for t in (missing_text, *MISSING_TEXTS) if t not in place)
    spelt = {t: place[own] for t, own in other_spellings(place).items() if t not in missing}
    keys = [level.encode() for level in (*column.levels, *spelt, *missing)]
    index = graph.node(
        "LabelEncoder",
        name,
        keys_strings=keys,
        values_int64s=[*range(n_levels), *spelt.values(), *([n_levels + 1] * len(missing))],
        default_int64=n_levels,
    )
    return graph.node("Gather", graph.constant(table), index)


def _place(term: Term, place: dict[str, int]) -> int:
    """Levels in their order, then other, then missing."""
    if term.level is not None:
        return place[term.level]
    return len(place) + (term.kind == "missing")


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


#: (p, K) coefficients and (K,) shifts -> name of the (rows, K) values.
Linear = Callable[[Floats, Floats], str]


def to_onnx(
    encoder: TableEncoder,
    scorer: Any,
    *,
    calibration: Any = None,
    score_name: str = "score",
    uplift_name: str = "uplift",
    missing_text: str = "",
) -> bytes:
    """The bytes of an ONNX model that scores raw rows as ``scorer`` does.

    Each raw column is an input of its own name and shape (rows,): doubles for numbers (NaN where
    missing), booleans (0, 1) and dates (days since 1970-01-01, UTC); texts for categories, as
    ``level_text`` writes them. ONNX has no missing text: ``missing_text`` stands for it, as do the
    texts that a CSV file has for nothing. A text that training did not have counts as *other*, or
    to no level if there is no other. The output, (rows,), is a double; what trees add to it is
    rounded to single precision, since ONNX's trees have no other output.

    Parameters
    ----------
    encoder : fitted ``TableEncoder``.
    scorer : ``Formula``, or a fitted estimator: one that is a formula, TARNet, CFRNet, GANITE, or
        UpliftLambdaMART.
    calibration : ``Calibration`` or None. With it there is a second output, the calibrated uplift.
    score_name, uplift_name : names of the outputs.
    missing_text : the text that stands for a missing one.

    Examples
    --------
    >>> import pandas as pd
    >>> from auucmax.estimators.formula import Part
    >>> encoder = TableEncoder(min_level_rows=1).fit(pd.DataFrame({"age": [30.0, 40.0, 50.0]}))
    >>> model = to_onnx(encoder, Formula((Part(2.0, "sigmoid", -20.0, np.array([0.5])),)))
    >>> import onnxruntime
    >>> session = onnxruntime.InferenceSession(model)
    >>> session.run(["score"], {"age": np.array([40.0, np.nan])})[0].tolist()
    [1.0, 1.0]
    """
    names = [column.name for column in encoder.columns_]
    outputs = [score_name] if calibration is None else [score_name, uplift_name]
    _check_names(names, outputs)
    graph = Graph([*names, *outputs])

    def linear(coef: Floats, shift: Floats) -> str:
        return linear_in_features(graph, encoder, coef, shift, missing_text)

    network = getattr(scorer, "network_", None)
    if isinstance(network, Network):
        score = _of_network(graph, network, linear)
    elif isinstance(scorer, UpliftLambdaMART):
        score = _of_trees(graph, trees_of(scorer.booster_), len(encoder.terms_), linear)
    else:
        score = _of_formula(graph, _formula(encoder, scorer), linear)
    flat = graph.node("Squeeze", score, graph.constant([1]), output=score_name)
    if calibration is not None:
        _uplift(graph, flat, knots_of(calibration), uplift_name)
    return graph.to_bytes(outputs)


def _formula(encoder: TableEncoder, scorer: Any) -> Formula:
    try:
        return checked_formula(encoder, scorer)
    except FormulaError as error:
        raise FormulaError(
            f"{error} ONNX also takes TARNet, CFRNet, GANITE and UpliftLambdaMART."
        ) from error


def _of_formula(graph: Graph, formula: Formula, linear: Linear) -> str:
    """constant + sum of weight link(z), (rows, 1)."""
    score = graph.constant([[formula.constant]])
    for link in dict.fromkeys(part.link for part in formula.parts):
        parts = [part for part in formula.parts if part.link == link]
        coef = np.column_stack([part.coef for part in parts])
        z = linear(coef, np.array([part.intercept for part in parts]))
        values = graph.node("Sigmoid", z) if link == "sigmoid" else z
        weights = np.array([part.weight for part in parts])
        score = graph.node("Add", score, _weighted_sum(graph, values, weights))
    return score


def _weighted_sum(graph: Graph, values: str, weights: Floats) -> str:
    """values @ weights, (rows, 1).

    Not as a MatMul: with it onnxruntime fuses a product or quotient before it, its factor in
    single precision (MatMulScaleFusion).
    """
    products = graph.node("Mul", values, graph.constant(weights[None, :]))
    return graph.node("ReduceSum", products, graph.constant([1]), keepdims=1)


def _of_network(graph: Graph, network: Network, linear: Linear) -> str:
    """(Outcome if treated - outcome if not) * y_scale, as ``Network.uplift``."""
    scales, weights = network.scales, network.weights
    x = linear(np.diag(scales.factor), -scales.shift * scales.factor)
    for weight, bias in layers_of(weights, "shared"):
        x = graph.node("Relu", _dense(graph, x, weight, bias))
    if network.normalise:
        squares = graph.node("ReduceSumSquare", x, axes=[1], keepdims=1)
        norm = graph.node("Sqrt", graph.node("Add", squares, graph.constant(1e-12)))
        x = graph.node("Div", x, norm)
    arms = [_head(graph, x, arm, weights) for arm in ("treated", "control")]
    if scales.binary:
        arms = [graph.node("Sigmoid", arm) for arm in arms]
    return graph.node("Mul", graph.node("Sub", *arms), graph.constant(scales.y_scale))


def _head(graph: Graph, x: str, arm: str, weights: dict[str, Any]) -> str:
    """Output of an arm, (rows, 1); a single head takes the treatment as its last feature."""
    layers = list(layers_of(weights, arm))
    if not layers:
        (weight, bias), *rest = layers_of(weights, "head")
        layers = [(weight[:-1], bias + weight[-1] * (arm == "treated")), *rest]
    *hidden, last = layers
    for layer in hidden:
        x = graph.node("Relu", _dense(graph, x, *layer))
    return _dense(graph, x, *last)


def _dense(graph: Graph, x: str, weight: Any, bias: Any) -> str:
    return graph.node("Add", graph.node("MatMul", x, graph.constant(weight)), graph.constant(bias))


def _of_trees(graph: Graph, trees: Trees, n_features: int, linear: Linear) -> str:
    """Sum of the trees' leaves, (rows, 1)."""
    x = linear(np.eye(n_features), np.zeros(n_features))
    total = graph.node(
        "TreeEnsembleRegressor",
        x,
        n_targets=1,
        nodes_values_as_tensor=graph.tensor(trees.thresholds),
        target_weights_as_tensor=graph.tensor(trees.leaf_values),
        output=None,
        **trees.attributes(),
    )
    return graph.as_double(total)


def _uplift(graph: Graph, score: str, knots: list[tuple[float, float]], name: str) -> str:
    """First value + sum of steps, each by the share of its width that the score has passed."""
    first, axis = graph.constant([[knots[0][1]]]), graph.constant([1])
    column = graph.node("Unsqueeze", score, axis)
    if len(knots) == 1:
        ((only, height),) = knots
        knots = [*knots, (only + max(1.0, abs(only) / 2), height)]  # a step of no height
    scores, uplifts = np.array(knots).T
    left, right = graph.constant(scores[:-1]), graph.constant(scores[1:])
    within = graph.node("Min", graph.node("Max", column, left), right)
    width = graph.constant(np.diff(scores))
    passed = graph.node("Div", graph.node("Sub", within, left), width)
    steps = _weighted_sum(graph, passed, np.diff(uplifts))
    return graph.node("Squeeze", graph.node("Add", first, steps), axis, output=name)


def _check_names(columns: Iterable[str], outputs: list[str]) -> None:
    names = [*columns, *outputs]
    if "" in names:
        raise ValueError(
            "the names of columns and outputs should have characters, got an empty one: ONNX takes "
            "it for none. Rename the column."
        )
    if repeated := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(
            f"outputs should have other names than columns and each other, got {repeated[0]!r} "
            f"twice. Set score_name or uplift_name."
        )
