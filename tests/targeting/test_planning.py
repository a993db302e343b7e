import json
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import ks_2samp
from tests.strategies import small_trials

from auucmax.data import load_hillstrom, make_trial
from auucmax.metrics.functions import uplift_at_k, uplift_band, uplift_curve
from auucmax.targeting import plan
from auucmax.targeting.planning import EVERY_PERCENT, ScoreQuantiles

GRID = [0.0, 0.1, 0.35, 0.5, 0.8, 1.0]


def slow_count(score, weight, q, cohort):
    """The threshold that cuts off the top q, and how many of the cohort are above it (a float)."""
    if q in (0, 1):
        return np.inf if q == 0 else -np.inf, q * len(cohort)
    reach = [s for s in np.unique(score) if weight[score >= s].sum() >= (q - 1e-12) * weight.sum()]
    cut = max(reach)
    above, level = (weight[where].sum() / weight.sum() for where in (score > cut, score == cut))
    return cut, (cohort > cut).sum() + (q - above) / level * (cohort == cut).sum()


@settings(deadline=None, max_examples=60)
@given(small_trials(min_arm=2), st.booleans(), st.data())
def test_numbers_are_those_of_the_definitions(rows, weighted, data):
    given = {"sample_weight": rows.weight, "propensity": rows.propensity} if weighted else {}
    picks = st.lists(st.integers(0, len(rows.y) - 1), min_size=1, max_size=20)
    cohort = rows.score[data.draw(picks)] + data.draw(st.sampled_from([0.0, 1e-3]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # so small a cohort may well be different
        found = plan(
            rows.y, rows.score, treatment=rows.treated, new_score=cohort, shares=GRID,
            value=3, cost=0.5, **given,
        )  # fmt: skip
    weight = rows.weight if weighted else np.ones(len(rows.y))
    centred = rows.y - np.average(rows.y, weights=weight)
    knots, curve = uplift_curve(centred, rows.score, treatment=rows.treated, **given)
    for q in GRID:
        row = found.at(q)
        threshold, n = slow_count(rows.score, weight, q, cohort)
        assert row.threshold == threshold
        assert abs(row.n_treated - n) <= 0.5 + 1e-9
        per_treated = np.interp(q, knots, curve) / q if q else 0.0
        assert row.gain == pytest.approx(row.n_treated * per_treated, abs=1e-8)
        for end in ("", "_lower", "_upper"):
            profit = 3 * getattr(row, "gain" + end) - 0.5 * row.n_treated
            assert getattr(row, "profit" + end) == pytest.approx(profit, abs=1e-8, nan_ok=True)
        # So few rows have no interval, but at nobody treated.
        assert not row.gain_lower > row.gain + 1e-9
        assert not row.gain_upper < row.gain - 1e-9
    assert found.best.profit == found.table["profit"].max()
    assert found.cautious.profit_lower == found.table["profit_lower"].max() >= 0


@pytest.fixture(scope="module")
def trial():
    return make_trial(8000, heterogeneity=1.0, ate=0.05, random_state=5)


def test_intervals_are_the_simultaneous_band(trial):
    given = {"treatment": trial.treatment, "level": 0.9, "random_state": 2}
    found = plan(trial.y, trial.effect, n_people=500, **given)
    band = uplift_band(trial.y, trial.effect, shares=found.expected.share, **given)
    lower, upper = 500 * band.simultaneous_lower, 500 * band.simultaneous_upper
    assert found.table["gain_lower"].tolist() == pytest.approx(lower, nan_ok=True)
    assert found.table["gain_upper"].tolist() == pytest.approx(upper, nan_ok=True)
    row = found.at(0)
    assert (row.n_treated, row.gain, row.gain_lower, row.gain_upper, row.profit) == (0, 0, 0, 0, 0)
    effect = uplift_at_k(trial.y, trial.effect, treatment=trial.treatment, share=1.0)
    assert found.at(1).effect == pytest.approx(effect)


def test_one_more_share_changes_no_other_row_of_a_fine_grid(trial):
    rows = {"y": trial.y, "score": trial.effect, "treatment": trial.treatment}
    fine = plan(**rows, shares=EVERY_PERCENT)
    more = plan(**rows, shares=EVERY_PERCENT, share=[0.123, 0.3])
    assert more.at(0.3) == fine.at(0.3)
    between = more.at(0.123)
    assert between.gain_lower < between.gain < between.gain_upper
    # A coarse grid says too little of what lies between its shares.
    coarse = plan(**rows, shares=[0.5])
    wider = plan(**rows, shares=[0.5], share=0.1)
    assert wider.at(0.5).gain_lower < coarse.at(0.5).gain_lower


def test_peaks_budget_and_slider(trial):
    found = plan(trial.y, trial.effect, treatment=trial.treatment, value=100, cost=5, share=1 / 3)
    assert 0 < found.best.share < 1
    assert found.best.profit_lower <= found.cautious.profit_lower > 0
    assert found.at(1 / 3).n_treated == 333
    assert found.affordable(1660).share == 0.33
    assert found.affordable(0).n_treated == 0
    assert "people like those of the trial" in str(found)
    json.dumps(found.to_dict(), allow_nan=False)
    with pytest.raises(ValueError, match=r"got 0\.123; the nearest is 0\.12\. Pass share=0\.123"):
        found.at(0.123)


def test_where_no_profit_is_sure_the_cautious_share_is_nobody(trial):
    noise = np.random.default_rng(0).random(len(trial.y))
    found = plan(trial.y, noise, treatment=trial.treatment, value=1, cost=1)
    assert found.cautious.share == found.cautious.profit == 0
    assert "treat nobody" in str(found)


def test_the_same_scores_are_no_shift_and_need_as_many_people(trial):
    found = plan(trial.y, trial.effect, treatment=trial.treatment, new_score=trial.effect)
    assert found.shift.distance == 0
    wanted = found.table["share"] * len(trial.y)
    assert np.abs(found.table["n_treated"] - wanted).max() <= 1
    assert "of the cohort" in found.population


def test_another_distribution_of_scores_is_warned_of_in_numbers(trial):
    new = np.sort(trial.effect)[2000:5000] + 0.01
    distance = ks_2samp(trial.effect, new).statistic
    with pytest.warns(UserWarning, match=f"largest difference of {distance:.3f}"):
        found = plan(trial.y, trial.effect, treatment=trial.treatment, new_score=new)
    assert found.shift.distance == pytest.approx(distance)
    assert (found.shift.above, found.shift.below) == (0, 0)
    beyond = np.r_[new, np.full(1000, 9.0)]
    with pytest.warns(UserWarning, match=r"25\.0% of the cohort score higher"):
        plan(trial.y, trial.effect, treatment=trial.treatment, new_score=beyond)


def test_scores_that_are_compared_together_share_what_chance_may_explain():
    scores, cohort = ScoreQuantiles.of(np.arange(500.0)), np.arange(300.0)
    one, four = scores.shift(cohort), scores.shift(cohort, 4)
    assert four.by_chance / one.by_chance == pytest.approx(np.sqrt(np.log(8_000) / np.log(2_000)))
    assert four.distance == one.distance


def test_a_shift_that_chance_explains_is_not_warned_of(trial):
    rng = np.random.default_rng(1)
    for _ in range(20):  # warnings are errors here
        new = rng.choice(trial.effect, 60)
        found = plan(trial.y, trial.effect, treatment=trial.treatment, new_score=new, shares=[0.5])
        assert not found.shift.is_large


def test_a_constant_in_revenue_costs_no_width(trial):
    revenue = plan(100 + 20 * trial.y, trial.effect, treatment=trial.treatment, shares=[0.5])
    visits = plan(trial.y, trial.effect, treatment=trial.treatment, shares=[0.5])
    row, per_visit = revenue.at(0.5), visits.at(0.5)
    assert row.gain == pytest.approx(20 * per_visit.gain)
    width = per_visit.gain_upper - per_visit.gain_lower
    assert row.gain_upper - row.gain_lower == pytest.approx(20 * width, rel=0.05)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"value": -1}, "value should be a number, 0 or more"),
        ({"cost": "2"}, "cost should be a number, 0 or more"),
        ({"n_people": 0}, "n_people should be a whole number"),
        ({"new_score": [1, np.nan]}, "new_score should have no missing values"),
        ({"treatment": [1, 0, 0, 0]}, "at least two rows"),
        ({"shares": [2]}, "share should be between 0 and 1"),
    ],
)
def test_messages(change, message):
    given = {"treatment": [1, 0, 1, 0]} | change
    with pytest.raises(ValueError, match=message):
        plan([1, 0, 1, 1], [1, 2, 3, 4], **given)


# Simulation. Score uniform on [0, 1], 4,000 rows; a cohort of 2,000. The effect is rise * score +
# start, an outcome is worth 10. With an effect of .1 and a cost of 1 the profit is zero at every
# share, so that the peak is a matter of chance: there the intervals of level 95% have missed in
# 0.9% to 1.8% of the trials, pointwise ones in 8.4% to 10.6%.
N_TRIALS, N_COHORT = 1000, 2000
STANDARD_ERROR = np.sqrt(0.05 * 0.95 / N_TRIALS)


def simulate(rng, rise, start, cost, revenue, with_cohort):
    """Whether the truth is missed: at the peak, at the cautious peak, at random; pointwise."""
    score, treated = rng.random(4000), rng.random(4000) < 0.5
    y = (rng.random(4000) < 0.15 + treated * (rise * score + start)).astype(float)
    y *= rng.gamma(2, 0.5, 4000) if revenue else 1.0  # of mean 1: the same effect
    cohort = rng.random(N_COHORT)
    found = plan(
        y, score, treatment=treated, value=10, cost=cost, shares=np.linspace(0.05, 1, 20),
        n_people=N_COHORT, new_score=cohort if with_cohort else None,
    )  # fmt: skip
    table, q = found.table.iloc[1:], found.expected.share[1:]  # nobody has no error
    if with_cohort:  # the effects on the very people who are treated
        best_first = np.sort(cohort)[::-1]
        truth = np.cumsum(rise * best_first + start)[table["n_treated"] - 1]
    else:
        truth = N_COHORT * (rise * (q - q**2 / 2) + start * q)
    missed = (truth < table["gain_lower"]) | (truth > table["gain_upper"])
    scale = table["n_treated"] / q
    reach = 1.961 * found.expected.standard_error[1:]  # at one share, with so many rows
    lower, upper = (scale * (found.expected.uplift[1:] + side * reach) for side in (-1, 1))
    pointwise = (truth < lower) | (truth > upper)
    peak = table["profit"].to_numpy().argmax()
    cautious = table["profit_lower"].to_numpy().argmax()
    chosen = [missed.iloc[i] for i in (peak, cautious, rng.integers(len(q)))]
    return [*chosen, pointwise.iloc[peak]]


@pytest.mark.gate
@pytest.mark.parametrize("with_cohort", [False, True])
@pytest.mark.parametrize("revenue", [False, True])
@pytest.mark.parametrize(("rise", "start", "cost"), [(0.0, 0.1, 1.0), (0.3, -0.05, 0.7)])
def test_intervals_hold_at_a_share_chosen_after_looking(rise, start, cost, revenue, with_cohort):
    rng = np.random.default_rng([int(10 * rise), revenue, with_cohort])
    cases = [simulate(rng, rise, start, cost, revenue, with_cohort) for _ in range(N_TRIALS)]
    rates = np.mean(cases, axis=0)
    assert (rates[:3] <= 0.05 + 3 * STANDARD_ERROR).all(), rates
    if rise == 0:  # a pointwise interval misses at a peak that chance has picked
        assert rates[3] > 0.05 + 4 * STANDARD_ERROR, rates


# Shares that enough rows stand behind.


@pytest.mark.parametrize("binary", [True, False])
def test_a_share_is_reliable_where_the_top_holds_enough(binary):
    rng = np.random.default_rng(1)
    t, score = rng.permutation(np.arange(400) % 2), rng.standard_normal(400)
    y = (rng.random(400) < 0.2 + 0.3 * t).astype(float)
    if not binary:
        y = y + 0.5
    order = np.argsort(-score)
    expected = []
    for share in EVERY_PERCENT:
        top = order[: round(share * 400)]
        rows = min((t[top] == arm).sum() for arm in (0, 1))
        # 0/1: responders of the smaller arm at the rate of both; otherwise rows of it.
        expected.append(rows * y[top].mean() >= 5 if binary and len(top) else rows >= 10)
    found = plan(y, score, treatment=t, shares=EVERY_PERCENT)
    assert found.expected.reliable.tolist() == expected
    assert np.isnan(found.table["gain_lower"].to_numpy()[1])
    assert found.expected.declined in found.population
    assert "below a share of" in found.expected.declined
    assert found.cautious.profit_lower >= 0


def test_a_plan_without_intervals_says_so():
    rng = np.random.default_rng(2)
    y, t, score = rng.lognormal(size=60), np.arange(60) % 2, rng.standard_normal(60)
    found = plan(y, score, treatment=t)
    assert "interval cannot be said" in str(found)
    assert "nan" not in str(found)
    assert found.cautious.n_treated == 0
    assert not found.expected.reliable.any()
    plain = found.to_dict()
    assert plain["best"]["gain_lower"] is None


def test_scores_are_counted_by_their_weights():
    score, weight = np.array([3.0, 1.0, 1.0, 2.0]), np.array([2.0, 1.0, 3.0, 2.0])
    found, copies = ScoreQuantiles.of(score, weight), ScoreQuantiles.of(score.repeat([2, 1, 3, 2]))
    np.testing.assert_allclose(found.above, copies.above)
    np.testing.assert_allclose(found.reach, copies.reach)
    assert found.n_rows == pytest.approx(64 / 18)


@pytest.mark.gate
def test_a_plan_that_certifies_its_shares():
    trial = load_hillstrom()
    rows = {"treatment": trial.treatment, "value": 10, "cost": 0.2, "n_people": 10_000}
    found = plan(trial.y, trial.X["womens"], certify=True, **rows)
    most = np.array(found.certified.share_upper_bounds)
    gains = np.array(found.certified.gain_lower_bounds)
    np.testing.assert_allclose(found.certified_profit, 10_000 * (10 * gains - 0.2 * most))
    for share, gain in zip(found.certified.shares, gains, strict=True):
        assert 10_000 * gain < found.at(share).gain
    assert f"highest certified profit: at least {found.certified_profit.max():,.2f}" in str(found)
    assert found.to_dict()["certified"]["profit"] == pytest.approx(found.certified_profit)
    plain = plan(trial.y, trial.X["womens"], **rows)
    assert plain.to_dict()["certified"] is plain.certified is None
    assert len(plain.certified_profit) == 0
    with pytest.raises(ValueError, match="certify should be asked for independent rows"):
        plan(trial.y, trial.X["womens"], certify=True, groups=np.arange(trial.n_rows), **rows)
