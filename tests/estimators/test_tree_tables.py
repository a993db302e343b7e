"""Tables give the very scores of the trees, and are left to small trees."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.estimators.test_trees import quick
from tests.strategies import forests

from auucmax.estimators import tree_tables
from auucmax.estimators.tree_tables import tables_of
from auucmax.estimators.trees import TreeScores

VALUES = [-1.0, -0.5, 0.0, 0.25, 0.5, 1.0, 2.0, np.nan, np.inf, -np.inf]


def looked_up(tables, x):
    """The score of a row, by the definition of cells."""
    code = []
    for k, feature in enumerate(tables.feature):
        cuts = tables.cuts[tables.first_cut[k] : tables.first_cut[k + 1]]
        value = x[feature]
        if np.isnan(value):
            value = -np.inf if tables.gap_left[k] else np.inf
        code.append(int((cuts < value).sum()))
    total = 0.0
    for tree, first in enumerate(tables.first_value[:-1]):
        own = range(tables.first_column[tree], tables.first_column[tree + 1])
        places = [tables.place[tables.first_place[j] + code[tables.column[j]]] for j in own]
        total += tables.value[first + sum(map(int, places))]
    return total


@settings(max_examples=60, deadline=None)
@given(forests(3), st.integers(0, 99))
def test_tables_look_up_the_scores_of_the_trees(forest, seed):
    rows = np.random.default_rng(seed).choice(VALUES, (30, 3))
    tables = tables_of(forest)
    expected = forest.predict_slow(rows)
    if tables is not None:
        assert [looked_up(tables, x) for x in rows] == expected.tolist()
        assert len(tables.value) <= tree_tables.MOST_CELLS * len(forest.roots)
    np.testing.assert_array_equal(quick(forest, rows), expected)


def stumps(cuts):
    """A tree of one split for each threshold, all on feature 0."""
    nodes = []
    for k, cut in enumerate(cuts):
        first = 3 * k
        nodes += [[0, cut, first + 1, first + 2, k % 2, 0.0]]
        nodes += [[0, 0.0, first + side, first + side, 0, k / 7 + side] for side in (1, 2)]
    return TreeScores.of(nodes, range(0, 3 * len(cuts), 3))


def test_trees_that_would_make_large_tables_are_walked_through(monkeypatch):
    rows = np.random.default_rng(0).choice([*VALUES, 7.5, 300.0], (200, 10))
    many = stumps(np.arange(600.0))
    chain = [[k, 0.0, 2 * k + 1, 2 * k + 2, 0, 0.0] for k in range(9)]
    nodes = []
    for k, node in enumerate(chain):  # splits of nine features: 512 cells, ten leaves
        nodes += [node, [0, 0.0, 2 * k + 1, 2 * k + 1, 0, k / 3]]
    deep = TreeScores.of([*nodes, [0, 0.0, 18, 18, 0, 5.0]], [0])
    assert tables_of(many) is not None
    assert tables_of(deep) is None
    for forest in (many, deep):
        np.testing.assert_array_equal(quick(forest, rows), forest.predict_slow(rows))
    with monkeypatch.context() as patch:
        patch.setattr(tree_tables, "MOST_CUTS", 200)
        assert tables_of(many) is None
    with monkeypatch.context() as patch:
        patch.setattr(tree_tables, "_MOST_PLACES", 10_000)
        assert tables_of(many) is None


@pytest.mark.parametrize("n_roots", [0, 1])
def test_trees_without_splits(n_roots):
    none = np.zeros(n_roots, dtype=np.int64)
    leaf = TreeScores(none, none * 0.0, none, none, none > 0, none + 2.5, none, 0)
    assert quick(leaf, np.zeros((3, 1))).tolist() == [2.5 * n_roots] * 3
    assert tables_of(replace(leaf)).value.tolist() == [2.5] * n_roots
