"""What is known of a ranking: numbers without rows, the same wherever they are read."""

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import rankdata, spearmanr

from auucmax import (
    Trial,
    auuc_inference,
    check_randomisation,
    make_trial,
    policy_risk,
    qini_score,
)
from auucmax.data.few import LEAST_ROWS
from auucmax.metrics import uplift_band, uplift_by_decile
from auucmax.model import Judged, evidence_of
from auucmax.model.evidence import describe_randomisation
from auucmax.model.judging import (
    MOST_DRIVERS,
    describe_drivers,
    linear_weights,
    private_shares,
    ranks_within,
    ratio_intervals,
)
from auucmax.targeting.planning import EVERY_PERCENT, Expectation, ScoreQuantiles


def test_numbers_are_those_of_the_library(evidence, judged):
    y, score, treated, *_ = judged
    found = auuc_inference(y, score, treatment=treated)
    assert evidence["auuc"]["estimate"] == found.estimate
    assert evidence["qini"] == qini_score(y, score, treatment=treated)
    share = evidence.expected.share
    band = uplift_band(y, score, treatment=treated, shares=share)
    np.testing.assert_array_equal(evidence.expected.uplift, band.uplift)
    np.testing.assert_allclose(evidence.expected.lower, band.simultaneous_lower)
    np.testing.assert_allclose(evidence.expected.upper, band.simultaneous_upper)
    assert evidence["effect"]["lower"] == band.lower[-1]
    assert evidence["risk"] == policy_risk(y, score, treatment=treated, share=share).tolist()
    # Tenths are slopes of the curve, near the effects in tenths of the rows.
    tenths = uplift_by_decile(y, score, treatment=treated)
    rises = np.diff(np.interp(np.linspace(0, 1, 11), share, band.uplift)) / 0.1
    assert evidence["deciles"]["uplift"] == pytest.approx(rises)
    assert np.abs(rises - tenths["uplift"]).max() < tenths["standard_error"].max()
    assert evidence["deciles"]["standard_error"] == pytest.approx(
        tenths["standard_error"].tolist(), rel=0.25
    )
    means = [part.mean() for part in np.array_split(np.sort(score)[::-1], 10)]
    assert evidence["deciles"]["predicted"] == pytest.approx(means)
    assert evidence["ratio"][-1] == pytest.approx([1, 1, 1], abs=1e-6)


@settings(deadline=None, max_examples=60)
@given(st.integers(90, 3_000), st.floats(0.05, 0.95), st.integers(0, 99), st.booleans())
def test_between_two_shares_lie_twenty_rows_of_each_arm(n, treated_share, seed, tied):
    rng = np.random.default_rng(seed)
    treated = rng.random(n) < treated_share
    score = rng.integers(0, 5, n).astype(float) if tied else rng.random(n)
    order = np.argsort(-score, kind="stable")
    shares = private_shares(treated[order[::-1]])
    assert shares[0] == 0
    assert shares[-1] == 1
    cuts = np.floor(shares * n + 1e-9).astype(int)
    if len(shares) > 2:
        for start, end in pairwise(cuts):
            inside = treated[order[start:end]]
            assert min(inside.sum(), (~inside).sum()) >= LEAST_ROWS


def test_the_curve_of_a_rival_has_rows_enough_between_its_shares_too():
    rng = np.random.default_rng(0)
    treated = np.arange(2_000) % 2 == 0
    rows = Judged(rng.integers(0, 2, 2_000).astype(float), rng.random(2_000), treated)
    assert len(evidence_of(rows).expected.share) > 10
    uneven = np.where(treated, 2.0, 1.0) + rng.random(2_000)  # half of it is of one arm
    found = evidence_of(rows, rivals={"uneven": uneven})
    assert found.expected.share.tolist() == [0, 1]
    assert len(found["rivals"][0]["uplift"]) == 2


def test_ranks_within_folds():
    rng = np.random.default_rng(0)
    score, fold = rng.integers(0, 20, 300).astype(float), rng.integers(0, 4, 300)
    ranks = ranks_within(score, fold)
    for k in range(4):
        own = score[fold == k]
        np.testing.assert_allclose(ranks[fold == k], (rankdata(own) - 0.5) / len(own))


def test_few_rows_have_few_parts():
    few = make_trial(200, n_features=4, random_state=0)
    found = evidence_of(Judged(few.y, few.X.iloc[:, 0].to_numpy(), few.treatment == 1))
    assert 1 < len(found.expected.share) < 8
    assert len(found["deciles"]["bin"]) == len(found.expected.share) - 1
    assert all(rows >= 2 * LEAST_ROWS for rows in found["deciles"]["rows"])
    assert found.expected.step == 1 / len(found["deciles"]["bin"])


def test_a_finer_grid_is_the_straight_line(evidence):
    known = evidence.expected
    fine = known.on(EVERY_PERCENT)
    np.testing.assert_allclose(fine.uplift, np.interp(EVERY_PERCENT, known.share, known.uplift))
    both = np.isin(EVERY_PERCENT, known.share)
    np.testing.assert_array_equal(fine.uplift[both], known.uplift)
    np.testing.assert_array_equal(fine.reliable[both], known.reliable)


@pytest.mark.parametrize("n", [25, 300, 1_000, 5_000])
def test_smoothed_quantiles_are_near_all_of_them_and_nobodys_own(judged, n):
    score = judged.score[:n]
    whole = ScoreQuantiles.of(score)
    smooth = whole.smoothed(20)
    assert len(smooth.score) <= 101
    assert not np.isin(smooth.score, score).any()
    assert (np.diff(smooth.score) < 0).all()
    assert (smooth.above[0], smooth.reach[-1]) == (0, 1)
    assert smooth.score[0] < score.max()
    assert smooth.score[-1] > score.min()
    for share in (0.1, 0.37, 0.5, 0.9):
        close = smooth.cut(np.array([share]))[0][0]
        assert np.mean(score > close) == pytest.approx(share, abs=0.01 + 25 / n)
        assert smooth.share_of(close, 1.0) == pytest.approx(share, abs=1e-6)
    assert smooth.share_of(score.max() + 1, 1.0) == 0
    assert smooth.share_of(score.min() - 1, 1.0) == 1


def test_levels_of_many_people_are_cut_in_part():
    score = np.repeat([3.0, 1.0, 0.0], [200, 500, 300])
    for quantiles in (ScoreQuantiles.of(score), ScoreQuantiles.of(score).smoothed(20)):
        threshold, inside = quantiles.cut(np.array([0.1, 0.2, 0.45, 0.7, 0.85]))
        assert threshold.tolist() == [3.0, 3.0, 1.0, 1.0, 0.0]
        np.testing.assert_allclose(inside, [0.5, 1.0, 0.5, 1.0, 0.5])
        assert quantiles.share_of(1.0, 0.5) == pytest.approx(0.45)


def test_folds_double_the_variance_of_the_gain(judged):
    once, twice = (evidence_of(judged, cross_fitted=folds) for folds in (False, True))
    width = [(e["auuc"]["gain_upper"] - e["auuc"]["gain_lower"]) for e in (once, twice)]
    assert width[1] == pytest.approx(np.sqrt(2) * width[0])
    assert twice["auuc"]["p_value"] > once["auuc"]["p_value"]
    # The average effect is that of no model.
    assert twice["effect"] == pytest.approx(once["effect"])
    ratio = twice.expected.standard_error[1:] / once.expected.standard_error[1:]
    assert ratio[-1] == pytest.approx(1)
    assert ((ratio >= 1 - 1e-9) & (ratio <= np.sqrt(2) + 1e-9)).all()


@pytest.mark.gate
def test_intervals_of_cross_fitted_models_hold_where_nothing_is_to_be_told():
    """Linear models of noise: fixed-score intervals miss 15%, these about 5%."""
    rng, n, runs = np.random.default_rng(0), 1_500, 300
    missed = {False: 0, True: 0}
    for _ in range(runs):
        X, treated = rng.standard_normal((n, 5)), rng.random(n) < 0.5
        y = (rng.random(n) < 0.3).astype(float)
        fold, z = rng.integers(0, 5, n), y * (2.0 * treated - 1)
        score = np.empty(n)
        for k in range(5):
            score[fold == k] = X[fold == k] @ (X[fold != k].T @ z[fold != k])
        rows = Judged(y, ranks_within(score, fold), treated)
        for folds in missed:
            auuc = evidence_of(rows, cross_fitted=folds)["auuc"]
            missed[folds] += not auuc["gain_lower"] <= 0 <= auuc["gain_upper"]
    error = np.sqrt(0.05 * 0.95 / runs)
    assert missed[True] / runs < 0.05 + 3 * error
    assert missed[False] / runs > 0.05 + 3 * error


def test_an_expectation_plans_without_rows(evidence, judged):
    again = Expectation.from_dict(evidence.expected.to_dict())
    plans = [
        known.plan(new_score=judged.score, value=3.0, cost=0.1, only_reliable=True)
        for known in (evidence.expected, again)
    ]
    assert plans[0].best == plans[1].best
    assert plans[0].shift == plans[1].shift
    assert plans[0].shift.distance < 0.02


def constant_effect_rows(n, rng, effect=0.3):
    treatment = rng.permutation(np.arange(n) % 2)
    y = (rng.random(n) < 0.2 + effect * treatment).astype(float)
    return y, rng.standard_normal(n), treatment


def test_ends_of_the_ratio_lie_where_the_difference_is_just_significant():
    y, score, t = constant_effect_rows(3000, np.random.default_rng(0))
    band = uplift_band(y, score, treatment=t, shares=[0.3, 1.0])
    ratio, lower, upper = ratio_intervals(band)[0]
    assert ratio == pytest.approx(band.uplift[0] / band.uplift[1])
    # There is one ratio only, 30% to all, so the largest is no larger than one.
    multiple = band.multiple
    for r in (lower, upper):
        weights = np.array([1.0, -r])
        error = np.sqrt(weights @ band.covariance @ weights)
        assert abs(band.uplift @ weights) == pytest.approx(multiple * error, rel=0.02)
    assert lower < ratio < upper
    wide = uplift_band(y, score, treatment=t, shares=EVERY_PERCENT)
    assert ratio_intervals(wide)[30][1] < lower - 0.1 * (upper - lower)


def test_whole_share_has_the_whole_effect_exactly():
    y, score, t = constant_effect_rows(500, np.random.default_rng(0))
    band = uplift_band(y, score, treatment=t, shares=EVERY_PERCENT)
    assert ratio_intervals(band)[100] == pytest.approx((1, 1, 1), abs=1e-6)


def test_no_ratio_unless_the_effect_is_above_zero():
    y, score, t = constant_effect_rows(500, np.random.default_rng(0), effect=0.0)
    band = uplift_band(y, score, treatment=t, shares=[0.3, 1.0])
    assert ratio_intervals(band) == [None, None]


@pytest.mark.gate
def test_ratio_interval_covers():
    # With one effect for all, the top 30% have exactly 30% of it.
    rng, covered, runs = np.random.default_rng(0), 0, 600
    for _ in range(runs):
        y, score, t = constant_effect_rows(1500, rng)
        band = uplift_band(y, score, treatment=t, shares=[0.3, 1.0], random_state=0)
        _, lower, upper = ratio_intervals(band)[0]
        covered += lower <= 0.3 <= upper
    assert abs(covered / runs - 0.95) < 3 * np.sqrt(0.95 * 0.05 / runs)


@pytest.mark.gate
def test_ratio_intervals_cover_at_all_shares_together():
    rng, covered, runs = np.random.default_rng(1), 0, 150
    shares = np.arange(10, 101, 10) / 100
    for _ in range(runs):
        y, score, t = constant_effect_rows(1500, rng)
        band = uplift_band(y, score, treatment=t, shares=shares, random_state=0)
        ends = np.array(ratio_intervals(band))[:-1, 1:]
        covered += bool(((ends[:, 0] <= shares[:-1]) & (shares[:-1] <= ends[:, 1])).all())
    assert abs(covered / runs - 0.95) < 3.5 * np.sqrt(0.95 * 0.05 / runs)


@pytest.fixture
def frame():
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "skew": rng.exponential(size=500),
            "far": 1e9 + rng.standard_normal(500),
            "city": rng.choice(["a", "b", "c"], 500),
            "holes": np.where(rng.random(500) < 0.2, np.nan, rng.standard_normal(500)),
        }
    )


def by_name(found):
    return {(row["name"], row["level"]): row for row in found["features"]}


def test_correlation_is_spearmans_and_means_are_those_of_the_groups(frame):
    rng = np.random.default_rng(1)
    score = frame["skew"].to_numpy() + rng.standard_normal(500)
    rows = by_name(describe_drivers(frame, score, share=0.2))
    top = score >= np.sort(score)[-100]
    for name in ("skew", "far", "holes"):
        known = frame[name].notna().to_numpy()
        row, x = rows[name, None], frame[name].to_numpy()
        if name != "holes":  # ranks of the score are over all rows, also where the feature is not
            expected = spearmanr(score, x).statistic
            assert row["correlation"] == pytest.approx(expected, abs=0.005 + 1e-6)
        # To a hundredth of a deviation, or less.
        for own, part in ((row["top"], top), (row["rest"], ~top)):
            assert own == pytest.approx(x[part & known].mean(), abs=0.005 * x[known].std())
        difference = (x[top & known].mean() - x[~top & known].mean()) / x[known].std()
        assert row["difference"] == pytest.approx(difference, abs=0.015)
    is_b = (frame["city"] == "b").to_numpy()
    assert rows["city", "b"]["top"] == pytest.approx(is_b[top].mean(), abs=0.005)


def test_strongest_first_and_monotone_transforms_change_nothing(frame):
    score = frame["skew"].to_numpy()
    found = describe_drivers(frame, score, share=0.3)
    assert found["features"][0]["name"] == "skew"
    assert found["features"][0]["correlation"] == pytest.approx(1)
    sizes = [abs(row["correlation"]) for row in found["features"]]
    assert sizes == sorted(sizes, reverse=True)
    assert describe_drivers(frame, np.exp(score), share=0.3) == found


def test_tied_rows_at_the_cut_count_in_part():
    frame = pd.DataFrame({"x": [0.0, 1.0, 2.0, 3.0] * 40})
    row = describe_drivers(frame, np.zeros(160), share=0.25)["features"][0]
    assert row["top"] == row["rest"] == 1.5  # whoever is picked, it is at random
    assert row["correlation"] is None


def test_many_features_are_cut_and_useless_ones_are_named():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.standard_normal((50, 60))).assign(one=1)
    found = describe_drivers(frame, rng.standard_normal(50), share=0.5)
    assert len(found["features"]) == MOST_DRIVERS
    assert found["n_features"] == 60
    assert found["skipped"] == ["'one' has one value only"]


@pytest.mark.parametrize("at", [0, 499])
def test_shares_leave_no_remainder_of_one_person(frame, at):
    """Who is alone with a level is not told of, neither by share nor by what others leave."""
    score = -np.arange(500.0)
    alone = frame.assign(city=frame["city"].where(np.arange(500) != at, "Zed"))
    alone.loc[250, "skew"] = np.nan
    rows = describe_drivers(alone, score, share=0.3)["features"]
    told = [row for row in rows if row["name"] == "city"]
    assert 0 < len(told) < 3
    for row in told:
        assert (row["top"], row["rest"]) == (round(row["top"], 2), round(row["rest"], 2))
    for part, inside in (("top", np.arange(500) < 150), ("rest", np.arange(500) >= 150)):
        left = (1 - sum(row[part] for row in told)) * inside.sum()
        assert left >= LEAST_ROWS
    trial = Trial(alone[["city", "far"]], np.arange(500) % 2, (np.arange(500) // 2) % 2)
    check = describe_randomisation(check_randomisation(trial))
    told = [row for row in check["differences"] if row["feature"].startswith("city=")]
    assert 0 < len(told) < 3
    for arm in ("control", "treated"):
        assert (1 - sum(row[arm] for row in told)) * 250 >= LEAST_ROWS


def test_linear_weights_do_not_depend_on_the_units():
    deviation = pd.DataFrame({"a": [0.0, 1.0, 5.0], "b": [2.0, 2.0, 3.0]}).std(ddof=0).to_numpy()
    first = linear_weights(np.array([1.0, 3.0]), ["a", "b"], deviation)
    second = linear_weights(np.array([0.01, 3.0]), ["a", "b"], deviation * [100, 1])
    assert [t["name"] for t in first] == ["a", "b"]
    assert [t["weight"] for t in first] == pytest.approx([t["weight"] for t in second])


def test_a_weight_does_not_tell_how_many_have_a_level():
    deviation = np.sqrt([p * (1 - p) for p in (0.4, 0.4005)])  # a person more of 2,000
    first, second = linear_weights(np.ones(2), ["a", "b"], deviation)
    assert first["weight"] == second["weight"] == 0.49


def test_shares_of_weighted_rows_have_rows_enough_between_them():
    rng = np.random.default_rng(0)
    treated, weight = rng.random(2_000) < 0.5, rng.choice([0.2, 5.0], 2_000)
    np.testing.assert_array_equal(
        private_shares(treated, np.full(2_000, 3.0)), private_shares(treated)
    )
    shares = private_shares(treated, weight)
    assert len(shares) > 5
    total = np.cumsum(weight[::-1]) / weight.sum()
    for low, high in pairwise(shares.tolist()):
        inside = treated[::-1][(total > low + 1e-9) & (total <= high + 1e-9)]
        assert min(inside.sum(), (~inside).sum()) >= LEAST_ROWS
