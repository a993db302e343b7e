"""The paper's example: pairs that share a row, and a cover that separates them."""

from itertools import combinations

import pytest
from experiments.cover_figure import COLOURS, draw, edges, pairs_of
from experiments.rival_bounds.cover import fractional_cover
from matplotlib.colors import to_hex

pytestmark = pytest.mark.gate


@pytest.mark.parametrize("counts", [(2, 3), (3, 2), (1, 4), (4, 4)])
def test_as_many_colours_as_the_chromatic_number(counts):
    own_set = pairs_of(fractional_cover(*counts))
    assert len(set(own_set.values())) == max(counts)
    joined = set(edges(sorted(own_set)))
    for pair in combinations(sorted(own_set), 2):
        assert (pair in joined) == (pair[0][0] == pair[1][0] or pair[0][1] == pair[1][1])
        assert own_set[pair[0]] != own_set[pair[1]] or pair not in joined


def test_what_is_drawn():
    left, right = draw().axes
    colours = [to_hex(line.get_markeredgecolor()).upper() for line in left.lines]
    assert {colour: colours.count(colour) for colour in COLOURS[:3]} == dict.fromkeys(
        COLOURS[:3], 2
    )
    assert len(right.patches) == 3
    assert len([text for text in left.texts if text.get_text() == ""]) == 9  # the edges
