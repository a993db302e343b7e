"""What the place of AUUC-max against TM depends on: Hillstrom's women's e-mail, visits.

The split share, the features' scaling and most of the optimiser are not in the paper. Here TM, CVT,
DDR, SDR and AUUC-max have the same features, of two kinds, and are solved exactly or by Adam at the
paper's learning rates. All models of its Table 1, on the same splits: :mod:`experiments.table_1`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from auucmax import AUUCMax
from experiments import page
from experiments.harness import Line, Task
from experiments.models import as_paper, describe, measure
from experiments.searched import RATES, ClassMeans, Tuned, Variant
from experiments.summaries import Scores
from experiments.table_1 import PAPER
from experiments.trials import load_split

NAME = "hillstrom-linear"
TRIAL = "Hillstrom women"
SPLITS, FEW_SPLITS = 100, 20
TEST_SIZE = 0.3
REFERENCE = "TM"
OWN, CLASS_MEANS = "AUUC-max", "class means"
SCALES = ("min-max", "column-l2")


def _ours(**options: Any) -> Callable[[int], AUUCMax]:
    return lambda seed: AUUCMax(random_state=seed, **options)


def _on(scale: str, model: str, rates: Sequence[float] | None = None) -> Callable[[int], Any]:
    """A model on features of a scale, solved exactly, or by Adam at the best of these rates."""
    if model == OWN:
        adam = {} if rates is None else {"solver": "adam", "learning_rates": tuple(rates)}
        return partial(as_paper, scale=scale, **adam)
    searched = (None,) if rates is None else tuple(rates)
    return lambda seed: Variant(model, rates=searched, scale=scale, random_state=seed)


BASELINES: dict[str, Callable[[int], Any]] = {
    "TM": lambda seed: Tuned("TM", random_state=seed),
    "CVT": lambda seed: Tuned("CVT", random_state=seed),
    CLASS_MEANS: lambda seed: ClassMeans(),
}
AS_PAPER = {
    f"AUUC-max {surrogate}, {selection}": partial(
        as_paper, surrogate=surrogate, selection=selection
    )
    for surrogate in ("s_poly", "s_log")
    for selection in ("cv", "bound")
}
OURS = {
    f"AUUCMax({options})": _ours(surrogate=surrogate, selection=selection)
    for options, surrogate, selection in (
        ('selection="cv"', "s_poly", "cv"),
        ('selection="bound"', "s_poly", "bound"),
        ('"s_log", selection="cv"', "s_log", "cv"),
        ('"s_log", selection="bound"', "s_log", "bound"),
    )
}
# The paper's setting with some things changed: what its place depends on.
CHANGES = {
    'weights="lambda"': partial(as_paper, selection="cv", weights="lambda"),
    'scale="min-max"': partial(as_paper, selection="cv", scale="min-max"),
    'grid="relative"': partial(as_paper, selection="cv", grid="relative"),
    'scale="min-max", grid="relative"': partial(
        as_paper, selection="cv", scale="min-max", grid="relative"
    ),
}
MANY: dict[str, Callable[[int], Any]] = (
    BASELINES | AS_PAPER | OURS | CHANGES | {f"{OWN}, min-max": _on("min-max", OWN)}
)
#: On fewer splits: other features, and Adam with the rate searched or, on min-max, at each rate.
FEW: dict[str, Callable[[int], Any]] = {
    "DDR": _on("min-max", "DDR"),
    "SDR": _on("min-max", "SDR"),
    **{f"{model}, column-l2": _on("column-l2", model) for model in ("TM", "CVT", "DDR", "SDR")},
    f"{CLASS_MEANS}, column-l2": lambda seed: ClassMeans("column-l2"),
    **{
        f"{model}, {scale}, Adam": _on(scale, model, rates)
        for scale in SCALES
        for model, rates in RATES.items()
    },
    **{
        f"{model}, min-max, Adam at {rate:g}": _on("min-max", model, (rate,))
        for model, rates in RATES.items()
        for rate in rates
    },
}
MODELS = MANY | FEW


def name_of(model: str, scale: str, how: str = "") -> str:
    """The name of a model on these features: exact, "Adam", or "Adam at RATE"."""
    if how:
        return f"{model}, {scale}, {how}"
    if model == OWN:
        return f"{OWN}, min-max" if scale == "min-max" else "AUUC-max s_poly, bound"
    return model if scale == "min-max" else f"{model}, {scale}"


def tasks(splits: int | None = None) -> list[Task]:
    """Every model on splits with seeds 0, 1, ...: 100 of them, or 20."""
    return [
        Task(NAME, TRIAL, model, seed)
        for models, number in ((MANY, SPLITS), (FEW, FEW_SPLITS))
        for seed in range(min(splits or number, number))
        for model in models
    ]


def parameters(task: Task) -> dict[str, Any]:
    return describe(MODELS[task.model](task.split))


def run(task: Task) -> Line:
    train, test = load_split(task.trial, task.split, TEST_SIZE)
    return measure(task, MODELS[task.model](task.split), train, test)


# The page.


def scores_of(lines: Sequence[Line]) -> tuple[Scores, list[int]]:
    """The lines of the models with many splits, and of all, with the splits that all have."""
    scores = Scores(lines, MODELS)
    return scores, scores.splits(*MODELS)


def render(lines: list[Line]) -> str:
    scores, of_all = scores_of(lines)
    common = scores.splits(*MANY)
    random = scores.mean(REFERENCE, "random", common)
    return page.written(
        f"{NAME}: what the place of AUUC-max depends on",
        lines,
        f"{len(common)} splits (seeds from 0), {len(of_all)} of them for the first "
        f"table; {page.share(TEST_SIZE)} test rows, stratified by treatment alone, 22 features; "
        "the splits share one data set, so intervals and p values over splits are descriptive. TM, "
        "CVT, DDR, SDR: logistic regression, l2 of the paper's grid by 5-fold CV on AUUC. ± is two "
        f"standard deviations over splits, as in the paper. A random ranking has "
        f"{page.auuc(random)} on average.\n",
        "## Features and optimiser, the same for all models\n",
        _optimiser_table(scores, of_all),
        f"Test AUUC minus that of TM solved exactly on min-max features, in units of .00001, with "
        f"the standard error over {len(of_all)} splits. Adam: batches of 1,000 rows, at most 200 "
        "epochs, early stopping by a fifth of the rows; rates are the paper's ("
        + "; ".join(f"{model} {low:g}, {high:g}" for model, (low, high) in RATES.items())
        + "), searched in the column Adam; how often they are halved (every 20 epochs) and the "
        "patience (10) are not in it. AUUC-max: s_poly, Lambda in .5, .8, 1 by the bound, which "
        f"constrains nothing on min-max features, uniform weights; {CLASS_MEANS}: the direction at "
        "which it starts, before anything is minimised.\n",
        _explanation(scores, of_all),
        "## Column-l2 features, mu = .1, the paper's grid, uniform weights\n",
        _table(scores, [*BASELINES, *AS_PAPER]),
        "## Our defaults, by CV and by the bound\n",
        _table(scores, ["TM", *OURS]),
        "## What the order depends on\n",
        "The setting above, s_poly by CV, with one or more things changed:\n",
        _table(scores, ["AUUC-max s_poly, cv", *CHANGES]),
    )


def summary(lines: list[Line]) -> str:
    scores, of_all = scores_of(lines)
    if not of_all:
        return ""
    return (
        "### What explains the paper's order\n\n"
        f"{_explanation(scores, of_all).rstrip()} More: {page.link(NAME)}.\n"
    )


def _optimiser_table(scores: Scores, splits: list[int]) -> str:
    """Minus exact TM on min-max features, on the splits of all models; with standard errors."""

    def cell(name: str) -> str:
        if name == REFERENCE or name not in MODELS:
            return "0" if name == REFERENCE else ""
        return page.with_error(scores.difference(name, REFERENCE, splits=splits))

    header = [
        "model", "min-max: exact", "Adam", "at the lower rate", "at the higher rate",
        "column-l2: exact", "Adam",
    ]  # fmt: skip
    rows = []
    for model in (*RATES, CLASS_MEANS):
        rates = [f"Adam at {rate:g}" for rate in RATES.get(model, (0, 0))]
        on_min_max = [name_of(model, "min-max", how) for how in ("", "Adam", *rates)]
        on_columns = [name_of(model, "column-l2", how) for how in ("", "Adam")]
        rows.append([model, *map(cell, on_min_max + on_columns)])
    return page.table(header, rows)


def _explanation(scores: Scores, splits: list[int]) -> str:
    """What puts AUUC-max above TM or below it, in the same units."""
    own, common = name_of(OWN, "min-max"), scores.splits(*MANY)
    rivals = [name_of("TM", "min-max", how) for how in
              ("Adam", *(f"Adam at {rate:g}" for rate in RATES["TM"]))]  # fmt: skip
    searched, low, high = (
        scores.difference(f"{own}, Adam", rival, splits=splits) for rival in rivals
    )
    exact, means, small = (
        scores.difference(model, REFERENCE, splits=common)
        for model in (own, CLASS_MEANS, 'scale="min-max", grid="relative"')
    )
    printed = 1e5 * (PAPER["AUUC-max s_poly, bound"].mean - PAPER["TM"].mean)
    return (
        f"In units of .00001, with standard errors over splits: solved exactly, AUUC-max minus TM "
        f"is {page.with_error(exact)} over {len(common)} splits; the paper has {printed:+.0f}. By "
        f"the paper's optimiser the difference is {page.with_error(high)} if TM has its rate of "
        f"{RATES['TM'][1]:g}, {page.with_error(low)} if it has {RATES['TM'][0]:g}, and "
        f"{page.with_error(searched)} if rates are searched: TM's learning rate alone moves it by "
        f"{abs(high.mean - low.mean) * 1e5:.0f}. {CLASS_MEANS.capitalize()}, for which nothing is "
        f"minimised, minus exact TM is {page.with_error(means)}; AUUC-max of a small norm (Lambda "
        f"by CV in parts of the free norm) minus exact TM is {page.with_error(small)}. How the "
        f"direction of the class means does on other trials is on the page table-1, in the last "
        f"table.\n"
    )


def _table(scores: Scores, models: list[str]) -> str:
    common = scores.splits(*MANY)
    header = [
        "model", "AUUC (joint)", "separate", "minus TM (95% interval)", "splits above TM",
        "sign test p", "seconds a fit",
    ]  # fmt: skip
    rows = []
    for model in models:
        joint, separate = (
            f"{page.auuc(scores.mean(model, name, common))} ± "
            f"{page.auuc(scores.spread(model, name, common))}"
            for name in ("auuc", "auuc_separate")
        )
        against = [""] * 3
        if model != REFERENCE:
            found = scores.difference(model, REFERENCE, splits=common)
            against = [
                page.interval(found), page.share(found.share_above), page.p_value(found.p_value)
            ]  # fmt: skip
        seconds = f"{scores.mean(model, 'fit_seconds', common):.2f}"
        rows.append([model, joint, separate, *against, seconds])
    return page.table(header, rows)
