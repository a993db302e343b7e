from itertools import combinations

import numpy as np
import pytest
from experiments import cover_figure
from experiments.cover_figure import draw, edges, pairs_of
from experiments.rival_bounds.cover import fractional_cover
from matplotlib.colors import to_hex

pytestmark = pytest.mark.gate


def test_the_graph_of_the_paper():
    own_set = pairs_of(fractional_cover(2, 3))
    assert sorted(own_set) == [(i, j) for i in range(2) for j in range(3)]
    joined = edges(sorted(own_set))
    # Each pair shares its positive row with two others, its negative row with one.
    assert len(joined) == 6 * (2 + 1) / 2
    assert all(own_set[a] != own_set[b] for a, b in joined)


@pytest.mark.parametrize("counts", [(2, 3), (3, 2), (1, 4), (4, 4)])
def test_as_many_colours_as_the_chromatic_number(counts):
    own_set = pairs_of(fractional_cover(*counts))
    assert len(set(own_set.values())) == max(counts)
    for a, b in combinations(own_set, 2):
        if own_set[a] == own_set[b]:
            assert a[0] != b[0]
            assert a[1] != b[1]


def test_what_is_drawn():
    figure = draw()
    left, right = figure.axes
    colours = [to_hex(line.get_markeredgecolor()).upper() for line in left.lines]
    assert {colour: colours.count(colour) for colour in cover_figure.COLOURS[:3]} == dict.fromkeys(
        cover_figure.COLOURS[:3], 2
    )
    assert len(right.patches) == 3
    assert len([text for text in left.texts if text.get_text() == ""]) == 9  # the edges
    caption = figure.get_supxlabel()
    assert "$n_+$ = 2, $n_-$ = 3" in caption
    assert "max($n_+$, $n_-$) = 3" in caption


def test_labels_lie_within_the_picture():
    figure = draw()
    figure.canvas.draw()
    box = figure.bbox
    for text in [*figure.texts, *(t for ax in figure.axes for t in ax.texts if t.get_text())]:
        extent = text.get_window_extent()
        corners = np.array([[extent.x0, extent.y0], [extent.x1, extent.y1]])
        assert all(box.contains(x, y) for x, y in corners)
