import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.metrics.reference import uplift_curve_at
from tests.strategies import small_trials

from auucmax.metrics.functions import (
    auuc_score,
    qini_curve,
    uplift_at_k,
    uplift_band,
    uplift_by_decile,
    uplift_curve,
)

quick = settings(deadline=None, max_examples=100)


@quick
@given(small_trials(), st.sampled_from(["joint", "separate"]), st.booleans())
def test_area_under_the_curve_is_the_score(rows, ranking, weighted):
    given = {"sample_weight": rows.weight, "propensity": rows.propensity} if weighted else {}
    share, uplift = uplift_curve(
        rows.y, rows.score, treatment=rows.treated, ranking=ranking, **given
    )
    value = auuc_score(rows.y, rows.score, treatment=rows.treated, ranking=ranking, **given)
    assert share[0] == 0
    assert share[-1] == 1
    assert (np.diff(share) >= 0).all()
    assert uplift[0] == 0
    assert np.trapezoid(uplift, share) == pytest.approx(value, abs=1e-12)


@quick
@given(small_trials(), st.floats(0, 1))
def test_curve_equals_its_slow_twin(rows, share):
    knots, uplift = uplift_curve(rows.y, rows.score, treatment=rows.treated)
    slow = uplift_curve_at(share, rows.y, rows.score, rows.treated)
    assert np.interp(share, knots, uplift) == pytest.approx(slow, abs=1e-10)


@quick
@given(small_trials(max_rows=12))
def test_qini_curve_counts(rows):
    share, qini = qini_curve(rows.y, rows.score, treatment=rows.treated)
    thresholds = np.unique(rows.score)[::-1]
    for k, threshold in enumerate(thresholds, start=1):
        top = rows.score >= threshold
        treated, control = top & rows.treated, top & ~rows.treated
        expected = rows.y[treated].sum()
        if control.any():
            expected -= rows.y[control].sum() * treated.sum() / control.sum()
        assert share[k] == pytest.approx(top.mean())
        assert qini[k] == pytest.approx(expected / rows.treated.sum(), abs=1e-12)


def test_uplift_at_k_by_hand():
    y = np.array([1, 1, 0, 1, 0, 0])
    score = np.array([6, 5, 4, 3, 2, 1])
    t = np.array([1, 0, 1, 0, 1, 0])
    assert uplift_at_k(y, score, treatment=t, share=0.5) == pytest.approx(1 / 2 - 1)
    assert uplift_at_k(y, score, treatment=t, share=1) == pytest.approx(1 / 3 - 2 / 3)
    by_arm = uplift_at_k(y, score, treatment=t, share=2 / 3, ranking="separate")
    assert by_arm == pytest.approx(1 / 2 - 1)
    values = uplift_at_k(y, score, treatment=t, share=[0.1, 0.5, 1])
    assert np.isnan(values[0])  # nobody of the control arm is that high
    assert values[1:].tolist() == pytest.approx([-0.5, -1 / 3])
    # A share that cuts a tied level takes a part of everyone in it.
    assert uplift_at_k(y, 0 * score, treatment=t, share=0.2) == pytest.approx(-1 / 3)


def test_deciles_hold_every_row_once_and_ties_together():
    rng = np.random.default_rng(0)
    n = 5000
    y, t = rng.random(n), rng.random(n) < 0.6
    table = uplift_by_decile(y, rng.normal(size=n), treatment=t)
    assert table["rows"].tolist() == [500] * 10
    assert (table["treated"] + table["control"]).tolist() == [500] * 10
    assert (table["lower"] < table["uplift"]).all()
    tied = uplift_by_decile(y, np.where(np.arange(n) < n / 2, 1, 0), treatment=t)
    assert tied["rows"].sum() == n
    assert sorted(tied["rows"][tied["rows"] > 0]) == [2500, 2500]
    assert tied["uplift"].isna().sum() == 8


def test_weighted_deciles():
    """A bin's standard error by the jackknife over its rows."""
    rng = np.random.default_rng(2)
    n = 300
    y, t, w = rng.normal(size=n), rng.random(n) < 0.5, rng.uniform(0.2, 2, n)
    table = uplift_by_decile(y, np.zeros(n), treatment=t, sample_weight=w, bins=1)
    variance = 0.0
    for own in (t, ~t):
        y_arm, w_arm = y[own], w[own]
        left_out = [
            np.average(np.delete(y_arm, i), weights=np.delete(w_arm, i)) for i in range(len(y_arm))
        ]
        variance += (len(y_arm) - 1) * np.var(left_out)
    assert table.loc[1, "standard_error"] == pytest.approx(variance**0.5, rel=0.02)
    expected = np.average(y[t], weights=w[t]) - np.average(y[~t], weights=w[~t])
    assert table.loc[1, "uplift"] == pytest.approx(expected)


@settings(deadline=None, max_examples=60)
@given(small_trials(min_arm=2), st.sampled_from(["joint", "separate"]), st.booleans())
def test_the_band_is_around_the_curve(rows, ranking, weighted):
    given = {"sample_weight": rows.weight, "propensity": rows.propensity} if weighted else {}
    band = uplift_band(rows.y, rows.score, treatment=rows.treated, ranking=ranking, **given)
    centred = rows.y - np.average(rows.y, weights=given.get("sample_weight"))
    knots, uplift = uplift_curve(
        centred, rows.score, treatment=rows.treated, ranking=ranking, **given
    )
    assert band.uplift == pytest.approx(np.interp(band.share, knots, uplift), abs=1e-10)
    # Where few are in the top there are no ends, and no comparison holds.
    assert not (band.simultaneous_lower > band.lower + 1e-12).any()
    assert not (band.lower > band.uplift + 1e-12).any()
    assert not (band.upper < band.uplift - 1e-12).any()
    assert (band.declined is None) == np.isfinite(band.simultaneous_lower).all()


def row_terms(rows, grid, weighted):
    """psi of the joint ranking, row by row and share by share, as the module's docstring says."""
    n = len(rows.y)
    w = rows.weight if weighted else np.ones(n)
    e = np.where(rows.treated, rows.propensity, 1 - rows.propensity) if weighted else np.ones(n)
    a, given = w / e, {"sample_weight": rows.weight, "propensity": rows.propensity}
    y = rows.y - np.average(rows.y, weights=w)
    knots, curve = uplift_curve(
        y, rows.score, treatment=rows.treated, **(given if weighted else {})
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
            mean = np.average(y[own] * inside[own], weights=a[own])
            psi[own, j] += sign * a[own] * (y[own] * inside[own] - mean) / a[own].sum()
    return psi


@settings(deadline=None, max_examples=60)
@given(small_trials(min_arm=2), st.booleans())
def test_segments_equal_row_by_row_sums(rows, weighted):
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
    part = np.zeros(len(sums))  # of an arm's rows, the larger one of both arms
    for arm in (True, False):
        sizes = np.bincount(groups[rows.treated == arm], minlength=len(sums))
        part = np.maximum(part, sizes / sizes.sum())
    if part.max() == 1:
        assert np.isnan(clustered.standard_error).all()
        return
    expected = (sums.T / (1 - part)) @ sums
    assert clustered.covariance == pytest.approx(expected, rel=1e-7, abs=1e-9 * scale + 1e-12)


def test_same_seed_same_band_and_tighter_level_wider_band():
    rng = np.random.default_rng(0)
    y, t, score = rng.random(500), rng.random(500) < 0.3, rng.normal(size=500)
    a, b = (uplift_band(y, score, treatment=t, random_state=3) for _ in range(2))
    assert np.array_equal(a.simultaneous_upper, b.simultaneous_upper, equal_nan=True)
    wide = uplift_band(y, score, treatment=t, level=0.99)
    assert not (wide.simultaneous_upper < a.simultaneous_upper).any()
    assert "10 rows of an arm" in a.declined
    assert np.isnan(a.lower[0])
    assert np.isfinite(a.lower[5:]).all()
    assert wide.critical > a.critical > 1.96


@pytest.mark.parametrize("binary", [True, False])
def test_a_band_holds_where_the_top_holds_enough(binary):
    rng = np.random.default_rng(1)
    t, score = rng.permutation(np.arange(400) % 2), rng.standard_normal(400)
    y = (rng.random(400) < 0.2 + 0.3 * t).astype(float)
    if not binary:
        y = y + 0.5
    order, shares = np.argsort(-score), np.linspace(0, 1, 101)
    expected = []
    for share in shares:
        top = order[: round(share * 400)]
        rows = min((t[top] == arm).sum() for arm in (0, 1))
        # 0/1: responders of the smaller arm at the rate of both; otherwise rows of it.
        expected.append(rows * y[top].mean() >= 5 if binary and len(top) else rows >= 10)
    expected[0] = True  # treating nobody is exact
    found = uplift_band(y, score, treatment=t, shares=shares)
    assert np.isfinite(found.simultaneous_lower).tolist() == expected
    assert found.declined is not None
