"""The part of the whole effect that a share gives, with its interval."""

import numpy as np
import pytest

from auucmax.evaluation import uplift_band
from auucmax.targeting.planning import EVERY_PERCENT
from auucmax.trial_model.evidence import ratio_intervals


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
    multiple = (band.upper[1] - band.uplift[1]) / band.standard_error[1]
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
