"""Lookup tables for small trees, which replace walking to a leaf.

A *column* is a feature, together with the side to which its missing values go. The code of a row in
it is the number of thresholds, those of all trees, below the row's value; it is found once for all
trees. The few thresholds of one tree cut the codes of each of its columns into stretches, and all
rows of a *cell*, one stretch of each column, end in the same leaf. The place of a cell in the
table of the tree is a sum of one number a column, which the code tells. So a tree takes one look a
column and one for the value, and none depends on the one before it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from auucmax._validation import Bools, Floats

if TYPE_CHECKING:
    from auucmax.estimators.trees import TreeScores

MOST_CELLS = 256  #: of a tree: places are bytes. A tree of 9 leaves never has more
MOST_CUTS = 1_000  #: of a column: all are compared with every row
_MOST_PLACES = 2**22  # of all trees: a small file must not make large tables


class TreeTables(NamedTuple):
    """Lookup tables of trees for the compiled scorer.

    Of each column the ``feature``, whether missing values go left, and its thresholds, which are
    ``cuts[first_cut[k] : first_cut[k + 1]]``. Of each tree the columns that it uses,
    ``column[first_column[t] : first_column[t + 1]]``; the number that each code of such a column
    adds to the place, ``place[first_place[j] : first_place[j + 1]]``; and the value of each place,
    ``value[first_value[t] : first_value[t + 1]]``.
    """

    feature: NDArray[np.int64]
    gap_left: Bools
    first_cut: NDArray[np.int64]
    cuts: Floats
    first_column: NDArray[np.int64]
    column: NDArray[np.int64]
    first_place: NDArray[np.int64]
    place: NDArray[np.uint8]
    first_value: NDArray[np.int64]
    value: Floats


def tables_of(trees: TreeScores) -> TreeTables | None:
    """Build lookup tables; None if a tree is too large."""
    split = np.flatnonzero(trees.left != np.arange(len(trees.left)))
    keys = 2 * trees.feature[split] + trees.missing_left[split]
    columns, column = np.unique(keys, return_inverse=True)
    cuts = [np.unique(trees.threshold[split[column == k]]) for k in range(len(columns))]
    n_codes = np.array([len(own) + 1 for own in cuts], dtype=np.int64)
    tree = trees.tree()[split]
    used = np.unique(np.stack([tree, column]), axis=1)[1]
    if n_codes.max(initial=0) > MOST_CUTS or n_codes[used].sum() > _MOST_PLACES:
        return None
    code = np.zeros(len(split), dtype=np.int64)
    for k, own in enumerate(cuts):
        code[column == k] = np.searchsorted(own, trees.threshold[split[column == k]])
    order = np.argsort(tree, kind="stable")
    ends = np.searchsorted(tree[order], np.arange(len(trees.roots) + 1))
    tables = []
    for root, first, last in zip(trees.roots, ends[:-1], ends[1:], strict=True):
        own = order[first:last]
        table = _table(trees, root, split[own], column[own], code[own], n_codes)
        if table is None:
            return None
        tables.append(table)
    places = [place for _, of_columns, _ in tables for place in of_columns]
    return TreeTables(
        columns // 2,
        columns % 2 == 1,
        *_joined(cuts, np.float64),
        *_joined([own for own, _, _ in tables], np.int64),
        *_joined(places, np.uint8),
        *_joined([values for _, _, values in tables], np.float64),
    )


def _table(
    trees: TreeScores,
    root: int,
    split: NDArray[np.int64],
    column: NDArray[np.int64],
    code: NDArray[np.int64],
    n_codes: NDArray[np.int64],
) -> tuple[NDArray[np.int64], list[NDArray[np.int64]], Floats] | None:
    """Columns of a tree, index contribution of each code, and the table of values.

    ``column`` and ``code`` are those of the nodes ``split``: rows of at most this code go left.
    """
    columns, at = np.unique(column, return_inverse=True)
    cuts = [np.unique(code[at == k]) for k in range(len(columns))]
    sizes = np.array([len(own) + 1 for own in cuts], dtype=np.int64)
    if np.prod(sizes.astype(np.float64)) > MOST_CELLS:
        return None
    steps = np.concatenate([[1], np.cumprod(sizes)])
    places = [
        step * np.searchsorted(own, np.arange(n_codes[k]))
        for step, own, k in zip(steps[:-1], cuts, columns, strict=True)
    ]
    cell = np.arange(steps[-1])
    stretch = cell[:, None] // steps[:-1] % sizes
    node = np.full(len(cell), root)
    # Nodes of a tree lie together, its root first.
    asks, last = (np.zeros(split.max(initial=root) - root + 1, np.int64) for _ in range(2))
    asks[split - root] = at
    last[split - root] = [np.searchsorted(cuts[k], own) for k, own in zip(at, code, strict=True)]
    while (inner := trees.left[node] != node).any():
        here = node[inner] - root
        left = stretch[cell[inner], asks[here]] <= last[here]
        node[inner] = np.where(left, trees.left[node[inner]], trees.right[node[inner]])
    return columns, places, trees.value[node]


def _joined(parts: list[NDArray[Any]], kind: Any) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Concatenate parts; return offsets (with the end) and the array."""
    ends = np.cumsum([0, *map(len, parts)])
    return ends, np.concatenate([*parts, np.empty(0)]).astype(kind)
