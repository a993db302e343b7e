"""Which model ranks best on real trials, each half of a trial scored by a model of the other.

A line holds both halves of one split: the AUUC of the model, adjusted for what a model of the
outcome says, its differences to TM and to auto with their standard errors, and a unit, the standard
error that the AUUC of any fixed score has on so many rows. On populations that are known a line
holds the AUUC of the model over the population, and the best there is.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Sequence
from functools import lru_cache
from importlib.metadata import version
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from auucmax import Trial, TrialKFold, auuc_difference, auuc_score
from auucmax.encoding import TableEncoder
from auucmax.estimators import ResponseModel
from experiments import cu2, page
from experiments.arena_models import (
    AUTO,
    LEARNT,
    MODELS,
    OURS,
    PEERS,
    REFERENCE,
    missing_peers,
    settings,
)
from experiments.arena_trials import (
    COSTLY,
    CRITEO,
    FAMILIES,
    LARGE,
    LEARNT_SPLITS,
    LEARNT_TRIALS,
    LOADERS,
    POPULATIONS,
    draw_trial,
    load_trial,
)
from experiments.harness import Line, Task
from experiments.known_populations import auuc_with_error
from experiments.models import timed_line

NAME = "arena"
RIVALS = (REFERENCE, AUTO)
SPLITS, LARGE_SPLITS, SEEDS = 20, 4, 3
LATER = 2  # splits that trials have before a costly population is drawn
TOLERANCE = 0.02  # the largest error of the true AUUC, as a part of what there is to gain

Floats = NDArray[np.float64]


def tasks(splits: int | None = None) -> list[Task]:
    """Split after split of all trials, all models of a split together: they share its rivals.

    Costly populations come later. Models that are not at hand are left out, with the reason.
    """
    left_out = missing_peers()
    for name, why in left_out.items():
        print(f"skipped {name}: {why}", file=sys.stderr)
    found: list[tuple[int, Task]] = []
    for split in range(min(splits or SPLITS, SPLITS)):
        for trial in (*LOADERS, *POPULATIONS):
            most = SEEDS if trial in POPULATIONS else LARGE_SPLITS if trial in LARGE else SPLITS
            if split < most:
                own = [m for m in models_of(trial, split) if m not in left_out]
                turn = split + LATER * (trial in COSTLY)
                found += [(turn, Task(NAME, trial, m, split)) for m in own]
    return [task for _, task in sorted(found, key=lambda pair: pair[0])]


def models_of(trial: str, split: int = 0) -> list[str]:
    """Those that are run on a trial: peers on real ones, learned representations on some."""
    left_out = set(PEERS) if trial in POPULATIONS else set()
    if trial not in LEARNT_TRIALS or split >= LEARNT_SPLITS:
        left_out |= set(LEARNT)
    left_out |= {name for name, peer in PEERS.items() if split >= (peer.max_splits or SPLITS)}
    return [model for model in MODELS if model not in left_out]


def probe(trial: str) -> None:
    """Raises DataNotFoundError if the files are not there; populations always are."""
    if trial == CRITEO:
        cu2.probe(cu2.REAL)
    elif trial in LOADERS:
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
    """The halves of a trial, and their rankings by TM and auto, to compare with."""

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
    def numbers() -> Line:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # what was reached ranks the rows
            if task.trial in POPULATIONS:
                return population_numbers(task)
            return trial_numbers(task.model, _load_split(task.trial, task.split))

    line = timed_line(task, parameters(task), numbers)
    if task.model in PEERS:
        name = PEERS[task.model].distribution
        line["peer"] = f"{name} {version(name)}"
    return line


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
    value, error = auuc_with_error(population, model)
    assert error <= TOLERANCE * (best - random)
    return {
        "auuc": value,
        "auuc_error": error,
        "best": best,
        "random": random,
        "regret": (best - value) / (best - random),
        "rows": trial.n_rows,
        "fit_seconds": seconds,
    }


# The page.

RANDOM = "random"
#: Models that are compared on all trials, in the order of the tables.
COLUMNS = (*(model for model in MODELS if model not in LEARNT), RANDOM)
ON_ENSEMBLE = tuple(model for model in LEARNT if model.startswith(AUTO))
MEAN = "mean over families"
Z95 = 1.96  # standard errors
LEAST_Z = -1.0  # that auto should have against TM on every trial


class Mean(NamedTuple):
    """A mean, and its standard error; NaN where there is none."""

    value: float
    error: float

    @classmethod
    def of(cls, means: Sequence[Mean]) -> Mean:
        """Errors as if all were one and the same, so an upper limit."""
        return cls(*(float(np.mean(column)) for column in zip(*means, strict=True)))

    def __str__(self) -> str:
        if self == (0, 0):  # a model against itself
            return "0"
        error = "" if np.isnan(self.error) else f" ({self.error:.2f})"
        return f"{self.value:+.2f}{error}"


class Arena:
    """Z by trial, family and in all: the mean over splits, over trials, over families."""

    def __init__(self, lines: Sequence[Line]) -> None:
        # The order of lines must not matter, not even to the last digit of a sum.
        lines = sorted(lines, key=lambda line: (line["trial"], line["model"], line["split"]))
        self.cells: dict[tuple[str, str], list[Line]] = {}
        for line in lines:
            self.cells.setdefault((line["trial"], line["model"]), []).append(line)
        there = {trial for trial, _ in self.cells}
        self.trials = {
            family: [trial for trial in own if trial in there] for family, own in FAMILIES.items()
        }
        self.families = [family for family, own in self.trials.items() if own]
        self.real = [trial for family in self.families for trial in self.trials[family]]
        self.models = [m for m in COLUMNS if any(self.of(t, m) for t in self.real)]
        #: Populations that one of our models has drawn, and that all of them have.
        self.populations = [p for p in POPULATIONS if any(self.of(p, m) for m in OURS)]
        self.common = [p for p in POPULATIONS if all(self.of(p, m) for m in OURS)]

    def of(self, trial: str, model: str) -> list[Line]:
        """Lines of a trial; a random order has those of TM."""
        return self.cells.get((trial, REFERENCE if model == RANDOM else model), [])

    def z(self, trial: str, model: str, rival: str = REFERENCE) -> Mean | None:
        """Mean over splits, and the mean of their errors: at least the error of the mean."""
        lines = self.of(trial, model)
        if not lines:
            return None
        if model == RANDOM:
            values = [(line["random"] - line["auuc"]) / line["unit"] for line in lines]
            return Mean(float(np.mean(values)), np.nan)
        found = [np.array(line["against"][rival]) / line["unit"] for line in lines]
        return Mean(*(float(mean) for mean in np.mean(found, axis=0)))

    def family(self, family: str, model: str) -> Mean | None:
        """Mean over its trials, if the model has them all."""
        found = [mean for t in self.trials[family] if (mean := self.z(t, model)) is not None]
        return Mean.of(found) if len(found) == len(self.trials[family]) > 0 else None

    def overall(self, model: str) -> Mean | None:
        """Mean over families, if the model has them all, with the standard error over them."""
        found = [mean for f in self.families if (mean := self.family(f, model)) is not None]
        n = len(found)
        if n < len(self.families) or not n:
            return None
        values = [mean.value for mean in found]
        error = float(np.std(values, ddof=1) / np.sqrt(n)) if n > 1 else np.nan
        return Mean(float(np.mean(values)), error)

    def ranked(self) -> list[tuple[str, Mean]]:
        """Models that have all families, the best first."""
        found = [(m, mean) for m in self.models if (mean := self.overall(m)) is not None]
        return sorted(found, key=lambda pair: -pair[1].value)

    def checks(self) -> list[Check]:
        """How auto stands on each trial that it has."""
        found = []
        for trial in self.real:
            own = {m: mean for m in self.models if m != RANDOM and (mean := self.z(trial, m))}
            if AUTO not in own:
                continue
            best = max(own, key=lambda m, own=own: own[m].value)  # type: ignore[misc]
            against = self.z(trial, best, AUTO)
            assert against is not None  # it has lines
            found.append(Check(trial, own[AUTO], best, Mean(0.0 - against.value, against.error)))
        return found

    def regret(self, population: str, model: str) -> float:
        return float(np.mean([line["regret"] for line in self.of(population, model)]))

    def mean_regret(self) -> dict[str, float]:
        """Of our models, over the populations that all of them have."""
        return {m: float(np.mean([self.regret(p, m) for p in self.common])) for m in OURS}

    def learnt_trials(self) -> list[str]:
        return [trial for trial in self.real if all(self.of(trial, m) for m in LEARNT)]

    def learnt_means(self) -> dict[str, Mean]:
        """Z against auto of AUUC-max on its representation."""
        trials = self.learnt_trials()
        own = {m: [mean for t in trials if (mean := self.z(t, m, AUTO))] for m in ON_ENSEMBLE}
        return {model: Mean.of(found) for model, found in own.items() if found}

    def share_of_zero(self) -> str:
        """How often the constraint that was chosen is 0: the ensemble itself."""
        norms = [
            n for t in self.real for m in ON_ENSEMBLE for x in self.of(t, m) for n in x["norms"]
        ]
        return page.share(float(np.mean([norm == 0 for norm in norms])))


class Check(NamedTuple):
    """Auto on one trial: against TM, and against the model with the best mean, if it is another."""

    trial: str
    to_reference: Mean
    best: str
    to_best: Mean

    @property
    def is_low(self) -> bool:
        """More than 1 Z below TM."""
        return self.to_reference.value < LEAST_Z

    @property
    def is_behind(self) -> bool:
        """Behind the best model by more than the 95% interval of the difference."""
        return self.to_best.value < -Z95 * self.to_best.error


def render(lines: list[Line]) -> str:
    arena = Arena(lines)
    parts = [_models_text(lines)]
    if arena.real:
        about = [_what_is_shown(arena), "![Z by family of trials](../images/arena.png)\n"]
        parts = [*about, _ranking_text(arena), *parts]
        parts += ["## Families\n", _family_table(arena), "## Trials\n", _trial_table(arena), _NOTES]
        if checks := arena.checks():
            parts += ["## The default on each trial\n", _check_table(checks), _check_text(checks)]
    if arena.populations:
        parts += ["## Populations that are known\n", _regret_table(arena), _REGRET]
    if arena.learnt_trials():
        parts += ["## A learned representation under AUUC-max\n", *_learnt(arena)]
    return page.written(f"{NAME}: which model ranks best on real trials", lines, *parts)


def summary(lines: list[Line]) -> str:
    arena = Arena(lines)
    if not arena.real:
        return ""
    checks = arena.checks()
    regret = sorted(arena.mean_regret().items(), key=lambda pair: pair[1]) if arena.common else []
    known = ", ".join(f"{model} {page.share(value)}" for model, value in regret)
    return (
        "![Z by family of trials](images/arena.png)\n\n"
        "Z is the AUUC of a model minus that of TM, two logistic models, in units of the noise of "
        "the trial: the standard error that the AUUC of any fixed score has on its rows. Models "
        "have their defaults and learn from one half of a trial to rank the other. "
        f"{_ranking_text(arena)}{_check_text(checks) if checks else ''}\n"
        f"Where the truth is known, {len(arena.common)} populations of 2,000 to 200,000 rows, the "
        f"mean regret (0%: the true effect, 100%: a random order) is: {known}. All trials, "
        f"settings and caveats: {page.link(NAME)}.\n"
    )


def claims(lines: list[Line]) -> list[page.Claim]:
    """The paper's conjecture that a learned representation improves AUUC-max."""
    arena = Arena(lines)
    found = arena.learnt_means()
    if not found:
        return []
    better = [model for model, mean in found.items() if mean.value > Z95 * mean.error]
    return [
        page.Claim(
            "Conjecture: a learned representation improves AUUC-max",
            f"Z against the ensemble whose leaves or log-odds it gets: "
            f"{'; '.join(f'{model} {mean}' for model, mean in found.items())}. Its constraint was "
            f"chosen to be 0, no change, in {arena.share_of_zero()} of the fits",
            f"for {', '.join(better)}" if better else "not seen",
        )
    ]


def _what_is_shown(arena: Arena) -> str:
    counts = ", ".join(f"{family} {len(arena.trials[family])}" for family in arena.families)
    return (
        "A trial is cut into halves, stratified by treatment and outcome; a model of one half "
        "ranks the other, both ways. AUUC is that of y - m(x), m a model of the outcome (logistic, "
        "both arms together) of the training half. Z is the AUUC of a model minus that of TM (two "
        "logistic models) in units of sd(z) / sqrt(12 n), the standard error that the AUUC of any "
        "fixed score has on the n rows of the trial; z = (y - m(x)) (t - e) / (e (1 - e)), e the "
        "treated share. Trials that share rows are one family, and count as one in the mean "
        f"({counts}). Raw columns go through `TableEncoder`, fitted on the training half. Nothing "
        "is tuned here: every model has its defaults. But the trials are not new to ours: the "
        "defaults of AUUCMax were chosen on other splits of five of them (page defaults), and "
        "auto was put together on thirty trials of which no list is kept, so these may be among "
        "them.\n"
    )


def _ranking_text(arena: Arena) -> str:
    """The means in order, and the place of the default."""
    ranked, n = arena.ranked(), len(arena.families)
    names = [model for model, _ in ranked]
    if not ranked:
        return ""
    place = f"The default, {AUTO}, is number {names.index(AUTO) + 1} of {len(names)}. "
    return (
        f"Mean Z over {n} families, with the standard error over them, from the best: "
        f"{'; '.join(f'{model} {mean}' for model, mean in ranked)}. "
        f"{place if AUTO in names else ''}A standard error over {n} families has {n - 1} degrees "
        f"of freedom: it is imprecise itself. "
    )


def _models_text(lines: Sequence[Line]) -> str:
    there = {line["model"] for line in lines}
    versions = sorted({line["peer"] for line in lines if "peer" in line})
    said = [
        f"{name}: {peer.settings}"
        + (f", fitted to at most {peer.max_rows:,} rows" if peer.max_rows else "")
        + (f", {peer.max_splits} splits at most" if peer.max_splits else "")
        for name, peer in PEERS.items()
        if name in there
    ]
    return (
        "auto: `UpliftEnsemble`; SI: `ShrunkInteractions`; HB: `BoostedEffect`; response: "
        "`ResponseModel`; class means: the difference between treated and control of mean(x | y = "
        "1) - mean(x | y = 0), for which nothing is minimised. Of other libraries "
        f"({page.listed(versions)}), with LightGBM at its defaults wherever they take a model: "
        f"{'; '.join(said) or 'none'}. Not run: "
        f"{page.listed([name for name in MODELS if name not in there])}.\n"
    )


def _family_table(arena: Arena) -> str:
    """A row a model, the best first; Z of each family and in all, with standard errors."""
    ranked = [model for model, _ in arena.ranked()]
    rows = []
    for model in [*ranked, *(m for m in arena.models if m not in ranked)]:
        own = [arena.overall(model), *(arena.family(f, model) for f in arena.families)]
        rows.append([model, *(str(mean or "") for mean in own)])
    return page.table(["Z", MEAN, *arena.families], rows)


def _trial_table(arena: Arena) -> str:
    rows = []
    for trial in arena.real:
        counts = [len(arena.of(trial, model)) for model in arena.models if model != RANDOM]
        size = f"{arena.of(trial, REFERENCE)[0]['rows']:,}"
        means = [arena.z(trial, model) for model in arena.models]
        rows.append([trial, size, _span(counts), *map(_cell, means)])
    return page.table(["Z", "rows", "splits", *arena.models], rows)


def _span(counts: Sequence[int]) -> str:
    return " to ".join(str(n) for n in sorted({min(counts), max(counts)}))


def _cell(mean: Mean | None) -> str:
    return "" if mean is None else str(mean._replace(error=np.nan)) if mean != (0, 0) else "0"


def _check_table(checks: Sequence[Check]) -> str:
    header = ["trial", f"{AUTO} minus TM", "at least -1", "best mean", f"{AUTO} minus it",
              "significant"]  # fmt: skip
    rows = [
        [
            check.trial,
            str(check.to_reference),
            "**no**" if check.is_low else "yes",
            check.best,
            "" if check.best == AUTO else str(check.to_best),
            "**yes**" if check.is_behind else "no",
        ]
        for check in checks
    ]
    return page.table(header, rows)


def _check_text(checks: Sequence[Check]) -> str:
    low = [check.trial for check in checks if check.is_low]
    behind = [f"{check.trial} (behind {check.best})" for check in checks if check.is_behind]
    first = sum(check.best == AUTO for check in checks)
    return (
        f"On {len(checks)} trials {AUTO} is more than 1 Z below TM on {len(low)} "
        f"({page.listed(low)}), has the best mean on {first}, and is significantly behind the best "
        f"(by more than {Z95:g} standard errors of the paired difference, for one pair) on "
        f"{len(behind)} ({page.listed(behind)}).\n"
    )


def _regret_table(arena: Arena) -> str:
    """A row a population; regret of our models."""
    rows = []
    if n := len(arena.common):
        cells = (f"**{page.share(regret)}**" for regret in arena.mean_regret().values())
        rows.append([f"**mean of {n} populations**", "", "", *cells])
    for name in arena.populations:
        seeds = _span([len(arena.of(name, model)) for model in OURS])
        kind, _, size = name.rpartition(", ")
        shares = (page.share(arena.regret(name, m)) if arena.of(name, m) else "" for m in OURS)
        rows.append([kind, size.removesuffix(" rows"), seeds, *shares])
    return page.table(["regret", "rows", "seeds", *OURS], rows)


_REGRET = (
    "Regret: (best AUUC - AUUC in the population) / (best AUUC - ATE / 2), 0% for the true "
    "effect and 100% for a random order, of our models on drawn trials (3 seeds are planned); "
    "the mean is over populations that all of them have. No heterogeneity: none in log-odds, "
    "so that those with a higher base rate still gain more.\n"
)
_NOTES = (
    "In brackets: of a family the closed-form standard error of the difference to TM given the "
    "fitted scores, its variance counted twice since each half has trained the other's model, "
    "averaged over splits and trials as if they were one; so it is an upper limit. Splits: how "
    "many halvings were run, fewest and most of any model; a split is two fits. random: half of "
    "the average effect. Social pressure was randomised by household, and the file has no "
    "household number: its errors are a little small. A sixth of its rows are treated, and "
    "scikit-uplift's class transformation is meant for arms of one size. Criteo is shown if its "
    "file was at hand.\n"
)


def _learnt(arena: Arena) -> list[str]:
    trials = arena.learnt_trials()
    known = [p for p in arena.populations if all(arena.of(p, model) for model in LEARNT)]
    first = next(iter(LEARNT))
    rows = [
        [trial, str(len(arena.of(trial, first))),
         *(f"{_cell(arena.z(trial, m))} / {arena.z(trial, m, AUTO)}" for m in LEARNT)]
        for trial in trials
    ]  # fmt: skip
    rows += [
        [f"regret, {name}", str(len(arena.of(name, first))),
         *(page.share(arena.regret(name, m)) for m in LEARNT)]
        for name in known
    ]  # fmt: skip
    means = "; ".join(f"{model} {mean}" for model, mean in arena.learnt_means().items())
    text = (
        "auto + leaves, auto + logits: to the score of the ensemble w.phi(x) is added, phi the "
        "leaves of its trees or the log-odds of its members, w by AUUC-max on rows that the "
        "ensemble was not trained on (4 folds, whose models are averaged); ||w|| <= Lambda, "
        "Lambda by AUUC of rows that w was not trained on, and 0 leaves the ensemble unchanged. "
        "net: a network of two layers of 64, fitted by likelihood; AUUCNet: the same, moved "
        "further by the gradient of AUUC-max's objective while the AUUC of held-out rows "
        "improves. Cells: Z against TM, and against auto with its standard error. Mean Z against "
        f"auto over these {len(trials)} trials: {means}. Lambda = 0 was chosen in "
        f"{arena.share_of_zero()} of the fits.\n"
    )
    return [page.table(["Z against TM / auto", "splits", *LEARNT], rows), text]


# The picture.


def draw(lines: list[Line]) -> Figure:
    """Z of every model, a panel a family and one of their mean; the best mean on top."""
    arena = Arena(lines)
    ranked = [model for model, _ in arena.ranked()]
    names = ranked + [model for model in arena.models if model not in ranked]
    names = [model for model in names if model != REFERENCE]
    panels = [MEAN, *arena.families]
    figure = Figure(figsize=(11, 0.32 * len(names) + 1.6), layout="constrained")
    axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    colours = {
        "auucmax": "#d62728",
        "LightGBM and other libraries": "#1f77b4",
        "random order": "0.4",
    }
    own, other, by_chance = colours.values()
    for ax, panel in zip(axes, panels, strict=True):
        ax.spines[["top", "right", "left"]].set_visible(False)
        ax.tick_params(axis="y", length=0)
        ax.grid(axis="y", color="0.93")
        ax.axvline(0, color="0.5", lw=1, zorder=0)
        ax.set_title(panel, fontsize=11)
        for place, model in enumerate(names):
            mean = arena.overall(model) if panel == MEAN else arena.family(panel, model)
            if mean is not None:
                colour = by_chance if model == RANDOM else own if model in OURS else other
                error = 0.0 if np.isnan(mean.error) else mean.error
                style: Any = {"fmt": "o", "color": colour, "ms": 5, "lw": 1.4}
                ax.errorbar([mean.value], [place], xerr=[error], **style)
    axes[0].set_yticks(range(len(names)), names)
    axes[0].set_ylim(len(names) - 0.4, -0.6)
    figure.supxlabel(
        "Z: AUUC minus that of TM (0), in standard errors of a fixed score", fontsize=10
    )
    legend = [Line2D([], [], marker="o", ls="", color=c, label=name) for name, c in colours.items()]
    legend.append(Line2D([], [], color="0.4", lw=1.4, label="one standard error to each side"))
    figure.legend(handles=legend, loc="outside upper center", ncols=4, frameon=False)
    return figure
