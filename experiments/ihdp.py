"""Models of a continuous outcome on IHDP, where the effect of every row is known.

Ten published replications: the covariates of 747 children, outcomes simulated anew in each. The
treated are not a random part of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata, spearmanr

from auucmax import Trial, TwoModels, auuc_score
from auucmax.baselines import (
    GANITE,
    CFRNet,
    DependentDataRepresentation,
    MinimaxLinear,
    SharedDataRepresentation,
    TARNet,
)
from auucmax.data.fetch import fetch_ihdp
from auucmax.estimators import TransformedOutcome
from auucmax.metrics.functions import pehe
from experiments import page
from experiments.harness import Line, Task
from experiments.models import describe, rounded, start_line, timed
from experiments.summaries import paired

NAME = "ihdp"
REPLICATIONS = tuple(f"replication {k}" for k in range(1, 11))
SPLITS = 5
TEST_SIZE = 0.3
#: 418 of the 522 training rows learn, so 600 epochs are 3,000 steps.
NETWORK: dict[str, Any] = {"batch_size": 100, "max_epochs": 600, "patience": 30, "l2": 1e-4}
MODELS: dict[str, Callable[[int], Any]] = {
    "TM": lambda seed: TwoModels(),
    "MOM": lambda seed: TransformedOutcome(),
    "DDR": lambda seed: DependentDataRepresentation(),
    "SDR": lambda seed: SharedDataRepresentation(),
    "MML": lambda seed: MinimaxLinear(random_state=seed),
    "TARNet": lambda seed: TARNet(**NETWORK, random_state=seed),
    "CFRNet": lambda seed: CFRNet(**NETWORK, random_state=seed),
    "GANITE": lambda seed: GANITE(**NETWORK, generator_epochs=100, random_state=seed),
}


def tasks(splits: int | None = None) -> list[Task]:
    return [
        Task(NAME, trial, model, seed)
        for model in MODELS
        for trial in REPLICATIONS
        for seed in range(min(splits or SPLITS, SPLITS))
    ]


def parameters(task: Task) -> dict[str, Any]:
    return describe(MODELS[task.model](task.split))


@lru_cache(maxsize=2)
def load_split(trial: str, seed: int) -> tuple[Trial, Trial]:
    whole = fetch_ihdp(int(trial.split()[1]), download=False)
    return whole.split(test_size=TEST_SIZE, by="treatment", random_state=seed)


def probe(trial: str) -> None:
    """Raises DataNotFoundError if the files are not there."""
    load_split(trial, 0)


def run(task: Task) -> Line:
    train, test = load_split(task.trial, task.split)
    model = MODELS[task.model](task.split)
    _, seconds = timed(lambda: model.fit(train.X, train.y, treatment=train.treatment))
    score, effect = model.predict(test.X), _effect(test)
    line = start_line(task, parameters(task)) | {
        "pehe": pehe(effect, score),
        "train_pehe": pehe(_effect(train), model.predict(train.X)),
        "mean_effect": float(np.mean(effect)),
        "mean_error": float(np.mean(score) - np.mean(effect)),
        "effect_spread": float(np.std(effect)),
        "true_auuc": true_auuc(effect, score),
        "best_auuc": true_auuc(effect, effect),
        "auuc": auuc_score(test.y, score, treatment=test.treatment),
        "treated": float(np.mean(test.treatment)),
        **seconds,
    }
    return rounded(line)


def _effect(trial: Trial) -> NDArray[np.float64]:
    assert trial.effect is not None  # fetch_ihdp always has it
    return trial.effect


def true_auuc(effect: Any, score: Any) -> float:
    """Mean of effect_i u_i, u_i = 1 - (rank_i - 1/2) / n, rank 1 for the highest score.

    Half the mean effect for a random or constant score, largest for the effect itself.

    >>> true_auuc([0.0, 1.0], [0.0, 0.0]), true_auuc([0.0, 1.0], [0.0, 1.0])
    (0.25, 0.375)
    """
    rank = rankdata(-np.asarray(score, dtype=np.float64))
    return float(np.mean(np.asarray(effect) * (1 - (rank - 0.5) / len(rank))))


# The page.

_ABOUT = """\
Ten published replications of IHDP (747 children, simulated outcomes, {treated:.0%} treated),
{test:.0%} of the rows for testing. PEHE is the root mean squared error of the effect. The gain is
AUUC with the true effects minus half the mean effect, as a share of what ranking by the effects
themselves gains: 0% is a random ranking. Numbers are means over the splits of a replication, then
mean and standard error over replications; the middle replication is given too, since the spread of
the effects differs much between them. A constant can at best have the PEHE of the first line, and
gains nothing. Default settings except for the networks (batches of {batch}, l2 {l2:g}, at most
{epochs} epochs); nothing was searched.
"""
_NOT_RANDOMISED = """\
The treated are not a random part of the children: a group of them was removed to make the arms
different. AUUC from outcomes compares arms as if they were randomised, so it is biased by what the
arms differ in; so are the models that rest on a known share of treated (MOM, MML). This data shows
whether effects are estimated, not how a randomised trial goes.
"""


def render(lines: list[Line]) -> str:
    about = _ABOUT.format(
        treated=lines[0]["treated"], test=TEST_SIZE, batch=NETWORK["batch_size"],
        l2=NETWORK["l2"], epochs=NETWORK["max_epochs"],
    )  # fmt: skip
    parts = [about, _table(lines), _text(lines), _NOT_RANDOMISED]
    return page.written(f"{NAME}: effects that are known", lines, *parts)


def gain_of(line: Line) -> float:
    """Share of the best gain over random."""
    random = line["mean_effect"] / 2
    return float((line["true_auuc"] - random) / (line["best_auuc"] - random))


def by_replication(
    lines: Sequence[Line], model: str | None, value: Callable[[Line], float]
) -> NDArray[np.float64]:
    """Means over the splits of each replication, in their order; of all models if None."""
    own = [line for line in lines if model in (line["model"], None)]
    names = [name for name in REPLICATIONS if any(line["trial"] == name for line in own)]
    return np.array([np.mean([value(x) for x in own if x["trial"] == name]) for name in names])


def _spread(values: NDArray[np.float64], form: str) -> str:
    """Mean, and its standard error over replications where there is more than one."""
    mean = format(float(np.mean(values)), form)
    if len(values) < 2:
        return mean
    return f"{mean} ± {format(float(np.std(values, ddof=1) / np.sqrt(len(values))), form)}"


def _table(lines: Sequence[Line]) -> str:
    header = [
        "model", "PEHE, training rows", "PEHE, test rows", "middle replication",
        "error of the mean effect", "gain, of the best", "AUUC, true effects",
        "AUUC, from outcomes",
    ]  # fmt: skip
    constant = by_replication(lines, None, lambda line: line["effect_spread"])
    random = by_replication(lines, None, lambda line: line["mean_effect"] / 2)
    rows = [
        ["(best constant)", "", _spread(constant, ".2f"), f"{np.median(constant):.2f}", "", "0%",
         f"{random.mean():.2f}", ""]
    ]  # fmt: skip
    for model in MODELS:
        own = [line for line in lines if line["model"] == model]
        if not own:
            continue
        train, test, true, auuc = (
            by_replication(own, model, itemgetter(name))
            for name in ("train_pehe", "pehe", "true_auuc", "auuc")
        )
        off = by_replication(own, model, lambda line: abs(line["mean_error"]))
        rows.append(
            [model, _spread(train, ".2f"), _spread(test, ".2f"), f"{np.median(test):.2f}",
             _spread(off, ".2f"), _spread(by_replication(own, model, gain_of), ".0%"),
             f"{true.mean():.2f}", f"{auuc.mean():.2f}"]
        )  # fmt: skip
    return page.table(header, rows)


def _text(lines: Sequence[Line]) -> str:
    """Which model ranks best, which has the smallest error, and how far outcomes mislead."""
    number = {m: sum(line["model"] == m for line in lines) for m in MODELS}
    models = [m for m in number if number[m] == max(number.values())]  # others are unfinished
    gain = {m: by_replication(lines, m, gain_of) for m in models}
    error = {m: float(np.median(by_replication(lines, m, itemgetter("pehe")))) for m in models}
    best, accurate = max(models, key=lambda m: gain[m].mean()), min(error, key=error.__getitem__)
    no_difference = [m for m in models if m != best and not paired(gain[best], gain[m]).low > 0]
    off = np.array([line["auuc"] - line["true_auuc"] for line in lines])
    return (
        f"Best ranking: {best} ({gain[best].mean():.0%} of the best gain); no clear difference "
        f"over the replications (paired 95% interval) from: {page.listed(no_difference)}. Smallest "
        f"PEHE in the middle replication: {accurate} ({gain[accurate].mean():.0%} of the best "
        f"gain). AUUC from the outcomes of the test rows differs from that of the true effects by "
        f"{np.mean(off):+.2f} on average ({np.mean(np.abs(off)):.2f} without sign); the order in "
        f"which it puts the models of a split has a mean rank correlation of {_agreement(lines)} "
        f"with the true order.\n"
    )


def _agreement(lines: Sequence[Line]) -> str:
    """Mean over splits of the rank correlation of AUUC from outcomes and from true effects."""
    found = []
    for place in {(line["trial"], line["split"]) for line in lines}:
        own = [x for x in lines if (x["trial"], x["split"]) == place]
        columns = [[x[name] for x in own] for name in ("auuc", "true_auuc")]
        if min(len(set(column)) for column in columns) > 2:
            found.append(float(spearmanr(*columns)[0]))
    return f"{np.mean(sorted(found)):.2f}" if found else "-"
