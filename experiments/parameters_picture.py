"""The paper's Figure 3: test AUUC on Hillstrom against the number of parameters."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from experiments import table_1
from experiments.harness import Line
from experiments.table_1_page import TM, Scores

OURS, HIGHLIGHT = "#1f77b4", "#d62728"
FEW = 2  # models of one size whose names fit beside their points
STEP = 0.0005  # between the names of a list
#: Labels of models that lie together: offset in points and alignment.
PLACES = {
    "TM": (-7, 5, "right"),
    "DDR": (7, 3, "left"),
    "SDR": (7, -4, "left"),
    "MML": (7, -9, "left"),
    "NDCG": (-5, 4, "right"),
}


def draw(lines: list[Line]) -> Figure:
    """Means over the splits that all models have, with the interval of the difference to TM."""
    scores = Scores(lines, table_1.MAIN)
    figure = Figure(figsize=(9, 5.2), layout="constrained")
    ax = figure.subplots()
    ax.spines[["top", "right"]].set_visible(False)
    reference = scores.mean(TM, splits=scores.common)
    for model in _shown(scores):
        n = scores.size(model)
        difference = scores.difference(model, TM, splits=scores.common) if model != TM else None
        y = scores.mean(model, splits=scores.common)
        colour = HIGHLIGHT if "AUUC" in model else OURS
        if difference is not None:
            half = (difference.high - difference.low) / 2
            ax.errorbar([n], [y], yerr=[half], fmt="o", color=colour, ms=5, lw=1.2, capsize=2)
        else:
            ax.plot([n], [y], "o", color=colour, ms=5)
    _label(ax, scores)
    random = scores.mean(TM, "random", scores.common)
    ax.axhline(reference, color="0.8", lw=1, zorder=0)
    ax.axhline(random, color="0.5", lw=1, ls=":", zorder=0)
    ax.annotate(
        "random", (1, random), xycoords=("axes fraction", "data"), xytext=(0, 3),
        textcoords="offset points", ha="right", fontsize=8, color="0.4",
    )  # fmt: skip
    ax.set_xscale("log")
    ax.set_xlim(1.5, 60_000)
    ax.set_xticks([10, 100, 1_000, 10_000], ["10", "100", "1,000", "10,000"])
    ax.set_xlabel("parameters (logarithmic)")
    ax.set_ylabel(f"test AUUC, mean over {len(scores.common)} splits")
    figure.legend(handles=_legend(), loc="outside upper center", ncols=4, frameon=False)
    return figure


def _shown(scores: Scores) -> list[str]:
    """All models, but not those that differ from another one in the optimiser alone."""
    return [model for model in scores.models if model not in table_1.BY_ADAM]


def _label(ax: Axes, scores: Scores) -> None:
    """Names beside the points; where many models have one size, a list to the left of them."""
    by_size: dict[int, list[str]] = {}
    for model in _shown(scores):
        n = scores.size(model)
        by_size.setdefault(n, []).append(model)
    for n, models in by_size.items():
        heights = {m: scores.mean(m, splits=scores.common) for m in models}
        ordered = sorted(models, key=lambda m: -heights[m])
        for place, model in enumerate(ordered):
            if len(ordered) > FEW:
                ax.annotate(
                    model, (n, heights[model]), ha="right", va="center", fontsize=8,
                    xytext=(0.75 * n, heights[ordered[0]] + STEP * (1 - place)),
                    arrowprops={"arrowstyle": "-", "color": "0.8", "lw": 0.7, "relpos": (1, 0.5)},
                )  # fmt: skip
                continue
            x, y, align = PLACES.get(model, (7, 3, "left"))
            ax.annotate(
                model, (n, heights[model]), xytext=(x, y), textcoords="offset points", ha=align,
                fontsize=8,
            )  # fmt: skip


def _legend() -> list[Line2D]:
    return [
        Line2D([], [], marker="o", ls="", color=HIGHLIGHT, label="AUUC-max"),
        Line2D([], [], marker="o", ls="", color=OURS, label="others"),
        Line2D([], [], color="0.4", lw=1.2, label="95%, difference to TM"),
    ]
