"""Calibrated uplifts are neither too extreme nor drawn in too far: known truth, many trials."""

import numpy as np
import pytest

from auucmax.estimators import TwoModels
from auucmax.model.folds import ranks_within
from auucmax.targeting import calibrate

pytestmark = pytest.mark.gate


def draw(rng, n, spread, shape):
    """Score uniform on [0, 1], true effect .05 + spread * shape(score), outcomes and arms."""
    score, treated = rng.random(n), rng.random(n) < 0.5
    truth = 0.05 + spread * shape(score)
    y = (rng.random(n) < 0.1 + treated * truth).astype(float)
    return y, score, treated, truth


@pytest.mark.parametrize("n", [2_000, 8_000])
def test_with_nothing_to_find_the_top_tenth_reads_the_effect(n):
    rng = np.random.default_rng(n)
    read = []
    for _ in range(600):
        y, score, treated, _ = draw(rng, n, 0.0, np.zeros_like)
        uplift = calibrate(y, score, treatment=treated)(score)
        read.append(uplift[score >= np.quantile(score, 0.9)].mean())
    error = np.std(read) / np.sqrt(len(read))
    assert error < 0.001
    assert abs(np.mean(read) - 0.05) < 0.005


@pytest.mark.parametrize(
    "shape",
    [lambda s: 2 * s - 1, lambda s: np.where(s > 0.7, 1.4, -0.6), lambda s: 4 * s**3 - 1],
    ids=["line", "step", "cubic"],
)
@pytest.mark.parametrize("n", [2_000, 8_000])
def test_real_differences_have_a_slope_near_one(n, shape):
    """The slope of the truth on the prediction, pooled over trials, with its standard error."""
    rng = np.random.default_rng(n)
    sums = []
    for _ in range(300):
        y, score, treated, truth = draw(rng, n, 0.05, shape)
        uplift = calibrate(y, score, treatment=treated)(score)
        sums.append((np.cov(truth, uplift)[0, 1], uplift.var(ddof=1)))
    products, squares = np.transpose(sums)
    slope = products.sum() / squares.sum()
    error = np.sqrt(np.sum((products - slope * squares) ** 2)) / squares.sum()
    assert error < 0.06
    assert 0.8 < slope < 1.25


@pytest.mark.parametrize("n", [2_000, 8_000])
def test_models_of_noise_do_not_tell_people_apart(n):
    """Rows that models of folds have ranked: what the folds show is correlated."""
    rng, read = np.random.default_rng(n), []
    for _ in range(150 if n == 2_000 else 60):
        y, _, treated, _ = draw(rng, n, 0.0, np.zeros_like)
        X, fold, score = rng.normal(size=(n, 4)), rng.permutation(n) % 5, np.empty(n)
        for k in range(5):
            inside = fold == k
            model = TwoModels().fit(X[~inside], y[~inside], treatment=treated[~inside])
            score[inside] = model.predict(X[inside])
        found = calibrate(y, ranks_within(score, fold), treatment=treated)
        uplift = np.sort(found(ranks_within(score, fold)))
        read.append(uplift[-n // 10 :].mean() - found.average_effect)
    assert np.std(read) / np.sqrt(len(read)) < 0.0012
    assert 0 <= np.mean(read) < 0.005


def test_households_are_not_taken_for_people():
    """Rows of a household share outcomes, scores and the arm: groups draw them in further."""
    rng, read = np.random.default_rng(5), {"people": [], "households": []}
    for _ in range(300):
        home = np.repeat(np.arange(500), 5)
        score, treated = rng.random(500)[home], (rng.random(500) < 0.5)[home]
        mood = rng.normal(0, 1.5, 500)[home]
        y = (rng.random(2_500) < 1 / (1 + np.exp(1.5 - mood))).astype(float)  # no effect
        for name, groups in (("people", None), ("households", home)):
            found = calibrate(y, score, treatment=treated, groups=groups)
            read[name].append(np.ptp(found.uplift))
    people, households = (np.mean(read[name]) for name in ("people", "households"))
    error = np.std(np.subtract(read["people"], read["households"])) / np.sqrt(300)
    assert people - households > 5 * error
    assert households < 0.6 * people
