"""Several treatments: what the choice of arms gains over the best of them, and how sure that is.

`auucmax.fit` on trials with several arms, each at a cost of 1: the gain per person of the policy
when a tenth, three tenths, half and all of the people can be treated, with its interval, and
against random people with the same arms, against the best arm alone by its ranking, and against the
best arm for everybody. In made-up populations the truth is known: the gain of the policy of the
model that is kept on 50,000 new people.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from auucmax import UpliftModel, fit, load_hillstrom, read_trial
from auucmax.data.fetch import fetch_social_pressure
from experiments import page
from experiments.harness import Line, Task
from experiments.models import timed_line

NAME = "arms"
SHARES = (0.1, 0.3, 0.5, 1.0)
ROWS, NEW_PEOPLE, SEEDS = 6_000, 50_000, 8
PART = 5  # of the voters who got the mailings, one in so many
HILLSTROM, MAILINGS = "Hillstrom", "social pressure"
REAL = {HILLSTROM: ("tm", "auto"), MAILINGS: ("tm",)}
#: Population -> effects of the two arms on people of x0 below 0 and above.
POPULATIONS = {
    "each arm helps others": ((0.15, 0.0), (0.0, 0.15)),
    "two arms of equal effect": ((0.0, 0.15), (0.0, 0.15)),
    "one arm does nothing": ((0.0, 0.0), (0.0, 0.15)),
    "no arm does anything": ((0.0, 0.0), (0.0, 0.0)),
}


def tasks(splits: int | None = None) -> list[Task]:
    """A split is a seed, of the folds and of made-up rows."""
    real = [Task(NAME, trial, model, 0) for trial, models in REAL.items() for model in models]
    seeds = range(min(splits or SEEDS, SEEDS))
    return real + [Task(NAME, trial, "tm", seed) for trial in POPULATIONS for seed in seeds]


def probe(trial: str) -> None:
    if trial == MAILINGS:
        fetch_social_pressure("all", download=False)


def parameters(task: Task) -> dict[str, Any]:
    own = {"rows": ROWS, "people": NEW_PEOPLE} if task.trial in POPULATIONS else {"part": PART}
    return {"model": task.model, "shares": list(SHARES), **own}


def people_of(population: str, n: int, seed: int) -> tuple[pd.DataFrame, Any]:
    """Features, and (n, 2) the effects of the arms."""
    rng = np.random.default_rng([seed, list(POPULATIONS).index(population)])
    X = pd.DataFrame(rng.normal(size=(n, 4)), columns=[f"x{k}" for k in range(4)])
    above = (X["x0"] > 0).to_numpy().astype(int)
    return X, np.array(POPULATIONS[population]).T[above]


def made_up(population: str, seed: int) -> pd.DataFrame:
    """A trial of three groups of equal size."""
    X, effects = people_of(population, ROWS, seed)
    rng = np.random.default_rng([seed, list(POPULATIONS).index(population), 1])
    arm = rng.integers(0, 3, ROWS)
    own = np.column_stack([np.zeros(ROWS), effects])[np.arange(ROWS), arm]
    y = rng.random(ROWS) < 0.2 + 0.1 * (X["x1"] > 0) + own
    return X.assign(y=y.astype(int), arm=np.array(["none", "a", "b"])[arm])


def load(task: Task) -> tuple[pd.DataFrame, dict[str, Any]]:
    """The table, and the names of its columns."""
    if task.trial == HILLSTROM:
        trial = load_hillstrom("all", "visit", "raw")
        texts = trial.X.select_dtypes("category").columns
        table = trial.X.astype(dict.fromkeys(texts, "str")).assign(y=trial.y, arm=trial.treatment)
        return table, {"control": "No E-Mail"}
    if task.trial == MAILINGS:
        trial = fetch_social_pressure("all", download=False)
        # Voters of a household stand together in the file: of few more than one is taken.
        table = trial.X.assign(y=trial.y, arm=trial.treatment)[::PART]
        return table, {"control": "Control"}
    return made_up(task.trial, task.split), {"control": "none"}


def run(task: Task) -> Line:
    def found() -> Line:
        table, names = load(task)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            trial = read_trial(table, treatment="arm", outcome="y", **names)
            model = fit(trial, task.model, random_state=task.split)
            truth = {"truth": truth_of(model, task)} if task.trial in POPULATIONS else {}
            return numbers(model) | truth

    return timed_line(task, parameters(task), found)


def numbers(model: UpliftModel) -> Line:
    """The policy at some shares of people, and each arm."""
    arms, policy = model.evidence.arms, model.evidence.policy
    curve, grid = policy.curve, policy.curve.spend
    _, single, everybody = policy.contrasts
    best = {"single": single.against, "everybody": everybody.against.removeprefix("everyone: ")}
    differences = {
        name: {
            "arm": best.get(name),
            "area": own.difference.value,
            "area_lower": own.difference.lower,
            "area_upper": own.difference.upper,
        }
        for name, own in zip(("random", "single", "everybody"), policy.contrasts, strict=True)
    }
    rows = [arms[0].rows[0], *(arm.rows[1] for arm in arms)]
    return {
        "rows": {own.name: own.n_rows for own in rows},
        "effects": {
            arm.arm: [arm.effect.value, arm.effect.lower, arm.effect.upper] for arm in arms
        },
        "policy": {
            name: _at(grid, own)
            for name, own in (("gain", curve.gain), ("lower", curve.lower), ("upper", curve.upper))
        },
        "given": [_at(grid, own) for own in zip(*curve.shares, strict=True)],
        "singles": {single.against: _at(grid, single.curve)},
        "everybody": _at(grid, everybody.curve),
        "differences": differences,
    }


def _at(grid: Sequence[float], values: Sequence[float | None]) -> list[float | None]:
    """Values at the shares of people, by straight lines; None where one of the ends is."""
    known = np.array([np.nan if value is None else value for value in values])
    found = np.interp(SHARES, grid, known)
    return [float(value) if np.isfinite(value) else None for value in found]


def truth_of(model: UpliftModel, task: Task) -> list[float]:
    """The true gain of the model's policy per person of new people."""
    X, effects = people_of(task.trial, NEW_PEOPLE, 1_000_000 + task.split)
    gains = []
    for share in SHARES:
        chosen = model.target(X, budget=share * len(X), cost=1.0).choice.arm
        given = np.flatnonzero(chosen >= 0)
        gains.append(float(effects[given, chosen[given]].sum()) / NEW_PEOPLE)
    return gains


# The page


_ABOUT = (
    "Each arm costs 1, so a budget is a share of people. Every row is assigned its arm by models "
    "that were not trained on it (`auucmax.fit`); gains are per person of all people, over "
    "treating nobody, with intervals of 95% that hold at one budget. Areas are means over all "
    "budgets. Of the mailings every fifth voter, since the file does not say who shares a "
    "household.\n"
)
_WHAT_IS_TRUE = (
    f"{ROWS:,} rows in three groups; arms help people of x0 below or above 0 by .15, or nobody. "
    f"The truth is the gain on {NEW_PEOPLE:,} new people by the policy of the model that is kept; "
    f"estimates are of models that were trained on 80% of the rows.\n"
)


def render(lines: list[Line]) -> str:
    lines = sorted(lines, key=lambda x: (x["trial"], x["model"], x["split"]))
    parts = [_ABOUT]
    for trial, models in REAL.items():
        for line in lines:
            if line["trial"] == trial and line["model"] in models:
                parts += [f"## {trial}, {line['model']}\n", *_real(line)]
    made = [line for line in lines if line["trial"] in POPULATIONS]
    if made:
        parts += ["## Populations whose truth is known\n", _WHAT_IS_TRUE, _truths(made)]
    return page.written(f"{NAME}: who gets which of several treatments", lines, *parts)


def summary(lines: list[Line]) -> str:
    gains = []
    for line in sorted(lines, key=lambda x: (x["trial"], x["model"])):
        if line["trial"] in REAL:
            single = line["differences"]["single"]
            area = _interval(*(single[f"area{end}"] for end in ("", "_lower", "_upper")))
            gains.append(f"{line['trial']} ({line['model']}) {area}")
    inside = [is_in for line in lines if line["trial"] in POPULATIONS for is_in in insides(line)]
    known = [is_in for is_in in inside if is_in is not None]
    return (
        f"Gain per person of choosing arms over the best arm alone by its ranking, mean over all "
        f"numbers of people: {'; '.join(gains)}. On made-up trials, at up to four budgets each, "
        f"{sum(known)} of {len(known)} intervals contain the truth. All tables: "
        f"{page.link(NAME)}.\n"
    )


def insides(line: Line) -> list[bool | None]:
    """At each share: whether the interval contains the truth; None where there is none."""
    ends = zip(line["policy"]["lower"], line["truth"], line["policy"]["upper"], strict=True)
    return [None if low is None else low <= true <= high for low, true, high in ends]


def _interval(value: float, low: float | None, high: float | None) -> str:
    return f"{value:+.4f}" if low is None else f"{value:+.4f} ({low:+.4f} to {high:+.4f})"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:+.4f}"


def _real(line: Line) -> list[str]:
    """Effects of the arms, gains of the policy at each share, and its areas."""
    effects = [
        f"{label} {value:+.4f} ({low:+.4f} to {high:+.4f}, {line['rows'][label]:,} rows)"
        for label, (value, low, high) in line["effects"].items()
    ]
    labels, rows = list(line["effects"]), []
    for k, share in enumerate(SHARES):
        gain = _interval(*(line["policy"][name][k] for name in ("gain", "lower", "upper")))
        given = ", ".join(
            f"{label} {own[k]:.0%}" for label, own in zip(labels, line["given"], strict=True)
        )
        singles = line["singles"]  # of the best arm alone, in newer lines
        alone = [singles[label][k] if label in singles else None for label in labels]
        rows.append([f"{share:.0%}", gain, given, *map(_number, (*alone, line["everybody"][k]))])
    header = ["people", "policy", "given", *(f"{x} alone" for x in labels), "the best, at random"]
    words = {
        "random": "random people with the same arms",
        "single": "{} alone, by its ranking",
        "everybody": "{}, at random",
    }
    areas = [
        f"against {words[name].format(found['arm'])} "
        f"{_interval(found['area'], found['area_lower'], found['area_upper'])}"
        for name, found in line["differences"].items()
        if found["area"] is not None
    ]
    return [
        f"Effects on everybody: {'; '.join(effects)}.\n",
        page.table(header, rows),
        f"The policy over all budgets: {'; '.join(areas)}.\n",
    ]


def _truths(lines: Sequence[Line]) -> str:
    rows = []
    for trial in POPULATIONS:
        own = [line for line in lines if line["trial"] == trial]
        for k, share in enumerate(SHARES) if own else ():
            singles = [[s[k] for s in x["singles"].values() if s[k] is not None] for x in own]
            alone = [max(gains) for gains in singles if gains]
            known = [is_in for x in own if (is_in := insides(x)[k]) is not None]
            rows.append(
                [
                    f"{trial}, {share:.0%} of people",
                    _number(np.mean([x["policy"]["gain"][k] for x in own]).item()),
                    _number(np.mean([x["truth"][k] for x in own]).item()),
                    f"{sum(known)} of {len(known)}",
                    _number(np.mean(alone).item() if alone else None),
                ]
            )
    header = ["population", "estimate", "true gain", "truth inside", "best single arm"]
    return page.table(header, rows)
