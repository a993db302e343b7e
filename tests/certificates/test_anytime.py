from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.certificates.reference import anytime_wealth_slow

from auucmax.certificates import anytime, kernels
from auucmax.certificates.anytime import AnytimeBets, superblock_cuts
from auucmax.certificates.blocks import block_floor
from auucmax.metrics import auuc_inference

LEVEL = 0.0125


def drawn(n, seed=0, *, share=0.5, rate=0.2, effect=0.0):
    """Outcomes, scores, arms; the score knows whom treatment helps."""
    rng = np.random.default_rng(seed)
    score = rng.random(n).round(2)
    treated = rng.random(n) < share
    y = (rng.random(n) < rate + effect * treated * score).astype(float)
    return y, score, treated


def played(y, score, treated, cuts=()):
    """Bets on all rows, in one call or several."""
    bets, ends = AnytimeBets.fresh(), [0, *sorted(cuts), len(y)]
    for start, stop in pairwise(ends):
        bets.add(y[start:stop], score[start:stop], treated[start:stop], LEVEL)
    return bets


@pytest.fixture
def small(monkeypatch):
    """Superblocks of few rows, so that few rows close several."""
    monkeypatch.setattr(anytime, "SUPERBLOCK_ROWS", 14)
    monkeypatch.setattr(anytime, "SUPERBLOCK_ARM", 3)
    monkeypatch.setattr(anytime, "REDEALINGS", 3)


@given(data=st.data())
@settings(max_examples=25, deadline=None)
def test_any_number_of_calls_is_one_call(data):
    n = data.draw(st.integers(0, 1500))
    rows = drawn(n, data.draw(st.integers(0, 99)), share=0.4)
    cuts = data.draw(st.lists(st.integers(0, n), max_size=4))
    whole, split = played(*rows), played(*rows, cuts)
    assert whole.known == split.known
    assert (whole.n_superblocks, whole.n_blocks, whole.n_rows) == (
        split.n_superblocks, split.n_blocks, split.n_rows,
    )  # fmt: skip
    for name in ("credit", "staked"):
        own = (getattr(bets.wealth, name) for bets in (whole, split))
        np.testing.assert_array_equal(*own)
    np.testing.assert_allclose(whole.sums, split.sums, rtol=0, atol=1e-9)
    np.testing.assert_array_equal(whole.waiting, split.waiting)


@given(st.lists(st.booleans(), max_size=120))
@settings(deadline=None)
def test_superblocks_close_at_the_first_row_that_is_enough(treated):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(anytime, "SUPERBLOCK_ROWS", 14)
        patch.setattr(anytime, "SUPERBLOCK_ARM", 3)
        cuts, start = [0], 0
        for place in range(len(treated)):
            own = treated[start : place + 1]
            if len(own) >= 14 and 3 <= sum(own) <= len(own) - 3:
                cuts.append(place + 1)
                start = place + 1
        assert superblock_cuts(np.array(treated, bool)).tolist() == cuts


@given(seed=st.integers(0, 999), share=st.sampled_from([0.2, 0.5, 0.8]))
@settings(max_examples=20, deadline=None)
def test_the_wealth_is_that_of_its_slow_twin(seed, share):
    """By the definition: each block, each re-dealing, each size of bet by itself."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(anytime, "SUPERBLOCK_ROWS", 14)
        patch.setattr(anytime, "SUPERBLOCK_ARM", 3)
        patch.setattr(anytime, "REDEALINGS", 1)
        y, score, treated = drawn(80, seed, share=share, effect=0.3)
        bets = played(y, score, treated)
        found = anytime_wealth_slow(y, score, treated, LEVEL)
        thetas = np.random.default_rng(seed).uniform(-0.2, 0.2, size=(2, 2))
        np.testing.assert_allclose(
            bets.wealth.log_wealth(thetas), found(thetas), rtol=1e-9, atol=1e-9
        )


def test_the_limit_is_where_wealth_is_one_over_the_level():
    bets = played(*drawn(3000, effect=0.2))
    limits = bets.wealth.limits(LEVEL) * np.array([1, -1])
    np.testing.assert_allclose(bets.wealth.log_wealth(limits), -np.log(LEVEL), atol=1e-6)
    nothing = AnytimeBets.fresh().wealth.limits(LEVEL)
    np.testing.assert_allclose(nothing, [[-0.25, 0.25], [-1, 1]])


def test_bounds_hold_the_estimate_and_what_all_rows_show():
    y, score, treated = drawn(20_000, effect=0.2)
    bets = played(y, score, treated)
    limits, estimates = bets.wealth.limits(LEVEL), bets.estimates
    assert ((limits[:, 0] < estimates) & (estimates < limits[:, 1])).all()
    gain = auuc_inference(y, score, treatment=treated).gain
    assert estimates[0] == pytest.approx(gain, abs=0.001)
    effect = y[treated].mean() - y[~treated].mean()
    assert estimates[1] == pytest.approx(effect, abs=0.002)
    assert (limits[:, 0] > 0).all()


@pytest.mark.usefixtures("small")
def test_no_statistic_is_below_its_floor():
    """The worst outcomes there are: responders are the treated with low scores, or the others."""
    rng = np.random.default_rng(0)
    for _ in range(50):
        score, treated = rng.random(200), rng.random(200) < 0.5
        for worst in (
            treated == (score < 0.5),
            treated == (score > 0.5),
            ~treated,
            treated,
        ):
            bets = played(worst.astype(float), score, treated)
            assert np.isfinite(bets.wealth.credit).all()


def test_no_block_has_a_lower_floor_than_those_of_a_few_rows():
    for shift in (0.0, 0.03, 0.3, 0.5, 0.9):
        largest = anytime.largest_floor(shift)
        for size in range(anytime.SMALLEST_BLOCK, 50):
            for a in range(1, size):
                assert block_floor(a, size - a, 0.5, (shift, shift)) <= largest + 1e-12
        for a, b in ((1, 200), (200, 1), (3, 150), (200, 200)):
            assert block_floor(a, b, 0.5, (shift, shift)) <= largest


@given(n_treated=st.integers(12, 2000), n_control=st.integers(12, 2000))
@settings(max_examples=100, deadline=None)
def test_no_block_is_smaller_than_the_smallest(n_treated, n_control):
    if n_treated + n_control < anytime.SUPERBLOCK_ROWS:
        n_treated += anytime.SUPERBLOCK_ROWS
    sizes = np.diff(anytime._ends(n_treated, n_control), axis=1, prepend=0)
    assert sizes.min() >= 1
    assert sizes.sum(axis=0).min() >= anytime.SMALLEST_BLOCK


@pytest.mark.usefixtures("small")
def test_units_are_dealt_whole_and_give_one_row_each():
    """Of rows of a unit that are the same, it does not matter which is drawn, nor how many."""
    y, score, treated = drawn(300, effect=0.3)
    copies = np.random.default_rng(0).integers(1, 4, 300)
    first = np.zeros(copies.sum(), bool)
    first[np.cumsum(copies) - copies] = True
    bets, many = played(y, score, treated), AnytimeBets.fresh()
    own = np.repeat(y, copies), np.repeat(score, copies), np.repeat(treated, copies)
    many.add(*own, LEVEL, first)
    assert (many.n_superblocks, many.n_blocks) == (bets.n_superblocks, bets.n_blocks)
    assert many.n_rows > bets.n_rows
    np.testing.assert_allclose(many.wealth.staked[1], bets.wealth.staked[1], rtol=0.2)
    assert many.estimates[1] == pytest.approx(bets.estimates[1], abs=0.02)
    assert many.estimates[0] == pytest.approx(bets.estimates[0], abs=0.01)


@pytest.mark.usefixtures("small")
def test_with_chances_the_wealth_is_that_of_horvitz_and_thompson(monkeypatch):
    """By the definition: one re-dealing, each block of seven by itself."""
    monkeypatch.setattr(anytime, "REDEALINGS", 1)
    y, score, treated = drawn(14 * 4, effect=0.3)
    chance = np.random.default_rng(1).choice([0.2, 0.5, 0.8], len(y))
    bets = AnytimeBets.fresh(least=0.2)
    bets.add(y, score, treated, LEVEL, None, chance)
    assert (bets.n_superblocks, bets.n_blocks, bets.waiting.shape) == (3, 6, (5, 0))
    mu_control, mu_treated = bets.known.means
    m = (1 - chance) * mu_treated + chance * mu_control
    h = (y - m) / np.where(treated, chance, chance - 1)
    ws = []
    for number in range(3):
        state = np.random.SeedSequence([0, number]).generate_state(1, np.uint64)
        rows = np.arange(14 * (number + 1), 14 * (number + 2), dtype=np.int32)
        none = np.empty(0, np.int32)
        kernels.redeal(rows, 0, 14, none, none, state, rows)
        for block in (rows[:7], rows[7:]):
            own = score[block]
            below = (own[:, None] > own).sum(1) + (own[:, None] == own).sum(1) / 2 - 0.5
            ws.append((h[block] * (below / 6 - 0.5)).mean())
    expected = np.log1p(bets.known.bets(LEVEL)[0, 0] * np.array(ws)[:, None]).sum(axis=0)
    np.testing.assert_allclose(bets.wealth.credit[0, 0], expected, atol=1e-12)
    assert bets.estimates[0] == pytest.approx(np.mean(ws))
    assert bets.estimates[1] == pytest.approx(h[14:].mean())
    assert np.min(ws) >= -bets.known.floors[0]
