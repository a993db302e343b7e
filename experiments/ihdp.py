"""Models of a continuous outcome on IHDP, where the effect of every row is known.

Ten published replications: the covariates of 747 children, outcomes simulated anew in each. The
treated are not a random part of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata, spearmanr, t

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
from experiments.models import describe, rounded, start_line

NAME = "ihdp"
REPLICATIONS = tuple(f"replication {k}" for k in range(1, 11))
SPLITS = 5
TEST_SIZE = 0.3
CLOSE = 0.1  # of the best gain over random: nearer than this, two models rank about as well
SAME = 0.01  # PEHE nearer than this is the same
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
NETWORKS = ("TARNet", "CFRNet", "GANITE")


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
    start, start_cpu = time.perf_counter(), time.process_time()
    model.fit(train.X, train.y, treatment=train.treatment)
    seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - start_cpu
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
        "fit_seconds": seconds,
        "cpu_seconds": cpu_seconds,
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


def render(lines: list[Line]) -> str:
    """The page of the appendix."""
    first = lines[0]
    parts = [
        "# ihdp: effects that are known\n",
        page.made_by(NAME, lines),
        f"Ten published replications of IHDP (747 children, simulated outcomes, "
        f"{first['treated']:.0%} treated), {TEST_SIZE:.0%} of the rows for testing. PEHE is the "
        f"root mean squared error of the effect. The gain is AUUC against the true effects minus "
        f"half the mean effect, as a share of what ranking by the effects themselves gains: 0% is "
        f"a random ranking. Numbers are means over the splits of a replication, then mean and "
        f"standard error over replications; the middle replication is given too, since the spread "
        f"of the effects differs much between them. A constant can at best have the PEHE of "
        f"the first line, and gains nothing. Default settings but for the networks (batches of "
        f"{NETWORK['batch_size']}, l2 {NETWORK['l2']:g}, at most {NETWORK['max_epochs']} epochs); "
        f"nothing was searched.\n",
        _table(lines),
        _text(lines),
        "The treated are not a random part of the children: a group of them was removed to make "
        "the arms differ. AUUC from outcomes compares arms as if they did not, so it is off by "
        "what the arms differ in; so are the models that rest on a known share of treated (MOM, "
        "MML). This data shows whether effects are estimated, not how a randomised trial goes.\n",
    ]
    return "\n".join(part.rstrip("\n") + "\n" for part in parts)


def _gain(line: Line) -> float:
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


def _present(lines: Sequence[Line]) -> list[str]:
    return [model for model in MODELS if any(line["model"] == model for line in lines)]


def _complete(lines: Sequence[Line]) -> list[str]:
    """Models on as many splits as any: the others are still being run, and not compared."""
    number = {m: sum(line["model"] == m for line in lines) for m in _present(lines)}
    return [m for m in number if number[m] == max(number.values())]


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
    for model in _present(lines):

        def column(value: Callable[[Line], float], model: str = model) -> NDArray[np.float64]:
            return by_replication(lines, model, value)

        test = column(lambda line: line["pehe"])
        rows.append(
            [
                model,
                _spread(column(lambda line: line["train_pehe"]), ".2f"),
                _spread(test, ".2f"),
                f"{np.median(test):.2f}",
                _spread(column(lambda line: abs(line["mean_error"])), ".2f"),
                _spread(column(_gain), ".0%"),
                f"{column(lambda line: line['true_auuc']).mean():.2f}",
                f"{column(lambda line: line['auuc']).mean():.2f}",
            ]
        )
    return page.table(header, rows)


def _text(lines: Sequence[Line]) -> str:
    """Which model ranks best, whether PEHE and ranking agree, and how far outcomes mislead."""
    models = _complete(lines)
    gain = {m: by_replication(lines, m, _gain) for m in models}
    error = {m: by_replication(lines, m, lambda line: line["pehe"]) for m in models}
    ranks = sorted(models, key=lambda m: -gain[m].mean())
    accurate = _smallest(error, np.median)
    said = [f"{ranks[0]} ranks best ({gain[ranks[0]].mean():.0%} of the best gain)"]
    if ranks[0] in accurate:
        others = [m for m in accurate if m != ranks[0]]
        shared = f", with {_listed(others)}," if others else ""
        said[0] += f" and has{shared} the smallest PEHE in the middle replication."
    else:
        said[0] += (
            f"; the smallest PEHE in the middle replication is that of {_listed(accurate)} "
            f"({gain[accurate[0]].mean():.0%} of the best gain): the most accurate effects are not "
            f"the best ranking."
        )
    gaps = {m: gain[ranks[0]] - gain[m] for m in ranks[1:]}
    alike = [m for m, gap in gaps.items() if gap.mean() <= _half_width(gap)]
    if alike:
        said.append(
            f"Over the replications its gain does not differ clearly from that of {_listed(alike)} "
            f"(paired 95% interval)."
        )
    elif len(ranks) > 1:
        said.append("Its gain is above that of every other model (paired 95% intervals).")
    by_mean = _smallest(error, np.mean)
    if not set(by_mean) & set(accurate):
        said.append(
            f"By the mean over replications, which hangs on those with the widest effects, the "
            f"smallest PEHE is that of {_listed(by_mean)}."
        )
    said += [_networks(gain, error), _outcomes(lines)]
    return " ".join(part for part in said if part) + "\n"


def _smallest(error: dict[str, NDArray[np.float64]], of: Callable[[Any], Any]) -> list[str]:
    """The models whose mean, or median, is the smallest, or the same but for SAME."""
    values = {m: float(of(own)) for m, own in error.items()}
    return [m for m in values if values[m] < min(values.values()) + SAME]


def _half_width(difference: NDArray[np.float64], level: float = 0.95) -> float:
    n = len(difference)
    if n < 2:
        return float("inf")
    return float(t.ppf(0.5 + level / 2, n - 1) * np.std(difference, ddof=1) / np.sqrt(n))


def _networks(gain: dict[str, Any], error: dict[str, Any]) -> str:
    """Whether networks, which can bend, do better than two lines."""
    if "TM" not in gain or not set(NETWORKS) & set(gain):
        return ""
    own = [m for m in NETWORKS if m in gain]
    middle = {m: float(np.median(error[m])) for m in (*own, "TM")}
    best = min(own, key=lambda m: middle[m])
    apart = gain[best].mean() - gain["TM"].mean()
    smaller = middle[best] < middle["TM"]
    ranking = (
        "ranks about as well" if abs(apart) < CLOSE
        else "ranks better" if apart > 0 else "ranks worse"
    )  # fmt: skip
    return (
        f"{best}, the most accurate network in the middle replication, has a "
        f"{'smaller' if smaller else 'larger'} PEHE "
        f"than the two straight lines of TM ({middle[best]:.2f} against {middle['TM']:.2f}) and "
        f"{ranking} ({gain[best].mean():.0%} against {gain['TM'].mean():.0%})."
    )


def _outcomes(lines: Sequence[Line]) -> str:
    """How AUUC from outcomes compares with the truth, model by model on the same rows."""
    off = np.array([line["auuc"] - line["true_auuc"] for line in lines])
    agree = []
    for trial in REPLICATIONS:
        for split in sorted({line["split"] for line in lines}):
            own = [x for x in lines if (x["trial"], x["split"]) == (trial, split)]
            if len({x["auuc"] for x in own}) > 2 and len({x["true_auuc"] for x in own}) > 2:
                agree.append(spearmanr([x["auuc"] for x in own], [x["true_auuc"] for x in own])[0])
    text = (
        f"AUUC from the outcomes of the test rows is off from that of the true effects by "
        f"{np.mean(off):+.2f} on average ({np.mean(np.abs(off)):.2f} without sign)"
    )
    if not agree:
        return text + "."
    return (
        f"{text}; the order in which it puts the models of a split has a rank correlation of "
        f"{np.mean(agree):.2f} with the true order, on average."
    )


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
