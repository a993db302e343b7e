"""``python -m experiments.cover_figure``: pairs that share a row, and sets of pairs that do not.

The example of the paper's appendix: two positive and three negative rows make six pairs. An edge
joins pairs that share a row, for these depend on each other. The cover of
:func:`experiments.rival_bounds.cover.fractional_cover` divides the pairs into sets without an edge.
"""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from matplotlib.patches import Ellipse

from experiments.rival_bounds.cover import (
    FractionalCover,
    fractional_chromatic_number,
    fractional_cover,
)

PICTURE = Path(__file__).resolve().parent.parent / "docs" / "images" / "cover.png"
N_POSITIVE, N_NEGATIVE = 2, 3
# Of Okabe and Ito: for people with any kind of colour vision.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9")

Pair = tuple[int, int]  # positive row, negative row


def pairs_of(cover: FractionalCover) -> dict[Pair, int]:
    """Number of the set that each pair lies in."""
    return {(int(i), int(j)): k for k, pairs in enumerate(cover.pairs) for i, j in pairs}


def edges(pairs: list[Pair]) -> list[tuple[Pair, Pair]]:
    """Pairs of pairs that share a row."""
    return [(a, b) for a, b in combinations(pairs, 2) if a[0] == b[0] or a[1] == b[1]]


def draw(n_positive: int = N_POSITIVE, n_negative: int = N_NEGATIVE) -> Figure:
    """Left the dependency graph, right the sets of the cover, each on its own line."""
    cover = fractional_cover(n_positive, n_negative)
    own_set = pairs_of(cover)
    figure = Figure(figsize=(8.4, 4.0), layout="constrained")
    left, right = figure.subplots(1, 2)
    _draw_graph(left, own_set)
    _draw_sets(right, cover)
    # A fractional cover cannot weigh less, and this one does not weigh more.
    chromatic = fractional_chromatic_number(n_positive, n_negative)
    figure.supxlabel(
        f"(i, j): positive row i and negative row j\n$n_+$ = {n_positive}, $n_-$ = {n_negative}: "
        f"{len(own_set)} pairs, chromatic number max($n_+$, $n_-$) = {chromatic}, the weight of "
        f"the cover",
        fontsize=11,
    )
    return figure


def _draw_graph(ax: Any, own_set: dict[Pair, int]) -> None:
    """Positive rows from top to bottom, negative rows from left to right."""
    for (i, j), (k, m) in edges(sorted(own_set)):
        # Pairs two places apart are joined by an arc, so that it does not run through a third.
        bend = 0.0 if abs(i - k) + abs(j - m) == 1 else (0.32 if i == 0 else -0.32)
        arc = {"arrowstyle": "-", "connectionstyle": f"arc3,rad={bend}", "color": "0.45"}
        ax.annotate("", (j, -i), (m, -k), arrowprops=arc | {"lw": 1.5, "shrinkA": 0, "shrinkB": 0})
    for pair, number in own_set.items():
        _draw_pair(ax, (pair[1], -pair[0]), pair, number)
    ax.set_title("pairs, joined if they share a row", fontsize=11)
    n_positive, n_negative = (max(pair[side] for pair in own_set) + 1 for side in (0, 1))
    ax.set(xlim=(-0.6, n_negative - 0.4), ylim=(-n_positive + 0.2, 0.8))
    ax.axis("off")


def _draw_sets(ax: Any, cover: FractionalCover) -> None:
    n_sets, size = cover.pairs.shape[:2]
    for k, pairs in enumerate(cover.pairs):
        ax.add_patch(
            Ellipse(
                ((size - 1) / 2, -k), size + 0.5, 0.86, fill=False, ls="--", lw=1.5, ec=COLOURS[k]
            )
        )
        for place, (i, j) in enumerate(pairs):
            _draw_pair(ax, (place, -k), (int(i), int(j)), k)
        ax.text(size + 0.0, -k, f"set {k + 1}, weight {cover.weights[k]:g}", va="center")
    ax.set_title("a cover: no two pairs of a set share a row", fontsize=11)
    ax.set(xlim=(-0.9, size + 1.4), ylim=(-n_sets + 0.4, 0.6))
    ax.axis("off")


def _draw_pair(ax: Any, place: tuple[float, float], pair: Pair, number: int) -> None:
    ax.plot(*place, "o", ms=40, mfc="white", mec=COLOURS[number], mew=5, zorder=3)
    label = f"({pair[0] + 1}, {pair[1] + 1})"
    ax.text(*place, label, ha="center", va="center", fontsize=12, zorder=4)


if __name__ == "__main__":
    draw().savefig(PICTURE, dpi=150, metadata={"Software": None})
    print(f"wrote docs/images/{PICTURE.name}")
