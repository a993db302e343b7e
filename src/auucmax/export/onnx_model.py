"""A fitted model as an ONNX graph: one input a raw column, the score out."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from auucmax._validation import Floats
from auucmax.encoding import TableEncoder
from auucmax.estimators.formula import Formula, FormulaError
from auucmax.estimators.lambdamart import UpliftLambdaMART
from auucmax.estimators.networks.network import Network, layers_of
from auucmax.export.onnx_graph import Graph, linear_in_features
from auucmax.export.raw_formula import checked_formula, knots_of
from auucmax.export.trees import Trees, trees_of

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
