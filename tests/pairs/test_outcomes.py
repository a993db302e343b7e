"""Levels of the outcome: how it is cut, what is kept, and that batches change nothing."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from tests.batches_in_memory import ListedRows

from auucmax.pairs import OutcomeLevels, code_rows, losses
from auucmax.rows import ArrayRows


def levels_of(y, treated, weight=None):
    y = np.asarray(y, dtype=float)
    return OutcomeLevels.of(ArrayRows(y[:, None], y, np.asarray(treated), weight))


@st.composite
def amounts(draw, max_rows=400):
    """Outcomes of many values, or few: zeros, losses, ties, an order that is far above all."""
    n = draw(st.integers(30, max_rows))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    y = rng.lognormal(3, draw(st.sampled_from([0.3, 2.0])), n)
    y = np.where(rng.random(n) < draw(st.sampled_from([0.0, 0.3, 0.9])), 0.0, y)
    y *= rng.choice([-1.0, 1.0], n, p=draw(st.sampled_from([(0, 1), (0.2, 0.8), (1, 0)])))
    y = y.round(draw(st.sampled_from([-1, 0, 2])))
    if draw(st.booleans()):
        y[0] = 5e4
    y[1] = y[0] + 1  # two levels at least
    return y, rng.random(n) < draw(st.sampled_from([0.5, 0.1]))


@settings(deadline=None, max_examples=200)
@given(rows=amounts(), min_rows=st.sampled_from([1, 3, 20]), weighted=st.booleans())
def test_levels_are_what_they_say(rows, min_rows, weighted):
    y, treated = rows
    weight = np.arange(len(y)) % 3 + 0.5 if weighted else None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(losses, "MIN_ROWS", min_rows)
        levels = levels_of(y, treated, weight)
    codes, n = levels.codes(y, treated), len(levels.starts)
    assert n <= losses.MAX_LEVELS
    assert codes.dtype == np.int8
    assert ((codes < n) == treated).all()
    level = np.where(treated, n - 1 - codes, codes - n)
    assert (np.diff(level[np.argsort(y, kind="stable")]) >= 0).all()
    if len(np.unique(y)) <= losses.MAX_LEVELS:
        assert levels.exact
        assert levels.share == 1
        np.testing.assert_array_equal(levels.starts[level], y)
        return
    zero = np.unique(level[y == 0])
    assert len(zero) <= 1
    assert (y[np.isin(level, zero)] == 0).all()
    for arm in (treated, ~treated):
        fewest = min(min_rows, max(arm.sum() // 4, 1))
        for side in (y < 0, y > 0):
            counts = np.bincount(level[arm & side])
            assert side.sum() == 0 or counts[counts > 0].min(initial=fewest) >= min(
                fewest, (arm & side).sum()
            )
        # An arm of different outcomes has pairs to rank.
        assert arm.sum() < 8 or len(np.unique(level[arm])) > 1 or len(np.unique(y[arm])) < 4
    check_values(levels, y, treated, codes, np.ones(len(y)) if weight is None else weight)


def check_values(levels, y, treated, codes, w):
    """An arm's total stays, gaps between levels are exact, and what is lost stays in its bound."""
    n = len(levels.starts)
    counted = np.concatenate([levels.values[0, ::-1], levels.values[1]])[codes]
    between, total = 0.0, 0.0
    sums = losses.pair_sums(np.bincount(codes, w, 2 * n), levels.gaps)
    for arm, own in enumerate((treated, ~treated)):
        if not own.any():
            continue
        size = np.abs(y[own] * w[own]).sum()
        assert counted[own] @ w[own] == pytest.approx(y[own] @ w[own], abs=1e-9 * size)
        pair = w[own][:, None] * w[own]
        gaps = np.maximum(y[own][:, None] - y[own], 0) * pair
        apart = gaps[codes[own][:, None] != codes[own]].sum()
        assert sums[arm] == pytest.approx(apart, rel=1e-9, abs=1e-9)
        between += apart / w[own].sum() ** 2
        total += gaps.sum() / w[own].sum() ** 2
    assert levels.share <= between / total + 1e-9


def test_zeros_and_ones_are_the_classes_of_the_paper():
    y, treated = np.array([1, 0, 1, 0, 1]), np.array([True, True, False, False, False])
    levels = levels_of(y, treated)
    assert levels.binary
    assert pickle.loads(pickle.dumps(levels)).binary
    np.testing.assert_array_equal(levels.codes(y, treated), code_rows(y, treatment=treated))
    np.testing.assert_array_equal(np.argwhere(levels.gaps), [[0, 1], [2, 3]])
    assert levels.gaps.max() == 1
    assert not levels_of(2 * y, treated).binary


@settings(deadline=None, max_examples=60)
@given(
    rows=amounts(),
    edges=st.lists(st.integers(0, 400), max_size=4),
    size=st.sampled_from([25, 2**15]),
)
def test_levels_do_not_depend_on_batches(rows, edges, size):
    y, treated = rows
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(losses, "SAMPLE_ROWS", size)
        whole = levels_of(y, treated)
        source = ListedRows(y[:, None], y, treated, [min(edge, len(y)) for edge in edges])
        found = OutcomeLevels.of(source)
    np.testing.assert_array_equal(found.starts, whole.starts)
    np.testing.assert_allclose(found.values, whole.values, rtol=1e-12, atol=1e-12)
    assert found.share == pytest.approx(whole.share, rel=1e-9)
    assert found.middle == whole.middle
    assert source.n_readings <= 3


@given(npst.arrays(np.int64, 12, elements=st.integers(0, 5)), npst.arrays(np.bool_, 12))
def test_the_middle_makes_the_smallest_heap_large(y, treated):
    y[:2] = 0, 5
    levels = levels_of(y, treated)
    counts = np.bincount(levels.codes(y, treated), minlength=levels.n_classes)

    def heaps(cut):
        high = y >= cut
        sides = (treated & high, treated & ~high, ~treated & high, ~treated & ~high)
        return [int(side.sum()) for side in sides]

    assert levels.high_counts(counts).tolist() == heaps(levels.cut_point)
    assert min(heaps(levels.cut_point)) == max(min(heaps(cut)) for cut in levels.starts[1:])
