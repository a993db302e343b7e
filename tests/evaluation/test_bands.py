import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.strategies import small_trials

from auucmax.evaluation.metrics import uplift_band, uplift_curve


@settings(deadline=None, max_examples=60)
@given(small_trials(min_arm=2), st.sampled_from(["joint", "separate"]), st.booleans())
def test_the_band_is_around_the_curve(rows, ranking, weighted):
    given = {"sample_weight": rows.weight, "propensity": rows.propensity} if weighted else {}
    band = uplift_band(rows.y, rows.score, treatment=rows.treated, ranking=ranking, **given)
    knots, uplift = uplift_curve(
        rows.y, rows.score, treatment=rows.treated, ranking=ranking, **given
    )
    assert band.uplift == pytest.approx(np.interp(band.share, knots, uplift), abs=1e-10)
    assert (band.simultaneous_lower <= band.lower + 1e-12).all()
    assert (band.lower <= band.upper).all()


def row_terms(rows, grid, weighted):
    """psi of the joint ranking, row by row and share by share, as the module's docstring says."""
    n = len(rows.y)
    w = rows.weight if weighted else np.ones(n)
    e = np.where(rows.treated, rows.propensity, 1 - rows.propensity) if weighted else np.ones(n)
    a, given = w / e, {"sample_weight": rows.weight, "propensity": rows.propensity}
    knots, curve = uplift_curve(
        rows.y, rows.score, treatment=rows.treated, **(given if weighted else {})
    )
    reach, psi = min(0.1, 0.5 * n**-0.2), np.empty((n, len(grid)))
    for j, q in enumerate(grid):
        left, right = max(q - reach, 0), min(q + reach, 1)
        slope = np.diff(np.interp([left, right], knots, curve))[0] / (right - left)
        for i in range(n):
            above = w[rows.score > rows.score[i]].sum() / w.sum()
            level = w[rows.score == rows.score[i]].sum() / w.sum()
            psi[i, j] = np.clip((q - above) / level, 0, 1)  # M_i(q)
        inside = psi[:, j].copy()
        psi[:, j] = -slope * w * (inside - q) / w.sum()
        for arm, sign in ((True, 1), (False, -1)):
            own = rows.treated == arm
            mean = np.average(rows.y[own] * inside[own], weights=a[own])
            psi[own, j] += sign * a[own] * (rows.y[own] * inside[own] - mean) / a[own].sum()
    return psi


@settings(deadline=None, max_examples=60)
@given(small_trials(min_arm=2), st.booleans())
def test_stretches_equal_row_by_row_sums(rows, weighted):
    grid = [0.1, 0.35, 0.8, 1.0]
    psi = row_terms(rows, grid, weighted)
    expected, totals = 0, np.empty_like(psi)
    for own in (rows.treated, ~rows.treated):
        expected = expected + own.sum() * np.cov(psi[own].T)
        totals[own] = psi[own] - psi[own].mean(axis=0)
    given = {"sample_weight": rows.weight, "propensity": rows.propensity} if weighted else {}
    band = uplift_band(rows.y, rows.score, treatment=rows.treated, shares=grid, **given)
    scale = np.abs(expected).max()
    assert band.covariance == pytest.approx(expected, rel=1e-7, abs=1e-9 * scale + 1e-12)

    groups = np.arange(len(rows.y)) // 2
    sums = np.array([totals[groups == g].sum(axis=0) for g in np.unique(groups)])
    clustered = uplift_band(
        rows.y, rows.score, treatment=rows.treated, shares=grid, groups=groups, **given
    )
    factor = np.zeros(len(sums))
    for arm in (True, False):
        members = np.unique(groups[rows.treated == arm])
        if len(members) == 1:
            assert np.isnan(clustered.standard_error).all()
            return
        factor[members] = np.maximum(factor[members], len(members) / (len(members) - 1))
    expected = (sums.T * factor) @ sums
    assert clustered.covariance == pytest.approx(expected, rel=1e-7, abs=1e-9 * scale + 1e-12)


def test_at_full_share_it_is_the_average_effect():
    rng = np.random.default_rng(0)
    y, t, score = rng.normal(size=500), rng.random(500) < 0.3, rng.normal(size=500)
    band = uplift_band(y, score, treatment=t, shares=[1.0])
    error = np.sqrt(y[t].var(ddof=1) / t.sum() + y[~t].var(ddof=1) / (~t).sum())
    assert band.uplift[0] == pytest.approx(y[t].mean() - y[~t].mean())
    assert band.standard_error[0] == pytest.approx(error)
    assert band.critical == pytest.approx(1.96, abs=0.05)


def test_same_seed_same_band_and_tighter_level_wider_band():
    rng = np.random.default_rng(0)
    y, t, score = rng.random(500), rng.random(500) < 0.3, rng.normal(size=500)
    a, b = (uplift_band(y, score, treatment=t, random_state=3) for _ in range(2))
    assert np.array_equal(a.simultaneous_upper, b.simultaneous_upper)
    wide = uplift_band(y, score, treatment=t, level=0.99)
    assert (wide.simultaneous_upper >= a.simultaneous_upper).all()
    assert wide.critical > a.critical > 1.96
