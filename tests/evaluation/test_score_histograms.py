import pickle
from functools import reduce
from operator import add

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auucmax.evaluation import ScoreHistogram, auuc_inference, score_edges, score_histogram
from auucmax.rows import Batch, Rows

quick = settings(deadline=None, max_examples=60)


class Batches(Rows):
    """Rows in memory, as a source of batches."""

    names = ("x",)

    def __init__(self, batches):
        self.listed = list(batches)

    def total(self, *summaries):
        copies = [pickle.loads(pickle.dumps(summary)) for summary in summaries]
        return [reduce(add, [copy(batch) for batch in self.listed]) for copy in copies]


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
            ScoreHistogram.of([1, 0], pair, [True, False], edges)


def test_a_frequent_score_among_others_costs_nothing():
    rng = np.random.default_rng(0)
    score = np.where(rng.random(20_000) < 0.5, 0.0, rng.normal(size=20_000))
    edges = score_edges(score, 256)
    histogram = ScoreHistogram.of(rng.random(20_000) < 0.3, score, rng.random(20_000) < 0.5, edges)
    assert histogram.rank_error() < 1 / 256


@pytest.mark.parametrize("keep", [None, odd_keys])
def test_a_source_is_read_twice(keep):
    rng = np.random.default_rng(3)
    n = 3000
    score, treated = rng.normal(size=n).round(2), np.arange(n) > 800  # batches of one arm
    y = (rng.random(n) < 0.3).astype(float)
    source = as_batches(y, score, treated, [0, 1, 700, 700, 1500])
    assert isinstance(source, Rows)
    histogram = score_histogram(source, first_column, keep=keep)
    kept = np.arange(n) % 2 == 1 if keep else np.full(n, True)
    exact = auuc_inference(y[kept], score[kept], treatment=treated[kept])
    found = histogram.inference()
    assert found.bin_error == 0
    assert found.estimate == pytest.approx(exact.estimate, abs=1e-14)
    assert found.gain_interval == pytest.approx(exact.gain_interval, abs=1e-12)
    coarse = score_histogram(source, first_column, keep=keep, n_bins=20)
    assert coarse.n_bins == 20
    assert 0 < coarse.auuc_error() < 0.05
    assert "(bins of scores: +-0.0" in str(coarse.inference())


def test_what_is_refused():
    y, score, treated = np.array([1.0, 0, 1]), np.array([1.0, 2, 3]), np.array([True, True, False])
    with pytest.raises(ValueError, match="both arms, got 3 treated and 0 control"):
        score_histogram(as_batches(y, score, treated | True, [1]), first_column)
    with pytest.raises(ValueError, match="at least one row to evaluate"):
        score_histogram(as_batches(y[:0], score[:0], treated[:0], []), first_column)
    with pytest.raises(ValueError, match="n_bins should be a whole number"):
        score_histogram(as_batches(y, score, treated, [1]), first_column, n_bins=0)
