import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.pairs.pair_rows import coded_rows
from tests.pairs.reference import pair_sums

from auucmax.pairs import code_rows, hinge, s_poly
from auucmax.pairs.sorted import sorted_pair_sums


@settings(deadline=None, max_examples=200)
@given(st.integers(1, 5), st.data())
def test_equals_the_written_out_sums(p, data):
    """mu = 1 and scores in quarters: 'is z below mu' has one answer in floating point."""
    s = s_poly(1.0, p)
    rows = data.draw(coded_rows())
    score = np.round(rows.score * 4) / 4
    exact = pair_sums(score, rows.cut, rows.treated, s, rows.weight)
    fast = sorted_pair_sums(score, rows.codes, s, rows.weight, gaps=rows.levels.gaps)
    reach, gap = 1 + np.ptp(score), max(np.ptp(rows.y), 1)
    for got, expected, order in zip(fast, exact, (0, 1, 2), strict=True):
        rounding = 1e-13 * gap * len(score) ** 2 * 4**p * max(reach, 1) ** max(p - order, 0)
        assert got == pytest.approx(expected, rel=1e-10, abs=rounding)


def test_hinge_counts_are_exact():
    rng = np.random.default_rng(0)
    score, y, treated = rng.integers(-20, 20, 400) / 4.0, *rng.integers(0, 2, (2, 400))
    exact = pair_sums(score, y, treated == 1, hinge())
    fast = sorted_pair_sums(score, code_rows(y, treatment=treated), hinge())
    assert (fast.gradient == exact.gradient).all()
    assert fast.losses == pytest.approx(exact.losses, rel=1e-13)


def test_centring_keeps_digits():
    rng = np.random.default_rng(1)
    score, codes = rng.normal(size=300), rng.integers(0, 4, 300).astype(np.int8)
    near, far = (sorted_pair_sums(score + c, codes, s_poly(1.0)) for c in (0.0, 1e6))
    # moving the scores by 1e6 costs the digits of the scores themselves, 1e-10, and no more
    assert far.losses == pytest.approx(near.losses, rel=1e-8)
    assert far.gradient == pytest.approx(near.gradient, abs=1e-8 * np.abs(near.gradient).max())


def test_an_empty_class_has_no_pairs():
    sums = sorted_pair_sums(np.arange(3.0), np.array([0, 0, 2], dtype=np.int8), s_poly())
    assert (sums.losses == 0).all()
    assert (sums.gradient == 0).all()
