"""The page of the appendix on the arena, what the first page says of it, and its picture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from experiments import page
from experiments.arena_models import AUTO, LEARNT, MODELS, OURS, PEERS, REFERENCE
from experiments.arena_trials import FAMILIES, POPULATIONS
from experiments.harness import Line

NAME = "arena"
RANDOM = "random"
#: Models that are compared on all trials, in the order of the tables.
COLUMNS = (*(model for model in MODELS if model not in LEARNT), RANDOM)
OWN_COLOUR, OTHER_COLOUR = "#d62728", "#1f77b4"
MEAN = "mean over families"
TOLD = 1.96  # standard errors
LEAST_Z = -1.0  # that auto should have against TM on every trial


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

    def z(self, trial: str, model: str, rival: str = REFERENCE) -> Mean | None:
        """Mean over splits, and the mean of their errors: at least the error of the mean."""
        lines = self.of(trial, model)
        if not lines:
            return None
        if model == RANDOM:
            values = [(line["random"] - line["auuc"]) / line["unit"] for line in lines]
            return Mean(float(np.mean(values)), np.nan)
        found = [np.array(line["against"][rival]) / line["unit"] for line in lines]
        return Mean(*(float(mean) for mean in np.mean(found, axis=0)))

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

    def checks(self) -> list[Check]:
        """How auto stands on each trial that it has."""
        return [
            Check.of(self, trial)
            for family in self.families
            for trial in self.trials[family]
            if self.of(trial, AUTO)
        ]

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


class Check(NamedTuple):
    """Auto on one trial: against TM, and against the model with the best mean, if it is another."""

    trial: str
    to_reference: Mean
    best: str
    to_best: Mean

    @classmethod
    def of(cls, arena: Arena, trial: str) -> Check:
        means = {m: arena.z(trial, m) for m in arena.models if m != RANDOM}
        found = {model: mean for model, mean in means.items() if mean is not None}
        best = max(found, key=lambda model: found[model].value)
        against = arena.z(trial, best, AUTO)
        assert against is not None  # it has lines
        return cls(trial, found[AUTO], best, Mean(0.0 - against.value, against.error))

    @property
    def is_low(self) -> bool:
        """More than 1 Z below TM."""
        return self.to_reference.value < LEAST_Z

    @property
    def is_told(self) -> bool:
        """Behind the best model by more than the 95% interval of the difference."""
        return self.to_best.value < -TOLD * self.to_best.error


def render(lines: list[Line]) -> str:
    arena = Arena(lines)
    parts = ["# arena: which model ranks best on real trials\n", page.made_by(NAME, lines)]
    if arena.lines:
        parts += [
            _what_is_shown(arena),
            "![Z by family of trials](../images/arena.png)\n",
            _ranking_text(arena),
        ]
    parts.append(_models_text(lines))
    if arena.lines:
        parts += ["## Families\n", _family_table(arena), "## Trials\n", _trial_table(arena)]
        parts.append(_notes(arena))
        if checks := arena.checks():
            parts += ["## The default on each trial\n", _check_table(checks), _check_text(checks)]
    if arena.populations:
        parts += ["## Populations that are known\n", _regret_table(arena), _regret_text(arena)]
    parts += _learnt(arena)
    return "\n".join(part.rstrip("\n") + "\n" for part in parts if part)


def summary(lines: list[Line]) -> str:
    """For the first page."""
    arena = Arena(lines)
    if not arena.lines:
        return ""
    checks = arena.checks()
    return (
        "![Z by family of trials](images/arena.png)\n\n"
        "Z is the AUUC of a model minus that of TM, two logistic models, in units of the noise of "
        "the trial: the standard error that the AUUC of any fixed score has on its rows. Models "
        "have their defaults and learn from one half of a trial to rank the other. "
        f"{_ranking_text(arena)}{_check_text(checks) if checks else ''}\n"
        f"{_regret_line(arena)}All trials, settings and caveats: [{NAME}]({page.address(NAME)}).\n"
    )


def claims(lines: list[Line]) -> list[page.Claim]:
    """The paper's conjecture that a learned representation improves AUUC-max."""
    arena = Arena(lines)
    found = _learnt_means(arena)
    if not found:
        return []
    said = "; ".join(f"{model} {_signed(mean)}" for model, mean in found.items())
    better = [model for model, mean in found.items() if mean.value > TOLD * mean.error]
    return [
        page.Claim(
            "Conjecture: a learned representation improves AUUC-max",
            f"Z against the ensemble whose leaves or log-odds it gets: {said}. Its constraint was "
            f"chosen to be 0, no change, in {_share_of_zero(arena)} of the fits",
            f"for {', '.join(better)}" if better else "does not show",
        )
    ]


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
        "defaults of AUUCMax were chosen on other splits of five of them (page defaults), and "
        "auto was put together on thirty trials of which no list is kept, so these may be among "
        "them.\n"
    )


def _ranking_text(arena: Arena) -> str:
    """The means in order, and the place of the default."""
    ranked = arena.ranked()
    if not ranked:
        return ""
    said = [f"{model} {_signed(mean)}" for model, mean in ranked]
    names = [model for model, _ in ranked]
    text = (
        f"Mean Z over {len(arena.families)} families, with the standard error over them, from the "
        f"best: {'; '.join(said)}. "
    )
    if AUTO in names:
        text += f"The default, {AUTO}, is number {names.index(AUTO) + 1} of {len(names)}. "
    return text + (
        f"A standard error over {len(arena.families)} families has "
        f"{len(arena.families) - 1} degrees of freedom: it is rough itself. "
    )


def _models_text(lines: Sequence[Line]) -> str:
    there = {line["model"] for line in lines}
    peers = {line["peer"] for line in lines if "peer" in line}
    said = [
        f"{name}: {peer.settings}"
        + (f", fitted to at most {peer.max_rows:,} rows" if peer.max_rows else "")
        + (f", {peer.max_splits} splits at most" if peer.max_splits else "")
        for name, peer in PEERS.items()
        if name in there
    ]
    absent = [name for name in MODELS if name not in there]
    text = (
        "auto: `UpliftEnsemble`; SI: `ShrunkInteractions`; HB: `BoostedEffect`; response: "
        "`ResponseModel`; class means: the difference between treated and control of mean(x | y = "
        "1) - mean(x | y = 0), which nothing is minimised for. "
    )
    if said:
        text += (
            f"Of other libraries ({', '.join(sorted(peers))}), with default LightGBM wherever "
            f"they take a model: {'; '.join(said)}. "
        )
    if absent:
        text += f"Not run: {', '.join(absent)}."
    return text + "\n"


# Tables.


def _family_table(arena: Arena) -> str:
    """A row a model, the best first; Z of each family and in all, with standard errors."""
    ranked = [model for model, _ in arena.ranked()]
    rows = []
    for model in [*ranked, *(m for m in arena.models if m not in ranked)]:
        own = [arena.overall(model), *(arena.family(f, model) for f in arena.families)]
        rows.append([model, *("" if mean is None else _signed(mean) for mean in own)])
    return page.table(["Z", MEAN, *arena.families], rows)


def _trial_table(arena: Arena) -> str:
    rows = []
    for family in arena.families:
        for trial in arena.trials[family]:
            splits = " to ".join(map(str, arena.splits(trial)))
            size = f"{arena.of(trial, REFERENCE)[0]['rows']:,}"
            own = [arena.z(trial, model) for model in arena.models]
            rows.append([trial, size, splits, *(_cell(mean) for mean in own)])
    return page.table(["Z", "rows", "splits", *arena.models], rows)


def _check_table(checks: Sequence[Check]) -> str:
    header = ["trial", f"{AUTO} minus TM", "at least -1", "best mean", f"{AUTO} minus it", "clear"]
    rows = [
        [
            check.trial,
            _signed(check.to_reference),
            "**no**" if check.is_low else "yes",
            check.best,
            "" if check.best == AUTO else _signed(check.to_best),
            "**yes**" if check.is_told else "no",
        ]
        for check in checks
    ]
    return page.table(header, rows)


def _check_text(checks: Sequence[Check]) -> str:
    low, told = ([c for c in checks if c.is_low], [c for c in checks if c.is_told])
    first = sum(check.best == AUTO for check in checks)
    text = (
        f"On {len(checks)} trials {AUTO} is more than 1 Z below TM on "
        f"{_listed([c.trial for c in low])}, has the best mean on {first}, and is clearly "
        f"below the best (by more than {TOLD:g} standard errors of the paired difference, for "
        f"one pair) on {_listed([f'{c.trial} (behind {c.best})' for c in told])}.\n"
    )
    return text


def _listed(names: Sequence[str]) -> str:
    return f"{len(names)}: {', '.join(names)}" if names else "none"


def _regret_table(arena: Arena) -> str:
    """A row a population; regret of our models."""
    rows = []
    if common := arena.common:
        own = [np.mean([np.mean(arena.regret(p, m)) for p in common]) for m in OURS]
        cells = (f"**{page.share(float(regret))}**" for regret in own)
        rows.append([f"**mean of {len(common)} populations**", "", "", *cells])
    for name in arena.populations:
        regrets = [arena.regret(name, model) for model in OURS]
        seeds = " to ".join(
            str(n) for n in sorted({min(map(len, regrets)), max(map(len, regrets))})
        )
        kind, _, size = name.rpartition(", ")
        shares = (page.share(float(np.mean(r))) if r else "" for r in regrets)
        rows.append([kind, size.removesuffix(" rows"), seeds, *shares])
    return page.table(["regret", "rows", "seeds", *OURS], rows)


def _regret_text(arena: Arena) -> str:
    return (
        "Regret: (best AUUC - AUUC in the population) / (best AUUC - ATE / 2), 0% for the true "
        "effect and 100% for a random order, of our models on drawn trials (3 seeds are planned); "
        "the mean is over populations that all of them have. No heterogeneity: none in log-odds, "
        "so that those with a higher base rate still gain more.\n"
    )


def _regret_line(arena: Arena) -> str:
    if not (common := arena.common):
        return ""
    regret = {m: np.mean([np.mean(arena.regret(p, m)) for p in common]) for m in OURS}
    order = sorted(regret, key=lambda model: float(regret[model]))
    said = ", ".join(f"{model} {page.share(float(regret[model]))}" for model in order)
    return (
        f"Where the truth is known, {len(common)} populations of 2,000 to 200,000 rows, the mean "
        f"regret (0%: the true effect, 100%: a random order) is: {said}. "
    )


def _notes(arena: Arena) -> str:
    said = [
        "In brackets: of a family the closed-form standard error of the difference to TM given the "
        "fitted scores, its variance counted twice since each half trains a model for the other, "
        "averaged over splits and trials as if they were fully dependent; so it is an upper limit. "
        "Splits: how many halvings were run, fewest and most of any model; a split is two fits. "
        "random: a ranking by chance, half of the average effect."
    ]
    if "social pressure" in arena.families:
        said.append(
            "Social pressure was randomised by household, and the file has no household number: "
            "its errors are a little small."
        )
        if "scikit-uplift CT" in arena.models:
            said.append(
                "A sixth of its rows are treated, and scikit-uplift's class transformation is "
                "meant for arms of one size."
            )
    if "Criteo" not in arena.families:
        said.append("The Criteo file was not at hand.")
    return " ".join(said) + "\n"


# AUUC-max on what other models have learnt.

ON_ENSEMBLE = tuple(model for model in LEARNT if model.startswith(AUTO))


def _learnt_trials(arena: Arena) -> list[str]:
    every = [trial for family in arena.families for trial in arena.trials[family]]
    return [trial for trial in every if all(arena.of(trial, model) for model in LEARNT)]


def _learnt_means(arena: Arena) -> dict[str, Mean]:
    """Z against auto of AUUC-max on its representation; errors as if all trials told the same."""
    trials = _learnt_trials(arena)
    found = {}
    for model in ON_ENSEMBLE if trials else ():
        own = [mean for t in trials if (mean := arena.z(t, model, AUTO)) is not None]
        found[model] = Mean(*(float(np.mean(column)) for column in zip(*own, strict=True)))
    return found


def _share_of_zero(arena: Arena) -> str:
    lines = [x for x in arena.lines if x["model"] in ON_ENSEMBLE]
    return page.share(float(np.mean([norm == 0 for x in lines for norm in x["norms"]])))


def _learnt(arena: Arena) -> list[str]:
    trials = _learnt_trials(arena)
    known = [p for p in arena.populations if all(arena.regret(p, model) for model in LEARNT)]
    if not trials and not known:
        return []
    rows = [
        [
            trial,
            str(len(arena.of(trial, next(iter(LEARNT))))),
            *(_both(arena, trial, m) for m in LEARNT),
        ]
        for trial in trials
    ]
    rows += [
        [f"regret, {name}", str(len(arena.regret(name, next(iter(LEARNT))))),
         *(page.share(float(np.mean(arena.regret(name, m)))) for m in LEARNT)]
        for name in known
    ]  # fmt: skip
    text = (
        "auto + leaves, auto + logits: to the score of the ensemble w.phi(x) is added, phi the "
        "leaves of its trees or the log-odds of its members, w by AUUC-max on rows that the "
        "ensemble was not trained on (4 folds, whose models are averaged); ||w|| <= Lambda, "
        "Lambda by AUUC of rows that w was not trained on, and 0 leaves the ensemble as it is. "
        "net: a network of two layers of 64, fitted by likelihood; AUUCNet: the same, moved "
        "further by the gradient of AUUC-max's objective while the AUUC of rows kept apart "
        "improves. Cells: Z against TM, and against auto with its standard error. "
    )
    if means := _learnt_means(arena):
        said = "; ".join(f"{model} {_signed(mean)}" for model, mean in means.items())
        text += (
            f"Mean Z against auto over these {len(trials)} trials: {said}. Lambda = 0 was chosen "
            f"in {_share_of_zero(arena)} of the fits."
        )
    header = ["Z against TM / auto", "splits", *LEARNT]
    return ["## A learned representation under AUUC-max\n", page.table(header, rows), text + "\n"]


def _both(arena: Arena, trial: str, model: str) -> str:
    return f"{_cell(arena.z(trial, model))} / {_signed(arena.z(trial, model, AUTO))}"


def _signed(mean: Mean | None) -> str:
    if mean is None:
        return ""
    if mean == (0, 0):  # a model against itself
        return "0"
    error = "" if np.isnan(mean.error) else f" ({mean.error:.2f})"
    return f"{mean.value:+.2f}{error}"


def _cell(mean: Mean | None) -> str:
    if mean is None:
        return ""
    return "0" if mean == (0, 0) else f"{mean.value:+.2f}"


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
