import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import t as student_t
from tests.strategies import binned_trials, small_trials

from auucmax.evaluation import (
    BinnedLevels,
    auuc_inference,
    auuc_score,
    score_edges,
    uplift_curve,
)

pytestmark = pytest.mark.filterwarnings("ignore:score should tell rows apart")
quick = settings(deadline=None, max_examples=60)
RANKINGS = ["joint", "separate"]
FIELDS = ["estimate", "standard_error", "gain", "gain_standard_error"]


@quick
@given(binned_trials(), st.sampled_from(RANKINGS))
def test_everything_is_that_of_the_bin_numbers(case, ranking):
    rows, edges, number = case
    histogram = BinnedLevels.of(rows.y, rows.score, rows.treated, edges)
    assert (
        histogram.sums[..., 0].sum(axis=0).tolist()
        == np.bincount(number, minlength=len(edges) + 1).tolist()
    )
    # 1e-12 of the size of the outcomes
    close = {"rel": 1e-11, "abs": 1e-12 * max(1.0, np.abs(rows.y).max()), "nan_ok": True}
    expected = auuc_score(rows.y, number, treatment=rows.treated, ranking=ranking)
    assert histogram.auuc(ranking) == pytest.approx(expected, **close)
    exact = auuc_inference(rows.y, number, treatment=rows.treated, ranking=ranking)
    found = histogram.inference(ranking=ranking)
    for field in FIELDS:
        assert getattr(found, field) == pytest.approx(getattr(exact, field), **close), field
    assert found.n_rows == exact.n_rows
    if histogram.rank_error() == 0:
        assert found.interval == pytest.approx(exact.interval, **close)
        assert found.gain_interval == pytest.approx(exact.gain_interval, **close)
    share, uplift = histogram.curve()
    knots = uplift_curve(rows.y, number, treatment=rows.treated)
    np.testing.assert_allclose(share, knots[0], atol=1e-12)
    np.testing.assert_allclose(uplift, knots[1], atol=close["abs"])


@quick
@given(binned_trials(), st.sampled_from(RANKINGS))
def test_the_exact_scores_are_within_the_error(case, ranking):
    rows, edges, _ = case
    histogram = BinnedLevels.of(rows.y, rows.score, rows.treated, edges)
    tiny = 1e-9 * max(1.0, np.abs(rows.y).max())
    exact = auuc_inference(rows.y, rows.score, treatment=rows.treated, ranking=ranking)
    found = histogram.inference(ranking=ranking)
    assert found.bin_error == histogram.auuc_error(ranking)
    assert abs(found.estimate - exact.estimate) <= found.bin_error + tiny
    assert abs(found.gain - exact.gain) <= found.bin_error + tiny
    for wide, narrow in (
        (found.interval, exact.interval),
        (found.gain_interval, exact.gain_interval),
    ):
        assert not wide[0] > narrow[0] + tiny  # not a number where an arm has a single row
        assert not wide[1] < narrow[1] - tiny
    if exact.gain_standard_error > tiny:  # else the p value of rounding errors
        assert found.p_value >= exact.p_value - 1e-6
    share, uplift = uplift_curve(rows.y, rows.score, treatment=rows.treated)
    on_lines = np.interp(share, *histogram.curve())
    assert np.abs(on_lines - uplift).max() <= histogram.curve_error() + tiny
    shares = np.array([np.mean(rows.score < s) + np.mean(rows.score == s) / 2 for s in rows.score])
    number = (rows.score[:, None] > edges).sum(axis=1)
    moved = np.abs(histogram.below()[0][number] - shares).max()
    assert moved <= histogram.rank_error() + 1e-12


@quick
@given(small_trials(), st.sampled_from(RANKINGS), st.sampled_from([2000, None]))
def test_bins_between_all_scores_cost_nothing(rows, ranking, n_bins):
    edges = score_edges(rows.score, n_bins or len(np.unique(rows.score)))
    histogram = BinnedLevels.of(rows.y, rows.score, rows.treated, edges)
    assert histogram.auuc_error(ranking) == histogram.rank_error() == histogram.curve_error() == 0
    exact = auuc_inference(rows.y, rows.score, treatment=rows.treated, ranking=ranking)
    found = histogram.inference(ranking=ranking)
    close = {"rel": 1e-11, "abs": 1e-12 * max(1.0, np.abs(rows.y).max()), "nan_ok": True}
    for field in FIELDS:
        assert getattr(found, field) == pytest.approx(getattr(exact, field), **close), field
    assert found.interval == pytest.approx(exact.interval, **close)
    assert str(found).endswith("rows")


@pytest.mark.parametrize("ranking", RANKINGS)
def test_intervals_are_widened_by_their_formula(ranking):
    rng = np.random.default_rng(2)
    y, score, treated = rng.normal(size=40), rng.integers(0, 12, 40), np.arange(40) < 25
    edges = np.array([1.5, 2.5, 6.5])
    number = np.searchsorted(edges, score)
    squares = {True: 0.0, False: 0.0}
    for i in range(40):
        ranked = treated == treated[i] if ranking == "separate" else np.full(40, True)
        mates = ranked & (number == number[i])
        if len(set(score[number == number[i]])) > 1:
            term = np.abs(y[i]) * (mates.sum() - 1) / np.sum(treated == treated[i])
            term += sum(np.abs(y[j]) / np.sum(treated == treated[j]) for j in np.flatnonzero(mates))
            squares[bool(treated[i])] += (term / (2 * ranked.sum())) ** 2
    more = np.sqrt(squares[True] * 25 / 24 + squares[False] * 15 / 14)
    found = BinnedLevels.of(y, score, treated, edges).inference(level=0.9, ranking=ranking)
    half = student_t(14).ppf(0.95) * (found.standard_error + more) + found.bin_error
    assert found.interval == pytest.approx((found.estimate - half, found.estimate + half))


@pytest.mark.parametrize("ranking", RANKINGS)
def test_the_error_of_binary_outcomes_is_reached(ranking):
    """Treated responders on top of the bin, control responders at its bottom."""
    treated = np.arange(12) % 2 == 0
    y = np.isin(np.arange(12), (8, 10) if ranking == "separate" else (8, 10, 1, 3)).astype(float)
    histogram = BinnedLevels.of(y, np.arange(12), treated, [])
    score = np.where(treated, y, -y)
    exact = auuc_score(y, score + 0.01 * np.arange(12), treatment=treated, ranking=ranking)
    assert histogram.auuc_error(ranking) > 0
    assert exact - histogram.auuc(ranking) == pytest.approx(histogram.auuc_error(ranking))


@quick
@given(binned_trials(), st.data())
def test_histograms_add_in_any_grouping(case, data):
    rows, edges, _ = case
    n = len(rows.y)
    whole = BinnedLevels.of(rows.y, rows.score, rows.treated, edges)
    part = np.array(data.draw(st.lists(st.integers(0, 3), min_size=n, max_size=n)))
    parts = [
        BinnedLevels.of(rows.y[m], rows.score[m], rows.treated[m], edges.copy())
        for m in (part == k for k in range(4))
    ]
    first = parts[0] + parts[1] + (parts[2] + parts[3])
    second = parts[3] + (parts[1] + (parts[0] + parts[2]))
    for total in (first, second):
        np.testing.assert_array_equal(total.sums, whole.sums)  # outcomes are eighths
        np.testing.assert_array_equal(total.low, whole.low)
        np.testing.assert_array_equal(total.high, whole.high)
        assert (total.outcome_low, total.outcome_high) == (whole.outcome_low, whole.outcome_high)
    assert whole.binary == np.isin(rows.y, (0, 1)).all()


def test_a_million_rows_cost_far_less_than_their_chance():
    rng = np.random.default_rng(5)
    n = 10**6
    score, treated = rng.normal(size=n), rng.random(n) < 0.5
    y = (rng.random(n) < 0.1 + 0.02 * treated * (score > 0)).astype(float)
    edges = score_edges(score)
    histogram = BinnedLevels.of(y, score, treated, edges)
    found = histogram.inference()
    exact = auuc_inference(y, score, treatment=treated)
    assert histogram.n_bins == 65_536
    assert found.bin_error < found.gain_standard_error / 50
    assert found.interval == pytest.approx(exact.interval, abs=2 * found.bin_error)
    assert abs(found.gain - exact.gain) <= found.bin_error


def test_what_is_refused():
    rows = [1.0, 0.0, 1.0], [1.0, 2.0, 3.0], [True, True, False]
    one, other = (BinnedLevels.of(*rows, [edge]) for edge in (1.5, 2.5))
    with pytest.raises(ValueError, match="same edges, got 2 and 2 bins"):
        one + other
    with pytest.raises(TypeError):
        one + 1
    with pytest.raises(ValueError, match="strictly increasing finite"):
        BinnedLevels.of(*rows, [2.0, 2.0])
    with pytest.raises(ValueError, match="strictly increasing finite"):
        BinnedLevels.of(*rows, [2.0, np.nan])
    with pytest.raises(ValueError, match="score should have no missing values, got 1"):
        BinnedLevels.of(rows[0], [1.0, np.nan, 2.0], rows[2], [1.0])
    with pytest.raises(ValueError, match="ranking should be one of"):
        one.auuc("both")
    alone = BinnedLevels.of([1.0], [1.0], [True], [])
    for method in ("auuc", "auuc_error", "inference", "curve", "curve_error"):
        with pytest.raises(ValueError, match="both arms, got 1 treated and 0 control"):
            getattr(alone, method)()
    with pytest.warns(UserWarning, match="one bin for all"):
        assert BinnedLevels.of(*rows, []).inference().gain == 0
