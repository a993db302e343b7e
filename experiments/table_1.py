"""The paper's Table 1 with all of its models, on Hillstrom and on four more trials.

Every model has the paper's grid, the same splits and, if it is linear, the same features, min-max;
see :mod:`experiments.searched` for what is searched. Linear models are solved exactly, and once
more by the paper's optimiser.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from auucmax import AUUCMax
from auucmax.baselines import MinimaxLinear, UpliftLambdaMART
from experiments import page
from experiments.arm_logistic import PathTuned
from experiments.harness import Line, Task
from experiments.models import SHARES, as_paper, describe, measure
from experiments.searched import RATES, ClassMeans, Searched, Tuned, Variant
from experiments.summaries import Scores, mean_ranks, paired
from experiments.trials import CONVERSION, load_split

NAME = "table-1"
CLASS_MEANS = "class means"
MAIN = "Hillstrom women"
OTHERS = ("Hillstrom men", CONVERSION, "neighbours", "civic duty")
TEST_SIZE = 0.3
LINEAR_SPLITS = 100  # of the main trial
SPLITS = 20  # of slow models, and of the other trials
TM, PAPERS_OWN, DEFAULT = "TM", "AUUC-max s_poly, bound", "AUUCMax()"
FEW = 5  # splits, below which an interval over them says nothing
OVERLAP = TEST_SIZE / (1 - TEST_SIZE)
NETWORK_ROWS = 30_000  # training rows of networks, at most: about those of Hillstrom

Make = Callable[[int], Any]


LINEAR: dict[str, Make] = {
    "TM": lambda seed: PathTuned("TM", random_state=seed),
    "CVT": lambda seed: Tuned("CVT", random_state=seed),
    "SVM-DP": lambda seed: Searched("SVM-DP", random_state=seed),
    "DDR": lambda seed: Tuned("DDR", random_state=seed),
    "SDR": lambda seed: Tuned("SDR", random_state=seed),
    "MML": lambda seed: MinimaxLinear(random_state=seed),
    **{
        f"AUUC-max {surrogate}, {selection}": partial(
            as_paper, scale="min-max", surrogate=surrogate, selection=selection
        )
        for surrogate in ("s_poly", "s_log")
        for selection in ("cv", "bound")
    },
    "AUUCMax()": lambda seed: AUUCMax(random_state=seed),
    'AUUCMax(selection="certificate")': lambda seed: AUUCMax(
        selection="certificate", random_state=seed
    ),
    CLASS_MEANS: lambda seed: ClassMeans(),
}
SLOW: dict[str, Make] = {
    "TARNet": lambda seed: Searched("TARNet", max_rows=NETWORK_ROWS, random_state=seed),
    "PCG": lambda seed: UpliftLambdaMART("pcg", n_jobs=1, random_state=seed),
    "NDCG": lambda seed: UpliftLambdaMART("ndcg", n_jobs=1, random_state=seed),
    "GANITE": lambda seed: Searched("GANITE", folds=1, max_rows=NETWORK_ROWS, random_state=seed),
}
#: The paper's own optimiser, with its batches, learning rates and early stopping.
BY_ADAM: dict[str, Make] = {
    **{
        f"{model}, Adam": (
            lambda seed, model=model: Variant(model, rates=RATES[model], random_state=seed)
        )
        for model in ("TM", "CVT", "DDR", "SDR")
    },
    "AUUC-max s_poly, bound, Adam": partial(
        as_paper, scale="min-max", solver="adam", learning_rates=RATES["AUUC-max"]
    ),
}
#: In the order of the paper's table.
MODELS = (
    *list(LINEAR)[:6], "TARNet", "GANITE", "PCG", "NDCG", *list(LINEAR)[6:10], *BY_ADAM,
    *list(LINEAR)[10:],
)  # fmt: skip


def tasks(splits: int | None = None) -> list[Task]:
    """The main trial and the quick models first, then split by split: a piece is of use alone."""
    found = []
    for trials, models, number in (
        ((MAIN,), LINEAR, LINEAR_SPLITS),
        ((MAIN,), SLOW | BY_ADAM, SPLITS),
        (OTHERS, LINEAR, SPLITS),
        (OTHERS, SLOW, SPLITS),
    ):
        seeds = range(min(splits or number, number))
        found += [Task(NAME, t, m, seed) for seed in seeds for t in trials for m in models]
    return found


def model_of(task: Task) -> Any:
    if task.model == "SDR" and not task.trial.startswith("Hillstrom"):
        return PathTuned("SDR, treatment column", random_state=task.split)
    return (LINEAR | SLOW | BY_ADAM)[task.model](task.split)


def parameters(task: Task) -> dict[str, Any]:
    return describe(model_of(task)) | {"test_size": TEST_SIZE}


def run(task: Task) -> Line:
    train, test = load_split(task.trial, task.split, TEST_SIZE)
    return measure(task, model_of(task), train, test) | {"parameters": parameters(task)}


# The page.


class Printed(NamedTuple):
    """A row of the paper's Table 1; it prints two standard deviations."""

    mean: float
    two_sd: float | None
    n_parameters: str
    time: str


PAPER = {
    "TM": Printed(0.03019, 0.00652, "46", "1.00"),
    "CVT": Printed(0.03035, 0.00599, "23", "0.53"),
    "SVM-DP": Printed(0.03047, 0.00606, "23", "0.49"),
    "DDR": Printed(0.03042, 0.00611, "47", "1.31"),
    "SDR": Printed(0.03079, 0.00633, "67", "1.10"),
    "MML": Printed(0.02222, 0.00869, "46", "> 10"),
    "TARNet": Printed(0.03044, 0.00626, "22,402", "6.00"),
    "GANITE": Printed(0.02916, 0.00818, "7,045", "> 10"),
    "PCG": Printed(0.03063, None, "about 5,000", ""),
    "NDCG": Printed(0.02954, None, "about 5,000", ""),
    "AUUC-max s_poly, cv": Printed(0.03071, 0.00608, "23", "0.66"),
    "AUUC-max s_poly, bound": Printed(0.03065, 0.00612, "23", "0.17"),
    "AUUC-max s_log, cv": Printed(0.03023, 0.00619, "23", "0.69"),
    "AUUC-max s_log, bound": Printed(0.03024, 0.00614, "23", "0.18"),
}
PAPERS_SPLITS = 100
#: "Significantly lower than AUUC-max (s_poly) by binomial test at 95%", says the paper.
MARKED = {
    "TM", "CVT", "SVM-DP", "DDR", "MML", "TARNet", "GANITE", "AUUC-max s_log, cv",
    "AUUC-max s_log, bound",
}  # fmt: skip
#: The paper's Table 6: policy risk on Hillstrom at shares .1 to .9.
PAPER_RISK = {
    "TM": (0.8841, 0.8768, 0.8689, 0.8610, 0.8560, 0.8541, 0.8524, 0.8514, 0.8504),
    "SDR": (0.8839, 0.8762, 0.8684, 0.8603, 0.8551, 0.8534, 0.8516, 0.8507, 0.8498),
    PAPERS_OWN: (0.8832, 0.8759, 0.8684, 0.8607, 0.8559, 0.8544, 0.8522, 0.8512, 0.8501),
}


def scores_of(lines: Sequence[Line], trial: str = MAIN) -> Scores:
    return Scores((line for line in lines if line["trial"] == trial), MODELS)


def render(lines: list[Line]) -> str:
    main = scores_of(lines)
    by_trial = {trial: scores_of(lines, trial) for trial in (MAIN, *OTHERS)}
    by_trial = {trial: scores for trial, scores in by_trial.items() if TM in scores.models}
    return page.written(
        f"{NAME}: every model of the paper's Table 1",
        lines,
        _protocol(main),
        "## Table 1: Hillstrom, women's e-mail, visits\n",
        _main_table(main),
        f"{_within_text(main)} Splits share their rows, so the plain intervals and the binomial "
        "test are too confident; the widened interval allows for it. "
        "Times are seconds of one core for the whole search, as multiples of TM's.\n",
        "![Test AUUC against number of parameters](../images/parameters.png)\n",
        f"Means over the {len(main.common)} splits of all models; bars are the 95% interval of the "
        "difference to TM on these splits.\n",
        "## Table 6: policy risk on Hillstrom\n",
        *_policy_risk(main),
        *(_other_trials(by_trial) if len(by_trial) > 1 else []),
    )


def summary(lines: Sequence[Line]) -> str:
    main = scores_of(lines)
    wide = main.difference(PAPERS_OWN, TM, overlap=OVERLAP)
    return (
        f"{_within_text(main)} AUUC-max as the paper has it, minus TM: {page.ends(wide)} "
        f"(widened). All models, parameters and times: {page.link(NAME)}.\n\n"
        "![Test AUUC against number of parameters](images/parameters.png)\n"
    )


def claims(lines: Sequence[Line]) -> list[page.Claim]:
    main = scores_of(lines)
    against = main.difference(PAPERS_OWN, TM)
    wide = main.difference(PAPERS_OWN, TM, overlap=OVERLAP)
    by_cv = main.difference(PAPERS_OWN, "AUUC-max s_poly, cv")
    printed = PAPER[PAPERS_OWN].mean - PAPER[TM].mean
    risks = {m: _risks(main, m, main.splits(*PAPER_RISK)).mean(axis=0) for m in PAPER_RISK}
    lowest = [min(PAPER_RISK, key=lambda m: risks[m][k]) for k in range(len(SHARES))]
    apart = max(float(np.abs(risk - risks[TM]).max()) for risk in risks.values())
    half = 1.96 * float(np.mean([main.values(TM, "policy_risk_error")]))
    return [
        page.Claim(
            f"Table 1: AUUC-max (s_poly, by the bound) is {printed:.5f} above TM",
            f"{page.signed(against.mean)}, widened {page.ends(wide)}",
            "no" if against.high < 0 else "yes" if against.low > 0 else "no clear difference",
        ),
        page.Claim(
            "Choosing Lambda by the bound is as good as by cross-validation",
            f"bound minus CV {page.interval(by_cv)}: on these features the grid hardly constrains",
            "yes" if by_cv.high >= 0 else "no",
        ),
        page.Claim(
            f"AUUC-max trains in {PAPER[PAPERS_OWN].time} of TM's time, with 23 parameters",
            f"{_time(main, PAPERS_OWN):.2f} of TM's {main.mean(TM, 'cpu_seconds'):.2f} s, both "
            "solved exactly",
            "yes" if _time(main, PAPERS_OWN) < 1 else "no",
        ),
        page.Claim(
            "Table 6: AUUC-max has the lowest policy risk up to a share of .3, SDR from .4 on",
            f"risks of the three differ by at most {apart:.4f}, with a standard interval of "
            f"± {half:.4f} from one split",
            "yes" if lowest == [PAPERS_OWN] * 3 + ["SDR"] * 6 else "no",
        ),
    ]


def _protocol(main: Scores) -> str:
    return (
        f"{len(main.splits(TM))} splits for linear models, {len(main.common)} of them for all "
        f"models (seeds from 0); {page.share(TEST_SIZE)} test rows, stratified by treatment alone. "
        f"The paper does not state the share; with this one TM's spread is "
        f"{page.auuc(main.spread(TM))}, the paper's {page.auuc(PAPER[TM].two_sd or 0)}. Grids are "
        "the paper's, by 5-fold CV on AUUC: l2 in 0, 1e-6, 1e-4 (TM, CVT, DDR, SDR); C in .1, 1, "
        "10; TARNet: learning rate in .001, .005 and the same l2, batches of 1,000, at most 200 "
        "epochs, early stopping; GANITE: h in 30, 50, 100, alpha in 1, 100, 1,000, one validation "
        "part instead of 5 folds, 20 epochs of its first stage. The paper has no grid for PCG and "
        "NDCG: here LightGBM grows them, the number of trees by 5-fold CV. MML has the "
        "regularisation of its authors' code and half of the labels each, as the method supposes. "
        "All but the networks, the trees and the rows by Adam are solved exactly, so that learning "
        "rates do not matter; by Adam: the paper's batches, learning rates (searched too) and "
        "early stopping. Features of all linear models are scaled to 0 to 1 (the paper does not "
        "say; column-l2 features are on the page hillstrom-linear), networks standardise theirs. "
        "AUUC-max as in the paper: mu = .1, Lambda in .5, .8, 1, uniform weights. SDR has no "
        "treatment column on Hillstrom, whose one-hot columns need none (67 parameters, as in the "
        f"paper), and one on social pressure. `{DEFAULT}` is our default, "
        '`selection="certificate"` keeps half of the training rows to choose and certify. ± is two '
        "standard deviations over splits, as in the paper. A random ranking has "
        f"{page.auuc(main.mean(TM, 'random'))} on average.\n"
    )


def _time(main: Scores, model: str) -> float:
    """Seconds of a core, as a multiple of TM's on the same splits."""
    splits = main.splits(model, TM)
    return main.mean(model, "cpu_seconds", splits) / main.mean(TM, "cpu_seconds", splits)


def _main_table(main: Scores) -> str:
    header = [
        "model", "splits", "AUUC (joint)", "separate", "paper", "within 1 sd of it",
        "ours - paper", "parameters", "paper", "time / TM", "paper",
        f"minus {PAPERS_OWN} (95% interval)", "widened", "splits above it", "binomial p",
        "paper's mark", "minus TM (95% interval)",
    ]  # fmt: skip
    return page.table(header, [_main_row(main, model) for model in main.models])


def _main_row(main: Scores, model: str) -> list[str]:
    printed = PAPER.get(model)
    paper = ["", "", ""]
    if printed is not None:
        paper[0] = page.auuc(printed.mean)
        if printed.two_sd is not None:
            off = main.mean(model) - printed.mean
            # Twice the standard error, were all splits independent.
            error = main.spread(model) ** 2 / len(main.lines[model])
            error = np.sqrt(error + printed.two_sd**2 / PAPERS_SPLITS)
            paper[0] += f" ± {page.auuc(printed.two_sd)}"
            paper[1:] = [_yes(is_within(main, model)), f"{page.signed(off)} ± {page.auuc(error)}"]
    counts = main.values(model, "n_parameters")
    low, high = min(counts), max(counts)
    against = [""] * 4
    if model != PAPERS_OWN:
        difference = main.difference(model, PAPERS_OWN)
        wide = main.difference(model, PAPERS_OWN, overlap=OVERLAP)
        against = [
            page.interval(difference), page.ends(wide), page.share(difference.share_above),
            page.p_value(difference.p_value),
        ]  # fmt: skip
    return [
        f"**{model}**" if model in (PAPERS_OWN, DEFAULT) else model,
        str(len(main.lines[model])),
        f"{page.auuc(main.mean(model))} ± {page.auuc(main.spread(model))}",
        f"{page.auuc(main.mean(model, 'auuc_separate'))} ± "
        f"{page.auuc(main.spread(model, 'auuc_separate'))}",
        *paper,
        f"{low:,}" if low == high else f"{low:,} to {high:,}",
        printed.n_parameters if printed else "",
        f"{_time(main, model):.2f}",
        printed.time if printed else "",
        *against,
        ("lower" if model in MARKED else "none") if printed else "",
        "" if model == TM else page.interval(main.difference(model, TM)),
    ]


def _yes(value: bool) -> str:
    return "yes" if value else "**no**"


def is_within(main: Scores, model: str) -> bool:
    """Whether the mean is within one standard deviation of the paper's."""
    printed = PAPER[model]
    return printed.two_sd is not None and abs(main.mean(model) - printed.mean) <= printed.two_sd / 2


def _within_text(main: Scores) -> str:
    judged = [m for m in PAPER if m in main.models and PAPER[m].two_sd is not None]
    outside = [m for m in judged if not is_within(main, m)]
    return (
        f"{len(judged) - len(outside)} of {len(judged)} means lie within one standard deviation "
        f"(of a split) of the paper's; not so: {page.listed(outside)}."
    )


def _policy_risk(main: Scores) -> list[str]:
    """The paper's Table 6."""
    models = [*PAPER_RISK, DEFAULT]
    splits = main.splits(*models)
    risks = {m: _risks(main, m, splits) for m in models}
    lowest = np.min([risks[m].mean(axis=0) for m in PAPER_RISK], axis=0)
    rows = [
        [m, *(f"**{risk:.4f}**" if m in PAPER_RISK and risk == low else f"{risk:.4f}"
              for risk, low in zip(risks[m].mean(axis=0), lowest, strict=True))]
        for m in models
    ]  # fmt: skip
    rows += [[f"{m}, paper", *(f"{risk:.4f}" for risk in own)] for m, own in PAPER_RISK.items()]
    errors = _risks(main, TM, splits, "policy_risk_error").mean(axis=0)
    rows.append(["95% half-width, one split", *(f"{1.96 * error:.4f}" for error in errors)])
    shares = [f"{share:g}" for share in SHARES]
    differences = [
        [m, *(f"{d.mean:+.4f} ({d.low:+.4f} to {d.high:+.4f})"
              for d in map(paired, risks[m].T, risks[TM].T))]
        for m in models if m != TM
    ]  # fmt: skip
    return [
        f"1 minus the mean outcome when the top share is treated and the others are not; lower is "
        f"better. Means over {len(splits)} splits; the lowest of the paper's three is bold.\n",
        page.table(["model", *shares], rows),
        "Differences on the same splits:\n",
        page.table(["minus TM (95% interval)", *shares], differences),
    ]


def _risks(
    main: Scores, model: str, splits: Sequence[int], name: str = "policy_risk"
) -> np.ndarray:
    return np.array(main.values(model, name, splits))


def _other_trials(by_trial: dict[str, Scores]) -> list[str]:
    present = [m for m in MODELS if all(m in s.models for s in by_trial.values())]
    fewest = {m: min(len(s.lines[m]) for s in by_trial.values()) for m in present}
    models = [m for m in present if fewest[m] >= SPLITS]
    common = {trial: s.splits(*models) for trial, s in by_trial.items()}
    ranks = [
        mean_ranks([[s.lines[m][split]["auuc"] for m in models] for split in common[trial]])
        for trial, s in by_trial.items()
    ]
    over_splits = np.mean(ranks, axis=0)
    by_mean = mean_ranks(
        [[s.mean(m, splits=common[t]) for m in models] for t, s in by_trial.items()]
    )
    order = sorted(range(len(models)), key=lambda k: by_mean[k])
    rows = [
        [
            models[k],
            *(page.auuc(s.mean(models[k], splits=common[t])) for t, s in by_trial.items()),
            f"{by_mean[k]:.1f}",
            f"{over_splits[k]:.1f}",
        ]
        for k in order
    ]
    random = [page.auuc(s.mean(TM, "random", common[t])) for t, s in by_trial.items()]
    rows.append(["random", *random, "", ""])
    shown = [models[k] for k in order] + [m for m in present if m not in models]
    said = ", ".join(f"{t} {len(common[t])}" for t in by_trial)
    return [
        "## The same table on other trials\n",
        "Test AUUC (joint), means over the splits that all models have: "
        f"{said}. Networks learn from at most {NETWORK_ROWS:,} training rows. Rank 1 is "
        "the best. Trials of one source share rows: three share Hillstrom's control group, two "
        "that of social pressure, and conversions are the buyers among the same visitors.\n",
        page.table(
            ["model", *by_trial, "mean rank of the trials' means", "mean rank over splits"], rows
        ),
        "Minus TM on the same splits, in units of .00001, with 95% interval over splits:\n",
        page.table(
            ["model", *by_trial],
            [
                [m, *(page.units(s.difference(m, TM)) for s in by_trial.values())]
                for m in shown
                if m != TM and fewest[m] >= FEW
            ],
        ),
    ]


# The paper's Figure 3: test AUUC on Hillstrom against the number of parameters.

OURS, HIGHLIGHT = "#1f77b4", "#d62728"
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
    scores = scores_of(lines)
    figure = Figure(figsize=(9, 5.2), layout="constrained")
    ax = figure.subplots()
    ax.spines[["top", "right"]].set_visible(False)
    # Models by Adam differ from others in the optimiser alone.
    heights = {m: scores.mean(m, splits=scores.common) for m in scores.models if m not in BY_ADAM}
    sizes = {m: np.median(scores.values(m, "n_parameters", scores.common)) for m in heights}
    for model, height in heights.items():
        difference = scores.difference(model, TM, splits=scores.common)
        half = (difference.high - difference.low) / 2 if model != TM else 0.0
        colour = HIGHLIGHT if "AUUC" in model else OURS
        style: Any = {"fmt": "o", "color": colour, "ms": 5, "lw": 1.2, "capsize": 2}
        ax.errorbar([round(sizes[model])], [height], yerr=[half], **style)
    for size in dict.fromkeys(map(round, sizes.values())):
        own = {m: heights[m] for m in heights if round(sizes[m]) == size}
        _label(ax, size, dict(sorted(own.items(), key=lambda item: -item[1])))
    random = scores.mean(TM, "random", scores.common)
    ax.axhline(heights[TM], color="0.8", lw=1, zorder=0)
    ax.axhline(random, color="0.5", lw=1, ls=":", zorder=0)
    ax.text(50_000, random, "random", ha="right", va="bottom", fontsize=8, color="0.4")
    ax.set_xscale("log")
    ax.set_xlim(1.5, 60_000)
    ax.set_xticks([10, 100, 1_000, 10_000], ["10", "100", "1,000", "10,000"])
    ax.set_xlabel("parameters (logarithmic)")
    ax.set_ylabel(f"test AUUC, mean over {len(scores.common)} splits")
    legend = [
        Line2D([], [], marker="o", ls="", color=HIGHLIGHT, label="AUUC-max"),
        Line2D([], [], marker="o", ls="", color=OURS, label="others"),
        Line2D([], [], color="0.4", lw=1.2, label="95%, difference to TM"),
    ]
    figure.legend(handles=legend, loc="outside upper center", ncols=4, frameon=False)
    return figure


def _label(ax: Axes, size: int, heights: dict[str, float]) -> None:
    """Names beside the points; where many models have one size, a list to the left of them."""
    top = max(heights.values())
    for place, (model, height) in enumerate(heights.items()):
        how: Any = {"fontsize": 8}
        if len(heights) > 2:
            how |= {"xytext": (0.75 * size, top + STEP * (1 - place)), "ha": "right"}
            how["arrowprops"] = {"arrowstyle": "-", "color": "0.8", "lw": 0.7, "relpos": (1, 0.5)}
            how["va"] = "center"
        else:
            x, y, align = PLACES.get(model, (7, 3, "left"))
            how |= {"xytext": (x, y), "textcoords": "offset points", "ha": align}
        ax.annotate(model, (size, height), **how)
