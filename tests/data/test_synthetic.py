from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from experiments.known_populations import auuc_with_error, rank_covariance
from scipy.special import logit, ndtr
from sklearn.linear_model import LinearRegression, LogisticRegression

from auucmax.data.synthetic import Population, make_trial

POPULATIONS = [
    Population(),
    Population(n_features=22, n_noise=6, base_rate=0.106, ate=0.045, heterogeneity=0.25),
    Population(n_features=7, n_noise=0, nonlinearity=0.4),
    Population(n_features=6, n_noise=2, nonlinearity=1.0, ate=-0.02),
    Population(signal=0.0, heterogeneity=0.8),
    Population(signal=1.0, heterogeneity=0.0),
    Population(outcome="continuous", base_rate=-1.0, ate=0.5, heterogeneity=0.05),
]
NORMAL = np.random.default_rng(7).standard_normal((200_000, 22))


def features(population: Population, n_rows: int = 200_000) -> np.ndarray:
    return NORMAL[:n_rows, : population.n_features]


def slowrank_covariance(tau: np.ndarray, score: np.ndarray) -> tuple[float, np.ndarray]:
    """All pairs: the definition."""
    centred = tau - tau.mean()
    beats = (score[:, None] > score) + 0.5 * (score[:, None] == score)
    covariance = np.mean(centred * beats.mean(axis=1))
    influence = centred * (beats.mean(axis=1) - 0.5) + (centred @ beats) / len(tau)
    return covariance, influence - 2 * covariance


@pytest.mark.parametrize("levels", [3, 10**9])
def test_rank_covariance_equals_all_pairs(levels: int) -> None:
    rng = np.random.default_rng(0)
    tau, score = rng.normal(size=60), rng.integers(levels, size=60).astype(float)
    covariance, influence = rank_covariance(tau, score)
    expected, expected_influence = slowrank_covariance(tau, score)
    assert covariance == pytest.approx(expected, abs=1e-14)
    np.testing.assert_allclose(influence, expected_influence, atol=1e-14)


@pytest.mark.parametrize("population", POPULATIONS)
def test_rates_and_effect_are_met_in_the_population(population: Population) -> None:
    X = features(population)
    control, treated = population.potential_means(X)
    tau = population.uplift(X)
    for sample, truth in ((control, population.base_rate), (tau, population.ate)):
        error = sample.std() / np.sqrt(len(X)) + 1e-12
        assert abs(sample.mean() - truth) < 4 * error
    if population.outcome == "binary":
        assert control.min() > 0
        assert (control + tau).max() < 1
        np.testing.assert_allclose(treated, control + tau)


@pytest.mark.parametrize("population", POPULATIONS)
def test_best_auuc_agrees_with_a_large_sample(population: Population) -> None:
    tau = population.uplift(features(population))
    covariance, influence = rank_covariance(tau, tau)
    error = influence.std() / np.sqrt(len(tau)) + 1e-6
    assert abs(population.ate / 2 + covariance - population.best_auuc) < 4 * error


def test_best_auuc_is_integrated_to_1e_6() -> None:
    # A grid-free second computation: Cov(tau, G(tau)) is half the integral of F (1 - F).
    population = Population(base_rate=0.2, ate=0.05, signal=0.7, heterogeneity=0.6)
    a0, a1 = population._intercepts
    z, weight = np.polynomial.hermite_e.hermegauss(100)
    weight = weight / weight.sum()
    t = np.linspace(-1, 1, 20_001)
    treated = t[:, None] + 1 / (1 + np.exp(-a0 - 0.7 * z))
    bounded = np.clip(treated, 1e-15, 1 - 1e-15)
    below = ndtr((logit(bounded) - a1 - 0.7 * z) / 0.6) @ weight
    expected = population.ate / 2 + np.trapezoid(below * (1 - below), t) / 2
    assert population.best_auuc == pytest.approx(expected, abs=1e-6)


def test_best_auuc_of_a_continuous_outcome_is_closed_form() -> None:
    population = Population(outcome="continuous", base_rate=2.0, ate=0.5, heterogeneity=0.4)
    # Gini's mean difference of a normal is 2 sd / sqrt(pi); the covariance is a quarter of it.
    assert population.best_auuc == pytest.approx(0.25 + 0.4 / (2 * np.pi**0.5), abs=1e-12)


SCORES = {
    "one feature": lambda X: X["x0"],
    "tied": lambda X: np.floor(2 * X["x0"] + X["x1"]),
    "noise": lambda X: X["x9"],
    "product": lambda X: X["x0"] * X["x1"] + X["x2"],
    "reverse": lambda X: -X["x0"],
}


@pytest.mark.quick_cases("tied-0.5")
@pytest.mark.parametrize("nonlinearity", [0.0, 0.5])
@pytest.mark.parametrize("name", SCORES)
def test_auuc_is_right_to_1e_4(name: str, nonlinearity: float) -> None:
    population = Population(nonlinearity=nonlinearity)
    value, error = auuc_with_error(population, SCORES[name])
    assert 4 * error <= 1e-4
    X = np.random.default_rng(99).standard_normal((500_000, population.n_features))
    tau = population.uplift(X)
    score = SCORES[name](pd.DataFrame(X, columns=list(population.feature_names)))
    covariance, influence = rank_covariance(tau, np.asarray(score))
    other = influence.std() / np.sqrt(500_000)
    assert abs(value - population.ate / 2 - covariance) < min(1e-4 + 2 * other, 4 * (error + other))
    assert value <= population.best_auuc


@pytest.mark.quick_cases("population1")
@pytest.mark.parametrize("index", [0, 1])
@pytest.mark.parametrize("population", POPULATIONS)
def test_auuc_is_right_to_1e_4_where_it_is_an_integral(population: Population, index: int) -> None:
    # The score z has the distribution function ndtr(z), so its AUUC is E[tau(z, v) ndtr(z)].
    z, weight = np.polynomial.hermite_e.hermegauss(120)
    weight = np.outer(weight, weight) / weight.sum() ** 2
    control, treated = population._means(z[:, None], z)
    rank = ndtr(z[:, None] if index == 0 else z)
    exact = np.sum(weight * (treated - control) * rank)
    value, error = auuc_with_error(population, lambda X: population._indices(X.to_numpy())[index])
    assert abs(value - exact) < 4.5 * error + 1e-6


@pytest.mark.parametrize("population", POPULATIONS)
def test_constant_score_is_exactly_half_the_effect(population: Population) -> None:
    value, error = auuc_with_error(population, lambda X: np.ones(len(X)))
    assert value == population.ate / 2
    assert error < 1e-20


@pytest.mark.gate
def test_no_linear_score_beats_chance_when_all_is_nonlinear() -> None:
    population = Population(nonlinearity=1.0)
    for weights in (np.ones(10), np.arange(10)):
        value, error = auuc_with_error(population, lambda X, w=weights: X.to_numpy() @ w)
        assert abs(value - population.ate / 2) < 4 * error
    assert population.best_auuc > population.ate / 2 + 0.005


def test_auuc_takes_fitted_models_of_frames_and_of_arrays() -> None:
    trial = make_trial(2_000, random_state=0)
    target = trial.y * (2 * trial.treatment - 1.0)
    framed = LinearRegression().fit(trial.X, target)
    plain = LinearRegression().fit(trial.X.to_numpy(), target)
    value = trial.population.auuc(framed)
    assert value == pytest.approx(trial.population.auuc(plain), abs=1e-6)
    assert value == pytest.approx(trial.population.auuc(framed.predict), abs=1e-12)


def test_two_logistic_regressions_are_the_true_model() -> None:
    trial = make_trial(200_000, random_state=3, heterogeneity=0.5)
    X, population = trial.X.to_numpy(), trial.population
    prognosis, response = population._directions[2]
    for arm in (0, 1):
        rows = trial.treatment == arm
        model = LogisticRegression(C=1e8, tol=1e-8).fit(X[rows], trial.y[rows])
        fitted = np.concatenate([model.intercept_, model.coef_[0]])
        truth = np.zeros(11)
        truth[0] = population._intercepts[arm]
        truth[1:9] = 0.5 * prognosis + arm * 0.5 * response
        design = np.column_stack([np.ones(rows.sum()), X[rows]])
        p = population.potential_means(X[rows])[arm]
        covariance = np.linalg.inv((design * (p * (1 - p))[:, None]).T @ design)
        z = (fitted - truth) / np.sqrt(np.diag(covariance))
        # 11 standard normals: the largest passes 4 once in 1,400 samples.
        assert np.abs(z).max() < 4


def test_same_seed_same_trial_and_same_population_for_all_seeds() -> None:
    first, again = make_trial(3_000, random_state=4), make_trial(3_000, random_state=4)
    other = make_trial(3_000, random_state=np.random.default_rng(5))
    pd.testing.assert_frame_equal(first.X, again.X)
    np.testing.assert_array_equal(first.y, again.y)
    np.testing.assert_array_equal(first.treatment, again.treatment)
    assert not np.array_equal(first.y, other.y)
    assert first.population == other.population
