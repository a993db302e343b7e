"""The gain of a policy at every budget: its slow twin, one arm as the uplift curve, errors."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from scipy.stats import t as student_t

from auucmax import auuc_inference, make_trial
from auucmax.metrics import budget_curve, policy_difference, uplift_band
from auucmax.metrics.arm_policy import Policy
from auucmax.metrics.budget import ArmRows, PolicyTerms
from auucmax.metrics.reference import budget_gain_slow


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
    terms = PolicyTerms(ArmRows.of(y, arm, cost), Policy.of(uplift, cost), np.array([budget]))
    assert terms.gain[0] == pytest.approx(expected, abs=1e-9)
    assert np.allclose(terms.shares[0], part.mean(axis=0), atol=1e-9)


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("clustered", [False, True])
def test_one_arm_at_one_cost_is_the_uplift_curve(ties, clustered):
    trial = make_trial(3000, random_state=1)
    score = np.exp(trial.X["x0"].to_numpy())
    score = np.round(score, 1) + 0.1 if ties else score
    groups = {"groups": np.arange(3000) // 3} if clustered else {}
    share = np.linspace(0, 1, 101)
    found = budget_curve(trial.y, score, treatment=trial.treatment, budget=share, **groups)
    band = uplift_band(trial.y, score, treatment=trial.treatment, shares=share, **groups)
    assert np.allclose(found.gain, band.uplift, atol=1e-12)
    # Clusters get a finer correction there, 1 - h of each: of 1,000 it is 1/1000.
    close = 2e-3 if clustered else 1e-9
    assert np.allclose(found.standard_error, band.standard_error, rtol=close, atol=1e-12)
    gain = auuc_inference(trial.y, score, treatment=trial.treatment, **groups)
    area = policy_difference(trial.y, score, treatment=trial.treatment, budget=share, **groups)
    assert area.area == pytest.approx(gain.gain, rel=2e-3)  # 101 shares, not all of them
    assert area.area_standard_error == pytest.approx(gain.gain_standard_error, rel=5e-3)


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
        rows = ArmRows.of(y[drawn], arm[drawn], costs)
        draws.append(PolicyTerms(rows, Policy.of(uplift[drawn], costs), grid).gain)
    # A standard deviation of 400 draws has an error of 3.5%.
    assert np.allclose(np.std(draws, axis=0) / found.standard_error, 1, atol=0.13)


def test_an_outcome_model_keeps_the_target_and_takes_noise_away(arms):
    y, uplift, arm, chance, mean = arms
    plain = budget_curve(y, uplift, treatment=arm, cost=[0.2, 0.25], propensity=chance)
    grid = plain.budget
    robust = budget_curve(
        y, uplift, treatment=arm, cost=[0.2, 0.25], propensity=chance, outcome_model=mean,
        budget=grid,
    )  # fmt: skip
    inner = slice(20, 100)
    assert (robust.standard_error[inner] < 1.0 * plain.standard_error[inner]).all()
    far = np.abs(robust.gain - plain.gain) / plain.standard_error.clip(1e-9)
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
    assert np.allclose(first.gain, other.gain)
    assert np.allclose(first.lower, other.lower, equal_nan=True)
    named = budget_curve(
        y, uplift, treatment=labels, control="none", arms=["b", "a"], cost=[0.2, 0.25]
    )
    assert np.allclose(first.gain, named.gain)


@pytest.mark.gate
def test_policies_are_compared_row_by_row(arms):
    y, uplift, arm, *_ = arms
    same = policy_difference(y, uplift, uplift, treatment=arm, cost=[0.2, 0.25])
    assert same.area == same.area_standard_error == 0
    assert same.p_value == 1
    noise = np.random.default_rng(2).normal(0.05, 0.03, uplift.shape)
    found = policy_difference(y, uplift, noise, treatment=arm, cost=[0.2, 0.25])
    alone = [
        budget_curve(y, u, treatment=arm, cost=[0.2, 0.25], budget=found.budget)
        for u in (uplift, noise)
    ]
    assert np.allclose(found.difference, alone[0].gain - alone[1].gain)
    assert (found.standard_error <= alone[0].standard_error + alone[1].standard_error + 1e-9).all()
    assert str(found).startswith(f"{found.area:+.5f} per person on average over all budgets (95% ")


def test_few_rows_get_no_interval_and_a_reason():
    rng = np.random.default_rng(0)
    y, arm = (rng.random(300) < 0.05).astype(float), rng.integers(0, 3, 300)
    found = budget_curve(y, rng.random((300, 2)), treatment=arm)
    assert np.isnan(found.lower[1:50]).all()
    assert "fewer than 10 rows of an arm with the rarer outcome" in found.declined


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
    options = {"treatment": arm, "budget": [0.01, 0.5, 1.0]}
    found = budget_curve(y, uplift, **options)
    assert np.isnan(found.lower).all()
    assert found.declined.startswith("at every budget fewer than 10 rows")
    beyond = policy_difference(y, uplift, **options)
    assert np.isnan(beyond.lower).all()
    assert beyond.declined == found.declined
    # Of 10,000 rows, enough do.
    y, uplift, arm = _with_a_small_arm(10_000, 0.08)
    assert np.isfinite(budget_curve(y, uplift, **(options | {"treatment": arm})).lower[1:]).all()


def test_an_arm_whose_part_cannot_widen_the_interval_needs_no_rows():
    y, uplift, arm = _with_a_small_arm(10_000, 0.0001)
    options = {"treatment": arm, "budget": [0.0, 0.00005, 0.5, 1.0]}
    found = budget_curve(y, uplift, **options)
    assert 0 < found.shares[-1, 1] < 0.001
    assert np.isfinite(found.lower).tolist() == [True, False, True, True]
    # The policy without it differs by that part alone: what it adds cannot be told.
    without = np.column_stack([uplift[:, 0], np.zeros(len(y))])
    assert np.isnan(policy_difference(y, uplift, without, **options).lower[1:]).all()


@pytest.mark.parametrize("arms", [(400, 80), (80, 80, 80)])
def test_the_interval_of_the_area_has_the_degrees_of_budgets_with_variance(arms):
    """At the last budget everybody is treated, as by random choice: no variance, all degrees."""
    rng = np.random.default_rng(0)
    arm = np.repeat(np.arange(len(arms)), arms)
    y, uplift = rng.integers(0, 2, len(arm)), rng.random((len(arm), len(arms) - 1)) + 0.01
    found = policy_difference(y.astype(float), uplift, treatment=arm)
    low, high = found.area_interval
    multiple = (high - low) / 2 / found.area_standard_error
    assert multiple > student_t.ppf(0.975, sum(arms))
    assert multiple < student_t.ppf(0.975, min(arms) - 2)


def test_an_arm_of_the_middle_budgets_needs_rows_for_the_area():
    """A cheap arm of few rows, in the place of which a dearer one comes at the end."""
    rng = np.random.default_rng(3)
    arm = np.repeat([0, 1, 2], [5_000, 40, 5_000])
    y, n = (rng.random(len(arm)) < 0.1 + 0.1 * (arm > 0)).astype(float), len(arm)
    uplift = np.column_stack([0.1 + 0.01 * rng.random(n), 0.15 + 0.01 * rng.random(n)])
    found = policy_difference(y, uplift, treatment=arm, cost=[1.0, 3.0])
    assert np.isfinite(found.lower[-1])  # everybody has the dear arm
    assert np.isnan(found.area_interval).all()
    assert np.isnan(found.p_value)
    assert found.declined.startswith("at every budget fewer than 10 rows of an arm")
    # Small budgets have few rows behind them, and yet there is an area.
    y, uplift, arm = _with_a_small_arm(10_000, 0.08)
    assert np.isfinite(policy_difference(y, uplift, treatment=arm).area_interval).all()


def test_rows_with_the_rarer_outcome_are_counted_at_the_rate_of_their_arm():
    """Half of arm 1 respond, and 0.2% of the control: together that would be enough."""
    rng = np.random.default_rng(1)
    arm = np.repeat([0, 1], 2_000)
    y = (rng.random(4_000) < np.where(arm == 1, 0.5, 0.002)).astype(float)
    found = budget_curve(y, rng.random((4_000, 1)), treatment=arm, budget=[0.5, 1.0])
    assert np.isnan(found.lower).all()


def test_budgets_without_an_interval_are_named():
    """Arm 2 begins where arm 1 has an interval already."""
    rng = np.random.default_rng(2)
    arm, rank = rng.integers(0, 3, 3_000), rng.permutation(3_000) / 3_000
    y = (rng.random(3_000) < 0.2).astype(float)
    later = rank > 0.5
    uplift = np.column_stack([np.where(later, 0, 2 - rank), np.where(later, 2 - rank, 0)])
    found = budget_curve(y, uplift, treatment=arm, budget=[0.0, 0.4, 0.52, 1.0])
    assert np.isfinite(found.lower).tolist() == [True, True, False, True]
    assert found.declined.startswith("at some budgets of 0.52 to 0.52 per person fewer than 10")


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"treatment": [0, 1, 1, 0]}, "treatment should hold the control 0 and 2 arms"),
        ({"control": 9}, "treatment should hold the control 9"),
        ({"uplift": np.ones((3, 2))}, "uplift should have as many rows as y, 4; got 3"),
        ({"budget": [0.2, 0.1]}, "that increase"),
        ({"propensity": np.full((4, 3), 0.5)}, "add up to 1 in each row"),
        ({"outcome_model": np.ones((4, 2))}, "a column for the control and each of 2 arms"),
    ],
)
def test_messages(changed, message):
    given = {"y": [0, 1, 1, 0], "uplift": np.ones((4, 2)), "treatment": [0, 1, 2, 1]} | changed
    with pytest.raises(ValueError, match=message):
        budget_curve(given.pop("y"), given.pop("uplift"), **given)


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
    assert np.allclose(weighted.gain, repeated.gain, atol=1e-9)
    assert np.allclose(weighted.shares, repeated.shares, atol=1e-9)
    same = budget_curve(
        y, uplift, treatment=arm, cost=cost, sample_weight=np.full(len(y), 0.1), **options
    )
    plain = budget_curve(y, uplift, treatment=arm, cost=cost, **options)
    assert np.allclose(same.gain, plain.gain)
    assert np.allclose(same.standard_error, plain.standard_error)


def test_weighted_errors_are_those_of_groups_of_copies():
    trial = make_trial(3000, random_state=2)
    score, copies = trial.X["x0"].to_numpy(), np.random.default_rng(0).integers(1, 4, 3000)
    index = np.repeat(np.arange(3000), copies)
    share = {"budget": np.linspace(0, 1, 11)}
    weighted = budget_curve(
        trial.y, score, treatment=trial.treatment, sample_weight=copies, **share
    )
    repeated = budget_curve(
        trial.y[index], score[index], treatment=trial.treatment[index], groups=index, **share
    )
    assert np.allclose(weighted.gain, repeated.gain, atol=1e-12)
    # The slope at the cut is taken over a window that narrows with the rows.
    assert np.allclose(weighted.standard_error, repeated.standard_error, rtol=0.02)
    with pytest.raises(ValueError, match="sample_weight should not be negative"):
        budget_curve(trial.y, score, treatment=trial.treatment, sample_weight=-copies)


def test_the_unit_of_the_outcome_and_its_direction_change_no_error(arms):
    y, uplift, arm, *_ = arms
    cost, grid = [0.2, 0.25], np.linspace(0, 0.2, 21)
    found = budget_curve(y, uplift, treatment=arm, cost=cost, budget=grid)
    against = policy_difference(y, uplift, treatment=arm, cost=cost, budget=grid)
    for other, sign in ((1 - y, -1.0), (y + 7, 1.0)):
        turned = budget_curve(other, uplift, treatment=arm, cost=cost, budget=grid)
        assert turned.gain == pytest.approx(sign * found.gain, abs=1e-12)
        assert turned.standard_error == pytest.approx(found.standard_error, abs=1e-12)
        area = policy_difference(other, uplift, treatment=arm, cost=cost, budget=grid)
        assert area.area_standard_error == pytest.approx(against.area_standard_error, abs=1e-12)
