"""The pictures of the guide: ``python docs/pictures.py`` draws all, with names some of them.

Those of results and benchmarks are drawn by ``python -m experiments`` and ``python -m benchmarks``,
that of the page by ``python -m experiments.report_picture``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib

from auucmax import (
    AUUCMax,
    TwoModels,
    UpliftCurveDisplay,
    certify,
    compare,
    load_hillstrom,
    make_trial,
)
from auucmax.campaign import plan_trial
from auucmax.estimators import ResponseModel
from auucmax.metrics import DecileDisplay, PolicyRiskDisplay

IMAGES = Path(__file__).resolve().parent / "images"


def _scored() -> dict[str, Any]:
    """Rows of Hillstrom's trial that a model has not seen, with its scores."""
    train, test = load_hillstrom().split(test_size=0.5, random_state=0)
    model = AUUCMax(random_state=0).fit(train.X, train.y, treatment=train.treatment)
    return {"y": test.y, "score": model.predict(test.X), "treatment": test.treatment}


def curve() -> Any:
    return UpliftCurveDisplay.from_predictions(**_scored(), name="AUUC-max").ax_.figure


def deciles() -> Any:
    return DecileDisplay.from_predictions(**_scored()).ax_.figure


def risk() -> Any:
    return PolicyRiskDisplay.from_predictions(**_scored()).ax_.figure


def comparison() -> Any:
    models = [AUUCMax(), TwoModels(), ResponseModel()]
    return compare(models, load_hillstrom(), splits=4, random_state=0).plot().figure


def power() -> Any:
    return plan_trial(base_rate=0.1, effect=0.03, gain=0.006).draw()


def certificate(n_trials: int = 100) -> Any:
    """Estimates and certified gains of many trials of one population, and the truth."""
    from matplotlib.figure import Figure

    figure = Figure((7, 5.6), layout="constrained")
    axes = figure.subplots()
    rows: list[tuple[float, float]] = []
    for seed in range(n_trials):
        trial = make_trial(8_000, random_state=seed)
        found = certify(trial.X["x0"] - trial.X["x7"], y=trial.y, treatment=trial.treatment)
        rows.append((found.gain_estimate, found.gain_lower_bound))
    people = trial.population
    truth = people.auuc(lambda X: X["x0"] - X["x7"]) - people.ate / 2
    for place, (estimate, floor) in enumerate(sorted(rows)):
        color = "#b3261e" if floor > truth else "#1f5a99"
        axes.plot([floor, estimate], [place, place], color=color, lw=0.8, alpha=0.4)
        axes.plot(floor, place, "|", color=color, ms=5, mew=1.5)
        axes.plot(estimate, place, "o", color=color, ms=2.5)
    axes.axvline(truth, color="black", ls="--", lw=1.2)
    axes.axvline(0, color="#777777", lw=0.8)
    missed = sum(floor > truth for _, floor in rows)
    axes.set(
        yticks=[],
        xlabel="gain over a random order: certified at least (|), estimate (dot), truth (dashed)",
        ylabel=f"{n_trials} trials of 8,000 people each",
        title=f"{n_trials - missed} of {n_trials} certificates are below the truth; 95% have to be",
    )
    axes.spines[["top", "right", "left"]].set_visible(False)
    return figure


PICTURES: dict[str, Callable[[], Any]] = {
    "curve": curve,
    "deciles": deciles,
    "risk": risk,
    "compare": comparison,
    "power": power,
    "certificate": certificate,
}


def main(names: list[str]) -> None:
    matplotlib.use("agg")
    for name in names or PICTURES:
        PICTURES[name]().savefig(IMAGES / f"{name}.png", dpi=130, metadata={"Software": None})
        print(f"docs/images/{name}.png")


if __name__ == "__main__":
    main(sys.argv[1:])
