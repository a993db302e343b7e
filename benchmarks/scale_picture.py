"""The picture of ``python -m benchmarks scale``: seconds and memory of one fit, by rows."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

# Colours of Okabe and Ito, which colour-blind people tell apart.
STYLES = {
    "auucmax": ("AUUC-max, in memory", "#0072B2", "-", "o"),
    "auucmax from Parquet": ("AUUC-max, from Parquet", "#0072B2", "--", "s"),
    "TM scikit-learn": ("two logistic regressions, scikit-learn", "#E69F00", "-", "o"),
    "TM LightGBM": ("two boosted models, LightGBM", "#009E73", "-", "o"),
    "CausalML uplift forest": ("uplift forest, CausalML", "#CC79A7", "", "D"),
    "auucmax on Spark": ("AUUC-max, Spark", "#56B4E9", "-", "^"),
    "TM Spark ML": ("two logistic regressions, Spark ML", "#D55E00", "-", "^"),
}
NOT_ALL = ("auucmax on Spark", "TM Spark ML", "CausalML uplift forest")  # in other processes


def draw(records: list[dict[str, Any]]) -> Figure:
    """Seconds on the left, on logarithmic axes, resident memory on the right."""
    figure = Figure(figsize=(10, 5.2), layout="constrained")
    time, memory = figure.subplots(1, 2)
    for library, (label, colour, line, marker) in STYLES.items():
        known = sorted(
            (record["rows"], record["seconds"], record["resident_mb"])
            for record in records
            if record["library"] == library
            and record["case"] in ("fit", "stream", "spark")
            and record["seconds"] is not None
        )
        if not known:
            continue
        rows, seconds, resident = zip(*known, strict=True)
        style: Any = {"color": colour, "ls": line, "marker": marker, "ms": 5, "label": label}
        time.plot(rows, seconds, **style)
        if library not in NOT_ALL:
            memory.plot(rows, resident, **style)
    time.set_yscale("log")
    _finish(time, "one fit, seconds")
    _finish(memory, "resident memory of the process, MB")
    memory.set_ylim(0, None)
    handles, labels = time.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=3, frameon=False)
    return figure


def _finish(ax: Axes, title: str) -> None:
    ax.set_xscale("log")
    ax.set_xticks([1e5, 1e6, 1.4e7, 1e8], ["100k", "1M", "14M", "100M"])
    ax.xaxis.minorticks_off()
    ax.set_xlabel("rows, 12 columns")
    ax.set_title(title, loc="left", fontsize=10)
    ax.yaxis.set_major_formatter(lambda value, place: f"{value:g}")
    ax.grid(axis="y", color="0.9")
    ax.spines[["top", "right"]].set_visible(False)
