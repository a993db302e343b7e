"""Export a model as an ONNX graph from raw columns to scores, uplifts and arm.

Numbers are doubles throughout. In single precision a date would lose its hours, and scores that
differ in the eighth digit would tie. The only file that loads onnx.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from auucmax._errors import InputError
from auucmax._optional import import_optional
from auucmax._validation import Floats
from auucmax.encoding.columns import WAVE_DIGITS
from auucmax.encoding.kinds import MISSING_TEXTS
from auucmax.estimators.formula import TreeScores
from auucmax.export.raw_formula import (
    Effect,
    Knots,
    RawFormula,
    RawMember,
    RawModel,
    Wave,
    check_names,
    raw_model,
)

OPSET, ML_OPSET, IR_VERSION = 17, 3, 8  # runtimes since 2022 read these
_DOUBLE, _INT64 = 11, 7  # types of ONNX


def to_onnx(model: Any, *, cost: Any = None, value: float | None = None) -> bytes:
    """ONNX model, as bytes, that scores raw rows like the model.

    Each raw column is an input of its own name and shape (rows,): doubles for numbers and codes
    (NaN where missing), booleans (0, 1) and dates (days since 1970-01-01, UTC); texts for
    categories, as ``level_text`` writes them. ONNX has no missing text: the empty text stands for
    it, as do NA and the like. A text or a code that was not in training counts as *other*, or as no
    level if there is no other.

    The outputs, (rows,), are ``score`` and ``uplift`` (with several arms ``score LABEL`` and
    ``uplift LABEL`` for each), doubles, and ``arm``, a text.

    Parameters
    ----------
    model : ``UpliftModel``.
    cost, value : as in :func:`auucmax.export.to_sql`.

    Examples
    --------
    >>> import onnxruntime
    >>> from auucmax import fit, make_trial
    >>> trial = make_trial(2_000, random_state=0)
    >>> model = fit(trial, "tm")
    >>> session = onnxruntime.InferenceSession(to_onnx(model))
    >>> columns = {name: trial.X[name].to_numpy(np.float64) for name in trial.X}
    >>> score, = session.run(["score"], columns)
    >>> bool(np.allclose(score, model.predict(trial.X)))
    True
    """
    raw = raw_model(model, cost, value)
    if "" in (name for name, _ in raw.columns):
        raise InputError(
            "a name of a column", "a text with characters", "an empty one: ONNX reads it as none",
            "Rename the column and fit again.",
        )  # fmt: skip
    check_names(raw.names, dict.fromkeys(name for name, _ in raw.columns))
    graph = _Graph(raw)
    uplifts = []
    for arm in raw.arms:
        score = _score(graph, arm.score)
        away = graph.node("Sub", score, graph.constant(arm.centre))
        tilt = graph.node("Mul", away, graph.constant(arm.slope))
        uplift = graph.node("Add", _lines(graph, score, arm.knots), tilt)
        uplifts.append(uplift)
        for name, own in zip(arm.names, (score, uplift), strict=True):
            graph.node("Squeeze", own, graph.constant([1]), output=name)
    worth = graph.node("Mul", graph.node("Concat", *uplifts, axis=1), graph.constant(raw.value))
    net = graph.node("Sub", worth, graph.constant([[arm.cost for arm in raw.arms]]))
    # The control comes first, and of equals the first is taken.
    nothing = graph.node("Mul", uplifts[0], graph.constant(0.0))
    best = graph.node("ArgMax", graph.node("Concat", nothing, net, axis=1), axis=1, keepdims=0)
    labels = [text.encode() for text in (raw.control, *(arm.label for arm in raw.arms))]
    graph.node(
        "LabelEncoder", best, output="arm", keys_int64s=list(range(len(labels))),
        values_strings=labels, default_string=labels[0],
    )  # fmt: skip
    return graph.to_bytes(raw.names)


class _Graph:
    """Builder for the nodes, constants and inputs of a graph, with unique names."""

    def __init__(self, raw: RawModel) -> None:
        self._onnx = import_optional("onnx", extra="onnx")
        self._taken = {*raw.names, *(name for name, _ in raw.columns)}
        self._nodes: list[Any] = []
        self._constants: list[Any] = []
        self._inputs: dict[str, Any] = {}
        self._made: dict[Any, str] = {}
        types = self._onnx.TensorProto
        for name, kind in raw.columns:
            element = types.STRING if kind == "category" else types.DOUBLE
            self._inputs[name] = self._onnx.helper.make_tensor_value_info(name, element, ["rows"])

    def constant(self, value: Any) -> str:
        """Add a constant of doubles or integers."""
        array = np.asarray(value)
        array = array.astype(np.int64 if array.dtype.kind in "iu" else np.float64)
        key = array.shape, array.dtype.str, array.tobytes()
        if key not in self._made:
            self._made[key] = self._fresh("constant")
            self._constants.append(self._onnx.numpy_helper.from_array(array, self._made[key]))
        return self._made[key]

    def node(
        self, operator: str, *inputs: str, output: str | None = None, **attributes: Any
    ) -> str:
        """Add an operator, unless the same one exists; return the name of its result."""
        key = operator, inputs, output, repr(attributes)
        if key not in self._made or operator == "TreeEnsembleRegressor":
            name = self._made[key] = output or self._fresh(operator)
            domain = "ai.onnx.ml" if operator in ("LabelEncoder", "TreeEnsembleRegressor") else ""
            self._nodes.append(
                self._onnx.helper.make_node(
                    operator, list(inputs), [name], domain=domain, **attributes
                )
            )
        return self._made[key]

    def tensor(self, values: Floats) -> Any:
        """A tensor attribute of doubles."""
        return self._onnx.numpy_helper.from_array(np.asarray(values, dtype=np.float64))

    def to_bytes(self, outputs: Sequence[str]) -> bytes:
        """Serialise the checked model with one column per output; the last output is text."""
        helper, types = self._onnx.helper, self._onnx.TensorProto
        kinds = [*[types.DOUBLE] * (len(outputs) - 1), types.STRING]
        results = [
            helper.make_tensor_value_info(name, kind, ["rows"])
            for name, kind in zip(outputs, kinds, strict=True)
        ]
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


def _score(graph: _Graph, formula: RawFormula) -> str:
    """Add the score of raw rows, (rows, 1)."""
    features = [_effect(graph, own) for own in formula.features]
    bent = [
        graph.node(
            "Max", graph.node("Sub", features[k], graph.constant(q)), graph.constant([[0.0]])
        )
        for k, q in formula.hinges
    ]
    if features:
        x = graph.node("Concat", *features, axis=1)
        sums = [_of_trees(graph, x, trees) for trees in formula.trees]
    else:  # trees of one leaf
        sums = [graph.constant([[float(t.value[t.roots].sum())]]) for t in formula.trees]
    terms = [*features, *bent, *sums]
    ranks = []
    for member in formula.members:
        own = _member(graph, member, terms)
        ranks.append(own if member.knots is None else _lines(graph, own, member.knots))
    return graph.node("Div", graph.node("Sum", *ranks), graph.constant(float(len(ranks))))


def _member(graph: _Graph, member: RawMember, terms: list[str]) -> str:
    """constant + sum of parts, (rows, 1)."""
    total = []
    for part in member.parts:
        inner = [_effect(graph, own) for own in part.effects if not own.is_zero]
        weights = [*part.features, *part.hinges, *part.trees]
        inner += [
            graph.node("Mul", term, graph.constant(weight))
            for term, weight in zip(terms, weights, strict=True)
            if weight != 0
        ]
        z = graph.constant([[part.intercept]])
        if inner:
            z = graph.node("Add", graph.node("Sum", *inner), z)
        linked = graph.node("Sigmoid", z) if part.link == "sigmoid" else z
        total.append(graph.node("Mul", linked, graph.constant(part.weight)))
    return graph.node("Add", graph.node("Sum", *total), graph.constant(member.constant))


def _effect(graph: _Graph, effect: Effect | Wave) -> str:
    """Add the effect of a raw column, (rows, 1)."""
    if effect.kind == "category":
        assert isinstance(effect, Effect)
        return _by_level(graph, effect, _category_index(graph, effect))
    x = graph.node("Unsqueeze", effect.column, graph.constant([1]))
    is_missing = graph.node("IsNaN", x)
    if isinstance(effect, Wave):  # step by step as Python computes it
        turns = graph.node("Div", x, graph.constant(effect.period))
        turns = graph.node("Add", turns, graph.constant(effect.shift))
        place = graph.node("Sub", turns, graph.node("Floor", turns))
        sine = graph.node("Sin", graph.node("Mul", place, graph.constant(2 * np.pi)))
        unit = graph.constant(10.0**WAVE_DIGITS)
        wave = graph.node("Div", graph.node("Round", graph.node("Mul", sine, unit)), unit)
        return graph.node("Where", is_missing, graph.constant(0.0), wave)
    if effect.kind == "code":
        return _by_level(graph, effect, _code_index(graph, effect, x, is_missing))
    product = graph.node("Mul", x, graph.constant(effect.per_unit))
    return graph.node("Where", is_missing, graph.constant(effect.when_missing), product)


def _by_level(graph: _Graph, effect: Effect, index: str) -> str:
    weights = [*(weight for _, weight in effect.levels), effect.other, effect.missing]
    return graph.node("Gather", graph.constant(np.array(weights)[:, None]), index)


def _category_index(graph: _Graph, effect: Effect) -> str:
    """Index of each text among levels, other and missing, (rows,)."""
    levels = [text for text, _ in effect.levels]
    missing = [text for text in MISSING_TEXTS if text not in levels]
    return graph.node(
        "LabelEncoder",
        effect.column,
        keys_strings=[text.encode() for text in (*levels, *missing)],
        values_int64s=[*range(len(levels)), *([len(levels) + 1] * len(missing))],
        default_int64=len(levels),
    )


def _code_index(graph: _Graph, effect: Effect, x: str, is_missing: str) -> str:
    """Index of each integer among levels, other and missing, (rows,)."""
    levels = graph.constant([[float(level) for level, _ in effect.levels]])
    is_level = graph.node("Cast", graph.node("Equal", x, levels), to=_DOUBLE)
    missing = graph.node("Cast", is_missing, to=_DOUBLE)
    # 1 for a level or a missing value, which is larger than the 0.5 of other.
    other = graph.node("Where", is_missing, graph.constant(0.0), graph.constant(0.5))
    which = graph.node("Concat", is_level, other, missing, axis=1)
    return graph.node("ArgMax", which, axis=1, keepdims=0)


def _of_trees(graph: _Graph, x: str, trees: TreeScores) -> str:
    """Sum of the leaves of trees in double precision, (rows, 1).

    The results of ONNX's trees are in single precision. So each value is split in two: multiples of
    a unit, whose sums single precision holds exactly, and the rest, whose sums are small.
    """
    ends = [*trees.roots.tolist(), len(trees.feature)]
    bound = sum(np.abs(trees.value[start:end]).max() for start, end in pairwise(ends))
    unit = 2.0 ** (np.ceil(np.log2(bound)) - 23) if bound > 0 else 1.0
    coarse = np.rint(trees.value / unit) * unit
    both = _tree_node(graph, x, trees, np.column_stack([coarse, trees.value - coarse]))
    return graph.node(
        "ReduceSum", graph.node("Cast", both, to=_DOUBLE), graph.constant([1]), keepdims=1
    )


def _tree_node(graph: _Graph, x: str, trees: TreeScores, values: Floats) -> str:
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


def _lines(graph: _Graph, score: str, knots: Knots) -> str:
    """Piecewise linear interpolation of scores (rows, 1), constant outside the knots.

    A tree finds the line: a table of all of them for all rows would be large.
    """
    scores, heights = np.array(knots, dtype=np.float64).T
    # Lines 0 and k are constant: of width 1 and without a rise.
    left = np.concatenate([scores[:1], scores])
    width = np.concatenate([[1.0], np.diff(scores), [1.0]])
    low = np.concatenate([heights[:1], heights])
    rise = np.concatenate([[0.0], np.diff(heights), [0.0]])
    finder = _search_tree(scores)
    line = graph.node("Cast", _tree_node(graph, score, finder, finder.value[:, None]), to=_INT64)
    start, span, base, more = (
        graph.node("Gather", graph.constant(each), line) for each in (left, width, low, rise)
    )
    # Outside of the knots the share may be anything, and infinite times 0 is no number.
    inside = graph.node("Min", graph.node("Max", score, graph.constant([[scores[0]]])),
                        graph.constant([[scores[-1]]]))  # fmt: skip
    share = graph.node("Div", graph.node("Sub", inside, start), span)
    return graph.node("Add", base, graph.node("Mul", more, share))


def _search_tree(cuts: Floats) -> TreeScores:
    """A search tree that counts how many cuts lie below a number."""
    nodes: list[list[float]] = []  # as TreeScores.of takes them

    def grow(first: int, last: int) -> int:
        own = len(nodes)
        nodes.append([0, 0.0, own, own, 0, first])
        if first < last:
            middle = (first + last) // 2
            nodes[own][1:4] = cuts[middle], grow(first, middle), grow(middle + 1, last)
        return own

    grow(0, len(cuts))
    return TreeScores.of(nodes, [0])
