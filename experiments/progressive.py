"""The progressive certificate: how often it fails where the truth is known, and how narrow it is.

A line of a simulation holds a chunk of trials of one population; a line of a real trial one random
order of its rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from auucmax import TwoModels, auuc_inference
from auucmax.certificates import certify, progressive_certificate
from experiments import page
from experiments.harness import Line, Task, task_of
from experiments.models import timed_line
from experiments.searched import MeanLogistic
from experiments.trials import load_trial

NAME = "progressive"
DELTA = 0.05
N_CHUNKS = 5
HOLD_OUT = 0.3
SIMULATION, MODEL = "simulation", "TM"
SEEDS = {"Hillstrom women": 20, "neighbours": 5}
CHUNK = 50  # trials of a line
#: Rows -> lines of a population.
SIZES = {600: 20, 2_000: 10, 20_000: 4}
Floats = NDArray[np.float64]


class Population(NamedTuple):
    """27 kinds of people, x in {-1, 0, 1}^3, equally many; effect and base rate depend on x.

    P(y = 1) = .2 + .05 x_2 for controls, and ``effect`` (1 + x_1) / 2 more for the treated.
    """

    treated: float
    effect: float

    @property
    def name(self) -> str:
        kind = f"effect up to {self.effect:g}" if self.effect else "no effect"
        return f"{self.treated:.0%} treated, {kind}"

    def draw(self, n_rows: int, rng: np.random.Generator) -> tuple[Floats, Floats, Any]:
        """x, y, and who is treated: a fixed number, so that chunks can have equal arms."""
        x = rng.integers(-1, 2, size=(n_rows, 3)).astype(np.float64)
        treated = np.arange(n_rows) % 20 < 20 * self.treated
        chance = 0.2 + 0.05 * x[:, 1] + treated * self.effect * (1 + x[:, 0]) / 2
        return x, (rng.random(n_rows) < chance).astype(np.float64), treated

    def truth(self, w: Floats) -> Floats:
        """AUUC and gain of the score x.w, over the 27 kinds."""
        x = np.array(list(product((-1.0, 0.0, 1.0), repeat=3)))
        score, uplift = x @ w, self.effect * (1 + x[:, 0]) / 2
        below = [np.mean(score < s) + np.mean(score == s) / 2 for s in score]
        return np.array([np.mean(uplift * below), np.mean(uplift * (np.array(below) - 0.5))])


POPULATIONS = {p.name: p for p in (Population(t, e) for t, e in product((0.1, 0.5), (0.0, 0.2)))}


def tasks(splits: int | None = None) -> list[Task]:
    simulated = [
        Task(NAME, f"{name}, {rows:,} rows", SIMULATION, number)
        for rows, lines in SIZES.items()
        for name in POPULATIONS
        for number in range(min(splits or lines, lines))
    ]
    real = [
        Task(NAME, trial, MODEL, seed)
        for trial, number in SEEDS.items()
        for seed in range(min(splits or number, number))
    ]
    return simulated + real


def parameters(task: Task) -> dict[str, Any]:
    common = {"delta": DELTA, "chunks": N_CHUNKS}
    if task.model == SIMULATION:
        population, rows = _of_name(task.trial)
        return common | population._asdict() | {"rows": rows, "trials": CHUNK}
    return common | {"hold_out": HOLD_OUT, "model": MODEL, "estimates": "of centred outcomes"}


def run(task: Task) -> Line:
    numbers = run_simulation if task.model == SIMULATION else run_trial
    return timed_line(task, parameters(task), lambda: numbers(task))


def _of_name(trial: str) -> tuple[Population, int]:
    name, rows = trial.removesuffix(" rows").rsplit(", ", 1)
    return POPULATIONS[name], int(rows.replace(",", ""))


def run_simulation(task: Task, trials: int = CHUNK) -> Line:
    """Misses and gaps to the truth; models learn a linear score from all chunks before theirs."""
    population, n_rows = _of_name(task.trial)
    place = list(POPULATIONS).index(population.name)
    misses, gaps = np.zeros(2), np.zeros(2)
    for number in range(trials):
        rng = np.random.default_rng([task.split, place, n_rows, number])
        found, truth = simulated_trial(population, n_rows, rng)
        misses += found > truth
        gaps += truth - found
    return {"misses": misses.astype(int).tolist(), "gaps": gaps.tolist()}


def simulated_trial(
    population: Population, n_rows: int, rng: np.random.Generator, n_dealings: int = 5
) -> tuple[Floats, Floats]:
    """The bounds of AUUC and gain, and the means over the four models of what they are of."""
    x, y, treated = population.draw(n_rows, rng)
    # Arms of equal size in all chunks: then every model judges as many blocks.
    chunk = np.empty(n_rows, dtype=int)
    for arm in (treated, ~treated):
        own = np.flatnonzero(arm)
        chunk[rng.permutation(own)] = np.arange(len(own)) % N_CHUNKS
    chunks: list[Any] = [(y[chunk == 0], None, treated[chunk == 0])]
    truths = []
    for k in range(1, N_CHUNKS):
        past, now = chunk < k, chunk == k
        share = population.treated
        signed = np.where(treated[past], y[past] / share, -y[past] / (1 - share))
        w = x[past].T @ signed
        truths.append(population.truth(w))
        chunks.append((y[now], x[now] @ w, treated[now]))
    seed = int(rng.integers(2**31))
    found = progressive_certificate(chunks, delta=DELTA, n_dealings=n_dealings, random_state=seed)
    return np.array([found.lower_bound, found.gain_lower_bound]), np.mean(truths, axis=0)


def run_trial(task: Task) -> Line:
    """One random order: four progressive models, and one model with 30% of the rows held out."""
    trial = load_trial(task.trial)
    X, y, treated = trial.X.to_numpy(), trial.y.astype(np.float64), trial.treated
    order = np.random.default_rng(task.split).permutation(trial.n_rows)
    parts = np.array_split(order, N_CHUNKS)
    chunks: list[Any] = [(y[parts[0]], None, treated[parts[0]])]
    estimates = []
    for k in range(1, N_CHUNKS):
        past, now = np.concatenate(parts[:k]), parts[k]
        chunks.append((y[now], _scores(X, y, treated, past, now), treated[now]))
        # Centred, as those of certify are.
        result = auuc_inference(y[now] - y[parts[0]].mean(), chunks[-1][1], treatment=treated[now])
        estimates.append((result.estimate, result.gain))
    found = progressive_certificate(chunks, delta=DELTA)
    estimate = np.mean(estimates, axis=0)
    kept = order[: int(HOLD_OUT * trial.n_rows)]
    score = _scores(X, y, treated, order[len(kept) :], kept)
    given: Any = {"y": y[kept], "treatment": treated[kept], "delta": DELTA}
    held_out, normal = certify(score, **given), certify(score, method="asymptotic", **given)
    return {
        "rows": trial.n_rows,
        "progressive": {
            "auuc": [estimate[0] - found.lower_bound, found.lower_bound],
            "gain": [estimate[1] - found.gain_lower_bound, found.gain_lower_bound],
        },
        "hold-out": _widths(held_out),
        "hold-out, normal": _widths(normal),
    }


def _scores(X: Floats, y: Floats, treated: Any, past: Any, now: Any) -> Floats:
    model = TwoModels(MeanLogistic()).fit(X[past], y[past], treatment=treated[past])
    return model.predict(X[now])


def _widths(certificate: Any) -> dict[str, list[float]]:
    return {
        "auuc": [certificate.gap, certificate.lower_bound],
        "gain": [certificate.gain_gap, certificate.gain_lower_bound],
    }


def render(lines: list[Line]) -> str:
    places = {task: place for place, task in enumerate(tasks())}  # lines may come in any order
    lines = sorted(lines, key=lambda line: places[task_of(line)])
    simulated = [line for line in lines if line["model"] == SIMULATION]
    parts = []
    if simulated:
        parts += [
            f"Where the truth is known: {N_CHUNKS} chunks, a linear score trained on all chunks "
            f"before, delta = {DELTA:g}. Share of trials whose bound is above the mean over the "
            f"four models of what it bounds, and the mean distance between the two.\n",
            _coverage(simulated),
        ]
    for trial in SEEDS:
        own = [line for line in lines if line["trial"] == trial]
        if own:
            parts += [
                f"## {trial}, {MODEL}: {len(own)} orders of {own[0]['rows']:,} rows\n",
                _table(own),
            ]
    title = f"{NAME}: models that are judged on rows that later ones are trained on"
    return page.written(title, lines, *parts, _ABOUT, work="fitting and certifying")


_ABOUT = (
    f"Two logistic models. Progressive: {N_CHUNKS} chunks; certified is the mean of the models "
    f"that were trained on 20% to 80% of the rows, and the gap is to the mean of their estimates "
    f"(of outcomes minus their mean, as `certify` prints them). Hold-out: one model that was "
    f"trained on {1 - HOLD_OUT:.0%}, certified on the other {HOLD_OUT:.0%}; normal is no "
    f"guarantee. Means over orders, which share their rows. The social pressure trial (neighbours) "
    f"was randomised by household, and the file has no household number, so its certificates are "
    f"nominal.\n"
)


def summary(lines: list[Line]) -> str:
    simulated = [line for line in lines if line["model"] == SIMULATION]
    if not simulated:
        return ""
    misses = [_means([x for x in simulated if x["trial"] == trial], "misses")
              for trial in sorted({line["trial"] for line in simulated})]  # fmt: skip
    return (
        f"Certificates of models that learn from every row ({page.link(NAME)}): at "
        f"most {np.max(misses):.1%} of trials missed in {len(misses)} known populations, where "
        f"{page.share(DELTA)} may.\n"
    )


def _means(lines: Sequence[Line], name: str) -> Floats:
    """Of AUUC and gain, over the trials of these lines."""
    n = sum(line["parameters"]["trials"] for line in lines)
    return np.asarray(np.sum([line[name] for line in lines], axis=0) / n)


def _coverage(lines: Sequence[Line]) -> str:
    rows = []
    for trial in dict.fromkeys(line["trial"] for line in lines):
        own = [line for line in lines if line["trial"] == trial]
        misses, gaps = _means(own, "misses"), _means(own, "gaps")
        n = sum(line["parameters"]["trials"] for line in own)
        rows.append(
            [trial, f"{n:,}", f"{misses[1]:.3f}", f"{gaps[1]:.4f}", f"{misses[0]:.3f}",
             f"{gaps[0]:.4f}"]
        )  # fmt: skip
    header = ["population", "trials", "gain: misses", "gain: gap", "AUUC: misses", "AUUC: gap"]
    return page.table(header, rows)


def _table(lines: Sequence[Line]) -> str:
    rows = []
    for name in ("progressive", "hold-out", "hold-out, normal"):
        gap, gain = np.mean([line[name]["gain"] for line in lines], axis=0)
        wide, auuc = np.mean([line[name]["auuc"] for line in lines], axis=0)
        positive = sum(line[name]["gain"][1] > 0 for line in lines)
        rows.append(
            [name, f"{gap:.5f}", page.signed(gain), f"{positive} of {len(lines)}", f"{wide:.5f}",
             page.auuc(auuc)]
        )  # fmt: skip
    header = ["certificate", "gain: gap", "certified gain", "gain > 0", "AUUC: gap",
              "certified AUUC"]  # fmt: skip
    return page.table(header, rows)
