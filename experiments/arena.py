"""Which model ranks best on real trials, each half of a trial scored by a model of the other.

A line holds both halves of one split: the AUUC of the model, adjusted for what a model of the
outcome says, its differences to TM and to auto with their standard errors, and a unit, the standard
error that the AUUC of any fixed score has on so many rows. On populations that are known a line
holds the AUUC of the model over the population, and the best there is. The page is written by
:mod:`experiments.arena_page`.
"""

from __future__ import annotations

import sys
import time
import warnings
from functools import lru_cache
from importlib.metadata import version
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from auucmax import Trial, TrialKFold, auuc_difference, auuc_score
from auucmax.encoding import TableEncoder
from auucmax.estimators import ResponseModel
from experiments import arena_page, cu2
from experiments.arena_models import (
    AUTO,
    LEARNT,
    MODELS,
    PEERS,
    REFERENCE,
    missing_peers,
    settings,
)
from experiments.arena_trials import (
    COSTLY,
    CRITEO,
    LARGE,
    LEARNT_SPLITS,
    LEARNT_TRIALS,
    LOADERS,
    POPULATIONS,
    draw_trial,
    load_trial,
)
from experiments.harness import Line, Task
from experiments.models import rounded, start_line

NAME = arena_page.NAME
RIVALS = (REFERENCE, AUTO)
SPLITS, LARGE_SPLITS, SEEDS = 20, 4, 3
LATER = 2  # splits that trials have before a costly population is drawn
TOLERANCE = 0.02  # of the true AUUC, as a part of what there is to gain

Floats = NDArray[np.float64]


def tasks(splits: int | None = None) -> list[Task]:
    """Split after split of all trials, all models of a split together: they share its rivals.

    Costly populations come later. Trials and models that are not at hand are left out, with the
    reason.
    """
    left_out = missing_peers()
    if (reason := cu2.why_missing()) is not None:
        left_out[CRITEO] = reason
    for name, why in left_out.items():
        print(f"skipped {name}: {why}", file=sys.stderr)
    found: list[tuple[int, Task]] = []
    for split in range(min(splits or SPLITS, SPLITS)):
        for trial in (*LOADERS, *POPULATIONS):
            most = SEEDS if trial in POPULATIONS else LARGE_SPLITS if trial in LARGE else SPLITS
            if split < most and trial not in left_out:
                own = [m for m in models_of(trial, split) if m not in left_out]
                turn = split + LATER * (trial in COSTLY)
                found += [(turn, Task(NAME, trial, m, split)) for m in own]
    return [task for _, task in sorted(found, key=lambda pair: pair[0])]


def models_of(trial: str, split: int = 0) -> list[str]:
    """Those that are run on a trial: peers on real ones, learnt representations on some."""
    left_out = set(PEERS) if trial in POPULATIONS else set()
    if trial not in LEARNT_TRIALS or split >= LEARNT_SPLITS:
        left_out |= set(LEARNT)
    left_out |= {name for name, peer in PEERS.items() if split >= (peer.max_splits or SPLITS)}
    return [model for model in MODELS if model not in left_out]


def probe(trial: str) -> None:
    """Raises DataNotFoundError if the files are not there; populations always are."""
    if trial in LOADERS:
        load_trial(trial)


def parameters(task: Task) -> dict[str, Any]:
    found = settings(task.model, task.split)
    if task.trial in POPULATIONS:
        drawn = POPULATIONS[task.trial]
        law = {"law": drawn.law.__name__, "share": drawn.share, "options": drawn.options}
        return found | {"rows": drawn.n_rows, "tolerance": TOLERANCE} | law
    return found


class Half(NamedTuple):
    """Rows to learn from, rows to rank, and what a model of the others expects of their outcome."""

    X: Floats
    y: Floats
    treated: NDArray[np.bool_]
    test_X: Floats
    test_y: Floats
    test_treated: NDArray[np.bool_]
    expected: Floats

    @property
    def adjusted(self) -> Floats:
        return self.test_y - self.expected

    def rank(self, model: str, seed: int) -> tuple[Floats, float | None]:
        """Scores of the rows to rank, of a model of the others, and the norm that it chose."""
        made = MODELS[model](seed).fit(self.X, self.y, treatment=self.treated)
        return np.asarray(made.predict(self.test_X)), getattr(made, "norm_", None)


def make_halves(trial: Trial, split: int) -> list[Half]:
    """Both ways to learn from one half and rank the other, stratified by treatment and outcome."""
    folds = TrialKFold(2, by="treatment-outcome", random_state=split)
    return [
        half_of(trial.take(train), trial.take(test))
        for train, test in folds.split(trial.X, trial.y, treatment=trial.treatment)
    ]


def half_of(train: Trial, test: Trial) -> Half:
    with warnings.catch_warnings():
        # Columns with one value in this half are dropped, texts that it lacks are none: both said.
        warnings.simplefilter("ignore", UserWarning)
        encoder = TableEncoder().fit(train.X)
        X, test_X = encoder.transform(train.X), encoder.transform(test.X)
    y, treated = train.y.astype(np.float64), train.treated
    expected = ResponseModel().fit(X, y, treatment=treated).predict(test_X)
    return Half(X, y, treated, test_X, test.y.astype(np.float64), test.treated, expected)


class Ranked(NamedTuple):
    """Scores of each half by a model, the norms that it chose, and the seconds that it took."""

    scores: list[Floats]
    norms: list[float | None]
    seconds: float


class Split:
    """The halves of a trial, and what TM and auto make of them: all lines are held against both."""

    def __init__(self, trial: Trial, split: int) -> None:
        self.halves, self.seed = make_halves(trial, split), split
        self.rivals = {model: self._rank(model) for model in RIVALS}

    def ranked(self, model: str) -> Ranked:
        return self.rivals[model] if model in self.rivals else self._rank(model)

    def _rank(self, model: str) -> Ranked:
        start = time.perf_counter()
        found = [half.rank(model, self.seed) for half in self.halves]
        scores, norms = zip(*found, strict=True)
        return Ranked(list(scores), list(norms), time.perf_counter() - start)


@lru_cache(maxsize=1)
def _load_split(trial: str, split: int) -> Split:
    return Split(load_trial(trial), split)


def unit_of(halves: list[Half]) -> float:
    """sd(z) / sqrt(12 n), z = (y - m(x)) (t - e) / (e (1 - e)): a fixed score's error on all rows.

    The ranks of a score are uniform, of variance 1/12, and next to independent of z.
    """
    adjusted = np.concatenate([half.adjusted for half in halves])
    treated = np.concatenate([half.test_treated for half in halves])
    e = treated.mean()
    z = adjusted * (treated - e) / (e * (1 - e))
    return float(z.std() / np.sqrt(12 * len(z)))


def run(task: Task) -> Line:
    start, start_cpu = time.perf_counter(), time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # what was reached is what is ranked by
        if task.trial in POPULATIONS:
            found = population_numbers(task)
        else:
            found = trial_numbers(task.model, _load_split(task.trial, task.split))
    line = start_line(task, parameters(task)) | found
    if task.model in PEERS:
        name = PEERS[task.model].distribution
        line["peer"] = f"{name} {version(name)}"
    line.setdefault("fit_seconds", time.perf_counter() - start)
    return rounded(line | {"cpu_seconds": time.process_time() - start_cpu})


def mean_auucs(halves: list[Half], scores: list[Floats]) -> Line:
    """Means over the halves of the AUUC of scores, and of a random order."""
    auucs, randoms = [], []
    for half, score in zip(halves, scores, strict=True):
        how: Any = {"treatment": half.test_treated, "outcome_model": half.expected}
        auucs.append(auuc_score(half.test_y, score, **how))
        randoms.append(auuc_score(half.test_y, np.zeros(len(score)), **how))
    return {"auuc": float(np.mean(auucs)), "random": float(np.mean(randoms))}


def trial_numbers(model: str, split: Split) -> Line:
    """Means over the two halves, and differences to the rivals."""
    halves, (scores, norms, seconds) = split.halves, split.ranked(model)
    return mean_auucs(halves, scores) | {
        "against": {
            rival: difference(halves, scores, ranked.scores)
            for rival, ranked in split.rivals.items()
        },
        **({"norms": norms} if None not in norms else {}),
        "unit": unit_of(halves),
        "rows": sum(len(half.test_y) for half in halves),
        "features": halves[0].X.shape[1],
        "fit_seconds": seconds,
    }


def difference(
    halves: list[Half], scores: list[Floats], others: list[Floats]
) -> tuple[float, float]:
    """AUUC of scores minus that of others, the mean of the halves, and its standard error.

    The variance counts twice, as of all scores that are fitted crosswise: either half has taught
    the other's model.
    """
    found = []
    for half, score, other in zip(halves, scores, others, strict=True):
        if np.array_equal(score, other):
            found.append((0.0, 0.0))
            continue
        one = auuc_difference(
            half.test_y, score, other, treatment=half.test_treated, outcome_model=half.expected
        )
        found.append((float(one.estimate), float(one.standard_error)))
    values, errors = np.array(found).T
    return float(values.mean()), float(np.sqrt(2 * np.sum(errors**2)) / 2)


def population_numbers(task: Task) -> Line:
    """What a model of a drawn trial has in the whole population, and what there is to have."""
    trial = draw_trial(task.trial, task.split)
    population, X = trial.population, trial.X.to_numpy()
    start = time.perf_counter()
    model = MODELS[task.model](task.split).fit(X, trial.y, treatment=trial.treatment)
    seconds = time.perf_counter() - start
    best, random = population.best_auuc, population.ate / 2
    value, error = population.auuc_with_error(model, tolerance=TOLERANCE * (best - random))
    return {
        "auuc": value,
        "auuc_error": error,
        "best": best,
        "random": random,
        "regret": (best - value) / (best - random),
        "rows": trial.n_rows,
        "fit_seconds": seconds,
    }


def render(lines: list[Line]) -> str:
    return arena_page.render(lines)
