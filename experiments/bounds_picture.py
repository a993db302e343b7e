"""The picture of bounds-figure: the distribution of E[AUUC] minus bound, one row for each bound."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from scipy.stats import norm

from experiments.bounds_figure import NOT_VALID, TRAINING, Figure2
from experiments.harness import Line

VALID, INVALID = "#1f77b4", "#d62728"
LINEAR_TO = 0.02  # beyond it the axis is logarithmic
TICKS = (0, 0.005, 0.01, 0.015, 0.02, 0.05, 0.1, 0.2, 0.4)


def draw(lines: list[Line]) -> Figure:
    """Box: middle half of the splits; line: 1% to 99%; point: median."""
    data = Figure2(lines)
    names = data.order()
    figure = Figure(figsize=(9, 0.36 * len(names) + 1.9), layout="constrained")
    ax = figure.subplots()
    ax.spines[["top", "right"]].set_visible(False)
    for place, name in enumerate(names):
        low, first, middle, third, high = np.quantile(
            data.gaps(name), [0.01, 0.25, 0.5, 0.75, 0.99]
        )
        colour = INVALID if name in NOT_VALID else VALID
        ax.plot([low, high], [place, place], color=colour, lw=1.5, solid_capstyle="butt")
        ax.plot(
            [first, third], [place, place], color=colour, lw=8, solid_capstyle="butt", alpha=0.5
        )
        ax.plot([middle], [place], "o", color=colour, ms=4)
    half = float(norm.ppf(0.975)) * data.error
    centre = data.mean - data.upper  # 0 is E[AUUC] as the paper estimates it, an upper end
    ax.axvspan(centre - half, centre + half, color="0.9", zorder=0, lw=0)
    ax.axvline(0, color="0.5", lw=1, zorder=1)
    ax.axvline(data.upper - data.random, color="0.5", lw=1, ls=":", zorder=1)
    ax.set_yticks(range(len(names)), [_label(name) for name in names])
    ax.set_ylim(len(names) - 0.4, -0.6)
    ax.set_xscale("symlog", linthresh=LINEAR_TO, linscale=1.6)
    ax.set_xticks(TICKS, [f"{tick:g}" for tick in TICKS])
    ax.minorticks_off()
    widest = max(float(np.quantile(data.gaps(name), 0.99)) for name in names)
    ax.set_xlim(centre - 1.2 * half, 1.15 * widest)
    ax.set_xlabel(f"E[AUUC] - bound (linear to {LINEAR_TO:g}, then logarithmic)")
    figure.legend(handles=_legend(), loc="outside upper center", ncols=3, frameon=False)
    return figure


def _label(name: str) -> str:
    return f"{name} ({'training' if name in TRAINING else 'held-out'} rows)"


def _legend() -> list[Patch | Line2D]:
    return [
        Patch(color=VALID, alpha=0.7, label="holds"),
        Patch(color=INVALID, alpha=0.7, label="does not hold, or no guarantee"),
        Patch(color="0.9", label="E[AUUC] itself, 95%"),
        Line2D([], [], color="0.3", lw=8, alpha=0.5, label="middle half of the splits"),
        Line2D([], [], color="0.3", lw=1.5, marker="o", ms=4, label="1% to 99%, median"),
        Line2D([], [], color="0.5", ls=":", label="left of it: better than random"),
    ]
