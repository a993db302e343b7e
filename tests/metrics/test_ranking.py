import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from tests.metrics.reference import rank_rows_slow

from auucmax.metrics.ranking import rank_rows

finite = st.floats(allow_nan=False, allow_infinity=False)
# Few values give ties; neighbouring doubles agree in all their leading bits.
few = st.sampled_from([0.0, -0.0, 1.0, -1.0, 5e-324, -5e-324, 1e300])
near_one = st.integers(-3, 3).map(lambda k: 1.0 + k * 2.0**-52)


def same(a, b):
    assert np.array_equal(a.order, b.order)
    assert (a.starts is None) == (b.starts is None)
    if a.starts is not None:
        assert np.array_equal(a.starts, b.starts)


@settings(deadline=None, max_examples=300)
@given(npst.arrays(np.float64, st.integers(1, 60), elements=st.one_of(finite, few, near_one)))
def test_fast_ranking_equals_stable_argsort(score):
    same(rank_rows(score), rank_rows_slow(score))


@pytest.mark.parametrize(
    "scale", ["wide", "near ties", "few levels", "float32", "levels with rounding noise"]
)
def test_fast_ranking_at_size(scale):
    rng = np.random.default_rng(0)
    score = rng.normal(size=200_000)
    score = {
        "wide": score * 10.0 ** rng.integers(-200, 200, len(score)),
        "near ties": 1 + score * 1e-14,
        "few levels": score.round(1),
        "float32": score.astype(np.float32).astype(np.float64),
        "levels with rounding noise": score.round(2) + rng.integers(-1, 2, len(score)) * 1e-16,
    }[scale]
    same(rank_rows(score), rank_rows_slow(score))


def test_mid_cumsum_counts_half_of_a_level():
    ranking = rank_rows(np.array([2.0, 1.0, 2.0, 3.0]))
    assert ranking.order.tolist() == [1, 0, 2, 3]
    assert ranking.mid_cumsum(np.ones(4)).tolist() == [0.5, 2.0, 2.0, 3.5]
    assert ranking.mid_cumsum(np.array([1.0, 2.0, 4.0, 1.0])).tolist() == [0.5, 4.0, 4.0, 7.5]
    assert ranking.from_top(np.ones(4)).tolist() == [0.0, 1.0, 3.0, 4.0]
