from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auucmax.bounds.reference import strata_wealth_slow
from auucmax.bounds.strata import Stratum, _bets, _log_wealth, strata_bounds


def rows(seed, n=600, effects=(0.0, 0.3), chances=(0.2, 0.8), base=0.3):
    rng = np.random.default_rng(seed)
    stratum = rng.integers(0, len(effects), n)
    treated = rng.random(n) < np.take(chances, stratum)
    y = (rng.random(n) < base + np.take(effects, stratum) * treated).astype(float)
    return y, treated, stratum


WEIGHTS = [[0.0, 1.0], [-0.5, 0.5], [1.0, 0.0]]


@settings(deadline=None, max_examples=20)
@given(seed=st.integers(0, 10_000))
def test_wealth_is_that_of_its_definition(seed):
    y, treated, code = rows(seed, n=120)
    rng = np.random.default_rng(seed)
    strata = [Stratum.of(y[code == s], treated[code == s], rng) for s in (0, 1)]
    weights = np.array(WEIGHTS)
    bets = _bets(strata, weights, 0.05)
    own = np.random.SeedSequence(seed)
    fast = _log_wealth(strata, weights, bets, own)
    again = np.random.default_rng(own)
    arms = ([], [])
    for stratum in strata:
        for kept, arm, sizes in zip(arms, stratum[:2], stratum.sizes, strict=True):
            kept.append(np.split(again.permutation(arm), np.cumsum(sizes)[:-1]))
    slow = [strata_wealth_slow(*arms, w, bet) for w, bet in zip(weights, bets, strict=True)]
    assert fast == pytest.approx(slow)


def test_over_all_samples_the_wealth_is_no_larger_than_the_proof_allows():
    """Two strata of two blocks of a pair each: all 2^8 outcomes with their probabilities."""
    rates = np.array([[0.3, 0.6], [0.2, 0.1]])  # control and treated, of each stratum
    weights, bet = np.array([0.7, -0.4]), 1.5
    expected = 0.0
    for outcomes in product((0.0, 1.0), repeat=8):
        y = np.array(outcomes).reshape(2, 2, 2)  # stratum, block, control or treated
        chance = np.where(y == 1, rates[:, None], 1 - rates[:, None]).prod()
        blocks = [[list(y[s, :, [arm]].reshape(2, 1)) for s in (0, 1)] for arm in (1, 0)]
        expected += chance * np.exp(strata_wealth_slow(*blocks, weights, bet))
    theta = weights @ (rates[:, 1] - rates[:, 0])
    exact = np.prod([(1 + bet * w / 2 * d) ** 2 for w, d in zip(weights, (0.3, -0.1), strict=True)])
    assert expected == pytest.approx(exact)
    assert expected <= np.exp(bet * theta)


@settings(deadline=None, max_examples=10)
@given(seed=st.integers(0, 10_000))
def test_neither_the_order_of_rows_nor_the_unit_matters(seed):
    y, treated, code = rows(seed)
    found = strata_bounds(y, treatment=treated, stratum=code, weights=WEIGHTS)
    order = np.random.default_rng(seed).permutation(len(y))
    again = strata_bounds(
        100 * y[order] - 5, treatment=treated[order], stratum=code[order], weights=WEIGHTS,
        outcome_range=(-5, 95),
    )  # fmt: skip
    assert again.lower == pytest.approx(100 * found.lower)
    assert again.upper == pytest.approx(100 * found.upper)
    assert (found.lower < found.upper).all()


def test_weights_turned_round_turn_the_bounds_round():
    y, treated, code = rows(3)
    one, other = (
        strata_bounds(y, treatment=treated, stratum=code, weights=sign * np.array([-0.5, 0.5]))
        for sign in (1, -1)
    )
    assert one.lower == pytest.approx(-other.upper)
    assert one.upper == pytest.approx(-other.lower)


def test_a_stratum_without_an_arm_must_not_count():
    y, treated, code = rows(1)
    treated[code == 0] = False
    options = {"treatment": treated, "stratum": code}
    assert np.isfinite(strata_bounds(y, **options, weights=[0, 1]).lower).all()
    with pytest.raises(ValueError, match=r"got one arm in \[0\]. Give them weight 0"):
        strata_bounds(y, **options, weights=[1, 1])


def test_few_rows_are_never_beyond_what_is_possible():
    y, treated, code = np.array([1.0, 0, 1, 0]), np.array([True, False] * 2), np.zeros(4, int)
    found = strata_bounds(y, treatment=treated, stratum=code, weights=[2.0])
    assert -2 <= found.lower[0] < found.upper[0] <= 2


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"stratum": [0.5] * 4}, "stratum should be whole numbers from 0 to 1"),
        ({"stratum": [0, 1, 2, 0]}, "from 0 to 2. Number the strata so"),
        ({"delta": 2}, "delta should be"),
        ({"y": [0, 1, 2, 1]}, "y should lie in the range"),
        ({"random_state": -1}, "random_state should be"),
    ],
)
def test_bad_input(change, words):
    given = {"y": [0, 1, 0, 1], "treatment": [0, 1, 1, 0], "stratum": [0, 0, 1, 1]}
    given |= {"weights": [1, 1]} | change
    with pytest.raises(ValueError, match=words):
        strata_bounds(given.pop("y"), **given)


@pytest.mark.gate
@pytest.mark.parametrize("base", [0.02, 0.3])
def test_bounds_miss_no_more_often_than_they_may(base):
    weights = np.array(WEIGHTS)
    truth, n_trials = weights @ [0.0, 0.1], 400
    misses = np.zeros((2, len(weights)))
    for seed in range(n_trials):
        y, treated, code = rows(seed, 1_500, (0.0, 0.1), (0.1, 0.9), base)
        found = strata_bounds(
            y, treatment=treated, stratum=code, weights=weights, n_dealings=3, random_state=seed
        )
        misses += [found.lower > truth, found.upper < truth]
    assert (misses / n_trials <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / n_trials)).all()
