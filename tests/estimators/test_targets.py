"""What is learnt of money, counts and numbers; losses with their derivatives."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.estimators.reference import mean_of

from auucmax import make_trial
from auucmax.estimators import (
    BoostedEffect,
    ShrunkInteractions,
    UpliftEnsemble,
    ensemble,
    targets,
)
from auucmax.estimators.targets import BINOMIAL, GAUSSIAN, arm_amounts, target_of
from auucmax.rows import ArrayRows

LOSSES = [BINOMIAL, GAUSSIAN]
MODELS = [ShrunkInteractions, BoostedEffect, UpliftEnsemble]


def rows_of(y, treated=None, weight=None):
    y = np.asarray(y, dtype=float)
    treated = np.arange(len(y)) % 2 == 0 if treated is None else treated
    return ArrayRows(np.zeros((len(y), 1)), y, treated, weight)


@pytest.mark.parametrize("loss", LOSSES)
@given(z=st.floats(-20, 20), y=st.sampled_from([0.0, 1.0]))
def test_gradient_and_hessian_are_those_of_the_value(loss, z, y):
    z, y, step = np.array([z]), np.array([y]), 1e-4
    slope = (loss.value(z + step, y) - loss.value(z - step, y)) / (2 * step)
    bend = (mean_of(loss, z + step) - mean_of(loss, z - step)) / (2 * step)
    np.testing.assert_allclose(mean_of(loss, z) - y, slope, atol=1e-6)
    np.testing.assert_allclose(loss.hessian(z), bend, atol=1e-6)
    assert loss.hessian(z) <= loss.most_bent
    assert abs(mean_of(loss, z) - y) <= loss.steepest(z, y)
    assert mean_of(loss, np.array([loss.start(0.3)]))[0] == pytest.approx(0.3)


@pytest.mark.parametrize("loss", LOSSES)
@given(seed=st.integers(0, 999), m=st.integers(1, 40), weighted=st.booleans())
def test_totals_of_many_models_are_sums_of_values(loss, seed, m, weighted):
    rng = np.random.default_rng(seed)
    z, y = 3 * rng.normal(size=(m, 3)), rng.integers(2, size=m) * 1.0
    weight = rng.random(m) if weighted else np.ones(m)
    totals = np.ones(3)
    expected = 1 + weight @ loss.value(z, y[:, None])
    slopes = weight[:, None] * (mean_of(loss, z) - y[:, None])
    found = loss.add_to(totals, z.copy(), y, weight)
    np.testing.assert_allclose(totals, expected)
    np.testing.assert_allclose(found, slopes, atol=1e-12)


def test_a_gaussian_likelihood_has_the_variance_that_fits_best():
    residual = np.random.default_rng(0).normal(scale=3, size=500)
    total = GAUSSIAN.value(residual, np.zeros(500)).sum()
    variances = np.linspace(1, 20, 2_000)
    minus_log = [500 / 2 * np.log(v) + residual @ residual / (2 * v) for v in variances]
    assert GAUSSIAN.nats(total, 500.0) + 250 == pytest.approx(min(minus_log), abs=1e-3)


@pytest.mark.parametrize(
    ("y", "modelled"),
    [
        ([0, 1] * 10, "0/1"),
        ([0] * 15 + [3, 4, 5, 6.5, 7], "whether"),
        ([0] * 15 + [3, 4, 1, 6, 7], "whether"),
        ([1] * 15 + [-3, -4, -5, -6, -7], "whether"),
        ([0] * 15 + [-3, 4, 5, 6, 7], "number"),
        (range(20), "number"),
    ],
)
def test_what_is_modelled(y, modelled):
    assert target_of(rows_of(y)).modelled == modelled


def test_whether_is_learnt_of_most_zeros_and_one_amount():
    y = np.array([0] * 80 + [5.0] * 10 + [15.0] * 10)
    target = target_of(rows_of(y))
    np.testing.assert_allclose(target.amounts, 10)
    np.testing.assert_array_equal(target.rows.y, y > 0)
    # Costs, as 1 minus what they are: most cost nothing.
    below = target_of(rows_of(1 - y))
    np.testing.assert_allclose(below.amounts, -10)
    np.testing.assert_array_equal(below.rows.y, y > 0)


@given(order=st.floats(5_000, 1e7))
def test_one_large_order_changes_next_to_nothing(order):
    rng = np.random.default_rng(0)
    y = np.concatenate([np.zeros(9_600), rng.gamma(2, 50, size=400)])
    larger = np.append(y[:-1], order)
    one, other = target_of(rows_of(y)), target_of(rows_of(larger))
    np.testing.assert_allclose(other.amounts, one.amounts, rtol=0.02)
    numbers = rng.normal(size=1_000)
    target = target_of(rows_of(np.append(numbers, order)))
    assert np.abs(target.rows.y).max() < 3


def test_numbers_are_winsorised_and_standardised():
    y = np.random.default_rng(0).standard_t(2, size=5_000) + 40
    target = target_of(rows_of(y))
    modelled = target.rows.y
    assert modelled.mean() == pytest.approx(0, abs=1e-9)
    assert modelled.std() == pytest.approx(1)
    low, high = np.quantile(y, [0.01, 0.99])
    clipped = np.clip(y, low, high)
    assert target.amounts[0] == pytest.approx(clipped.std())
    np.testing.assert_allclose(modelled, (clipped - clipped.mean()) / clipped.std(), atol=1e-9)
    # Profit of which most is 0: the quantiles are of the rest.
    y = np.concatenate([np.zeros(9_000), np.random.default_rng(1).normal(size=1_000)])
    assert len(np.unique(target_of(rows_of(y)).rows.y)) > 900


def test_amounts_of_the_arms_differ_only_where_it_is_clear():
    rng = np.random.default_rng(0)
    kept = []
    for _ in range(400):
        amount, treated = rng.gamma(2, 50, size=200), rng.random(200) < 0.5
        first, second = arm_amounts(amount, treated, np.ones(200))
        kept.append(first != second)
    assert np.mean(kept) < 0.08  # two standard errors: some 5% by chance
    amount = amount + 500 * treated
    first, second = arm_amounts(amount, treated, np.ones(200))
    assert first - second == pytest.approx(500, rel=0.1)
    # Integer weights are copies.
    weight = rng.integers(1, 4, size=200)
    copies = arm_amounts(
        np.repeat(amount, weight), np.repeat(treated, weight), np.ones(weight.sum())
    )
    np.testing.assert_allclose(arm_amounts(amount, treated, weight * 1.0), copies, rtol=1e-2)


def test_an_outcome_that_is_always_the_same_is_refused():
    with pytest.raises(ValueError, match="y should be of two levels, got 4 in all rows"):
        target_of(rows_of([4.0] * 10))


@pytest.fixture(scope="module")
def numbers():
    """Features, outcomes with heavy tails, arms and true effects."""
    rng = np.random.default_rng(0)
    X, treated = rng.normal(size=(8_000, 4)), rng.random(8_000) < 0.4
    effect = 5 * X[:, 0] + 5 * (X[:, 1] > 0)
    y = 100 + 10 * X[:, 2] + treated * effect + 10 * rng.standard_t(3, size=8_000)
    return X, y, treated, effect


@pytest.mark.gate_cases("UpliftEnsemble")
@pytest.mark.parametrize("model", MODELS)
def test_effects_on_numbers_are_found(model, numbers):
    X, y, treated, effect = numbers
    fitted = model(random_state=0).fit(X, y, treatment=treated)
    score = fitted.predict(X)
    assert np.corrcoef(score, effect)[0, 1] > 0.9
    np.testing.assert_allclose(fitted.formula()(X), score, atol=1e-8)
    if model is not UpliftEnsemble:
        assert fitted.modelled_ == "number"
        assert np.mean(score) == pytest.approx(effect.mean(), abs=1)


def test_units_and_shifts_of_numbers_do_not_matter(numbers):
    X, y, treated, _ = numbers
    plain = ShrunkInteractions(random_state=0).fit(X, y, treatment=treated).predict(X)
    other = ShrunkInteractions(random_state=0).fit(X, 7 * y - 90, treatment=treated).predict(X)
    np.testing.assert_allclose(other, 7 * plain, rtol=1e-4, atol=1e-6)


def test_numbers_without_shrinkage_are_two_least_squares(numbers):
    X, y, treated, _ = numbers
    y = np.clip(y, 60, 140)
    low, high = np.quantile(y, [0.01, 0.99])
    y = np.clip(y, low, high)  # a second time it changes next to nothing
    model = ShrunkInteractions(strengths=(1e-9,), hinges=False, random_state=0)
    score = model.fit(X, y, treatment=treated).predict(X)
    one = np.column_stack([np.ones(len(X)), X])
    arms = [np.linalg.lstsq(one[arm], y[arm], rcond=None)[0] for arm in (treated, ~treated)]
    np.testing.assert_allclose(score, one @ (arms[0] - arms[1]), atol=0.01)


def test_of_many_rows_amounts_and_ranks_are_those_of_a_sample(monkeypatch):
    for module in (targets, ensemble):
        monkeypatch.setattr(module, "SAMPLE", 300)
    trial = make_trial(4_000, base_rate=0.3, random_state=0)
    y = trial.y * np.random.default_rng(0).gamma(2, 50, size=4_000)
    model = UpliftEnsemble([ShrunkInteractions()], random_state=0)
    model.fit(np.asarray(trial.X), y, treatment=trial.treatment)
    assert len(model.knots_[0][0]) < 20
