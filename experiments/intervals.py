"""How often 95% intervals miss where the truth is known: small arms, rare and skewed outcomes.

A line holds a chunk of repetitions of one cell (an outcome, a number of rows or clusters, a share
of them treated): how often each interval missed the truth, and how often it was declined.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit, ndtr, ndtri

from auucmax.metrics import Levels, inference
from experiments import page
from experiments.harness import Line, Task
from experiments.models import timed_line

NAME = "intervals"
REPETITIONS, CHUNK = 2000, 500
LEVEL = 0.95
LEAST, MOST = 0.03, 0.07  # of misses
ROWS, REVENUE_ROWS = (200, 500, 1000, 2000, 5000), (200, 500, 1000, 2000, 5000, 20000)
SHARES = (0.05, 0.1, 0.5, 0.9, 0.95)
N_CLUSTERS, TREATED_CLUSTERS, MEAN_SIZE = 400, (40, 200), 4
WHAT = ("AUUC", "gain", "difference", "band")
GRID = np.linspace(0.05, 1, 39)

Floats = np.ndarray[Any, np.dtype[np.float64]]


class Outcome(NamedTuple):
    """Draws outcomes of rows with feature x, mood and treatment, and knows their mean effect at x.

    ``mood`` is a normal number that rows of a cluster share; without clusters each row has one.
    """

    draw: Callable[[Floats, Floats, Floats, np.random.Generator], Floats]
    effect: Callable[[Floats, float], Floats]
    revenue: bool = False


def _rate(base: float) -> Outcome:
    def draw(x: Floats, t: Floats, mood: Floats, rng: np.random.Generator) -> Floats:
        chance = expit(base + mood + t * (0.3 + 0.5 * x))
        return (rng.random(len(x)) < chance).astype(float)

    def effect(x: Floats, spread: float) -> Floats:
        nodes, weights = np.polynomial.hermite_e.hermegauss(40)
        at = base + spread * nodes[:, None]
        change = expit(at + 0.3 + 0.5 * x) - expit(at)
        return np.asarray(weights @ change / weights.sum())

    return Outcome(draw, effect)


def _money(chance: Callable[[Floats], Floats], rise: tuple[float, float]) -> Outcome:
    """Lognormal amounts of those who buy, with a chance that treatment may change."""

    def draw(x: Floats, t: Floats, mood: Floats, rng: np.random.Generator) -> Floats:
        amount = np.exp(mood + rng.standard_normal(len(x)) + t * (rise[0] + rise[1] * x))
        return np.where(rng.random(len(x)) < chance(t * (0.3 + 0.5 * x)), amount, 0.0)

    def effect(x: Floats, spread: float) -> Floats:
        mean = np.exp((1 + spread**2) / 2)
        treated = chance(0.3 + 0.5 * x) * np.exp(rise[0] + rise[1] * x)
        return np.asarray(mean * (treated - chance(0 * x)))

    return Outcome(draw, effect, revenue=True)


OUTCOMES = {
    "1% respond": _rate(-4.85),
    "5% respond": _rate(-3.1),
    "50% respond": _rate(0.0),
    "90% respond": _rate(2.1),
    "lognormal": _money(np.ones_like, (0.1, 0.2)),
    "lognormal, 10% not 0": _money(lambda z: expit(z - 2.2), (0.0, 0.0)),
    "normal": Outcome(
        lambda x, t, mood, rng: mood + rng.standard_normal(len(x)) + t * (0.2 + 0.3 * x),
        lambda x, spread: 0.2 + 0.3 * x,
    ),
}
#: Standard deviation of the mood: of rows, and of clusters.
MOOD, CLUSTER_MOOD = 0.3, 0.8


class Truth(NamedTuple):
    auuc: float
    gain: float
    curve: Floats


def truth_of(outcome: Outcome, spread: float) -> Truth:
    """Exact: the score is x plus as much noise, so its rank given x has mean Phi(x / sqrt 3)."""
    x, weights = np.polynomial.hermite_e.hermegauss(120)
    effect = outcome.effect(x, spread) * weights / weights.sum()
    auuc = float(effect @ ndtr(x / np.sqrt(3)))
    cuts = np.sqrt(2) * ndtri(1 - GRID[:-1])
    curve = np.append(effect @ ndtr(x[:, None] - cuts), effect.sum())
    return Truth(auuc, auuc - float(effect.sum()) / 2, curve)


class Cell(NamedTuple):
    """``size`` rows of which a share is treated, or clusters of which a number is."""

    size: int
    treated: float
    clustered: bool

    @property
    def name(self) -> str:
        if self.clustered:
            return f"{self.size} clusters, {self.treated:.0f} treated"
        return f"{self.size:,} rows, {self.treated:.0%} treated"

    def draw(self, outcome: Outcome, rng: np.random.Generator) -> dict[str, Any]:
        if self.clustered:
            sizes = rng.geometric(1 / MEAN_SIZE, self.size)
            groups = np.repeat(np.arange(self.size), sizes)
            chosen = rng.permutation(self.size) < self.treated
            t, mood = chosen[groups], CLUSTER_MOOD * rng.standard_normal(self.size)[groups]
        else:
            groups, mood = None, MOOD * rng.standard_normal(self.size)
            t = rng.random(self.size) < self.treated
        x, noise = rng.standard_normal((2, len(t)))
        y = outcome.draw(x, t.astype(float), mood, rng)
        return {"y": y, "score": x + noise, "treatment": t, "groups": groups}


def cells(outcome: Outcome) -> list[Cell]:
    rows = REVENUE_ROWS if outcome.revenue else ROWS
    found = [Cell(n, share, False) for n in rows for share in SHARES]
    return found + [Cell(N_CLUSTERS, treated, True) for treated in TREATED_CLUSTERS]


CELLS = {name: {cell.name: cell for cell in cells(one)} for name, one in OUTCOMES.items()}


def tasks(splits: int | None = None) -> list[Task]:
    """A chunk of every cell, then the next chunk."""
    chunks = REPETITIONS // CHUNK
    return [
        Task(NAME, outcome, cell, chunk)
        for chunk in range(chunks if splits is None else min(splits, chunks))
        for outcome, own in CELLS.items()
        for cell in own
    ]


def parameters(task: Task) -> dict[str, Any]:
    least = ("RARE", "FEW_OF_ARM", "FEW", "FEW_SKEWED", "FEW_SKEWED_GAIN", "SKEWED")
    return {
        "repetitions": CHUNK,
        "level": LEVEL,
        # Raised when the limits of such outcomes change, so that their lines are made again.
        "limits": _VERSIONS[OUTCOMES[task.trial].revenue, "clusters" in task.model],
        "least": {name: getattr(inference, name) for name in least},
    }


_VERSIONS = {(False, False): 3, (False, True): 3, (True, False): 5, (True, True): 6}


def run(task: Task) -> Line:
    return timed_line(task, parameters(task), lambda: run_chunk(task))


def run_chunk(task: Task, repetitions: int = CHUNK) -> Line:
    """Misses and declined intervals; a band misses if it does anywhere where it is given."""
    outcome, cell = OUTCOMES[task.trial], CELLS[task.trial][task.model]
    truth = truth_of(outcome, CLUSTER_MOOD if cell.clustered else MOOD)
    seed = [task.split, list(OUTCOMES).index(task.trial), cell.size, round(100 * cell.treated)]
    rng = np.random.default_rng(seed)
    missed = dict.fromkeys(WHAT, 0)
    declined = dict.fromkeys(WHAT, 0.0)
    done = 0
    while done < repetitions:
        rows = cell.draw(outcome, rng)
        if rows["treatment"].sum() in (0, len(rows["treatment"])):
            continue  # nothing can be evaluated without an arm
        done += 1
        for what, (miss, without) in one_trial(rows, truth, rng).items():
            missed[what] += int(miss)
            declined[what] += without
    return {"truth": truth.auuc, "missed": missed, "declined": declined, "trials": repetitions}


def one_trial(
    rows: dict[str, Any], truth: Truth, rng: np.random.Generator
) -> dict[str, tuple[bool, float]]:
    """Whether each interval missed, and the part of it that was declined."""
    y, score, more = rows["y"], rows["score"], {k: rows[k] for k in ("treatment", "groups")}
    levels = Levels.of(y, score, **more)
    # Two scores that are equally much worse: the truth of their difference is 0.
    a, b = (Levels.of(y, score + rng.standard_normal(len(y)), **more) for _ in range(2))
    found, difference, band = levels.inference(LEVEL), a.difference(b, LEVEL), levels.band(GRID)
    ends = np.array([band.simultaneous_lower, band.simultaneous_upper])
    outside = (ends[0] > truth.curve) | (ends[1] < truth.curve)  # never where ends are missing
    return {
        "AUUC": _outside(found.interval, truth.auuc),
        "gain": _outside(found.gain_interval, truth.gain),
        "difference": _outside(difference.interval, 0.0),
        "band": (bool(outside.any()), float(np.isnan(ends[0]).mean())),
    }


def _outside(interval: tuple[float, float], value: float) -> tuple[bool, float]:
    low, high = interval
    return low > value or high < value, float(np.isnan(low))


def render(lines: list[Line]) -> str:
    sums = _sums(lines)
    least = min(own["trials"] for own in sums.values())
    cells, error = (
        list(dict.fromkeys(c for own in CELLS.values() for c in own)),
        np.sqrt(0.0475 / least),
    )
    parts = [
        f"{len(sums)} of the {sum(map(len, CELLS.values()))} cells have been run, with at least "
        f"{least:,} of {REPETITIONS:,} trials each: a rate of 5% has a standard error of up to "
        f"{error:.1%}, so some cells are outside by chance. The score is correlated with the "
        f"effect, and the truth is known exactly. Misses of {page.share(LEVEL)} intervals over "
        f"*all* trials, and in brackets the part of the intervals (of the band: of its shares) "
        f"that was declined because an arm has too few rows or responders. Bold: outside "
        f"{page.share(LEAST)} to {page.share(MOST)} although less than a tenth was declined.\n",
    ]
    for what, title in zip(WHAT, _TITLES, strict=True):
        rows = [
            [cell, *(_cell(sums.get((outcome, cell)), what) for outcome in OUTCOMES)]
            for cell in cells
            if any((outcome, cell) in sums for outcome in OUTCOMES)
        ]
        parts += [f"## {title}\n", page.table(["", *OUTCOMES], rows)]
    outside = [f"{what} ({o}, {c})" for (o, c), own in sums.items() for what in WHAT
               if _is_outside(own, what)]  # fmt: skip
    n = len(WHAT) * len(sums)
    parts.append(f"{len(outside)} of {n} cells are outside: {'; '.join(outside) or 'none'}.\n")
    return page.written(f"{NAME}: how often they miss", lines, *parts, work="simulation")


def summary(lines: list[Line]) -> str:
    sums = _sums(lines)
    outside = sum(_is_outside(own, what) for own in sums.values() for what in WHAT)
    trials = min(own["trials"] for own in sums.values())
    return (
        f"Intervals ({page.link(NAME)}): of {len(WHAT) * len(sums)} cells (size, "
        f"share treated, outcome; {trials:,} trials or more each) {outside} miss outside "
        f"{page.share(LEAST)} to {page.share(MOST)} where {page.share(1 - LEVEL)} is meant, some "
        f"by chance; where an arm has too few rows or responders an interval is declined.\n"
    )


#: In the order of WHAT.
_TITLES = (
    "AUUC", "Gain over random", "Difference of two scores that are equally good",
    "The simultaneous band",
)  # fmt: skip


def _sums(lines: list[Line]) -> dict[tuple[str, str], dict[str, Any]]:
    """Of each outcome and cell: trials, and for each interval the misses and what was declined."""
    sums: dict[tuple[str, str], dict[str, Any]] = {}
    for line in lines:
        key = line["trial"], line["model"]
        own = sums.setdefault(key, {"trials": 0, **{what: np.zeros(2) for what in WHAT}})
        own["trials"] += line["trials"]
        for what in WHAT:
            own[what] += [line["missed"][what], line["declined"][what]]
    # In the order of the cells, whatever that of the lines.
    return {(o, c): sums[o, c] for o, own in CELLS.items() for c in own if (o, c) in sums}


def _cell(own: dict[str, Any] | None, what: str) -> str:
    if own is None:
        return ""
    rate, without = own[what] / own["trials"]
    said = f"**{rate:.1%}**" if _is_outside(own, what) else f"{rate:.1%}"
    return f"{said} ({without:.0%})" if without > 0 else said


def _is_outside(own: dict[str, Any], what: str) -> bool:
    rate, without = own[what] / own["trials"]
    return bool(rate > MOST or (rate < LEAST and without < 0.1))
