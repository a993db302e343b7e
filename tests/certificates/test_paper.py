import numpy as np
import pytest
from experiments.rival_bounds.training import margin_bound

from auucmax import auuc_score, load_hillstrom
from auucmax.certificates import paper_bound, paper_gap

HILLSTROM = (3238, 18149, 2262, 19044)


@pytest.mark.parametrize(
    ("size", "gap", "printed"),
    [
        (0.0, 0.0092, 0.0061),
        (0.0528, 0.0103, 0.0068),
        (0.5, 0.0191, 0.0129),
        (0.8, 0.0250, 0.0170),
        (1.0, 0.0290, 0.0197),
        (2.65, 0.0611, 0.0418),
        (12.8, 0.256, 0.176),
    ],
)
def test_values_on_hillstrom(size, gap, printed):
    places = 5e-4 if size > 10 else 6e-5
    assert paper_gap(*HILLSTROM, norm=size, radius=1) == pytest.approx(gap, abs=places)
    value = paper_gap(*HILLSTROM, norm=1, radius=size, control_count="printed")
    assert value == pytest.approx(printed, abs=places)


def test_lower_is_auuc_minus_gap():
    trial = load_hillstrom()
    score = trial.X["womens"]
    bound = paper_bound(trial.y, score, treatment=trial.treatment, norm=0.5, radius=1)
    auuc = auuc_score(trial.y, score, treatment=trial.treatment, ranking="separate")
    gap = paper_gap(*HILLSTROM, norm=0.5, radius=1)
    assert bound.estimate == auuc
    assert bound.lower == auuc - gap
    assert bound.gap == pytest.approx(gap)


@pytest.mark.gate
def test_it_does_not_hold():
    """Noise labels, more features than rows, a short w: the printed bound exceeds the truth.

    Outcomes are coin flips whatever the treatment, so every score has AUUC 0 in the population.
    """
    rng = np.random.default_rng(0)
    n, d = 1200, 1500
    X = rng.normal(size=(n, d)) / np.sqrt(d)
    X /= np.linalg.norm(X, axis=1).max()
    y, t = rng.integers(0, 2, n), np.arange(n) % 2
    target = np.where(t == 1, y, 1 - y) - 0.5
    w = np.linalg.lstsq(X, target, rcond=None)[0]  # interpolates: every pair is ranked right
    w *= 0.01 / np.linalg.norm(w)
    bound = paper_bound(y, X @ w, treatment=t, norm=0.01, radius=1)
    assert bound.lower > 0.1  # and the truth is 0


@pytest.mark.gate
def test_it_does_not_hold_where_the_margin_bound_does():
    """400 rows an arm and outcome, 2,000 features, no signal, ||w|| = .01 R.

    Every training pair is ranked right, so AUUC is .250 and the printed guarantee .181; the truth
    is 0, and the margin bound, at any margin, promises no more than that.
    """
    rng = np.random.default_rng(1)
    n, d = 1600, 2000
    X = rng.normal(size=(n, d))
    X /= np.linalg.norm(X, axis=1).max()
    y, t = np.arange(n) % 2, np.arange(n) // 2 % 2
    target = np.where(t == 1, y, 1 - y) - 0.5
    w = X.T @ np.linalg.solve(X @ X.T, target)  # the shortest w that interpolates
    w *= 0.01 / np.linalg.norm(w)
    score = X @ w
    bound = paper_bound(y, score, treatment=t, norm=0.01, radius=1)
    assert bound.estimate == 0.25
    assert bound.lower == pytest.approx(0.181, abs=5e-4)
    fresh = rng.normal(size=(n, d)) @ w
    assert abs(auuc_score(y, fresh, treatment=t, ranking="separate")) < 0.03
    for rho in np.geomspace(1e-5, 1e-1, 9):
        options = {"treatment": t, "norm": 0.01, "rho": rho}
        assert margin_bound(y, score, radius=1, **options).lower <= 0
        assert margin_bound(y, score, X=X, **options).lower <= 0


def test_bad_input():
    y, score, t = [1, 0, 1, 0], [1, 2, 3, 4], [1, 1, 0, 0]
    with pytest.raises(ValueError, match="y should be 0 or 1"):
        paper_bound([1, 2, 3, 4], score, treatment=t, norm=1, radius=1)
    with pytest.raises(ValueError, match="both outcomes"):
        paper_bound([1, 1, 1, 0], score, treatment=t, norm=1, radius=1)
    with pytest.raises(ValueError, match="delta should be a number strictly"):
        paper_bound(y, score, treatment=t, norm=1, radius=1, delta=0)
    for option in ({"norm": -1, "radius": 1}, {"norm": 1, "radius": np.nan}):
        with pytest.raises(ValueError, match="should be a number of at least 0"):
            paper_bound(y, score, treatment=t, **option)
    with pytest.raises(ValueError, match="control_count should be one of"):
        paper_bound(y, score, treatment=t, norm=1, radius=1, control_count="all")
