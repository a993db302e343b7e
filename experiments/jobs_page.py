"""The page of the appendix for jobs, and its picture (:func:`draw`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from numpy.typing import NDArray
from scipy.stats import norm, t

from experiments import page
from experiments.harness import Line

TRIALS = ("all rows", "randomised rows")
MODELS = ("AUUC-max", "AUUCMax()", "TM", "SDR", "TARNet", "GANITE")
OURS, THEIRS = "AUUC-max", "TARNet"
SPLITS = 10  # a model with fewer is unfinished, and compared with nothing
CLAIMED = {OURS: 0.5, THEIRS: 0.95}  # shares of the lowest risk, in the paper
NEAR = 0.1  # a share within this of the paper's is near it
LEVEL = 0.95
SHOWN = (0.5, 0.95)
COLOURS = {
    "AUUC-max": "#d55e00", "TM": "#0072b2", "SDR": "#56b4e9", "TARNet": "#009e73",
    "GANITE": "#cc79a7",
}  # fmt: skip
MARKERS = {"AUUC-max": "o", "TM": "s", "SDR": "D", "TARNet": "^", "GANITE": "v"}

DIFFERENCES = (
    "**Different from the paper.** It does not say by what its search compares; here it is AUUC of "
    "the randomised rows in a validation part (25% of the training rows), and the chosen point is "
    "fitted to all training rows. TM, SDR and AUUC-max are solved exactly, so of their grids "
    "learning rate, batch size and epochs fall away. Of the networks 50 points are drawn for each "
    "split; the loss of a fifth of the rows can end training before the epochs of the grid.\n"
)

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Curve:
    """Risks of one model after training on one set of rows: a row for each split."""

    model: str
    lines: tuple[Line, ...]

    @property
    def risks(self) -> Floats:
        return np.array([line["risk"] for line in self.lines], dtype=np.float64)

    @property
    def shares(self) -> Floats:
        return np.linspace(0, 1, self.risks.shape[1])

    @property
    def mean(self) -> Floats:
        return np.asarray(self.risks.mean(axis=0))

    @property
    def errors(self) -> Floats:
        """Closed-form standard error on one test part, mean over those that have one."""
        table = np.array([line["risk_error"] for line in self.lines], dtype=np.float64)
        has = np.isfinite(table)
        total = np.where(has, table, 0).sum(axis=0)
        return np.asarray(np.where(has.any(axis=0), total / np.maximum(has.sum(axis=0), 1), np.nan))

    @property
    def best(self) -> int:
        """Position of the lowest mean risk; of equal ones the smallest share."""
        return int(np.argmin(self.mean))

    @property
    def best_share(self) -> float:
        return float(self.shares[self.best])

    def at(self, share: float) -> int:
        return int(np.argmin(np.abs(self.shares - share)))

    def not_told_from_best(self) -> Floats:
        """Shares whose risk, split by split, is not clearly above that of the best share."""
        above = self.risks - self.risks[:, [self.best]]
        return self.shares[[not self.gap(column).is_clear for column in above.T]]

    def ranges(self) -> list[tuple[float, float]]:
        """Ends of the runs of neighbouring shares that are not told from the best one."""
        places = np.flatnonzero(np.isin(self.shares, self.not_told_from_best()))
        runs = np.split(places, np.flatnonzero(np.diff(places) > 1) + 1)
        return [(float(self.shares[run[0]]), float(self.shares[run[-1]])) for run in runs]

    def chosen_elsewhere(self) -> float:
        """Mean risk of a split at the share that is best on the other splits."""
        others = (self.risks.sum(axis=0) - self.risks) / (len(self.lines) - 1)
        return float(np.mean(self.risks[np.arange(len(self.lines)), others.argmin(axis=1)]))

    def gap(self, differences: Any) -> Gap:
        """Mean of a number over these splits; see :class:`Gap`."""
        first = self.lines[0]
        return Gap.of(differences, first["test_rows"] / first["train_randomised"])


@dataclass(frozen=True)
class Gap:
    """Mean of paired differences, half the width of its interval over splits that share rows."""

    mean: float
    half: float

    @classmethod
    def of(cls, differences: Any, ratio: float) -> Gap:
        """Student's t with the variance times 1 / k + ``ratio`` (test by training rows).

        1 / k alone is for independent splits (Nadeau and Bengio, 2003).
        """
        d = np.asarray(differences, dtype=np.float64)
        if len(d) < 2:
            return cls(float(d.mean()), float("inf"))
        error = float(d.std(ddof=1) * np.sqrt(1 / len(d) + ratio))
        return cls(float(d.mean()), float(t.ppf(0.5 + LEVEL / 2, len(d) - 1)) * error)

    @property
    def is_clear(self) -> bool:
        return abs(self.mean) > self.half

    def __str__(self) -> str:
        return f"{self.mean:+.3f}" + (f" ± {self.half:.3f}" if np.isfinite(self.half) else "")


def by_model(lines: Sequence[Line], trial: str) -> dict[str, Curve]:
    """All models that have lines, splits in order."""
    found = {}
    for model in MODELS:
        own = [line for line in lines if (line["trial"], line["model"]) == (trial, model)]
        if own:
            found[model] = Curve(model, tuple(sorted(own, key=lambda line: line["split"])))
    return found


def curves(lines: Sequence[Line], trial: str) -> dict[str, Curve]:
    """The models that have all splits: means over other splits are not comparable."""
    return {m: c for m, c in by_model(lines, trial).items() if len(c.lines) == SPLITS}


def unfinished(lines: Sequence[Line], trial: str) -> dict[str, int]:
    """The other models, with their number of splits."""
    lengths = {m: len(c.lines) for m, c in by_model(lines, trial).items()}
    return {m: lengths.get(m, 0) for m in MODELS if lengths.get(m, 0) != SPLITS}


def render(lines: list[Line]) -> str:
    first = lines[0]
    whole = first["train_randomised"] + first["test_rows"]
    parts = [
        "# jobs: policy risk on Jobs (the paper's Figure 4)\n",
        page.made_by("jobs", lines),
        "![Policy risk by share treated](../images/jobs.png)\n",
        _what(lines, whole),
    ]
    for trial in TRIALS:
        own = [line for line in lines if line["trial"] == trial]
        if own:
            found, rest = curves(own, trial), unfinished(own, trial)
            parts += [f"## Trained on {trial}: {own[0]['train_rows']:,}\n"]
            parts += [_table(found)] if found else []
            parts += [_unfinished(rest)] if rest else []
    parts.append(DIFFERENCES)
    return "\n".join(part.rstrip("\n") + "\n" for part in parts)


def _what(lines: Sequence[Line], whole: int) -> str:
    rows = float(np.mean([line["test_rows"] for line in lines]))
    return (
        f"The ten published splits. {whole} of the people were randomised, the others are controls "
        f'from elsewhere, so models are trained in two ways; "all rows" is what published '
        f"figures use. Risk is 1 - the employment rate if the top-ranked share were trained and "
        f"the others not, on the {rows:.0f} randomised test rows of a split. Shares go in steps "
        f"of .025. An average over splits, and beside the lowest risk 1.96 closed-form standard "
        f'errors of a single test part. "No clear difference": shares whose risk is not above the '
        f"lowest by more than the 95% interval of the paired difference, which allows for splits "
        f"that share rows (Nadeau and Bengio, 2003); other intervals with ± are of that kind too. "
        f"The lowest point of a curve is chosen after the fact and so looks better than it is: "
        f'"chosen elsewhere" takes the share from the other splits (which share rows with it).\n'
    )


def _table(found: dict[str, Curve]) -> str:
    header = [
        "model", "splits", "lowest at share", "risk there", "no clear difference",
        "chosen elsewhere",
        *(f"at {share:g}" for share in SHOWN), "lowest - treat all", "sign rule: share", "risk",
        "AUUC - random",
    ]  # fmt: skip
    return page.table(header, [_row(curve) for curve in found.values()])


def _row(curve: Curve) -> list[str]:
    z = float(norm.ppf(0.5 + LEVEL / 2))
    error = curve.errors[curve.best]
    sign = [line["sign_rule"] for line in curve.lines if line["sign_rule"]]
    return [
        curve.model,
        str(len(curve.lines)),
        f"{curve.best_share:g}",
        f"{curve.mean[curve.best]:.3f}" + (f" ± {z * error:.3f}" if np.isfinite(error) else ""),
        ", ".join(f"{a:g} to {b:g}" if a < b else f"{a:g}" for a, b in curve.ranges()),
        f"{curve.chosen_elsewhere():.3f}",
        *(f"{curve.mean[curve.at(share)]:.3f}" for share in SHOWN),
        str(_against_all(curve)),
        f"{np.mean([rule['share'] for rule in sign]):.2f}" if sign else "",
        f"{np.mean([rule['risk'] for rule in sign]):.3f}" if sign else "",
        str(_gain(curve)),
    ]


def _against_all(curve: Curve) -> Gap:
    return curve.gap(curve.risks[:, curve.best] - curve.risks[:, -1])


def _gain(curve: Curve) -> Gap:
    return curve.gap([line["auuc"] - line["random"] for line in curve.lines])


def claims(lines: Sequence[Line]) -> list[page.Claim]:
    """The paper's shares of the lowest risk, on the rows that its figure is trained on."""
    trial = TRIALS[0]
    found = curves(lines, trial)
    own = [model for model in CLAIMED if model in found]
    if not own:
        return []
    shows = [abs(found[m].best_share - CLAIMED[m]) <= NEAR + 1e-9 for m in own]
    claimed = ", ".join(f"{m} near {CLAIMED[m]:g}" for m in own)
    lowest = ", ".join(f"{m} at {found[m].best_share:g}" for m in own)
    return [
        page.Claim(
            f"Figure 4: on Jobs the risk is lowest for {claimed}",
            f"{lowest}; hardly any two shares differ clearly",
            "yes" if all(shows) else "no" if not any(shows) else "in part",
        )
    ]


def _unfinished(rest: dict[str, int]) -> str:
    said = ", ".join(f"{model} ({splits} of {SPLITS} splits)" for model, splits in rest.items())
    return f"Unfinished, so in no table, comparison or picture: {said}.\n"


def draw(lines: list[Line]) -> Figure:
    """Mean risk by share, a column for each set of training rows; below, where it is lowest."""
    figure = Figure(figsize=(10, 6), layout="constrained")
    axes = figure.subplots(2, 2, sharex=True, sharey="row", height_ratios=(3, 1.2))
    z = float(norm.ppf(0.5 + LEVEL / 2))
    for (ax, strip), trial in zip(axes.T, TRIALS, strict=True):
        found = {m: c for m, c in curves(lines, trial).items() if m in COLOURS}
        ax.set_title(f"trained on {trial}", fontsize=11)
        strip.set_xlabel("share treated")
        for one in (ax, strip):
            one.spines[["top", "right"]].set_visible(False)
        if found:
            _random_band(ax, found, z)
        for place, model in enumerate(COLOURS):
            if model in found:
                _draw_curve(ax, strip, found[model], place)
            else:
                _draw_missing(strip, unfinished(lines, trial)[model], place)
    axes[0, 0].set_xlim(-0.015, 1.025)
    axes[0, 0].set_ylabel("policy risk of test rows,\nmean over splits")
    axes[1, 0].set_yticks(range(len(COLOURS)), list(COLOURS))
    axes[1, 0].set_ylim(len(COLOURS) - 0.4, -0.6)
    figure.legend(handles=_legend(), loc="outside upper center", ncols=5, frameon=False)
    return figure


def _draw_curve(ax: Any, strip: Any, curve: Curve, place: int) -> None:
    """The curve; in the strip its lowest point, and the shares that are not told from it."""
    colour, half = COLOURS[curve.model], 0.5 / (len(curve.shares) - 1)
    point = {"marker": MARKERS[curve.model], "color": colour, "mec": "black", "clip_on": False}
    ax.plot(curve.shares, curve.mean, color=colour, lw=1.6)
    ax.plot([curve.best_share], [curve.mean[curve.best]], ms=7, zorder=5, **point)
    for low, high in curve.ranges():
        # Half a step to each side, so that a share alone, or one left out, can be seen.
        ends, style = [max(low - half, 0), min(high + half, 1)], {"lw": 2, "solid_capstyle": "butt"}
        strip.plot(ends, [place, place], color=colour, alpha=0.6, **style)
    strip.plot([curve.best_share], [place], ms=9, zorder=5, **point)


def _draw_missing(strip: Any, splits: int, place: int) -> None:
    text = f"unfinished: {splits} of {SPLITS} splits"
    strip.text(0.5, place, text, color="0.4", fontsize=9, ha="center", va="center")


def _random_band(ax: Any, found: dict[str, Curve], z: float) -> None:
    """The risk of a random ranking, and how far off one test part may put it."""
    one = next(iter(found.values()))
    risk = one.mean[0] + one.shares * (one.mean[-1] - one.mean[0])
    lines = tuple(line for curve in found.values() for line in curve.lines)
    error = Curve("", lines).errors
    ax.fill_between(one.shares, risk - z * error, risk + z * error, color="0.93", lw=0, zorder=0)
    ax.plot(one.shares, risk, color="0.55", lw=1, ls="--", zorder=1)


def _legend() -> list[Line2D | Patch]:
    models = [
        Line2D([], [], color=COLOURS[m], marker=MARKERS[m], ms=7, mec="black", label=m)
        for m in COLOURS
    ]
    return [
        *models,
        Line2D([], [], color="0.55", ls="--", label="random ranking"),
        Patch(color="0.93", label="its 95%, one test part"),
        Line2D([], [], color="none", marker="o", mec="black", ms=7, label="lowest mean risk"),
        Line2D([], [], color="0.55", lw=2, label="no clear difference"),
    ]
