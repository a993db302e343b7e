"""A fitted model as an ONNX graph: one input a raw column, the score out.

Numbers are doubles throughout. In single precision a date would lose its hours, and scores that
differ in the eighth digit would tie. The only file that loads onnx.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from auucmax._optional import import_optional
from auucmax._validation import Floats
from auucmax.encoding.columns import CYCLES, SHIFTS, WAVE_DIGITS, Column, Term
from auucmax.encoding.encoder import TableEncoder
from auucmax.encoding.kinds import MISSING_TEXTS, other_spellings
from auucmax.estimators.formula import Formula, FormulaError, RankMean
from auucmax.estimators.networks.network import Network, layers_of
from auucmax.estimators.trees import TreeScores
from auucmax.export.raw_formula import ArmScore, by_column, checked_formula, knots_of

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
        types = self._onnx.TensorProto
        element = types.STRING if kind == "category" else types.DOUBLE
        if name in self._inputs and self._inputs[name].type.tensor_type.elem_type != element:
            raise ValueError(
                f"column {name!r} should be of one kind in all arms, got texts in one and numbers "
                f"in another. Export the arms one by one."
            )
        if name not in self._inputs:
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

    def as_whole(self, name: str) -> str:
        """Numbers as whole numbers."""
        return self.node("Cast", name, to=self._onnx.TensorProto.INT64)

    def to_bytes(self, outputs: Iterable[str], texts: Iterable[str] = ()) -> bytes:
        """The model, checked, with one column of doubles, or of texts, for each output."""
        helper, types = self._onnx.helper, self._onnx.TensorProto
        kinds = [(name, types.DOUBLE) for name in outputs] + [(t, types.STRING) for t in texts]
        results = [helper.make_tensor_value_info(name, kind, ["rows"]) for name, kind in kinds]
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
    total = graph.constant(shift[None, :])
    for column, weighted in by_column(encoder, coef).items():
        name = graph.input(column.name, column.kind)
        if column.kind == "category":
            added = _category(graph, name, column, weighted, missing_text)
        elif column.kind == "code":
            added = _code(graph, name, column, weighted)
        else:
            added = _number(graph, name, weighted)
        total = graph.node("Add", total, added)
    return total


def _number(graph: Graph, name: str, weighted: list[tuple[Term, Floats]]) -> str:
    """value @ row and waves, the fill and one row more where it is missing, (rows, K)."""
    column = graph.node("Unsqueeze", name, graph.constant([1]))
    is_missing = graph.node("IsNaN", column)
    total = None
    for term, row in weighted:
        value = graph.as_double(is_missing)
        if term.kind != "missing":
            known = column if term.kind == "value" else _wave(graph, column, term)
            value = graph.node("Where", is_missing, graph.constant([[term.fill]]), known)
        added = graph.node("Mul", value, graph.constant(row[None, :]))
        total = added if total is None else graph.node("Add", total, added)
    return str(total)


def _wave(graph: Graph, days: str, term: Term) -> str:
    """The sine or cosine of dates, step by step as Python computes it, (rows, 1)."""
    turns = graph.node("Div", days, graph.constant([[CYCLES[str(term.level)]]]))
    turns = graph.node("Add", turns, graph.constant([[SHIFTS[term.kind]]]))
    place = graph.node("Sub", turns, graph.node("Floor", turns))
    sine = graph.node("Sin", graph.node("Mul", place, graph.constant([[2 * np.pi]])))
    unit = graph.constant([[10.0**WAVE_DIGITS]])
    return graph.node("Div", graph.node("Round", graph.node("Mul", sine, unit)), unit)


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
    return graph.node("Gather", graph.constant(_rows_of(column, weighted)), index)


def _code(graph: Graph, name: str, column: Column, weighted: list[tuple[Term, Floats]]) -> str:
    """The row of the whole number, of other, or of missing, (rows, K)."""
    value = graph.node("Unsqueeze", name, graph.constant([1]))
    levels = graph.constant([[float(level) for level in column.levels]])
    is_level = graph.as_double(graph.node("Equal", value, levels))
    is_missing = graph.as_double(graph.node("IsNaN", value))
    known = graph.node("ReduceSum", is_level, graph.constant([1]), keepdims=1)
    is_present = graph.node("Sub", graph.constant([[1.0]]), is_missing)
    is_other = graph.node("Sub", is_present, known)
    which = graph.node("Concat", is_level, is_other, is_missing, axis=1)
    # The place of the 1 among them. No MatMul, for the reason in _weighted_sum.
    index = graph.node("ArgMax", which, axis=1, keepdims=0)
    return graph.node("Gather", graph.constant(_rows_of(column, weighted)), index)


def _rows_of(column: Column, weighted: list[tuple[Term, Floats]]) -> Floats:
    """What is added: a row for each level in their order, then other, then missing."""
    place = {level: k for k, level in enumerate(column.levels)}
    table: NDArray[np.float64] = np.zeros((len(place) + 2, len(weighted[0][1])))
    for term, row in weighted:
        if term.kind in column.learnt:
            table[:-1] += np.outer(getattr(column, term.kind), row)
        else:
            unnamed = len(place) + (term.kind == "missing")
            table[unnamed if term.level is None else place[term.level]] += row
    return table


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

    Each raw column is an input of its own name and shape (rows,): doubles for numbers and codes
    (NaN where missing), booleans (0, 1) and dates (days since 1970-01-01, UTC); texts for
    categories, as ``level_text`` writes them. ONNX has no missing text: ``missing_text`` stands for
    it, as do the texts that a CSV file has for nothing. A text or a code that training did not have
    counts as *other*, or to no level if there is no other. The output, (rows,), is a double.

    Parameters
    ----------
    encoder : fitted ``TableEncoder``.
    scorer : ``Formula``, ``RankMean``, or a fitted estimator: one that is a formula, TARNet, CFRNet
        or GANITE.
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

    score = _score(graph, encoder, scorer, missing_text)
    graph.node("Squeeze", score, graph.constant([1]), output=score_name)
    if calibration is not None:
        uplift = _lines(graph, score, np.array(knots_of(calibration)).T)
        graph.node("Squeeze", uplift, graph.constant([1]), output=uplift_name)
    return graph.to_bytes(outputs)


def arms_to_onnx(
    arms: Sequence[ArmScore],
    *,
    control: str,
    value: float = 1.0,
    arm_name: str = "arm",
    missing_text: str = "",
) -> bytes:
    """The bytes of an ONNX model with the uplift of each of several arms, and each person's arm.

    That is the arm of the highest value * uplift - cost, or the control if none is above 0. The
    outputs are ``uplift LABEL`` for each arm, doubles, and ``arm_name``, a text. Others as in
    :func:`to_onnx`.
    """
    names = list(dict.fromkeys(c.name for arm in arms for c in arm.encoder.columns_))
    outputs = [arm.uplift_name for arm in arms]
    _check_names(names, [*outputs, arm_name])
    graph = Graph([*names, *outputs, arm_name])
    uplifts = []
    for arm in arms:
        score = _score(graph, arm.encoder, arm.scorer, missing_text)
        uplift = _lines(graph, score, np.array(knots_of(arm.calibration)).T)
        away = graph.node("Sub", score, graph.constant([[arm.centre]]))
        tilt = graph.node("Mul", away, graph.constant([[arm.slope]]))
        uplifts.append(graph.node("Add", uplift, tilt))
        graph.node("Squeeze", uplifts[-1], graph.constant([1]), output=arm.uplift_name)
    worth = graph.node("Mul", graph.node("Concat", *uplifts, axis=1), graph.constant([[value]]))
    net = graph.node("Sub", worth, graph.constant([[arm.cost for arm in arms]]))
    # The control comes first, and of equals the first is taken.
    nothing = graph.node("Mul", uplifts[0], graph.constant([[0.0]]))
    best = graph.node("ArgMax", graph.node("Concat", nothing, net, axis=1), axis=1, keepdims=0)
    labels = [text.encode() for text in (control, *(arm.label for arm in arms))]
    graph.node(
        "LabelEncoder", best, output=arm_name, keys_int64s=list(range(len(labels))),
        values_strings=labels, default_string=control.encode(),
    )  # fmt: skip
    return graph.to_bytes(outputs, [arm_name])


def _score(graph: Graph, encoder: TableEncoder, scorer: Any, missing_text: str) -> str:
    """The score of raw rows, (rows, 1)."""

    def linear(coef: Floats, shift: Floats) -> str:
        return linear_in_features(graph, encoder, coef, shift, missing_text)

    network = getattr(scorer, "network_", None)
    if isinstance(network, Network):
        return _of_network(graph, network, linear)
    return _of_any_formula(graph, _formula(encoder, scorer), linear)


def _formula(encoder: TableEncoder, scorer: Any) -> Formula | RankMean:
    try:
        return checked_formula(encoder, scorer)
    except FormulaError as error:
        raise FormulaError(f"{error} ONNX also takes TARNet, CFRNet and GANITE.") from error


def _of_any_formula(graph: Graph, formula: Formula | RankMean, linear: Linear) -> str:
    """The score, or the mean of the ranks of several, (rows, 1)."""
    if isinstance(formula, Formula):
        return _of_formula(graph, formula, linear)
    ranks = [
        _lines(graph, _of_formula(graph, member, linear), knots)
        for member, knots in zip(formula.members, formula.knots, strict=True)
    ]
    total = ranks[0]
    for rank in ranks[1:]:
        total = graph.node("Add", total, rank)
    return graph.node("Div", total, graph.constant([[float(len(ranks))]]))


def _of_formula(graph: Graph, formula: Formula, linear: Linear) -> str:
    """constant + sum of weight link(z), (rows, 1)."""
    score, p = graph.constant([[formula.constant]]), formula.n_features
    more = _bends_and_trees(graph, formula, linear)
    for link in dict.fromkeys(part.link for part in formula.parts):
        parts = [part for part in formula.parts if part.link == link]
        coef = np.column_stack([part.coef for part in parts])
        z = linear(coef[:p], np.array([part.intercept for part in parts]))
        if more is not None:
            z = graph.node("Add", z, graph.node("MatMul", more, graph.constant(coef[p:])))
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
    # Scaling is linear as well: it is folded into what the encoder adds.
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


def _bends_and_trees(graph: Graph, formula: Formula, linear: Linear) -> str | None:
    """Hinges and sums of trees, (rows, hinges + sums); None if there are none."""
    if not formula.hinges and not formula.trees:
        return None
    p = formula.n_features
    x, found = linear(np.eye(p), np.zeros(p)), []
    if formula.hinges:
        columns, knots = zip(*formula.hinges, strict=True)
        own = graph.node("Gather", x, graph.constant(columns), axis=1)
        above = graph.node("Sub", own, graph.constant([knots]))
        found.append(graph.node("Max", above, graph.constant([[0.0]])))
    found += [_of_trees(graph, x, trees) for trees in formula.trees]
    return graph.node("Concat", *found, axis=1)


def _of_trees(graph: Graph, x: str, trees: TreeScores) -> str:
    """Sum of the trees' leaves, (rows, 1), in doubles.

    What ONNX's trees give is in single precision. So each value is split in two: multiples of a
    unit, whose sums single precision holds exactly, and the rest, whose sums are small.
    """
    bound = sum(np.abs(trees.value[part]).max() for part in _each_tree(trees))
    unit = 2.0 ** (np.ceil(np.log2(bound)) - 23) if bound > 0 else 1.0
    coarse = np.rint(trees.value / unit) * unit
    both = _tree_node(graph, x, trees, np.column_stack([coarse, trees.value - coarse]))
    return graph.node("ReduceSum", graph.as_double(both), graph.constant([1]), keepdims=1)


def _each_tree(trees: TreeScores) -> list[slice]:
    ends = [*trees.roots[1:].tolist(), len(trees.feature)]
    return [slice(root, end) for root, end in zip(trees.roots.tolist(), ends, strict=True)]


def _tree_node(graph: Graph, x: str, trees: TreeScores, values: Floats) -> str:
    """Sums over trees of the values (nodes, T) of leaves, (rows, T).

    ONNX numbers the nodes of each tree from 0.
    """
    tree, number = trees.tree(), np.arange(len(trees.feature))
    place, leaf = number - trees.roots[tree], trees.left == number
    n_targets = values.shape[1]
    return graph.node(
        "TreeEnsembleRegressor",
        x,
        n_targets=n_targets,
        nodes_treeids=tree.tolist(),
        nodes_nodeids=place.tolist(),
        nodes_modes=np.where(leaf, "LEAF", "BRANCH_LEQ").tolist(),
        nodes_featureids=trees.feature.tolist(),
        nodes_values_as_tensor=graph.tensor(trees.threshold),
        nodes_truenodeids=np.where(leaf, 0, place[trees.left]).tolist(),
        nodes_falsenodeids=np.where(leaf, 0, place[trees.right]).tolist(),
        target_treeids=np.repeat(tree[leaf], n_targets).tolist(),
        target_nodeids=np.repeat(place[leaf], n_targets).tolist(),
        target_ids=np.tile(np.arange(n_targets), int(leaf.sum())).tolist(),
        target_weights_as_tensor=graph.tensor(values[leaf].ravel()),
    )


def _lines(graph: Graph, score: str, knots: Floats) -> str:
    """Straight lines between knots (2, k), constant outside, of scores (rows, 1).

    A tree finds the line: a table of all of them for all rows would be large.
    """
    scores, heights = np.asarray(knots, dtype=np.float64)
    # Lines 0 and k are constant: of width 1 and without a rise.
    left = np.concatenate([scores[:1], scores])
    width = np.concatenate([[1.0], np.diff(scores), [1.0]])
    low = np.concatenate([heights[:1], heights])
    rise = np.concatenate([[0.0], np.diff(heights), [0.0]])
    finder = _search_tree(scores)
    found = _tree_node(graph, score, finder, finder.value[:, None])
    line = graph.as_whole(found)
    start, span, base, more = (
        graph.node("Gather", graph.constant(each), line) for each in (left, width, low, rise)
    )
    # Outside of the knots the share may be anything, and infinite times 0 is no number.
    inside = graph.node("Min", graph.node("Max", score, graph.constant([[scores[0]]])),
                        graph.constant([[scores[-1]]]))  # fmt: skip
    share = graph.node("Div", graph.node("Sub", inside, start), span)
    return graph.node("Add", base, graph.node("Mul", more, share))


def _search_tree(cuts: Floats) -> TreeScores:
    """A tree that finds how many of the increasing cuts are below a number: its one feature."""
    nodes: list[list[float]] = []  # threshold, left, right, value

    def grow(first: int, last: int) -> int:
        own = len(nodes)
        nodes.append([0.0, own, own, float(first)])
        if first < last:
            middle = (first + last) // 2
            children = grow(first, middle), grow(middle + 1, last)
            nodes[own] = [float(cuts[middle]), *children, 0.0]
        return own

    grow(0, len(cuts))
    threshold, left, right, value = np.array(nodes).T.copy()
    whole, none = (left.astype(np.int64), right.astype(np.int64)), np.zeros(len(nodes), np.int64)
    depth = int(np.ceil(np.log2(len(cuts) + 1)))
    return TreeScores(
        none, threshold, *whole, none.astype(np.bool_), value, np.zeros(1, np.int64), depth
    )


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
            f"twice. Rename the column and fit again, or export SQL (in Python: or set score_name "
            f"or uplift_name)."
        )
