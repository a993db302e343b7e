"""The numbers of a ranking: those of the metrics, on shares with enough rows between them."""

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import auucmax
from auucmax.data.pair import Pair, row_keys
from auucmax.metrics import uplift_band, uplift_by_decile
from auucmax.model.judge import EVERY_PERCENT, _ratios, arm_evidence, share_grid
from auucmax.results import LEAST_ROWS


def pair_of(y, treated, score):
    """The rows of a made-up trial, and their scores."""
    table = pd.DataFrame({"arm": np.where(treated, "mail", "none"), "y": y, "x": score})
    trial = auucmax.read_trial(table, treatment="arm", outcome="y", control="none")
    (pair,) = Pair.each(trial, row_keys(trial))
    return pair


@pytest.fixture(scope="module")
def judged():
    trial = auucmax.make_trial(5_000, n_features=4, ate=0.1, heterogeneity=0.9, random_state=1)
    score = np.asarray(trial.effect)
    return pair_of(trial.y, trial.treatment == 1, score), score


def test_numbers_are_those_of_the_metrics(judged):
    pair, score = judged
    noise = np.random.default_rng(0).random(len(score))
    found = arm_evidence(pair, score, check=None, rivals={"noise": noise}, predicted=score)
    own = auucmax.auuc_inference(pair.y, score, treatment=pair.treated)
    assert (found.auuc.value, found.gain.value) == pytest.approx((own.estimate, own.gain))
    assert (found.gain.lower, found.gain.upper) == pytest.approx(own.gain_interval)
    assert found.qini == pytest.approx(auucmax.qini_score(pair.y, score, treatment=pair.treated))
    band = uplift_band(pair.y, score, treatment=pair.treated, shares=found.curve.spend)
    assert found.curve.gain == pytest.approx(band.uplift)
    assert found.curve.band_lower[10:] == pytest.approx(band.simultaneous_lower[10:])
    assert found.effect.lower == pytest.approx(band.lower[-1])
    risk = auucmax.policy_risk(pair.y, score, treatment=pair.treated, share=found.curve.spend)
    assert found.risk == pytest.approx(risk)
    table = uplift_by_decile(pair.y, score, treatment=pair.treated)
    assert found.deciles.n_rows == tuple(table["rows"])
    assert found.deciles.uplift == pytest.approx(table["uplift"], abs=0.02)
    means = [part.mean() for part in np.array_split(np.sort(score)[::-1], 10)]
    assert found.deciles.predicted == pytest.approx(means)
    (rival,) = found.rivals
    difference = auucmax.auuc_difference(pair.y, score, noise, treatment=pair.treated)
    assert rival.difference.value == pytest.approx(difference.estimate)
    assert rival.difference.lower == pytest.approx(difference.interval[0])


@settings(deadline=None, max_examples=60)
@given(st.integers(90, 3_000), st.floats(0.05, 0.95), st.integers(0, 99))
def test_between_two_shares_lie_twenty_rows_of_each_arm(n, treated_share, seed):
    treated = np.random.default_rng(seed).random(n) < treated_share
    shares = share_grid(treated[::-1])
    assert (shares[0], shares[-1]) == (0, 1)
    cuts = np.floor(shares * n + 1e-9).astype(int)
    if len(shares) > 2:
        for start, end in pairwise(cuts):
            inside = treated[start:end]
            assert min(inside.sum(), (~inside).sum()) >= LEAST_ROWS


def test_shares_of_weighted_rows_have_rows_enough_between_them():
    rng = np.random.default_rng(0)
    treated, weight = rng.random(2_000) < 0.5, rng.choice([0.2, 5.0], 2_000)
    np.testing.assert_array_equal(share_grid(treated, np.full(2_000, 3.0)), share_grid(treated))
    shares = share_grid(treated, weight)
    assert len(shares) > 5
    total = np.cumsum(weight[::-1]) / weight.sum()
    for low, high in pairwise(shares.tolist()):
        inside = treated[::-1][(total > low + 1e-9) & (total <= high + 1e-9)]
        assert min(inside.sum(), (~inside).sum()) >= LEAST_ROWS


def test_folds_double_the_variance_of_the_gain(judged):
    once, twice = (
        arm_evidence(*judged, check=None, cross_fitted=crossed) for crossed in (False, True)
    )
    width = [own.gain.upper - own.gain.lower for own in (once, twice)]
    assert width[1] == pytest.approx(np.sqrt(2) * width[0])
    assert twice.gain.p_value > once.gain.p_value
    # The average effect depends on no model.
    assert (twice.effect.lower, twice.effect.upper) == pytest.approx(
        (once.effect.lower, once.effect.upper)
    )
    ratio = np.array(twice.curve.se[1:]) / np.array(once.curve.se[1:])
    assert ratio[-1] == pytest.approx(1)
    assert ((ratio >= 1 - 1e-9) & (ratio <= np.sqrt(2) + 1e-9)).all()


@pytest.mark.gate
def test_intervals_of_cross_fitted_models_hold_without_an_effect():
    """Linear models of noise: intervals of a fixed score miss 15%, these about 5%."""
    rng, n, runs = np.random.default_rng(0), 1_500, 300
    missed = {False: 0, True: 0}
    for _ in range(runs):
        X, treated, y = rng.normal(size=(n, 5)), rng.random(n) < 0.5, rng.normal(size=n)
        fold, rank = np.arange(n) % 5, np.empty(n)
        target = np.where(treated, 2.0, -2.0) * y
        for k in range(5):
            inside = fold == k
            line = np.linalg.lstsq(X[~inside], target[~inside], rcond=None)[0]
            rank[inside] = pd.Series(X[inside] @ line).rank() / inside.sum()
        for crossed in missed:
            found = auucmax.metrics.Levels.of(y, rank, treatment=treated).inference(
                cross_fitted=crossed
            )
            low, high = found.gain_interval
            missed[crossed] += not low <= 0 <= high
    error = np.sqrt(0.05 * 0.95 / runs)
    assert missed[True] / runs < 0.05 + 3 * error
    assert missed[False] / runs > 0.05 + 3 * error


def rows_of_constant_effect(n, rng, effect=0.3):
    treatment = rng.permutation(np.arange(n) % 2)
    y = (rng.random(n) < 0.2 + effect * treatment).astype(float)
    return y, rng.standard_normal(n), treatment


def test_ends_of_a_ratio_are_where_the_difference_is_just_significant():
    y, score, t = rows_of_constant_effect(3000, np.random.default_rng(0))
    band = uplift_band(y, score, treatment=t, shares=[0.3, 1.0])
    found = _ratios(band)[0]
    assert found.value == pytest.approx(band.uplift[0] / band.uplift[1])
    # There is one ratio only, 30% to all, so the largest is no larger than one.
    for r in (found.lower, found.upper):
        weights = np.array([1.0, -r])
        error = np.sqrt(weights @ band.covariance @ weights)
        assert abs(band.uplift @ weights) == pytest.approx(band.multiple * error, rel=0.02)
    assert found.lower < found.value < found.upper
    wide = _ratios(uplift_band(y, score, treatment=t, shares=EVERY_PERCENT))
    assert wide[30].lower < found.lower - 0.1 * (found.upper - found.lower)
    assert (wide[100].value, wide[100].lower, wide[100].upper) == pytest.approx((1, 1, 1))


@pytest.mark.gate
def test_intervals_of_ratios_cover_at_all_shares_together():
    rng, covered, runs = np.random.default_rng(1), 0, 150
    shares = np.arange(10, 101, 10) / 100
    for _ in range(runs):
        y, score, t = rows_of_constant_effect(1500, rng)
        band = uplift_band(y, score, treatment=t, shares=shares, random_state=0)
        pairs = zip(_ratios(band)[:-1], shares[:-1], strict=True)
        covered += all(own.lower <= share <= own.upper for own, share in pairs)
    assert abs(covered / runs - 0.95) < 3.5 * np.sqrt(0.95 * 0.05 / runs)
