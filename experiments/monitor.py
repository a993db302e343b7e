"""A trial without any effect that is looked at after every 100 rows: how often is a look wrong?

A line holds a chunk of trials, each of them given to a :class:`auucmax.campaign.Monitor`. Of each,
whether any of its four bounds (gain and average effect, lower and upper, which share delta) was
ever on the wrong side of 0, and whether it ever found that the arms have other sizes than planned;
the same of normal intervals that are made for one look; and, of the first trial of a line, how wide
the bounds are at the end beside the fixed-bet certificate of the same rows at the same level.
"""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import ndtri

from auucmax.campaign import Monitor
from auucmax.campaign.monitor import Verdict
from auucmax.certificates import anytime, betting_bounds
from auucmax.certificates.anytime import AnytimeBets, Wealth
from experiments import page
from experiments.harness import Line, Task
from experiments.models import timed_line

NAME = "monitor"
DELTA = 0.05
N_BOUNDS = 4  # gain and effect, lower and upper
TRIALS, CHUNK = 2_000, 50
N_ROWS, LOOK = 100_000, 100
MODEL = "no effect"
#: Share treated and P(y = 1); chunks go to them in turn.
POPULATIONS = {
    "50% treated, 13% respond": (0.5, 0.13),
    "15% treated, 13% respond": (0.15, 0.13),
    "50% treated, 2% respond": (0.5, 0.02),
    "50% treated, 50% respond": (0.5, 0.5),
}
NORMAL = ("normal, effect", "normal, gain", "normal, one look")
FIRST_DAY = pd.Timestamp("2020-01-01")
Floats = NDArray[np.float64]


def tasks(splits: int | None = None) -> list[Task]:
    chunks = TRIALS // CHUNK // len(POPULATIONS)
    return [
        Task(NAME, name, MODEL, number)
        for number in range(min(splits or chunks, chunks))
        for name in POPULATIONS
    ]


def parameters(task: Task) -> dict[str, Any]:
    share, rate = POPULATIONS[task.trial]
    return {
        "watched": "Monitor",
        "delta": DELTA,
        "rows": N_ROWS,
        "look": LOOK,
        "trials": CHUNK,
        "treated": share,
        "rate": rate,
        "superblock": [anytime.SUPERBLOCK_ROWS, anytime.SUPERBLOCK_ARM, anytime.BLOCK_ROWS],
        "redealings": anytime.REDEALINGS,
        "horizons": anytime.HORIZONS.tolist(),
    }


def run(task: Task) -> Line:
    return timed_line(task, parameters(task), lambda: run_chunk(task))


def run_chunk(task: Task, trials: int = CHUNK, n_rows: int = N_ROWS) -> Line:
    place = list(POPULATIONS).index(task.trial)
    wrong = dict.fromkeys(("monitor", "sizes", *NORMAL), 0)
    widths: list[float] = []
    for number in range(trials):
        rng = np.random.default_rng([task.split, place, number])
        y, score, treated = draw(*POPULATIONS[task.trial], n_rows, rng)
        bets, bounds, sizes = ever_wrong(y, score, treated, POPULATIONS[task.trial][0])
        wrong["monitor"] += bounds
        wrong["sizes"] += sizes
        effect, gain = (
            normal_path(y * weight, treated) for weight in (np.ones(n_rows), score - 0.5)
        )
        limit = float(ndtri(1 - DELTA / 2))
        wrong["normal, effect"] += bool((np.abs(effect) > limit).any())
        wrong["normal, gain"] += bool((np.abs(gain) > limit).any())
        wrong["normal, one look"] += bool(abs(effect[-1]) > limit)
        if number == 0:
            widths = end_widths(bets, y, score, treated)
    return {"wrong": wrong, "widths": widths}


def draw(
    share: float, rate: float, n_rows: int, rng: np.random.Generator
) -> tuple[Floats, Floats, NDArray[np.bool_]]:
    """Outcomes, a score, which is the share of people below, and arms: all independent."""
    arms = rng.random(n_rows) < share
    return (rng.random(n_rows) < rate).astype(np.float64), rng.random(n_rows), arms


def ever_wrong(
    y: Floats, score: Floats, treated: NDArray[np.bool_], share: float
) -> tuple[AnytimeBets, bool, bool]:
    """The bets at the end; was a bound ever on the wrong side of 0, and ever an alarm for sizes?

    The monitor enters a day of ``LOOK`` rows after the other, whether at one look or at many
    (tests/campaign/test_monitor.py). Its bounds change when a superblock closes only, and the
    wealth of the bets after each superblock has every bound of every look.
    """
    n_rows = len(y)
    rows = pd.DataFrame({"mail": treated * 1, "visit": y, "score": score, "id": np.arange(n_rows)})
    rows["sent"] = FIRST_DAY + pd.to_timedelta(rows["id"] // LOOK, "D")
    monitor = Monitor(
        treatment="mail", outcome="visit", date="sent", id="id", score="score", delta=DELTA,
        treated_share=share,
    )  # fmt: skip
    paths = []
    add = AnytimeBets.add

    def recorded(bets: AnytimeBets, *rows: Any) -> Wealth:
        paths.append(add(bets, *rows))
        return paths[-1]

    with patch.object(AnytimeBets, "add", recorded):
        look = monitor.look(rows)
    assert look.n_rows == n_rows
    assert monitor.state is not None
    (path,) = paths
    wealth = path.log_wealth(np.zeros(path.credit.shape[:-1]))
    sizes = any(stop.verdict == Verdict.STOP_FAILED_RATIO for stop in look.stops)
    return monitor.state.bets[0], bool((wealth >= -np.log(DELTA / N_BOUNDS)).any()), sizes


def normal_path(terms: Floats, treated: NDArray[np.bool_]) -> Floats:
    """z of the difference of the arms' means at every look, once each arm has 50 rows."""
    looks = np.arange(LOOK, len(terms) + 1, LOOK) - 1
    means, errors = [], []
    for arm in (treated, ~treated):
        n = np.cumsum(arm)[looks]
        total, square = (np.cumsum(arm * terms**power)[looks] for power in (1, 2))
        n_safe = np.maximum(n, 2)
        mean = total / n_safe
        means.append(mean)
        errors.append(np.where(n < 50, np.inf, (square / n_safe - mean**2) / (n_safe - 1)))
    error = np.sqrt(errors[0] + errors[1])
    z = np.zeros(len(looks))
    return np.divide(means[0] - means[1], error, out=z, where=error > 0)


def end_widths(
    bets: AnytimeBets, y: Floats, score: Floats, treated: NDArray[np.bool_]
) -> list[float]:
    """Distance from estimate to lower bound of the gain: monitor, fixed bets, hedged bets."""
    level = DELTA / N_BOUNDS
    own = float(bets.estimates[0] - bets.wealth.limits(level)[0, 0])
    options: Any = {"treatment": treated, "delta": level, "targets": ("gain",)}
    fixed, hedged = (betting_bounds(y, score, bets=b, **options)[0] for b in ("fixed", "hedged"))
    return [own, fixed.gap, hedged.gap]


def _rates(lines: list[Line]) -> tuple[int, dict[str, float]]:
    n = sum(line["parameters"]["trials"] for line in lines)
    names = lines[0]["wrong"]
    return n, {name: sum(line["wrong"][name] for line in lines) / n for name in names}


def _ratio(lines: list[Line], other: int) -> float:
    widths = np.mean([line["widths"] for line in lines], axis=0)
    return float(widths[0] / widths[other])


def render(lines: list[Line]) -> str:
    groups = {name: [line for line in lines if line["trial"] == name] for name in POPULATIONS}
    rows = []
    for name, own in {**groups, "all": lines}.items():
        if own:
            n, rates = _rates(own)
            ratios = [f"{_ratio(own, other):.2f}" for other in (1, 2)]
            rows.append([name, f"{n:,}", *(f"{rate:.1%}" for rate in rates.values()), *ratios])
    header = [
        "population", "trials", "monitor, ever wrong", "sizes, ever an alarm",
        "normal, effect, ever wrong", "normal, gain, ever wrong",
        "normal, effect, wrong at the end", "width / fixed bets", "width / hedged",
    ]  # fmt: skip
    return page.written(
        f"{NAME}: a look after every 100 rows",
        lines,
        f"Trials of {N_ROWS:,} rows in which neither the treatment nor the score has any effect, "
        f"looked at after every {LOOK} rows. *Monitor*: any of {N_BOUNDS} bounds (gain and average "
        f"effect, lower and upper), which share delta = {DELTA:g}, is on the wrong side of 0 at "
        f"any look. *Sizes*: the monitor ever says that the arms do not have their planned sizes, "
        f"for which 1% is allowed. *Normal*: the usual {1 - DELTA:.0%} interval, made for one "
        f"look, of the average effect or of the gain (with the true ranks), leaves 0 out at any "
        f"look; and at the last look alone. *Width*: distance from the estimate to the lower "
        f"bound of the gain at the end, over that of the certificate by bets of one size, or by "
        f"hedged bets, of the same rows at the same level, {DELTA / N_BOUNDS:g}; these hold for "
        f"one look at a number of rows that is fixed beforehand. Means over {len(lines)} trials.\n",
        page.table(header, rows),
        work="simulation",
    )


def summary(lines: list[Line]) -> str:
    n, rates = _rates(lines)
    return (
        f"Looks at a running trial ({page.link(NAME)}), one after every {LOOK} of "
        f"{N_ROWS:,} rows: in {n:,} trials without any effect the bounds of `monitor` were ever "
        f"wrong in {rates['monitor']:.1%}, where {DELTA:.0%} is allowed; normal intervals in "
        f"{rates['normal, effect']:.0%}. At the end the bound is {_ratio(lines, 1):.2f} times as "
        f"wide as the certificate by bets of one size.\n"
    )
