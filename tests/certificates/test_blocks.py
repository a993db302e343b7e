import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.certificates.reference import block_statistics_slow

from auucmax.certificates import kernels
from auucmax.certificates.blocks import (
    CENTRES,
    BlockDesign,
    DealtUnits,
    block_floor,
    deal,
)


def _blocks(rng, n_blocks, largest=4):
    sizes = rng.integers(1, largest + 1, size=(2, n_blocks))
    return np.cumsum(sizes, axis=1)


@given(seed=st.integers(0, 10_000), n_blocks=st.integers(1, 6), levels=st.integers(1, 20))
@settings(deadline=None, max_examples=60)
def test_kernel_agrees_with_the_definition(seed, n_blocks, levels):
    """With ties, one-row arms, outcomes of either sign, one score or the difference of two."""
    rng = np.random.default_rng(seed)
    ends = _blocks(rng, n_blocks)
    n_treated, n_control = ends[:, -1]
    rows = rng.permutation(n_treated + n_control).astype(np.int32)
    treated, control = rows[:n_treated], rows[n_treated:]
    scores = rng.integers(levels, size=(2, len(rows)))
    residual = np.where(rng.random(len(rows)) < 0.4, 0.0, rng.normal(size=len(rows)))
    shift = rng.choice([0.0, 0.3])
    slow = [
        [
            block_statistics_slow(f.astype(float), residual - shift, centre, treated, control, ends)
            for centre in CENTRES
        ]
        for f in scores
    ]
    for signs in ([1.0], [1.0, -1.0]):
        out = np.empty((2, n_blocks))
        kernels.block_statistics(
            scores[: len(signs)].astype(np.int32),
            np.array(signs),
            residual,
            shift,
            np.empty(0, bool),
            treated,
            control,
            ends,
            0,
            n_blocks,
            out,
        )
        expected = sum(s * np.array(w) for s, w in zip(signs, slow, strict=False))
        np.testing.assert_allclose(out, expected, atol=1e-13)


@given(seed=st.integers(0, 10_000), n_blocks=st.integers(1, 6), width=st.integers(1, 9))
@settings(deadline=None, max_examples=60)
def test_bins_are_ranked_in_the_worst_order(seed, n_blocks, width):
    """No refinement of the bins has a lower statistic; the worst of pairs in a bin is reached."""
    rng = np.random.default_rng(seed)
    ends = _blocks(rng, n_blocks)
    n_treated, n_rows = ends[0, -1], ends[:, -1].sum()
    rows = rng.permutation(n_rows).astype(np.int32)
    treated, control = rows[:n_treated], rows[n_treated:]
    score, shift = rng.integers(20, size=n_rows), 0.2
    bins = (score // width).astype(np.int32)
    residual = rng.integers(2, size=n_rows).astype(float)
    mixed = np.array([len(set(score[bins == k])) > 1 for k in range(20)])

    def exact(scores, centre):
        return block_statistics_slow(scores, residual - shift, centre, treated, control, ends)

    out = np.empty((3, n_blocks))
    kernels.block_statistics(
        bins[None], np.ones(1), residual, shift, mixed, treated, control, ends, 0, n_blocks, out
    )
    for number, centre in enumerate(CENTRES):
        assert (out[number] <= exact(score.astype(float), centre) + 1e-12).all()
        tied = exact(bins.astype(float), centre)
        np.testing.assert_allclose(out[number], tied - out[2], atol=1e-12)
    if width == 1:
        assert not out[2].any()
    # Six rows in three bins of two: each bin has two orders.
    pairs, one, y = np.repeat(np.arange(3), 2), np.array([[3], [3]]), residual[:6].copy()
    if len(y) == 6:
        out = np.empty((3, 1))
        kernels.block_statistics(
            pairs[None].astype(np.int32), np.ones(1), y, shift, np.ones(3, bool),
            *(np.arange(k, 6, 2, dtype=np.int32) for k in (0, 1)), one, 0, 1, out,
        )  # fmt: skip
        orders = itertools.product((-0.1, 0.1), repeat=3)
        worst = min(
            block_statistics_slow(
                pairs + np.repeat(o, 2) * np.tile([1, -1], 3), y - shift, 0.0,
                np.arange(0, 6, 2), np.arange(1, 6, 2), one,
            )[0]
            for o in orders
        )  # fmt: skip
        assert out[0, 0] == pytest.approx(worst)


@pytest.mark.gate_cases("1-3-0.5", "2-2-0.5")
@pytest.mark.parametrize("adjustment", [(0.0, 0.0), (0.2, 0.6)])
@pytest.mark.parametrize("centre", [0.0, 0.5])
@pytest.mark.parametrize(("a", "b"), [(1, 1), (2, 1), (1, 3), (2, 2)])
def test_floor_is_the_smallest_statistic(a, b, centre, adjustment):
    """Over all orders with ties, and all extreme outcomes and predictions."""
    size, smallest = a + b, np.inf
    ends, rows = np.array([[a], [b]]), np.arange(size)
    extremes = [y - m for y in (0.0, 1.0) for m in set(adjustment)]
    for score in itertools.product(range(size), repeat=size):
        for residual in itertools.product((min(extremes), max(extremes)), repeat=size):
            w = block_statistics_slow(
                np.array(score, float), np.array(residual), centre, rows[:a], rows[a:], ends
            )
            smallest = min(smallest, w[0])
    assert block_floor(a, b, centre, adjustment) == pytest.approx(-smallest)


@given(n_treated=st.integers(1, 3000), n_control=st.integers(1, 3000), pilot=st.booleans())
@settings(deadline=None)
def test_design_uses_every_row_once(n_treated, n_control, pilot):
    design = BlockDesign.of(n_treated, n_control, pilot=pilot)
    assert design.n_pilot == (design.superblocks[0] if pilot else 0)
    most = 200 * min(n_treated, n_control)
    assert tuple(design.ends[:, -1]) == (min(n_treated, most), min(n_control, most))
    sizes = np.diff(design.ends, axis=1, prepend=0)
    assert sizes.min() >= 1
    assert (np.ptp(sizes, axis=1) <= 1).all()
    assert design.superblocks[-1] == design.ends.shape[1]
    assert (np.diff(design.superblocks) > 0).all()
    assert design.n_redealings >= 8


def test_dealing_keeps_arms_and_superblocks_and_is_uniform():
    units = np.arange(6, dtype=np.int32)
    state, counts = np.array([1], dtype=np.uint64), np.zeros((6, 6))
    starts, rows = np.arange(7, dtype=np.int32), np.empty(6, np.int32)
    for _ in range(20_000):
        dealt = units.copy()
        kernels.redeal(dealt, 2, 6, starts, units, state, rows)
        counts[np.arange(2, 6), rows[2:]] += 1
        assert list(dealt[:2]) == [0, 1]
    inner = counts[2:, 2:]
    assert inner.sum() == 80_000
    assert np.abs(inner - 5000).max() < 5 * np.sqrt(5000)  # 5 standard errors


def test_a_member_stands_for_its_cluster():
    treated = np.array([True, True, False, False, False])
    units = DealtUnits.of(treated, np.array([0, 0, 1, 1, 2]))
    assert list(units.treated) == [0]
    assert list(units.control) == [1, 2]
    state, rows, drawn = np.array([3], dtype=np.uint64), np.empty(2, np.int32), set()
    for _ in range(50):
        kernels.redeal(units.control.copy(), 0, 2, units.starts, units.members, state, rows)
        assert sorted(rows)[1] == 4  # the one row of its cluster
        drawn.add(int(min(rows)))
    assert drawn == {2, 3}
    with pytest.raises(ValueError, match="1 clusters with both"):
        DealtUnits.of(treated, np.array([0, 0, 0, 1, 2]))


@pytest.mark.parametrize("centre", [0.0, 0.5])
@pytest.mark.parametrize("clustered", [False, True])
def test_blocks_are_unbiased(centre, clustered):
    """The mean of w over many samples is the population's value, within 4 standard errors.

    Scores 0, 1, 2 with probabilities 1/2, 1/4, 1/4; P(y = 1) = .2 + .3 score/2 when treated, .3
    otherwise; 80% treated; clusters of 1 to 3 rows that share their score.
    """
    rng = np.random.default_rng(7)
    share, rate = np.array([0.5, 0.25, 0.25]), np.array([0.2, 0.35, 0.5])
    mid = np.cumsum(share) - share / 2 - centre
    truth = float(share @ (rate * mid) - share @ (0.3 * mid))
    design, means = None, []
    for trial in range(400):
        sizes = rng.integers(1, 4, size=60) if clustered else np.ones(60, int)
        cluster = np.repeat(np.arange(60), sizes)
        in_arm = np.repeat(np.arange(60) % 5 > 0, sizes)
        score = np.repeat(rng.choice(3, p=share, size=60), sizes)
        chance = np.where(in_arm, rate[score], 0.3)
        y = (rng.random(len(score)) < chance).astype(float)
        units = DealtUnits.of(in_arm, cluster if clustered else None)
        design = design or BlockDesign.of(len(units.treated), len(units.control))
        seed = np.random.SeedSequence([trial, 1])
        ranks = score[None].astype(np.int32)
        w = deal(ranks, np.ones(1), y, 0.3, units, design, seed)[CENTRES.index(centre)]
        means.append(w.mean())
    error = np.std(means, ddof=1) / np.sqrt(len(means))
    assert abs(np.mean(means) - truth) < 4 * error
    assert error < 0.01
