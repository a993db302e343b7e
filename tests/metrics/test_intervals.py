"""Limits from sums agree with what the formulas say, and never collapse."""

import numpy as np
import pytest
from scipy import stats

from auucmax.metrics import (
    Levels,
    auuc_difference,
    auuc_inference,
    uplift_band,
    uplift_by_decile,
)
from auucmax.metrics.intervals import (
    ArmMean,
    Moments,
    Spread,
    score_limits,
    skewed_limits,
)


def proportion(k, n, sign=1):
    """The mean of n outcomes of which k are 1: rows that are not ranked."""
    variance = k / n * (1 - k / n) / (n - 1)
    return ArmMean.of(n, (float(k), float(k)), variance, sign=sign)


@pytest.mark.parametrize(("k", "n"), [(0, 20), (3, 20), (20, 20), (400, 1000)])
def test_one_arm_has_the_limits_of_wilson(k, n):
    found = proportion(k, n).limits(stats.norm.ppf(0.975))
    expected = stats.binomtest(k, n).proportion_ci(method="wilson")
    assert found == pytest.approx((expected.low, expected.high), abs=1e-12)


def test_two_arms_have_the_limits_of_newcombe():
    """The example of Newcombe (1998), method 10: 56/70 and 48/80."""
    low, high = score_limits(
        0.2, (proportion(56, 70), proportion(48, 80, -1)), stats.norm.ppf(0.975)
    )
    assert (low, high) == pytest.approx((0.0524, 0.3339), abs=5e-5)


@pytest.mark.parametrize("skew", [-2.0, -0.3, 0.0, 0.4, 3.0])
def test_skewed_limits_solve_the_cubic(skew):
    low, high = skewed_limits(10.0, 2.0, skew, 2.1)
    for end, value in ((low, 2.1), (high, -2.1)):
        t, a = (10.0 - end) / 2.0, skew / 3
        assert t + a * t**2 + a**2 * t**3 / 3 + a / 2 == pytest.approx(value)


def test_moments_of_rows_of_powers_and_of_single_clusters_are_one():
    terms = np.random.default_rng(0).exponential(size=(40, 3))
    rows = Moments.of(terms)
    mean = terms.mean(axis=0)
    powers = Moments.of_powers(40, [(terms**k).sum(axis=0) for k in (1, 2, 3, 4)], mean)
    clusters = Moments.of_clusters(terms - mean, np.full(40, 39 / 40))
    assert rows.variance == pytest.approx(40 * terms.var(axis=0, ddof=1))
    assert rows.third == pytest.approx(40 * stats.skew(terms) * terms.std(axis=0, ddof=1) ** 3)
    for other in (powers, clusters):
        for a, b in zip(rows, other, strict=True):
            assert a == pytest.approx(b)


def test_degrees_are_those_of_welch_and_fall_with_heavy_tails():
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=12), 3 * rng.normal(size=30)
    spread = Spread.of([Moments.of(a / 12), Moments.of(b / 30)])
    expected = stats.ttest_ind(a, b, equal_var=False)
    assert spread.welch == pytest.approx(expected.df)
    assert spread.error == pytest.approx((np.mean(a) - np.mean(b)) / expected.statistic)
    heavy = Spread.of([Moments.of(np.exp(2 * a)), Moments.of(np.exp(b))])
    assert heavy.degrees < heavy.welch / 4


def rows_of(kind, n, share, seed=0):
    rng = np.random.default_rng(seed)
    score, t = rng.normal(size=n), rng.random(n) < share
    y = {
        "rare": (rng.random(n) < 0.1).astype(float),
        "money": np.where(rng.random(n) < 0.1, rng.lognormal(size=n), 0.0),
        "even": rng.normal(size=n),
    }[kind]
    return y, score, {"treatment": t}


def test_few_responders_have_an_interval_that_does_not_collapse():
    y, score, given = rows_of("rare", 400, 0.05)
    y[given["treatment"]] = 0.0
    found = auuc_inference(y, score, **given)
    assert found.declined is None
    assert found.interval[0] < found.estimate < found.interval[1]
    assert found.interval[1] - found.interval[0] > 0.05
    assert found.gain_declined == (
        "only 0 rows of an arm have the rarer outcome, where at least 5 are needed"
    )
    assert np.isnan([*found.gain_interval, found.p_value]).all()
    assert "nan" not in str(found)


def test_skewed_outcomes_need_responders_and_say_so():
    y, score, given = rows_of("money", 1000, 0.1)
    found = auuc_inference(y, score, **given)
    assert "outcomes are skewed, where at least 50 are needed" in found.declined
    assert found.estimate == Levels.of(y, score, **given).auuc()
    difference = auuc_difference(y, score, -score, **given)
    assert "at least 20 are needed" in difference.declined
    assert "nan" not in str(difference)
    y, score, given = rows_of("money", 5000, 0.5)
    assert auuc_inference(y, score, **given).declined is None


def test_a_small_trial_of_an_even_outcome_keeps_the_interval_of_student():
    y, score, given = rows_of("even", 40, 0.5)
    found = auuc_inference(y, score, **given)
    low, high = found.interval
    assert (low + high) / 2 == pytest.approx(found.estimate)
    assert 2 * 2 < (high - low) / found.standard_error < 2 * 2.2
    few = auuc_inference(y[:12], score[:12], treatment=given["treatment"][:12])
    assert "rows of an arm are there" in few.declined


def test_an_adjusted_outcome_counts_the_responders_of_the_outcome():
    y, score, given = rows_of("rare", 1000, 0.1)
    model = 0.1 + 0.05 * np.tanh(score)
    found = auuc_inference(y, score, outcome_model=model, **given)
    count = int(min(y[given["treatment"]].sum(), y[~given["treatment"]].sum()))
    assert f"only {count} rows of an arm" in found.declined


def test_a_band_begins_where_responders_are_enough():
    y, score, given = rows_of("money", 3000, 0.5)
    band = uplift_band(y, score, **given)
    first = int(np.argmax(np.isfinite(band.lower)))
    assert 0 < first < 38
    assert "at some shares the top holds fewer than 50" in band.declined
    assert np.isfinite(band.simultaneous_upper[first:]).all()
    nobody = uplift_band(y, score, shares=[0.0, 1.0], **given)
    assert (nobody.lower[0], nobody.upper[0]) == (0, 0)


@pytest.mark.parametrize("kind", ["rare", "money", "even"])
def test_a_band_at_the_full_share_is_the_effect_whatever_the_order(kind):
    y, score, given = rows_of(kind, 3000, 0.5)
    a, b = (uplift_band(y, s, shares=[1.0], **given) for s in (score, -score))
    assert a.lower == pytest.approx(b.lower)
    assert a.upper == pytest.approx(b.upper)


@pytest.mark.parametrize("kind", ["rare", "money", "even"])
def test_cross_fitted_intervals_are_wider(kind):
    y, score, given = rows_of(kind, 3000, 0.5)
    levels = Levels.of(y, score, **given)
    plain, folds = levels.inference(), levels.inference(cross_fitted=True)
    assert folds.standard_error == pytest.approx(
        np.hypot(plain.standard_error, plain.gain_standard_error)
    )
    assert folds.gain_standard_error == pytest.approx(np.sqrt(2) * plain.gain_standard_error)
    assert folds.interval[0] < plain.interval[0]
    assert folds.interval[1] > plain.interval[1]
    shares = [0.5, 1.0]
    one, other = levels.band(shares), levels.band(shares, cross_fitted=True)
    assert (other.upper - other.lower)[0] > (one.upper - one.lower)[0]
    assert (other.upper - other.lower)[1] == pytest.approx((one.upper - one.lower)[1])
    with pytest.raises(ValueError, match="should end with 1"):
        levels.band([0.5], cross_fitted=True)


def test_tenths_of_rare_outcomes_have_the_limits_of_newcombe():
    y, score, given = rows_of("rare", 2000, 0.5)
    table = uplift_by_decile(y, score, **given)
    row = table.loc[3]
    arms = [
        proportion(round(row[f"mean_{arm}"] * row[arm]), int(row[arm]), sign)
        for arm, sign in (("treated", 1), ("control", -1))
    ]
    expected = score_limits(row["uplift"], arms, stats.norm.ppf(0.975))
    assert (row["lower"], row["upper"]) == pytest.approx(expected)
    y, score, given = rows_of("money", 2000, 0.5)
    few = uplift_by_decile(y, score, **given)
    assert few["lower"].isna().all()
    assert np.isfinite(uplift_by_decile(y, score, bins=1, **given)["lower"]).all()


def test_a_small_arm_of_money_is_no_surer_than_all_rows():
    """Treated rows without a large outcome: their own variance says that they did harm."""
    rng = np.random.default_rng(0)
    y, t = rng.lognormal(0, 1.5, 4_100), np.arange(4_100) >= 4_000
    y[t] = np.sort(y)[::41] * 0.5
    score = rng.random(len(y))
    levels = Levels.of(y, score, treatment=t)
    spread = levels.support.deviation[0]
    assert spread == pytest.approx(
        np.sqrt(np.mean((y - np.where(t, y[t].mean(), y[~t].mean())) ** 2))
    )
    band = levels.band([1.0])
    half = spread * np.sqrt(1 / 4_000 + 1 / 100)
    assert band.upper[0] >= band.uplift[0] + 1.9 * half
    rows = Levels.of(y[:4_000], score[:4_000], treatment=np.arange(4_000) % 2 == 0)
    assert rows.support.deviation == (0.0, 0.0)  # arms of one size: as their own variances say


def test_no_least_error_for_0_1_outcomes_or_a_gain_of_equal_weights():
    rng = np.random.default_rng(1)
    t, score = np.arange(2_000) >= 1_600, rng.random(2_000)
    rare, money = (rng.random(2_000) < 0.05).astype(float), rng.lognormal(0, 1.5, 2_000)
    chance = np.where(score > 0.5, 0.9, 0.1)
    assert Levels.of(rare, score, treatment=t, propensity=chance).support.deviation == (0.0, 0.0)
    whole, gain = Levels.of(money, score, treatment=t).support.deviation
    assert whole > 0
    assert gain == 0
    assert Levels.of(money, score, treatment=t, propensity=chance).support.deviation[1] > 0
