"""Gains of allocations: the slow twin, one arm as the uplift curve, errors and limits."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from tests.metrics.reference import budget_gain_slow

from auucmax import auuc_inference, make_trial
from auucmax._errors import InputError
from auucmax.metrics import uplift_band
from auucmax.metrics.allocation import Allocation
from auucmax.metrics.gains import AllocationRows, Gains, budget_curve


@st.composite
def small_trials(draw):
    n_arms = draw(st.integers(1, 3))
    n = draw(st.integers(2 * (n_arms + 1), 14))
    arm = np.array([*range(n_arms + 1)] * 2 + [0] * (n - 2 * n_arms - 2))
    shape = n, n_arms
    uplift = draw(npst.arrays(np.int64, shape, elements=st.integers(-2, 6))) / 8
    cost = draw(npst.arrays(np.int64, shape, elements=st.integers(0, 4))).astype(float)
    y = draw(npst.arrays(np.int64, n, elements=st.integers(0, 2))).astype(float)
    return y, uplift, arm, cost


@settings(deadline=None, max_examples=100)
@given(small_trials(), st.floats(0, 4))
def test_gains_are_those_of_the_slow_twin(trial, budget):
    y, uplift, arm, cost = trial
    # Arms that bring and cost a person the same are shared by lot.
    uplift = uplift + 1e-3 * np.arange(uplift.shape[1]) + 1e-4 * np.arange(len(y))[:, None]
    expected, part = budget_gain_slow(budget, y - y.mean(), uplift, arm, cost)
    terms = Gains(AllocationRows(y, arm, cost), Allocation.of(uplift, cost), np.array([budget]))
    assert terms.gain[0] == pytest.approx(expected, abs=1e-9)
    assert np.allclose(terms.shares[0], part.mean(axis=0), atol=1e-9)


LIMITS = ("lower", "upper", "simultaneous_lower", "simultaneous_upper")


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("kind", ["plain", "money", "groups", "weights", "propensity"])
def test_one_arm_at_one_cost_is_the_uplift_curve(ties, kind):
    """The sums over segments and those over the terms of rows have the same limits and bands."""
    trial, rng = make_trial(3000, random_state=1), np.random.default_rng(0)
    score = np.exp(trial.X["x0"].to_numpy())
    score = np.round(score, 1) + 0.1 if ties else score
    given, table, y = {}, {}, trial.y
    if kind == "money":
        y = trial.y * rng.lognormal(0, 1, 3000)
    if kind == "groups":
        given = table = {"groups": np.arange(3000) // 3}
    if kind == "weights":
        given = table = {"sample_weight": rng.integers(1, 4, 3000)}
    if kind == "propensity":
        chance = rng.uniform(0.3, 0.7, 3000)
        given = {"propensity": chance}
        table = {"propensity": np.column_stack([1 - chance, chance])}
    share = np.linspace(0, 1, 41)
    found = budget_curve(y, score, treatment=trial.treatment, budget=share, **table)
    band = uplift_band(y, score, treatment=trial.treatment, shares=share, **given)
    assert np.allclose(found.uplift, band.uplift, atol=1e-12)
    assert np.allclose(found.standard_error, band.standard_error, rtol=1e-9, atol=1e-12)
    assert np.allclose(found.covariance, band.covariance, rtol=1e-9, atol=1e-12)
    for name in LIMITS:
        own, other = getattr(found, name), getattr(band, name)
        if kind == "groups":  # clusters in the top are counted otherwise: a share more or less
            both = np.isfinite(own) & np.isfinite(other)
            assert (np.isfinite(own) != both).sum() <= 1
            assert (np.isfinite(other) != both).sum() <= 1
            assert np.allclose(own[both], other[both], atol=0.05 * band.standard_error.max())
        else:
            assert np.allclose(own, other, atol=1e-9, equal_nan=True), name


@pytest.mark.parametrize("clustered", [False, True])
def test_the_area_over_random_people_is_the_gain_of_a_score(clustered):
    trial = make_trial(3000, random_state=1)
    score = np.exp(trial.X["x0"].to_numpy())
    clusters = np.arange(3000) // 3 if clustered else None
    gain = auuc_inference(trial.y, score, treatment=trial.treatment, groups=clusters)
    cost = np.ones((3000, 1))
    rows = AllocationRows(trial.y, trial.treatment.astype(int), cost, clusters=clusters)
    area = Gains(rows, Allocation.of(score[:, None], cost), np.linspace(0, 1, 101)).difference()
    assert area.estimate == pytest.approx(gain.gain, rel=2e-3)  # 101 shares, not all of them
    assert area.standard_error == pytest.approx(gain.gain_standard_error, rel=5e-3)
    assert area.interval == pytest.approx(gain.gain_interval, rel=1e-2, abs=2e-5)
    assert area.p_value == pytest.approx(gain.p_value, rel=0.1)


@pytest.fixture(scope="module")
def arms():
    """Three arms of other effects on other people, with an outcome model and chances by x."""
    rng = np.random.default_rng(0)
    n = 6000
    x = rng.random((n, 2))
    chance = np.column_stack([0.5 - 0.2 * x[:, 0], 0.3 + 0.2 * x[:, 0], np.full(n, 0.2)])
    arm = (rng.random((n, 1)) > np.cumsum(chance, axis=1)).sum(axis=1)
    mean = np.column_stack([0.2 + 0.3 * x[:, 1], 0.2 + 0.4 * x[:, 1], 0.3 + 0.3 * x[:, 1]])
    y = (rng.random(n) < mean[np.arange(n), arm]).astype(float)
    uplift = mean[:, 1:] - mean[:, :1]
    return y, uplift, arm, chance, mean


@pytest.mark.gate
def test_errors_are_those_of_the_bootstrap(arms):
    y, uplift, arm, *_ = arms
    some = slice(0, 1200)
    y, uplift, arm = y[some], uplift[some] + 1e-3 * np.arange(1200)[:, None] / 1200, arm[some]
    grid, cost = np.array([0.05, 0.1, 0.15, 0.2]), [0.2, 0.25]
    found = budget_curve(y, uplift, treatment=arm, cost=cost, budget=grid)
    rng, draws = np.random.default_rng(1), []
    for _ in range(400):
        drawn = np.concatenate(
            [rng.choice(own, len(own)) for k in range(3) if len(own := np.flatnonzero(arm == k))]
        )
        costs = np.broadcast_to(cost, (len(drawn), 2))
        rows = AllocationRows(y[drawn], arm[drawn], costs)
        draws.append(Gains(rows, Allocation.of(uplift[drawn], costs), grid).gain)
    # A standard deviation of 400 draws has an error of 3.5%.
    assert np.allclose(np.std(draws, axis=0) / found.standard_error, 1, atol=0.13)


def test_an_outcome_model_keeps_the_target_and_takes_noise_away(arms):
    y, uplift, arm, chance, mean = arms
    plain = budget_curve(y, uplift, treatment=arm, cost=[0.2, 0.25], propensity=chance)
    grid = plain.share
    robust = budget_curve(
        y, uplift, treatment=arm, cost=[0.2, 0.25], propensity=chance, outcome_model=mean,
        budget=grid,
    )  # fmt: skip
    inner = slice(20, 100)
    assert (robust.standard_error[inner] < 1.0 * plain.standard_error[inner]).all()
    far = np.abs(robust.uplift - plain.uplift) / plain.standard_error.clip(1e-9)
    assert far[inner].max() < 3
    shares = robust.shares
    assert (shares.sum(axis=1) <= 1 + 1e-9).all()
    assert np.allclose(shares @ [0.2, 0.25], grid)  # all money is spent


def test_names_and_order_of_arms_change_nothing(arms):
    y, uplift, arm, *_ = arms
    first = budget_curve(y, uplift, treatment=arm, cost=[0.2, 0.25])
    labels = np.array(["none", "b", "a"])[arm]
    other = budget_curve(
        y, uplift[:, ::-1], treatment=labels, control="none", cost=[0.25, 0.2]
    )  # sorted: a, b
    assert np.allclose(first.uplift, other.uplift)
    assert np.allclose(first.lower, other.lower, equal_nan=True)
    named = budget_curve(
        y, uplift, treatment=labels, control="none", arms=["b", "a"], cost=[0.2, 0.25]
    )
    assert np.allclose(first.uplift, named.uplift)


def gains_of(y, uplift, arm, cost, grid, rows=None):
    costs = np.broadcast_to(np.asarray(cost, float), uplift.shape)
    return Gains(rows or AllocationRows(y, arm, costs), Allocation.of(uplift, costs), grid)


def test_allocations_are_compared_row_by_row(arms):
    y, uplift, arm, *_ = arms
    grid = np.linspace(0, 0.2, 21)
    one = gains_of(y, uplift, arm, [0.2, 0.25], grid)
    same = one.difference(gains_of(y, uplift, arm, [0.2, 0.25], grid))
    assert same.estimate == same.standard_error == 0
    assert same.p_value == 1
    noise = np.random.default_rng(2).normal(0.05, 0.03, uplift.shape)
    other = gains_of(y, noise, arm, [0.2, 0.25], grid)
    found = one.difference(other)
    beyond = one.gain - other.gain
    assert found.estimate == pytest.approx(np.trapezoid(beyond, grid) / 0.2)
    alone = [np.mean(own.band().standard_error) for own in (one, other)]
    assert found.standard_error <= sum(alone)
    assert one.difference(other, cross_fitted=True).standard_error == pytest.approx(
        np.sqrt(2) * found.standard_error
    )


def _with_a_small_arm(n_small, share, seed=0):
    """20,000 rows of the control and arm 1, few of arm 2, which a share of the people gets."""
    rng = np.random.default_rng(seed)
    n = 20_000 + n_small
    arm = np.repeat([0, 1, 2], [10_000, 10_000, n_small])
    top = rng.random(n) < share
    uplift = np.column_stack([np.where(top, 0.01, 0.02 + 0.001 * rng.random(n)), 0.3 * top])
    rate = np.where(arm == 1, 0.03, 0.02) + 0.3 * ((arm == 2) & top)
    return (rng.random(n) < rate).astype(float), uplift, arm


def test_an_arm_of_few_rows_counts_however_few_people_get_it():
    """Of 60 rows, two or three stand behind what the arm brings to 4% of the people."""
    y, uplift, arm = _with_a_small_arm(60, 0.04)
    grid = np.array([0.01, 0.5, 1.0])
    found = budget_curve(y, uplift, treatment=arm, budget=grid)
    assert np.isnan(found.lower).all()
    assert gains_of(y, uplift, arm, 1.0, grid).difference().declined is not None
    # Of 10,000 rows, enough do.
    y, uplift, arm = _with_a_small_arm(10_000, 0.08)
    assert np.isfinite(budget_curve(y, uplift, treatment=arm, budget=grid).lower[1:]).all()
    assert gains_of(y, uplift, arm, 1.0, grid).difference().declined is None


def test_an_arm_whose_part_cannot_widen_the_interval_needs_no_rows():
    y, uplift, arm = _with_a_small_arm(10_000, 0.0001)
    grid = np.array([0.0, 0.00005, 0.5, 1.0])
    found = budget_curve(y, uplift, treatment=arm, budget=grid)
    assert 0 < found.shares[-1, 1] < 0.001
    assert np.isfinite(found.lower).tolist() == [True, False, True, True]
    # The allocation without it differs by that part alone, about which nothing is known.
    without = np.column_stack([uplift[:, 0], np.zeros(len(y))])
    one = gains_of(y, uplift, arm, 1.0, grid)
    assert one.difference(gains_of(y, without, arm, 1.0, grid)).declined is not None


def test_an_arm_of_the_middle_budgets_needs_rows_for_the_area():
    """A cheap arm of few rows, which a dearer one replaces at the end."""
    rng = np.random.default_rng(3)
    arm = np.repeat([0, 1, 2], [5_000, 10, 5_000])
    y, n = (rng.random(len(arm)) < 0.1 + 0.1 * (arm > 0)).astype(float), len(arm)
    uplift = np.column_stack([0.1 + 0.01 * rng.random(n), 0.15 + 0.01 * rng.random(n)])
    gains = gains_of(y, uplift, arm, [1.0, 3.0], np.linspace(0, 3, 31))
    assert np.isfinite(gains.band().lower[-1])  # everybody has the dear arm
    assert np.isnan(gains.band().simultaneous_lower[10])
    found = gains.difference()
    assert np.isnan(found.interval).all()
    assert np.isnan(found.p_value)
    assert found.declined is not None


def test_arms_that_cost_nothing_have_intervals_at_a_budget_of_nothing():
    rng = np.random.default_rng(4)
    arm, uplift = rng.integers(0, 3, 2_000), rng.random((2_000, 2))
    y = (rng.random(2_000) < 0.3 + 0.2 * (arm == 1)).astype(float)
    found = budget_curve(y, uplift, treatment=arm, cost=[0.0, 1.0], budget=[0.0, 0.1])
    assert found.shares[0, 0] > 0.9
    assert found.lower[0] < found.uplift[0] < found.upper[0]


@pytest.mark.parametrize(
    ("changed", "parameter"),
    [
        ({"treatment": [0, 1, 1, 0]}, "treatment"),
        ({"control": 9}, "treatment"),
        ({"uplift": np.ones((3, 2))}, "uplift"),
        ({"budget": [0.2, 0.1]}, "budget"),
        ({"propensity": np.full((4, 3), 0.5)}, "propensity"),
        ({"outcome_model": np.ones((4, 2))}, "outcome_model"),
        ({"sample_weight": [1, 0, 1, 0]}, "sample_weight"),
        ({"cost": [1.0, -1.0]}, "cost"),
    ],
)
def test_inputs_that_cannot_be_used(changed, parameter):
    given = {"y": [0, 1, 1, 0], "uplift": np.ones((4, 2)), "treatment": [0, 1, 2, 1]} | changed
    with pytest.raises(InputError) as raised:
        budget_curve(given.pop("y"), given.pop("uplift"), **given)
    assert raised.value.parameter == parameter


@settings(deadline=None, max_examples=60)
@given(small_trials(), st.integers(0, 2**16), st.floats(0, 4))
def test_weights_are_copies_in_the_gain_and_no_new_people_in_its_error(trial, seed, budget):
    y, uplift, arm, cost = trial
    uplift = uplift + 1e-3 * np.arange(uplift.shape[1]) + 1e-4 * np.arange(len(y))[:, None]
    copies = np.random.default_rng(seed).integers(1, 4, len(y))
    index = np.repeat(np.arange(len(y)), copies)
    options = {"arms": list(range(1, uplift.shape[1] + 1)), "budget": [budget, budget + 1]}
    weighted = budget_curve(y, uplift, treatment=arm, cost=cost, sample_weight=copies, **options)
    # Groups of the copies of a row: one person.
    repeated = budget_curve(
        y[index], uplift[index], treatment=arm[index], cost=cost[index], groups=index, **options
    )
    assert np.allclose(weighted.uplift, repeated.uplift, atol=1e-9)
    assert np.allclose(weighted.shares, repeated.shares, atol=1e-9)
    same = budget_curve(
        y, uplift, treatment=arm, cost=cost, sample_weight=np.full(len(y), 0.1), **options
    )
    plain = budget_curve(y, uplift, treatment=arm, cost=cost, **options)
    assert np.allclose(same.uplift, plain.uplift)
    assert np.allclose(same.standard_error, plain.standard_error)
