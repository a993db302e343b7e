"""Which outcome to learn from, if people are to be ranked by the money that treatment brings.

Each half of Hillstrom's trial is ranked by models of the other half, which learn from visits,
conversions or spend; rankings are judged by spend. A line holds both halves of a split, as in the
arena: AUUC of spend, adjusted for what a model of spend expects, its difference to two logistic
models of visits with its standard error, and the trial's own noise as a unit.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any, NamedTuple

import numpy as np

from auucmax import TrialKFold, auuc_score, load_hillstrom, make_trial
from experiments import page
from experiments.arena import Floats, Half, difference, half_of, mean_auucs, unit_of
from experiments.arena_models import AUTO, MODELS, REFERENCE, settings
from experiments.harness import Line, Task
from experiments.models import timed_line

NAME = "money"
TRIALS = {"Hillstrom women": "womens", "Hillstrom men": "mens"}
OUTCOME = "spend"  # by which rankings are judged
SPLITS = 20
Z95 = 1.96  # standard errors
_ALL = ("visit", "conversion", "spend")
#: Model -> outcomes that it learns from.
TARGETS = {REFERENCE: _ALL, "SI": _ALL, "HB": _ALL, AUTO: _ALL, "AUUCMax": _ALL[:2]}
NAMES = [f"{model}, {target}" for target in _ALL for model in TARGETS if target in TARGETS[model]]
RIVAL = f"{REFERENCE}, visit"


def tasks(splits: int | None = None) -> list[Task]:
    """All models of a split together: they share its halves."""
    return [
        Task(NAME, trial, name, split)
        for split in range(min(splits or SPLITS, SPLITS))
        for trial in TRIALS
        for name in NAMES
    ]


def parameters(task: Task) -> dict[str, Any]:
    model, target = task.model.split(", ")
    found = settings(model, task.split) | {"target": target}
    return found | ({"of_money": _fingerprint(model)} if target == OUTCOME else {})


@cache
def _fingerprint(model: str) -> float:
    """AUUC of a model on a small trial with money, to four digits: another model has another."""
    trial = make_trial(1_000, n_features=4, base_rate=0.3, heterogeneity=1.0, random_state=0)
    money = trial.y * np.random.default_rng(0).gamma(2, 0.5, size=1_000)
    made = MODELS[model](0).fit(trial.X, money, treatment=trial.treatment)
    return float(round(auuc_score(money, made.predict(trial.X), treatment=trial.treatment), 4))


class Split:
    """Halves of a trial with all its outcomes, and what two models of visits make of them."""

    def __init__(self, arm: str, split: int) -> None:
        trials = {name: load_hillstrom(arm, name, "raw") for name in _ALL}
        buyers = trials["conversion"]  # spend is above 0 for these
        folds = TrialKFold(2, by="treatment-outcome", random_state=split)
        parts = list(folds.split(buyers.X, buyers.y, treatment=buyers.treatment))
        money = trials[OUTCOME]
        self.halves = [half_of(money.take(train), money.take(test)) for train, test in parts]
        self.outcomes = {
            name: [trial.y[train].astype(np.float64) for train, _ in parts]
            for name, trial in trials.items()
        }
        self.seed = split
        self.rival = self.scores(RIVAL)

    def scores(self, name: str) -> list[Floats]:
        """Of the rows of each half, by models of the other's."""
        model, target = name.split(", ")
        return [
            half._replace(y=y).rank(model, self.seed)[0]
            for half, y in zip(self.halves, self.outcomes[target], strict=True)
        ]


@lru_cache(maxsize=1)
def _load_split(trial: str, split: int) -> Split:
    return Split(TRIALS[trial], split)


def run(task: Task) -> Line:
    def found() -> Line:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            split = _load_split(task.trial, task.split)
            return numbers(split.halves, split.scores(task.model), split.rival)

    return timed_line(task, parameters(task), found)


def numbers(halves: list[Half], scores: list[Floats], rival: list[Floats]) -> Line:
    """Means over the halves, and the difference to the rival."""
    return mean_auucs(halves, scores) | {
        "against": difference(halves, scores, rival),
        "unit": unit_of(halves),
        "rows": sum(len(half.test_y) for half in halves),
        "buyers": sum(int((half.test_y > 0).sum()) for half in halves),
    }


# The page


class Found(NamedTuple):
    """Of a model on a trial, means over splits: AUUC and difference per 100 people, and Z.

    ``error`` is the mean of the standard errors of the splits, which share their rows: it is at
    least that of the mean.
    """

    auuc: float
    difference: float
    error: float
    z: float

    @property
    def is_significant(self) -> bool:
        return abs(self.difference) > Z95 * self.error > 0


def found_of(lines: Sequence[Line], trial: str, name: str) -> Found | None:
    own = [x for x in lines if (x["trial"], x["model"]) == (trial, name)]
    if not own:
        return None
    own = sorted(own, key=lambda line: line["split"])  # sums to the last digit
    value, error = 100 * np.mean([line["against"] for line in own], axis=0)
    z = np.mean([line["against"][0] / line["unit"] for line in own])
    return Found(
        100 * float(np.mean([x["auuc"] for x in own])), float(value), float(error), float(z)
    )


def render(lines: list[Line]) -> str:
    parts = [_what_is_shown(lines), _verdict(lines)]
    for trial in TRIALS:
        own = [line for line in lines if line["trial"] == trial]
        if own:
            parts += [f"## {trial}\n", _table(own, trial), _noise(own)]
    title = f"{NAME}: which outcome to learn from to rank people by money"
    return page.written(title, lines, *parts)


def summary(lines: list[Line]) -> str:
    return (
        f"Hillstrom's customers are ranked by spend, with models trained on visits, conversions or "
        f"spend. {_verdict(lines).rstrip()} All tables: {page.link(NAME)}.\n"
    )


def _what_is_shown(lines: Sequence[Line]) -> str:
    splits = len({line["split"] for line in lines})
    return (
        f"Models are trained on one half of the trial, on visits (0/1), conversions (0/1) or "
        f"spend, and rank the other half; {splits} random splits, both ways. Rankings are judged "
        f"by spend: AUUC in dollars per 100 people, adjusted for the spend that a model of the "
        f"other half expects. {REFERENCE}: two logistic models, of spend two linear ones; SI: "
        f"`ShrunkInteractions`; HB: `BoostedEffect`; {AUTO}: `UpliftEnsemble` of both; AUUCMax "
        f"on visits and conversions. Of spend SI and HB learn whether somebody buys, times one "
        f"amount (`auucmax.estimators.targets`): as a ranking this is mostly what they learn from "
        f"conversions.\n"
    )


def _verdict(lines: Sequence[Line]) -> str:
    """How many differences are beyond noise."""
    others = [name for name in NAMES if name != RIVAL]
    known = {
        (trial, name): found
        for trial in TRIALS
        for name in others
        if (found := found_of(lines, trial, name)) is not None
    }
    beyond = [
        f"{_spoken(name)} ({trial})" for (trial, name), x in known.items() if x.is_significant
    ]
    largest = max((abs(x.difference) / x.error for x in known.values() if x.error), default=0.0)
    both = [
        _spoken(name)
        for name in others
        if all((t, name) in known and known[t, name].difference > 0 for t in TRIALS)
    ]
    return (
        f"**Significant differences to two models of visits ({Z95} standard errors): {len(beyond)} "
        f"of {len(known)} ({page.listed(beyond)}).** The largest is {largest:.1f} standard errors. "
        f"Above it on both trials: {page.listed(both)}. The order of the others in the tables is "
        f"mostly chance.\n"
    )


def _spoken(name: str) -> str:
    return name.replace(", ", " on ")


def _table(lines: Sequence[Line], trial: str) -> str:
    rows = []
    for name in NAMES:
        own = found_of(lines, trial, name)
        if own is None:
            continue
        cells = ["0", "0", ""]
        if own.error:
            verdict = "significant" if own.is_significant else "noise"
            cells = [f"{own.difference:+.2f} ({own.error:.2f})", f"{own.z:+.2f}", verdict]
        rows.append([_spoken(name), f"{own.auuc:.2f}", *cells])
    header = [
        "model", "AUUC of spend per 100 people",
        f"minus that of {REFERENCE} on visit (standard error)", "in units of noise", "",
    ]  # fmt: skip
    return page.table(header, rows)


def _noise(lines: Sequence[Line]) -> str:
    unit, random = (100 * np.mean([line[name] for line in lines]) for name in ("unit", "random"))
    return (
        f"A random order has {random:.2f}. The unit of noise, the standard error that AUUC of any "
        f"fixed score has on the {lines[0]['rows']:,} rows with {lines[0]['buyers']:,} buyers, is "
        f"{unit:.2f} per 100 people. Standard errors of differences are those of one split.\n"
    )
