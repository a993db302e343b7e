import subprocess
import sys
import tracemalloc

import numpy as np
import pytest
from tests.pairs.pair_rows import Rows, trial

from auucmax.pairs import Bins, PairObjective, PairRows, box_range, passes

pytest.importorskip("numba")

N = 20_001
NAMES = ["moments", "vectors", "sum", "gram", "rows"]


def run(name, rows, w, bins):
    coefficients = np.random.default_rng(0).normal(size=(rows.n_classes, bins.size, 6))
    return {
        "moments": lambda: passes.moments(rows, w, bins),
        "vectors": lambda: passes.vector_moments(rows, w, bins, 3),
        "sum": lambda: passes.weighted_sum(rows, w, bins, coefficients),
        "gram": lambda: passes.weighted_gram(rows, w, bins, coefficients),
        "rows": lambda: passes.row_values(rows, w, bins, coefficients),
    }[name]()


def rows_of(X, weighted=True, outcome="money"):
    _, y, treatment, weight, w = trial(N, outcome=outcome)
    bins = Bins.covering(*box_range(X.min(axis=0), X.max(axis=0), w), 0.1)
    rows = Rows(X @ w, y, treatment == 1, weight if weighted else None)
    return PairRows(X, rows.codes, rows.weight, rows.levels.n_classes), w, bins


def features(dtype, layout):
    X = trial(N)[0].astype(dtype)
    if layout == "F":
        return np.asfortranarray(X)
    if layout == "strided":
        wide = np.zeros((2 * N, 9), dtype)
        wide[::2, ::-2][:, :4] = X
        return wide[::2, ::-2][:, :4]
    return X


@pytest.mark.gate_cases(
    "False",
    "True-binary-moments-float32-F",
    "True-binary-moments-float64",
    "True-binary-sum-float64",
    "True-money",
)
@pytest.mark.parametrize(
    ("name", "dtype", "layout"),
    [(name, np.float32, "C") for name in NAMES]
    + [("moments", dtype, "F") for dtype in (np.float32, np.float64)]
    + [("sum", np.float64, layout) for layout in ("C", "strided")],
)
@pytest.mark.parametrize(
    ("weighted", "outcome"), [(False, "binary"), (True, "binary"), (True, "money")]
)
def test_kernels_equal_their_numpy_twins(name, dtype, layout, weighted, outcome, monkeypatch):
    rows, w, bins = rows_of(features(dtype, layout), weighted, outcome)
    assert rows.n_classes == (4 if outcome == "binary" else 64)
    expected = run(name, rows, w, bins)
    monkeypatch.setattr(passes, "COMPILE_ROWS", 0)
    got = run(name, rows, w, bins)
    if name != "rows":  # a row on the edge of two bins may go to either
        assert got == pytest.approx(expected, abs=1e-9 * np.abs(expected).max())
    else:
        assert np.isclose(got, expected, atol=1e-9 * np.abs(expected).max()).mean() > 0.999


@pytest.mark.parametrize("name", NAMES)
def test_the_number_of_threads_changes_no_bit(name, monkeypatch):
    rows, w, bins = rows_of(features(np.float32, "C"))
    monkeypatch.setattr(passes, "COMPILE_ROWS", 0)
    results = []
    for threads in (1, 2, 7):
        monkeypatch.setattr(passes, "n_threads", lambda threads=threads: threads)
        results.append(run(name, rows, w, bins))
    assert all(np.array_equal(results[0], other) for other in results[1:])


@pytest.mark.gate
def test_small_problems_compile_nothing():
    code = (
        "import sys, numpy as np\n"
        "from auucmax.pairs import PairObjective\n"
        "o = PairObjective(np.eye(4), [1, 0, 0, 1], treatment=[1, 1, 0, 0])\n"
        "o.value_and_gradient(np.ones(4)), o.hessian(np.ones(4))\n"
        "print('numba' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize("compile_rows", [0, 10**9])
def test_rows_that_changed_since(compile_rows, monkeypatch):
    monkeypatch.setattr(passes, "COMPILE_ROWS", compile_rows)
    X, y, treatment, _, w = trial(N)
    objective = PairObjective(X, y, treatment=treatment, surrogate="s_log")
    X[17] = 1000.0 * w
    with pytest.raises(ValueError, match="got 1 rows outside"):
        objective.value(w)


@pytest.mark.parametrize("surrogate", ["s_log", "s_poly"])
def test_memory_beyond_the_rows(surrogate):
    n = passes.COMPILE_ROWS + 300_000
    X, y, treatment, _, w = trial(n, d=6)
    X = X.astype(np.float32)
    warm = PairObjective(X, y, treatment=treatment, surrogate=surrogate)
    warm.value_and_gradient(w), warm.hessian(w)
    tracemalloc.start()
    objective = PairObjective(X, y, treatment=treatment, surrogate=surrogate)
    objective.value_and_gradient(w)
    objective.hessian(w)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert objective.rows.X is X
    assert peak < 20 * n
