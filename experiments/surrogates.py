"""``python -m experiments.surrogates``: the surrogates and the indicator that they replace."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from auucmax.pairs import Surrogate, hinge, s_log, s_poly, sigmoid

PICTURE = Path(__file__).resolve().parent.parent / "docs" / "images" / "surrogates.png"
SHOWN: dict[str, Surrogate] = {
    "s_log": s_log(),
    "s_poly, mu = 1, p = 3": s_poly(1.0),
    "s_poly, mu = .1, p = 3": s_poly(0.1),
    "hinge": hinge(),
    "sigmoid, tau = .2": sigmoid(0.2),
}


def draw() -> Figure:
    """Each surrogate over score differences from -1.5 to 1.5."""
    z = np.linspace(-1.5, 1.5, 601)
    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    ax = figure.subplots()
    ax.spines[["top", "right"]].set_visible(False)
    ax.step([-1.5, 0, 1.5], [1, 1, 0], color="black", lw=1.5, label="1[z <= 0]", where="pre")
    for name, surrogate in SHOWN.items():
        ax.plot(z, surrogate(z), lw=2, label=name)
    ax.set(
        xlabel="score of the row that should rank higher, minus that of the other",
        ylabel="loss of the pair",
        ylim=(-0.1, 4),
        xlim=(-1.5, 1.5),
    )
    ax.legend(frameon=False)
    return figure


if __name__ == "__main__":
    draw().savefig(PICTURE, dpi=150)
    print(f"wrote docs/images/{PICTURE.name}")
