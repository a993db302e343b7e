import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.strategies import small_trials

from auucmax.evaluation.metrics import (
    auuc_score,
    qini_curve,
    qini_score,
    uplift_at_k,
    uplift_by_decile,
    uplift_curve,
)
from auucmax.evaluation.reference import uplift_curve_at

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


def test_qini_of_a_useless_score_is_nothing():
    y, t = np.array([1, 0, 1, 1]), np.array([1, 1, 0, 0])
    assert qini_score(y, np.zeros(4), treatment=t) == 0
    rng = np.random.default_rng(0)
    y, t, score = rng.random(100_000), rng.random(100_000) < 0.5, rng.random(100_000)
    assert abs(qini_score(y, score, treatment=t)) < 0.005


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


def test_decile_standard_errors_are_those_of_two_means():
    rng = np.random.default_rng(1)
    y, t, score = rng.normal(size=400), rng.random(400) < 0.5, rng.normal(size=400)
    table = uplift_by_decile(y, score, treatment=t, bins=2)
    top = np.argsort(-score)[:200]
    y, t = y[top], t[top]
    assert table.loc[1, "uplift"] == pytest.approx(y[t].mean() - y[~t].mean())
    error = np.sqrt(y[t].var(ddof=1) / t.sum() + y[~t].var(ddof=1) / (~t).sum())
    assert table.loc[1, "standard_error"] == pytest.approx(error)
