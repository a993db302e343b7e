"""How often bounds from held-out rows fail where the truth is known, and the paper's on noise.

A line holds a chunk of trials of one population: how many there were, how often a bound was above
the truth, and the sum of its gaps. Lines of the counterexample hold one repetition each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from auucmax import auuc_score
from auucmax.certificates import betting, betting_bound, blocks, fixed_bets, paper_bound
from experiments import page
from experiments.harness import Line, Task
from experiments.known_populations import POPULATIONS, Truth
from experiments.models import timed_line
from experiments.rival_bounds.held_out import HELD_OUT_BOUNDS
from experiments.rival_bounds.training import margin_bound

NAME = "coverage"
DELTA = 0.05
N_ROWS, N_TRAINING_ROWS = 1000, 1000
TRIALS, CHUNK = 2000, 50
TARGETS = ("auuc", "gain")
DEFAULT = "betting"
SIMULATION, COUNTEREXAMPLE = "held-out bounds", "paper"
NOISE = "noise, more features than rows"
REPETITIONS = 20
NOISE_ROWS, NOISE_FEATURES, NOISE_NORM = 1600, 2000, 0.01
MARGINS = tuple(10.0**power for power in range(-5, 0))


class Competitor(NamedTuple):
    """A bound; some assign rows to blocks at random."""

    function: Callable[..., Any]
    has_dealing: bool = False


COMPETITORS = {
    DEFAULT: Competitor(betting_bound, has_dealing=True),
    "betting, one dealing": Competitor(partial(betting_bound, n_dealings=1), has_dealing=True),
    "betting, one dealing, fixed bets": Competitor(
        partial(betting_bound, n_dealings=1, bets="fixed"), has_dealing=True
    ),
} | {
    entry.name: Competitor(entry.function, has_dealing=entry.name == "block-bernstein")
    for entry in HELD_OUT_BOUNDS
}


def tasks(splits: int | None = None) -> list[Task]:
    """Chunks in turn over the populations, then the counterexample."""
    chunks, repetitions = TRIALS // CHUNK, REPETITIONS
    if splits is not None:
        chunks, repetitions = min(splits, chunks), min(splits, repetitions)
    simulated = [Task(NAME, name, SIMULATION, k) for k in range(chunks) for name in POPULATIONS]
    return simulated + [Task(NAME, NOISE, COUNTEREXAMPLE, k) for k in range(repetitions)]


def parameters(task: Task) -> dict[str, Any]:
    if task.model == COUNTEREXAMPLE:
        return {
            "rows": NOISE_ROWS,
            "features": NOISE_FEATURES,
            "norm": NOISE_NORM,
            "margins": MARGINS,
            "delta": DELTA,
        }
    return {
        "rows": N_ROWS,
        "training_rows": N_TRAINING_ROWS,
        "trials": CHUNK,
        "delta": DELTA,
        "population": POPULATIONS[task.trial]._asdict(),
        "bounds": list(COMPETITORS),
        "betting": betting_constants(),
    }


def betting_constants() -> dict[str, float]:
    """What the width of the betting bounds depends on: lines made with others are stale."""
    return {
        "aim": betting.AIM,
        "largest_loss": fixed_bets.LARGEST_LOSS,
        "grid_step": betting.GRID_STEP,
        "pilot_blocks": blocks.PILOT_BLOCKS,
        "superblock": blocks.SUPERBLOCK,
    }


def run(task: Task) -> Line:
    is_noise = task.model == COUNTEREXAMPLE
    return timed_line(
        task, parameters(task), lambda: run_noise(task.split) if is_noise else run_chunk(task)
    )


def run_chunk(task: Task, trials: int = CHUNK, n_rows: int = N_ROWS) -> Line:
    """A fresh score if the population has a fitted one, and trials of it."""
    number = list(POPULATIONS).index(task.trial)
    population, rng = POPULATIONS[task.trial], np.random.default_rng([task.split, number])
    weights = population.weights(N_TRAINING_ROWS, rng)
    truth = population.truth(weights)
    tally = {name: {t: [0, 0, 0.0] for t in TARGETS} for name in COMPETITORS}
    for k in range(trials):
        rows = population.draw(weights, n_rows, rng)
        add_trial(tally, rows, truth, task.split * trials + k)
    return {
        "truth": {target: truth.value(target) for target in TARGETS},
        "rates": truth.rates.tolist(),
        "bounds": tally,
    }


def add_trial(
    tally: dict[str, dict[str, list[Any]]], rows: tuple[Any, Any, Any], truth: Truth, number: int
) -> None:
    """Count trials, misses and gaps of every bound; dealings are seeded by the trial."""
    y, score, treated = rows
    for name, competitor in COMPETITORS.items():
        seed = {"random_state": number} if competitor.has_dealing else {}
        for target in TARGETS:
            bound = competitor.function(
                y, score, treatment=treated, target=target, delta=DELTA, **seed
            )
            value = truth.value(target)
            if _is_conditional(name):
                value = truth.conditional(target, y, treated)
            counts = tally[name][target]
            counts[0] += 1
            counts[1] += int(bound.lower > value)
            # A bound that claims nothing, for an arm has too few responders, misses nothing.
            counts[2] += bound.gap if np.isfinite(bound.gap) else 0.0


def run_noise(seed: int, n_rows: int = NOISE_ROWS, n_features: int = NOISE_FEATURES) -> Line:
    """Coin flips for outcomes, a short w that ranks every pair of the training rows right."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_features))
    X /= np.linalg.norm(X, axis=1).max()
    y, treated = np.arange(n_rows) % 2, np.arange(n_rows) // 2 % 2
    wanted = np.where(treated == 1, y, 1 - y) - 0.5
    w = X.T @ np.linalg.solve(X @ X.T, wanted)
    w *= NOISE_NORM / np.linalg.norm(w)
    options: Any = {"treatment": treated, "norm": NOISE_NORM, "radius": 1.0, "delta": DELTA}
    printed = paper_bound(y, X @ w, **options)
    margin = [
        margin_bound(y, X @ w, rho=rho, n_candidates=len(MARGINS), **options).lower
        for rho in MARGINS
    ]
    fresh = rng.normal(size=X.shape) @ w
    held_out = betting_bound(y, fresh, treatment=treated, target="auuc", delta=DELTA)
    return {
        "paper": printed.lower,
        "training_auuc": printed.estimate,
        "margin": max(margin),
        "fresh_auuc": auuc_score(y, fresh, treatment=treated, ranking="separate"),
        "betting": held_out.lower,
    }


RIVALS = {bound.name: bound for bound in HELD_OUT_BOUNDS}


def _is_conditional(name: str) -> bool:
    return name in RIVALS and RIVALS[name].is_conditional


def _holds(name: str) -> bool:
    return name not in RIVALS or RIVALS[name].validity.startswith("holds")


def render(lines: list[Line]) -> str:
    lines = sorted(lines, key=lambda line: (line["trial"], line["split"]))
    noise = [line for line in lines if line["model"] == COUNTEREXAMPLE]
    tables = _Tables([line for line in lines if line["model"] == SIMULATION])
    broken, normal = (_listed(tables.outside(holds)) for holds in (True, False))
    return page.written(
        f"{NAME}: how often the bounds fail",
        lines,
        "The lines were made when the sizes of hedged bets were tabulated at steps of .01 in the "
        "logarithm of progress; now it is .02. Bets differ by the error of interpolation.\n",
        f"{tables.trials:,} trials of {N_ROWS:,} held-out rows for each of {len(tables.names)} "
        f"populations whose AUUC is known to rounding (an integral over the plane), delta = "
        f"{DELTA:g}. A bound *misses* when it exceeds the truth: at most {page.share(DELTA)} of "
        f"the time, and with so many trials at most {tables.allowed(tables.trials):.1%} (three "
        f"standard errors) may be seen. The score is fixed, and for the last population it is "
        f"AUUCMax fitted on {N_TRAINING_ROWS:,} other rows of it, anew for every {CHUNK} "
        f"trials. Bounds given the class counts are compared with AUUC at these counts.\n",
        tables.populations(),
        *(part for target in TARGETS for part in tables.misses(target)),
        "Each cell: misses ± standard error, and the mean gap between estimate and bound. "
        '"betting" is the default of `certify`, 20 random assignments to blocks. One assignment is '
        "the sharper test: the average over several fails less often than it may.\n",
        f"Bounds that claim to hold and miss too often: {broken}. Of the normal limit, which "
        f"claims nothing for finite n: {normal}.\n",
        _noise_text(noise) if noise else "",
        work="simulation",
    )


def summary(lines: list[Line]) -> str:
    tables = _Tables([line for line in lines if line["model"] == SIMULATION])
    return (
        f"Certificates ({page.link(NAME)}), {tables.trials:,} trials of each of "
        f"{len(tables.names)} known populations: more misses than {page.share(DELTA)} and three "
        f"standard errors, of bounds that claim to hold: {_listed(tables.outside(True))}.\n"
    )


def claims(lines: list[Line]) -> list[page.Claim]:
    noise = [line for line in lines if line["model"] == COUNTEREXAMPLE]
    wrong = sum(line["paper"] > 0 for line in noise)
    return (
        [
            page.Claim(
                f"Theorem 1: its bound holds with probability {1 - DELTA:.0%}",
                f"On noise, {NOISE_FEATURES:,} features, it is above the truth in {wrong} of "
                f"{len(noise)} repetitions; so it is no guarantee",
                "no" if wrong > DELTA * len(noise) else "not refuted",
            )
        ]
        if noise
        else []
    )


class _Tables:
    """Sums over the lines of each population, in the order of the populations."""

    def __init__(self, lines: list[Line]) -> None:
        self.lines = {
            name: [line for line in lines if line["trial"] == name] for name in POPULATIONS
        }
        self.names = [name for name, own in self.lines.items() if own]
        self.trials = min(self.sums(name, DEFAULT, "auuc")[0] for name in self.names)

    def sums(self, population: str, bound: str, target: str) -> tuple[int, int, float]:
        counts = [line["bounds"][bound][target] for line in self.lines[population]]
        trials, misses, gaps = (sum(column) for column in zip(*counts, strict=True))
        return trials, misses, gaps

    @staticmethod
    def allowed(trials: int) -> float:
        return DELTA + 3 * float(np.sqrt(DELTA * (1 - DELTA) / trials))

    def populations(self) -> str:
        header = [
            "population", "share treated", "P(y = 1), control", "P(y = 1), treated", "AUUC", "gain",
            "score",
        ]  # fmt: skip
        rows = []
        for name in self.names:
            population, own = POPULATIONS[name], self.lines[name]
            kind = "fixed, five tied levels" if population.tied else "fixed"
            if population.fitted:
                kind = f"fitted, {population.n_features} features (means over {len(own)} fits)"
            rates = np.mean([line["rates"] for line in own], axis=0)
            truth = [float(np.mean([line["truth"][target] for line in own])) for target in TARGETS]
            rows.append(
                [name, page.share(population.share), *(f"{rate:.4f}" for rate in rates),
                 *map(page.auuc, truth), kind]
            )  # fmt: skip
        return page.table(header, rows)

    def misses(self, target: str) -> list[str]:
        title = {"auuc": "AUUC", "gain": "Gain over random"}[target]
        rows = []
        for bound in COMPETITORS:
            row = [f"{bound}{'' if _holds(bound) else ' (no guarantee)'}"]
            for name in self.names:
                trials, misses, gaps = self.sums(name, bound, target)
                rate = misses / trials
                said = f"{rate:.1%} ± {np.sqrt(rate * (1 - rate) / trials):.1%}"
                said = f"**{said}**" if rate > self.allowed(trials) else said
                row.append(f"{said}; {gaps / trials:.4f}")
            rows.append(row)
        return [f"## {title}\n", page.table(["bound", *self.names], rows)]

    def outside(self, holds: bool) -> list[str]:
        """Cells with too many misses of bounds that claim to hold, or that do not."""
        found = []
        for bound, name, target in product(COMPETITORS, self.names, TARGETS):
            trials, misses, _ = self.sums(name, bound, target)
            if _holds(bound) is holds and misses / trials > self.allowed(trials):
                found.append(f"{bound} ({name}, {target})")
        return found


def _listed(cells: Sequence[str]) -> str:
    return "; ".join(cells) or "none"


def _noise_text(lines: list[Line]) -> str:
    def mean(name: str) -> float:
        return float(np.mean([line[name] for line in lines]))

    wrong = {name: sum(line[name] > 0 for line in lines) for name in ("paper", "margin", "betting")}
    return (
        f"## The paper's bound on noise\n\n"
        f"{NOISE_ROWS:,} rows, {NOISE_ROWS // 4} for each treatment and outcome; outcomes have "
        f"nothing to do with the {NOISE_FEATURES:,} features, so every score has AUUC 0. With more "
        f"features than rows some w ranks all training pairs right, and making it short, ||w|| = "
        f"{NOISE_NORM:g} R, changes no rank. {len(lines)} repetitions: training AUUC "
        f"{mean('training_auuc'):.3f} on average, what Theorem 1 with Proposition 2 prints as a "
        f"guarantee {mean('paper'):.3f}, AUUC on fresh rows {mean('fresh_auuc'):.3f}. The printed "
        f"bound was above the truth in {wrong['paper']} of {len(lines)} repetitions where "
        f"{page.share(DELTA)} are allowed; the margin bound, its correct form (best of "
        f"{len(MARGINS)} margins, paid for), in {wrong['margin']} (mean {mean('margin'):.3f}); "
        f"betting on fresh rows in {wrong['betting']} (mean {mean('betting'):.3f}).\n"
    )
