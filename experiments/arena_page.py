"""The section of docs/results.md on the arena, and its picture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from experiments import page
from experiments.arena_models import AUTO, MODELS, OURS, PEERS, REFERENCE
from experiments.arena_trials import FAMILIES, POPULATIONS
from experiments.harness import Line

NAME = "arena"
RANDOM = "random"
COLUMNS = (*MODELS, RANDOM)
OWN_COLOUR, OTHER_COLOUR = "#d62728", "#1f77b4"
MEAN = "mean over families"


class Mean(NamedTuple):
    """A mean, and its standard error; NaN where there is none."""

    value: float
    error: float


class Arena:
    """Z by trial, family and in all: the mean over splits, over trials, over families."""

    def __init__(self, lines: Sequence[Line]) -> None:
        real = [line for line in lines if "unit" in line]
        # The order of lines must not matter, not even to the last digit of a sum.
        self.lines = sorted(real, key=lambda line: (line["trial"], line["model"], line["split"]))
        self.known = [line for line in lines if "regret" in line]
        there = {line["trial"] for line in real}
        self.trials = {
            family: [trial for trial in own if trial in there] for family, own in FAMILIES.items()
        }
        self.families = [family for family, own in self.trials.items() if own]
        self.models = [m for m in COLUMNS if any(self.of(t, m) for t in there)]

    def of(self, trial: str, model: str) -> list[Line]:
        """Lines of a trial; a random order has those of TM."""
        own = REFERENCE if model == RANDOM else model
        return [x for x in self.lines if (x["trial"], x["model"]) == (trial, own)]

    def z(self, trial: str, model: str) -> Mean | None:
        """Mean over splits, and the mean of their errors: at least the error of the mean."""
        lines = self.of(trial, model)
        if not lines:
            return None
        name = "random" if model == RANDOM else "auuc"
        values = [(line[name] - line["reference"]) / line["unit"] for line in lines]
        errors = [line["difference_error"] / line["unit"] for line in lines]
        return Mean(float(np.mean(values)), np.nan if model == RANDOM else float(np.mean(errors)))

    def family(self, family: str, model: str) -> Mean | None:
        """Mean over its trials, if the model has them all; errors as if they were one and all."""
        found = [self.z(trial, model) for trial in self.trials[family]]
        own = [mean for mean in found if mean is not None]
        if len(own) < len(found) or not own:
            return None
        return Mean(*(float(np.mean(column)) for column in zip(*own, strict=True)))

    def overall(self, model: str) -> Mean | None:
        """Mean over families, if the model has them all, with the standard error over them."""
        found = [self.family(family, model) for family in self.families]
        values = [mean.value for mean in found if mean is not None]
        if len(values) < len(found) or not values:
            return None
        n = len(values)
        error = float(np.std(values, ddof=1) / np.sqrt(n)) if n > 1 else np.nan
        return Mean(float(np.mean(values)), error)

    def ranked(self) -> list[tuple[str, Mean]]:
        """Models that have all families, the best first."""
        found = [(model, self.overall(model)) for model in self.models]
        whole = [(model, mean) for model, mean in found if mean is not None]
        return sorted(whole, key=lambda pair: -pair[1].value)

    def splits(self, trial: str) -> list[int]:
        """How many splits models have: the fewest and the most, or one number."""
        counts = {len(self.of(trial, model)) for model in self.models if model != RANDOM}
        return sorted({min(counts), max(counts)})

    def regret(self, population: str, model: str) -> list[float]:
        own = [x for x in self.known if (x["trial"], x["model"]) == (population, model)]
        return [x["regret"] for x in sorted(own, key=lambda line: line["split"])]

    @property
    def populations(self) -> list[str]:
        """Those that a model of ours has drawn."""
        return [p for p in POPULATIONS if any(self.regret(p, model) for model in OURS)]

    @property
    def common(self) -> list[str]:
        """Those that all of our models have drawn at least once: means are over these."""
        return [p for p in POPULATIONS if all(self.regret(p, model) for model in OURS)]


def render(lines: list[Line]) -> str:
    arena = Arena(lines)
    parts = ["## arena: which model ranks best on real trials\n", page.made_by(NAME, lines)]
    if arena.lines:
        parts += [
            _what_is_shown(arena),
            "![Z by family of trials](images/arena.png)\n",
            _verdict(arena),
        ]
    parts += [_models_text(lines), _table(arena), _notes(arena)]
    return "\n".join(part.rstrip("\n") + "\n" for part in parts if part)


def _what_is_shown(arena: Arena) -> str:
    counts = ", ".join(f"{family} {len(arena.trials[family])}" for family in arena.families)
    return (
        "A trial is cut into halves, stratified by treatment and outcome; a model of one half "
        "ranks the other, both ways. AUUC is that of y - m(x), m a model of the outcome (logistic, "
        "both arms together) of the training half. Z is the AUUC of a model minus that of TM (two "
        "logistic models) in units of sd(z) / sqrt(12 n), the standard error that the AUUC of any "
        "fixed score has on the n rows of the trial; z = (y - m(x)) (t - e) / (e (1 - e)), e the "
        "treated share. Trials that share rows are one family, and count as one in the mean "
        f"({counts}). Raw columns go through `TableEncoder`, fitted on the training half. Nothing "
        "is tuned here: every model has its defaults. But the trials are not new to ours: the "
        "defaults of AUUCMax were chosen on other splits of five of them (section defaults), and "
        "auto was put together on thirty trials of which no list is kept, so these may be among "
        "them.\n"
    )


def _verdict(arena: Arena) -> str:
    ranked = arena.ranked()
    if not ranked:
        return ""
    said = [f"{model} {_signed(mean)}" for model, mean in ranked]
    names = [model for model, _ in ranked]
    text = (
        f"Mean over {len(arena.families)} families, with the standard error over them, from the "
        f"best: {'; '.join(said)}. "
    )
    if AUTO in names:
        text += f"The default, {AUTO}, is number {names.index(AUTO) + 1} of {len(names)}. "
        worse = [f for f in arena.families if _value(arena.family(f, AUTO)) < 0]
        text += f"It is behind TM on {', '.join(worse) if worse else 'no family'}. "
    if absent := [model for model in arena.models if model not in names]:
        text += f"Not yet run on all trials, and so without a mean: {', '.join(absent)}. "
    counts = [n for own in arena.trials.values() for trial in own for n in arena.splits(trial)]
    text += (
        f"So far a model has {min(counts)} to {max(counts)} splits of a trial, of the 20 (4 of "
        "trials of more than 100,000 rows) that are planned. "
    )
    return text + (
        f"A standard error over {len(arena.families)} families has "
        f"{len(arena.families) - 1} degrees of freedom: it is rough itself, and a difference of "
        "two models that is within two of them is none to rely on.\n"
    )


def _models_text(lines: Sequence[Line]) -> str:
    there = {line["model"] for line in lines}
    peers = {line["peer"] for line in lines if "peer" in line}
    said = [
        f"{name}: {peer.settings}"
        + (f", fitted to at most {peer.max_rows:,} rows" if peer.max_rows else "")
        for name, peer in PEERS.items()
        if name in there
    ]
    absent = [name for name in MODELS if name not in there]
    text = (
        "auto: `UpliftEnsemble`; SI: `ShrunkInteractions`; HB: `BoostedEffect`; response: "
        "`ResponseModel`; class means: the difference between treated and control of mean(x | y = "
        "1) - mean(x | y = 0), which nothing is minimised for; LightGBM T: `TwoModels` of LightGBM "
        "as it comes. "
    )
    if said:
        text += f"Of other libraries ({', '.join(sorted(peers))}): {'; '.join(said)}. "
    if absent:
        text += f"Not run: {', '.join(absent)}."
    return text + "\n"


def _table(arena: Arena) -> str:
    """Z in all, by family and by trial, then regret in all and by population."""
    columns = list(COLUMNS) if arena.lines else list(OURS)
    columns = [c for c in columns if c in arena.models or c in OURS]
    rows = _z_rows(arena, columns) if arena.lines else []
    if arena.populations:
        rows += _regret_rows(arena, columns)
    return page.table(["", "rows", "splits", *columns], rows)


def _z_rows(arena: Arena, columns: Sequence[str]) -> list[list[str]]:
    overall = [arena.overall(model) for model in columns]
    rows = [
        [f"**Z, {MEAN}**", "", "", *(_cell(mean, "**") for mean in overall)],
        ["standard error over families", "", "", *(_error(mean) for mean in overall)],
    ]
    for family in arena.families:
        own = [arena.family(family, model) for model in columns]
        rows.append([f"**Z, {family}**", "", "", *(_cell(mean, "**") for mean in own)])
        rows.append(["its standard error, at most", "", "", *(_error(mean) for mean in own)])
    for family in arena.families:
        for trial in arena.trials[family]:
            splits = " to ".join(map(str, arena.splits(trial)))
            own = [arena.z(trial, model) for model in columns]
            size = f"{arena.of(trial, REFERENCE)[0]['rows']:,}"
            rows.append([f"Z, {trial}", size, splits, *(_cell(mean) for mean in own)])
    return rows


def _regret_rows(arena: Arena, columns: Sequence[str]) -> list[list[str]]:
    rows = []
    if common := arena.common:
        own = [
            np.mean([np.mean(arena.regret(p, m)) for p in common]) if m in OURS else None
            for m in columns
        ]
        title = f"**regret, mean of {len(common)} populations**"
        cells = ("" if r is None else f"**{page.share(float(r))}**" for r in own)
        rows.append([title, "", "", *cells])
    for name in arena.populations:
        regrets = [arena.regret(name, model) for model in columns]
        counts = [len(r) for r, m in zip(regrets, columns, strict=True) if m in OURS]
        seeds = " to ".join(str(count) for count in sorted({min(counts), max(counts)}))
        kind, _, size = name.rpartition(", ")
        shares = (page.share(float(np.mean(r))) if r else "" for r in regrets)
        rows.append([f"regret, {kind}", size.removesuffix(" rows"), seeds, *shares])
    return rows


def _notes(arena: Arena) -> str:
    said = []
    if arena.lines:
        said.append(
            "Splits: how many halvings were run, fewest and most of any model. "
            "A split is two fits. The standard error of a family is the closed-form one of the "
            "difference to TM given the fitted scores, its variance counted twice since the halves "
            "have taught each other, averaged over splits and trials as if they told the same; so "
            "it is an upper limit. random: a ranking by chance, half of the average effect."
        )
        if "social pressure" in arena.families:
            said.append(
                "Social pressure was randomised by household, and the file has no household "
                "number: its errors are a little small."
            )
            if "scikit-uplift CT" in arena.models:
                said.append(
                    "A sixth of its rows are treated, and scikit-uplift's class transformation is "
                    "meant for arms of one size."
                )
        if "Criteo" not in arena.families:
            said.append("The Criteo file was not at hand.")
    if arena.populations:
        said.append(
            "Regret: (best AUUC - AUUC in the population) / (best AUUC - ATE / 2), 0% for the true "
            "effect and 100% for a random order, of our models on drawn trials (column splits: so "
            "many seeds; 3 were planned); the mean is over populations that all of them have. No "
            "heterogeneity: none in log-odds, so that those with a higher base "
            "rate still gain more."
        )
    return " ".join(said) + "\n"


def _value(mean: Mean | None) -> float:
    return np.nan if mean is None else mean.value


def _signed(mean: Mean) -> str:
    if mean == (0, 0):  # TM against itself
        return "0"
    error = "" if np.isnan(mean.error) else f" ({mean.error:.2f})"
    return f"{mean.value:+.2f}{error}"


def _cell(mean: Mean | None, mark: str = "") -> str:
    if mean is None:
        return ""
    return mark + ("0" if mean == (0, 0) else f"{mean.value:+.2f}") + mark


def _error(mean: Mean | None) -> str:
    return "" if mean is None or np.isnan(mean.error) else f"{mean.error:.2f}"


# The picture.


def draw(lines: list[Line]) -> Figure:
    """Z of every model, a panel a family and one of their mean; the best mean on top."""
    arena = Arena(lines)
    ranked = [model for model, _ in arena.ranked()]
    names = ranked + [model for model in arena.models if model not in ranked]
    names = [model for model in names if model != REFERENCE]
    panels = [MEAN, *arena.families]
    figure = Figure(figsize=(11, 0.32 * len(names) + 1.6), layout="constrained")
    axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for ax, panel in zip(axes, panels, strict=True):
        ax.spines[["top", "right", "left"]].set_visible(False)
        ax.tick_params(axis="y", length=0)
        ax.grid(axis="y", color="0.93")
        ax.axvline(0, color="0.5", lw=1, zorder=0)
        ax.set_title(panel, fontsize=11)
        for place, model in enumerate(names):
            mean = arena.overall(model) if panel == MEAN else arena.family(panel, model)
            _draw_point(ax, mean, place, model)
    axes[0].set_yticks(range(len(names)), names)
    axes[0].set_ylim(len(names) - 0.4, -0.6)
    figure.supxlabel(
        "Z: AUUC minus that of TM (0), in standard errors of a fixed score", fontsize=10
    )
    figure.legend(handles=_legend(), loc="outside upper center", ncols=4, frameon=False)
    return figure


def _draw_point(ax: Any, mean: Mean | None, place: int, model: str) -> None:
    if mean is None:
        return
    colour = "0.4" if model == RANDOM else OWN_COLOUR if model in OURS else OTHER_COLOUR
    error = 0.0 if np.isnan(mean.error) else mean.error
    ax.errorbar([mean.value], [place], xerr=[error], fmt="o", color=colour, ms=5, lw=1.4)


def _legend() -> list[Line2D]:
    def dot(colour: str, label: str) -> Line2D:
        return Line2D([], [], marker="o", ls="", color=colour, label=label)

    return [
        dot(OWN_COLOUR, "auucmax"),
        dot(OTHER_COLOUR, "LightGBM and other libraries"),
        dot("0.4", "random order"),
        Line2D([], [], color="0.4", lw=1.4, label="one standard error to each side"),
    ]
