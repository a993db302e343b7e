"""Whether numba is worth its megabytes: what it compiles, against the same in plain numpy.

The rule: numba stays a dependency of the base if numpy takes more than twice as long at a million
rows. Seconds are those of the processors, of all threads together: both may use as many, and what
else a machine does counts for neither. Passes of `pairs` (moments, vector_moments, weighted_sum,
weighted_gram, row_values) and scores of 20 trees are those of the package, which
has them in numpy for fewer rows; the others are written for this comparison
(`benchmarks/kernels_numpy.py`): blocks of rows that are sorted together, bets on all values of a
grid at once, histograms by bincount. 12 features.

grow       five boosted trees of six leaves
deal       the blocks of one certificate, all of its dealings
hedge      wealth of one dealing at 16 values; wealth, path: bets of one size, and of 18
certify    the whole certificate of a million rows
auucmax    the whole fit of `AUUCMax` to a million rows
fit        `auucmax.fit` by default, 5,000 rows of Hillstrom: folds, rivals, evidence
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks import harness
from benchmarks.commands import ROOT

ROWS, FEATURES, N_TREES, FIT_ROWS = 1_000_000, 12, 20, 5_000
LONG = 2.0  # seconds
PASSES = ("moments", "vector_moments", "weighted_sum", "weighted_gram", "row_values")
OTHERS = ("trees", "grow", "deal", "hedge", "wealth", "path", "certify", "auucmax", "fit")
WORTH = 2.0  #: numba stays if numpy takes more than so many times as long


def run(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Records of all cases, or of one; ``--quick``: 5,000 rows, whatever they show."""
    records = []
    for name in (*PASSES, *OTHERS) if arguments.only is None else (arguments.only,):
        rows = FIT_ROWS if arguments.quick or name == "fit" else ROWS
        for library in ("numba", "numpy"):
            command = [sys.executable, "-m", "benchmarks.kernels", name, str(rows), library]
            done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
            seconds = float(done.stdout.splitlines()[-1])
            print(f"  {name:<14} {library} {rows:>10,} rows {seconds:10.4f} s", flush=True)
            known = {"case": name, "library": library, "rows": rows}
            records.append({"benchmark": "kernels", **known, "seconds": seconds, "peak_mb": None})
    return records


def table_of(records: list[dict[str, Any]]) -> str:
    """Seconds, and those of numpy as a ratio to those of numba."""
    return harness.table_of(records, {"to numba": ["numba"]})


def measure(call: Callable[[], Any], library: str) -> float:
    """Seconds of the processors: the median of three calls after one that compiles.

    Of one that takes long, if it is long: in numpy, which compiles nothing, of the first.
    """
    first = _seconds(call)
    if first > LONG and library == "numpy":
        return first
    second = _seconds(call)
    return second if second > LONG else statistics.median([second, _seconds(call), _seconds(call)])


def _seconds(call: Callable[[], Any]) -> float:
    start = time.process_time()
    call()
    return time.process_time() - start


def prepare(name: str, rows: int, library: str) -> Callable[[], Any]:
    """The call of a case, in a process of which all calls are numba's or numpy's."""
    if library == "numpy":
        from benchmarks.kernels_numpy import use_numpy

        use_numpy()
    call: Callable[[], Any] = _pass(name, rows) if name in PASSES else globals()[f"_{name}"](rows)
    return call


def _features(rows: int) -> Any:
    return np.random.default_rng(0).normal(size=(rows, FEATURES))


def _trial(rows: int) -> tuple[Any, Any, Any]:
    """Outcome, score and treatment."""
    rng = np.random.default_rng(1)
    score, treated = rng.random(rows), rng.random(rows) < 0.5
    return (rng.random(rows) < 0.1 + 0.06 * treated * score).astype(float), score, treated


def _pass(name: str, rows: int) -> Callable[[], Any]:
    from auucmax.pairs import passes

    passes.COMPILE_ROWS = 0
    rng = np.random.default_rng(2)
    w, bins = rng.normal(size=FEATURES), passes.Bins.covering(-30.0, 30.0, 0.1)
    known = passes.PairRows(_features(rows), rng.integers(0, 4, rows).astype(np.int8)), w, bins
    own = getattr(passes, name)
    if name.endswith("moments"):
        return lambda: own(*known)
    coefficients = rng.normal(size=(4, bins.size, 4))
    return lambda: own(*known, coefficients)


def _boosting(rows: int) -> Any:
    from auucmax.estimators.boosting import Bins, Boosting, Growth

    X, rng = _features(rows), np.random.default_rng(3)
    y = (rng.random(rows) < 1 / (1 + np.exp(X[:, 0] * X[:, 1]))).astype(float)
    ones, parts, growth = np.ones(rows), np.array([[0, rows]]), Growth(6, 0.1, 20, 1.0)
    return Boosting(Bins.of(X), np.zeros(rows), ones, y, ones, parts, growth)


def _grow(rows: int) -> Callable[[], Any]:
    run = _boosting(rows)
    return lambda: run.grow(len(run.trees) + 5)


def _trees(rows: int) -> Callable[[], Any]:
    from auucmax.estimators import trees
    from auucmax.estimators.boosting import tree_scores

    trees.READY_STEPS = trees.COMPILE_STEPS = 0
    run = _boosting(20_000)
    run.grow(N_TREES)
    grown, X = tree_scores(run.trees, run.bins), _features(rows)
    return lambda: grown.predict(X)


def _blocks(rows: int) -> tuple[Any, ...]:
    from auucmax.certificates.betting import dense_ranks
    from auucmax.certificates.blocks import BlockDesign, DealtUnits

    y, score, treated = _trial(rows)
    units = DealtUnits.of(treated)
    design = BlockDesign.of(len(units.treated), len(units.control))
    return dense_ranks(score)[None], np.ones(1), y, float(y.mean()), units, design


def _dealt(rows: int, seed: int = 0) -> tuple[Any, Any]:
    """(blocks, re-dealings) statistics of the gain, and their design."""
    from auucmax.certificates.blocks import deal

    known = _blocks(rows)
    return deal(*known, np.random.SeedSequence(seed))[1], known[-1]


def _deal(rows: int) -> Callable[[], Any]:
    from concurrent.futures import ThreadPoolExecutor

    from auucmax.certificates.blocks import deal, n_dealings_of

    known = _blocks(rows)
    seeds = np.random.SeedSequence(0).spawn(n_dealings_of(rows))

    def dealings() -> Any:
        with ThreadPoolExecutor() as pool:
            return list(pool.map(lambda seed: deal(*known, seed), seeds))

    return dealings


def _hedge(rows: int) -> Callable[[], Any]:
    from auucmax.certificates import kernels
    from auucmax.certificates.betting import AIM, HEDGE
    from auucmax.certificates.blocks import deviations
    from auucmax.certificates.fixed_bets import LARGEST_LOSS

    w, design = _dealt(rows)
    spread, out = deviations(w, design, 0.5), np.empty(16)
    theta = w.mean() - np.linspace(1, 5, 16) * w.std() / np.sqrt(len(w))
    game = w, design.superblocks, spread, theta, 0.6, LARGEST_LOSS, 1 / (AIM * 0.05), HEDGE, out
    return lambda: kernels.hedged_wealth(*game)


def _wealth(rows: int) -> Callable[[], Any]:
    from auucmax.certificates import kernels

    w, design = _dealt(rows)
    return lambda: kernels.log_wealth(w, design.superblocks, 0.0, 0.01)


def _path(rows: int) -> Callable[[], Any]:
    from auucmax.certificates import kernels

    w, design = _dealt(rows)
    bets = 0.1 * 2.0 ** -np.arange(18.0)
    credit, staked = np.zeros((2, len(design.superblocks) + 1, len(bets)))
    return lambda: kernels.mixture_path(w, design.superblocks, 0.0, bets, credit, staked)


def _certify(rows: int) -> Callable[[], Any]:
    from auucmax import certify

    y, score, treated = _trial(rows)
    return lambda: certify(score, y=y, treatment=treated)


def _auucmax(rows: int) -> Callable[[], Any]:
    from auucmax import AUUCMax

    X, (y, _, treated) = _features(rows), _trial(rows)
    return lambda: AUUCMax().fit(X, y, treatment=treated)


def _fit(rows: int) -> Callable[[], Any]:
    from auucmax import fit, load_hillstrom, read_trial

    trial = load_hillstrom(encoding="raw")
    table = trial.X[:rows].assign(mail=trial.treatment[:rows], visit=trial.y[:rows])
    return lambda: fit(read_trial(table, treatment="mail", outcome="visit"))


def ratios(records: list[dict[str, Any]]) -> dict[str, float]:
    """How many times as long as numba numpy takes, by case.

    >>> made = [{"case": "fit", "library": "numba", "seconds": 2.0}]
    >>> ratios([*made, {"case": "fit", "library": "numpy", "seconds": 7.0}])
    {'fit': 3.5}
    """
    seconds = {(one["case"], one["library"]): one["seconds"] for one in records}
    cases = dict.fromkeys(one["case"] for one in records)
    return {case: seconds[case, "numpy"] / seconds[case, "numba"] for case in cases}


def stays(records: list[dict[str, Any]]) -> bool:
    """Whether numba stays in the base, by the rule: numpy is too slow where people wait."""
    return max(ratios(records)[case] for case in WHOLE) > WORTH


def sentence(records: list[dict[str, Any]]) -> str:
    """What follows from the records, for a page."""
    found = ratios(records)
    told = ", ".join(f"{case} {ratio:.1f}" for case, ratio in found.items())
    return (
        f"In plain numpy, {' '.join(_WORDS[name].format(found[name]) for name in WHOLE)} By part: "
        f"{told} times. numba {'stays in the base' if stays(records) else 'could be an extra'}."
    )


_WORDS = {
    "fit": "`auucmax fit` takes {:.1f} times as long (5,000 rows),",
    "certify": "a certificate of a million rows {:.1f} times,",
    "auucmax": "a fit of `AUUCMax` to a million rows {:.1f} times.",
}
WHOLE = tuple(_WORDS)


if __name__ == "__main__":
    name, rows, library = sys.argv[1:]
    print(measure(prepare(name, int(rows), library), library))
