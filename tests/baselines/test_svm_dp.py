import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning

from auucmax import auuc_inference, load_hillstrom, make_trial
from auucmax.baselines import SVMDifferentialPrediction
from auucmax.baselines.svm_dp import ArmPairs, minimise_pair_hinge
from auucmax.pairs import PairObjective, hinge


def small_arms(seed, d=3, most=7):
    """Two arms of a few rows; even seeds have 0/1 features, so pairs pile up at the kink."""
    rng = np.random.default_rng(seed)
    arms = []
    for multiplier in (1.0, 0.7):
        sizes = rng.integers(1, most, 2)
        winners, losers = (
            rng.normal(size=(k, d)) if seed % 2 else rng.integers(0, 2, (k, d)).astype(float)
            for k in sizes
        )
        u, v = (rng.integers(1, 4, k) / k for k in sizes)
        arms.append(ArmPairs(winners, losers, u, v, multiplier))
    return arms


def all_pairs(arms):
    """Differences of all pairs, and what each counts."""
    gaps = [(a.winners[:, None] - a.losers).reshape(-1, a.winners.shape[1]) for a in arms]
    counts = [(a.winner_weight[:, None] * a.loser_weight).ravel() * a.multiplier for a in arms]
    return np.vstack(gaps), np.concatenate(counts)


def minimise_all_pairs(arms, C):
    """The quadratic program in w and a slack for each pair, by a general solver."""
    gaps, counts = all_pairs(arms)
    d, k = gaps.shape[1], len(counts)
    matrix = np.hstack([gaps, np.eye(k)])
    found = minimize(
        lambda p: (p[:d] @ p[:d] / 2 + C * counts @ p[d:], np.append(p[:d], C * counts)),
        np.append(np.zeros(d), np.ones(k)),
        jac=True,
        method="SLSQP",
        bounds=[(None, None)] * d + [(0, None)] * k,
        constraints={"type": "ineq", "fun": lambda p: matrix @ p - 1, "jac": lambda p: matrix},
        options={"maxiter": 500, "ftol": 1e-11},
    )
    w = found.x[:d]
    return w, w @ w / 2 + C * counts @ np.maximum(0, 1 - gaps @ w)


@pytest.mark.parametrize("C", [0.3, 3.0, 100.0])
@pytest.mark.parametrize("seed", range(6))
def test_agrees_with_a_quadratic_program_over_all_pairs(seed, C):
    arms = small_arms(seed)
    w, objective = minimise_all_pairs(arms, C)
    found = minimise_pair_hinge(arms, C, tolerance=1e-8)
    assert found.gap <= 1e-8
    assert found.objective == pytest.approx(objective, rel=1e-5)
    assert found.lower <= objective * (1 + 1e-12)
    # The objective grows at least as fast as |w - minimiser|^2 / 2 on both sides.
    assert found.w == pytest.approx(w, abs=1e-2 * max(np.abs(w).max(), 1e-3))


@pytest.fixture(scope="module")
def rows():
    trial = make_trial(
        3000, n_features=5, treatment_share=0.3, heterogeneity=0.8, base_rate=0.3, random_state=0
    )
    X = trial.X.to_numpy(np.float64) * [1, 10, 0.1, 1, 1] + [0, 5, 0, -3, 0]
    return X, trial.y, trial.treatment


def scaled(X, kind):
    if kind == "min-max":
        return (X - X.min(axis=0)) / (X.max(axis=0) - X.min(axis=0))
    if kind == "column-l2":
        return X / np.linalg.norm(X, axis=0)
    return X / np.linalg.norm(X, axis=1, keepdims=True) if kind == "unit-rows" else X


def rates(y, t, weight):
    arms = [(weight[t == a], y[t == a]) for a in (1, 0)]
    lam = [np.average(o, weights=w) * (1 - np.average(o, weights=w)) for w, o in arms]
    return lam, [w.sum() for w, _ in arms]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("weights", ["lambda", "absolute", "uniform", (0.5, 2.0)])
def test_objective_is_the_one_of_the_paper(rows, weights, weighted):
    X, y, t = rows
    weight = np.random.default_rng(0).uniform(1, 3, len(y)) if weighted else np.ones(len(y))
    model = SVMDifferentialPrediction(30.0, weights=weights)
    model.fit(X, y, treatment=t, sample_weight=weight if weighted else None)
    lam, size = rates(y, t, weight)
    kappa = {"lambda": lam[1] / lam[0], "absolute": size[1] * lam[1] / (size[0] * lam[0])}
    pair = weights if isinstance(weights, tuple) else (1.0, kappa.get(weights, 1.0))
    pairs = PairObjective(
        scaled(X, "min-max"), y, treatment=t, surrogate=hinge(), weights=pair, sample_weight=weight
    )
    w = model.scaled_coef_
    assert model.objective_ == pytest.approx(w @ w / 2 + 30 * pairs.value(w), rel=1e-9)
    assert model.converged_
    assert model.gap_ <= 1e-6
    for step in np.random.default_rng(1).normal(size=(30, 5)) * 0.01:
        other = w + step
        value = other @ other / 2 + 30 * pairs.value(other)
        assert value >= model.objective_ * (1 - model.gap_) * (1 - 1e-12)


def test_while_no_pair_reaches_the_kink_it_is_a_difference_of_means(rows):
    X, y, t = rows
    Z = scaled(X, "min-max")
    lam, _ = rates(y, t, np.ones(len(y)))
    means = {(a, o): Z[(t == a) & (y == o)].mean(axis=0) for a in (0, 1) for o in (0, 1)}
    expected = means[1, 1] - means[1, 0] + lam[1] / lam[0] * (means[0, 0] - means[0, 1])
    model = SVMDifferentialPrediction(0.1).fit(X, y, treatment=t)
    assert model.scaled_coef_ == pytest.approx(0.1 * expected, rel=1e-9)
    assert model.gap_ < 1e-12


@pytest.mark.parametrize("C", [0.1, 10.0, 1000.0])
@pytest.mark.parametrize("share", [0.2, 0.8])
def test_it_ranks(C, share):
    train, test = (
        make_trial(6000, treatment_share=share, heterogeneity=1.0, base_rate=0.4, random_state=seed)
        for seed in (0, 1)
    )
    model = SVMDifferentialPrediction(C).fit(train.X, train.y, treatment=train.treatment)
    result = auuc_inference(test.y, model.predict(test.X), treatment=test.treatment)
    assert result.gain > 3 * result.gain_standard_error


@pytest.mark.gate
@pytest.mark.parametrize("C", [10.0, 100.0])
def test_hillstrom_in_few_steps(C):
    # One-hot features: whole groups of pairs lie exactly at the kink.
    trial = load_hillstrom()
    model = SVMDifferentialPrediction(C).fit(trial.X, trial.y, treatment=trial.treatment)
    assert model.converged_
    assert model.n_steps_ < 60


def test_a_gap_that_stays_open_is_reported(rows):
    X, y, t = rows
    with pytest.warns(ConvergenceWarning, match="duality gap should be at most 1e-06"):
        model = SVMDifferentialPrediction(1000.0, max_steps=2).fit(X, y, treatment=t)
    assert not model.converged_
    assert model.gap_ > 1e-6


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"C": 0}, "C should be a positive number, got 0"),
        ({"C": "1"}, "C should be a positive number"),
        ({"C": np.inf}, "C should be a positive number"),
        ({"weights": "equal"}, "weights should be 'lambda'"),
        ({"scale": "standard"}, "scale should be one of"),
        ({"tolerance": 0.0}, "tolerance should be a number strictly between 0 and 1"),
        ({"max_steps": 0}, "max_steps should be a whole number of at least 1"),
    ],
)
def test_bad_parameters(rows, parameters, message):
    X, y, t = rows
    with pytest.raises(ValueError, match=message):
        SVMDifferentialPrediction(**parameters).fit(X, y, treatment=t)


def test_an_arm_without_both_outcomes(rows):
    X, y, t = rows
    with pytest.raises(ValueError, match="each arm should have both outcomes"):
        SVMDifferentialPrediction().fit(X, y * t, treatment=t)
    alone = SVMDifferentialPrediction(weights=(1.0, 0.0)).fit(X, y * t, treatment=t)
    assert alone.predict(X).std() > 0
