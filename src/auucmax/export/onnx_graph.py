"""Building an ONNX graph: raw columns in, linear functions of the encoded features out.

Numbers are doubles throughout. In single precision a date would lose its hours, and scores that
differ in the eighth digit would tie. The only file that loads onnx.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from auucmax._optional import import_optional
from auucmax._validation import Floats
from auucmax.encoding.encoder import Column, TableEncoder, Term
from auucmax.encoding.texts import MISSING_TEXTS, other_spellings

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
