from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.strategies import small_trials

from auucmax.bounds.bernstein import (
    _block_statistics,
    _deal,
    block_bernstein_bound,
    dkw_bernstein_bound,
)
from auucmax.bounds.blocks import block_floor
from auucmax.bounds.setting import held_out_rows

quick = settings(deadline=None, max_examples=100)
CENTRES = {"auuc": 0.0, "gain": 0.5}


@quick
@given(
    small_trials(min_arm=2, outcomes=("binary",)),
    st.sampled_from(["auuc", "gain"]),
    st.integers(1, 9),
)
def test_dkw_bernstein_by_its_formula(rows, target, n_candidates):
    y, score, n = rows.y, rows.score, len(rows.y)
    d = 0.1 / n_candidates
    eps, log_term = np.sqrt(np.log(2 / (0.2 * d)) / (2 * n)), np.log(2 / (0.8 * d))
    below = [np.mean(score < s) + np.mean(score == s) / 2 for s in score]
    z = y * (np.array(below) - CENTRES[target])
    arms = [rows.treated, ~rows.treated]
    gap = eps * sum(y[g].mean() for g in arms)
    gap += np.sqrt(2 * log_term * sum(z[g].var(ddof=1) / g.sum() for g in arms))
    gap += eps * np.sqrt(2 * log_term * sum(np.mean(y[g] ** 2) / (g.sum() - 1) for g in arms))
    gap += 7 * log_term / (3 * (min(g.sum() for g in arms) - 1))
    bound = dkw_bernstein_bound(
        y, score, treatment=rows.treated, target=target, delta=0.1, n_candidates=n_candidates
    )
    assert bound.estimate == pytest.approx(z[arms[0]].mean() - z[arms[1]].mean(), abs=1e-12)
    assert bound.gap == pytest.approx(gap)


@settings(deadline=None, max_examples=40)
@given(small_trials(min_arm=2, max_rows=12), st.integers(0, 10**6))
def test_the_variance_of_two_samples_bounds_itself(rows, number):
    """What the proof uses: W falls by (z_k - mean of the others)^2 / n_g^2 and no further."""
    rng = np.random.default_rng(number)
    z = rng.random(len(rows.y))
    arms = [rows.treated, ~rows.treated]

    def variance(values):
        return sum(values[g].var(ddof=1) / g.sum() for g in arms)

    drops, smallest = [], min(g.sum() for g in arms)
    for k in range(len(z)):
        own = rows.treated == rows.treated[k]
        others = own & (np.arange(len(z)) != k)
        lowest = min(
            variance(np.where(np.arange(len(z)) == k, value, z))
            for value in (z[others].mean(), *np.linspace(0, 1, 5))
        )
        drops.append(variance(z) - lowest)
        assert drops[-1] == pytest.approx((z[k] - z[others].mean()) ** 2 / own.sum() ** 2)
    scaled = smallest**2 * np.array(drops)
    assert scaled.max() <= 1
    limit = smallest / (smallest - 1) * smallest**2 * variance(z)
    assert np.sum(scaled**2) <= limit + 1e-12


@quick
@given(small_trials(min_arm=3, outcomes=("binary",)), st.integers(1, 3), st.integers(0, 10**6))
def test_block_statistics_by_their_definition(rows, n_blocks, seed):
    block = _deal(rows.treated, n_blocks, np.random.default_rng(seed))
    checked, _ = held_out_rows(
        rows.y, rows.score, treatment=rows.treated, control=None, outcome_range=(0, 1)
    )
    w, shapes = _block_statistics(checked, block, 0.5)
    seen = set()
    for k in range(n_blocks):
        y, f, t = (column[block == k] for column in (rows.y, rows.score, rows.treated))
        seen.add((int(t.sum()), int((~t).sum())))
        v = [(np.sum(f < s) + (np.sum(f == s) - 1) / 2) / (len(f) - 1) - 0.5 for s in f]
        expected = np.mean((y * v)[t]) - np.mean((y * v)[~t])
        assert w[k] == pytest.approx(expected, abs=1e-12)
    assert shapes == seen
    sizes = np.array(sorted(seen))
    assert (np.ptp(sizes, axis=0) <= 1).all()


@pytest.mark.parametrize("centre", [0.0, 0.5])
@pytest.mark.parametrize(("a", "b"), [(1, 1), (2, 1), (1, 3), (2, 3)])
def test_no_block_leaves_its_range(a, b, centre):
    """All orders of the rows and all 0/1 outcomes (w is linear in y, and ties are averages)."""
    treated = np.arange(a + b) < a
    values = []
    for order in permutations(range(a + b)):
        v = np.array(order) / (a + b - 1) - centre
        outcomes = np.array(list(product((0, 1), repeat=a + b)))
        values.extend(
            (outcomes * v)[:, treated].mean(axis=1) - (outcomes * v)[:, ~treated].mean(axis=1)
        )
    assert min(values) == pytest.approx(-block_floor(a, b, centre))
    assert max(values) == pytest.approx(block_floor(b, a, centre))


def test_block_bernstein_by_its_formula():
    """40 treated and 20 control rows: six blocks of 6 or 7 and 3 or 4."""
    rng = np.random.default_rng(0)
    t = np.arange(60) < 40
    y, score = (rng.random(60) < 0.4).astype(float), rng.normal(size=60).round(1)
    rows, _ = held_out_rows(y, score, treatment=t, control=None, outcome_range=(0, 1))
    w, shapes = _block_statistics(rows, _deal(t, 6, np.random.default_rng(5)), 0.0)
    assert shapes == {(7, 4), (7, 3), (6, 3)}
    length = max(block_floor(*s, 0.0) for s in shapes)
    length += max(block_floor(*s[::-1], 0.0) for s in shapes)
    log_term = np.log(2 * 3 / 0.05)
    gap = np.sqrt(2 * np.var(w, ddof=1) * log_term / 6) + 7 * length * log_term / 15
    bound = block_bernstein_bound(y, score, treatment=t, n_candidates=3, random_state=5)
    assert bound.estimate == pytest.approx(np.mean(w))
    assert bound.gap == pytest.approx(gap)


def test_dealing_is_repeatable_and_ignores_the_order_of_the_file():
    rng = np.random.default_rng(1)
    t = rng.random(2000) < 0.5
    y, score = (rng.random(2000) < 0.4).astype(float), rng.normal(size=2000)
    lowers = [block_bernstein_bound(y, score, treatment=t).lower for _ in range(2)]
    assert lowers[0] == lowers[1]
    assert block_bernstein_bound(y, score, treatment=t, random_state=7).lower != lowers[0]
    # Sorted by outcome, dealing in file order would make blocks that are alike inside.
    order = np.argsort(y, kind="stable")
    estimates = [
        block_bernstein_bound(y[o], score[o], treatment=t[o], random_state=s).estimate
        for s, o in product(range(20), (slice(None), order))
    ]
    spread = np.std(estimates[::2])
    assert np.mean(estimates[::2]) == pytest.approx(np.mean(estimates[1::2]), abs=spread)


def test_too_few_rows_for_blocks():
    rng = np.random.default_rng(0)
    given = {"treatment": np.arange(19) < 5}
    with pytest.raises(ValueError, match="two blocks of 10, each with both arms; got 5 treated"):
        block_bernstein_bound(np.ones(19), rng.random(19), **given)
    assert block_bernstein_bound(np.ones(19), rng.random(19), block_size=9, **given).gap > 1
    with pytest.raises(ValueError, match="block_size should be a whole number of at least 2"):
        block_bernstein_bound(np.ones(19), rng.random(19), block_size=1, **given)
