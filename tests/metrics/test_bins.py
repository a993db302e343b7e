import pickle
from dataclasses import asdict

import ibis
import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import t as student_t
from tests.strategies import binned_trials, small_trials

from auucmax.metrics import (
    BinnedLevels,
    Levels,
    auuc_inference,
    auuc_score,
    column_levels,
    score_edges,
    score_levels,
    uplift_curve,
)
from auucmax.rows import Batch, Rows

pytestmark = pytest.mark.filterwarnings("ignore:score should tell rows apart")
quick = settings(deadline=None, max_examples=60)
RANKINGS = ["joint", "separate"]
FIELDS = ["estimate", "standard_error", "gain", "gain_standard_error"]


@quick
@given(binned_trials(), st.sampled_from(RANKINGS))
def test_everything_is_that_of_the_bin_numbers(case, ranking):
    rows, edges, number = case
    levels = BinnedLevels.of(rows.y, rows.score, rows.treated, edges)
    assert (
        levels.sums[..., 0].sum(axis=0).tolist()
        == np.bincount(number, minlength=len(edges) + 1).tolist()
    )
    # 1e-12 of the size of the outcomes
    close = {"rel": 1e-11, "abs": 1e-12 * max(1.0, np.abs(rows.y).max()), "nan_ok": True}
    expected = auuc_score(rows.y, number, treatment=rows.treated, ranking=ranking)
    assert levels.auuc(ranking) == pytest.approx(expected, **close)
    exact = auuc_inference(rows.y, number, treatment=rows.treated, ranking=ranking)
    found = levels.inference(ranking=ranking)
    for field in FIELDS:
        assert getattr(found, field) == pytest.approx(getattr(exact, field), **close), field
    assert found.n_rows == exact.n_rows
    if not (levels.low < levels.high).any():
        # Bins of other outcomes than 0/1 do not know how skewed rows are, and decline less.
        if exact.declined is None:
            assert found.interval == pytest.approx(exact.interval, **close)
        if exact.gain_declined is None:
            assert found.gain_interval == pytest.approx(exact.gain_interval, **close)
    share, uplift = levels.curve()
    knots = uplift_curve(rows.y, number, treatment=rows.treated)
    np.testing.assert_allclose(share, knots[0], atol=1e-12)
    np.testing.assert_allclose(uplift, knots[1], atol=close["abs"])


@quick
@given(binned_trials(), st.sampled_from(RANKINGS))
def test_the_exact_scores_are_within_the_error(case, ranking):
    rows, edges, _ = case
    levels = BinnedLevels.of(rows.y, rows.score, rows.treated, edges)
    tiny = 1e-9 * max(1.0, np.abs(rows.y).max())
    exact = auuc_inference(rows.y, rows.score, treatment=rows.treated, ranking=ranking)
    found = levels.inference(ranking=ranking)
    assert found.bin_error >= levels.auuc_error(ranking)
    assert abs(found.estimate - exact.estimate) <= levels.auuc_error(ranking) + tiny
    assert abs(found.gain - exact.gain) <= found.bin_error + tiny
    for wide, narrow in (
        (found.interval, exact.interval),
        (found.gain_interval, exact.gain_interval),
    ):
        assert not wide[0] > narrow[0] + tiny  # not a number where an arm has a single row
        assert not wide[1] < narrow[1] - tiny
    if exact.gain_standard_error > tiny:  # else the p value of rounding errors
        assert not found.p_value < exact.p_value - 1e-6


@quick
@given(small_trials(), st.sampled_from(RANKINGS), st.sampled_from([2000, None]))
def test_bins_between_all_scores_cost_nothing(rows, ranking, n_bins):
    edges = score_edges(rows.score, n_bins or len(np.unique(rows.score)))
    levels = BinnedLevels.of(rows.y, rows.score, rows.treated, edges)
    assert levels.auuc_error(ranking) == 0
    exact = auuc_inference(rows.y, rows.score, treatment=rows.treated, ranking=ranking)
    found = levels.inference(ranking=ranking)
    close = {"rel": 1e-11, "abs": 1e-12 * max(1.0, np.abs(rows.y).max()), "nan_ok": True}
    for field in FIELDS:
        assert getattr(found, field) == pytest.approx(getattr(exact, field), **close), field
    if exact.declined is None:
        assert found.interval == pytest.approx(exact.interval, **close)


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
    levels = BinnedLevels.of(y, score, treated, edges)
    found = levels.inference(level=0.9, ranking=ranking)
    half = student_t(14).ppf(0.95) * (found.standard_error + more) + levels.auuc_error(ranking)
    assert found.interval == pytest.approx((found.estimate - half, found.estimate + half))


@pytest.mark.parametrize("ranking", RANKINGS)
def test_the_error_of_binary_outcomes_is_reached(ranking):
    """Treated responders on top of the bin, control responders at its bottom."""
    treated = np.arange(12) % 2 == 0
    y = np.isin(np.arange(12), (8, 10) if ranking == "separate" else (8, 10, 1, 3)).astype(float)
    levels = BinnedLevels.of(y, np.arange(12), treated, [])
    score = np.where(treated, y, -y)
    exact = auuc_score(y, score + 0.01 * np.arange(12), treatment=treated, ranking=ranking)
    assert levels.auuc_error(ranking) > 0
    assert exact - levels.auuc(ranking) == pytest.approx(levels.auuc_error(ranking))


@quick
@given(binned_trials(), st.data())
def test_tables_add_in_any_grouping(case, data):
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


def test_what_is_refused():
    rows = [1.0, 0.0, 1.0], [1.0, 2.0, 3.0], [True, True, False]
    one, other = (BinnedLevels.of(*rows, [edge]) for edge in (1.5, 2.5))
    with pytest.raises(ValueError, match="same edges"):
        one + other
    with pytest.raises(TypeError):
        one + 1
    for edges in ([2.0, 2.0], [2.0, np.nan]):
        with pytest.raises(ValueError, match="strictly increasing finite"):
            BinnedLevels.of(*rows, edges)
    alone = BinnedLevels.of([1.0], [1.0], [True], [])
    for method in ("auuc", "auuc_error", "inference", "curve"):
        with pytest.raises(ValueError, match="both arms"):
            getattr(alone, method)()


class Batches(Rows):
    """Rows in memory, as a source of batches."""

    names = ("x",)

    def __init__(self, batches):
        self.listed = list(batches)

    def batches(self):
        yield from self.listed

    def _total(self, steps, summaries):
        return super()._total(*pickle.loads(pickle.dumps((steps, summaries))))


def first_column(X):
    return X[:, 0]


def odd_keys(batch):
    return batch.take(batch.keys % 2 == 1)


def as_batches(y, score, treated, cuts):
    columns = score[:, None], y, treated, np.arange(len(y), dtype=np.uint64)
    pieces = zip(*(np.split(column, cuts) for column in columns), strict=True)
    return Batches(Batch(*piece) for piece in pieces)


@quick
@given(
    st.lists(st.integers(-20, 20).map(lambda k: k / 3), min_size=1, max_size=60),
    st.integers(1, 50),
)
def test_edges_leave_room_for_every_value(values, n_bins):
    edges = score_edges(values, n_bins)
    assert len(edges) < n_bins
    assert (np.diff(edges) > 0).all()
    distinct, counts = np.unique(values, return_counts=True)
    number = np.searchsorted(edges, distinct)
    if len(distinct) <= n_bins:
        assert len(set(number)) == len(distinct)
    # Nobody shares a bin with a value that is as frequent as two bins.
    alone = counts >= 2 * len(values) / n_bins + 1
    assert all(np.sum(number == b) == 1 for b in number[alone])


def test_edges_of_close_and_of_huge_numbers():
    for pair in ([1.0, np.nextafter(1.0, 2)], [np.nextafter(1.0, 0), 1.0], [-1.7e308, 1.7e308],
                 [-np.finfo(float).max, 0.0], [5e-324, 1e-323]):  # fmt: skip
        for n_bins in (2, 50):
            edges = score_edges(pair, n_bins)
            assert np.searchsorted(edges, pair[0]) < np.searchsorted(edges, pair[1])
            BinnedLevels.of([1, 0], pair, [True, False], edges)


@pytest.mark.parametrize("keep", [None, odd_keys])
def test_a_source_is_read_twice(keep):
    rng = np.random.default_rng(3)
    n = 3000
    score, treated = rng.normal(size=n).round(2), np.arange(n) > 800  # batches of one arm
    y = (rng.random(n) < 0.3).astype(float)
    source = as_batches(y, score, treated, [0, 1, 700, 700, 1500])
    some = source if keep is None else source.part(keep)
    levels = score_levels(some, first_column)
    kept = np.arange(n) % 2 == 1 if keep else np.full(n, True)
    exact = auuc_inference(y[kept], score[kept], treatment=treated[kept])
    found = levels.inference()
    assert found.bin_error == 0
    assert found.estimate == pytest.approx(exact.estimate, abs=1e-14)
    assert found.gain_interval == pytest.approx(exact.gain_interval, abs=1e-12)
    coarse = score_levels(some, first_column, n_bins=20)
    assert coarse.n_bins == 20
    assert 0 < coarse.auuc_error() < 0.05
    assert 0 < coarse.inference().bin_error < 0.05


def test_sources_that_are_refused():
    y, score, treated = np.array([1.0, 0, 1]), np.array([1.0, 2, 3]), np.array([True, True, False])
    with pytest.raises(ValueError, match="both arms, got 3 treated and 0 control"):
        score_levels(as_batches(y, score, treated | True, [1]), first_column)
    with pytest.raises(ValueError, match="at least one row to evaluate"):
        score_levels(as_batches(y[:0], score[:0], treated[:0], []), first_column)
    with pytest.raises(ValueError, match="n_bins should be a whole number"):
        score_levels(as_batches(y, score, treated, [1]), first_column, n_bins=0)


@quick
@given(binned_trials(min_arm=2), st.sampled_from(RANKINGS))
def test_every_question_is_answered_as_for_bin_numbers(case, ranking):
    """Sums of a bin say what its rows say, if all that is known of a row is its bin."""
    rows, edges, number = case
    binned = BinnedLevels.of(rows.y, rows.score, rows.treated, edges)
    exact = Levels.of(rows.y, number, treatment=rows.treated)
    size = max(1.0, np.abs(rows.y).max())
    close = {"rtol": 1e-8, "atol": 1e-10 * size**2}
    share = [0.0, 0.15, 0.5, 0.8, 1.0]
    np.testing.assert_allclose(binned.at_k(share, ranking), exact.at_k(share, ranking), **close)
    np.testing.assert_allclose(binned.qini(), exact.qini(), **close)
    np.testing.assert_allclose(binned.curve(ranking), exact.curve(ranking), **close)
    assert binned.effect() == pytest.approx(exact.effect(), abs=1e-12 * size)
    found, expected = (x.band(share, ranking) for x in (binned, exact))
    np.testing.assert_allclose(found.uplift, expected.uplift, **close)
    np.testing.assert_allclose(found.covariance, expected.covariance, **close)
    found, expected = (x.policy_risk_inference(share) for x in (binned, exact))
    np.testing.assert_allclose(found.estimate, expected.estimate, **close)
    np.testing.assert_allclose(
        found.standard_error**2, expected.standard_error**2, rtol=1e-6, atol=1e-9 * size**2
    )
    if binned.support.shape == exact.support.shape == "binary":
        assert found.declined == expected.declined
        np.testing.assert_allclose(found.interval, expected.interval, rtol=1e-6, atol=1e-6)
    table, other = binned.deciles(4), exact.deciles(4)
    counts = ["rows", "treated", "control"]
    pd.testing.assert_frame_equal(table[counts], other[counts])
    np.testing.assert_allclose(table["uplift"], other["uplift"], **close)
    np.testing.assert_allclose(
        table["standard_error"] ** 2, other["standard_error"] ** 2, rtol=1e-6, atol=1e-9 * size**2
    )


@quick
@given(small_trials(min_arm=2))
def test_the_sign_of_the_scores_is_known_if_zero_is_an_edge(rows):
    binned = BinnedLevels.of(rows.y, rows.score, rows.treated, [0.0])
    exact = Levels.of(rows.y, rows.score, treatment=rows.treated)
    assert binned.policy_risk() == pytest.approx(exact.policy_risk(), abs=1e-9)
    found, expected = binned.policy_risk_inference(), exact.policy_risk_inference()
    assert found.share == pytest.approx(expected.share)
    assert found.standard_error == pytest.approx(
        expected.standard_error, rel=1e-6, abs=1e-6, nan_ok=True
    )
    whole = BinnedLevels.of(rows.y, rows.score, rows.treated, [])
    if rows.score.min() <= 0 < rows.score.max():
        with pytest.raises(ValueError, match="a bin with scores of both signs"):
            whole.policy_risk()


def ibis_table(**columns):
    return ibis.polars.connect({"rows": pl.DataFrame(columns)}).table("rows")


NAMES = {"score": "score", "treatment": "arm", "outcome": "y"}


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 10**6), st.sampled_from([1, 3, 50, 4096]), st.booleans())
def test_levels_of_a_column_are_those_of_its_rows(seed, n_bins, ties):
    rng = np.random.default_rng(seed)
    score, y = rng.normal(size=200), rng.normal(size=200)
    arm = np.arange(200) % 2
    if ties:
        score = score.round(1)
    table = ibis_table(score=score, y=y, arm=arm.astype(bool) if ties else arm)
    found = column_levels(table, **NAMES, n_bins=n_bins)
    same = BinnedLevels.of(y, score, arm == 1, found.edges)
    for name, value in asdict(found).items():
        np.testing.assert_allclose(value, getattr(same, name), rtol=1e-12, err_msg=name)
    assert found.n_bins <= n_bins + 1
    exact = auuc_score(y, score, treatment=arm)
    assert abs(found.auuc() - exact) <= found.auuc_error() + 1e-12


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"y": [1.0, None, 0.0, 1.0]}, "'y' should be without missing values, got 1 of 4"),
        ({"arm": [0, 1, 2, 1]}, r"'arm' should be 0 or 1 in every row, got \[0.0, 1.0, 2.0\]"),
        ({"arm": [1, 1, 1, 1]}, "both arms"),
        ({"y": [1.0, np.inf, 0.0, 1.0]}, "should be finite numbers"),
    ],
)
def test_columns_that_have_no_levels(columns, message):
    given = {"score": [0.1, 0.2, 0.3, 0.4], "y": [1.0, 0.0, 1.0, 0.0], "arm": [0, 1, 0, 1]}
    with pytest.raises(ValueError, match=message):
        column_levels(ibis_table(**given | columns), **NAMES)
    with pytest.raises(ValueError, match="should be a table with the column 'scor'"):
        column_levels(ibis_table(**given), **NAMES | {"score": "scor"})
