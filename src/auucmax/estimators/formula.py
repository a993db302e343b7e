"""Scores as formulas of the features, which models hold, save and export.

    score(x) = constant + sum_k weight_k link_k(intercept_k + coef_k . e(x))

with the identity or the sigmoid as links. e(x) are the features, then hinges max(x_c - q, 0), then
sums of trees, if there are some. Or the mean of the ranks that several such scores have. That is
what SQL, ONNX or a short program can compute. ``formula()`` of a fitted estimator returns it.
Trees are plain arrays; those that come from a file are checked node by node.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit

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
    """Restore a formula from its arrays, with the knots of its ranks, if any."""
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
