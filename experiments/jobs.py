"""Policy risk on Jobs: the paper's Figure 4, on the ten published splits.

A randomised experiment (722 rows) inside a larger sample whose other rows are all controls. Models
are fitted to all training rows, as is usual, or to the randomised ones alone, where treatment is
random; risks are read on the randomised test rows. Hyper-parameters are chosen on one validation
part of the training rows, by AUUC of its randomised rows.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from numpy.typing import NDArray
from scipy.stats import norm
from sklearn.model_selection import train_test_split

from auucmax import AUUCMax, Trial, TwoModels, auuc_inference, auuc_score
from auucmax.baselines import GANITE, SharedDataRepresentation, TARNet
from auucmax.data.fetch import fetch_jobs
from auucmax.metrics.functions import policy_risk_inference
from experiments import page
from experiments.harness import Line, Task
from experiments.models import as_paper, describe, random_auuc, rounded, start_line, timed
from experiments.searched import MeanLogistic
from experiments.summaries import Paired, paired

NAME = "jobs"
ALL, RANDOMISED = "all rows", "randomised rows"
SPLITS = 10
SHARES = tuple(k / 40 for k in range(41))
NORMS = (0.005, 0.01, 0.05, 0.1, 0.5)
POINTS = 50  # drawn from a grid that has more
VALIDATION = 0.25

Floats = NDArray[np.float64]
Options = dict[str, Any]
_L2 = (0.0, 1e-6, 1e-4, 1e-2)
_BATCH = (100, 500, 1000)
_EPOCHS = (50, 100, 500)


class Grid(NamedTuple):
    """How to make a model from a point of the grid, and what is the same in all points."""

    make: Callable[..., Any]
    values: dict[str, tuple[Any, ...]]
    fixed: Options


#: Scores of these are estimated effects.
SEARCHED: dict[str, Grid] = {
    "TM": Grid(lambda l2, random_state: TwoModels(MeanLogistic(l2)), {"l2": _L2}, {}),
    "SDR": Grid(
        lambda l2, random_state: SharedDataRepresentation(MeanLogistic(l2)), {"l2": _L2}, {}
    ),
    "TARNet": Grid(
        TARNet,
        {
            "learning_rate": (1e-4, 1e-3, 1e-2),
            # The paper's l2 multiplies the squared weights, TARNet's half of them.
            "l2": tuple(2 * l2 for l2 in _L2),
            "batch_size": _BATCH,
            "max_epochs": _EPOCHS,
        },
        # As on the paper's other data, the loss of a fifth of the rows can end training sooner.
        {"validation_share": 0.2, "patience": 10},
    ),
    "GANITE": Grid(
        GANITE,
        {
            "learning_rate": (1e-5, 1e-4, 1e-3),
            "batch_size": _BATCH,
            "max_epochs": _EPOCHS,
            "hidden": (30, 50, 100),
            "alpha": (1.0, 100.0, 1000.0),
        },
        {"validation_share": 0.2, "patience": 10, "l2": 0.0, "generator_epochs": 20},
    ),
}
DIRECT: dict[str, Callable[[int], Any]] = {
    "AUUC-max": lambda seed: as_paper(seed, grid=NORMS),
    "AUUCMax()": lambda seed: AUUCMax(random_state=seed),
}
#: From quick to slow, so that a piece of a run is whole in itself.
MODELS = (*DIRECT, *SEARCHED)
SHOWN_MODELS = ("AUUC-max", "AUUCMax()", "TM", "SDR", "TARNet", "GANITE")


def tasks(splits: int | None = None) -> list[Task]:
    return [
        Task(NAME, trial, model, split)
        for model in MODELS
        for trial in (RANDOMISED, ALL)
        for split in range(min(splits or SPLITS, SPLITS))
    ]


def parameters(task: Task) -> Options:
    own = {"shares": len(SHARES)}
    if task.model in DIRECT:
        return describe(DIRECT[task.model](task.split)) | own
    grid = SEARCHED[task.model]
    most = min(POINTS, len(_points(grid)))
    return {"model": task.model, "grid": grid.values, "fixed": grid.fixed, "points": most} | own


@lru_cache(maxsize=2)
def load_split(trial: str, split: int) -> tuple[Trial, Trial]:
    """The training rows that a model may see, and the randomised test rows."""
    train, test = (fetch_jobs(split, part, download=False) for part in ("train", "test"))
    if trial == RANDOMISED:
        train = train.take(_randomised(train))
    return train, test.take(_randomised(test))


def probe(trial: str) -> None:
    """Raises DataNotFoundError if the files are not there."""
    load_split(trial, 0)


def run(task: Task) -> Line:
    train, test = load_split(task.trial, task.split)
    (model, chosen), seconds = timed(lambda: fit(task.model, train, task.split))
    score = model.predict(test.X)
    auuc = auuc_inference(test.y, score, treatment=test.treatment)
    risk = policy_risk_inference(test.y, score, treatment=test.treatment, share=SHARES)
    line = start_line(task, parameters(task)) | {
        "risk": list(np.atleast_1d(risk.estimate)),
        # None: one of the two cells has fewer than two rows.
        "risk_error": [None if np.isnan(e) else e for e in np.atleast_1d(risk.standard_error)],
        "sign_rule": _sign_rule(test, score) if task.model in SEARCHED else None,
        "auuc": auuc.estimate,
        "random": random_auuc(test),
        "gain_standard_error": auuc.gain_standard_error,
        "chosen": chosen,
        "train_rows": train.n_rows,
        "train_randomised": int(_randomised(train).sum()),
        "test_rows": test.n_rows,
        **seconds,
    }
    return rounded(line)


def fit(name: str, train: Trial, seed: int) -> tuple[Any, Options]:
    """The model, fitted to the training rows, and what was chosen for it."""
    if name in DIRECT:
        model = DIRECT[name](seed).fit(train.X, train.y, treatment=train.treatment)
        return model, {"norm": model.norm_}
    return search(SEARCHED[name], train, seed)


def search(grid: Grid, train: Trial, seed: int) -> tuple[Any, Options]:
    """Fit every point to three quarters of the rows, and the best one to all of them."""
    points = drawn_points(grid, seed)
    randomised = _randomised(train)
    learn, check = train_test_split(
        np.arange(train.n_rows),
        test_size=VALIDATION,
        stratify=2 * randomised + (train.treatment == 1),
        random_state=seed,
    )
    part, held_out = train.take(learn), train.take(check[randomised[check]])

    def evaluate(point: Options) -> float:
        model = grid.make(**point, **grid.fixed, random_state=seed)
        model.fit(part.X, part.y, treatment=part.treatment)
        score = model.predict(held_out.X)
        return auuc_score(held_out.y, score, treatment=held_out.treatment)

    chosen = points[int(np.argmax(list(map(evaluate, points))))]
    best = grid.make(**chosen, **grid.fixed, random_state=seed)
    return best.fit(train.X, train.y, treatment=train.treatment), chosen


def drawn_points(grid: Grid, seed: int) -> list[Options]:
    """All points of a grid, or POINTS of them; the same ones for both sets of training rows."""
    points = _points(grid)
    if len(points) <= POINTS:
        return points
    drawn = np.random.default_rng(seed).choice(len(points), POINTS, replace=False)
    return [points[k] for k in np.sort(drawn)]


def _points(grid: Grid) -> list[Options]:
    return [dict(zip(grid.values, v, strict=True)) for v in product(*grid.values.values())]


def _randomised(trial: Trial) -> Any:
    assert trial.randomised is not None  # fetch_jobs always has it
    return trial.randomised


def _sign_rule(test: Trial, score: Any) -> Options:
    """Treat everyone with an estimated effect above 0, as Shalit et al. do."""
    risk = policy_risk_inference(test.y, score, treatment=test.treatment)
    error = float(risk.standard_error)
    return {
        "share": risk.share,
        "risk": risk.estimate,
        "error": None if np.isnan(error) else error,
    }


# The page, and its picture.

OURS, THEIRS = "AUUC-max", "TARNet"
CLAIMED = {OURS: 0.5, THEIRS: 0.95}  # shares of the lowest risk, in the paper
NEAR = 0.1  # a share within this of the paper's is near it
LEVEL = 0.95
SHOWN = (0.5, 0.95)
COLOURS = {
    "AUUC-max": "#d55e00", "TM": "#0072b2", "SDR": "#56b4e9", "TARNet": "#009e73",
    "GANITE": "#cc79a7",
}  # fmt: skip
MARKERS = {"AUUC-max": "o", "TM": "s", "SDR": "D", "TARNet": "^", "GANITE": "v"}
_PAGE = """\
The ten published splits. {whole} of the people were randomised, the others are controls from
elsewhere, so models are trained in two ways; "all rows" is what published figures use. Risk is 1 -
the employment rate if the top-ranked share were trained and the others not, on the {rows:.0f}
randomised test rows of a split. Shares go in steps of .025. An average over splits, and beside the
lowest risk 1.96 closed-form standard errors of a single test part. "Not above it": shares whose
risk is not above the lowest by more than the 95% interval of the paired difference, which allows
for splits that share rows (Nadeau and Bengio, 2003); other intervals with ± are of that kind too.
The lowest point of a curve is chosen after the fact and so looks better than it is: "chosen
elsewhere" takes the share from the other splits (which share rows with it).
"""
_DIFFERENCES = """\
**Different from the paper.** It does not say by what its search compares; here it is AUUC of the
randomised rows in a validation part (25% of the training rows), and the chosen point is fitted to
all training rows. TM, SDR and AUUC-max are solved exactly, so learning rate, batch size and epochs
do not apply. Of the networks 50 points are drawn for each split; the loss of a fifth of the rows
can end training before the epochs of the grid.
"""


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
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # a share where no split has one
            return np.asarray(np.nanmean(table, axis=0))

    @property
    def best(self) -> int:
        """Position of the lowest mean risk; of equal ones the smallest share."""
        return int(np.argmin(self.mean))

    @property
    def best_share(self) -> float:
        return float(self.shares[self.best])

    def ranges(self) -> list[tuple[float, float]]:
        """Ends of the runs of shares whose risk is not clearly above that of the best share."""
        above = self.risks - self.risks[:, [self.best]]
        places = np.flatnonzero([not self.gap(column).is_clear for column in above.T])
        runs = np.split(places, np.flatnonzero(np.diff(places) > 1) + 1)
        return [(float(self.shares[run[0]]), float(self.shares[run[-1]])) for run in runs]

    def chosen_elsewhere(self) -> float:
        """Mean risk of a split at the share that is best on the other splits."""
        others = (self.risks.sum(axis=0) - self.risks) / (len(self.lines) - 1)
        return float(np.mean(self.risks[np.arange(len(self.lines)), others.argmin(axis=1)]))

    def gap(self, differences: Any) -> Paired:
        """Mean of a number over these splits, whose interval allows for rows that they share."""
        ratio = self.lines[0]["test_rows"] / self.lines[0]["train_randomised"]
        return paired(differences, np.zeros(len(differences)), LEVEL, overlap=ratio)


def curves(lines: Sequence[Line], trial: str) -> dict[str, Curve]:
    """The models that have all splits: means over other splits are not comparable."""
    found = {}
    for model in SHOWN_MODELS:
        own = [line for line in lines if (line["trial"], line["model"]) == (trial, model)]
        if len(own) == SPLITS:
            found[model] = Curve(model, tuple(sorted(own, key=lambda line: line["split"])))
    return found


def render(lines: list[Line]) -> str:
    first = lines[0]
    rows = float(np.mean([line["test_rows"] for line in lines]))
    about = _PAGE.format(whole=first["train_randomised"] + first["test_rows"], rows=rows)
    parts = ["![Policy risk by share treated](../images/jobs.png)\n", about]
    for trial in (ALL, RANDOMISED):
        own = [line for line in lines if line["trial"] == trial]
        if own:
            found = curves(own, trial)
            rest = [model for model in SHOWN_MODELS if model not in found]
            parts += [f"## Trained on {trial}: {own[0]['train_rows']:,}\n"]
            parts += [_table(found)] if found else []
            parts += [f"Unfinished: {', '.join(rest)}.\n"] if rest else []
    title = f"{NAME}: policy risk on Jobs (the paper's Figure 4)"
    return page.written(title, lines, *parts, _DIFFERENCES)


def _table(found: dict[str, Curve]) -> str:
    header = [
        "model", "splits", "lowest at share", "risk there", "not above it", "chosen elsewhere",
        *(f"at {share:g}" for share in SHOWN), "lowest - treat all", "sign rule: share", "risk",
        "AUUC - random",
    ]  # fmt: skip
    return page.table(header, [_row(curve) for curve in found.values()])


def _row(curve: Curve) -> list[str]:
    half = float(norm.ppf(0.5 + LEVEL / 2)) * curve.errors[curve.best]
    sign = [line["sign_rule"] for line in curve.lines if line["sign_rule"]]
    shown = [int(np.argmin(np.abs(curve.shares - share))) for share in SHOWN]
    return [
        curve.model,
        str(len(curve.lines)),
        f"{curve.best_share:g}",
        f"{curve.mean[curve.best]:.3f}" + (f" ± {half:.3f}" if np.isfinite(half) else ""),
        ", ".join(f"{a:g} to {b:g}" if a < b else f"{a:g}" for a, b in curve.ranges()),
        f"{curve.chosen_elsewhere():.3f}",
        *(f"{curve.mean[place]:.3f}" for place in shown),
        page.with_half(curve.gap(curve.risks[:, curve.best] - curve.risks[:, -1])),
        f"{np.mean([rule['share'] for rule in sign]):.2f}" if sign else "",
        f"{np.mean([rule['risk'] for rule in sign]):.3f}" if sign else "",
        page.with_half(curve.gap([line["auuc"] - line["random"] for line in curve.lines])),
    ]


def claims(lines: Sequence[Line]) -> list[page.Claim]:
    """The paper's shares of the lowest risk, on the rows that its figure is trained on."""
    found = curves(lines, ALL)
    own = [model for model in CLAIMED if model in found]
    if not own:
        return []
    shows = [abs(found[m].best_share - CLAIMED[m]) <= NEAR + 1e-9 for m in own]
    claimed = ", ".join(f"{m} near {CLAIMED[m]:g}" for m in own)
    lowest = ", ".join(f"{m} at {found[m].best_share:g}" for m in own)
    return [
        page.Claim(
            f"Figure 4: on Jobs the risk is lowest for {claimed}",
            f"{lowest}; hardly any share differs significantly from another",
            "yes" if all(shows) else "no" if not any(shows) else "in part",
        )
    ]


def draw(lines: list[Line]) -> Figure:
    """Mean risk by share, a column for each set of training rows; below, where it is lowest."""
    figure = Figure(figsize=(10, 6), layout="constrained")
    axes = figure.subplots(2, 2, sharex=True, sharey="row", height_ratios=(3, 1.2))
    for (ax, strip), trial in zip(axes.T, (ALL, RANDOMISED), strict=True):
        found = {m: c for m, c in curves(lines, trial).items() if m in COLOURS}
        ax.set_title(f"trained on {trial}", fontsize=11)
        strip.set_xlabel("share treated")
        for one in (ax, strip):
            one.spines[["top", "right"]].set_visible(False)
        if found:
            _random_band(ax, found)
        for place, model in enumerate(COLOURS):
            if model in found:
                _draw_curve(ax, strip, found[model], place)
    axes[0, 0].set_xlim(-0.015, 1.025)
    axes[0, 0].set_ylabel("policy risk of test rows,\nmean over splits")
    axes[1, 0].set_yticks(range(len(COLOURS)), list(COLOURS))
    axes[1, 0].set_ylim(len(COLOURS) - 0.4, -0.6)
    figure.legend(handles=_legend(), loc="outside upper center", ncols=5, frameon=False)
    return figure


def _draw_curve(ax: Any, strip: Any, curve: Curve, place: int) -> None:
    """The curve; in the strip its lowest point, and the shares that are not clearly above it."""
    colour, half = COLOURS[curve.model], 0.5 / (len(curve.shares) - 1)
    point = {"marker": MARKERS[curve.model], "color": colour, "mec": "black", "clip_on": False}
    ax.plot(curve.shares, curve.mean, color=colour, lw=1.6)
    ax.plot([curve.best_share], [curve.mean[curve.best]], ms=7, zorder=5, **point)
    for low, high in curve.ranges():
        # Half a step to each side, so that a share alone, or one left out, can be seen.
        ends, style = [max(low - half, 0), min(high + half, 1)], {"lw": 2, "solid_capstyle": "butt"}
        strip.plot(ends, [place, place], color=colour, alpha=0.6, **style)
    strip.plot([curve.best_share], [place], ms=9, zorder=5, **point)


def _random_band(ax: Any, found: dict[str, Curve]) -> None:
    """The risk of a random ranking, and how far off one test part may put it."""
    one = next(iter(found.values()))
    risk = one.mean[0] + one.shares * (one.mean[-1] - one.mean[0])
    lines = tuple(line for curve in found.values() for line in curve.lines)
    half = float(norm.ppf(0.5 + LEVEL / 2)) * Curve("", lines).errors
    ax.fill_between(one.shares, risk - half, risk + half, color="0.93", lw=0, zorder=0)
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
        Line2D([], [], color="0.55", lw=2, label="not clearly above it"),
    ]
