"""Scores as formulas of the features, which models hold, save and export.

    score(x) = constant + sum_k weight_k link_k(intercept_k + coef_k . e(x))

with the identity or the sigmoid as links. e(x) are the features, then hinges max(x_c - q, 0), then
sums of trees, if there are some. Or the mean of the ranks that several such scores have. That is
what SQL, ONNX or a short program can compute. ``formula()`` of a fitted estimator returns it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit

from auucmax._validation import Floats
from auucmax.estimators.trees import TreeScores

LINKS = ("identity", "sigmoid")
_BLOCK = 4_096  # rows whose terms stay near the processor
_TREE = [field.name for field in fields(TreeScores)]


def expanded(X: NDArray[Any], columns: NDArray[np.int64], knots: Floats) -> Floats:
    """Columns and hinges max(x - q, 0), (n, d + h)."""
    n, d = X.shape
    result = np.empty((n, d + len(knots)))
    result[:, :d] = X
    hinges = result[:, d:]
    np.subtract(result[:, columns], knots, out=hinges)
    np.maximum(hinges, 0, out=hinges)
    return result


@dataclass(frozen=True, eq=False)
class Part:
    """One term, weight * link(intercept + coef . e(x)), where e(x) is the encoded row.

    ``coef`` has shape (p + hinges + sums of trees,).
    """

    weight: float
    link: str
    intercept: float
    coef: Floats


@dataclass(frozen=True, eq=False)
class Formula:
    """constant + sum of parts; calling it with (n, p) features gives (n,) scores.

    ``hinges`` are pairs (c, q) that stand for max(x_c - q, 0), ``trees`` sums of trees; of both the
    parts have coefficients after those of the features, of which none may be missing.

    Examples
    --------
    >>> rise = Part(2.0, "identity", 1.0, np.array([1.0, -1.0]))
    >>> Formula((rise,), constant=0.5)([[3.0, 1.0]])
    array([6.5])
    >>> bent = Part(1.0, "identity", 0.0, np.array([1.0, -1.0]))  # min(x, 2)
    >>> Formula((bent,), hinges=((0, 2.0),))([[1.0], [5.0]])
    array([1., 2.])
    """

    parts: tuple[Part, ...]
    constant: float = 0.0
    hinges: tuple[tuple[int, float], ...] = ()
    trees: tuple[TreeScores, ...] = ()

    @property
    def n_features(self) -> int:
        """Number of input features, p."""
        return len(self.parts[0].coef) - len(self.hinges) - len(self.trees)

    @property
    def is_linear(self) -> bool:
        """Whether the formula is a constant plus one linear part."""
        plain = not self.hinges and not self.trees and len(self.parts) == 1
        return plain and self.parts[0].link == "identity"

    def __call__(self, X: ArrayLike) -> Floats:
        rows = _rows(X, self.n_features)
        return self.scores(rows, rows)

    predict = __call__

    def scores(self, X: NDArray[Any], numbers: NDArray[Any]) -> Floats:
        """Scores of rows, which trees take; ``numbers`` are X without missing values."""
        columns, knots = np.array(self.hinges or np.zeros((0, 2))).T
        coef = np.array([part.coef for part in self.parts])
        intercept, weight = (
            np.array([getattr(part, name) for part in self.parts])
            for name in ("intercept", "weight")
        )
        curved = np.array([part.link == "sigmoid" for part in self.parts])
        found, n_linear = np.empty(len(X)), coef.shape[1] - len(self.trees)
        sums = np.array([trees.predict(X) for trees in self.trees]).reshape(len(self.trees), len(X))
        for start in range(0, len(X), _BLOCK):
            own = slice(start, start + _BLOCK)
            terms = expanded(numbers[own], columns.astype(np.int64), knots)
            inner = terms @ coef[:, :n_linear].T + sums[:, own].T @ coef[:, n_linear:].T
            inner += intercept
            inner[:, curved] = expit(inner[:, curved])
            found[own] = inner @ weight + self.constant
        return found


@dataclass(frozen=True, eq=False)
class RankMean:
    """The mean over formulas m of F_m(score_m), F_m given by knots: lines between, flat outside.

    ``knots`` has for each formula an array (2, k): scores, which increase, and ranks.

    Examples
    --------
    >>> rise = Formula((Part(1.0, "identity", 0.0, np.array([1.0])),))
    >>> RankMean((rise,), (np.array([[0.0, 10.0], [0.0, 1.0]]),))([[-1.0], [2.5]])
    array([0.  , 0.25])
    """

    members: tuple[Formula, ...]
    knots: tuple[Floats, ...]

    @property
    def n_features(self) -> int:
        """Number of input features, p."""
        return self.members[0].n_features

    def __call__(self, X: ArrayLike) -> Floats:
        rows = _rows(X, self.n_features)
        pairs = zip(self.members, self.knots, strict=True)
        return np.mean([np.interp(member(rows), *knots) for member, knots in pairs], axis=0)

    predict = __call__


def to_arrays(formula: Formula | RankMean) -> dict[str, NDArray[Any]]:
    """The formula as named arrays; :func:`from_arrays` restores it.

    Names of member k begin with ``k.``; that of a ``RankMean`` has ``k.knots``.
    """
    members = formula.members if isinstance(formula, RankMean) else (formula,)
    found: dict[str, NDArray[Any]] = {}
    for k, member in enumerate(members):
        own: dict[str, Any] = {
            "constant": np.array([member.constant]),
            "weight": np.array([part.weight for part in member.parts]),
            "is_sigmoid": np.array([part.link == "sigmoid" for part in member.parts]),
            "intercept": np.array([part.intercept for part in member.parts]),
            "coef": np.array([part.coef for part in member.parts]),
            "hinge_column": np.array([c for c, _ in member.hinges], dtype=np.int64),
            "hinge_knot": np.array([q for _, q in member.hinges], dtype=np.float64),
        }
        for j, trees in enumerate(member.trees):
            own |= {f"trees.{j}.{name}": np.atleast_1d(getattr(trees, name)) for name in _TREE}
        if isinstance(formula, RankMean):
            own["knots"] = formula.knots[k]
        found |= {f"{k}.{name}": array for name, array in own.items()}
    return found


def from_arrays(arrays: Mapping[str, NDArray[Any]], n_features: int) -> Formula | RankMean:
    """Restore a formula from :func:`to_arrays`; raise an error for anything else.

    >>> line = Formula((Part(1.0, "identity", 0.5, np.array([2.0])),))
    >>> from_arrays(to_arrays(line), 1)([[1.0]])
    array([2.5])
    """
    groups: dict[str, dict[str, NDArray[Any]]] = {}
    for name, array in arrays.items():
        number, _, own = name.partition(".")
        groups.setdefault(number, {})[own] = array
    found = [_member(groups[str(k)], n_features) for k in range(len(groups))]
    members, knots = zip(*found, strict=True)
    formula = members[0] if len(found) == 1 and knots[0] is None else RankMean(members, knots)
    if not np.isfinite(formula(np.zeros((2, n_features)))).all():
        raise ValueError("a score should be finite, got one that is not.")
    return formula


def _member(own: dict[str, NDArray[Any]], n_features: int) -> tuple[Formula, Floats | None]:
    """One formula of its arrays, and the knots of its ranks, if it has some."""
    trees: list[TreeScores] = []
    while (start := f"trees.{len(trees)}.") + "roots" in own:
        nodes: dict[str, Any] = {name: own.pop(start + name) for name in _TREE}
        trees.append(TreeScores(**nodes | {"depth": int(nodes["depth"].item())}))
        trees[-1].check(n_features)
    knots = own.pop("knots", None)
    columns, weight = own["hinge_column"], own["weight"]
    shapes = dict.fromkeys(("weight", "is_sigmoid", "intercept"), weight.shape) | {
        "coef": (weight.size, n_features + columns.size + len(trees)),
        "constant": (1,),
        "hinge_column": (columns.size,),
        "hinge_knot": (columns.size,),
    }
    kinds = {"is_sigmoid": np.bool_, "hinge_column": np.int64}
    right = (
        {name: array.shape for name, array in own.items()} == shapes
        and all(array.dtype == kinds.get(name, np.float64) for name, array in own.items())
        and weight.ndim == 1
        and weight.size > 0
        and ((columns >= 0) & (columns < n_features)).all()
    )
    if right and knots is not None:
        right = (
            (knots.dtype, knots.ndim, len(knots)) == (np.float64, 2, 2)
            and knots.size > 0
            and (np.diff(knots[0]) > 0).all()
            and (np.diff(knots[1], prepend=0.0) >= 0).all()
            and knots[1, -1] <= 1
        )
    if not right:
        raise ValueError("a score should be the formula of a model, got other arrays.")
    parts = zip(
        weight.tolist(), own["is_sigmoid"], own["intercept"].tolist(), own["coef"], strict=True
    )
    formula = Formula(
        tuple(Part(w, LINKS[int(is_sigmoid)], b, coef) for w, is_sigmoid, b, coef in parts),
        float(own["constant"][0]),
        tuple(zip(columns.tolist(), own["hinge_knot"].tolist(), strict=True)),
        tuple(trees),
    )
    return formula, knots


def _rows(X: ArrayLike, n_features: int) -> Floats:
    rows = np.asarray(X, dtype=np.float64)
    if rows.ndim != 2 or rows.shape[1] != n_features:
        raise ValueError(
            f"X should have {n_features} columns, got an array of shape {rows.shape}. "
            f"Pass the encoded features."
        )
    return rows
