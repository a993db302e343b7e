"""What stands for numba in its benchmark gives the same results, and the rule is applied."""

import argparse
import json
import subprocess
import sys

import numpy as np
import pytest
from benchmarks import __main__ as command
from benchmarks import kernels, kernels_numpy

from auucmax.certificates import kernels as bounds_kernels
from auucmax.certificates.betting import HEDGE
from auucmax.certificates.blocks import deviations
from auucmax.certificates.reference import block_statistics_slow
from auucmax.estimators import trees_kernel
from auucmax.estimators.boosting import Bins, Boosting, Growth
from auucmax.estimators.targets import BINOMIAL, GAUSSIAN

BETTING = ("hedged_wealth", "log_wealth", "mixture_path")
TREES = ("pack", "grow", "add_leaves")


@pytest.mark.parametrize("ties", [False, True])
def test_blocks_that_are_sorted_together(ties):
    rng = np.random.default_rng(0)
    score = rng.integers(0, 4, 60).astype(float) if ties else rng.random(60)
    residual, ends = rng.normal(size=60), np.array([[3, 6, 10, 13], [5, 9, 14, 18]])
    treated, control = np.split(rng.permutation(60)[:31], [13])
    ranks = np.unique(score, return_inverse=True)[1].astype(np.int32)[None]
    found = np.empty((2, 4))
    shift = 0.2
    kernels_numpy.block_statistics(
        ranks, np.ones(1), residual, shift, treated, control, ends, found
    )
    for centre, own in zip((0.0, 0.5), found, strict=True):
        known = score, residual - shift, centre, treated, control, ends
        np.testing.assert_allclose(own, block_statistics_slow(*known), atol=1e-12)


def test_bets_are_those_of_the_compiled_ones(monkeypatch):
    w, design = kernels._dealt(3_000)
    theta = w.mean() - np.linspace(-1, 6, 16) * w.std() / np.sqrt(len(w))
    spread, bets = deviations(w, design, 0.5), np.array([0.3, 0.1])

    def played():
        out, paths = np.empty(16), np.zeros((2, len(design.superblocks) + 1, 2))
        game = w, design.superblocks, spread, theta, 0.6, 0.5, 30.0, HEDGE, out
        bounds_kernels.hedged_wealth(*game)
        bounds_kernels.mixture_path(w, design.superblocks, 0.01, bets, *paths)
        return out, bounds_kernels.log_wealth(w, design.superblocks, 0.01, 0.3), paths

    expected = played()
    for name in BETTING:
        monkeypatch.setattr(bounds_kernels, name, getattr(kernels_numpy, name))
    for found, own in zip(played(), expected, strict=True):
        np.testing.assert_allclose(found, own, rtol=1e-9, atol=1e-12)


@pytest.mark.gate
@pytest.mark.parametrize("squares", [False, True])
def test_trees_are_those_of_the_compiled_ones(monkeypatch, squares):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(900, 5)).round(1)
    X[rng.random(X.shape) < 0.1] = np.nan
    y = (np.nan_to_num(X[:, 0] * X[:, 1]) + rng.normal(size=900) > 0).astype(float)
    ones, weight, bins = np.ones(900), rng.random(900), Bins.of(X)
    parts = np.array([[0, 400], [600, 900]])

    def grown():
        rows = np.zeros(900), ones, y, weight, parts, Growth(6, 0.3, 9, 1.0)
        run = Boosting(bins, *rows, GAUSSIAN if squares else BINOMIAL)
        run.grow(7)
        return run

    expected = grown()
    for name in TREES:
        monkeypatch.setattr(trees_kernel, name, getattr(kernels_numpy, name))
    found = grown()
    for own, tree in zip(found.trees, expected.trees, strict=True):
        np.testing.assert_array_equal(own.splits, tree.splits)
        np.testing.assert_allclose(own.values, tree.values, rtol=1e-12)
    np.testing.assert_allclose(found.score, expected.score, rtol=1e-12)


@pytest.mark.gate
@pytest.mark.parametrize("name", ["trees", "weighted_gram"])
def test_the_numpy_of_the_package_gives_the_same(name):
    """In processes of their own: which of the two is used holds for all calls."""
    code = (
        "import sys, hashlib, numpy as np; from benchmarks.kernels import prepare; "
        "found = prepare(sys.argv[1], 3_000, sys.argv[2])(); "
        "found = found.round(6) + 0.0; "
        "print(hashlib.sha256(found.tobytes()).hexdigest())"
    )
    numba, numpy = (
        subprocess.run(
            [sys.executable, "-c", code, name, library],
            cwd=command.ROOT, capture_output=True, text=True, check=True,
        ).stdout
        for library in ("numba", "numpy")
    )  # fmt: skip
    assert numba == numpy


def test_two_processes_a_case(monkeypatch, capsys):
    calls = []

    def run(command, **options):
        calls.append(command[-3:])
        return argparse.Namespace(stdout=f"told before\n{len(calls)}.0\n")

    monkeypatch.setattr(kernels.subprocess, "run", run)
    records = kernels.run(argparse.Namespace(quick=False, only=None))
    assert calls[:2] == [["moments", "1000000", "numba"], ["moments", "1000000", "numpy"]]
    assert {one["rows"] for one in records if one["case"] != "fit"} == {1_000_000}
    assert kernels.ratios(records)["moments"] == 2.0
    assert "to numba" in kernels.table_of(records)
    assert "vector_moments numpy  1,000,000 rows" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("seconds", "library", "n_calls", "found"),
    [
        ([9.0, 0.1, 0.3, 0.2], "numba", 4, 0.2),
        ([1.0, 1.5, 1.2, 1.1], "numpy", 4, 1.2),
        ([90.0, 20.0], "numba", 2, 20.0),
        ([90.0], "numpy", 1, 90.0),
    ],
)
def test_long_calls_are_few(monkeypatch, seconds, library, n_calls, found):
    clock = iter([time for own in seconds for time in (0.0, own)])
    monkeypatch.setattr(kernels.time, "process_time", lambda: next(clock))
    calls = []
    assert kernels.measure(lambda: calls.append(1), library) == found
    assert len(calls) == n_calls


def test_the_rule_decides_and_the_page_says_what_was_kept():
    made = [
        {"case": case, "library": library, "seconds": 1.9 if library == "numpy" else 1.0}
        for case in kernels.WHOLE for library in ("numba", "numpy")
    ]  # fmt: skip
    assert kernels.sentence(made).endswith("numba could be an extra.")
    made[1]["seconds"] = 2.1
    assert kernels.sentence(made).endswith("numba stays in the base.")
    records = json.loads((command.RESULTS / "kernels.json").read_text())
    assert kernels.stays(records)
    text = command.INSTALL.read_text()
    assert command.with_figures(text, "kernels", kernels.sentence(records)) == text
